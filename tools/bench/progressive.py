"""Progressive log loss over one shuffled pass, in l1 balls of several radii."""

from __future__ import annotations

import math
import typing

import numpy as np
from river import linear_model as river_linear
from river import optim as river_optim

from fwonline import linear_model, optim, sets
from tools.bench.clock import stopwatch
from tools.bench.playing import COLUMNS, Learner, Play, Task, line, log_loss, tournament
from tools.bench.report import Comparison, Settings, Table
from tools.papers import data

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["learners", "river_plays", "run"]

RADII = (100.0, 300.0, 1000.0, 3000.0)
STEPS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
PENALTIES = (1e-6, 1e-5, 1e-4, 3e-4, 1e-3)
RATES = (1.0, 10.0)
REFERENCE = "SFW, 4 replays, memory 1000"


def _alone(make: Callable[[Task], optim.Optimizer | None]) -> Callable[[Task, int], list[tuple[str, typing.Any]]]:
    return lambda task, seed: [("", linear_model.FWClassifier(task.constraint, make(task), seed=seed, intercept=False))]


def _projected(task: Task, seed: int) -> Iterator[tuple[str, typing.Any]]:
    for step in STEPS:
        yield (
            f"step {step:g}",
            linear_model.FWClassifier(task.constraint, optim.ProjectedSGD(step, a=0.5), seed=seed, intercept=False),
        )


def learners() -> list[Learner]:
    """This library's, with what must be tuned tuned in hindsight."""
    return [
        Learner("SFW, no replay, memory 1000", _alone(lambda _: optim.SFW(memory=1000))),
        Learner(REFERENCE, _alone(lambda _: optim.SFW(memory=1000, steps_per_sample=5))),
        Learner("SFW, no replay, memory all", _alone(lambda task: optim.SFW(memory=len(task.data.y)))),
        Learner(
            "SFW, 4 replays, memory all", _alone(lambda task: optim.SFW(memory=len(task.data.y), steps_per_sample=5))
        ),
        Learner("OneSampleFW", _alone(lambda _: optim.OneSampleFW())),
        Learner("StochasticPairwiseFW (default)", _alone(lambda _: None)),
        Learner("MomentumFW", _alone(lambda _: optim.MomentumFW())),
        Learner("ProjectedSGD, best step", _projected),
    ]


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """The table; nothing in it is wanted yet, it is reported."""
    seeds = (0,) if settings.quick else (0, 1, 2)
    radii = RADII[:1] if settings.quick else RADII
    for rows in [data.from_file(path) for path in settings.data] or [data.rcv1(settings.quick)]:
        tasks = [Task(rows, sets.L1Ball(radius)) for radius in radii]
        river = river_plays(rows.shuffled(seeds[0]))
        table: list[tuple] = []
        for task in tasks:
            lines = list(tournament([task], learners(), seeds))
            size = next(int(cells[6]) for cells in lines if cells[2] == REFERENCE)
            # Of river's models with about as few features, or with the fewest of all, the one of least loss.
            alike = [one for one in river if one.nonzeros <= 1.5 * size]
            best = min(alike or [min(river, key=lambda one: one.nonzeros)], key=lambda one: one.progressive)
            table += [*lines, line(task, "river LogisticRegression(l1), like non-zeros", [best])]
        free = min(river, key=lambda one: one.progressive)
        yield Table(
            f"progressive log loss: {rows.name}, {rows.shape}",
            COLUMNS[1:],
            [cells[1:] for cells in table],
            (
                f"one pass over shuffled rows, seeds {', '.join(map(str, seeds))} (river: {seeds[0]}), medians; final: "
                "the last model on all rows",
                f"ProjectedSGD: the best of the steps {', '.join(f'{s:g}' for s in STEPS)}, falling as t^-1/2",
                f"river: the best of l1 in {PENALTIES} and rates {RATES} that has at most 1.5 times the non-zeros of "
                f"'{REFERENCE}'; without that bound it reaches {free.progressive:.4f} with {free.nonzeros:.0f} "
                f"({free.setting})",
                "regret: between the two bounds of the ball's best fixed point; river's models need not lie in it, "
                "so theirs can be below 0",
            ),
        )


def river_plays(rows: data.Data, penalties: Sequence[float] = PENALTIES, rates: Sequence[float] = RATES) -> list[Play]:
    """One pass of river's logistic regression with each l1 penalty and each rate; labels of two classes."""
    names = range(rows.X.shape[1])
    indptr = rows.X.indptr.tolist()
    samples = [
        (
            {names[j]: v for j, v in zip(rows.X.indices[a:b].tolist(), rows.X.data[a:b].tolist(), strict=True)},
            bool(label),
        )
        for a, b, label in zip(indptr, indptr[1:], rows.y.tolist(), strict=False)
    ]
    plays = []
    for penalty in penalties:
        for rate in rates:
            model = river_linear.LogisticRegression(optimizer=river_optim.SGD(rate), l1=penalty, intercept_lr=0.0)
            total = 0.0
            with stopwatch() as seconds:
                for x, y in samples:
                    p = model.predict_proba_one(x)[True]
                    total -= math.log(max(p if y else 1.0 - p, 1e-300))
                    model.learn_one(x, y)
            w = np.zeros(len(names))
            for name, weight in model.weights.items():
                w[name] = weight
            plays.append(
                Play(
                    f"l1 {penalty:g}, rate {rate:g}",
                    total / len(samples),
                    log_loss(rows, rows.X @ w),
                    int(np.count_nonzero(w)),
                    seconds() / len(samples) * 1e6,
                )
            )
    return plays
