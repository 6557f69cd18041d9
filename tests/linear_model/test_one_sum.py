"""Predictions of many rows are those of one sample at a time, to the last bit, on any processor."""

import math

import numpy as np
import pandas as pd
import pytest
from river import optim as river_optim
from scipy import sparse
from support import catalogue
from support.kernels import entered

from fwonline import linear_model, optim, sets
from fwonline._kernels import coordinates
from fwonline.exceptions import SampleError


def hostile(n=120, d=9, seed=3):
    """Rows whose scores cancel, with zeros, and large and small values side by side."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    X[::4] *= 10.0 ** rng.integers(-6, 6, size=d)
    X[1::4, 1] = -X[1::4, 0]
    X[2::4] = 0.0
    return X


def rows_of(X):
    return [dict(enumerate(row)) for row in X.tolist()]


def one_by_one(model, X):
    return [model.predict_one(x) for x in rows_of(X)]


def check_all_ways(model, X):
    """Every way to predict X against `predict_one` and `predict_proba_one`."""
    singly = one_by_one(model, X)
    assert singly == [model.predict_one({j: v for j, v in reversed(x.items()) if v}) for x in rows_of(X)]
    for given in (X, sparse.csr_array(X), np.asfortranarray(X)):
        assert model.predict_arrays(given).tolist() == singly
    frame = pd.DataFrame(X)
    assert model.predict_many(frame).tolist() == singly
    assert model.predict_many(frame[frame.columns[::-1]]).tolist() == singly
    if hasattr(model, "predict_proba_one"):
        p = [model.predict_proba_one(x) for x in rows_of(X)]
        assert model.predict_proba_many(frame).to_dict("records") == p
        columns = list(model.classes) if isinstance(model, linear_model.FWSoftmax) else model.classes[1]
        expected = [[one[c] for c in columns] if isinstance(columns, list) else one[columns] for one in p]
        assert model.predict_proba_arrays(X).tolist() == expected


@pytest.mark.parametrize("optimizer", catalogue.OPTIMIZERS)
@pytest.mark.parametrize("constraint", ["l1", "l2", "box", "simplex"])
@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_many_rows_are_predicted_as_one_is(optimizer, constraint, kind):
    cls = linear_model.FWRegressor if kind == "regressor" else linear_model.FWClassifier
    model = cls(catalogue.SETS[constraint](), catalogue.OPTIMIZERS[optimizer](), intercept=kind == "regressor", seed=1)
    X = hostile()
    y = X[:, 0] + X[:, 1] + 0.1 * X[:, 2]
    check_all_ways(model, X[:5])  # before learning
    model.learn_arrays(X[:60], y[:60] > 0 if kind == "classifier" else y[:60])
    check_all_ways(model, X)


FAMILY = [
    optim.FW(memory=20),
    optim.AwayFW(memory=20),
    optim.PairwiseFW(memory=20),
    optim.RandomizedFW(memory=20),
    optim.RandomizedAwayFW(memory=20),
    optim.LuFreundFW(memory=20),
    optim.MomentumFW(memory=20),
    optim.HazanLuoFW(memory=20),
    optim.SVRF(memory=20),
    optim.STORC(memory=20),
    optim.SCGS(memory=20),
]


@pytest.mark.parametrize("optimizer", FAMILY, ids=lambda optimizer: type(optimizer).__name__)
@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_the_families_on_a_memory_predict_many_rows_as_one(optimizer, kind):
    cls = linear_model.FWRegressor if kind == "regressor" else linear_model.FWClassifier
    loss = None if kind == "classifier" else river_optim.losses.Huber()
    model = cls(sets.L1Ball(2.0), optimizer.clone(), loss=loss, intercept=False, seed=1)
    X = np.clip(hostile(), -5.0, 5.0)
    model.learn_arrays(X[:60], X[:60, 0] + X[:60, 1] > 0)
    check_all_ways(model, X)


@pytest.mark.parametrize("optimizer", [optim.OneSampleFW, lambda: optim.SVRF(memory=20), lambda: optim.SFW(memory=20)])
def test_many_rows_of_a_softmax_model_are_predicted_as_one_is(optimizer):
    model = linear_model.FWSoftmax(sets.NuclearBall(5.0), optimizer(), seed=1)
    X = hostile()
    model.learn_arrays(X[:60], X[:60, :4].argmax(axis=1))
    check_all_ways(model, X)


@pytest.mark.parametrize(
    "loss",
    [river_optim.losses.Hinge(), river_optim.losses.Log(weight_pos=2.0), river_optim.losses.BinaryFocalLoss()],
    ids=lambda loss: type(loss).__name__,
)
def test_probabilities_of_every_loss_are_one_by_one(loss):
    model = linear_model.FWClassifier(sets.L1Ball(50.0), optim.SFW(memory=20), loss=loss, seed=1, intercept=False)
    X = hostile()
    model.learn_arrays(X, X[:, 0] > X[:, 2])
    check_all_ways(model, 10.0 * X)  # scores beyond 30, where the logistic function is all but 1


def test_the_mean_of_a_regression_loss_is_taken_one_by_one():
    loss = river_optim.losses.Poisson()
    model = linear_model.FWRegressor(sets.L1Ball(1.0), optim.SFW(memory=20), loss=loss, seed=1, intercept=False)
    X = np.clip(hostile(), -3.0, 3.0)
    model.learn_arrays(X, np.round(np.exp(X[:, 0])))
    check_all_ways(model, X)


def test_a_score_of_zero_up_to_rounding_is_the_negative_class_everywhere():
    """1e-17 is above 0, but its probability is one half: the label follows the probability."""
    model = linear_model.FWClassifier(sets.L1Ball(1.0), optim.OneSampleFW(), seed=1, intercept=False)
    model.learn_one({0: 1.0}, True)
    x = {0: 1e-17}
    assert model._raw_one(x) > 0.0
    assert model.predict_proba_one(x) == {False: 0.5, True: 0.5}
    assert model.predict_one(x) is False
    assert model.predict_arrays(np.array([[1e-17]])).tolist() == [False]


def test_a_feature_that_weighs_before_it_is_seen_counts_in_every_way():
    model = linear_model.FWRegressor(sets.Box(0.25, 1.0), optim.OneSampleFW(), seed=1, intercept=False)
    X = hostile()
    model.learn_arrays(X[:40, :5], X[:40, 0])
    check_all_ways(model, X)
    assert model.predict_one({"new": 2.0}) == 0.5
    assert [model.predict_one(x) for x in rows_of(X[:50])] == [
        model.clone(include_attributes=True).play_one(x, 0.0) for x in rows_of(X[:50])
    ]


@pytest.mark.parametrize(
    "model", [linear_model.FWRegressor(sets.L1Ball(2.0), intercept=False), linear_model.FWSoftmax()]
)
def test_a_row_without_a_finite_prediction_is_named(model):
    X = hostile(n=30)
    model = model.clone()
    model.learn_arrays(X, (X[:, 0] > 0).astype(int))
    X[7, 2] = np.nan
    for given in (X, sparse.csr_array(X)):
        with pytest.raises(SampleError, match="row 7: feature 2 is nan"):
            model.predict_arrays(given)
    with pytest.raises(SampleError, match="feature 2 is nan"):
        model.predict_one(dict(enumerate(X[7])))


def dot(v, idx, val):
    return coordinates.sparse_dot(v, idx, val, 0, idx.size)


def test_a_sum_is_correctly_rounded_in_any_order_with_and_without_zeros():
    rng = np.random.default_rng(0)
    for trial in range(600):
        n = int(rng.integers(1, 40))
        v = rng.normal(size=50) * 10.0 ** rng.integers(-8, 8, 50)
        val = rng.normal(size=n) * 10.0 ** rng.integers(-8, 8, n)
        idx = rng.integers(0, 50, n).astype(np.uint32)
        if trial % 3 == 0:  # everything cancels, up to one small product
            val, idx = np.concatenate([val, -val, [1e-12]]), np.concatenate([idx, idx, [3]]).astype(np.uint32)
        expected = math.fsum((v[idx] * val).tolist())
        order = rng.permutation(idx.size)
        padded = np.insert(val, 1, 0.0), np.insert(idx, 1, 7)
        assert dot(v, idx, val) == dot(v, idx[order], val[order]) == dot(v, padded[1], padded[0]) == expected
        assert entered(coordinates.stepwise_dot)(v, idx[order], val[order], 0, idx.size) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1e300, -1e300, 1e-300, 3e-308, -1e-300], 0.0),  # 2,000 bits lie between: more than a sum looks at
        ([1e308, 1e308, -1e308], 1e308),
        ([5e-324] * 5 + [-5e-324], 2e-323),
        ([1e16, 1.0, -1e16, 1.0, 1e-16], 2.0),
        ([1e30, 1.0, -1e30, 1e-16, 3.0], 4.0),
        ([1e100, 1.0, -1e100, 1e60, -1e60], 0.0),
        ([math.inf, 1.0], math.inf),
    ],
)
def test_a_sum_of_extreme_products_shows_no_order(values, expected):
    val = np.array(values)
    idx = np.arange(val.size, dtype=np.uint32)
    rng = np.random.default_rng(0)
    orders = [np.arange(val.size), *(rng.permutation(val.size) for _ in range(10))]
    for sum_of in (dot, lambda v, idx, val: entered(coordinates.stepwise_dot)(v, idx, val, 0, idx.size)):
        assert {sum_of(np.ones(8), idx, val[order]) for order in orders} == {expected}
