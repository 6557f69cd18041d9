"""What is timed: rows that each return the processor time of a unit of work, in a process that is asked for them."""

from __future__ import annotations

import gc
import sys
import tempfile
import time
import typing
from collections.abc import Callable, Iterator

import numpy as np
from river import metrics
from river import optim as river_optim

from fwonline import cluster, covariance, linear_model, loop, monitors, reco, sets, stream
from tools.compare.catalogue import OPTIMIZERS, Sharp, Steady, Tilted, as_csr, samples, table
from tools.compare.names import build, find

__all__ = ["answer", "rows"]

#: One of each that works online.
ONLINE = (
    *("sfw", "sfw-batches", "momentum", "one-sample", "ofw", "ofw-adversarial", "adaptive", "pairwise-memory"),
    *("lu-freund", "projected"),
)
OFFLINE = (*ONLINE, "fw", "away", "pairwise", "randomized", "hazan-luo", "svrf", "scgs", "storc", "projected-svrg")
#: Processor time that a round of a row takes, about, in seconds.
ROUND = 0.02

Work = Callable[[int], typing.Any]
Make = Callable[[], Work]


def _model(o: str, constraint: typing.Any = None, loss: typing.Any = None, labels: bool = True, **more) -> typing.Any:
    optimizer = more.pop("optimizer", None) or OPTIMIZERS[o]()
    loss = loss or river_optim.losses.Log(weight_pos=1.0, weight_neg=1.0)
    given = {"intercept": True, "seed": 1, "max_names": None, **more}
    name = "FWClassifier" if labels else "FWRegressor"
    return build(
        linear_model, name, constraint=constraint or sets.L1Ball(radius=5.0), optimizer=optimizer, loss=loss, **given
    )


def _learn(model: typing.Any, d: int = 60, labels: bool = True) -> Work:
    """Learn a stream of small dicts, over and over."""
    given = samples(200, d, 1, labels, 0.2, fixed=False)
    learn = model.learn_one
    for x, y in given:
        learn(x, y)

    def work(count: int) -> None:
        for i in range(count):
            x, y = given[i % 200]
            learn(x, y)

    return work


def _entry(o: str, constraint: typing.Any = None) -> Work:
    """The compiled call alone: a sample of five features that stands in the buffers."""
    model = _model(o, constraint)
    x = {f"x{j}": 0.5 - 0.2 * j for j in range(5)}
    for _ in range(80):
        model.learn_one(x, True)
    learn = model._run.learn_buffered

    def work(count: int) -> None:
        for _ in range(count):
            learn(5, 1.0)

    return work


def _predict(o: str) -> Work:
    model = _model(o)
    given = samples(200, 60, 1, True, 0.2)
    for x, y in given:
        model.learn_one(x, y)
    predict = model.predict_one

    def work(count: int) -> None:
        for i in range(count):
            predict(given[i % 200][0])

    return work


def _arrays(model: typing.Any, sparse: bool, labels: bool = True, n: int = 200) -> Work:
    X, y = table(n, 30, 2, labels, 0.3 if sparse else 1.0)
    X = as_csr(X) if sparse else X

    def work(count: int) -> None:
        for _ in range(count):
            model.learn_arrays(X, y)

    return work


def _minimize(o: str) -> Work:
    X, y = table(150, 20, 3, True)
    steps = 40 if o in ("fw", "away", "pairwise", "randomized", "scgs", "storc") else 400

    def work(count: int) -> None:
        for _ in range(count):
            OPTIMIZERS[o]().minimize(
                X, y, loss=river_optim.losses.Log(weight_pos=1.0, weight_neg=1.0), constraint=sets.L1Ball(radius=3.0),
                steps=steps, seed=0, callback=None, x0=None, tol=None,
            )  # fmt: skip

    return work


def _scheduled(o: str, name: str) -> typing.Any:
    from fwonline import optim

    own = {"sfw": {"memory": 30, "batch_size": 1, "steps": 1}, "one-sample": {"alpha": 0.7}}[o]
    return build(optim, name, schedule=Steady(), **own)


def _covariance() -> Work:
    model = build(
        covariance, "SHCGMCovariance", trace=None, l1=None, method="mean", beta0=None, center=True, batch=1,
        steps_per_update=1, fading_factor=0.0, l1_fraction=None, missing="zero", rank=None, dual=False,
        dtype="float64", seed=1,
    )  # fmt: skip
    given = [x for x, _ in samples(200, 30, 4, False, fixed=True)]

    def work(count: int) -> None:
        for i in range(count):
            model.update(given[i % 200])

    return work


def _completion() -> Work:
    model = build(
        reco, "SHCGMCompletion", radius=None, lower=1.0, upper=5.0, method="hcgm", beta0=10.0, batch=20, seed=1
    )
    rng = np.random.default_rng(5)
    given = [(int(u), int(i), float(y)) for u, i, y in zip(*rng.integers(1, 6, (3, 500)), strict=True)]
    given = [(u + 7 * k % 40, i + 3 * k % 50, y) for k, (u, i, y) in enumerate(given)]

    def work(count: int) -> None:
        for i in range(count):
            user, item, y = given[i % 500]
            model.learn_one(user=user, item=item, y=y)

    return work


