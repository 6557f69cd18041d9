"""Ellipsoids."""

import math

import numpy as np
import numpy.typing as npt

from fwonline._checks import check_positive

from ._numeric import array_of, euclidean_norm, unit_vector
from .atoms import Array, Atom, DenseAtom
from .base import ConvexSet, Shape

__all__ = ["Ellipsoid"]

# The logarithm of a ratio beyond which a larger one changes nothing.
_FARTHEST = 600.0


class Ellipsoid(ConvexSet):
    """The ellipsoid `{x : (x - center)^T matrix (x - center) <= radius^2}`.

    The LMO returns the dense point `center - radius matrix^-1 g / sqrt(g^T matrix^-1 g)`. An eigendecomposition,
    O(d^3), is made once; then the LMO costs O(d^2), and so does the projection, which solves for one multiplier by
    Newton's method. With a diagonal matrix everything is O(d).

    Parameters
    ----------
    matrix
        A symmetric positive definite matrix of shape (d, d), or its diagonal alone, of shape (d,).
    center
        The centre, of shape (d,); None for the origin.
    radius
        Finite and > 0.

    Examples
    --------
    >>> from fwonline import sets
    >>> ellipsoid = sets.Ellipsoid([1.0, 4.0], center=[1.0, 0.0], radius=2.0)
    >>> ellipsoid.lmo([0.0, -1.0]).to_dense()
    array([1., 1.])
    >>> ellipsoid.diameter()
    4.0
    >>> ellipsoid.project([5.0, 0.0])
    array([3., 0.])
    """

    def __init__(self, matrix: npt.ArrayLike, center: npt.ArrayLike | None = None, radius: float = 1.0):
        check_positive("Ellipsoid: radius", radius)
        self.matrix = matrix
        self.center = center
        self.radius = radius
        self._curvatures, self._axes = self._decompose()
        self._center = self._checked_center()
        self._shape = self._curvatures.shape

    _examples = ({"matrix": [[2.0, 1.0], [1.0, 2.0]]},)

    def _decompose(self) -> tuple[Array, Array | None]:
        """Return the eigenvalues and the eigenvectors as columns; None in place of the identity."""
        matrix = array_of(self, "matrix", self.matrix)
        square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
        if matrix.size == 0 or not (matrix.ndim == 1 or square):
            raise ValueError(f"Ellipsoid: matrix must have shape (d, d) or (d,), got {matrix.shape}")
        if matrix.ndim == 1:
            curvatures, axes = matrix, None
        else:
            if np.abs(matrix - matrix.T).max() > 1e-12 * np.abs(matrix).max():
                raise ValueError("Ellipsoid: matrix must be symmetric")
            curvatures, axes = np.linalg.eigh(matrix)
        rounding = 0.0 if axes is None else 1e-15 * curvatures.max()
        if curvatures.min() <= rounding:
            raise ValueError(
                f"Ellipsoid: matrix must be positive definite, its smallest eigenvalue is {curvatures.min():.3g}"
                f" and its largest {curvatures.max():.3g}"
            )
        return curvatures, axes

    def _checked_center(self) -> Array:
        if self.center is None:
            return np.zeros(self._curvatures.size)
        center = array_of(self, "center", self.center)
        if center.shape != self._curvatures.shape:
            raise ValueError(f"Ellipsoid: center must be finite, of shape {self._curvatures.shape}, got {center!r}")
        return center

    def _scale(self, shape: tuple[int, ...]) -> float:
        return self.radius / math.sqrt(self._curvatures.min()) + euclidean_norm(self._center)

    def _to_axes(self, x: Array) -> Array:
        return x if self._axes is None else x @ self._axes

    def _from_axes(self, y: Array) -> Array:
        return y if self._axes is None else self._axes @ y

    def _lmo(self, g: Array) -> Atom:
        if not g.any():
            g = -np.eye(1, g.size)[0]
        roots = np.sqrt(self._curvatures)
        steepest = unit_vector(self._to_axes(g / np.abs(g).max()) / roots)
        return DenseAtom(self._center - self._from_axes(steepest / roots * float(self.radius)))

    def _violation(self, x: Array) -> float:
        return 0.0 if self._size(self._to_axes(x - self._center)) <= self.radius else super()._violation(x)

    def _size(self, y: Array) -> float:
        with np.errstate(over="ignore"):
            return euclidean_norm(np.sqrt(self._curvatures) * y)

    def _norm(self, x: Array) -> float:
        if self._center.any():
            return super()._norm(x)
        return self._size(self._to_axes(x))

    def _project(self, x: Array) -> Array:
        """Project: in the axes, y_i / (1 + (m / b_i)^2) with the m > 0 that brings the point to the boundary.

        b_i are the half-axes over the longest one. As a function of mu = m^2, 1 over the size is concave and increases,
        nearly a straight line, so Newton's method on 1 / size(mu) = 1 / radius climbs from mu = 0 to the root without
        ever passing it. Everything is a ratio to the largest of its kind, and m, unlike its square, has a range that
        holds the quotient of any two numbers.
        """
        y = self._to_axes(x - self._center)
        if self._size(y) <= self.radius:
            return x.copy()
        roots = np.sqrt(self._curvatures)
        b = roots.min() / roots
        longest = float(self.radius) / float(roots.min())
        far = float(np.abs(y).max())
        y = y / far
        # Farther away the point no longer depends on the distance: it is the set's own in that direction.
        log_radius = max(math.log(longest) - math.log(far), -_FARTHEST)
        inverse = np.zeros_like(b)  # m / b
        m = np.float64(0.0)
        for _ in range(200):
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                # y / b / (1 + (m / b)^2), either way
                small, large = y / b / (1.0 + np.square(inverse)), (y / m) * (b / m) / (1.0 + np.square(b / m))
            shrunk = np.where(inverse > 1.0, large, small)
            size = euclidean_norm(shrunk)
            excess = math.expm1(min(math.log(size) - log_radius, _FARTHEST))
            if excess <= 1e-15:
                break
            share = shrunk / size
            if m == 0.0:
                m = np.exp(0.5 * math.log(excess) - math.log(euclidean_norm(share / b)))
            else:
                with np.errstate(over="ignore", under="ignore"):
                    step = excess / float(np.sum(np.square(share) / (1.0 + np.square(b / m))))
                if step <= 1e-15:
                    break
                m *= np.sqrt(1.0 + step)
            inverse = m / b
        with np.errstate(over="ignore", under="ignore"):
            # y / (1 + (m / b)^2), times 1 + m^2
            point = y * (
                b * b * (1.0 + m**-2) / (1.0 + np.square(b / m)) if m > 1.0 else 1.0 / (1.0 + np.square(inverse))
            )
        return self._center + self._from_axes(point * (longest / euclidean_norm(point / b)))

    def diameter(self, shape: Shape | None = None) -> float:
        self._resolve_shape(shape)
        return 2.0 * self.radius / math.sqrt(self._curvatures.min())
