"""What monitors and sinks take for blocks of samples, beside what they take for one sample after another."""

from __future__ import annotations

import tempfile
import typing
from pathlib import Path

import numpy as np
from river import metrics, utils

from fwonline import stream
from fwonline.monitors import Drift, Metric, Throughput
from tools.bench.clock import interleaved, stopwatch
from tools.bench.report import Comparison, Settings, Table, faster

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["run"]

BLOCK = 4096
ONE = "sample by sample"
# Labels of classifiers, and the numbers of regressions.
LABELS: dict[str, Callable[[], typing.Any]] = {
    "Accuracy": lambda: Metric(metrics.Accuracy()),
    "F1": lambda: Metric(metrics.F1()),
    "MacroF1": lambda: Metric(metrics.MacroF1()),
    "Accuracy of the last 1,000": lambda: Metric(utils.Rolling(metrics.Accuracy, 1000)),
    "Throughput": Throughput,
}
NUMBERS: dict[str, Callable[[], typing.Any]] = {
    "MAE": lambda: Metric(metrics.MAE()),
    "RMSE": lambda: Metric(metrics.RMSE()),
    "R2": lambda: Metric(metrics.R2()),
    "Drift": Drift,
}
# At least so many times as fast.
WANTED = {"Drift": 2.0, "Accuracy of the last 1,000": 4.0}
SINKS: dict[str, type[stream.FileSink]] = {"JSONLinesSink": stream.JSONLinesSink, "CSVSink": stream.CSVSink}


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """Every monitor in both ways, then every sink."""
    repeats, n_blocks = (2, 1) if settings.quick else (9, 4)
    rng = np.random.default_rng(0)
    labels = tuple(rng.random((2, BLOCK)) < 0.4)
    numbers = tuple(rng.normal(size=(2, BLOCK)))
    for name, make in (LABELS | NUMBERS).items():
        y, predicted = labels if name in LABELS else numbers
        contenders = {"block": _together(make, y, predicted, n_blocks), ONE: _singly(make, y, predicted)}
        yield _compared(f"monitors, {name}", contenders, repeats, WANTED.get(name, 10.0))
    y, predicted = (values.tolist() for values in numbers)
    columns = {"n": range(BLOCK), "y": y, "y_pred": predicted, "origin": [f"clicks.csv:{i}" for i in range(BLOCK)]}
    with tempfile.TemporaryDirectory() as folder:
        for name, sink in SINKS.items():
            contenders = {
                "block": _written(sink, Path(folder) / "block", columns, n_blocks),
                ONE: _written_singly(sink, Path(folder) / "one", columns),
            }
            yield _compared(f"sinks, {name}, n, y, y_pred and origin", contenders, repeats, 3.0)
    yield Table(
        "monitors: setting",
        ("rows of a block", "blocks", "repeats"),
        [(BLOCK, n_blocks, repeats)],
        ("update_many of arrays beside update of Python's values, write_many of lists beside write of dicts",),
    )


def _compared(measure: str, contenders: dict[str, Callable[[], float]], repeats: int, at_least: float) -> Comparison:
    times = interleaved(contenders, repeats)
    return faster(measure, times.median("block"), ONE, times.median(ONE), times.ratio(ONE, "block"), at_least)


def _together(make: Callable[[], typing.Any], y: typing.Any, predicted: typing.Any, n: int) -> Callable[[], float]:
    def contend() -> float:
        monitor = make()
        monitor.update_many(y[:1], predicted[:1])
        with stopwatch() as seconds:
            for _ in range(n):
                monitor.update_many(y, predicted)
        return seconds() / (n * BLOCK)

    return contend


def _singly(make: Callable[[], typing.Any], y: typing.Any, predicted: typing.Any) -> Callable[[], float]:
    pairs = list(zip(y.tolist(), predicted.tolist(), strict=True))

    def contend() -> float:
        update = make().update
        with stopwatch() as seconds:
            for true, guess in pairs:
                update(true, guess)
        return seconds() / BLOCK

    return contend


def _written(kind: type[stream.FileSink], path: Path, columns: dict[str, typing.Any], n: int) -> Callable[[], float]:
    def contend() -> float:
        with kind(path) as sink, stopwatch() as seconds:
            for _ in range(n):
                sink.write_many(columns)
            sink.flush()
        return seconds() / (n * BLOCK)

    return contend


def _written_singly(kind: type[stream.FileSink], path: Path, columns: dict[str, typing.Any]) -> Callable[[], float]:
    def contend() -> float:
        with kind(path) as sink, stopwatch() as seconds:
            for row in zip(*columns.values(), strict=True):
                sink.write(dict(zip(columns, row, strict=True)))
            sink.flush()
        return seconds() / BLOCK

    return contend
