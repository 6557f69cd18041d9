"""What is asked of a completion, apart from the ratings."""

from __future__ import annotations

import dataclasses
import typing

import numpy as np
from numpy.typing import NDArray

from fwonline import _loaded

__all__ = ["Problem", "check_seen"]


@dataclasses.dataclass(frozen=True)
class Problem:
    """Radius of the nuclear ball (None: of the method's choice), box, smoothing and batch."""

    radius: float | None
    lower: float
    upper: float
    beta0: float
    batch_size: int

    @property
    def has_box(self) -> bool:
        """Whether there is a box at all."""
        return bool(np.isfinite(self.lower) or np.isfinite(self.upper))

    def outside(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """x less its projection on the box."""
        return x - np.clip(x, self.lower, self.upper)


def check_seen(state: typing.Any, shape: tuple[int, int], has_stepped: bool) -> None:
    """See that a loaded state's last step has seen some of the users and items that there are."""
    seen = state.seen
    is_pair = type(seen) is tuple and len(seen) == 2 and all(type(size) is int for size in seen)
    least = 1 if has_stepped else 0
    if not is_pair or not all(least <= size <= most for size, most in zip(seen, shape, strict=True)):
        _loaded.fail(state, "seen", f"two numbers of at most {shape}", seen)
    _loaded.require(state.oracle, "v", state.oracle.v.size in (0, seen[1]), f"{seen[1]} entries")
