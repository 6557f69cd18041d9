"""The smooth part of a composite objective, by what can be asked of it."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline._checks import check_count

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from fwonline.optim.problem.finite_sum import FiniteSum

    Array = NDArray[np.float64]

__all__ = ["Objective", "SumObjective", "of_shape"]


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
        """Take the gradient of a component anew; returns by how much the mean over the memory changes."""
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


class SumObjective(Objective):
    """A finite sum of samples, by rows: a component's gradient is remembered as one number."""

    def __init__(self, total: FiniteSum):
        if not total.n:
            raise ValueError("X has no rows: there is nothing to minimise")
        self.sum = total
        self.d = total.data.shape[1]
        super().__init__(component=self._row, gradient=total.exact_gradient, n=total.n, value=total.value)

    def _row(self, x: Array, i: int) -> Array:
        return self.sum.gradient(x, np.array([i]))

    def start_memory(self, shape: tuple[int, ...]) -> None:
        self.table = np.zeros(self.n)

    def renew(self, x: Array, i: int) -> Array:
        assert self.table is not None
        batch = np.array([i])
        alpha = self.sum.slopes(x, batch)
        self.n_gradients += 1
        change = np.zeros(self.d)
        self.sum.rows.add(batch, (alpha - self.table[batch]) / self.n, change)
        self.table[batch] = alpha
        return change
