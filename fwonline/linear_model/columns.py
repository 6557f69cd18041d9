"""The rows of a matrix of named columns on their way into a run: by positions, which new names get row by row."""

from __future__ import annotations

import typing

import numpy as np

from fwonline._kernels.state import Rows
from fwonline._positions import missing
from fwonline._protocols import LastSamples
from fwonline.optim.problem.data import as_rows

if typing.TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from fwonline.features import FeatureIndex
    from fwonline.optim.runs.run import Run

    Floats = NDArray[np.float64]

__all__ = ["NamedRows", "dense_rows", "sparse_rows"]

# Stands for the position of a column that has none.
NONE = np.uint32(0xFFFFFFFF)
# Columns, at most, whose positions are kept from one matrix to the next.
KEPT = 1 << 24


class NamedRows:
    """Rows with their targets, whose entries are known by name until they are placed.

    Parameters
    ----------
    rows
        The entries' values and the targets; positions are written there.
    names
        The columns' names.
    columns
        Of each entry; None where every row has all columns.
    features
        What gives positions to names.

    Attributes
    ----------
    brings
        The new names by the row that shows them first.
    """

    def __init__(
        self, rows: Rows, names: Sequence[Hashable], columns: NDArray[np.integer] | None, features: FeatureIndex
    ) -> None:
        self.rows = rows
        self.n = len(rows.y)
        self.brings: dict[int, list[int]] = {}
        self._names, self._columns, self._features = names, columns, features
        self._known: list[tuple[int, int]] = []  # from which row on, how many features

    def answering(self, answers: int, asked: Floats | None) -> typing.Self:
        """Let kernels say what they predict, with other values where these are given."""
        self.rows = self.rows.played(max(answers, int(asked is not None and asked.size > 0)), asked)
        return self

    def bring(self, row: int) -> NDArray[np.int64] | None:
        """Give positions to the names that a row shows first; returns the ranks of the new ones."""
        raise NotImplementedError

    def place(self, first: int, last: int) -> None:
        """Write the positions of the entries of these rows."""
        self._known.append((first, len(self._features)))

    def sample(self, row: int) -> dict:
        """A row as a sample."""
        start, stop = self.rows.indptr[row : row + 2].tolist()
        values = self.rows.val[start:stop].tolist()
        if self._columns is None:
            return dict(zip(self._names, values, strict=True))
        return {self._names[j]: v for j, v in zip(self._columns[start:stop].tolist(), values, strict=True)}

    def answers(self, n: int) -> Floats:
        """The raw predictions of the first rows, shape (n, scores)."""
        return self.rows.shown[:n] if self.rows.shown.shape[1] else self.rows.noted[:n, :1]

    def learned(self, n: int, run: Run) -> LastSamples:
        """The first rows as the optimizer saw them; the newest of them stands in its buffers."""
        rows, end = self.rows, int(self.rows.indptr[n])
        firsts, counts = np.array(self._known or [(0, 0)]).T
        noted = rows.noted[:n]
        gaps = np.append(noted[1:, 1], run.s.gap)[:n] if run.gap_is_kept else None
        if n:
            start = int(rows.indptr[n - 1])
            run.keep_last(rows.idx[start:end], rows.val[start:end], float(rows.y[n - 1]))
            self._features.forget_buffer()
        known = counts[np.searchsorted(firsts, np.arange(n), side="right") - 1]
        return LastSamples(rows.indptr[: n + 1], rows.idx[:end], rows.val[:end], rows.y[:n], noted[:, 0], gaps, known)


class _Dense(NamedRows):
    """Every row has all columns, which the first one brings."""

    def bring(self, row: int) -> NDArray[np.int64] | None:
        if row:
            return None
        columns = self._features.columns(self._names)
        d = len(self._names)
        self.rows.idx.reshape(self.n, d)[:] = np.arange(d) if columns is None else columns
        return self._features.new_ranks


