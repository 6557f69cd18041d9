"""Runs that hold samples: the ring of the last ones online, a whole data set offline."""

from __future__ import annotations

import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import layout, memory
from fwonline.losses import CUSTOM
from fwonline.optim.runs.run import Rows, Run

__all__ = ["MemoryRun"]

# Derivatives are larger than any that a sum can hold only beside values that are as much smaller.
_LARGEST_DUAL = 1e300


class MemoryRun(Run):
    """A run whose gradient estimate is a sum over samples it holds.

    Parameters
    ----------
    capacity
        Samples held, at most.
    """

    # What is held of each entry of a sample.
    _pools: typing.ClassVar[tuple[str, ...]] = ("pool_idx", "pool_val")

    def __init__(self, optimizer, *args: typing.Any, capacity: int, **kwargs: typing.Any):
        self.capacity = capacity
        self.rows = np.zeros((0, 3), dtype=np.int64)
        self.duals = np.zeros((0, 3))
        self.pool_idx = np.zeros(0, dtype=np.uint32)
        self.pool_val = np.zeros(0)
        self.batch = np.zeros(1, dtype=np.int64)
        self._newest = -1
        super().__init__(optimizer, *args, **kwargs)
        self.rows = np.zeros((capacity, 3), dtype=np.int64)
        self.duals = np.zeros((capacity, 3))

    def _bind(self) -> None:
        self.pool = (self.rows, self.duals, self.pool_idx, self.pool_val)
        super()._bind()

    def _extra(self) -> tuple:
        return (*self.pool, self.noise, self.batch)

    # The largest derivative times value that a step lets into its sums.
    _most_contribution: typing.ClassVar[float] = layout.LARGEST**2

    # --- from a file ------------------------------------------------------------------------------------------

    _apart = (*Run._apart, "_newest")

    def _check_arrays(self) -> None:
        super()._check_arrays()
        _loaded.count(self, "capacity", 1)
        self._check_memory()
        self._newest = int(self._newest)
        _loaded.count(self, "_newest", -1, self.capacity - 1)
        least = max(1, int(self.cnt[layout.BATCH]))
        _loaded.array(self, "batch", np.int64, (None,), least=0, most=max(0, len(self.rows) - 1))
        _loaded.require(self, "batch", self.batch.size >= least, f"room for {least} samples")

    def _check_memory(self) -> None:
        """Each sample lies in the pool, after the ones that came before it, and is one of the features there are."""
        cnt, slots = self.cnt, len(self.rows)
        _loaded.require(self, "rows", slots in self._slots(), f"room for {self.capacity} samples")
        rows = _loaded.array(self, "rows", np.int64, (slots, 3))
        duals = _loaded.array(self, "duals", np.float64, (slots, 3), least=-_LARGEST_DUAL, most=_LARGEST_DUAL)
        self._check_cnt(layout.LIVE, 0, slots)
        live, seen = int(cnt[layout.LIVE]), int(cnt[layout.SEEN])
        # Online the last samples are held; offline all of a data set, of which none was learned one by one.
        is_ring = live == min(seen, slots)
        is_good = is_ring or (live == slots and not seen) or (not live and slots == 1)
        _loaded.require(self, f"cnt[{layout.LIVE}]", is_good, "as many samples as were learned, or there is room for")
        size = self.pool_idx.size
        _loaded.array(self, "pool_val", np.float64, (size,), least=-layout.LARGEST, most=layout.LARGEST)
        self._check_cnt(layout.HEAD, 0, size)
        start, length, stamp = rows[:live].T
        lie_within = (start >= 0) & (start <= size) & (length >= 0) & (length <= size - start)
        _loaded.require(self, "rows", lie_within.all(), f"samples within a pool of {size}")
        stamps = (stamp >= -1) & (stamp <= cnt[layout.DRAW])
        _loaded.require(self, "rows", stamps.all(), "stamps of batches that were drawn")
        if is_ring and live and seen:
            order = (seen % slots if live == slots else 0) + np.arange(live)
            start, length = start[order % slots], length[order % slots]
            ends = start + length
            turns = np.flatnonzero(start[1:] < ends[:-1])
            # Around the end of the pool, once, and back to before where the oldest begins.
            is_line = not turns.size or (turns.size == 1 and start[turns[0] + 1] == 0 and ends[-1] < start[0])
            _loaded.require(self, "rows", is_line, "samples in the order in which they came")
            _loaded.require(self, f"cnt[{layout.HEAD}]", cnt[layout.HEAD] == ends[-1], "the end of the newest sample")
        start, length, _ = rows[:live].T
        _loaded.require(self, "rows", length.sum() <= size, "samples that do not overlap")
        ends = np.cumsum(length)
        entries = np.repeat(start - ends + length, length) + np.arange(length.sum())
        known = (self.pool_idx[entries] < cnt[layout.D]).all()
        _loaded.require(self, "pool_idx", known, f"positions of {cnt[layout.D]} features")
        largest, some = np.zeros(live), np.flatnonzero(length)
        if some.size:
            largest[some] = np.maximum.reduceat(np.abs(self.pool_val[entries]), (ends - length)[some])
        same = np.array_equal(largest, duals[:live, memory.LARGEST_VALUE])
        _loaded.require(self, "duals", same, "the largest value of each sample")
        can_sum = np.abs(duals[:live, memory.ALPHA]) * largest <= self._most_contribution
        _loaded.require(self, "duals", can_sum.all(), "derivatives that sums can hold")
        labels = np.abs(duals[:live, memory.LABEL]) <= layout.LARGEST
        _loaded.require(self, "duals", labels.all(), f"targets of at most {layout.LARGEST:g}")

    def _slots(self) -> tuple[int, ...]:
        """How many samples there may be room for."""
        return (self.capacity,)

    def _taken_out(self, new, holes, movers) -> None:
        super()._taken_out(new, holes, movers)
        more = getattr(self, self._pools[2]) if len(self._pools) > 2 else np.zeros(0)
        live = int(self.cnt[layout.LIVE])
        memory.take_out(self.num, self.rows, self.duals, live, self.pool_idx, self.pool_val, more, new)

    def offline(self, rows: Rows) -> None:
        """Take a whole data set as the memory, without copying it."""
        indptr, idx, val, y = rows
        n = len(y)
        if self.batch.size > n:
            raise ValueError(f"batch_size must be at most the number of samples, {n}, got {self.batch.size}")
        self.capacity = n
        self.rows = np.full((n, 3), -1, dtype=np.int64)
        self.rows[:, memory.START] = indptr[:-1]
        self.rows[:, memory.LENGTH] = np.diff(indptr)
        self.duals = np.zeros((n, 3))
        self.duals[:, memory.LABEL] = y
        memory.largest_of_rows(indptr, val, self.duals[:, memory.LARGEST_VALUE])
        self.pool_idx, self.pool_val = idx, val
        self.cnt[layout.LIVE] = n
        self.num[layout.U_SCALE] = 1.0 / n
        self._bind()

    def _make_room(self, need: int) -> None:
        """Write the live rows, oldest first, into a pool of at least twice their size."""
        live, capacity = int(self.cnt[layout.LIVE]), self.rows.shape[0]
        oldest = int(self.cnt[layout.SEEN]) % capacity if live == capacity else 0
        slots = (oldest + np.arange(live)) % capacity
        start, length = self.rows[slots, memory.START], self.rows[slots, memory.LENGTH]
        # In order of age the rows lie in one stretch, or in two where they go around the end of the pool.
        turn = int(np.argmax(np.diff(start) < 0)) + 1 if (np.diff(start) < 0).any() else live
        stretches = [
            slice(int(start[k]), int(start[m - 1] + length[m - 1])) for k, m in ((0, turn), (turn, live)) if k < m
        ]
        used = sum(part.stop - part.start for part in stretches)
        size = max(2 * (used + need), 1024)
        pools = {name: np.zeros(size, dtype=getattr(self, name).dtype) for name in self._pools}
        head = 0
        for part, these in zip(stretches, (slots[:turn], slots[turn:]), strict=False):
            end = head + part.stop - part.start
            for name, pool in pools.items():
                pool[head:end] = getattr(self, name)[part]
            self.rows[these, memory.START] += head - part.start
            head = end
        self.cnt[layout.HEAD] = head
        for name, pool in pools.items():
            setattr(self, name, pool)
        self._bind()

    def _place(self, rows: Rows, i: int) -> int:
        """Where row i can be written (``note_play`` has counted it already)."""
        indptr = rows[0]
        need = int(indptr[i + 1] - indptr[i])
        self.cnt[layout.SEEN] -= 1
        at = memory.room(self.rows, self.cnt, self.pool_idx.size, need)
        if at < 0:
            self._make_room(need)
            at = memory.room(self.rows, self.cnt, self.pool_idx.size, need)
        self.cnt[layout.SEEN] += 1
        return at

    def _draw(self, size: int, first: int) -> None:
        if self.cnt[layout.NOISE] + size > self.noise.size:
            self._draw_noise()
            self._bind()
        memory.draw_batch(self.rows, self.cnt, self.noise, self.batch, size, first)

    def renew(self, first: int, last: int) -> None:
        """Derivatives of the samples ``batch[first:last]`` at the present iterate, by parts."""
        if self.cnt[layout.LOSS_KIND] != CUSTOM:
            memory.renew_batch(*self.core, *self.pool, self.batch, first, last)
            return
        intercept = self.num[layout.INTERCEPT]
        for slot in self.batch[first:last]:
            margin = memory.margin_of(self.v, self.num, self.rows, self.pool_idx, self.pool_val, slot)
            alpha = self.derivative(self.duals[slot, memory.LABEL], float(margin + intercept))
            memory.renew(self.u, *self.core[2:], *self.pool, slot, margin, alpha)
            self.cnt[layout.N_GRADIENTS] += 1

    def iterate(self, count: int) -> None:
        """``count`` steps on the memory as it is (offline)."""
        while count > 0:
            chunk = count
            if self._is_compiled:
                left = (self.noise.size - int(self.cnt[layout.NOISE])) // int(self.cnt[layout.BATCH])
                if left == 0:
                    self._draw_noise()
                    self._bind()
                    continue
                chunk = min(count, left)
                self._compiled_iterate(*self.core, *self._extra(), chunk)
            else:
                for _ in range(chunk):
                    self._draw(self.batch.size, -1)
                    self.renew(0, self.batch.size)
                    memory.settle(*self.core, *self.pool)
                    self.move()
            count -= chunk

    @staticmethod
    def _compiled_iterate(*arrays) -> None:
        """The compiled loop over steps."""
        raise NotImplementedError

    @property
    def n_remembered(self) -> int:
        return int(self.cnt[layout.LIVE])

    def exact_gap(self) -> float | None:
        """The Frank-Wolfe gap of the mean loss over the samples held, every derivative taken at the present iterate.

        Cost: one pass over the memory. The state is not changed.
        """
        live = int(self.cnt[layout.LIVE])
        if live == 0:
            return None
        w = self.weights
        gradient = np.zeros_like(w)
        if self.cnt[layout.LOSS_KIND] != CUSTOM:
            memory.full_gradient(self.v, self.num, self.cnt, *self.pool, gradient)
        else:
            for i, (start, length, _) in enumerate(self.rows[:live]):
                idx, val = self.pool_idx[start : start + length], self.pool_val[start : start + length]
                z = float(val @ w[idx] + self.num[layout.INTERCEPT])
                np.add.at(gradient, idx, self.derivative(self.duals[i, memory.LABEL], z) * val)
        return self.gap_along(gradient / live)
