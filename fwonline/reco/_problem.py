"""What is asked of a completion, apart from the ratings."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

__all__ = ["Problem"]


@dataclasses.dataclass(frozen=True)
class Problem:
    """Radius of the nuclear ball (None: of the method's choice), box, smoothing and batch."""

    radius: float | None
    lower: float
    upper: float
    beta0: float
    batch: int

    @property
    def has_box(self) -> bool:
        """Whether there is a box at all."""
        return bool(np.isfinite(self.lower) or np.isfinite(self.upper))

    def outside(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """x less its projection on the box."""
        return x - np.clip(x, self.lower, self.upper)
