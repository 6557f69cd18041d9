"""Projected AdaGrad with a diagonal metric: a baseline that the library does not offer, as good as we can make it."""

from __future__ import annotations

import math
import typing

import numba as nb
import numpy as np
from scipy import sparse

from fwonline import losses, sets
from fwonline._kernels.memory import loss_derivative, loss_value

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AdaGrad"]

_L1, _SIMPLEX, _UNIT_SIMPLEX, _L2 = range(4)
_KINDS = {sets.L1Ball: _L1, sets.ProbabilitySimplex: _SIMPLEX, sets.UnitSimplex: _UNIT_SIMPLEX, sets.L2Ball: _L2}


@nb.njit(cache=True, error_model="numpy")
def _project(kind, w, metric, listed, count, radius):  # pragma: no cover  compiled
    """The nearest point of the set in the norm sum h_j x_j^2 / 2, h_j = sqrt(metric_j); Newton on its multiplier."""
    size = 0.0
    for k in range(count):
        size += w[listed[k]] ** 2 if kind == _L2 else max(w[listed[k]], 0.0) if kind != _L1 else abs(w[listed[k]])
    if kind == _L2:
        if size <= radius * radius:
            return
        multiplier = 0.0
        for _ in range(100):
            excess, slope = -radius * radius, 0.0
            for k in range(count):
                h = math.sqrt(metric[listed[k]])
                x = h * w[listed[k]] / (h + multiplier)
                excess += x * x
                slope += 2.0 * x * x / (h + multiplier)
            if excess <= 1e-12 * radius * radius or slope == 0.0:
                break
            multiplier += excess / slope
        for k in range(count):
            h = math.sqrt(metric[listed[k]])
            w[listed[k]] *= h / (h + multiplier)
        return
    if size <= radius and kind != _SIMPLEX:
        if kind == _UNIT_SIMPLEX:
            for k in range(count):
                w[listed[k]] = max(w[listed[k]], 0.0)
        return
    # sum max(|w_j| - t / h_j, 0) = radius falls in t and is convex: Newton from the left stays on the left.
    t = 0.0
    if kind == _SIMPLEX:
        t = np.inf
        for k in range(count):  # a t at which every entry is above 0 and their sum above the radius
            t = min(t, (w[listed[k]] - radius) * math.sqrt(metric[listed[k]]))
    for _ in range(200):
        excess, slope = -radius, 0.0
        for k in range(count):
            inverse = 1.0 / math.sqrt(metric[listed[k]])
            x = (abs(w[listed[k]]) if kind == _L1 else w[listed[k]]) - t * inverse
            if x > 0.0:
                excess += x
                slope += inverse
        if excess <= 1e-12 * radius or slope == 0.0:
            break
        t += excess / slope
    for k in range(count):
        j = listed[k]
        x = max((abs(w[j]) if kind == _L1 else w[j]) - t / math.sqrt(metric[j]), 0.0)
        w[j] = math.copysign(x, w[j]) if kind == _L1 else x


@nb.njit(cache=True, error_model="numpy")
def _learn(indptr, indices, values, y, loss, kind, radius, step, w, metric, listed, place, counts, free):
    """One pass; returns the sum of the losses before learning. A sample costs the non-zeros of w where it projects.

    ``free`` is empty, or of an intercept outside the set: the best constant by Newton's steps, its curvature and
    samples, and AdaGrad's offset from it with its metric.
    """  # pragma: no cover
    total = 0.0
    for i in range(y.size):
        z = free[0] + free[3] if free.size else 0.0
        for k in range(indptr[i], indptr[i + 1]):
            z += w[indices[k]] * values[k]
        total += loss_value(loss, y[i], z)
        derivative = loss_derivative(loss, y[i], z)
        if free.size:
            b = free[0]
            bend = loss_derivative(loss, y[i], b + 1e-3) - loss_derivative(loss, y[i], b - 1e-3)
            free[1] += max(bend / 2e-3, 1e-12)
            free[2] += 1.0
            free[0] -= loss_derivative(loss, y[i], b) / (free[1] * (1.0 + 1.0 / free[2]))
            free[4] += derivative * derivative
            if free[4] > 0.0:
                free[3] -= step * free[5] * derivative / math.sqrt(free[4])
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            g = derivative * values[k]
            if g == 0.0:
                continue
            metric[j] += g * g
            w[j] -= step * g / math.sqrt(metric[j])
            if place[j] < 0:
                place[j] = counts[0]
                listed[counts[0]] = j
                counts[0] += 1
        _project(kind, w, metric, listed, counts[0], radius)
        left = 0
        for k in range(counts[0]):
            j = listed[k]
            if w[j] != 0.0:
                listed[left] = j
                place[j] = left
                left += 1
            else:
                place[j] = -1
        counts[0] = left
    return total


class AdaGrad:
    """Projected AdaGrad (Duchi, Hazan, Singer 2011), projected in its own metric after every sample.

    Parameters
    ----------
    constraint
        An l1 ball, an l2 ball or a simplex.
    loss
        A loss of river that runs compiled.
    step
        The step size, in units of weight; > 0. It must be tuned.
    intercept
        What an entry of an intercept outside the set counts as, so that it steps as the features do; 0 for none.
    """

    def __init__(self, constraint: sets.ConvexSet, loss: typing.Any, step: float, intercept: float = 0.0):
        self._form = losses.compiled(loss)
        self._kind = _KINDS[type(constraint)]
        self._radius = float(constraint.radius)  # type: ignore[attr-defined]
        self._step = step
        self._free = np.array([0.0, 0.0, 0.0, 0.0, 0.0, intercept]) if intercept else np.zeros(0)
        self._w: NDArray | None = None
        self.cumulative_loss = 0.0

    def learn_arrays(self, X: sparse.csr_array, y: NDArray) -> None:
        """One pass over the rows."""
        if self._w is None:
            d = X.shape[1]
            self._w, self._metric = np.zeros(d), np.zeros(d)
            self._listed, self._place = np.zeros(d, dtype=np.int64), np.full(d, -1)
            self._counts = np.zeros(2, dtype=np.int64)
        self.cumulative_loss += _learn(
            X.indptr,
            X.indices,
            X.data,
            np.asarray(y, dtype=np.float64),
            self._form,
            self._kind,
            self._radius,
            self._step,
            self._w,
            self._metric,
            self._listed,
            self._place,
            self._counts,
            self._free,
        )

    @property
    def weights(self) -> dict:
        """The weights that are not zero."""
        assert self._w is not None
        return {int(j): float(self._w[j]) for j in np.flatnonzero(self._w)}
