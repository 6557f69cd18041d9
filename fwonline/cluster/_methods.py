"""The two methods: an estimate of all distances from those that a step sees, and the step that both take."""

from __future__ import annotations

import dataclasses
import math
import typing

import numpy as np

from fwonline._kernels import lanczos
from fwonline._kernels.entry import Direct
from fwonline.cluster import _partition as partition
from fwonline.optim.schedules import EXACT, STOCHASTIC, Homotopy, momentum

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    from fwonline.cluster._relaxation import Relaxation

__all__ = ["METHODS", "Mean", "Method", "Momentum"]

# Products that one linear minimisation may take.
_MOST_PRODUCTS = 400
# The eigenvector's residual relative to its eigenvalue falls with the step: so much times its square root.
_TOLERANCE = 0.1

_combine, _lowest = Direct(partition.combine), Direct(lanczos.lowest)


@dataclasses.dataclass(frozen=True)
class Method:
    """The parameters of a clustering's steps, and the step."""

    batch_size: int
    beta0: float

    homotopy: typing.ClassVar[Homotopy]

    def _see(self, relaxation: Relaxation, chosen: NDArray[np.integer]) -> None:
        """Take the distances of the chosen points into the estimate of all."""
        raise NotImplementedError

    def _unit(self, relaxation: Relaxation) -> float:
        """The unit of `beta0`."""
        raise NotImplementedError

    def _weight(self, n: int) -> float:
        """What the smoothed X >= 0 counts, where X 1 = 1 counts 1, for n points."""
        raise NotImplementedError

    def step(self, relaxation: Relaxation) -> None:
        """See the distances of a batch of points, and take a step."""
        r = relaxation
        n, k, space = r.n, r.steps + 1, r.space
        eta, beta = self.homotopy.eta(k), self.homotopy.beta(k, self.beta0 * self._unit(r))
        self._see(r, np.sort(r.rng.choice(n, min(self.batch_size, n), replace=False)))
        start = space.basis[0]
        noise = r.rng.standard_normal(n)
        start[:n] = 0.5 / math.sqrt(noise @ noise) * noise + r.v[:n]
        start[:n] /= math.sqrt(start[:n] @ start[:n])
        # v = D + (weight min(X, 0) + the symmetric part of (X 1 - 1) 1^T) / beta
        a = (r.sums[:n] - 1.0) / (2.0 * beta)
        weights = partition.Weights(r.x_scale, r.d_scale, self._weight(n) / beta)
        inner = _combine(None, r.g, r.x, r.d, n, weights, a, start, space.image)
        theta, residual, products = _lowest(None, r.g, n, space, _TOLERANCE * math.sqrt(eta), _MOST_PRODUCTS)
        r.gap = inner - r.n_clusters * theta
        r.lmo_error = r.n_clusters * residual
        r.products += products
        r.move(eta, space.basis[0, :n])


class Mean(Method):
    """The mean of what was seen of each pair, which is its distance, and 0 for a pair not seen; the steps of HCGM.

    A running mean of blocks scaled to be unbiased would weigh a pair by how often it was drawn, and blur the distances
    that a point brings along when it enters.
    With the smoothing in its natural unit, an entry of a partition into equal parts over the mean distance of two
    points, neither the number of points nor the scale of features changes which beta0 is good.
    """

    homotopy = EXACT

    def _see(self, relaxation: Relaxation, chosen: NDArray[np.integer]) -> None:
        partition.add_block(relaxation.d, chosen, relaxation.points, 0.0, 1.0)

    def _unit(self, relaxation: Relaxation) -> float:
        n = relaxation.n
        points = relaxation.points[:n]
        mean = 2.0 * float(((points - points.mean(axis=0)) ** 2).sum()) / (n - 1)
        return relaxation.n_clusters / (n * mean) if mean > 0.0 else 1.0

    def _weight(self, n: int) -> float:
        return 1.0


class Momentum(Method):
    """Algorithm 1 of Locatello et al. 2019, on blocks scaled to be unbiased.

    X >= 0 counts n times, as in the authors' experiment: the squared norm of X -> X 1 is n, that of X -> X is 1, and
    both constraints are then smoothed alike. (`Mean` does without: its distances are exact, and beta is small enough.)
    """

    homotopy = STOCHASTIC

    def _see(self, relaxation: Relaxation, chosen: NDArray[np.integer]) -> None:
        n, size, rho = relaxation.n, chosen.size, momentum(relaxation.steps + 1)
        relaxation.fade(1.0 - rho)
        unbiased = n * (n - 1) / (size * (size - 1))
        partition.add_block(relaxation.d, chosen, relaxation.points, 1.0, rho * unbiased / relaxation.d_scale)

    def _unit(self, relaxation: Relaxation) -> float:
        return 1.0

    def _weight(self, n: int) -> float:
        return float(n)


METHODS: dict[str, type[Method]] = {"mean": Mean, "shcgm": Momentum}
