"""Sets of matrices described by their singular values or eigenvalues.

Their oracles need one or a few extreme singular or eigenvectors of the direction, which may be a dense array, a scipy
sparse matrix or a LinearOperator: nothing but products with it is asked for. They return factors, not matrices.
"""

import abc
import math
from typing import Any

import numpy as np
from scipy import sparse

from fwonline._checks import check_count, check_positive

from ._lanczos import lowest_eigenvectors
from ._numeric import euclidean_norm, flushed, l1_norm, project_on_capped_simplex, project_on_simplex
from .atoms import Array, Atom, ProjectorAtom, RankOneAtom, ZeroAtom
from .base import ConvexSet, Shape
from .norm_balls import NormBall

__all__ = ["Fantope", "NuclearBall", "Spectrahedron", "SpectralSet", "Spectraplex"]

# A matrix: what the spectral oracles take as a direction.
Matrix = Any

# Beyond these magnitudes products of two entries leave the range of a float.
_SAFE = 1e-120, 1e120


def _is_operator(g: Matrix) -> bool:
    if isinstance(g, np.ndarray):
        return False
    from scipy.sparse.linalg import LinearOperator  # whose module takes long

    return isinstance(g, LinearOperator)


class SpectralSet(ConvexSet):
    """A set of matrices whose oracle works with products: of symmetric ones, described by their eigenvalues, or not."""

    _is_symmetric = True

    def lmo(self, g: Matrix, *, start: Atom | None = None, tol: float = 1e-8) -> Atom:
        """Return an atom `s` of the set that minimises `<s, g>` up to a stated error.

        Parameters
        ----------
        g
            Direction: a matrix with finite entries, dense, scipy sparse or a LinearOperator (with its adjoint where it
            is not square). Of a square matrix the sets of symmetric matrices see the symmetric part; a LinearOperator
            given to them must be symmetric.
        start
            The atom of a similar direction, such as the previous step's: the iteration starts from it and ends sooner.
        tol
            Bound on the residual of the eigenvectors relative to the largest eigenvalue in magnitude (for singular
            vectors: of `g^T g`). `<s, g>` exceeds its minimum by at most about `tol ||g||_2` for each unit of trace,
            most often by far less: the error of an eigenvalue falls with the square of the residual. Small matrices are
            exact to rounding.

        Raises
        ------
        ValueError
            Where `g` is empty, has entries that are not finite, or not the shape of a point.
        """
        if not tol >= 0:
            raise ValueError(f"tol must be a number >= 0, got {tol!r}")
        return self._spectral_lmo(self._matrix(g), start, tol)

    @abc.abstractmethod
    def _spectral_lmo(self, g: Matrix, start: Atom | None, tol: float) -> Atom:
        """Return the atom for a direction that is checked and of safe magnitude."""

    def _lmo(self, g: Array) -> Atom:
        return self.lmo(g)

    def lmo_error(self, g: Array, s: Atom, tol: float) -> float:
        """Return by how much `<s, g>` may exceed its minimum, for an atom s that `lmo` found with this `tol`.

        That is how far the vectors of s are from being eigenvectors or singular vectors: a bound once they are nearest
        to those that were sought.
        """
        if self._is_symmetric:
            g = 0.5 * (g + g.T)
        if isinstance(s, RankOneAtom):
            theta = float(s.u @ g @ s.v)
            left, right = g @ s.v - theta * s.u, s.u @ g - theta * s.v
            # the residual of (u, v) / sqrt(2), an eigenvector of [[0, g], [g^T, 0]]
            return s.sigma * math.sqrt(0.5 * float(left @ left + right @ right))
        if isinstance(s, ProjectorAtom):
            image = g @ s.vectors
            residual = image - s.vectors @ (s.vectors.T @ image)
            return s.vectors.shape[1] * float(np.linalg.norm(residual))
        return tol * self.diameter(g.shape) * float(np.linalg.norm(g))

    def random_atom(self, shape: tuple[int, ...], rng: np.random.Generator) -> Atom:
        """Return a random atom, from which `lmo` may start: it meets every eigenvector and singular vector."""
        u, v = (np.linalg.qr(rng.standard_normal((size, 1)))[0] for size in shape)
        return RankOneAtom(1.0, u[:, 0], v[:, 0])

    def _matrix(self, g: Matrix) -> Matrix:
        """Check the direction, and bring entries whose products would overflow or vanish to magnitude 1."""
        if _is_operator(g):
            self._check_shape("direction", g.shape)
            return g
        if sparse.issparse(g):
            self._check_shape("direction", g.shape)
            g = g.tocsr().astype(np.float64, copy=False)
            if not np.isfinite(g.data).all():
                raise ValueError(f"{self}: the direction must be finite, a stored entry is not")
            entries = g.data
        else:
            entries = g = self._finite("direction", g)
        largest = max(entries.max(initial=0.0), -entries.min(initial=0.0))
        return g / largest if largest > 0 and not _SAFE[0] < largest < _SAFE[1] else g

    def _times(self, g: Matrix, x: Array) -> Array:
        product = g @ x
        if not np.isfinite(product).all():
            raise ValueError(f"{self}: the direction's products must be finite")
        return product

    def _check_shape(self, what: str, shape: tuple[int, ...]) -> None:
        super()._check_shape(what, shape)
        if len(shape) != 2:
            raise ValueError(f"{self}: the {what} must be a matrix, got shape {shape}")
        if self._is_symmetric and shape[0] != shape[1]:
            raise ValueError(f"{self}: the {what} must be a square matrix, got shape {shape}")

    # Of sets of symmetric matrices

    def _lowest(self, g: Matrix, count: int, start: Array | None, tol: float) -> Array:
        if start is not None and start.shape != (g.shape[0], count):
            start = None
        whole = _is_operator(g) or _equals_transpose(g)

        def symmetric_part(x: Array) -> Array:
            return self._times(g, x) if whole else 0.5 * (self._times(g, x) + self._times(g.T, x))

        return lowest_eigenvectors(symmetric_part, g.shape[0], count, start, tol)

    def _lowest_atom(self, g: Matrix, trace: float, start: Atom | None, tol: float) -> RankOneAtom:
        warm = start.v[:, None] if isinstance(start, RankOneAtom) else None
        vector = self._lowest(g, 1, warm, tol)[:, 0]
        return RankOneAtom(trace, vector, vector)

    def _project_eigenvalues(self, values: Array) -> Array:
        """Return the nearest eigenvalues that a matrix of the set can have."""
        raise NotImplementedError

    def _project(self, x: Array) -> Array:
        values, vectors = np.linalg.eigh(flushed(0.5 * x + 0.5 * x.T))
        return (vectors * self._project_eigenvalues(values)) @ vectors.T


