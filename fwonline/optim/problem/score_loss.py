"""Losses of the scores of samples, over arrays: value, derivative, and what rounding may do to them."""

from __future__ import annotations

import abc
import math
import typing

import numpy as np
from river.optim import losses as _river

from fwonline import losses
from fwonline._kernels import scores

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["ScalarLoss", "ScoreLoss", "Softmax", "probabilities"]


class ScoreLoss(abc.ABC):
    """A loss of scores, over arrays.

    Attributes
    ----------
    slope
        The largest Euclidean norm of the derivative in the scores, or None where there is no bound.
    curvature
        The largest eigenvalue of the second derivative in the scores, or None where there is no bound.
    is_known
        Whether the formula is one of the library's, all of them convex.
    """

    slope: float | None = None
    curvature: float | None = None
    is_known: bool = True

    @abc.abstractmethod
    def value(self, y: Array, z: Array) -> Array:
        """Losses, shape (n,)."""

    @abc.abstractmethod
    def derivative(self, y: Array, z: Array) -> Array:
        """Derivatives in the scores, of their shape."""

    @abc.abstractmethod
    def steepest(self, y: Array, z: Array, error: Array | float) -> Array:
        """The largest norm of each derivative where the scores are off by at most ``error``."""

    @abc.abstractmethod
    def sensitivity(self, y: Array, z: Array, steepest: Array) -> Array:
        """How far each value changes, at most, for a relative change by 1 of the numbers that it is computed from."""


class ScalarLoss(ScoreLoss):
    """A loss of one score a sample: a river loss, or any that :func:`fwonline.losses.vector_loss` takes."""

    def __init__(self, loss: typing.Any):
        self.loss = loss
        self._value, self._derivative = losses.vector_loss(loss)
        self.is_known = losses.is_known(loss)
        self.slope, self.curvature = losses.bounds(loss)

    def value(self, y: Array, z: Array) -> Array:
        return self._value(y, z)

    def derivative(self, y: Array, z: Array) -> Array:
        return self._derivative(y, z)

    def steepest(self, y: Array, z: Array, error: Array | float) -> Array:
        if not self.is_known:
            return np.abs(self.derivative(y, z))
        # Of a convex loss the derivative is the largest at an end.
        return np.maximum(np.abs(self.derivative(y, z - error)), np.abs(self.derivative(y, z + error)))

    def sensitivity(self, y: Array, z: Array, steepest: Array) -> Array:
        size = steepest * (np.abs(z) + np.abs(y))
        if not self.is_known or type(self.loss) is _river.Poisson:
            size += np.abs(y * z)  # which no value near 0 shows
        return size


class Softmax(ScoreLoss):
    """Cross entropy of the softmax of the scores, labels being positions of classes."""

    slope = math.sqrt(2.0)
    curvature = 0.5

    def value(self, y: Array, z: Array) -> Array:
        top = z.max(axis=1)
        return top + np.log(np.exp(z - top[:, None]).sum(axis=1)) - z[np.arange(len(z)), y.astype(np.intp)]

    def derivative(self, y: Array, z: Array) -> Array:
        p = probabilities(z)
        p[np.arange(len(z)), y.astype(np.intp)] -= 1.0
        return p

    def steepest(self, y: Array, z: Array, error: Array | float) -> Array:
        return np.full(len(z), self.slope)

    def sensitivity(self, y: Array, z: Array, steepest: Array) -> Array:
        return 2.0 * np.abs(z).max(axis=1) + z.shape[1]


def probabilities(z: Array) -> Array:
    """The softmax of each row, without overflow."""
    p = np.empty(z.shape)
    scores.softmax_rows(z, p)
    return p
