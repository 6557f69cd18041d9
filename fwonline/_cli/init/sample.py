"""The first rows of a stream, and the source that reads it: for `fwonline init`."""

from __future__ import annotations

import csv
import gzip
import itertools
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fwonline.definition.hints import READERS
from fwonline.exceptions import DefinitionError
from fwonline.stream import CSVSource, JSONLinesSource, Rejected, SVMLightSource
from fwonline.stream.base import AnySource

__all__ = ["Stream", "first_rows", "is_data"]

_FORMATS = {
    **{"CSVSource": "CSV", "JSONLinesSource": "JSON lines", "SVMLightSource": "svmlight"},
    **{"ParquetSource": "Parquet", "NPZSource": "NumPy"},
}
_HEAD = 1 << 16
_DELIMITERS = (",", ";", "\t", "|")
_SVMLIGHT = re.compile(r"[-+]?[\w.]+(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?$")
_COMMA, _POINT = re.compile(r"\s*[-+]?\d*,\d+\s*"), re.compile(r"\s*[-+]?\d*\.\d+\s*")
# Cells, and rows, that are looked at.
_CELLS, _FEWEST = 1_000_000, 200


@dataclass
class Stream:
    """The first rows of a stream.

    Parameters
    ----------
    name
        What its run is called.
    rows
        Column to value; the target is among them.
    source
        The class of its source, and the parameters that a definition writes, the path apart.
    target
        The column of the target; for svmlight, which names none, `"label"`; the array of a NumPy archive.
    path
        Where the file is; None for a topic.
    n_bad
        How many of the rows looked at cannot be read, and the first of their messages.
    """

    name: str
    rows: list[dict[Any, Any]]
    source: str
    settings: dict[str, Any]
    target: str
    path: Path | None = None
    bad: list[str] = field(default_factory=list)


def is_data(where: str) -> bool:
    """Whether a name is that of data, and of no definition."""
    return where.startswith("kafka://") or Path(where.lower().removesuffix(".gz")).suffix in READERS


def first_rows(where: str, target: str | None, n: int, delimiter: str | None = None) -> Stream:
    """Read the first `n` rows of a file, or messages of a topic (``kafka://host:port/topic``).

    Raises DefinitionError or SourceError naming the place, what was found and what was expected.
    """
    if where.startswith("kafka://"):
        return _of_topic(where, target, n)
    path = Path(where)
    if where == "-":
        raise DefinitionError("-: expected a file: standard input cannot be read twice, once to look and once to learn")
    if path.is_dir():
        raise DefinitionError(f"{path}: expected a file, found a folder")
    head = _head(path)
    found = _format(path, head)
    if found == "svmlight":
        return _of_svmlight(path, n)
    if found == "Parquet":
        return _of_parquet(path, target, n)
    if found == "NumPy":
        return _of_npz(path, target or "y", n)
    settings: dict[str, Any] = {}
    source: AnySource
    if found == "CSV":
        delimiter = delimiter or _delimiter(head, target)
        settings = {"delimiter": delimiter} if delimiter != "," else {}
        source = CSVSource(path, converters="text", delimiter=delimiter)
    else:
        if head.lstrip().startswith("["):
            raise DefinitionError(
                f"{path}:1: expected JSON lines (one object a line), found a JSON array; jq -c '.[]' splits it"
            )
        source = JSONLinesSource(path)
    rows, bad = _taken(source, n)
    _check(rows, bad, str(path), "under the header" if found == "CSV" else "of JSON objects")
    if found == "CSV" and delimiter != "," and _has_commas(rows):
        settings["decimal"] = ","
        rows = [{name: _with_point(text) for name, text in row.items()} for row in rows]
    name = "CSVSource" if found == "CSV" else "JSONLinesSource"
    return Stream(_stem(path), rows, name, settings, _checked(target, rows, path), path, bad)


