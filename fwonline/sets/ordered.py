"""Balls of norms that look at the entries in order of magnitude: k-sparse points, the k largest entries, OWL /
SLOPE."""

import math

import numpy as np
import numpy.typing as npt

from fwonline._checks import check_count

from ._numeric import array_of, l1_norm, largest_positions, project_on_capped_simplex, relative_magnitudes
from .atoms import Array, Atom, CoordinateAtom, DenseAtom, SparseAtom
from .base import Shape
from .norm_balls import NormBall

__all__ = ["KNormBall", "KSparseBall", "OrderedL1Ball"]


class _BallOfK(NormBall):
    def __init__(self, k: int, radius: float):
        check_count(f"{type(self).__name__}: k", k)
        super().__init__(radius)
        self.k = k

    _examples = ({"k": 2, "radius": 1.0},)


class KSparseBall(_BallOfK):
    """The convex hull of the points with k entries `+-radius` and zeros elsewhere.

    It is the meeting of the l1 ball of radius `k radius` and the l-infinity ball of `radius`; its norm is
    `max(max |x_i|, sum |x_i| / k)`. With k = 1 it is the l1 ball, with k at least the number of features the l-infinity
    ball. The LMO puts `-radius sign(g_i)` on the k entries largest in magnitude, in O(d); the projection costs
    O(d + m log m) with m the entries within `radius` of the k-th largest.

    Parameters
    ----------
    k
        Non-zeros of a vertex, an integer >= 1.
    radius
        Largest absolute value of an entry, finite and > 0.

    Examples
    --------
    >>> from fwonline import sets
    >>> ball = sets.KSparseBall(k=2, radius=3.0)
    >>> ball.lmo([1.0, -5.0, 0.5, 2.0]).to_dense()
    array([ 0.,  3.,  0., -3.])
    >>> ball.project([4.0, 4.0, -1.0])
    array([3., 3., 0.])
    """

    def _lmo(self, g: Array) -> Atom:
        chosen = largest_positions(np.abs(g).ravel(), self.k)
        radius = float(self.radius)
        return SparseAtom(chosen, np.where(g.flat[chosen] > 0, -radius, radius), g.shape)

    def _norm(self, x: Array) -> float:
        return max(float(np.abs(x).max()), l1_norm(x) / self.k)

    def _project(self, x: Array) -> Array:
        radius = float(self.radius)
        clipped = np.clip(x, -radius, radius)
        if l1_norm(clipped) <= self.k * radius:
            return clipped
        return np.copysign(project_on_capped_simplex(np.abs(x), self.k, radius), x) + 0.0  # no -0.0

    def diameter(self, shape: Shape | None = None) -> float:
        return 2.0 * self.radius * math.sqrt(min(self.k, math.prod(self._resolve_shape(shape))))


class KNormBall(_BallOfK):
    """The ball of the k-norm, the sum of the k largest magnitudes.

    It is the convex hull of the l1 ball of `radius` and the l-infinity ball of `radius / k`, so the LMO is the better
    of theirs, in O(d); on a tie the coordinate. With k = 1 it is the l-infinity ball, with k at least the number of
    features the l1 ball. `violation` is `norm(x) - radius`.

    Parameters
    ----------
    k
        How many entries the norm adds up, an integer >= 1.
    radius
        Largest norm, finite and > 0.

    Examples
    --------
    >>> from fwonline import sets
    >>> ball = sets.KNormBall(k=2, radius=1.0)
    >>> ball.norm([0.5, -3.0, 1.0])
    4.0
    >>> ball.lmo([0.5, -3.0, 1.0])
    CoordinateAtom(index=1, value=1.0, shape=(3,))
    >>> ball.lmo([2.0, -3.0, 2.0]).to_dense()
    array([-0.5,  0.5, -0.5])
    """

    def _lmo(self, g: Array) -> Atom:
        magnitudes = relative_magnitudes(g)
        # With k = 1 the l1 ball lies inside the l-infinity ball, and its vertices are none of the hull.
        if self.k > 1 and self.k >= magnitudes.sum():
            return _signed(g, np.array([magnitudes.argmax()]), float(self.radius))
        return _signed(g, np.arange(g.size), self.radius / self.k)

    def _norm(self, x: Array) -> float:
        magnitudes = np.abs(x).ravel()
        if self.k < magnitudes.size:
            magnitudes = np.partition(magnitudes, magnitudes.size - self.k)[-self.k :]
        return l1_norm(magnitudes)

    def diameter(self, shape: Shape | None = None) -> float:
        return 2.0 * self.radius * max(1.0, math.sqrt(math.prod(self._resolve_shape(shape))) / self.k)


