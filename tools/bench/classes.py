"""Many classes over one pass: `FWSoftmax`'s default, beside one binary model a class and river's softmax."""

from __future__ import annotations

import dataclasses
import math
import typing

import numpy as np
from river import datasets as river_datasets
from river import linear_model as river_linear
from river import multiclass
from river import optim as river_optim
from scipy import sparse

from fwonline import linear_model, sets
from tools.bench.clock import stopwatch
from tools.bench.report import Comparison, Settings, Table, within
from tools.papers import data

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["run", "tasks", "topics"]

DEFAULT, REST, PLAIN = "FWSoftmax()", "OneVsRest(FWClassifier)", "OneVsRest(river LogisticRegression)"
SOFTMAX = "river SoftmaxRegression"
# A ball that binds nowhere here, so that one-vs-rest has no radius to tune either.
RADIUS = 1e4
# river's rates, in units of 1 / mean ||x||^2; the best in hindsight.
RATES = (0.1, 0.3, 1.0, 3.0, 10.0)
# What is asked of the default beside one binary default a class: of its loss, and of its time.
LOSS, TIME = 1.05, 1 / 3
# Classes from which on its time is asked for.
MANY = 10
# Of the loss on text, beside the best of one-vs-rest.
LOSS_ON_TEXT = 1.1


def topics(n: int, d: int, k: int, words: int, seed: int = 0) -> data.Data:
    """Documents of k topics: words by Zipf's law, a third of them from the topic's own, one label in twenty wrong.

    Rows are tf-idf of norm 1, as those of RCV1 are; frequencies of documents are those of the rows before.
    """
    rng = np.random.default_rng(seed)
    usual = rng.permutation(1.0 / (np.arange(d) + 20.0))
    own = usual * np.exp(1.8 * rng.normal(size=(k, d))) * (rng.random((k, d)) < 0.2)
    sums = np.cumsum(np.vstack([own, usual]), axis=1)
    sums /= sums[:, -1:]
    prior = 1.0 / (np.arange(k) + 3.0)
    y = rng.choice(k, size=n, p=prior / prior.sum())
    seen, rows = np.ones(d), []
    for i in range(n):
        drawn = rng.random(max(10, int(rng.lognormal(math.log(1.25 * words), 0.5))))
        source = np.where(rng.random(drawn.size) < 0.7 * rng.random(), y[i], k)
        at = np.concatenate([np.searchsorted(sums[s], drawn[source == s]) for s in (y[i], k)])
        found, counts = np.unique(np.minimum(at, d - 1), return_counts=True)
        weights = (1.0 + np.log(counts)) * np.log((i + 2.0) / seen[found]) + 1e-3
        seen[found] += 1.0
        rows.append((found, weights / np.linalg.norm(weights)))
    indptr = np.cumsum([0, *(idx.size for idx, _ in rows)])
    idx, val = (np.concatenate(part) for part in zip(*rows, strict=True))
    wrong = rng.random(n) < 0.05
    y[wrong] = rng.integers(k, size=int(wrong.sum()))
    return data.Data(f"{k} simulated topics", sparse.csr_array((val, idx, indptr), (n, d)), y)


def _scaled(name: str, X: NDArray, y: NDArray) -> data.Data:
    """Shuffled rows, each column standardised by the rows up to its own, as river's StandardScaler does."""
    rows = data.Data(name, np.asarray(X, dtype=float), np.unique(y, return_inverse=True)[1]).shuffled(0)
    count = np.arange(1, len(y) + 1)[:, None]
    mean = np.cumsum(rows.X, axis=0) / count
    variance = np.maximum(np.cumsum(rows.X**2, axis=0) / count - mean**2, 0.0)
    return dataclasses.replace(rows, X=(rows.X - mean) / np.sqrt(np.where(variance > 0.0, variance, np.inf)))


def tasks(quick: bool) -> Iterator[data.Data]:
    """Small tables, pictures and text."""
    segments = [(list(x.values()), y) for x, y in river_datasets.ImageSegments()]
    yield _scaled("ImageSegments", *map(np.array, zip(*segments[: 200 if quick else None], strict=True)))
    if quick:
        yield topics(200, 500, 5, 30)
        return
    from sklearn import datasets as bundled  # of the development's own requirements

    for name in ("iris", "wine"):
        table = getattr(bundled, f"load_{name}")()
        yield _scaled(name, table.data, table.target)
    digits = bundled.load_digits()
    yield data.Data("digits", digits.data / 16.0, digits.target).shuffled(0)
    pictures = data.fashion_mnist()
    yield data.Data("Fashion-MNIST, 10,000 rows", pictures.X[:10_000], pictures.y[:10_000])
    yield topics(10_000, 50_000, 20, 75)


