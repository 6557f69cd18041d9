"""Samples x features, as a finite sum multiplies them: here by rows, for batches of samples.

For atoms data is held by columns: :mod:`~fwonline.optim.problem.columns`. A dense array stays dense, without a copy
where it is stored by rows.
"""

from __future__ import annotations

import abc
import math
import typing

import numpy as np
from scipy import sparse

from fwonline._kernels import layout
from fwonline._kernels.layout import jit
from fwonline.optim.problem.rounding import EPS

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]
    Batch = NDArray[np.int64]
    # Which samples, and their scores -> the derivatives in the scores.
    Slopes = Callable[[typing.Any, Array], Array]
    # (indptr, indices, values, targets)
    CSR = tuple[NDArray[np.int64], NDArray[np.uint32], Array, Array]

__all__ = [
    "ByRows",
    "Data",
    "DenseRows",
    "SparseRows",
    "as_rows",
    "binary_targets",
    "by_rows",
]

# Dense rows that are multiplied at a time: few enough for a cache to hold them between the two products.
_AT_ONCE = 128


class Data(abc.ABC):
    """Samples x features, to be multiplied.

    Attributes
    ----------
    shape
        Number of samples and of features.
    """

    shape: tuple[int, int]

    @abc.abstractmethod
    def times(self, x: Array) -> Array:
        """The scores of all samples: X x, or X x^T for a matrix x."""

    @abc.abstractmethod
    def transposed(self, alpha: Array) -> Array:
        """X^T alpha, of the shape of x."""

    @abc.abstractmethod
    def rounding(self, x: Array, alpha: Array) -> tuple[Array | float, float]:
        """How far off the computed scores at x are at most, and the norm of what the gradient of these slopes is."""


class ByRows(Data):
    """Samples that batches are taken from.

    Attributes
    ----------
    largest
        The largest norm of a sample.
    width
        The most entries of a sample.
    """

    largest: float
    width: int

    @abc.abstractmethod
    def scores(self, x: Array, batch: Batch | None) -> Array:
        """The scores of some samples, or of all."""

    @abc.abstractmethod
    def accumulate(self, x: Array, batch: Batch | None, slopes: Slopes, out: Array) -> None:
        """Add the sum over samples of slope times row to ``out``; ``slopes`` is called with the scores at x."""

    @abc.abstractmethod
    def add(self, batch: Batch, slopes: Array, out: Array) -> None:
        """Add slope times row, sample by sample, to ``out``."""

    def times(self, x: Array) -> Array:
        return self.scores(x, None)

    def rounding(self, x: Array, alpha: Array) -> tuple[Array | float, float]:
        sizes = np.abs(alpha) if alpha.ndim == 1 else np.linalg.norm(alpha, axis=1)
        rows = self.largest * (1.0 + self.width * EPS)
        gradient = (self.shape[0] + 8.0) * EPS * rows * float(np.mean(sizes))
        return (self.width + 3.0) * EPS * (rows * float(np.linalg.norm(x))), gradient


class DenseRows(ByRows):
    """Samples as the rows of an array of float32 or float64.

    Memory is what bounds these products, so rows go through the cache a few at a time, and float32 ones become float64
    only there.
    """

    def __init__(self, X: NDArray):
        self.X = X
        self.shape = X.shape
        self.width = X.shape[1]
        squares = [np.einsum("ij,ij->i", rows, rows).max() for _, rows in self._parts(None)]
        self.largest = math.sqrt(float(max(squares, default=0.0)))

    def _parts(self, batch: Batch | None) -> Iterator[tuple[typing.Any, Array]]:
        """A few samples at a time: which, and their rows, valid until the next ones."""
        if batch is None:
            for start in range(0, self.shape[0], _AT_ONCE):
                part = slice(start, start + _AT_ONCE)
                yield part, self.X[part].astype(np.float64, copy=False)
            return
        gathered = np.empty((min(_AT_ONCE, batch.size), self.shape[1]), dtype=self.X.dtype)
        for start in range(0, batch.size, _AT_ONCE):
            some = batch[start : start + _AT_ONCE]
            rows = np.take(self.X, some, axis=0, out=gathered[: some.size], mode="clip")
            yield some, rows.astype(np.float64, copy=False)

    def scores(self, x, batch):
        return np.concatenate([rows @ x.T for _, rows in self._parts(batch)])

    def accumulate(self, x, batch, slopes, out):
        for some, rows in self._parts(batch):
            out += slopes(some, rows @ x.T).T @ rows

    def add(self, batch, slopes, out):
        start = 0
        for some, rows in self._parts(batch):
            out += slopes[start : start + some.size].T @ rows
            start += some.size

    def transposed(self, alpha):
        out = np.zeros((*alpha.shape[1:], self.shape[1]))
        for some, rows in self._parts(None):
            out += alpha[some].T @ rows
        return out


