"""Projected gradient steps: Euclidean projections after a sparse update, and AdaGrad at several step sizes.

Where one is needed a sample: on the l1 ball only the non-zeros matter: the threshold t solves sum max(|w_j| - t, 0) =
radius by Newton's method (Michelot's), which rises to the solution from max |w_j| - radius in a few passes over them.

AdaGrad, several step sizes side by side: one look at a sample and one pass over its entries for all.

Learner k steps from its point w^k by eta_k g_j / sqrt(G_j), G_j the sum of its own squared slopes g_j, and is brought
back to the set in the norm that these make, sum_j sqrt(G_j) x_j^2. Nothing is tuned to units: with b the best constant
prediction so far, f' and h the loss's derivative and curvature there, and r the root of the mean square of the entries,

    eta_k = STEP_SIZES[k] U / r,   U = sqrt(mean f'^2) / mean h:

U is how far predictions have to go, and 1 / r the weight that takes them by 1.

A box is met entry by entry. A projection onto a ball or a simplex takes a few passes over all d features, so it is made
every d / ``SPREAD`` samples; in between a point that has left is played scaled back to the radius, which costs nothing.
"""

from __future__ import annotations

import math

import numpy as np

from fwonline._kernels.entry import call
from fwonline._kernels.layout import GENERIC, L1, L2, LARGEST, LINF, SIMPLEX, UNIT_SIMPLEX, inner, part
from fwonline._kernels.pairwise import list_coordinate, size_of
from fwonline._kernels.steps import PROJECTION, bounds

# Geometric, in units of U / r; the learners from number ``IMPLICIT`` on step implicitly.
STEP_SIZES = (1.0 / 128.0, 1.0 / 32.0, 1.0 / 8.0, 1.0 / 8.0, 1.0 / 2.0)
COUNT, IMPLICIT = len(STEP_SIZES), 3
# A size that has fallen to this share of what it was is summed anew; a point that is larger than its set by the inverse
# is scaled down before it is projected: nothing is lost to rounding.
TINY = 1e-6
# Bisections that find how far an implicit step goes.
BISECTIONS = 32
# Features beyond which a projection is not made at every sample.
SPREAD = 256
# What a run keeps: ``points`` and their ``metric`` G_j have a row by feature and a column by learner, ``offsets`` are
# the learners' intercepts less the best constant, ``bends`` the metric of these, ``sizes`` norms and ``tops`` the
# largest since they were summed, of the l2 ball squared; ``sums``, ``lost``, ``factors``, ``alphas`` and ``reaches``
# are room to work in. What ``scales`` holds: sums of x_j^2, of their number, of f'^2, of h, and of the samples of
# these two.
SQUARES, ENTRIES, SLOPES, CURVES, SAMPLES = 0, 1, 2, 3, 4


@part
def _key(kind, w_j):
    return abs(w_j) if kind == L1 else w_j


@part
def _threshold(kind, w, where, count, top, radius):
    """tau < 0 with sum max(k_j - top - tau, 0) = radius over the listed keys k_j: |w_j|, or w_j; top = max k_j.

    Measured from the top it is as exact as the radius, however large the keys are.
    """
    tau = -radius
    kept = count + 1
    while True:
        size = 0.0
        left = 0
        for k in range(count):
            below = _key(kind, w[where[k]]) - top
            if below > tau:
                size += below
                left += 1
        # In exact arithmetic fewer are left each time; rounding may bring one back, and then forever.
        if left >= kept:
            return tau
        kept = left
        tau = (size - radius) / left


@inner
def _project_l1(it, own, s, radius):
    """Onto the l1 ball; ``own.active`` lists the non-zeros."""
    w, active, place = it.v, own.active, own.place
    total = 0.0
    top = 0.0
    for k in range(s.nonzeros):
        total += abs(w[active[k]])
        top = max(top, abs(w[active[k]]))
    if total <= radius:
        return
    tau = _threshold(L1, w, active, s.nonzeros, top, radius)
    left = 0
    for k in range(s.nonzeros):
        j = active[k]
        a = (abs(w[j]) - top) - tau
        if a > 0.0:
            w[j] = math.copysign(a, w[j])
            active[left] = j
            place[j] = left
            left += 1
        else:
            w[j] = 0.0
            place[j] = -1
    s.nonzeros = left


@inner
def _project_simplex(it, own, s, region):
    """Onto {w >= 0, sum w = radius}, or <= radius; O(d)."""
    d, w, active, radius = s.d, it.v, own.active, region.p
    if d == 0:
        return
    if region.kind == UNIT_SIMPLEX:
        total = 0.0
        for j in range(d):
            w[j] = max(w[j], 0.0)
            total += w[j]
        if total <= radius:
            return
    top = w[0]
    for j in range(d):
        active[j] = j
        top = max(top, w[j])
    tau = _threshold(SIMPLEX, w, active, d, top, radius)
    for j in range(d):
        w[j] = max((w[j] - top) - tau, 0.0)


