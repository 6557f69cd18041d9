"""The mixture over one pass, beside its default learner, AdaGrad tuned in hindsight, and Vowpal Wabbit."""

from __future__ import annotations

import dataclasses
import math
import typing

import numpy as np
from river import datasets as river_datasets
from river import optim as river_optim
from scipy import sparse

from fwonline import linear_model, optim, sets
from tools.bench.adagrad import AdaGrad
from tools.bench.clock import stopwatch
from tools.bench.peers import Missing, vowpal_plays
from tools.bench.report import Comparison, Settings, Table, skipped
from tools.papers import data

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["long_tailed", "run", "tasks"]

# AdaGrad's steps, over the rms of the entries, of which the best counts in hindsight.
STEPS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# A ball that binds nowhere here; one that binds has this share of the norm of the default's last weights.
FREE, BINDS = 1e4, 0.3
# What is asked: of the loss beside the better of both, of the time beside the default's where nothing is projected.
WORSE, TIME = 1.03, 3.0
COLUMNS = (
    *("data", "Mixture", "default", "AdaGrad, best of 8", "Vowpal Wabbit / tuned", "to the better", "weights", "us"),
    "default's us",
)
# Rows of the larger sets.
ROWS = 8_000


@dataclasses.dataclass(frozen=True)
class Case:
    """A set, and the kind that it is of."""

    rows: data.Data
    is_text: bool = False


def long_tailed(n: int, d: int, seed: int = 0) -> data.Data:
    """Documents of 60 words by Zipf's law, rows of tf-idf of norm 1; one word in five, rare or not, says much."""
    rng = np.random.default_rng(seed)
    often = (np.arange(d) + 10.0) ** -1.1
    words = rng.choice(d, size=60 * n, p=often / often.sum())
    X = sparse.csr_array((np.ones(words.size), (np.repeat(np.arange(n), 60), words)), shape=(n, d))
    X.sum_duplicates()
    X.data = (1.0 + np.log(X.data)) * np.log(n / np.bincount(X.indices, minlength=d).clip(1))[X.indices]
    X = sparse.csr_array(sparse.diags_array(1.0 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())) @ X)
    z = X @ (rng.normal(size=d) * (rng.random(d) < 0.2))
    return data.Data("simulated long-tailed text", X, rng.random(n) < 1.0 / (1.0 + np.exp(-6.0 * z / z.std())))


def _standardised(rows: data.Data) -> data.Data:
    """Each column standardised by the rows up to its own, as river's StandardScaler does."""
    X = np.asarray(rows.X, dtype=float)
    count = np.arange(1, len(X) + 1)[:, None]
    mean = np.cumsum(X, axis=0) / count
    variance = np.maximum(np.cumsum(X**2, axis=0) / count - mean**2, 0.0)
    return dataclasses.replace(rows, X=(X - mean) / np.sqrt(np.where(variance > 1e-18, variance, np.inf)))


def _of_river(kind: typing.Any, positive: typing.Any = None) -> data.Data:
    """One of river's sets, numbers and days alone, standardised; one class of several against the others."""
    pairs = [
        ([getattr(v, "toordinal", lambda v=v: v)() for v in x.values() if not isinstance(v, str)], y) for x, y in kind()
    ]
    X, y = (np.array(part) for part in zip(*pairs, strict=True))
    return _standardised(data.Data(kind.__name__, X, y if positive is None else y == positive))


def tasks(quick: bool) -> Iterator[Case]:
    """Text, tables and pictures: labels of two classes, and numbers."""
    if quick:
        yield Case(data.rcv1(quick), is_text=True)
        yield Case(_of_river(river_datasets.Phishing))
        return
    from sklearn import datasets as bundled  # of the development's own requirements

    def some(rows: data.Data) -> data.Data:
        rows = rows.shuffled(0)
        return data.Data(rows.name, rows.X[:ROWS], rows.y[:ROWS])

    yield Case(some(data.rcv1()), is_text=True)
    yield Case(data.farm_ads().shuffled(0), is_text=True)
    yield Case(long_tailed(6_000, 50_000), is_text=True)
    pictures = data.fashion_mnist()
    X = np.asarray(pictures.X, dtype=float).reshape(len(pictures.y), -1)
    yield Case(some(data.Data("Fashion-MNIST, shirts", X, pictures.y == 6)))
    yield Case(_standardised(some(data.california())))
    cells = data.breast_cancer()
    yield Case(data.Data(cells.name, cells.X, cells.y.astype(bool)).shuffled(0))
    for kind, positive in (
        (river_datasets.Phishing, None),
        (river_datasets.Bananas, None),
        (river_datasets.ImageSegments, "window"),
        (river_datasets.TrumpApproval, None),
        (river_datasets.ChickWeights, None),
        (river_datasets.AirlinePassengers, None),
        (river_datasets.WaterFlow, None),
    ):
        yield Case(_of_river(kind, positive))
    for name, positive in (("diabetes", None), ("breast_cancer", 1), ("digits", 8), ("wine", 1)):
        table = getattr(bundled, f"load_{name}")()
        y = table.target if positive is None else table.target == positive
        yield Case(_standardised(data.Data(f"{name}, of scikit-learn", table.data, y).shuffled(0)))


