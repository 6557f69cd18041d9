"""Whole runs of the command over files, first byte to last checkpoint, beside Vowpal Wabbit's text pass."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shutil
import sys
import tempfile
import typing
from pathlib import Path

import numpy as np

from fwonline import linear_model, optim, sets
from tools.bench import command
from tools.bench.clock import interleaved, stopwatch
from tools.bench.report import Comparison, Settings, Table, duration, faster, skipped, within

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from tools.bench.clock import Times

__all__ = ["run"]

# Rows of the files, and of those whose runs tell what starting takes.
ROWS, QUICK, FEW = 300_000, 3_000, 200
COLUMNS = 20
# The shape of rcv1: features, and those of a row that are not 0.
FEATURES, NONZEROS = 47_236, 75
# Rows that are made, and learned from arrays, at a time.
CHUNK, BLOCK = 20_000, 4_096

BALL = 'constraint = { class = "L1Ball", radius = 10.0 }'
LEARNERS = {
    "OneSampleFW": f'{{ class = "FWClassifier", {BALL}, optimizer = {{ class = "OneSampleFW" }} }}',
    "SFW": f'{{ class = "FWClassifier", {BALL}, optimizer = {{ class = "SFW", memory = 1000 }} }}',
    "default": '{ class = "FWClassifier" }',
}
MODELS: dict[str, Callable[[], typing.Any]] = {
    "OneSampleFW": lambda: linear_model.FWClassifier(sets.L1Ball(10.0), optim.OneSampleFW(), seed=1),
    "SFW": lambda: linear_model.FWClassifier(sets.L1Ball(10.0), optim.SFW(memory=1000), seed=1),
    "default": lambda: linear_model.FWClassifier(seed=1),
}
VOWPAL, ARRAYS = "Vowpal Wabbit, its text", "learn_arrays alone"
#: A Python that has `vowpalwabbit`, where it is not this one; a command `vw` comes first.
PYTHON_OF_VOWPAL = "FWONLINE_VOWPAL_PYTHON"
_PASS = "import sys, vowpalwabbit as v; w = v.Workspace(' '.join(sys.argv[1:])); w.run_parser(); w.finish()"


@dataclasses.dataclass(frozen=True)
class Format:
    """How rows are written and read: what the file is called, its source as TOML, what stands before the learner.

    `shape` names the rows: `"dense"` or `"sparse"`. `wanted` is the share of Vowpal Wabbit's rate that each learner is
    to reach, `rate` samples a second, and `arrays` how many times the time of `learn_arrays` alone.
    """

    file: str
    source: str
    shape: str = "dense"
    scaler: str = ""
    wanted: dict[str, float] = dataclasses.field(default_factory=dict)
    rate: dict[str, float] = dataclasses.field(default_factory=dict)
    arrays: float | None = None


FORMATS = {
    "CSV": Format(
        "rows.csv",
        'class = "CSVSource", target = "y"',
        wanted={"OneSampleFW": 1.0, "SFW": 1.0},
        rate={"default": 55_000.0},
    ),
    "CSV, StandardScaler": Format(
        "rows.csv",
        'class = "CSVSource", target = "y"',
        scaler='"StandardScaler", ',
        wanted={"OneSampleFW": 0.8, "SFW": 0.8},
    ),
    "JSON lines": Format(
        "rows.jsonl", 'class = "JSONLinesSource", target = "y"', rate={"OneSampleFW": 250_000.0, "SFW": 250_000.0}
    ),
    ".npz": Format("rows.npz", 'class = "NPZSource"', arrays=1.3),
    "Parquet": Format("rows.parquet", 'class = "ParquetSource", target = "y"', arrays=1.3),
    "svmlight": Format(
        "rows.svm", 'class = "SVMLightSource", label = "bool"', "sparse", wanted={"OneSampleFW": 1.0, "SFW": 1.0}
    ),
}


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """Files of as many rows, and of a few, in a temporary folder; whole processes in turns."""
    n = settings.rows or (QUICK if settings.quick else ROWS)
    repeats = 1 if settings.quick else 5
    with tempfile.TemporaryDirectory() as name:
        folders = {rows: Path(name, str(rows)) for rows in (n, FEW)}
        for rows, folder in folders.items():
            folder.mkdir()
            _write_dense(folder, rows)
            _write_sparse(folder, rows)
        begun: dict[str, list[command.Spent]] = {}
        ended: dict[str, list[command.Spent]] = {}
        contenders: dict[str, Callable[[], float]] = {}

        def add(what: str, passing: Callable[[Path], command.Spent]) -> None:
            begun[what], ended[what] = [], []

            def contend() -> float:
                begun[what].append(passing(folders[FEW]))
                ended[what].append(passing(folders[n]))
                return (ended[what][-1].wall - begun[what][-1].wall) / (n - FEW)

            contenders[what] = contend

        vowpal = _vowpal()
        for shape in ("dense", "sparse") if vowpal else ():
            add(f"{VOWPAL}, {shape}", functools.partial(_vowpal_pass, vowpal, shape))
        for title, form in FORMATS.items():
            if form.file == "rows.parquet" and not (folders[n] / form.file).exists():
                yield skipped(f"{title}, whole run", "pyarrow", "pip install pyarrow")
                continue
            for learner in list(LEARNERS)[: 1 if settings.quick else None]:
                add(f"{title}, {learner}", functools.partial(_pass, form, learner))
        for learner, model in MODELS.items():
            contenders[f"{ARRAYS}, {learner}"] = functools.partial(_arrays_pass, model, folders[n] / "rows.npz")
        times = interleaved(contenders, repeats)
        if not vowpal:
            yield skipped("whole runs", VOWPAL, f"pip install vowpalwabbit, or name a Python by {PYTHON_OF_VOWPAL}")
        yield from _comparisons(times, has_vowpal=bool(vowpal))
        yield _table(times, begun, ended, n)


def _comparisons(times: Times, *, has_vowpal: bool) -> Iterator[Comparison]:
    for title, form in FORMATS.items():
        for learner in LEARNERS:
            if (what := f"{title}, {learner}") not in times.seconds:
                continue
            measure, ours = f"{what}, whole run less its start, a row", times.median(what)
            if ours <= 0:
                yield Comparison(measure, "less than its start varies", "", wanted="more rows")
                continue
            if has_vowpal:
                peer = f"{VOWPAL}, {form.shape}"
                ratio = times.ratio(peer, what)
                yield faster(measure, ours, VOWPAL, times.median(peer), ratio, form.wanted.get(learner))
            if form.arrays is not None:
                alone = f"{ARRAYS}, {learner}"
                yield within(measure, ours, ARRAYS, times.median(alone), times.ratio(what, alone), form.arrays)
            if (rate := form.rate.get(learner)) is not None:
                yield Comparison(
                    measure, f"{1 / ours:,.0f} a second", "", wanted=f">= {rate:,.0f} a second", met=1 / ours >= rate
                )


def _table(times: Times, begun: dict[str, list[command.Spent]], ended: dict[str, list[command.Spent]], n: int) -> Table:
    rows = []
    for what, each in times.seconds.items():
        started = [duration(_median(begun[what], clock)) for clock in (0, 1)] if what in begun else ["", ""]
        wall = float(np.median(each))
        rate = [f"{1 / wall:,.0f}" if wall > 0 else "-", ""]
        if what in begun:
            cpu = (_median(ended[what], 1) - _median(begun[what], 1)) / (n - FEW)
            rate[1] = f"{1 / cpu:,.0f}" if cpu > 0 else "-"
        rows.append((what, *rate, *started))
    return Table(
        "files",
        ("contender", "rows a second", "rows a second of the processor", "start", "start, processor"),
        rows,
        (
            f"{n:,} rows; {COLUMNS} numbers each (dense), or {NONZEROS} of {FEATURES:,} (sparse); start: {FEW} rows",
            "fwonline: Accuracy, lines of progress, log, checkpoints; Vowpal Wabbit: --binary, its progress, a model",
        ),
    )


def _median(spent: list[command.Spent], clock: int) -> float:
    return float(np.median([each[clock] for each in spent[1:] or spent]))  # the first is untimed


def _pass(form: Format, learner: str, folder: Path) -> command.Spent:
    path = folder / f"{form.file}-{learner}-{bool(form.scaler)}.toml"
    source = f'{{ {form.source}, path = "{form.file}" }}'
    return command.run(command.definition(path, source, f"[{form.scaler}{LEARNERS[learner]}]", '["Accuracy"]'))


def _arrays_pass(model: Callable[[], typing.Any], path: Path) -> float:
    with np.load(path) as archive:
        X, y = archive["X"], archive["y"]
    learner = model()
    with stopwatch() as seconds:
        for start in range(0, len(y), BLOCK):
            learner.learn_arrays(X[start : start + BLOCK], y[start : start + BLOCK])
    return seconds() / len(y)


# --- Vowpal Wabbit -----------------------------------------------------------------------------------------------


def _vowpal() -> list[str]:
    """The words that start Vowpal Wabbit; none where there is none."""
    if (program := shutil.which("vw")) is not None:
        return [program]
    python = os.environ.get(PYTHON_OF_VOWPAL, sys.executable)
    with contextlib.suppress(RuntimeError, OSError):
        command.spent([python, "-c", "import vowpalwabbit"])
        return [python, "-c", _PASS]
    return []


def _vowpal_pass(words: list[str], shape: str, folder: Path) -> command.Spent:
    data = ["-d", str(folder / f"{shape}.vw"), "-f", str(folder / f"{shape}.model")]
    return command.spent([*words, "--loss_function", "logistic", "--binary", "-b", "18", *data])


# --- files -------------------------------------------------------------------------------------------------------


def _chunks(n: int) -> Iterator[int]:
    for start in range(0, n, CHUNK):
        yield min(CHUNK, n - start)


def _write_dense(folder: Path, n: int) -> None:
    """The same rows as CSV, JSON lines, a NumPy archive, Parquet where pyarrow is, and in Vowpal Wabbit's format."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(COLUMNS)
    names = [f"x{i}" for i in range(COLUMNS)]
    comma = ",".join(["%.6f"] * COLUMNS) + ",%d\n"
    record = "{" + "".join(f'"{name}": %.6f, ' for name in names) + '"y": %d}\n'
    spaced = "%d | " + " ".join(f"{name}:%.6f" for name in names) + "\n"
    matrices: list[NDArray] = []
    labels: list[NDArray] = []
    with contextlib.ExitStack() as stack:
        csv, jsonl, vw = (
            stack.enter_context((folder / name).open("w", encoding="ascii"))
            for name in ("rows.csv", "rows.jsonl", "dense.vw")
        )
        csv.write(",".join([*names, "y"]) + "\n")
        for size in _chunks(n):
            X = rng.standard_normal((size, COLUMNS)).round(6)
            y = X @ w + 2.0 * rng.standard_normal(size) > 0
            rows = [tuple(row) for row in X.tolist()]
            csv.writelines(comma % (*row, label) for row, label in zip(rows, y.tolist(), strict=True))
            jsonl.writelines(record % (*row, label) for row, label in zip(rows, y.tolist(), strict=True))
            vw.writelines(spaced % (2 * label - 1, *row) for row, label in zip(rows, y.tolist(), strict=True))
            matrices.append(X)
            labels.append(y)
    X, y = np.concatenate(matrices), np.concatenate(labels)
    np.savez(folder / "rows.npz", X=X, y=y)
    with contextlib.suppress(ImportError):
        import pyarrow as pa
        from pyarrow import parquet

        table = pa.table({**{name: X[:, i] for i, name in enumerate(names)}, "y": y})
        parquet.write_table(table, folder / "rows.parquet", row_group_size=100_000)


