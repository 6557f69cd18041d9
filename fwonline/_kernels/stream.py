"""Gradient estimates that keep no samples: r is decayed and added to, a sample at a time.

r = u_scale * u, so that a decay is one multiplication and moves no argmax; additions are divided by the scale.
"""

from __future__ import annotations

from fwonline._kernels.coordinates import rebuild
from fwonline._kernels.layout import inner, part
from fwonline._kernels.memory import add_sample, dot_with, loss_derivative
from fwonline._kernels.steps import SMALLEST_SCALE, is_sparse, move


@part
def rho(s):
    """rho_t = a / (t + b)^c, the weight of what is new."""
    return min(s.rho_a / (s.t + s.rho_b) ** s.rho_c, 1.0)


@inner
def _reset(it, s, region, factor):
    """Multiply u by factor, and set its scale to 1."""
    for j in range(s.d):
        it.u[j] *= factor
    s.dot *= factor
    s.u_scale = 1.0
    if is_sparse(region) and s.d > 0:
        rebuild(it, region.kind, s.d)


@part
def decay(it, s, region, keep):
    """r <- keep * r."""
    if keep <= 0.0:
        _reset(it, s, region, 0.0)
    else:
        s.u_scale *= keep
        if s.u_scale < SMALLEST_SCALE:
            _reset(it, s, region, s.u_scale)


@part
def add(it, s, region, x, weight, margin):
    """r <- r + weight * x; margin = <x, w>."""
    add_sample(it, s, region, x, weight / s.u_scale, margin)


@part
def old_margin(old, s, region, x, margin):
    """<x, w_{t-1}>, given margin = <x, w_t>.

    w_t = (1 - gamma) w_{t-1} + gamma s is solved for the old margin where the atom is a coordinate; on sets of dense
    atoms, where a step costs O(d) anyway, the old iterate is kept.
    """
    if s.t == 0 or s.index == -2 or s.gamma <= 0.0:
        return margin
    if not is_sparse(region):
        return dot_with(old, x)
    if s.gamma >= 1.0:
        return 0.0  # a whole step: taken from the origin at the start, and never asked for later (see the callers)
    along = 0.0  # <x, s>
    if s.index >= 0:
        for k in range(x.start, x.stop):
            if x.idx[k] == s.index:
                along += s.atom * x.val[k]
    return (margin - s.gamma * along) / (1.0 - s.gamma)


@part
def old_derivative(old, s, problem, x, y, margin):
    """f'(y, .) at the iterate before the last step, times the sample's weight."""
    return s.weight * loss_derivative(problem.loss, y, old_margin(old, s, problem.region, x, margin) + s.intercept)


@part
def move_remembering(it, old, s, problem):
    """A step that keeps the iterate it leaves, where ``old_margin`` will want it."""
    if not is_sparse(problem.region):
        for j in range(s.d):
            old[j] = it.v[j]
    move(it, s, problem)


# The scalars of rho_t.
RHO = ("rho_a", "rho_b", "rho_c")
