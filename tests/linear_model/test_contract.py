"""What an estimator says of itself, and what it promises at every sample."""

import gc
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import optim as river_optim
from support.catalogue import OPTIMIZERS, PAIRS, SETS, regression, state_of

from fwonline import optim, sets
from fwonline.exceptions import SampleError
from fwonline.linear_model import FWClassifier, FWRegressor

EACH = pytest.mark.parametrize(("optimizer", "where"), PAIRS)
VALUES = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 1e-320, 1e-160, -1e-12, 1e8, -1e16, 1e50, -1e90, 1e100, 3.0]
) | st.floats(-10.0, 10.0)


def make(optimizer, where, kind=FWRegressor, **given_):
    return kind(SETS[where](), OPTIMIZERS[optimizer](), **({"seed": 1, "intercept": False} | given_))


@pytest.mark.parametrize("kind", [FWRegressor, FWClassifier])
@EACH
def test_before_learning(optimizer, where, kind):
    model = make(optimizer, where, kind, intercept=True)
    untouched = state_of(model)
    answer = 0.0 if kind is FWRegressor else False
    for x in ({}, {"a": 1.0}, {("b", 1): -2}):
        assert model.predict_one(x) == answer
    if kind is FWClassifier:
        assert model.predict_proba_one({"a": 1.0}) == {False: 0.5, True: 0.5}
    assert model.weights == {}
    assert np.isnan(model.gap)
    assert model.exact_gap is None
    assert model.violation == 0.0
    assert model.last_sample is None
    assert (model.n_samples, model.cumulative_loss, model.intercept_) == (0, 0.0, 0.0)
    assert state_of(model) == untouched


@EACH
def test_predicting_writes_nothing(optimizer, where):
    X, y = regression(n=60)
    model = make(optimizer, where, intercept=True)
    model.learn_arrays(X, y)
    before = state_of(model)
    for x in ({}, {0: 1.0}, {"unseen": 1.0}, {0: 1.0, "unseen": 2.0}, dict(enumerate(X[0].tolist()))):
        model.predict_one(x)
        model.debug_one(x)
    model.predict_arrays(X)
    assert repr(model)
    assert model.exact_gap is None or model.exact_gap >= -1e-12
    assert state_of(model) == before
    assert model.predict_one({"unseen": 5.0}) == model.predict_one({}) == model.intercept_


@EACH
def test_empty_samples(optimizer, where):
    model = make(optimizer, where, intercept=True)
    for _ in range(5):
        model.learn_one({}, 3.0)
    assert model.n_samples == 5
    assert model.weights == {}
    assert model.violation == 0.0
    assert model.exact_gap in (None, 0.0)
    assert model.intercept_ == pytest.approx(3.0, abs=1.0)
    model.learn_one({"a": 1.0}, 3.0)
    model.learn_one({}, 3.0)
    assert model.violation < 1e-12


@EACH
def test_the_last_sample(optimizer, where):
    X, y = regression(n=80, density=0.6)
    X[0] = 1.0
    model = make(optimizer, where, intercept=True)
    total = 0.0
    for x, label in zip(X, y.tolist(), strict=True):
        sample = {j: v for j, v in enumerate(x.tolist()) if v}
        expected = model.predict_one(sample)
        model.learn_one(sample, label)
        last = model.last_sample
        seen = {model._features.names[j]: v for j, v in zip(last.indices, last.values, strict=True)}
        assert seen == sample
        assert last.y == label
        assert last.prediction == expected
        assert last.loss == pytest.approx((expected - label) ** 2)
        assert last.n_features == 8
        total += last.loss
    assert model.cumulative_loss == pytest.approx(total)


@pytest.mark.parametrize("kind", [FWRegressor, FWClassifier])
@EACH
def test_playing_is_predicting_and_learning(optimizer, where, kind):
    X, y = regression(labels=kind is FWClassifier, n=60, density=0.6)
    X[0] = 1.0
    one, two = make(optimizer, where, kind, intercept=True), make(optimizer, where, kind, intercept=True)
    ways = ("play_one", "predict_one") if kind is FWRegressor else ("play_proba_one", "predict_proba_one")
    for x, label in zip(X, y.tolist(), strict=True):
        sample = {j: v for j, v in enumerate(x.tolist()) if v}
        expected = getattr(two, ways[1])(sample)
        two.learn_one(sample, label)
        assert getattr(one, ways[0])(sample, label) == expected
    assert state_of(one) == state_of(two)
    with pytest.raises(SampleError, match="'a' is nan"):
        one.play_one({"a": float("nan")}, y[0].item())
    assert one.n_samples == 60


