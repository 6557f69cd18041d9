"""Pairwise steps on a quadratic model of all samples, one coordinate or two at a time.

What a sample i contributes is remembered as it was when last looked at, at the iterate w^i: its derivative alpha_i and
a curvature h_i along <x_i, w>, of which the diagonal is kept,

    F(w) = sum_i alpha_i <x_i, w - w^i> + (h_i / 2) sum_j x_ij^2 (w_j - w^i_j)^2,

so that its slope at any w takes four sums a coordinate, and no sample:

    g_j(w) = r_j + H_j w_j - b_j,   r_j = sum alpha_i x_ij,  H_j = sum h_i x_ij^2,  b_j = sum h_i x_ij^2 w^i_j,

and q_j = sum (alpha_i x_ij)^2, the square of the standard error of r_j. ``own.sums[j]`` begins with
(r_j, q_j, H_j, b_j).

The diagonal errs where features come together. How much is seen whenever a sample is looked at again: the curvature
h_i <x_i, w - w^i>^2 along the steps taken since, against the h_i sum_j x_ij^2 (w_j - w^i_j)^2 of the model. Steps
divide by H_j times the ratio of these two, averaged over the last thousand looks, when it is above 1.

Features that are rarely 0 come together by their means alone. With an intercept these cost nothing: a step of w_j takes
m_j times itself from the intercept, as if the feature were x_ij - m_j. Of the pair's quadratic model, minimised over
the intercept, remains

    g_j = r_j - m_j sum_i alpha_i + k_j (H_j w_j - b_j),   m_j = S_j / H,   k_j = 1 - S_j^2 / (H_j H),

with S_j = sum_i h_i x_ij and H = sum_i h_i; k_j, the share of the curvature that is not the mean's, is put to q_j
likewise. Of 1 - k_j and m_j is taken what samples without a mean would show by chance. ``own.means[j]`` is
S_j and what share of the mean is left, as of the newest sample with that feature.

``u`` holds the key by which the next coordinate is chosen, negated: how far the slope is from its best, H_j |delta_j|;
on the simplex, where every step takes from one coordinate what it gives to another, the slope itself.
"""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline._kernels.coordinates import BLOCK_SHIFT, best, raise_bounds
from fwonline._kernels.layout import L2, LARGEST, SIMPLEX, UNIT_SIMPLEX, jit, part
from fwonline._kernels.steps import bounds

# Columns of ``sums``, and of ``means``.
SLOPE, SQUARES, CURVATURE, ANCHOR = 0, 1, 2, 3
ALONG, TRUST = 0, 1
# The square of the standard errors within which a mean counts as 0; the least share of a curvature that is no mean's.
FEW, LEAST = 5.0, 1e-9
# Below this curvature an intercept is not one to step along.
LEAST_HELD = 1e-150
# What a coordinate that is zero promises counts this much beside what a non-zero one does.
ENTER = 0.8
# Non-zeros that a search for the atom to leave looks at.
ROUND = 64
# Looks at samples over which the ratio of curvatures is averaged.
WINDOW = 1000.0
# Steps between two measurements of the l2 ball's multiplier, and two sums of ||w||.
PERIOD = 64


class Quadratic(typing.NamedTuple):
    """The quadratic model, and the list of non-zeros."""

    sums: np.ndarray
    means: np.ndarray  # S_j, and how much of it counts; of models with an intercept
    active: np.ndarray  # the coordinates that are not zero
    place: np.ndarray  # where each stands in that list, -1 for nowhere
    at: np.ndarray  # of each entry in the pool, the weight when last looked at
    curves: np.ndarray  # h_i
    counts: np.ndarray  # c_i, what a sample counts
    offsets: np.ndarray  # what steps had taken from the intercept when it was last looked at


class Change(typing.NamedTuple):
    """How a sample's contribution changes: alpha, alpha^2, and its curvature from ``old`` to ``h``."""

    alpha: float
    squares: float
    h: float
    old: float
    enters: bool  # whether the sample is new


@part
def slope(it, own, s, j):
    """g_j at the present iterate."""
    sums, w = own.sums, s.w_scale * it.v[j]
    if s.per_held == 0.0:
        return sums[j, SLOPE] + sums[j, CURVATURE] * w - sums[j, ANCHOR]
    return (
        sums[j, SLOPE]
        - mean_of(own, s, j) * s.bias_slope
        + share_of(own, s, j) * (sums[j, CURVATURE] * w - sums[j, ANCHOR])
    )


