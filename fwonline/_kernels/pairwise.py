"""Pairwise steps on a quadratic model of all samples, one coordinate or two at a time.

What a sample i contributes is remembered as it was when last looked at, at the iterate w^i: its derivative alpha_i and
a curvature h_i along <x_i, w>, of which the diagonal is kept,

    F(w) = sum_i alpha_i <x_i, w - w^i> + (h_i / 2) sum_j x_ij^2 (w_j - w^i_j)^2,

so that its slope at any w takes four sums a coordinate, and no sample:

    g_j(w) = r_j + H_j w_j - b_j,   r_j = sum alpha_i x_ij,  H_j = sum h_i x_ij^2,  b_j = sum h_i x_ij^2 w^i_j,

and q_j = sum (alpha_i x_ij)^2, the square of the standard error of r_j. ``sums[j]`` is (r_j, q_j, H_j, b_j).

The diagonal errs where features come together. How much is seen whenever a sample is looked at again: the curvature
h_i <x_i, w - w^i>^2 along the steps taken since, against the h_i sum_j x_ij^2 (w_j - w^i_j)^2 of the model. Steps
divide by H_j times the ratio of these two, averaged over the last thousand looks, when it is above 1.

``u`` holds the key by which the next coordinate is chosen, negated: how far the slope is from its best, H_j |delta_j|;
on the simplex, where every step takes from one coordinate what it gives to another, the slope itself.
"""

from __future__ import annotations

import math

import numpy as np

from fwonline._kernels.coordinates import BLOCK_SHIFT, best, raise_bounds
from fwonline._kernels.layout import (
    CURVATURE_MODEL,
    CURVATURE_SEEN,
    FORGOTTEN,
    L2,
    LARGEST,
    LIVE,
    N_LMO,
    NONZEROS,
    PENALTY,
    PULL,
    ROTOR,
    SEEN,
    SET,
    SET_P,
    SIMPLEX,
    SINCE,
    SIZE,
    UNIT_SIMPLEX,
    W_SCALE,
    D,
    T,
    jit,
    part,
)
from fwonline._kernels.steps import bounds

# Columns of ``sums``.
SLOPE, SQUARES, CURVATURE, ANCHOR = 0, 1, 2, 3
# What a coordinate that is zero promises counts this much beside what a non-zero one does.
ENTER = 0.8
# Non-zeros that a search for the atom to leave looks at.
ROUND = 64
# Looks at samples over which the ratio of curvatures is averaged.
WINDOW = 1000.0
# Steps between two measurements of the l2 ball's multiplier, and two sums of ||w||.
PERIOD = 64


@part
def slope(v, num, sums, j):
    """g_j at the present iterate."""
    return sums[j, SLOPE] + sums[j, CURVATURE] * (num[W_SCALE] * v[j]) - sums[j, ANCHOR]


@part
def error_of(num, sums, j):
    """What of a slope counts as noise: it pulls the coordinate to 0."""
    return num[PENALTY] * math.sqrt(max(sums[j, SQUARES], 0.0))


@part
def stretch(num):
    """What curvatures of the model are multiplied by: how much the loss has been seen to bend beyond it."""
    seen, model = num[CURVATURE_SEEN], num[CURVATURE_MODEL]
    return seen / model if seen > model else 1.0


@part
def shrunk(z, by):
    """z, by that much nearer to 0."""
    return z - by if z > by else (z + by if z < -by else 0.0)


@part
def free_aim(kind, w, g, h, error, pull):
    """h times where a coordinate alone would go were there no set, and the curvature there, 0 if there is none."""
    if not h > 0.0:
        return 0.0, 0.0
    z = shrunk(h * w - g, error)
    if kind == UNIT_SIMPLEX:
        z = max(z, 0.0)
    elif kind == L2:
        h += pull
    return z, h


@part
def clipped(num, cnt, z, j):
    """A weight within the coordinate's own bounds."""
    kind = cnt[SET]
    if kind <= L2:
        return min(max(z, -num[SET_P]), num[SET_P])
    lower, upper = bounds(num, cnt, j)
    return min(max(z, lower), upper)


@part
def set_key(u, bound, group, num, cnt, j, w, g, z, h):
    """The key of a coordinate whose sums or weight have changed; z and h are those of its ``free_aim``."""
    if cnt[SET] == SIMPLEX:
        key = g
    else:
        if cnt[SET] > L2 and h > 0.0:
            z = h * clipped(num, cnt, z / h, j)
        key = -abs(z - h * w)
        if w == 0.0:
            key *= ENTER
    u[j] = key
    b = np.uint32(j) >> np.uint32(BLOCK_SHIFT)
    if -key > bound[b]:
        raise_bounds(bound, group, b, -key)


@part
def renew_key(v, u, bound, group, num, cnt, sums, j):
    """The same, everything looked up."""
    w = num[W_SCALE] * v[j]
    g = slope(v, num, sums, j)
    z, h = free_aim(cnt[SET], w, g, sums[j, CURVATURE] * stretch(num), error_of(num, sums, j), num[PULL])
    set_key(u, bound, group, num, cnt, j, w, g, z, h)


