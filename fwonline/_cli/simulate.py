"""``fwonline simulate``: simulated streams, written where other programs can read them."""

from __future__ import annotations

import csv
import itertools
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import msgspec

from fwonline import datasets
from fwonline._cli.files import ending, replacing, tracked
from fwonline.definition import classes
from fwonline.exceptions import DefinitionError

__all__ = ["simulate"]

_FORMATS = (".csv", ".jsonl", ".svm")
Pairs = Iterable[tuple[dict, Any]]


def simulate(name: str, to: str, n: int, seed: int | None, params: Iterable[str]) -> None:
    """Write `n` samples of the simulator called `name`.

    Raises DefinitionError when the simulator, one of its parameters or the target is not known.
    """
    write = _writer(to)
    dataset = _simulator(name, seed, params)
    write(tracked(itertools.islice(dataset, n), name, n))


def _simulator(name: str, seed: int | None, params: Iterable[str]) -> Any:
    known = {key: cls for key in datasets.__all__ if _is_simulator(cls := getattr(datasets, key))}
    if name not in known:
        hint = classes.closest(name, known)
        raise DefinitionError(f"no simulator is called {name!r}.{hint} There are: {', '.join(known)}")
    cls = known[name]
    signature = classes.parameters(cls)
    arguments: dict[str, Any] = {} if seed is None else {"seed": seed}
    for param in params:
        key, equals, text = param.partition("=")
        if not equals:
            raise DefinitionError(f"--param {param}: expected name=value")
        if key not in signature:
            hint = classes.closest(key, signature)
            raise DefinitionError(f"--param {param}: {name} has no {key!r}.{hint} It has: {', '.join(signature)}")
        value = _parsed(text)
        if expected := classes.expected_type(signature[key], value):
            raise DefinitionError(f"--param {param}: expected {expected}, found {value!r}")
        arguments[key] = value
    try:
        return cls(**arguments)
    except ValueError as error:
        raise DefinitionError(f"{name}: {error}") from error


def _is_simulator(cls: Any) -> bool:
    return isinstance(cls, type) and "seed" in classes.parameters(cls)


def _parsed(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _writer(to: str) -> Callable[[Pairs], None]:
    if to.startswith("kafka://"):
        return lambda samples: _to_kafka(to, samples)
    path = Path(to)
    suffix = ending(path)
    if suffix not in _FORMATS:
        raise DefinitionError(
            f"--to {to}: expected a file that ends in {', '.join(_FORMATS)} (and .gz), or kafka://host:port/topic"
        )
    if not path.absolute().parent.is_dir():
        raise DefinitionError(f"--to {to}: there is no folder {str(path.parent)!r}")
    lines = {".csv": _csv_rows, ".jsonl": _json_lines, ".svm": _svm_lines}[suffix]
    return lambda samples: _to_file(path, lines, samples)


def _to_file(path: Path, lines: Callable[[Pairs, IO[str]], None], samples: Pairs) -> None:
    with replacing(path) as file:
        lines(samples, file)


def _records(samples: Pairs) -> Iterator[dict[str, Any]]:
    for x, y in samples:
        record = {str(key): value for key, value in x.items()}
        if y is not None:
            record["y"] = y
        yield record


def _json_lines(samples: Pairs, file: IO[str]) -> None:
    for record in _records(samples):
        file.write(msgspec.json.encode(record).decode() + "\n")


def _csv_rows(samples: Pairs, file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    header: list[str] | None = None
    for record in _records(samples):
        if header is None:
            header = list(record)
            writer.writerow(header)
        if list(record) != header:
            raise DefinitionError("the samples of this stream differ in their features: write .svm or .jsonl")
        writer.writerow(record.values())


def _svm_lines(samples: Pairs, file: IO[str]) -> None:
    for x, y in samples:
        if not all(isinstance(key, int) for key in x):
            raise DefinitionError("an .svm file numbers its features, and this stream names them: use .csv or .jsonl")
        label = {None: "", True: "1", False: "-1"}[y] if y is None or isinstance(y, bool) else repr(y)
        pairs = (f"{key}:{value!r}" for key, value in sorted(x.items()) if value)
        file.write(" ".join(filter(None, (label, *pairs))) + "\n")


def _to_kafka(to: str, samples: Pairs) -> None:
    url = urlsplit(to)
    topic = url.path.strip("/")
    if not url.netloc or not re.fullmatch(r"[\w.-]+", topic):
        raise DefinitionError(f"--to {to}: expected kafka://host:port/topic")
    from fwonline.stream import KafkaSink

    with KafkaSink(topic, url.netloc) as sink:
        for record in _records(samples):
            sink.write(record)
        sink.flush(durable=True)
