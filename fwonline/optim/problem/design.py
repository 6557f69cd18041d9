"""A data matrix as the Frank-Wolfe family asks for it: times a point, times derivatives, some columns, an atom's image.

Only what a step needs is computed: the product with an atom of one coordinate reads one column, and a sampled oracle
reads the sampled columns. A matrix on disk (``numpy.memmap``) is read a chunk at a time, in the order it is stored.
"""

from __future__ import annotations

import abc
import typing

import numpy as np
from scipy import sparse

from fwonline._kernels import layout
from fwonline._kernels.layout import jit
from fwonline.sets import atoms

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Design", "SparseDesign", "design_of"]

# Bytes of a matrix on disk that are held in memory at a time.
CHUNK = 1 << 25


@jit
def column_products(indptr, indices, data, columns, alpha, out):
    """out_k = <column columns_k, alpha>."""
    for k in range(columns.size):
        total = 0.0
        for i in range(indptr[columns[k]], indptr[columns[k] + 1]):
            total += data[i] * alpha[indices[i]]
        out[k] = total


class Design(abc.ABC):
    """Samples x features, to be multiplied.

    Attributes
    ----------
    shape
        Number of samples and of features.
    """

    shape: tuple[int, int]

    @abc.abstractmethod
    def times(self, w: Array) -> Array:
        """X w."""

    @abc.abstractmethod
    def some(self, columns: NDArray[np.int64], alpha: Array) -> Array:
        """The entries ``columns`` of X^T alpha; nothing else is computed."""

    @abc.abstractmethod
    def mix(self, columns: NDArray[np.int64], values: Array) -> Array:
        """sum_k values_k X[:, columns_k]."""

    @abc.abstractmethod
    def transposed(self, alpha: Array) -> Array:
        """X^T alpha."""

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


class SparseDesign(Design):
    """A scipy sparse matrix, held by columns."""

    def __init__(self, X: typing.Any):
        self.X = sparse.csc_array(X)
        self.shape = self.X.shape

    def times(self, w: Array) -> Array:
        return self.X @ w

    def transposed(self, alpha: Array) -> Array:
        return self.X.T @ alpha

    def largest(self) -> Array:
        return abs(self.X).max(axis=0).toarray().ravel() if 0 not in self.shape else np.zeros(self.shape[1])

    def counts(self) -> Array:
        return np.diff(self.X.indptr).astype(np.float64)

    def some(self, columns: NDArray[np.int64], alpha: Array) -> Array:
        out = np.empty(len(columns))
        column_products(self.X.indptr, self.X.indices, self.X.data, columns, alpha, out)
        return out

    def mix(self, columns: NDArray[np.int64], values: Array) -> Array:
        out = np.zeros(self.shape[0])
        X = self.X
        for j, value in zip(columns, values, strict=True):
            where = slice(X.indptr[j], X.indptr[j + 1])
            out[X.indices[where]] += value * X.data[where]
        return out


class DenseDesign(Design):
    """An array in memory, held by columns."""

    def __init__(self, X: Array):
        self.X = np.asfortranarray(X, dtype=np.float64)
        self.shape = self.X.shape

    def times(self, w: Array) -> Array:
        return self.X @ w

    def transposed(self, alpha: Array) -> Array:
        return self.X.T @ alpha

    def largest(self) -> Array:
        return np.maximum(self.X.max(axis=0), -self.X.min(axis=0))

    def some(self, columns: NDArray[np.int64], alpha: Array) -> Array:
        return self.X[:, columns].T @ alpha

    def mix(self, columns: NDArray[np.int64], values: Array) -> Array:
        return self.X[:, columns] @ values


