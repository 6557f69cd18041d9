"""Loss over one pass in many sets: the estimators' default, beside projected gradients tuned in hindsight."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import sys
import typing

import numpy as np
from river import datasets as river_datasets
from scipy import sparse

from fwonline import datasets, optim, sets
from tools.bench.adagrad import AdaGrad
from tools.bench.peers import Missing, vowpal_plays
from tools.bench.playing import COLUMNS, Learner, Play, Task, fixed_point, line, play
from tools.bench.progressive import river_plays
from tools.bench.report import Comparison, Settings, Table
from tools.papers import data

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["DEFAULT", "baselines", "learners", "recovery", "run", "tasks"]

DEFAULT = "default"
RIVER = "river LogisticRegression(l1), at most as many non-zeros"
FREE = "river LogisticRegression, in no set, best of 5 rates"
RADII = (100.0, 300.0, 1000.0, 3000.0)
# Eight steps of each baseline: of SGD in units of 1 / mean ||x||^2, of AdaGrad in units of 1 / rms of the entries.
SGD_STEPS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
ADAGRAD_STEPS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# river's l1 penalties in units of the rms of the entries, and rates in those of SGD.
RIVER_PENALTIES = (1e-4, 3e-4, 6e-4, 1e-3, 2e-3, 3e-3, 1e-2, 3e-2)
RIVER_RATES = (3.0, 10.0, 30.0)
FREE_RATES = (0.3, 1.0, 3.0, 10.0, 30.0)
# Features beyond which dense sets are played with the first seed alone.
WIDE = 10_000
# What is asked of the default.
FEWER, REGRET, BUDGET = 5.0, 2.0, 50.0


def _scales(rows: data.Data) -> tuple[float, float]:
    squares = sparse.csr_array(rows.X).power(2).sum()
    return squares / len(rows.y), float(np.sqrt(squares / sparse.csr_array(rows.X).nnz))


def _projected(task: Task, seed: int, a: float = 0.5) -> Iterator[tuple[str, typing.Any]]:
    for step in SGD_STEPS:
        yield f"{step:g}", task.model(optim.ProjectedSGD(step / _scales(task.data)[0], a=a), seed)


def _adagrad(task: Task, seed: int) -> Iterator[tuple[str, typing.Any]]:
    for step in ADAGRAD_STEPS:
        yield f"{step:g}", AdaGrad(task.constraint, task.loss, step / _scales(task.data)[1])


def _some(learner: Learner) -> Callable[[Task, int], Iterator[tuple[str, typing.Any]]]:
    return lambda task, seed: itertools.islice(learner.grid(task, seed), 1, None, 4)


def baselines() -> list[Learner]:
    """What must be tuned, tuned in hindsight."""
    return [
        Learner("ProjectedSGD, best of 8", _projected),
        Learner("ProjectedSGD of constant steps, best of 8", functools.partial(_projected, a=0.0)),
        Learner("projected AdaGrad, best of 8", _adagrad),
    ]


def learners(quick: bool = False) -> list[Learner]:
    """The default, what else needs no tuning, and the baselines; a quick look tries two of their steps."""
    default = Learner(DEFAULT, lambda task, seed: [("", task.model(None, seed))])
    if quick:
        return [default, *(Learner(one.name, _some(one)) for one in baselines())]
    return [
        default,
        Learner(
            "SFW, 4 replays", lambda task, seed: [("", task.model(optim.SFW(memory=1000, steps_per_sample=5), seed))]
        ),
        Learner("Mixture", lambda task, seed: [("", task.model(optim.Mixture(), seed))]),
        Learner("OneSampleFW", lambda task, seed: [("", task.model(optim.OneSampleFW(), seed))]),
        *baselines(),
    ]


def phishing() -> data.Data:
    """Web sites of river's Phishing, nine features and a constant one."""
    pairs = list(river_datasets.Phishing())
    X = np.array([[*x.values(), 1.0] for x, _ in pairs])
    return data.Data("phishing", sparse.csr_array(X), np.array([y for _, y in pairs]))


