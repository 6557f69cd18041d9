"""The atoms an iterate is a mixture of, and their weights: what away and pairwise steps take from."""

from __future__ import annotations

import typing

import numpy as np

from fwonline.sets import atoms

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["ActiveSet", "atom_of", "support"]

# Kinds of atoms in a saved state.
_ZERO, _COORDINATE, _SPARSE, _DENSE = range(4)


class ActiveSet:
    """Weights alpha_v > 0 of atoms v, summing to 1: the iterate is sum_v alpha_v v.

    A dict keyed by atoms, in the order they came. Weights are rescaled by the steps; one that a step takes to 0 leaves.

    Examples
    --------
    >>> from fwonline.optim.problem.active_set import ActiveSet
    >>> from fwonline.sets.atoms import CoordinateAtom
    >>> left, right = CoordinateAtom(0, 1.0, (2,)), CoordinateAtom(1, 1.0, (2,))
    >>> active = ActiveSet({left: 1.0})
    >>> active.towards(right, 0.25)
    >>> active.point(2)
    array([0.75, 0.25])
    >>> active.away_limit(right)
    0.3333333333333333
    >>> active.away_from(right, active.away_limit(right))
    True
    >>> list(active)
    [CoordinateAtom(index=0, value=1.0, shape=(2,))]
    """

    def __init__(self, weights: dict[atoms.Atom, float] | None = None):
        self.weights = {} if weights is None else weights

    def __len__(self) -> int:
        return len(self.weights)

    def __iter__(self) -> Iterator[atoms.Atom]:
        return iter(self.weights)

    def __getitem__(self, atom: atoms.Atom) -> float:
        return self.weights[atom]

    def _scale(self, factor: float) -> None:
        for atom in self.weights:
            self.weights[atom] *= factor

    def towards(self, atom: atoms.Atom, gamma: float) -> None:
        """x <- (1 - gamma) x + gamma s."""
        if gamma >= 1.0:
            self.weights = {atom: 1.0}
        elif gamma > 0.0:
            self._scale(1.0 - gamma)
            self.weights[atom] = self.weights.get(atom, 0.0) + gamma

    def away_limit(self, atom: atoms.Atom) -> float:
        """The largest step away from v, alpha_v / (1 - alpha_v); 0 from a lone atom, whatever its weight's rounding."""
        weight = self.weights[atom]
        return weight / (1.0 - weight) if weight < 1.0 and len(self.weights) > 1 else 0.0

    def away_from(self, atom: atoms.Atom, gamma: float) -> bool:
        """x <- (1 + gamma) x - gamma v; returns whether v was dropped."""
        dropped = gamma > 0.0 and gamma >= self.away_limit(atom)
        self._scale(1.0 + gamma)
        if dropped:
            del self.weights[atom]
        else:
            self.weights[atom] -= gamma
        return dropped

    def shift(self, source: atoms.Atom, target: atoms.Atom, gamma: float) -> bool:
        """x <- x + gamma (s - v): weight goes from v to s; returns whether v was dropped."""
        if gamma <= 0.0 or source == target:
            return False
        dropped = gamma >= self.weights[source]
        if dropped:
            del self.weights[source]
        else:
            self.weights[source] -= gamma
        self.weights[target] = self.weights.get(target, 0.0) + gamma
        return dropped

    def point(self, d: int) -> Array:
        """The mixture, its weights summing to 1 again where rounding has moved them."""
        total = sum(self.weights.values())
        x = np.zeros(d)
        for atom, weight in self.weights.items():
            self.weights[atom] = weight / total
            _flat(atom).add_to(x, weight / total)
        return x

    def grow(self, tail: Array) -> None:
        """Features appear in which every atom has the same entries, ``tail``: mostly zeros."""
        self.weights = {_longer(atom, tail): weight for atom, weight in self.weights.items()}

    def shrink(self, d: int) -> None:
        """Take back features that were just added."""
        self.weights = {_shorter(atom, d): weight for atom, weight in self.weights.items()}

    def take_out(self, new: NDArray[np.int64]) -> None:
        """Features are given up: each is at position ``new[j]`` from now on, or gone where that is -1.

        Atoms that differed there alone become one.
        """
        before, self.weights = self.weights, {}
        for atom, weight in before.items():
            rest = _taken_out(atom, new)
            self.weights[rest] = self.weights.get(rest, 0.0) + weight

    def to_arrays(self) -> tuple[NDArray, ...]:
        """The set as arrays, for a saved state."""
        kinds, sizes, indices, values = [], [], [], []
        for atom in self.weights:
            kind, where, what = _entries(atom)
            kinds.append(kind)
            sizes.append(len(what))
            indices.append(where)
            values.append(what)
        return (
            np.array(kinds, dtype=np.int64),
            np.array(sizes, dtype=np.int64),
            np.concatenate([np.zeros(0, dtype=np.int64), *indices]),
            np.concatenate([np.zeros(0), *values]),
            np.array(list(self.weights.values()), dtype=np.float64),
        )

    @classmethod
    def from_arrays(cls, arrays: tuple[NDArray, ...], d: int) -> ActiveSet:
        """The set that :meth:`to_arrays` has written, for points of d features.

        Raises
        ------
        ValueError
            If the arrays do not fit each other or d.
        """
        kinds, sizes, indices, values, weights = arrays
        integers = all(isinstance(a, np.ndarray) and a.dtype == np.int64 and a.ndim == 1 for a in arrays[:3])
        floats = all(isinstance(a, np.ndarray) and a.dtype == np.float64 and a.ndim == 1 for a in arrays[3:])
        if not (integers and floats):
            raise ValueError("the saved active set is inconsistent: its arrays are not of the types they have")
        ends = np.cumsum(sizes)
        fits = (
            len(kinds) == len(sizes) == len(weights)
            and bool(np.all(sizes >= 0))
            and len(indices) == len(values) == (ends[-1] if len(ends) else 0)
            and bool(np.all((indices >= 0) & (indices < d)))
            and bool(np.all(np.isfinite(values)))
            and bool(np.all((weights > 0.0) & (weights < 2.0)))
        )
        if not fits:
            raise ValueError("the saved active set is inconsistent: its arrays do not fit each other")
        active = cls()
        for kind, end, size, weight in zip(kinds, ends, sizes, weights.tolist(), strict=True):
            where = slice(end - size, end)
            if np.unique(indices[where]).size < size:
                raise ValueError("the saved active set is inconsistent: an atom has an entry twice")
            active.weights[_atom(int(kind), indices[where], values[where], d)] = weight
        if len(active) < len(weights):
            raise ValueError("the saved active set is inconsistent: it has an atom twice")
        return active


