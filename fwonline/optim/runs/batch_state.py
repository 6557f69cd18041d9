"""The scalars of a run over batches, and one sample on its way in."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import _loaded
from fwonline.optim.runs.checks import HUGE, LEAST_CURVATURE

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Derivative = Callable[[float, float], float]

__all__ = ["COUNTS", "FLOATS", "Features", "Scalars"]

# Half the way over which the intercept's curvature is measured: smooth losses are quadratic there to 1e-6.
_WIDTH = 1e-3


COUNTS = ("d", "t", "seen", "n_gradients", "n_lmo", "n_exact", "warm", "mode")
FLOATS = ("gap", "gamma", "intercept", "intercept_h", "prediction", "loss", "target", "loss_sum")


class Scalars:
    """Counters and numbers of a run, by name."""

    w_scale = 1.0  # the iterate is held as it is

    def __init__(self) -> None:
        for name in (*COUNTS, "fit_intercept", "crowded"):
            setattr(self, name, 0)
        for name in FLOATS:
            setattr(self, name, 0.0)

    # Those that follow are set by name.
    t: int
    seen: int
    intercept: float
    intercept_h: float

    def fit(self, y: float, prediction: float, slope: float, derivative: Derivative | None) -> None:
        """One step of the intercept, which lies outside the constraint: an online Newton step in one dimension.

        The curvature is that of the loss where it has one (then the intercept of a squared loss is a running mean of
        residuals, whatever their unit), and otherwise the size of the residuals' derivative over their running size.
        """
        curvature = 0.0
        if derivative is not None:
            rise = derivative(y, prediction + _WIDTH) - derivative(y, prediction - _WIDTH)
            curvature = rise / (2.0 * _WIDTH)
        if 0.0 < curvature < 0.5 / _WIDTH:
            self.intercept_h += curvature
        else:
            self.intercept_h += abs(slope) / max(abs(y - prediction), _WIDTH)
        if self.intercept_h > 0.0:
            # The first sample's worth of curvature counts twice: a lone first step is half a Newton step.
            step = slope / (self.intercept_h * (1.0 + 1.0 / self.seen))
            # Where the curvature grows along the step (that of Poisson's loss by powers of e), Newton's step goes too
            # far: it never passes the sample's own minimum.
            while derivative is not None and derivative(y, prediction - step) * slope < 0.0:
                step *= 0.5
            self.intercept -= step

    def check(self) -> None:
        """See that the numbers of a file are ones that a run can have."""
        for name in COUNTS:
            _loaded.require(self, name, 0 <= getattr(self, name) <= _loaded.MOST, "a count")
        for name in ("gamma", "intercept", "intercept_h", "prediction", "target"):
            _loaded.require(self, name, math.isfinite(getattr(self, name)), "a finite number")
        _loaded.require(self, "intercept", abs(self.intercept) <= HUGE, f"a number of at most {HUGE:g}")
        _loaded.require(self, "intercept_h", 0.0 <= self.intercept_h <= HUGE, f"a number from 0 to {HUGE:g}")
        if 0.0 < self.intercept_h < LEAST_CURVATURE:
            self.intercept_h = LEAST_CURVATURE


class Features(typing.NamedTuple):
    """What a run holds by feature: the iterate, and a number of each name: ties go to the lowest."""

    v: Array
    rank: Ints
