"""The memory of a finite sum: the samples an optimizer holds, their derivatives alpha_i, and u = sum_i alpha_i x_i.

Rows live one after another in a circular pool (``mem.idx``, ``mem.val``); since the oldest leaves first, the pool never
fragments. The same kernels run on a whole CSR matrix offline: its rows are then the pool.

Rounding. u is a long sum of additions and removals. Each rounds three times, the change of alpha_i, its product with
x_ij and the sum, and errs by at most 5 * 2^-53 times mass = sum_i |alpha_i| ||x_i||_inf, the largest value that an
entry can have. drift adds up mass; when it passes ``mass * max(REFRESH, n)`` the sum is taken anew from the memory. So

    |u_j - exact u_j| <= 5 * 2^-53 * (max(REFRESH, n) + 2 n) * mass,

6e-10 of mass for memories up to a million. While mass keeps its size that costs n / max(REFRESH, n) <= 1 row a step;
when it falls far, as when a sample of huge values leaves or all derivatives vanish, the sum is taken anew at once.
"""

from __future__ import annotations

import numpy as np

from fwonline._kernels.coordinates import add_row, rebuild, sparse_dot
from fwonline._kernels.entry import AHEAD, call, prefetch_row
from fwonline._kernels.layout import (
    BAD_TARGET,
    BAD_VALUE,
    FAILED,
    LARGEST,
    NEED_NAMES,
    NEED_NOISE,
    OK,
    TOO_LARGE,
    inner,
    jit,
    open_part,
    part,
)
from fwonline._kernels.state import Look, Row
from fwonline._kernels.steps import is_sparse

REFRESH = 1 << 20
# Entries of a batch below which bounds are kept along the way, however few features there are.
WIDE = 512


@part
def loss_value(loss, y, z):
    """f(y, z)."""
    return call(loss.value, (loss.p, loss.q, y, z))


@part
def loss_derivative(loss, y, z):
    """df/dz; NaN where Python was called back and raised."""
    return call(loss.derivative, (loss.p, loss.q, y, z))


@open_part
def largest_of(bits, start, stop):
    """max |x_j| from the bits of the values, above every number if one is NaN.

    Patterns of bits without the sign are ordered as the numbers are, with NaN on top, and their maximum vectorises.
    """
    top = np.int64(0)
    for k in range(start, stop):
        magnitude = bits[np.uint64(k)] & np.int64(0x7FFFFFFFFFFFFFFF)
        top = magnitude if magnitude > top else top
    return np.int64(top).view(np.float64)


@jit
def largest_of_rows(indptr, val, out):
    """out[i] = max |x_ij|."""
    bits = val.view(np.int64)
    for i in range(out.size):
        out[i] = largest_of(bits, indptr[i], indptr[i + 1])


@part
def row_at(rows, i):
    """Sample i of those on their way in."""
    return Row(rows.idx, rows.val, rows.indptr[i], rows.indptr[i + 1])


@part
def row_of(mem, slot):
    """A sample held."""
    start = mem.held[slot].start
    return Row(mem.idx, mem.val, start, start + mem.held[slot].length)


@part
def dot_with(v, x):
    """<x, v>."""
    return sparse_dot(v, x.idx, x.val, x.start, x.stop)


@inner
def asked_margin(v, rows, i):
    """<x, v> of the values that row i is predicted with; none but the first sums of pipelines come by here."""
    return sparse_dot(v, rows.idx, rows.asked, rows.indptr[i], rows.indptr[i + 1])


@part
def answer(rows, i, z):
    """What the model answers to row i, by other values than it learns from; whether that is a number."""
    if rows.asked.size == 0:
        return True
    rows.shown[i, 0] = z
    return abs(z) < np.inf


@part
def margin_of(it, mem, s, slot):
    """<x_i, w> of a slot."""
    return s.w_scale * dot_with(it.v, row_of(mem, slot))


@part
def can_sum(alpha, largest):
    """Whether alpha x stays within what sums can hold; false for NaN too."""
    return abs(alpha) * largest <= LARGEST * LARGEST


