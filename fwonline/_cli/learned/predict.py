"""``fwonline predict``: what a run's model says of new samples, which it does not learn."""

from __future__ import annotations

import contextlib
import csv
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec
from river import base

from fwonline import stream
from fwonline._cli import FolderError, IncompleteError
from fwonline._cli.files import ending, replacing, tracked
from fwonline._cli.folder import RunFolder
from fwonline._cli.learned.state import load_state
from fwonline._cli.view import number
from fwonline._pipeline import final_estimator
from fwonline.definition import classes, read_definition
from fwonline.definition.hints import READERS
from fwonline.exceptions import DefinitionError, SampleError
from fwonline.loop._calls import FAULTS, calls
from fwonline.monitors import Metric
from fwonline.monitors.metric import gives_probabilities
from fwonline.stream import CSVSource, JSONLinesSource, ParquetSource, Rejected, Sample, Source
from fwonline.stream.records import RecordLayout

__all__ = ["FORMATS", "predict"]

#: The endings of files, with what reads them.
FORMATS: dict[str, type[Source]] = {each: getattr(stream, name) for each, name in READERS.items()}
_MANY = 20  # classes, whose probabilities are not written one by one
_SHOWN = 5  # samples without a prediction that are told of
_ROLES = ("target", "key", "time", "features", "drop")  # what the sources of records share


def predict(run: Path, path: str, to: Path | None = None, like: str | None = None) -> str:
    """Predict the samples of the file at `path`, ``-`` for standard input, with the model of `run`.

    Writes one line a sample, in their order, to `to` or to standard output; the line of a sample that cannot be
    predicted is empty. `like` is the ending of a format, where the name of the file does not tell.

    Returns
    -------
    str
        What is to be told: how many, and how good they are where the file has targets.

    Raises
    ------
    FolderError
        When the run has no model.
    DefinitionError
        When the file's format is not known.
    SourceError
        When the file cannot be read.
    IncompleteError
        Once all is written, when samples could not be predicted: how many, and the first of them.
    """
    state = load_state(run)
    predictor = _Predictor(state["model"], state["monitors"])
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(_source(run, path, like))
        predictions = (predictor.line(item) for item in source if item is not None)
        first = next(predictions, None)  # a file that cannot be read is told of before another one is written
        file: IO[str] = sys.stdout if to is None else stack.enter_context(replacing(to))
        lines = _json_lines if to is not None and FORMATS.get(ending(to)) is JSONLinesSource else _csv_rows
        write = lines(file, predictor.classes, has_key=_keyed(source))
        if first is not None:
            write(first)
        # a terminal on which predictions appear has no place for more
        for line in predictions if file.isatty() else tracked(predictions, "predicting"):
            write(line)
        file.flush()
    if predictor.errors:
        raise IncompleteError(
            f"{len(predictor.errors):,} of {predictor.n:,} samples could not be predicted, and their lines are empty; "
            "the first of them:\n  " + "\n  ".join(predictor.errors[:_SHOWN])
        )
    return "  ".join((f"{predictor.n:,} predictions{f' written to {to}' if to else ''}", *predictor.scores()))


class _Predictor:
    """A model, and how good it is where there are targets."""

    def __init__(self, model: Any, monitors: list[Any]) -> None:
        final = final_estimator(model)
        self.metrics = [monitor.clone() for monitor in monitors if isinstance(monitor, Metric)]
        self.errors: list[str] = []
        self.n = self.n_scored = 0
        self._has_classes = isinstance(final, base.Classifier) and gives_probabilities(final)
        self._ask: Callable[[dict], Any] | None = calls(model, [_Probabilities] * self._has_classes).predict
        if self._ask is None:
            raise FolderError(f"{type(final).__name__} predicts nothing; `fwonline show` tells what it has learned")
        known = [label for label in getattr(final, "classes", ()) if label is not None] if self._has_classes else []
        #: The classes, where they are known and few.
        self.classes = known if len(known) <= _MANY else []

    def line(self, item: Sample | Rejected) -> dict[str, Any]:
        """Return ``key``, ``prediction`` and ``p``, the probabilities of the classes, as far as there are any."""
        self.n += 1
        line: dict[str, Any] = {"key": item.key, "prediction": None, "p": {}}
        if isinstance(item, Rejected):
            self.errors.append(item.error)
            return line
        try:
            y_pred = self._ask(item.x)  # type: ignore[misc]
        except FAULTS as error:
            self.errors.append(f"{item.origin}: {error if isinstance(error, SampleError) else repr(error)}")
            return line
        if item.y is not None:
            self.n_scored += 1
            for metric in self.metrics:
                metric.update(item.y, y_pred)
        if self._has_classes and isinstance(y_pred, dict):
            line["prediction"], line["p"] = max(y_pred, key=y_pred.__getitem__, default=None), y_pred
        else:
            line["prediction"] = y_pred
        return line

    def scores(self) -> Iterator[str]:
        """Yield what the run's metrics are on the samples with a target."""
        if self.n_scored:
            for metric in self.metrics:
                yield from (f"{key} {number(value)}" for key, value in metric.get().items())


