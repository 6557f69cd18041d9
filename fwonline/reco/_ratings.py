"""Ratings as they came: two growing indices, entries found by what they rate, their mean and biases."""

from __future__ import annotations

import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import lowrank
from fwonline._kernels.entry import Direct
from fwonline._kernels.layout import LARGEST
from fwonline._room import WithScratch, longer

if typing.TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

__all__ = ["DAMPING", "Index", "Ratings"]

# A user's or item's bias is the mean of what its ratings leave over, as if as many ratings that leave 0 were there.
DAMPING = 5.0
# Rounds of fitting biases anew after which they hardly move.
_SWEEPS = 10
# A bias is a damped mean of what is left of ratings, and one and the other may lean on each other.
_MOST_BIAS = 1e6 * LARGEST
# Ratings are put into the order of rows once more than one in so many came since they last were.
_MOST_LATE = 8

_enter, _bias_sweep = Direct(lowrank.enter), Direct(lowrank.bias_sweep)


class Index:
    """Names to positions, in the order in which they came."""

    def __init__(self) -> None:
        self.positions: dict[typing.Any, int] = {}

    def __len__(self) -> int:
        return len(self.positions)

    def enter_one(self, name: Hashable) -> int:
        """The position of a name; one that was not known is new."""
        return self.positions.setdefault(name, len(self.positions))

    def enter(self, names: Sequence[Hashable]) -> NDArray[np.uint32]:
        """The positions of names; one that was not known is new."""
        positions = self.positions
        found = (positions.setdefault(name, len(positions)) for name in names)
        return np.fromiter(found, dtype=np.uint32, count=len(names))

    def find(self, names: Sequence[Hashable]) -> NDArray[np.int64]:
        """The positions of names, -1 where one is not known."""
        found = (self.positions.get(name, -1) for name in names)
        return np.fromiter(found, dtype=np.int64, count=len(names))

    def size_with(self, names: Sequence[Hashable]) -> int:
        """How many there are once these have entered."""
        return len(self.positions) + sum(name not in self.positions for name in set(names))

    def __getstate__(self) -> dict:
        return {"names": list(self.positions)}

    def __setstate__(self, state: dict) -> None:
        names = state["names"]
        if type(names) is not list:
            _loaded.fail(self, "names", "a list", type(names).__name__)
        self.positions = {name: k for k, name in enumerate(names)}

    def _check_loaded(self) -> None:
        _loaded.names(self, "names", self.positions)
        # A name that came twice has left its first position to none.
        is_whole = all(k == position for k, position in enumerate(self.positions.values()))
        _loaded.require(self, "names", is_whole, "names that are all different")