# --- learners -----------------------------------------------------------------------------------------------------


def _loss(rows: data.Data) -> typing.Any:
    return river_optim.losses.Log() if rows.y.dtype == np.bool_ else river_optim.losses.Squared()


def _ours(rows: data.Data, radius: float, optimizer: optim.Optimizer | None) -> tuple[float, float, typing.Any]:
    """Mean loss of predictions made before learning, microseconds a sample, and the model."""
    kind = linear_model.FWClassifier if rows.y.dtype == np.bool_ else linear_model.FWRegressor
    model = kind(sets.L1Ball(radius), optimizer, intercept=True, seed=0)
    model.learn_arrays(rows.X[:2], rows.y[:2])  # compiles
    with stopwatch() as seconds:
        model.learn_arrays(rows.X[2:], rows.y[2:])
    return model.cumulative_loss / len(rows.y), seconds() / len(rows.y) * 1e6, model


def _adagrad(rows: data.Data, radius: float) -> tuple[float, str]:
    """The loss of AdaGrad with an intercept, the best of eight steps in hindsight."""
    X = sparse.csr_array(rows.X).astype(float)
    rms = float(np.sqrt(X.power(2).sum() / X.nnz))
    tried = {}
    for step in STEPS:
        model = AdaGrad(sets.L1Ball(radius), _loss(rows), step / rms, intercept=rms)
        model.learn_arrays(X, rows.y)
        tried[f"{step:g}"] = model.cumulative_loss / len(rows.y)
    best = min(tried, key=lambda setting: math.inf if math.isnan(tried[setting]) else tried[setting])
    return tried[best], best


def _where(rows: data.Data) -> Iterator[tuple[str, float, tuple[float, float, typing.Any]]]:
    """Balls, each with what the default does there: one that binds nowhere, and one that binds."""
    free = _ours(rows, FREE, None)
    yield "free", FREE, free
    radius = float(f"{BINDS * sum(map(abs, free[2].weights.values())):.2g}")
    yield f"l1 ball of {radius:g}", radius, _ours(rows, radius, None)


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """One pass over each set, in a ball that binds nowhere and in one that binds."""
    table = []
    for case in tasks(settings.quick):
        rows = case.rows
        rivals: dict[str, float] = {}
        if case.is_text:
            try:
                rivals = vowpal_plays(sparse.csr_array(rows.X), rows.y)
            except Missing as error:
                yield skipped(f"{rows.name}: loss over one pass", "Vowpal Wabbit", str(error))
        for where, radius, (default, us, _) in _where(rows):
            ours, mine, model = _ours(rows, radius, optim.Mixture())
            tuned, step = _adagrad(rows, radius)
            name = f"{rows.name}, {where}"
            least = min(default, tuned)
            yield _judged(f"{name}: loss", ours, "the better of both", least, 1.0 if case.is_text else WORSE)
            if where == "free":
                yield _judged(f"{name}: us a sample", mine, "the default", us, TIME)
                for peer, theirs in rivals.items():
                    yield _judged(f"{name}: loss", ours, peer, theirs, 1.0)
            weights = " ".join(f"{weight:.2f}" for weight in model.optimizer.expert_weights.values())
            peers = " / ".join(f"{theirs:.4g}" for theirs in rivals.values()) if where == "free" else ""
            losses = f"{ours:.4g}", f"{default:.4g}", f"{tuned:.4g} ({step})", peers, f"{ours / least:.3f}"
            table.append((name, *losses, weights, f"{mine:.1f}", f"{us:.1f}"))
    yield Table(
        "loss over one pass",
        COLUMNS,
        table,
        (
            "one pass in one order, with an intercept; the log loss of labels, the squared one of numbers",
            f"a ball that binds: {BINDS:g} times the norm of the default's last weights in the free one, of {FREE:g}",
            f"AdaGrad: steps {STEPS} over the rms of the entries, the best in hindsight",
            "weights: those of the experts at the end, the default's first",
        ),
    )


def _judged(measure: str, ours: float, peer: str, theirs: float, times: float) -> Comparison:
    ratio = ours / theirs
    return Comparison(
        measure, f"{ours:.4g}", peer, f"{theirs:.4g}", f"{ratio:.3f} of it", f"<= {times:g} of it", bool(ratio <= times)
    )
