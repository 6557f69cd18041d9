r"""What the composite optimizers share: min f(x) + sum_i g_i(A_i x) over a set with a linear minimisation oracle.

A term is smoothed, :math:`g_\beta(z) = \min_u g(u) + \|z - u\|^2 / 2 \beta`, whose gradient needs one prox:
:math:`(z - \operatorname{prox}_{\beta g}(z)) / \beta`; the prox of a set's indicator is the projection. Several terms
are one term on the product of their spaces, so their gradients add up.
"""

from __future__ import annotations

import dataclasses
import math
import typing

import numpy as np
from river import base
from river import optim as river_optim
from scipy.optimize import OptimizeResult

from fwonline import losses, sets
from fwonline.optim.base import as_rows, binary_targets, check_count

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = ["CompositeOptimizer", "CompositeState", "Equals", "L1Penalty", "NonNegative", "Objective", "Term"]


# --- terms ----------------------------------------------------------------------------------------------------------


class NonNegative(base.Base):
    """The cone of arrays without a negative entry, for a :class:`Term`; it is no bounded set."""

    def project(self, x: Array) -> Array:
        return np.maximum(x, 0.0)


class Equals(base.Base):
    """The set of one point, for a :class:`Term`: the constraint A x = value.

    Parameters
    ----------
    value
        A number or an array of the shape of A x.
    """

    def __init__(self, value: ArrayLike):
        if not np.isfinite(np.asarray(value, dtype=np.float64)).all():
            raise ValueError(f"value must be finite, got {value!r}")
        self.value = value

    def project(self, x: Array) -> Array:
        return np.broadcast_to(np.asarray(self.value, dtype=np.float64), x.shape)


class L1Penalty(base.Base):
    """weight * ||z||_1, for a :class:`Term`: a Lipschitz function, whose prox thresholds.

    Parameters
    ----------
    weight
        Finite, > 0.
    """

    def __init__(self, weight: float):
        if not 0.0 < weight < math.inf:
            raise ValueError(f"weight must be a finite number > 0, got {weight!r}")
        self.weight = weight

    def __call__(self, z: Array) -> float:
        return self.weight * float(np.abs(z).sum())

    def prox(self, z: Array, beta: float) -> Array:
        return np.sign(z) * np.maximum(np.abs(z) - beta * self.weight, 0.0)


class Term(base.Base):
    """One term g(A x + b) of a composite objective.

    Parameters
    ----------
    g
        A set of this library, or any object with ``project(z)``: the constraint A x + b in g. Or a function with
        ``prox(z, beta)``, the point that minimises g(u) + ||z - u||^2 / (2 beta), and ``__call__(z)``.
    forward, adjoint
        The linear map A and its adjoint, as functions of an array; both or neither. By default the identity.
    offset
        b, of the shape of A x.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> rows_sum_to_one = optim.Term(
    ...     optim.Equals(1.0), forward=lambda x: x.sum(axis=1), adjoint=lambda z: np.tile(z, (len(z), 1)).T
    ... )
    >>> rows_sum_to_one.distance(np.eye(3))
    0.0
    >>> optim.Term(sets.L1Ball(1.0)).distance(np.array([3.0, 0.0]))
    2.0
    """

    def __init__(
        self,
        g: typing.Any,
        forward: Callable[[Array], Array] | None = None,
        adjoint: Callable[[Array], Array] | None = None,
        offset: ArrayLike | None = None,
    ):
        if not (hasattr(g, "prox") or getattr(g, "can_project", hasattr(g, "project"))):
            raise TypeError(f"g must be a set that can project or a function with a prox, got {g!r}")
        if (forward is None) != (adjoint is None):
            raise ValueError("give forward and adjoint both, or neither for the identity")
        self.g = g
        self.forward = forward
        self.adjoint = adjoint
        self.offset = offset

    @classmethod
    def _unit_test_params(cls) -> typing.Iterator[dict]:
        yield {"g": NonNegative()}

    @property
    def is_constraint(self) -> bool:
        """Whether g is a set."""
        return not hasattr(self.g, "prox")

    def image(self, x: Array) -> Array:
        """Return A x + b."""
        z = x if self.forward is None else self.forward(x)
        return z if self.offset is None else z + np.asarray(self.offset, dtype=np.float64)

    def prox(self, z: Array, beta: float) -> Array:
        """Return prox_{beta g}(z)."""
        return self.g.project(z) if self.is_constraint else self.g.prox(z, beta)

    def smoothed_gradient(self, x: Array, beta: float) -> Array:
        """Return the gradient of g_beta(A x + b) in x."""
        z = self.image(x)
        y = (z - self.prox(z, beta)) / beta
        return y if self.adjoint is None else self.adjoint(y)

    def distance(self, x: Array) -> float:
        """Return the distance of A x + b to the set; 0.0 where g is a function."""
        if not self.is_constraint:
            return 0.0
        z = self.image(x)
        return float(np.linalg.norm(z - self.g.project(z)))

    def value(self, x: Array) -> float:
        """Return g(A x + b) where g is a function; the indicator of a set counts 0."""
        return 0.0 if self.is_constraint else float(self.g(self.image(x)))


