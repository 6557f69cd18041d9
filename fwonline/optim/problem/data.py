"""Samples x features, as a finite sum multiplies them: by rows for batches of samples, by columns for atoms.

Nothing is copied that need not be: a dense array stays as it is stored, and a matrix on disk (``numpy.memmap``) is read
a part at a time, in the order it is stored.
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
from fwonline.sets import atoms

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]
    Batch = NDArray[np.int64]
    Columns = NDArray[np.int64]
    # Which samples, and their scores -> the derivatives in the scores.
    Slopes = Callable[[typing.Any, Array], Array]
    # (indptr, indices, values, targets)
    CSR = tuple[NDArray[np.int64], NDArray[np.uint32], Array, Array]

__all__ = [
    "ByColumns",
    "ByRows",
    "Data",
    "DenseColumns",
    "DenseRows",
    "MappedColumns",
    "SparseColumns",
    "SparseRows",
    "as_rows",
    "binary_targets",
    "by_columns",
    "by_rows",
]

# Dense rows that are multiplied at a time: few enough for a cache to hold them between the two products.
_AT_ONCE = 128
# Bytes of a matrix on disk that are held in memory at a time.
_CHUNK = 1 << 25


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


# --- by rows ------------------------------------------------------------------------------------------------------


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


# --- by columns ---------------------------------------------------------------------------------------------------


class ByColumns(Data):
    """Features that atoms are made of: the image of an atom of one coordinate reads one column."""

    _bounds: tuple[Array, Array] | None = None

    @abc.abstractmethod
    def some(self, columns: Columns, alpha: Array) -> Array:
        """The entries ``columns`` of X^T alpha; nothing else is computed."""

    @abc.abstractmethod
    def mix(self, columns: Columns, values: Array) -> Array:
        """sum_k values_k X[:, columns_k]."""

    @abc.abstractmethod
    def largest(self) -> Array:
        """max_i |x_ij| of each column: one pass over the data."""

    def counts(self) -> Array:
        """The most terms that an entry of X^T alpha adds up."""
        return np.full(self.shape[1], float(self.shape[0]))

    def image(self, atom: atoms.Atom) -> Array:
        """X s, by the columns that the atom s has."""
        if isinstance(atom, atoms.ZeroAtom):
            return np.zeros(self.shape[0])
        if isinstance(atom, atoms.CoordinateAtom):
            return self.mix(np.array([atom.index]), np.array([atom.value]))
        if isinstance(atom, atoms.SparseAtom):
            return self.mix(atom.indices, atom.values)
        return self.times(atom.to_dense().ravel())

    def rounding(self, x: Array, alpha: Array) -> tuple[Array | float, float]:
        if self._bounds is None:
            self._bounds = self.largest(), self.counts()
        largest, terms = self._bounds
        gradient = float(np.linalg.norm((terms + 8.0) * EPS * largest)) * float(np.mean(np.abs(alpha)))
        return (x.size + 2.0) * EPS * float(largest @ np.abs(x)), gradient


@jit
def column_products(indptr, indices, data, columns, alpha, out):
    """out_k = <column columns_k, alpha>."""
    for k in range(columns.size):
        total = 0.0
        for i in range(indptr[columns[k]], indptr[columns[k] + 1]):
            total += data[i] * alpha[indices[i]]
        out[k] = total


class SparseColumns(ByColumns):
    """A scipy sparse matrix, held by columns."""

    def __init__(self, X: typing.Any):
        self.X = sparse.csc_array(X)
        self.shape = self.X.shape

    def times(self, x):
        return self.X @ x

    def transposed(self, alpha):
        return self.X.T @ alpha

    def largest(self):
        return abs(self.X).max(axis=0).toarray().ravel() if 0 not in self.shape else np.zeros(self.shape[1])

    def counts(self):
        return np.diff(self.X.indptr).astype(np.float64)

    def some(self, columns, alpha):
        out = np.empty(len(columns))
        column_products(self.X.indptr, self.X.indices, self.X.data, columns, alpha, out)
        return out

    def mix(self, columns, values):
        out = np.zeros(self.shape[0])
        X = self.X
        for j, value in zip(columns, values, strict=True):
            where = slice(X.indptr[j], X.indptr[j + 1])
            out[X.indices[where]] += value * X.data[where]
        return out


class DenseColumns(ByColumns):
    """An array in memory, held by columns."""

    def __init__(self, X: Array):
        self.X = np.asfortranarray(X, dtype=np.float64)
        self.shape = self.X.shape

    def times(self, x):
        return self.X @ x

    def transposed(self, alpha):
        return self.X.T @ alpha

    def largest(self):
        return np.maximum(self.X.max(axis=0), -self.X.min(axis=0))

    def some(self, columns, alpha):
        return self.X[:, columns].T @ alpha

    def mix(self, columns, values):
        return self.X[:, columns] @ values


def _spans(size: int, other: int) -> Iterator[slice]:
    """Parts of a matrix's rows or columns of about 32 MiB each."""
    step = max(1, _CHUNK // (8 * max(other, 1)))
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))