@part
def trust(along, curvature, per_held, few):
    """How much of a mean is beyond chance."""
    explained = along * per_held * along
    beyond = explained * (1.0 + few) - few * curvature
    return beyond / explained if beyond > 0.0 else 0.0


@part
def share(mean, along, curvature):
    """k_j: how much of a curvature is not its mean's."""
    left = 1.0 - mean * along / curvature if curvature > 0.0 else 0.0
    return left if left > LEAST else 0.0


@part
def centres(s):
    """Whether features are taken less their means: of one sample none is known, and where samples fade a mean is not
    told from a slope: a trend hardly moves in a window, and what it is worth there, extrapolated, is anything."""
    return s.held > LEAST_HELD and s.total > s.unit and s.growth == 1.0


@part
def mean_of(own, s, j):
    """m_j, what a step along a coordinate takes from the intercept."""
    return own.means[j, TRUST] * own.means[j, ALONG] * s.per_held


@part
def share_of(own, s, j):
    """k_j at present, 1 where there is no intercept to step along."""
    if not s.per_held > 0.0:
        return 1.0
    return share(mean_of(own, s, j), own.means[j, ALONG], own.sums[j, CURVATURE])


@part
def curvature_of(own, s, j):
    """The curvature that a step divides by."""
    return share_of(own, s, j) * own.sums[j, CURVATURE] * stretch(s)


@part
def shift(own, s, j, change):
    """The intercept follows a change of w_j."""
    if s.per_held > 0.0:
        by = mean_of(own, s, j) * change
        s.intercept -= by
        s.offset += by


@part
def error_of(own, s, j):
    """What of a slope counts as noise: it pulls the coordinate to 0."""
    return s.penalty * math.sqrt(max(share_of(own, s, j) * own.sums[j, SQUARES], 0.0))


@part
def stretch(s):
    """What curvatures of the model are multiplied by: how much the loss has been seen to bend beyond it."""
    return s.curvature_seen / s.curvature_model if s.curvature_seen > s.curvature_model else 1.0


@part
def shrunk(z, by):
    """z, by that much nearer to 0; without a branch, which a processor could not foresee."""
    return z - min(max(z, -by), by)


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
def clipped(region, z, j):
    """A weight within the coordinate's own bounds."""
    if region.kind <= L2:
        return min(max(z, -region.p), region.p)
    lower, upper = bounds(region, j)
    return min(max(z, lower), upper)


@part
def set_key(it, region, j, w, g, z, h):
    """The key of a coordinate whose sums or weight have changed; z and h are those of its ``free_aim``."""
    if region.kind == SIMPLEX:
        key = g
    else:
        if region.kind > L2 and h > 0.0:
            z = h * clipped(region, z / h, j)
        key = -abs(z - h * w)
        if w == 0.0:
            key *= ENTER
    it.u[j] = key
    if -key > it.bound[np.uint32(j) >> np.uint32(BLOCK_SHIFT)]:
        raise_bounds(it, j, -key)


@part
def renew_key(it, own, s, region, j):
    """The same, everything looked up."""
    w = s.w_scale * it.v[j]
    g = slope(it, own, s, j)
    z, h = free_aim(region.kind, w, g, curvature_of(own, s, j), error_of(own, s, j), s.pull)
    set_key(it, region, j, w, g, z, h)


@part
def unlist(own, s, j):
    """j is no longer among the non-zeros; the last of them takes its place."""
    at = own.place[j]
    s.nonzeros -= 1
    last = own.active[s.nonzeros]
    own.active[at] = last
    own.place[last] = at
    own.place[j] = -1


@part
def list_coordinate(own, s, j):
    """j is among the non-zeros from now on."""
    if own.place[j] < 0:
        own.place[j] = s.nonzeros
        own.active[s.nonzeros] = j
        s.nonzeros += 1


@part
def set_weight(it, own, s, region, j, w):
    """w_j <- w, listed among the non-zeros."""
    shift(own, s, j, w - s.w_scale * it.v[j])
    it.v[j] = w / s.w_scale
    if region.kind > L2:
        return
    if w != 0.0:
        list_coordinate(own, s, j)
    elif own.place[j] >= 0:
        unlist(own, s, j)


@part
def size_of(kind, w):
    """What a weight adds to ``size``."""
    return w * w if kind == L2 else abs(w)


