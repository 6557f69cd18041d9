"""Figure 5 of Locatello et al. 2019: completing a matrix with and without projections, errors against time.

F. Locatello et al., Stochastic Frank-Wolfe for Composite Convex Minimization, https://arxiv.org/abs/1901.10348
"""

from __future__ import annotations

import dataclasses
import math
import time
import typing

import numpy as np

from fwonline import optim, reco, sets
from tools.bench.completion import Ratings, simulated
from tools.papers import drawing, parts

if typing.TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from fwonline.optim.composite.base import CompositeState

__all__ = ["LINES", "Point", "Problem", "draw"]

# Seconds, steps, training and test RMSE, relative distance to the box.
Point = tuple[float, int, float, float, float]

LOWER, UPPER, BATCH = 1.0, 5.0, 1000
DIFFERENT = (
    "ratings are simulated, for as many users and items as MovieLens 1M has; the published figure is no target: the "
    "script behind it pairs ratings with the wrong cells",
    "the radius of both is 1.5 times the nuclear norm of a constant matrix as large as the ratings",
    "S3CCM projects on the nuclear ball by a singular value decomposition in every step; its steps are "
    "batch / (2 N sqrt(k)), the first of which brings an entry to its rating; it is also shown with all ratings a step",
    "errors are of values clipped to the box; measuring them is not timed; one seed",
)


@dataclasses.dataclass(frozen=True)
class Problem:
    """Ratings to learn from and to be tested on, and the radius."""

    train: Ratings
    test: Ratings
    shape: tuple[int, int]
    radius: float

    def point(self, seconds: float, steps: int, values: Callable[[NDArray, NDArray], NDArray], outside: float) -> Point:
        """What ``values`` of users and items come to after so many seconds."""
        errors = (
            float(np.sqrt(np.mean((np.clip(values(part.users, part.items), LOWER, UPPER) - part.y) ** 2)))
            for part in (self.train, self.test)
        )
        return seconds, steps, *errors, outside  # type: ignore[return-value]


@dataclasses.dataclass(frozen=True)
class Budget:
    """When a method has had enough: after so many seconds or so many steps, whichever comes first."""

    seconds: float
    steps: int

    def spent(self, seconds: float, steps: int) -> bool:
        """Whether nothing is left."""
        return seconds >= self.seconds or steps >= self.steps

    def __str__(self) -> str:
        return f"{self.steps} steps each" if math.isinf(self.seconds) else f"{self.seconds:g} s each"


# The quick one is counted in steps alone, so that a busy machine draws the same.
FULL, QUICK = Budget(300.0, 100_000), Budget(math.inf, 40)


