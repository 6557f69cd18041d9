"""Times that can be compared: contenders take turns, and ratios are taken turn by turn."""

from __future__ import annotations

import contextlib
import gc
import time
import typing

import numpy as np

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Times", "interleaved", "stopwatch"]


class Times:
    """Seconds of each contender in each turn."""

    def __init__(self, seconds: dict[str, list[float]]):
        self.seconds = {name: np.array(values) for name, values in seconds.items()}

    def median(self, name: str) -> float:
        """Median over turns."""
        return float(np.median(self.seconds[name]))

    def ratio(self, name: str, other: str) -> float:
        """Median over turns of the time of ``name`` over that of ``other``: what slows a turn slows both."""
        return float(np.median(self.seconds[name] / self.seconds[other]))


def interleaved(contenders: dict[str, Callable[[], float]], repeats: int) -> Times:
    """Each contender runs once untimed, then ``repeats`` times in turn; it answers its own seconds."""
    for contender in contenders.values():
        contender()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, contender in contenders.items():
            seconds[name].append(contender())
    return Times(seconds)


@contextlib.contextmanager
def stopwatch() -> Iterator[Callable[[], float]]:
    """Seconds of the block, asked for after it; the garbage of others is collected before."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    end = 0.0
    start = time.perf_counter()
    try:
        yield lambda: end - start
    finally:
        end = time.perf_counter()
        if enabled:
            gc.enable()
