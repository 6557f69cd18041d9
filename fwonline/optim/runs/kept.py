"""What an array of an algorithm's own holds, so that it grows, shrinks, is saved and checked as the others are."""

from __future__ import annotations

import typing

import numpy as np

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BY_FEATURE", "PREVIOUS", "Kept", "Previous"]

BY_FEATURE = ("feature", "mark", "list", "place")


class Kept(typing.NamedTuple):
    """What an array of an algorithm's own holds.

    ``by`` is "feature", "sample" or "entry" (of the pool) for one number each; "mark" for 0 or 1 of a feature; "list"
    for coordinates, each once, and "place" for where in that list each coordinate stands, -1 for nowhere; "fixed" for
    what never changes its size; anything else for what the algorithm itself resizes and checks.
    """

    by: str
    columns: int = 0
    is_point: bool = False  # of the set, or near it: a feature that weighs something there is not given up
    on_dense: bool = False  # kept on sets of dense atoms alone
    follows: bool = False  # in a new feature it is where the iterate starts there
    size: int = 0

    def empty(self) -> NDArray:
        dtype = np.int64 if self.by in ("list", "place", "mark") else np.float64
        if self.by == "matrix":
            return np.zeros((0, 0))
        return np.zeros((self.size, self.columns) if self.columns else self.size, dtype)


class Previous(typing.NamedTuple):
    """The iterate before the last step, on sets whose atoms are dense; elsewhere that step's atom tells it."""

    old: NDArray


PREVIOUS = {"old": Kept("feature", is_point=True, on_dense=True)}
