"""SVRF on a softmax model, beside its own two matrix products in numpy."""

from __future__ import annotations

import itertools
import time
import typing

import numpy as np

from fwonline import linear_model, optim, sets
from tools.bench.clock import interleaved
from tools.bench.report import Comparison, Settings, Table, within
from tools.papers import data

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["run"]

RADIUS = 50.0
OURS = "FWSoftmax, SVRF with the theorem's parameters"
PRODUCTS = "numpy: X_B W' and D' X_B alone, rows gathered beforehand"
GATHERED = "numpy: the same with the gathering of the rows"


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """Whole epochs, snapshots included, from the first step to the last."""
    epochs, repeats = (2, 2) if settings.quick else (4, 5)
    pictures = data.fashion_mnist(settings.quick)
    X, y = pictures.X, pictures.y
    plan = list(itertools.chain.from_iterable(_epoch(t, len(y)) for t in range(1, epochs + 1)))
    steps = sum(2 ** (t + 3) - 2 for t in range(1, epochs + 1))
    times = interleaved(
        {
            OURS: _ours(X, y, steps),
            PRODUCTS: _products(X.astype(np.float64), len(np.unique(y)), plan, gathering=False),
            GATHERED: _products(X.astype(np.float64), len(np.unique(y)), plan, gathering=True),
        },
        repeats,
    )
    for peer, at_most in ((PRODUCTS, 1.3), (GATHERED, 1.3)):
        yield within(
            f"{OURS}: a step",
            times.median(OURS) / steps,
            peer,
            times.median(peer) / steps,
            times.ratio(OURS, peer),
            at_most,
        )
    yield Table(
        "softmax: setting",
        ("data", "size", "classes", "ball", "epochs", "steps", "rows a step", "repeats"),
        [
            (
                pictures.name,
                pictures.shape,
                len(np.unique(y)),
                f"nuclear norm, {RADIUS:g}",
                epochs,
                steps,
                f"{np.mean([size or len(y) for size in plan]):,.0f}",
                repeats,
            )
        ],
        (
            "a step: its batch's gradient, the linear minimisation, the move, its share of the snapshots; the first "
            "step is not counted, since set-up falls into it",
            "numpy's products are on float64 rows, as many as the algorithm draws, snapshots included; rows that "
            "were gathered just before lie in the cache, as far as they fit",
        ),
    )


def _epoch(t: int, n: int) -> Iterator[int | None]:
    """How many rows each gradient of an epoch takes; None for all, in their order."""
    yield None
    for k in range(1, 2 ** (t + 3) - 1):
        yield 96 * (k + 1) if 96 * (k + 1) < n else None


def _ours(X: np.ndarray, y: np.ndarray, steps: int) -> Callable[[], float]:
    def contend() -> float:
        ends: list[float] = []
        model = linear_model.FWSoftmax(sets.NuclearBall(RADIUS), optim.SVRF(), seed=0)
        model.minimize(X, y, steps=steps, callback=lambda state: ends.append(time.perf_counter()))
        return (ends[-1] - ends[0]) * steps / (steps - 1)

    return contend


def _products(X: np.ndarray, classes: int, plan: list[int | None], *, gathering: bool) -> Callable[[], float]:
    def contend() -> float:
        rng = np.random.default_rng(0)
        W = rng.normal(size=(classes, X.shape[1]))
        seconds = 0.0
        for size in plan:
            batch = None if size is None else rng.integers(len(X), size=size)
            start = time.perf_counter()
            rows = X if batch is None else X[batch]
            gathered = time.perf_counter()
            slopes = rows @ W.T
            slopes.T @ rows
            seconds += time.perf_counter() - (start if gathering else gathered)
        return seconds

    return contend