@part
def look(it, s, problem, rows, i):
    """Sample i as the present iterate sees it, its derivative times its weight, and whether it may be learned from."""
    if rows.asked.size > 0 and not answer(rows, i, s.w_scale * asked_margin(it.v, rows, i) + s.intercept):
        return Look(TOO_LARGE, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    return weighed(judge(problem, rows, i, s.w_scale * dot_with(it.v, row_at(rows, i)), s.intercept), s.weight)


@part
def weighed(seen, weight):
    """A sample whose loss is multiplied by a weight; what is told of its loss is not."""
    alpha = weight * seen.alpha
    status = TOO_LARGE if seen.status == OK and not can_sum(alpha, seen.largest) else seen.status
    return Look(status, seen.y, seen.margin, seen.prediction, alpha, seen.loss, seen.largest)


@part
def judge(problem, rows, i, margin, intercept):
    """Sample i of a known <x, w>, and whether it may be learned from."""
    x, y = row_at(rows, i), rows.y[i]
    largest = largest_of(rows.bits, x.start, x.stop)
    status = OK
    if not largest <= LARGEST:
        status = BAD_VALUE
    elif not abs(y) <= LARGEST:
        status = BAD_TARGET
    prediction = margin + intercept
    alpha = loss = 0.0
    if status == OK:
        alpha = loss_derivative(problem.loss, y, prediction)
        if not can_sum(alpha, largest):
            status = TOO_LARGE
        loss = loss_value(problem.loss, y, prediction)
        if problem.failed[0] != 0:
            status = FAILED
    return Look(status, y, margin, prediction, alpha, loss, largest)


@part
def is_ready(s, noise, draws):
    """Whether so many draws can be made and all names have room; a status."""
    if s.drawn + draws > noise.size:
        return NEED_NOISE
    if s.crowded != 0:
        return NEED_NAMES
    return OK


@part
def play(s, seen, rows, i):
    """What monitors read of sample i, which is learned from now on."""
    count(s, seen)
    note(s, rows, i)


@part
def note(s, rows, i):
    """What was predicted of sample i, and the gap before it, where they are asked for."""
    if rows.noted.size > 0:
        rows.noted[i, 0] = s.prediction
        rows.noted[i, 1] = s.gap


@part
def count(s, seen):
    """One more sample."""
    s.target = seen.y
    s.prediction = seen.prediction
    s.loss = seen.loss
    s.loss_sum += seen.loss
    s.seen += 1


@part
def add_sample(it, s, region, x, factor, margin):
    """u += factor x, with <u, w> kept; margin = <x, w>."""
    if factor == 0.0:
        return
    if is_sparse(region):
        add_row(it, region.kind, x, factor)
    else:
        for k in range(x.start, x.stop):
            it.u[x.idx[k]] += factor * x.val[k]
    s.dot += factor * margin


@part
def room(mem, s, need):
    """Where a row of ``need`` entries can be written once the oldest row has left, or -1.

    Rows lie in the order of their age, from the oldest's start to ``head``, around the pool's end. A row is never
    split, and ``head`` never catches up with a live row's start, so that a full pool is not taken for an empty one.
    """
    capacity, slots = mem.idx.size, mem.held.size
    live = s.live
    oldest = 0
    if live == slots:
        live -= 1
        oldest = (s.seen + 1) % slots
    if live == 0:
        return 0 if need <= capacity else -1
    head = s.head
    tail = mem.held[oldest].start
    if head >= tail:
        if need <= capacity - head:
            return head
        return 0 if need < tail else -1
    return head if need < tail - head else -1


@part
def change_mass(s, change):
    """One update of u, whose rounding is bounded by the mass before or after it."""
    before = s.mass
    s.mass = before + change
    s.drift += max(before, s.mass)


@jit
def sum_anew(it, mem, s, region):
    """u, <u, w> and the mass from the memory."""
    u = it.u
    u[: s.d] = 0.0
    dot = 0.0
    mass = 0.0
    for i in range(s.live):
        x = row_of(mem, i)
        alpha = mem.held[i].alpha
        for k in range(x.start, x.stop):
            u[x.idx[k]] += alpha * x.val[k]
        dot += alpha * dot_with(it.v, x)
        mass += abs(alpha) * mem.held[i].largest
    if is_sparse(region) and s.d > 0:
        rebuild(it, region.kind, s.d)
    s.dot = dot * s.w_scale
    s.mass = mass
    s.drift = 0.0
    s.n_sums += 1


@part
def bound_rounding(it, mem, s, region):
    """Take the sum anew when its rounding may have grown past what is allowed."""
    if s.drift > s.mass * max(REFRESH, s.live):
        sum_anew(it, mem, s, region)


@part
def evict(it, mem, s, region, slot):
    """The contribution alpha_i x_i of a slot leaves u."""
    alpha = mem.held[slot].alpha
    if alpha != 0.0:
        add_sample(it, s, region, row_of(mem, slot), -alpha, margin_of(it, mem, s, slot))
        change_mass(s, -abs(alpha) * mem.held[slot].largest)
    s.live -= 1


@part
def store(mem, s, slot, at, x, seen):
    """Copy a sample into the memory."""
    size = x.stop - x.start
    # Unsigned positions, one array at a time: so the copies vectorise.
    to, source, count = np.uint64(at), np.uint64(x.start), np.uint64(size)
    for k in range(count):
        mem.idx[to + k] = x.idx[source + k]
    for k in range(count):
        mem.val[to + k] = x.val[source + k]
    new = mem.held[slot]
    new.start = at
    new.length = size
    new.stamp = -1
    new.alpha = seen.alpha
    new.y = seen.y
    new.largest = seen.largest
    new.weight = s.weight
    s.head = at + size
    s.live += 1
    change_mass(s, abs(seen.alpha) * seen.largest)


@part
def enter(it, mem, s, region, x, at, seen):
    """The newest sample takes the oldest one's place; its derivative enters r at once. Returns its slot."""
    slot = (s.seen - 1) % mem.held.size
    if s.live == mem.held.size:
        evict(it, mem, s, region, slot)
    store(mem, s, slot, at, x, seen)
    add_sample(it, s, region, x, seen.alpha, seen.margin)
    s.u_scale = 1.0 / s.live
    s.n_gradients += 1
    return slot


@part
def draw_batch(mem, draws, s, size, first):
    """``size`` different slots of the live ones, uniformly (Floyd's algorithm); slot ``first`` among them if >= 0."""
    n = s.live
    s.stamp += 1
    stamp = s.stamp
    count = 0
    if first >= 0:
        # The others come from the n - 1 slots that are not `first`, whose place the last slot takes.
        draws.batch[0] = first
        count = 1
        n -= 1
    for top in range(n - (size - count), n):
        pick = np.int64(draws.noise[s.drawn] * (top + 1))
        s.drawn += 1
        slot = n if pick == first else pick
        if mem.held[slot].stamp == stamp:
            slot = n if top == first else top
        mem.held[slot].stamp = stamp
        draws.batch[count] = slot
        count += 1


@part
def replace(s, mem, slot, alpha):
    """alpha_i <- alpha where it may be summed; returns its change."""
    held = mem.held[slot]
    change = alpha - held.alpha
    if change == 0.0 or not can_sum(alpha, held.largest):
        return 0.0
    change_mass(s, (abs(alpha) - abs(held.alpha)) * held.largest)
    held.alpha = alpha
    return change


@part
def renew(it, mem, s, region, slot, margin, alpha, wide):
    """alpha_i <- alpha; u follows, and the bounds of its blocks unless ``rebuild`` makes them anew (``wide``)."""
    change = replace(s, mem, slot, alpha)
    x = row_of(mem, slot)
    if wide:
        for k in range(x.start, x.stop):
            it.u[x.idx[np.uint64(k)]] += change * x.val[np.uint64(k)]
        s.dot += change * margin
    else:
        add_sample(it, s, region, x, change, margin)


@part
def is_wide(mem, draws, s, region, first, last):
    """Whether a batch changes so much of u that making its bounds anew costs less than keeping them along the way."""
    entries = np.int64(0)
    for k in range(first, last):
        entries += mem.held[draws.batch[k]].length
    return is_sparse(region) and entries > max(s.d >> 3, WIDE)


@part
def look_ahead(mem, draws, k, last):
    """Ask for the row that is a few places further on in a batch."""
    if k + AHEAD < last:
        held = mem.held[draws.batch[k + AHEAD]]
        prefetch_row(mem.idx, mem.val, held.start, held.length)


@part
def renew_batch(run, first, last, rho):
    """alpha_i <- (1 - rho) alpha_i + rho f'(y_i, <x_i, w>), times its weight, for batch[first:last]; r follows."""
    it, mem, draws, s = run.it, run.mem, run.draws, run.state[0]
    loss, region = run.problem.loss, run.problem.region
    s.n_gradients += last - first
    wide = is_wide(mem, draws, s, region, first, last)
    for k in range(first, last):
        look_ahead(mem, draws, k, last)
        slot = draws.batch[k]
        margin = margin_of(it, mem, s, slot)
        alpha = mem.held[slot].weight * loss_derivative(loss, mem.held[slot].y, margin + s.intercept)
        if rho != 1.0:
            old = mem.held[slot].alpha
            alpha = old + rho * (alpha - old)
        renew(it, mem, s, region, slot, margin, alpha, wide)
    if wide:
        rebuild(it, region.kind, s.d)


@jit
def full_gradient(it, mem, s, loss, gradient):
    """gradient += sum over the memory of f'(y_i, <x_i, w>) x_i times its weight, at the present iterate."""
    for i in range(s[0].live):
        x = row_of(mem, i)
        alpha = mem.held[i].weight * loss_derivative(loss, mem.held[i].y, margin_of(it, mem, s[0], i) + s[0].intercept)
        for k in range(x.start, x.stop):
            gradient[x.idx[k]] += alpha * x.val[k]


@jit
def take_out(mem, s, new, more):
    """Rows lose the entries of features that are given up, and the others follow theirs: new[j] is -1, or a position.

    ``more`` is one more number an entry, or empty.
    """
    idx, val = mem.idx, mem.val
    for i in range(s[0].live):
        held = mem.held[i]
        start = held.start
        to = start
        largest = 0.0
        for k in range(start, start + held.length):
            j = new[idx[k]]
            if j >= 0:
                idx[to] = j
                val[to] = val[k]
                largest = max(largest, abs(val[k]))
                if more.size > 0:
                    more[to] = more[k]
                to += 1
        held.length = to - start
        s[0].mass += abs(held.alpha) * (largest - held.largest)
        held.largest = largest


@part
def fit_intercept(s, loss, seen):
    """One step of the intercept, which lies outside the constraint: an online Newton step in one dimension.

    The curvature is that of the loss where it has one (then the intercept of a squared loss is a running mean of
    residuals, whatever their unit), and otherwise the size of the residuals' derivative over their running size.
    """
    if s.fit_intercept == 0:
        return
    y, z, alpha = seen.y, seen.prediction, seen.alpha
    # A central difference of the derivative over a width on which smooth losses are quadratic to 1e-6.
    width = 1e-3
    curvature = 0.0
    if loss.is_compiled != 0:
        curvature = (loss_derivative(loss, y, z + width) - loss_derivative(loss, y, z - width)) / (2.0 * width)
    if curvature > 0.0 and curvature < 0.5 / width:
        s.intercept_h += s.weight * curvature
    else:
        s.intercept_h += abs(alpha) / max(abs(y - z), width)
    # The first sample's worth of curvature counts twice: a lone first step is half a Newton step.
    if s.intercept_h > 0.0:
        step = alpha / (s.intercept_h * (1.0 + 1.0 / s.seen))
        # Where the curvature grows along the step (that of Poisson's loss by powers of e), Newton's step goes too far:
        # it never passes the sample's own minimum.
        while loss.is_compiled != 0 and loss_derivative(loss, y, z - step) * alpha < 0.0:
            step *= 0.5
        s.intercept -= step