def _write_sparse(folder: Path, n: int) -> None:
    """Rows like those of rcv1, frequent features first, of length 1: as svmlight and in Vowpal Wabbit's format."""
    rng = np.random.default_rng(1)
    w = rng.standard_normal(FEATURES)
    entries = " ".join(["%d:%.6f"] * NONZEROS)
    with (
        (folder / "rows.svm").open("w", encoding="ascii") as svm,
        (folder / "sparse.vw").open("w", encoding="ascii") as vw,
    ):
        for size in _chunks(n):
            # Distinct and rising columns, denser among the first.
            steps = rng.exponential(1.0, (size, NONZEROS)).cumsum(axis=1)
            places = (steps / (steps[:, -1:] + 1.0)) ** 3 * (FEATURES - NONZEROS)
            columns = places.astype(np.int64) + np.arange(NONZEROS)
            values = rng.uniform(0.2, 1.0, (size, NONZEROS))
            values /= np.linalg.norm(values, axis=1, keepdims=True)
            labels = np.where((w[columns] * values).sum(axis=1) + 0.5 * rng.standard_normal(size) > 0, 1, -1)
            pairs = np.empty((size, 2 * NONZEROS))
            pairs[:, ::2], pairs[:, 1::2] = columns, values
            for label, pair in zip(labels.tolist(), pairs.tolist(), strict=True):
                text = entries % tuple(pair)
                svm.write(f"{label:+d} {text}\n")
                vw.write(f"{label} | {text}\n")
