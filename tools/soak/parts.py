"""Specimens of what a checkpoint holds beside linear models: estimates, clusters, sets, monitors, loops, river."""

from __future__ import annotations

import contextlib
import functools
import math
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from river import (
    anomaly,
    cluster,
    compose,
    drift,
    ensemble,
    facto,
    feature_extraction,
    feature_selection,
    forest,
    linear_model,
    metrics,
    naive_bayes,
    neighbors,
    optim,
    preprocessing,
    rules,
    stats,
    time_series,
    tree,
    utils,
)
from river.base import AnomalyDetector
from river.time_series.base import Forecaster

from fwonline import cluster as fw_cluster
from fwonline import covariance, monitors, reco, sets
from fwonline import linear_model as fw
from fwonline.checkpoint import Checkpoint, codec
from fwonline.exceptions import FWOnlineError, SampleError
from fwonline.loop import EventLoop
from fwonline.stream import Sample
from fwonline.tables import TableEncoder

__all__ = ["PARTS"]


def _table(n: int, seed: int, columns: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, columns))


def _rows(n: int, seed: int) -> list[dict[Any, float]]:
    return [{j: value for j, value in enumerate(row.tolist()) if abs(value) > 0.2} for row in _table(n, seed)]


def _finite(values: Any) -> None:
    if not np.isfinite(values).all():
        raise AssertionError("a value is not finite")


def _read(model: Any, *names: str) -> None:
    for name in names:
        getattr(model, name)


def _back(model: Any) -> None:
    """What was learned from there on can be saved and loaded again."""
    codec.loads(codec.dumps(model))
    if hasattr(model, "merged"):
        codec.loads(codec.dumps(model.merged([model])))
    str(model)


# --- estimates ---


def _covariance(n: int = 30, **settings: Any) -> Any:
    model = covariance.SHCGMCovariance(seed=1, **settings)
    for row in _rows(n, 0):
        model.learn_one(row)
    return model


def use_covariance(model: Any) -> None:
    """Learn known and new features, one sample at a time and many, and read all there is to read."""
    for k, row in enumerate(_rows(6, 1)):
        with contextlib.suppress(SampleError):
            model.learn_one(row | ({f"new {k}": 0.5} if k in (2, 4) else {}))
    model.learn_arrays(_table(4, 2, 7))
    _finite(model.to_numpy())
    _finite(model.feasible())
    _finite(model.correlation())
    _read(model, "matrix", "infeasibility", "violation", "n_samples", "gap", "lmo_error")
    _back(model)


def _completion(n: int = 60, **settings: Any) -> Any:
    model = reco.SHCGMCompletion(batch_size=10, seed=1, **settings)
    rng = np.random.default_rng(0)
    for _ in range(n):
        model.learn_one(user=int(rng.integers(8)), item=int(rng.integers(9)), y=float(rng.integers(1, 6)))
    return model


def use_completion(model: Any) -> None:
    """Learn ratings of known and new users and items, predict and rank."""
    rng = np.random.default_rng(1)
    for k in range(40):
        pair = {"user": int(rng.integers(8)) if k % 5 else f"new {k}", "item": int(rng.integers(9))}
        with contextlib.suppress(SampleError):
            model.predict_one(**pair)
            model.learn_one(**pair, y=float(rng.integers(1, 6)))
    with contextlib.suppress(SampleError):
        model.learn_arrays(list(range(30)), list(range(30)), [3.0] * 30)
    model.rank(user=1, items={1, 2, 6})
    _finite(model.predict_arrays([1, 2, "x"], [1, 6, "y"]))
    _read(model, "gap", "lmo_error", "infeasibility", "violation", "current_radius")
    _back(model)


def _kmeans(n: int = 60, **settings: Any) -> Any:
    model = fw_cluster.SHCGMKMeans(n_clusters=2, batch_size=5, seed=1, **{"n_points": 20, **settings})
    for row in _rows(n, 0):
        model.learn_one(row)
    return model


