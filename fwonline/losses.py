r"""Losses: river's loss objects, mapped to compiled value, derivative and curvature.

A learner of this library minimises the mean of :math:`f(y, z)` with :math:`z = \langle x, w \rangle`, the raw
prediction. Any object with ``__call__(y_true, y_pred)`` and ``gradient(y_true, y_pred)`` is a loss; the ones below
run compiled, a sample at a time, with the same values as river's own methods:

====================================== ==========================================================
object                                 :math:`f(y, z)`
====================================== ==========================================================
``optim.losses.Squared()``             :math:`(z - y)^2`
``optim.losses.Absolute()``            :math:`|z - y|`
``optim.losses.Huber(epsilon)``        quadratic within epsilon of y, linear beyond
``optim.losses.Quantile(alpha)``       :math:`(1[z > y] - \alpha)(z - y)`: the pinball loss (see below)
``optim.losses.Poisson()``             :math:`e^z - y z`
``optim.losses.EpsilonInsensitiveHinge`` :math:`\max(|z - (2y - 1)| - \epsilon, 0)`: river takes y as a 0/1 label
``optim.losses.Log(...)``              :math:`\log(1 + e^{-(2y - 1) z})`, weighted by class
``optim.losses.Hinge(threshold)``      :math:`\max(t - (2y - 1) z, 0)`
``optim.losses.BinaryFocalLoss``       the focal loss of Lin et al., "star" form
:class:`EpsilonInsensitive`            :math:`\max(|z - y| - \epsilon, 0)`, for regression
:class:`SquaredHinge`                  :math:`\max(1 - (2y - 1) z, 0)^2`
:class:`SmoothHinge`                   the hinge with its corner rounded over a width
:class:`NegativeLogReturn`             :math:`-\log z`: the loss of a portfolio whose wealth grows by z
====================================== ==========================================================

river 0.26's ``Quantile`` has the gradient of the alpha-quantile but the value of the (1 - alpha)-quantile. A gap or a
regret needs a value and a derivative of one function, so here the value is the one that river's gradient belongs to.

Labels of binary losses are 0 and 1, as river has them. A subclass of a river loss is not assumed to keep its
formula, so it runs by its own methods.
"""

from __future__ import annotations

import math
import typing

import numba as nb
import numpy as np
from river import optim as river_optim

from fwonline import _loaded
from fwonline._kernels import layout

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["EpsilonInsensitive", "NegativeLogReturn", "SmoothHinge", "SquaredHinge", "vector_loss"]

_river = river_optim.losses

# Codes of the compiled losses; CUSTOM runs by the object's own methods.
CUSTOM = -1
(
    SQUARED,
    ABSOLUTE,
    HUBER,
    QUANTILE,
    POISSON,
    EPSILON,
    EPSILON_LABEL,
    LOG,
    HINGE,
    FOCAL,
    SQUARED_HINGE,
    SMOOTH_HINGE,
    LOG_RETURN,
) = range(13)


@nb.njit(cache=True)
def _log1p_exp(z):
    """log(1 + e^z) without overflow."""
    return z + math.log1p(math.exp(-z)) if z > 0.0 else math.log1p(math.exp(z))


@nb.njit(cache=True)
def sigmoid(z):
    """1 / (1 + e^-z) without overflow."""
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    e = math.exp(z)
    return e / (1.0 + e)


@nb.njit(cache=True)
def loss_value(kind, p, q, y, z):
    """f(y, z) of the loss ``kind`` with parameters p, q."""
    if kind == LOG:
        return _log1p_exp(-z) * p if y > 0.5 else _log1p_exp(z) * q
    r = z - y
    if kind == SQUARED:
        return r * r
    if kind == ABSOLUTE:
        return abs(r)
    if kind == HUBER:
        return 0.5 * r * r if abs(r) <= p else p * abs(r) - 0.5 * p * p
    if kind == QUANTILE:
        return -p * r if r < 0.0 else (1.0 - p) * r
    if kind == POISSON:
        return math.exp(min(z, 709.0)) - y * z
    if kind == EPSILON:
        return max(abs(r) - p, 0.0)
    if kind == LOG_RETURN:
        # Below the floor p the tangent goes on, so that the loss stays finite, convex and smooth.
        return -math.log(z) if z >= p else -math.log(p) - (z - p) / p
    sign = 2.0 * y - 1.0
    margin = sign * z
    if kind == EPSILON_LABEL:
        return max(abs(z - sign) - p, 0.0)
    if kind == HINGE:
        return max(p - margin, 0.0)
    if kind == FOCAL:
        return _log1p_exp(-(p * margin + q)) / p
    short = max(1.0 - margin, 0.0)
    if kind == SQUARED_HINGE:
        return short * short
    return short - 0.5 * p if short >= p else 0.5 * short * short / p


