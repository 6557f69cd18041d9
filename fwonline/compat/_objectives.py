"""The mean loss of linear scores as a function of the weights alone: intercepts are at their best for each of them.

.. math:: F(W) = \\min_b \\sum_i \\omega_i \\ell(y_i, W x_i + b), \\qquad \\sum_i \\omega_i = 1.

A partial minimum of a convex function is convex, and its gradient is that of the loss at the best b: a Frank-Wolfe gap
of F bounds what is left to gain in W and b together.
"""

from __future__ import annotations

import typing

import numpy as np
from river import optim as river_optim
from scipy import optimize, sparse, special

from fwonline import losses

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["ScalarObjective", "SoftmaxObjective", "distinct"]

_EPS = float(np.finfo(np.float64).eps)
_NEWTON_STEPS = 50


def distinct(X: typing.Any, y: Array, omega: Array) -> tuple[typing.Any, Array, Array]:
    """Samples without their repetitions, whose weights are added up, in an order that their values make.

    So a fit does not depend on the order of samples, nor on whether one comes twice or counts twice, to the last bit:
    where many weights have the same loss, a step that is rounded otherwise would lead to other ones.
    """
    if sparse.issparse(X):
        X = sparse.csr_array(X, copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
        bounds = zip(X.indptr[:-1].tolist(), X.indptr[1:].tolist(), strict=True)
        rows = [X.indices[a:b].astype(np.int64).tobytes() + X.data[a:b].tobytes() for a, b in bounds]
    else:
        X = X + 0.0  # -0.0 is 0.0
        rows = [row.tobytes() for row in X]
    places: dict[tuple[bytes, float], int] = {}
    of_row = [places.setdefault(key, len(places)) for key in zip(rows, y.tolist(), strict=True)]
    first = np.unique(of_row, return_index=True)[1]
    order = [places[key] for key in sorted(places)]
    return X[first[order]], y[first[order]], np.asarray(np.bincount(of_row, omega)[order], dtype=np.float64)


class ScalarObjective:
    """A loss of one score a sample; called with weights it returns F and its gradient.

    Attributes
    ----------
    b
        The intercept that is best for the weights it was called with last; 0.0 without one.
    """

    def __init__(self, X: typing.Any, y: Array, omega: Array, loss: typing.Any, fit_intercept: bool):
        self.X, self.y, self.omega, self.fit_intercept = X, y, omega / omega.sum(), fit_intercept
        self.is_squared = type(loss) is river_optim.losses.Squared
        self._value, self._derivative = losses.vector_loss(loss)
        self.b = 0.0
        self._width = 1.0

    def __call__(self, w: Array) -> tuple[float, Array]:
        z = self.X @ w
        if self.fit_intercept:
            self._place(z)
            z = z + self.b
        value = float(self.omega @ self._value(self.y, z))
        return value, self.X.T @ (self.omega * self._derivative(self.y, z))

    def _place(self, z: Array) -> None:
        """Put the intercept where the mean slope changes its sign."""
        if self.is_squared:
            self.b = float(self.omega @ (self.y - z))
            return

        def slope(b: float) -> float:
            return float(self.omega @ self._derivative(self.y, z + b))

        before, width = self.b, self._width
        low, high = before - width, before + width
        while slope(low) > 0.0 and low > -1e9:
            low, high, width = low - 4.0 * width, low, 4.0 * width
        while slope(high) < 0.0 and high < 1e9:
            low, high, width = high, high + 4.0 * width, 4.0 * width
        if slope(low) < 0.0 < slope(high):
            self.b = float(optimize.brentq(slope, low, high, xtol=1e-14, rtol=4.0 * _EPS))
        else:
            self.b = low if slope(low) == 0.0 else high
        self._width = min(max(2.0 * abs(self.b - before), 1e-6), 1.0)


class SoftmaxObjective:
    """Cross entropy of the scores of k classes; called with W, of shape (k, d), it returns F and its gradient.

    Attributes
    ----------
    b
        The intercepts that are best for the W it was called with last, of mean 0; zeros without.
    """

    def __init__(self, X: typing.Any, labels: Array, omega: Array, k: int, fit_intercept: bool):
        self.X, self.omega, self.fit_intercept = X, omega / omega.sum(), fit_intercept
        self.labels = labels.astype(np.intp)
        self.rows = np.arange(len(labels))
        self.b = np.zeros(k)

    def __call__(self, W: Array) -> tuple[float, Array]:
        z = np.asarray(self.X @ W.T)
        if self.fit_intercept:
            self._place(z)
        value, slopes = self._at(z, self.b)
        return value, np.ascontiguousarray((self.X.T @ slopes).T)

    def _at(self, z: Array, b: Array) -> tuple[float, Array]:
        """The mean loss, and the slopes in the scores times the weights of the samples."""
        log_p = special.log_softmax(z + b, axis=1)
        slopes = np.exp(log_p)
        slopes[self.rows, self.labels] -= 1.0
        slopes *= self.omega[:, None]
        return -float(self.omega @ log_p[self.rows, self.labels]), slopes

    def _place(self, z: Array) -> None:
        """Newton's steps, halved while they do not lower the loss."""
        value, slopes = self._at(z, self.b)
        for _ in range(_NEWTON_STEPS):
            gradient = slopes.sum(axis=0)
            if np.abs(gradient).max() <= 4.0 * _EPS:
                break
            p = special.softmax(z + self.b, axis=1)
            weighted = p * self.omega[:, None]
            hessian = np.diag(weighted.sum(axis=0)) - p.T @ weighted
            step = -np.linalg.lstsq(hessian, gradient, rcond=1e-12)[0]
            share, after = 1.0, self._at(z, self.b + step)
            while not after[0] <= value and share > _EPS:
                share *= 0.5
                after = self._at(z, self.b + share * step)
            if not after[0] <= value:
                break
            self.b = self.b + share * step
            self.b -= self.b.mean()
            is_done = value - after[0] <= _EPS * abs(value) and share * np.abs(step).max() <= 1e-12
            value, slopes = after
            if is_done:
                break