def brute_gap(model, X, y):
    w = np.array([model.weights.get(j, 0.0) for j in range(X.shape[1])])
    z = X @ w + model.intercept_
    loss = model.fitted_loss
    gradient = X.T @ [loss.gradient(a, b) for a, b in zip(y.tolist(), z.tolist(), strict=True)] / len(y)
    return gradient @ (w - model.constraint.lmo(gradient).to_dense())


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", [FWRegressor, FWClassifier])
@pytest.mark.parametrize("where", SETS)
def test_the_exact_gap_is_exact(where, kind, intercept):
    X, y = regression(labels=kind is FWClassifier, n=120)
    sfw = make("sfw", where, kind, intercept=intercept)  # remembers 50
    ofw = kind(SETS[where](), optim.OFW(), intercept=intercept)  # remembers all, or their sums
    for n in (1, 13, 49, 50, 51, 120):
        for model in (sfw, ofw):
            model.learn_arrays(X[model.n_samples : n], y[model.n_samples : n])
        first = max(0, n - 50)
        assert sfw.exact_gap == pytest.approx(brute_gap(sfw, X[first:n], y[first:n]), abs=1e-9)
        assert ofw.exact_gap == pytest.approx(brute_gap(ofw, X[:n], y[:n]), abs=1e-9)
        assert sfw.exact_gap >= -1e-12


@pytest.mark.parametrize("where", ["l1", "l2", "simplex"])
def test_the_free_gap_becomes_the_exact_one_as_derivatives_settle(where):
    X, y = regression(n=30)
    model = FWRegressor(
        SETS[where](), optim.SFW(memory=30, batch_size=30, steps_per_sample=400), seed=0, intercept=False
    )
    model.learn_arrays(X, y)
    # The free gap is that of the iterate before the last step, at derivatives taken there.
    assert model.gap == pytest.approx(model.exact_gap, abs=0.02)


@EACH
@settings(max_examples=12, deadline=None)
@given(
    samples=st.lists(
        st.tuples(st.dictionaries(st.sampled_from("abcdefgh"), VALUES, max_size=8), VALUES), min_size=1, max_size=25
    )
)
def test_never_outside_whatever_comes(optimizer, where, samples):
    """Values from 1e-320 to 1e100: each sample is learned or refused, and the weights stay in the set."""
    model = make(optimizer, where, intercept=True)
    learned, refusals = 0, set()
    for x, y in samples:
        try:
            model.learn_one(x, y)
            learned += 1
        except SampleError as error:
            refusals.add(str(error).rpartition(";")[0])
        assert model.n_samples == learned
        assert model.violation <= 1e-12
        weights = model._run.weights
        assert np.isfinite(weights).all()
        assert np.isfinite([getattr(model._run.s, name) for name in ("u_scale", "dot", "w_sq")]).all()
    model.learn_one({"a": 1.0, "b": -1.0}, 1.0)
    assert model.violation <= 1e-12
    assert all("too large to be summed" in refusal for refusal in refusals)


@pytest.mark.parametrize("kind", [FWRegressor, FWClassifier])
@EACH
@pytest.mark.filterwarnings("ignore:over its first 500 samples")  # values of all sizes
def test_long_runs_stay_inside(optimizer, where, kind):
    rng = np.random.default_rng(4)
    model = make(optimizer, where, kind)
    for scale in (1.0, 1e6, 1e-6):
        X = rng.normal(size=(300, 5)) * scale
        y = rng.normal(size=300)
        for x, label in zip(X, (y > 0.0 if kind is FWClassifier else y).tolist(), strict=True):
            model.learn_one(dict(enumerate(x.tolist())), label)
            assert model.violation <= 1e-12


