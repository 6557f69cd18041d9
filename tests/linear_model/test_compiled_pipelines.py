"""Pipelines played in blocks: to the last bit what river's own methods make of one row after another."""

import math
import tracemalloc

import numpy as np
import pytest
from river import compose, preprocessing
from scipy import sparse
from support.catalogue import regression, state_of
from support.played import BLOCKS, bits, samples_of, words

from fwonline import optim, sets
from fwonline._compiled import compiled
from fwonline._protocols import Probabilities
from fwonline.checkpoint import codec
from fwonline.linear_model import FWClassifier, FWRegressor, FWSoftmax


def regressor():
    return FWRegressor(sets.L1Ball(5.0), optim.OneSampleFW(), seed=1)


STEPS = {
    "standard": preprocessing.StandardScaler,
    "min-max": preprocessing.MinMaxScaler,
    "both": lambda: preprocessing.StandardScaler() | preprocessing.MinMaxScaler(),
    "hashed": lambda: preprocessing.FeatureHasher(n_features=1000, seed=1),
    "hashed-together": lambda: preprocessing.FeatureHasher(n_features=5, seed=1),
    "hashed-and-scaled": lambda: preprocessing.FeatureHasher(n_features=5, seed=1) | preprocessing.StandardScaler(),
    "scaled-and-hashed": lambda: preprocessing.StandardScaler() | preprocessing.FeatureHasher(n_features=5, seed=1),
}
FINALS = {
    "one-sample": regressor,
    "default": lambda: FWRegressor(seed=1),
    "mixture": lambda: FWRegressor(optimizer=optim.Mixture(memory=20), seed=1),
    "target": lambda: preprocessing.TargetStandardScaler(regressor()),
    "classifier": lambda: FWClassifier(seed=1),
    "softmax": lambda: FWSoftmax(seed=1),
}


def play_all(model, X, y, names, probabilities):
    """Play all rows in blocks, and by sample where a block ends early, as a loop does."""
    player = compiled(model)
    assert player.play_reason is None
    samples = samples_of(X, names or range(X.shape[1]))
    predict = model.predict_proba_one if probabilities else model.predict_one
    got, together = [], 0
    for last in BLOCKS[1:]:
        while (row := len(got)) < last:
            if not probabilities or {*y[row:last].tolist()} <= {*y[:row].tolist()}:
                answers, error = player.play_block(X[row:last], y[row:last], names, probabilities=probabilities)
                played = answers.dicts() if isinstance(answers, Probabilities) else answers.tolist()
                assert (error is None) == (len(played) == last - row)
                got += played
                together += len(played)
            if (row := len(got)) < last:
                got.append(predict(samples[row]))
                model.learn_one(samples[row], y[row].item())
    return got, together


def both(make, X, y, names, probabilities=False):
    one, many = make(), make()
    samples = samples_of(X, names or range(X.shape[1]))
    expected = []
    for x, label in zip(samples[: BLOCKS[-1]], y.tolist(), strict=False):
        expected.append((one.predict_proba_one if probabilities else one.predict_one)(x))
        one.learn_one(x, label)
    got, together = play_all(many, X, y, names, probabilities)
    assert [repr(answer) for answer in got] == [repr(answer) for answer in expected]
    assert codec.dumps(many) == codec.dumps(one)
    return together


@pytest.mark.parametrize("steps", STEPS)
def test_dense_rows_are_samples(steps):
    X, y = regression(density=0.7)
    names = ["h", "g", "f", "e", "d", "c", "b", "a"]
    assert both(lambda: STEPS[steps]() | regressor(), X, y, names) > 150
    assert both(lambda: STEPS[steps]() | regressor(), X, y, None) > 150


@pytest.mark.parametrize("steps", STEPS)
def test_sparse_rows_are_samples(steps):
    X, y = words(160, 20)
    assert both(lambda: STEPS[steps]() | regressor(), X, y, None) > 80