class _Sparse(NamedRows):
    """Rows have the columns that they store."""

    def __init__(self, rows: Rows, names: Sequence[Hashable], columns: NDArray[np.integer], features: FeatureIndex):
        super().__init__(rows, names, columns, features)
        end = rows.indptr[self.n]
        self._used = columns[:end]
        if end and isinstance(names, range) and self._used.max() >= KEPT:
            # So many columns that a table of all would be large: one of those that are met.
            met, self._used = np.unique(self._used, return_inverse=True)
            self._table, self._called = Table(met.tolist()), met.tolist()
        else:
            self._table, self._called = Table.of(names, features), names
        self._look_up()

    def _look_up(self) -> None:
        idx, used, table = self.rows.idx[: self._used.size], self._used, self._table
        idx[:] = table.find(used, self._features)
        unknown = np.flatnonzero(idx == NONE)
        if not unknown.size:
            return
        # Where each new column is met first: written from the last entry to the first, the first one stays.
        first = np.full(len(table.positions), -1)
        first[used[unknown[::-1]]] = unknown[::-1]
        at = np.sort(first[first >= 0])
        rows = np.searchsorted(self.rows.indptr, at, side="right") - 1
        for row, column in zip(rows.tolist(), used[at].tolist(), strict=True):
            self.brings.setdefault(row, []).append(column)

    def bring(self, row: int) -> NDArray[np.int64] | None:
        columns = self.brings.get(row)
        if columns is None:
            return None
        features, names = self._features, [self._called[j] for j in columns]
        new = missing(features.positions, names)
        ranks = features.add(new) if new else None
        self._table.positions[columns] = [features.positions[name] for name in names]
        return ranks

    def place(self, first: int, last: int) -> None:
        super().place(first, last)
        if self.brings:
            where = slice(self.rows.indptr[first], self.rows.indptr[last])
            self.rows.idx[where] = self._table.positions[self._used[where]]


class Table:
    """Positions of the columns of sparse matrices, as far as they have been looked up."""

    def __init__(self, names: Sequence[Hashable]) -> None:
        self.names = names
        self.positions = np.full(len(names), NONE)

    @classmethod
    def of(cls, names: Sequence[Hashable], features: FeatureIndex) -> Table:
        """The table for columns of these names: that of the matrix before, if it fits."""
        table = features.table
        if isinstance(table, cls):
            if isinstance(names, range) and isinstance(table.names, range):
                if (more := len(names) - len(table.names)) > 0:
                    table.positions = np.append(table.positions, np.full(more, NONE))
                    table.names = names
                return table
            if type(names) is type(table.names) and list(names) == table.names:
                return table
        features.table = cls(names if isinstance(names, range) else list(names))
        return features.table

    def find(self, columns: NDArray[np.integer], features: FeatureIndex) -> NDArray[np.uint32]:
        """The positions of columns, ``NONE`` for those of new names."""
        found = self.positions[columns]
        new = np.flatnonzero(found == NONE)
        if new.size:
            met = np.zeros(len(self.positions), dtype=bool)
            met[columns[new]] = True
            asked = np.flatnonzero(met)
            positions = [features.positions.get(self.names[column], NONE) for column in asked.tolist()]
            self.positions[asked] = positions
            found[new] = self.positions[columns[new]]
        return found


def dense_rows(X: NDArray[np.float64], targets: Floats, names: Sequence[Hashable], features: FeatureIndex) -> NamedRows:
    """The first rows of a dense matrix, all its entries, zeros too; as many as there are targets."""
    n, d = len(targets), X.shape[1]
    values = np.ascontiguousarray(X[:n], dtype=np.float64).reshape(-1)
    rows = Rows.of(
        np.arange(0, n * d + 1, d) if d else np.zeros(n + 1, np.int64), np.empty(n * d, np.uint32), values, targets
    )
    return _Dense(rows, names, None, features)


def sparse_rows(X: typing.Any, targets: Floats, names: Sequence[Hashable], features: FeatureIndex) -> NamedRows:
    """The first rows of a sparse matrix, as many as there are targets."""
    (indptr, columns, values, _), _ = as_rows(X, np.zeros(X.shape[0]), check=False)
    rows = Rows.of(indptr, np.empty(columns.size, np.uint32), values, targets)
    return _Sparse(rows, names, columns, features)
