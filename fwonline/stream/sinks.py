"""Sinks: JSON lines, CSV, a function."""

from __future__ import annotations

import csv
import functools
import io
import itertools
import os
import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from fwonline.checkpoint.folders import sync_folder
from fwonline.exceptions import CheckpointError
from fwonline.stream.base import Sink
from fwonline.stream.records import listed

__all__ = ["CSVSink", "CallbackSink", "FileSink", "JSONLinesSink"]

#: Python's writer puts quotes around the characters of its line end alone, and a reader takes either of these for one.
CRLF = "\r\n"
_SPECIAL = re.compile(r'[",\r\n\0]')  # what puts quotes around a cell
#: What an encoder raises for a value.
_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError, msgspec.MsgspecError)


class FileSink(Sink):
    """A sink of lines in a file, which a resumed run continues from its checkpoint.

    The position is a number of bytes. The file is opened at once, so that a path that cannot be written is known before
    the stream starts, but what an older run left in it is removed only by the first `write` or `flush`: a run that ends
    before it begins destroys nothing.

    Parameters
    ----------
    path
        The file to write.
    append
        Whether to keep what the file holds, and write behind it.

    Raises
    ------
    OSError
        When the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], *, append: bool = False) -> None:
        self.path = path
        self.append = append
        self.name = os.fspath(path)
        self._file = open(path, "a+b")  # noqa: SIM115  (held until close)
        self._begun = False
        self._is_durable = False

    @abstractmethod
    def _encode(self, record: dict[str, Any]) -> bytes:
        """Return the record's line, with its end, and before the first one the header, if any."""

    def _begin(self) -> None:
        self._begun = True
        if not self.append:
            self._file.truncate(0)
        if end := self._file.seek(0, os.SEEK_END):
            self._file.seek(end - 1)
            if self._file.read(1) != b"\n":  # a torn line of a killed run must not absorb ours
                self._file.write(b"\n")

    def write(self, record: dict[str, Any]) -> None:
        if not self._begun:
            self._begin()
        self._file.write(self._encode(record))

    def write_many(self, columns: dict[str, Sequence[Any]]) -> None:
        if not self._begun:
            self._begin()
        try:
            self._file.write(self._encode_many(columns))
        except _ERRORS:  # which belong to one record: those before it are written
            super().write_many(columns)

    def _encode_many(self, columns: dict[str, Sequence[Any]]) -> bytes:
        """The lines of many records. What it raises, some record raises by itself, or none does."""
        raise NotImplementedError

    def flush(self, *, durable: bool = False) -> None:
        if not self._begun:
            self._begin()
        self._file.flush()
        if durable:
            if os.fstat(self._file.fileno()).st_nlink == 0:
                raise FileNotFoundError(f"{self.name}: the file was removed while records were written to it")
            os.fsync(self._file.fileno())
            if not self._is_durable:  # the name of a new file is in its folder, which is written apart
                sync_folder(os.path.dirname(os.path.abspath(self.path)))
                self._is_durable = True

    @property
    def position(self) -> int:
        if not self._begun:
            self._begin()
        return self._file.tell()

    def truncate(self, position: Any) -> None:
        if self._begun:
            raise CheckpointError(f"{self.name}: truncate before writing: {self.position} bytes are there already")
        size = self._file.seek(0, os.SEEK_END)
        if type(position) is not int or not 0 <= position <= size:
            raise CheckpointError(
                f"{self.name}: expected a file of at least {position!r} bytes, found {size}: this is not the file that "
                "the checkpoint's run wrote"
            )
        self._begun = True
        self._file.truncate(position)
        self._file.seek(position)

    def close(self) -> None:
        self._file.close()  # which flushes


class JSONLinesSink(FileSink):
    """Writes each record as a JSON object on a line of its own.

    NumPy's numbers and arrays are written as numbers and lists, NaN and infinities as null, which is all JSON has for
    them, bytes in base 64, and what JSON has no form for as its `str`.

    `path` and `append` are those of `FileSink`.

    Examples
    --------
    >>> import os, tempfile
    >>> from fwonline import stream
    >>> path = os.path.join(tempfile.mkdtemp(), "predictions.jsonl")
    >>> with stream.JSONLinesSink(path) as sink:
    ...     sink.write({"n": 1, "y_pred": 0.5})
    ...     checkpoint = sink.position
    ...     sink.write({"n": 2, "y_pred": 0.7})
    >>> with stream.JSONLinesSink(path) as resumed:
    ...     resumed.truncate(checkpoint)
    ...     resumed.write({"n": 2, "y_pred": 0.8})
    >>> print(open(path).read(), end="")
    {"n":1,"y_pred":0.5}
    {"n":2,"y_pred":0.8}
    """

    def __init__(self, path: str | os.PathLike[str], *, append: bool = False) -> None:
        super().__init__(path, append=append)
        encoder = msgspec.json.Encoder(enc_hook=plain)
        self._to_json, self._to_lines = encoder.encode, encoder.encode_lines

    def _encode(self, record: dict[str, Any]) -> bytes:
        return self._to_json(record) + b"\n"

    def _encode_many(self, columns: dict[str, Sequence[Any]]) -> bytes:
        rows = zip(*map(_objects, columns.values()), strict=True)
        return self._to_lines(list(itertools.starmap(_row_type(tuple(columns)), rows)))