@jit
def sparse_scores(start, length, idx, val, batch, x, z):
    """z[i, c] = <x[c], row batch[i]>."""
    for i in range(batch.size):
        first = start[batch[i]]
        last = first + length[batch[i]]
        for c in range(x.shape[0]):
            total = 0.0
            for k in range(first, last):
                total += x[c, idx[k]] * val[k]
            z[i, c] = total


@jit
def add_sparse(start, length, idx, val, batch, slopes, out):
    """out[c] += slopes[i, c] row batch[i]."""
    for i in range(batch.size):
        first = start[batch[i]]
        last = first + length[batch[i]]
        for c in range(out.shape[0]):
            factor = slopes[i, c]
            if factor != 0.0:
                for k in range(first, last):
                    out[c, idx[k]] += factor * val[k]


class SparseRows(ByRows):
    """Samples whose entries lie in a pool.

    Parameters
    ----------
    start, length
        Where the entries of each sample begin, and how many they are.
    idx, val
        Positions and values of the entries.
    d
        Number of features.
    largest
        The largest norm of a sample; where None, it is computed.
    """

    def __init__(
        self,
        start: NDArray[np.int64],
        length: NDArray[np.int64],
        idx: NDArray[np.uint32],
        val: Array,
        *,
        d: int,
        largest: float | None = None,
    ):
        self.entries = start, length, idx, val
        self.shape = start.size, d
        if largest is None:
            squares = np.concatenate([[0.0], np.cumsum(val * val)])
            largest = math.sqrt(float((squares[start + length] - squares[start]).max(initial=0.0)))
        self.largest = largest

    @property
    def width(self) -> int:  # type: ignore[override]
        return int(self.entries[1].max(initial=0))

    def scores(self, x, batch):
        batch = np.arange(self.shape[0]) if batch is None else batch
        matrix = np.atleast_2d(x)
        z = np.empty((batch.size, len(matrix)))
        sparse_scores(*self.entries, batch, matrix, z)
        return z if x.ndim > 1 else z[:, 0]

    def accumulate(self, x, batch, slopes, out):
        batch = np.arange(self.shape[0]) if batch is None else batch
        self.add(batch, slopes(batch, self.scores(x, batch)), out)

    def add(self, batch, slopes, out):
        add_sparse(*self.entries, batch, slopes[:, None] if slopes.ndim == 1 else slopes, np.atleast_2d(out))

    def transposed(self, alpha):
        out = np.zeros((*alpha.shape[1:], self.shape[1]))
        self.add(np.arange(self.shape[0]), alpha, out)
        return out

    def rounding(self, x, alpha):
        if x.ndim > 1:
            return super().rounding(x, alpha)
        start, length, idx, val = self.entries
        sizes = SparseRows(start, length, idx, np.abs(val), d=self.shape[1], largest=self.largest)
        terms = np.bincount(idx, minlength=self.shape[1]) + 8.0
        gradient = terms * EPS * sizes.transposed(np.abs(alpha)) / self.shape[0]
        return (self.width + 2.0) * EPS * sizes.times(np.abs(x)), float(np.linalg.norm(gradient))


