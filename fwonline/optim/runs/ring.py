"""The last samples of a stream, as a finite sum has them."""

from __future__ import annotations

import typing

import numpy as np
from scipy import sparse

from fwonline import _loaded
from fwonline._kernels import layout
from fwonline.optim.problem.data import SparseRows

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["Ring"]


class Ring:
    """The last samples, each in a slot of its own; a new one takes the oldest one's slot.

    Entries are written one sample after another into a pool, which is written anew, without what has left, when it is
    full: so a sample costs O(its entries), amortised.

    Parameters
    ----------
    capacity
        Samples held, at most.

    Attributes
    ----------
    live
        Samples held.
    start, length
        Where the entries of each sample begin, and how many they are.
    y
        Targets.
    idx, val
        The pool: positions and values of entries.
    head
        Where the next entries are written.
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.live = 0
        self.start = np.zeros(capacity, dtype=np.int64)
        self.length = np.zeros(capacity, dtype=np.int64)
        self.y = np.zeros(capacity)
        self.idx = np.zeros(0, dtype=np.uint32)
        self.val = np.zeros(0)
        self.head = 0

    def __getstate__(self) -> dict:
        return {**vars(self), "idx": self.idx[: self.head], "val": self.val[: self.head]}

    def put(self, slot: int, idx: NDArray[np.uint32], val: Array, y: float) -> None:
        """Write a sample into a slot: that of the oldest, or the first that is free."""
        self.live = min(self.live + 1, self.capacity)
        self.length[slot] = 0
        if self.head + idx.size > self.idx.size:
            self._rewrite(self.length[: self.live], self.entries(), idx.size)
        end = self.head + idx.size
        self.idx[self.head : end] = idx
        self.val[self.head : end] = val
        self.start[slot], self.length[slot], self.y[slot] = self.head, idx.size, y
        self.head = end

    def entries(self) -> Ints:
        """Where the entries of all samples stand in the pool, in the order of slots."""
        length = self.length[: self.live]
        ends = np.cumsum(length)
        return np.repeat(self.start[: self.live] - ends + length, length) + np.arange(length.sum())

    def by_age(self, seen: int) -> Ints:
        """The slots of the samples, after ``seen`` have come in all, the oldest's first."""
        oldest = seen % self.capacity if self.live == self.capacity else 0
        return (oldest + np.arange(self.live)) % self.capacity

    def _rewrite(self, length: Ints, entries: Ints, need: int = 0) -> None:
        """Keep these entries alone, of samples that are so long, in a pool with room for more."""
        size = max(2 * (entries.size + need), 1024)
        idx, val = np.zeros(size, dtype=np.uint32), np.zeros(size)
        idx[: entries.size], val[: entries.size] = self.idx[entries], self.val[entries]
        self.idx, self.val, self.head = idx, val, entries.size
        self.length[: self.live] = length
        self.start[: self.live] = np.cumsum(length) - length

    def rows(self, d: int, largest: float) -> SparseRows:
        """The samples, of d features and norms of at most ``largest``."""
        live = self.live
        return SparseRows(self.start[:live], self.length[:live], self.idx, self.val, d=d, largest=largest)

    def targets(self) -> Array:
        return self.y[: self.live]

    def matrix(self, d: int) -> tuple[sparse.csr_array, Array]:
        """The samples as a matrix of d columns, and max |x_ij| of each."""
        length = self.length[: self.live]
        indptr, entries = np.concatenate([[0], np.cumsum(length)]), self.entries()
        idx, val = self.idx[entries], self.val[entries]
        largest, some = np.zeros(self.live), np.flatnonzero(length)
        if some.size:
            largest[some] = np.maximum.reduceat(np.abs(val), indptr[some])
        kind = np.int32 if max(d, val.size) < 1 << 31 else np.int64  # what scipy takes without a look at each
        return sparse.csr_array((val, idx.astype(kind), indptr.astype(kind)), shape=(self.live, d)), largest

    def take_out(self, new: Ints) -> None:
        """Features are given up: each is at position ``new[j]`` from now on, or gone where that is -1."""
        entries = self.entries()
        to = new[self.idx[entries]]
        stays = to >= 0
        owner = np.repeat(np.arange(self.live), self.length[: self.live])
        self.idx[entries[stays]] = to[stays]
        self._rewrite(np.bincount(owner[stays], minlength=self.live), entries[stays])

    def check(self, d: int, seen: int) -> None:
        """See that a ring from a file holds the last of ``seen`` samples, of d features."""
        _loaded.alike(self, Ring(1))
        _loaded.count(self, "capacity", 1)
        slots, size = self.capacity, self.idx.size
        _loaded.count(self, "live", 0, slots)
        _loaded.require(self, "live", self.live == min(seen, slots), "as many samples as were learned, or fit")
        _loaded.count(self, "head", 0, size)
        _loaded.owned(self, "start", "length", "y", "idx", "val")
        for name in ("start", "length"):
            _loaded.array(self, name, np.int64, (slots,), least=0, most=size)
        _loaded.array(self, "y", np.float64, (slots,), least=-layout.LARGEST, most=layout.LARGEST)
        _loaded.array(self, "val", np.float64, (size,), least=-layout.LARGEST, most=layout.LARGEST)
        ends = self.start[: self.live] + self.length[: self.live]
        _loaded.require(self, "start", (ends <= self.head).all(), f"samples within {self.head} entries")
        _loaded.require(self, "length", self.length[: self.live].sum() <= size, "samples that do not overlap")
        known = (self.idx[self.entries()] < d).all()
        _loaded.require(self, "idx", known, f"positions of {d} features")
