"""Objectives of which the best point is looked for in hindsight: a weighted sum over samples, and a quadratic."""

from __future__ import annotations

import copy
import typing

import numpy as np
from river.optim import losses as _river

from fwonline import losses
from fwonline.optim.problem.columns import DenseColumns

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    from fwonline.optim.problem.columns import SparseColumns
    from fwonline.optim.problem.score_loss import ScoreLoss

    Array = NDArray[np.float64]

__all__ = ["Quadratic", "SmoothedSum", "Tangent"]


class Tangent(typing.NamedTuple):
    """What is known of a convex function at one point: it lies above `offset + <gradient, .>` everywhere."""

    value: float  # of the smooth function that is minimised
    gradient: Array
    offset: float  # of the true function's lower plane
    blur: float  # how far that plane is below the smooth function's tangent

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.value) and np.isfinite(self.gradient).all())


class SmoothedSum:
    """The weighted mean loss of samples. A point's image is its scores.

    Parameters
    ----------
    data, y, loss
        The samples, their targets and the loss of their scores.
    p
        Weights that sum to 1.
    """

    def __init__(self, data: DenseColumns | SparseColumns, y: Array, loss: ScoreLoss, p: Array):
        self.data, self.y, self.loss, self.p = data, y, loss, p
        self.kinks = _kinks(loss, y)
        self.mu = 0.0  # width of the envelope
        self.scale = 0.0  # numbers that cancel in the value, for the rounding of the bounds

    def image(self, w: Array) -> Array:
        return self.data.times(w)

    def value(self, w: Array, z: Array) -> float:
        return float(self.p @ self.loss.value(self.y, z))

    def _contact(self, z: Array) -> tuple[Array, Array]:
        """Slopes of the smooth losses at z, and the points where the true losses have these slopes."""
        if self.kinks is None:
            return self.loss.derivative(self.y, z), z
        k1, k2, s0, s1, s2 = self.kinks
        alpha = np.clip((z - k1) / self.mu, s0, s1) + np.clip((z - k2) / self.mu, s1, s2) - s1
        return alpha, z - self.mu * alpha

    def smooth_value(self, w: Array, z: Array) -> float:
        if self.kinks is None:
            return self.value(w, z)
        alpha, u = self._contact(z)
        return float(self.p @ (self.loss.value(self.y, u) + 0.5 * self.mu * alpha * alpha))

    def tangent(self, w: Array, z: Array) -> Tangent:
        alpha, u = self._contact(z)
        at_contact = float(self.p @ self.loss.value(self.y, u))
        half = 0.5 * self.mu * float(self.p @ (alpha * alpha))
        weighted = self.p * alpha
        return Tangent(at_contact + half, self.data.transposed(weighted), at_contact - float(weighted @ u), half)

    def slope_along(self, z: Array, way: Array) -> float:
        """The derivative along a direction whose image is ``way``."""
        return float(self.p @ (self._contact(z)[0] * way))

    def constant(self) -> float:
        """The mean loss of the best constant prediction, found to a few digits: what a fit is measured by."""
        z = np.zeros_like(self.y)
        low, high = min(float(self.y.min()), -20.0), max(float(self.y.max()), 20.0)
        for _ in range(60):
            middle = 0.5 * (low + high)
            slope = float(self.p @ self.loss.derivative(self.y, z + middle))
            low, high = (low, middle) if slope > 0.0 else (middle, high)
        return float(self.p @ self.loss.value(self.y, z + middle))

    def curvature(self, z: Array) -> Array:
        """X' f'' X, with the slope's change over a short way for f''."""
        return self._of_bend(self.p * self._bend(z))

    def _bend(self, z: Array) -> Array:
        h = np.maximum(1e-4 * (1.0 + np.abs(z)), 0.5 * self.mu)
        return np.maximum(self._contact(z + h)[0] - self._contact(z - h)[0], 0.0) / (2.0 * h)

    def _of_bend(self, bend: Array) -> Array:
        H = self.data.gram(bend)[0]
        H = 0.5 * (H + H.T)
        # Where no sample bends, as between the kinks, a step must not be without bounds.
        H[np.diag_indices(len(H))] *= 1.0 + 1e-9
        return H

    def quadratic(self) -> Quadratic:
        """The same function from the sums of squares and products, for the squared loss."""
        H, moments = self.data.gram(self.p, self.y)
        return Quadratic(H + H.T, 2.0 * moments, float(self.p @ (self.y * self.y)))

    def over(self, atoms: Array) -> SmoothedSum:
        """The same function of the weights of a mixture of the columns of `atoms`."""
        mixture = copy.copy(self)
        mixture.data = DenseColumns(self.data.times(atoms), by_rows=True)
        return mixture


