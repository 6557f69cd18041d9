"""Rows of a block: which of them a guard would surely let pass, all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from fwonline.stream.block import Block

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from fwonline.loop._guard import Guard

__all__ = ["clean_rows", "rows_of"]

# A sum of squares that is less than the square of a size by this share is less than it in every order of its terms.
_SURELY = 1.0 - 1e-9
# So many labels are compared one by one with all targets; more are looked up.
_FEW = 16
# Whole numbers up to this one are floats, too.
_EXACT = 2**53


def rows_of(block: Block, start: int, stop: int) -> tuple[NDArray[np.float64] | sparse.csr_array, NDArray[Any]]:
    """Values and targets of the rows from `start` to `stop`, without copying values."""
    X, y = block.X, block.y
    if start == 0 and stop == len(y):
        return X, y
    if isinstance(X, np.ndarray):
        return X[start:stop], y[start:stop]
    first, last = X.indptr[start], X.indptr[stop]
    parts = X.data[first:last], X.indices[first:last], X.indptr[start : stop + 1] - first
    return sparse.csr_array(parts, shape=(stop - start, X.shape[1])), y[start:stop]


def clean_rows(guard: Guard, block: Block, *, labels: Collection[Any], check_values: bool) -> int:
    """How many rows from the first that is left on are such that `guard.is_clean` says yes to every one.

    A row that is near to the border, whatever the reason, does not count. Labels other than `labels` are not known;
    without `check_values` nothing else is looked at.
    """
    X, y = rows_of(block, block.taken, len(block))
    if guard.target == "label":
        n = _known_labels(y, labels)
    elif guard.target == "number" and check_values:
        n = _known_numbers(y, guard)
    else:
        n = len(y)
    return min(n, _known_sizes(X, guard.size if check_values else np.inf)) if n else 0


def _known_sizes(X: NDArray[np.float64] | sparse.csr_array, size: float) -> int:
    """How many rows from the first are not empty, and surely of a norm below `size`."""
    bound = size * size * _SURELY
    values = X.ravel() if isinstance(X, np.ndarray) else X.data
    with np.errstate(all="ignore"):
        are_all = size == np.inf or bool(np.dot(values, values) < bound)
        if isinstance(X, np.ndarray):
            if are_all or not X.shape[1]:
                return len(X) if X.shape[1] else 0
            return _leading(np.einsum("ij,ij->i", X, X) < bound)
        lengths = np.diff(X.indptr)
        if are_all:
            return _leading(lengths > 0)
        sums = np.bincount(np.repeat(np.arange(len(lengths)), lengths), values * values, len(lengths))
        return _leading((lengths > 0) & (sums < bound))


def _known_numbers(y: NDArray[Any], guard: Guard) -> int:
    """How many targets from the first are numbers of known types and sizes."""
    if y.dtype == object:
        kinds = {kind for kind in set(map(type, y.tolist())) if (None, kind) not in guard.targets}
        known = _leading(np.array([type(value) not in kinds for value in y.tolist()])) if kinds else len(y)
        try:
            y = y[:known].astype(np.float64)
        except (ArithmeticError, TypeError, ValueError):
            return 0
    elif not len(y) or (None, type(y[0].item())) not in guard.targets:
        return 0
    size = guard.target_size
    return _leading((y > -size) & (y < size))


def _known_labels(y: NDArray[Any], labels: Collection[Any]) -> int:
    """How many targets from the first are known labels."""
    if y.dtype.kind in "biuf" and len(labels) <= _FEW:
        known = np.zeros(len(y), dtype=bool)
        for label in labels:
            if isinstance(label, (bool, int, float)) and abs(label) <= _EXACT:
                known |= y == label
        if y.dtype.kind in "iu":  # numpy takes whole numbers beyond for the floats next to them
            known &= (y <= _EXACT) & (y >= -_EXACT)
        return _leading(known)
    values = y.tolist()
    try:
        if all(map(labels.__contains__, values)):
            return len(values)
        return next(i for i, value in enumerate(values) if value not in labels)
    except TypeError:  # what cannot be hashed
        return 0


def _leading(clean: NDArray[np.bool_]) -> int:
    """How many are true from the first on."""
    return len(clean) if clean.all() else int(clean.argmin())
