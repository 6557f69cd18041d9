"""Whether rows come in blocks: what source, model and monitors can."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fwonline._pipeline import final_estimator
from fwonline.loop._learner import Learner
from fwonline.loop.report import Road
from fwonline.monitors.base import Monitor
from fwonline.stream.base import Source

__all__ = ["road_of"]


def road_of(source: Source, learner: Learner, *, blocks: bool) -> Road:
    """Choose blocks where everything can, or say what cannot."""
    if not source.has_blocks:
        return Road(False, f"{type(source).__name__} has no blocks")
    if not blocks:
        return Road(False, "blocks = false")
    why = next(_obstacles(learner), None)
    return Road(True) if why is None else Road(False, why, is_slower=True)


def _obstacles(learner: Learner) -> Iterator[str]:
    if learner.ways.play_block is None:
        yield f"{type(final_estimator(learner.model)).__name__} {learner.ways.why_samples}"
    for monitor in learner.monitors:
        if not _takes_many(monitor):
            yield f"the monitor {type(monitor).__name__} looks at each sample"


def _takes_many(monitor: Any) -> bool:
    """Whether a monitor ever takes more than one sample at once."""
    if not isinstance(monitor, Monitor):
        return False
    return type(monitor).most_together is not Monitor.most_together