@part
def project_after(it, own, s, region, idx, start, stop):
    """Project w, which has just changed on idx[start:stop]."""
    kind, w = region.kind, it.v
    if kind == L1:
        for k in range(start, stop):
            if w[idx[k]] != 0.0:
                list_coordinate(own, s, idx[k])
        _project_l1(it, own, s, region.p)
    elif kind in (SIMPLEX, UNIT_SIMPLEX):
        _project_simplex(it, own, s, region)
    elif kind == L2:
        total = 0.0
        for j in range(s.d):
            total += w[j] * w[j]
        if total > region.p * region.p:
            shrink = region.p / math.sqrt(total)
            for j in range(s.d):
                w[j] *= shrink
    elif kind == GENERIC:
        call(region.oracle, (PROJECTION,))
    else:
        for k in range(start, stop):
            j = idx[k]
            lower, upper = bounds(region, j)
            w[j] = min(max(w[j], lower), upper)


# --- AdaGrad at several step sizes ---


@part
def scale_back(own, region):
    """What each point is played with, ``factors``: 1 within the set, and beyond its radius what leads back to it."""
    kind, radius = region.kind, region.p
    for k in range(COUNT):
        size = math.sqrt(own.sizes[k]) if kind == L2 else own.sizes[k]
        own.factors[k] = radius / size if kind <= L2 and (size > radius or (kind == SIMPLEX and size > 0.0)) else 1.0


@part
def look(own, x):
    """<x, w^k>, as it is played, into ``own.sums``, compensated (Neumaier): no order of the entries shows."""
    points, sums, lost = own.points, own.sums, own.lost
    for k in range(COUNT):
        sums[k] = lost[k] = 0.0
    for i in range(x.start, x.stop):
        j, value = x.idx[i], x.val[i]
        for k in range(COUNT):
            p = points[j, k] * value
            total = sums[k] + p
            back = total - sums[k]
            lost[k] += (sums[k] - (total - back)) + (p - back)
            sums[k] = total
    for k in range(COUNT):
        sums[k] = own.factors[k] * (sums[k] + lost[k])


@part
def note_entries(scales, x):
    """The squares of a sample's entries, compensated as above."""
    total = lost = 0.0
    for i in range(x.start, x.stop):
        if x.val[i] == 0.0:
            continue
        p = x.val[i] * x.val[i]
        t = total + p
        back = t - total
        lost += (total - (t - back)) + (p - back)
        total = t
        scales[ENTRIES] += 1.0
    scales[SQUARES] += total + lost


@part
def note_constant(scales, alpha, h):
    """Derivative and curvature at the best constant."""
    if abs(alpha) <= LARGEST and 0.0 <= h <= LARGEST:
        scales[SLOPES] += alpha * alpha
        scales[CURVES] += h
        scales[SAMPLES] += 1.0


@part
def reach(scales):
    """U, 0 before anything is known."""
    if not (scales[CURVES] > 0.0 and scales[SLOPES] > 0.0):
        return 0.0
    return min(math.sqrt(scales[SLOPES] / scales[SAMPLES]) / (scales[CURVES] / scales[SAMPLES]), LARGEST)


@part
def unit(scales):
    """U / r."""
    if not scales[SQUARES] > 0.0:
        return 0.0
    return min(reach(scales) / math.sqrt(scales[SQUARES] / scales[ENTRIES]), LARGEST)


@part
def note_slopes(own, x, fits_intercept):
    """The metrics learn a sample; ``reaches`` are how far the steps it asks for move what the implicit ones predict."""
    metric, sums, lost, unit_step = own.metric, own.sums, own.lost, unit(own.scales)
    for k in range(COUNT):
        sums[k] = lost[k] = 0.0
    for i in range(x.start, x.stop):
        j, value = x.idx[i], x.val[i]
        for k in range(COUNT):
            g = own.alphas[k] * value
            square = g * g
            if not square > 0.0:
                continue
            metric[j, k] += square
            if k >= IMPLICIT:
                p = value * value / math.sqrt(metric[j, k])
                total = sums[k] + p
                back = total - sums[k]
                lost[k] += (sums[k] - (total - back)) + (p - back)
                sums[k] = total
    for k in range(COUNT):
        own.reaches[k] = STEP_SIZES[k] * unit_step * (sums[k] + lost[k])
        square = own.alphas[k] * own.alphas[k]
        if fits_intercept and square > 0.0:
            own.bends[k] += square
            own.reaches[k] += STEP_SIZES[k] * reach(own.scales) / math.sqrt(own.bends[k])


