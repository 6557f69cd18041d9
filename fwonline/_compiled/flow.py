"""Rows on their way through the steps of a pipeline."""

from __future__ import annotations

import typing

import numpy as np
from scipy import sparse

from fwonline._kernels.layout import LARGEST
from fwonline.linear_model.columns import KEPT

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Flow"]

_NO_SLOTS = np.zeros(0, np.int64)


class Flow:
    """The values that rows are predicted with (``asked``) and learned from (``val``), as far as steps have made them.

    Parameters
    ----------
    X
        The rows, dense or CSR.
    names
        The columns' names.

    Attributes
    ----------
    n
        Rows from the first that all steps so far can take.
    columns
        Of each entry; None where every row has all columns.
    """

    def __init__(self, X: typing.Any, names: Sequence[Hashable]) -> None:
        self.n, self.names = X.shape[0], names
        self.columns: NDArray[np.integer] | None = None
        if sparse.issparse(X):
            self.columns, self.indptr = X.indices, X.indptr.astype(np.int64)
            self.val = X.data.astype(np.float64)
            if X.shape[1] > KEPT:  # arrays of all columns would be large: those that rows have are numbered anew
                met, self.columns = np.unique(X.indices, return_inverse=True)
                self.names = [names[j] for j in met.tolist()]
        else:
            d = X.shape[1]
            self.indptr = np.arange(self.n + 1, dtype=np.int64) * d
            self.val = np.array(X, dtype=np.float64, order="C").reshape(-1)
        self.asked = self.val.copy()

    def cut(self, n: int) -> None:
        """Have the first n rows alone."""
        if n < self.n:
            self.n = n
            self.indptr = self.indptr[: n + 1]
            end = self.indptr[n]
            self.asked, self.val = self.asked[:end], self.val[:end]
            if self.columns is not None:
                self.columns = self.columns[:end]

    def cut_large(self) -> None:
        """Have no row from the first on that would be predicted with values that no model could sum."""
        if not (self.asked.max(initial=0.0) <= LARGEST and self.asked.min(initial=0.0) >= -LARGEST):
            first = int(np.argmin(np.abs(self.asked) <= LARGEST))
            self.cut(int(np.searchsorted(self.indptr, first, side="right")) - 1)

    def used(self) -> NDArray[np.int64]:
        """The columns that rows have, ascending."""
        if self.columns is None:
            return np.arange(len(self.names))
        marked = np.zeros(len(self.names), dtype=bool)
        marked[self.columns] = True
        return np.flatnonzero(marked)

    def know(self, is_known: Callable[[Hashable], bool]) -> list[Hashable]:
        """Cut the rows before the first that brings a name that is not known; return the names that rows have."""
        names = [self.names[j] for j in self.used().tolist()]
        if all(map(is_known, names)):
            return names
        if self.columns is None:
            self.cut(0)
            return []
        new = np.zeros(len(self.names), dtype=bool)
        used = self.used()
        new[used] = [not is_known(name) for name in names]
        first = int(np.argmax(new[self.columns]))
        self.cut(int(np.searchsorted(self.indptr, first, side="right")) - 1)
        return [self.names[j] for j in self.used().tolist()]

    def slots(self) -> NDArray[np.int64]:
        """Of each entry, the place of its column among those used; empty where it is that within the row."""
        if self.columns is None:
            return _NO_SLOTS
        used = self.used()
        slots = np.empty(len(self.names), np.int64)
        slots[used] = np.arange(used.size)
        return slots[self.columns]

    def matrix(self) -> NDArray[np.float64] | sparse.csr_array:
        """The values to learn from."""
        if self.columns is None:
            return self.val.reshape(self.n, len(self.names))
        return sparse.csr_array((self.val, self.columns, self.indptr), shape=(self.n, len(self.names)))
