"""The half of a step that all algorithms share: from a gradient estimate to an atom, a step size, a new iterate.

``direction`` asks the set for its atom s and notes the estimated gap <r, w - s> and ||s - w||^2; ``step_size`` asks the
schedule; ``advance`` moves w to (1 - gamma) w + gamma s. On coordinate atoms all three cost O(1) beyond the argmax,
on dense atoms O(d).
"""

from __future__ import annotations

import math

import numpy as np

from fwonline._kernels.coordinates import best
from fwonline._kernels.layout import (
    ATOM,
    BOX,
    DIST_SQ,
    DOT,
    GAMMA,
    GAP,
    INDEX,
    L1,
    L2,
    LINF,
    N_LMO,
    NUM,
    SET,
    SET_P,
    SET_Q,
    SIMPLEX,
    SINCE,
    STEP_A,
    STEP_B,
    STEP_C,
    STEP_KIND,
    STEP_SUM,
    U_SCALE,
    UNIT_SIMPLEX,
    W_SCALE,
    W_SQ,
    D,
    T,
    fast_jit,
    jit,
    part,
)

# Schedules (fwonline.optim.schedules); CUSTOM_STEP asks a Python object.
HARMONIC, POWER, SHORT, ADAGRAD, CUSTOM_STEP = 0, 1, 2, 3, 4

# The scale of the iterate is folded in long before it could underflow.
SMALLEST_SCALE = 1e-100
# Entries of a gradient below this are none on sets of dense atoms: the inverse of their norm would overflow.
SMALLEST_GRADIENT = 1e-280
# Upkeep (sums taken anew, rounding snapped back into the set) costs O(d): every max(UPKEEP, d) steps it is O(1) a step.
UPKEEP = 4096
# What an adaptive schedule accumulates stays a number, whatever a single gap was.
LARGEST_SUM = 1e300


@part
def bounds(num, cnt, j):
    """The interval of coordinate j in a box."""
    kind = cnt[SET]
    if kind == LINF:
        return -num[SET_P], num[SET_P]
    if kind == BOX:
        return num[SET_P], num[SET_Q]
    size = (num.size - NUM) // 2
    return num[NUM + j], num[NUM + size + j]


@fast_jit
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


@fast_jit
def dot(u, w, d):
    """<u, w> over the first d entries."""
    total = 0.0
    for j in range(d):
        total += u[j] * w[j]
    return total


@fast_jit
def norm(u, top):
    """||u||, where top = max |u| > 0 keeps squares from over- and underflowing."""
    total = 0.0
    inverse = 1.0 / top
    for j in range(u.size):
        x = u[j] * inverse
        total += x * x
    return top * math.sqrt(total)


@part
def _coordinate_direction(v, u, rank, bound, group, num, cnt):
    kind = cnt[SET]
    j = best(kind, u, rank, bound, group, cnt[D])
    radius = num[SET_P]
    if kind == L1:
        # A zero estimate prefers no atom: the iterate stays (value 0 with index -2 is read by advance).
        atom = -radius if u[j] > 0.0 else (radius if u[j] < 0.0 else 0.0)
        if atom == 0.0:
            j = -2
    elif kind == UNIT_SIMPLEX and u[j] >= 0.0:
        j = -1
        atom = 0.0
    else:
        atom = radius
    cnt[INDEX] = j
    num[ATOM] = atom
    if j == -2:
        num[GAP] = 0.0
        num[DIST_SQ] = 0.0
    elif j == -1:
        num[GAP] = num[U_SCALE] * num[DOT]
        num[DIST_SQ] = num[W_SQ]
    else:
        num[GAP] = num[U_SCALE] * (num[DOT] - atom * u[j])
        num[DIST_SQ] = atom * atom - 2.0 * atom * v[j] * num[W_SCALE] + num[W_SQ]


@jit
def _dense_direction(v, u, num, cnt):
    d = cnt[D]
    top, dot, square = sums(u[:d], v[:d])
    num[DOT] = dot
    num[W_SQ] = square
    is_none = top < SMALLEST_GRADIENT
    cnt[INDEX] = -2 if is_none else 0
    num[ATOM] = 0.0
    support = 0.0  # <u, s>
    distance = 0.0
    if is_none:
        num[GAP] = 0.0
        num[DIST_SQ] = 0.0
        return
    if cnt[SET] == L2:
        size = norm(u[:d], top)
        factor = -num[SET_P] / size
        num[ATOM] = factor
        support = factor * size * size
        distance = num[SET_P] * num[SET_P] - 2.0 * factor * dot + square
    else:
        for j in range(d):
            if u[j] != 0.0:
                lower, upper = bounds(num, cnt, j)
                s = lower if u[j] > 0.0 else upper
                support += u[j] * s
                distance += (s - v[j]) * (s - v[j])
    num[GAP] = num[U_SCALE] * (dot - support)
    num[DIST_SQ] = distance


