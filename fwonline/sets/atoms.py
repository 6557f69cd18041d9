"""What a linear minimisation oracle returns: one point of a set, held in as few numbers as it has.

An optimizer needs three things of an atom: its inner product with a gradient, itself added to an iterate, and (seldom)
itself written out. A signed coordinate does the first two in O(1), a rank-one matrix without forming the matrix.
"""

import abc
import inspect
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fwonline import _loaded

__all__ = [
    "Array",
    "Atom",
    "CoordinateAtom",
    "DenseAtom",
    "ProductAtom",
    "ProjectorAtom",
    "RankOneAtom",
    "SparseAtom",
    "ZeroAtom",
]

Array = npt.NDArray[np.float64]


def _check_numbers(atom: object, name: str, shape: tuple[int | None, ...]) -> Array:
    """The atom's array of that name, None standing for any extent; it may be read-only, as atoms make theirs."""
    values = getattr(atom, name, None)
    if type(values) is not np.ndarray or values.dtype != np.float64 or values.ndim != len(shape):
        _loaded.fail(atom, name, f"an array of numbers of shape {shape}", values)
    is_like = all(wanted is None or size == wanted for size, wanted in zip(values.shape, shape, strict=True))
    _loaded.require(atom, name, is_like, f"an array of shape {shape}")
    _loaded.require(atom, name, np.isfinite(values).all(), "finite values")
    return values


class Atom(abc.ABC):
    """A point of a set, most often a vertex. Immutable; equal atoms compare and hash equal, so an active set can be a
    dict.

    Attributes
    ----------
    shape
        Shape of the point: `(d,)` for a vector, `(m, n)` for a matrix. Where a set of vectors is asked for an array of
        another shape, positions count its entries in C order.
    """

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape

    def _check_loaded(self) -> None:
        """See that an atom from a file is a point of its shape."""
        is_shape = type(self.shape) is tuple and all(type(size) is int and size >= 1 for size in self.shape)
        if not is_shape or not self.shape or self.size > _loaded.MOST:
            _loaded.fail(self, "shape", "one or more positive integers", self.shape)
        self._check_entries()

    def _check_entries(self) -> None:  # noqa: B027  (the origin has none)
        """See that what is stored are entries of the point."""

    @property
    def nnz(self) -> int:
        """How many entries are stored, hence what `dot` and `add_to` cost."""
        parts = (getattr(self, name) for name in self.__slots__)
        return sum(part.size for part in parts if isinstance(part, np.ndarray))

    @abc.abstractmethod
    def dot(self, g: Any) -> float:
        """Inner product with `g`, an array of the atom's shape."""

    @abc.abstractmethod
    def add_to(self, out: Array, scale: float = 1.0) -> None:
        """Add `scale` times the atom to `out` in place."""

    def _key(self) -> tuple[Any, ...]:
        """What makes two atoms of the same class and shape equal."""
        parts = (getattr(self, name) for name in self.__slots__)
        # + 0.0 turns -0.0, which equals 0.0, into its bytes
        return tuple((part + 0.0).tobytes() if isinstance(part, np.ndarray) else part for part in parts)

    def __repr__(self) -> str:
        """The call that makes the atom; its shape where the parts do not say it."""
        names = inspect.signature(type(self)).parameters
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def to_dense(self) -> Array:
        """Return the atom as a new array."""
        out = np.zeros(self.shape)
        self.add_to(out)
        return out

    @property
    def size(self) -> int:
        """Number of entries of the point, zeros included."""
        return math.prod(self.shape)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, Atom)
        return self.shape == other.shape and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), self.shape, self._key()))


