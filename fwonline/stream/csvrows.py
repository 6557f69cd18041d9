"""Rows of numbers in delimited text, many at once: to the same values and types as `CSVSource` reads one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fwonline.stream._kernels.rows import AUTO, BOOLEAN, INTEGER, NUMBER, SKIPPED, TEXT, Found, read_rows
from fwonline.stream.ahead import Origins, Parsed
from fwonline.stream.base import Sample
from fwonline.stream.block import Block
from fwonline.stream.records import KINDS, RecordLayout

__all__ = ["CODES", "DelimitedRows", "targets"]

#: What a converter makes of a field, for the compiled reader.
CODES = {KINDS["auto"]: AUTO, KINDS["number"]: NUMBER, KINDS["int"]: INTEGER, KINDS["bool"]: BOOLEAN}


#: Stands for a byte that is never there.
_NO_BYTE = 256


class DelimitedRows:
    """Reads text as rows of numbers.

    Parameters
    ----------
    names
        The columns.
    converters
        What reads each, as `CSVSource` has them for numbers with a decimal point.
    layout
        Their roles.
    dialect
        Delimiter, quote, decimal point.
    missing
        Texts that mean a missing value.
    texts
        The columns whose fields Python reads, and how: keys, times, labels.
    """

    def __init__(
        self,
        names: Sequence[str],
        converters: Sequence[Callable[[str], Any]],
        layout: RecordLayout,
        dialect: str,
        missing: Collection[str],
        texts: Mapping[str, Callable[[str], Any]],
    ) -> None:
        self._layout, self._missing = layout, missing
        self._names = [name for name in names if layout.roles.get(name, "features") == "features"]
        columns = np.zeros((len(names), 2), np.int32)
        self._texts = list(texts.items())
        self._target = None if layout.target in texts else converters[names.index(layout.target)]
        for i, (name, convert) in enumerate(zip(names, converters, strict=True)):
            if name in layout.drop:
                columns[i] = SKIPPED, 0
            elif name in texts:
                columns[i] = TEXT, list(texts).index(name)
            elif name == layout.target:
                columns[i] = CODES[convert], len(self._names)
            else:
                columns[i] = CODES[convert], self._names.index(name)
        self._columns = columns
        self._shortest = int(np.where(columns[:, 0] == SKIPPED, 1, 2).sum())  # bytes of a row
        blank = _NO_BYTE if " " in dialect else ord(" ")
        self._dialect = np.array([*dialect.encode(), blank], np.uint16)

    def __call__(self, text: bytes) -> Parsed:
        n_lines = text.count(b"\n")
        n_rows = min(n_lines, len(text) // self._shortest + 1)
        found = Found(
            starts=np.empty(n_lines + 1, np.int32),
            odd=np.empty(n_lines, np.int32),
            lines=np.empty(n_rows, np.int32),
            X=np.empty((n_rows, len(self._names))),
            y=np.empty(n_rows),
            whole=np.empty(n_rows, np.bool_),
            spans=np.empty((n_rows, len(self._texts), 2), np.int32),
        )
        n_found, rows, n_odd = read_rows(np.frombuffer(text, np.uint8), self._columns, self._dialect, found)
        if n_found != n_lines:
            raise AssertionError(f"expected {n_lines} lines, found {n_found}")
        odd, lines = found.odd[:n_odd], found.lines[:rows]
        X, y, whole = found.X[:rows], found.y[:rows], found.whole[:rows]
        keys = times = None
        if self._texts:
            samples = [self._sample(text, spans) for spans in found.spans[:rows].tolist()]
            if None in samples:
                fits = np.array([sample is not None for sample in samples], np.bool_)
                odd = np.sort(np.concatenate([odd, lines[~fits]]))
                lines, X, y, whole = lines[fits], X[fits], y[fits], whole[fits]
            read = [sample for sample in samples if sample is not None]
            keys = None if self._layout.key is None else [sample.key for sample in read]
            times = None if self._layout.time is None else np.array([sample.time for sample in read])
            labels = [sample.y for sample in read]

        def cut(first: int, last: int, origins: Origins) -> Block:
            rows = slice(first, last)
            if self._target is None:
                own = np.empty(last - first, object)
                own[:] = labels[rows]
            else:
                own = targets(self._target, y[rows], whole[rows])
            return Block(
                X[rows], own, origins, self._names, keys and keys[rows], None if times is None else times[rows]
            )

        return Parsed(found.starts, odd, lines, cut)

    def _sample(self, text: bytes, spans: list[tuple[int, int]]) -> Sample | None:
        """A sample without features, for its key, time and label; None where the road of samples must see the row."""
        record: dict[str, Any] = {str(self._layout.target): 0}
        try:
            for (name, convert), (start, stop) in zip(self._texts, spans, strict=True):
                cell = text[start:stop].decode()
                record[name] = None if cell in self._missing else convert(cell)
        except Exception:  # it is raised again there
            return None
        item = self._layout.sample(record, b"", "")
        if not isinstance(item, Sample) or item.y is None or (self._layout.time is not None and item.time is None):
            return None
        return item


def targets(convert: Callable[[str], Any], y: NDArray[np.float64], whole: NDArray[np.bool_]) -> NDArray[Any]:
    """Targets of the types that a converter returns; `whole` says which were written as whole numbers."""
    if convert is KINDS["bool"]:
        return y.astype(np.bool_)
    if convert is KINDS["int"] or (convert is KINDS["auto"] and whole.all()):
        return y.astype(np.int64)
    if convert is KINDS["auto"] and whole.any():
        mixed = np.empty(len(y), object)
        mixed[:] = [
            int(value) if is_whole else value for value, is_whole in zip(y.tolist(), whole.tolist(), strict=True)
        ]
        return mixed
    return y
