"""Monitors that read a model after many samples at once: to the bit what they are after each of them."""

import math

import numpy as np
import pytest
from river import linear_model, metrics
from scipy import sparse

from fwonline import datasets, monitors, optim, sets
from fwonline.checkpoint import codec
from fwonline.exceptions import MonitorError
from fwonline.linear_model import FWClassifier, FWRegressor
from fwonline.monitors import regret
from fwonline.monitors.base import Monitor, Periodic

N = 400
REGRESSION = datasets.SparseLinear(n_features=6, n_informative=3, radius=5, drift_every=100, seed=1)
CLASSES = datasets.SparseLinear(classification=True, n_features=40, density=0.2, radius=20, seed=4)
MODELS = {
    "SFW": (FWRegressor(sets.L1Ball(5.0), optim.SFW(memory=100), seed=0), REGRESSION),
    "OneSampleFW": (FWClassifier(sets.L1Ball(20.0), optim.OneSampleFW(), seed=0), CLASSES),
    "no constraint": (FWRegressor(optimizer=optim.ProjectedSGD(), seed=0), REGRESSION),
    "default": (FWRegressor(seed=0), REGRESSION),
    "pairwise": (FWClassifier(sets.L1Ball(20.0), optim.StochasticPairwiseFW(forgetting=False), seed=0), CLASSES),
}


def matrix(samples, names):
    """Samples as rows of a CSR matrix, and their targets."""
    columns = {name: j for j, name in enumerate(names)}
    entries = [(columns[name], value) for x, _ in samples for name, value in x.items()]
    indices, values = zip(*entries, strict=True)
    indptr = np.cumsum([0, *(len(x) for x, _ in samples)])
    X = sparse.csr_array((np.array(values), np.array(indices), indptr), shape=(len(samples), len(names)))
    return X, np.array([y for _, y in samples])


def singly(monitor, model, samples):
    for x, y in samples:
        monitor.update(y, model.play_one(x, y), x=x, model=model)


def together(monitor, model, samples, rng, turns):
    """In ragged blocks; where there are 2 turns, every other one is fed sample by sample."""
    names = sorted({name for x, _ in samples for name in x})
    start, k = 0, 0
    while start < len(samples):
        stop = start + int(min(len(samples) - start, rng.choice([1, 2, 30, 300]), monitor.most_together()))
        k += 1
        if turns == 2 and k % 2 == 0:
            singly(monitor, model, samples[start:stop])
        else:
            X, y = matrix(samples[start:stop], names)
            predicted, error = model.play_block(X, y, names)
            assert error is None
            monitor.update_many(y, predicted, model=model)
        start = stop


def all_of_them(model):
    constraint = {"constraint": sets.L1Ball(5.0)} if model.constraint is None else {}
    yield monitors.Regret(tol=1e-2, max_iter=20, **constraint)
    yield monitors.Regret(growth=1.2, max_values=600, tol=1e-2, max_iter=20, **constraint)
    for every in (None, 0, 7):
        yield monitors.Gap(every, fading_factor=0.1)
    for every in (1, 60):
        yield from (monitors.Support(every), monitors.Feasibility(every))
    yield monitors.Metric(metrics.Accuracy() if isinstance(model, FWClassifier) else metrics.RMSE())
    yield monitors.Drift(0.1)


@pytest.mark.parametrize("name", MODELS)
def test_every_monitor_ends_as_one_by_one(name, monkeypatch):
    monkeypatch.setattr(regret, "_FOLD", 500)
    monkeypatch.setattr("fwonline.monitors.gap._WINDOW", 60)
    fresh, stream = MODELS[name]
    samples, rng = list(stream.take(N)), np.random.default_rng(3)
    for monitor in all_of_them(fresh):
        single, model = monitor.clone(), fresh.clone()
        singly(single, model, samples)
        single.finish()
        checkpoint = codec.dumps(single)
        for turns in (1, 2):
            blocks = monitor.clone()
            together(blocks, fresh.clone(), samples, rng, turns)
            blocks.finish()
            assert blocks.get() == single.get()
            assert codec.dumps(blocks) == checkpoint, (monitor, turns)


def test_throughput_counts_the_time_from_the_first_sample(monkeypatch):
    clock = iter([10.0, 11.0, 11.5, 12.5])
    monkeypatch.setattr("fwonline.monitors.throughput.time.perf_counter", lambda: next(clock))
    monitor = monitors.Throughput()
    assert monitor.most_together() == 1
    for n in (1, 100, 30, 70):
        monitor.update_many(np.zeros(n), np.zeros(n))
        assert monitor.most_together() == math.inf
    assert monitor.get() == {"samples": 201, "samples_per_second": 100 / 1.5, "samples_per_second_mean": 80.0}
    assert codec.loads(codec.dumps(monitor)).most_together() == 1  # no time passes between two runs


def test_looks_are_made_at_the_samples_they_are_due(monkeypatch):
    for every in (1, 2, 7):
        monitor, looks = monitors.Feasibility(every), []
        monkeypatch.setattr(monitor, "_read", lambda model, looks=looks: looks.append(model))
        n = 0
        while n < 50:
            most = monitor.most_together()
            for k in (most - 1, 1):  # a block may be shorter
                if k:
                    n += k
                    monitor.update_many(np.zeros(k), np.zeros(k), model=n)
        assert looks == [i for i in range(1, n + 1) if (i - 1) % every == 0]


def test_a_derived_monitor_with_an_update_of_its_own_is_asked_at_each_sample():
    class Counting(monitors.Metric):
        def update(self, y_true=None, y_pred=None, *, x=None, model=None):
            super().update(y_true, y_pred)

    class Both(Counting):
        def update_many(self, y_true, y_pred, *, model=None):
            pass

        def most_together(self):
            return 5

    class Largest(Periodic):
        def _read(self, model):
            self.largest = model

        def get(self):
            return {}

        def _text(self):
            return ""

    assert Counting(metrics.MAE()).most_together() == 1
    assert Counting.most_together is Monitor.most_together
    assert Both(metrics.MAE()).most_together() == 5
    assert Largest(every=4).most_together() == 1
    with pytest.raises(NotImplementedError, match="One takes samples one by one"):
        type("One", (Monitor,), dict.fromkeys(("update", "get", "_text")))().update_many([], [])


@pytest.mark.parametrize("monitor", [monitors.Gap(), monitors.Regret()])
def test_a_model_that_tells_no_samples_is_named(monitor):
    with pytest.raises(MonitorError, match=r"last_samples.*LinearRegression has none"):
        monitor.update_many(np.zeros(1), np.zeros(1), model=linear_model.LinearRegression())
