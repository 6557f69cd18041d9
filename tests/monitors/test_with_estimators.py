"""Monitors on the estimators that they are meant for: what is said is what happened."""

import copy

import numpy as np
import pytest
from river import optim as river_optim
from river import preprocessing

from fwonline import cluster, covariance, datasets, losses, monitors, optim, reco, sets
from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError, MonitorError
from fwonline.linear_model import FWClassifier, FWRegressor, FWSoftmax
from fwonline.monitors import gap as gap_module
from fwonline.monitors import regret
from fwonline.optim.hindsight import best_fixed_point

CASES = {
    "squared on the l1 ball": (
        FWRegressor(sets.L1Ball(5.0), optim.SFW(memory=100), seed=0, intercept=False),
        datasets.SparseLinear(n_features=8, n_informative=3, radius=5, drift_every=100, seed=1),
        river_optim.losses.Squared(),
    ),
    "linear on the simplex": (
        FWRegressor(
            sets.ProbabilitySimplex(), optim.OneSampleFW(), loss=river_optim.losses.Absolute(), seed=0, intercept=False
        ),
        datasets.AdversarialLinear(n_features=4, switch_every=50, seed=2),
        river_optim.losses.Absolute(),
    ),
    "portfolio": (
        FWRegressor(
            sets.ProbabilitySimplex(), optim.MomentumFW(), loss=losses.NegativeLogReturn(), seed=0, intercept=False
        ),
        datasets.AdversarialLinear(n_features=4, switch_every=50, seed=3),
        losses.NegativeLogReturn(),
    ),
    "sparse log loss": (
        FWClassifier(sets.L1Ball(20.0), optim.SFW(memory=50), seed=0, intercept=False),
        datasets.SparseLinear(classification=True, n_features=200, density=0.1, n_informative=20, radius=20, seed=4),
        river_optim.losses.Log(),
    ),
}


def margin(model, x):
    """The play in numbers, from public weights: what the monitor must have seen."""
    weights = model.weights
    return sum(weights.get(j, 0.0) * v for j, v in x.items())


@pytest.mark.parametrize("name", CASES)
def test_regret_is_that_of_the_plays(name):
    model, stream, loss = CASES[name]
    model, monitor = model.clone(), monitors.Regret()
    plays, n = [], 300
    for x, y in stream.take(n):
        # Before it knows a feature a model plays with what it starts from, which for the simplex is not 0.
        y_pred = model.predict_one(x)
        plays.append(y_pred if isinstance(model, FWRegressor) else margin(model, x))
        model.learn_one(x, y)
        monitor.update(y, y_pred, x=x, model=model)
    X, y = stream.to_arrays(n)
    value, _ = losses.vector_loss(loss)
    played = value(y.astype(float), np.array(plays)).sum()
    best = best_fixed_point(X, y, loss=loss, constraint=model.constraint, tol=1e-5)
    result = monitor.evaluate(tol=1e-5, max_iter=20_000)
    assert result["regret_at"] == n
    slack = 1e-9 * (1 + abs(played))
    assert result["regret_lo"] <= played - n * best.lower + slack
    assert result["regret_hi"] >= played - n * best.upper - slack
    assert result["regret_hi"] - result["regret_lo"] <= 1e-3 * n * max(abs(best.upper), 1e-3)


@pytest.mark.parametrize("name", CASES)
def test_gap_and_feasibility_are_the_model_s(name):
    model, stream, _ = CASES[name]
    pipeline = preprocessing.StandardScaler() | model.clone()
    model = list(pipeline.steps.values())[-1]
    gap, feasibility = monitors.Gap(every=50), monitors.Feasibility(every=1)
    for x, y in stream.take(200):
        pipeline.learn_one(x, y)
        gap.update(model=pipeline)
        feasibility.update(model=pipeline)
    said = gap.get()
    assert said["gap_estimate"] == model.gap
    exact = model.exact_gap
    assert said["gap_over_memory_at"] == 200
    if exact is not None:
        assert said["gap_over_memory"] == pytest.approx(exact)
    assert said["gap_upper"] >= 3 * said["gap_over_memory"] >= 0
    assert 0 <= feasibility.get()["violation_worst"] <= 1e-9 * 20


