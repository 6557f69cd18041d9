"""The stochastic gap of Negiar et al. 2020 against the true one, and Proposition 1's bound of their distance.

The two come close in units of the gap at the start, not in proportion: both fall like 1 / t, and so does the bound.

G. Negiar et al., Stochastic Frank-Wolfe for Constrained Finite-Sum Minimization, https://arxiv.org/abs/2002.11860
"""

from __future__ import annotations

import csv
import dataclasses
import typing

import numpy as np
from river.optim import losses

from fwonline import optim
from tools.papers import drawing, negiar

if typing.TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["Gaps", "draw", "follow"]

DIFFERENT = (
    "the estimate comes close to the true gap in units of the first one, not in proportion to it: ratio is its median "
    "share of the true gap over the second half of the looks",
    "one seed, batches of n / 100; the true gap takes a whole gradient at each look, SFW's estimate costs nothing",
    "the bound is that of the mean over seeds, by the recursion behind Proposition 1, with f_i'' <= 1/4 for the log "
    "loss and 2 for the squared one",
)


@dataclasses.dataclass(frozen=True)
class Gaps:
    """A run's gaps at its looks."""

    task: negiar.Task
    gradients: NDArray
    estimate: NDArray
    true: NDArray
    bound: NDArray

    @property
    def distance(self) -> NDArray:
        """How far the estimate is off."""
        return np.abs(self.estimate - self.true)

    @property
    def ratio(self) -> float:
        """The estimate over the true gap, its median over the second half of the looks."""
        half = len(self.true) // 2
        return float(np.median(self.estimate[half:] / np.maximum(self.true[half:], np.finfo(float).tiny)))


def follow(task: negiar.Task, *, passes: int, seed: int = 0) -> Gaps:
    """Run SFW on a task and look at both gaps before steps that lie evenly on a log scale."""
    n, d = task.data.X.shape
    steps = passes * n // task.batch
    looks = set(np.unique(np.geomspace(1, steps, 80).round().astype(int)).tolist())
    before = {"w": np.zeros(d)}
    seen: list[tuple[int, int, float, float]] = []

    def look(state: typing.Any) -> None:
        # The step's estimate is of the gap where it set out from.
        if state.nit in looks:
            w = before["w"]
            gradient = task.data.X.T @ negiar.slopes(task, w) / n
            true = float(gradient @ w + task.radius * np.abs(gradient).max())
            seen.append((state.nit, state.n_gradients, state.gap, true))
        if state.nit + 1 in looks:
            before["w"] = state.x

    optim.SFW(memory=task.batch, batch_size=task.batch).minimize(
        task.data.X, task.data.y, loss=task.loss, constraint=task.constraint, steps=steps, seed=seed, callback=look
    )
    nit, gradients, estimate, true = (np.array(column) for column in zip(*seen, strict=True))
    bound = optim.stochastic_gap_bound(
        task.data.X,
        steps,
        constraint=task.constraint,
        lipschitz=0.25 if isinstance(task.loss, losses.Log) else 2.0,
        batch_size=task.batch,
        initial=float(np.abs(negiar.slopes(task, np.zeros(d))).mean()),
    )
    return Gaps(task, gradients, estimate, true, bound[nit - 1])


def draw(stem: Path, quick: bool = False) -> list[Path]:
    """The figure, its numbers and its table."""
    passes = 20 if quick else 300
    for line in DIFFERENT:
        print(f"- {line}")
    every = [follow(task, passes=passes) for task in negiar.tasks(quick)]
    print("| task | kappa / n | passes | estimated gap | true gap | distance | bound | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for gaps in every:
        n = len(gaps.task.data.y)
        ratio = optim.kappa(gaps.task.data.X) / n
        for budget in (1, passes // 4, passes):
            k = int(np.argmin(np.abs(gaps.gradients - budget * n)))
            print(
                f"| {gaps.task.title} | {ratio:.3f} | {budget} | {gaps.estimate[k]:.3e} | {gaps.true[k]:.3e} "
                f"| {gaps.distance[k]:.1e} | {gaps.bound[k]:.1e} | {gaps.ratio:.2f} |"
            )
    return [_write(stem.with_suffix(".csv"), every), _picture(stem.with_suffix(".png"), every)]


def _write(path: Path, every: list[Gaps]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["task", "data", "gradients", "estimated_gap", "true_gap", "bound"])
        for gaps in every:
            for row in zip(gaps.gradients, gaps.estimate, gaps.true, gaps.bound, strict=True):
                writer.writerow([gaps.task.title, gaps.task.data.name, *row])
    return path


def _picture(path: Path, every: list[Gaps]) -> Path:
    with drawing.panels(len(every), path) as (figure, axes):
        for ax, gaps in zip(axes, every, strict=True):
            ax.set_title(gaps.task.title)
            smallest = float(gaps.true.min()) * 1e-3
            for values, label, color, dashes in (
                (gaps.true, "true gap", drawing.BLACK, "-"),
                (gaps.estimate, "estimate", drawing.BLUE, "--"),
                (gaps.distance, "distance", drawing.VERMILION, "-"),
                (gaps.bound, "bound", drawing.GREEN, ":"),
            ):
                ax.plot(gaps.gradients, np.maximum(values, smallest), label=label, color=color, ls=dashes)
            drawing.log_log(ax, smallest, float(gaps.bound.max()))
        drawing.label_lines(axes)
        axes[0].set_ylabel("Frank-Wolfe gap")
        figure.supxlabel("gradient evaluations", fontsize=axes[0].yaxis.label.get_fontsize())
    return path