@pytest.mark.parametrize("final", FINALS)
def test_every_estimator_behind_a_scaler(final):
    X, y = regression(density=0.7)
    if final in ("classifier", "softmax"):
        y = y > 0
        assert both(lambda: preprocessing.StandardScaler() | FINALS[final](), X, y, list("hgfedcba"), True) > 110
    both(lambda: preprocessing.StandardScaler() | FINALS[final](), X, y, list("hgfedcba"))
    X, z = words(160, 20)
    both(lambda: preprocessing.StandardScaler() | FINALS[final](), X, z > 0 if y.dtype == bool else z, None)


@pytest.mark.parametrize("what", ["value", "target"])
def test_a_row_that_is_refused_is_not_told(what):
    X, y = regression()
    if what == "value":
        X[70, 3] = math.inf
    else:
        y[70] = 1e300
    for final in (regressor, FINALS["target"]):
        one, many = (preprocessing.StandardScaler() | final() for _ in range(2))
        samples = samples_of(X, range(8))
        expected = []
        for x, label in zip(samples[:70], y.tolist(), strict=False):
            expected.append(one.predict_one(x))
            one.learn_one(x, label)
        many.predict_one(samples[0])
        many.learn_one(samples[0], y[0].item())
        answers, error = compiled(many).play_block(X[1:], y[1:])
        assert error is not None
        assert bits(answers) == bits(expected[1:])
        assert codec.dumps(many["StandardScaler"]) == codec.dumps(one["StandardScaler"])
        assert state_of(many) == state_of(one) if final is regressor else True


class Other(preprocessing.StandardScaler):
    pass


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (preprocessing.StandardScaler(with_std=False) | regressor(), "with_std=False"),
        (preprocessing.StandardScaler(window_size=5) | regressor(), "window_size"),
        (preprocessing.MinMaxScaler(window_size=5) | regressor(), "window_size"),
        (Other() | regressor(), "Other"),
        (preprocessing.Binarizer() | preprocessing.StandardScaler() | regressor(), "Binarizer"),
        (preprocessing.StandardScaler() | FWRegressor(max_names=5), "max_names"),
    ],
)
def test_what_has_no_compiled_form_says_so(model, why):
    player = compiled(model)
    assert why in player.play_reason
    with pytest.raises(ValueError, match=why):
        player.play_block(np.ones((2, 2)), np.ones(2))


def test_what_plays_blocks_by_itself_and_what_never_does():
    model = regressor()
    assert compiled(model) is model
    assert compiled(preprocessing.StandardScaler() | compose.TransformerUnion()) is None
    assert compiled(preprocessing.StandardScaler()) is None


def test_learning_while_predicting_is_by_sample():
    player = compiled(preprocessing.StandardScaler() | regressor())
    with compose.learn_during_predict():
        assert "while they predict" in player.play_reason
    assert player.play_reason is None


def test_an_empty_block():
    model = preprocessing.StandardScaler() | regressor()
    answers, error = compiled(model).play_block(np.ones((0, 2)), np.zeros(0))
    assert (len(answers), error) == (0, None)


@pytest.mark.parametrize("steps", ["standard", "hashed", "scaled-and-hashed"])
def test_columns_of_large_numbers_cost_no_arrays_of_all(steps):
    X, y = words(160, 20)
    columns = np.append(np.arange(19), (1 << 31) - 2)
    wide = sparse.csr_array((X.data, columns[X.indices], X.indptr), shape=(X.shape[0], (1 << 31) - 1))
    tracemalloc.start()
    assert both(lambda: STEPS[steps]() | regressor(), wide, y, None) > 80
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 100e6


def test_many_buckets_are_left_to_river():
    model = preprocessing.FeatureHasher(n_features=1 << 30) | regressor()
    assert "n_features" in compiled(model).play_reason


def test_rows_that_a_scaler_makes_infinite_are_left_to_samples():
    X, y = np.full((30, 2), 1e-320), np.arange(30) % 2 > 0
    X[::3] = 2e-320
    X[20:, 1] = 1.0
    model = preprocessing.MinMaxScaler() | FWSoftmax(seed=1)
    for row in range(3):
        model.learn_one(dict(enumerate(X[row].tolist())), y[row].item())
    answers, error = compiled(model).play_block(X[3:], y[3:], probabilities=True)
    assert len(answers.p) == 17
    assert error is not None
    assert model["FWSoftmax"].n_samples == 20
