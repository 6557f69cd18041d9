r"""What the composite optimizers share: min f(x) + sum_i g_i(A_i x) over a set with a linear minimisation oracle.

A term is smoothed, :math:`g_\beta(z) = \min_u g(u) + \|z - u\|^2 / 2 \beta`, whose gradient needs one prox:
:math:`(z - \operatorname{prox}_{\beta g}(z)) / \beta`; the prox of a set's indicator is the projection. Several terms
are one term on the product of their spaces, so their gradients add up.

With a dual y the constraint :math:`A x \in K` is met by an augmented Lagrangian, as in CGAL (Yurtsever, Fercoq, Cevher
2019, https://arxiv.org/abs/1901.04013): what is smoothed is the distance of :math:`A x + \beta_k y` to K, and after a
step

.. math::
    r = A x - \operatorname{proj}_K(A x + \beta_{k+1} y), \qquad y \leftarrow y + \sigma r, \qquad
    \sigma = \min(1 / \beta_0, \; \eta_k^2 D^2 / (\beta_{k+1} \|r\|^2)),

with D the diameter of the set, unless that would make y longer than its bound.
"""

from __future__ import annotations

import dataclasses
import math
import typing

import numpy as np
from river import optim as river_optim

from fwonline import losses, sets
from fwonline._checks import check_count, check_positive, is_real
from fwonline.optim.base import Optimizer
from fwonline.optim.problem.data import as_rows, binary_targets, rows_of
from fwonline.optim.problem.finite_sum import FiniteSum
from fwonline.optim.problem.objective import Objective, SumObjective, of_shape
from fwonline.optim.problem.score_loss import ScalarLoss
from fwonline.optim.problem.terms import Term
from fwonline.sets.spectral import SpectralSet

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray
    from scipy.optimize import OptimizeResult  # whose module takes long: where it is made, too

    from fwonline.optim.schedules import Homotopy

    Array = NDArray[np.float64]

__all__ = ["CompositeOptimizer", "CompositeState"]

# Where a share of the gap is wanted, eigenvectors begin with this residual; each further try takes a tenth of it.
_FIRST_TOL, _LAST_TOL = 0.1, 1e-13
# What of a run its result shows; and what a run counts under other names than other optimizers' runs.
_SHOWN = ("x", "infeasibility", "lmo_error", "lmo_share", "duals", "nit", "n_gradients", "n_exact_gradients", "n_lmo")
_COUNTERS = {"t": "nit", "n_exact": "n_exact_gradients"}


