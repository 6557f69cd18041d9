"""What the runs share whose losses may be anything: the set's diameter D, and G, the longest gradient met."""

from __future__ import annotations

import math
import typing

from fwonline._kernels.entry import call
from fwonline._kernels.layout import GENERIC, SIMPLEX, part
from fwonline._kernels.steps import OUTSIDE

if typing.TYPE_CHECKING:
    from fwonline.optim.runs.run import Run

__all__ = ["begin", "is_outside", "measure", "shortened"]


def begin(run: Run) -> None:
    bound = run.optimizer.gradient_bound
    run.s.steepest = 0.0 if bound is None else bound
    run.s.limit = math.inf if bound is None else bound
    measure(run)


def measure(run: Run) -> None:
    """D, which grows with the features that are known."""
    shape = run.constraint.shape or run.n_features
    run.s.diameter = run.constraint.diameter(shape) if shape else 0.0


@part
def shortened(s, norm):
    """What a gradient of this length is multiplied by: 1 unless it is longer than a bound that was given. G follows."""
    kept = min(norm, s.limit)
    s.steepest = max(s.steepest, kept)
    return kept / norm if norm > kept else 1.0


@part
def is_outside(s, region):
    """Whether the iterate is no point of the set yet."""
    if region.kind == SIMPLEX:
        return s.w_sq == 0.0
    return region.kind == GENERIC and s.t == 0 and call(region.oracle, (OUTSIDE,)) != 0.0
