"""The optimizers that look at every sample they hold at every step: what they share, online and offline."""

from __future__ import annotations

import dataclasses
import math
import typing

import numpy as np
from scipy.optimize import OptimizeResult

from fwonline.optim.base import Optimizer
from fwonline.optim.problem.columns import by_columns
from fwonline.optim.problem.data import check_targets
from fwonline.optim.runs.full_run import FullRun, Look
from fwonline.optim.schedules import LineSearch

if typing.TYPE_CHECKING:
    from fwonline.optim.schedules import Schedule
    from fwonline.sets.atoms import Atom

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
