"""What a step's block of distances says of all of them, how far to step, how much to smooth."""

from __future__ import annotations

import typing

from fwonline._kernels import partition
from fwonline.optim.schedules import EXACT, STOCHASTIC, momentum

if typing.TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fwonline.cluster._relaxation import Relaxation

__all__ = ["METHODS", "Method"]


class Method(typing.Protocol):
    """One way; without state of its own."""

    def see(self, state: Relaxation, chosen: NDArray[np.integer]) -> None:
        """Take the distances of the chosen points into the estimate of all."""

    def steps(self, k: int, beta0: float, unit: float) -> tuple[float, float]:
        """Step and smoothing of step number k = 1, 2, ...; `unit`: an entry of a partition over a mean distance."""

    def weight(self, n: int) -> float:
        """What the smoothed X >= 0 counts, where X 1 = 1 counts 1, for n points."""


class Mean:
    """The mean of what was seen of each pair, which is its distance, and 0 for a pair not seen; the steps of HCGM.

    A running mean of blocks scaled to be unbiased would weigh a pair by how often it was drawn, and blur the distances
    that a point brings along when it enters.
    With the smoothing in its natural unit, neither the number of points nor the scale of features asks for another
    beta0.
    """

    def see(self, state: Relaxation, chosen: NDArray[np.integer]) -> None:
        partition.add_block(state.d, chosen, state.points, 0.0, 1.0)

    def steps(self, k: int, beta0: float, unit: float) -> tuple[float, float]:
        return EXACT.eta(k), EXACT.beta(k, beta0 * unit)

    def weight(self, n: int) -> float:
        return 1.0


class Momentum:
    """Algorithm 1 of Locatello et al. 2019, on blocks scaled to be unbiased.

    X >= 0 counts n times, as in the authors' experiment: the squared norm of X -> X 1 is n, that of X -> X is 1, and
    both constraints are then smoothed alike. (`Mean` does without: its distances are exact, and beta is small enough.)
    """

    def see(self, state: Relaxation, chosen: NDArray[np.integer]) -> None:
        n, size, rho = state.n, chosen.size, momentum(state.steps + 1)
        state.fade(1.0 - rho)
        unbiased = n * (n - 1) / (size * (size - 1))
        partition.add_block(state.d, chosen, state.points, 1.0, rho * unbiased / state.d_scale)

    def steps(self, k: int, beta0: float, unit: float) -> tuple[float, float]:
        return STOCHASTIC.eta(k), STOCHASTIC.beta(k, beta0)

    def weight(self, n: int) -> float:
        return float(n)


METHODS: dict[str, Method] = {"mean": Mean(), "shcgm": Momentum()}
