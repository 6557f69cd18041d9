"""How much of a step's block of distances to take in, how far to step, how much to smooth."""

from __future__ import annotations

import typing

from fwonline.optim.schedules import EXACT, STOCHASTIC, momentum

__all__ = ["METHODS", "Method"]


class Method(typing.Protocol):
    """The schedules of one method; without state of its own."""

    def share(self, k: int) -> float:
        """Of step k's block in the gradient estimate."""

    def steps(self, k: int, beta0: float, unit: float) -> tuple[float, float]:
        """Step and smoothing of step number k = 1, 2, ...; `unit`: an entry of a partition over a mean distance."""


class Mean:
    """The running mean of the blocks, all unbiased for the same distances; the steps of HCGM.

    With the smoothing in its natural unit, neither the number of points nor the scale of features asks for another
    beta0.
    """

    def share(self, k: int) -> float:
        return 1.0 / k

    def steps(self, k: int, beta0: float, unit: float) -> tuple[float, float]:
        return EXACT.eta(k), EXACT.beta(k, beta0 * unit)


class Momentum:
    """Algorithm 1 of Locatello et al. 2019."""

    def share(self, k: int) -> float:
        return momentum(k)

    def steps(self, k: int, beta0: float, unit: float) -> tuple[float, float]:
        return STOCHASTIC.eta(k), STOCHASTIC.beta(k, beta0)


METHODS: dict[str, Method] = {"mean": Mean(), "shcgm": Momentum()}