def memory_after(model, X, y, passes):
    """Bytes held after each of the numbers of passes."""
    sizes = []
    gc.freeze()  # what other tests have left is no matter of this one, and slow to look through
    tracemalloc.start()
    for t in range(max(passes)):
        for x, label in zip(X, y, strict=True):
            model.learn_one(x, label)
        if t + 1 in passes:
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    gc.unfreeze()
    return sizes


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_memory_is_flat(optimizer):
    """Twelve thousand samples to warm up, and not a kilobyte in the forty-eight thousand after them."""
    X, y = regression(n=4000, d=30, density=0.1)
    samples = [{f"x{j}": v for j, v in enumerate(x) if v} for x in X.tolist()]
    model = make(optimizer, "l1", intercept=True)
    first, last = memory_after(model, samples, y.tolist(), (3, 15))
    assert last - first < 1024
    raw = model._raw_memory_usage
    for x, label in zip(samples, y.tolist(), strict=True):
        model.learn_one(x, label)
    assert model._raw_memory_usage == raw


def test_features_that_appear_later_double_the_arrays():
    model = FWRegressor(sets.L1Ball(1.0), optim.SFW(memory=10), seed=0, intercept=False)
    sizes = []
    for t in range(2000):
        model.learn_one({t: 1.0, 0: 1.0}, 1.0)
        sizes.append(len(model._run.it.v))
    assert len(model._features) == 2000
    assert len(set(sizes)) <= 7
    assert model.weights[0] > 0.5


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([False, True], (False, True)),
        ([True, False], (False, True)),
        ([0, 1], (0, 1)),
        ([1, 0], (0, 1)),
        ([1, -1], (-1, 1)),
        ([-1, 1], (-1, 1)),
        ([1.0, -1.0], (-1.0, 1.0)),
        ([2, 1], (2, 1)),
        ([1, 2], (2, 1)),
        (["no", "yes"], ("no", "yes")),
        ([("a", 1), ("b", 2)], (("a", 1), ("b", 2))),
        ([np.bool_(True), np.bool_(False)], (False, True)),
        ([np.int64(1), np.int64(-1)], (-1, 1)),
    ],
)
def test_any_two_classes(labels, classes):
    model = FWClassifier(sets.L1Ball(10.0), optim.SFW(memory=20), seed=0, intercept=False)
    positive = classes[1]
    for t in range(100):
        label = labels[t % 2]
        model.learn_one({"a": 1.0 if label == positive else -1.0}, label)
        assert model.last_sample.y == float(label == positive)
    assert model.classes == classes
    assert model.predict_one({"a": 1.0}) == classes[1]
    assert model.predict_one({"a": -1.0}) == classes[0]
    assert set(model.predict_proba_one({"a": 1.0})) == set(classes)
    assert sum(model.predict_proba_one({"a": 0.3}).values()) == pytest.approx(1.0)
    with pytest.raises(SampleError, match="the classes seen so far"):
        model.learn_one({"a": 1.0}, "a third")


@pytest.mark.parametrize("rate", [0.5, 30.0, 1000.0])
def test_the_intercept_of_a_poisson_regression(rate):
    """Counts far from the 0 that it starts at: Newton's steps must not run away."""
    rng = np.random.default_rng(0)
    model = FWRegressor(sets.L1Ball(0.5), optim.SFW(memory=50), loss=river_optim.losses.Poisson(), intercept=True)
    for _ in range(500):
        model.learn_one({"a": rng.normal()}, float(rng.poisson(rate)))
    assert model.n_samples == 500
    assert model.predict_one({}) == pytest.approx(rate, rel=0.3)


def test_the_gap_of_a_loss_with_kinks_and_of_labels():
    model = FWClassifier(
        sets.L2Ball(2.0), optim.SFW(memory=30), loss=river_optim.losses.Hinge(), seed=0, intercept=False
    )
    X, y = regression(labels=True)
    model.learn_arrays(X, y)
    assert model.exact_gap == pytest.approx(brute_gap(model, X[-30:], y[-30:]), abs=1e-9)


def test_debug_one():
    model = FWRegressor(sets.L1Ball(2.0), optim.SFW(memory=10), intercept=True, seed=0)
    assert (
        FWRegressor(sets.L1Ball(2.0), intercept=False).debug_one({"a": 1.0})
        == "no feature of this sample has been seen"
    )
    for t in range(50):
        model.learn_one({"a": t % 3, "b": 1.0}, t % 3 + 5.0)
    shown = model.debug_one({"a": 2.0, "unseen": 1.0})
    assert "intercept" in shown
    assert "unseen" not in shown
