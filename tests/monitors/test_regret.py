"""Regret: an interval that holds the truth, against brute force."""

import collections
import math
import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.optimize
from river import linear_model, optim, preprocessing

from fwonline import datasets, losses, monitors, sets
from fwonline.exceptions import SampleError
from fwonline.linear_model import FWRegressor
from fwonline.monitors import regret as regret_module
from fwonline.optim import SFW

Sample = collections.namedtuple("Sample", "indices values y prediction loss n_features")


class Player:
    """What an estimator exposes to a monitor, with any plays."""

    def __init__(self, loss, constraint):
        self.fitted_loss, self.constraint, self.last_sample = loss, constraint, None

    def learn(self, x, y, prediction, d):
        nonzero = np.flatnonzero(x)
        self.last_sample = Sample(nonzero, x[nonzero], float(y), prediction, math.nan, d)


def play(own_loss, own_constraint, X, y, plays, **params):
    player, monitor = Player(own_loss, own_constraint), monitors.Regret(**params)
    for i in range(len(y)):
        player.learn(X[i], y[i], plays[i], X.shape[1])
        monitor.update(y[i], plays[i], x={}, model=player)
    return monitor


def data(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    y = X @ rng.uniform(-1, 1, d) + 0.2 * rng.standard_normal(n)
    return X, y, rng.standard_normal(n)


def optimum_on_l1_ball(loss, X, y, radius):
    value, derivative = losses.vector_loss(loss)
    A = np.hstack((X, -X))
    result = scipy.optimize.minimize(
        lambda v: value(y, A @ v).sum(),
        np.zeros(A.shape[1]),
        jac=lambda v: A.T @ derivative(y, A @ v),
        bounds=[(0, None)] * A.shape[1],
        constraints=[{"type": "ineq", "fun": lambda v: radius - v.sum()}],
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    return result.fun


@pytest.mark.parametrize("loss", [optim.losses.Squared(), optim.losses.Huber(), optim.losses.Log()], ids=str)
def test_the_interval_holds_the_true_regret(loss):
    X, y, plays = data()
    y = (y > 0).astype(float) if isinstance(loss, optim.losses.Log) else y
    monitor = play(loss, sets.L1Ball(0.8), X, y, plays)
    value, _ = losses.vector_loss(loss)
    for n, result in ((256, monitor.get()), (300, monitor.evaluate(tol=1e-9, max_iter=5000))):
        truth = value(y[:n], plays[:n]).sum() - optimum_on_l1_ball(loss, X[:n], y[:n], 0.8)
        assert result["regret_at"] == n
        assert result["regret_lo"] <= truth + 1e-6 <= result["regret_hi"] + 2e-6
        assert result["regret_hi"] - result["regret_lo"] <= 1e-3 * value(y[:n], plays[:n]).sum()
        assert result["regret_average_lo"] == result["regret_lo"] / n
        assert result["regret_average_hi"] == result["regret_hi"] / n
        assert result["regret_complete"]


def test_linear_losses_have_the_best_asset_for_comparator():
    stream = datasets.AdversarialLinear(n_features=5, switch_every=40, seed=3)
    monitor = monitors.Regret(optim.losses.Absolute(), sets.ProbabilitySimplex(), tol=1e-5, max_iter=5000)
    plays = []
    for x, y in stream.take(777):
        plays.append(sum(x.values()) / 5)
        monitor.update(y, plays[-1], x=x)
    X, _ = stream.to_arrays(777)
    truth = X.sum(axis=0).max() - sum(plays)
    result = monitor.evaluate()
    assert result["regret_lo"] <= truth + 1e-9
    assert truth <= result["regret_hi"] + 1e-9
    assert result["regret_hi"] - result["regret_lo"] < 1e-3
    assert monitor.best.x.argmax() == X.sum(axis=0).argmax()


def test_dicts_and_arrays_give_the_same():
    X, y, plays = data()
    loss, ball = optim.losses.Squared(), sets.L1Ball(0.8)
    by_model = play(loss, ball, X, y, plays)
    by_dict = monitors.Regret(loss, ball)
    for i in range(300):
        by_dict.update(y[i], plays[i], x={f"f{j}": v for j, v in enumerate(X[i]) if v})
    assert by_dict.get() == pytest.approx(by_model.get(), rel=1e-9)


def test_works_with_any_model_given_loss_and_constraint():
    monitor = monitors.Regret(optim.losses.Squared(), sets.L2Ball(100.0))
    model = linear_model.LinearRegression(intercept_lr=0)
    for x, y in datasets.SparseLinear(n_features=5, n_informative=2, seed=0).take(400):
        y_pred = model.predict_one(x)
        model.learn_one(x, y)
        monitor.update(y, y_pred, x=x, model=model)
    result = monitor.evaluate()
    assert 0 < result["regret_lo"] <= result["regret_hi"]
    assert result["regret_average_hi"] < 20


def test_what_the_user_gives_goes_before_what_the_model_has():
    X, y, plays = data()
    own = play(optim.losses.Squared(), sets.L1Ball(0.1), X, y, plays).evaluate()
    larger = play(optim.losses.Squared(), sets.L1Ball(0.1), X, y, plays, constraint=sets.L1Ball(5.0)).evaluate()
    assert larger["regret_lo"] > own["regret_hi"]


def test_samples_that_became_sums_say_the_same(monkeypatch):
    X, y, plays = data(n=1000)
    kept = play(optim.losses.Squared(), sets.L1Ball(0.8), X, y, plays)
    monkeypatch.setattr("fwonline.monitors.regret._FOLD", 300)
    folded = play(optim.losses.Squared(), sets.L1Ball(0.8), X, y, plays)
    assert folded._sums is not None
    assert folded._rows.nnz < 300
    for one, other in ((kept.get(), folded.get()), (kept.evaluate(), folded.evaluate())):
        assert other == pytest.approx(one, rel=1e-3)
        assert max(one["regret_lo"], other["regret_lo"]) <= min(one["regret_hi"], other["regret_hi"]) + 1e-9


def test_features_may_come_after_samples_became_sums(monkeypatch):
    monkeypatch.setattr("fwonline.monitors.regret._FOLD", 100)
    X, y, plays = data(n=600, d=8)
    X[:300, 4:] = 0
    monitor = monitors.Regret(optim.losses.Squared(), sets.L1Ball(1.0))
    for i in range(600):
        monitor.update(y[i], plays[i], x={j: v for j, v in enumerate(X[i]) if v})
    result = monitor.evaluate(tol=1e-8, max_iter=10_000)
    truth = ((y - plays) ** 2).sum() - optimum_on_l1_ball(optim.losses.Squared(), X, y, 1.0)
    assert result["regret_lo"] - 1e-4 <= truth <= result["regret_hi"] + 1e-4


@pytest.mark.parametrize("loss", [optim.losses.Log(), optim.losses.Squared()], ids=str)
def test_beyond_the_cap_it_says_up_to_where_it_is_valid(loss):
    X, y, plays = data(n=400, d=30)
    y = (y > 0).astype(float)
    monitor = play(loss, sets.L1Ball(0.8), X, y, plays, max_values=2000)
    result = monitor.get()
    if isinstance(loss, optim.losses.Squared):  # sums of products go on forever
        assert result["regret_complete"]
        return
    assert not result["regret_complete"]
    assert 2000 / 30 < result["regret_at"] < 400
    assert "too many to keep" in repr(monitor)
    n = result["regret_at"]
    value, _ = losses.vector_loss(loss)
    truth = value(y[:n], plays[:n]).sum() - optimum_on_l1_ball(loss, X[:n], y[:n], 0.8)
    assert result["regret_lo"] - 1e-6 <= truth <= result["regret_hi"] + 1e-6
    monitor.finish()
    assert monitor.evaluate() == result
    assert monitor._rows.nnz == 0


def test_evaluations_come_at_growing_distances_and_at_the_end():
    X, y, plays = data(n=700)
    times = []
    player, monitor = Player(optim.losses.Squared(), sets.L1Ball(1.0)), monitors.Regret(growth=1.5)
    for i in range(700):
        player.learn(X[i], y[i], plays[i], 4)
        monitor.update(model=player)
        if monitor.get()["regret_at"] not in (None, *times):
            times.append(monitor.get()["regret_at"])
    assert times == [64, 96, 144, 216, 324, 486]
    monitor.finish()
    assert monitor.get()["regret_at"] == 700


def test_arrays_of_the_model_are_copied():
    player, monitor = Player(optim.losses.Squared(), sets.L1Ball(1.0)), monitors.Regret()
    indices, values = np.array([0, 1]), np.array([1.0, 2.0])
    player.last_sample = Sample(indices, values, 1.0, 0.0, 1.0, 2)
    monitor.update(model=player)
    values[:] = np.nan
    indices[:] = -7
    assert math.isfinite(monitor.evaluate()["regret_hi"])


def test_what_is_no_round_changes_nothing():
    monitor = monitors.Regret(optim.losses.Squared(), sets.L1Ball(1.0))
    monitor.update(None, 1.0, x={"a": 1.0})
    monitor.update(1.0, None, x={"a": 1.0})
    monitor.update(1.0, 1.0, x={"a": 1.0}, model=Player(optim.losses.Squared(), sets.L1Ball(1.0)))
    assert monitor._n == 0
    assert monitor.evaluate()["regret_at"] is None
    assert repr(monitor) == "Regret: not evaluated yet"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((1.0, 1.0, {"a": math.nan}), "feature 'a' must be a finite number"),
        ((1.0, 1.0, {"a": "text"}), "feature 'a' must be a finite number"),
        ((1.0, math.inf, {"a": 1.0}), "play must be"),
        ((1.0, {True: 0.5}, {"a": 1.0}), "play must be"),
        (("yes", 1.0, {"a": 1.0}), "target must be"),
    ],
)
def test_bad_input_is_named_and_leaves_no_trace(args, message):
    monitor = monitors.Regret(optim.losses.Squared(), sets.L1Ball(1.0))
    before = pickle.dumps(monitor.__dict__["_rows"])
    y_true, y_pred, x = args
    with pytest.raises(SampleError, match=message):
        monitor.update(y_true, y_pred, x=x)
    assert pickle.dumps(monitor.__dict__["_rows"]) == before
    assert monitor._features == {}
    assert monitor._n == 0