@part
def find_leaving(it, own, s, region, first):
    """Of the next ``ROUND`` non-zeros the one that is best made smaller, -1 where there is none; and what it gains."""
    count = s.nonzeros
    worst = np.int64(-1)
    most = -np.inf
    at = s.rotor
    for _ in range(min(count, ROUND)):
        at = at + 1 if at + 1 < count else 0
        k = own.active[at]
        if k == first:
            continue
        g = slope(it, own, s, k)
        gain = g if it.v[k] > 0.0 else -g
        if region.kind != SIMPLEX:
            gain += error_of(own, s, k)
        if gain > most or (gain == most and it.rank[k] < it.rank[worst]):
            most = gain
            worst = k
    s.rotor = at
    return worst, most


@part
def exchange(it, own, s, region, j, h):
    """A pairwise step: coordinate j grows by what fits in the set, and by what another one gives up."""
    w = s.w_scale * it.v[j]
    g = slope(it, own, s, j)
    sign = 1.0
    if region.kind != SIMPLEX:
        sign = 1.0 if (w > 0.0 or (w == 0.0 and g < 0.0)) else -1.0
        g = sign * g + error_of(own, s, j)
    room = max(region.p - s.size, 0.0)
    k, gain = find_leaving(it, own, s, region, j)
    if k < 0:
        set_weight(it, own, s, region, j, w + sign * room)
        s.size += room
        return
    held = s.w_scale * it.v[k]
    both = h + curvature_of(own, s, k)
    most = abs(held) + room
    # Both slopes fall along the way: a Newton step on the model between the two atoms.
    step = (gain - g) / both if gain > g and both > 0.0 else 0.0
    if step >= most:
        step, given = most, abs(held)
        set_weight(it, own, s, region, k, 0.0)  # a drop step
    else:
        given = max(step - room, 0.0)
        set_weight(it, own, s, region, k, held - math.copysign(given, held))
    set_weight(it, own, s, region, j, w + sign * step)
    s.size += step - given
    renew_key(it, own, s, region, k)


@jit
def measure(it, own, s, region):
    """``size`` from the weights, their scale folded in; of the l2 ball also its multiplier."""
    kind, radius = region.kind, region.p
    scale = s.w_scale
    s.w_scale = 1.0
    size = 0.0
    along = 0.0
    for k in range(s.nonzeros):
        j = own.active[k]
        w = scale * it.v[j]
        it.v[j] = w
        size += size_of(kind, w)
        if kind == L2:
            along += w * slope(it, own, s, j) + abs(w) * error_of(own, s, j)
    s.size = size
    if kind == L2:
        square = radius * radius
        # On the sphere the slope of an optimum points to the centre: g = -pull w.
        s.pull = max(-along / square, 0.0) if size >= square * (1.0 - 1e-6) else s.pull * size / square


@part
def scale_down(s, by):
    """All weights, and what they had taken from the intercept."""
    s.w_scale *= by
    s.intercept += (1.0 - by) * s.offset
    s.offset *= by


@part
def step(it, own, s, region):
    """The coordinate that promises most moves to its best place on the model, at another one's cost where it must."""
    if s.d == 0:
        return
    kind, radius = region.kind, region.p
    s.t += 1
    s.n_lmo += 1
    j = best(it, SIMPLEX, s.d)
    if kind == SIMPLEX:
        if s.nonzeros == 0:
            set_weight(it, own, s, region, j, radius)
            s.size = radius
        else:
            exchange(it, own, s, region, j, curvature_of(own, s, j))
    elif it.u[j] < 0.0:
        w = s.w_scale * it.v[j]
        h = curvature_of(own, s, j)
        z, h = free_aim(kind, w, slope(it, own, s, j), h, error_of(own, s, j), s.pull)
        to = clipped(region, z / h, j) if h > 0.0 else w
        if w * to < 0.0:
            to = 0.0  # to the origin first, and on from there by another step
        grows = size_of(kind, to) - size_of(kind, w)
        if kind <= UNIT_SIMPLEX and grows > 0.0 and s.size + grows > radius:
            exchange(it, own, s, region, j, h)
        else:
            set_weight(it, own, s, region, j, to)
            s.size += grows
            if kind == L2 and s.size > radius * radius:
                scale_down(s, radius / math.sqrt(s.size))
                s.size = radius * radius
    renew_key(it, own, s, region, j)
    s.since += 1
    if s.since >= PERIOD:
        s.since = 0
        measure(it, own, s, region)


@part
def trusted(h, largest, radius):
    """A curvature that sums can hold."""
    most = LARGEST / max(radius, 1.0)
    return min(max(h, 0.0), most / max(largest * largest, 1.0)) if not math.isnan(h) else 0.0