class _Probabilities:
    """What asks a classifier for probabilities, as a metric would."""

    requires_labels = False


# Reading


class _Columns(CSVSource):
    """A CSV file that may lack the columns that a prediction does without."""

    def _set_columns(self, names: list[str]) -> None:
        layout = self.layout
        here = {role: column for role in ("target", "key", "time") if (column := getattr(layout, role)) in names}
        drop = [column for column in layout.drop if column in names]
        self.layout = RecordLayout(**here, features=layout.features, drop=drop, require_target=False)
        self._converters = {column: kind for column, kind in self._converters.items() if column in names}
        super()._set_columns(names)


def _source(run: Path, path: str, like: str | None) -> Source:
    """What reads the file at `path` as the run's own source read its data."""
    definition = RunFolder(run).definition
    spec = read_definition(definition).values.get("source", {}) if definition.is_file() else {}
    spec = spec if isinstance(spec, dict) else {"class": spec}
    former = classes.find(str(spec.get("class"))) if spec else None
    cls = FORMATS.get(like or ending(Path(path)))
    if cls is None and path == "-" and former in FORMATS.values():
        cls = former
    if cls is None:
        what = f"{path}: expected a file that ends in" if path != "-" else "standard input: expected --format, one of"
        raise DefinitionError(f"{what} {', '.join(FORMATS)}" + (" (and .gz)" if path != "-" else ""))
    known = classes.parameters(cls).keys() - {"path", "name", "class"}
    same = {key: value for key, value in spec.items() if key in known and (cls is former or key in _ROLES)}
    if cls is CSVSource and (like or ending(Path(path))) in (".tsv", ".tab"):
        same.setdefault("delimiter", "\t")
    if not isinstance(same.get("key", ""), str):  # a Kafka message's own
        del same["key"]
    if cls is ParquetSource:
        _without_missing(path, same)
    made: Any = _Columns if cls is CSVSource else cls
    return made(path, **{**same, "require_target": False})


def _without_missing(path: str, roles: dict[str, Any]) -> None:
    """Take from `roles` the columns that a prediction does without, where a Parquet file lacks them."""
    with contextlib.suppress(Exception):  # the source itself tells what is wrong with the file
        from pyarrow import parquet

        names = parquet.read_schema(path).names
        for role in ("target", "key", "time"):
            if roles.get(role) not in names:
                roles.pop(role, None)
        roles["drop"] = [column for column in roles.get("drop", ()) if column in names]


def _keyed(source: Source) -> bool:
    return getattr(getattr(source, "layout", None), "key", None) is not None


# Writing


def _csv_rows(file: IO[str], labels: list[Any], *, has_key: bool) -> Callable[[dict[str, Any]], None]:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*["key"] * has_key, "prediction", *(f"p({label})" for label in labels)])

    def write(line: dict[str, Any]) -> None:
        shares = [line["p"].get(label) for label in labels]
        writer.writerow([*[line["key"]] * has_key, line["prediction"], *shares])

    return write


def _json_lines(file: IO[str], labels: list[Any], *, has_key: bool) -> Callable[[dict[str, Any]], None]:
    def write(line: dict[str, Any]) -> None:
        record = {**({"key": line["key"]} if has_key else {}), "prediction": line["prediction"]}
        if labels and line["p"]:
            record["p"] = {str(label): line["p"].get(label) for label in labels}
        file.write(msgspec.json.encode(record).decode() + "\n")

    return write
