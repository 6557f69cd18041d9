"""A smooth function that is known by its value and its gradient, and how far to go along a direction of it."""

from __future__ import annotations

import math
import types
import typing

import numpy as np

from fwonline.optim.problem.objective import of_shape
from fwonline.optim.problem.rounding import EPS

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Search", "SmoothFunction"]

# A search ends where the slope has fallen to this share, and after this many gradients at most.
_SHARE, _LOOKS = 0.01, 40


class SmoothFunction:
    """f and its gradient as a user has written them; each is given a copy of the point.

    Parameters
    ----------
    f
        ``f(x)``: its value; with ``grad=True`` its value and its gradient.
    grad
        ``grad(x)``: its gradient, of the shape of x.
    """

    def __init__(self, f: Callable[[Array], typing.Any], grad: Callable[[Array], typing.Any] | bool):
        if not callable(f):
            raise TypeError(f"f must be a function of x, got {f!r}")
        if grad is not True and not callable(grad):
            raise TypeError(f"grad must be a function of x, or True where f returns value and gradient, got {grad!r}")
        self._f, self._grad = f, grad
        # Named as a run's are.
        self.counts = types.SimpleNamespace(t=0, n_gradients=0, n_exact=0, n_lmo=0, gap=math.nan, gamma=math.nan)
        self._last: tuple[Array, float] | None = None  # a point and f there, of an f that returns both

    def _both(self, x: Array) -> tuple[float, typing.Any]:
        answer = self._f(x.copy())
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise TypeError(f"with grad=True f must return its value and its gradient, got {answer!r}")
        self._last = x, float(answer[0])
        return float(answer[0]), answer[1]

    def value(self, x: Array) -> float:
        if self._grad is not True:
            return float(self._f(x.copy()))
        if self._last is not None and self._last[0] is x:
            return self._last[1]
        return self._both(x)[0]

    def gradient(self, x: Array) -> Array:
        """The gradient; its entries need not be finite, as outside of the domain of a logarithm."""
        self.counts.n_gradients += 1
        self.counts.n_exact += 1
        g = self._both(x)[1] if self._grad is True else typing.cast("Callable", self._grad)(x.copy())
        return of_shape(x, g, "the gradient")


class Search(typing.NamedTuple):
    """Where a search along a direction has ended.

    Attributes
    ----------
    gamma
        The step.
    x
        The point there.
    gradient
        The gradient there; None where it was not taken.
    value
        f there.
    curvature
        The mean second derivative along the direction, for a unit of its length.
    """

    gamma: float
    x: Array
    gradient: Array | None
    value: float
    curvature: float


def _tried(function: Callable[[Array], typing.Any], x: Array) -> typing.Any:
    """What a function says of a point that may lie outside of its domain: NaN there."""
    try:
        return function(x)
    except (ArithmeticError, ValueError):
        return math.nan


def search(function: SmoothFunction, start: Search, direction: Array, slope: float, limit: float) -> Search:
    r"""The step at which :math:`\varphi(\gamma) = f(x + \gamma d)` has the least slope, by its derivatives alone.

    Close to a minimum values of f differ by less than their rounding, but slopes still tell. The secants of
    :math:`\varphi'` are followed to its zero, kept between points on both sides of it (the Illinois rule), until
    :math:`|\varphi'(\gamma)|` is a hundredth of the slope at 0. A point counts as one beyond it where f or its gradient
    is not finite, or raises an ArithmeticError or a ValueError, as numpy does for singular matrices. What is found is
    halved while f there is above f(x) by more than rounding: for an f that is not convex.

    Parameters
    ----------
    start
        Where the search before has ended: x, f and the gradient there; from its curvature, unless it is 0, the first
        step is guessed.
    direction, slope, limit
        d, minus its derivative at 0, and the largest step.
    """
    x, g, here, curvature = start.x, typing.cast("Array", start.gradient), start.value, start.curvature
    dist_sq = float(np.vdot(direction, direction))
    if slope <= 0.0 or limit <= 0.0 or dist_sq == 0.0:
        return start._replace(gamma=0.0)
    enough = max(_SHARE * slope, 4.0 * EPS * float(np.vdot(np.abs(g), np.abs(direction))))
    low, low_slope, high, high_slope, side = 0.0, -slope, math.inf, math.inf, 0
    gamma = min(limit, slope / curvature / dist_sq) if curvature > 0.0 else limit
    for _ in range(_LOOKS):
        point = x + gamma * direction
        there = _tried(function.gradient, point)
        found = float(np.vdot(there, direction)) if np.isfinite(there).all() else math.inf
        if abs(found) <= enough or (found <= 0.0 and gamma == limit):
            break
        if found > 0.0:
            low_slope *= 0.5 if side == 1 else 1.0
            high, high_slope, side = gamma, found, 1
        elif high == math.inf:  # not yet beyond it: as far as the secant says
            rise = found - low_slope
            far = gamma - found * (gamma - low) / rise if rise > 0.0 else math.inf
            low, low_slope = gamma, found
            gamma = min(limit, max(far, 1.5 * gamma), 10.0 * gamma)
            continue
        else:
            high_slope *= 0.5 if side == -1 else 1.0
            low, low_slope, side = gamma, found, -1
        if high - low <= 4.0 * EPS * high:
            break
        gamma = low + (high - low) * (0.5 if high_slope == math.inf else low_slope / (low_slope - high_slope))
    moves = gamma * math.sqrt(dist_sq) > EPS * float(np.abs(x).max())
    if not moves:  # the slope was one of rounding: no direction of descent
        return Search(0.0, x, g, here, curvature)
    bend = (found + slope) / gamma / dist_sq
    curvature = bend if 0.0 < bend < math.inf else curvature
    gradient: Array | None = there
    while not (value := _tried(function.value, point)) <= here + 16.0 * EPS * abs(here):
        gamma *= 0.5
        if gamma * math.sqrt(dist_sq) <= EPS * float(np.abs(x).max()):
            return Search(0.0, x, g, here, curvature)
        point, gradient = x + gamma * direction, None
    return Search(gamma, point, gradient, value, curvature)