@dataclasses.dataclass(frozen=True)
class Pass:
    """One pass of one model: what was set, its mean log loss, accuracy, and seconds a sample."""

    setting: str
    loss: float
    accuracy: float
    seconds: float


def _play(setting: str, model: typing.Any, samples: Sequence[tuple[dict, int]], k: int) -> Pass:
    """Predict each sample, then learn it; a class seen for the first time costs every model log k."""
    loss = right = 0.0
    with stopwatch() as seconds:
        for x, y in samples:
            p = model.predict_proba_one(x)
            loss -= math.log(max(p[y], 1e-15)) if y in p else -math.log(k)
            right += bool(p) and max(p, key=p.__getitem__) == y
            model.learn_one(x, y)
    n = len(samples)
    return Pass(setting, loss / n, right / n, seconds() / n)


def _learners(square: float) -> dict[str, list[tuple[str, Callable[[], typing.Any]]]]:
    """Of each learner what is tried, and a fresh model."""
    rest = multiclass.OneVsRestClassifier

    def rated(make: Callable[[float], typing.Any]) -> list[tuple[str, Callable[[], typing.Any]]]:
        return [(f"rate {rate:g}", lambda rate=rate: make(rate / square)) for rate in RATES]

    return {
        DEFAULT: [("", lambda: linear_model.FWSoftmax(seed=0))],
        REST: [("", lambda: rest(linear_model.FWClassifier(sets.L1Ball(RADIUS), intercept=True, seed=0)))],
        PLAIN: rated(lambda rate: rest(river_linear.LogisticRegression(river_optim.SGD(rate)))),
        SOFTMAX: rated(lambda rate: river_linear.SoftmaxRegression(river_optim.SGD(rate))),
    }


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """The table, and what of it was asked for."""
    lines = []
    for rows in tasks(settings.quick):
        csr = sparse.csr_array(rows.X)
        samples = [
            (dict(zip(csr.indices[a:b].tolist(), csr.data[a:b].tolist(), strict=True)), int(y))
            for a, b, y in zip(csr.indptr, csr.indptr[1:], rows.y, strict=False)
        ]
        k, square = len(np.unique(rows.y)), float(csr.power(2).sum()) / len(samples)
        played: dict[str, Pass] = {}
        for name, tried in _learners(square).items():
            _play("", tried[0][1](), samples[:20], k)  # compiles
            played[name] = min(
                (_play(setting, make(), samples, k) for setting, make in tried), key=lambda one: one.loss
            )
            best = played[name]
            lines.append(
                (
                    f"{rows.name}, {rows.shape}, {k} classes",
                    name,
                    best.setting,
                    f"{best.loss:.4f}",
                    f"{best.accuracy:.4f}",
                    f"{1e6 * best.seconds:.1f}",
                )
            )
        yield from _judged(rows.name, k, played)
    yield Table(
        "many classes over one pass",
        ("data", "learner", "setting", "log loss", "accuracy", "us a sample"),
        lines,
        (
            "one pass of dicts: predict_proba_one, then learn_one; times are of both",
            "tables standardised by the rows seen so far, rows in the order of seed 0; models with seed 0",
            f"rates of river's models: the best of {RATES} over mean ||x||^2, in hindsight",
            f"OneVsRest(FWClassifier): L1Ball({RADIUS:g}), which binds nowhere, with an intercept",
        ),
    )


def _judged(name: str, k: int, played: dict[str, Pass]) -> Iterator[Comparison]:
    ours, rest = played[DEFAULT], played[REST]
    peer, at_most = REST, LOSS
    if "topics" in name:
        peer, at_most = min((REST, PLAIN), key=lambda one: played[one].loss), LOSS_ON_TEXT
    ratio = ours.loss / played[peer].loss
    loss, theirs = f"{ours.loss:.4f}", f"{played[peer].loss:.4f}"
    wanted = f"<= {at_most:g}x theirs"
    yield Comparison(f"{name}: log loss", loss, peer, theirs, f"{ratio:.2f}x", wanted, ratio <= at_most)
    if k < MANY:
        return
    time = ours.seconds / rest.seconds
    yield within(f"{name}: a sample", ours.seconds, REST, rest.seconds, time, round(TIME, 3))
