"""The optimizers that look at every sample they hold at every step: what they share, online and offline."""

from __future__ import annotations

import dataclasses
import math
import typing

import numpy as np

from fwonline._checks import check_count
from fwonline.optim.base import Optimizer
from fwonline.optim.problem.columns import by_columns
from fwonline.optim.problem.data import check_targets
from fwonline.optim.problem.function import SmoothFunction
from fwonline.optim.runs.full_run import FullRun, Look
from fwonline.optim.runs.function_run import FunctionRun
from fwonline.optim.schedules import LineSearch

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray
    from scipy.optimize import OptimizeResult  # whose module takes long: where it is made, too

    from fwonline import sets
    from fwonline.optim.runs.model_run import State
    from fwonline.optim.schedules import Schedule
    from fwonline.sets.atoms import Atom

    Array = NDArray[np.float64]

__all__ = ["Corrective", "FullGradient", "SampledOracle"]


@dataclasses.dataclass(eq=False, repr=False)
class FullGradient(Optimizer):
    """Base of the optimizers that look at every sample they hold at every step."""

    memory: int = 1000
    steps_per_sample: int = 1
    schedule: Schedule | None = None

    _run_class = FullRun
    # Whether steps go away from atoms, too; whether the oracle sees a random part of the atoms.
    _is_corrective: typing.ClassVar[bool] = False
    _is_sampled: typing.ClassVar[bool] = False

    def _step(self, run: FullRun, look: Look) -> None:
        """One step of the algorithm."""
        raise NotImplementedError

    def _schedule(self) -> Schedule:
        return (
            self._default_schedule if self.schedule is None or isinstance(self.schedule, LineSearch) else self.schedule
        )

    def _own_schedule(self, run: FullRun) -> Schedule:
        """The steps where no schedule is named."""
        return LineSearch()

    @property
    def n_coefficients(self) -> int:
        """Entries of gradients computed: d for each whole gradient, the sampled ones for each sampled step."""
        return self._run.n_coefficients if self.is_started else 0

    def _due(self, step: int) -> bool:
        """Whether offline the exact gap is to be looked at apart from the steps, before this one."""
        return False

    def minimize_function(
        self,
        f: Callable[[Array], typing.Any],
        grad: Callable[[Array], typing.Any] | bool,
        constraint: sets.ConvexSet,
        x0: ArrayLike,
        *,
        steps: int = 1000,
        callback: Callable[[State], bool | None] | None = None,
        tol: float | None = None,
    ) -> OptimizeResult:
        r"""Minimise a smooth function, which need not be a mean over samples, over a set.

        Parameters
        ----------
        f
            ``f(x)``: its value at x, a float; with ``grad=True`` its value and its gradient.
        grad
            ``grad(x)``: its gradient, an array of the shape of x; or True.
        constraint
            The set: any that has a linear minimisation oracle; ``AwayFW`` and ``PairwiseFW`` need finitely many
            vertices.
        x0
            Where to start, a point of the set at which f and its gradient are finite; its shape is that of x, a vector
            or a matrix.
        steps
            Steps to take, >= 1.
        callback
            Called with a :class:`State` after each step; a true answer, or ``StopIteration``, ends the run.
        tol
            End when the Frank-Wolfe gap is at most tol; every step knows it.

        Returns
        -------
        scipy.optimize.OptimizeResult
            As from :meth:`minimize`: ``x``; ``fun``, f there; ``gap``, the Frank-Wolfe gap there, so that
            fun - gap <= min <= fun for a convex f, as exactly as f and grad are computed; ``gap_estimate``, that before
            the last step; ``nit``, ``n_gradients`` (how often the gradient was taken), ``n_lmo``, ``n_drop_steps``;
            ``success`` and ``message``.

        Raises
        ------
        ValueError
            For a start outside the set, a gradient of another shape than x, or one that is not finite at a point that a
            step has reached.

        Notes
        -----
        Where no schedule is named it is ``LineSearch()``, on all sets. It looks for the zero of the slope along a
        direction, by a secant rule that asks for gradients alone, two or three of them a step (the last is the next
        step's), and once for f, to see that it did not rise. No Lipschitz constant is needed, and where f is not finite
        (beyond the domain of a logarithm) a step goes less far. Other schedules take one gradient a step and do not ask
        for f; the constant of :class:`~fwonline.optim.schedules.ShortStep` is that of f's gradient. The first step of
        ``Harmonic()`` leaves x0 for a vertex. Each step forms points of x's size.

        Examples
        --------
        The point of the simplex at which the determinant of a design is the largest (D-optimal design):

        >>> import numpy as np
        >>> from fwonline import optim, sets
        >>> A = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])
        >>> information = lambda x: A.T @ (x[:, None] * A)
        >>> result = optim.AwayFW().minimize_function(
        ...     lambda x: -np.linalg.slogdet(information(x))[1],
        ...     lambda x: -np.einsum("ij,jk,ik->i", A, np.linalg.inv(information(x)), A),
        ...     sets.ProbabilitySimplex(),
        ...     np.full(3, 1 / 3),
        ...     tol=1e-8,
        ... )
        >>> result.x.round(6), result.success
        (array([0.5, 0.5, 0. ]), True)
        """
        if self._is_sampled:
            super().minimize_function(f, grad, constraint, x0)
        check_count("steps", steps)
        run = self._run = FunctionRun(self, SmoothFunction(f, grad), constraint, x0)
        return self._descend(run, None, steps, callback, tol)

    def _on_data(self, X, y, loss, constraint, seed, x0):
        data = by_columns(X)
        n, d = data.shape
        targets = check_targets(y, n)
        if not n:
            raise ValueError("X has no rows: there is nothing to minimise")
        if constraint.shape is not None and d != math.prod(constraint.shape):
            raise ValueError(f"{constraint} holds points of {math.prod(constraint.shape)} features, X has {d} columns")
        run = self.start(constraint, loss, seed)
        run.is_online = False
        self._place(run, d, x0)
        run.attach(data, targets, np.zeros(n))
        return run, run.sum

    def _descend(self, run, total, steps, callback, tol):
        message = self._take_steps(run, steps, callback, tol)
        spent = self.n_gradients, self.n_exact_gradients, self.n_coefficients, self.n_lmo
        run.refresh()
        fun, gap = run.certify()
        success = bool(message) or tol is None or gap <= tol
        if not message:
            message = f"took the {steps} steps asked for"
            if tol is not None:
                message = (
                    f"took {steps} steps; the exact gap {gap:.3g} is {'at most' if success else 'above'} tol = {tol:g}"
                )
        from scipy.optimize import OptimizeResult

        return OptimizeResult(
            x=run.weights,
            fun=fun,
            gap=gap,
            gap_estimate=run.gap,
            nit=run.t,
            n_gradients=spent[0],
            n_exact_gradients=spent[1],
            n_coefficients=spent[2],
            n_lmo=spent[3],
            n_drop_steps=run.n_drop_steps,
            success=success,
            message=message,
        )

    def _take_steps(self, run: FullRun, steps: int, callback, tol: float | None) -> str:
        """Take the steps; returns why it ended before the last, or nothing."""
        for done in range(steps):
            if tol is not None and self._due(done) and (gap := run.certify()[1]) <= tol:
                return f"the exact gap {gap:.3g} is at most tol = {tol:g}, after {done} steps"
            if run.step(-np.inf if tol is None else tol):
                return f"the exact gap {run.gap:.3g} is at most tol = {tol:g}, after {done} steps"
            try:
                if callback is not None and callback(run.progress()):
                    return f"the callback ended it after {done + 1} steps"
            except StopIteration:
                return f"the callback ended it after {done + 1} steps"
        return ""


class Corrective:
    """What the optimizers that keep an active set of atoms add to :class:`FullGradient`."""

    _is_corrective = True
    _run: typing.Any

    @property
    def n_drop_steps(self) -> int:
        """Steps that took an atom out of the active set."""
        return self._run.n_drop_steps if hasattr(self, "_run") else 0

    @property
    def active(self) -> dict[Atom, float]:
        """A copy of the active set: atoms, and their weights in the iterate."""
        return dict(self._run.active.weights) if hasattr(self, "_run") else {}


@dataclasses.dataclass(eq=False, repr=False)
class SampledOracle:
    """What the optimizers whose oracle sees a random fraction of the atoms add to :class:`FullGradient`."""

    fraction: float = 0.1
    memory: int = 1000
    steps_per_sample: int = 1
    schedule: Schedule | None = None
    check: int = 2

    _is_sampled = True

    def __post_init__(self) -> None:
        Optimizer.__post_init__(typing.cast("Optimizer", self))

    def _due(self, step: int) -> bool:
        return self.fraction < 1.0 and step % (self.check * int(1.0 / self.fraction)) == 0