@pytest.mark.parametrize("name", CASES)
def test_support_is_that_of_the_weights(name):
    model, stream, _ = CASES[name]
    pipeline = preprocessing.StandardScaler() | model.clone()
    monitor, sizes = monitors.Support(every=1), []
    for x, y in stream.take(60):
        pipeline.learn_one(x, y)
        monitor.update(model=pipeline)
        sizes.append(len(list(pipeline.steps.values())[-1].weights))
    assert monitor.get() == {"support": sizes[-1], "support_largest": max(sizes)}


def test_support_of_matrices_is_a_rank():
    rng = np.random.default_rng(0)
    softmax = FWSoftmax(sets.L1Ball(3.0), seed=0)
    covariances = covariance.SHCGMCovariance(seed=0)
    points = cluster.SHCGMKMeans(n_clusters=2, n_points=20, batch_size=5, seed=0)
    completions = [reco.SHCGMCompletion(method=method, batch_size=5, seed=0) for method in ("hcgm", "shcgm")]
    for model in (softmax, covariances, points, *completions):
        assert model.support_size == 0
    for k in range(40):
        x = dict(enumerate(rng.normal(size=4).tolist()))
        softmax.learn_one(x, k % 3)
        covariances.learn_one(x)
        points.learn_one(x)
        for model in completions:
            model.learn_one(k % 6, k % 5, float(rng.normal()))
    assert softmax.support_size == sum(len(weights) for weights in softmax.weights.values())
    assert 0 < covariances.support_size <= 4
    assert 0 < points.support_size <= 20
    assert 0 < completions[0].support_size <= completions[0].n_steps
    assert 0 < completions[1].support_size <= 5
    monitor = monitors.Support(every=1)
    monitor.update(model=completions[0])
    assert monitor.get()["support"] == completions[0].support_size


def test_samples_that_are_refused_are_no_rounds():
    model, monitor = FWRegressor(sets.L1Ball(1.0), seed=0, intercept=False), monitors.Regret()
    for y, x in ((1.0, {"a": 1.0}), (2.0, {"a": float("nan")}), (3.0, {"a": 0.5})):
        try:
            model.learn_one(x, y)
        except ValueError:
            continue
        monitor.update(y, 0.0, x=x, model=model)
    assert monitor._n == model.n_samples == 2
    assert monitor._rows.y.tolist() == [1.0, 3.0]


@pytest.mark.parametrize("name", ["linear on the simplex", "portfolio"])
def test_where_the_optimizer_remembers_nothing_the_gap_is_over_the_monitor_s_own_samples(name, monkeypatch):
    monkeypatch.setattr(gap_module, "_WINDOW", 60)
    model, stream, loss = CASES[name]
    model, monitor = model.clone(), monitors.Gap(every=10)
    X, y = stream.to_arrays(150)
    _, derivative = losses.vector_loss(loss)
    for t, (x, target) in enumerate(stream.take(150), start=1):
        model.learn_one(x, target)
        monitor.update(model=model)
        if t % 10:
            continue
        w = np.array([model.weights.get(j, 0.0) for j in range(X.shape[1])])
        held = slice(max(0, t - 60), t)
        gradient = X[held].T @ derivative(y[held], X[held] @ w) / len(X[held])
        assert monitor.get()["gap_over_memory"] == pytest.approx(gradient @ w - gradient.min(), rel=1e-9, abs=1e-12)
        monitor = codec.loads(codec.dumps(monitor))


def test_the_samples_kept_for_a_gap_are_validated():
    model, monitor = FWRegressor(sets.L1Ball(1.0), optim.OneSampleFW(), seed=0, intercept=False), monitors.Gap()
    for k in range(5):
        model.learn_one({"a": 1.0, "b": float(k)}, 1.0)
        monitor.update(model=model)
    state = monitor._window.__getstate__()
    assert sorted(state["indices"].tolist()) == [0] * 5 + [1] * 5
    for name, change in (
        ("size", 0),
        ("size", 4),
        ("lengths", np.array([2, 2, 2, 2, 3])),
        ("lengths", np.array([2**62, 2**62, 2**62, 2**62, 10])),
        ("lengths", np.array([-2, 4, 4, 2, 2])),
        ("lengths", np.full(5, 2.0)),
        ("indices", np.array([0, 1, 2**31, 1, 0, 1, 0, 1, 0, 1], dtype=np.uint32)),
        ("values", np.full(10, np.nan)),
        ("targets", np.ones(4)),
        ("plays", np.full(5, np.inf)),
    ):
        window = copy.copy(monitor._window)
        window.__setstate__({**state, name: change})
        with pytest.raises(CheckpointError, match="Samples"):
            codec.loads(codec.dumps(window))
    monitor._window.__setstate__({**state, "indices": np.full(10, 10**9, dtype=np.uint32)})
    monitor._look(model)  # positions that the model does not have are not followed
    assert len(monitor._window) == 0


