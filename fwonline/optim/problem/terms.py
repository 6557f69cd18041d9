"""The terms of a composite objective: constraints by projections, penalties by their prox."""

from __future__ import annotations

import math
import typing

import numpy as np
from river import base

from fwonline._checks import is_real

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = ["Equals", "L1Penalty", "NonNegative", "Term"]


class NonNegative(base.Base):
    """The cone of arrays without a negative entry, for a :class:`Term`; it is no bounded set."""

    def project(self, x: Array) -> Array:
        return np.maximum(x, 0.0)


class Equals(base.Base):
    """The set of one point, for a :class:`Term`: the constraint A x = value.

    Parameters
    ----------
    value
        A number or an array of the shape of A x.
    """

    def __init__(self, value: ArrayLike):
        if not np.isfinite(np.asarray(value, dtype=np.float64)).all():
            raise ValueError(f"value must be finite, got {value!r}")
        self.value = value

    def project(self, x: Array) -> Array:
        return np.broadcast_to(np.asarray(self.value, dtype=np.float64), x.shape)


class L1Penalty(base.Base):
    """weight * ||z||_1, for a :class:`Term`: a Lipschitz function, whose prox thresholds.

    Parameters
    ----------
    weight
        Finite, > 0.
    """

    def __init__(self, weight: float):
        if not (is_real(weight) and 0.0 < weight < math.inf):
            raise ValueError(f"weight must be a finite number > 0, got {weight!r}")
        self.weight = weight

    def __call__(self, z: Array) -> float:
        return self.weight * float(np.abs(z).sum())

    def prox(self, z: Array, beta: float) -> Array:
        return np.sign(z) * np.maximum(np.abs(z) - beta * self.weight, 0.0)


class Term(base.Base):
    """One term g(A x + b) of a composite objective.

    Parameters
    ----------
    g
        A set of this library, or any object with ``project(z)``: the constraint A x + b in g. Or a function with
        ``prox(z, beta)``, the point that minimises g(u) + ||z - u||^2 / (2 beta), and ``__call__(z)``.
    forward, adjoint
        The linear map A and its adjoint, as functions of an array; both or neither. By default the identity.
    offset
        b, of the shape of A x.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> rows_sum_to_one = optim.Term(
    ...     optim.Equals(1.0), forward=lambda x: x.sum(axis=1), adjoint=lambda z: np.tile(z, (len(z), 1)).T
    ... )
    >>> rows_sum_to_one.distance(np.eye(3))
    0.0
    >>> optim.Term(sets.L1Ball(1.0)).distance(np.array([3.0, 0.0]))
    2.0
    """

    def __init__(
        self,
        g: typing.Any,
        forward: Callable[[Array], Array] | None = None,
        adjoint: Callable[[Array], Array] | None = None,
        offset: ArrayLike | None = None,
    ):
        if not (hasattr(g, "prox") or getattr(g, "can_project", hasattr(g, "project"))):
            raise TypeError(f"g must be a set that can project or a function with a prox, got {g!r}")
        if (forward is None) != (adjoint is None):
            raise ValueError("give forward and adjoint both, or neither for the identity")
        self.g = g
        self.forward = forward
        self.adjoint = adjoint
        self.offset = offset

    @classmethod
    def _unit_test_params(cls) -> typing.Iterator[dict]:
        yield {"g": NonNegative()}

    @property
    def is_constraint(self) -> bool:
        """Whether g is a set."""
        return not hasattr(self.g, "prox")

    def image(self, x: Array) -> Array:
        """Return A x + b."""
        z = x if self.forward is None else self.forward(x)
        return z if self.offset is None else z + np.asarray(self.offset, dtype=np.float64)

    def prox(self, z: Array, beta: float) -> Array:
        """Return prox_{beta g}(z)."""
        return self.g.project(z) if self.is_constraint else self.g.prox(z, beta)

    def smoothed_gradient(self, x: Array, beta: float, dual: Array | None = None) -> Array:
        """Return the gradient of g_beta(A x + b) in x; with a dual y that of g_beta(A x + b + beta y)."""
        z = self.image(x)
        if dual is not None:
            z = z + beta * dual
        y = (z - self.prox(z, beta)) / beta
        return y if self.adjoint is None else self.adjoint(y)

    def residual(self, x: Array, beta: float, dual: Array) -> Array:
        """Return by how much A x + b misses the projection of A x + b + beta y: where a dual y is to go."""
        z = self.image(x)
        return z - self.g.project(z + beta * dual)

    def distance(self, x: Array) -> float:
        """Return the distance of A x + b to the set; 0.0 where g is a function."""
        if not self.is_constraint:
            return 0.0
        z = self.image(x)
        return float(np.linalg.norm(z - self.g.project(z)))

    def value(self, x: Array) -> float:
        """Return g(A x + b) where g is a function; the indicator of a set counts 0."""
        return 0.0 if self.is_constraint else float(self.g(self.image(x)))