@part
def note_curvature(s, h, seen, model):
    """One more look at what the diagonal says of the loss along the steps taken."""
    seen *= h * seen
    model *= h
    if model > 0.0 and seen + model <= LARGEST:
        keep = 1.0 - 1.0 / WINDOW
        s.curvature_seen = keep * s.curvature_seen + seen
        s.curvature_model = keep * s.curvature_model + model


@part
def moved(it, own, s, x):
    """sum_j k_j x_j^2 (w_j - w^i_j)^2 and <x, w^i>, compensated (Neumaier): the order of the entries does not show."""
    idx, val, at = x.idx, x.val, own.at
    centred = s.per_held > 0.0
    square = lost = 0.0
    before = gone = 0.0
    for k in range(x.start, x.stop):
        p = val[k] * at[k]
        t = before + p
        back = t - before
        gone += (before - (t - back)) + (p - back)
        before = t
        p = (s.w_scale * it.v[idx[k]] - at[k]) * val[k]
        p *= p
        if centred and p > 0.0:
            p *= share_of(own, s, idx[k])
        t = square + p
        back = t - square
        lost += (square - (t - back)) + (p - back)
        square = t
    return square + lost, before + gone


@part
def drop(it, own, s, kind, x, count):
    """So many entries of a sample have gone to 0: the list of non-zeros, ||w|| and the intercept follow."""
    at = own.at
    last = np.int64(-1)
    for _ in range(count):
        # By position, so that neither the list of non-zeros nor a sum shows the order of the entries.
        first = -1
        for k in range(x.start, x.stop):
            j = np.int64(x.idx[k])
            if it.v[j] == 0.0 and x.val[k] != 0.0 and at[k] != 0.0 and j > last and (first < 0 or j < x.idx[first]):
                first = k
        last = np.int64(x.idx[first])
        shift(own, s, last, -at[first])
        if kind <= L2:
            unlist(own, s, last)
            s.size -= size_of(kind, at[first])


@part
def add(it, own, s, region, x, change):
    """A sample's contribution changes; ``at`` takes the iterate.

    A non-zero that the noise outweighs goes to 0 at once: a drop step, which is free here.
    """
    kind, scale, bend, penalty, pull = region.kind, s.w_scale, stretch(s), s.penalty, s.pull
    sums, means, at = own.sums, own.means, own.at
    dropped = 0
    fits, bent = s.fit_intercept != 0, change.h - change.old
    if fits:
        s.bias_slope += change.alpha
        s.held = max(s.held + bent, 0.0)
        s.per_held = 1.0 / s.held if centres(s) else 0.0
        s.few = FEW * s.unit / s.total
    per_held, few, bias = s.per_held, s.few, s.bias_slope
    for k in range(x.start, x.stop):
        value = x.val[k]
        if value == 0.0:
            continue  # an entry that says 0 is one that is absent
        j = x.idx[k]
        w = scale * it.v[j]
        square = value * value
        r = sums[j, SLOPE] + change.alpha * value
        q = sums[j, SQUARES] + change.squares * square
        curvature = sums[j, CURVATURE] + bent * square
        b = sums[j, ANCHOR] + square * (change.h * w - change.old * at[k])
        sums[j, SLOPE] = r
        sums[j, SQUARES] = q
        sums[j, CURVATURE] = curvature
        sums[j, ANCHOR] = b
        at[k] = w
        if fits:
            along = means[j, ALONG] + bent * value
            means[j, ALONG] = along
            if change.enters:
                means[j, TRUST] = trust(along, curvature, per_held, few)
            mean = means[j, TRUST] * along * per_held
            left = share(mean, along, curvature) if per_held > 0.0 else 1.0
            # From here on those of the feature less its mean.
            r -= mean * bias
            q *= left
            curvature *= left
            b *= left
        g = r + curvature * w - b
        z, h_j = free_aim(kind, w, g, curvature * bend, penalty * math.sqrt(max(q, 0.0)), pull)
        if w != 0.0 and kind != SIMPLEX and h_j > 0.0 and clipped(region, z, j) == 0.0:
            it.v[j] = 0.0
            dropped += 1
            w = 0.0
            g = r - b
            z, h_j = free_aim(kind, w, g, curvature * bend, penalty * math.sqrt(max(q, 0.0)), pull)
        set_key(it, region, j, w, g, z, h_j)
    if dropped > 0:
        drop(it, own, s, kind, x, dropped)
