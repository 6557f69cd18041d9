"""The contract of a convex set: what every optimizer, monitor and estimator may ask of it."""

import abc
import inspect
import math
import numbers
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from river import base

from fwonline import _loaded

from ._numeric import euclidean_norm
from .atoms import Array, Atom

__all__ = ["ConvexSet", "Shape"]

Shape = int | tuple[int, ...]

# Longest list or array that repr() writes out in full.
_SHOWN = 8


class ConvexSet(base.Base, abc.ABC):
    """A compact convex set with a linear minimisation oracle (LMO).

    A set is a value: its parameters are stored as given and never change, two sets with equal parameters are equal, and
    nothing is learned. Unless its parameters fix a dimension, a set lives in every dimension, so features may appear
    later. Sets of vectors take an array of any shape and read it as the vector of its entries.

    A new set implements `_lmo`, `diameter`, `_scale`, and either `_project` or both `_violation` and `_initial_point`;
    the public methods check the input and call these.
    """

    # Parameters with which river's checks, and ours, make a set of the class.
    _examples: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    _shape: tuple[int, ...] | None = None

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield from cls._examples

    # The oracle

    def lmo(self, g: npt.ArrayLike) -> Atom:
        """Return an atom `s` of the set that minimises `<s, g>`.

        Ties go to the lowest index, and a direction of zeros gets an atom too.

        Parameters
        ----------
        g
            Direction, most often a gradient: finite numbers, of the shape of a point.

        Raises
        ------
        ValueError
            Where `g` is empty, has entries that are not finite, or not the shape that the set's parameters fix.
        """
        return self._lmo(self._finite("direction", g))

    @abc.abstractmethod
    def _lmo(self, g: Array) -> Atom: ...

    # Membership

    def violation(self, x: npt.ArrayLike) -> float:
        """How far `x` lies outside the set: 0.0 inside, infinite where `x` has entries that are not finite.

        It is the Euclidean distance to the set, unless the class measures something cheaper, and documents it.
        Rounding is not forgiven here; `contains` does that.
        """
        x = self._array("point", x)
        return self._violation(x) if np.isfinite(x).all() else math.inf

    def _violation(self, x: Array) -> float:
        return euclidean_norm(x - self._project(x))

    def contains(self, x: npt.ArrayLike, tol: float = 1e-9) -> bool:
        """Whether `violation(x)` is at most `tol` times the scale of the set (its radius, its largest bound).

        With `tol=0` this holds exactly where `violation(x) == 0`.
        """
        if not tol >= 0:
            raise ValueError(f"tol must be a number >= 0, got {tol!r}")
        x = self._array("point", x)
        return self.violation(x) <= tol * self._scale(x.shape)

    @abc.abstractmethod
    def _scale(self, shape: tuple[int, ...]) -> float:
        """Size of the numbers that describe the set, the unit of `contains`' tolerance."""

    # Geometry

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the points where the parameters fix it, otherwise None."""
        return self._shape

    @abc.abstractmethod
    def diameter(self, shape: Shape | None = None) -> float:
        """Return the largest Euclidean distance between two points of the set.

        Parameters
        ----------
        shape
            Number of features, or shape of the points: needed where the diameter depends on it and the parameters of
            the set do not say.
        """

    def initial_point(self, shape: Shape | None = None) -> Array:
        """Return, as a new array, the point of the set nearest to the origin: where learning starts."""
        return self._initial_point(self._resolve_shape(shape))

    def _initial_point(self, shape: tuple[int, ...]) -> Array:
        return self._project(np.zeros(shape))

    @property
    def can_project(self) -> bool:
        """Whether `project` is available."""
        return type(self)._project is not ConvexSet._project

    def project(self, x: npt.ArrayLike) -> Array:
        """Return the point of the set nearest to `x` in Euclidean distance, as a new array.

        Raises
        ------
        NotImplementedError
            Where the set has no cheap projection, see `can_project`.
        """
        return self._project(self._finite("point", x))

    def _project(self, x: Array) -> Array:
        raise NotImplementedError(f"{self} has no cheap projection; use a projection-free optimizer on it")

    def norm(self, x: npt.ArrayLike) -> float:
        """Return the norm whose ball this set is; at most `radius` inside.

        Raises
        ------
        NotImplementedError
            Where the set is not the ball of a norm.
        """
        return self._norm(self._finite("point", x))

    def _norm(self, x: Array) -> float:
        raise NotImplementedError(f"{self} is not the ball of a norm")

    # Checks shared by the sets

    def _array(self, what: str, value: npt.ArrayLike) -> Array:
        try:
            array = np.asarray(value, dtype=np.float64)
        except (OverflowError, TypeError, ValueError):
            raise ValueError(f"{self}: the {what} must be an array of numbers, got {type(value).__name__}") from None
        self._check_shape(what, array.shape)
        return array

    def _check_shape(self, what: str, shape: tuple[int, ...]) -> None:
        if math.prod(shape) == 0 or not shape:
            raise ValueError(f"{self}: the {what} must be an array with at least one entry, got shape {shape}")
        if self.shape is not None and shape != self.shape:
            raise ValueError(f"{self}: the {what} has shape {shape}, the points of the set have {self.shape}")

    def _finite(self, what: str, value: npt.ArrayLike) -> Array:
        array = self._array(what, value)
        finite = np.isfinite(array)
        if not finite.all():
            where = int(np.argmin(finite))
            raise ValueError(f"{self}: the {what} must be finite, its entry {where} is {array.flat[where]}")
        return array

    def _resolve_shape(self, shape: Shape | None) -> tuple[int, ...]:
        """Return the shape of a point as a tuple, from the argument or else from the set's own parameters."""
        if shape is None:
            if self.shape is None:
                raise ValueError(f"{self} lives in every dimension: give `shape`, the number of features")
            return self.shape
        resolved = (shape,) if isinstance(shape, numbers.Integral) else tuple(shape)  # type: ignore[arg-type]
        if not resolved or any(n < 1 for n in resolved):
            raise ValueError(f"shape must be one or more positive integers, got {shape!r}")
        self._check_shape("point asked for", resolved)
        return resolved

    def _check_loaded(self) -> None:
        _loaded.renewed(self)

    # Values: shown, compared and hashed by their parameters

    def _parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_show(value)}" for name, value in self._parameters().items())
        return f"{type(self).__name__}({shown})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, ConvexSet)
        return self._frozen() == other._frozen()

    def __hash__(self) -> int:
        return hash((type(self), self._frozen()))

    def _frozen(self) -> tuple[Any, ...]:
        return tuple(_freeze(value) for value in self._parameters().values())


def _freeze(value: Any) -> Any:
    """Return a hashable equal of a parameter: arrays, lists and tuples of the same numbers are the same."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(_freeze(item) for item in value) if isinstance(value, list | tuple) else value


def _show(value: Any) -> str:
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, np.ndarray):
        return repr(value.tolist()) if value.size <= _SHOWN else f"<array of shape {value.shape}>"
    if isinstance(value, list | tuple):
        if len(value) > _SHOWN:
            return f"<{type(value).__name__} of {len(value)}>"
        inner = ", ".join(_show(item) for item in value)
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)
