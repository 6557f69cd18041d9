r"""Losses: river's loss objects, mapped to compiled value, derivative and curvature.

A learner of this library minimises the mean of :math:`f(y, z)` with :math:`z = \langle x, w \rangle`, the raw
prediction. Any object with ``__call__(y_true, y_pred)`` and ``gradient(y_true, y_pred)`` is a loss; the ones below
run compiled, a sample at a time, with the same values as river's own methods:

======================================== ===========================================================================
object                                   :math:`f(y, z)`
======================================== ===========================================================================
``optim.losses.Squared()``               :math:`(z - y)^2`
``optim.losses.Absolute()``              :math:`|z - y|`
``optim.losses.Huber(epsilon)``          quadratic within epsilon of y, linear beyond
``optim.losses.Quantile(alpha)``         :math:`(1[z > y] - \alpha)(z - y)`: the pinball loss (see below)
``optim.losses.Poisson()``               :math:`e^z - y z`
``optim.losses.EpsilonInsensitiveHinge`` :math:`\max(|z - (2y - 1)| - \epsilon, 0)`: river takes y as a 0/1 label
``optim.losses.Log(...)``                :math:`\log(1 + e^{-(2y - 1) z})`, weighted by class
``optim.losses.Hinge(threshold)``        :math:`\max(t - (2y - 1) z, 0)`
``optim.losses.BinaryFocalLoss``         the focal loss of Lin et al., "star" form
:class:`EpsilonInsensitive`              :math:`\max(|z - y| - \epsilon, 0)`, for regression
:class:`SquaredHinge`                    :math:`\max(1 - (2y - 1) z, 0)^2`
:class:`SmoothHinge`                     the hinge with its corner rounded over a width
:class:`NegativeLogReturn`               :math:`-\log z`: the loss of a portfolio whose wealth grows by z
======================================== ===========================================================================

river 0.26's ``Quantile`` has the gradient of the alpha-quantile but the value of the (1 - alpha)-quantile. A gap or a
regret needs a value and a derivative of one function, so here the value is the one that river's gradient belongs to.

Labels of binary losses are 0 and 1, as river has them. A subclass of a river loss is not assumed to keep its
formula, so it runs by its own methods.
"""

from __future__ import annotations

import functools
import math
import typing

import numba as nb
import numpy as np
from river.optim import losses as _river

from fwonline._checks import check_positive
from fwonline._kernels.entry import call, compiled_function
from fwonline._kernels.layout import jit
from fwonline._kernels.scores import log1p_exp, sigmoid
from fwonline._kernels.state import Loss

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Scalar = Callable[[float, float], float]

__all__ = [
    "CompiledLoss",
    "EpsilonInsensitive",
    "NegativeLogReturn",
    "SmoothHinge",
    "SquaredHinge",
    "check_loss",
    "vector_loss",
]


# --- formulas: f(y, z) and f'(y, z) of a loss with two parameters ------------------------------------------------


def _squared(p, q, y, z):
    return (z - y) * (z - y)


def _squared_slope(p, q, y, z):
    return 2.0 * (z - y)


def _absolute(p, q, y, z):
    return abs(z - y)


def _absolute_slope(p, q, y, z):
    return 1.0 if z - y > 0.0 else -1.0


def _huber(p, q, y, z):
    r = z - y
    return 0.5 * r * r if abs(r) <= p else p * abs(r) - 0.5 * p * p


def _huber_slope(p, q, y, z):
    r = z - y
    return r if abs(r) <= p else (p if r > 0.0 else -p)


def _quantile(p, q, y, z):
    return -p * (z - y) if z - y < 0.0 else (1.0 - p) * (z - y)


def _quantile_slope(p, q, y, z):
    return (1.0 if y < z else 0.0) - p


def _poisson(p, q, y, z):
    return math.exp(min(z, 709.0)) - y * z


def _poisson_slope(p, q, y, z):
    return math.exp(min(z, 709.0)) - y


