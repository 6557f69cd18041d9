"""Two trees timed in turns: processes that stay, asked row by row, so that what slows a turn slows both."""

from __future__ import annotations

import fnmatch
import subprocess
import tempfile
import time
import typing
from pathlib import Path

import numpy as np

from tools.bench.report import duration, markdown
from tools.bench.startup import COUNTING, OURS, USE
from tools.compare import trees

__all__ = ["compared"]

_ASK = """
from tools.compare import rows
rows.answer()
"""
_NAMES = """
from tools.compare import rows
print("\\n".join(name for name, _ in rows.rows()))
"""
#: A first model, from a cache that is empty.
_FIRST = """
import time
import_end = time.process_time()
from fwonline import linear_model, optim, sets
model = linear_model.FWClassifier(sets.L1Ball(radius=1.0), optim.OneSampleFW(), intercept=False, seed=0)
model.learn_one({"a": 1.0, "b": -1.0}, True)
model.predict_proba_one({"a": 1.0})
print(time.process_time() - import_end)
"""


def compared(base: Path, new: Path, patterns: list[str], rounds: int, cold: bool) -> int:
    """Time both trees in turns and print a table; returns 0: whether a ratio is good is for the reader to say."""
    names = [name for name in _names() if not patterns or any(fnmatch.fnmatchcase(name, p) for p in patterns)]
    pair = [_Process(base), _Process(new)]
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    failed: dict[str, str] = {}
    try:
        for turn in range(rounds):
            for name in names:
                if name in failed:
                    continue
                order = (0, 1) if turn % 2 == 0 else (1, 0)
                said: list[typing.Any] = [None, None]
                for which in order:
                    said[which] = pair[which].ask(name)
                errors = [
                    f"{tree}: {one}" for tree, one in zip(("base", "new"), said, strict=True) if isinstance(one, str)
                ]
                if errors:
                    failed[name] = "; ".join(errors)
                else:
                    seconds[name].append((said[0], said[1]))
    finally:
        for process in pair:
            process.end()
    table = []
    for name in names:
        if name in failed:
            table.append((name, "", "", "", failed[name][:60]))
            continue
        times = np.array(seconds[name])
        ratios = times[:, 1] / times[:, 0]
        low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
        before, after = np.median(times, axis=0)
        table.append((name, duration(before), duration(after), f"{middle:.3f}", f"{low:.3f} to {high:.3f}"))
    print(markdown(("row", "base", "new", "new / base", "middle half of the turns"), table))
    print(f"processor time of a unit, medians of {rounds} rounds in turns; one thread")
    if cold:
        _cold(base, new)
    return 0


class _Process:
    """A process of a tree that times the rows it is asked for."""

    def __init__(self, tree: Path) -> None:
        self._process = trees.start(tree, _ASK, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, name: str) -> float | str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline().strip()
        try:
            return float(said)
        except ValueError:
            return said or "the process ended"

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def _names() -> list[str]:
    process = trees.start(trees.HERE, _NAMES, stdout=subprocess.PIPE, text=True)
    said, _ = process.communicate()
    return said.split("\n")[:-1]


def _cold(base: Path, new: Path) -> None:
    """Compile a first model from nothing, and count what a second process compiles, in both trees."""
    lines = []
    counting = COUNTING.format(imports=OURS, use=USE.strip())
    found: dict[str, list[float]] = {"base": [], "new": []}
    for turn in range(2):
        for which, tree in (("base", base), ("new", new))[:: 1 if turn == 0 else -1]:
            with tempfile.TemporaryDirectory() as cache:
                found[which].append(float(_output(tree, _FIRST, Path(cache))))
    for which, tree in (("base", base), ("new", new)):
        with tempfile.TemporaryDirectory() as cache:
            start = time.perf_counter()
            _output(tree, counting, Path(cache))
            whole = time.perf_counter() - start
            again = _output(tree, counting, Path(cache)).split()
        lines.append((which, duration(min(found[which])), duration(whole), again[0], again[1]))
    columns = (
        "tree",
        "first model",
        "five optimizers, four sets (wall)",
        "compiled at import again",
        "compiled again in all",
    )
    print(markdown(columns, lines))
    print("from an empty cache; first model: processor time of import, learn_one and predict_proba_one, least of 2")


def _output(tree: Path, code: str, cache: Path) -> str:
    process = trees.start(tree, code, cache=cache, stdout=subprocess.PIPE, text=True)
    said, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"a process of {tree} failed")
    return said
