"""Cases: covariance matrices, completed ratings, clusters, and a river model with a Frank-Wolfe optimizer."""

from __future__ import annotations

import copy
import pickle
import typing
from collections.abc import Callable, Iterator

import numpy as np
from river import linear_model as river_linear

from fwonline import cluster, covariance, optim, reco
from tools.compare.catalogue import SETS, samples
from tools.compare.linear import saved
from tools.compare.names import build
from tools.compare.record import Record

__all__ = ["cases"]

Case = Callable[[], Record]

_COVARIANCE = {
    **{"trace": None, "l1": None, "method": "mean", "beta0": 3.0, "center": True, "batch": 1, "steps_per_update": 1},
    **{"fading_factor": 0.0, "l1_fraction": None, "missing": "zero", "rank": None, "dual": False},
    **{"dtype": "float64", "seed": 3},
}
COVARIANCES: dict[str, dict[str, typing.Any]] = {
    "mean": {},
    "given": {"trace": 12.0, "l1": 20.0, "beta0": 2.0},
    "not-centred": {"center": False, "batch": 5},
    "dual": {"dual": True, "dtype": "float32", "steps_per_update": 2},
    "fading": {"fading_factor": 0.05, "batch": 4, "rank": 1, "l1_fraction": 0.9},
    "missing": {"missing": "mean", "rank": 3},
    "shcgm": {"method": "shcgm", "trace": 12.0, "l1": 20.0, "beta0": 1.0},
    "shcgm-batches": {
        **{"method": "shcgm", "trace": 12.0, "l1": 20.0, "beta0": 1.0, "batch": 3, "steps_per_update": 2, "dual": True}
    },
    "shcgm-missing": {"method": "shcgm", "trace": 9.0, "l1": 14.0, "beta0": 1.0, "missing": "mean"}
    | {"fading_factor": 0.02},
}
_COMPLETION = {"radius": None, "lower": None, "upper": None, "method": "hcgm", "beta0": 10.0, "batch": 20, "seed": 4}
COMPLETIONS: dict[str, dict[str, typing.Any]] = {
    "hcgm": {},
    "hcgm-box": {"lower": 1.0, "upper": 5.0},
    "hcgm-ball": {"radius": 20.0, "beta0": 3.0, "batch": 7},
    "shcgm": {"method": "shcgm", "lower": 1.0, "upper": 5.0},
    "shcgm-ball": {"method": "shcgm", "radius": 20.0, "beta0": 1.0, "batch": 11},
}
_KMEANS = {"n_clusters": 3, "method": "mean", "n_points": 60, "batch": 10, "beta0": 1.0, "seed": 5}
CLUSTERS: dict[str, dict[str, typing.Any]] = {
    "mean": {},
    "mean-small": {"n_points": 20, "batch": 5, "n_clusters": 2},
    "shcgm": {"method": "shcgm"},
    "shcgm-beta": {"method": "shcgm", "beta0": 4.0, "n_points": 40, "batch": 8},
}
OF_COVARIANCE = (
    *("features", "to_numpy", "feasible", "correlation", "precision", "infeasibility", "violation", "n_samples"),
    *("n_steps", "n_products", "gap", "exact_gap", "lmo_error"),
)
OF_COMPLETION = (
    *("n_samples", "n_users", "n_items", "n_steps", "n_products", "gap", "lmo_error", "current_radius"),
    *("infeasibility", "violation"),
)
OF_KMEANS = (
    *("to_numpy", "centers", "value", "rounded_value", "objective", "infeasibility", "violation", "gap", "lmo_error"),
    *("n_steps", "n_samples"),
)


def cases() -> Iterator[tuple[str, Case]]:
    """All cases of estimators of matrices."""
    for name, given in COVARIANCES.items():
        kwargs = {**_COVARIANCE, **given}
        yield from _one_kind("covariance", name, lambda k=kwargs: _covariance(k), _feed_covariance, OF_COVARIANCE)
    for name, given in COMPLETIONS.items():
        kwargs = {**_COMPLETION, **given}
        yield from _one_kind("completion", name, lambda k=kwargs: _completion(k), _feed_completion, OF_COMPLETION)
    for name, given in CLUSTERS.items():
        kwargs = {**_KMEANS, **given}
        yield from _one_kind("kmeans", name, lambda k=kwargs: _kmeans(k), _feed_kmeans, OF_KMEANS)
    for name, constraint in SETS.items():
        yield f"river/frank-wolfe/{name}", lambda s=constraint: _river(s)


