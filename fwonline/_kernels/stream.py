"""Gradient estimates that keep no samples: r is decayed and added to, a sample at a time.

r = U_SCALE * u, so that a decay is one multiplication and moves no argmax; additions are divided by the scale.
"""

from __future__ import annotations

from fwonline._kernels.coordinates import rebuild, sparse_dot
from fwonline._kernels.layout import (
    ATOM,
    DOT,
    GAMMA,
    INDEX,
    INTERCEPT,
    LOSS_KIND,
    LOSS_P,
    LOSS_Q,
    RHO_A,
    RHO_B,
    RHO_C,
    SET,
    U_SCALE,
    UNIT_SIMPLEX,
    D,
    T,
    jit,
    part,
)
from fwonline._kernels.memory import add_sample
from fwonline._kernels.steps import SMALLEST_SCALE, move
from fwonline.losses import loss_derivative


@part
def rho(num, cnt):
    """rho_t = a / (t + b)^c, the weight of what is new."""
    return min(num[RHO_A] / (cnt[T] + num[RHO_B]) ** num[RHO_C], 1.0)


@jit
def _reset(u, bound, group, num, cnt, factor):
    """Multiply u by factor, and set its scale to 1."""
    d = cnt[D]
    for j in range(d):
        u[j] *= factor
    num[DOT] *= factor
    num[U_SCALE] = 1.0
    if cnt[SET] <= UNIT_SIMPLEX and d > 0:
        rebuild(cnt[SET], u, bound, group, d)


@part
def decay(u, bound, group, num, cnt, keep):
    """r <- keep * r."""
    if keep <= 0.0:
        _reset(u, bound, group, num, cnt, 0.0)
    else:
        num[U_SCALE] *= keep
        if num[U_SCALE] < SMALLEST_SCALE:
            _reset(u, bound, group, num, cnt, num[U_SCALE])


@part
def add(u, rank, bound, group, num, cnt, idx, val, start, stop, weight, margin):
    """r <- r + weight * x; margin = <x, w>."""
    add_sample(u, rank, bound, group, num, cnt, idx, val, start, stop, weight / num[U_SCALE], margin)


@part
def old_margin(num, cnt, old, idx, val, start, stop, margin):
    """<x, w_{t-1}>, given margin = <x, w_t>.

    w_t = (1 - gamma) w_{t-1} + gamma s is solved for the old margin where the atom is a coordinate; on sets of dense
    atoms, where a step costs O(d) anyway, the old iterate is kept.
    """
    if cnt[T] == 0 or cnt[INDEX] == -2 or num[GAMMA] <= 0.0:
        return margin
    if cnt[SET] > UNIT_SIMPLEX:
        return sparse_dot(old, idx, val, start, stop)
    if num[GAMMA] >= 1.0:
        return 0.0  # a whole step: taken from the origin at the start, and never asked for later (see the callers)
    j = cnt[INDEX]
    along = 0.0  # <x, s>
    if j >= 0:
        for k in range(start, stop):
            if idx[k] == j:
                along += num[ATOM] * val[k]
    return (margin - num[GAMMA] * along) / (1.0 - num[GAMMA])


@part
def old_derivative(num, cnt, old, idx, val, start, stop, y, margin):
    """f'(y, .) at the iterate before the last step."""
    before = old_margin(num, cnt, old, idx, val, start, stop, margin)
    return loss_derivative(cnt[LOSS_KIND], num[LOSS_P], num[LOSS_Q], y, before + num[INTERCEPT])


@part
def move_remembering(v, u, rank, bound, group, num, cnt, old):
    """A step that keeps the iterate it leaves, where ``old_margin`` will want it."""
    if cnt[SET] > UNIT_SIMPLEX:
        for j in range(cnt[D]):
            old[j] = v[j]
    move(v, u, rank, bound, group, num, cnt)
