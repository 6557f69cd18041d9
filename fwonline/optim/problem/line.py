r"""How far to go along a direction, when the predictions along it are known.

For predictions :math:`z + \gamma q` the objective is :math:`\varphi(\gamma) = \frac1n \sum_i f(y_i, z_i + \gamma q_i)`:
a function of one number, whose value or slope costs O(n) and no product with the data.
"""

from __future__ import annotations

import typing

import numpy as np

from fwonline.optim.problem.score_loss import ScalarLoss

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    from fwonline.optim.schedules import Schedule

    Array = NDArray[np.float64]

__all__ = ["Along", "Line", "Scheduled"]

_BISECTIONS = 60


class Line(typing.NamedTuple):
    """A direction of descent, as a step size may want to know it.

    Attributes
    ----------
    slope
        Minus the derivative of the objective along it, at 0.
    limit
        The largest step that stays in the set.
    y, z, q
        Targets, predictions here, and their change for a step of 1.
    dist_sq
        Squared length of the direction, asked for when a schedule wants it.
    """

    slope: float
    limit: float
    y: Array
    z: Array
    q: Array
    dist_sq: typing.Callable[[], float]


class Along:
    r"""The step that the objective itself asks for along the direction.

    A loss whose second derivative is at most L lies below
    :math:`\varphi(0) - \gamma\, \text{slope} + \frac{\gamma^2}{2} L\, \frac1n \|q\|^2`, whose minimum is taken: for the
    squared loss that is the exact line search, for others the short step with the curvature of this very direction. For
    losses with kinks or without a known L the minimum is found by bisection of the slope.
    """

    def __init__(self, loss: typing.Any):
        self.loss = ScalarLoss(loss)

    def gamma(self, t: int, line: Line) -> float:
        if line.slope <= 0.0:
            return 0.0
        if self.loss.curvature is not None:
            curvature = self.loss.curvature * float(np.mean(line.q * line.q))
            return min(line.slope / curvature, line.limit) if curvature > 0.0 else line.limit
        return self._bisect(line)

    def _slope(self, line: Line, gamma: float) -> float:
        return float(np.mean(self.loss.derivative(line.y, line.z + gamma * line.q) * line.q))

    def _value(self, line: Line, gamma: float) -> float:
        return float(np.mean(self.loss.value(line.y, line.z + gamma * line.q)))

    def _bisect(self, line: Line) -> float:
        low, high = 0.0, line.limit
        if self._slope(line, high) > 0.0:
            for _ in range(_BISECTIONS):
                middle = 0.5 * (low + high)
                if self._slope(line, middle) > 0.0:
                    high = middle
                else:
                    low = middle
                if high - low <= 1e-12 * high:
                    break
        gamma = 0.5 * (low + high) if low > 0.0 or high < line.limit else high
        # Where the loss is not convex a zero of the slope need not lie lower: then closer to where one comes from.
        here = self._value(line, 0.0)
        while gamma > 0.0 and self._value(line, gamma) > here:
            gamma *= 0.5
        return gamma


class Scheduled:
    """A schedule's step, cut where it would leave the set."""

    def __init__(self, schedule: Schedule):
        self.schedule = schedule

    def gamma(self, t: int, line: Line) -> float:
        if line.slope <= 0.0:
            return 0.0
        gamma = float(self.schedule.gamma(t, line.slope, line.dist_sq()))
        if not 0.0 <= gamma <= 1.0:
            raise ValueError(f"{self.schedule} returned a step of {gamma!r}; expected one in [0, 1]")
        return min(gamma, line.limit)
