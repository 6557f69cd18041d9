"""Runs that hold samples: the ring of the last ones online, a whole data set offline."""

from __future__ import annotations

import typing

import numpy as np

from fwonline._kernels import layout, memory
from fwonline.losses import CUSTOM
from fwonline.optim.run import Rows, Run

__all__ = ["MemoryRun"]


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

    def _is_consistent(self) -> bool:
        rows, live = self.rows, int(self.cnt[layout.LIVE])
        if rows.shape != (len(rows), 3) or self.duals.shape != rows.shape or not 0 <= live <= len(rows):
            return False
        start, length = rows[:live, memory.START], rows[:live, memory.LENGTH]
        return (
            super()._is_consistent()
            and self.pool_idx.size == self.pool_val.size
            and bool(np.all((start >= 0) & (length >= 0) & (start + length <= self.pool_idx.size)))
            and 0 <= self.cnt[layout.HEAD] <= self.pool_idx.size
            and self.cnt[layout.SEEN] >= 0
            and self.batch.size >= self.cnt[layout.BATCH]
            and all(
                bool(np.all(self.pool_idx[a : a + n] < self.cnt[layout.D])) for a, n in zip(start, length, strict=True)
            )
        )

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
