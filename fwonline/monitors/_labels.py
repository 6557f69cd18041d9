"""Labels of many samples as whole numbers, and how they are counted in river's confusion matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["TWO", "BySample", "Labels", "add", "add_samples", "coded", "count", "has_cell"]

_FEW = 16  # labels, which are told apart by one comparison each
_CELLS = 64  # of a confusion matrix, which are counted in a table


class BySample(Exception):
    """These samples are to be taken one by one."""


class Labels(NamedTuple):
    """Labels as whole numbers."""

    codes: NDArray[np.integer]
    names: list[Any]  # the label of each code
    values: NDArray[Any] | None = None  # the labels themselves; equal ones may differ in their type, as 1 and True do

    def at(self, i: int) -> Any:
        return self.names[self.codes[i]] if self.values is None else self.values[i : i + 1].tolist()[0]

    def first(self, n: int) -> Labels:
        return Labels(self.codes[:n], self.names, self.values)


TWO = [False, True]


def coded(values: NDArray[Any]) -> Labels:
    """Number the labels of an array in the order in which they come; of whole numbers and booleans, in their own."""
    if values.dtype == np.bool_:
        return Labels(values.view(np.uint8), TWO)
    if values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        if high - low < _FEW:
            return Labels(values - low, list(range(low, high + 1)))
    if values.dtype.kind == "O":
        return _coded_objects(values)
    if values.dtype.kind not in "iuf" or np.isnan(values).any():
        raise BySample  # every NaN is a label of its own
    found = _few(values)
    if found is None:
        _, firsts, codes = np.unique(values, return_index=True, return_inverse=True)
        return Labels(codes, values[firsts].tolist(), values)
    return Labels(found[0], values[found[1]].tolist(), values)


def _few(values: NDArray[Any]) -> tuple[NDArray[np.intp], list[int]] | None:
    """Number equal values, and say where each comes first; None where there are many."""
    codes, firsts = np.zeros(len(values), np.intp), [0]
    rest = np.flatnonzero(values != values[0])
    while rest.size:
        if len(firsts) == _FEW:
            return None
        codes[rest] = len(firsts)
        firsts.append(int(rest[0]))
        rest = rest[values[rest] != values[rest[0]]]
    return codes, firsts


def _coded_objects(values: NDArray[Any]) -> Labels:
    try:
        # A label is mostly one object, which comes again and again: addresses are quicker to compare than texts. And
        # two texts are compared sooner than looked up.
        addresses = np.frombuffer(np.ascontiguousarray(values), np.intp)
        found = _few(addresses) if len(set(addresses[:_CELLS].tolist())) <= _FEW else None
        if found is None and len(set(values[:_CELLS].tolist())) <= 3:
            found = _few(values)
        names = values.tolist() if found is None else values[found[1]].tolist()
        numbers = {name: k for k, name in enumerate(dict.fromkeys(names))}
    except (TypeError, ValueError):  # what cannot be hashed, or compared
        raise BySample from None
    if None in numbers or any(name != name for name in numbers):  # noqa: PLR0124  (NaN is not)
        raise BySample
    codes = np.fromiter(map(numbers.__getitem__, names), np.intp, len(names))
    return Labels(codes if found is None else codes[found[0]], list(numbers), values)


def count(cm: Any, true: Labels, predicted: Labels, sign: int) -> None:
    """Add pairs of labels to a confusion matrix, or take them away.

    Counts are whole, and sums of whole floats are exact. New keys are entered in the order in which they come.
    """
    width = len(predicted.names)
    cells = true.codes.astype(np.intp) * width + predicted.codes
    if (n_cells := len(true.names) * width) <= _CELLS:
        table = np.bincount(cells, minlength=n_cells)
        found = np.flatnonzero(table)
        counts = table[found].tolist()
        firsts: list[int] | None = None
    else:
        found, places, table = np.unique(cells, return_index=True, return_counts=True)
        counts, firsts = table.tolist(), places.tolist()
    labels = [(true.names[i], predicted.names[j]) for i, j in (divmod(cell, width) for cell in found.tolist())]
    if not all(has_cell(cm, a, b) for a, b in labels):
        first = [int((cells == cell).argmax()) for cell in found] if firsts is None else firsts
        order = sorted(range(len(labels)), key=first.__getitem__)
        labels = [(true.at(first[k]), predicted.at(first[k])) for k in order]
        counts = [counts[k] for k in order]
    for (a, b), count in zip(labels, counts, strict=True):
        add(cm, a, b, sign * count)
    add_samples(cm, sign * len(cells))


def add(cm: Any, a: Any, b: Any, count: int) -> None:
    w = float(count)
    cm.data[a][b] += w
    cm.sum_row[a] += w
    cm.sum_col[b] += w
    if a == b:
        cm._total_true_positives += w


def add_samples(cm: Any, n: int) -> None:
    cm.n_samples += n
    cm.total_weight += float(n)


def has_cell(cm: Any, a: Any, b: Any) -> bool:
    """Whether a confusion matrix has all keys for a pair of labels."""
    return a in cm.data and b in cm.data[a] and a in cm.sum_row and b in cm.sum_col