def use_kmeans(model: Any) -> None:
    """Learn, predict and read."""
    for k, row in enumerate(_rows(25, 1)):
        x = row | ({f"new {k}": 0.5} if k in (2, 4) else {})
        model.predict_one(x)
        model.learn_one(x)
    _read(model, "centers", "value", "rounded_value", "objective", "infeasibility", "violation", "gap", "lmo_error")
    _finite(model.to_numpy())
    _back(model)


# --- sets and atoms ---

SETS: dict[str, Callable[[], Any]] = {
    "norms": lambda: [sets.L1Ball(2.0), sets.L2Ball(2.0), sets.LInfBall(2.0), sets.LpBall(1.5, 2.0), sets.LpBall(2, 1)],
    "simplices": lambda: [sets.ProbabilitySimplex(2.0), sets.UnitSimplex(2), sets.KSparseBall(2, 1.0)],
    "boxes": lambda: [sets.Box(-1.0, 2.0), sets.Box([0.0] * 4, 2.0), sets.Box(np.zeros(4), np.ones(4))],
    "ordered": lambda: [sets.KNormBall(2, 1.0), sets.OrderedL1Ball([3.0, 2.0, 1.0, 0.5], 2.0)],
    "ellipsoids": lambda: [sets.Ellipsoid([1.0, 2.0, 3.0, 1.0], np.ones(4)), sets.Ellipsoid(np.eye(4) + 0.1)],
    "groups": lambda: [sets.GroupL1Ball([[0, 1], [2, 3]], 1.0), sets.LatentGroupBall([[0, 1, 2], [2, 3]], 1.0)],
    "polytopes": lambda: [sets.Permutahedron(), sets.ConvexHull(np.eye(4)), sets.ConvexHull([[1.0, 2.0, 3.0, 4.0]])],
    "products": lambda: [sets.Product([(sets.L1Ball(1.0), 2), sets.Box([0.0, 0.0], [1.0, 5.0])])],
    "spectral": lambda: [sets.NuclearBall(2.0), sets.Spectraplex(), sets.Spectrahedron(2), sets.Fantope(1)],
}


def _places(name: str) -> Any:
    made = SETS[name]()
    g = np.arange(4.0).reshape((2, 2) if name == "spectral" else 4) - 1.5
    return {"sets": made, "atoms": [one.lmo(g) for one in made]}


def use_places(held: Any) -> None:
    """Ask every set for what it knows to answer, in the dimension that its parameters fix or in four."""
    if type(held.get("sets")) is not list or type(held.get("atoms")) is not list:
        return
    for one in held["sets"]:
        if not isinstance(one, sets.ConvexSet):
            continue
        shape = one.shape or 4
        is_matrix = isinstance(one, sets.NuclearBall | sets.Spectraplex | sets.Spectrahedron | sets.Fantope)
        shape = (4, 4) if is_matrix else shape
        if math.prod(np.atleast_1d(shape)) > 10_000:
            continue
        with contextlib.suppress(ValueError):  # a Fantope of more rows, say
            g = np.linspace(-1.0, 1.0, math.prod(np.atleast_1d(shape))).reshape(shape)
            one.lmo(g).to_dense()
            one.violation(g)
            one.diameter(shape)
            one.initial_point(shape)
            if one.can_project:
                one.project(g)
        repr(one), hash(one)
    for atom in held["atoms"]:
        if isinstance(atom, sets.Atom) and atom.size <= 10_000:
            atom.to_dense(), hash(atom), atom.dot(np.ones(atom.shape))


# --- tables ---


def _table_rows(seed: int) -> list[dict[str, Any]]:
    return [
        {
            "age": 30.0 + x.get(0, 0.0),
            "plan": f"p{i % 4}" if i % 7 else None,
            "joined": f"2024-0{1 + i % 9}-11T0{i % 10}:00",
            "is_new": i % 3 == 0,
        }
        for i, x in enumerate(_rows(40, seed))
    ]


def _encoder() -> TableEncoder:
    encoder = TableEncoder({"zip": "category", "born": "date:%d.%m.%Y"}, max_categories=3, min_frequency=3)
    for i, row in enumerate(_table_rows(0)):
        encoder.learn_one({**row, "zip": i, "born": f"0{1 + i % 9}.03.1990"})
    return encoder