class MappedColumns(ByColumns):
    """An array on disk, read in parts of about 32 MiB: of columns where it is stored by columns, else of rows.

    A sampled step reads the sampled columns alone where the file is in Fortran order; in C order it reads every page
    of the file, since a column crosses them all.
    """

    def __init__(self, X: np.memmap):
        self.X = X
        self.shape = X.shape
        self.by_columns = X.flags.f_contiguous and not X.flags.c_contiguous

    def times(self, x):
        n, d = self.shape
        if self.by_columns:
            used = np.flatnonzero(x)
            return self.mix(used, x[used])
        out = np.empty(n)
        for rows in _spans(n, d):
            out[rows] = np.asarray(self.X[rows], dtype=np.float64) @ x
        return out

    def transposed(self, alpha):
        n, d = self.shape
        if self.by_columns:
            return self.some(np.arange(d), alpha)
        out = np.zeros(d)
        for rows in _spans(n, d):
            out += alpha[rows] @ np.asarray(self.X[rows], dtype=np.float64)
        return out

    def largest(self):
        n, d = self.shape
        out = np.zeros(d)
        if self.by_columns:
            for part in _spans(d, n):
                out[part] = np.abs(self.X[:, part]).max(axis=0)
        else:
            for rows in _spans(n, d):
                np.maximum(out, np.abs(self.X[rows]).max(axis=0), out=out)
        return out

    def some(self, columns, alpha):
        n = self.shape[0]
        out = np.zeros(len(columns))
        if self.by_columns:
            for part in _spans(len(columns), n):
                out[part] = alpha @ np.asarray(self.X[:, columns[part]], dtype=np.float64)
        else:
            for rows in _spans(n, len(columns)):
                out += alpha[rows] @ np.asarray(self.X[rows][:, columns], dtype=np.float64)
        return out

    def mix(self, columns, values):
        n = self.shape[0]
        out = np.zeros(n)
        if self.by_columns:
            for part in _spans(len(columns), n):
                out += np.asarray(self.X[:, columns[part]], dtype=np.float64) @ values[part]
        else:
            for rows in _spans(n, max(len(columns), 1)):
                out[rows] = np.asarray(self.X[rows][:, columns], dtype=np.float64) @ values
        return out


# --- from what users have -----------------------------------------------------------------------------------------


def _refuse(name: str, where: tuple[int, ...], value: float) -> typing.NoReturn:
    at = ", ".join(map(str, where))
    raise ValueError(f"{name}[{at}] is {value}; expected a finite number of at most {layout.LARGEST:g}")


def _check_values(X: sparse.csr_array) -> None:
    bad = np.flatnonzero(~(np.abs(X.data) <= layout.LARGEST))
    if bad.size:
        row = int(np.searchsorted(X.indptr, bad[0], side="right") - 1)
        _refuse("X", (row, int(X.indices[bad[0]])), X.data[bad[0]])


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
        _refuse("y", (int(bad[0]),), targets[bad[0]])
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
        _check_values(X)
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


def by_columns(X: typing.Any) -> ByColumns:
    """A dense array, a memmap or a scipy sparse matrix by columns.

    Raises
    ------
    ValueError
        If it is no matrix, or has an entry that is no finite number: the message names row and column.
    """
    if sparse.issparse(X):
        csr = sparse.csr_array(X).astype(np.float64)
        _check_values(csr)
        return SparseColumns(csr)
    if np.ndim(X) != 2:
        raise ValueError(f"X must be a matrix of samples x features, got shape {np.shape(X)}")
    on_disk = isinstance(X, np.memmap)
    array = X if on_disk else np.asarray(X, dtype=np.float64)
    data: ByColumns = MappedColumns(X) if on_disk else DenseColumns(array)
    n, d = array.shape
    # A matrix on disk is looked at once, in the order it is stored.
    in_columns = isinstance(data, MappedColumns) and data.by_columns
    for span in _spans(d, n) if in_columns else _spans(n, d):
        part = array[:, span] if in_columns else array[span]
        entries: typing.Any = np.argwhere(~(np.abs(part) <= layout.LARGEST))
        if len(entries):
            row, column = map(int, entries[0] + ((0, span.start) if in_columns else (span.start, 0)))
            _refuse("X", (row, column), array[row, column])
    return data


def binary_targets(y: ArrayLike) -> Array:
    """Labels of two classes, False/True, 0/1 or -1/+1, as 0.0 and 1.0."""
    array = np.asarray(y, dtype=np.float64)
    classes = np.unique(array)
    if not (np.isin(classes, (0.0, 1.0)).all() or np.isin(classes, (-1.0, 1.0)).all()):
        raise ValueError(
            f"y must hold the labels of two classes (0/1, False/True or -1/+1), got the values {classes[:5]}"
        )
    return (array > 0).astype(np.float64)
