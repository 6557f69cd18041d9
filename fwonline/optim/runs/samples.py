"""The samples of a run: held, so that its gradient estimate is a sum over them, or met in passes over a data set."""

from __future__ import annotations

import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import layout, memory
from fwonline._kernels.state import HELD, Draws, Memory, Rows
from fwonline.optim.runs import checks

if typing.TYPE_CHECKING:
    from fwonline.optim.runs.summary import Sample

__all__ = ["Passes", "begin", "by_age", "check", "hold_all", "listed", "make_room", "restore", "state_of"]

# Derivatives are larger than any that a sum can hold only beside values that are as much smaller.
_LARGEST_DUAL = 1e300


def begin(run: typing.Any) -> None:
    """Hold nothing yet, with room for as many samples as the optimizer's ``memory``."""
    run.capacity = getattr(run.optimizer, "memory", None) or 1
    run.mem = Memory.empty(run.capacity)
    run.draws = Draws(run.draws.noise, np.zeros(run.s.batch_size, dtype=np.int64))
    _renew_own(run, run.capacity)


def _renew_own(run: typing.Any, slots: int) -> None:
    """Numbers by sample and by entry of an algorithm's own, all 0."""
    sizes = {"sample": slots, "entry": run.mem.val.size}
    new = {name: np.zeros(sizes[kept.by]) for name, kept in run._kept.items() if kept.by in sizes}
    if new:
        run.own = run.own._replace(**new)
    run._bind()


def by_age(run: typing.Any) -> np.ndarray:
    """The slots of the samples held, the oldest's first."""
    live, slots = run.s.live, run.mem.held.size
    return ((run.s.seen if live == slots else 0) + np.arange(live)) % max(slots, 1)


def listed(run: typing.Any) -> list[Sample]:
    """The samples held, the oldest first."""
    mem = run.mem
    return [
        (mem.idx[start : start + length], mem.val[start : start + length], y)
        for start, length, y in mem.held[["start", "length", "y"]][by_age(run)].tolist()
    ]


def hold_all(run: typing.Any, rows: Rows) -> None:
    """Take a whole data set as the memory, without copying it."""
    n = len(rows.y)
    if run.draws.batch.size > n:
        raise ValueError(f"batch_size must be at most the number of samples, {n}, got {run.draws.batch.size}")
    run.capacity = n
    held = np.zeros(n, HELD)
    held["start"], held["length"], held["stamp"], held["y"] = rows.indptr[:-1], np.diff(rows.indptr), -1, rows.y
    largest = np.zeros(n)
    memory.largest_of_rows(rows.indptr, rows.val, largest)
    held["largest"], held["weight"] = largest, 1.0
    run.mem = Memory(held, rows.idx, rows.val)
    run.s.live = n
    run.s.u_scale = 1.0 / n
    _renew_own(run, n)


def make_room(run: typing.Any, need: int) -> None:
    """Write the live rows, oldest first, into a pool of at least twice their size."""
    held, live, slots = run.mem.held, run.s.live, by_age(run)
    start, length = held["start"][slots], held["length"][slots]
    # In order of age the rows lie in one stretch, or in two where they go around the end of the pool.
    turn = int(np.argmax(np.diff(start) < 0)) + 1 if (np.diff(start) < 0).any() else live
    stretches = [slice(int(start[k]), int(start[m - 1] + length[m - 1])) for k, m in ((0, turn), (turn, live)) if k < m]
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

    run.mem = Memory(held, moved(run.mem.idx), moved(run.mem.val))
    by_entry = [name for name, kept in run._kept.items() if kept.by == "entry"]
    if by_entry:
        run.own = run.own._replace(**{name: moved(getattr(run.own, name)) for name in by_entry})
    run.s.head = head
    run._bind()


# --- saved, and from a file ---------------------------------------------------------------------------------------


def state_of(run: typing.Any) -> dict[str, typing.Any]:
    """What is saved."""
    held = {name: run.mem.held[name].copy() for name in HELD.names or ()}
    pool = run.mem.idx, run.mem.val
    return {"capacity": run.capacity, "held": held, "pool": pool, "batch": run.draws.batch}


def restore(run: typing.Any, state: dict) -> None:
    """Take up what was saved."""
    run.capacity = state["capacity"]
    columns = state["held"]
    held = np.zeros(len(columns["start"]), HELD)
    for name in HELD.names or ():
        kind = np.float64 if HELD[name].kind == "f" else np.int64
        held[name] = checks.vector(columns[name], kind, size=held.size)
    idx, val = state["pool"]
    idx = checks.vector(idx, np.uint32, own=True)
    run.mem = Memory(held, idx, checks.vector(val, np.float64, size=idx.size, own=True))
    run.draws = Draws(run.draws.noise, checks.vector(state["batch"], np.int64, own=True))
    run._bind()


