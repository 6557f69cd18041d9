"""Runs for losses that may be anything. Their constants hang on the set's diameter D and the longest gradient's G."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline._kernels.layout import DIAMETER, LIMIT, SET, SIMPLEX, STEEPEST, UNIT_SIMPLEX, part
from fwonline.optim.runs.run import Run, resized
from fwonline.optim.runs.stream_run import StreamRun

__all__ = ["RegretRun", "check_gradient_bound", "shortened"]


def check_gradient_bound(bound: float | None) -> None:
    """Raise unless a bound of gradients is None or a positive finite number."""
    if bound is not None and not 0.0 < bound < math.inf:
        raise ValueError(f"gradient_bound must be a positive finite number, or None, got {bound!r}")


@part
def shortened(num, norm):
    """What a gradient of this length is multiplied by: 1 unless it is longer than a bound that was given. G follows."""
    kept = min(norm, num[LIMIT])
    num[STEEPEST] = max(num[STEEPEST], kept)
    return kept / norm if norm > kept else 1.0


class RegretRun(StreamRun):
    """A run that knows D and G, and keeps a second point beside its iterate.

    Attributes
    ----------
    anchor
        The point where the run started, or the one that its iterate follows.
    """

    _by_feature = (*StreamRun._by_feature, "anchor")

    def __init__(self, optimizer: typing.Any, *args: typing.Any, **kwargs: typing.Any):
        self.anchor = np.zeros(0)
        super().__init__(optimizer, *args, **kwargs)
        bound = optimizer.gradient_bound
        self.num[STEEPEST] = 0.0 if bound is None else bound
        self.num[LIMIT] = math.inf if bound is None else bound
        self._measure()

    def _measure(self) -> None:
        shape = self.constraint.shape or self.n_features
        self.num[DIAMETER] = self.constraint.diameter(shape) if shape else 0.0

    def grow(self, ranks) -> None:
        d = self.n_features
        super().grow(ranks)
        self.anchor[d : self.n_features] = self.v[d : self.n_features]
        self._measure()

    def shrink(self, d: int) -> None:
        super().shrink(d)
        self.anchor[d:] = 0.0
        self._measure()

    def _taken_out(self, new, holes, movers) -> None:
        super()._taken_out(new, holes, movers)
        self._measure()

    def set_weights(self, x0) -> None:
        super().set_weights(x0)
        self.anchor[: self.n_features] = self.v[: self.n_features]

    def _resize(self, capacity: int) -> None:
        self.anchor = resized(self.anchor, capacity)

    def _check_scalars(self, fresh: Run) -> None:
        super()._check_scalars(fresh)
        self._check_num(LIMIT, fresh.num[LIMIT], fresh.num[LIMIT])
        self._check_num(STEEPEST, fresh.num[STEEPEST], min(fresh.num[LIMIT], 1e250))

    def _check_arrays(self) -> None:
        super()._check_arrays()
        self._check_coordinates("anchor")
        self._measure()

    def _check_old(self) -> None:
        # The iterate before the last step, which other runs on streams keep, is not kept here.
        self.old = np.zeros(0)

    @property
    def _is_outside(self) -> bool:
        """Whether the iterate is no point of the set yet."""
        w = self.v[: self.n_features]
        if self.cnt[SET] <= UNIT_SIMPLEX:
            return bool(self.cnt[SET] == SIMPLEX and not w.any())
        return not self.constraint.contains(w)
