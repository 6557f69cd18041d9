"""Balls of the classical norms, and boxes."""

import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fwonline._checks import check_positive, is_real

from ._numeric import array_of, euclidean_norm, l1_norm, project_on_simplex, relative_magnitudes, unit_vector
from .atoms import Array, Atom, CoordinateAtom, DenseAtom
from .base import ConvexSet, Shape

__all__ = ["Box", "L1Ball", "L2Ball", "LInfBall", "LpBall", "NormBall"]


class NormBall(ConvexSet):
    """The ball `{x : norm(x) <= radius}` of some norm: what such sets have in common.

    `violation` is the Euclidean distance to the ball where it has a projection; elsewhere it is `norm(x) - radius`,
    which is the distance measured in the ball's own norm.

    Parameters
    ----------
    radius
        Largest norm in the set, finite and > 0.
    """

    def __init__(self, radius: float):
        check_positive(f"{type(self).__name__}: radius", radius)
        self.radius = radius

    _examples: ClassVar[tuple[dict[str, Any], ...]] = ({"radius": 1.0}, {"radius": 10})

    def _scale(self, shape: tuple[int, ...]) -> float:
        return float(self.radius)

    def _violation(self, x: Array) -> float:
        excess = self._norm(x) - self.radius
        if excess <= 0:
            return 0.0
        return super()._violation(x) if self.can_project else excess

    def _initial_point(self, shape: tuple[int, ...]) -> Array:
        return np.zeros(shape)

    def diameter(self, shape: Shape | None = None) -> float:
        if shape is not None:
            self._resolve_shape(shape)
        return 2.0 * self.radius


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
        return np.copysign(project_on_simplex(np.abs(x), float(self.radius)), x) + 0.0  # no -0.0


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


class LpBall(NormBall):
    """The lp ball `{x : (sum |x_i|^p)^(1/p) <= radius}` for p >= 1.

    The LMO costs O(d): with `1/p + 1/q = 1` it returns the dense point `-radius sign(g_i) (|g_i| / ||g||_q)^(q - 1)`,
    and `radius e_0` where g is zero. For p = 1, 2 and infinity the set does what `L1Ball`, `L2Ball` and `LInfBall` do;
    for the other p there is no projection and `violation` is `norm(x) - radius`.

    Parameters
    ----------
    p
        Exponent, at least 1; `math.inf` is allowed.
    radius
        Largest norm, finite and > 0.

    Examples
    --------
    >>> from fwonline import sets
    >>> ball = sets.LpBall(p=3.0, radius=9.0)
    >>> ball.norm([3.0, 4.0, 5.0])
    6.0
    >>> ball.lmo([0.0, -2.0]).to_dense()
    array([0., 9.])
    """

    def __init__(self, p: float, radius: float):
        super().__init__(radius)
        if not is_real(p) or not p >= 1:
            raise ValueError(f"LpBall: p must be a number >= 1, or infinite, got {p!r}")
        self.p = p
        same: dict[float, type[L1Ball | L2Ball | LInfBall]] = {1.0: L1Ball, 2.0: L2Ball, math.inf: LInfBall}
        self._same = same[float(p)](radius) if float(p) in same else None

    _examples = ({"p": 1.5, "radius": 1.0}, {"p": math.inf, "radius": 10})

    def _lmo(self, g: Array) -> Atom:
        if self._same:
            return self._same.lmo(g)
        magnitudes = relative_magnitudes(g).reshape(g.shape)
        if not magnitudes.any():
            magnitudes.flat[0] = 1.0
        exponent = 1.0 / (self.p - 1.0)  # q - 1
        powers = magnitudes**exponent
        size = float((magnitudes * powers).sum()) ** (1.0 / self.p)
        return DenseAtom(np.where(g > 0, -1.0, 1.0) * powers * (self.radius / size))

    def _norm(self, x: Array) -> float:
        if self._same:
            return self._same.norm(x)
        return float(np.abs(x).max()) * float((relative_magnitudes(x) ** self.p).sum()) ** (1.0 / self.p)

    @property
    def can_project(self) -> bool:
        return self._same is not None

    def _project(self, x: Array) -> Array:
        return self._same.project(x) if self._same else super()._project(x)

    def diameter(self, shape: Shape | None = None) -> float:
        if self.p <= 2:
            return 2.0 * self.radius
        return 2.0 * self.radius * math.prod(self._resolve_shape(shape)) ** (0.5 - 1.0 / self.p)


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
        self._shape = self._bounds[0].shape or None

    _examples = ({"lower": -1.0, "upper": 1.0},)

    def _broadcast_bounds(self) -> tuple[Array, Array]:
        expected = "a number or an array of numbers"
        given = [array_of(self, name, getattr(self, name), expected) for name in ("lower", "upper")]
        try:
            lower, upper = (bound.copy() for bound in np.broadcast_arrays(*given))
        except ValueError:
            shapes = [bound.shape for bound in given]
            raise ValueError(f"Box: lower has shape {shapes[0]} and upper {shapes[1]}; they must agree") from None
        if lower.size == 0:
            raise ValueError("Box: lower and upper must have at least one entry")
        crossed = np.flatnonzero(lower > upper)
        if crossed.size:
            i = int(crossed[0])
            pair = f"lower {lower.flat[i]} and upper {upper.flat[i]}"
            raise ValueError(f"Box: lower must be at most upper, got {pair} at entry {i}")
        return lower, upper

    def _scale(self, shape: tuple[int, ...]) -> float:
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