def _flat(atom: atoms.Atom) -> atoms.Atom:
    """The atom as a point of a vector space: sets of matrices number their entries in C order."""
    return atoms.DenseAtom(atom.to_dense().ravel()) if len(atom.shape) != 1 else atom


def _entries(atom: atoms.Atom) -> tuple[int, NDArray[np.int64], Array]:
    if isinstance(atom, atoms.ZeroAtom):
        return _ZERO, np.zeros(0, dtype=np.int64), np.zeros(0)
    if isinstance(atom, atoms.CoordinateAtom):
        return _COORDINATE, np.array([atom.index], dtype=np.int64), np.array([atom.value])
    if isinstance(atom, atoms.SparseAtom):
        return _SPARSE, atom.indices.astype(np.int64), atom.values
    dense = atom.to_dense().ravel()
    return _DENSE, np.arange(dense.size), dense


def _atom(kind: int, indices: NDArray[np.int64], values: Array, d: int) -> atoms.Atom:
    expected = {_ZERO: 0, _COORDINATE: 1, _SPARSE: len(values), _DENSE: d}
    if expected.get(kind) != len(values):
        raise ValueError("the saved active set is inconsistent: an atom has not the entries of its kind")
    if kind == _ZERO:
        return atoms.ZeroAtom((d,))
    if kind == _COORDINATE:
        return atoms.CoordinateAtom(int(indices[0]), float(values[0]), (d,))
    if kind == _SPARSE:
        return atoms.SparseAtom(indices.astype(np.intp), values.copy(), (d,))
    return atoms.DenseAtom(values.copy())


def _longer(atom: atoms.Atom, tail: Array) -> atoms.Atom:
    kind, indices, values = _entries(atom)
    d = atom.size + tail.size
    if kind != _DENSE and tail.any():
        kind, indices, values = _DENSE, np.arange(atom.size), atom.to_dense().ravel()
    if kind == _DENSE:
        values = np.concatenate([values, tail])
        indices = np.arange(d)
    return _atom(kind, indices, values.astype(np.float64), d)


def _taken_out(atom: atoms.Atom, new: NDArray[np.int64]) -> atoms.Atom:
    kind, indices, values = _entries(atom)
    to = new[indices]
    order = np.argsort(to, kind="stable")[np.count_nonzero(to < 0) :]
    if kind == _COORDINATE and not order.size:
        kind = _ZERO
    return _atom(kind, to[order], values[order].astype(np.float64), int(np.count_nonzero(new >= 0)))


def _shorter(atom: atoms.Atom, d: int) -> atoms.Atom:
    kind, indices, values = _entries(atom)
    return _atom(kind, indices[indices < d], values[indices < d], d)


def support(atom: atoms.Atom) -> NDArray[np.int64]:
    """The coordinates at which an atom may be other than 0."""
    if isinstance(atom, atoms.ZeroAtom):
        return np.zeros(0, dtype=np.int64)
    if isinstance(atom, atoms.CoordinateAtom):
        return np.array([atom.index])
    if isinstance(atom, atoms.SparseAtom):
        return atom.indices
    return np.arange(atom.size)


def atom_of(w: Array) -> atoms.Atom:
    """A point of the set as an atom of the active set; one of the set's own atoms where it is a signed coordinate."""
    used = np.flatnonzero(w)
    if used.size == 0:
        return atoms.ZeroAtom(w.shape)
    if used.size == 1:
        return atoms.CoordinateAtom(int(used[0]), float(w.flat[used[0]]), w.shape)
    return atoms.DenseAtom(w.copy())
