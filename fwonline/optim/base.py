"""What every optimizer is: hyperparameters, a run of its own, and the offline front door."""

from __future__ import annotations

import dataclasses
import typing

import numpy as np
from river import base
from river import optim as river_optim

from fwonline import _loaded, losses, sets
from fwonline._checks import check_count, check_positive
from fwonline._kernels import layout
from fwonline._kernels.state import Rows
from fwonline.optim import free
from fwonline.optim.problem.data import as_rows, binary_targets, rows_of
from fwonline.optim.problem.finite_sum import FiniteSum
from fwonline.optim.problem.score_loss import ScalarLoss
from fwonline.optim.runs.model_run import State
from fwonline.optim.schedules import Harmonic, Schedule

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray
    from scipy.optimize import OptimizeResult  # whose module takes long: where it is made, too

    from fwonline.optim.runs.method import Method
    from fwonline.optim.runs.model_run import ModelRun

__all__ = ["Optimizer", "State"]

# Steps a sample that a model from a file may take.
_MOST_STEPS = 1_000
# What a parameter must be, in all optimizers that have one of this name.
_COUNTS = {
    "memory",
    "batch_size",
    "steps_per_sample",
    "inner_steps",
    "epoch",
    "horizon",
    "block",
    "max_features",
    "check",
}
_SHARES = {"a", "fraction"}
_POSITIVE = {"rho", "step", "lipschitz", "sigma", "gradient_bound", "diameter", "strong_convexity"}


