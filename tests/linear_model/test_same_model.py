"""Ways of learning that must end in the same model: to the last bit where nothing but the road differs."""

import copy
import pickle
import random

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from support.catalogue import COORDINATES, OPTIMIZERS, PAIRS, SETS, by_name, regression, state_of
from support.streams import as_dict

from fwonline import optim, sets
from fwonline.linear_model import FWClassifier, FWRegressor

EACH = pytest.mark.parametrize(("optimizer", "where"), PAIRS)
KINDS = pytest.mark.parametrize("kind", [FWRegressor, FWClassifier])


def make(optimizer, where, kind=FWRegressor, **given):
    return kind(SETS[where](), OPTIMIZERS[optimizer](), **({"seed": 1, "intercept": False} | given))


def learn(model, X, y):
    for x, label in zip(X, y.tolist(), strict=True):
        model.learn_one(as_dict(x), label)
    return model


@EACH
def test_arrays_or_one_by_one(optimizer, where):
    X, y = regression(density=0.5)
    X[0] = 1.0  # all features are known from the first sample on: then their order is the same
    loop = learn(make(optimizer, where, intercept=True), X, y)
    for matrix in (X, sparse.csr_array(X), sparse.csc_array(X)):
        model = make(optimizer, where, intercept=True)
        model.learn_arrays(matrix[:70], y[:70])
        model.learn_arrays(matrix[70:], y[70:])
        assert state_of(model) == state_of(loop)
        assert [a.tolist() for a in model.last_sample[:2]] == [a.tolist() for a in loop.last_sample[:2]]
        assert model.last_sample[2:] == loop.last_sample[2:]


