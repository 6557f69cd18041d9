"""NumPy's archives: a matrix, dense or sparse, and the targets of its rows."""

from __future__ import annotations

import io
import math
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fwonline.exceptions import SourceError
from fwonline.stream.arrays.table import VALUES, Rows, TableSource
from fwonline.stream.base import Rejected, Sample
from fwonline.stream.block import Block

__all__ = ["NPZSource"]

#: More bytes than this are never held at once: of one row, of names, of a matrix that cannot be read row by row.
_MOST = 1 << 28
#: A longer header, and a longer label, is none.
_HEADER, _LABEL = 1 << 14, 1 << 10
#: Ends of sparse rows that are read at once.
_ENDS = 4096
#: Positions of columns are 32-bit numbers.
_COLUMNS = (1 << 31) - 1


class NPZSource(TableSource):
    """The rows of a matrix in a NumPy archive (``.npz``), with the targets beside it.

    The archive is one of these:

    - ``numpy.savez(path, X=X, y=y)``: a matrix of n rows and p columns, and n targets, which are numbers, booleans or
      texts. A row has all p features.
    - the arrays that ``scipy.sparse.save_npz`` writes of a CSR matrix, and the targets: ``numpy.savez(path, y=y,
      **{part: getattr(X, part) for part in ("data", "indices", "indptr", "shape")})``. A row has the features that it
      stores.

    An array ``names`` of p texts names the features; without it, they are the integers 0 to p - 1. Arrays are read a
    part at a time, compressed or not, so that memory does not grow with the matrix (one in Fortran's order is read as
    a whole, if it has no more than 256 MiB). The position is the number of rows read.

    Nothing in an archive is run: arrays of objects, which only pickle reads, are refused. Sizes that a header promises
    are compared with what is there before anything is read. A sparse row that names a column which is not there, or one
    column twice, is rejected.

    Parameters
    ----------
    path
        The file.
    target
        The array of targets. None: every sample is a question.
    matrix
        The array of rows, if the matrix is dense.
    feature_names
        The array of the features' names, if there is one.
    require_target
        Whether it is an error that there is no array of targets. If not, every sample is a question.
    name
        The file's name in messages; by default its path.

    Raises
    ------
    SourceError
        While reading: when the file is missing, no such archive, lacks an array, has one of another kind or shape, or
        has another number of rows than the one that the position sought was taken from.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile
    >>> from fwonline import stream
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "a.npz"
    ...     np.savez(path, X=[[0.5, 2.0], [1.5, 0.0]], y=[True, False], names=["age", "visits"])
    ...     with stream.NPZSource(path, name="a.npz") as source:
    ...         for sample in source:
    ...             print(sample.x, sample.y, sample.origin)
    {'age': 0.5, 'visits': 2.0} True a.npz:1
    {'age': 1.5, 'visits': 0.0} False a.npz:2
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str | None = "y",
        *,
        matrix: str = "X",
        feature_names: str = "names",
        require_target: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(path, name)
        self.require_target = require_target
        self.target = target
        self.matrix = matrix
        self.feature_names = feature_names

    def _read(self) -> Iterator[Rows]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                yield from self._matrix(_Archive(archive, self.name))
        except SourceError:
            raise
        # zipfile says RuntimeError of what is encrypted, and NotImplementedError of a compression it does not know
        except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            what = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise SourceError(f"{self.name}: expected a NumPy archive (.npz): {what}") from error

    def _matrix(self, archive: _Archive) -> Iterator[Rows]:
        is_sparse = self.matrix not in archive.names and "indptr" in archive.names
        matrix: _Dense | _Sparse = _Sparse(archive) if is_sparse else _Dense(archive, self.matrix)
        n, p = matrix.shape
        y, names = None, None
        if self.target is not None and (self.require_target or self.target in archive.names):
            y = archive.array(self.target, "fiubU", (n,))
            if y.dtype.itemsize > _LABEL:
                raise y.wrong(f"texts of at most {_LABEL // 4:,} characters", y.dtype)
        if self.feature_names in archive.names:
            texts = archive.array(self.feature_names, "U", (p,))
            names = texts.whole().tolist()
            if len(set(names)) < p:
                raise texts.wrong("every name once", "one of them twice")
        self._expect(n)
        first = min(self._row, n)
        if y is not None:
            y.skip(first)
        for size, part in matrix.parts(first):
            yield matrix.rows(self.name, first, part, None if y is None else y.take(size), p, names)
            first += size


class _Archive:
    """The arrays of an archive by name. Nothing of one is read before its header was checked."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self.name = name
        self.archive = archive
        self.names = [member.removesuffix(".npy") for member in archive.namelist() if member.endswith(".npy")]

    def array(self, name: str, kinds: str, shape: tuple[int | None, ...]) -> _Array:
        """Open an array of some kinds (as in ``numpy.dtype.kind``) and of a shape; None is any number of at least 1."""
        if name not in self.names:
            shown = ", ".join(self.names[:8]) + (", ..." if len(self.names) > 8 else "")
            raise SourceError(f"{self.name}: expected an array {name!r}, found {shown or 'none'}")
        return _Array(self, name, kinds, shape)


