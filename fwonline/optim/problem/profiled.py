"""The mean loss of samples at the best intercept: a convex function of the weights alone."""

from __future__ import annotations

import typing

import numpy as np

from fwonline.optim.problem.smoothed import Quadratic, SmoothedSum, Tangent

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["ProfiledSum", "has_best_intercept"]

_FAR = 1e9  # times the largest score or target: so far a best intercept is looked for
_EXACT = 1e-13  # of an intercept, relative


class _Pair(typing.NamedTuple):
    """Two intercepts beside the best one, and how much the first counts so that the slopes there cancel."""

    low: float
    high: float
    share: float

    @property
    def middle(self) -> float:
        return self.share * self.low + (1.0 - self.share) * self.high


class ProfiledSum(SmoothedSum):
    r""":math:`\min_b \sum_i p_i f(y_i, \langle x_i, w \rangle + b)`. A point's image is its scores without b.

    Its lower planes are mixtures of the loss's planes at two intercepts, between which the slope in b changes its sign:
    mixed so that it is 0, they hold for every intercept, however exactly the best one was found.
    """

    _known: tuple[Array, float, _Pair] | None = None

    def best(self, z: Array) -> _Pair:
        """The best intercept for these scores, between two numbers.

        Raises
        ------
        ValueError
            Where the loss falls without end.
        """
        if self._known is not None and self._known[0] is z and self._known[1] == self.mu:
            return self._known[2]
        start = self._known[2].middle if self._known is not None else 0.0
        pair = self._search(z, start)
        self._known = z, self.mu, pair
        return pair

    def _slope(self, z: Array, b: float) -> float:
        smooth = self.kinks is None or self.mu > 0.0
        return float(self.p @ (self._contact(z + b)[0] if smooth else self.loss.derivative(self.y, z + b)))

    def _search(self, z: Array, start: float) -> _Pair:
        slope = self._slope(z, start)
        if slope == 0.0 or not np.isfinite(slope):
            return _Pair(start, start, 1.0)
        sign = -1.0 if slope > 0.0 else 1.0
        near, near_slope, step = start, slope, 1e-3 * (1.0 + abs(start))
        most = _FAR * (1.0 + float(np.abs(z).max()) + float(np.abs(self.y).max()))
        while True:
            far = near + sign * step
            far_slope = self._slope(z, far)
            if not far_slope * sign < 0.0:
                break
            if abs(far) > most:
                raise ValueError("the loss falls without end as the intercept moves: expected one that has a best")
            near, near_slope, step = far, far_slope, 2.0 * step
        # The Illinois method: regula falsi, in which an end that stays counts half as much each time.
        weight, last = [near_slope, far_slope], 0
        for _ in range(200):
            if far_slope == 0.0 or not np.isfinite(far_slope) or abs(far - near) <= _EXACT * max(abs(near), abs(far)):
                break
            b = (near * weight[1] - far * weight[0]) / (weight[1] - weight[0])
            if not min(near, far) < b < max(near, far):
                b = 0.5 * (near + far)
                if b in (near, far):
                    break
            s = self._slope(z, b)
            side = int(s * sign >= 0.0)
            if side:
                far, far_slope = b, s
            else:
                near, near_slope = b, s
            weight[side] = s
            weight[1 - side] *= 0.5 if side == last else 1.0
            last = side
        if not np.isfinite(far_slope):
            return _Pair(near, near, 1.0)
        return _Pair(near, far, far_slope / (far_slope - near_slope) if far_slope != near_slope else 1.0)

    def exact(self, z: Array) -> float:
        """The best intercept by the loss itself, where the search is over."""
        self.mu = 0.0
        return self.best(z).middle

    def value(self, w: Array, z: Array) -> float:
        return super().value(w, z + self.best(z).middle)

    def smooth_value(self, w: Array, z: Array) -> float:
        shifted = z + self.best(z).middle
        if self.kinks is None:
            return super().value(w, shifted)
        alpha, u = self._contact(shifted)
        return float(self.p @ (self.loss.value(self.y, u) + 0.5 * self.mu * alpha * alpha))

    def tangent(self, w: Array, z: Array) -> Tangent:
        pair = self.best(z)
        value = offset = blur = 0.0
        slopes = np.zeros_like(z)
        for share, b in ((pair.share, pair.low), (1.0 - pair.share, pair.high)):
            if share == 0.0:
                continue
            alpha, u = self._contact(z + b)
            at_contact = float(self.p @ self.loss.value(self.y, u))
            half = 0.5 * self.mu * float(self.p @ (alpha * alpha))
            value += share * (at_contact + half)
            offset += share * (at_contact - float((self.p * alpha) @ u))
            blur += share * half
            slopes += share * alpha
        weighted = self.p * slopes
        self.scale = max(self.scale, abs(pair.middle) * float(np.abs(weighted).sum()))
        return Tangent(value, self.data.transposed(weighted), offset, blur)

    def slope_along(self, z: Array, way: Array) -> float:
        pair = self.best(z)
        ends = [self._contact(z + b)[0] for b in (pair.low, pair.high)]
        return float(self.p @ ((pair.share * ends[0] + (1.0 - pair.share) * ends[1]) * way))

    def curvature(self, z: Array) -> Array:
        shifted = z + self.best(z).middle
        bend = self.p * self._bend(shifted)
        total = float(bend.sum())
        moved = self.data.transposed(bend)
        H = self._of_bend(bend) if total <= 0.0 else self._of_bend(bend) - np.outer(moved, moved) / total
        H[np.diag_indices(len(H))] = np.maximum(np.diag(H), 0.0)
        return H

    def quadratic(self) -> Quadratic:
        whole = super().quadratic()
        mean, level = self.data.transposed(self.p), float(self.p @ self.y)
        centred = Quadratic(whole.H - 2.0 * np.outer(mean, mean), whole.b - 2.0 * level * mean, whole.c - level * level)
        centred.scale = whole.scale
        return centred


def has_best_intercept(derivative: typing.Callable[[Array, Array], Array]) -> bool:
    """Whether a loss of targets 0 and 1 stops falling as an intercept grows, and as it falls."""
    y, far = np.array([0.0, 1.0]), np.full(2, 1e6)
    with np.errstate(all="ignore"):
        return not (derivative(y, far) < 0.0).all() and not (derivative(y, -far) > 0.0).all()