@pytest.mark.parametrize("where", SETS)
@pytest.mark.parametrize("optimizer", ["sfw", "momentum", "one-sample", "sfw-replays"])
def test_columns_that_come_one_after_another(optimizer, where):
    """The first ten samples have two features, the next ten four, and so on."""
    X, y = regression()
    for i in range(len(X)):
        X[i, 2 + 2 * (i // 10) :] = 0.0
    X[:, [0, 7]] = X[:, [7, 0]]  # those of the first sample are not the first columns
    loop = learn(make(optimizer, where), X, y)
    model = make(optimizer, where)
    model.learn_arrays(X, y)
    if where == "simplex":
        return  # features of weight 0 that are known already may be stepped to: nothing to compare
    if where in COORDINATES:
        assert by_name(model) == by_name(loop)
    else:
        for name in range(8):
            assert model.weights.get(name, 0.0) == pytest.approx(loop.weights.get(name, 0.0), abs=1e-9)


@pytest.mark.parametrize("where", COORDINATES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_zeros_written_out(optimizer, where):
    X, y = regression(density=0.3)
    X[0] = 1.0
    implicit = learn(make(optimizer, where), X, y)
    explicit = make(optimizer, where)
    for x, label in zip(X, y.tolist(), strict=True):
        explicit.learn_one(dict(enumerate(x.tolist())), label)
    assert by_name(implicit) == by_name(explicit)


@KINDS
@EACH
def test_frames(optimizer, where, kind):
    X, y = regression(n=60, labels=kind is FWClassifier)
    names = [f"x{j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    loop, model = (make(optimizer, where, kind, intercept=True) for _ in range(2))
    for row, label in zip(frame.to_dict(orient="records"), y.tolist(), strict=True):
        loop.learn_one(row, label)
    for start in range(0, 60, 17):
        model.learn_many(frame[start : start + 17], pd.Series(y[start : start + 17], name="y"))
    assert state_of(model) == state_of(loop)
    expected = [loop.predict_one(row) for row in frame.to_dict(orient="records")]
    answer = model.predict_many(frame)
    assert answer.name == "y"
    if kind is FWClassifier:
        assert answer.tolist() == expected
        assert model.predict_arrays(X).shape == (60,)
    else:
        np.testing.assert_allclose(answer, expected, atol=1e-12)


@KINDS
@EACH
def test_order_of_keys(optimizer, where, kind):
    X, y = regression(n=60, d=12, labels=kind is FWClassifier, density=0.6)
    X[0] = 1.0
    keys = ["a", "b", 3, 4.5, ("t", 1), None, True, "ü", b"bytes", frozenset({1}), -1, -2]
    plain, shuffled = make(optimizer, where, kind), make(optimizer, where, kind)
    rng = random.Random(0)
    for x, label in zip(X, y.tolist(), strict=True):
        sample = {keys[j]: value for j, value in as_dict(x).items()}
        plain.learn_one(sample, label)
        items = list(sample.items())
        rng.shuffle(items)
        assert plain.predict_one(dict(items)) == plain.predict_one(sample)
        shuffled.learn_one(dict(items), label)
    assert state_of(plain) == state_of(shuffled)


@pytest.mark.parametrize("where", COORDINATES)
@pytest.mark.parametrize("optimizer", ["sfw", "momentum", "one-sample", "ofw"])
@pytest.mark.parametrize("keys", [("a", "b", "c"), (5, -1, -2), (-2, -1, 0), ("1", 1, 0.5)], ids=str)
def test_ties_do_not_go_to_the_feature_that_was_seen_first(optimizer, where, keys):
    """Features that are always equal, met in every order."""
    ends = []
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        model = make(optimizer, where)
        for k in range(3):
            model.learn_one({keys[j]: 0.0 for j in order[: k + 1]}, 0.0)
        for t in range(30):
            model.learn_one(dict.fromkeys(keys, 1.0 + t % 3), 1.5 * (1.0 + t % 3))
        ends.append(model.weights)
    if where == "simplex":  # which features were there for the first, empty steps does matter
        ends = [max(end, key=end.get) for end in ends]
    assert ends[0] == ends[1] == ends[2]


@pytest.mark.parametrize("how", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("by", ["learn_one", "learn_arrays"])
@EACH
def test_copies_go_on_as_the_original(optimizer, where, how, by):
    X, y = regression(density=0.7)
    X[0] = 1.0
    model = make(optimizer, where, intercept=True)
    copied = how(model)  # before anything is learned
    for part in (slice(0, 33), slice(33, 120), slice(120, 200)):
        for m in (model, copied):
            m.learn_arrays(X[part], y[part]) if by == "learn_arrays" else learn(m, X[part], y[part])
        assert state_of(model) == state_of(copied)
        copied = how(copied)
        assert state_of(model) == state_of(copied)
        assert repr(model.last_sample) == repr(copied.last_sample)
        assert copied._run is copied.optimizer._run
        assert model.predict_one(as_dict(X[0])) == copied.predict_one(as_dict(X[0]))


@EACH
def test_a_copy_is_a_model_of_its_own(optimizer, where):
    X, y = regression()
    model = learn(make(optimizer, where), X[:50], y[:50])
    before = state_of(model)
    learn(copy.deepcopy(model), X[50:], y[50:])
    learn(model.clone(), X[50:], y[50:])
    assert state_of(model) == before
    assert not model.clone().n_samples


@EACH
def test_seed(optimizer, where):
    X, y = regression()
    a, b = (learn(make(optimizer, where, seed=3), X, y) for _ in range(2))
    assert state_of(a) == state_of(b)


def test_other_seeds_replay_other_samples():
    X, y = regression()
    a, b = (learn(make("sfw-replays", "l1", seed=seed), X, y) for seed in (3, 4))
    assert a.weights != b.weights


def test_an_optimizer_given_to_two_models_serves_the_first():
    X, y = regression()
    shared = optim.SFW(memory=20)
    first = FWRegressor(sets.L1Ball(1.0), shared, seed=0, intercept=False)
    second = FWRegressor(sets.L1Ball(1.0), shared, seed=0, intercept=False)
    assert first.optimizer is shared
    assert second.optimizer is not shared
    learn(first, X, y)
    assert (first.n_samples, second.n_samples) == (200, 0)
    assert (shared.n_steps, second.optimizer.n_steps) == (200, 0)
    learn(second, X, y)
    assert state_of(first) == state_of(second)


def test_repr_names_what_a_model_is_made_of():
    shown = repr(FWRegressor(sets.L1Ball(3.0), optim.SFW(memory=7), intercept=True, seed=2))
    for part in ("FWRegressor", "L1Ball(radius=3.0)", "SFW(memory=7", "intercept=True", "seed=2"):
        assert part in shown
