"""The half of a step that all algorithms share: from a gradient estimate to an atom, a step size, a new iterate.

``direction`` asks the set for its atom s and notes the estimated gap <r, w - s> and ||s - w||^2; ``step_size`` asks the
schedule; ``advance`` moves w to (1 - gamma) w + gamma s. On coordinate atoms all three cost O(1) beyond the argmax,
on dense atoms O(d).
"""

from __future__ import annotations

import math

from fwonline._kernels.coordinates import best
from fwonline._kernels.entry import call
from fwonline._kernels.layout import BOX, GENERIC, L1, L2, LINF, SIMPLEX, UNIT_SIMPLEX, fast_inner, inner, jit, part

# The scale of the iterate is folded in long before it could underflow.
SMALLEST_SCALE = 1e-100
# Entries of a gradient below this are none on sets of dense atoms: the inverse of their norm would overflow.
SMALLEST_GRADIENT = 1e-280
# Upkeep (sums taken anew, rounding snapped back into the set) costs O(d): every max(UPKEEP, d) steps it is O(1) a step.
UPKEEP = 4096
# What an adaptive schedule accumulates stays a number, whatever a single gap was.
LARGEST_SUM = 1e300
# What Python is asked of a set.
ATOM, PROJECTION, OUTSIDE = 0.0, 1.0, 2.0


@part
def is_sparse(region):
    """Whether atoms are coordinates."""
    return region.kind <= UNIT_SIMPLEX


@part
def bounds(region, j):
    """The interval of coordinate j in a box."""
    if region.kind == LINF:
        return -region.p, region.p
    if region.kind == BOX:
        return region.p, region.q
    return region.lower[j], region.upper[j]


@fast_inner
def sums(u, w):
    """max |u|, <u, w>, ||w||^2."""
    top = 0.0
    dot = 0.0
    square = 0.0
    for j in range(u.size):
        top = max(top, abs(u[j]))
        dot += u[j] * w[j]
        square += w[j] * w[j]
    return top, dot, square


@fast_inner
def dot(u, w, d):
    """<u, w> over the first d entries."""
    total = 0.0
    for j in range(d):
        total += u[j] * w[j]
    return total


@fast_inner
def norm(u, top):
    """||u||, where top = max |u| > 0 keeps squares from over- and underflowing."""
    total = 0.0
    inverse = 1.0 / top
    for j in range(u.size):
        x = u[j] * inverse
        total += x * x
    return top * math.sqrt(total)


@part
def _coordinate_direction(it, s, region):
    j = best(it, region.kind, s.d)
    if region.kind == L1:
        # A zero estimate prefers no atom: the iterate stays (value 0 with index -2 is read by advance).
        atom = -region.p if it.u[j] > 0.0 else (region.p if it.u[j] < 0.0 else 0.0)
        if atom == 0.0:
            j = -2
    elif region.kind == UNIT_SIMPLEX and it.u[j] >= 0.0:
        j = -1
        atom = 0.0
    else:
        atom = region.p
    s.index = j
    s.atom = atom
    if j == -2:
        s.gap = 0.0
        s.dist_sq = 0.0
    elif j == -1:
        s.gap = s.u_scale * s.dot
        s.dist_sq = s.w_sq
    else:
        s.gap = s.u_scale * (s.dot - atom * it.u[j])
        s.dist_sq = atom * atom - 2.0 * atom * it.v[j] * s.w_scale + s.w_sq


@inner
def _dense_direction(it, s, region):
    d, u, v = s.d, it.u, it.v
    top, dot, square = sums(u[:d], v[:d])
    s.dot = dot
    s.w_sq = square
    is_none = top < SMALLEST_GRADIENT
    s.index = -2 if is_none else 0
    s.atom = 0.0
    support = 0.0  # <u, s>
    distance = 0.0
    if is_none:
        s.gap = 0.0
        s.dist_sq = 0.0
        return
    if region.kind == L2:
        size = norm(u[:d], top)
        factor = -region.p / size
        s.atom = factor
        support = factor * size * size
        distance = region.p * region.p - 2.0 * factor * dot + square
    else:
        for j in range(d):
            if u[j] != 0.0:
                lower, upper = bounds(region, j)
                to = lower if u[j] > 0.0 else upper
                support += u[j] * to
                distance += (to - v[j]) * (to - v[j])
    s.gap = s.u_scale * (dot - support)
    s.dist_sq = distance


