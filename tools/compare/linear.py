"""Cases: regressors, classifiers and softmax, by samples and by arrays, with all that may happen on the way."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import pickle
import tempfile
import typing
from collections.abc import Callable, Iterator

import numpy as np

from fwonline import linear_model, losses, optim, sets
from fwonline.exceptions import SampleError
from tools.compare import catalogue
from tools.compare.catalogue import (
    CUSTOM_LOSSES,
    DENSE_SETS,
    FIXED_SETS,
    LOSSES,
    OPTIMIZERS,
    SCHEDULES,
    SETS,
    SPREAD,
    WIDTH,
    Tilted,
    as_csr,
    samples,
    table,
)
from tools.compare.names import build, find, read
from tools.compare.record import Record, of_linear, of_optimizer

__all__ = ["cases", "saved"]

Case = Callable[[], Record]
Make = Callable[[], typing.Any]
N, D = 150, 24
HOT = ("sfw", "one-sample", "ofw", "pairwise-memory", "fw", "svrf", "projected")


def _linear(labels: bool, constraint: Make, optimizer: Make, loss: Make, **more: typing.Any) -> typing.Any:
    given = {"intercept": False, "seed": 1, "max_names": None, **more}
    name = "FWClassifier" if labels else "FWRegressor"
    return build(linear_model, name, constraint=constraint(), optimizer=optimizer(), loss=loss(), **given)


def _learn(record: Record, model: typing.Any, stream: list[tuple], every: int = 10) -> None:
    """Learn a stream one by one; each tenth sample keeps what was predicted of it, and the gap."""
    predicted, gaps = [], []
    predict = getattr(model, "predict_proba_one", model.predict_one)
    for i, (x, y) in enumerate(stream):
        if i % every == 0:
            predicted.append(predict(x))
        model.learn_one(x, y)
        if i % every == 0:
            gaps.append(model.gap)
    record.put("predicted", predicted)
    record.put("gaps", gaps)


def _online(model: typing.Any, stream: list[tuple]) -> Record:
    record = Record()
    _learn(record, model, stream)
    _state(record, model)
    return record


def _state(record: Record, model: typing.Any) -> None:
    of_linear(record, model)
    of_optimizer(record, model.optimizer)


def _arrays(model: typing.Any, X: np.ndarray, y: np.ndarray) -> Record:
    """Dense, then sparse, then one sample, then a batch again."""
    record, n = Record(), len(y)
    model.learn_arrays(X[: n // 3], y[: n // 3])
    of_linear(record, model, "dense.")
    record.put("dense.predicted", model.predict_arrays(X))
    model.learn_arrays(as_csr(X[n // 3 : 2 * n // 3]), y[n // 3 : 2 * n // 3])
    record.put("sparse.predicted", model.predict_arrays(as_csr(X)))
    model.learn_one(dict(enumerate(X[2 * n // 3].tolist())), y[2 * n // 3].item())
    model.learn_arrays(X[2 * n // 3 + 1 :], y[2 * n // 3 + 1 :])
    record.put("predicted", model.predict_arrays(X))
    if hasattr(model, "predict_proba_arrays"):
        record.put("probabilities", model.predict_proba_arrays(as_csr(X)))
    _state(record, model)
    return record


def cases() -> Iterator[tuple[str, Case]]:
    """All cases of linear models: name, and what returns the record."""
    yield from _grid()
    yield from _losses()
    yield from _schedules()
    yield from _names()
    yield from _midway()
    yield from _merges()
    yield from _refusals()
    yield from _frames()
    yield from _softmax()


def _grid() -> Iterator[tuple[str, Case]]:
    """Every optimizer on every set with two losses, by samples and by arrays."""
    open_sets = {**SETS, **DENSE_SETS, "own-oracle": lambda: Tilted(radius=2.0)}
    for (o, optimizer), (s, constraint) in itertools.product(OPTIMIZERS.items(), {**open_sets, **FIXED_SETS}.items()):
        fixed = s in FIXED_SETS
        short = s not in SETS
        if short and o not in SPREAD:
            continue
        for labels, loss in ((False, "squared"), (True, "log")):
            n, d = (N // 2 if short else N), (WIDTH if fixed else D)
            intercept = {"intercept": labels != (s in ("l1", "l2", "box"))}

            def one(o=optimizer, s=constraint, f=LOSSES[loss][1], k=labels, i=intercept):
                return _linear(k, s, o, f, **i)

            yield (
                f"online/{o}/{s}/{loss}",
                lambda m=one, n=n, d=d, k=labels, fixed=fixed: _online(m(), samples(n, d, 3, k, fixed=fixed)),
            )
            yield (
                f"arrays/{o}/{s}/{loss}",
                lambda m=one, n=n, d=d, k=labels, fixed=fixed: _arrays(m(), *table(n, d, 4, k, 1.0 if fixed else 0.5)),
            )


def _losses() -> Iterator[tuple[str, Case]]:
    everything = {**LOSSES, **CUSTOM_LOSSES}
    for o, (name, (labels, loss)) in itertools.product(SPREAD, everything.items()):
        if o not in HOT and name not in ("hinge", "huber", "own"):
            continue
        for s in ("l1", "l2"):

            def one(o=OPTIMIZERS[o], s=SETS[s], f=loss, k=labels):
                return _linear(k, s, o, f, intercept=True)

            yield f"loss/{o}/{s}/{name}/online", lambda m=one, k=labels: _online(m(), _mild(samples(80, 12, 5, k)))
            yield f"loss/{o}/{s}/{name}/arrays", lambda m=one, k=labels: _arrays(m(), *_small(table(90, 12, 6, k, 0.5)))
    for o in HOT:

        def returns(o=OPTIMIZERS[o]):
            loss = lambda: build(losses, "NegativeLogReturn", floor=0.1)  # noqa: E731
            return _linear(False, SETS["simplex"], o, loss)

        yield f"loss/{o}/simplex/log-return", lambda m=returns: _online(m(), _prices(90, 8))


def _mild(stream: list[tuple]) -> list[tuple]:
    """The stream with targets that the Poisson loss takes too."""
    return [(x, y if isinstance(y, bool) else abs(y)) for x, y in stream]


def _small(whole: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return whole[0], whole[1] if whole[1].dtype == bool else np.abs(whole[1])


def _prices(n: int, d: int) -> list[tuple]:
    rng = np.random.default_rng(8)
    return [({f"p{j}": value for j, value in enumerate(row)}, 0.0) for row in np.exp(0.02 * rng.normal(size=(n, d)))]


def _schedules() -> Iterator[tuple[str, Case]]:
    takers: dict[str, Callable[[typing.Any], typing.Any]] = {
        "sfw": lambda s: build(optim, "SFW", memory=30, batch_size=2, steps=2, schedule=s),
        "momentum": lambda s: build(optim, "MomentumFW", batch_size=2, schedule=s, memory=None, rho=None),
        "momentum-memory": lambda s: build(optim, "MomentumFW", batch_size=3, schedule=s, memory=20, rho=None),
        "one-sample": lambda s: build(optim, "OneSampleFW", alpha=0.7, schedule=s),
        "fw": lambda s: build(optim, "FW", memory=20, steps=1, schedule=s),
        "away": lambda s: build(optim, "AwayFW", memory=20, steps=1, schedule=s),
        "svrf": lambda s: build(optim, "SVRF", batch_size=4, epoch=9, schedule=s, memory=20, steps=1),
    }
    for (o, take), (name, schedule), s in itertools.product(takers.items(), SCHEDULES.items(), ("l1", "l2")):
        for labels, loss in ((False, "squared"), (True, "log")):

            def one(t=take, h=schedule, s=SETS[s], f=LOSSES[loss][1], k=labels):
                return _linear(k, s, lambda: t(h()), f)

            yield (
                f"schedule/{o}/{s}/{name}/{loss}/online",
                lambda m=one, k=labels: _online(m(), samples(90, 16, 9, k)),
            )
            yield (
                f"schedule/{o}/{s}/{name}/{loss}/arrays",
                lambda m=one, k=labels: _arrays(m(), *table(90, 16, 9, k, 0.5)),
            )


def _names() -> Iterator[tuple[str, Case]]:
    """Bounded vocabularies: features are forgotten while others arrive."""
    for o, s in itertools.product(SPREAD, ("l1", "l2", "unit-simplex")):

        def run(o=OPTIMIZERS[o], s=SETS[s]):
            model = _linear(False, s, o, LOSSES["squared"][1], max_names=8, intercept=True)
            rng = np.random.default_rng(11)
            stream = []
            for i in range(140):
                chosen = rng.choice(12, 3, replace=False) + i // 10
                values = rng.normal(size=3)
                stream.append(({f"w{j}": float(v) for j, v in zip(chosen, values, strict=True)}, float(values[0])))
            return _online(model, stream)

        yield f"max-names/{o}/{s}", run


def _midway() -> Iterator[tuple[str, Case]]:
    """Saved and loaded in the middle, copied, pickled."""
    for o, (how, again) in itertools.product(OPTIMIZERS, AGAIN.items()):
        for s in ("l1", "l2"):

            def run(o=OPTIMIZERS[o], s=SETS[s], again=again):
                stream = samples(100, 16, 12, True)
                record = Record()
                model = _linear(True, s, o, LOSSES["log"][1], intercept=True)
                _learn(record, model, stream[:55])
                model = again(model)
                record.put("gap.between", model.gap)
                _learn(record, model, stream[55:])
                X, y = table(30, 16, 13, True)
                model.learn_arrays(X, y)
                _state(record, model)
                return record

            yield f"midway/{how}/{o}/{s}", run
    for o in SPREAD:

        def cloned(o=OPTIMIZERS[o]):
            model = _linear(False, SETS["l1"], o, LOSSES["squared"][1])
            for x, y in samples(20, 10, 1, False):
                model.learn_one(x, y)
            return _online(model.clone(), samples(60, 10, 2, False))

        yield f"midway/clone/{o}/l1", cloned


def saved(model: typing.Any) -> typing.Any:
    """The model as a checkpoint holds it."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = find("Checkpoint")(f"{folder}/model.ckpt")
        checkpoint.save({"model": model})
        return checkpoint.load()["model"]