@part
def unlist(cnt, active, place, j):
    """j is no longer among the non-zeros; the last of them takes its place."""
    at = place[j]
    cnt[NONZEROS] -= 1
    last = active[cnt[NONZEROS]]
    active[at] = last
    place[last] = at
    place[j] = -1


@part
def set_weight(v, num, cnt, active, place, j, w):
    """w_j <- w, listed among the non-zeros."""
    v[j] = w / num[W_SCALE]
    if cnt[SET] > L2:
        return
    at = place[j]
    if w != 0.0 and at < 0:
        place[j] = cnt[NONZEROS]
        active[cnt[NONZEROS]] = j
        cnt[NONZEROS] += 1
    elif w == 0.0 and at >= 0:
        unlist(cnt, active, place, j)


@part
def size_of(kind, w):
    """What a weight adds to SIZE."""
    return w * w if kind == L2 else abs(w)


@part
def find_leaving(v, rank, num, cnt, sums, active, first):
    """Of the next ``ROUND`` non-zeros the one that is best made smaller, -1 where there is none; and what it gains."""
    count = cnt[NONZEROS]
    worst = np.int64(-1)
    most = -np.inf
    at = cnt[ROTOR]
    for _ in range(min(count, ROUND)):
        at = at + 1 if at + 1 < count else 0
        k = active[at]
        if k == first:
            continue
        g = slope(v, num, sums, k)
        gain = g if v[k] > 0.0 else -g
        if cnt[SET] != SIMPLEX:
            gain += error_of(num, sums, k)
        if gain > most or (gain == most and rank[k] < rank[worst]):
            most = gain
            worst = k
    cnt[ROTOR] = at
    return worst, most


@part
def exchange(v, u, rank, bound, group, num, cnt, sums, active, place, j, h):
    """A pairwise step: coordinate j grows by what fits in the set, and by what another one gives up."""
    kind = cnt[SET]
    w = num[W_SCALE] * v[j]
    g = slope(v, num, sums, j)
    sign = 1.0
    if kind != SIMPLEX:
        sign = 1.0 if (w > 0.0 or (w == 0.0 and g < 0.0)) else -1.0
        g = sign * g + error_of(num, sums, j)
    room = max(num[SET_P] - num[SIZE], 0.0)
    k, gain = find_leaving(v, rank, num, cnt, sums, active, j)
    if k < 0:
        set_weight(v, num, cnt, active, place, j, w + sign * room)
        num[SIZE] += room
        return
    held = num[W_SCALE] * v[k]
    both = h + sums[k, CURVATURE] * stretch(num)
    most = abs(held) + room
    # Both slopes fall along the way: a Newton step on the model between the two atoms.
    step = (gain - g) / both if gain > g and both > 0.0 else 0.0
    if step >= most:
        step, given = most, abs(held)
        set_weight(v, num, cnt, active, place, k, 0.0)  # a drop step
    else:
        given = max(step - room, 0.0)
        set_weight(v, num, cnt, active, place, k, held - math.copysign(given, held))
    set_weight(v, num, cnt, active, place, j, w + sign * step)
    num[SIZE] += step - given
    renew_key(v, u, bound, group, num, cnt, sums, k)


@jit
def measure(v, num, cnt, sums, active):
    """SIZE from the weights, their scale folded in; of the l2 ball also its multiplier."""
    kind = cnt[SET]
    scale = num[W_SCALE]
    num[W_SCALE] = 1.0
    size = 0.0
    along = 0.0
    for k in range(cnt[NONZEROS]):
        j = active[k]
        w = scale * v[j]
        v[j] = w
        size += size_of(kind, w)
        if kind == L2:
            along += w * slope(v, num, sums, j) + abs(w) * error_of(num, sums, j)
    num[SIZE] = size
    if kind == L2:
        square = num[SET_P] * num[SET_P]
        # On the sphere the slope of an optimum points to the centre: g = -pull w.
        num[PULL] = max(-along / square, 0.0) if size >= square * (1.0 - 1e-6) else num[PULL] * size / square


