"""Linear minimisation over some of a set's atoms, by the coordinates of the gradient that these have.

The atoms of a set come in blocks that use the same coordinates: the two atoms of a coordinate of the l1 ball, the
points of a group of a group ball, the vertices of a hull. A block costs no more than its coordinates of the gradient.
"""

from __future__ import annotations

import abc
import typing

import numpy as np

from fwonline import sets
from fwonline.sets import atoms

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Picked = NDArray[np.int64]

__all__ = ["Oracle", "is_polytope", "oracle_of"]

_SMOOTH = (
    sets.L2Ball,
    sets.KSparseBall,
    sets.GroupL1Ball,
    sets.LatentGroupBall,
    sets.Ellipsoid,
    sets.NuclearBall,
    sets.Spectraplex,
    sets.Spectrahedron,
    sets.Fantope,
)
# Sets whose blocks are coordinates, and those whose blocks are groups.
_BY_COORDINATE = (sets.L1Ball, sets.ProbabilitySimplex, sets.UnitSimplex)
_BY_GROUP = (sets.GroupL1Ball, sets.LatentGroupBall)


def is_polytope(constraint: sets.ConvexSet) -> bool:
    """Whether the set has finitely many vertices, as far as its class tells; a set of one's own is taken for one."""
    if isinstance(constraint, sets.LpBall):
        return constraint.p in (1, np.inf)
    if isinstance(constraint, sets.Product):
        return all(is_polytope(part[0] if isinstance(part, tuple) else part) for part in constraint.parts)
    return not isinstance(constraint, _SMOOTH)


class Oracle(abc.ABC):
    """The linear minimisation oracle of a set, over all of its blocks of atoms or over some.

    Attributes
    ----------
    count
        Number of blocks.
    """

    count: int

    @abc.abstractmethod
    def coordinates(self, picked: Picked) -> NDArray[np.int64]:
        """The coordinates of the gradient that the blocks ``picked`` need."""

    @abc.abstractmethod
    def best(self, g: Array, picked: Picked | None = None) -> atoms.Atom:
        """An atom s of the blocks (of all, by default) that minimises <s, g>; ties go to the feature of lowest rank.

        Only the coordinates of the blocks are read of g.
        """

    def block_of(self, atom: atoms.Atom) -> int:
        """The block that an atom belongs to; -1 for a point that is none of the atoms."""
        return -1


class _Whole(Oracle):
    """A set that is asked as a whole."""

    count = 1

    def __init__(self, constraint: sets.ConvexSet, d: int):
        self.constraint = constraint
        self.all = np.arange(d)

    def coordinates(self, picked: Picked) -> NDArray[np.int64]:
        return self.all

    def best(self, g: Array, picked: Picked | None = None) -> atoms.Atom:
        shape = self.constraint.shape
        atom = self.constraint.lmo(g if shape is None else g.reshape(shape))
        if isinstance(atom, atoms.CoordinateAtom | atoms.ZeroAtom | atoms.SparseAtom) and len(atom.shape) == 1:
            return atom
        return atoms.DenseAtom(atom.to_dense().ravel())


class _Coordinates(Oracle):
    """The l1 ball and the simplices: a block is a coordinate."""

    def __init__(self, constraint: sets.ConvexSet, d: int, rank: NDArray[np.int64]):
        self.constraint = constraint
        self.count = d
        # Asked in the order of ranks, the set breaks its ties by rank.
        self.order = np.argsort(rank[:d], kind="stable")
        self.place = np.empty(d, dtype=np.int64)
        self.place[self.order] = np.arange(d)

    def coordinates(self, picked: Picked) -> NDArray[np.int64]:
        return picked

    def best(self, g: Array, picked: Picked | None = None) -> atoms.Atom:
        ranked = self.order if picked is None else picked[np.argsort(self.place[picked])]
        atom = self.constraint.lmo(g[ranked])
        if isinstance(atom, atoms.CoordinateAtom):
            return atoms.CoordinateAtom(int(ranked[atom.index]), atom.value, (self.count,))
        return atoms.ZeroAtom((self.count,))

    def block_of(self, atom: atoms.Atom) -> int:
        return atom.index if isinstance(atom, atoms.CoordinateAtom) else -1


class _Groups(Oracle):
    """Balls of group norms: a block is a group."""

    def __init__(self, constraint: sets.GroupL1Ball | sets.LatentGroupBall):
        self.constraint = constraint
        self.members = [np.asarray(group, dtype=np.int64) for group in constraint.groups]
        self.count = len(self.members)
        (self.d,) = typing.cast("tuple[int]", constraint.shape)

    def coordinates(self, picked: Picked) -> NDArray[np.int64]:
        return np.unique(np.concatenate([self.members[k] for k in picked]))

    def best(self, g: Array, picked: Picked | None = None) -> atoms.Atom:
        if picked is None:
            return self.constraint.lmo(g)
        norms = [float(np.linalg.norm(g[self.members[k]])) for k in picked]
        members = self.members[picked[int(np.argmax(norms))]]
        norm = max(norms)
        if norm > 0.0:
            values = g[members] * (-float(self.constraint.radius) / norm)
        else:
            values = np.where(members == members.min(), float(self.constraint.radius), 0.0)
        return atoms.SparseAtom(members.astype(np.intp), values, (self.d,))


class _Vertices(Oracle):
    """The hull of given points: a block is a point, and needs every coordinate."""

    def __init__(self, constraint: sets.ConvexHull):
        self.vertices = np.array(constraint.vertices, dtype=np.float64)
        self.vertices = self.vertices.reshape(len(self.vertices), -1)
        self.count = len(self.vertices)
        self.all = np.arange(self.vertices.shape[1])
        self.blocks: dict[atoms.Atom, int] = {
            atoms.DenseAtom(v.copy()): k for k, v in reversed(list(enumerate(self.vertices)))
        }

    def coordinates(self, picked: Picked) -> NDArray[np.int64]:
        return self.all

    def best(self, g: Array, picked: Picked | None = None) -> atoms.Atom:
        vertices = self.vertices if picked is None else self.vertices[picked]
        return atoms.DenseAtom(vertices[int(np.argmin(vertices @ g))].copy())

    def block_of(self, atom: atoms.Atom) -> int:
        return self.blocks.get(atom, -1)


def oracle_of(constraint: sets.ConvexSet, d: int, rank: NDArray[np.int64]) -> Oracle:
    """The oracle of a set in d features."""
    if isinstance(constraint, _BY_COORDINATE):
        return _Coordinates(constraint, d, rank)
    if isinstance(constraint, _BY_GROUP):
        return _Groups(constraint)
    if isinstance(constraint, sets.ConvexHull):
        return _Vertices(constraint)
    if isinstance(constraint, sets.Box) and constraint.shape is not None and constraint.shape != (d,):
        lower, upper = np.broadcast_arrays(constraint.lower, constraint.upper)
        constraint = sets.Box(lower[:d], upper[:d])  # its first features: the others have not been seen
    return _Whole(constraint, d)


def comes_in_blocks(constraint: sets.ConvexSet) -> bool:
    """Whether the set's oracle can be asked about some of its atoms."""
    return isinstance(constraint, (*_BY_COORDINATE, *_BY_GROUP, sets.ConvexHull))