# --- what is minimised ----------------------------------------------------------------------------------------------


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
            return self._sample(x, rng)
        return self.component(x, int(rng.integers(self.n))) if self.n else self.gradient(x)

    def gradient(self, x: Array) -> Array:
        """The gradient."""
        if self._gradient is not None:
            self.n_gradients += max(self.n, 1)
            return self._gradient(x)
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
        return self._component(x, i)

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


class _MeanLoss(Objective):
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


# --- a run ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class CompositeState:
    """A run at work, and what its callback sees.

    Attributes
    ----------
    x
        The iterate; copy what is to be kept.
    k
        Number of the step, from 1.
    direction
        The estimate d of f's gradient.
    gap
        <v, x - s> of the last step: the Frank-Wolfe gap of the smoothed objective, estimated with d.
    lmo_error
        Bound on by how much <s, v> of the last step exceeds its minimum; 0.0 where the oracle is exact.
    n_lmo
        Linear minimisations so far.
    """

    x: Array
    constraint: sets.ConvexSet
    terms: list[Term]
    objective: Objective
    rng: np.random.Generator
    lmo_tol: float
    k: int = 1
    gap: float = math.nan
    lmo_error: float = 0.0
    n_lmo: int = 0
    direction: Array = dataclasses.field(init=False)
    memory: typing.Any = None  # what an algorithm keeps beyond the direction
    _atom: sets.atoms.Atom | None = None

    def __post_init__(self) -> None:
        self.direction = np.zeros_like(self.x)

    @property
    def infeasibility(self) -> float:
        """Distance of A x to the terms' sets, all of them together."""
        return math.hypot(*(term.distance(self.x) for term in self.terms))

    @property
    def n_gradients(self) -> int:
        """Gradients asked for; a whole one counts as many as there are components."""
        return self.objective.n_gradients

    def smoothed_gradient(self, beta: float) -> Array | float:
        """sum_i A_i^T (A_i x - prox_{beta g_i}(A_i x)) / beta."""
        return sum(term.smoothed_gradient(self.x, beta) for term in self.terms)

    def lmo(self, v: Array, eta: float) -> sets.atoms.Atom:
        """A point s of the set with <s, v> least, up to what `lmo_tol` leaves."""
        if isinstance(self.constraint, (sets.NuclearBall, sets.Spectraplex, sets.Spectrahedron, sets.Fantope)):
            # An error that falls with the step costs no rate.
            tol = self.lmo_tol * math.sqrt(eta)
            self._atom = self.constraint.lmo(v, start=self._atom, tol=tol)
            self.lmo_error = tol * self.constraint.diameter(v.shape) * float(np.linalg.norm(v))
        else:
            self._atom = self.constraint.lmo(v)
        self.n_lmo += 1
        self.gap = float(np.vdot(v, self.x)) - self._atom.dot(v)
        return self._atom

    def move(self, s: sets.atoms.Atom, eta: float) -> None:
        """x = x + eta (s - x)."""
        self.x *= 1.0 - eta
        s.add_to(self.x, eta)


