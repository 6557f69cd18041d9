"""Numerical pieces shared by the sets, safe at 1e300 and 1e-300."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .atoms import Array

__all__ = [
    "array_of",
    "euclidean_norm",
    "flushed",
    "l1_norm",
    "largest_positions",
    "project_on_capped_simplex",
    "project_on_simplex",
    "relative_magnitudes",
    "unit_vector",
]


def array_of(owner: object, name: str, value: Any, expected: str = "an array of numbers") -> Array:
    """Return a parameter as a new array of floats.

    Raises
    ------
    ValueError
        Where it is none, or an entry is not finite.
    """
    what = f"{type(owner).__name__}: {name}"
    try:
        array = np.array(value, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        raise ValueError(f"{what} must be {expected}") from None
    if not np.isfinite(array).all():
        raise ValueError(f"{what} must be finite everywhere")
    return array


def unit_vector(x: Array) -> Array:
    """Return x / ||x||_2 for a non-zero x; dividing by the largest entry first keeps the squares in range."""
    scaled = x / np.abs(x).max()
    scaled /= math.sqrt(np.vdot(scaled, scaled))
    return scaled


def euclidean_norm(x: Array) -> float:
    """Return ||x||_2 without overflow or underflow on the way; infinite where an entry is."""
    largest = float(np.abs(x).max())
    if largest in (0.0, math.inf):
        return largest
    scaled = x / largest
    return largest * math.sqrt(np.vdot(scaled, scaled))


def flushed(x: Array) -> Array:
    """Return x with 0 for what is below 1e-150 of its largest entry.

    That is far below what a decomposition can tell from 0, and its square underflows: LAPACK's iterations may then not
    converge.
    """
    size = np.abs(x)
    tiny = size < 1e-150 * size.max(initial=0.0)
    return np.where(tiny, 0.0, x) if tiny.any() else x


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
    https://doi.org/10.1145/1390156.1390191
    """
    with np.errstate(over="ignore"):
        relative = x - x.max()
    candidates = np.sort(relative[relative > -radius])[::-1]
    excess = np.cumsum(candidates) - radius
    count = np.arange(1, candidates.size + 1)
    kept = int(np.flatnonzero(candidates * count > excess)[-1])
    return np.maximum(relative - excess[kept] / count[kept], 0.0)


def relative_magnitudes(x: Array) -> Array:
    """Return |x| as a vector, divided by its largest entry where that is not zero."""
    magnitudes = np.abs(x).ravel()
    largest = magnitudes.max()
    return magnitudes / largest if largest > 0 else magnitudes


def largest_positions(values: Array, count: int) -> npt.NDArray[np.intp]:
    """Return where the `count` largest entries are, ascending; among equals the lowest positions. O(d)."""
    if count >= values.size:
        return np.arange(values.size)
    threshold = np.partition(values, values.size - count)[values.size - count]
    above = np.flatnonzero(values > threshold)
    equal = np.flatnonzero(values == threshold)[: count - above.size]
    return np.sort(np.concatenate([above, equal]))


def project_on_capped_simplex(x: Array, count: int, cap: float) -> Array:
    """Return the nearest point of {0 <= p <= cap, sum p = count cap}, for a whole `count` of at most x.size.

    The point is clip(x - tau, 0, cap) for a tau within `cap` below the count-th largest entry. Relative to that entry,
    what is `cap` or more above becomes cap and what is `cap` or more below becomes 0; among the others the sum is a
    piecewise linear function of tau, known at its sorted breakpoints from cumulative sums. O(d + m log m) with m these
    others.
    """
    flat = x.ravel()
    pivot = np.partition(flat, flat.size - count)[flat.size - count]
    with np.errstate(over="ignore"):
        relative = x - pivot
    between = np.sort(relative[(relative > -cap) & (relative < cap)])
    total = cap * (count - int(np.count_nonzero(relative >= cap)))

    from_top = np.concatenate([np.cumsum(between[::-1])[::-1], [0.0]])

    def sum_above(tau: Array) -> Array:
        first = np.searchsorted(between, tau, side="right")
        return from_top[first] - tau * (between.size - first)

    breakpoints = np.unique(np.clip(np.concatenate([between, between - cap]), -cap, 0.0))
    sums = sum_above(breakpoints) - sum_above(breakpoints + cap)  # falls from at least `total` to less
    segment = max(int(np.count_nonzero(sums >= total)) - 1, 0)
    tau = breakpoints[segment : segment + 2].mean()
    # Who is capped and who falls with tau is the same throughout a segment, and safest to see from its middle.
    capped = between >= tau + cap
    falling = (between > tau) & ~capped
    if falling.any():
        rest = total - cap * np.count_nonzero(capped)
        tau = (between[falling].sum() - rest) / np.count_nonzero(falling)
    return np.clip(relative - tau, 0.0, cap)