def _epsilon(p, q, y, z):
    return max(abs(z - y) - p, 0.0)


def _epsilon_slope(p, q, y, z):
    return (1.0 if z > y + p else 0.0) - (1.0 if z + p < y else 0.0)


def _epsilon_label(p, q, y, z):
    return max(abs(z - (2.0 * y - 1.0)) - p, 0.0)


def _epsilon_label_slope(p, q, y, z):
    sign = 2.0 * y - 1.0
    return (1.0 if z > sign + p else 0.0) - (1.0 if z + p < sign else 0.0)


def _log(p, q, y, z):
    return log1p_exp(-z) * p if y > 0.5 else log1p_exp(z) * q


def _log_slope(p, q, y, z):
    return -p * sigmoid(-z) if y > 0.5 else q * sigmoid(z)


def _hinge(p, q, y, z):
    return max(p - (2.0 * y - 1.0) * z, 0.0)


def _hinge_slope(p, q, y, z):
    sign = 2.0 * y - 1.0
    return -sign if sign * z <= p else 0.0


def _focal(p, q, y, z):
    return log1p_exp(-(p * ((2.0 * y - 1.0) * z) + q)) / p


def _focal_slope(p, q, y, z):
    sign = 2.0 * y - 1.0
    return -sign * sigmoid(-(p * (sign * z) + q))


def _squared_hinge(p, q, y, z):
    short = max(1.0 - (2.0 * y - 1.0) * z, 0.0)
    return short * short


def _squared_hinge_slope(p, q, y, z):
    return -2.0 * (2.0 * y - 1.0) * max(1.0 - (2.0 * y - 1.0) * z, 0.0)


def _smooth_hinge(p, q, y, z):
    short = max(1.0 - (2.0 * y - 1.0) * z, 0.0)
    return short - 0.5 * p if short >= p else 0.5 * short * short / p


def _smooth_hinge_slope(p, q, y, z):
    sign = 2.0 * y - 1.0
    return -sign * min(max(1.0 - sign * z, 0.0) / p, 1.0)


def _log_return(p, q, y, z):
    # Below the floor p the tangent goes on, so that the loss stays finite, convex and smooth.
    return -math.log(z) if z >= p else -math.log(p) - (z - p) / p


def _log_return_slope(p, q, y, z):
    return -1.0 / max(z, p)


# --- curvatures of f in z, of its value and derivative there, that steps may rely on some way from z ---


def _touching(p, q, y, z, value, derivative, usual):
    """f'^2 / (2 f): a parabola through f and f' has its least value at 0.

    It is 1 / (2 |r|) for a corner, the constant L for a parabola. Where such a loss all but vanishes, a tenth of its
    ``usual`` value takes its place.
    """
    floor = max(value, 0.1 * usual)
    return derivative * derivative / (2.0 * floor) if floor > 0.0 else 0.0


def _two(p, q, y, z, value, derivative, usual):
    return 2.0


def _log_curvature(p, q, y, z, value, derivative, usual):
    """The smallest of a parabola that touches f at z and lies above it everywhere (Jaakkola, Jordan 2000)."""
    weight = p if y > 0.5 else q
    return weight * (0.25 if abs(z) < 1e-3 else math.tanh(0.5 * z) / (2.0 * z))


def _poisson_curvature(p, q, y, z, value, derivative, usual):
    # Below the least point the slope over the way there, with which Newton's step ends in it.
    here = math.exp(min(z, 709.0))
    return max(here, derivative / (z - math.log(y))) if 0.0 < here < y else here


def _log_return_curvature(p, q, y, z, value, derivative, usual):
    return derivative * derivative


class _Formula(typing.NamedTuple):
    value: Callable
    derivative: Callable
    parameters: tuple[str, ...] = ()
    curvature: Callable = _touching
    # The largest |f'| and the largest f'' in z, of the two parameters; None where there is no bound.
    bounds: Callable[[float, float], tuple[float | None, float | None]] = lambda p, q: (None, None)


