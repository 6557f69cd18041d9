"""Euclidean projections after a sparse update, for the baselines that need one a sample.

On the l1 ball only the non-zeros matter: the threshold t solves sum max(|w_j| - t, 0) = radius by Newton's method
(Michelot's), which rises to the solution from max |w_j| - radius in a few passes over them.
"""

from __future__ import annotations

import math

from fwonline._kernels.entry import call
from fwonline._kernels.layout import GENERIC, L1, L2, SIMPLEX, UNIT_SIMPLEX, inner, part
from fwonline._kernels.pairwise import list_coordinate
from fwonline._kernels.steps import PROJECTION, bounds


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
