"""Ratings as they came: two growing indices, entries stored append-only, their mean and biases."""

from __future__ import annotations

import typing

import numpy as np

from fwonline._kernels import lowrank
from fwonline._kernels.room import longer

if typing.TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

__all__ = ["DAMPING", "Index", "Ratings"]

# A user's or item's bias is the mean of what its ratings leave over, as if as many ratings that leave 0 were there.
DAMPING = 5.0


class Index:
    """Names to positions, in the order in which they came."""

    def __init__(self) -> None:
        self.names: list[typing.Any] = []
        self.positions: dict[typing.Any, int] = {}

    def __len__(self) -> int:
        return len(self.names)

    def enter(self, name: Hashable) -> int:
        """The position of a name, which is new if it was not known."""
        position = self.positions.setdefault(name, len(self.names))
        if position == len(self.names):
            self.names.append(name)
        return position

    def __getstate__(self) -> dict:
        return {"names": self.names}

    def __setstate__(self, state: dict) -> None:
        self.names = state["names"]
        self.positions = {name: k for k, name in enumerate(self.names)}


class Ratings:
    """What was rated, by whom, how; a second rating of an item by a user takes the place of the first.

    The mean is exact at all times. A rating moves the biases of its user and item at once, and every step of a model
    sweeps over all of them, so that they follow the mean and each other.
    """

    def __init__(self) -> None:
        self.users, self.items = Index(), Index()
        self.count = 0
        self.mean = 0.0
        self.rows = np.zeros(64, dtype=np.uint32)
        self.cols = np.zeros(64, dtype=np.uint32)
        self.y = np.zeros(64)
        self.of_user, self.of_item = np.zeros(8), np.zeros(8)
        self.n_user, self.n_item = np.zeros(8), np.zeros(8)
        self._table = np.zeros(128, dtype=np.int64)

    @property
    def shape(self) -> tuple[int, int]:
        """Users and items."""
        return len(self.users), len(self.items)

    def enter(self, user: Hashable, item: Hashable, y: float) -> None:
        """Store a rating."""
        row, col = self.users.enter(user), self.items.enter(item)
        if row >= self.n_user.size:
            self.of_user, self.n_user = longer(self.of_user, 2 * row), longer(self.n_user, 2 * row)
        if col >= self.n_item.size:
            self.of_item, self.n_item = longer(self.of_item, 2 * col), longer(self.n_item, 2 * col)
        place = lowrank.find(self._table, self.rows, self.cols, row, col)
        at = int(self._table[place]) - 1
        if at >= 0:
            self.mean += (y - float(self.y[at])) / self.count
            self.y[at] = y
            return
        if self.count == self.y.size:
            self._grow()
            place = lowrank.find(self._table, self.rows, self.cols, row, col)
        at = self.count
        self.rows[at], self.cols[at], self.y[at] = row, col, y
        self.count += 1
        self._table[place] = self.count
        self.mean += (y - self.mean) / self.count
        self.n_user[row] += 1.0
        self.n_item[col] += 1.0
        left = y - self.mean - self.of_user[row] - self.of_item[col]
        self.of_user[row] += left / (self.n_user[row] + DAMPING)
        self.of_item[col] += left / (self.n_item[col] + DAMPING)

    def _grow(self) -> None:
        size = 2 * self.y.size
        self.rows, self.cols, self.y = (longer(a, size) for a in (self.rows, self.cols, self.y))
        self._fill_table()

    def _fill_table(self) -> None:
        self._table = np.zeros(2 * self.y.size, dtype=np.int64)
        lowrank.rebuild(self._table, self.rows, self.cols, self.count)

    def sweep(self) -> None:
        """Fit the biases anew to all ratings, once over."""
        m, n = self.shape
        lowrank.bias_sweep(
            self.rows, self.cols, self.y, self.count, self.mean,
            self.of_user[:m], self.of_item[:n], self.n_user[:m], self.n_item[:n], DAMPING,
        )  # fmt: skip

    def bias(self, row: int | None, col: int | None) -> float:
        """Mean and biases; what is not known has none."""
        of_user = 0.0 if row is None else float(self.of_user[row])
        of_item = 0.0 if col is None else float(self.of_item[col])
        return self.mean + of_user + of_item

    def biases(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> NDArray[np.float64]:
        """Mean and biases of many pairs that are known."""
        return self.mean + self.of_user[rows] + self.of_item[cols]

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name != "_table"}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        m, n = self.shape
        rows, cols = self.rows[: self.count], self.cols[: self.count]
        fits = (
            self.rows.size == self.cols.size == self.y.size >= self.count >= 0
            and self.rows.dtype == self.cols.dtype == np.uint32
            and self.of_user.size == self.n_user.size >= m
            and self.of_item.size == self.n_item.size >= n
            and (not self.count or (rows.max() < m and cols.max() < n))
        )
        if not fits:
            raise ValueError("the saved ratings are inconsistent: their arrays do not fit each other")
        self._fill_table()