class _Array:
    """An array of an archive, read from its start to its end."""

    def __init__(self, archive: _Archive, name: str, kinds: str, shape: tuple[int | None, ...]) -> None:
        self._place = f"{archive.name}: array {name!r}"
        info = archive.archive.getinfo(f"{name}.npy")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others may ask for much memory
            raise self.wrong("numpy.savez or numpy.savez_compressed", f"compression {info.compress_type}")
        self._file: Any = archive.archive.open(info)
        head = io.BytesIO(self._file.read(_HEADER))  # which may promise gigabytes of itself
        try:
            version = np.lib.format.read_magic(head)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            self.shape, self.is_fortran, self.dtype = read(head)
        except Exception as error:  # what is no Python text makes its parser say all sorts of things
            raise self.wrong("a header of version 1.0 or 2.0", f"another: {str(error)[:80]}") from None
        if self.dtype.hasobject:
            raise self.wrong("numbers or texts", "objects of Python, which only pickle could read")
        if self.dtype.kind not in kinds or not 0 < self.dtype.itemsize <= (_MOST if self.dtype.kind == "U" else 8):
            named = {"f": "floats", "i": "integers", "b": "booleans", "U": "texts"}
            raise self.wrong(", ".join(word for kind, word in named.items() if kind in kinds), self.dtype)
        fits = len(self.shape) == len(shape) and all(
            size >= 1 if expected is None else size == expected
            for size, expected in zip(self.shape, shape, strict=True)
        )
        if not fits:
            expected = str(tuple("any" if size is None else size for size in shape)).replace("'any'", "1 or more")
            raise self.wrong(f"shape {expected}", self.shape)
        self.n_bytes = math.prod(self.shape) * self.dtype.itemsize
        if self.n_bytes != info.file_size - head.tell():
            raise self.wrong(f"{self.n_bytes:,} bytes by its header", f"{info.file_size - head.tell():,}")
        self._file.seek(head.tell())

    def wrong(self, expected: str, found: Any) -> SourceError:
        return SourceError(f"{self._place}: expected {expected}, found {found}")

    def take(self, n: int) -> NDArray[Any]:
        """Return the next `n` rows, or entries, in memory of their own."""
        values = np.empty((n, *self.shape[1:]), self.dtype)
        free = memoryview(values.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        while free:
            if not (size := self._file.readinto(free)):
                raise self.wrong("more", "its end")
            free = free[size:]
        return values

    def skip(self, n: int) -> None:
        """Pass over rows, or entries."""
        place = self._file.tell() + n * math.prod(self.shape[1:]) * self.dtype.itemsize
        if self._file.seek(place) != place:
            raise self.wrong("more", "its end")

    def whole(self) -> NDArray[Any]:
        """Return all of an array that fits into memory."""
        if self.n_bytes > _MOST:
            raise self.wrong(f"at most {_MOST:,} bytes", f"{self.n_bytes:,}")
        if not self.is_fortran:
            return self.take(self.shape[0]) if self.shape else self.take(1)[0]
        self.shape = self.shape[::-1]
        return self.take(self.shape[0]).T


class _Dense:
    """A dense matrix in an archive."""

    def __init__(self, archive: _Archive, name: str) -> None:
        self._array = array = archive.array(name, "fiub", (None, None))
        self.shape = _, p = array.shape
        if 8 * p > _MOST:
            raise array.wrong(f"at most {_MOST // 8:,} columns", f"{p:,}")
        self.rows: Callable[..., Rows] = _DenseRows

    def parts(self, first: int) -> Iterator[tuple[int, Any]]:
        n, p = self.shape
        size = max(1, min(VALUES // p, 1 << 16))
        whole = self._array.whole() if self._array.is_fortran else None
        if whole is None:
            self._array.skip(first)
        for start in range(first, n, size):
            stop = min(n, start + size)
            yield stop - start, self._array.take(stop - start) if whole is None else whole[start:stop]


class _Sparse:
    """A CSR matrix in an archive, as scipy writes it."""

    def __init__(self, archive: _Archive) -> None:
        if "format" in archive.names:
            kind = archive.array("format", "SU", ())
            found = kind.whole().item()
            found = found.decode(errors="replace") if isinstance(found, bytes) else found
            if found != "csr":
                raise kind.wrong("csr (scipy.sparse: X.tocsr())", found)
        shape = archive.array("shape", "iu", (2,))
        self.shape = n, p = shape.whole().tolist()
        if n < 1 or not 1 <= p <= _COLUMNS:
            raise shape.wrong(f"1 or more rows and columns, and at most {_COLUMNS:,} columns", self.shape)
        self._ends = archive.array("indptr", "iu", (n + 1,))
        self._data = archive.array("data", "fiub", (None,))
        self._indices = archive.array("indices", "iu", self._data.shape)
        self.rows: Callable[..., Rows] = _SparseRows

    def parts(self, first: int) -> Iterator[tuple[int, Any]]:
        n, n_values = self.shape[0], self._data.shape[0]
        self._ends.skip(first)
        begin = int(self._ends.take(1)[0])
        if not 0 <= begin <= n_values or (begin and not first):
            raise self._ends.wrong(f"0 at first, and at most {n_values:,}", f"{begin:,} for row {first + 1:,}")
        self._data.skip(begin)
        self._indices.skip(begin)
        while first < n:
            ends = self._ends.take(min(_ENDS, n - first)).astype(np.int64)
            wrong = np.flatnonzero((np.diff(ends, prepend=begin) < 0) | (ends > n_values))
            start, found = 0, f"{ends[wrong[0]]:,} behind row {first + wrong[0] + 1:,}" if len(wrong) else ""
            ends = ends[: wrong[0]] if found else ends
            while start < len(ends):
                stop = max(start + 1, int(np.searchsorted(ends, begin + VALUES, side="right")))
                size = int(ends[stop - 1]) - begin
                if size * 16 > _MOST:
                    row = f"{size:,} in row {first + start + 1:,}"
                    raise self._data.wrong(f"at most {_MOST // 16:,} values a row", row)
                ptr = np.concatenate(([0], ends[start:stop] - begin))
                yield stop - start, (ptr, self._indices.take(size), self._data.take(size))
                begin, start = int(ends[stop - 1]), stop
            if found:
                raise self._ends.wrong(f"numbers that do not fall, and at most {n_values:,}", found)
            first += len(ends)


class _DenseRows(Rows):
    def __init__(
        self,
        name: str,
        first: int,
        values: NDArray[Any],
        y: NDArray[Any] | None,
        p: int,
        names: list[str] | None,
    ) -> None:
        n = len(values)
        super().__init__(name, first, n, np.arange(n if y is None else 0))
        self._values, self._y, self._names = values, y, names
        self._columns = range(p) if names is None else names

    @cached_property
    def _arrays(self) -> tuple[NDArray[np.float64], NDArray[Any]]:
        return np.ascontiguousarray(self._values, np.float64), _targets(self._y)

    def item(self, row: int) -> Sample | Rejected:
        x = dict(zip(self._columns, self._values[row].tolist(), strict=True))
        return Sample(x, None if self._y is None else self._y[row].item(), None, None, self.origin(row))

    def block(self, start: int, stop: int) -> Block:
        X, y = self._arrays
        return Block(X[start:stop], y[start:stop], self.origins(start), self._names)


class _SparseRows(Rows):
    def __init__(
        self,
        name: str,
        first: int,
        arrays: tuple[NDArray[Any], ...],
        y: NDArray[Any] | None,
        p: int,
        names: list[str] | None,
    ) -> None:
        self._ptr, self._columns, self._values = arrays
        self._y, self._p, self._names = y, p, names
        n = len(self._ptr) - 1
        super().__init__(name, first, n, np.arange(n) if y is None else self._irregular())

    def _irregular(self) -> NDArray[np.int64]:
        """The rows that store nothing, a column that is not there, or one twice."""
        ptr, columns = self._ptr, self._columns
        sizes = np.diff(ptr)
        is_alone = sizes == 0
        rises = np.ones(len(columns), bool)
        rises[1:] = columns[1:] > columns[:-1]
        rises[ptr[:-1][~is_alone]] = True
        if not rises.all() or columns.min(initial=0) < 0 or columns.max(initial=0) >= self._p:
            row = np.repeat(np.arange(len(sizes)), sizes)
            is_alone[row[(columns < 0) | (columns >= self._p)]] = True
            order = np.lexsort((columns, row))
            row, columns = row[order], columns[order]
            is_alone[row[1:][(row[1:] == row[:-1]) & (columns[1:] == columns[:-1])]] = True
        return np.flatnonzero(is_alone)

    @cached_property
    def _arrays(self) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[Any]]:
        return self._columns.astype(np.int32), self._values.astype(np.float64, copy=False), _targets(self._y)

    def item(self, row: int) -> Sample | Rejected:
        begin, end = self._ptr[row : row + 2].tolist()
        columns, values = self._columns[begin:end].tolist(), self._values[begin:end].tolist()
        origin, why, seen = self.origin(row), "", set()
        for column in columns:
            if not 0 <= column < self._p:
                why = f"column {column}: expected 0 to {self._p - 1}"
            elif column in seen:
                why = f"column {column}: expected once, found twice"
            seen.add(column)
        if why:
            return Rejected({"indices": columns, "data": values}, f"{origin}: {why}", origin)
        names = columns if self._names is None else [self._names[column] for column in columns]
        x = dict(zip(names, values, strict=True))
        return Sample(x, None if self._y is None else self._y[row].item(), None, None, origin)

    def block(self, start: int, stop: int) -> Block:
        columns, values, y = self._arrays
        ptr = self._ptr[start : stop + 1]
        begin, end = ptr[0], ptr[-1]
        X = sparse.csr_array((values[begin:end], columns[begin:end], ptr - begin), shape=(stop - start, self._p))
        return Block(X, y[start:stop], self.origins(start), self._names)


def _targets(y: NDArray[Any] | None) -> NDArray[Any]:
    assert y is not None  # rows without targets are in no block
    return y.astype({"f": np.float64, "i": np.int64, "u": np.uint64, "U": object}.get(y.dtype.kind, bool), copy=False)