def _kmeans() -> Work:
    model = build(cluster, "SHCGMKMeans", n_clusters=3, method="mean", n_points=100, batch=20, beta0=1.0, seed=1)
    given = [x for x, _ in samples(200, 5, 6, False, fixed=True)]
    for x in given:
        model.learn_one(x)

    def work(count: int) -> None:
        for i in range(count):
            model.learn_one(given[i % 200])

    return work


def _checkpoint(loads: bool) -> Work:
    model = _model("sfw")
    for x, y in samples(300, 200, 7, True, 0.2):
        model.learn_one(x, y)
    folder = tempfile.TemporaryDirectory()
    checkpoint = find("Checkpoint")(f"{folder.name}/c")
    checkpoint.save({"model": model})

    def work(count: int) -> None:
        folder.name  # noqa: B018  it goes with this function
        for _ in range(count):
            checkpoint.load() if loads else checkpoint.save({"model": model})

    return work


def _loop() -> Work:
    items = [stream.Sample(x, y) for x, y in samples(400, 60, 8, True, 0.2)]

    def work(count: int) -> None:
        for _ in range(count):
            watching = [build(monitors, "Metric", metric=metrics.Accuracy(), name=None)]
            loop.EventLoop(items, _model("one-sample"), watching).run()

    return work


def rows() -> Iterator[tuple[str, Make]]:
    """Every row: its name, and what sets it up."""
    for o in ONLINE:
        yield f"compiled call/{o}/l1", lambda o=o: _entry(o)
    for o in ("one-sample", "sfw", "pairwise-memory"):
        yield f"compiled call/{o}/l2", lambda o=o: _entry(o, sets.L2Ball(radius=5.0))
    for o in (*ONLINE, "fw", "svrf"):
        yield f"learn_one/{o}", lambda o=o: _learn(_model(o))
    for o in ("one-sample", "sfw", "pairwise-memory"):
        yield f"predict_one/{o}", lambda o=o: _predict(o)
    for o in ONLINE:
        yield f"learn_arrays/{o}/dense", lambda o=o: _arrays(_model(o), False)
        yield f"learn_arrays/{o}/sparse", lambda o=o: _arrays(_model(o), True)
    for o in OFFLINE:
        yield f"minimize/{o}", lambda o=o: _minimize(o)
    for o, name in (("sfw", "SFW"), ("one-sample", "OneSampleFW")):
        own = {"loss": Sharp(), "labels": False}
        yield f"loss in Python/{o}/learn_one", lambda o=o, own=own: _learn(_model(o, **own), labels=False)
        yield f"loss in Python/{o}/learn_arrays", lambda o=o, own=own: _arrays(_model(o, **own), True, False)
        yield (
            f"schedule in Python/{o}/learn_arrays",
            lambda o=o, n=name: _arrays(_model(o, optimizer=_scheduled(o, n)), True),
        )
        yield f"oracle in Python/{o}/learn_one", lambda o=o: _learn(_model(o, Tilted(radius=5.0)))
        yield f"oracle in Python/{o}/learn_arrays", lambda o=o: _arrays(_model(o, Tilted(radius=5.0)), True)
    for o in ("one-sample", "sfw"):

        def softmax(o=o):
            model = build(
                linear_model, "FWSoftmax", constraint=sets.L1Ball(radius=5.0), optimizer=OPTIMIZERS[o](), seed=1,
                max_names=None,
            )  # fmt: skip
            return _learn(model)

        yield f"softmax learn_one/{o}", softmax
    yield "covariance update", _covariance
    yield "completion learn_one", _completion
    yield "kmeans learn_one", _kmeans
    yield "checkpoint save", lambda: _checkpoint(False)
    yield "checkpoint load", lambda: _checkpoint(True)
    yield "event loop, 400 samples", _loop


def answer() -> None:
    """Take names of rows from standard input; print the processor time of a unit of each, in seconds."""
    made = dict(rows())
    ready: dict[str, tuple[Work, int]] = {}
    shown = sys.stdout
    for line in sys.stdin:
        name = line.rstrip("\n")
        try:
            if name not in ready:
                work = made[name]()
                work(2)  # compiles
                count = 4
                while _seconds(work, count) < ROUND / 4 and count < 100_000:
                    count *= 2
                ready[name] = work, max(1, round(count * ROUND / max(_seconds(work, count), 1e-6)))
            work, count = ready[name]
            print(_seconds(work, count) / count, file=shown, flush=True)
        except Exception as error:
            print(f"{type(error).__name__}: {error}".replace("\n", " "), file=shown, flush=True)


def _seconds(work: Work, count: int) -> float:
    gc.collect()
    gc.disable()
    start = time.process_time()
    try:
        work(count)
        return time.process_time() - start
    finally:
        gc.enable()