def test_what_it_needs_is_named():
    with pytest.raises(TypeError, match="needs a loss and a constraint"):
        monitors.Regret().update(1.0, 1.0, x={"a": 1.0})
    with pytest.raises(TypeError, match="x=x"):
        monitors.Regret(optim.losses.Squared(), sets.L1Ball(1.0)).update(1.0, 1.0)


def test_memory_is_arrays_and_flat_where_sums_serve(monkeypatch):
    monkeypatch.setattr("fwonline.monitors.regret._FOLD", 4096)
    player, monitor = Player(optim.losses.Squared(), sets.L1Ball(1.0)), monitors.Regret(growth=100)
    x = np.random.default_rng(0).standard_normal(16)

    def learn(n):
        for _ in range(n):
            player.learn(x, 1.0, 0.5, 16)
            monitor.update(model=player)

    learn(2000)
    tracemalloc.start()
    learn(20_000)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 200_000  # the samples alone take 20 times as much


def test_a_set_of_fixed_shape():
    box = sets.Box([-1.0, 0.0, 0.0], [1.0, 0.5, 0.2])
    X, y, plays = data(d=3)
    X[:, 2] = 0
    monitor = monitors.Regret(optim.losses.Squared(), box)
    for i in range(300):
        monitor.update(y[i], plays[i], x={j: X[i, j] for j in range(2)})
    assert monitor.evaluate()["regret_complete"]
    assert monitor.best.x.shape == (3,)


