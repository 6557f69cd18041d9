"""The problem that a completion solves, apart from the ratings, and what both methods share."""

from __future__ import annotations

import dataclasses
import math
import typing

import numpy as np
from numpy.typing import NDArray

from fwonline import _loaded
from fwonline._kernels import lowrank
from fwonline._kernels.layout import LARGEST
from fwonline._room import WithScratch
from fwonline.reco._lmo import Oracle

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

    from fwonline.reco._merging import Part
    from fwonline.reco._ratings import Ratings

__all__ = ["MOST_RADIUS", "Iterate", "Problem"]

# What the ratings that there may be, of at most LARGEST each, can make of a radius.
MOST_RADIUS = LARGEST * 1e20


@dataclasses.dataclass(frozen=True)
class Problem:
    """Radius of the nuclear ball (None: of the method's choice), box, smoothing and size of a batch."""

    radius: float | None
    lower: float
    upper: float
    beta0: float
    batch_size: int

    @property
    def has_box(self) -> bool:
        """Whether there is a box at all."""
        return bool(np.isfinite(self.lower) or np.isfinite(self.upper))

    def box(self, weight: float) -> lowrank.Box:
        """The box, and what half the squared distance to it counts."""
        return lowrank.Box(self.lower, self.upper, weight)

    def outside(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """x less its projection on the box."""
        return x - np.clip(x, self.lower, self.upper)


class Iterate(WithScratch):
    """The matrix X of a completion, and its steps."""

    # Whether X is what mean and biases leave of the ratings.
    with_biases: bool

    def __init__(self) -> None:
        self.oracle = Oracle()
        self.seen = (0, 0)  # users and items of the last step
        self.steps = 0
        self.radius = 0.0
        self.gap = math.nan
        self.loss = math.nan

    def sees(self, row: int, col: int) -> bool:
        """Whether a step has seen the row and the column."""
        return row < self.seen[0] and col < self.seen[1]

    def value(self, row: int, col: int) -> float:
        """X[row, col] of a row and a column that the last step has seen."""
        raise NotImplementedError

    def values(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> NDArray[np.float64]:
        """X at many entries that the last step has seen."""
        raise NotImplementedError

    def rank_of(self) -> int:
        """The factors that X is held in, or its rank."""
        raise NotImplementedError

    def step(self, ratings: Ratings, problem: Problem, rng: np.random.Generator) -> None:
        """Take one step on the ratings that are stored."""
        raise NotImplementedError

    def make_room(self, m: int, n: int) -> None:
        """Make room for so many users and items.

        Raises
        ------
        MemoryError
            Where the machine has none; nothing is changed then.
        """
        raise NotImplementedError

    def mix(self, parts: Sequence[Part], ratings: Ratings, problem: Problem) -> None:
        """Become the sum of the parts, each weighed, inside the ball.

        `ratings` are those of all, and there is room for them.
        """
        raise NotImplementedError

    def check_loaded(self, ratings: Ratings, problem: Problem) -> None:
        """See that this is a state that steps on these ratings can lead to."""
        _loaded.like(self, type(self)(), "with_biases")
        _loaded.claim(self, "oracle")
        _loaded.instance(self, "oracle", Oracle)._check_loaded()
        steps, seen = _loaded.count(self, "steps"), self.seen
        is_pair = type(seen) is tuple and len(seen) == 2 and all(type(size) is int for size in seen)
        if not is_pair or not all(bool(steps) <= size <= most for size, most in zip(seen, ratings.shape, strict=True)):
            _loaded.fail(self, "seen", f"two numbers of at most {ratings.shape}", seen)
        _loaded.require(self.oracle, "v", self.oracle.v.size in (0, seen[1]), f"{seen[1]} entries")
        radius = _loaded.real(self, "radius", 0.0, MOST_RADIUS)
        if problem.radius is not None and steps:
            _loaded.require(self, "radius", radius == problem.radius, f"the radius given, {problem.radius}")
        for name in ("gap", "loss"):
            _loaded.real(self, name, nan=True, inf=True)
