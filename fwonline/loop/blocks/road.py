"""Whether rows come in blocks: what source, model and monitors can."""

from __future__ import annotations

from typing import Any

from fwonline._pipeline import final_estimator
from fwonline._protocols import SupportsPlayBlock
from fwonline.loop._learner import Learner
from fwonline.loop.report import Road
from fwonline.monitors.base import Monitor
from fwonline.stream.base import Source

__all__ = ["take_road"]

# What a class of a user's may do in its own way for samples, of which blocks would know nothing.
_OF_SAMPLES = {"learn_one", "play_one", "play_proba_one", "predict_one", "predict_proba_one"}


def take_road(source: Source, learner: Learner, *, blocks: bool) -> Road:
    """Let a learner play blocks where everything can; else say what cannot."""
    learner.player = None
    if not source.has_blocks:
        return Road(False, f"{type(source).__name__} yields these rows so")
    if not blocks:
        return Road(False, "blocks = false")
    from fwonline._compiled import compiled  # not before it is known that there are blocks: it loads kernels

    player = compiled(learner.model)
    why = _obstacle(learner.model, player)
    for monitor in learner.monitors:
        if why is None and not _takes_many(monitor):
            why = f"the monitor {type(monitor).__name__} looks at each sample"
    if why is not None:
        return Road(False, why, is_slower=True)
    learner.player = player
    return Road(True)


def _obstacle(model: Any, player: SupportsPlayBlock | None) -> str | None:
    """Why nothing plays blocks just as a model plays samples; None where its player does."""
    if player is None:
        return f"{type(final_estimator(model)).__name__} learns samples one by one"
    for cls in type(player).__mro__:
        if "play_block" in vars(cls) or cls.__module__.startswith("fwonline."):
            break
        if redefined := _OF_SAMPLES & vars(cls).keys():
            return f"{cls.__name__} has a {min(redefined)} of its own, which no block goes through"
    return player.play_reason


def _takes_many(monitor: Any) -> bool:
    """Whether a monitor ever takes more than one sample at once."""
    return isinstance(monitor, Monitor) and type(monitor).most_together is not Monitor.most_together