def problem(quick: bool) -> Problem:
    """Nine of ten ratings to learn from."""
    data = simulated(2_000, 60, 80) if quick else simulated(1_000_000, 6040, 3706)
    order = np.random.default_rng(1).permutation(len(data.y))
    parts = (order[: len(order) * 9 // 10], order[len(order) * 9 // 10 :])
    train, test = (Ratings(data.name, data.users[part], data.items[part], data.y[part]) for part in parts)
    return Problem(train, test, data.shape, 1.5 * float(np.sqrt(np.prod(data.shape) * np.mean(train.y**2))))


def shcgm(given: Problem, budget: Budget) -> list[Point]:
    """SHCGM, measured ever more seldom."""
    train = given.train
    # what is compiled when it is first met is not timed
    warm, model = (
        reco.SHCGMCompletion(given.radius, LOWER, UPPER, method="shcgm", beta0=10.0, batch_size=BATCH, seed=0)
        for _ in range(2)
    )
    warm.store([0, 1], [0, 1], [LOWER, UPPER])
    warm.advance()
    model.store(train.users, train.items, train.y)
    out: list[Point] = []
    seconds = 0.0
    while not budget.spent(seconds, model.n_steps):
        start = time.perf_counter()
        model.advance(max(1, model.n_steps // 2))
        seconds += time.perf_counter() - start
        out.append(given.point(seconds, model.n_steps, model.predict_arrays, model.infeasibility))
    return out


def s3ccm(batch_size: int | None) -> Callable[[Problem, Budget], list[Point]]:
    """S3CCM, measured at every step; a batch of None is all ratings."""

    def run(given: Problem, budget: Budget) -> list[Point]:
        train = given.train
        count = len(train.y)
        size = min(batch_size or count, count)
        out: list[Point] = []
        seconds, start = 0.0, time.perf_counter()

        def gradient(x: NDArray, rng: np.random.Generator) -> NDArray:
            chosen = rng.choice(count, size, replace=False) if size < count else slice(None)
            at = train.users[chosen], train.items[chosen]
            g = np.zeros_like(x)
            g[at] = 2.0 * count / size * (x[at] - train.y[chosen])
            return g

        def measure(state: CompositeState) -> bool:
            nonlocal seconds, start
            seconds += time.perf_counter() - start
            x = state.x
            outside = float(np.linalg.norm(x - np.clip(x, LOWER, UPPER)) / np.linalg.norm(x))
            out.append(given.point(seconds, len(out) + 1, lambda rows, cols: x[rows, cols], outside))
            start = time.perf_counter()
            return budget.spent(seconds, len(out))

        optim.S3CCM(gamma0=size / (2.0 * count), a=0.5).minimize_composite(
            gradient,
            constraint=sets.NuclearBall(given.radius),
            terms=[optim.Term(sets.Box(LOWER, UPPER))],
            shape=given.shape,
            steps=budget.steps,
            seed=0,
            callback=measure,
        )
        return out

    return run


# Label, what runs, colour.
LINES: tuple[tuple[str, Callable[[Problem, Budget], list[Point]], str], ...] = (
    ("SHCGM", shcgm, drawing.BLUE),
    ("S3CCM", s3ccm(BATCH), drawing.VERMILION),
    ("S3CCM, all ratings", s3ccm(None), drawing.GREEN),
)


def draw(stem: Path, quick: bool = False) -> list[Path]:
    """The figure, its numbers and its table."""
    given, budget = problem(quick), QUICK if quick else FULL
    sizes = f"{len(given.train.y):,} ratings, {len(given.test.y):,} to test, {given.shape[0]:,} x {given.shape[1]:,}"
    print(f"simulated: {sizes}; radius {given.radius:,.0f}, batch {BATCH}, beta0 10; {budget}")
    for line in DIFFERENT:
        print(f"- {line}")
    print("\n| method | seconds | steps | training RMSE | test RMSE | infeasibility |\n|---|---|---|---|---|---|")
    path = stem.with_suffix(".csv")
    curves = []
    with parts.rows_kept(path, ["method", "seconds", "steps", "train_rmse", "test_rmse", "infeasibility"]) as keep:
        for label, run, color in parts.shown(LINES, "methods"):
            points = run(given, budget)
            curves.append((label, points, color))
            keep((label, *point) for point in points)
            chosen = sorted({*np.unique(np.geomspace(1, len(points), 8).astype(int) - 1).tolist()})
            for seconds, steps, train, test, outside in (points[j] for j in chosen):
                print(f"| {label} | {seconds:.3g} | {steps:,} | {train:.3f} | {test:.3f} | {outside:.4f} |")
    picture = stem.with_suffix(".png")
    with drawing.panels(3, picture) as (figure, axes):
        for ax, column, title in zip(
            axes, (2, 4, 3), ("training RMSE", "distance to the box", "test RMSE"), strict=True
        ):
            ax.set_title(title)
            for label, points, color in curves:
                values = np.array(points)
                ax.plot(values[:, 0], np.maximum(values[:, column], 1e-5), color=color, label=label)
            drawing.log_log(ax, 1e-5, max(point[column] for _, points, _ in curves for point in points))
        drawing.label_lines(axes)
        figure.supxlabel("seconds")
    return [path, picture]