def _one_kind(
    kind: str,
    name: str,
    make: Callable[[], typing.Any],
    feed: Callable[[Record, typing.Any, int], None],
    attributes: tuple[str, ...],
) -> Iterator[tuple[str, Case]]:
    def learned() -> Record:
        record, model = Record(), make()
        feed(record, model, 0)
        record.put_all(model, attributes, "first.")
        feed(record, model, 1)
        record.put_all(model, attributes)
        return record

    def again(how: Callable[[typing.Any], typing.Any]) -> Record:
        record, model = Record(), make()
        feed(record, model, 0)
        model = how(model)
        feed(record, model, 1)
        record.put_all(model, attributes)
        return record

    def merged() -> Record:
        record, models = Record(), [make() for _ in range(3)]
        for seed, model in enumerate(models):
            feed(Record(), model, seed)
        whole = models[0].merged(models[1:])
        record.put_all(whole, attributes)
        return record

    yield f"{kind}/{name}/learned", learned
    for how, act in AGAIN.items():
        yield f"{kind}/{name}/{how}", lambda act=act: again(act)
    yield f"{kind}/{name}/merged", merged


AGAIN: dict[str, Callable[[typing.Any], typing.Any]] = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "copy": copy.deepcopy,
    "checkpoint": saved,
    "clone": lambda model: model.clone(),
}


def _covariance(kwargs: dict[str, typing.Any]) -> typing.Any:
    return build(covariance, "SHCGMCovariance", **kwargs)


def _feed_covariance(record: Record, model: typing.Any, seed: int) -> None:
    """Samples with names that appear later, rows of a matrix, a frame."""
    import pandas as pd

    stream = samples(50, 12, 50 + seed, False, 0.7)
    gaps = []
    for i, (x, _) in enumerate(stream):
        (model.learn_one if i % 2 else model.update)(x)
        gaps.append(model.gap)
    record.put(f"gaps.{seed}", gaps)
    rng = np.random.default_rng(60 + seed)
    frame = pd.DataFrame(rng.normal(size=(14, 4)), columns=["x1", 1, "x4", f"late {seed}"])
    model.update_many(frame[:7])
    model.learn_many(frame[7:])
    record.put(f"entry.{seed}", model["x1", f"late {seed}"])


def _completion(kwargs: dict[str, typing.Any]) -> typing.Any:
    return build(reco, "SHCGMCompletion", **kwargs)


def _feed_completion(record: Record, model: typing.Any, seed: int) -> None:
    rng = np.random.default_rng(70 + seed)
    predicted = []
    for k in range(150):
        user, item = f"u{rng.integers(12 + 4 * seed)}", int(rng.integers(15 + 3 * seed))
        if k % 10 == 0:
            predicted.append(model.predict_one(user=user, item=item))
        model.learn_one(user=user, item=item, y=float(rng.integers(1, 6)))
    users = [f"u{j}" for j in rng.integers(0, 25, size=60)]
    items = rng.integers(0, 25, size=60).tolist()
    model.learn_arrays(users, items, rng.integers(1, 6, size=60).astype(float).tolist())
    model.store(users[:9], items[9:18], [3.0] * 9)
    model.advance(3)
    record.put(f"predicted.{seed}", predicted)
    record.put(f"predicted.many.{seed}", model.predict_arrays(users, items[::-1]))
    record.put(f"rank.{seed}", repr(model.rank(user="u1", items=set(range(8)))))


def _kmeans(kwargs: dict[str, typing.Any]) -> typing.Any:
    return build(cluster, "SHCGMKMeans", **kwargs)


def _feed_kmeans(record: Record, model: typing.Any, seed: int) -> None:
    rng = np.random.default_rng(80 + seed)
    centres = np.array([[3.0, 0.0, 1.0], [-3.0, 1.0, 0.0], [0.0, -4.0, 2.0]])
    predicted = []
    for k in range(90):
        row = centres[k % 3] + rng.normal(size=3)
        x = {f"c{j}": value for j, value in enumerate(row.tolist())} | ({f"late {seed}": 0.5} if k > 60 else {})
        if k % 10 == 9:
            predicted.append(model.predict_one(x))
        model.learn_one(x)
    model.advance(4)
    record.put(f"predicted.{seed}", predicted)


def _river(constraint: Callable[[], typing.Any]) -> Record:
    optimizer = build(optim.river, "FrankWolfe", constraint=constraint())
    model = river_linear.LogisticRegression(optimizer=optimizer)
    for x, y in samples(80, 10, 90, True):
        model.learn_one(x, y)
    record = Record()
    record.put("weights", dict(model.weights))
    record.put("intercept", model.intercept)
    return record
