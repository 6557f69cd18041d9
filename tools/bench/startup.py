"""Import time beyond river's own, what a second process still compiles, and what a run of few rows takes."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
import time
import typing
from pathlib import Path

import numpy as np

from tools.bench import command
from tools.bench.clock import interleaved
from tools.bench.report import Comparison, Settings, Table, duration

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["run"]

PYTHON = "pass"
RIVER = "from river import base, compose, linear_model, metrics, optim, preprocessing, stream, utils"
OURS = "from fwonline import linear_model, loop, monitors, optim, sets, stream"
WANTED = 1.0
# Runs of `fwonline run` on 300 rows, and the processor's seconds that each may take.
ROWS = 300
RUNS = {
    "StandardScaler, Accuracy": (["StandardScaler"], '["Accuracy", "Gap"]', 1.6),
    "Accuracy": ([], '["Accuracy", "Gap"]', 1.6),
    "no metric of river's": ([], '["Gap"]', 1.0),
}

# Compilations are counted by numba's own events; what comes from the cache on disk raises none.
COUNTING = """
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    {imports}
    print(len(recorder.buffer) // 2)
    {use}
    print(len(recorder.buffer) // 2)
"""
USE = """
    import numpy as np
    X, y = np.eye(8), np.arange(8) % 2
    sfw = optim.SFW(memory=4, batch_size=2, steps_per_sample=2)
    for optimizer in (None, sfw, optim.MomentumFW(), optim.OFW(), optim.ProjectedSGD()):
        for constraint in (sets.L1Ball(1.0), sets.ProbabilitySimplex(), sets.L2Ball(1.0), sets.Box(-1.0, 1.0)):
            model = linear_model.FWClassifier(constraint, optimizer, intercept=False, seed=0)
            for row, label in zip(X.tolist(), y.tolist()):
                model.predict_proba_one(dict(enumerate(row)))
                model.learn_one(dict(enumerate(row)), bool(label))
            model.learn_arrays(X, y == 1)
            model.exact_gap
            model.weights
    optim.SFW(batch_size=2).minimize(X, y, constraint=sets.L1Ball(1.0), steps=10, seed=0)
"""


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """Fresh processes in turns."""
    repeats = 1 if settings.quick else 7
    statements = {"python": PYTHON, "river": RIVER, "river and fwonline": f"{RIVER}\n{OURS}", "fwonline alone": OURS}
    times = interleaved({name: _process(code) for name, code in statements.items()}, repeats)
    both, river = times.median("river and fwonline"), times.median("river")
    yield Comparison(
        "import of fwonline, all of it",
        duration(both),
        "river's own import",
        duration(river),
        f"{both - river:+.2f} s",
        f"< +{WANTED:g} s",
        both - river < WANTED,
    )
    code = COUNTING.format(imports=OURS, use=USE.strip())
    _lines(code)  # the first process fills the cache
    at_import, in_all = map(int, _lines(code))
    for what, count in (("at import", at_import), ("in a second process, all optimizers", in_all)):
        yield Comparison(f"compilations {what}", str(count), "numba's count", "", "", "none", count == 0)
    yield from _runs(repeats)
    yield Table(
        "startup",
        ("process", "median", "least", "most"),
        [
            (name, duration(times.median(name)), duration(float(each.min())), duration(float(each.max())))
            for name, each in times.seconds.items()
        ],
        (f"whole processes, {repeats} in turns; river: {RIVER}; fwonline: {OURS}",),
    )


def _runs(repeats: int) -> Iterator[Comparison]:
    """What `fwonline run` takes on a file of few rows: the processor's seconds of the whole process, in turns."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = np.column_stack([rng.standard_normal((ROWS, 20)), rng.integers(0, 2, ROWS)])
        header = ",".join([*(f"x{i}" for i in range(20)), "y"])
        np.savetxt(folder / "rows.csv", rows, fmt=["%.6f"] * 20 + ["%d"], delimiter=",", header=header, comments="")
        learner = '{ class = "FWClassifier", constraint = { class = "L1Ball", radius = 10.0 } }'
        contenders = {}
        for number, (what, (scalers, monitors, _)) in enumerate(RUNS.items()):
            model = f"[{', '.join([*map(repr, scalers), learner])}]"
            source = '{ class = "CSVSource", path = "rows.csv", target = "y" }'
            path = command.definition(folder / f"{number}.toml", source, model, monitors)
            contenders[what] = functools.partial(_seconds, path)
        times = interleaved(contenders, repeats)
        for what, (*_, at_most) in RUNS.items():
            seconds = times.median(what)
            measure, wanted = f"fwonline run, {ROWS} rows, {what}, processor", f"< {at_most:g} s"
            yield Comparison(measure, duration(seconds), "", "", "", wanted, seconds < at_most)


def _seconds(path: Path) -> float:
    return command.run(path).cpu


def _lines(code: str) -> list[str]:
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=_ROOT)
    return answer.stdout.split()


_ROOT = Path(__file__).resolve().parents[2]


def _process(code: str) -> Callable[[], float]:
    def contend() -> float:
        start = time.perf_counter()
        _lines(code)
        return time.perf_counter() - start

    return contend
