"""Weights of samples: a loss multiplied by w, in the literal algorithms and in every way to learn."""

import pickle

import numpy as np
import pandas as pd
import pytest
from river import optim as river_optim
from river import preprocessing
from scipy import sparse
from support.catalogue import state_of
from support.oracles import OFWOracle, OneSampleOracle, ProjectedOracle, SFWOracle
from support.pairwise_oracle import PairwiseOracle
from support.streams import D, as_dict, stream

from fwonline import optim, sets
from fwonline.checkpoint import codec
from fwonline.exceptions import SampleError
from fwonline.linear_model import FWClassifier, FWRegressor, FWSoftmax
from fwonline.optim.schedules import Harmonic, Power

WEIGHTS = np.random.default_rng(7).choice([0.0, 0.3, 1.0, 1.0, 2.0, 5.0], size=70)
SETS = {"l1": sets.L1Ball(2.0), "l2": sets.L2Ball(1.5), "simplex": sets.ProbabilitySimplex(1.5)}
SQUARED, LOG = river_optim.losses.Squared(), river_optim.losses.Log()
TWO = Harmonic()
TAKERS = {
    "sfw": lambda: optim.SFW(memory=9, batch_size=3, steps_per_sample=4),
    "one-sample": optim.OneSampleFW,
    "ofw": optim.OFW,
    "projected": lambda: optim.ProjectedSGD(0.1),
    "projected-batches": lambda: optim.ProjectedSGD(0.1, batch_size=4),
    "default": lambda: optim.StochasticPairwiseFW(memory=30),
}
EACH = pytest.mark.parametrize("name", TAKERS)


class Weighted:
    """A loss of (y, w): w times that of y. So the literal algorithms need not know of weights."""

    def __init__(self, loss):
        self.loss = loss

    def __call__(self, y, z):
        return y[1] * float(self.loss(y[0], z))

    def gradient(self, y, z):
        return y[1] * float(self.loss.gradient(y[0], z))


def make(name, labels=False, where="l1", **given):
    kind = FWClassifier if labels else FWRegressor
    return kind(SETS[where], TAKERS[name](), **({"seed": 3, "intercept": False} | given))


def learned(model, X, y, weights):
    for x, label, w in zip(X, y.tolist(), weights.tolist(), strict=True):
        model.learn_one(as_dict(x), label, w=w)
    return model


# --- the literal algorithms -----------------------------------------------------------------------------------------