AGAIN: dict[str, Callable[[typing.Any], typing.Any]] = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "copy": copy.deepcopy,
    "checkpoint": saved,
}


def _merges() -> Iterator[tuple[str, Case]]:
    for o, s in itertools.product(SPREAD, ("l1", "simplex", "l2", "box")):

        def run(o=OPTIMIZERS[o], s=SETS[s]):
            models = [_linear(True, s, o, LOSSES["log"][1], intercept=True) for _ in range(3)]
            for seed, model in enumerate(models):
                for x, y in samples(40 + 10 * seed, 12 + seed, seed, True):
                    model.learn_one(x, y)
            merged = models[0].merged(models[1:])
            record = Record()
            record.put("predicted", [merged.predict_proba_one(x) for x, _ in samples(10, 12, 7, True)])
            for name in ("weights", "intercept_", "violation", "n_samples", "n_features", "cumulative_loss"):
                record.put(name, read(merged, name))
            return record

        yield f"merged/{o}/{s}", run


def _refusals() -> Iterator[tuple[str, Case]]:
    """Samples that are refused leave everything as it was; arrays stop at the row that fails."""
    bad = [
        ({"x1": math.nan, "x2": 1.0}, 1.0),
        ({"x1": 1.0, "new": math.inf}, 1.0),
        ({"x1": 1.0}, math.nan),
        ({"other": 1e200}, 0.5),
        ({"x1": "text"}, 1.0),
    ]
    for o, s in itertools.product(SPREAD, ("l1", "l2")):

        def run(o=OPTIMIZERS[o], s=SETS[s]):
            model = _linear(False, s, o, LOSSES["squared"][1], intercept=True)
            record = Record()
            for i, (x, y) in enumerate(samples(60, 12, 14, False)):
                model.learn_one(x, y)
                if i % 10 == 5:
                    wrong = bad[(i // 10) % len(bad)]
                    with contextlib.suppress(SampleError, TypeError, ValueError):
                        model.learn_one(*wrong)
                        record.put(f"learned.{i}", True)
            X, y = table(20, 12, 15, False)
            X[11, 3] = math.nan
            try:
                model.learn_arrays(X, y)
            except (SampleError, ValueError) as error:
                record.put("refused", type(error).__name__)
            _state(record, model)
            return record

        yield f"refused/{o}/{s}", run

        def raising(o=OPTIMIZERS[o], s=SETS[s]):
            model = _linear(False, s, o, Failing)
            record = Record()
            for x, y in samples(30, 12, 14, False):
                with contextlib.suppress(ArithmeticError):
                    model.learn_one(x, y)
            X, y = table(20, 12, 15, False)
            try:
                model.learn_arrays(X, y)
            except ArithmeticError:
                record.put("raised", True)
            of_linear(record, model)
            of_optimizer(record, model.optimizer)
            return record

        if o in HOT:
            yield f"raising-loss/{o}/{s}", raising


class Failing(catalogue.Sharp):
    """A loss that raises where a target is far out."""

    def gradient(self, y_true, y_pred):
        if y_true > 1.5:
            raise ArithmeticError("too far out")
        return super().gradient(y_true, y_pred)


def _frames() -> Iterator[tuple[str, Case]]:
    """Frames as river takes them, and `play_one`."""
    for o in HOT:
        for labels, loss in ((False, "squared"), (True, "log")):

            def run(o=OPTIMIZERS[o], k=labels, f=LOSSES[loss][1]):
                import pandas as pd

                model = _linear(k, SETS["l1"], o, f, intercept=True)
                X, y = table(80, 10, 16, k, 0.6)
                frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(10)])
                model.learn_many(frame[:40], pd.Series(y[:40]))
                model.learn_many(frame[40:][["c3", "c1", "c9", "c0"]], pd.Series(y[40:], index=frame[40:].index))
                record = Record()
                record.put("many", model.predict_many(frame).to_numpy().astype(float))
                if k:
                    record.put("probabilities", model.predict_proba_many(frame).to_numpy())
                record.put("played", [model.play_one(x, t) for x, t in samples(30, 10, 17, k)])
                if k:
                    record.put("played.proba", [model.play_proba_one(x, t) for x, t in samples(30, 10, 18, k)])
                _state(record, model)
                return record

            yield f"frames/{o}/{loss}", run


