"""What is learned over one pass: the estimators' default beside projected gradients tuned in hindsight."""

from __future__ import annotations

import csv
import typing

import numpy as np

from fwonline import optim, sets
from tools.bench import learning
from tools.bench.playing import Learner, Play, Task, play
from tools.papers import data, drawing

if typing.TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["draw", "tasks"]

COLORS = (drawing.BLUE, drawing.GREEN, drawing.VERMILION, drawing.ORANGE)
# Blocks of a pass over which a loss is averaged.
WIDTH = 8


def tasks(quick: bool) -> Iterator[tuple[str, Task]]:
    """A small ball, a large one, features that come together, and a flip of the labels."""
    rcv1 = data.rcv1(quick).shuffled(0)
    yield "rcv1, radius 300", Task(rcv1, sets.L1Ball(300.0), ordered=True)
    if not quick:
        yield "rcv1, radius 3000", Task(rcv1, sets.L1Ball(3000.0), ordered=True)
        yield "farm ads, radius 1000", Task(data.farm_ads().shuffled(0), sets.L1Ball(1000.0), ordered=True)
    yield "rcv1 flipped, radius 300", Task(learning.flipped(rcv1), sets.L1Ball(300.0), ordered=True)


def learners() -> list[Learner]:
    """Two that need no tuning, and the baselines."""
    plain = Learner("OneSampleFW", lambda task, seed: [("", task.model(optim.OneSampleFW(), seed))])
    default = Learner("default", lambda task, seed: [("", task.model(None, seed))])
    falling = [one for one in learning.baselines() if "constant" not in one.name]
    return [default, plain, *falling]


def draw(stem: Path, quick: bool = False) -> list[Path]:
    """The figure, its numbers and its table."""
    print("- one pass in one order of the rows; losses of predictions before learning, means over a tenth of the pass")
    print("- ProjectedSGD and projected AdaGrad: the best of eight steps, chosen in hindsight for each panel")
    print("| panel | learner | step | progressive loss | non-zeros |")
    print("|---|---|---|---|---|")
    every: list[tuple[str, Task, dict[str, Play]]] = []
    for title, task in tasks(quick):
        best: dict[str, Play] = {}
        for learner in learners():
            plays = (play(setting, model, task.data) for setting, model in learner.grid(task, 0))
            one = best[learner.name] = min(plays, key=lambda each: each.progressive)
            print(f"| {title} | {learner.name} | {one.setting} | {one.progressive:.4f} | {one.nonzeros} |")
        every.append((title, task, best))
    return [_write(stem.with_suffix(".csv"), every), _picture(stem.with_suffix(".png"), every)]


def _windowed(task: Task, one: Play) -> tuple[NDArray, NDArray]:
    """Samples, and the mean loss over the blocks up to there."""
    n = len(task.data.y)
    total = np.concatenate([[0.0], one.curve])
    at = np.arange(1, total.size)
    first = np.maximum(at - WIDTH, 0)
    cuts = np.linspace(0, n, total.size)
    return cuts[at], (total[at] - total[first]) / (cuts[at] - cuts[first])


def _write(path: Path, every: list[tuple[str, Task, dict[str, Play]]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["panel", "learner", "step", "samples", "loss"])
        for title, task, best in every:
            for name, one in best.items():
                for samples, loss in zip(*_windowed(task, one), strict=True):
                    writer.writerow([title, name, one.setting, int(samples), loss])
    return path


def _picture(path: Path, every: list[tuple[str, Task, dict[str, Play]]]) -> Path:
    with drawing.panels(len(every), path) as (figure, axes):
        for ax, (title, task, best) in zip(axes, every, strict=True):
            ax.set_title(title)
            top = 0.0
            for (name, one), color in zip(best.items(), COLORS, strict=True):
                samples, loss = _windowed(task, one)
                ax.plot(samples, loss, label=name, color=color)
                if name != "OneSampleFW":  # which may leave the panel
                    top = max(top, float(loss.max()))
            ax.set_ylim(0.0, 1.1 * top)
            ax.set_xlim(0.0, len(task.data.y))
            ax.grid(axis="y", color="0.9", lw=0.8)
            ax.locator_params(axis="x", nbins=4)
        drawing.label_lines(axes)
        axes[0].set_ylabel("log loss before learning")
        figure.supxlabel("samples", fontsize=axes[0].yaxis.label.get_fontsize())
    return path