def test_a_pipeline_is_measured_after_its_transforms():
    class Estimator(linear_model.LinearRegression):
        fitted_loss, constraint, last_sample = optim.losses.Squared(), sets.L1Ball(1.0), None

        def learn_one(self, x, y):
            values = np.array(list(x.values()))
            self.last_sample = Sample(np.arange(values.size), values, y, 0.0, y * y, values.size)

    model = preprocessing.StandardScaler() | Estimator()
    monitor = monitors.Regret()
    seen = []
    for x, y in datasets.SparseLinear(n_features=3, n_informative=1, seed=1).take(50):
        large = {j: 1000 * v for j, v in x.items()}
        model.learn_one(large, y)
        seen.append(list(model["Estimator"].last_sample.values))
        monitor.update(y, 0.0, x=large, model=model)
    np.testing.assert_array_equal(monitor._rows.matrix(3).toarray(), seen)


def test_features_that_take_each_others_positions_are_told_apart():
    """A model of few names gives positions away; the best fixed point knows every name that came."""
    model = FWRegressor(sets.L1Ball(2.0), SFW(memory=20), max_names=3, seed=0, intercept=False)
    loss = optim.losses.Squared()
    own, by_name = monitors.Regret(), monitors.Regret(loss, sets.L1Ball(2.0))
    rng = np.random.default_rng(0)
    for t in range(200):
        x = {f"f{t // 20}": rng.normal(), "always": rng.normal(), f"f{t // 30}": rng.normal()}
        y = 2.0 * x["always"] + 0.1 * rng.normal()
        play = model.predict_one(x)
        model.learn_one(x, y)
        own.update(y, play, x=x, model=model)
        # What was passed over is no part of the sample that the model saw.
        seen = dict(zip(model.last_names, model.last_sample.values.tolist(), strict=True))
        by_name.update(y, play, x=seen)
    assert own.evaluate() == pytest.approx(by_name.evaluate())
    assert len(own._features) > 3


def test_features_far_from_zero_leave_the_interval_narrow():
    """Offset by 1e4, kept as samples and as sums of products."""
    rng = np.random.default_rng(4)
    for fold in (1 << 18, 600):
        monitor = monitors.Regret(optim.losses.Squared(), sets.L1Ball(3.0))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(regret_module, "_FOLD", fold)
            for _ in range(300):
                centred = rng.normal(size=4)
                x = dict(enumerate((centred + 1e4).tolist()))
                y = sum(x.values()) * 0.5 + 0.3 * float(rng.normal())
                monitor.update(y, y + 1.0, x=x)
            monitor.finish()
        assert (monitor._sums is not None) == (fold == 600)
        said = monitor.get()
        # The plays are off by 1, the best fixed point by 0.3.
        assert 150.0 < said["regret_lo"] <= said["regret_hi"] < 300.0
        assert said["regret_hi"] - said["regret_lo"] < 1.0
