r"""Step sizes :math:`\gamma_t` of :math:`w_{t+1} = (1 - \gamma_t) w_t + \gamma_t s_t`, none of them to be tuned.

A schedule of one's own subclasses :class:`Schedule` and writes :meth:`Schedule.gamma`, which steps call; the ones here
run compiled.
"""

from __future__ import annotations

import abc
import dataclasses
import math
import typing

from river import base

from fwonline import _loaded
from fwonline._checks import check_positive
from fwonline._kernels.entry import compiled_function
from fwonline._kernels.state import Schedule as Native

__all__ = [
    "EXACT",
    "STOCHASTIC",
    "AdaGradStep",
    "CurvatureStep",
    "Harmonic",
    "Homotopy",
    "LineSearch",
    "Power",
    "Schedule",
    "ShortStep",
    "momentum",
]


class Schedule(base.Base, abc.ABC):
    """How far a step goes towards the atom.

    Examples
    --------
    >>> from fwonline import optim
    >>> class Constant(optim.schedules.Schedule):
    ...     def gamma(self, t, gap, dist_sq):
    ...         return 0.05
    >>> optim.SFW(schedule=Constant())
    SFW(memory=1000, batch_size=1, steps_per_sample=1, schedule=Constant())
    """

    @abc.abstractmethod
    def gamma(self, t: int, gap: float, dist_sq: float) -> float:
        """Return the step, in [0, 1].

        Parameters
        ----------
        t
            Steps taken so far; 0 at the first.
        gap
            The estimated Frank-Wolfe gap of this step.
        dist_sq
            Squared distance from the iterate to the atom.
        """

    def _compiled(self) -> Native | None:
        """What kernels call in the place of :meth:`gamma`, if there is such a thing."""
        return None

    def _check_loaded(self) -> None:
        _loaded.renewed(self)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._get_params().items())
        return f"{type(self).__name__}({shown})"

    __str__ = __repr__


class LineSearch(Schedule):
    """The step that the objective asks for along the direction: for the family of :class:`FW`, which knows it.

    The exact line search for the squared loss; for losses whose second derivative is at most L the minimum of the
    quadratic bound with L along this very direction (a short step); for all others bisection of the slope. It is what
    ``AwayFW``, ``PairwiseFW``, ``RandomizedFW`` and ``RandomizedAwayFW`` do where no schedule is named. In
    ``minimize_function``, where no loss is known, it is the zero of the slope, by secants.

    Examples
    --------
    >>> from fwonline import optim
    >>> optim.FW(schedule=optim.schedules.LineSearch())
    FW(memory=1000, steps_per_sample=1, schedule=LineSearch())
    """

    def gamma(self, t: int, gap: float, dist_sq: float) -> typing.NoReturn:
        raise TypeError(
            "LineSearch needs the whole objective, which FW, AwayFW, PairwiseFW, RandomizedFW and RandomizedAwayFW "
            "know on vectors; give another optimizer another schedule"
        )

    def _compiled(self) -> Native:
        return self.gamma(0, 0.0, 0.0)  # refused before a stream begins


class _Formula(Schedule):
    """A schedule that is a formula of three parameters: one text, run by Python and compiled."""

    # gamma(a, b, c, t, gap, dist_sq, step_sum), step_sum the sum of the squares of the gaps up to now.
    _formula: typing.ClassVar[typing.Callable[..., float]]
    _accumulates = False

    def _parameters(self) -> tuple[float, float, float]:
        raise NotImplementedError

    def gamma(self, t: int, gap: float, dist_sq: float) -> float:
        return min(max(float(type(self)._formula(*self._parameters(), float(t), gap, dist_sq, 0.0)), 0.0), 1.0)

    def _compiled(self) -> Native | None:
        if (formula := _FORMULAS.get(type(self))) is None:
            return None  # a subclass of one's own
        return Native(compiled_function(formula, 7).address, *self._parameters(), int(self._accumulates))