def test_samples_of_another_model_are_let_go():
    model, monitor = FWRegressor(sets.L1Ball(1.0), optim.OneSampleFW(), seed=0, intercept=False), monitors.Gap(every=1)
    for _ in range(5):
        model.learn_one({"a": 1.0, "b": 2.0}, 1.0)
        monitor.update(model=model)
    other = FWRegressor(sets.L1Ball(1.0), optim.OneSampleFW(), seed=0, intercept=False)
    other.learn_one({"c": 2.0}, 1.0)
    monitor.update(model=other)
    assert monitor.get()["gap_over_memory_at"] == 5
    assert len(monitor._window) == 0


def test_values_too_large_for_a_gradient_do_not_end_a_run():
    model = FWRegressor(
        sets.L1Ball(1.0), optim.OneSampleFW(), loss=river_optim.losses.Poisson(), seed=0, intercept=False
    )
    monitor = monitors.Gap(every=1)
    for value in (1e10, 1.0, 1.0):  # where w is 0 the first is harmless
        model.learn_one({"a": value}, 3.0)
        monitor.update(model=model)
    assert monitor.get()["gap_upper"] is None
    assert set(monitor.get()) == {
        "gap_upper", "gap_over_memory", "gap_over_memory_at", "gap_estimate", "gap_estimate_ewm", "gap_estimate_mean",
    }  # fmt: skip


def test_where_features_change_their_positions_no_samples_are_kept():
    model, monitor = (
        FWRegressor(sets.L1Ball(1.0), optim.OneSampleFW(), seed=0, max_names=3, intercept=False),
        monitors.Gap(every=1),
    )
    for k in range(20):
        model.learn_one({f"name {k}": 1.0, "always": 2.0}, 1.0)
        monitor.update(model=model)
    assert monitor._window is None
    assert monitor.get()["gap_upper"] is None
    assert monitor.get()["gap_estimate"] is not None


@pytest.mark.parametrize("kind", ["regression", "classification"])
@pytest.mark.parametrize("n", [200, 3000])
def test_regret_against_points_with_an_intercept(kind, n, monkeypatch):
    monkeypatch.setattr(regret, "_FOLD", 4096)  # the longer stream becomes sums of products, where it may
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)) + 1.0
    z = X @ [1.0, -0.5, 0.0, 0.0] + 3.0 + 0.1 * rng.normal(size=n)
    y = z if kind == "regression" else z > 3.0
    make = FWRegressor if kind == "regression" else FWClassifier
    model, monitor = make(sets.L1Ball(2.0), seed=0), monitors.Regret()
    for x, target in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one(dict(enumerate(x)), target)
        monitor.update(model=model)
    result = codec.loads(codec.dumps(monitor)).evaluate(tol=1e-4, max_iter=5000)
    value, _ = losses.vector_loss(model.fitted_loss)
    best = best_fixed_point(X, y, loss=model.fitted_loss, constraint=sets.L1Ball(2.0), intercept=True, tol=1e-6)
    assert result["regret_lo"] <= model.cumulative_loss - n * best.lower
    assert result["regret_hi"] >= model.cumulative_loss - n * best.upper
    assert result["regret_hi"] - result["regret_lo"] <= 1e-3 * n * best.upper
    assert value(y.astype(float), X @ best.x + best.intercept).mean() == pytest.approx(best.upper, rel=1e-6)
    assert monitor.evaluate(tol=1e-4)["regret_hi"] > 0.0
    assert monitor.best.intercept == pytest.approx(best.intercept, rel=0.05)


def test_an_intercept_that_the_loss_cannot_have_is_refused():
    model = FWRegressor(sets.ProbabilitySimplex(), optim.OFW(), loss=losses.NegativeLogReturn())
    with pytest.raises(MonitorError, match="falls without end as an intercept grows: give the model or the monitor"):
        monitors.Regret().check_model(model)
    monitors.Regret(intercept=False).check_model(model)
