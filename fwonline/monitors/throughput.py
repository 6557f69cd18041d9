"""Samples a second."""

from __future__ import annotations

import math
import time
from typing import Any

from fwonline.monitors.base import Monitor

__all__ = ["Throughput"]


class Throughput(Monitor):
    """Samples a second, since the start and of late.

    Time is counted from the first sample to the last, without the time between a checkpoint and the run that goes on
    from it. Reads the clock only.

    Parameters
    ----------
    interval
        Seconds over which the rate of late is taken, positive.

    Examples
    --------
    >>> from fwonline.monitors import Throughput
    >>> monitor = Throughput()
    >>> for _ in range(1000):
    ...     monitor.update()
    >>> monitor.get()["samples"], monitor.get()["samples_per_second_mean"] > 0
    (1000, True)
    """

    def __init__(self, interval: float = 1.0):
        if not interval > 0:
            raise ValueError(f"interval must be positive, not {interval}")
        self.interval = interval
        self._n = 0
        self._elapsed = 0.0
        self._rate: float | None = None
        self._marked_n = 0
        self._marked_at = 0.0
        self._clock: float | None = None  # None while it stands still

    def update(self, y_true: Any = None, y_pred: Any = None, *, x: dict | None = None, model: Any = None) -> None:
        self._count(1)

    def most_together(self) -> float:
        return 1 if self._clock is None else math.inf  # the time is that from the first sample

    def update_many(self, y_true: Any, y_pred: Any, *, model: Any = None) -> None:
        self._count(len(y_true))

    def _count(self, n: int) -> None:
        now = time.perf_counter()
        if self._clock is not None:
            self._elapsed += now - self._clock
        self._clock = now
        self._n += n
        if (passed := self._elapsed - self._marked_at) >= self.interval:
            self._rate = (self._n - self._marked_n) / passed
            self._marked_n, self._marked_at = self._n, self._elapsed

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_clock": None}

    def get(self) -> dict[str, float | int | None]:
        mean = (self._n - 1) / self._elapsed if self._elapsed > 0 else None
        return {
            "samples": self._n,
            "samples_per_second": mean if self._rate is None else self._rate,
            "samples_per_second_mean": mean,
        }

    def _text(self) -> str:
        rate = self.get()["samples_per_second"]
        return f"{self._n:,} samples" if rate is None else f"{self._n:,} samples, {rate:,.0f} a second"