@dataclasses.dataclass(eq=False, repr=False)
class Harmonic(_Formula):
    r"""The step of the theorems, :math:`\gamma_t = 2 / (t + \text{offset})`.

    Parameters
    ----------
    offset
        2 for Frank-Wolfe and SFW (the first step is then a whole one), 8 for the momentum of Mokhtari et al.; >= 2.
    floor
        The least step, in [0, 1]. A positive floor forgets the past at a constant rate, which is what a stream that
        drifts asks for; the price is a gap that stays of the order of the floor. In :class:`~fwonline.optim.SFW` it
        must be well below ``batch_size / memory``.
    restart
        Start anew, with t = 0, every so many steps; None for never.

    Examples
    --------
    >>> from fwonline.optim.schedules import Harmonic
    >>> [round(Harmonic(floor=0.3).gamma(t, 0.0, 0.0), 3) for t in (0, 1, 2, 100)]
    [1.0, 0.667, 0.5, 0.3]
    """

    offset: float = 2.0
    floor: float = 0.0
    restart: int | None = None

    def __post_init__(self) -> None:
        if not 2.0 <= self.offset < math.inf:
            raise ValueError(f"offset must be a finite number >= 2, got {self.offset!r}")
        if not 0.0 <= self.floor <= 1.0:
            raise ValueError(f"floor must be in [0, 1], got {self.floor!r}")
        if self.restart is not None and self.restart < 1:
            raise ValueError(f"restart must be a number of steps >= 1, or None, got {self.restart!r}")

    @staticmethod
    def _formula(offset, floor, restart, t, gap, dist_sq, step_sum):
        return max(2.0 / ((t % restart if restart > 0.0 else t) + offset), floor)

    def _parameters(self):
        return float(self.offset), float(self.floor), float(self.restart or 0)


@dataclasses.dataclass(eq=False, repr=False)
class Power(_Formula):
    r""":math:`\gamma_t = \min(1, c\, (t + 1)^{-a})`; with a = 1/2 the step of Hazan and Kale's online Frank-Wolfe.

    Parameters
    ----------
    a
        The exponent, in [0, 1].
    factor
        c, in (0, inf).

    Examples
    --------
    >>> from fwonline.optim.schedules import Power
    >>> Power(a=0.5).gamma(3, 0.0, 0.0)
    0.5
    """

    a: float = 0.5
    factor: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.a <= 1.0:
            raise ValueError(f"a must be in [0, 1], got {self.a!r}")
        check_positive("factor", self.factor)

    @staticmethod
    def _formula(a, factor, _, t, gap, dist_sq, step_sum):
        return factor * (t + 1.0) ** -a

    def _parameters(self):
        return float(self.a), float(self.factor), 0.0


class ShortStep(_Formula):
    r"""The short step of Demyanov and Rubinov, :math:`\gamma_t = \min(1, g_t / (L \|s_t - w_t\|^2))`.

    It minimises the quadratic upper bound of the objective along the segment. With an estimated gradient the estimated
    gap stands in for g_t, and a negative one stops the step.

    Parameters
    ----------
    lipschitz
        L, the Lipschitz constant of the objective's gradient in the Euclidean norm; > 0. For the mean of
        f(y, <x, w>) it is at most max f'' times the largest eigenvalue of the mean of x x^T.

    Examples
    --------
    >>> from fwonline.optim.schedules import ShortStep
    >>> ShortStep(lipschitz=2.0).gamma(t=9, gap=1.0, dist_sq=4.0)
    0.125
    """

    def __init__(self, lipschitz: float):
        check_positive("lipschitz", lipschitz)
        self.lipschitz = lipschitz

    @classmethod
    def _unit_test_params(cls) -> typing.Iterator[dict]:
        yield {"lipschitz": 1.0}

    @staticmethod
    def _formula(lipschitz, _, unused, t, gap, dist_sq, step_sum):
        scale = lipschitz * dist_sq
        return gap / scale if scale > 0.0 else 0.0

    def _parameters(self):
        return float(self.lipschitz), 0.0, 0.0


class CurvatureStep(Schedule):
    r"""The step of the curvature constant, :math:`\gamma_t = \min(1, g_t / C_f)`.

    Variant 2 of the step in Kerdreux, Pedregosa and d'Aspremont's algorithms: it minimises the bound
    :math:`f(w) - \gamma g_t + \frac{\gamma^2}{2} C_f` of the objective.

    Parameters
    ----------
    curvature
        :math:`C_f`, the curvature of the objective over the set, > 0; at most the Lipschitz constant of the gradient
        times the squared diameter of the set.

    Examples
    --------
    >>> from fwonline.optim.schedules import CurvatureStep
    >>> CurvatureStep(curvature=8.0).gamma(t=9, gap=1.0, dist_sq=4.0)
    0.125
    """

    def __init__(self, curvature: float):
        check_positive("curvature", curvature)
        self.curvature = curvature

    @classmethod
    def _unit_test_params(cls) -> typing.Iterator[dict]:
        yield {"curvature": 1.0}

    def gamma(self, t: int, gap: float, dist_sq: float) -> float:
        return min(max(gap / self.curvature, 0.0), 1.0)


