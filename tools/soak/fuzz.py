"""Mutants of good documents are loaded, and what loads is used: no crash, no hang, no error but CheckpointError.

Each mutant is made and tried in a child process, which dies of a bad access and is killed after `HANG` seconds of
computing; the parent notes what it was at and goes on with the next. A mutant is known by `name:seed:number`, from
which it can be made again (`replay`).
"""

from __future__ import annotations

import collections
import contextlib
import os
import random
import resource
import select
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError
from tools.soak.mutants import Document, mutant
from tools.soak.specimens import SPECIMENS, Wrong

__all__ = ["Finding", "attempt", "fuzz", "replay"]

#: Seconds of computing after which a mutant is taken to hang.
HANG = 5.0
#: Seconds of waiting after which it is killed, however little it computed.
STUCK = 60.0
#: Seconds between two lines that say how far it is.
_SILENCE = 60.0
#: Bytes that a mutant may take beyond what the process has.
MEMORY = 2 << 30

_STARTED, _REFUSED, _WORKED, _FAILED = range(4)
_NOTE = struct.Struct("<BQ")


class Finding(NamedTuple):
    """A mutant that is neither refused nor works.

    Parameters
    ----------
    token
        What `replay` takes.
    what
        What it came to: a signal, a hang, or the error and where it was raised.
    changed
        What was changed in the document.
    """

    token: str
    what: str
    changed: str


def _made(name: str, document: Document, seed: int, number: int) -> tuple[bytes, str]:
    return mutant(document, random.Random(f"{name}:{seed}:{number}"))


def document_of(name: str) -> Document:
    """The good document of a specimen."""
    return Document.read(codec.dumps(SPECIMENS[name].make()))


def attempt(name: str, data: bytes) -> str | None:
    """Load a document and use it: answers what is wrong, "" where it works, None where it is refused."""
    try:
        value = codec.loads(data)
    except CheckpointError:
        return None
    except BaseException as error:
        return f"load: {_where(error)}"
    if type(value) is not SPECIMENS[name].kind:
        return None  # whoever asked for another class sees it
    try:
        SPECIMENS[name].use(value)
    except BaseException as error:
        return f"use: {_where(error)}"
    return ""


