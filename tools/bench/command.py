"""The command ``fwonline run`` on a definition, in a process of its own, and any other that is timed so."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import typing
from pathlib import Path

if typing.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Spent", "definition", "run", "spent"]

_ROOT = Path(__file__).resolve().parents[2]


class Spent(typing.NamedTuple):
    """Seconds of a process from its start to its end: by the clock, and of all its threads."""

    wall: float
    cpu: float


def spent(words: Sequence[str], environment: Mapping[str, str] | None = None) -> Spent:
    """Run a command and return what it took.

    Raises RuntimeError with what the command said last where it fails.
    """
    start = time.perf_counter()
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=_ROOT, env=environment
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words[:6])} ...: {said[-500:]}")
    return Spent(time.perf_counter() - start, used.ru_utime + used.ru_stime)


def definition(path: Path, source: str, model: str, monitors: str) -> Path:
    """Write a definition with each of its parts as TOML; return `path`."""
    path.write_text(
        f"source = {source}\nmodel = {model}\nmonitors = {monitors}\nrun = {{ seed = 1 }}\n", encoding="utf-8"
    )
    return path


def run(path: Path) -> Spent:
    """Run the definition at `path` anew, with its lines of progress, its log and its checkpoints."""
    output = path.with_suffix("")
    return spent([sys.executable, "-m", "fwonline", "run", str(path), "--output", str(output), "--fresh"])