class NuclearBall(SpectralSet, NormBall):
    """The nuclear norm ball `{X : sum of singular values <= radius}`: matrices of low rank.

    The LMO returns `-radius u v^T` for the leading singular pair of the direction, found by Lanczos steps on the
    smaller of `g^T g` and `g g^T`; for a direction of zeros `radius e_0 e_0^T`. Norm and projection need a full
    singular value decomposition.

    Parameters
    ----------
    radius
        Largest sum of singular values, finite and > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import sets
    >>> ball = sets.NuclearBall(2.0)
    >>> ball.lmo(np.diag([1.0, -3.0])).to_dense() + 0.0
    array([[0., 0.],
           [0., 2.]])
    >>> ball.norm(np.diag([1.0, -3.0]))
    4.0

    References
    ----------
    Jaggi 2013, "Revisiting Frank-Wolfe: projection-free sparse convex optimization",
    https://proceedings.mlr.press/v28/jaggi13.html
    """

    _is_symmetric = False

    def _spectral_lmo(self, g: Matrix, start: Atom | None, tol: float) -> Atom:
        m, n = g.shape
        # The transpose of a LinearOperator is the adjoint, for real numbers.
        tall, wide = (g, g.T) if m >= n else (g.T, g)
        warm = None
        if isinstance(start, RankOneAtom) and start.shape == g.shape:
            warm = (start.v if m >= n else start.u)[:, None]

        def negative_gram(x: Array) -> Array:
            return -self._times(wide, self._times(tall, x))

        inner = lowest_eigenvectors(negative_gram, min(m, n), 1, warm, tol)[:, 0]
        outer = self._times(tall, inner)
        if outer.any():
            outer = -outer / euclidean_norm(outer)
        else:
            inner, outer = np.eye(1, min(m, n))[0], np.eye(1, max(m, n))[0]
        u, v = (outer, inner) if m >= n else (inner, outer)
        return RankOneAtom(float(self.radius), u, v)

    def _norm(self, x: Array) -> float:
        return float(np.linalg.svd(flushed(x), compute_uv=False).sum())

    def _project(self, x: Array) -> Array:
        u, values, vt = np.linalg.svd(flushed(x), full_matrices=False)
        if l1_norm(values) <= self.radius:
            return x.copy()
        return (u * project_on_simplex(values, float(self.radius))) @ vt


class _OfTrace(SpectralSet):
    _examples = ({}, {"trace": 10})

    def __init__(self, trace: float = 1.0):
        check_positive(f"{type(self).__name__}: trace", trace)
        self.trace = trace

    def _scale(self, shape: tuple[int, ...]) -> float:
        return float(self.trace)


