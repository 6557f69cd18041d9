"""The mixture of the default learner and AdaGrad's, against both written out, and what it promises."""

import math

import numpy as np
import pytest
from river import optim as river_optim
from support.catalogue import state_of
from support.mixture_oracle import AdaGradMixtureOracle

from fwonline import losses, sets
from fwonline.checkpoint import codec
from fwonline.exceptions import SampleError
from fwonline.linear_model import FWClassifier, FWRegressor
from fwonline.optim import Mixture, StochasticPairwiseFW

SETS = {
    "l1": sets.L1Ball(20.0),
    "l1-small": sets.L1Ball(0.6),
    "l2-small": sets.L2Ball(0.7),
    "linf": sets.LInfBall(0.4),
    "box": sets.Box(0.1, 0.9),
    "simplex": sets.ProbabilitySimplex(1.5),
    "unit-simplex": sets.UnitSimplex(0.8),
}


def stream(n, binary, d=6, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    X[0] = 1.0
    y = 3.0 + X[:, 0] - 2.0 * X[:, 2] + noise * rng.normal(size=n)
    return X, (y > 3.0) if binary else y


def as_dict(x):
    return {j: v for j, v in enumerate(x.tolist()) if v}


@pytest.mark.parametrize("where", SETS)
@pytest.mark.parametrize("loss", ["squared", "log"])
def test_the_mixture_is_what_its_definition_says(where, loss):
    X, y = stream(40, loss == "log", seed=3, noise=3.0)
    kind = FWClassifier if loss == "log" else FWRegressor
    form = river_optim.losses.Log() if loss == "log" else river_optim.losses.Squared()
    model = kind(SETS[where], Mixture(memory=20), intercept=True, seed=3)
    alone = kind(SETS[where], StochasticPairwiseFW(memory=20), intercept=True, seed=3)
    oracle = AdaGradMixtureOracle(SETS[where], form, alone, 6)
    mixed = False
    for i, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        model.learn_one(as_dict(x), label)
        oracle.learn(x, label, model._run.own.omega.copy)
        np.testing.assert_allclose(model._run.own.points[:6].T, oracle.points, atol=1e-7)
        if i % 6 == 5:
            excess, least = oracle.excess(oracle.omega)
            assert excess <= 1e-3 * least + 1e-12
        np.testing.assert_allclose(model._run.weights, oracle.w, atol=1e-7)
        assert model.intercept_ == pytest.approx(oracle.intercept, abs=1e-7)
        mixed = mixed or 0.0 < oracle.omega.max() < 0.99
    assert mixed or where == "unit-simplex"


@pytest.mark.parametrize("where", SETS)
def test_every_expert_stays_in_the_set(where):
    X, y = stream(120, False, d=12, seed=1)
    X[::17] *= 1e8
    model = FWRegressor(SETS[where], Mixture(), intercept=True, seed=0)
    for x, label in zip(X, (1e3 * y).tolist(), strict=True):
        model.learn_one(as_dict(x), label)
        assert model.violation <= 1e-9
        assert math.isfinite(model.predict_one({0: 1.0, 5: -2.0}))
        points = model._run.own.points[: model.n_features].T
        assert all(SETS[where].contains(w, tol=1e-6) for w in points)
    assert model.exact_gap >= -1e-6 * model.cumulative_loss


def test_weights_of_experts_sum_to_one_and_are_named():
    X, y = stream(300, False)
    optimizer = Mixture()
    assert optimizer.expert_weights["StochasticPairwiseFW"] == 1.0
    model = FWRegressor(sets.L1Ball(10.0), optimizer, intercept=True, seed=0)
    model.learn_arrays(X, y)
    weights = optimizer.expert_weights
    assert list(weights) == [
        *("StochasticPairwiseFW", "AdaGrad 0.0078125", "AdaGrad 0.03125", "AdaGrad 0.125"),
        *("implicit AdaGrad 0.125", "implicit AdaGrad 0.5"),
    ]
    assert sum(weights.values()) == pytest.approx(1.0)
    assert list(weights.values()) == model.state_summary()["optimizer"]["expert_weights"].tolist()


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_units_make_no_difference(unit):
    """Features, or targets, in another unit: the same predictions in it."""
    X, y = stream(150, False)
    plain = FWRegressor(sets.L1Ball(1e30), Mixture(), intercept=True, seed=0)
    features = FWRegressor(sets.L1Ball(1e30), Mixture(), intercept=True, seed=0)
    targets = FWRegressor(sets.L1Ball(1e30), Mixture(), intercept=True, seed=0)
    for x, label in zip(X, y.tolist(), strict=True):
        plain.learn_one(as_dict(x), label)
        features.learn_one(as_dict(unit * x), label)
        targets.learn_one(as_dict(x), unit * label)
    x = X[7]
    assert features.predict_one(as_dict(unit * x)) == pytest.approx(plain.predict_one(as_dict(x)), rel=1e-4)
    assert targets.predict_one(as_dict(x)) == pytest.approx(unit * plain.predict_one(as_dict(x)), rel=1e-4)


def test_rare_words_pay():
    """Of a thousand features most are rare and all matter a little: the default alone leaves them out."""
    rng = np.random.default_rng(0)
    d = 1000
    often = 1.0 / (np.arange(d) + 3.0)
    truth = rng.normal(size=d)
    models = [FWClassifier(sets.L1Ball(1e4), one, intercept=True, seed=0) for one in (None, Mixture())]
    for _ in range(1500):
        words = rng.choice(d, 20, p=often / often.sum())
        y = bool(rng.random() < 1.0 / (1.0 + math.exp(-truth[words].sum())))
        for model in models:
            model.learn_one(dict.fromkeys(words.tolist(), 1.0), y)
    default, mixture = (model.cumulative_loss for model in models)
    assert mixture < 0.97 * default
    assert models[1].optimizer.expert_weights["StochasticPairwiseFW"] < 0.9


def test_a_sample_that_cannot_be_learned_moves_nothing():
    X, y = stream(50, False)
    model = FWRegressor(sets.L1Ball(5.0), Mixture(), intercept=True, seed=0)
    model.learn_arrays(X, y)
    before = model.state_summary()["optimizer"]["digest"]
    for x, label in (({0: math.nan}, 1.0), ({0: 1.0, "new": 2.0}, math.inf), ({0: 1e99}, 1e99)):
        with pytest.raises(SampleError):
            model.learn_one(x, label)
        assert model.state_summary()["optimizer"]["digest"] == before
    assert model.n_samples == 50


def test_offline_it_passes_over_the_rows():
    X, y = stream(200, False)
    result = Mixture().minimize(X, y - 3.0, constraint=sets.L1Ball(2.0), steps=1000, seed=0)
    assert sets.L1Ball(2.0).contains(result.x)
    assert 0.0 <= result.gap < 0.2 * result.fun


def test_without_a_set():
    X, y = stream(100, False)
    model = FWRegressor(None, Mixture(), seed=0)
    model.learn_arrays(X, y)
    assert model.cumulative_loss < 3.0 * len(y)
    assert model.violation == 0.0
    assert 0.0 <= model.exact_gap < math.inf
    again = codec.loads(codec.dumps(model))
    again.learn_arrays(X, y)
    model.learn_arrays(X, y)
    assert again.state_summary()["optimizer"]["digest"] == model.state_summary()["optimizer"]["digest"]


def test_a_loss_of_ones_own_and_a_set_without_coordinates():
    X, y = stream(60, False)
    for loss in (losses.EpsilonInsensitive(0.1), river_optim.losses.Absolute(), river_optim.losses.Cauchy()):
        model = FWRegressor(sets.L1Ball(5.0), Mixture(), loss=loss, intercept=True, seed=0)
        model.learn_arrays(X, y)
        assert math.isfinite(model.cumulative_loss)
    with pytest.raises(ValueError, match="StochasticPairwiseFW moves coordinates, which KSparseBall"):
        FWRegressor(sets.KSparseBall(2, 1.0), Mixture(), intercept=False)


@pytest.mark.parametrize("where", ["l1", "l2-small", "simplex", "unit-simplex", None])
def test_a_huge_target_loses_nothing_to_rounding(where):
    """Points that have gone 1e80 far come back to the set, and what is kept of their norms is right."""
    X, y = stream(60, False)
    y[[20, 40]] = -1e80, 1e80
    model = FWRegressor(SETS.get(where), Mixture(memory=10), seed=0)
    for x, label in zip(X, y.tolist(), strict=True):
        model.learn_one(as_dict(x), label)
        assert model.violation <= 1e-9
    codec.loads(codec.dumps(model))  # which looks at all that it holds


@pytest.mark.parametrize("where", [sets.Box([-1.0, 0.5, -2.0], [1.0, 1.0, 2.0]), sets.ProbabilitySimplex()], ids=str)
def test_a_mixture_that_does_not_begin_at_zero_is_read_back(where):
    model = FWRegressor(where, Mixture(memory=20), seed=1, intercept=False)
    rng = np.random.default_rng(0)
    for row in rng.normal(size=(30, 3)):
        model.learn_one(dict(enumerate(row.tolist())), float(row.sum()))
    again = codec.loads(codec.dumps(model))
    assert state_of(again) == state_of(model)