class CSVSink(FileSink):
    """Writes each record as a row, below a header.

    A field that a record lacks stays empty, as does None. A record with a field that the header lacks is an error: a
    row could not hold it, and leaving it out would lose it silently.

    Parameters
    ----------
    path, append
        As for `FileSink`.
    fields
        The columns; by default those of the file's header if there is one, else those of the first record.

    Raises
    ------
    ValueError
        On `write`, when a record has a field that is no column.

    Examples
    --------
    >>> import os, tempfile
    >>> from fwonline import stream
    >>> path = os.path.join(tempfile.mkdtemp(), "predictions.csv")
    >>> with stream.CSVSink(path) as sink:
    ...     sink.write({"n": 1, "y_pred": 0.5})
    ...     sink.write({"n": 2})
    >>> print(open(path).read(), end="")
    n,y_pred
    1,0.5
    2,
    """

    def __init__(
        self, path: str | os.PathLike[str], fields: Sequence[str] | None = None, *, append: bool = False
    ) -> None:
        super().__init__(path, append=append)
        self.fields = fields
        self._columns: list[str] = []
        self._text = io.StringIO()
        self._writerow = csv.writer(self._text, lineterminator=CRLF).writerow

    def _encode(self, record: dict[str, Any]) -> bytes:
        header = b""
        if not self._columns:
            self._columns, header = self._begin_table(record)
        if unknown := record.keys() - self._columns:
            raise ValueError(f"{self.name}: the record has {min(unknown)!r}, which is none of {listed(self._columns)}")
        return header + self._line([record.get(column) for column in self._columns])

    def write_many(self, columns: dict[str, Sequence[Any]]) -> None:
        if not self._columns and min(map(len, columns.values()), default=0):  # the first record's fields are the header
            super(FileSink, self).write_many({name: column[:1] for name, column in columns.items()})
            columns = {name: column[1:] for name, column in columns.items()}
        super().write_many(columns)

    def _encode_many(self, columns: dict[str, Sequence[Any]]) -> bytes:
        n = len(next(iter(columns.values())))
        if len(self._columns) == 1 or columns.keys() - self._columns:  # a line that is empty has quotes
            raise ValueError
        empty = [""] * n
        cells = [self._cells(columns[name]) if name in columns else empty for name in self._columns]
        return "".join([",".join(row) + "\n" for row in zip(*cells, strict=True)]).encode()

    @staticmethod
    def _cells(column: Sequence[Any]) -> list[str]:
        """What Python's writer makes of each value; it takes six times as long."""
        values = _objects(column)
        kinds = set(map(type, values))
        if kinds <= {float}:
            return _decimals(values)
        if kinds <= {int, bool}:
            return list(map(str, values))
        if kinds != {str}:
            values = ["" if value is None else str(value) for value in values]
        special = set(_SPECIAL.findall("".join(values)))
        if "\0" in special:  # Pythons differ
            raise ValueError
        if special:
            quote = _SPECIAL.search
            return ['"' + cell.replace('"', '""') + '"' if quote(cell) else cell for cell in values]
        return values

    def _begin_table(self, record: dict[str, Any]) -> tuple[list[str], bytes]:
        columns = list(record if self.fields is None else self.fields)
        if self.position == 0:
            return columns, self._line(columns)
        self._file.flush()
        with open(self.path, encoding="utf-8", newline="") as file:
            there = next(csv.reader(file))
        if self.fields is not None and there != columns:
            raise ValueError(f"{self.name}: expected the header {listed(columns)}, found {listed(there)}")
        return there, b""

    def _line(self, cells: Sequence[Any]) -> bytes:
        self._writerow(cells)
        line = self._text.getvalue().removesuffix(CRLF) + "\n"
        self._text.seek(0)
        self._text.truncate()
        return line.encode()


class CallbackSink(Sink):
    """Hands each record to a function.

    Parameters
    ----------
    function
        Called with the record, a dict of its own.
    name
        The sink's name in messages; by default the function's name.

    Examples
    --------
    >>> from fwonline import stream
    >>> records = []
    >>> sink = stream.CallbackSink(records.append)
    >>> sink.write({"n": 1})
    >>> records
    [{'n': 1}]
    """

    def __init__(self, function: Callable[[dict[str, Any]], Any], name: str | None = None) -> None:
        if not callable(function):
            raise TypeError(f"expected a function of one record, found {type(function).__name__}")
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__) if name is None else name

    def write(self, record: dict[str, Any]) -> None:
        self.function(dict(record))


@functools.lru_cache(maxsize=64)
def _row_type(names: tuple[str, ...]) -> type[msgspec.Struct]:
    """A record of these fields, which are left out where they are None; it is made and encoded sooner than a dict."""
    fields = [(f"_{j}", Any, None) for j in range(len(names))]
    rename = {f"_{j}": name for j, name in enumerate(names)}
    return msgspec.defstruct("Row", fields, rename=rename, omit_defaults=True, gc=False)


def _objects(column: Sequence[Any]) -> list[Any]:
    """A column as what a record holds of it: the types that write alike."""
    if isinstance(column, np.ndarray) and column.dtype in (np.bool_, np.int64, np.float64):
        return column.tolist()
    return list(column)


def _decimals(values: list[float]) -> list[str]:
    """The `repr` of each number: that of JSON, but where Python writes an exponent and JSON none, or another."""
    texts = msgspec.json.encode(values)[1:-1].decode().split(",") if values else []
    sizes = np.abs(values)
    for i in np.flatnonzero(~((sizes >= 1e-4) & (sizes < 1e16) | (sizes == 0.0))).tolist():
        texts[i] = repr(values[i])
    return texts


def plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return value.tolist()
    return str(value)