class CompositeOptimizer(base.Base):
    """Base of the optimizers of f(x) + sum_i g_i(A_i x) over a set."""

    lmo_tol: float = 1e-8

    def _begin(self, run: CompositeState) -> None:
        """Prepare what the algorithm keeps beyond the run."""

    def _step(self, run: CompositeState) -> None:
        """One step of the algorithm."""
        raise NotImplementedError

    def _result(self, run: CompositeState) -> Array:
        """The point that the algorithm answers with."""
        return run.x

    def minimize_composite(
        self,
        objective: Objective | Callable[[Array, np.random.Generator], Array],
        *,
        constraint: sets.ConvexSet,
        terms: Sequence[Term] = (),
        shape: int | tuple[int, ...] | None = None,
        steps: int = 1000,
        seed: int | None = None,
        callback: Callable[[CompositeState], bool | None] | None = None,
        x0: ArrayLike | None = None,
    ) -> OptimizeResult:
        r"""Minimise :math:`f(x) + \sum_i g_i(A_i x + b_i)` over a set.

        Parameters
        ----------
        objective
            f, an :class:`Objective`; or a function ``sample(x, rng)``: an unbiased estimate of its gradient.
        constraint
            The set.
        terms
            The g_i with their maps, each a :class:`Term`.
        shape
            Shape of x; not needed where x0 or the set says it.
        steps
            Steps to take.
        seed
            Seed of the sampling.
        callback
            Called with the :class:`CompositeState` after each step; a true answer, or ``StopIteration``, ends the run.
        x0
            Where to start, a point of the set; by default its point nearest to the origin.

        Returns
        -------
        scipy.optimize.OptimizeResult
            ``x``; ``fun``, f + the g_i that are functions (NaN where f has no value); ``infeasibility``, the distance
            to those that are sets; ``gap``, the last step's estimate of the smoothed objective's Frank-Wolfe gap;
            ``lmo_error``; ``nit``, ``n_gradients``, ``n_lmo``; ``success`` and ``message``.

        Raises
        ------
        ValueError
            For a start outside the set, a gradient that is not finite or has another shape, or an objective that does
            not offer what the algorithm asks for.
        """
        check_count("steps", steps)
        objective = objective if isinstance(objective, Objective) else Objective(sample=objective)
        if x0 is None:
            x = constraint.initial_point(shape)
        else:
            x = np.array(x0, dtype=np.float64)
            if not constraint.contains(x):
                raise ValueError(f"x0 must be a point of {constraint}")
        run = CompositeState(x, constraint, list(terms), objective, np.random.default_rng(seed), self.lmo_tol)
        self._begin(run)
        message = f"took the {steps} steps asked for"
        done = 0
        try:
            while done < steps:
                self._step(run)
                run.k += 1
                done += 1
                if not np.isfinite(run.direction).all():
                    raise ValueError(f"step {done}: the objective's gradient is not finite")
                if callback is not None and callback(run):
                    raise StopIteration
        except StopIteration:
            message = f"the callback ended it after {done} steps"
        run.x = self._result(run)
        return OptimizeResult(
            x=run.x,
            fun=objective.value(run.x) + sum(term.value(run.x) for term in run.terms),
            infeasibility=run.infeasibility,
            gap=run.gap,
            lmo_error=run.lmo_error,
            nit=done,
            n_gradients=run.n_gradients,
            n_lmo=run.n_lmo,
            success=True,
            message=message,
        )

    def minimize(
        self,
        X: typing.Any,
        y: ArrayLike,
        *,
        loss: typing.Any = None,
        constraint: sets.ConvexSet,
        terms: Sequence[Term] = (),
        steps: int = 10_000,
        seed: int | None = None,
        callback: Callable[[CompositeState], bool | None] | None = None,
        x0: ArrayLike | None = None,
    ) -> OptimizeResult:
        r"""Minimise :math:`\frac1n \sum_i \text{loss}(y_i, \langle x_i, w \rangle) + \sum_j g_j(A_j w)` over a set.

        Parameters
        ----------
        X
            Samples x features, a dense array or a scipy sparse matrix.
        y
            Targets, shape (n,); labels of binary losses are 0/1, booleans or -1/+1.
        loss
            A river loss, or any object with ``__call__`` and ``gradient``; ``Squared()`` by default.
        constraint, terms, steps, seed, callback, x0
            As in :meth:`minimize_composite`, which also says what is returned.
        """
        loss = river_optim.losses.Squared() if loss is None else loss
        objective = _MeanLoss(X, binary_targets(y) if losses.is_binary(loss) else y, loss)
        return self.minimize_composite(
            objective,
            constraint=constraint,
            terms=terms,
            shape=objective.d,
            steps=steps,
            seed=seed,
            callback=callback,
            x0=x0,
        )

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._get_params())
        return f"{type(self).__name__}({shown})"

    __str__ = __repr__


def check_positive(name: str, value: float) -> None:
    """Raise unless value is a finite number > 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")