class CoordinateAtom(Atom):
    """The point `value * e_index`: every vertex of the l1 ball and of the simplices.

    Parameters
    ----------
    index
        Position of the only non-zero entry, from 0.
    value
        That entry, sign included.
    shape
        Shape of the point.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline.sets.atoms import CoordinateAtom
    >>> atom = CoordinateAtom(1, -2.0, (3,))
    >>> atom.dot(np.array([5.0, 7.0, 9.0]))
    -14.0
    >>> atom.to_dense()
    array([ 0., -2.,  0.])
    """

    __slots__ = ("index", "value")

    def __init__(self, index: int, value: float, shape: tuple[int, ...]):
        super().__init__(shape)
        self.index = index
        self.value = value

    @property
    def nnz(self) -> int:
        return 1

    def dot(self, g: Array) -> float:
        return self.value * float(g.flat[self.index])

    def add_to(self, out: Array, scale: float = 1.0) -> None:
        out.flat[self.index] += scale * self.value

    def _key(self) -> tuple[Any, ...]:
        return self.index, self.value  # active sets look for atoms at every step

    def _check_entries(self) -> None:
        _loaded.count(self, "index", 0, self.size - 1)
        _loaded.real(self, "value")


class ZeroAtom(Atom):
    """The origin, a vertex of sets such as the unit simplex."""

    __slots__ = ()

    def dot(self, g: Any) -> float:
        return 0.0

    def add_to(self, out: Array, scale: float = 1.0) -> None:
        pass


class DenseAtom(Atom):
    """A point with all its entries written out: the l2 ball, boxes, the convex hull of given points.

    Parameters
    ----------
    values
        The entries. The atom takes the array over and makes it read-only.
    """

    __slots__ = ("values",)

    def __init__(self, values: Array):
        super().__init__(values.shape)
        values.flags.writeable = False
        self.values = values

    def dot(self, g: Array) -> float:
        return float(np.vdot(self.values, g))

    def add_to(self, out: Array, scale: float = 1.0) -> None:
        out += scale * self.values

    def _check_entries(self) -> None:
        _check_numbers(self, "values", self.shape)


class SparseAtom(Atom):
    """A point with a few non-zero entries: the k-sparse ball, groups, permutation matrices.

    Parameters
    ----------
    indices
        Positions of the stored entries in C order, each once. The atom takes both arrays over and makes them read-only.
    values
        The entries at these positions.
    shape
        Shape of the point.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline.sets.atoms import SparseAtom
    >>> SparseAtom(np.array([0, 3]), np.array([1.0, -1.0]), (2, 2)).to_dense()
    array([[ 1.,  0.],
           [ 0., -1.]])
    """

    __slots__ = ("indices", "values")

    def __init__(self, indices: npt.NDArray[np.intp], values: Array, shape: tuple[int, ...]):
        super().__init__(shape)
        indices.flags.writeable = values.flags.writeable = False
        self.indices = indices
        self.values = values

    @property
    def nnz(self) -> int:
        return self.indices.size

    def dot(self, g: Array) -> float:
        return float(np.dot(self.values, g.flat[self.indices]))

    def add_to(self, out: Array, scale: float = 1.0) -> None:
        out.flat[self.indices] += scale * self.values

    def _key(self) -> tuple[Any, ...]:
        order = np.argsort(self.indices)
        return self.indices[order].tobytes(), (self.values[order] + 0.0).tobytes()

    def _check_entries(self) -> None:
        indices = self.indices
        if type(indices) is not np.ndarray or indices.dtype.kind not in "iu" or indices.ndim != 1:
            _loaded.fail(self, "indices", "an array of positions", indices)
        is_inside = not indices.size or (indices.min() >= 0 and indices.max() < self.size)
        _loaded.require(self, "indices", is_inside, f"positions below {self.size}")
        _loaded.require(self, "indices", np.unique(indices).size == indices.size, "each position once")
        _check_numbers(self, "values", indices.shape)