SOFTMAX_SETS: dict[str, Make] = {
    "l1": lambda: sets.L1Ball(radius=3.0),
    "nuclear": lambda: sets.NuclearBall(radius=4.0),
    "l2": lambda: sets.L2Ball(radius=3.0),
    "box": lambda: sets.Box(lower=-0.5, upper=0.5),
}


def _softmax() -> Iterator[tuple[str, Case]]:
    classes = ("low", "middle", "high")

    def stream(n: int, seed: int) -> list[tuple]:
        cut = [(x, classes[int(np.digitize(y, [-0.4, 0.4]))]) for x, y in samples(n, 12, seed, False)]
        return cut

    vectors = ("fw", "away", "pairwise", "randomized", "randomized-away", "pairwise-memory")
    takers = [o for o in (*SPREAD, "fw-harmonic") if o not in vectors]
    for o, (s, constraint) in itertools.product(takers, SOFTMAX_SETS.items()):

        def make(o=OPTIMIZERS[o], s=constraint, most=None):
            return build(linear_model, "FWSoftmax", constraint=s(), optimizer=o(), seed=1, max_names=most)

        def arrays(m=make):
            model = m()
            X, scores = table(90, 8, 20, False, 0.6)
            y = np.array(classes)[np.digitize(scores, [-0.4, 0.4])]
            return _arrays(model, X, y)

        def offline(m=make):
            model = m()
            X, scores = table(60, 8, 21, False)
            y = np.array(classes)[np.digitize(scores, [-0.4, 0.4])]
            result = model.minimize(X, y, steps=60, callback=None, x0=None, tol=None)
            record = Record()
            for name in ("x", "fun", "gap", "gap_estimate", "nit", "n_gradients", "n_lmo"):
                record.put(name, result.get(name))
            return record

        def midway(m=make):
            record, model = Record(), m()
            _learn(record, model, stream(40, 22))
            model = saved(model)
            _learn(record, model, stream(40, 23))
            merged = model.merged([model])
            record.put("merged", merged.weights)
            _state(record, model)
            return record

        yield f"softmax/{o}/{s}/online", lambda m=make: _online(m(), stream(100, 19))
        yield f"softmax/{o}/{s}/arrays", arrays
        yield f"softmax/{o}/{s}/offline", offline
        yield f"softmax/{o}/{s}/midway", midway
        yield f"softmax/{o}/{s}/max-names", lambda m=make: _online(m(most=9), stream(100, 24))
