"""A step of ``SHCGMCovariance`` beside a literal numpy version, the bytes it must move, and river."""

from __future__ import annotations

import typing

import numpy as np
from river import covariance as river_covariance
from scipy.sparse.linalg import eigsh

from fwonline import covariance, datasets
from tools.bench.clock import stopwatch
from tools.bench.report import Comparison, Settings, Table, duration, faster, within

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["Literal", "run"]


def project_l1(x: NDArray, radius: float) -> NDArray:
    """All entries onto the l1 ball, by sorting them."""
    sizes = np.abs(x).ravel()
    if sizes.sum() <= radius:
        return x
    sizes[::-1].sort()
    excess = np.cumsum(sizes) - radius
    last = np.flatnonzero(sizes * np.arange(1, sizes.size + 1) > excess)[-1]
    return np.sign(x) * np.maximum(np.abs(x) - excess[last] / (last + 1), 0.0)


class Literal:
    """The default method in dense numpy, as one writes it down; the LMO by scipy's eigsh to 1e-6."""

    def __init__(self, n: int, trace: float, l1: float):
        self.X, self.S = np.zeros((n, n)), np.zeros((n, n))
        self.trace, self.l1 = trace, l1
        self.k = 0

    def update(self, w: NDArray) -> None:
        self.k = k = self.k + 1
        self.S += (np.outer(w, w) - self.S) / k
        beta = 3.0 / np.sqrt(k + 1)
        V = self.X - self.S + (self.X - project_l1(self.X, self.l1)) / beta
        value, vector = eigsh(V, 1, which="SA", tol=1e-6)
        atom = self.trace * np.outer(vector, vector) if value[0] < 0 else 0.0
        self.X += 2.0 / (k + 1) * (atom - self.X)


def _against_literal(n: int, warm: int, count: int) -> tuple[float, float, float]:
    """Median seconds of a step, ours and the literal version's, in turns; and our products a step."""
    stream = datasets.BlockCovariance(n_features=n, n_blocks=10, seed=0)
    X = stream.to_arrays(warm + count)[0]
    trace, l1 = float(np.trace(stream.covariance)), float(np.abs(stream.covariance).sum())
    ours = covariance.SHCGMCovariance(trace, l1, center=False, seed=0)
    ours.learn_arrays(X[:warm])
    literal = Literal(n, trace, l1)
    # It takes over our state: its own first steps would take longer than the whole measurement.
    literal.X, literal.S, literal.k = ours.to_numpy(), X[:warm].T @ X[:warm] / warm, warm
    products = ours.n_products
    times: tuple[list[float], list[float]] = ([], [])
    for w in X[warm:]:
        with stopwatch() as seconds:
            ours.learn_arrays(w[None])
        times[0].append(seconds())
        with stopwatch() as seconds:
            literal.update(w)
        times[1].append(seconds())
    return float(np.median(times[0])), float(np.median(times[1])), (ours.n_products - products) / count


def _bandwidth(size: int) -> float:
    """Bytes a second that one core reads, multiplying an array of that many bytes with itself."""
    array = np.ones(max(size // 8, 1))
    best = np.inf
    for _ in range(20):
        with stopwatch() as seconds:
            array @ array
        best = min(best, seconds())
    return array.nbytes / best


def _against_river(n: int, count: int) -> tuple[float, float]:
    """Seconds of one ``update(x)``, ours and river's; both have seen the features."""
    samples = [x for x, _ in datasets.BlockCovariance(n_features=n, n_blocks=10, seed=0).take(count + 20)]
    ours, theirs = covariance.SHCGMCovariance(seed=0), river_covariance.EmpiricalCovariance()
    for x in samples[:20]:
        ours.update(x)
    theirs.update(samples[0])
    with stopwatch() as seconds:
        for x in samples[20:]:
            ours.update(x)
    mine = seconds() / count
    few = samples[20 : 20 + max(2, count // 20)]
    with stopwatch() as seconds:
        for x in few:
            theirs.update(x)
    return mine, seconds() / len(few)


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """Steps at three sizes, the memory floor at n = 1000, and updates by dicts."""
    rows = []
    sizes = ((60, 20, 5),) if settings.quick else ((300, 200, 40), (1000, 100, 15), (2000, 60, 7))
    for n, warm, count in sizes:
        mine, theirs, products = _against_literal(n, warm, count)
        yield faster(
            f"covariance step, n = {n}",
            mine,
            "numpy, eigsh 1e-6",
            theirs,
            theirs / mine,
            None if settings.quick else 7.0,
        )
        # Triangles read or written: S updated (2), one Newton pass of two (1.5), gradient (3), products, X moved (2).
        passes = 2 + 1.5 + 3 + (products - 1) + 2
        triangle = 8 * n * (n + 1) // 2
        floor = passes * triangle / _bandwidth(triangle)
        if n == 1000:
            yield within(f"covariance step, n = {n}", mine, f"{passes:.1f} triangles moved", floor, mine / floor, 1.5)
        rows.append((n, duration(mine), duration(theirs), f"{products:.1f}", f"{passes:.1f}", duration(floor)))
    for n, count, wanted in ((20, 40, None),) if settings.quick else ((100, 400, 3.0), (300, 100, 30.0)):
        mine, theirs = _against_river(n, count)
        yield faster(
            f"covariance update(x), {n} features", mine, "river, no constraints", theirs, theirs / mine, wanted
        )
    yield Table(
        "covariance: cost against n",
        ("n", "our step", "literal step", "products", "triangles moved", "at one core's bandwidth"),
        rows,
        (
            "block covariance, trace and l1 norm of the truth, method mean; medians, ours and the literal in turns",
            "bandwidth: that of a triangle's product with itself; small triangles stay in cache in both",
        ),
    )
