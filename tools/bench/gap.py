"""The Gap monitor's upper estimate beside the exact gap: how often it is above, how far, and what the monitor costs.

Nothing of it was fitted to these streams: the margin and the spacing of the looks were chosen on others, of 20 features
(2,000 where sparse), other scales and other seeds.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import typing

import numpy as np
from river.optim import losses
from scipy import sparse

from fwonline import linear_model, monitors, optim, sets
from tools.bench.clock import interleaved, stopwatch
from tools.bench.report import Settings, Table
from tools.papers import data

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["KINDS", "LEARNERS", "Looks", "Task", "follow", "run", "simulated"]

MEMORY = 1000
LEARNERS: dict[str, Callable[[], typing.Any]] = {
    "the default": lambda: None,
    "SFW": lambda: optim.SFW(memory=MEMORY),
    "OneSampleFW": optim.OneSampleFW,
    "MomentumFW": optim.MomentumFW,
    "OFW, exact": optim.OFW,
    "OFW, recursive": lambda: optim.OFW(max_features=1, memory=1),
}
SETS: dict[str, Callable[[float], typing.Any]] = {
    "l1": sets.L1Ball,
    "l2": sets.L2Ball,
    "simplex": sets.ProbabilitySimplex,
}
KINDS = ("stationary", "drifting slowly", "changing at once, twice", "features of scales 1 to 1000", "sparse")


@dataclasses.dataclass(frozen=True)
class Task:
    """Samples in their order, the loss, and the size of the set."""

    name: str
    X: sparse.csr_array
    y: NDArray
    radius: float

    @property
    def loss(self) -> typing.Any:
        return losses.Log() if self.y.dtype == bool else losses.Squared()


@dataclasses.dataclass(frozen=True)
class Looks:
    """What was known and what was true at some samples of a run."""

    upper: NDArray
    estimate: NDArray
    exact: NDArray

    @property
    def coverage(self) -> float:
        """The share of looks at which the upper estimate was at or above the exact gap."""
        return float(np.mean(self.upper >= self.exact))

    @property
    def ratio(self) -> float:
        """Median of upper estimate over exact gap."""
        return float(np.median(self.upper / self.exact))

    @property
    def estimated(self) -> float:
        """Median of the optimizer's estimate over the exact gap."""
        return float(np.median(self.estimate / self.exact))


