"""Runs every case in the tree whose `fwonline` is imported, and writes what they leave behind."""

from __future__ import annotations

import contextlib
import fnmatch
import io
import time
import typing
import warnings
from pathlib import Path

import numpy as np

from tools.compare import ground, linear, matrices, offline, runs

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tools.compare.record import Record

__all__ = ["REFUSED", "all_cases", "run"]

#: The field of a case that raised, with the error's class and message.
REFUSED = "error"


def all_cases() -> Iterator[tuple[str, Callable[[], Record]]]:
    """Every case of every family."""
    for family in (ground, offline, linear, matrices, runs):
        yield from family.cases()


def run(out: Path, patterns: list[str]) -> None:
    """Run the cases that match a pattern, all where there is none, and write ``case|field`` to an array each."""
    found: dict[str, np.ndarray] = {}
    start = last = time.perf_counter()
    for done, (name, case) in enumerate(all_cases()):
        if patterns and not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            continue
        for field, value in _outcome(case).items():
            if f"{name}|{field}" in found:
                raise ValueError(f"two cases are called {name}")
            found[f"{name}|{field}"] = value
        if time.perf_counter() - last > 20.0:
            last = time.perf_counter()
            print(f"{last - start:.0f} s: {done} cases, at {name}", flush=True)
    np.savez(out, **{key.replace("/", "\x1f"): value for key, value in found.items()})


def _outcome(case: Callable[[], Record]) -> dict[str, np.ndarray]:
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return case()
    except Exception as error:
        return {REFUSED: np.array(f"{type(error).__name__}: {error}"[:300])}
