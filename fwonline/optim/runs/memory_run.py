"""Runs that hold samples: the ring of the last ones online, a whole data set offline."""

from __future__ import annotations

import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import layout, memory
from fwonline._kernels.state import HELD, Draws, Memory, Rows
from fwonline.optim.runs import checks, summary
from fwonline.optim.runs.run import Run

__all__ = ["MemoryRun"]

# Derivatives are larger than any that a sum can hold only beside values that are as much smaller.
_LARGEST_DUAL = 1e300


class MemoryRun(Run):
    """A run whose gradient estimate is a sum over samples it holds: as many as the optimizer's ``memory``."""

    # The largest derivative times value that a step lets into its sums.
    _most_contribution: typing.ClassVar[float] = layout.LARGEST**2

    def __init__(self, optimizer, *args: typing.Any, **kwargs: typing.Any):
        super().__init__(optimizer, *args, **kwargs)
        self.capacity = getattr(optimizer, "memory", None) or 1
        self.mem = Memory.empty(self.capacity)
        self.draws = Draws(self.draws.noise, np.zeros(self.s.batch_size, dtype=np.int64))
        self._resize_samples(self.capacity)

    def _resize_samples(self, slots: int) -> None:
        """Numbers by sample and by entry of an algorithm's own, all 0."""
        sizes = {"sample": slots, "entry": self.mem.val.size}
        new = {name: np.zeros(sizes[kept.by]) for name, kept in self._kept.items() if kept.by in sizes}
        if new:
            self.own = self.own._replace(**new)
        self._bind()

    # --- saved, and from a file -------------------------------------------------------------------------------

    def __getstate__(self) -> dict:
        state = super().__getstate__()
        state["capacity"] = self.capacity
        state["held"] = {name: self.mem.held[name].copy() for name in HELD.names or ()}
        state["pool"] = self.mem.idx, self.mem.val
        state["batch"] = self.draws.batch
        return state

    def _restore(self, state: dict) -> None:
        super()._restore(state)
        self.capacity = state["capacity"]
        columns = state["held"]
        held = np.zeros(len(columns["start"]), HELD)
        for name in HELD.names or ():
            kind = np.float64 if HELD[name].kind == "f" else np.int64
            held[name] = checks.vector(columns[name], kind, size=held.size)
        idx, val = state["pool"]
        idx = checks.vector(idx, np.uint32, own=True)
        self.mem = Memory(held, idx, checks.vector(val, np.float64, size=idx.size, own=True))
        self.draws = Draws(self.draws.noise, checks.vector(state["batch"], np.int64, own=True))
        self._bind()

    def _check_own(self) -> None:
        _loaded.count(self, "capacity", 1)
        self._check_memory()
        least = max(1, self.s.batch_size)
        batch = self.draws.batch
        good = batch.size >= least and ((batch >= 0) & (batch < max(1, self.mem.held.size))).all()
        _loaded.require(self, "batch", bool(good), f"room for {least} slots")

    def _slots(self) -> tuple[int, ...]:
        """How many samples there may be room for."""
        return (self.capacity,)

    def _check_memory(self) -> None:
        """Each sample lies in the pool, after the ones that came before it, and is one of the features there are."""
        s, mem, slots = self.s, self.mem, self.mem.held.size

        def require(good: typing.Any, expected: str) -> None:
            _loaded.require(self, "held", bool(good), expected)

        require(slots in self._slots(), f"room for {self.capacity} samples")
        checks.bounded(self, "live", 0, slots)
        # Online the last samples are held; offline all of a data set, of which none was learned one by one.
        is_ring = s.live == min(s.seen, slots)
        good = is_ring or (s.live == slots and not s.seen) or (not s.live and slots == 1)
        require(good, "as many samples as were learned, or there is room for")
        size = mem.idx.size
        require((np.abs(mem.val) <= layout.LARGEST).all(), f"values of at most {layout.LARGEST:g}")
        checks.bounded(self, "head", 0, size)
        held = mem.held[: s.live]
        start, length, alpha = held["start"], held["length"], held["alpha"]
        inside = (start >= 0) & (start <= size) & (length >= 0) & (length <= size - start)
        require(inside.all(), f"samples within a pool of {size}")
        require(((held["stamp"] >= -1) & (held["stamp"] <= s.stamp)).all(), "stamps of batches that were drawn")
        if is_ring and s.live and s.seen:
            self._check_order(start, length)
        require(length.sum() <= size, "samples that do not overlap")
        ends = np.cumsum(length)
        entries = np.repeat(start - ends + length, length) + np.arange(length.sum())
        require((mem.idx[entries] < s.d).all(), f"positions of {s.d} features")
        largest, some = np.zeros(s.live), np.flatnonzero(length)
        if some.size:
            largest[some] = np.maximum.reduceat(np.abs(mem.val[entries]), (ends - length)[some])
        require(np.array_equal(largest, held["largest"]), "the largest value of each sample")
        can_sum = (np.abs(alpha) <= _LARGEST_DUAL) & (np.abs(alpha) * largest <= self._most_contribution)
        require(can_sum.all(), "derivatives that sums can hold")
        require((np.abs(held["y"]) <= layout.LARGEST).all(), f"targets of at most {layout.LARGEST:g}")

    def _check_order(self, start: np.ndarray, length: np.ndarray) -> None:
        """The samples of a ring lie in the order in which they came, once around the end of the pool at most."""
        order = self._by_age()
        start = start[order]
        ends = start + length[order]
        turns = np.flatnonzero(start[1:] < ends[:-1])
        is_line = not turns.size or (turns.size == 1 and start[turns[0] + 1] == 0 and ends[-1] < start[0])
        good = is_line and self.s.head == ends[-1]
        _loaded.require(self, "held", bool(good), "samples in the order in which they came")

    # --- the memory -------------------------------------------------------------------------------------------

    def _taken_out(self, new, holes, movers) -> None:
        super()._taken_out(new, holes, movers)
        more = [getattr(self.own, name) for name, kept in self._kept.items() if kept.by == "entry"]
        memory.take_out(self.mem, self.state, new, more[0] if more else np.zeros(0))

    def offline(self, rows: Rows) -> None:
        """Take a whole data set as the memory, without copying it."""
        n = len(rows.y)
        if self.draws.batch.size > n:
            raise ValueError(f"batch_size must be at most the number of samples, {n}, got {self.draws.batch.size}")
        self.capacity = n
        held = np.zeros(n, HELD)
        held["start"], held["length"], held["stamp"], held["y"] = rows.indptr[:-1], np.diff(rows.indptr), -1, rows.y
        largest = np.zeros(n)
        memory.largest_of_rows(rows.indptr, rows.val, largest)
        held["largest"] = largest
        self.mem = Memory(held, rows.idx, rows.val)
        self.s.live = n
        self.s.u_scale = 1.0 / n
        self._resize_samples(n)

    def _make_room(self, need: int) -> None:
        """Write the live rows, oldest first, into a pool of at least twice their size."""
        held, live = self.mem.held, self.s.live
        slots = self._by_age()
        start, length = held["start"][slots], held["length"][slots]
        # In order of age the rows lie in one stretch, or in two where they go around the end of the pool.
        turn = int(np.argmax(np.diff(start) < 0)) + 1 if (np.diff(start) < 0).any() else live
        stretches = [
            slice(int(start[k]), int(start[m - 1] + length[m - 1])) for k, m in ((0, turn), (turn, live)) if k < m
        ]
        used = sum(part.stop - part.start for part in stretches)
        size = max(2 * (used + need), 1024)
        head = 0
        moves = []
        for part, these in zip(stretches, (slots[:turn], slots[turn:]), strict=False):
            end = head + part.stop - part.start
            moves.append((slice(head, end), part))
            held["start"][these] += head - part.start
            head = end

        def moved(pool: np.ndarray) -> np.ndarray:
            new = np.zeros(size, dtype=pool.dtype)
            for to, source in moves:
                new[to] = pool[source]
            return new

        self.mem = Memory(held, moved(self.mem.idx), moved(self.mem.val))
        by_entry = [name for name, kept in self._kept.items() if kept.by == "entry"]
        if by_entry:
            self.own = self.own._replace(**{name: moved(getattr(self.own, name)) for name in by_entry})
        self.s.head = head
        self._bind()

    def iterate(self, count: int) -> None:
        """``count`` steps on the memory as it is (offline)."""
        drawn = max(1, self.s.batch_size)
        while count > 0:
            left = (self.draws.noise.size - self.s.drawn) // drawn
            if left == 0:
                self._draw_noise()
                continue
            chunk = min(count, left)
            args = self._entered or self._enterable()
            self.optimizer._iterate(args[0], chunk)
            self.native.check()
            count -= chunk

    def _by_age(self) -> np.ndarray:
        """The slots of the samples held, the oldest's first."""
        live, slots = self.s.live, self.mem.held.size
        return ((self.s.seen % slots if live == slots else 0) + np.arange(live)) % slots

    def _held(self):
        _, held, rest = super()._held()
        slots, mem = self._by_age(), self.mem
        samples = [
            (mem.idx[start : start + length], mem.val[start : start + length], y)
            for start, length, y in mem.held[["start", "length", "y"]][slots].tolist()
        ]
        by_sample = {name: getattr(self.own, name)[slots] for name, kept in self._kept.items() if kept.by == "sample"}
        held = {"derivatives": mem.held["alpha"][slots], **held, **summary.public_names(by_sample)}
        return samples, held, [*rest, mem.held["largest"][slots]]

    @property
    def n_remembered(self) -> int:
        return self.s.live

    def exact_gap(self) -> float | None:
        """The Frank-Wolfe gap of the mean loss over the samples held, every derivative taken at the present iterate.

        Cost: one pass over the memory. The state is not changed.
        """
        live = self.s.live
        if live == 0:
            return None
        gradient = np.zeros(self.n_features)
        memory.full_gradient(self.it, self.mem, self.state, self.native.problem.loss, gradient)
        self.native.check()
        return self.gap_along(gradient / live)