# --- from what users have -----------------------------------------------------------------------------------------


def refuse(name: str, where: tuple[int, ...], value: float) -> typing.NoReturn:
    at = ", ".join(map(str, where))
    raise ValueError(f"{name}[{at}] is {value}; expected a finite number of at most {layout.LARGEST:g}")


def check_values(X: sparse.csr_array) -> None:
    bad = np.flatnonzero(~(np.abs(X.data) <= layout.LARGEST))
    if bad.size:
        row = int(np.searchsorted(X.indptr, bad[0], side="right") - 1)
        refuse("X", (row, int(X.indices[bad[0]])), X.data[bad[0]])


def check_targets(y: ArrayLike, n: int, check: bool = True) -> Array:
    """Targets as an array; finite ones, unless that is not to be checked.

    Raises
    ------
    ValueError
        If they are not one for each of n samples, or one is not finite.
    """
    targets = np.ascontiguousarray(y, dtype=np.float64)
    if targets.shape != (n,):
        raise ValueError(f"y must have one target for each of the {n} rows of X, got shape {targets.shape}")
    bad = np.flatnonzero(~(np.abs(targets) <= layout.LARGEST)) if check else np.zeros(0, np.int64)
    if bad.size:
        refuse("y", (int(bad[0]),), targets[bad[0]])
    return targets


def as_rows(X: typing.Any, y: ArrayLike, check: bool = True) -> tuple[CSR, int]:
    """A dense or sparse matrix and its targets as (indptr, indices, values, y), and the number of columns.

    Raises
    ------
    ValueError
        If shapes do not fit, or an entry is not finite: the message names row and column.
    """
    if not sparse.issparse(X):
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2:
            raise ValueError(f"X must be a matrix of samples x features, got shape {X.shape}")
    X = sparse.csr_array(X)
    targets = check_targets(y, X.shape[0], check)
    values = np.ascontiguousarray(X.data, dtype=np.float64)
    if check:
        check_values(X)
    indptr = np.ascontiguousarray(X.indptr, dtype=np.int64)
    indices = np.ascontiguousarray(X.indices, dtype=np.int32 if X.shape[1] < 2**31 else np.int64)
    positions = indices.view(np.uint32) if indices.dtype == np.int32 else indices.astype(np.uint32)
    return (indptr, positions, values, targets), X.shape[1]


def rows_of(csr: CSR, d: int) -> SparseRows:
    """The samples of a CSR matrix."""
    indptr, idx, val, _ = csr
    return SparseRows(indptr[:-1], np.diff(indptr), idx, val, d=d)


def by_rows(X: typing.Any, y: ArrayLike) -> tuple[ByRows, Array]:
    """A dense or sparse matrix by rows, and its targets; a dense one stays dense.

    Raises
    ------
    ValueError
        If shapes do not fit, or an entry is not finite.
    """
    if not sparse.issparse(X):
        X = np.asarray(X)
        X = np.ascontiguousarray(X, dtype=np.float32 if X.dtype == np.float32 else np.float64)
        # Values that are missing or too large are named by as_rows.
        if X.ndim == 2 and max(float(X.max(initial=0.0)), -float(X.min(initial=0.0))) <= layout.LARGEST:
            return DenseRows(X), check_targets(y, len(X))
    csr, d = as_rows(X, y)
    return rows_of(csr, d), csr[3]


def binary_targets(y: ArrayLike) -> Array:
    """Labels of two classes, False/True, 0/1 or -1/+1, as 0.0 and 1.0."""
    array = np.asarray(y, dtype=np.float64)
    classes = np.unique(array)
    if not (np.isin(classes, (0.0, 1.0)).all() or np.isin(classes, (-1.0, 1.0)).all()):
        raise ValueError(
            f"y must hold the labels of two classes (0/1, False/True or -1/+1), got the values {classes[:5]}"
        )
    return (array > 0).astype(np.float64)
