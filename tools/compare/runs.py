"""Cases: the definitions in `streams/`, monitors, the event loop stopped and taken up again, merged pipelines."""

from __future__ import annotations

import json
import tempfile
import tomllib
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

from river import compose, metrics, preprocessing

import fwonline
from fwonline import cluster, covariance, datasets, linear_model, loop, losses, monitors, optim, reco, sets, stream
from tools.compare.catalogue import LOSSES, OPTIMIZERS, SETS, samples
from tools.compare.matrices import OF_COMPLETION, OF_COVARIANCE
from tools.compare.names import TIMES, build, find, translated
from tools.compare.record import Record, of_linear, of_optimizer

__all__ = ["cases"]

Case = Callable[[], Record]
LIMIT = 400
WATCHED = ("sfw", "one-sample", "ofw", "pairwise-memory", "fw", "svrf")
#: What the definitions leave to defaults, by class; a default that changes later changes no result here.
EXPLICIT: dict[str, dict[str, typing.Any]] = {
    "BlockCovariance": {"noise": 0.0, "drift_width": 0},
    "SparseLinear": {"classification": False, "drift_width": 0},
    "AdversarialLinear": {},
    "LowRankRatings": {"lower": 1.0, "upper": 5.0, "skew": 0.8, "arrival": 0},
    "SHCGMCovariance": {
        **{"method": "mean", "center": True, "batch": 1, "steps_per_update": 1, "fading_factor": 0.0},
        **{"missing": "zero", "dual": False, "dtype": "float64", "beta0": 3.0},
    },
    "SHCGMCompletion": {"method": "hcgm", "beta0": 10.0},
    "FWClassifier": {"intercept": False},
    "FWRegressor": {"intercept": False},
    "SFW": {"memory": 1000, "batch_size": 1, "steps": 1, "schedule": {"class": "Harmonic", "offset": 2.0}},
    "OFW": {"a": 0.5, "max_features": 1000, "adversarial": False},
    "NegativeLogReturn": {"floor": 0.1},
    "ProbabilitySimplex": {"radius": 1.0},
    "Harmonic": {"offset": 2.0, "floor": 0.0},
    "Gap": {"fading_factor": 0.01},
    "Feasibility": {"every": 100},
    "Regret": {"growth": 2.0, "tol": 1e-3, "max_iter": 200, "max_values": 5_000_000},
}
MODULES = (datasets, covariance, reco, cluster, linear_model, optim, optim.schedules, losses, sets, monitors, stream)


def cases() -> Iterator[tuple[str, Case]]:
    """All cases that run a whole stream."""
    for name in ("covariance", "phishing", "portfolio", "ratings", "sparse-regression-drift"):
        yield f"definition/{name}", lambda n=name: _definition(n, False)
        yield f"definition/{name}/resumed", lambda n=name: _definition(n, True)
    for o in WATCHED:
        yield f"monitors/{o}", lambda o=o: _watched(o)
        yield f"loop/{o}", lambda o=o: _resumed(o)
    yield "merge/pipeline", _merged


