"""The smooth part of a composite objective, by what can be asked of it."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import losses
from fwonline.optim.base import as_rows, check_count

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = ["MeanLoss", "Objective", "of_shape"]


class Objective:
    """f, by what can be asked of it. Of the first three give one; the others follow where they can.

    Parameters
    ----------
    sample
        ``sample(x, rng)``: an unbiased estimate of the gradient at x; what a stream or a simulation gives.
    gradient
        ``gradient(x)``: the gradient.
    component
        ``component(x, i)``: the gradient of f_i, where f is the mean of f_0 to f_{n - 1}.
    n
        How many components there are.
    value
        ``value(x)``: f(x), for the result's ``fun``.

    Attributes
    ----------
    n_gradients
        Gradients given since it was made, to whichever runs asked; a run's result counts its own alone.
    """

    def __init__(
        self,
        sample: Callable[[Array, np.random.Generator], Array] | None = None,
        gradient: Callable[[Array], Array] | None = None,
        component: Callable[[Array, int], Array] | None = None,
        n: int = 0,
        value: Callable[[Array], float] | None = None,
    ):
        if component is not None:
            check_count("n", n)
        elif sample is None and gradient is None:
            raise ValueError("give sample, gradient, or component and n")
        self._sample, self._gradient, self._component, self.n, self._value = sample, gradient, component, n, value
        self.table: Array | None = None
        self.n_gradients = 0

    def sample(self, x: Array, rng: np.random.Generator) -> Array:
        """An unbiased estimate of the gradient; the gradient itself where nothing else is known."""
        if self._sample is not None:
            self.n_gradients += 1
            return of_shape(x, self._sample(x, rng), "the objective's gradient")
        return self.component(x, int(rng.integers(self.n))) if self.n else self.gradient(x)

    def gradient(self, x: Array) -> Array:
        """The gradient."""
        if self._gradient is not None:
            self.n_gradients += max(self.n, 1)
            return of_shape(x, self._gradient(x), "the objective's gradient")
        if not self.n:
            raise ValueError("this optimizer needs the exact gradient, and the objective only offers samples of it")
        total = np.zeros_like(x)
        for i in range(self.n):
            total += self.component(x, i)
        return total / self.n

    def component(self, x: Array, i: int) -> Array:
        """The gradient of one component."""
        if self._component is None:
            raise ValueError("this optimizer needs the gradients of single components: give component and n")
        self.n_gradients += 1
        return of_shape(x, self._component(x, i), "a component's gradient")

    def start_memory(self, shape: tuple[int, ...]) -> None:
        """Begin to remember one gradient of each component, at first zero."""
        if not self.n:
            raise ValueError("this optimizer remembers a gradient of every component: give component and n")
        self.table = np.zeros((self.n, *shape))

    def renew(self, x: Array, i: int) -> Array:
        """Take the gradient of a component anew; answers by how much the mean over the memory changes."""
        assert self.table is not None
        fresh = self.component(x, i)
        change = (fresh - self.table[i]) / self.n
        self.table[i] = fresh
        return change

    def value(self, x: Array) -> float:
        """f(x); NaN where the objective does not tell."""
        return math.nan if self._value is None else float(self._value(x))


def of_shape(x: Array, g: typing.Any, what: str) -> Array:
    """A gradient in x as an array; numpy would stretch a number, or a column, into another one."""
    g = np.asarray(g, dtype=np.float64)
    if g.shape != x.shape:
        raise ValueError(f"{what} must have the shape of x, {x.shape}, got {g.shape}")
    return g


class MeanLoss(Objective):
    """The mean over samples of loss(y_i, <x_i, w>): a component's gradient is remembered as one number."""

    def __init__(self, X: typing.Any, y: ArrayLike, loss: typing.Any):
        (self._indptr, self._idx, self._val, self._y), self.d = as_rows(X, y)
        if not len(self._y):
            raise ValueError("X has no rows: there is nothing to minimise")
        self._loss, self._derivative = losses.vector_loss(loss)
        super().__init__(component=self._row, gradient=self._mean, n=len(self._y), value=self._mean_loss)

    def _alpha(self, x: Array, i: int) -> tuple[float, NDArray, Array]:
        where = slice(self._indptr[i], self._indptr[i + 1])
        idx, val = self._idx[where], self._val[where]
        return float(self._derivative(self._y[i : i + 1], np.array([val @ x[idx]]))[0]), idx, val

    def _row(self, x: Array, i: int) -> Array:
        alpha, idx, val = self._alpha(x, i)
        out = np.zeros(self.d)
        out[idx] = alpha * val
        return out

    def _margins(self, x: Array) -> Array:
        return np.add.reduceat(np.append(self._val * x[self._idx], 0.0), self._indptr[:-1]) * (
            np.diff(self._indptr) > 0
        )

    def _mean(self, x: Array) -> Array:
        alpha = self._derivative(self._y, self._margins(x))
        return np.bincount(self._idx, np.repeat(alpha, np.diff(self._indptr)) * self._val, self.d) / self.n

    def _mean_loss(self, x: Array) -> float:
        return float(np.mean(self._loss(self._y, self._margins(x))))

    def start_memory(self, shape: tuple[int, ...]) -> None:
        self.table = np.zeros(self.n)

    def renew(self, x: Array, i: int) -> Array:
        assert self.table is not None
        alpha, idx, val = self._alpha(x, i)
        self.n_gradients += 1
        change = np.zeros(self.d)
        change[idx] = (alpha - self.table[i]) / self.n * val
        self.table[i] = alpha
        return change
