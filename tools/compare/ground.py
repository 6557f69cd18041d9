"""Cases: sets, losses, simulators, files."""

from __future__ import annotations

import csv
import itertools
import json
import tempfile
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from fwonline import datasets, losses, sets, stream
from tools.compare.catalogue import CUSTOM_LOSSES, DENSE_SETS, FIXED_SETS, LOSSES, SETS, WIDTH
from tools.compare.names import build
from tools.compare.record import Record

__all__ = ["cases"]

Case = Callable[[], Record]
MATRIX_SETS: dict[str, Callable[[], typing.Any]] = {
    "nuclear": lambda: sets.NuclearBall(radius=2.0),
    "spectraplex": lambda: sets.Spectraplex(trace=2.0),
    "spectrahedron": lambda: sets.Spectrahedron(trace=2.0),
    "fantope": lambda: sets.Fantope(k=2),
    "birkhoff": sets.Birkhoff,
}
MORE_SETS: dict[str, Callable[[], typing.Any]] = {
    "lp-1": lambda: sets.LpBall(p=1, radius=2.0),
    "lp-3": lambda: sets.LpBall(p=3.0, radius=2.0),
    "ellipsoid-matrix": lambda: sets.Ellipsoid(
        matrix=np.eye(WIDTH) + 0.1, center=np.linspace(0.0, 1.0, WIDTH), radius=2.0
    ),
    "k-norm-1": lambda: sets.KNormBall(k=1, radius=2.0),
}


def cases() -> Iterator[tuple[str, Case]]:
    """All cases of what stands on the ground."""
    for name, constraint in {**SETS, **DENSE_SETS, **FIXED_SETS, **MORE_SETS}.items():
        yield f"set/{name}", lambda s=constraint: _geometry(s(), (WIDTH,))
        if name in SETS:
            yield f"set/{name}/large", lambda s=constraint: _geometry(s(), (300,))
    for name, constraint in MATRIX_SETS.items():
        yield f"set/{name}", lambda s=constraint: _geometry(s(), (5, 5))
        yield f"set/{name}/large", lambda s=constraint: _geometry(s(), (60, 60))
        if name == "nuclear":
            yield f"set/{name}/wide", lambda s=constraint: _geometry(s(), (4, 70))
    for name, (labels, loss) in {**LOSSES, **CUSTOM_LOSSES}.items():
        yield f"loss-values/{name}", lambda f=loss, k=labels: _loss(f(), k)
    yield "loss-values/log-return", lambda: _loss(build(losses, "NegativeLogReturn", floor=0.1), False)
    for name, (cls, kwargs) in SIMULATORS.items():
        yield f"simulator/{name}", lambda c=cls, k=kwargs: _simulated(build(datasets, c, **k))
    for name in ("csv", "jsonlines", "svmlight", "svmlight-labels"):
        yield f"source/{name}", lambda n=name: _read_file(n)


def _geometry(constraint: typing.Any, shape: tuple[int, ...]) -> Record:
    record, rng = Record(), np.random.default_rng(100)
    symmetric = len(shape) == 2 and shape[0] == shape[1]
    for k in range(6):
        x = rng.normal(size=shape) * (0.1, 1.0, 10.0)[k % 3]
        if k == 4:
            x = np.round(x)  # ties
        if k == 5:
            x = np.zeros(shape)
        x = (x + x.T) / 2.0 if symmetric and k % 2 else x
        try:
            atom = constraint.lmo(x)
            record.put(f"atom.{k}", atom.to_dense())
            record.put(f"atom.dot.{k}", atom.dot(np.ones(shape)))
        except ValueError as error:
            record.put(f"atom.{k}", type(error).__name__)
        record.put(f"violation.{k}", constraint.violation(x))
        record.put(f"contains.{k}", constraint.contains(x, 1e-9))
        if constraint.can_project:
            record.put(f"projected.{k}", constraint.project(x))
        try:
            record.put(f"norm.{k}", constraint.norm(x))
        except (NotImplementedError, ValueError, AttributeError, TypeError) as error:
            record.put(f"norm.{k}", type(error).__name__)
    record.put("diameter", constraint.diameter(shape))
    record.put("initial", constraint.initial_point(shape))
    return record


def _loss(loss: typing.Any, labels: bool) -> Record:
    record, rng = Record(), np.random.default_rng(101)
    y = (rng.random(60) > 0.5).astype(float) if labels else np.abs(rng.normal(size=60))
    z = rng.normal(size=60) * 3.0
    value, derivative = losses.vector_loss(loss)
    record.put("value", value(y, z))
    record.put("derivative", derivative(y, z))
    record.put("called", [loss(a, b) for a, b in zip(y.tolist(), z.tolist(), strict=True)])
    record.put("gradient", [loss.gradient(a, b) for a, b in zip(y.tolist(), z.tolist(), strict=True)])
    return record


_LINEAR = {
    **{"classification": False, "n_features": 30, "n_informative": 5, "density": 0.4, "radius": 5.0, "noise": 0.1},
    **{"drift_every": 40, "drift_width": 10, "drift_fraction": 0.5, "seed": 1},
}
SIMULATORS: dict[str, tuple[str, dict[str, typing.Any]]] = {
    "linear": ("SparseLinear", _LINEAR),
    "labels": ("SparseLinear", {**_LINEAR, "classification": True, "drift_every": None, "drift_width": 0}),
    "dense": ("SparseLinear", {**_LINEAR, "density": 1.0}),
    "adversarial": (
        "AdversarialLinear",
        {"n_features": 6, "switch_every": 30, "edge": 0.005, "volatility": 0.01, "seed": 2},
    ),
    "ratings": (
        "LowRankRatings",
        {
            **{"n_users": 20, "n_items": 30, "rank": 3, "lower": 1.0, "upper": 5.0, "noise": 0.25, "skew": 0.8},
            **{"arrival": 5, "seed": 3},
        },
    ),
    "blocks": (
        "BlockCovariance",
        {"n_features": 12, "n_blocks": 3, "noise": 0.1, "drift_every": 40, "drift_width": 5, "seed": 4},
    ),
    "mixture": (
        "GaussianMixture",
        {"n_features": 3, "n_clusters": 4, "spread": 5.0, "noise": 1.0, "skew": 0.5, "seed": 5},
    ),
}


def _simulated(source: typing.Any) -> Record:
    record = Record()
    taken = list(itertools.islice(iter(source), 120))
    record.put("samples", [dict(x) for x, _ in taken])
    record.put("targets", repr([y for _, y in taken]))
    for name in ("covariance", "coefficients", "weights", "centers", "truth"):
        record.put(name, getattr(source, name, None))
    return record


def _read_file(name: str) -> Record:
    rng = np.random.default_rng(102)
    rows = [{"a": float(v), "b": int(10 * w), "when": float(i), "y": float(v + w)} for i, (v, w) in
            enumerate(rng.normal(size=(30, 2)))]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        if name == "csv":
            with open(path, "w", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
            source = stream.CSVSource(path, target="y", time="when")
        elif name == "jsonlines":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            source = stream.JSONLinesSource(path, target="y", time="when", drop=["b"])
        else:
            label = ("1", "-1") if name == "svmlight-labels" else None
            lines = [f"{label[i % 2] if label else row['y']} 0:{row['a']} 3:{row['b']}\n" for i, row in enumerate(rows)]
            path.write_text("".join(lines))
            source = build(stream, "SVMLightSource", path=path, label="number", first_index=0, n_features=None)
        found = list(source)
    record = Record()
    record.put("samples", [dict(one.x) for one in found])
    record.put("rest", repr([(one.y, one.key, one.time) for one in found]))
    return record