def use_encoder(encoder: TableEncoder) -> None:
    for i, row in enumerate(_table_rows(1)):
        for x in (row, {**row, "zip": i % 5, "new": 1.0}):
            try:
                encoder.learn_one(x)
                _finite(list(encoder.transform_one(x).values()))
            except SampleError:  # of a column whose kind the file has changed
                pass
    _back(encoder)


# --- monitors and loops ---


class _Watched:
    gap, exact_gap, violation, support_size = 0.5, 0.25, 0.0, 3


def _monitors() -> list[Any]:
    folded = monitors.Regret(optim.losses.Squared(), sets.L1Ball(2.0))
    watching = [
        monitors.Gap(every=5),
        monitors.Feasibility(every=5),
        monitors.Support(every=5),
        monitors.Metric(metrics.MAE() + metrics.MSE()),
        monitors.Throughput(),
        monitors.Regret(optim.losses.Absolute(), sets.L1Ball(2.0)),
        folded,
    ]
    _watch(watching, _rows(70, 0))
    folded._make_room()
    return watching


def _watch(watching: list[Any], rows: list[dict]) -> None:
    for x in rows:
        for monitor in watching:
            monitor.update(sum(x.values()), 0.5, x=x, model=_Watched())


def use_monitors(watching: list[Any]) -> None:
    """Watch on, past an evaluation."""
    watching = [monitor for monitor in watching if isinstance(monitor, monitors.Monitor)]
    # river's own metrics are as the file says
    ours = [monitor for monitor in watching if not isinstance(monitor, monitors.Metric)]
    _watch(ours, [x | {"new": 1.0} for x in _rows(80, 1)])
    for monitor in ours:
        monitor.finish()
        monitor.get(), str(monitor)


def _items() -> list[Sample]:
    return [
        Sample(x, None if k % 7 == 3 else k % 2 == 0, f"q{k}" if k % 7 == 3 else None, float(k))
        for k, x in enumerate(_rows(40, 0))
    ]


def _loop(path: str) -> EventLoop:
    model = preprocessing.StandardScaler() | fw.FWClassifier(sets.L1Ball(2.0), seed=1, intercept=False)
    watching = [monitors.Gap(), monitors.Metric(metrics.Accuracy())]
    return EventLoop(_items(), model, watching, checkpoint=path, on_error="skip", max_early=3, expire_items=30)


def _state() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        loop = _loop(f"{folder}/c")
        loop.run(limit=25)
        return Checkpoint(f"{folder}/c").load()


def use_state(state: Any) -> None:
    """Take a run up from there."""
    with tempfile.TemporaryDirectory() as folder:
        Checkpoint(f"{folder}/c").save(state)
        loop = _loop(f"{folder}/c")
        try:
            loop.run()
        except FWOnlineError:
            return
        except Exception as error:
            # A part of river with values that it does not take.
            if "/fwonline/loop/" in _raised(error):
                raise


def _raised(error: BaseException) -> str:
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at.tb_frame.f_code.co_filename if at is not None else ""


# --- river's own ---

RIVER: dict[str, Callable[[], Any]] = {
    "scalers": lambda: (
        preprocessing.StandardScaler() | preprocessing.MinMaxScaler() | linear_model.LogisticRegression()
    ),
    "encoders": lambda: (preprocessing.OneHotEncoder() + preprocessing.StandardScaler()) | linear_model.PAClassifier(),
    "bayes": naive_bayes.GaussianNB,
    "knn": lambda: neighbors.KNNClassifier(n_neighbors=3),
    "tree": lambda: tree.HoeffdingTreeClassifier(grace_period=5),
    "adaptive tree": lambda: tree.HoeffdingAdaptiveTreeClassifier(grace_period=5, seed=1),
    "forest": lambda: forest.ARFClassifier(n_models=2, seed=1, grace_period=5),
    "bagging": lambda: ensemble.ADWINBaggingClassifier(linear_model.LogisticRegression(), n_models=2, seed=1),
    "rules": lambda: rules.AMRules(n_min=5),
    "trees": lambda: anomaly.HalfSpaceTrees(n_trees=2, height=3, seed=1),
    "factors": lambda: facto.FMClassifier(seed=1),
    "features": lambda: feature_extraction.RBFSampler(seed=1, n_components=4) | linear_model.Perceptron(),
    "selection": lambda: feature_selection.SelectKBest(stats.PearsonCorr(), k=2) | linear_model.Perceptron(),
    "adwin": drift.ADWIN,
    "page-hinkley": drift.PageHinkley,
    "kswin": lambda: drift.KSWIN(window_size=20, stat_size=5, seed=1),
    "quantile": lambda: stats.RollingQuantile(0.5, 10),
    "stats": lambda: utils.Rolling(stats.Var, window_size=10),
    "k-means": lambda: cluster.KMeans(n_clusters=2, seed=1),
    "dbstream": cluster.DBSTREAM,
    "holt": lambda: time_series.HoltWinters(alpha=0.3, beta=0.1),
    "union": lambda: compose.TransformerUnion(preprocessing.StandardScaler(), preprocessing.MaxAbsScaler()),
}


