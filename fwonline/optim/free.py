"""Models without a constraint: the ball that stands for the set they have not, and the one that their gaps are over."""

from __future__ import annotations

import typing

import numpy as np

from fwonline import sets

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RADIUS", "gap_set", "is_free"]

# Of the ball: no weight comes near it, and its products with what sums may hold stay numbers.
RADIUS = 1e40


def is_free(constraint: sets.ConvexSet) -> bool:
    """Whether a run's set stands for none."""
    return type(constraint) in (sets.L1Ball, sets.LInfBall) and typing.cast("typing.Any", constraint).radius == RADIUS


def gap_set(constraint: sets.ConvexSet, w: NDArray[np.float64]) -> sets.ConvexSet:
    """The set that a gap at w is taken over: where there is none, the l1 ball of twice the norm of w, of 1 at w = 0."""
    return sets.L1Ball(2.0 * float(np.abs(w).sum()) or 1.0) if is_free(constraint) else constraint