def _taken(source: AnySource, n: int) -> tuple[list[dict], list[str]]:
    """The first rows of a source that has no target, and the messages of those that cannot be read."""
    rows: list[dict] = []
    bad: list[str] = []
    most = n
    with source:
        for item in itertools.islice(_items(source), 2 * n):
            if isinstance(item, Rejected):
                bad.append(item.error)
            else:
                rows.append(item.x)
                if len(rows) == 1:
                    most = min(n, max(_FEWEST, _CELLS // max(1, len(item.x))))
            if len(rows) >= most:
                break
    return rows, bad


def _items(source: Any) -> Iterator[Any]:
    return (item for item in iter(source) if item is not None)


def _check(rows: list, bad: list[str], where: str, expected: str) -> None:
    if not rows:
        raise DefinitionError(bad[0] if bad else f"{where}: expected rows {expected}, found none")


def _checked(target: str | None, rows: Iterable[dict], where: Any) -> str:
    """The target, if it is a column."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    shown = ", ".join(columns[:12]) + (f", ... ({len(columns)} in all)" if len(columns) > 12 else "")
    if target is None:
        raise DefinitionError(f"{where}: --target is missing: which column is to be predicted? There are: {shown}")
    if target not in columns:
        hint = ""
        if all(re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", name) for name in columns):
            hint = "; the first line holds numbers: give the file a header, or name its columns (header = [...])"
        raise DefinitionError(f"{where}: expected a column {target!r} (--target), found {shown}{hint}")
    return target


def _head(path: Path) -> str:
    """The first characters of a file, unpacked."""
    try:
        with open(path, "rb") as file:
            data = file.read(_HEAD)
        if data.startswith(b"\x1f\x8b"):
            with gzip.open(path) as packed:
                data = packed.read(_HEAD)
    except (OSError, EOFError, zlib.error) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DefinitionError(f"{path}: cannot be read: {what}") from error
    return data.decode("utf-8-sig", errors="replace")


def _format(path: Path, head: str) -> str:
    """The format of a file, by its first bytes where they tell, else by its name."""
    if head.startswith("PAR1"):
        return "Parquet"
    if head.startswith("PK\x03\x04"):
        return "NumPy"
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    if suffixes and suffixes[-1] in READERS:
        return _FORMATS[READERS[suffixes[-1]]]
    lines = [line for line in head.splitlines() if line.strip() and not line.startswith("#")]
    if lines and lines[0].lstrip().startswith(("{", "[")):
        return "JSON lines"
    return "svmlight" if lines and _SVMLIGHT.match(lines[0]) else "CSV"


def _delimiter(head: str, target: str | None) -> str:
    """What parts the fields: the character that makes rows of one length, and has the target among the columns."""
    lines = head.splitlines()[:50]
    if len(head) >= _HEAD and len(lines) > 1:
        lines.pop()
    best, most = ",", (False, 0.0, 0)
    for delimiter in _DELIMITERS:
        try:
            rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:
            continue
        if not rows or len(rows[0]) < 2:
            continue
        even = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
        if (score := (target in rows[0], even, len(rows[0]))) > most:
            best, most = delimiter, score
    return best


def _has_commas(rows: list[dict]) -> bool:
    """Whether numbers are written with a decimal comma: more cells of that form than with a point."""
    cells = [text for row in rows[:_FEWEST] for text in row.values()]
    return sum(map(bool, map(_COMMA.fullmatch, cells))) > sum(map(bool, map(_POINT.fullmatch, cells)))


def _with_point(text: str) -> str:
    return text.replace(",", ".") if _COMMA.fullmatch(text) else text


def _of_svmlight(path: Path, n: int) -> Stream:
    rows: list[dict] = []
    bad: list[str] = []
    with SVMLightSource(path, label="text") as source:
        for item in itertools.islice(_items(source), n):
            if isinstance(item, Rejected):
                bad.append(item.error)
            else:
                rows.append({**item.x, "label": item.y})
    _check(rows, bad, str(path), "of label index:value ...")
    return Stream(_stem(path), rows, "SVMLightSource", {}, "label", path, bad)


def _of_npz(path: Path, target: str, n: int) -> Stream:
    from fwonline.stream.arrays.npz import NPZSource

    rows: list[dict] = []
    with NPZSource(path, target) as source:
        for item in itertools.islice(source, n):
            if not isinstance(item, Rejected):
                rows.append({**item.x, target: item.y})
                if len(rows) * len(item.x) > _CELLS and len(rows) >= _FEWEST:
                    break
    return Stream(_stem(path), rows, "NPZSource", {}, target, path)


def _of_parquet(path: Path, target: str | None, n: int) -> Stream:
    from fwonline.stream.arrays.parquet import ParquetSource

    rows, bad = _taken(ParquetSource(path), n)
    _check(rows, bad, str(path), "in it")
    return Stream(_stem(path), rows, "ParquetSource", {}, _checked(target, rows, path), path, bad)


def _of_topic(where: str, target: str | None, n: int) -> Stream:
    url = urlsplit(where)
    topic = url.path.strip("/")
    if not url.netloc or not re.fullmatch(r"[\w.-]+", topic):
        raise DefinitionError(f"{where}: expected kafka://host:port/topic")
    from fwonline.stream import KafkaSource

    rows, bad = _taken(KafkaSource(topic, url.netloc, end="latest"), n)
    _check(rows, bad, where, "of JSON objects in the topic")
    settings = {"topics": topic, "bootstrap_servers": url.netloc}
    return Stream(_name(topic), rows, "KafkaSource", settings, _checked(target, rows, where), None, bad)


def _stem(path: Path) -> str:
    name = path.name
    for suffix in reversed(path.suffixes):
        if suffix.lower() == ".gz" or suffix.lower() in READERS:
            name = name.removesuffix(suffix)
    return _name(name)


def _name(text: str) -> str:
    """A name that a run's folder can have."""
    return re.sub(r"[^\w .-]", "-", text).lstrip(" .-") or "stream"
