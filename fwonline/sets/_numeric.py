"""Numerical pieces shared by the sets: safe at 1e300 and 1e-300, and checks of parameters."""

import math
import numbers
from typing import Any

import numpy as np

from .atoms import Array

__all__ = [
    "check_integer",
    "check_positive",
    "euclidean_norm",
    "l1_norm",
    "project_on_simplex",
    "unit_vector",
]


def check_positive(owner: object, name: str, value: Any) -> None:
    """Raise a ValueError unless `value` is a finite number > 0."""
    if not (_is_real(value) and 0 < value < math.inf):
        raise ValueError(f"{type(owner).__name__}: {name} must be a finite number > 0, got {value!r}")


def check_integer(owner: object, name: str, value: Any, at_least: int) -> None:
    """Raise a ValueError unless `value` is an integer no smaller than `at_least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < at_least:
        raise ValueError(f"{type(owner).__name__}: {name} must be an integer >= {at_least}, got {value!r}")


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def unit_vector(x: Array) -> Array:
    """Return x / ||x||_2 for a non-zero x; dividing by the largest entry first keeps the squares in range."""
    scaled = x / np.abs(x).max()
    scaled /= math.sqrt(np.vdot(scaled, scaled))
    return scaled


def euclidean_norm(x: Array) -> float:
    """Return ||x||_2 without overflow or underflow on the way."""
    largest = float(np.abs(x).max())
    if largest == 0.0:
        return 0.0
    scaled = x / largest
    return largest * math.sqrt(np.vdot(scaled, scaled))


def l1_norm(x: Array) -> float:
    """Return ||x||_1, infinite where the sum is beyond the largest float."""
    with np.errstate(over="ignore"):
        return float(np.abs(x).sum())


def project_on_simplex(x: Array, radius: float) -> Array:
    """Return the nearest point of {p >= 0, sum p = radius}.

    The point is max(x - tau, 0) for the one tau that makes it sum to the radius. Adding a constant to x does not change
    it, so x is taken relative to its largest entry: what lies more than `radius` below that entry becomes 0, and what
    is left is in (-radius, 0], whatever the magnitude of x. Sorting these few costs O(d + k log k).

    Duchi, Shalev-Shwartz, Singer, Chandra 2008, "Efficient projections onto the l1-ball for learning in high
    dimensions",
    https://doi.org/10.1145/1390156.1390176
    """
    with np.errstate(over="ignore"):
        relative = x - x.max()
    candidates = np.sort(relative[relative > -radius])[::-1]
    excess = np.cumsum(candidates) - radius
    count = np.arange(1, candidates.size + 1)
    kept = int(np.flatnonzero(candidates * count > excess)[-1])
    return np.maximum(relative - excess[kept] / count[kept], 0.0)