class AdaGradStep(_Formula):
    r"""A step scaled by the gaps seen so far, :math:`\gamma_t = \min(1, c\, g_t / \sqrt{\sum_{k \le t} g_k^2})`.

    AdaGrad's rule with the Frank-Wolfe gap in place of the gradient's norm: no constant of the objective is needed.
    While the gaps stay level the step falls like :math:`1 / \sqrt t`; once they fall, it falls with them.

    Parameters
    ----------
    scale
        c, in (0, inf).

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sfw = optim.SFW(batch_size=10, schedule=optim.schedules.AdaGradStep())
    >>> result = sfw.minimize(X, X[:, 1], constraint=sets.L1Ball(2.0), steps=5_000, seed=0)
    >>> bool(result.fun < 1e-3)
    True
    """

    _accumulates = True

    def __init__(self, scale: float = 1.0):
        check_positive("scale", scale)
        self.scale = scale
        self._sum = 0.0

    def _check_loaded(self) -> None:
        held = _loaded.real(self, "_sum", 0.0, inf=True)
        super()._check_loaded()
        self._sum = held

    @staticmethod
    def _formula(scale, _, unused, t, gap, dist_sq, step_sum):
        return scale * gap / math.sqrt(step_sum) if step_sum > 0.0 else 0.0

    def _parameters(self):
        return float(self.scale), 0.0, 0.0

    def gamma(self, t: int, gap: float, dist_sq: float) -> float:
        self._sum = gap * gap + (self._sum if t else 0.0)
        return min(max(_FORMULAS[AdaGradStep](*self._parameters(), float(t), gap, dist_sq, self._sum), 0.0), 1.0)


# Those whose formula runs compiled; a subclass may have another gamma.
_FORMULAS: dict[type, typing.Callable[..., float]] = {
    cls: cls._formula for cls in (Harmonic, Power, ShortStep, AdaGradStep)
}


@dataclasses.dataclass(frozen=True)
class Homotopy:
    r"""Step and smoothing of the homotopy methods, which fade together.

    .. math::
        \eta_k = \frac{1 + \text{shift}}{k + \text{shift}}, \qquad \beta_k = \frac{\beta_0}{\sqrt{k + \text{shift}}},
        \qquad k = 1, 2, \dots

    The first step is a whole one. :data:`EXACT` (shift 1) is what HCGM (Yurtsever et al. 2018) and H-SAG-CGM (Dresdner
    et al. 2022) take, :data:`STOCHASTIC` (shift 8) what SHCGM (Locatello et al. 2019) takes.

    Parameters
    ----------
    shift
        By how much k is shifted, >= 0.

    Examples
    --------
    >>> from fwonline.optim.schedules import EXACT, STOCHASTIC
    >>> EXACT.eta(3), EXACT.beta(3, beta0=4.0)
    (0.5, 2.0)
    >>> STOCHASTIC.eta(10), STOCHASTIC.beta(1, beta0=1.0)
    (0.5, 0.3333333333333333)
    """

    shift: float

    def eta(self, k: float) -> float:
        """Return the step size of step number k = 1, 2, ..."""
        return (1.0 + self.shift) / (k + self.shift)

    def beta(self, k: float, beta0: float) -> float:
        """Return the smoothing of step number k = 1, 2, ..."""
        return beta0 / math.sqrt(k + self.shift)


EXACT = Homotopy(1.0)
STOCHASTIC = Homotopy(8.0)


def momentum(k: float) -> float:
    r"""Return :math:`\rho_k = 4 / (k + 7)^{2/3}`, the weight of step k's sample in SHCGM's gradient estimate.

    Examples
    --------
    >>> from fwonline.optim.schedules import momentum
    >>> round(momentum(1), 9), round(momentum(20), 9)
    (1.0, 0.444444444)
    """
    return 4.0 / (k + 7) ** (2.0 / 3.0)
