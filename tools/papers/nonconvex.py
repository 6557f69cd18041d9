"""Theorem 2 of Negiar et al. 2020: on a smooth loss that is not convex, the Frank-Wolfe gap of the iterates tends to 0.

G. Negiar et al., Stochastic Frank-Wolfe for Constrained Finite-Sum Minimization, https://arxiv.org/abs/2002.11860
"""

from __future__ import annotations

import csv
import dataclasses
import typing

import numpy as np

from fwonline import sets
from tools.papers import data, drawing, negiar

if typing.TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["Biweight", "Curve", "SquaredProbability", "Task", "draw", "follow", "tasks"]

DIFFERENT = (
    "the paper proves it and shows no experiment. Losses: the squared error of a probability, (1 / (1 + e^-z) - y)^2, "
    "and Tukey's biweight, which stops to count an error beyond c = 2, on data a fifth of which are outliers",
    "what is drawn is the least exact gap so far, a whole gradient at each look; the methods are those of negiar-1",
)


class SquaredProbability:
    """The Brier score of a logistic model: smooth, flat where it is badly wrong, and so not convex."""

    def __call__(self, y_true: typing.Any, y_pred: typing.Any) -> typing.Any:
        return (1.0 / (1.0 + np.exp(-y_pred)) - y_true) ** 2

    def gradient(self, y_true: typing.Any, y_pred: typing.Any) -> typing.Any:
        p = 1.0 / (1.0 + np.exp(-y_pred))
        return 2.0 * (p - y_true) * p * (1.0 - p)


class Biweight:
    """Tukey's loss: an error beyond c costs no more than c.

    Parameters
    ----------
    c
        In units of the target, > 0.
    """

    def __init__(self, c: float = 2.0):
        self.c = c

    def __call__(self, y_true: typing.Any, y_pred: typing.Any) -> typing.Any:
        inside = np.maximum(1.0 - ((y_pred - y_true) / self.c) ** 2, 0.0)
        return (self.c**2 / 6.0) * (1.0 - inside**3)

    def gradient(self, y_true: typing.Any, y_pred: typing.Any) -> typing.Any:
        return (y_pred - y_true) * np.maximum(1.0 - ((y_pred - y_true) / self.c) ** 2, 0.0) ** 2


@dataclasses.dataclass(frozen=True)
class Task:
    """One panel: data, loss and ball."""

    title: str
    data: data.Data
    loss: typing.Any
    radius: float

    def gap(self, w: NDArray) -> float:
        """The exact Frank-Wolfe gap of the mean loss."""
        X, y = self.data.X, self.data.y
        gradient = X.T @ self.loss.gradient(y, X @ w) / len(y)
        return float(gradient @ w + self.radius * np.abs(gradient).max())


def tasks(quick: bool = False) -> list[Task]:
    """The two tasks."""
    n, d = (200, 20) if quick else (1_000, 50)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = X[:, :5] @ np.array([1.0, -1.0, 0.5, -0.5, 0.5]) + 0.3 * rng.normal(size=n)
    y[: n // 5] += 15.0
    cancer = data.breast_cancer(quick)
    cancer = dataclasses.replace(cancer, y=cancer.y.astype(np.float64))
    return [
        Task("Breast cancer,\nsquared probability", cancer, SquaredProbability(), 5.0),
        Task("Outliers,\nTukey's biweight", data.Data("simulated, a fifth are outliers", X, y), Biweight(), 4.0),
    ]


@dataclasses.dataclass(frozen=True)
class Curve:
    """The least gap so far of one method, the first being that of w = 0."""

    method: negiar.Method
    gradients: NDArray
    gaps: NDArray


def follow(task: Task, method: negiar.Method, *, passes: int, seed: int = 0) -> Curve:
    """Run a method with batches of n / 100, and look at its gap at times that lie evenly on a log scale."""
    n, d = task.data.X.shape
    batch = max(1, n // 100)
    steps = passes * n // batch
    looks = set(np.unique(np.geomspace(1, steps, 80).round().astype(int)).tolist())
    seen = [(0, task.gap(np.zeros(d)))]

    def look(state: typing.Any) -> None:
        if state.nit in looks:
            seen.append((state.n_gradients, task.gap(state.x)))

    method.make(batch).minimize(
        task.data.X,
        task.data.y,
        loss=task.loss,
        constraint=sets.L1Ball(task.radius),
        steps=steps,
        seed=seed,
        callback=look,
    )
    gradients, gaps = (np.array(column) for column in zip(*seen, strict=True))
    return Curve(method, gradients, np.minimum.accumulate(gaps))


def draw(stem: Path, quick: bool = False) -> list[Path]:
    """The figure, its numbers and its table."""
    passes = 10 if quick else 200
    for line in DIFFERENT:
        print(f"- {line}")
    print(f"- batches of n / 100, {passes} passes' worth of gradients, seed 0\n")
    every = [(task, [follow(task, method, passes=passes) for method in negiar.METHODS]) for task in tasks(quick)]
    budgets = (1, passes // 10 or 1, passes)
    print(f"| task | method | gap at w = 0 | {' | '.join(f'{budget} passes' for budget in budgets)} |")
    print("|---|---|---|" + "---|" * len(budgets))
    for task, curves in every:
        n = len(task.data.y)
        for curve in curves:
            at = [curve.gaps[np.searchsorted(curve.gradients, budget * n, side="right") - 1] for budget in budgets]
            title = task.title.replace("\n", " ")
            shown = " | ".join(f"{gap:.1e}" for gap in (curve.gaps[0], *at))
            print(f"| {title} | {curve.method.label} | {shown} |")
    return [_write(stem.with_suffix(".csv"), every), _picture(stem.with_suffix(".png"), every)]


def _write(path: Path, every: list[tuple[Task, list[Curve]]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["task", "data", "method", "gradients", "least_gap"])
        for task, curves in every:
            for curve in curves:
                for count, gap in zip(curve.gradients, curve.gaps, strict=True):
                    writer.writerow([task.title.replace("\n", " "), task.data.name, curve.method.label, count, gap])
    return path


def _picture(path: Path, every: list[tuple[Task, list[Curve]]]) -> Path:
    with drawing.panels(len(every), path) as (figure, axes):
        for ax, (task, curves) in zip(axes, every, strict=True):
            ax.set_title(task.title)
            drawing.mark(ax, len(task.data.y), "one pass")
            for curve in curves:
                method = curve.method
                ax.plot(curve.gradients[1:], curve.gaps[1:], label=method.label, color=method.color, ls=method.dashes)
            drawing.log_log(ax, 0.0, max(float(curve.gaps[0]) for curve in curves))
        drawing.label_lines(axes)
        axes[0].set_ylabel("least Frank-Wolfe gap so far")
        figure.supxlabel("gradient evaluations", fontsize=axes[0].yaxis.label.get_fontsize())
    return path
