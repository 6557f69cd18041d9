"""The memory of a finite sum: the samples an optimizer holds, their derivatives alpha_i, and u = sum_i alpha_i x_i.

Rows live one after another in a circular pool (``pool_idx``, ``pool_val``); since the oldest leaves first, the pool
never fragments. ``rows[i]`` is (start, length, stamp of the last batch drawn), ``duals[i]`` is (alpha_i, y_i,
||x_i||_inf). The same kernels run on a whole CSR matrix offline: its rows are then the pool.

Rounding. u is a long sum of additions and removals. Each rounds three times, the change of alpha_i, its product with
x_ij and the sum, and errs by at most 5 * 2^-53 times MASS = sum_i |alpha_i| ||x_i||_inf, the largest value that an
entry can have. DRIFT adds up MASS; when it passes ``MASS * max(REFRESH, n)`` the sum is taken anew from the memory. So

    |u_j - exact u_j| <= 5 * 2^-53 * (max(REFRESH, n) + 2 n) * MASS,

6e-10 of MASS for memories up to a million. While MASS keeps its size that costs n / max(REFRESH, n) <= 1 row a step;
when it falls far, as when a sample of huge values leaves or all derivatives vanish, the sum is taken anew at once.
"""

from __future__ import annotations

import numpy as np

from fwonline._kernels.coordinates import add_row, rebuild, sparse_dot
from fwonline._kernels.layout import (
    BAD_TARGET,
    BAD_VALUE,
    DOT,
    DRAW,
    DRIFT,
    FIT_INTERCEPT,
    HEAD,
    INTERCEPT,
    INTERCEPT_H,
    LARGEST,
    LIVE,
    LOSS,
    LOSS_KIND,
    LOSS_P,
    LOSS_Q,
    LOSS_SUM,
    MASS,
    N_GRADIENTS,
    N_SUMS,
    NOISE,
    OK,
    PREDICTION,
    SEEN,
    SET,
    TARGET,
    TOO_LARGE,
    UNIT_SIMPLEX,
    W_SCALE,
    D,
    jit,
    part,
)
from fwonline._kernels.prefetch import AHEAD, prefetch_row
from fwonline.losses import CUSTOM, loss_derivative, loss_value

REFRESH = 1 << 20
# Entries of a batch below which bounds are kept along the way, however few features there are.
WIDE = 512
START, LENGTH, STAMP = 0, 1, 2
ALPHA, LABEL, LARGEST_VALUE = 0, 1, 2


@part
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
def check_values(bits, start, stop, y):
    """Whether a sample may be learned from; and max |x_j|."""
    largest = largest_of(bits, start, stop)
    if not largest <= LARGEST:
        return BAD_VALUE, largest
    if not abs(y) <= LARGEST:
        return BAD_TARGET, largest
    return OK, largest


@part
def check_contribution(alpha, largest):
    """Whether alpha x stays within what sums can hold; false for NaN too."""
    return OK if abs(alpha) * largest <= LARGEST * LARGEST else TOO_LARGE


@part
def add_sample(u, rank, bound, group, num, cnt, idx, val, start, stop, factor, margin):
    """u += factor x, with <u, w> kept; margin = <x, w>."""
    if factor == 0.0:
        return
    if cnt[SET] <= UNIT_SIMPLEX:
        add_row(cnt[SET], u, bound, group, idx, val, start, stop, factor)
    else:
        for k in range(start, stop):
            u[idx[k]] += factor * val[k]
    num[DOT] += factor * margin


@part
def room(rows, cnt, capacity, need):
    """Where a row of ``need`` entries can be written once the oldest row has left, or -1.

    Rows lie in the order of their age, from the oldest's start to HEAD, around the pool's end. A row is never split,
    and HEAD never catches up with a live row's start, so that a full pool is not taken for an empty one.
    """
    memory = rows.shape[0]
    live = cnt[LIVE]
    oldest = 0
    if live == memory:
        live -= 1
        oldest = (cnt[SEEN] + 1) % memory
    if live == 0:
        return 0 if need <= capacity else -1
    head = cnt[HEAD]
    tail = rows[oldest, START]
    if head >= tail:
        if need <= capacity - head:
            return head
        return 0 if need < tail else -1
    return head if need < tail - head else -1


@part
def change_mass(num, change):
    """One update of u, whose rounding is bounded by the mass before or after it."""
    before = num[MASS]
    num[MASS] = before + change
    num[DRIFT] += max(before, num[MASS])


@jit
def sum_anew(v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val):
    """u, <u, w> and MASS from the memory."""
    d = cnt[D]
    u[:d] = 0.0
    dot = 0.0
    mass = 0.0
    for i in range(cnt[LIVE]):
        start = rows[i, START]
        stop = start + rows[i, LENGTH]
        alpha = duals[i, ALPHA]
        for k in range(start, stop):
            u[pool_idx[k]] += alpha * pool_val[k]
        dot += alpha * sparse_dot(v, pool_idx, pool_val, start, stop)
        mass += abs(alpha) * duals[i, LARGEST_VALUE]
    if cnt[SET] <= UNIT_SIMPLEX and d > 0:
        rebuild(cnt[SET], u, bound, group, d)
    num[DOT] = dot * num[W_SCALE]
    num[MASS] = mass
    num[DRIFT] = 0.0
    cnt[N_SUMS] += 1


