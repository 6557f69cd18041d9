"""A warning where a set is so large that the steps of an optimizer, which go to its points, overshoot."""

from __future__ import annotations

import math
import typing
import warnings

import numpy as np

from fwonline import losses

if typing.TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["RadiusWatch", "loss_of_zeros", "watch"]

SAMPLES = 500  # after which it looks, once
MARGIN = 10.0  # how many times the loss of a model of zeros is too much


class RadiusWatch:
    """The targets of a model's first samples: by them it is compared with a model of zeros, once."""

    def __init__(self) -> None:
        self._targets: list[float] = []

    @property
    def missing(self) -> int:
        """How many more are asked for."""
        return SAMPLES - len(self._targets)

    def note(self, targets: Iterable[float]) -> bool:
        """Take targets that were learned; whether they are enough."""
        self._targets.extend(targets)
        return len(self._targets) >= SAMPLES

    def compare(self, model: typing.Any) -> None:
        """Warn where the model has lost far more than one of zeros would have."""
        n, loss, constraint = len(self._targets), model.fitted_loss, model.constraint
        if constraint is None or n != model._run.s.seen or not constraint.contains(np.zeros_like(model._run.point)):
            return
        zeros = model._loss_of_zeros(np.array(self._targets)) / n
        lost = model.cumulative_loss / n
        if 0.0 < zeros < math.inf and not lost <= MARGIN * zeros:
            warnings.warn(
                f"over its first {n:,} samples the model has lost {lost:.3g} a sample by {type(loss).__name__}, where "
                f"weights of 0 lose {zeros:.3g}: {constraint} is too large for {model._run.optimizer}, whose steps are "
                "as long as the set is wide. Take a smaller radius, a tenth or less, or features of one scale; or give "
                "no optimizer: the default minds neither, and needs no radius (constraint=None)",
                stacklevel=5,
            )


def watch(model: typing.Any, targets: Iterable[float]) -> None:
    """Let a model's first samples tell whether its set is far too large."""
    watching = model._run.watch
    if watching is not None and watching.note(targets):
        model._run.watch = None
        watching.compare(model)


def loss_of_zeros(loss: typing.Any, targets: np.ndarray) -> float:
    """What a prediction of 0 loses on these targets; NaN for a loss that is a Python object."""
    if not losses.is_known(loss):
        return math.nan
    return float(losses.vector_loss(loss)[0](targets, np.zeros_like(targets)).sum())
