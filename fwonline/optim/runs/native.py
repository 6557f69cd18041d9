"""The loss, the set and the schedule of a run as kernels take them: compiled, or called back."""

from __future__ import annotations

import ctypes
import functools
import typing

import numpy as np

from fwonline import losses, sets
from fwonline._kernels import layout
from fwonline._kernels.state import Loss, Problem, Region
from fwonline._kernels.state import Schedule as NativeSchedule

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from fwonline.optim.schedules import Schedule

__all__ = ["Native", "region_of"]

_SIMPLE = {
    sets.L1Ball: layout.L1,
    sets.ProbabilitySimplex: layout.SIMPLEX,
    sets.UnitSimplex: layout.UNIT_SIMPLEX,
    sets.L2Ball: layout.L2,
    sets.LInfBall: layout.LINF,
}
_NONE = np.empty(0)


def region_of(constraint: sets.ConvexSet) -> Region:
    """A set as kernels take it, its oracle compiled where the kind is not ``GENERIC``."""
    kind = _SIMPLE.get(type(constraint))
    if kind is not None:
        return Region(kind, float(constraint.radius), 0.0, _NONE, _NONE, 0)  # type: ignore[attr-defined]
    if type(constraint) is sets.Box:
        lower, upper = np.asarray(constraint.lower, dtype=float), np.asarray(constraint.upper, dtype=float)
        if lower.ndim == upper.ndim == 0:
            return Region(layout.BOX, float(lower), float(upper), _NONE, _NONE, 0)
        lower, upper = (np.array(side) for side in np.broadcast_arrays(lower, upper))
        return Region(layout.BOX_ARRAYS, 0.0, 0.0, lower, upper, 0)
    return Region(layout.GENERIC, 0.0, 0.0, _NONE, _NONE, 0)


@functools.cache
def _prototype(arguments: int) -> typing.Any:
    return ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * arguments)


class Native:
    """What a run's kernels are given of its problem.

    What a Python object raises when it is called back is kept, and raised by :meth:`check` once the kernel has
    returned: the row whose own loss failed has moved nothing, and no later row is begun. Where it fails within the
    steps that a row pays for, the row has been learned and the step is left out.

    Parameters
    ----------
    loss, constraint, schedule
        The problem.
    ask
        Called for a set without a compiled oracle: with ``steps.ATOM`` it writes the atom of the present gradient
        estimate into the run, with ``steps.PROJECTION`` it projects the iterate, with ``steps.OUTSIDE`` it returns
        whether that is no point of the set.
    """

    def __init__(
        self,
        loss: typing.Any,
        constraint: sets.ConvexSet,
        schedule: Schedule,
        ask: Callable[[float], float | None],
    ):
        self.failed = np.zeros(1, dtype=np.int64)
        self._error: BaseException | None = None
        self._kept: list = []  # what ctypes calls must outlive the kernels
        region = region_of(constraint)
        if region.kind == layout.GENERIC:
            region = region._replace(oracle=self._address(ask, 1, 0.0))
        self.problem = Problem(self._loss(loss), region, self._schedule(schedule), self.failed)

    @property
    def calls_python(self) -> bool:
        return bool(self._kept)

    def _address(self, function: Callable, arguments: int, otherwise: float) -> int:
        """The address of a Python function of floats; it returns ``otherwise`` where that raises."""

        def guarded(*values: float) -> float:
            try:
                result = function(*values)
                return otherwise if result is None else float(result)
            except BaseException as error:  # Ctrl-C too: nothing may leave through the kernel
                self._error = self._error or error
                self.failed[0] = 1
                return otherwise

        pointer = _prototype(arguments)(guarded)
        self._kept.append(pointer)
        return typing.cast("int", ctypes.cast(pointer, ctypes.c_void_p).value)

    def _loss(self, loss: typing.Any) -> Loss:
        if (native := losses.compiled(loss)) is not None:
            return native
        label = bool if losses.is_binary(loss) else float
        nan = float("nan")
        value = self._address(lambda p, q, y, z: loss(label(y), z), 4, nan)
        derivative = self._address(lambda p, q, y, z: loss.gradient(label(y), z), 4, nan)
        return Loss(value, derivative, losses.curvature_address(), 0.0, 0.0, 0)

    def _schedule(self, schedule: Schedule) -> NativeSchedule:
        if (native := schedule._compiled()) is not None:
            return native

        def gamma(a: float, b: float, c: float, t: float, gap: float, dist_sq: float, _sum: float) -> float:
            step = float(schedule.gamma(int(t), gap, dist_sq))
            if not 0.0 <= step <= 1.0:
                raise ValueError(f"{schedule} returned a step of {step!r}; expected one in [0, 1]")
            return step

        return NativeSchedule(self._address(gamma, 7, 0.0), 0.0, 0.0, 0.0, 0)

    def check(self) -> None:
        """Raise what a Python object raised when it was called back."""
        if self.failed[0]:
            error, self._error = self._error, None
            self.failed[0] = 0
            assert error is not None
            raise error