class Spectraplex(_OfTrace):
    """The spectraplex: symmetric positive semidefinite matrices X with `tr X = trace`.

    The LMO returns `trace v v^T` for a unit eigenvector v of the direction's lowest eigenvalue, found by Lanczos steps.
    The projection needs all eigenvectors, O(n^3).

    Parameters
    ----------
    trace
        The trace, finite and > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import sets
    >>> sets.Spectraplex(2.0).lmo(np.diag([1.0, 3.0])).to_dense()
    array([[2., 0.],
           [0., 0.]])
    >>> sets.Spectraplex(1.0).initial_point((2, 2))
    array([[0.5, 0. ],
           [0. , 0.5]])

    References
    ----------
    Hazan 2008, "Sparse approximate solutions to semidefinite programs", https://doi.org/10.1007/978-3-540-78773-0_27
    """

    def _spectral_lmo(self, g: Matrix, start: Atom | None, tol: float) -> Atom:
        return self._lowest_atom(g, float(self.trace), start, tol)

    def _project_eigenvalues(self, values: Array) -> Array:
        return project_on_simplex(values, float(self.trace))

    def diameter(self, shape: Shape | None = None) -> float:
        """Return `sqrt(2) trace`; 0 where `shape` says that the matrices have one entry."""
        single = shape is not None and self._resolve_shape(shape) == (1, 1)
        return 0.0 if single else math.sqrt(2.0) * self.trace


class Spectrahedron(_OfTrace):
    """The unit spectrahedron: symmetric positive semidefinite matrices X with `tr X <= trace`.

    The LMO returns `trace v v^T` for a unit eigenvector v of the direction's lowest eigenvalue if that is negative,
    otherwise the zero matrix. The projection needs all eigenvectors, O(n^3).

    Parameters
    ----------
    trace
        The largest trace, finite and > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import sets
    >>> sets.Spectrahedron(2.0).lmo(np.diag([1.0, -3.0])).to_dense()
    array([[0., 0.],
           [0., 2.]])
    >>> sets.Spectrahedron(2.0).lmo(np.diag([1.0, 3.0]))
    ZeroAtom(shape=(2, 2))
    """

    def _spectral_lmo(self, g: Matrix, start: Atom | None, tol: float) -> Atom:
        atom = self._lowest_atom(g, float(self.trace), start, tol)
        return atom if atom.dot(g) < 0 else ZeroAtom(g.shape)

    def _project_eigenvalues(self, values: Array) -> Array:
        nearest = np.maximum(values, 0.0)
        return nearest if l1_norm(nearest) <= self.trace else project_on_simplex(values, float(self.trace))

    def diameter(self, shape: Shape | None = None) -> float:
        """Return `sqrt(2) trace`; `trace` where `shape` says that the matrices have one entry."""
        single = shape is not None and self._resolve_shape(shape) == (1, 1)
        return float(self.trace) if single else math.sqrt(2.0) * self.trace


class Fantope(SpectralSet):
    """The Fantope: symmetric matrices with eigenvalues in [0, 1] and trace k, the hull of the projectors of rank k.

    The LMO returns `V V^T` for orthonormal eigenvectors V of the direction's k lowest eigenvalues, found by block
    Lanczos steps. With k = 1 the set is the spectraplex of trace 1. The projection needs all eigenvectors, O(n^3).

    Parameters
    ----------
    k
        The trace, an integer >= 1; at most the size of the matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import sets
    >>> sets.Fantope(2).lmo(np.diag([1.0, 3.0, -2.0])).to_dense()
    array([[1., 0., 0.],
           [0., 0., 0.],
           [0., 0., 1.]])

    References
    ----------
    Vu, Cho, Lei, Rohe 2013, "Fantope projection and selection: a near-optimal convex relaxation of sparse PCA",
    https://proceedings.neurips.cc/paper/2013/hash/81e5f81db77c596492e6f1a5a792ed53-Abstract.html
    """

    def __init__(self, k: int):
        check_count("Fantope: k", k)
        self.k = k

    _examples = ({"k": 1},)

    def _check_shape(self, what: str, shape: tuple[int, ...]) -> None:
        super()._check_shape(what, shape)
        if shape[0] < self.k:
            raise ValueError(f"{self}: the {what} must have at least k = {self.k} rows, got shape {shape}")

    def _scale(self, shape: tuple[int, ...]) -> float:
        return 1.0

    def _spectral_lmo(self, g: Matrix, start: Atom | None, tol: float) -> Atom:
        warm = start.vectors if isinstance(start, ProjectorAtom) else None
        return ProjectorAtom(self._lowest(g, self.k, warm, tol))

    def random_atom(self, shape: tuple[int, ...], rng: np.random.Generator) -> Atom:
        u, _ = (np.linalg.qr(rng.standard_normal((size, self.k)))[0] for size in shape)
        return ProjectorAtom(u)

    def _project_eigenvalues(self, values: Array) -> Array:
        return project_on_capped_simplex(values, self.k, 1.0)

    def diameter(self, shape: Shape | None = None) -> float:
        """Return `sqrt(2 min(k, n - k))`, the distance of two projectors that share as little as they can."""
        n = self._resolve_shape(shape)[0]
        return math.sqrt(2.0 * min(self.k, n - self.k))


def _equals_transpose(g: Matrix) -> bool:
    """Whether g and its transpose send one random vector to the same place: two products, not a copy of the matrix."""
    probe = np.random.default_rng(0).standard_normal(g.shape[0])
    image = g @ probe
    return bool(np.abs(image - g.T @ probe).max() <= 1e-13 * np.abs(image).max())