def check(run: typing.Any) -> None:
    """See that each sample lies in the pool, after those that came before it, and is one of the features there are."""
    s, mem, slots = run.s, run.mem, run.mem.held.size

    def require(good: typing.Any, expected: str) -> None:
        _loaded.require(run, "held", bool(good), expected)

    _loaded.count(run, "capacity", 1)
    require(slots in run._slots(), f"room for {run.capacity} samples")
    checks.bounded(run, "live", 0, slots)
    # Online the last samples are held; offline all of a data set, of which none was learned one by one.
    is_ring = s.live == min(s.seen, slots)
    good = is_ring or (s.live == slots and not s.seen) or (not s.live and slots == 1)
    require(good, "as many samples as were learned, or there is room for")
    size = mem.idx.size
    require((np.abs(mem.val) <= layout.LARGEST).all(), f"values of at most {layout.LARGEST:g}")
    checks.bounded(run, "head", 0, size)
    held = mem.held[: s.live]
    start, length, alpha = held["start"], held["length"], held["alpha"]
    inside = (start >= 0) & (start <= size) & (length >= 0) & (length <= size - start)
    require(inside.all(), f"samples within a pool of {size}")
    require(((held["stamp"] >= -1) & (held["stamp"] <= s.stamp)).all(), "stamps of batches that were drawn")
    if is_ring and s.live and s.seen:
        require(_lie_in_order(run), "samples in the order in which they came")
    require(length.sum() <= size, "samples that do not overlap")
    ends = np.cumsum(length)
    entries = np.repeat(start - ends + length, length) + np.arange(length.sum())
    require((mem.idx[entries] < s.d).all(), f"positions of {s.d} features")
    largest, some = np.zeros(s.live), np.flatnonzero(length)
    if some.size:
        largest[some] = np.maximum.reduceat(np.abs(mem.val[entries]), (ends - length)[some])
    require(np.array_equal(largest, held["largest"]), "the largest value of each sample")
    can_sum = (np.abs(alpha) <= _LARGEST_DUAL) & (np.abs(alpha) * largest <= run._most_contribution)
    require(can_sum.all(), "derivatives that sums can hold")
    require(((held["weight"] >= 0.0) & (held["weight"] <= layout.HEAVIEST)).all(), "weights of samples")
    require((np.abs(held["y"]) <= layout.LARGEST).all(), f"targets of at most {layout.LARGEST:g}")
    least, batch = max(1, s.batch_size), run.draws.batch
    good = batch.size >= least and ((batch >= 0) & (batch < max(1, slots))).all()
    _loaded.require(run, "batch", bool(good), f"room for {least} slots")


def _lie_in_order(run: typing.Any) -> bool:
    """Whether the samples lie in the order in which they came, once around the end of the pool at most."""
    order = by_age(run)
    start = run.mem.held["start"][order]
    ends = start + run.mem.held["length"][order]
    turns = np.flatnonzero(start[1:] < ends[:-1])
    is_line = not turns.size or (turns.size == 1 and start[turns[0] + 1] == 0 and ends[-1] < start[0])
    return bool(is_line and run.s.head == ends[-1])


# --- passes, by runs that hold no samples -------------------------------------------------------------------------


class Passes:
    """A data set whose samples come in passes, each in an order of its own."""

    def __init__(self, rows: Rows, rng: np.random.Generator):
        self.rows, self.rng = rows, rng
        self.order = np.empty(0, dtype=np.int64)

    def play(self, run: typing.Any, samples: int) -> None:
        """Let a run learn that many samples."""
        while samples > 0:
            if not self.order.size:
                self.order = self.rng.permutation(len(self.rows.y))
            now, self.order = self.order[:samples], self.order[samples:]
            row, status = run.learn_rows(take(self.rows, now), 0, len(now))
            if status != layout.OK:
                raise ValueError(
                    f"row {now[row]} of X: the derivative of {run.loss} there is not finite, or too large to be summed"
                )
            samples -= len(now)


def take(rows: Rows, order: np.ndarray) -> Rows:
    """The rows of a CSR matrix in another order."""
    lengths = np.diff(rows.indptr)[order]
    new = np.concatenate([[0], np.cumsum(lengths)])
    where = np.repeat(rows.indptr[order] - new[:-1], lengths) + np.arange(new[-1])
    return Rows.of(new, rows.idx[where], rows.val[where], rows.y[order])