@part
def step(v, u, rank, bound, group, num, cnt, sums, active, place):
    """The coordinate that promises most moves to its best place on the model, at another one's cost where it must."""
    if cnt[D] == 0:
        return
    kind = cnt[SET]
    cnt[T] += 1
    cnt[N_LMO] += 1
    j = best(SIMPLEX, u, rank, bound, group, cnt[D])
    if kind == SIMPLEX:
        if cnt[NONZEROS] == 0:
            set_weight(v, num, cnt, active, place, j, num[SET_P])
            num[SIZE] = num[SET_P]
        else:
            h = sums[j, CURVATURE] * stretch(num)
            exchange(v, u, rank, bound, group, num, cnt, sums, active, place, j, h)
    elif u[j] < 0.0:
        w = num[W_SCALE] * v[j]
        h = sums[j, CURVATURE] * stretch(num)
        z, h = free_aim(kind, w, slope(v, num, sums, j), h, error_of(num, sums, j), num[PULL])
        to = clipped(num, cnt, z / h, j)
        if w * to < 0.0:
            to = 0.0  # to the origin first, and on from there by another step
        grows = size_of(kind, to) - size_of(kind, w)
        if kind <= UNIT_SIMPLEX and grows > 0.0 and num[SIZE] + grows > num[SET_P]:
            exchange(v, u, rank, bound, group, num, cnt, sums, active, place, j, h)
        else:
            set_weight(v, num, cnt, active, place, j, to)
            num[SIZE] += grows
            if kind == L2 and num[SIZE] > num[SET_P] * num[SET_P]:
                num[W_SCALE] *= num[SET_P] / math.sqrt(num[SIZE])
                num[SIZE] = num[SET_P] * num[SET_P]
    renew_key(v, u, bound, group, num, cnt, sums, j)
    cnt[SINCE] += 1
    if cnt[SINCE] >= PERIOD:
        cnt[SINCE] = 0
        measure(v, num, cnt, sums, active)


@part
def trusted(h, largest, radius):
    """A curvature that sums can hold."""
    most = LARGEST / max(radius, 1.0)
    return min(max(h, 0.0), most / max(largest * largest, 1.0)) if not math.isnan(h) else 0.0


@part
def note_curvature(num, h, seen, model):
    """One more look at what the diagonal says of the loss along the steps taken."""
    seen *= h * seen
    model *= h
    if model > 0.0 and seen + model <= LARGEST:
        keep = 1.0 - 1.0 / WINDOW
        num[CURVATURE_SEEN] = keep * num[CURVATURE_SEEN] + seen
        num[CURVATURE_MODEL] = keep * num[CURVATURE_MODEL] + model


@part
def moved(v, num, idx, val, at, start, stop):
    """sum_j x_j^2 (w_j - w^i_j)^2 and <x, w^i>, compensated (Neumaier): the order of the entries does not show."""
    square = lost = 0.0
    before = gone = 0.0
    for k in range(start, stop):
        p = val[k] * at[k]
        t = before + p
        back = t - before
        gone += (before - (t - back)) + (p - back)
        before = t
        p = (num[W_SCALE] * v[idx[k]] - at[k]) * val[k]
        p *= p
        t = square + p
        back = t - square
        lost += (square - (t - back)) + (p - back)
        square = t
    return square + lost, before + gone


@part
def add(v, u, bound, group, num, cnt, sums, active, place, idx, val, at, start, stop, change, squares, h, old):
    """A sample's contribution changes: alpha by ``change``, alpha^2 by ``squares``, the curvature from old to h.

    ``at`` takes the iterate. A non-zero that the noise outweighs goes to 0 at once: a drop step, which is free here.
    """
    kind, scale, bend, penalty, pull = cnt[SET], num[W_SCALE], stretch(num), num[PENALTY], num[PULL]
    dropped = 0
    for k in range(start, stop):
        x = val[k]
        if x == 0.0:
            continue  # an entry that says 0 is one that is absent
        j = idx[k]
        w = scale * v[j]
        square = x * x
        r = sums[j, SLOPE] + change * x
        q = sums[j, SQUARES] + squares * square
        curvature = sums[j, CURVATURE] + (h - old) * square
        b = sums[j, ANCHOR] + square * (h * w - old * at[k])
        sums[j, SLOPE] = r
        sums[j, SQUARES] = q
        sums[j, CURVATURE] = curvature
        sums[j, ANCHOR] = b
        at[k] = w
        g = r + curvature * w - b
        z, h_j = free_aim(kind, w, g, curvature * bend, penalty * math.sqrt(max(q, 0.0)), pull)
        if w != 0.0 and kind != SIMPLEX and h_j > 0.0 and clipped(num, cnt, z, j) == 0.0:
            v[j] = 0.0
            dropped += kind <= L2
            w = 0.0
            g = r - b
            z, h_j = free_aim(kind, w, g, curvature * bend, penalty * math.sqrt(max(q, 0.0)), pull)
        set_key(u, bound, group, num, cnt, j, w, g, z, h_j)
    for _ in range(dropped):
        # By position, so that neither the list of non-zeros nor its size shows the order of the entries.
        first = -1
        for k in range(start, stop):
            j = idx[k]
            if v[j] == 0.0 and place[j] >= 0 and (first < 0 or j < idx[first]):
                first = k
        unlist(cnt, active, place, idx[first])
        num[SIZE] -= size_of(kind, at[first])


@part
def usable(cnt):
    """Samples held that were learned since the last drift."""
    return min(cnt[LIVE], cnt[SEEN] - cnt[FORGOTTEN]) if cnt[SEEN] > 0 else cnt[LIVE]


@part
def slot_of(cnt, age, capacity):
    """Where the sample learned ``age`` samples before the newest is held."""
    return (cnt[SEEN] - 1 - age) % capacity
