"""Test-then-train over one pass: tasks x learners x seeds, and a table of it.

A learner is a grid of models, of which the best is kept in hindsight; a learner without anything to tune is a grid of
one. Any model that has the estimators' ``learn_arrays``, ``cumulative_loss`` and ``weights`` (by column) can play.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import typing

import numpy as np
from river import optim as river_optim

from fwonline import linear_model
from fwonline.losses import vector_loss
from fwonline.optim.hindsight import Bracket, best_fixed_point
from tools.bench.clock import stopwatch

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fwonline import optim
    from fwonline.sets import ConvexSet
    from tools.papers.data import Data

__all__ = ["COLUMNS", "Learner", "Play", "Task", "fixed_point", "line", "log_loss", "play", "tournament"]

COLUMNS = ("data", "set", "learner", "setting", "progressive", "final", "non-zeros", "us a sample", "regret a sample")


# Looks at the cumulative loss along the pass.
BLOCKS = 80


@dataclasses.dataclass(frozen=True)
class Task:
    """Targets to be predicted in a set: labels of two classes under the log loss, or numbers under the squared one.

    Attributes
    ----------
    ordered
        Whether the order of the rows is the data's own, as where they drift; otherwise seeds shuffle them.
    """

    data: Data
    constraint: ConvexSet
    ordered: bool = False

    @property
    def is_binary(self) -> bool:
        """Whether the targets are labels."""
        return bool(self.data.y.dtype == np.bool_)

    @property
    def loss(self) -> typing.Any:
        """The loss of a prediction."""
        return river_optim.losses.Log() if self.is_binary else river_optim.losses.Squared()

    def model(self, optimizer: optim.Optimizer | None, seed: int) -> typing.Any:
        """An estimator for the task."""
        kind = linear_model.FWClassifier if self.is_binary else linear_model.FWRegressor
        return kind(self.constraint, optimizer, intercept=False, seed=seed)

    def rows(self, seed: int) -> Data:
        """The rows as a seed plays them."""
        return self.data if self.ordered else self.data.shuffled(seed)

    @functools.cached_property
    def best(self) -> Bracket:
        """The best fixed point; it does not depend on the order of the rows."""
        return best_fixed_point(self.data.X, self.data.y, loss=self.loss, constraint=self.constraint, tol=1e-3)


@dataclasses.dataclass(frozen=True)
class Learner:
    """A name, and ``grid(task, seed)``: pairs of what was set and a fresh model."""

    name: str
    grid: Callable[[Task, int], Iterable[tuple[str, typing.Any]]]


@dataclasses.dataclass(frozen=True)
class Play:
    """One pass of one model; ``curve`` is the cumulative loss at ``BLOCKS`` even places."""

    setting: str
    progressive: float
    final: float
    nonzeros: float
    us: float
    curve: tuple[float, ...] = ()


def log_loss(data: Data, z: np.ndarray) -> float:
    """Mean log loss of scores."""
    return float(np.mean(np.logaddexp(0.0, np.where(data.y, -z, z))))


def play(setting: str, model: typing.Any, data: Data) -> Play:
    """Learn the rows in their order, each after it was predicted."""
    n = len(data.y)
    cuts = np.linspace(0, n, min(BLOCKS, n) + 1).astype(int)
    blocks = [(data.X[a:b], data.y[a:b]) for a, b in itertools.pairwise(cuts)]
    curve = []
    with stopwatch() as seconds:
        for X, y in blocks:
            model.learn_arrays(X, y)
            curve.append(float(model.cumulative_loss))
    w = np.zeros(data.X.shape[1])
    for j, weight in model.weights.items():
        w[j] = weight
    value, _ = vector_loss(river_optim.losses.Log() if data.y.dtype == np.bool_ else river_optim.losses.Squared())
    final = float(np.mean(value(data.y.astype(float), data.X @ w)))
    return Play(setting, curve[-1] / n, final, int(np.count_nonzero(w)), seconds() / n * 1e6, tuple(curve))


def tournament(tasks: Iterable[Task], learners: Iterable[Learner], seeds: Iterable[int]) -> Iterator[tuple]:
    """Rows of a table with ``COLUMNS``: medians over seeds, which shuffle the rows and seed the models."""
    learners, seeds = list(learners), list(seeds)
    for task in tasks:
        shuffled = {seed: task.rows(seed) for seed in seeds}
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