@jit
def _at(address, p, q, y, z):
    return call(address, (p, q, y, z))


@jit
def _at_each(address, p, q, y, z, out):
    for i in range(z.size):
        out[i] = call(address, (p, q, y[i], z[i]))


class _Compiled:
    """Value and gradient of a loss, scalar or vectorised, by its compiled form."""

    def _native(self) -> Loss:
        # A subclass that overrides one of its methods still reaches the formula it came from.
        return _compiled(self, next(_FORMULAS[cls] for cls in type(self).__mro__ if cls in _FORMULAS))

    def _apply(self, which: str, y_true: typing.Any, y_pred: typing.Any) -> typing.Any:
        native = self._native()
        address = getattr(native, which)
        if isinstance(y_pred, np.ndarray):
            return _over(address, native, np.broadcast_to(np.asarray(y_true, dtype=np.float64), y_pred.shape), y_pred)
        return _at(address, native.p, native.q, float(y_true), float(y_pred))

    def __call__(self, y_true: typing.Any, y_pred: typing.Any) -> typing.Any:
        return self._apply("value", y_true, y_pred)

    def gradient(self, y_true: typing.Any, y_pred: typing.Any) -> typing.Any:
        return self._apply("derivative", y_true, y_pred)


class CompiledLoss(_Compiled):
    """A loss of one's own that runs as fast as the library's: two functions that numba compiles.

    Parameters
    ----------
    value, derivative
        Functions of two floats, the target y and the raw prediction z, that return f(y, z) and its derivative in z:
        plain ones or numba's. A convex f, differentiable but for corners, is what guarantees are for.

    Examples
    --------
    >>> import math
    >>> from fwonline.losses import CompiledLoss
    >>> log_cosh = CompiledLoss(lambda y, z: math.log(math.cosh(z - y)), lambda y, z: math.tanh(z - y))
    >>> round(log_cosh(0.0, 1.0), 3), round(log_cosh.gradient(0.0, 1.0), 3)
    (0.434, 0.762)
    """

    def __init__(self, value: Callable[[float, float], float], derivative: Callable[[float, float], float]):
        self.value = value
        self.derivative = derivative
        self._native()  # numba says at once what it cannot compile

    def __deepcopy__(self, memo: dict) -> CompiledLoss:
        return self  # nothing of it changes, and a copy of a function would be compiled again

    def _native(self) -> Loss:
        value, derivative = _by_address(self.value).address, _by_address(self.derivative).address
        return Loss(value, derivative, curvature_address(), 0.0, 0.0, 1)


@functools.cache
def _by_address(function: Callable[[float, float], float]) -> typing.Any:
    """A function of y and z, to be called by its address; kept for as long as the process lives, as numba's are."""
    by_two = function if hasattr(function, "py_func") else nb.njit(error_model="numpy")(function)

    @nb.cfunc("f8(f8, f8, f8, f8)", error_model="numpy")
    def by_four(p, q, y, z):
        return by_two(y, z)

    return by_four


def compiled(loss: typing.Any) -> Loss | None:
    """What kernels call; None for a loss that is a Python object alone."""
    if isinstance(loss, CompiledLoss):
        return loss._native()
    return _compiled(loss, _FORMULAS[type(loss)]) if is_known(loss) else None


def _compiled(loss: typing.Any, formula: _Formula) -> Loss:
    p, q = _parameters(loss, formula)
    value, derivative = (compiled_function(f, 4).address for f in formula[:2])
    return Loss(value, derivative, curvature_address(formula.curvature), p, q, 1)


def _parameters(loss: typing.Any, formula: _Formula) -> tuple[float, float]:
    p, q = ([float(getattr(loss, name)) for name in formula.parameters] + [0.0, 0.0])[:2]
    return p, q


def curvature_address(function: Callable[..., float] = _touching) -> int:
    """The address of a curvature, by default of the one that a user's own loss has."""
    return compiled_function(function, 7).address


