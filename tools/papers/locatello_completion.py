"""Figure 4 of Locatello et al. 2019: completing MovieLens 100k, training and test error against steps.

F. Locatello et al., Stochastic Frank-Wolfe for Composite Convex Minimization, https://arxiv.org/abs/1901.10348
"""

from __future__ import annotations

import csv
import dataclasses
import typing

import numpy as np

from fwonline import datasets, reco
from fwonline.exceptions import SourceError
from tools.papers import drawing

if typing.TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["METHODS", "Split", "curve", "draw", "split"]

# Steps -> training and test RMSE of the authors' own runs, the reference beside ours.
AUTHORS = {1_000: (1.18, 1.495), 10_000: (0.532, 1.139)}
DIFFERENT = (
    "the paper's table is at 10^4 steps, where its text says 10^5",
    "errors are of predictions clipped to the box; the few test ratings of items without a training rating are "
    "predicted by mean and biases",
    "hcgm is this library's default form: mean and biases taken off, the full gradient; its radius of 1000 was chosen "
    "on this split among 500, 1000, 1500, 2000, 3000",
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


# Name -> what makes the model for a share of MovieLens's size, and how it looks.
METHODS: dict[str, tuple[typing.Callable[[float], reco.SHCGMCompletion], str, str]] = {
    "SHCGM": (
        lambda share: reco.SHCGMCompletion(7000.0 * share, 1.0, 5.0, method="shcgm", beta0=10.0, batch=1000, seed=0),
        drawing.BLUE,
        "-",
    ),
    "hcgm": (
        lambda share: reco.SHCGMCompletion(1000.0 * share, 1.0, 5.0, method="hcgm", beta0=10.0, batch=1000, seed=0),
        drawing.VERMILION,
        "-",
    ),
}


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


def curve(data: Split, name: str, at: list[int]) -> list[tuple[int, float, float, float]]:
    """Steps, training error, test error and infeasibility after so many steps."""
    X, y = data.train
    model = METHODS[name][0](np.sqrt(len(y) / 90_570))
    model.store(X[:, 0], X[:, 1], y)
    out = []
    for steps in at:
        model.advance(steps - model.n_steps)
        out.append((steps, data.error(model, data.train), data.error(model, data.test), model.infeasibility))
    return out


def draw(stem: Path, quick: bool = False) -> list[Path]:
    """The figure, its numbers and its table."""
    data = split(quick)
    at = [1, 3, 10, 30] if quick else [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000]
    ends = {"SHCGM": at, "hcgm": [k for k in at if k <= 1_000]}
    mean = float(data.train[1].mean())
    trivial = float(np.sqrt(np.mean((data.test[1] - mean) ** 2)))
    biases = METHODS["hcgm"][0](1.0)
    biases.store(data.train[0][:, 0], data.train[0][:, 1], data.train[1])
    plain = data.error(biases, data.test)
    print(f"{data.name}: {len(data.train[1]):,} ratings, {len(data.test[1]):,} to test; batch 1000, beta0 10, seed 0")
    for line in DIFFERENT:
        print(f"- {line}")
    print(f"\ntest RMSE of the training mean {trivial:.3f}, of mean and biases in one pass {plain:.3f}\n")
    print("| method | steps | training RMSE | test RMSE | infeasibility | authors' (training / test) |")
    print("|---|---|---|---|---|---|")
    curves = {}
    for name, steps in ends.items():
        curves[name] = curve(data, name, steps)
        for k, train, test, outside in curves[name]:
            authors = "{:.3f} / {:.3f}".format(*AUTHORS[k]) if name == "SHCGM" and k in AUTHORS and not quick else ""
            print(f"| {name} | {k:,} | {train:.3f} | {test:.3f} | {outside:.4f} | {authors} |")
    path = stem.with_suffix(".csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["data", "method", "steps", "train_rmse", "test_rmse", "infeasibility"])
        writer.writerows((data.name, name, *row) for name, rows in curves.items() for row in rows)
    picture = stem.with_suffix(".png")
    with drawing.panels(2, picture) as (figure, axes):
        for ax, column, title in zip(axes, (1, 2), ("training RMSE", "test RMSE"), strict=True):
            ax.set_title(title)
            for name, rows in curves.items():
                values = np.array(rows)
                ax.plot(values[:, 0], values[:, column], color=METHODS[name][1], ls=METHODS[name][2], label=name)
            ax.axhline(trivial, color="0.55", lw=1.0, ls=":")
            drawing.log_log(ax, 1e-9, max(row[column] for rows in curves.values() for row in rows))
        drawing.label_lines(axes)
        figure.supxlabel("steps")
    return [path, picture]