@nb.njit(cache=True)
def loss_derivative(kind, p, q, y, z):
    """df/dz; at a kink, the subgradient that river takes."""
    if kind == LOG:
        return -p * sigmoid(-z) if y > 0.5 else q * sigmoid(z)
    r = z - y
    if kind == SQUARED:
        return 2.0 * r
    if kind == ABSOLUTE:
        return 1.0 if r > 0.0 else -1.0
    if kind == HUBER:
        return r if abs(r) <= p else (p if r > 0.0 else -p)
    if kind == QUANTILE:
        return (1.0 if y < z else 0.0) - p
    if kind == POISSON:
        return math.exp(min(z, 709.0)) - y
    if kind == EPSILON:
        return (1.0 if z > y + p else 0.0) - (1.0 if z + p < y else 0.0)
    if kind == LOG_RETURN:
        return -1.0 / max(z, p)
    sign = 2.0 * y - 1.0
    margin = sign * z
    if kind == EPSILON_LABEL:
        return (1.0 if z > sign + p else 0.0) - (1.0 if z + p < sign else 0.0)
    if kind == HINGE:
        return -sign if margin <= p else 0.0
    if kind == FOCAL:
        return -sign * sigmoid(-(p * margin + q))
    short = max(1.0 - margin, 0.0)
    if kind == SQUARED_HINGE:
        return -2.0 * sign * short
    return -sign * min(short / p, 1.0)


@nb.njit(cache=True)
def loss_curvature(kind, p, q, y, z, value, derivative, usual):
    """A curvature of f in z, of its value and derivative there, that steps may rely on some way from z.

    That of the second derivative where it is constant or grows; for the log loss the smallest of a parabola that
    touches it at z and lies above it everywhere (Jaakkola, Jordan 2000). For the others f'^2 / (2 f), with which a
    parabola through f and f' has its least value at 0: 1 / (2 |r|) for a corner, the constant L for a parabola. Where
    such a loss all but vanishes, a tenth of its ``usual`` value takes its place.
    """
    if kind == SQUARED:
        return 2.0
    if kind == LOG:
        weight = p if y > 0.5 else q
        return weight * (0.25 if abs(z) < 1e-3 else math.tanh(0.5 * z) / (2.0 * z))
    if kind == POISSON:
        # Below the least point the slope over the way there, with which Newton's step ends in it.
        here = math.exp(min(z, 709.0))
        return max(here, derivative / (z - math.log(y))) if 0.0 < here < y else here
    if kind == LOG_RETURN:
        return derivative * derivative
    floor = max(value, 0.1 * usual)
    return derivative * derivative / (2.0 * floor) if floor > 0.0 else 0.0


@nb.njit(cache=True)
def _values(kind, p, q, y, z):
    out = np.empty(z.size)
    for i in range(z.size):
        out[i] = loss_value(kind, p, q, y[i], z[i])
    return out


@nb.njit(cache=True)
def _derivatives(kind, p, q, y, z):
    out = np.empty(z.size)
    for i in range(z.size):
        out[i] = loss_derivative(kind, p, q, y[i], z[i])
    return out


def compiled(loss: typing.Any) -> tuple[int, float, float]:
    """The code and the two parameters under which a loss runs compiled; ``(CUSTOM, 0, 0)`` if it has none."""
    return _form(loss, type(loss))


def _form(loss: typing.Any, formula: type) -> tuple[int, float, float]:
    if (spec := _COMPILED.get(formula)) is None:
        return CUSTOM, 0.0, 0.0
    kind, names = spec
    p, q = ([float(getattr(loss, name)) for name in names] + [0.0, 0.0])[:2]
    return kind, p, q


def check_loss(loss: typing.Any) -> None:
    """Raise a TypeError unless ``loss`` has what a learner asks of it."""
    if not callable(loss) or not callable(getattr(loss, "gradient", None)):
        raise TypeError(
            f"loss must be an object with __call__(y_true, y_pred) and gradient(y_true, y_pred), "
            f"such as river.optim.losses.Squared(); got {loss!r}"
        )