def bounds(loss: typing.Any) -> tuple[float | None, float | None]:
    """The largest absolute slope of a loss and its smoothness, the largest second derivative, both in the prediction.

    Either is None where there is no bound, or none is known.
    """
    formula = _FORMULAS.get(type(loss))
    return (None, None) if formula is None else formula.bounds(*_parameters(loss, formula))


def check_loss(loss: typing.Any) -> None:
    """Raise a TypeError unless ``loss`` has what a learner asks of it."""
    if not callable(loss) or not callable(getattr(loss, "gradient", None)):
        raise TypeError(
            f"loss must be an object with __call__(y_true, y_pred) and gradient(y_true, y_pred), "
            f"such as river.optim.losses.Squared(); got {loss!r}"
        )


def vector_loss(loss: typing.Any) -> tuple[Callable[[Floats, Floats], Floats], Callable[[Floats, Floats], Floats]]:
    """Value and derivative of a loss over arrays.

    Parameters
    ----------
    loss
        A river loss, or any object with ``__call__`` and ``gradient``; the latter is called a sample at a time.

    Returns
    -------
    ``value(y, z)`` and ``derivative(y, z)``, each taking two float arrays of one shape ``(n,)`` and returning one.

    Examples
    --------
    >>> import numpy as np
    >>> from river import optim
    >>> from fwonline.losses import vector_loss
    >>> value, derivative = vector_loss(optim.losses.Squared())
    >>> value(np.array([1.0, 2.0]), np.array([0.0, 4.0]))
    array([1., 4.])
    >>> derivative(np.array([1.0, 2.0]), np.array([0.0, 4.0]))
    array([-2.,  4.])
    """
    check_loss(loss)
    if (native := compiled(loss)) is not None:
        return functools.partial(_over, native.value, native), functools.partial(_over, native.derivative, native)

    def one_by_one(function: Scalar, y: Floats, z: Floats) -> Floats:
        return np.array(list(map(function, np.ravel(y).tolist(), np.ravel(z).tolist())))

    value, derivative = scalar_loss(loss)
    return functools.partial(one_by_one, value), functools.partial(one_by_one, derivative)


def scalar_loss(loss: typing.Any) -> tuple[Scalar, Scalar]:
    """Value and derivative of a loss, of floats."""
    if (native := compiled(loss)) is not None:
        parameters = native.p, native.q
        return functools.partial(_at, native.value, *parameters), functools.partial(_at, native.derivative, *parameters)
    label = bool if is_binary(loss) else float
    return lambda y, z: float(loss(label(y), z)), lambda y, z: float(loss.gradient(label(y), z))


def _over(address: int, native: Loss, y: typing.Any, z: typing.Any) -> Floats:
    z = np.asarray(z, dtype=np.float64)
    out = np.empty(z.size)
    _at_each(address, native.p, native.q, np.ravel(np.asarray(y, dtype=np.float64)), np.ravel(z), out)
    return out


class EpsilonInsensitive(_Compiled, _river.RegressionLoss):
    r"""The epsilon-insensitive loss of support vector regression, :math:`\max(|z - y| - \epsilon, 0)`.

    river's ``EpsilonInsensitiveHinge`` maps its target to :math:`2 y - 1` first, which suits 0/1 labels only.

    Parameters
    ----------
    eps
        Half the width of the tube within which errors are free, in the units of the target; > 0.

    Examples
    --------
    >>> from fwonline.losses import EpsilonInsensitive
    >>> EpsilonInsensitive(eps=0.5)(3.0, 5.0)
    1.5
    """

    def __init__(self, eps: float = 0.1):
        check_positive("eps", eps)
        self.eps = eps


class SquaredHinge(_Compiled, _river.BinaryLoss):
    r"""The squared hinge, :math:`\max(1 - s z, 0)^2` with :math:`s = 2 y - 1`: a hinge that is smooth (L = 2).

    Examples
    --------
    >>> from fwonline.losses import SquaredHinge
    >>> SquaredHinge()(True, -0.5)
    2.25
    """


