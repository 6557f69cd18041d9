"""Parquet files, read by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import Annotated, Any

import msgspec

from fwonline._install import how_to_install
from fwonline.exceptions import SourceError
from fwonline.stream.base import Rejected, Sample, Source
from fwonline.stream.records import RecordLayout

__all__ = ["ParquetSource"]

#: Rows that are decoded at once.
_BATCH = 4096


class _Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    row: Annotated[int, msgspec.Meta(ge=0)]
    #: How many rows the file has in all; None where it was not opened yet.
    n_rows: int | None


class ParquetSource(Source):
    """The rows of a `Parquet <https://parquet.apache.org>`_ file; needs pyarrow: ``pip install 'fwonline[parquet]'``.

    A row group is decoded some thousand rows at a time, so that memory follows the width of the table, not its length.
    The position is the number of rows read; a resumed run passes over whole row groups without decoding them.

    Parameters
    ----------
    path
        The file.
    target, key, time, features, drop, require_target
        As for `JSONLinesSource`, by column. A column that is dropped is not read.
    name
        The file's name in messages; by default its path.

    Raises
    ------
    SourceError
        When pyarrow is not installed; while reading, when the file is missing, no Parquet file, lacks a column that was
        named here, or has another number of rows than the one that the position sought was taken from.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str | None = None,
        *,
        key: str | None = None,
        time: str | None = None,
        features: Collection[str] | None = None,
        drop: Collection[str] = (),
        require_target: bool = True,
        name: str | None = None,
    ) -> None:
        self.path = path
        self.name = os.fspath(path) if name is None else name
        self.layout = RecordLayout(
            target, key=key, time=time, features=features, drop=drop, require_target=require_target
        )
        self._row = 0
        self._n_rows: int | None = None
        self._items: Iterator[Sample | Rejected] | None = None

    def __iter__(self) -> Iterator[Sample | Rejected]:
        if self._items is None:
            self._items = self._read()
        return self._items

    def _read(self) -> Iterator[Sample | Rejected]:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError:
            raise SourceError(f"{self.name}: reading Parquet needs pyarrow: {how_to_install('parquet')}") from None
        try:
            with parquet.ParquetFile(self.path) as file:
                yield from self._samples(file)
        except (OSError, ArrowException) as error:
            raise SourceError(f"{self.name}: expected a Parquet file: {_reason(error)}") from error

    def _samples(self, file: Any) -> Iterator[Sample | Rejected]:
        names = file.schema_arrow.names
        expected, self._n_rows = self._n_rows, file.metadata.num_rows
        for column, role in self.layout.roles.items():
            if column not in names:
                shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
                raise SourceError(f"{self.name}: expected a column {column!r} ({role}), found {shown}")
        if expected not in (None, self._n_rows):
            raise SourceError(
                f"{self.name}: expected {expected:,} rows, as the former run read, found {self._n_rows:,}: this is not "
                "the file it was"
            )
        wanted = [name for name in names if name not in self.layout.drop]
        first = 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            if first + size > self._row:
                start = first
                for batch in file.iter_batches(_BATCH, row_groups=[group], columns=wanted):
                    for record in batch.slice(max(0, self._row - start)).to_pylist():
                        self._row += 1
                        yield self.layout.sample(dict(record), dict(record), f"{self.name}:{self._row}")
                    start += len(batch)
            first += size

    @property
    def position(self) -> dict[str, int | None]:
        return msgspec.to_builtins(_Position(self._row, self._n_rows))

    def seek(self, position: Any) -> None:
        if self._items is not None:
            raise SourceError(f"{self.name}: seek before reading: row {self._row} was already passed")
        try:
            sought = msgspec.convert(position, _Position)
        except msgspec.ValidationError as error:
            raise SourceError(f"{self.name}: expected a position of this source, found {position!r}: {error}") from None
        self._row, self._n_rows = sought.row, sought.n_rows

    @property
    def length(self) -> int | None:
        return self._n_rows

    @property
    def progress(self) -> float | None:
        return self._row / self._n_rows if self._n_rows else None

    def close(self) -> None:
        if self._items is not None:
            self._items.close()  # type: ignore[attr-defined]  # a generator, by _read


def _reason(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text.split("\n")[0]