@dataclasses.dataclass
class CompositeState:
    """A run at work, and what its callback sees.

    Attributes
    ----------
    x
        The iterate; copy what is to be kept.
    nit
        Steps taken.
    direction
        The estimate d of f's gradient.
    gap
        <v, x - s> of the last step: the Frank-Wolfe gap of the smoothed objective, estimated with d; no bound.
    lmo_error
        By how much <s, v> of the last step may exceed its minimum, from the residual of the eigenvectors found: a bound
        once they are nearest to the lowest eigenvalues. 0.0 where the oracle is exact.
    lmo_share
        The share of the largest <v, x - s> that the last step's s reaches, given that error; 1.0 where it is exact.
    n_gradients, n_exact_gradients, n_lmo
        Gradients of components or samples (a whole one counts as many as there are components), gradients of the whole
        f, and linear minimisations, in this run so far.
    duals
        The dual of each term, None of those that have none.
    """

    x: Array
    constraint: sets.ConvexSet
    terms: list[Term]
    objective: Objective
    rng: np.random.Generator
    lmo_tol: float
    wanted_share: float | None = None
    dual_bound: float = 0.0
    nit: int = 0
    gap: float = math.nan
    lmo_error: float = 0.0
    lmo_share: float = 1.0
    n_lmo: int = 0
    n_exact_gradients: int = 0
    direction: Array = dataclasses.field(init=False)
    memory: typing.Any = None  # what an algorithm keeps beyond the direction

    def __post_init__(self) -> None:
        self.direction = np.zeros_like(self.x)
        self._counted = self.objective.n_gradients  # by those who used the objective before
        self._lmo_rng = self.rng.spawn(1)[0]
        self.duals: list[Array | None] = [
            np.zeros_like(term.image(self.x)) if self.dual_bound > 0.0 and term.is_constraint else None
            for term in self.terms
        ]

    @property
    def time(self) -> float:
        """k of the step at work, from 1; where the oracle promises a share of the gap, 1 + share (k - 1)."""
        return self.nit + 1 if self.wanted_share is None else 1.0 + self.wanted_share * self.nit

    @property
    def infeasibility(self) -> float:
        """Distance of A x to the terms' sets, all of them together."""
        return math.hypot(*(term.distance(self.x) for term in self.terms))

    @property
    def n_gradients(self) -> int:
        return self.objective.n_gradients - self._counted

    def exact_gradient(self) -> Array:
        """Return the gradient of f at x."""
        self.n_exact_gradients += 1
        return self.objective.gradient(self.x)

    def smoothed_gradient(self, beta: float) -> Array | float:
        """sum_i A_i^T (z_i - prox_{beta g_i}(z_i)) / beta; z_i = A_i x, with a dual A_i x + beta y_i."""
        return sum(
            of_shape(self.x, term.smoothed_gradient(self.x, beta, dual), f"the adjoint's result in terms[{i}]")
            for i, (term, dual) in enumerate(zip(self.terms, self.duals, strict=True))
        )

    def lmo(self, v: Array, eta: float) -> sets.atoms.Atom:
        """Return a point s of the set with <s, v> least, up to an error that is asked for and reported."""
        along = float(np.vdot(v, self.x))
        if not isinstance(self.constraint, SpectralSet):
            s = self.constraint.lmo(v)
            self.n_lmo += 1
            self.gap = along - s.dot(v)
            return s
        # An error that falls with the step costs no rate.
        tol = self.lmo_tol * math.sqrt(eta) if self.wanted_share is None else _FIRST_TOL
        while True:
            # Each search starts anew. The atoms of the steps before, and a start that they all were found from, are
            # nearly eigenvectors of v, but no longer of its lowest eigenvalue: a search that may end early would end
            # there.
            s = self.constraint.lmo(v, start=self.constraint.random_atom(v.shape, self._lmo_rng), tol=tol)
            self.n_lmo += 1
            self.gap = along - s.dot(v)
            self.lmo_error = self.constraint.lmo_error(v, s, tol)
            reached = max(self.gap, 0.0)
            self.lmo_share = reached / (reached + self.lmo_error) if self.lmo_error > 0.0 else 1.0
            if self.wanted_share is None or self.lmo_share >= self.wanted_share or tol <= _LAST_TOL:
                return s
            tol *= 0.1

    def ascend(self, beta0: float, eta: float, beta: float) -> None:
        """Move the duals along their residuals, at the smoothing of the next step; nothing where there are none."""
        held = {i: dual for i, dual in enumerate(self.duals) if dual is not None}
        residuals = {i: self.terms[i].residual(self.x, beta, dual) for i, dual in held.items()}
        square = sum(float(np.vdot(r, r)) for r in residuals.values())
        if square == 0.0:
            return
        sigma = min(1.0 / beta0, (eta * self.constraint.diameter(self.x.shape)) ** 2 / (beta * square))
        moved = {i: dual + sigma * residuals[i] for i, dual in held.items()}
        if math.sqrt(sum(float(np.vdot(y, y)) for y in moved.values())) <= self.dual_bound:
            self.duals = [moved.get(i) for i in range(len(self.duals))]

    def homotopy_step(self, schedule: Homotopy, beta0: float) -> None:
        """Move x along ``direction`` with a smoothing that fades: all of a step but the estimate of f's gradient."""
        k = self.time
        eta, beta = schedule.eta(k), schedule.beta(k, beta0)
        s = self.lmo(self.direction + self.smoothed_gradient(beta), eta)
        self.x *= 1.0 - eta
        s.add_to(self.x, eta)
        self.ascend(beta0, eta, schedule.beta(k + 1, beta0))