def _kinks(loss: ScoreLoss, y: Array) -> tuple[typing.Any, ...] | None:
    """Kinks k1 <= k2 and the slopes before, between and after them, of a piecewise linear loss; else None."""
    f: typing.Any = getattr(loss, "loss", None)
    sign = 2.0 * y - 1.0
    if type(f) is _river.Absolute:
        return y, y, -1.0, 0.0, 1.0
    if type(f) is _river.Quantile:
        return y, y, -f.alpha, 0.0, 1.0 - f.alpha
    if type(f) is losses.EpsilonInsensitive:
        return y - f.eps, y + f.eps, -1.0, 0.0, 1.0
    if type(f) is _river.EpsilonInsensitiveHinge:
        return sign - f.eps, sign + f.eps, -1.0, 0.0, 1.0
    if type(f) is _river.Hinge:
        at = sign * f.threshold
        return at, at, np.minimum(-sign, 0.0), 0.0, np.maximum(-sign, 0.0)
    return None


class Quadratic:
    """Half w'Hw minus b'w plus c. A point's image is Hw."""

    kinks = None
    mu = 0.0

    def __init__(self, H: Array, b: Array, c: float):
        self.H, self.b, self.c = H, b, c
        self.scale = abs(c)

    def image(self, w: Array) -> Array:
        return self.H @ w

    def value(self, w: Array, z: Array) -> float:
        return float(w @ (0.5 * z - self.b)) + self.c

    smooth_value = value

    def tangent(self, w: Array, z: Array) -> Tangent:
        gradient = z - self.b
        value = self.value(w, z)
        return Tangent(value, gradient, value - float(gradient @ w), 0.0)

    def over(self, atoms: Array) -> Quadratic:
        return Quadratic(atoms.T @ self.H @ atoms, atoms.T @ self.b, self.c)

    def best_mixture(self, start: Array) -> Array:
        """Go from a point of the probability simplex to the best one, exactly and however badly scaled.

        These are Wolfe's active sets: the minimum over the affine hull of the entries in use is the best point if it is
        inside; otherwise the entry that is in the way is given up.
        """
        mixing, used = start, np.ones(start.size, dtype=bool)
        while True:
            size = np.sqrt(np.maximum(np.diag(self.H)[used], 0.0))
            size = np.maximum(size, 1e-8 * size.max()) if size.any() else np.ones_like(size)
            k = size.size
            system = np.zeros((k + 1, k + 1))
            system[:k, :k] = self.H[np.ix_(used, used)] / np.outer(size, size)
            system[k, :k] = system[:k, k] = size.min() / size
            wanted = np.append(self.b[used] / size, size.min())
            solution = np.linalg.lstsq(system, wanted, rcond=None)[0]
            solution += np.linalg.lstsq(system, wanted - system @ solution, rcond=None)[0]  # what rounding left
            affine = np.zeros(start.size)
            affine[used] = solution[:k] / size
            leaving = used & (affine <= 0)
            if not leaving.any() or k == 1:
                return np.maximum(affine, 0) / np.maximum(affine, 0).sum() if affine.any() else mixing
            ratio = mixing[leaving] / np.maximum(mixing[leaving] - affine[leaving], np.finfo(float).tiny)
            mixing = np.maximum(mixing + ratio.min() * (affine - mixing), 0.0)
            mixing[np.flatnonzero(leaving)[ratio == ratio.min()]] = 0.0
            used &= mixing > 0

    def best_in_ball(self, radius: float) -> Array:
        """The least point in an l2 ball: (H + shift) w = b with the shift that brings w into it."""
        values, vectors = np.linalg.eigh(self.H)
        values = np.maximum(values, np.finfo(float).eps * max(float(values[-1]), np.finfo(float).tiny))
        b = vectors.T @ self.b
        low, high = 0.0, float(np.linalg.norm(b)) / radius
        if np.linalg.norm(b / values) > radius:
            while high - low > 1e-15 * high:
                shift = 0.5 * (low + high)
                if shift in (low, high):
                    break
                low, high = (shift, high) if np.linalg.norm(b / (values + shift)) > radius else (low, shift)
            values = values + high
        w = vectors @ (b / values)
        return w * min(1.0, radius / float(np.linalg.norm(w))) if w.any() else w
