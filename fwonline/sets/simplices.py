"""Simplices: non-negative vectors with a given, or a bounded, sum."""

import math

import numpy as np

from fwonline._checks import check_positive

from ._numeric import l1_norm, project_on_simplex
from .atoms import Array, Atom, CoordinateAtom, ZeroAtom
from .base import ConvexSet, Shape

__all__ = ["ProbabilitySimplex", "UnitSimplex"]


class _Simplex(ConvexSet):
    def __init__(self, radius: float = 1.0):
        check_positive(f"{type(self).__name__}: radius", radius)
        self.radius = radius

    _examples = ({}, {"radius": 10})

    def _scale(self, shape: tuple[int, ...]) -> float:
        return float(self.radius)


class ProbabilitySimplex(_Simplex):
    """The simplex `{x >= 0 : sum x_i = radius}`: portfolios, mixtures, forecasts combined.

    The LMO costs O(d) and returns `radius e_i` at the first i with the smallest `g_i`. The projection costs O(d + k log
    k) with k the entries near the largest. Learning starts from the uniform point.

    Parameters
    ----------
    radius
        The sum, finite and > 0.

    Examples
    --------
    >>> from fwonline import sets
    >>> simplex = sets.ProbabilitySimplex()
    >>> simplex.lmo([0.3, -0.2, -0.2])
    CoordinateAtom(index=1, value=1.0, shape=(3,))
    >>> simplex.project([0.9, 0.5, -2.0])
    array([0.7, 0.3, 0. ])
    >>> simplex.initial_point(4)
    array([0.25, 0.25, 0.25, 0.25])
    """

    def _lmo(self, g: Array) -> Atom:
        return CoordinateAtom(int(g.argmin()), float(self.radius), g.shape)

    def _violation(self, x: Array) -> float:
        # The projection of a point of the set may differ from it by rounding; the point itself is no violation.
        return 0.0 if x.min() >= 0 and l1_norm(x) == self.radius else super()._violation(x)

    def _project(self, x: Array) -> Array:
        return project_on_simplex(x, float(self.radius))

    def diameter(self, shape: Shape | None = None) -> float:
        """Return `sqrt(2) radius`, the distance of two vertices; 0 where `shape` says that there is only one."""
        single = shape is not None and math.prod(self._resolve_shape(shape)) == 1
        return 0.0 if single else math.sqrt(2.0) * self.radius


class UnitSimplex(_Simplex):
    """The simplex with the origin, `{x >= 0 : sum x_i <= radius}`: non-negative and sparse.

    The LMO costs O(d) and returns `radius e_i` at the first i with the smallest `g_i` if that is negative, otherwise
    the origin. The projection costs O(d + k log k) with k the entries near the largest.

    Parameters
    ----------
    radius
        The largest sum, finite and > 0.

    Examples
    --------
    >>> from fwonline import sets
    >>> sets.UnitSimplex(3.0).lmo([1.0, -2.0])
    CoordinateAtom(index=1, value=3.0, shape=(2,))
    >>> sets.UnitSimplex(3.0).lmo([1.0, 0.0])
    ZeroAtom(shape=(2,))
    >>> sets.UnitSimplex(3.0).project([-1.0, 2.0])
    array([0., 2.])
    """

    def _lmo(self, g: Array) -> Atom:
        index = int(g.argmin())
        return CoordinateAtom(index, float(self.radius), g.shape) if g.flat[index] < 0 else ZeroAtom(g.shape)

    def _project(self, x: Array) -> Array:
        nearest = np.maximum(x, 0.0)
        return nearest if l1_norm(nearest) <= self.radius else project_on_simplex(x, float(self.radius))

    def diameter(self, shape: Shape | None = None) -> float:
        """Return `sqrt(2) radius`, the distance of two vertices; `radius` where `shape` says one feature."""
        single = shape is not None and math.prod(self._resolve_shape(shape)) == 1
        return float(self.radius) if single else math.sqrt(2.0) * self.radius
