"""Samples x features by columns: the image of an atom of one coordinate reads one column.

A matrix on disk (``numpy.memmap``) is read a part at a time, in the order it is stored.
"""

from __future__ import annotations

import abc
import typing

import numpy as np
from scipy import sparse

from fwonline._kernels import layout
from fwonline._kernels.layout import jit
from fwonline.optim.problem.data import Data, check_values, refuse
from fwonline.optim.problem.rounding import EPS
from fwonline.sets import atoms

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Columns = NDArray[np.int64]

__all__ = ["ByColumns", "DenseColumns", "MappedColumns", "SparseColumns", "by_columns"]

# Bytes of a matrix on disk that are held in memory at a time.
_CHUNK = 1 << 25


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

    def __init__(self, X: sparse.csr_array):
        self.X = X.tocsc()
        self.shape = self.X.shape

    def gram(self, weights: Array, y: Array | None = None) -> tuple[Array, Array]:
        """X^T diag(weights) X, and X^T diag(weights) y."""
        scaled = self.X.multiply(weights[:, None]).tocsr()
        return (self.X.T @ scaled).toarray(), np.zeros(0) if y is None else y @ scaled

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
    """An array in memory, held by columns; where ``by_rows`` is said, by rows too, for products with points."""

    def __init__(self, X: Array, by_rows: bool = False):
        self.X = np.asfortranarray(X, dtype=np.float64)
        self._by_rows = np.ascontiguousarray(X, dtype=np.float64) if by_rows else self.X
        self.shape = self.X.shape

    def times(self, x):
        return self._by_rows @ x

    def gram(self, weights: Array, y: Array | None = None) -> tuple[Array, Array]:
        """X^T diag(weights) X, and X^T diag(weights) y."""
        scaled = self._by_rows * weights[:, None]
        return self.X.T @ scaled, np.zeros(0) if y is None else y @ scaled

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


def by_columns(X: typing.Any) -> ByColumns:
    """A dense array, a memmap or a scipy sparse matrix by columns.

    Raises
    ------
    ValueError
        If it is no matrix, or has an entry that is no finite number: the message names row and column.
    """
    if sparse.issparse(X):
        csr = sparse.csr_array(X).astype(np.float64)
        check_values(csr)
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
            refuse("X", (row, column), array[row, column])
    return data