def _definition(name: str, resumed: bool) -> Record:
    """Run a definition of the tree under test for some samples; its defaults are written out."""
    folder = Path(fwonline.__file__).parents[1] / "streams"
    values = _explicit(tomllib.loads((folder / f"{name}.toml").read_text()))
    limit = min(values["run"].get("limit", LIMIT), LIMIT)
    record = Record()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / f"{name}.toml"
        path.write_text(_toml(values))
        definition = find("load_definition")(path)
        checkpoint = f"{place}/run.ckpt" if resumed else None
        if resumed:
            definition.build(place, checkpoint=checkpoint, resume=False).run(limit // 2)
        running = definition.build(place, checkpoint=checkpoint, resume=resumed)
        _summary(record, running.run(limit))
        model = running.model
        predictions = Path(place) / "predictions.jsonl"
        if predictions.exists():
            lines = [json.loads(line) for line in predictions.read_text().splitlines()]
            record.put("sink", repr([{k: v for k, v in line.items() if k not in ("time", *TIMES)} for line in lines]))
    model = list(model.steps.values())[-1] if isinstance(model, compose.Pipeline) else model
    if hasattr(model, "optimizer"):
        of_linear(record, model)
        of_optimizer(record, model.optimizer)
    record.put_all(model, OF_COVARIANCE if hasattr(model, "feasible") else OF_COMPLETION, "model.")
    return record


def _summary(record: Record, summary: typing.Any) -> None:
    for part in ("n", "n_predicted", "n_learned", "n_rejected", "n_pending", "n_expired", "n_unmatched"):
        record.put(f"summary.{part}", getattr(summary, part))
    numbers = {key: value for key, value in summary.monitors.items() if isinstance(value, bool | int | float)}
    record.put("summary.monitors", {key: value for key, value in numbers.items() if not _is_time(key)})


def _is_time(key: str) -> bool:
    return any(part in key.lower() for part in ("throughput", "samples_per", "per_second", "elapsed", "rate"))


def _explicit(values: typing.Any) -> typing.Any:
    """The same document with parameters that it leaves out, under the names that this tree has for them."""
    if isinstance(values, list):
        return [_explicit(one) for one in values]
    if not isinstance(values, dict):
        return values
    values = {key: _explicit(value) for key, value in values.items()}
    name = values.get("class")
    for module in MODULES:
        if name in EXPLICIT and hasattr(module, name):
            new, given = translated(module, name, EXPLICIT[name])
            given = {key: _explicit(value) for key, value in given.items()}
            return given | values | {"class": new}
    return values


def _toml(values: typing.Any, inner: bool = False) -> str:
    if isinstance(values, dict):
        pairs = [f"{json.dumps(key)} = {_toml(value, True)}" for key, value in values.items()]
        return "{ " + ", ".join(pairs) + " }" if inner else "\n".join(pairs) + "\n"
    if isinstance(values, list):
        return "[" + ", ".join(_toml(one, True) for one in values) + "]"
    return json.dumps(values)


def _pipeline(o: str) -> typing.Any:
    model = build(
        linear_model,
        "FWClassifier",
        constraint=SETS["l1"](),
        optimizer=OPTIMIZERS[o](),
        loss=LOSSES["log"][1](),
        intercept=True,
        seed=1,
        max_names=None,
    )
    return preprocessing.StandardScaler() | model


def _watching() -> list[typing.Any]:
    return [
        build(monitors, "Gap", every=7, fading_factor=0.05),
        build(monitors, "Feasibility", every=10),
        build(
            monitors,
            "Regret",
            loss=LOSSES["log"][1](),
            constraint=SETS["l1"](),
            growth=1.5,
            tol=1e-3,
            max_iter=100,
            max_values=2_000,
        ),
        build(monitors, "Metric", metric=metrics.LogLoss(), name=None),
        build(monitors, "Throughput", interval=1.0),
    ]


def _watched(o: str) -> Record:
    """Monitors used without the loop, on dicts whose features appear later."""
    model, watching, record = _pipeline(o), _watching(), Record()
    seen: list[dict[str, float]] = []
    for i, (x, y) in enumerate(samples(200, 12, 110, True)):
        predicted = model.predict_proba_one(x)
        model.learn_one(x, y)
        for monitor in watching[:-1]:
            monitor.update(y, predicted, x=x, model=model)
        if i % 50 == 49:
            seen += [monitor.get() for monitor in watching[:-1]]
    for monitor in watching:
        monitor.finish()
        if monitor is not watching[-1]:
            record.put(type(monitor).__name__, monitor.get())
    record.put("seen", seen)
    return record


def _resumed(o: str) -> Record:
    """A run that stops and is taken up from its checkpoint, with bad samples and questions that are answered later."""
    items = []
    for i, (x, y) in enumerate(samples(240, 12, 111, True)):
        items.append(stream.Sample({"x1": float("nan")} if i % 40 == 7 else x, y, None, float(i)))
        if i % 9 == 0:
            items.append(stream.Sample(x, None, f"q{i}", float(i)))
        if i % 9 == 5:
            items.append(stream.Sample({}, y, f"q{i - 5}", float(i)))
    record = Record()
    with tempfile.TemporaryDirectory() as folder:
        for limit in (90, 91, 150, None):
            running = loop.EventLoop(
                items, _pipeline(o), _watching(), checkpoint=f"{folder}/c", on_error="skip", resume=True
            )
            _summary(record, running.run(limit=limit))
    model = list(running.model.steps.values())[-1]
    of_linear(record, model)
    of_optimizer(record, model.optimizer)
    return record


def _merged() -> Record:
    record, models = Record(), [_pipeline("one-sample") for _ in range(3)]
    for seed, model in enumerate(models):
        for x, y in samples(60, 10, 120 + seed, True):
            model.learn_one(x, y)
    whole = loop.merge(models)
    record.put("predicted", [whole.predict_proba_one(x) for x, _ in samples(20, 10, 130, True)])
    record.put("weights", list(whole.steps.values())[-1].weights)
    return record