@part
def settle(v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val):
    """Take the sum anew when its rounding may have grown past what is allowed."""
    if num[DRIFT] > num[MASS] * max(REFRESH, cnt[LIVE]):
        sum_anew(v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val)


@part
def evict(v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val, slot):
    """The contribution alpha_i x_i of a slot leaves u."""
    alpha = duals[slot, ALPHA]
    start = rows[slot, START]
    stop = start + rows[slot, LENGTH]
    if alpha != 0.0:
        margin = num[W_SCALE] * sparse_dot(v, pool_idx, pool_val, start, stop)
        add_sample(u, rank, bound, group, num, cnt, pool_idx, pool_val, start, stop, -alpha, margin)
        change_mass(num, -abs(alpha) * duals[slot, LARGEST_VALUE])
    cnt[LIVE] -= 1


@part
def store(num, cnt, rows, duals, pool_idx, pool_val, slot, at, idx, val, start, stop, y, alpha, largest):
    """Copy a sample into the memory."""
    size = stop - start
    # Unsigned positions, one array at a time: so the copies vectorise.
    to, source, count = np.uint64(at), np.uint64(start), np.uint64(size)
    for k in range(count):
        pool_idx[to + k] = idx[source + k]
    for k in range(count):
        pool_val[to + k] = val[source + k]
    rows[slot, START] = at
    rows[slot, LENGTH] = size
    rows[slot, STAMP] = -1
    duals[slot, ALPHA] = alpha
    duals[slot, LABEL] = y
    duals[slot, LARGEST_VALUE] = largest
    cnt[HEAD] = at + size
    cnt[LIVE] += 1
    change_mass(num, abs(alpha) * largest)


@part
def draw_batch(rows, cnt, noise, batch, size, first):
    """``size`` different slots of the live ones, uniformly (Floyd's algorithm); slot ``first`` among them if >= 0."""
    n = cnt[LIVE]
    cnt[DRAW] += 1
    stamp = cnt[DRAW]
    count = 0
    if first >= 0:
        # The others come from the n - 1 slots that are not `first`, whose place the last slot takes.
        batch[0] = first
        count = 1
        n -= 1
    for top in range(n - (size - count), n):
        pick = np.int64(noise[cnt[NOISE]] * (top + 1))
        cnt[NOISE] += 1
        slot = n if pick == first else pick
        if rows[slot, STAMP] == stamp:
            slot = n if top == first else top
        rows[slot, STAMP] = stamp
        batch[count] = slot
        count += 1


@part
def replace(num, duals, slot, alpha):
    """alpha_i <- alpha where it may be summed; answers its change."""
    change = alpha - duals[slot, ALPHA]
    largest = duals[slot, LARGEST_VALUE]
    if change == 0.0 or check_contribution(alpha, largest) != OK:
        return 0.0
    change_mass(num, (abs(alpha) - abs(duals[slot, ALPHA])) * largest)
    duals[slot, ALPHA] = alpha
    return change


@part
def renew(u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val, slot, margin, alpha):
    """alpha_i <- alpha, the derivative at the present iterate; u follows."""
    change = replace(num, duals, slot, alpha)
    start = rows[slot, START]
    stop = start + rows[slot, LENGTH]
    add_sample(u, rank, bound, group, num, cnt, pool_idx, pool_val, start, stop, change, margin)


@part
def is_wide(cnt, rows, batch, first, last):
    """Whether a batch changes so much of u that making its bounds anew costs less than keeping them along the way."""
    entries = np.int64(0)
    for k in range(first, last):
        entries += rows[batch[k], LENGTH]
    return cnt[SET] <= UNIT_SIMPLEX and entries > max(cnt[D] >> 3, WIDE)


@part
def renew_unbounded(u, num, rows, duals, pool_idx, pool_val, slot, margin, alpha):
    """The same as ``renew``, the bounds of u's blocks left for ``rebuild``."""
    change = replace(num, duals, slot, alpha)
    start = rows[slot, START]
    for k in range(start, start + rows[slot, LENGTH]):
        u[pool_idx[np.uint64(k)]] += change * pool_val[np.uint64(k)]
    num[DOT] += change * margin


@part
def margin_of(v, num, rows, pool_idx, pool_val, slot):
    """<x_i, w> of a slot."""
    start = rows[slot, START]
    return num[W_SCALE] * sparse_dot(v, pool_idx, pool_val, start, start + rows[slot, LENGTH])


@part
def look_ahead(rows, pool_idx, pool_val, batch, k, last):
    """Ask for the row that is a few places further on in a batch."""
    if k + AHEAD < last:
        slot = batch[k + AHEAD]
        prefetch_row(pool_idx, pool_val, rows[slot, START], rows[slot, LENGTH])