@part
def direction(v, u, rank, bound, group, num, cnt):
    """Ask the set for argmin <u, s>; note the estimated gap and ||s - w||^2."""
    cnt[N_LMO] += 1
    if cnt[SET] <= UNIT_SIMPLEX:
        _coordinate_direction(v, u, rank, bound, group, num, cnt)
    else:
        _dense_direction(v, u, num, cnt)


@part
def step_size(num, cnt):
    """gamma_t of the schedule, in [0, 1]."""
    t = cnt[T]
    kind = cnt[STEP_KIND]
    if kind == HARMONIC:  # a / (t + b) with a floor, started anew every c steps
        period = num[STEP_C]
        age = t % np.int64(period) if period > 0.0 else t
        gamma = max(2.0 / (age + num[STEP_A]), num[STEP_B])
    elif kind == POWER:
        gamma = num[STEP_B] * (t + 1.0) ** -num[STEP_A]
    elif kind == SHORT:  # the minimiser of the quadratic upper bound with constant L
        scale = num[STEP_A] * num[DIST_SQ]
        gamma = num[GAP] / scale if scale > 0.0 else 0.0
    else:  # ADAGRAD: the gaps seen so far set the scale
        num[STEP_SUM] = min(num[STEP_SUM] + num[GAP] * num[GAP], LARGEST_SUM)
        gamma = num[STEP_A] * num[GAP] / math.sqrt(num[STEP_SUM]) if num[STEP_SUM] > 0.0 else 0.0
    # The first step off a start that is no point of the simplex must be a whole one.
    if num[W_SQ] == 0.0 and cnt[SET] == SIMPLEX:
        return 1.0
    return min(max(gamma, 0.0), 1.0)


@part
def _advance_coordinate(v, u, num, cnt, gamma):
    j = cnt[INDEX]
    atom = num[ATOM]
    keep = 1.0 - gamma
    if keep <= 0.0:
        # A whole step forgets the past: its own case, since a scale of zero could not be divided by.
        v[: cnt[D]] = 0.0
        num[W_SCALE] = 1.0
        num[DOT] = 0.0
        num[W_SQ] = 0.0
        if j >= 0:
            v[j] = atom
            num[DOT] = atom * u[j]
            num[W_SQ] = atom * atom
        return
    num[W_SCALE] *= keep
    num[DOT] *= keep
    num[W_SQ] *= keep * keep
    if j >= 0:
        move = gamma * atom
        w_j = v[j] * num[W_SCALE]
        num[DOT] += move * u[j]
        num[W_SQ] += move * (2.0 * w_j + move)
        v[j] += move / num[W_SCALE]


@jit
def _advance_dense(v, u, num, cnt, gamma):
    d = cnt[D]
    keep = 1.0 - gamma
    if cnt[SET] == L2:
        move = gamma * num[ATOM]
        for j in range(d):
            v[j] = keep * v[j] + move * u[j]
    else:
        for j in range(d):
            # Where the gradient is zero every value of the interval is optimal; the one held is kept.
            if u[j] != 0.0:
                lower, upper = bounds(num, cnt, j)
                v[j] = min(max(keep * v[j] + gamma * (lower if u[j] > 0.0 else upper), lower), upper)


@jit
def upkeep(v, u, num, cnt):
    """Fold the scale into v, take the sums anew, and snap what rounding pushed out of the set back into it: O(d)."""
    d = cnt[D]
    kind = cnt[SET]
    w = v[:d]
    w *= num[W_SCALE]
    num[W_SCALE] = 1.0
    cnt[SINCE] = 0
    shrink = 1.0
    if kind <= UNIT_SIMPLEX:
        size = 0.0
        for j in range(d):
            size += abs(w[j])
        if size > num[SET_P] or (kind == SIMPLEX and size > 0.0):
            shrink = num[SET_P] / size
    elif kind == L2:
        _top, _, square = sums(w, w)
        if square > num[SET_P] * num[SET_P]:
            shrink = num[SET_P] / math.sqrt(square)
    if shrink != 1.0:
        w *= shrink
    _, dot, square = sums(u[:d], w)
    num[DOT] = dot
    num[W_SQ] = square


@part
def advance(v, u, num, cnt, gamma):
    """w <- (1 - gamma) w + gamma s."""
    num[GAMMA] = gamma
    cnt[T] += 1
    if cnt[INDEX] == -2 or gamma <= 0.0:
        return
    if cnt[SET] <= UNIT_SIMPLEX:
        _advance_coordinate(v, u, num, cnt, gamma)
    else:
        _advance_dense(v, u, num, cnt, gamma)
    cnt[SINCE] += 1
    if num[W_SCALE] < SMALLEST_SCALE or (cnt[SINCE] >= UPKEEP and cnt[SINCE] >= cnt[D]):
        upkeep(v, u, num, cnt)


@part
def move(v, u, rank, bound, group, num, cnt):
    """One Frank-Wolfe step along the present gradient estimate."""
    if cnt[D] > 0:
        direction(v, u, rank, bound, group, num, cnt)
        advance(v, u, num, cnt, step_size(num, cnt))