@part
def shortened(loss, y, z, alpha, reaches):
    """The derivative of an implicit step: that at the prediction which the step leads to.

    z' = z - reaches f'(z'), which is never past the sample's own minimum, however long an explicit step would be.
    """
    whole = reaches * abs(alpha)
    if not 0.0 < whole <= LARGEST:
        return 0.0
    sign = math.copysign(1.0, alpha)
    low, high = 0.0, whole
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if middle < reaches * sign * call(loss.derivative, (loss.p, loss.q, y, z - sign * middle)):
            low = middle
        else:
            high = middle
    return sign * (low / reaches)


@part
def step(own, region, x, fits_intercept):
    """A step of each learner; ``sizes`` follow, ``points`` may then lie outside of the set."""
    kind, unit_step = region.kind, unit(own.scales)
    points, metric, sums, lost = own.points, own.metric, own.sums, own.lost
    for k in range(COUNT):
        sums[k] = lost[k] = 0.0
    for i in range(x.start, x.stop):
        j, value = x.idx[i], x.val[i]
        for k in range(COUNT):
            g = own.alphas[k] * value
            if g == 0.0 or metric[j, k] == 0.0:
                continue
            w = points[j, k]
            to = w - STEP_SIZES[k] * unit_step * (g / math.sqrt(metric[j, k]))
            if kind >= LINF:
                lower, upper = bounds(region, j)
                to = min(max(to, lower), upper)
            elif kind in (SIMPLEX, UNIT_SIMPLEX):
                to = max(to, 0.0)
            points[j, k] = to
            p = size_of(kind, to) - size_of(kind, w)
            total = sums[k] + p
            back = total - sums[k]
            lost[k] += (sums[k] - (total - back)) + (p - back)
            sums[k] = total
    for k in range(COUNT):
        own.sizes[k] += sums[k] + lost[k]
        own.tops[k] = max(own.tops[k], own.sizes[k])
        if fits_intercept and own.bends[k] > 0.0:
            own.offsets[k] -= STEP_SIZES[k] * reach(own.scales) * (own.alphas[k] / math.sqrt(own.bends[k]))


@inner
def measure(own, kind, d, k):
    """The size of a point, from its weights."""
    size = 0.0
    for j in range(d):
        size += size_of(kind, own.points[j, k])
    own.sizes[k] = own.tops[k] = size


@part
def brought(kind, w, h, t):
    """Where a weight goes under the multiplier t."""
    if kind == L2:
        return w * (h / (h + t))
    if kind == L1:
        return math.copysign(max(abs(w) - t / h, 0.0), w)
    return max(w - t / h, 0.0)


@inner
def project(own, kind, radius, d, k):
    """The point of learner k to the nearest one of that size, in its own norm: Newton's method on the multiplier t.

    The size falls in t and is convex, so that from the left every step stays on the left. A coordinate without slopes
    that weighs something, as at a start that was given, counts as the softest of the others; one that weighs nothing
    takes no part.
    """
    points, metric = own.points, own.metric
    least = np.inf
    for j in range(d):
        if metric[j, k] > 0.0:
            least = min(least, metric[j, k])
    if least == np.inf:
        return  # it has not moved
    target = radius * radius if kind == L2 else radius
    t = 0.0
    if kind == SIMPLEX:
        t = np.inf
        for j in range(d):
            if metric[j, k] > 0.0 or points[j, k] != 0.0:
                t = min(t, (points[j, k] - radius) * math.sqrt(max(metric[j, k], least)))
    for _ in range(200):
        excess, slope = -target, 0.0
        for j in range(d):
            w = points[j, k]
            if w == 0.0 and (kind != SIMPLEX or metric[j, k] == 0.0):
                continue
            h = math.sqrt(max(metric[j, k], least))
            a = brought(kind, w, h, t)
            excess += size_of(kind, a)
            if a != 0.0:
                slope += 2.0 * a * a / (h + t) if kind == L2 else 1.0 / h
        if excess <= 1e-12 * target or slope == 0.0:
            break
        t += excess / slope
    for j in range(d):
        w = points[j, k]
        if w != 0.0 or (kind == SIMPLEX and metric[j, k] > 0.0):
            points[j, k] = brought(kind, w, math.sqrt(max(metric[j, k], least)), t)
    measure(own, kind, d, k)


@part
def bring_back(own, s, region):
    """Each learner's point into the set, where it is time."""
    kind, radius = region.kind, region.p
    if kind > L2:
        return
    limit = radius * radius if kind == L2 else radius
    for k in range(COUNT):
        is_time = s.seen % max(1, s.d // SPREAD) == 0 or own.sizes[k] < TINY * own.tops[k]
        if not is_time and TINY * own.sizes[k] <= limit:
            continue
        measure(own, kind, s.d, k)
        if TINY * own.sizes[k] > limit:
            by = limit / (TINY * own.sizes[k])
            for j in range(s.d):
                own.points[j, k] *= math.sqrt(by) if kind == L2 else by
        if kind == SIMPLEX or own.sizes[k] > limit:
            project(own, kind, radius, s.d, k)