def _river(make: Callable[[], Any]) -> Any:
    model = make()
    _feed(model, 0)
    return model


def _feed(model: Any, seed: int) -> None:
    for k, x in enumerate(_rows(40, seed)):
        named = {f"f{j}": value for j, value in x.items()}
        y = sum(x.values()) > 0.0
        if not hasattr(model, "learn_one"):
            model.update(float(k % 7))
        elif isinstance(model, Forecaster):
            model.learn_one(float(k % 7))
        elif isinstance(model, rules.AMRules):
            model.predict_one(named)
            model.learn_one(named, float(y))
        elif isinstance(model, AnomalyDetector):
            model.score_one(named)
            model.learn_one(named)
        elif isinstance(model, compose.TransformerUnion):
            model.learn_one(named)
            model.transform_one(named)
        elif getattr(model, "_supervised", False):
            model.predict_one(named)
            model.learn_one(named, y)
        else:
            model.learn_one(named)
            model.predict_one(named)


def use_river(model: Any) -> None:
    """Use a model of river: it may find anything wrong with itself, in Python."""
    try:
        _feed(model, 1)
    except Exception:
        return
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":  # a panic of river's Rust
            raise


Part = tuple[Callable[[], Any], Callable[[Any], None], type]


def _parts() -> dict[str, Part]:
    found: dict[str, Part] = {}
    for name, settings in {
        "dual": {"dual": True, "dtype": "float32"},
        "vertex": {"rank": 1, "fading_factor": 0.05, "batch_size": 4, "l1_fraction": 0.9},
        "momentum": {"method": "shcgm", "trace": 5.0, "l1": 8.0, "center": False, "missing": "mean"},
        "new": {"n": 0},
        "free": {"floor": 0.1},
    }.items():
        found[f"covariance/{name}"] = (
            functools.partial(_covariance, **settings),
            use_covariance,
            covariance.SHCGMCovariance,
        )
    for name, settings in {
        "factors": {"lower": 1.0, "upper": 5.0},
        "ball": {"radius": 30.0},
        "dense": {"method": "shcgm", "lower": 1.0, "upper": 5.0},
        "dense ball": {"method": "shcgm", "radius": 30.0},
        "new": {"n": 0},
        "stored": {"n": 9},
    }.items():
        found[f"completion/{name}"] = functools.partial(_completion, **settings), use_completion, reco.SHCGMCompletion
    for name, settings in {
        "full": {},
        "room": {"n_points": 200},
        "momentum": {"method": "shcgm", "n_points": 30},
        "new": {"n": 0},
        "held": {"n": 3},
    }.items():
        found[f"kmeans/{name}"] = functools.partial(_kmeans, **settings), use_kmeans, fw_cluster.SHCGMKMeans
    for name in SETS:
        found[f"sets/{name}"] = functools.partial(_places, name), use_places, dict
    found["table"] = _encoder, use_encoder, TableEncoder
    found["monitors"] = _monitors, use_monitors, list
    found["loop"] = _state, use_state, dict
    for name, make in RIVER.items():
        found[f"river/{name}"] = functools.partial(_river, make), use_river, type(make())
    return found


PARTS = _parts()
