"""Polytopes of permutations and of given points."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ._numeric import array_of, euclidean_norm
from .atoms import Array, Atom, DenseAtom, SparseAtom
from .base import ConvexSet, Shape

__all__ = ["Birkhoff", "ConvexHull", "Permutahedron"]


class Birkhoff(ConvexSet):
    """The doubly stochastic matrices: entries >= 0, every row and every column sums to 1.

    The vertices are the permutation matrices; the LMO solves an assignment problem, O(n^3) at worst, and resolves ties
    as `scipy.optimize.linear_sum_assignment` does. There is no cheap projection: `violation` is the Euclidean length of
    all that is wrong with the matrix, negative entries and the errors of its row and column sums.

    Examples
    --------
    >>> from fwonline import sets
    >>> sets.Birkhoff().lmo([[0.0, -1.0], [-1.0, 0.0]]).to_dense()
    array([[0., 1.],
           [1., 0.]])
    >>> sets.Birkhoff().violation([[1.0, 0.0], [1.0, 0.0]])
    1.4142135623730951
    """

    def _check_shape(self, what: str, shape: tuple[int, ...]) -> None:
        super()._check_shape(what, shape)
        if len(shape) != 2 or shape[0] != shape[1]:
            raise ValueError(f"{self}: the {what} must be a square matrix, got shape {shape}")

    def _scale(self, shape: tuple[int, ...]) -> float:
        return 1.0

    def _lmo(self, g: Array) -> Atom:
        n = g.shape[0]
        largest = np.abs(g).max()
        from scipy import optimize  # which takes long to import

        rows, columns = optimize.linear_sum_assignment(g / largest if largest > 0 else g)
        return SparseAtom(rows * n + columns, np.ones(n), g.shape)

    def _violation(self, x: Array) -> float:
        with np.errstate(over="ignore"):
            sums = np.concatenate([x.sum(axis=0), x.sum(axis=1)])
        wrong = np.concatenate([sums - 1.0, np.minimum(x, 0.0).ravel()])
        return euclidean_norm(wrong) if np.isfinite(wrong).all() else math.inf

    def _initial_point(self, shape: tuple[int, ...]) -> Array:
        return np.full(shape, 1.0 / shape[0])

    def diameter(self, shape: Shape | None = None) -> float:
        n = self._resolve_shape(shape)[0]
        return math.sqrt(2.0 * n) if n > 1 else 0.0


class Permutahedron(ConvexSet):
    """The convex hull of the permutations of (1, 2, ..., d): rankings and their averages.

    The LMO sorts, O(d log d): the largest `g_i` gets 1, among equals the lowest index the smaller rank. The projection
    is an isotonic regression after a sort, O(d log d).

    Examples
    --------
    >>> from fwonline import sets
    >>> sets.Permutahedron().lmo([0.5, -2.0, 3.0]).to_dense()
    array([2., 3., 1.])
    >>> sets.Permutahedron().project([10.0, 0.0, 0.1])
    array([3.  , 1.45, 1.55])
    >>> sets.Permutahedron().initial_point(3)
    array([2., 2., 2.])

    References
    ----------
    Blondel, Teboul, Berthet, Djolonga 2020, "Fast differentiable sorting and ranking", https://arxiv.org/abs/2002.08871
    """

    def _scale(self, shape: tuple[int, ...]) -> float:
        return float(math.prod(shape))

    def _lmo(self, g: Array) -> Atom:
        ranks = np.empty(g.size)
        ranks[np.argsort(-g, axis=None, kind="stable")] = np.arange(1.0, g.size + 1.0)
        return DenseAtom(ranks.reshape(g.shape))

    def _project(self, x: Array) -> Array:
        """Project: sorted downwards, x minus the falling fit to x - (d, ..., 1).

        On a block of the fit that is x, shifted to the mean of the block's ranks; so computed, nothing cancels.
        """
        order = np.argsort(-x, axis=None, kind="stable")
        falling = x.flat[order]
        ranks = np.arange(x.size, 0.0, -1.0)
        from scipy import optimize

        starts = optimize.isotonic_regression(falling - ranks, increasing=False).blocks
        sizes = np.diff(starts)
        offsets = falling - np.repeat(falling[starts[:-1]], sizes)
        shift = np.add.reduceat(ranks - offsets, starts[:-1]) / sizes
        projected = np.empty(x.size)
        projected[order] = offsets + np.repeat(shift, sizes)
        return projected.reshape(x.shape)

    def diameter(self, shape: Shape | None = None) -> float:
        """Return the distance of a ranking and its reverse, `sqrt(d (d^2 - 1) / 3)`."""
        d = math.prod(self._resolve_shape(shape))
        return math.sqrt(d * (d * d - 1) / 3.0)


class ConvexHull(ConvexSet):
    """The convex hull of given points: experts, archetypes, strategies.

    The LMO compares the inner products with all points, O(m d) for m points, and returns the first of the best. The
    projection is Wolfe's nearest-point algorithm: finitely many steps, each one LMO and a least-squares problem over
    the few points in use.

    Parameters
    ----------
    vertices
        The points, an array of shape (m, d) with m >= 1, finite. Points inside the hull of the others do no harm.

    Examples
    --------
    >>> from fwonline import sets
    >>> triangle = sets.ConvexHull([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    >>> triangle.lmo([-1.0, -2.0]).to_dense()
    array([0., 4.])
    >>> triangle.project([3.0, 3.0])
    array([2., 2.])
    >>> triangle.contains([1.0, 1.0]), triangle.contains([-1.0, 1.0])
    (True, False)
    """

    def __init__(self, vertices: npt.ArrayLike):
        self.vertices = vertices
        self._vertices = array_of(self, "vertices", vertices, "an array of numbers of shape (m, d)")
        if self._vertices.ndim != 2 or self._vertices.size == 0:
            raise ValueError(f"ConvexHull: vertices must have shape (m, d), m and d >= 1, got {self._vertices.shape}")
        self._shape = self._vertices.shape[1:]

    _examples = ({"vertices": [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]},)

    def _scale(self, shape: tuple[int, ...]) -> float:
        return float(np.abs(self._vertices).max())

    def _best(self, g: Array) -> Array:
        largest = np.abs(g).max()
        return self._vertices[(self._vertices @ (g / largest if largest > 0 else g)).argmin()]

    def _lmo(self, g: Array) -> Atom:
        return DenseAtom(self._best(g).copy())

    def _project(self, x: Array) -> Array:
        return _nearest_point(self._best, x, self._scale(x.shape))

    def diameter(self, shape: Shape | None = None) -> float:
        """Return the largest distance of two points, O(m^2 d)."""
        self._resolve_shape(shape)
        differences = (self._vertices - vertex for vertex in self._vertices)
        return max(float(np.linalg.norm(rows, axis=1).max()) for rows in differences)


def _nearest_point(oracle: Callable[[Array], Array], x: Array, scale: float) -> Array:
    """Return the point nearest to `x` in the convex hull of the oracle's vertices.

    Wolfe's algorithm: keep a few affinely independent vertices and the nearest point of their hull, which has positive
    weights on all; ask the oracle for the vertex furthest towards `x`; move to the nearest point of the affine hull of
    them all, dropping the vertices whose weights would turn negative on the way. It ends after finitely many steps.

    Wolfe 1976, "Finding the nearest point in a polytope", https://doi.org/10.1007/BF01580381

    Parameters
    ----------
    oracle
        Maps a direction g to a vertex that minimises <s, g>.
    x
        A finite point.
    scale
        Size of the polytope's vertices. What is 1e-14 of it counts as rounding: a point so near is returned.
    """
    corners = oracle(np.zeros_like(x))[None]
    weights = np.ones(1)
    point, before, reached = None, x, 1.0
    while True:
        candidate = weights @ corners
        away = candidate - x
        length = euclidean_norm(away)
        if length <= 1e-14 * scale:
            return x.copy()
        away /= length
        # |point - x|^2 - |candidate - x|^2 over |point - x|, not the difference of two distances: x may be far away.
        # Where only rounding is left of it, this is the end.
        if point is not None and np.dot(point - candidate, before + away * (length / reached)) <= 1e-16 * scale:
            return point
        point, before, reached = candidate, away, length
        corner = oracle(away)
        if np.dot(away, point - corner) <= 1e-14 * scale or (corners == corner).all(axis=1).any():
            return point
        corners = np.vstack([corners, corner])
        weights = np.append(weights, 0.0)
        while True:
            affine = _affine_weights(corners, x)
            if (affine > 1e-14).all():
                weights = affine
                break
            outward = affine <= 1e-14
            ratios = weights[outward] / np.maximum(weights[outward] - affine[outward], 1e-300)
            weights = weights + min(1.0, float(ratios.min())) * (affine - weights)
            weights[np.flatnonzero(outward)[ratios.argmin()]] = 0.0
            kept = weights > 1e-14
            corners, weights = corners[kept], weights[kept] / weights[kept].sum()


def _affine_weights(corners: Array, x: Array) -> Array:
    """Return the weights, of sum 1 and any sign, of the point nearest to x in the affine hull of the corners."""
    edges = (corners[1:] - corners[0]).T
    others = np.linalg.lstsq(edges, x - corners[0], rcond=None)[0]
    return np.concatenate([[1.0 - others.sum()], others])