class CompositeOptimizer(Optimizer):
    r"""Base of the optimizers of f(x) + sum_i g_i(A_i x) over a set.

    They are optimizers as the others are, with the same counters and the same ``minimize``, but for three things:

    - ``minimize`` takes ``terms`` too, and there is :meth:`minimize_composite` for problems that are no mean over
      samples;
    - there is no ``tol``, and a result has no ``gap`` but ``gap_estimate``, ``infeasibility``, ``lmo_error``,
      ``lmo_share`` and ``duals``: x leaves the terms' sets and comes back, so that no Frank-Wolfe gap of the objective
      bounds the distance to the minimum;
    - they serve no estimator: the linear models know no terms. :mod:`fwonline.covariance`, :mod:`fwonline.reco` and
      :mod:`fwonline.cluster` take the same steps on streams, with iterates held as their problems allow.

    Parameters
    ----------
    beta0
        Smoothing of the terms at the first step, finite and > 0.
    lmo_tol
        Additive error of the oracles of spectral sets: the residual of the eigenvectors and singular vectors they
        return, relative to the largest eigenvalue, times the square root of the step size. What it can cost is
        reported as ``lmo_error``.
    lmo_share
        Multiplicative error, in (0, 1), in the place of ``lmo_tol``: the share of the largest :math:`\langle v, x - s
        \rangle` that the oracle's point is to reach. The schedules then count :math:`1 + \text{lmo\_share} (k - 1)`
        for k; the share that was reached is reported as ``lmo_share``.
    dual_bound
        The longest that the duals of the constraints may be, all together; 0 for none, ``math.inf`` for no bound. With
        duals the constraints are met sooner: an augmented Lagrangian, see :mod:`fwonline.optim.composite.base`.
    """

    # Of those that have no such parameters.
    lmo_tol: float = 1e-8
    lmo_share: float | None = None
    dual_bound: float = 0.0

    def __init__(
        self,
        beta0: float = 1.0,
        lmo_tol: float = 1e-8,
        lmo_share: float | None = None,
        dual_bound: float = 0.0,
    ):
        check_positive("beta0", beta0)
        check_positive("lmo_tol", lmo_tol)
        if lmo_share is not None and not (is_real(lmo_share) and 0.0 < lmo_share < 1.0):
            raise ValueError(f"lmo_share must be a number in (0, 1), or None, got {lmo_share!r}")
        if not is_real(dual_bound) or not dual_bound >= 0.0:
            raise ValueError(f"dual_bound must be a number >= 0, got {dual_bound!r}")
        self.beta0 = beta0
        self.lmo_tol = lmo_tol
        self.lmo_share = lmo_share
        self.dual_bound = dual_bound

    def start(self, *args: typing.Any, **settings: typing.Any) -> typing.NoReturn:
        """Refuse to serve an estimator.

        Raises
        ------
        TypeError
            Always.
        """
        raise TypeError(
            f"{type(self).__name__} solves composite problems, with minimize or minimize_composite; give an estimator "
            "an optimizer for streams"
        )

    def minimize_function(self, *args: typing.Any, **settings: typing.Any) -> typing.NoReturn:
        """Refuse: see :meth:`minimize_composite`, whose terms may be none.

        Raises
        ------
        TypeError
            Always.
        """
        raise TypeError(
            f"{type(self).__name__} takes a function and terms: minimize_composite(optim.Objective(gradient=grad, "
            "value=f), constraint=..., x0=...)"
        )

    def _count(self, name: str) -> int:
        return getattr(self._run, _COUNTERS.get(name, name)) if self.is_started else 0

    def _begin(self, run: CompositeState) -> None:
        """Prepare what the algorithm keeps beyond the run."""

    def _step(self, run: CompositeState) -> None:
        """Take one step of the algorithm."""
        raise NotImplementedError

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
            Called with the :class:`CompositeState` after each step; a true result, or ``StopIteration``, ends the run.
        x0
            Where to start, a point of the set; by default its point nearest to the origin.

        Returns
        -------
        scipy.optimize.OptimizeResult
            ``x``; ``fun``, f + the g_i that are functions (NaN where f has no value); ``infeasibility``, the distance
            to those that are sets; ``gap_estimate``, the last step's estimate of the smoothed objective's Frank-Wolfe
            gap, which is no bound; ``lmo_error`` and ``lmo_share`` of the last step; ``duals``, one for each term, None
            where there is none; ``nit``, ``n_gradients``, ``n_exact_gradients``, ``n_lmo``; ``success`` and
            ``message``.

        Raises
        ------
        ValueError
            For a start outside the set, a gradient that is not finite or has another shape, an adjoint whose result
            has another shape than x, or an objective that does not offer what the algorithm needs.
        TypeError
            For a term that is no :class:`Term`.
        """
        check_count("steps", steps)
        for i, term in enumerate(terms):
            if not isinstance(term, Term):
                raise TypeError(f"terms[{i}] must be a Term, got {term!r}; a set is one as Term(set)")
        objective = objective if isinstance(objective, Objective) else Objective(sample=objective)
        if x0 is None:
            x = constraint.initial_point(shape)
        else:
            x = np.array(x0, dtype=np.float64)
            if not constraint.contains(x):
                raise ValueError(f"x0 must be a point of {constraint}")
        rng = np.random.default_rng(seed)
        settings = self.lmo_tol, self.lmo_share, self.dual_bound
        run = self._run = CompositeState(x, constraint, list(terms), objective, rng, *settings)
        self._begin(run)
        message = f"took the {steps} steps asked for"
        try:
            while run.nit < steps:
                self._step(run)
                run.nit += 1
                if not np.isfinite(run.direction).all():
                    raise ValueError(f"step {run.nit}: the objective's gradient is not finite")
                if callback is not None and callback(run):
                    raise StopIteration
        except StopIteration:
            message = f"the callback ended it after {run.nit} steps"
        fun = objective.value(run.x) + sum(term.value(run.x) for term in run.terms)
        shown = {name: getattr(run, name) for name in _SHOWN}
        from scipy.optimize import OptimizeResult

        return OptimizeResult(shown, fun=fun, gap_estimate=run.gap, success=True, message=message)

    def minimize(  # type: ignore[override]  # terms are added, and there is no tol: see the class
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
        csr, d = as_rows(X, binary_targets(y) if losses.is_binary(loss) else y)
        objective = SumObjective(FiniteSum(rows_of(csr, d), csr[3], ScalarLoss(loss)))
        settings: dict[str, typing.Any] = {"steps": steps, "seed": seed, "callback": callback, "x0": x0}
        return self.minimize_composite(objective, constraint=constraint, terms=terms, shape=objective.d, **settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._get_params())})"

    __str__ = __repr__