class SmoothHinge(_Compiled, _river.BinaryLoss):
    r"""The hinge with its corner rounded: quadratic where :math:`0 < 1 - s z < \text{width}`, then linear.

    Smooth with L = 1 / width, and within width / 2 of the hinge, so Frank-Wolfe's guarantees hold for it.

    Parameters
    ----------
    width
        Width of the quadratic part, in units of the margin; > 0.

    Examples
    --------
    >>> from fwonline.losses import SmoothHinge
    >>> loss = SmoothHinge(width=0.5)
    >>> loss(True, 1.0), loss(True, 0.75), loss(True, 0.0)
    (0.0, 0.0625, 0.75)
    """

    def __init__(self, width: float = 1.0):
        check_positive("width", width)
        self.width = width


class NegativeLogReturn(_Compiled, _river.RegressionLoss):
    r"""The loss of a portfolio, :math:`-\log z`, where z is the factor by which its wealth grows in a period.

    Features are the assets' price relatives, weights a point of the simplex; the target is ignored. Below ``floor``
    the loss goes on along its tangent, so that it is convex, smooth (L = 1 / floor^2) and finite everywhere.

    Parameters
    ----------
    floor
        Where the tangent takes over; > 0.

    Examples
    --------
    >>> from fwonline.losses import NegativeLogReturn
    >>> round(NegativeLogReturn()(0.0, 1.1), 4)
    -0.0953
    """

    def __init__(self, floor: float = 0.1):
        check_positive("floor", floor)
        self.floor = floor


_FORMULAS: dict[type, _Formula] = {
    _river.Squared: _Formula(_squared, _squared_slope, curvature=_two, bounds=lambda p, q: (None, 2.0)),
    _river.Absolute: _Formula(_absolute, _absolute_slope, bounds=lambda p, q: (1.0, None)),
    _river.Huber: _Formula(_huber, _huber_slope, ("epsilon",), bounds=lambda p, q: (p, 1.0)),
    _river.Quantile: _Formula(_quantile, _quantile_slope, ("alpha",), bounds=lambda p, q: (max(p, 1.0 - p), None)),
    _river.Poisson: _Formula(_poisson, _poisson_slope, curvature=_poisson_curvature),
    _river.EpsilonInsensitiveHinge: _Formula(_epsilon_label, _epsilon_label_slope, ("eps",)),
    _river.Log: _Formula(
        _log, _log_slope, ("weight_pos", "weight_neg"), _log_curvature, lambda p, q: (max(p, q), max(p, q) / 4.0)
    ),
    _river.Hinge: _Formula(_hinge, _hinge_slope, ("threshold",), bounds=lambda p, q: (1.0, None)),
    _river.BinaryFocalLoss: _Formula(_focal, _focal_slope, ("gamma", "beta"), bounds=lambda p, q: (1.0, p / 4.0)),
    EpsilonInsensitive: _Formula(_epsilon, _epsilon_slope, ("eps",), bounds=lambda p, q: (1.0, None)),
    SquaredHinge: _Formula(_squared_hinge, _squared_hinge_slope, bounds=lambda p, q: (None, 2.0)),
    SmoothHinge: _Formula(_smooth_hinge, _smooth_hinge_slope, ("width",), bounds=lambda p, q: (1.0, 1.0 / p)),
    NegativeLogReturn: _Formula(
        _log_return, _log_return_slope, ("floor",), _log_return_curvature, lambda p, q: (1.0 / p, 1.0 / p**2)
    ),
}


def is_known(loss: typing.Any) -> bool:
    """Whether a loss is one whose formula is written here, as it is."""
    return type(loss) in _FORMULAS


def is_binary(loss: typing.Any) -> bool:
    """Whether the targets of a loss are 0/1 labels."""
    return isinstance(loss, _river.BinaryLoss)