@part
def direction(it, s, region):
    """Ask the set for argmin <u, s>; note the estimated gap and ||s - w||^2."""
    s.n_lmo += 1
    if is_sparse(region):
        _coordinate_direction(it, s, region)
    elif region.kind == GENERIC:
        s.index = 0
        call(region.oracle, (ATOM,))  # Python's: fills it.atom and notes the same
    else:
        _dense_direction(it, s, region)


@part
def step_size(s, region, schedule):
    """gamma_t of the schedule, in [0, 1]."""
    if schedule.accumulates != 0:
        s.step_sum = min(s.step_sum + s.gap * s.gap, LARGEST_SUM)
    # The first step off a start that is no point of the simplex must be a whole one.
    if s.w_sq == 0.0 and region.kind == SIMPLEX:
        return 1.0
    gamma = call(schedule.gamma, (schedule.a, schedule.b, schedule.c, float(s.t), s.gap, s.dist_sq, s.step_sum))
    return min(max(gamma, 0.0), 1.0)


@part
def _advance_coordinate(it, s, gamma):
    j = s.index
    keep = 1.0 - gamma
    if keep <= 0.0:
        # A whole step forgets the past: its own case, since a scale of zero could not be divided by.
        it.v[: s.d] = 0.0
        s.w_scale = 1.0
        s.dot = 0.0
        s.w_sq = 0.0
        if j >= 0:
            it.v[j] = s.atom
            s.dot = s.atom * it.u[j]
            s.w_sq = s.atom * s.atom
        return
    s.w_scale *= keep
    s.dot *= keep
    s.w_sq *= keep * keep
    if j >= 0:
        move = gamma * s.atom
        w_j = it.v[j] * s.w_scale
        s.dot += move * it.u[j]
        s.w_sq += move * (2.0 * w_j + move)
        it.v[j] += move / s.w_scale


@inner
def _advance_dense(it, s, region, gamma):
    u, v = it.u, it.v
    keep = 1.0 - gamma
    if region.kind == L2:
        move = gamma * s.atom
        for j in range(s.d):
            v[j] = keep * v[j] + move * u[j]
    elif region.kind == GENERIC:
        for j in range(s.d):
            v[j] = keep * v[j] + gamma * it.atom[j]
    else:
        for j in range(s.d):
            # Where the gradient is zero every value of the interval is optimal; the one held is kept.
            if u[j] != 0.0:
                lower, upper = bounds(region, j)
                v[j] = min(max(keep * v[j] + gamma * (lower if u[j] > 0.0 else upper), lower), upper)


@jit
def upkeep(it, s, region):
    """Fold the scale into v, take the sums anew, and snap what rounding pushed out of the set back into it: O(d)."""
    kind, radius = region.kind, region.p
    w = it.v[: s.d]
    w *= s.w_scale
    s.w_scale = 1.0
    s.since = 0
    shrink = 1.0
    if is_sparse(region):
        size = 0.0
        for j in range(s.d):
            size += abs(w[j])
        if size > radius or (kind == SIMPLEX and size > 0.0):
            shrink = radius / size
    elif kind == L2:
        _top, _, square = sums(w, w)
        if square > radius * radius:
            shrink = radius / math.sqrt(square)
    if shrink != 1.0:
        w *= shrink
    _, dot, square = sums(it.u[: s.d], w)
    s.dot = dot
    s.w_sq = square


@part
def advance(it, s, region, gamma):
    """w <- (1 - gamma) w + gamma s."""
    s.gamma = gamma
    s.t += 1
    if s.index == -2 or gamma <= 0.0:
        return
    if is_sparse(region):
        _advance_coordinate(it, s, gamma)
    else:
        _advance_dense(it, s, region, gamma)
    s.since += 1
    if s.w_scale < SMALLEST_SCALE or (s.since >= UPKEEP and s.since >= s.d):
        upkeep(it, s, region)


@part
def move(it, s, problem):
    """One Frank-Wolfe step along the present gradient estimate."""
    if s.d > 0:
        direction(it, s, problem.region)
        advance(it, s, problem.region, step_size(s, problem.region, problem.schedule))
