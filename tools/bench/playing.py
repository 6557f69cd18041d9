"""Test-then-train over one pass: tasks x learners x seeds, and a table of it.

A learner is a grid of models, of which the best is kept in hindsight; a learner without anything to tune is a grid of
one. Any model that has the estimators' ``learn_arrays``, ``cumulative_loss``, ``weights`` and ``predict_proba_arrays``
can play.
"""

from __future__ import annotations

import dataclasses
import functools
import typing

import numpy as np
from river import optim as river_optim

from fwonline.optim.comparator import Bracket, best_fixed_point
from tools.bench.clock import stopwatch

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fwonline.sets import ConvexSet
    from tools.papers.data import Data

__all__ = ["COLUMNS", "Learner", "Play", "Task", "fixed_point", "line", "log_loss", "play", "tournament"]

COLUMNS = ("data", "set", "learner", "setting", "progressive", "final", "non-zeros", "us a sample", "regret a sample")


@dataclasses.dataclass(frozen=True)
class Task:
    """Labels of two classes to be predicted in a set, under the log loss."""

    data: Data
    constraint: ConvexSet

    @functools.cached_property
    def best(self) -> Bracket:
        """The best fixed point; it does not depend on the order of the rows."""
        return best_fixed_point(
            self.data.X, self.data.y, loss=river_optim.losses.Log(), constraint=self.constraint, tol=1e-3
        )


@dataclasses.dataclass(frozen=True)
class Learner:
    """A name, and ``grid(task, seed)``: pairs of what was set and a fresh model."""

    name: str
    grid: Callable[[Task, int], Iterable[tuple[str, typing.Any]]]


@dataclasses.dataclass(frozen=True)
class Play:
    """One pass of one model."""

    setting: str
    progressive: float
    final: float
    nonzeros: float
    us: float


def log_loss(data: Data, z: np.ndarray) -> float:
    """Mean log loss of scores."""
    return float(np.mean(np.logaddexp(0.0, np.where(data.y, -z, z))))


def play(setting: str, model: typing.Any, data: Data) -> Play:
    """Learn the rows in their order, each after it was predicted."""
    with stopwatch() as seconds:
        model.learn_arrays(data.X, data.y)
    n = len(data.y)
    probability = np.clip(model.predict_proba_arrays(data.X), 1e-300, 1.0 - 1e-16)
    final = log_loss(data, np.log(probability) - np.log1p(-probability))
    return Play(setting, model.cumulative_loss / n, final, len(model.weights), seconds() / n * 1e6)


def tournament(tasks: Iterable[Task], learners: Iterable[Learner], seeds: Iterable[int]) -> Iterator[tuple]:
    """Rows of a table with ``COLUMNS``: medians over seeds, which shuffle the rows and seed the models."""
    learners, seeds = list(learners), list(seeds)
    for task in tasks:
        shuffled = {seed: task.data.shuffled(seed) for seed in seeds}
        yield fixed_point(task)
        for learner in learners:
            plays = [
                min(
                    (play(setting, model, shuffled[seed]) for setting, model in learner.grid(task, seed)),
                    key=lambda one: one.progressive,
                )
                for seed in seeds
            ]
            yield line(task, learner.name, plays)


def fixed_point(task: Task) -> tuple:
    """The row that the others are measured against."""
    best = task.best
    value = f"{best.lower:.4f} to {best.upper:.4f}"
    return (
        task.data.name,
        str(task.constraint),
        "best fixed point",
        "",
        value,
        "",
        f"{np.count_nonzero(best.x)}",
        "",
        "0",
    )


def line(task: Task, name: str, plays: list[Play]) -> tuple:
    """A learner's row; its regret a sample lies between two numbers, as the optimum does."""
    progressive = float(np.median([one.progressive for one in plays]))
    best = task.best
    settings = list(dict.fromkeys(one.setting for one in plays))
    return (
        task.data.name,
        str(task.constraint),
        name,
        ", ".join(settings),
        f"{progressive:.4f}",
        f"{np.median([one.final for one in plays]):.4f}",
        f"{np.median([one.nonzeros for one in plays]):.0f}",
        f"{np.median([one.us for one in plays]):.2f}",
        f"{progressive - best.upper:.4f} to {progressive - best.lower:.4f}",
    )
