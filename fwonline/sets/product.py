"""Products of sets."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from .atoms import Array, Atom, ProductAtom
from .base import ConvexSet, Shape
from .norm_balls import L2Ball
from .simplices import ProbabilitySimplex

__all__ = ["Product"]

Part = ConvexSet | tuple[ConvexSet, Shape]


class Product(ConvexSet):
    """The points whose stretches lie each in a set of its own.

    A point is one vector: the entries of the first part's point, then those of the second, and so on. The LMO, the
    projection and the point where learning starts are those of the parts, side by side; `violation` is the Euclidean
    length of the vector of the parts' violations, hence the distance where theirs are distances.

    Parameters
    ----------
    parts
        Sets, each alone where its parameters fix the shape of its points, otherwise with it: `(set, shape)`.

    Examples
    --------
    >>> from fwonline import sets
    >>> product = sets.Product([(sets.L1Ball(1.0), 2), sets.Box([0.0], [5.0])])
    >>> product
    Product(parts=[(L1Ball(radius=1.0), 2), Box(lower=[0.0], upper=[5.0])])
    >>> product.lmo([3.0, 1.0, -1.0]).to_dense()
    array([-1.,  0.,  5.])
    >>> product.project([3.0, 0.0, 7.0])
    array([1., 0., 5.])
    """

    def __init__(self, parts: Sequence[Part]):
        self.parts = parts
        if not isinstance(parts, list | tuple) or not parts:
            raise ValueError(f"Product: parts must be a list of one or more sets, got {parts!r}")
        self._parts = [self._checked_part(position, part) for position, part in enumerate(parts)]
        self._ends = np.cumsum([math.prod(shape) for _, shape in self._parts]).tolist()
        self._shape = (self._ends[-1],)

    _examples = ({"parts": [(L2Ball(1.0), 2), (ProbabilitySimplex(), 3)]},)

    @staticmethod
    def _checked_part(position: int, part: Part) -> tuple[ConvexSet, tuple[int, ...]]:
        member, shape = part if isinstance(part, tuple) and len(part) == 2 else (part, None)
        if not isinstance(member, ConvexSet):
            raise ValueError(f"Product: parts[{position}] must be a set or (set, shape), got {part!r}")  # noqa: TRY004
        try:
            return member, member._resolve_shape(shape)
        except (TypeError, ValueError) as error:
            raise ValueError(f"Product: parts[{position}]: {error}") from None

    def _split(self, x: Array) -> Iterator[tuple[ConvexSet, Array]]:
        start = 0
        for (member, shape), end in zip(self._parts, self._ends, strict=True):
            yield member, x[start:end].reshape(shape)
            start = end

    def _scale(self, shape: tuple[int, ...]) -> float:
        return max(member._scale(part_shape) for member, part_shape in self._parts)

    def _lmo(self, g: Array) -> Atom:
        return ProductAtom(tuple(member.lmo(part) for member, part in self._split(g)))

    def _violation(self, x: Array) -> float:
        return math.hypot(*(member.violation(part) for member, part in self._split(x)))

    @property
    def can_project(self) -> bool:
        return all(member.can_project for member, _ in self._parts)

    def _project(self, x: Array) -> Array:
        if not self.can_project:
            return super()._project(x)
        return np.concatenate([member.project(part).ravel() for member, part in self._split(x)])

    def _initial_point(self, shape: tuple[int, ...]) -> Array:
        return np.concatenate([member.initial_point(part_shape).ravel() for member, part_shape in self._parts])

    def diameter(self, shape: Shape | None = None) -> float:
        self._resolve_shape(shape)
        return math.hypot(*(member.diameter(part_shape) for member, part_shape in self._parts))
