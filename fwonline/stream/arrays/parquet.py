"""Parquet files, read by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fwonline._install import how_to_install
from fwonline.exceptions import SourceError
from fwonline.stream.arrays.table import VALUES, Rows, TableSource
from fwonline.stream.base import Rejected, Sample
from fwonline.stream.block import Block
from fwonline.stream.records import RecordLayout

__all__ = ["ParquetSource"]

#: Rows of which samples are made at once; bytes of a column that are read at once.
_SAMPLES, _BUFFER = 256, 1 << 16


class ParquetSource(TableSource):
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

    Notes
    -----
    Rows come in blocks where every feature is an integer, a float or a boolean and none of them is null; the target may
    be text, too, and a time is seconds.
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
        super().__init__(path, name)
        self.layout = RecordLayout(
            target, key=key, time=time, features=features, drop=drop, require_target=require_target
        )

    def _read(self) -> Iterator[Rows]:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError:
            raise SourceError(f"{self.name}: reading Parquet needs pyarrow: {how_to_install('parquet')}") from None
        try:
            # a buffer for each column, or pyarrow would hold whole row groups, which may be the whole file
            with parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=_BUFFER) as file:
                yield from self._batches(file)
        except (OSError, ArrowException) as error:
            raise SourceError(f"{self.name}: expected a Parquet file: {_reason(error)}") from error

    def _batches(self, file: Any) -> Iterator[Rows]:
        names = file.schema_arrow.names
        for column, role in self.layout.roles.items():
            if column not in names:
                shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
                raise SourceError(f"{self.name}: expected a column {column!r} ({role}), found {shown}")
        self._expect(file.metadata.num_rows)
        wanted = [name for name in names if name not in self.layout.drop]
        columns = _Columns(self.layout, wanted)
        size = max(256, min(VALUES // max(1, len(wanted)), 1 << 16))
        first = 0
        for group in range(file.num_row_groups):
            n = file.metadata.row_group(group).num_rows
            if first + n > self._row:
                start = first
                for batch in file.iter_batches(size, row_groups=[group], columns=wanted):
                    yield _Batch(self.name, start, batch, columns)
                    start += len(batch)
            first += n


class _Columns:
    """Which columns of a batch are features, and whether blocks can be made of them at all."""

    def __init__(self, layout: RecordLayout, names: list[str]) -> None:
        self.layout = layout
        roles = (layout.target, layout.key, layout.time)
        self.features = [name for name in names if name not in roles]
        # of columns of one name a sample has the last
        self.are_plain = (
            layout.target is not None
            and bool(self.features)
            and len(set(names)) == len(names)
            and (layout.features is None or layout.features.issuperset(self.features))
        )


class _Batch(Rows):
    def __init__(self, name: str, first: int, batch: Any, columns: _Columns) -> None:
        self._batch, self._columns = batch, columns
        self._made: tuple[int, list[dict]] = (0, [])  # records made at once, and the row of the first
        n = len(batch)
        is_alone = self._load(n)
        super().__init__(name, first, n, np.arange(n) if is_alone is None else np.flatnonzero(is_alone))

    def _load(self, n: int) -> NDArray[np.bool_] | None:
        """Fill the arrays of blocks; return which rows can be in none, None if no row can be in one."""
        columns, batch, layout = self._columns, self._batch, self._columns.layout
        if not columns.are_plain:
            return None
        is_alone = np.zeros(n, bool)
        target = batch.column(layout.target)
        if not (_is_number(target.type) or _is_text(target.type)):
            return None
        y = _values(target, is_alone)
        self._y = y.astype({"f": np.float64, "i": np.int64}.get(y.dtype.kind, y.dtype), copy=False)
        self._times = self._keys = None
        if layout.time is not None:
            times = batch.column(layout.time)
            if not _is_number(times.type) or times.type == "bool":
                return None
            self._times = _values(times, is_alone).astype(np.float64)
            is_alone |= ~np.isfinite(self._times)
        if layout.key is not None:
            keys = batch.column(layout.key)
            if not (_is_number(keys.type) or _is_text(keys.type)):
                return None
            self._keys = keys.to_pylist()
        features = [batch.column(name) for name in columns.features]
        if not all(_is_number(column.type) for column in features):
            return None
        self._X = np.empty((n, len(features)))
        for j, column in enumerate(features):
            self._X[:, j] = _values(column, is_alone)
        return is_alone

    def item(self, row: int) -> Sample | Rejected:
        start, records = self._made
        if not 0 <= row - start < len(records):
            start = row
            records = self._batch.slice(row, _SAMPLES).to_pylist()
            self._made = start, records
        record = records[row - start]
        return self._columns.layout.sample(dict(record), dict(record), self.origin(row))

    def block(self, start: int, stop: int) -> Block:
        return Block(
            self._X[start:stop],
            self._y[start:stop],
            self.origins(start),
            self._columns.features,
            None if self._keys is None else self._keys[start:stop],
            None if self._times is None else self._times[start:stop],
        )


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return types.is_integer(kind) or types.is_boolean(kind) or types.is_float32(kind) or types.is_float64(kind)


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return types.is_string(kind) or types.is_large_string(kind)


def _values(column: Any, is_alone: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the values of a column, anything for its nulls, which it notes."""
    if column.null_count:
        is_alone |= column.is_null().to_numpy(zero_copy_only=False)
        column = column.fill_null("" if _is_text(column.type) else column.type.to_pandas_dtype()(0))
    return column.to_numpy(zero_copy_only=False)


def _reason(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text.split("\n")[0]
