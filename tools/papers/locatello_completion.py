"""Figure 4 of Locatello et al. 2019: completing MovieLens 100k, training and test error against steps.

F. Locatello et al., Stochastic Frank-Wolfe for Composite Convex Minimization, https://arxiv.org/abs/1901.10348
"""

from __future__ import annotations

import dataclasses
import typing

import numpy as np

from fwonline import datasets, reco
from fwonline.exceptions import SourceError
from tools.papers import drawing, parts

if typing.TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["LINES", "Line", "Split", "draw", "split"]

DIFFERENT = (
    "reference of SHCGM: runs of the authors' code; the paper's table is at 10^4 steps, where its text says 10^5",
    "SFW is SHCGM without the box; its predictions are not clipped, those of the others are",
    "the few test ratings of items without a training rating are predicted by mean and biases",
    "hcgm is this library's default form: mean and biases taken off, the full gradient; its radius of 1000 was chosen "
    "on this split among 500, 1000, 1500, 2000, 3000",
    "medians of the seeds; in brackets the spread of the test RMSE",
)


@dataclasses.dataclass(frozen=True)
class Split:
    """Ratings to learn from and to be tested on."""

    name: str
    train: tuple[NDArray, NDArray]
    test: tuple[NDArray, NDArray]

    def error(self, model: reco.SHCGMCompletion, part: tuple[NDArray, NDArray]) -> float:
        X, y = part
        return float(np.sqrt(np.mean((model.predict_arrays(X[:, 0], X[:, 1]) - y) ** 2)))


@dataclasses.dataclass(frozen=True)
class Line:
    """A curve: its method, its radius on MovieLens, whether it knows the box, its steps, look, and a reference."""

    label: str
    method: str
    radius: float
    box: bool
    most: int
    color: str
    reference: dict[int, str] = dataclasses.field(default_factory=dict)

    def curve(self, data: Split, at: list[int], seed: int) -> list[tuple[float, float, float]]:
        """Training error, test error and infeasibility after so many steps."""
        X, y = data.train
        lower, upper = (1.0, 5.0) if self.box else (None, None)
        radius = self.radius * float(np.sqrt(len(y) / 90_570))
        model = reco.SHCGMCompletion(radius, lower, upper, method=self.method, beta0=10.0, batch_size=1000, seed=seed)
        model.store(X[:, 0], X[:, 1], y)
        out = []
        for steps in at:
            model.advance(steps - model.n_steps)
            out.append((data.error(model, data.train), data.error(model, data.test), model.infeasibility))
        return out


LINES = (
    Line("SHCGM", "shcgm", 7000.0, True, 10_000, drawing.BLUE, {1_000: "1.18 / 1.495", 10_000: ".532 / 1.139"}),
    Line("SFW", "shcgm", 7000.0, False, 10_000, drawing.GREEN, {10_000: "2.0 / 2.1, wide"}),
    Line("hcgm", "hcgm", 1000.0, True, 1_000, drawing.VERMILION, {300: "- / .949"}),
)


def split(quick: bool) -> Split:
    """MovieLens 100k as `ub` splits it; simulated ratings where it is not there."""
    if not quick:
        try:
            base, test = (datasets.load("movielens_100k", f"ub_{part}") for part in ("base", "test"))
            return Split("movielens_100k, ub", base, test)
        except SourceError:
            pass
    users, items, count = (60, 90, 3_000) if quick else (943, 1675, 100_000)
    X, y = datasets.LowRankRatings(n_users=users, n_items=items, noise=0.7, seed=0).to_arrays(count)
    X, cut = X.astype(np.int64), 9 * count // 10
    why = "small, for --quick" if quick else "FWONLINE_DATA does not hold the real data"
    return Split(f"simulated stand-in for movielens_100k ({why})", (X[:cut], y[:cut]), (X[cut:], y[cut:]))


def _trivial(data: Split) -> tuple[float, float]:
    """Test errors of the training mean, and of mean and biases in one pass."""
    X, y = data.train
    biases = reco.SHCGMCompletion(lower=1.0, upper=5.0)
    biases.store(X[:, 0], X[:, 1], y)
    return float(np.sqrt(np.mean((data.test[1] - y.mean()) ** 2))), data.error(biases, data.test)


def draw(stem: Path, quick: bool = False) -> list[Path]:
    """The figure, its numbers and its table."""
    data = split(quick)
    at = [1, 3, 10, 30] if quick else [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000]
    seeds = 1 if quick else 3
    sizes = f"{len(data.train[1]):,} ratings, {len(data.test[1]):,} to test"
    print(f"{data.name}: {sizes}; batch 1000, beta0 10, seeds 0 to {seeds - 1}")
    for line in DIFFERENT:
        print(f"- {line}")
    mean, biases = _trivial(data)
    print(f"\ntest RMSE of the training mean {mean:.3f} (reference 1.125), of mean and biases {biases:.3f} (.971)\n")
    print("| method | steps | training RMSE | test RMSE | infeasibility | reference (training / test) |")
    print("|---|---|---|---|---|---|")
    path = stem.with_suffix(".csv")
    names = ["data", "method", "steps", "train_rmse", "test_rmse", "infeasibility", "test_least", "test_most"]
    curves: list[tuple[Line, list[int], NDArray]] = []
    with parts.rows_kept(path, names) as keep:
        for one in LINES:
            steps = [k for k in at if k <= one.most]
            runs = np.array([one.curve(data, steps, seed) for seed in parts.shown(range(seeds), one.label)])
            curves.append((one, steps, np.median(runs, axis=0)))
            for j, k in enumerate(steps):
                train, test, outside = curves[-1][2][j].tolist()
                least, most = float(runs[:, j, 1].min()), float(runs[:, j, 1].max())
                keep([(data.name, one.label, k, train, test, outside, least, most)])
                cells = f"{k:,} | {train:.3f} | {test:.3f} ({least:.3f} to {most:.3f}) | {outside:.4f}"
                print(f"| {one.label} | {cells} | {'' if quick else one.reference.get(k, '')} |")
    picture = stem.with_suffix(".png")
    with drawing.panels(2, picture) as (figure, axes):
        for ax, column, title in zip(axes, (0, 1), ("training RMSE", "test RMSE"), strict=True):
            ax.set_title(title)
            for one, steps, values in curves:
                ax.plot(steps, values[:, column], color=one.color, label=one.label)
            drawing.log_log(ax, 1e-9, max(float(values[:, column].max()) for *_, values in curves))
        for level, name, above in ((mean, "training mean", True), (biases, "mean and biases", False)):
            axes[1].axhline(level, color="0.55", lw=1.0, ls=":", zorder=1)
            axes[1].annotate(
                name, (at[0], level), xytext=(2, 3 if above else -3), textcoords="offset points",
                va="bottom" if above else "top", color="0.4", fontsize=11,
            )  # fmt: skip
        drawing.label_lines(axes)
        figure.supxlabel("steps")
    return [path, picture]
