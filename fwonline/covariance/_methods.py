"""What is known of the gradient, and how far to step: the two ways in which the covariance is estimated.

The objective is f(X) = E ||X - w w^T||^2 / 2, so a sample's gradient is X - w w^T. Each method keeps one packed matrix
M and reads the gradient off as `of_x X + of_m M`.
"""

from __future__ import annotations

import math
import typing

from fwonline._kernels import symmetric
from fwonline.optim.schedules import EXACT, STOCHASTIC, momentum

if typing.TYPE_CHECKING:
    from fwonline.covariance._state import State

__all__ = ["METHODS", "Method"]

# An empirical covariance of independent features is noise of standard deviation sqrt(s_ii s_jj / samples); beyond so
# many of them an entry is taken for true. Without the others the l1 norm was within 2% of the truth's on simulated
# block covariances, n = 30 to 300, from 100 samples on; with them 4% to 40% above.
# Its square is no integer: perfectly correlated features stand exactly on such a bar at some number of samples.
CLEAR = 2.9


class Method(typing.Protocol):
    """One way; without state of its own."""

    of_x: float
    of_m: float
    knows_moment: bool  # whether M is the second moment of what was seen
    beta0: float  # the smoothing where none is given
    rank: int  # of the terms added, where none is given

    def enter(self, state: State, share: float, weight: float) -> None:
        """Take the deviation `state.delta` into M, as `weight` of the second moment of which it makes up `share`."""

    def steps(self, k: int, beta0: float) -> tuple[float, float]:
        """Step and smoothing of step number k = 1, 2, ..."""


class Mean:
    """The exact gradient of the running mean objective, X - S with S the second moment so far; the steps of HCGM."""

    of_x, of_m = 1.0, -1.0
    knows_moment = True
    beta0 = 3.0
    rank = 16

    def enter(self, state: State, share: float, weight: float) -> None:
        # S_k = (1 - a) S_{k-1} + a (1 - a) delta delta^T about running means; a delta delta^T about 0
        state.empirical_l1, state.clear_l1 = symmetric.moment(
            state.m, state.n, 1.0 - share, weight, state.delta, state.image, CLEAR * math.sqrt(share)
        )

    def steps(self, k: int, beta0: float) -> tuple[float, float]:
        return EXACT.eta(k), EXACT.beta(k, beta0)


class Momentum:
    """The paper's gradient estimate, d_k = (1 - rho_k) d_{k-1} + rho_k (X_k - w w^T) with rho_k = 4 / (k + 7)^(2/3)."""

    of_x, of_m = 0.0, 1.0
    knows_moment = False
    beta0 = 1.0
    rank = 1

    def enter(self, state: State, share: float, weight: float) -> None:
        rho = momentum(state.next_step)
        # X stays where it is until the batch is full: its share enters d with the batch's first sample.
        first = state.waiting == 0
        keep, of_x = (1.0 - rho, rho) if first else (1.0, 0.0)
        unbiased = weight / share  # about running means the k-th deviation is k / (k - 1) times too large, squared
        symmetric.blend(state.m, state.x, state.n, keep, of_x, -rho * unbiased / state.batch_size, state.delta)

    def steps(self, k: int, beta0: float) -> tuple[float, float]:
        return STOCHASTIC.eta(k), STOCHASTIC.beta(k, beta0)


METHODS: dict[str, Method] = {"mean": Mean(), "shcgm": Momentum()}
