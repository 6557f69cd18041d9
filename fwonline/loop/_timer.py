"""When a report or a checkpoint is due."""

from __future__ import annotations

import math

__all__ = ["Timer"]


class Timer:
    """Says when something is due: every so many items, or seconds."""

    def __init__(self, seconds: float | None, items: int | None, default: float | None) -> None:
        self.seconds = default if seconds is None and items is None else seconds
        self.items = items
        self.next_n: float = math.inf
        self._next_time = math.inf

    def start(self, n: int, now: float) -> None:
        if self.items is not None:
            self.next_n = n - n % self.items + self.items
        if self.seconds is not None:
            self._next_time = now + self.seconds

    def is_due(self, n: int, now: float) -> bool:
        if n < self.next_n and now < self._next_time:
            return False
        self.start(n, now)
        return True
