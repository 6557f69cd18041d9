"""Rows of numbers in delimited text, many at once: to the same values and types as `CSVSource` reads one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fwonline.stream._kernels.rows import AUTO, BOOLEAN, INTEGER, NUMBER, SKIPPED, Found, read_rows
from fwonline.stream.ahead import Origins, Parsed
from fwonline.stream.block import Block
from fwonline.stream.records import KINDS, RecordLayout

__all__ = ["CODES", "DelimitedRows", "targets"]

#: What a converter makes of a field, for the compiled reader.
CODES = {KINDS["auto"]: AUTO, KINDS["number"]: NUMBER, KINDS["int"]: INTEGER, KINDS["bool"]: BOOLEAN}


class DelimitedRows:
    """Reads text as rows of numbers.

    Parameters
    ----------
    names
        The columns.
    converters
        What reads each.
    layout
        Their roles.
    dialect
        Delimiter, quote, decimal point.
    """

    def __init__(
        self, names: Sequence[str], converters: Sequence[Callable[[str], Any]], layout: RecordLayout, dialect: str
    ) -> None:
        self._target = converters[names.index(layout.target)]
        self._names = [name for name in names if layout.roles.get(name, "features") == "features"]
        columns = np.zeros((len(names), 2), np.int32)
        for i, (name, convert) in enumerate(zip(names, converters, strict=True)):
            if name in layout.drop:
                columns[i] = SKIPPED, 0
            elif name == layout.target:
                columns[i] = CODES[convert], len(self._names)
            else:
                columns[i] = CODES[convert], self._names.index(name)
        self._columns = columns
        self._shortest = int(np.where(columns[:, 0] == SKIPPED, 1, 2).sum())  # bytes of a row
        blank = 0 if dialect[0] == " " else ord(" ")
        self._dialect = np.array([*dialect.encode(), blank], np.uint8)

    def __call__(self, text: bytes) -> Parsed:
        n_lines, n_rows = text.count(b"\n"), len(text) // self._shortest + 1
        n_rows = min(n_rows, n_lines)
        found = Found(
            starts=np.empty(n_lines + 1, np.int32),
            odd=np.empty(n_lines, np.int32),
            lines=np.empty(n_rows, np.int32),
            X=np.empty((n_rows, len(self._names))),
            y=np.empty(n_rows),
            whole=np.empty(n_rows, np.bool_),
            spans=np.empty((n_rows, 0, 2), np.int32),
        )
        n_found, rows, n_odd = read_rows(np.frombuffer(text, np.uint8), self._columns, self._dialect, found)
        if n_found != n_lines:
            raise AssertionError(f"expected {n_lines} lines, found {n_found}")
        X, y, whole = found.X[:rows], found.y[:rows], found.whole[:rows]

        def cut(first: int, last: int, origins: Origins) -> Block:
            return Block(X[first:last], targets(self._target, y[first:last], whole[first:last]), origins, self._names)

        return Parsed(found.starts, found.odd[:n_odd], found.lines[:rows], cut)


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