class OrderedL1Ball(NormBall):
    """The ball of the ordered weighted l1 norm (OWL, SLOPE), `sum_i weights_i |x|_(i)` with the largest magnitude
    first.

    Equal weights give the l1 ball, weights (1, 0, ..., 0) the l-infinity ball, k ones and then zeros the k-norm's ball.
    The vertices have j entries of one magnitude, `radius / (weights_1 + ... + weights_j)`; the LMO takes the best j,
    the lowest on a tie, in O(d log d). `violation` is `norm(x) - radius`.

    Parameters
    ----------
    weights
        One weight for each feature, finite, >= 0, not increasing, the first > 0. Fixes the number of features.
    radius
        Largest norm, finite and > 0.

    Examples
    --------
    >>> from fwonline import sets
    >>> ball = sets.OrderedL1Ball(weights=[2.0, 1.0, 1.0], radius=6.0)
    >>> ball.norm([1.0, -3.0, 0.0])
    7.0
    >>> ball.lmo([3.0, -3.0, 0.0]).to_dense()
    array([-2.,  2.,  0.])

    References
    ----------
    Zeng, Figueiredo 2014, "The ordered weighted l1 norm: atomic formulation, projections, and algorithms",
    https://arxiv.org/abs/1409.4271
    """

    def __init__(self, weights: npt.ArrayLike, radius: float):
        super().__init__(radius)
        self.weights = weights
        self._weights = self._checked_weights()
        d = self._weights.size
        self._shape = (d,)
        later = np.append(self._weights[1:], 1.0)
        # j entries make a vertex unless the weights say that it is an average of smaller or of larger supports.
        self._supports = np.flatnonzero(((np.arange(d) == 0) | (self._weights < self._weights[0])) & (later > 0))
        self._sums = np.cumsum(self._weights)

    _examples = ({"weights": [1.0, 0.5, 0.25], "radius": 1.0},)

    def _checked_weights(self) -> Array:
        weights = array_of(self, "weights", self.weights, "a list of numbers")
        if weights.ndim != 1 or weights.size == 0:
            raise ValueError(f"OrderedL1Ball: weights must be a list of numbers, got shape {weights.shape}")
        if weights[0] <= 0 or weights[-1] < 0 or (np.diff(weights) > 0).any():
            raise ValueError("OrderedL1Ball: weights must be >= 0 and not increasing, the first > 0")
        return weights

    def _lmo(self, g: Array) -> Atom:
        magnitudes = relative_magnitudes(g)
        order = np.argsort(-magnitudes, kind="stable")
        gains = np.cumsum(magnitudes[order])[self._supports] / self._sums[self._supports]
        last = self._supports[gains.argmax()]
        return _signed(g, np.sort(order[: last + 1]), self.radius / self._sums[last])

    def _norm(self, x: Array) -> float:
        with np.errstate(over="ignore"):
            return float(np.dot(self._weights, np.sort(np.abs(x))[::-1]))

    def diameter(self, shape: Shape | None = None) -> float:
        self._resolve_shape(shape)
        return 2.0 * self.radius * float((np.sqrt(self._supports + 1) / self._sums[self._supports]).max())


def _signed(g: Array, indices: npt.NDArray[np.intp], size: float) -> Atom:
    """Return the atom with `-size sign(g_i)` at the indices (`+size` where `g_i` is zero), in its cheapest form."""
    values = np.where(g.flat[indices] > 0, -float(size), float(size))
    if indices.size == 1:
        return CoordinateAtom(int(indices[0]), float(values[0]), g.shape)
    return DenseAtom(values.reshape(g.shape)) if indices.size == g.size else SparseAtom(indices, values, g.shape)