def regression(quick: bool) -> data.Data:
    """Sparse linear regression whose truth, of l1 norm 100, moves by half every 5,000 samples."""
    n, d = (600, 50) if quick else (20_000, 1000)
    stream = datasets.SparseLinear(
        n_features=d,
        n_informative=10,
        density=0.05,
        radius=100.0,
        noise=1.0,
        drift_every=n // 4,
        drift_fraction=0.5,
        seed=7,
    )
    X, y = zip(*stream.take(n), strict=True)
    lengths = [len(x) for x in X]
    indices = np.concatenate([np.fromiter(x, dtype=np.int32, count=len(x)) for x in X])
    values = np.concatenate([np.fromiter(x.values(), dtype=float, count=len(x)) for x in X])
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return data.Data(
        f"drifting regression, {n:,} samples", sparse.csr_array((values, indices, indptr), (n, d)), np.array(y)
    )


def flipped(rows: data.Data) -> data.Data:
    """The labels change sides half way through."""
    y = rows.y.copy()
    y[len(y) // 2 :] = ~y[len(y) // 2 :]
    return dataclasses.replace(rows, name=f"{rows.name}, flipped half way", y=y)


def tasks(settings: Settings) -> Iterator[Task]:
    """The lines of the table."""
    if settings.data:
        for path in settings.data:
            rows = data.from_file(path)
            for radius in RADII:
                yield Task(rows, sets.L1Ball(radius))
        return
    rcv1, web, moving = data.rcv1(settings.quick), phishing(), regression(settings.quick)
    if settings.quick:
        yield Task(rcv1, sets.L1Ball(100.0))
        yield Task(web, sets.L2Ball(10.0))
        yield Task(moving, sets.L1Ball(100.0), ordered=True)
        yield Task(flipped(rcv1), sets.L1Ball(300.0), ordered=True)
        return
    farm = data.farm_ads()
    for rows in (rcv1, farm, web, moving):
        for radius in RADII:
            yield Task(rows, sets.L1Ball(radius), ordered=rows is moving)
    for rows, constraint in (
        (rcv1, sets.L2Ball(30.0)),
        (farm, sets.L2Ball(10.0)),
        (web, sets.L2Ball(10.0)),
        (rcv1, sets.ProbabilitySimplex(300.0)),
        (farm, sets.UnitSimplex(100.0)),
        (web, sets.ProbabilitySimplex(10.0)),
    ):
        yield Task(rows, constraint)
    for radius in (300.0, 1000.0):
        yield Task(flipped(rcv1.shuffled(0)), sets.L1Ball(radius), ordered=True)


def recovery(curve: tuple[float, ...], n: int) -> float:
    """Samples after the middle of a pass until a block's mean loss is within 5% of that of the fifth before it."""
    losses = np.diff(np.concatenate([[0.0], curve])) / (n / len(curve))
    middle = len(curve) // 2
    usual = losses[middle - len(curve) // 10 : middle].mean()
    # Blocks are noisy: three in a row count as one.
    smooth = np.convolve(losses[middle:], np.ones(3) / 3.0, mode="valid")
    back = np.flatnonzero(smooth <= 1.05 * usual)
    return (back[0] + 3) * n / len(curve) if back.size else float("inf")


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """The table, and what of it was asked for."""
    seeds = range(1 if settings.quick else 5)
    rows: list[tuple] = []
    rivers: dict[str, list[Play]] = {}
    unbound: set[str] = set()
    for task in tasks(settings):
        played: dict[str, list[Play]] = {}
        shuffled = {seed: task.rows(seed) for seed in seeds}
        rows.append(fixed_point(task))
        for learner in learners(settings.quick):
            # Projections on dense sets take minutes; and where rows keep their order only the default draws anything.
            dense = task.data.X.shape[1] > WIDE and not isinstance(task.constraint, sets.L1Ball)
            few = list(seeds)[:1] if dense or (task.ordered and learner.name != DEFAULT) else seeds
            played[learner.name] = [
                min(
                    (play(setting, model, shuffled[seed]) for setting, model in learner.grid(task, seed)),
                    key=lambda one: one.progressive,
                )
                for seed in few
            ]
            rows.append(line(task, learner.name, played[learner.name]))
        print(f"\n  {task.data.name}, {task.constraint}", end=" ", file=sys.stderr, flush=True)
        yield from judged(task, played)
        name = task.data.name
        if name not in unbound:
            unbound.add(name)
            rows += _in_no_set(task, shuffled[seeds[0]], settings.quick)
        if task.is_binary and isinstance(task.constraint, sets.L1Ball) and not task.ordered:
            rivers[name] = rivers.get(name) or _river(task.data.shuffled(seeds[0]), settings.quick)
            size = float(np.median([one.nonzeros for one in played[DEFAULT]]))
            if alike := [one for one in rivers[name] if one.nonzeros <= size]:
                best = min(alike, key=lambda one: one.progressive)
                rows.append(line(task, RIVER, [best]))
                ours = float(np.median([one.progressive for one in played[DEFAULT]]))
                where = f"{name}, {task.constraint}: progressive loss at no more non-zeros"
                yield _fewer(where, ours, RIVER, best.progressive, 1.0)
    yield Table(
        "loss over one pass",
        COLUMNS,
        rows,
        (
            f"one pass, medians of seeds {seeds[0]} to {seeds[-1]}, which shuffle the rows (not where they drift) and "
            f"seed the learners; seed {seeds[0]} alone in dense sets of more than {WIDE:,} features",
            "the log loss of labels, the squared one of numbers; final: the last model on all rows",
            f"ProjectedSGD: steps {SGD_STEPS} over mean ||x||^2, falling as t^-1/2 or constant; AdaGrad: steps "
            f"{ADAGRAD_STEPS} over the rms of the entries, projected in its own metric; both project after every "
            "sample, and the best of the eight is chosen in hindsight for every line and seed",
            "regret: between the two bounds of the set's best fixed point",
        ),
    )


def _in_no_set(task: Task, rows: data.Data, quick: bool) -> Iterator[tuple]:
    """Lines of learners that know no set: river's without a penalty, and Vowpal Wabbit; of one order of the rows."""
    if task.is_binary:
        rates = FREE_RATES[2:3] if quick else FREE_RATES
        plays = river_plays(rows, [0.0], [rate / _scales(rows)[0] for rate in rates])
        yield _outside(line(task, FREE, [min(plays, key=lambda one: one.progressive)]))
    try:
        for name, loss in vowpal_plays(sparse.csr_array(rows.X), rows.y, intercept=False).items():
            yield _outside(line(task, name, [Play("", loss, math.nan, math.nan, math.nan)]))
    except Missing as error:
        yield rows.name, "none", "Vowpal Wabbit", f"skipped: {error}", *[""] * (len(COLUMNS) - 4)


def _outside(cells: tuple) -> tuple:
    """A line of a learner that no set binds, and so no regret."""
    return cells[0], "none", *cells[2:-1], ""


def _river(rows: data.Data, quick: bool) -> list[Play]:
    square, rms = _scales(rows)
    penalties = [penalty * rms for penalty in RIVER_PENALTIES[:: 3 if quick else 1]]
    return river_plays(rows, penalties, [rate / square for rate in RIVER_RATES[: 1 if quick else None]])


def judged(task: Task, played: dict[str, list[Play]]) -> Iterator[Comparison]:
    """The default beside the better of the baselines."""
    where = f"{task.data.name}, {task.constraint}"

    def median(name: str, what: str) -> float:
        return float(np.median([getattr(one, what) for one in played[name]]))

    names = [learner.name for learner in baselines()]
    peer = min(names, key=lambda name: median(name, "progressive"))
    ours, theirs = median(DEFAULT, "progressive"), median(peer, "progressive")
    yield _fewer(f"{where}: progressive loss", ours, peer, theirs, 1.0)
    yield _fewer(f"{where}: non-zeros", median(DEFAULT, "nonzeros"), peer, median(peer, "nonzeros"), FEWER)
    if getattr(task.constraint, "radius", np.inf) <= 300.0 and not task.ordered:
        yield _fewer(f"{where}: regret", ours - task.best.upper, peer, theirs - task.best.upper, REGRET)
    us = median(DEFAULT, "us")
    yield Comparison(f"{where}: us a sample", f"{us:.1f}", "the budget", wanted=f"<= {BUDGET:g}", met=us <= BUDGET)
    if "flipped" in task.data.name:
        n = len(task.data.y)
        after = {name: float(np.median([recovery(one.curve, n) for one in plays])) for name, plays in played.items()}
        best = min(names, key=lambda name: after[name])
        yield _fewer(f"{where}: samples to recover", after[DEFAULT], best, after[best], 1.0)


def _fewer(measure: str, ours: float, peer: str, theirs: float, times: float) -> Comparison:
    """A number that ought to be at most the peer's over ``times``."""
    return Comparison(
        measure,
        f"{ours:.4g}",
        peer,
        f"{theirs:.4g}",
        f"{ours / theirs:.2f}x" if 0.0 < theirs < np.inf else "",
        "at most theirs" if times == 1.0 else f"at most 1/{times:g} of theirs",
        bool(ours * times <= theirs),
    )