class Optimizer(base.Base):
    """Base of the optimizers: hyperparameters that a run reads, online or offline.

    An optimizer serves one model. A model given an optimizer that already serves another takes a clone of it.
    """

    _run_class: typing.ClassVar[typing.Any]  # a subclass of Run
    # The compiled steps: on rows as they come, and, of those with a memory, on all that is held.
    _learn: typing.Any = None
    _iterate: typing.Any = None
    # The steps on a finite sum: of those that work on matrices, and of those that only work on finite sums.
    _method_class: typing.ClassVar[type[Method] | None] = None
    # Step sizes where none are named: 2 / (t + 2).
    _default_schedule: typing.ClassVar[Schedule] = Harmonic()
    # Whether a sample may be given a weight.
    _takes_weights: typing.ClassVar[bool] = False
    _run: typing.Any
    # The ball, of no size that matters, in which it learns where no set was named; None where its steps need a set.
    _unbounded: typing.ClassVar[type[sets.L1Ball] | type[sets.LInfBall] | None] = None
    # Steps between two looks at the exact gap; as many as there are samples where None.
    _look_every: typing.ClassVar[int | None] = None

    def __post_init__(self) -> None:
        """Check the parameters, the fields of a dataclass; None is one where it is the default."""
        given: dict[str, typing.Any] = {}
        for field in dataclasses.fields(typing.cast("typing.Any", self)):
            name, value = field.name, getattr(self, field.name)
            if value is None and field.default is None:
                continue
            given[name] = value
            if name == "schedule" and not isinstance(value, Schedule):
                raise TypeError(f"schedule must be one of optim.schedules such as schedules.Harmonic(), got {value!r}")
            if name in _COUNTS:
                check_count(name, value)
            elif name in _POSITIVE:
                check_positive(name, value)
            elif name in _SHARES and not 0.0 < value <= 1.0:
                raise ValueError(f"{name} must be in (0, 1], got {value!r}")
        # A step over a memory draws its batch from it without replacement.
        if self._iterate is not None and "memory" in given and given.get("batch_size", 1) > given["memory"]:
            raise ValueError(f"batch_size must be at most memory = {given['memory']}, got {given['batch_size']}")

    def _schedule(self) -> Schedule:
        return getattr(self, "schedule", None) or self._default_schedule

    def start(
        self, constraint: sets.ConvexSet | None, loss: typing.Any, seed: int | None = None, fit_intercept: bool = False
    ):
        """Begin a run; called by estimators."""
        self._run = self._run_class(self, self._set_for(constraint), loss, seed, fit_intercept)
        return self._run

    def _set_for(self, constraint: sets.ConvexSet | None) -> sets.ConvexSet:
        """The set that a run is given.

        Raises
        ------
        ValueError
            For None, where steps need a set.
        """
        if constraint is not None:
            return constraint
        if self._unbounded is None:
            able = ", ".join(sorted(cls.__name__ for cls in _derived(Optimizer) if getattr(cls, "_unbounded", None)))
            raise ValueError(
                f"constraint must be a set for {self}, such as sets.L1Ball(100.0); without one, {able} learn"
            )
        return self._unbounded(free.RADIUS)

    def _method(self) -> Method:
        """The steps on a finite sum.

        Raises
        ------
        TypeError
            For an optimizer that works on vectors alone.
        """
        if self._method_class is None:
            names = sorted(cls.__name__ for cls in _derived(Optimizer) if "_method_class" in vars(cls))
            raise TypeError(f"{self} does not work on matrices; {', '.join(names)} do")
        return self._method_class(self)

    @property
    def is_started(self) -> bool:
        """Whether a model or a call of ``minimize`` has used this optimizer."""
        return hasattr(self, "_run")

    def _check_loaded(self) -> None:
        if not _loaded.is_own(type(self)):
            return
        mine, cls = vars(self), typing.cast("typing.Any", type(self))
        for name in set(_loaded.parameters_of(cls)) - mine.keys():
            _loaded.fail(self, name, "a value")
        for name, value in mine.items():
            if name == "schedule":
                if _loaded.kind(self, name, Schedule, optional=True) is not None:
                    value._check_loaded()
            elif name != "_run":
                self._check_parameter(name, value)
        fresh = vars(_loaded.rebuilt(self))
        for name in mine.keys() - fresh.keys() - {"_run"}:
            del mine[name]
        mine.update(fresh)

    def _check_parameter(self, name: str, value: typing.Any) -> None:
        """See that a parameter is a number that calculations can hold."""
        if value is None or isinstance(value, bool):
            return
        # A sample is learned in as many steps: who makes a model may choose any number, a file may not.
        most = _MOST_STEPS if name == "steps_per_sample" else layout.LARGEST
        if isinstance(value, (int, np.integer)):
            most = min(most, _loaded.MOST)  # counts, which are multiplied with counts
        if not isinstance(value, (int, float, np.integer, np.floating)) or not -layout.LARGEST <= value <= most:
            _loaded.fail(self, name, f"a number of at most {most:g}", value)

    # --- counters, read off the run ---

    def _count(self, name: str) -> int:
        return getattr(self._run.s, name) if self.is_started else 0

    @property
    def n_steps(self) -> int:
        """Steps taken."""
        return self._count("t")

    @property
    def n_gradients(self) -> int:
        """Derivatives of single samples taken."""
        return self._count("n_gradients")

    @property
    def n_exact_gradients(self) -> int:
        """Gradients of the whole objective taken exactly."""
        return self._count("n_exact")

    @property
    def n_lmo(self) -> int:
        """Linear minimisations."""
        return self._count("n_lmo")

    # --- offline ---

    def minimize(
        self,
        X: typing.Any,
        y: ArrayLike,
        *,
        loss: typing.Any = None,
        constraint: sets.ConvexSet | None,
        steps: int = 10_000,
        seed: int | None = None,
        callback: Callable[[State], bool | None] | None = None,
        x0: ArrayLike | None = None,
        tol: float | None = None,
    ) -> OptimizeResult:
        r"""Minimise :math:`\frac1n \sum_i \text{loss}(y_i, \langle x_i, w \rangle)` over a set.

        Parameters
        ----------
        X
            Samples x features, a dense array or a scipy sparse matrix; for :class:`FW` and its family also a
            ``numpy.memmap``, which is read in parts.
        y
            Targets, shape (n,); labels of binary losses are 0/1, booleans or -1/+1.
        loss
            A river loss, or any object with ``__call__`` and ``gradient``; ``Squared()`` by default.
        constraint
            The set; None for no constraint, with optimizers that need none. ``gap`` is then that over the l1 ball of
            twice the norm of ``x``.
        steps
            Steps to take.
        seed
            Seed of the sampling.
        callback
            Called with a :class:`State` after each step; a true answer, or ``StopIteration``, ends the run.
        x0
            Where to start, a point of the set. By default w = 0 where the set holds it, and in a box the point
            nearest to it. Elsewhere, as on a simplex or in a hull, the start is the vertex that the first gradient
            (or its estimate) asks for, not the set's ``initial_point``; ``ProjectedSGD`` projects its first step,
            taken from 0. ``SVRF`` and ``STORC`` start at such a vertex everywhere, as their paper does.
        tol
            End when the exact Frank-Wolfe gap is at most tol. It is looked at now and then, at a cost of one pass each;
            :class:`FW` and its family know it from each whole gradient that they take.

        Returns
        -------
        scipy.optimize.OptimizeResult
            ``x``; ``fun``, the objective there; ``gap``, its exact Frank-Wolfe gap, so that fun - gap <= min <= fun
            for a convex loss: both are rounded up by what their sums may have lost, so that this holds of the numbers
            as they stand; ``gap_estimate``, that of the last step by the optimizer's own estimate of the gradient,
            which is no bound; ``nit``, ``n_gradients``, ``n_exact_gradients``, ``n_lmo``; ``success`` and
            ``message``; of :class:`FW` and its family also ``n_coefficients`` and ``n_drop_steps``, and there what
            ``fun`` and ``gap`` cost at the end is not counted.

        Raises
        ------
        ValueError
            For entries that are not finite, shapes that do not fit, or a start outside the set.
        """
        check_count("steps", steps)
        loss = river_optim.losses.Squared() if loss is None else loss
        targets = binary_targets(y) if losses.is_binary(loss) else y
        run, total = self._on_data(X, targets, loss, self._set_for(constraint), seed, x0)
        return self._descend(run, total, steps, callback, tol)

    def minimize_function(
        self,
        f: Callable[[NDArray[np.float64]], typing.Any],
        grad: Callable[[NDArray[np.float64]], typing.Any] | bool,
        constraint: sets.ConvexSet,
        x0: ArrayLike,
        *,
        steps: int = 1000,
        callback: Callable[[State], bool | None] | None = None,
        tol: float | None = None,
    ) -> OptimizeResult:
        """Minimise a smooth function that is no mean over samples: :class:`FW`, :class:`AwayFW`, :class:`PairwiseFW`.

        Raises
        ------
        TypeError
            By all others, which need the single samples or coordinates of a sum.
        """
        raise TypeError(
            f"{type(self).__name__} looks at parts of a sum over samples, which f has not; use minimize(X, y), or "
            f"minimize_function of FW, AwayFW or PairwiseFW"
        )

    def _on_data(
        self,
        X: typing.Any,
        y: ArrayLike,
        loss: typing.Any,
        constraint: sets.ConvexSet,
        seed: int | None,
        x0: typing.Any,
    ) -> tuple[typing.Any, FiniteSum]:
        """A run over a data set, before its first step; and the sum by which results are measured."""
        rows, d = as_rows(X, y)
        if not len(rows[3]):
            raise ValueError("X has no rows: there is nothing to minimise")
        run = self.start(constraint, loss, seed)
        self._place(run, d, x0)
        run.offline(Rows.of(*rows))
        return run, FiniteSum(rows_of(rows, d), rows[3], ScalarLoss(loss))

    @staticmethod
    def _place(run: ModelRun, d: int, x0: typing.Any) -> None:
        """Let a run begin with d features, at x0 where that is given."""
        run.grow(np.arange(d))
        if x0 is not None:
            run.set_weights(x0)

    def _descend(self, run, total: FiniteSum, steps: int, callback, tol: float | None) -> OptimizeResult:
        every = self._look_every or total.n
        return self._follow(run, steps, every, callback, tol, lambda x: total.measure(x, run.gap_set(x)))

    def _follow(
        self,
        run: ModelRun,
        steps: int,
        every: int,
        callback: Callable[[State], bool | None] | None,
        tol: float | None,
        measure: Callable[[NDArray[np.float64]], tuple[float, float]],
    ) -> OptimizeResult:
        """Iterate a run that is ready, and look at the gap every so many steps.

        ``measure`` returns a point's objective and exact gap.
        """
        success, message = True, f"took the {steps} steps asked for"
        # With neither a callback nor a tolerance the loop is compiled from end to end.
        chunk = 1 if callback else (steps if tol is None else max(1, min(steps, every)))
        done = 0
        try:
            while done < steps:
                count = min(chunk, steps - done)
                run.iterate(count)
                done += count
                if callback is not None and callback(run.progress()):
                    message = f"the callback ended it after {done} steps"
                    break
                if tol is not None and (done % every == 0 or done == steps):
                    gap = measure(run.weights)[1]
                    if gap <= tol:
                        message = f"the exact gap {gap:.3g} is at most tol = {tol:g}, after {done} steps"
                        break
                    success, message = (
                        done < steps,
                        f"took {steps} steps; the exact gap {gap:.3g} is above tol = {tol:g}",
                    )
        except StopIteration:
            message = f"the callback ended it after {done} steps"
        x = run.weights
        fun, gap = measure(x)
        from scipy.optimize import OptimizeResult

        return OptimizeResult(
            x=x,
            fun=fun,
            gap=gap,
            gap_estimate=run.gap,
            nit=done,
            n_gradients=self.n_gradients,
            n_exact_gradients=self.n_exact_gradients,
            n_lmo=self.n_lmo,
            success=success,
            message=message,
        )

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={getattr(self, name)!r}" for name in self._get_params() if getattr(self, name) is not None
        )
        return f"{type(self).__name__}({shown})"

    __str__ = __repr__


def _derived(cls: type) -> set[type]:
    """All classes below a class."""
    below: set[type] = set(cls.__subclasses__())
    return below.union(*map(_derived, below))