def simulated(kind: str, *, n: int, d: int, seed: int, binary: bool, positive: bool = False) -> Task:
    """A linear model with noise, whose weights (of norm 3, for the simplex all >= 0) and features are as ``kind`` says.

    Parameters
    ----------
    kind
        One of ``KINDS``.
    n, d
        Samples and features.
    seed
        Seed of all of it.
    binary
        Whether targets are labels, drawn by the logistic function, and not numbers.
    positive
        Whether weights are.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if kind == "sparse":
        X *= rng.random((n, d)) < 10.0 / d
    scales = 10.0 ** rng.uniform(0.0, 3.0, d) if kind.startswith("features of scales") else np.ones(d)

    def weights() -> NDArray:
        w = np.zeros(d)
        w[rng.choice(d, max(3, d // 8), replace=False)] = rng.standard_normal(max(3, d // 8))
        return np.abs(w) if positive else w

    first, second, third = weights(), weights(), weights()
    part = np.arange(n)[:, None] / n
    if kind == "drifting slowly":
        margins = (X * ((1.0 - part) * first + part * second)).sum(axis=1)
    elif kind.startswith("changing"):
        margins = (X * np.where(part < 0.4, first, np.where(part < 0.7, second, third))).sum(axis=1)
    else:
        margins = X @ first
    margins *= 3.0 / np.abs(first).sum()
    X *= scales
    if binary:
        y: NDArray = rng.random(n) < 1.0 / (1.0 + np.exp(-3.0 * margins / margins.std()))
    else:
        y = margins + 0.3 * margins.std() * rng.standard_normal(n)
    return Task(kind, sparse.csr_array(X), y, 3.0)


def literal_gap(task: Task, where: str, w: NDArray, first: int, last: int) -> float:
    """The Frank-Wolfe gap at w of the mean loss over the samples from ``first`` to ``last``."""
    X, y = task.X[first:last], task.y[first:last]
    z = X @ w
    if y.dtype == bool:
        sign = np.where(y, 1.0, -1.0)
        slopes = -sign * 0.5 * (1.0 - np.tanh(0.5 * sign * z))
    else:
        slopes = 2.0 * (z - y)
    g = X.T @ slopes / len(y)
    most = {"l1": np.abs(g).max(), "l2": np.linalg.norm(g), "simplex": -g.min()}[where]
    return float(g @ w + task.radius * most)


def start(task: Task, where: str, learner: str, seed: int) -> typing.Any:
    """A new model for a task."""
    kind = linear_model.FWClassifier if task.y.dtype == bool else linear_model.FWRegressor
    return kind(SETS[where](task.radius), LEARNERS[learner](), intercept=False, seed=seed)


def as_dicts(X: sparse.csr_array) -> list[dict[int, float]]:
    """Samples as dicts."""
    ends, columns, values = X.indptr.tolist(), X.indices.tolist(), X.data.tolist()
    return [dict(zip(columns[a:b], values[a:b], strict=True)) for a, b in itertools.pairwise(ends)]


def follow(task: Task, where: str, learner: str, *, looks: int = 200, seed: int = 0) -> Looks:
    """Let a model learn a task under the monitor, and look at both gaps at random samples from the 64th on."""
    n, d = task.X.shape
    model, monitor = start(task, where, learner, seed), monitors.Gap()
    chosen = set(
        np.random.default_rng(seed + 1).choice(np.arange(64, n + 1), min(looks, n - 63), replace=False).tolist()
    )
    seen = []
    for t, (x, y) in enumerate(zip(as_dicts(task.X), task.y.tolist(), strict=True), start=1):
        model.learn_one(x, y)
        monitor.update(y, None, x=x, model=model)
        if t in chosen:
            w = np.zeros(d)
            for j, value in model.weights.items():
                w[j] = value
            first = 0 if learner == "OFW, exact" and task.y.dtype != bool else max(0, t - MEMORY)
            seen.append((monitor.get()["gap_upper"], model.gap, literal_gap(task, where, w, first, t)))
    upper, estimate, exact = np.array(seen).T
    return Looks(upper, estimate, np.maximum(exact, np.finfo(float).tiny))


def tasks(settings: Settings, where: str) -> Iterator[Task]:
    """Simulated streams and the data of the papers; on the simplex weights are positive."""
    n, seeds = (300, (7,)) if settings.quick else (6000, (7, 8, 9))
    for kind in KINDS[:1] if settings.quick else KINDS:
        for seed in seeds:
            for binary in (False, True):
                d = 400 if kind == "sparse" else 30
                yield simulated(kind, n=n, d=d, seed=seed, binary=binary, positive=where == "simplex")
    sources = ((data.breast_cancer, 5.0), (data.california, 1.0), (data.rcv1, 100.0))
    for source, radius in sources[:1] if settings.quick else sources:
        found = source(settings.quick)
        for seed in seeds:
            some = found.shuffled(seed)
            X, y = sparse.csr_array(some.X[:n]), some.y[:n]
            yield Task(found.name, X, y.astype(bool) if len(np.unique(y)) == 2 else y, radius)


def run(settings: Settings) -> Iterator[Table]:
    """Coverage by stream and by learner, and the price."""
    by_stream: dict[str, list[Looks]] = collections.defaultdict(list)
    by_learner: dict[str, list[Looks]] = collections.defaultdict(list)
    for where in list(SETS)[:1] if settings.quick else SETS:
        for task in tasks(settings, where):
            for learner in LEARNERS:
                if learner == "OFW, exact" and task.X.shape[1] > 1000:
                    continue  # it is recursive there
                looks = follow(task, where, learner)
                by_stream[task.name].append(looks)
                by_learner[f"{learner}, {where}"].append(looks)
    columns = (
        "",
        "runs",
        "coverage",
        "runs at 95% or more",
        "worst run",
        "upper / exact",
        "worst run",
        "estimate / exact",
    )
    notes = (
        "coverage: share of 200 random samples of a run (from the 64th on) at which `gap_upper` is at or above the "
        "exact gap over the samples remembered (the last 1,000; all of them for OFW with its statistics)",
        "ratios are medians over a run's samples, and what is shown their median over runs, and the largest",
        "estimate: the optimizer's own `gap`, which is no bound",
    )
    yield Table("The upper estimate of the gap, by stream", columns, _rows(by_stream), notes)
    yield Table("The same, by learner and set", columns, _rows(by_learner))
    yield Table(
        "What the monitor costs, microseconds a sample",
        ("learner", "data", "learning", "with the monitor", "ratio"),
        list(_costs(settings)),
    )


def _rows(runs: dict[str, list[Looks]]) -> list[tuple[str, ...]]:
    rows = []
    for name, seen in runs.items():
        coverage = np.array([looks.coverage for looks in seen])
        ratio = np.array([looks.ratio for looks in seen])
        rows.append(
            (
                name,
                str(len(seen)),
                f"{coverage.mean():.1%}",
                f"{np.mean(coverage >= 0.95):.0%}",
                f"{coverage.min():.1%}",
                f"{np.median(ratio):.1f}",
                f"{ratio.max():.1f}",
                f"{np.median([looks.estimated for looks in seen]):.2g}",
            )
        )
    return rows


def _costs(settings: Settings) -> Iterator[tuple[str, ...]]:
    n = 300 if settings.quick else 6000
    text = data.rcv1(settings.quick)
    for task in (
        simulated("stationary", n=n, d=30, seed=7, binary=True),
        Task(text.name, sparse.csr_array(text.X[:n]), text.y[:n].astype(bool), 100.0),
    ):
        rows, labels = as_dicts(task.X), task.y.tolist()
        for learner in LEARNERS:

            def contend(watched: bool, learner: str = learner, rows: list = rows, labels: list = labels) -> float:
                model, monitor = start(task, "l1", learner, 0), monitors.Gap()  # noqa: B023  used at once
                with stopwatch() as seconds:
                    for x, y in zip(rows, labels, strict=True):
                        model.learn_one(x, y)
                        if watched:
                            monitor.update(y, None, x=x, model=model)
                return seconds() / len(labels)

            times = interleaved(
                {"alone": lambda: contend(False), "watched": lambda: contend(True)}, 1 if settings.quick else 3
            )
            yield (
                learner,
                task.name,
                f"{1e6 * times.median('alone'):.1f}",
                f"{1e6 * times.median('watched'):.1f}",
                f"{times.ratio('watched', 'alone'):.2f}",
            )