class MappedDesign(Design):
    """An array on disk, read in chunks of about 32 MiB: of columns where it is stored by columns, else of rows.

    A sampled step reads the sampled columns alone where the file is in Fortran order; in C order it reads every page
    of the file, since a column crosses them all.
    """

    def __init__(self, X: np.memmap):
        self.X = X
        self.shape = X.shape
        self.by_columns = X.flags.f_contiguous and not X.flags.c_contiguous

    def _spans(self, size: int, other: int) -> Iterator[slice]:
        step = max(1, CHUNK // (8 * max(other, 1)))
        for start in range(0, size, step):
            yield slice(start, min(start + step, size))

    def times(self, w: Array) -> Array:
        n, d = self.shape
        if self.by_columns:
            used = np.flatnonzero(w)
            return self.mix(used, w[used])
        out = np.empty(n)
        for rows in self._spans(n, d):
            out[rows] = np.asarray(self.X[rows], dtype=np.float64) @ w
        return out

    def transposed(self, alpha: Array) -> Array:
        n, d = self.shape
        if self.by_columns:
            return self.some(np.arange(d), alpha)
        out = np.zeros(d)
        for rows in self._spans(n, d):
            out += alpha[rows] @ np.asarray(self.X[rows], dtype=np.float64)
        return out

    def largest(self) -> Array:
        n, d = self.shape
        out = np.zeros(d)
        if self.by_columns:
            for part in self._spans(d, n):
                out[part] = np.abs(self.X[:, part]).max(axis=0)
        else:
            for rows in self._spans(n, d):
                np.maximum(out, np.abs(self.X[rows]).max(axis=0), out=out)
        return out

    def some(self, columns: NDArray[np.int64], alpha: Array) -> Array:
        n = self.shape[0]
        out = np.zeros(len(columns))
        if self.by_columns:
            for part in self._spans(len(columns), n):
                out[part] = alpha @ np.asarray(self.X[:, columns[part]], dtype=np.float64)
        else:
            for rows in self._spans(n, len(columns)):
                out += alpha[rows] @ np.asarray(self.X[rows][:, columns], dtype=np.float64)
        return out

    def mix(self, columns: NDArray[np.int64], values: Array) -> Array:
        n = self.shape[0]
        out = np.zeros(n)
        if self.by_columns:
            for part in self._spans(len(columns), n):
                out += np.asarray(self.X[:, columns[part]], dtype=np.float64) @ values[part]
        else:
            for rows in self._spans(n, max(len(columns), 1)):
                out[rows] = np.asarray(self.X[rows][:, columns], dtype=np.float64) @ values
        return out


def design_of(X: typing.Any) -> Design:
    """A dense array, a memmap or a scipy sparse matrix as a design.

    Raises
    ------
    ValueError
        If it is no matrix, or has an entry that is no finite number: the message names row and column.
    """
    if sparse.issparse(X):
        csr = sparse.csr_array(X).astype(np.float64)
        bad = np.flatnonzero(~(np.abs(csr.data) <= layout.LARGEST))
        if bad.size:
            row = int(np.searchsorted(csr.indptr, bad[0], side="right") - 1)
            _refuse(row, int(csr.indices[bad[0]]), csr.data[bad[0]])
        return SparseDesign(csr)
    if np.ndim(X) != 2:
        raise ValueError(f"X must be a matrix of samples x features, got shape {np.shape(X)}")
    on_disk = isinstance(X, np.memmap)
    array = X if on_disk else np.asarray(X, dtype=np.float64)
    design: Design = MappedDesign(X) if on_disk else DenseDesign(array)
    n, d = array.shape
    # A matrix on disk is looked at once, in the order it is stored.
    by_columns = isinstance(design, MappedDesign) and design.by_columns
    spans = MappedDesign._spans(design, d if by_columns else n, n if by_columns else d)  # type: ignore[arg-type]
    for span in spans:
        part = array[:, span] if by_columns else array[span]
        entries: typing.Any = np.argwhere(~(np.abs(part) <= layout.LARGEST))
        if len(entries):
            row, column = map(int, entries[0] + ((0, span.start) if by_columns else (span.start, 0)))
            _refuse(row, column, array[row, column])
    return design


def _refuse(row: int, column: int, value: float) -> typing.NoReturn:
    raise ValueError(f"X[{row}, {column}] is {value}; expected a finite number of at most {layout.LARGEST:g}")
