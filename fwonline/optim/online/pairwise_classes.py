"""The compiled steps of `StochasticPairwiseFW` on the matrix of a softmax model; `_kernels/classes.py` says on what."""

from __future__ import annotations

import math

import numpy as np

from fwonline._kernels import classes, memory
from fwonline._kernels.entry import opened
from fwonline._kernels.layout import BAD_VALUE, LARGEST, NEED_POOL, OK, inner, jit, part
from fwonline._kernels.state import Look, Row
from fwonline.optim.online.stochastic_pairwise import draw, looks, slot_of

__all__ = ["forget", "iterate", "learn"]


@part
def place(run, x, at):
    """A sample is written into the pool, sorted, and its classes are scored."""
    mem, own, s = run.mem, run.own, run.state[0]
    stop = at + x.stop - x.start
    for k in range(x.start, x.stop):
        mem.idx[at + k - x.start] = x.idx[k]
        mem.val[at + k - x.start] = x.val[k]
    classes.sort_row(mem.idx, mem.val, at, stop)
    row = Row(mem.idx, mem.val, at, stop)
    classes.score(own, s, row, own.scratch[classes.SHOWN, : s.classes])
    return row


@part
def receive(run, x, at, target):
    """The newest sample is written into the pool, and its classes are scored."""
    own, s = run.own, run.state[0]
    s.classes = max(s.classes, target + 1)
    row = place(run, x, at)
    for c in range(s.classes):
        own.scratch[classes.Z, c] = own.scratch[classes.SHOWN, c]
    return row


@inner
def answer(run, rows, i, at):
    """What the model answers to row i, by values that it does not learn from."""
    place(run, Row(rows.idx, rows.asked, rows.indptr[i], rows.indptr[i + 1]), at)
    show(run, rows, i)


@part
def show(run, rows, i):
    """Note the scores."""
    for c in range(rows.shown.shape[1]):
        rows.shown[i, c] = run.own.scratch[classes.SHOWN, c]


@part
def enter(run, x, target, largest):
    """The newest sample takes the oldest one's place, whose contribution stays as it was last seen."""
    mem, own, s = run.mem, run.own, run.state[0]
    s.penalty = s.significance * math.sqrt(math.log(1.0 + s.d))
    slot = s.seen % mem.held.size
    for c in range(s.stride):
        own.alphas[slot, c] = own.curves[slot, c] = 0.0
        own.anchors[slot, c] = own.bias[classes.INTERCEPT, c]
    if s.live == mem.held.size:
        s.live -= 1
    loss = classes.contribute(own, s, run.problem, slot, target, largest)
    z = own.scratch[classes.SHOWN, target]
    seen = Look(OK, float(target), z, z, 0.0, loss, largest)
    memory.store(mem, s, slot, x.start, x, seen)
    memory.count(s, seen)
    own.recent[(s.seen - 1) % own.recent.size] = loss
    classes.add(own, s, run.problem.region, x)
    classes.fit_intercepts(own, s, slot)
    s.n_gradients += 1
    s.u_scale = 1.0 / (s.seen - s.forgotten)


@part
def renew(run, slot):
    """A sample held is seen as the present iterate has it."""
    own, s, held = run.own, run.state[0], run.mem.held[slot]
    x = memory.row_of(run.mem, slot)
    classes.look_again(own, s, slot, x)
    classes.contribute(own, s, run.problem, slot, np.int64(held.y), held.largest)
    classes.add(own, s, run.problem.region, x)
    classes.fit_intercepts(own, s, slot)
    s.n_gradients += 1


@jit
def iterate(bound, count):
    """``count`` looks on a memory that holds the whole data set, each with a step for every class."""
    run = opened(bound)
    for _ in range(count):
        renew(run, draw(run))
        classes.move(run.own, run.state[0], run.problem.region)


@jit
def learn(bound, bound_rows, first, last):
    """The same as samples come; stops before a row that needs room or randomness, or that is refused."""
    run, rows = opened(bound), opened(bound_rows)
    mem, s = run.mem, run.state[0]
    for i in range(first, last):
        x = memory.row_at(rows, i)
        largest = memory.largest_of(rows.bits, x.start, x.stop)
        if not largest <= LARGEST:
            return BAD_VALUE
        status = memory.is_ready(s, run.draws.noise, s.steps)
        if status != OK:
            return status
        at = memory.room(mem, s, x.stop - x.start)
        if at < 0:
            return NEED_POOL
        target = np.int64(rows.y[i])
        if rows.asked.size > 0:
            answer(run, rows, i, at)
        row = receive(run, x, at, target)
        if rows.asked.size == 0 and rows.noted.size > 0:
            show(run, rows, i)
        enter(run, row, target, largest)
        memory.note(s, rows, i)
        for k in range(looks(s, x.stop - x.start)):
            if k > 0:
                renew(run, draw(run))
            classes.move(run.own, s, run.problem.region)
    return OK


@jit
def forget(run, keep):
    """The sums hold the last ``keep`` samples alone, as the present iterate sees them."""
    own, s = run.own, run.state[0]
    s.forgotten = s.seen - keep
    s.u_scale = 1.0 / keep
    for j in range(s.d * s.stride):
        own.u[j] = 0.0
        for column in range(4):
            own.sums[j, column] = 0.0
    for c in range(s.stride):
        for row in range(1, 4):
            own.bias[row, c] = 0.0
        for slot in range(run.mem.held.size):
            own.alphas[slot, c] = own.curves[slot, c] = 0.0
    classes.rebuild(own, run.state)
    for age in range(keep):
        renew(run, slot_of(s, age, run.mem.held.size))