class Ratings(WithScratch):
    """What was rated, by whom, how; a second rating of an item by a user takes the place of the first.

    The mean is exact at all times. A rating moves the biases of its user and item at once, and every step of a model
    that uses them sweeps over all, so that they follow the mean and each other.

    The first `arranged` ratings are in the order of rows, those of row i from starts[i] on, so that a pass over all
    finds a row's in one place. The others are in the order in which they came.
    """

    _scratch = ("_table", "_starts", "_one", "held", "of_names")
    _starts: NDArray[np.int64]

    def __init__(self) -> None:
        self.users, self.items = Index(), Index()
        self.count = self.arranged = 0
        self.mean = 0.0
        self.rows = np.zeros(64, dtype=np.uint32)
        self.cols = np.zeros(64, dtype=np.uint32)
        self.y = np.zeros(64)
        self.of_user, self.of_item = np.zeros(8), np.zeros(8)
        self.n_user, self.n_item = np.zeros(8), np.zeros(8)
        self._make_scratch()

    def _make_scratch(self) -> None:
        # What is written there decides where others are read: nothing else of a file may hold the same memory.
        _loaded.owned(self, "rows", "cols")
        self._fill_table()
        self._find_starts()
        self._one = lowrank.Entries(np.zeros(1, dtype=np.uint32), np.zeros(1, dtype=np.uint32), np.zeros(1))
        self._bind()

    def _bind(self) -> None:
        """Name the arrays for kernels; to be called where one is replaced."""
        self.held = lowrank.Entries(self.rows, self.cols, self.y)
        self.of_names = lowrank.Biases(self.of_user, self.of_item, self.n_user, self.n_item)

    @property
    def shape(self) -> tuple[int, int]:
        """Users and items."""
        return len(self.users), len(self.items)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each row's begin among those that are arranged, and where the last row's end."""
        m = len(self.users)
        if self._starts.size <= m:
            self._starts = np.append(self._starts, np.full(m + 1 - self._starts.size, self.arranged))
        return self._starts

    def enter(self, users: Sequence[Hashable], items: Sequence[Hashable], y: NDArray[np.float64]) -> None:
        """Store ratings, one after another."""
        self._enter(lowrank.Entries(self.users.enter(users), self.items.enter(items), y))

    def enter_one(self, user: Hashable, item: Hashable, y: float) -> None:
        """Store a rating."""
        row, col, rating = self._one
        row[0], col[0], rating[0] = self.users.enter_one(user), self.items.enter_one(item), y
        self._enter(self._one)

    def enter_all(self, other: Ratings) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Store what is stored elsewhere; returns where its users and items stand here."""
        users, items = self.users.enter(list(other.users.positions)), self.items.enter(list(other.items.positions))
        kept = slice(other.count)
        self._enter(lowrank.Entries(users[other.rows[kept]], items[other.cols[kept]], other.y[kept]))
        return users, items

    def arrange_and_fit(self) -> None:
        """Put all into the order of rows, and fit the biases until they hardly move."""
        self.arrange()
        for _ in range(_SWEEPS):
            self.sweep()

    def _enter(self, new: lowrank.Entries) -> None:
        m, n, count = len(self.users.positions), len(self.items.positions), self.count + new.values.size
        if m > self.n_user.size or n > self.n_item.size or count > self.y.size:
            self._grow(m, n, count)
        self.count, self.mean = _enter(None, self._table, self.held, self.count, self.mean, self.of_names, DAMPING, new)

    def _grow(self, m: int, n: int, count: int) -> None:
        """Make room for so many users, items and ratings, and for more to come."""
        if m > self.n_user.size:
            self.of_user, self.n_user = longer(self.of_user, 2 * m), longer(self.n_user, 2 * m)
        if n > self.n_item.size:
            self.of_item, self.n_item = longer(self.of_item, 2 * n), longer(self.n_item, 2 * n)
        if count > self.y.size:
            size = max(2 * self.y.size, count)
            self.rows, self.cols, self.y = (longer(a, size) for a in (self.rows, self.cols, self.y))
            self._fill_table()
        self._bind()

    def _fill_table(self) -> None:
        """Twice as many places as there is room for ratings, a power of two."""
        self._table = np.zeros(2 << (self.y.size - 1).bit_length(), dtype=np.int64)
        lowrank.rebuild(self._table, self.rows, self.cols, self.count)

    def arrange(self) -> NDArray[np.intp] | None:
        """Put all into the order of rows, where enough came since; returns where each stood, None if nothing moves."""
        if _MOST_LATE * (self.count - self.arranged) <= self.count:
            return None
        kept = slice(0, self.count)
        order = np.argsort(self.rows[kept], kind="stable")
        for array in self.held:
            array[kept] = array[order]
        self.arranged = self.count
        self._find_starts()
        self._fill_table()
        return order

    def _find_starts(self) -> None:
        self._starts = np.searchsorted(self.rows[: self.arranged], np.arange(len(self.users) + 1))

    def sweep(self) -> None:
        """Fit the biases anew to all ratings, once over."""
        m, n = self.shape
        kept = lowrank.Biases(self.of_user[:m], self.of_item[:n], self.n_user[:m], self.n_item[:n])
        _bias_sweep(None, self.starts, self.held, self.count, self.mean, kept, DAMPING)

    def bias(self, row: int | None, col: int | None) -> float:
        """Mean and biases; what is not known has none."""
        of_user = 0.0 if row is None else float(self.of_user[row])
        of_item = 0.0 if col is None else float(self.of_item[col])
        return self.mean + of_user + of_item

    def biases(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> NDArray[np.float64]:
        """Mean and biases of many pairs that are known."""
        return self.mean + self.of_user[rows] + self.of_item[cols]

    def _check_sizes(self) -> None:
        """See that positions are positions of what there is."""
        _loaded.instance(self, "users", Index)
        _loaded.instance(self, "items", Index)
        m, n = self.shape
        room = _loaded.array(self, "y", np.float64, (None,)).size
        _loaded.require(self, "y", room > 0, "room for a rating")
        count = _loaded.count(self, "count", 0, room)
        arranged = _loaded.count(self, "arranged", 0, count)
        for name, size in (("rows", m), ("cols", n)):
            positions = _loaded.array(self, name, np.uint32, (room,))[:count]
            _loaded.require(self, name, not count or positions.max() < size, f"positions below {size}")
        rows = self.rows[:arranged]
        _loaded.require(self, "rows", (rows[1:] >= rows[:-1]).all(), "the arranged ones in ascending order")
        for of, number, size in (("of_user", "n_user", m), ("of_item", "n_item", n)):
            have = _loaded.array(self, of, np.float64, (None,)).size
            _loaded.require(self, of, have >= size, f"one for each of {size}")
            _loaded.array(self, number, np.float64, (have,))

    def _check_loaded(self) -> None:
        _loaded.like(self, Ratings())
        _loaded.claim(self, "users", "items")
        for index in (self.users, self.items):
            index._check_loaded()
        self._check_sizes()
        kept, (m, n) = slice(self.count), self.shape
        pairs = self.rows[kept].astype(np.int64) << 32 | self.cols[kept]
        _loaded.require(self, "rows", np.unique(pairs).size == self.count, "each pair of user and item once")
        y = self.y[kept]
        _loaded.require(self, "y", (np.abs(y) <= LARGEST).all(), f"ratings of at most {LARGEST:g} in size")
        # Ratings that others have replaced are part of the rounding of what is left.
        _loaded.real(self, "mean", -1.001 * LARGEST, 1.001 * LARGEST)
        for of, number, positions, size in (
            ("of_user", "n_user", self.rows[kept], m),
            ("of_item", "n_item", self.cols[kept], n),
        ):
            numbers = np.bincount(positions, minlength=getattr(self, number).size)
            _loaded.require(self, number, (getattr(self, number) == numbers).all(), "how many ratings each has")
            _loaded.require(self, number, numbers[:size].all(), "a rating of each")
            biases = getattr(self, of)
            _loaded.require(self, of, not biases[size:].any(), "zeros where nothing stands yet")
            _loaded.require(self, of, (np.abs(biases) <= _MOST_BIAS).all(), f"biases of at most {_MOST_BIAS:g}")