LITERAL = {
    "sfw": (TAKERS["sfw"], lambda *a, **k: SFWOracle(*a, memory=9, batch_size=3, steps=4, seed=3, **k), TWO),
    "one-sample": (optim.OneSampleFW, OneSampleOracle, Power(1.0)),
    "ofw": (optim.OFW, OFWOracle, Power(0.5)),
    "ofw-recursion": (lambda: optim.OFW(max_features=1), lambda *a, **k: OFWOracle(*a, memory=0, **k), Power(0.5)),
    "projected": (lambda: optim.ProjectedSGD(0.1), lambda *a, **k: ProjectedOracle(*a, step=0.1, **k), None),
    "projected-batches": (
        TAKERS["projected-batches"],
        lambda *a, **k: ProjectedOracle(*a, step=0.1, batch_size=4, **k),
        None,
    ),
}


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("where", SETS)
@pytest.mark.parametrize("name", LITERAL)
def test_the_loss_is_multiplied(name, where, labels):
    optimizer, oracle_of, schedule = LITERAL[name]
    if labels and name == "ofw-recursion":
        optimizer, oracle_of = lambda: optim.OFW(memory=20), lambda *a, **k: OFWOracle(*a, memory=20, **k)
    X, y = stream(density=0.7, labels=labels)
    intercept = where == "l2"
    kind, loss = (FWClassifier, LOG) if labels else (FWRegressor, SQUARED)
    model = kind(SETS[where], optimizer(), intercept=intercept, seed=3)
    oracle = oracle_of(SETS[where], Weighted(loss), schedule, D, intercept)
    for i, (x, label, w) in enumerate(zip(X, y.tolist(), WEIGHTS.tolist(), strict=True)):
        w = w or (0.5 if intercept else 0.0)  # noqa: PLW2901  (the literal intercept divides by what it has seen)
        model.learn_one(as_dict(x), label, w)
        oracle.learn(x, (label, w))
        np.testing.assert_allclose(model._run.weights, oracle.w, atol=1e-9, err_msg=f"sample {i}")
        assert model.intercept_ == pytest.approx(oracle.b, abs=1e-9)
        if schedule is not None:
            assert model.gap == pytest.approx(oracle.gap, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("loss", [SQUARED, LOG])
@pytest.mark.parametrize("where", SETS)
def test_the_quadratic_memory_counts_a_sample_by_its_weight(where, loss):
    X, y = stream(15 if where == "l2" else 70, labels=loss is LOG)  # before the multiplier of a ball is measured
    optimizer = optim.StochasticPairwiseFW(memory=8, steps_per_sample=4, forgetting=False)
    kind = FWClassifier if loss is LOG else FWRegressor
    model = kind(SETS[where], optimizer, loss, intercept=False, seed=3)
    oracle = PairwiseOracle(SETS[where], loss, 8, 4, 0.3, 3, D)
    for x, label, w in zip(X, y.tolist(), WEIGHTS.tolist(), strict=False):
        w = w or 0.1  # noqa: PLW2901  (of a first sample that counts nothing nothing is to be seen)
        model.learn_one(as_dict(x), label, w)
        oracle.learn(x, label, w)
        np.testing.assert_allclose(model._run.weights, oracle.w, atol=1e-9)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("name", ["sfw", "ofw", "default"])
def test_a_whole_weight_is_that_many_samples_in_the_sum(name, labels):
    """The exact gap is that of the sum over samples, each as often as it weighs, divided by how many are held."""
    X, y = stream(20, labels=labels)
    weights = np.random.default_rng(1).integers(0, 4, size=20).astype(float)
    model = learned(make(name, labels, intercept=True), X, y, weights)
    held = model.n_remembered if name != "ofw" or labels else 20
    rows = np.repeat(np.arange(20)[-held:], weights[-held:].astype(int))
    w = np.array([model.weights.get(j, 0.0) for j in range(D)])
    z = X[rows] @ w + model.intercept_
    alpha = 1.0 / (1.0 + np.exp(-z)) - y[rows] if labels else 2.0 * (z - y[rows])
    gradient = X[rows].T @ alpha / held
    assert model.exact_gap == pytest.approx(gradient @ w + 2.0 * np.abs(gradient).max(), rel=1e-9)


# --- every way to learn ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [False, True])
@EACH
def test_rows_of_arrays_and_frames(name, labels):
    X, y = stream(density=0.7, labels=labels)
    X[0] = 1.0
    one_by_one = learned(make(name, labels, intercept=True), X, y, WEIGHTS)
    for matrix in (X, sparse.csr_array(X)):
        model = make(name, labels, intercept=True)
        model.learn_arrays(matrix, y, WEIGHTS)
        assert state_of(model) == state_of(one_by_one)
    framed = make(name, labels, intercept=True)
    framed.learn_many(pd.DataFrame(X), pd.Series(y), w=pd.Series(WEIGHTS))
    assert framed.weights == one_by_one.weights


@EACH
def test_a_weight_of_1_changes_nothing(name):
    X, y = stream()
    plain = make(name)
    plain.learn_arrays(X, y)
    for weights in (1.0, np.ones(70)):
        model = make(name)
        model.learn_arrays(X, y, weights)
        assert state_of(model) == state_of(plain)
    model = learned(make(name), X, y, WEIGHTS)
    assert state_of(model) != state_of(plain)
    assert model.cumulative_loss != plain.cumulative_loss


@EACH
def test_one_weight_of_all_rows(name):
    X, y = stream()
    model, other = make(name), make(name)
    model.learn_arrays(X, y, 3.0)
    other.learn_arrays(X, y, np.full(70, 3.0))
    assert state_of(model) == state_of(other)


@EACH
def test_saved_copied_and_pickled_models_learn_on_alike(name):
    X, y = stream()
    model = learned(make(name, intercept=True), X[:40], y[:40], WEIGHTS[:40])
    saved, pickled = codec.loads(codec.dumps(model)), pickle.loads(pickle.dumps(model))
    for one in (model, saved, pickled):
        learned(one, X[40:], y[40:], WEIGHTS[40:])
    assert state_of(saved) == state_of(model) == state_of(pickled)


@EACH
def test_samples_that_count_nothing(name):
    X, y = stream()
    model = learned(make(name, intercept=True), X[:20], y[:20], np.zeros(20))
    assert model.n_samples == 20
    assert np.isfinite(list(model.weights.values())).all()
    assert model.intercept_ == 0.0
    learned(model, X[20:], y[20:], np.ones(50))
    assert np.isfinite(model.predict_arrays(X)).all()


@EACH
def test_extreme_weights_leave_numbers(name):
    X, y = stream()
    model = learned(make(name, intercept=True), X, y, np.tile([1e30, 1e-30, 1.0, 0.0, 1e15], 14))
    assert np.isfinite(model.predict_arrays(X)).all()
    assert model.constraint.contains(np.array([model.weights.get(j, 0.0) for j in range(D)]))


def test_through_a_pipeline_of_river():
    X, y = stream()
    model = preprocessing.StandardScaler() | make("default")
    plain = preprocessing.StandardScaler() | make("default")
    for x, label, w in zip(X, y.tolist(), WEIGHTS.tolist(), strict=True):
        model.learn_one(as_dict(x), label, w=w)
        plain.learn_one(as_dict(x), label)
    assert model["FWRegressor"].weights != plain["FWRegressor"].weights


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("w", [-1.0, np.nan, np.inf, -np.inf, 1e31, 1e-31, "2", None, [1.0, 2.0], np.float64(-0.5)])
@EACH
def test_what_is_no_weight_moves_nothing(name, w):
    X, y = stream(5)
    model = learned(make(name), X, y, np.ones(5))
    before = state_of(model)
    with pytest.raises(SampleError, match=r"the weight is .*; expected 0, or a number from 1e-30 to 1e"):
        model.learn_one({"new": 1.0}, 2.0, w)
    assert state_of(model) == before
    if w is not None and np.ndim(w) == 0 and not isinstance(w, str):
        weights = np.ones(5)
        weights[3] = w
        with pytest.raises(SampleError, match="row 3: the weight is"):
            model.learn_arrays(X, y, weights)
        assert state_of(model) == before
    model.learn_one({"new": 1.0}, 2.0)
    assert model._run.s.weight == 1.0


@EACH
def test_a_refused_sample_leaves_no_weight_behind(name):
    X, y = stream(5)
    model = learned(make(name), X, y, np.ones(5))
    before = state_of(model)
    with pytest.raises(SampleError):
        model.learn_one({"a": np.nan}, 1.0, 3.0)
    with pytest.raises(SampleError, match="too large"):
        model.learn_one({0: 1e99}, 1e95, 1e30)
    assert state_of(model) == before


def test_as_many_weights_as_rows():
    X, y = stream(5)
    with pytest.raises(ValueError, match=r"w must be one weight, or one for each of the 5 rows, got shape \(4,\)"):
        make("sfw").learn_arrays(X, y, np.ones(4))


@pytest.mark.parametrize(
    "optimizer",
    [
        optim.MomentumFW(),
        optim.AdversarialOFW(),
        optim.AdaptiveOFW(20),
        optim.LuFreundFW(5),
        optim.FW(5),
        optim.SVRF(5),
    ],
    ids=lambda optimizer: type(optimizer).__name__,
)
def test_others_count_every_sample_once(optimizer):
    model = FWRegressor(SETS["l1"], optimizer, intercept=False)
    model.learn_one({"a": 1.0}, 1.0, 1.0)
    with pytest.raises(ValueError, match=r"counts every sample once: w must be 1, got 2.0; weights are taken by FWReg"):
        model.learn_one({"a": 1.0}, 1.0, 2.0)
    with pytest.raises(ValueError, match="counts every sample once"):
        model.learn_arrays(np.ones((2, 1)), np.ones(2), [1.0, 2.0])
    assert model.n_samples == 1


def test_softmax_counts_every_sample_once():
    for model in (FWSoftmax(), FWSoftmax(sets.L1Ball(1.0), optim.SFW())):
        model.learn_one({"a": 1.0}, "x")
        with pytest.raises(ValueError, match=r"FWSoftmax with .* counts every sample once"):
            model.learn_one({"a": 1.0}, "x", 2.0)
        assert model.n_samples == 1
