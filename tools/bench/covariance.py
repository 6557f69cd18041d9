"""A step of ``SHCGMCovariance`` beside a literal numpy version, the bytes it must move, and river."""

from __future__ import annotations

import dataclasses
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

__all__ = ["Literal", "Step", "run", "step"]


_TURN = 5


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
    """The method "mean" of rank 1 in dense numpy, as one writes it down; the LMO by scipy's eigsh to 1e-6."""

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


@dataclasses.dataclass(frozen=True)
class Step:
    """Medians over turns of a step at one n, all versions on the same stream: seconds, and what ours move."""

    n: int
    vertex: float  # ours, rank=1: the literal version's algorithm
    block: float  # ours, the default
    dual: float  # ours, the default with dual=True
    single: float  # ours, the default with dtype="float32"
    literal: float
    products: float  # of rank=1
    rounds: float  # of Newton's method for the l1 threshold

    @property
    def triangles(self) -> float:
        """Triangles that the step of rank 1 reads or writes: S updated (2), Newton's, gradient (3), products, X (2)."""
        return 2 + self.rounds + 3 + (self.products - 1) + 2


def step(n: int, warm: int, count: int) -> Step:
    """Time a step at n features, after ``warm`` of them."""
    stream = datasets.BlockCovariance(n_features=n, n_blocks=10, seed=0)
    X = stream.to_arrays(warm + count + 3)[0]
    trace, l1 = float(np.trace(stream.covariance)), float(np.abs(stream.covariance).sum())
    ours = [
        covariance.SHCGMCovariance(trace, l1, center=False, seed=0, **settings)
        for settings in ({"rank": 1}, {}, {"dual": True}, {"dtype": "float32"})
    ]
    for model in ours:
        model.learn_arrays(X[:warm])
    vertex = ours[0]
    literal = Literal(n, trace, l1)
    # It takes over our state: its own first steps would take longer than the whole measurement.
    literal.X, literal.S, literal.k = vertex.to_numpy(), X[:warm].T @ X[:warm] / warm, warm
    products = float(vertex.n_products)
    updates = [*(lambda w, model=model: model.learn_arrays(w[None]) for model in ours), literal.update]
    times: list[list[float]] = [[] for _ in updates]
    # In turns of a few steps, so that all meet the same weather and none always begins with a cold cache.
    for first in range(warm, warm + count, _TURN):
        turn = X[first : min(first + _TURN, warm + count)]
        for update, seconds_of in zip(updates, times, strict=True):
            with stopwatch() as seconds:
                for w in turn:
                    update(w)
            seconds_of.append(seconds() / len(turn))
    by_vertex, by_block, by_dual, by_single, by_literal = (float(np.median(seconds_of)) for seconds_of in times)
    products = (vertex.n_products - products) / count
    rounds = []
    for w in X[warm + count :]:
        before = np.abs(vertex.to_numpy()).ravel()
        vertex.learn_arrays(w[None])
        rounds.append(_newton_rounds(before, np.abs(vertex.to_numpy()).ravel(), l1))
    return Step(n, by_vertex, by_block, by_dual, by_single, by_literal, products, float(np.mean(rounds)))


def _newton_rounds(before: NDArray, after: NDArray, l1: float) -> int:
    """Passes over the entries ``after`` a step that Newton's method for the l1 threshold takes from the last one's."""
    tau, rounds = 0.0, 0
    for sizes in (before, after):
        if sizes.sum() <= l1:
            return 0
        above = sizes[sizes > tau]
        rounds = 0
        while True:
            tau, kept = max((above.sum() - l1) / above.size, 0.0), above.size
            above = sizes[sizes > tau]
            rounds += 1
            if above.size in (kept, 0):
                break
    return rounds


def _bandwidth(size: int) -> float:
    """Bytes a second that one core reads, multiplying an array of that many bytes with itself."""
    array = np.ones(max(size // 8, 1))
    times = []
    for _ in range(5):
        with stopwatch() as seconds:
            for _ in range(10):
                array @ array
        times.append(seconds() / 10)
    return array.nbytes / float(np.median(times))


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
    sizes = ((60, 20, 5),) if settings.quick else ((300, 200, 60), (1000, 100, 40), (2000, 60, 15))
    wanted = None if settings.quick else 7.0
    for n, warm, count in sizes:
        now = step(n, warm, count)
        theirs = "numpy, eigsh 1e-6"
        versions = {", rank=1": now.vertex, "": now.block, ", dual=True": now.dual, ", float32": now.single}
        for what, ours in versions.items():
            # the dual is more than the literal version does
            least = None if ours is now.dual else wanted
            yield faster(f"covariance step, n = {n}{what}", ours, theirs, now.literal, now.literal / ours, least)
        # what a step walks through: X, S and the gradient
        triangle = 8 * n * (n + 1) // 2
        floor = now.triangles * triangle / _bandwidth(3 * triangle)
        if n == 1000:
            moved = f"{now.triangles:.1f} triangles at one core's bandwidth"
            yield within(f"covariance step, n = {n}, rank=1", now.vertex, moved, floor, now.vertex / floor, 1.5)
        times = (duration(t) for t in (now.vertex, now.block, now.dual, now.single, now.literal))
        rows.append((n, *times, f"{now.products:.1f}", f"{now.rounds:.1f}", f"{now.triangles:.1f}", duration(floor)))
    for n, count, least in ((20, 40, None),) if settings.quick else ((100, 400, 3.0), (300, 100, 30.0)):
        mine, river_seconds = _against_river(n, count)
        yield faster(
            f"covariance update(x), {n} features",
            mine,
            "river, no constraints",
            river_seconds,
            river_seconds / mine,
            least,
        )
    yield Table(
        "covariance: cost against n",
        (
            "n",
            "rank=1",
            "default",
            "dual=True",
            "float32",
            "literal",
            "products",
            "Newton",
            "triangles moved",
            "at bandwidth",
        ),
        rows,
        (
            "block covariance, trace and l1 norm of the truth, method mean; medians of turns of 5 steps",
            "products, Newton's rounds, triangles: of rank=1; the default makes 16 products, and adds up to 16 terms",
            "bandwidth: that of reading, for a product of three triangles with themselves on one core; small ones stay "
            "in cache in both",
        ),
    )
