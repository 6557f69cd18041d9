"""An open vocabulary: names for ever, a bound of them, and what the features that are not in a sample cost."""

from __future__ import annotations

import gc
import itertools
import time
import typing

import numpy as np
from numba import njit
from river import linear_model as river_models
from river import optim as river_optim
from scipy import sparse

from fwonline import linear_model, sets
from tools.bench.clock import interleaved, stopwatch
from tools.bench.report import Comparison, Settings, Table, duration, within
from tools.papers import data

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tools.papers.data import Data

__all__ = ["run"]

# Of every sample: words that all samples have, and words that no sample had before.
COMMON, NEW = 50, 25
# A pause that is noticed.
PAUSE = 0.02
BOUNDS = (None, 20_000, 10_000, 5_000, 2_000)
RADIUS = 1000.0


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """Latency while names come, losses under a bound of them, and the cost of those that rest."""
    yield from _growth(settings)
    yield from _bounds(settings)
    yield from _dimensions(settings)


# --- latency ------------------------------------------------------------------------------------------------------


def _growth(settings: Settings) -> Iterator[Comparison | Table]:
    names = 20_000 if settings.quick else 1_000_000
    models: dict[str, typing.Callable[[], typing.Any]] = {
        "the default": lambda: linear_model.FWClassifier(sets.L1Ball(100.0), seed=0, intercept=False),
        f"the default, max_names={names // 4:,}": lambda: linear_model.FWClassifier(
            sets.L1Ball(100.0), seed=0, max_names=names // 4, intercept=False
        ),
        "river LogisticRegression": lambda: river_models.LogisticRegression(river_optim.SGD(0.1)),
    }
    warm = models["the default"]()
    for x, y in itertools.islice(_names(100 * NEW), 100):
        warm.learn_one(x, y)
    times = {name: _latencies(make(), names) for name, make in models.items()}
    rows = [
        (
            name,
            duration(float(t.mean())),
            *(duration(float(np.quantile(t, q))) for q in (0.99, 0.999)),
            duration(t.max()),
        )
        for name, t in times.items()
    ]
    ours, theirs = times["the default"], times["river LogisticRegression"]
    yield Comparison(
        f"longest pause of learn_one up to {names:,} names",
        duration(ours.max()),
        "river LogisticRegression",
        duration(theirs.max()),
        f"{ours.max() / theirs.max():.2f}x its time",
        f"at most {duration(PAUSE)}",
        bool(ours.max() <= PAUSE),
    )
    yield Table(
        "learn_one while names come",
        ("model", "mean", "99%", "99.9%", "longest"),
        rows,
        (f"{COMMON} words that every sample has and {NEW} that none had before, {names:,} names in all; CPU time",),
    )


def _names(count: int) -> Iterator[tuple[dict[str, float], bool]]:
    rng = np.random.default_rng(0)
    common = [f"common {j}" for j in range(COMMON)]
    for first in range(0, count, NEW):
        values = rng.normal(size=COMMON)
        x = dict(zip(common, values.tolist(), strict=True))
        x |= {f"word {first + j}": 1.0 for j in range(NEW)}
        yield x, bool(values[:5].sum() + rng.normal() > 0.0)


def _latencies(model: typing.Any, names: int) -> NDArray[np.float64]:
    """CPU seconds of each sample: what others do on the machine is no pause of the model's."""
    times = []
    gc.collect()
    for x, y in _names(names):
        start = time.thread_time()
        model.learn_one(x, y)
        times.append(time.thread_time() - start)
    return np.array(times)


# --- a bound ------------------------------------------------------------------------------------------------------


def _bounds(settings: Settings) -> Iterator[Table]:
    rows, shapes = [], []
    for text in (data.rcv1(settings.quick).shuffled(0), data.farm_ads(settings.quick).shuffled(0)):
        shapes.append(f"{text.name}: {text.shape}")
        for bound in BOUNDS:
            seconds, model = _pass(text, bound)
            rows.append(
                (
                    text.name,
                    "none" if bound is None else f"{bound:,}",
                    f"{model.cumulative_loss / model.n_samples:.4f}",
                    len(model.weights),
                    duration(seconds),
                )
            )
    yield Table(
        "a bound of the names",
        ("data", "max_names", "mean log loss before learning", "names that weigh something", "a sample"),
        rows,
        (f"FWClassifier(L1Ball({RADIUS:g})), one shuffled pass of learn_one; {'; '.join(shapes)}",),
    )


