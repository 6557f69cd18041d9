"""Balls of the classical norms, and boxes."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ._numeric import check_positive, euclidean_norm, l1_norm, project_on_simplex, unit_vector
from .atoms import Array, Atom, CoordinateAtom, DenseAtom
from .base import ConvexSet, Shape

__all__ = ["Box", "L1Ball", "L2Ball", "LInfBall", "NormBall"]


class NormBall(ConvexSet):
    """The ball `{x : norm(x) <= radius}` of some norm: what such sets have in common.

    Parameters
    ----------
    radius
        Largest norm in the set, finite and > 0.
    """

    def __init__(self, radius: float):
        check_positive(self, "radius", radius)
        self.radius = radius

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"radius": 1.0}
        yield {"radius": 10}

    @property
    def _magnitude(self) -> float:
        return float(self.radius)

    def _violation(self, x: Array) -> float:
        return 0.0 if self._norm(x) <= self.radius else euclidean_norm(x - self._project(x))

    def initial_point(self, shape: Shape) -> Array:
        return np.zeros(self._resolve_shape(shape))


class L1Ball(NormBall):
    """The l1 ball `{x : sum |x_i| <= radius}`: sparse iterates, one new non-zero a step.

    The LMO costs O(d) and returns a signed coordinate, `-sign(g_i) radius e_i` at the first i with the largest `|g_i|`
    (`+radius e_0` where g is zero). The projection costs O(d + k log k) with k the entries near the largest.

    Parameters
    ----------
    radius
        Largest sum of absolute values, finite and > 0.

    Examples
    --------
    >>> from fwonline import sets
    >>> ball = sets.L1Ball(10.0)
    >>> ball
    L1Ball(radius=10.0)
    >>> ball.lmo([1.0, -3.0, 2.0])
    CoordinateAtom(index=1, value=10.0, shape=(3,))
    >>> ball.project([12.0, 0.0, -4.0])
    array([ 9.,  0., -1.])
    >>> ball.contains([9.0, 0.0, -1.0]), ball.norm([12.0, 0.0, -4.0])
    (True, 16.0)

    References
    ----------
    Jaggi 2013, "Revisiting Frank-Wolfe: projection-free sparse convex optimization",
    https://proceedings.mlr.press/v28/jaggi13.html
    """

    def _lmo(self, g: Array) -> Atom:
        index = int(np.abs(g).argmax())
        radius = float(self.radius)
        return CoordinateAtom(index, -radius if g.flat[index] > 0 else radius, g.shape)

    def _norm(self, x: Array) -> float:
        return l1_norm(x)

    def _project(self, x: Array) -> Array:
        if l1_norm(x) <= self.radius:
            return x.copy()
        return np.copysign(project_on_simplex(np.abs(x), float(self.radius)), x)

    def diameter(self, shape: Shape | None = None) -> float:
        return 2.0 * self.radius


class L2Ball(NormBall):
    """The Euclidean ball `{x : ||x||_2 <= radius}`.

    The LMO costs O(d) and returns the dense point `-radius g / ||g||_2` (`radius e_0` where g is zero); the projection
    scales. Both stay exact to rounding for entries as large as 1e300 or as small as 1e-300.

    Parameters
    ----------
    radius
        Largest Euclidean norm, finite and > 0.

    Examples
    --------
    >>> from fwonline import sets
    >>> sets.L2Ball(5.0).lmo([3e300, -4e300]).to_dense()
    array([-3.,  4.])
    >>> sets.L2Ball(5.0).violation([6.0, 8.0])
    5.0
    """

    def _lmo(self, g: Array) -> Atom:
        if not g.any():
            values = np.zeros(g.shape)
            values.flat[0] = self.radius
            return DenseAtom(values)
        return DenseAtom(unit_vector(g) * -float(self.radius))

    def _norm(self, x: Array) -> float:
        return euclidean_norm(x)

    def _project(self, x: Array) -> Array:
        return x.copy() if euclidean_norm(x) <= self.radius else unit_vector(x) * float(self.radius)

    def _violation(self, x: Array) -> float:
        return max(euclidean_norm(x) - self.radius, 0.0)

    def diameter(self, shape: Shape | None = None) -> float:
        return 2.0 * self.radius


class LInfBall(NormBall):
    """The l-infinity ball `{x : max |x_i| <= radius}`.

    The LMO costs O(d) and returns the dense vertex `-radius sign(g)`, with `+radius` where `g_i` is zero; the
    projection clips.

    Parameters
    ----------
    radius
        Largest absolute value of an entry, finite and > 0.

    Examples
    --------
    >>> from fwonline import sets
    >>> sets.LInfBall(2.0).lmo([0.1, -5.0, 0.0]).to_dense()
    array([-2.,  2.,  2.])
    >>> sets.LInfBall(2.0).diameter(4)
    8.0
    """

    def _lmo(self, g: Array) -> Atom:
        radius = float(self.radius)
        return DenseAtom(np.where(g > 0, -radius, radius))

    def _norm(self, x: Array) -> float:
        return float(np.abs(x).max())

    def _project(self, x: Array) -> Array:
        return np.clip(x, -float(self.radius), float(self.radius))

    def diameter(self, shape: Shape | None = None) -> float:
        return 2.0 * self.radius * math.sqrt(math.prod(self._resolve_shape(shape)))


class Box(ConvexSet):
    """The box `{x : lower <= x <= upper}`, entry by entry.

    The LMO costs O(d) and returns the dense vertex with `lower_i` where `g_i > 0` and `upper_i` elsewhere; the
    projection clips. Learning starts from the point of the box nearest to the origin.

    Parameters
    ----------
    lower
        Lower bounds: a number for all entries, or an array with one for each, which fixes the shape of the points.
    upper
        Upper bounds, likewise; nowhere below `lower`.

    Examples
    --------
    >>> from fwonline import sets
    >>> box = sets.Box(lower=[0.0, -1.0], upper=2.0)
    >>> box.lmo([1.0, -1.0]).to_dense()
    array([0., 2.])
    >>> box.violation([5.0, -5.0])
    5.0
    >>> sets.Box(1.0, -1.0)
    Traceback (most recent call last):
    ...
    ValueError: Box: lower must be at most upper, got lower 1.0 and upper -1.0 at entry 0
    """

    def __init__(self, lower: npt.ArrayLike, upper: npt.ArrayLike):
        self.lower = lower
        self.upper = upper
        self._bounds = self._broadcast_bounds()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"lower": -1.0, "upper": 1.0}

    def _broadcast_bounds(self) -> tuple[Array, Array]:
        bounds = {}
        for name in ("lower", "upper"):
            try:
                bounds[name] = np.array(getattr(self, name), dtype=np.float64)
            except (TypeError, ValueError):
                raise ValueError(f"Box: {name} must be a number or an array of numbers") from None
            if not np.isfinite(bounds[name]).all():
                raise ValueError(f"Box: {name} must be finite everywhere")
        try:
            lower, upper = np.broadcast_arrays(bounds["lower"], bounds["upper"])
        except ValueError:
            shapes = bounds["lower"].shape, bounds["upper"].shape
            raise ValueError(f"Box: lower has shape {shapes[0]} and upper {shapes[1]}; they must agree") from None
        if lower.size == 0:
            raise ValueError("Box: lower and upper must have at least one entry")
        crossed = np.flatnonzero(lower > upper)
        if crossed.size:
            i = int(crossed[0])
            pair = f"lower {lower.flat[i]} and upper {upper.flat[i]}"
            raise ValueError(f"Box: lower must be at most upper, got {pair} at entry {i}")
        return lower, upper

    @property
    def shape(self) -> tuple[int, ...] | None:
        return self._bounds[0].shape or None

    @property
    def _magnitude(self) -> float:
        return max(float(np.abs(bound).max()) for bound in self._bounds)

    def _lmo(self, g: Array) -> Atom:
        return DenseAtom(np.where(g > 0, *self._bounds))

    def _project(self, x: Array) -> Array:
        return np.clip(x, *self._bounds)

    def diameter(self, shape: Shape | None = None) -> float:
        lower, upper = self._bounds
        if self.shape is not None:
            self._resolve_shape(shape)
            return euclidean_norm(upper - lower)
        return float(upper - lower) * math.sqrt(math.prod(self._resolve_shape(shape)))

    def initial_point(self, shape: Shape) -> Array:
        return self._project(np.zeros(self._resolve_shape(shape)))
