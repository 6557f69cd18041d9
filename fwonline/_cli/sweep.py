"""``fwonline run --set KEY=VALUE``: one definition with other values, and many of them at once."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from fwonline._cli import IncompleteError
from fwonline._cli.folder import RunFolder, last_report
from fwonline._cli.view import Output, number
from fwonline.definition import StreamDefinition

__all__ = ["Member", "combinations", "suffix", "sweep"]

_LOOK = 0.2  # seconds between two looks at the processes
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


def combinations(choices: dict[str, list[str]]) -> list[dict[str, str]]:
    """Every choice of one value for each key.

    >>> combinations({"a": ["1", "2"], "b": ["x"]})
    [{'a': '1', 'b': 'x'}, {'a': '2', 'b': 'x'}]
    """
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


def suffix(settings: dict[str, str]) -> str:
    """What tells a folder from that of other values: the last parts of the keys, as far as these differ.

    >>> suffix({"model.1.constraint.radius": "3.0", "run.seed": "1"}), suffix({"a.x": '"b c"', "b.x": "2"})
    ('radius=3.0,seed=1', 'a.x=b_c,b.x=2')
    """
    last = [key.rpartition(".")[2] for key in settings]
    names = last if len(set(last)) == len(last) else list(settings)
    values = (re.sub(r"[^\w.+-]+", "_", value).strip("_") or "empty" for value in settings.values())
    return ",".join(f"{name}={value}"[:60] for name, value in zip(names, values, strict=True))


@dataclass
class Member:
    """One run of a sweep."""

    label: str
    folder: RunFolder
    definition: StreamDefinition
    command: list[str]
    again: bool = False  # even where the same run was made before
    process: subprocess.Popen[str] | None = None
    errors: str = field(default="")

    @property
    def is_done(self) -> bool:
        """Whether the same run was made before."""
        folder = self.folder
        return not self.again and folder.is_run and folder.is_finished and not folder.differences(self.definition)

    def line(self) -> str:
        """How it stands."""
        if self.errors:
            return f"{self.label}: failed: {self.errors}"
        summary = self.folder.read_summary()
        report = last_report(self.folder.log) if not summary else {**summary, **summary.get("monitors", {})}
        metrics = (f"{key} {number(value)}" for key, value in report.items() if key[:1].isupper())
        state = summary.get("state") or ("running" if self.process else "waiting")
        return "  ".join([f"{self.label}: {state}", f"{report.get('n', 0):,} samples", *metrics])


def sweep(name: str, members: list[Member], output: Output | None) -> int:
    """Make all runs, as many at once as there are processors, and show them side by side.

    Returns
    -------
    int
        0, or 130 where Ctrl-C stopped them.

    Raises
    ------
    IncompleteError
        When some have failed: which, and why.
    """
    at_once = min(
        len(members), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    if output is not None:
        output.write(f"{name}: {len(members)} runs, {at_once} at a time; each process compiles what it needs, once")
    stopped = _run_all(members, at_once, output)
    failed = [member for member in members if member.errors]
    done = [member.folder.path for member in members if not member.errors and member.folder.is_run]
    if output is not None and done:
        from fwonline._cli.compare import table

        output.write("\n".join(["", *table(done)]))
        output.write(f"to draw them: {shlex.join(['fwonline', 'report', *map(str, done)])}")
    if failed:
        raise IncompleteError(
            f"{len(failed)} of {len(members)} runs failed\n" + "\n".join(f"{one.label}: {one.errors}" for one in failed)
        )
    return 130 if stopped else 0


def _run_all(members: list[Member], at_once: int, output: Output | None) -> bool:
    """Run the members; return whether Ctrl-C, or whoever closed the output, has stopped them."""
    waiting, stopped = list(members), False
    running: list[Member] = []
    # their own sessions: a Ctrl-C reaches this process alone, which hands it on, once
    environment = {**dict.fromkeys(_THREADS, "1"), **os.environ}
    try:
        while waiting or running:
            try:
                while waiting and len(running) < at_once and not stopped:
                    member = waiting.pop(0)
                    if member.is_done:
                        _tell(output, f"{member.label}: finished before; --fresh runs it again")
                        continue
                    member.process = subprocess.Popen(
                        member.command, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment
                    )
                    running.append(member)
                for member in [one for one in running if one.process and one.process.poll() is not None]:
                    running.remove(member)
                    _end(member)
                    _tell(output, member.line())
                if stopped and not running:
                    break
                time.sleep(_LOOK)
            except KeyboardInterrupt:
                if stopped:
                    raise
                stopped = True
                _tell(output, "SIGINT: stopping")
                _signal(running, signal.SIGINT)
    finally:
        _signal(running, signal.SIGKILL)
    return stopped


def _end(member: Member) -> None:
    assert member.process is not None
    _, errors = member.process.communicate()
    if member.process.returncode not in (0, 130):
        member.errors = errors.strip().removeprefix("fwonline: ") or f"exit code {member.process.returncode}"


def _signal(members: Sequence[Member], number: int) -> None:
    for member in members:
        if member.process is not None:
            with contextlib.suppress(ProcessLookupError):
                member.process.send_signal(number)


def _tell(output: Output | None, line: str) -> None:
    if output is not None:
        output.write(line)