def _pass(text: Data, bound: int | None) -> tuple[float, typing.Any]:
    model = linear_model.FWClassifier(sets.L1Ball(RADIUS), seed=0, max_names=bound, intercept=False)
    X = sparse.csr_array(text.X)
    names = [f"w{j}" for j in range(X.shape[1])]
    positive = text.y.max()
    seconds = 0.0
    for i in range(len(text.y)):
        row = slice(X.indptr[i], X.indptr[i + 1])
        x = {names[j]: v for j, v in zip(X.indices[row].tolist(), X.data[row].tolist(), strict=True)}
        y = bool(text.y[i] == positive)
        start = time.perf_counter()
        model.learn_one(x, y)
        seconds += time.perf_counter() - start
    return seconds / len(text.y), model


# --- features that rest -------------------------------------------------------------------------------------------


@njit
def _gather(v, u, sums, idx, val):  # pragma: no cover
    """What no learner on these entries can do without: each one's numbers read, and some written."""
    total = 0.0
    for k in range(idx.size):
        j = idx[k]
        total += v[j] * val[k] + sums[j, 0] + sums[j, 3] + u[j]
        sums[j, 1] += val[k]
        u[j] += 1e-9
    return total


def _dimensions(settings: Settings) -> Iterator[Comparison | Table]:
    n, active, many = (400, 500, 5_000) if settings.quick else (20_000, 10_000, 1_000_000)
    rng = np.random.default_rng(0)
    share = 1.0 / np.arange(1, active + 1)
    drawn = [np.unique(rng.choice(active, 75, p=share / share.sum())) for _ in range(n)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in drawn])])
    idx = np.concatenate(drawn)
    val = np.abs(rng.normal(size=idx.size))
    w = np.zeros(active)
    w[rng.choice(active // 50, active // 200, replace=False)] = 3.0 * rng.normal(size=active // 200)
    y = sparse.csr_array((val, idx, indptr), shape=(n, active)) @ w + rng.normal(size=n) > 0.0
    where = {
        f"{active:,}": np.arange(active),
        f"{many:,}, the first {active:,} active": np.arange(active),
        f"{many:,}, {active:,} of them active, anywhere": np.sort(rng.permutation(many)[:active]),
    }
    contenders, gathers = {}, {}
    for name, place in where.items():
        d = active if name == f"{active:,}" else many
        X = sparse.csr_array((val, place[idx], indptr), shape=(n, d))
        arrays = (np.zeros(d), np.zeros(d), np.zeros((d, 4)), place[idx].astype(np.uint32), val)
        contenders[name] = lambda X=X: _learned(X, y)
        gathers[name] = lambda arrays=arrays: _gathered(arrays)
    times, floor = interleaved(contenders, 3), interleaved(gathers, 5)
    few, many_first, many_anywhere = where
    for name in (many_first, many_anywhere):
        yield within(
            f"learn_arrays of the default, features: {name}",
            times.median(name) / n,
            f"itself with {few}",
            times.median(few) / n,
            times.ratio(name, few),
            1.5,
        )
    yield Table(
        "features that rest",
        ("features", "a sample", "reading its entries once"),
        [(name, duration(times.median(name) / n), duration(floor.median(name) / n)) for name in where],
        (f"the same {n:,} samples of {idx.size / n:.0f} entries; with its steps a sample reads 4 to 16 of them",),
    )


def _learned(X: typing.Any, y: NDArray) -> float:
    model = linear_model.FWClassifier(sets.L1Ball(100.0), seed=0, intercept=False)
    model.learn_arrays(X[:1], y[:1])  # the arrays grow here
    with stopwatch() as seconds:
        model.learn_arrays(X, y)
    return seconds()


def _gathered(arrays: typing.Any) -> float:
    with stopwatch() as seconds:
        _gather(*arrays)
    return seconds()