def _where(error: BaseException) -> str:
    """The error and the innermost place of the library that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/fwonline/" in frame.filename] or list(frames)
    place = f"{'/'.join(Path(own[-1].filename).parts[-2:])}:{own[-1].lineno}" if own else "?"
    text = str(error) if isinstance(error, Wrong) else f"{type(error).__name__} at {place}: {str(error)[:100]}"
    return text.replace("\n", " ")


def replay(token: str, told: Callable[[str], None] = print) -> None:
    """Make a mutant again and try it in this process, its errors shown whole."""
    name, seed, number = token.rsplit(":", 2)
    data, changed = _made(name, document_of(name), int(seed), int(number))
    told(changed)
    try:
        value = codec.loads(data)
    except CheckpointError as error:
        told(f"refused: {error}")
        return
    if type(value) is not SPECIMENS[name].kind:
        told(f"loads as a {type(value).__name__}")
        return
    SPECIMENS[name].use(value)
    told("works")


def fuzz(
    names: Iterable[str],
    seed: int = 1,
    count: int | None = None,
    seconds: float | None = None,
    told: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Try mutants of some specimens.

    Parameters
    ----------
    names
        Of `SPECIMENS`.
    seed
        Of the mutants.
    count
        Mutants of all specimens together; by default as many as the time allows.
    seconds
        How long, what is compiled first apart; by default as long as the count takes.
    told
        Called with a line for each new kind of finding.

    Returns
    -------
    dict
        ``specimens``, ``mutants``, ``refused``, ``worked``, and ``findings``, a list of `Finding`.
    """
    names = list(names)
    ends = None if seconds is None else time.monotonic() + seconds
    documents: dict[str, Document] = {}
    tally: collections.Counter[int] = collections.Counter()
    findings: list[Finding] = []
    kinds: collections.Counter[str] = collections.Counter()
    following = dict.fromkeys(names, 0)
    turn = 0
    spoke = time.monotonic()
    allowance = 0.0 if seconds is None else 2.0 * seconds
    while (count is None or sum(tally.values()) < count) and (ends is None or time.monotonic() < ends):
        name = names[turn % len(names)]
        turn += 1
        if name not in documents:  # compiles what a child would otherwise compile against its clock
            began = time.monotonic()
            documents[name] = document_of(name)
            problem = attempt(name, documents[name].copy().write())
            if problem != "":
                raise RuntimeError(f"the good document of {name} does not work: {problem or 'it is refused'}")
            # A first run compiles, for up to twice as long as it mutates.
            grace = min(allowance, time.monotonic() - began)
            allowance, ends = allowance - grace, None if ends is None else ends + grace
        some = 25 if count is None else min(-(-count // len(names)), count - sum(tally.values()), 1000)
        first = following[name]
        following[name] = first + some
        if told is not None and time.monotonic() - spoke > _SILENCE:
            spoke = time.monotonic()
            told(f"{sum(tally.values()):,} mutants of {len(documents)} specimens, {len(findings)} failed")
        for kind, finding in _tried(name, documents[name], seed, first, some, ends):
            tally[kind] += 1
            if finding is not None:
                findings.append(finding)
                kinds[finding.what] += 1
                if kinds[finding.what] == 1 and told is not None:
                    told(f"{finding.what}\n      {finding.token}  {finding.changed[:200]}")
    return {
        "specimens": len(documents),
        "mutants": sum(tally.values()),
        "refused": tally[_REFUSED],
        "worked": tally[_WORKED],
        "findings": findings,
    }


def _tried(name: str, document: Document, seed: int, first: int, count: int, ends: float | None) -> Any:
    """Try mutants in children, one after another as they die; yields what each came to."""
    number = first
    while number < first + count and (ends is None or time.monotonic() < ends):
        tried = number
        with tempfile.TemporaryFile() as errors:
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(reading)
                _child(name, document, seed, range(number, first + count), writing, errors.fileno())
            os.close(writing)
            with os.fdopen(reading, "rb", buffering=0) as notes:
                at: int | None = None
                for kind, value in _notes(notes, child, ends):
                    if kind == _STARTED:
                        at = value
                        continue
                    at = None
                    number += 1
                    if kind == _FAILED:
                        text = _text(notes, value)
                        yield kind, Finding(f"{name}:{seed}:{number - 1}", *text.split("\n", 1))
                    else:
                        yield kind, None
            status = os.waitpid(child, 0)[1]
            if at is not None and (ends is None or time.monotonic() < ends):
                changed = _made(name, document, seed, at)[1]
                yield _FAILED, Finding(f"{name}:{seed}:{at}", _end_of(status, errors), changed)
                number = at + 1
            elif at is not None:
                return
            elif number == tried and (ends is None or time.monotonic() < ends):
                raise RuntimeError(f"no child could make {name}:{seed}:{number}: {_end_of(status, errors)}")


def _notes(notes: Any, child: int, ends: float | None) -> Any:
    """What the child says, until it ends; it is killed where it says nothing for too long."""
    while True:
        left = STUCK if ends is None else min(STUCK, max(0.0, ends - time.monotonic()) + HANG)
        if not select.select([notes], [], [], left)[0]:
            os.kill(child, signal.SIGKILL)
            return
        data = _exactly(notes, _NOTE.size)
        if len(data) < _NOTE.size:
            return
        yield _NOTE.unpack(data)


def _exactly(notes: Any, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := notes.read(size - len(data))):
        data += more
    return data


def _text(notes: Any, size: int) -> str:
    return _exactly(notes, size).decode("utf-8", "replace")


def _end_of(status: int, errors: Any) -> str:
    """How a child ended."""
    if not os.WIFSIGNALED(status):
        return f"the process ended with {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    if number == signal.SIGPROF:
        what = f"a hang: {HANG:g} s of computing"
    elif number == signal.SIGKILL:
        what = "a hang: it was killed"
    else:
        what = signal.Signals(number).name
    errors.seek(0)
    frames = [line.strip() for line in errors.read().decode("utf-8", "replace").splitlines() if "File " in line]
    own = next((frame for frame in frames if "/fwonline/" in frame), frames[0] if frames else "")
    return f"{what} {own.split('/fwonline/')[-1]}".strip()


def _child(name: str, document: Document, seed: int, numbers: range, writing: int, errors: int) -> None:
    """Try some mutants, saying before and after each what it came to. Does not return."""
    import faulthandler

    with contextlib.suppress(BaseException):
        os.dup2(errors, 2)
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 1)
        faulthandler.enable(all_threads=False)
        # In the middle of a loop that never ends the handler prints where that is, then the signal kills.
        faulthandler.register(signal.SIGPROF, all_threads=False, chain=True)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        warnings.simplefilter("ignore")
        np.seterr(all="ignore")
        for number in numbers:
            data, changed = _made(name, document, seed, number)
            os.write(writing, _NOTE.pack(_STARTED, number))
            signal.setitimer(signal.ITIMER_PROF, HANG)
            problem = attempt(name, data)
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            if problem:
                text = f"{problem}\n{changed}".encode()[:4000]
                os.write(writing, _NOTE.pack(_FAILED, len(text)) + text)
            else:
                os.write(writing, _NOTE.pack(_REFUSED if problem is None else _WORKED, number))
    os._exit(0)


def main(chosen: Any, say: Callable[[str], None]) -> dict[str, Any]:
    """The command: `python -m tools.soak fuzz`."""
    if chosen.replay:
        replay(chosen.replay)
        return {"ok": True}
    # river's own models are as the file says, some without an end: they are tried where they are asked for.
    names = [name for name in SPECIMENS if name.startswith(tuple(chosen.only or ())) or not chosen.only]
    if not chosen.only:
        names = [name for name in names if not name.startswith("river/")]
    if not names:
        raise SystemExit(f"no specimen begins with {chosen.only}; there are {', '.join(SPECIMENS)}")
    if not chosen.mutants and chosen.seconds:  # the specimens take turns: other ones come first in another run
        random.Random(chosen.seed).shuffle(names)
    results = fuzz(names, chosen.seed, chosen.mutants or None, chosen.seconds or None, say)
    findings = results.pop("findings")
    kinds = collections.Counter(finding.what for finding in findings)
    for what, number in kinds.most_common():
        token = next(finding.token for finding in findings if finding.what == what)
        say(f"{number:>6} {what}   --replay {token}")
    return {**results, "failed": len(findings), "kinds": len(kinds), "ok": not findings}


def with_bounds() -> None:
    """Start this command anew with numba's bounds checking, and with a cache that it alone uses."""
    if os.environ.get("NUMBA_BOUNDSCHECK") == "1":
        return
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "fwonline-bounds"
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1"}
    environment.setdefault("NUMBA_CACHE_DIR", str(cache))
    os.execve(sys.executable, [sys.executable, "-m", "tools.soak", *sys.argv[1:]], environment)