@part
def renew_batch(v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val, batch, first, last):
    """Derivatives of batch[first:last] at the present iterate, by the compiled loss."""
    intercept = num[INTERCEPT]
    cnt[N_GRADIENTS] += last - first
    wide = is_wide(cnt, rows, batch, first, last)
    for k in range(first, last):
        look_ahead(rows, pool_idx, pool_val, batch, k, last)
        slot = batch[k]
        margin = margin_of(v, num, rows, pool_idx, pool_val, slot)
        alpha = loss_derivative(cnt[LOSS_KIND], num[LOSS_P], num[LOSS_Q], duals[slot, LABEL], margin + intercept)
        if wide:
            renew_unbounded(u, num, rows, duals, pool_idx, pool_val, slot, margin, alpha)
        else:
            renew(u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val, slot, margin, alpha)
    if wide:
        rebuild(cnt[SET], u, bound, group, cnt[D])


@jit
def full_gradient(v, num, cnt, rows, duals, pool_idx, pool_val, gradient):
    """gradient += sum over the memory of f'(y_i, <x_i, w>) x_i, at the present iterate; nothing else changes."""
    for i in range(cnt[LIVE]):
        start = rows[i, START]
        z = margin_of(v, num, rows, pool_idx, pool_val, i) + num[INTERCEPT]
        alpha = loss_derivative(cnt[LOSS_KIND], num[LOSS_P], num[LOSS_Q], duals[i, LABEL], z)
        for k in range(start, start + rows[i, LENGTH]):
            gradient[pool_idx[k]] += alpha * pool_val[k]


@part
def look(v, num, cnt, bits, idx, val, start, stop, y):
    """A sample as the present iterate sees it: (status, <x, w>, prediction, its derivative alpha, ||x||_inf)."""
    status, largest = check_values(bits, start, stop, y)
    margin = num[W_SCALE] * sparse_dot(v, idx, val, start, stop)
    prediction = margin + num[INTERCEPT]
    alpha = loss_derivative(cnt[LOSS_KIND], num[LOSS_P], num[LOSS_Q], y, prediction)
    if status == OK:
        status = check_contribution(alpha, largest)
    return status, margin, prediction, alpha, largest


@jit
def take_out(num, rows, duals, live, idx, val, at, new):
    """Rows lose the entries of features that are given up, and the others follow theirs: new[j] is -1, or a position.

    ``at`` is one more number an entry, or empty.
    """
    for i in range(live):
        start = rows[i, START]
        to = start
        largest = 0.0
        for k in range(start, start + rows[i, LENGTH]):
            j = new[idx[k]]
            if j >= 0:
                idx[to] = j
                val[to] = val[k]
                largest = max(largest, abs(val[k]))
                if at.size > 0:
                    at[to] = at[k]
                to += 1
        rows[i, LENGTH] = to - start
        num[MASS] += abs(duals[i, ALPHA]) * (largest - duals[i, LARGEST_VALUE])
        duals[i, LARGEST_VALUE] = largest


@part
def note_play(num, cnt, y, prediction, loss):
    """What monitors read of the sample that is about to be learned."""
    num[TARGET] = y
    num[PREDICTION] = prediction
    num[LOSS] = loss
    num[LOSS_SUM] += loss
    cnt[SEEN] += 1


@part
def play(num, cnt, y, prediction):
    """The sample looked at is learned from now on."""
    note_play(num, cnt, y, prediction, loss_value(cnt[LOSS_KIND], num[LOSS_P], num[LOSS_Q], y, prediction))


@part
def fit_intercept(num, cnt, y, prediction, alpha):
    """One step of the intercept, which lies outside the constraint: an online Newton step in one dimension.

    The curvature is that of the loss where it has one (then the intercept of a squared loss is a running mean of
    residuals, whatever their unit), and otherwise the size of the residuals' derivative over their running size.
    """
    if cnt[FIT_INTERCEPT] == 0:
        return
    kind = cnt[LOSS_KIND]
    p, q = num[LOSS_P], num[LOSS_Q]
    # A central difference of the derivative over a width on which smooth losses are quadratic to 1e-6.
    width = 1e-3
    if kind != CUSTOM:
        curvature = (
            loss_derivative(kind, p, q, y, prediction + width) - loss_derivative(kind, p, q, y, prediction - width)
        ) / (2.0 * width)
    else:
        curvature = 0.0
    if curvature > 0.0 and curvature < 0.5 / width:
        num[INTERCEPT_H] += curvature
    else:
        num[INTERCEPT_H] += abs(alpha) / max(abs(y - prediction), width)
    # The first sample's worth of curvature counts twice: a lone first step is half a Newton step.
    if num[INTERCEPT_H] > 0.0:
        step = alpha / (num[INTERCEPT_H] * (1.0 + 1.0 / cnt[SEEN]))
        # Where the curvature grows along the step (that of Poisson's loss by powers of e), Newton's step goes too far:
        # it never passes the sample's own minimum.
        while kind != CUSTOM and loss_derivative(kind, p, q, y, prediction - step) * alpha < 0.0:
            step *= 0.5
        num[INTERCEPT] -= step
