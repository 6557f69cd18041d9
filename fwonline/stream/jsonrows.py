"""JSON objects of numbers, many at once: to the same values and types as `JSONLinesSource` reads one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fwonline.stream._kernels.objects import (
    BOOLEAN,
    FRACTION,
    INTEGER,
    KEY,
    NULL,
    STRING,
    TARGET,
    TIME,
    Objects,
    read_objects,
)
from fwonline.stream.ahead import Origins, Parsed
from fwonline.stream.block import Block
from fwonline.stream.records import RecordLayout

__all__ = ["ObjectRows"]

_TYPES = {FRACTION: np.float64, INTEGER: np.int64, BOOLEAN: np.bool_}


class ObjectRows:
    """Reads text as objects that have the fields of one of them, in their order.

    Parameters
    ----------
    record
        That object.
    layout
        The roles of fields.

    Raises
    ------
    ValueError
        When it is no row of numbers.
    """

    def __init__(self, record: dict[str, Any], layout: RecordLayout) -> None:
        others = (layout.target, layout.key, layout.time)
        self._names = [name for name in record if name not in others and name not in layout.drop]
        if not self._names or any(name is not None and name not in record for name in others):
            raise ValueError("expected features, and every field that has a role")
        if not all(isinstance(record[name], (bool, int, float)) for name in self._names):
            raise ValueError("expected numbers")
        if layout.features is not None and not layout.features.issuperset(self._names):
            raise ValueError("expected other features")
        if any(letter < " " or letter in '"\\' for name in record for letter in name):
            raise ValueError("expected names that are written as they are")
        slots = {name: slot for slot, name in enumerate([*self._names, *others]) if name is not None}
        keys, fields = b"", []
        for name in record:
            key = f'"{name}"'.encode()
            fields.append((len(keys), len(keys) + len(key), slots.get(name, -1)))
            keys += key
        self._keys, self._fields = np.frombuffer(keys, np.uint8), np.array(fields, np.int32)
        self._has_keys, self._has_times = layout.key is not None, layout.time is not None
        self._shortest = len(keys) + 3 * len(fields) + 2  # bytes of a row

    def __call__(self, text: bytes) -> Parsed:
        n_lines = text.count(b"\n")
        n_rows = min(n_lines, len(text) // self._shortest)
        found = Objects(
            starts=np.empty(n_lines + 1, np.int32),
            odd=np.empty(n_lines, np.int32),
            lines=np.empty(n_rows, np.int32),
            X=np.empty((n_rows, len(self._names))),
            others=np.empty((n_rows, 3)),
            kinds=np.empty((n_rows, 3), np.int8),
            spans=np.empty((n_rows, 3, 2), np.int32),
        )
        n_found, n_rows, n_odd = read_objects(np.frombuffer(text, np.uint8), self._keys, self._fields, found)
        if n_found != n_lines:
            raise AssertionError(f"expected {n_lines} lines, found {n_found}")

        def others(which: int, rows: slice) -> NDArray[Any]:
            return _values(text, found.others[rows, which], found.kinds[rows, which], found.spans[rows, which])

        def cut(first: int, last: int, origins: Origins) -> Block:
            rows = slice(first, last)
            keys = others(KEY, rows).tolist() if self._has_keys else None
            times = found.others[rows, TIME].copy() if self._has_times else None
            return Block(found.X[rows], others(TARGET, rows), origins, self._names, keys, times)

        return Parsed(found.starts, found.odd[:n_odd], found.lines[:n_rows], cut)


def _values(
    text: bytes, numbers: NDArray[np.float64], kinds: NDArray[np.int8], spans: NDArray[np.int32]
) -> NDArray[Any]:
    """Values of the types that the decoder returns."""
    if (kinds == kinds[0]).all() and kinds[0] in _TYPES:
        return numbers.astype(_TYPES[int(kinds[0])])
    found = np.empty(len(numbers), object)  # of Nones
    for kind in np.unique(kinds).tolist():
        where = kinds == kind
        if kind == STRING:
            found[where] = [text[i:j].decode() for i, j in spans[where].tolist()]
        elif kind != NULL:
            found[where] = numbers[where].astype(_TYPES[kind]).tolist()
    return found
