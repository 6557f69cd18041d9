"""Steps of ``SHCGMKMeans`` beside a literal numpy and scipy version."""

from __future__ import annotations

import math
import typing

import numpy as np
from scipy.sparse.linalg import eigsh

from fwonline import cluster
from tools.bench.clock import interleaved, stopwatch
from tools.bench.report import Comparison, Settings, Table, faster

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["Literal", "run"]


class Literal:
    """Algorithm 1 on Peng and Wei's relaxation, every matrix dense, the eigenvector from ARPACK to 1e-6."""

    def __init__(self, points: NDArray, n_clusters: int, batch_size: int):
        self.points, self.n_clusters, self.batch_size = points, n_clusters, batch_size
        self.rng = np.random.default_rng(0)
        self.X, self.d = np.zeros((len(points), len(points))), np.zeros((len(points), len(points)))
        self.k = 0

    def step(self) -> None:
        self.k += 1
        k, n, s = self.k, len(self.points), self.batch_size
        eta, beta, rho = 9.0 / (k + 8), 1.0 / math.sqrt(k + 8), 4.0 / (k + 7) ** (2.0 / 3.0)
        chosen = self.rng.choice(n, s, replace=False)
        P = self.points[chosen]
        block = np.zeros_like(self.d)
        block[np.ix_(chosen, chosen)] = n * (n - 1) / (s * (s - 1)) * ((P[:, None] - P) ** 2).sum(axis=-1)
        self.d = (1.0 - rho) * self.d + rho * block
        rest = (self.X.sum(axis=1) - 1.0) / 2.0
        V = self.d + (n * np.minimum(self.X, 0.0) + rest[:, None] + rest) / beta
        v = eigsh(V, 1, which="SA", tol=1e-6)[1][:, 0]
        self.X += eta * (self.n_clusters * np.outer(v, v) - self.X)


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """Both methods, after ten steps."""
    n, clusters, batch_size = (120, 4, 20) if settings.quick else (1000, 10, 100)
    steps, theirs, repeats = (3, 3, 2) if settings.quick else (200, 10, 5)
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((clusters, 10))
    points = 0.3 * (centres[rng.integers(clusters, size=n)] + 0.3 * rng.standard_normal((n, 10)))

    def ours(method: str) -> Callable[[], float]:
        def contend() -> float:
            model = cluster.SHCGMKMeans(clusters, method=method, n_points=n, batch_size=batch_size, seed=0)
            model.store(points)
            model.advance(10)
            with stopwatch() as seconds:
                model.advance(steps)
            return seconds() / steps

        return contend

    def literal() -> float:
        peer = Literal(points, clusters, batch_size)
        for _ in range(10):
            peer.step()
        with stopwatch() as seconds:
            for _ in range(theirs):
                peer.step()
        return seconds() / theirs

    name = "literal numpy and eigsh"
    times = interleaved({"shcgm": ours("shcgm"), "mean": ours("mean"), name: literal}, repeats)
    for method in ("shcgm", "mean"):
        yield faster(
            f"k-means step, n = {n}, {method}",
            times.median(method), name, times.median(name), times.ratio(name, method), 8.0,
        )  # fmt: skip
    yield Table(
        "k-means: setting",
        ("points", "features", "clusters", "batch", "steps timed", "repeats"),
        [(n, 10, clusters, batch_size, f"11 to {10 + steps}; literal: to {10 + theirs}", repeats)],
        (
            "points about normal centres, seed 0; one rounding is in our times, none in the literal version's",
            "the literal version is the paper's method; the eigenvector's residual: 1e-6 there, 0.1 sqrt(step) here",
        ),
    )