def check_loaded(owner: object, name: str) -> None:
    """See that a loss which came from a file is one that its constructor would make.

    Raises
    ------
    CheckpointError
        Where it is not. Classes that were registered answer for themselves.
    """
    loss = getattr(owner, name)
    cls = type(loss)
    if cls.__module__.split(".")[0] not in ("river", "fwonline"):
        check_loss(loss)
        return
    _loaded.kind(owner, name, _river.Loss)
    for parameter, value in vars(loss).items():
        # A huge weight or width would take derivatives beyond what sums can hold.
        is_number = isinstance(value, (int, float, np.integer, np.floating))
        if not (is_number and abs(typing.cast("float", value)) <= layout.LARGEST) and value != {}:  # {}: no weights
            _loaded.fail(loss, parameter, "a finite number", value)
    if vars(_loaded.rebuilt(loss)) != vars(loss):
        _loaded.fail(owner, name, "a loss with its parameters alone", vars(loss))
    if compiled(loss)[0] == CUSTOM and not isinstance(loss, _river.MultiClassLoss):
        loss(True, 0.5), loss.gradient(True, 0.5)  # a width of 0 divides


Vectorised = typing.Callable[["NDArray[np.float64]", "NDArray[np.float64]"], "NDArray[np.float64]"]


def vector_loss(loss: typing.Any) -> tuple[Vectorised, Vectorised]:
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
    kind, p, q = compiled(loss)

    def by_kernel(kernel: Callable) -> Vectorised:
        def function(y, z):
            return kernel(kind, p, q, np.asarray(y, dtype=np.float64), np.asarray(z, dtype=np.float64))

        return function

    def by_method(method: Callable) -> Vectorised:
        def function(y, z):
            return np.array([float(method(a, b)) for a, b in zip(np.ravel(y), np.ravel(z), strict=True)])

        return function

    if kind == CUSTOM:
        return by_method(loss), by_method(loss.gradient)
    return by_kernel(_values), by_kernel(_derivatives)


class _Compiled:
    """Value and gradient of a loss of this module, scalar or vectorised, by its compiled form."""

    def _apply(self, scalar: Callable, vector: Callable, y_true: typing.Any, y_pred: typing.Any) -> typing.Any:
        # A subclass that overrides one of its methods still reaches the formula it came from.
        form = _form(self, next(kind for kind in type(self).__mro__ if kind in _COMPILED))
        if isinstance(y_pred, np.ndarray):
            z = np.asarray(y_pred, dtype=np.float64)
            return vector(*form, np.broadcast_to(np.asarray(y_true, dtype=np.float64), z.shape), z)
        return scalar(*form, float(y_true), float(y_pred))

    def __call__(self, y_true: typing.Any, y_pred: typing.Any) -> typing.Any:
        return self._apply(loss_value, _values, y_true, y_pred)

    def gradient(self, y_true: typing.Any, y_pred: typing.Any) -> typing.Any:
        return self._apply(loss_derivative, _derivatives, y_true, y_pred)


def _positive(name: str, value: float) -> None:
    if not value > 0 or not math.isfinite(value):
        raise ValueError(f"{name} must be a positive finite number, got {value!r}")


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
        _positive("eps", eps)
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
        _positive("width", width)
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
        _positive("floor", floor)
        self.floor = floor


_COMPILED: dict[type, tuple[int, tuple[str, ...]]] = {
    _river.Squared: (SQUARED, ()),
    _river.Absolute: (ABSOLUTE, ()),
    _river.Huber: (HUBER, ("epsilon",)),
    _river.Quantile: (QUANTILE, ("alpha",)),
    _river.Poisson: (POISSON, ()),
    _river.EpsilonInsensitiveHinge: (EPSILON_LABEL, ("eps",)),
    _river.Log: (LOG, ("weight_pos", "weight_neg")),
    _river.Hinge: (HINGE, ("threshold",)),
    _river.BinaryFocalLoss: (FOCAL, ("gamma", "beta")),
    EpsilonInsensitive: (EPSILON, ("eps",)),
    SquaredHinge: (SQUARED_HINGE, ()),
    SmoothHinge: (SMOOTH_HINGE, ("width",)),
    NegativeLogReturn: (LOG_RETURN, ("floor",)),
}


def is_binary(loss: typing.Any) -> bool:
    """Whether a loss speaks of 0/1 labels."""
    return isinstance(loss, _river.BinaryLoss)
