"""Euclidean projections after a sparse update, for the baselines that need one a sample.

On the l1 ball only the non-zeros matter: the threshold t solves sum max(|w_j| - t, 0) = radius by Newton's method
(Michelot's), which rises to the solution from max |w_j| - radius in a few passes over them.
"""

from __future__ import annotations

import math

from fwonline._kernels.layout import BOX, BOX_ARRAYS, L1, L2, LINF, SET, SET_P, SIMPLEX, UNIT_SIMPLEX, D, jit, part
from fwonline._kernels.steps import bounds


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


@jit
def _project_l1(w, num, active, place, count):
    """Onto the l1 ball; answers the number of non-zeros, which active[:count] lists and ``place`` finds."""
    total = 0.0
    top = 0.0
    for k in range(count):
        total += abs(w[active[k]])
        top = max(top, abs(w[active[k]]))
    radius = num[SET_P]
    if total <= radius:
        return count
    tau = _threshold(L1, w, active, count, top, radius)
    left = 0
    for k in range(count):
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
    return left


@jit
def _project_simplex(w, num, cnt, active):
    """Onto {w >= 0, sum w = radius}, or <= radius; O(d)."""
    d = cnt[D]
    if d == 0:
        return
    radius = num[SET_P]
    if cnt[SET] == UNIT_SIMPLEX:
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