class RankOneAtom(Atom):
    """The matrix `sigma u v^T`: every vertex of the nuclear ball and of the spectraplex.

    `dot` takes whatever multiplies a vector: a dense array, a scipy sparse matrix or a LinearOperator.

    Parameters
    ----------
    sigma
        The factor.
    u
        Column vector, length m. The atom takes both arrays over and makes them read-only.
    v
        Row vector, length n.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline.sets.atoms import RankOneAtom
    >>> atom = RankOneAtom(2.0, np.array([1.0, 0.0]), np.array([0.0, -1.0, 0.0]))
    >>> atom.to_dense()
    array([[ 0., -2.,  0.],
           [ 0.,  0.,  0.]])
    >>> atom.nnz
    5
    """

    __slots__ = ("sigma", "u", "v")

    def __init__(self, sigma: float, u: Array, v: Array):
        super().__init__((u.size, v.size))
        u.flags.writeable = v.flags.writeable = False
        self.sigma = sigma
        self.u = u
        self.v = v

    def dot(self, g: Any) -> float:
        return self.sigma * float(self.u @ (g @ self.v))

    def add_to(self, out: Array, scale: float = 1.0) -> None:
        out += np.outer((scale * self.sigma) * self.u, self.v)

    def _check_entries(self) -> None:
        _loaded.real(self, "sigma")
        for name, size in zip("uv", (*self.shape, 0, 0), strict=False):
            _check_numbers(self, name, (size,))
        _loaded.require(self, "shape", len(self.shape) == 2, "rows and columns")


class ProjectorAtom(Atom):
    """The matrix `V V^T` with orthonormal columns in V: every vertex of the Fantope.

    Parameters
    ----------
    vectors
        V, of shape (n, k). The atom takes the array over and makes it read-only.
    """

    __slots__ = ("vectors",)

    def __init__(self, vectors: Array):
        super().__init__((vectors.shape[0], vectors.shape[0]))
        vectors.flags.writeable = False
        self.vectors = vectors

    def dot(self, g: Any) -> float:
        return float(np.vdot(self.vectors, g @ self.vectors))

    def add_to(self, out: Array, scale: float = 1.0) -> None:
        out += (scale * self.vectors) @ self.vectors.T

    def _check_entries(self) -> None:
        _loaded.require(self, "shape", len(self.shape) == 2 and self.shape[0] == self.shape[1], "a square")
        vectors = _check_numbers(self, "vectors", (self.shape[0], None))
        products = vectors.T @ vectors
        is_orthonormal = np.abs(products - np.eye(len(products))).max(initial=0.0) <= 1e-6
        _loaded.require(self, "vectors", is_orthonormal, "orthonormal columns")


class ProductAtom(Atom):
    """Atoms side by side, each in its own stretch of one long vector.

    Parameters
    ----------
    atoms
        The atoms, in the order of their stretches.
    """

    __slots__ = ("atoms",)

    def __init__(self, atoms: tuple[Atom, ...]):
        super().__init__((sum(atom.size for atom in atoms),))
        self.atoms = atoms

    @property
    def nnz(self) -> int:
        return sum(atom.nnz for atom in self.atoms)

    def dot(self, g: Array) -> float:
        return math.fsum(atom.dot(part) for atom, part in zip(self.atoms, self._split(g), strict=True))

    def add_to(self, out: Array, scale: float = 1.0) -> None:
        for atom, part in zip(self.atoms, self._split(out), strict=True):
            atom.add_to(part, scale)

    def _split(self, array: Array) -> list[Array]:
        parts, start = [], 0
        for atom in self.atoms:
            # A stretch of a vector reshapes to a view, even where the vector is strided.
            parts.append(array[start : start + atom.size].reshape(atom.shape))
            start += atom.size
        return parts

    def _check_entries(self) -> None:
        is_whole = type(self.atoms) is tuple and all(isinstance(atom, Atom) for atom in self.atoms)
        _loaded.require(self, "atoms", is_whole, "atoms")
        for atom in self.atoms:
            atom._check_loaded()
        size = sum(atom.size for atom in self.atoms)
        _loaded.require(self, "shape", self.shape == (size,), f"{size} entries, as many as its atoms have")
