"""Euclidean projections after a sparse update, for the baselines that need one a sample.

On the l1 ball only the non-zeros matter: the threshold tau solves sum max(|w_j| - tau, 0) = radius by Newton's method
(Michelot's), which rises to the solution from tau = 0 in a few passes over them.
"""

from __future__ import annotations

import math

from fwonline._kernels.layout import BOX, BOX_ARRAYS, L1, L2, LINF, SET, SET_P, SIMPLEX, UNIT_SIMPLEX, D, jit, part
from fwonline._kernels.steps import bounds


@part
def _threshold(w, where, count, total, radius):
    """tau with sum max(|w_j| - tau, 0) = radius over the listed coordinates, given total = sum |w_j| > radius."""
    tau = (total - radius) / count
    kept = count
    while True:
        size = 0.0
        left = 0
        for k in range(count):
            a = abs(w[where[k]])
            if a > tau:
                size += a
                left += 1
        # In exact arithmetic fewer are left each time; rounding may bring one back, and then forever.
        if left >= kept or left == 0:
            return tau
        kept = left
        tau = (size - radius) / left


@jit
def _project_l1(w, num, active, place, count):
    """Onto the l1 ball; answers the number of non-zeros, which active[:count] lists and ``place`` finds."""
    total = 0.0
    for k in range(count):
        total += abs(w[active[k]])
    radius = num[SET_P]
    if total <= radius:
        return count
    tau = _threshold(w, active, count, total, radius)
    left = 0
    for k in range(count):
        j = active[k]
        a = abs(w[j]) - tau
        if a > 0.0:
            w[j] = math.copysign(a, w[j])
            active[left] = j
            place[j] = left
            left += 1
        else:
            w[j] = 0.0
            place[j] = -1
    return left


@jit
def _project_simplex(w, num, cnt, active):
    """Onto {w >= 0, sum w = radius}, or <= radius; O(d)."""
    d = cnt[D]
    radius = num[SET_P]
    if cnt[SET] == UNIT_SIMPLEX:
        total = 0.0
        for j in range(d):
            w[j] = max(w[j], 0.0)
            total += w[j]
        if total <= radius:
            return
    # Shifted so that all entries are positive and their sum is above the radius, this is the threshold of an l1 ball.
    lowest = 0.0
    total = 0.0
    for j in range(d):
        lowest = min(lowest, w[j])
        total += w[j]
        active[j] = j
    shift = -lowest + max(radius - (total - d * lowest), 0.0) / d + radius / d
    for j in range(d):
        w[j] += shift
    tau = _threshold(w, active, d, total + d * shift, radius)
    for j in range(d):
        w[j] = max(w[j] - tau, 0.0)


@jit
def project_after(w, num, cnt, idx, start, stop, active, place, count):
    """Project w, which has just changed on idx[start:stop]; answers the number of non-zeros listed."""
    kind = cnt[SET]
    if kind == L1:
        for k in range(start, stop):
            j = idx[k]
            if w[j] != 0.0 and place[j] < 0:
                place[j] = count
                active[count] = j
                count += 1
        return _project_l1(w, num, active, place, count)
    if kind in (SIMPLEX, UNIT_SIMPLEX):
        _project_simplex(w, num, cnt, active)
    elif kind == L2:
        total = 0.0
        for j in range(cnt[D]):
            total += w[j] * w[j]
        if total > num[SET_P] * num[SET_P]:
            shrink = num[SET_P] / math.sqrt(total)
            for j in range(cnt[D]):
                w[j] *= shrink
    elif kind in (LINF, BOX, BOX_ARRAYS):
        for k in range(start, stop):
            j = idx[k]
            lower, upper = bounds(num, cnt, j)
            w[j] = min(max(w[j], lower), upper)
    return count
