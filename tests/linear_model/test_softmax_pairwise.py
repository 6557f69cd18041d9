"""FWSoftmax's default: pairwise steps on the quadratic memory of all classes."""

import math

import numpy as np
import pytest
from river import checks
from scipy import sparse
from support.classes_oracle import ClassesOracle

from fwonline import optim, sets
from fwonline._kernels import classes
from fwonline.checkpoint import codec
from fwonline.exceptions import SampleError
from fwonline.linear_model import FWSoftmax
from fwonline.monitors import Feasibility, Gap
from fwonline.optim.online import pairwise_classes

pytestmark = pytest.mark.numerics
SETS = {"none": None, "l1": sets.L1Ball(3.0), "l2": sets.L2Ball(1.0), "linf": sets.LInfBall(0.5)}


def data(n=120, d=5, k=3, seed=0, density=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    return X, (X @ rng.normal(size=(d, k)) + 0.5 * rng.normal(size=(n, k))).argmax(axis=1)


def samples(X):
    return [{j: v for j, v in enumerate(row.tolist()) if v} for row in X]


def taught(constraint=None, n=80, **parameters):
    X, y = data(n)
    model = FWSoftmax(constraint, seed=1, **parameters)
    model.learn_arrays(X, y)
    return model, X, y


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("radius", [None, 1.5])
def test_equals_the_literal_algorithm(radius, intercept):
    X, y = data(n=60, density=0.7)
    y[:8] %= 2  # the third class comes later
    order = list(dict.fromkeys(y.tolist()))
    model = FWSoftmax(
        None if radius is None else sets.L1Ball(radius),
        optim.StochasticPairwiseFW(memory=20, steps_per_sample=3),
        intercept=intercept,
        seed=4,
    )
    literal = ClassesOracle(5, 3, radius or math.inf, 20, 3, 0.3, 4, intercept)
    model.learn_arrays(X[:0], y[:0])
    for x, label in zip(X, y.tolist(), strict=True):
        model.learn_arrays(x[None], [label])
        literal.learn(x, order.index(label))
        W, b = literal.W.T[: len(model.classes)], literal.b[: len(model.classes)]
        np.testing.assert_allclose(model._run.weights, W, atol=1e-9)
        np.testing.assert_allclose(list(model.intercept_.values()), b, atol=1e-9)
    assert model.cumulative_loss == pytest.approx(literal.loss)
    assert model.n_features == 5
    assert radius is None or np.abs(literal.W).sum() == pytest.approx(radius)


def test_forgetting_equals_the_literal_algorithm():
    X, y = data(n=50, density=0.7)
    order = list(dict.fromkeys(y.tolist()))
    model = FWSoftmax(None, optim.StochasticPairwiseFW(memory=20, steps_per_sample=3), seed=4)
    literal = ClassesOracle(5, 3, math.inf, 20, 3, 0.3, 4)
    for i, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        model.learn_arrays(x[None], [label])
        literal.learn(x, order.index(label))
        if i == 30:
            pairwise_classes.forget(model._run.view, 12)
            literal.forget(12)
    np.testing.assert_allclose(model._run.weights, literal.W.T, atol=1e-9)
    np.testing.assert_allclose(list(model.intercept_.values()), literal.b, atol=1e-9)


@pytest.mark.parametrize("rise", [0.0, 0.1, 1.0])
@pytest.mark.parametrize(("seen", "first"), [(640, 0), (5000, 300), (5000, 4700), (5000, 4960)])
def test_a_rise_of_the_losses_is_dated_as_by_its_definition(seen, first, rise):
    losses = np.random.default_rng(seen).gamma(0.5, size=seen)
    losses[-96:] += rise
    recent = np.zeros(classes.RECENT)
    recent[np.arange(seen) % recent.size] = losses if seen < recent.size else 0.0
    if seen > recent.size:
        recent[np.arange(seen - recent.size, seen) % recent.size] = losses[-recent.size :]
    count = min(seen - first, recent.size) // 32 * 32
    x = (losses / (losses + 0.7))[::-1][:count]
    found = [(0.0, 0)]
    for n in range(32, count, 32):
        error = math.sqrt(x[:n].var() / n + x[n:].var() / (count - n))
        found.append(((x[:n].mean() - x[n:].mean()) / error, n))
    z, split = max(found)
    assert classes.since_rise(recent, seen, first, 0.7) == (split if z > 4.0 else 0)


def test_a_stream_that_changes_is_learned_anew():
    X, y = data(n=1600, d=8, k=4)
    for start in (500, 1100):
        y[start:] = (y[start:] + 1) % 4
    model, right = FWSoftmax(seed=1), []
    for i, (x, label) in enumerate(zip(samples(X), y.tolist(), strict=True)):
        right.append(model.predict_one(x) == label)
        model.learn_one(x, label)
        if i == 1120:
            model = codec.loads(codec.dumps(model))
    usual = np.mean(right[300:500])
    assert np.mean(right[800:1100]) > usual - 0.1
    assert np.mean(right[1400:]) > usual - 0.1
    arrays = FWSoftmax(seed=1)
    arrays.learn_arrays(X, y)
    assert arrays.weights == model.weights
    assert arrays._run.s.forgotten > 1000
    remembering = FWSoftmax(None, optim.StochasticPairwiseFW(forgetting=False), seed=1)
    remembering.learn_arrays(X, y)
    assert remembering._run.s.forgotten == 0


@pytest.mark.parametrize("check", list(checks.yield_checks(FWSoftmax())), ids=lambda c: getattr(c, "__name__", str(c)))
def test_river_suite(check):
    check(FWSoftmax(seed=1))


@pytest.mark.parametrize("where", SETS)
def test_stays_in_its_set_and_learns(where):
    model, X, y = taught(SETS[where], n=400)
    assert model.violation <= 1e-9
    z = X @ model._run.weights.T + list(model.intercept_.values())
    assert (np.array(model.classes)[z.argmax(axis=1)] == y).mean() > 0.7
    assert model.predict_arrays(X).tolist() == np.array(model.classes)[z.argmax(axis=1)].tolist()
    assert model.gap >= -1e-9
    assert math.isfinite(model.gap)
    assert math.isfinite(model.exact_gap)
    copy = codec.loads(codec.dumps(model))
    for one in (model, copy):
        one.learn_arrays(X[:9], y[:9])
    assert copy.weights == model.weights
    assert copy.state_summary()["optimizer"]["digest"] == model.state_summary()["optimizer"]["digest"]


def test_the_order_of_keys_does_not_show_and_arrays_learn_as_dicts_do():
    X, y = data(density=0.6)
    one, turned, arrays, rows = (FWSoftmax(seed=3) for _ in range(4))
    for x, label in zip((dict(enumerate(row)) for row in X.tolist()), y.tolist(), strict=True):
        one.learn_one(x, label)
        turned.learn_one(dict(reversed(x.items())), label)
    arrays.learn_arrays(X[:50], y[:50])
    arrays.learn_arrays(sparse.csr_array(X[50:]), y[50:])
    for i in range(len(y)):
        rows.learn_arrays(X[i : i + 1], y[i : i + 1])
    assert one.weights == turned.weights
    assert arrays.weights == rows.weights
    for a, b in ((one, arrays), (one, turned)):
        assert a.weights == b.weights
        assert a.intercept_ == b.intercept_
    proba = one.predict_proba_arrays(X)
    for x, p in zip(samples(X), proba.tolist(), strict=True):
        assert list(one.predict_proba_one(dict(reversed(x.items()))).values()) == p


def test_a_sample_that_is_played_was_predicted_as_it_would_have_been():
    X, y = data(density=0.6)
    played, learned = FWSoftmax(seed=3), FWSoftmax(seed=3)
    nuclear = FWSoftmax(sets.NuclearBall(3.0), seed=3)
    assert played.play_one({}, 0) is None
    learned.learn_one({}, 0)
    for x, label in zip(samples(X), y.tolist(), strict=True):
        before = learned.predict_proba_one(x)
        assert played.play_proba_one(x, label) == before
        learned.learn_one(x, label)
        assert nuclear.predict_one(x) == nuclear.play_one(x, label)
    assert played.weights == learned.weights
    with pytest.raises(SampleError, match="feature 'a' is inf"):
        played.play_one({"a": math.inf}, 1)
    assert played.weights == learned.weights


def test_classes_and_features_that_come_late_and_checkpoints_on_the_way():
    X, y = data(n=200, d=30, k=7, density=0.3)
    order = np.argsort(y + 3.0 * np.random.default_rng(1).random(len(y)), kind="stable")
    model = FWSoftmax(sets.L1Ball(20.0), optim.StochasticPairwiseFW(memory=25), seed=1)
    copy = model.clone()
    for i, (x, label) in enumerate((samples(X)[i], f"class {y[i]}") for i in order):
        model.learn_one(x, label)
        copy.learn_one(x, label)
        if i % 17 == 0:
            copy = codec.loads(codec.dumps(copy))
    assert len(model.classes) == 7
    assert model.weights == copy.weights
    assert model.intercept_ == copy.intercept_
    assert codec.dumps(model) == codec.dumps(copy)


def test_a_refused_sample_leaves_no_trace():
    model, X, _ = taught(n=40)
    before = codec.dumps(model)
    for sample, label, message in (
        ({"new": math.inf}, "new class", "feature 'new' is inf"),
        ({0: "text"}, 1, "feature 0 is 'text'"),
        ({0: 1e101, "other": 1.0}, 5, "feature 0 is 1e"),
        ({0: 1.0}, None, "the label is None"),
        ({0: 1.0}, [1], r"the label is \[1\]"),
    ):
        with pytest.raises(SampleError, match=message):
            model.learn_one(sample, label)
    bad = np.vstack([X[:2], np.full(5, np.nan)])
    other = codec.loads(before)
    with pytest.raises(SampleError, match="row 2: "):
        model.learn_arrays(bad, ["x", "y", "z"])
    assert model.classes == (*other.classes, "x", "y")
    other.learn_arrays(X[:2], ["x", "y"])
    assert other.weights == model.weights


@pytest.mark.parametrize("where", SETS)
def test_features_are_given_up(where):
    X, y = data(n=150, d=60, density=0.1)
    model = FWSoftmax(SETS[where], seed=1, max_names=20)
    for i, (x, label) in enumerate(zip(samples(X), y.tolist(), strict=True)):
        model.learn_one(x, label)
        assert model.n_features <= 20
        assert model.violation <= 1e-9
        if i % 40 == 39:
            loaded = codec.loads(codec.dumps(model))
            loaded.learn_one({1: 1.0}, 0)
    assert math.isfinite(model.cumulative_loss)


def test_gaps_without_a_set_are_those_of_the_ball_of_twice_the_norm():
    model, X, y = taught()
    W, b = model._run.weights, np.array(list(model.intercept_.values()))
    z = X @ W.T + b
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    p[np.arange(len(y)), [model.classes.index(label) for label in y.tolist()]] -= 1.0
    gradient = p.T @ X / len(y)
    expected = np.vdot(gradient, W) + 2.0 * np.abs(W).sum() * np.abs(gradient).max()
    assert model.exact_gap == pytest.approx(expected)
    assert model.gap_over(sparse.csr_array(X), np.array([model.classes.index(v) for v in y.tolist()])) == pytest.approx(
        expected
    )
    assert 0.0 <= model.gap < 10.0
    assert model.violation == 0.0
    assert FWSoftmax().gap != FWSoftmax().gap  # NaN before it began
    gap, feasibility = Gap(), Feasibility()
    for x, label in zip(samples(X), y.tolist(), strict=True):
        model.learn_one(x, label)
        gap.update(label, 0, x=x, model=model)
        feasibility.update(label, 0, x=x, model=model)
    assert feasibility.get()["violation_worst"] == 0.0
    assert gap.get()["gap_estimate"] == model.gap


def test_minimize_comes_near_the_optimum_and_goes_on_online():
    X, y = data(n=200)
    model = FWSoftmax(sets.L1Ball(4.0), seed=1)
    result = model.minimize(X, y, steps=6_000)
    assert result.gap < 0.1
    assert np.abs(result.x).sum() == pytest.approx(4.0)
    other = FWSoftmax(sets.L1Ball(4.0), optim.FW(), seed=1).minimize(X, y, steps=400)
    assert result.fun - result.gap <= other.fun <= result.fun + other.gap
    np.testing.assert_allclose(model._run.weights, result.x)
    model.learn_arrays(X, y)
    assert model.violation <= 1e-9
    free = FWSoftmax(seed=1).minimize(X, y, steps=300, x0=result.x)
    assert free.fun < result.fun


def test_merged_models_predict_by_the_mean_of_weights_and_intercepts():
    X, y = data(n=200)
    one, other = FWSoftmax(seed=1), FWSoftmax(seed=2)
    one.learn_arrays(X[:100], y[:100])
    other.learn_arrays(X[100:], np.array(["a", "b", "c"])[y[100:]])
    whole = one.merged([other])
    assert set(whole.classes) == {*one.classes, *other.classes}
    for model in (one, other):
        for label in model.classes:
            assert whole.intercept_[label] == pytest.approx(0.5 * model.intercept_[label])
            for name, weight in model.weights[label].items():
                assert whole.weights[label][name] == pytest.approx(0.5 * weight)


def test_a_hundred_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(100, size=2000)
    X = rng.normal(size=(100, 30))[y] + 0.5 * rng.normal(size=(2000, 30))
    model = FWSoftmax(seed=1)
    model.learn_arrays(X, y)
    assert model.cumulative_loss / len(y) < 1.5
    assert (model.predict_arrays(X) == y).mean() > 0.9


def test_sets_that_it_cannot_move_in_are_refused():
    with pytest.raises(ValueError, match="StochasticPairwiseFW moves entries of a matrix, which NuclearBall"):
        FWSoftmax(sets.NuclearBall(1.0), optim.StochasticPairwiseFW())
    with pytest.raises(ValueError, match="window must be None for a softmax"):
        FWSoftmax(None, optim.StochasticPairwiseFW(window=50))
    with pytest.raises(ValueError, match="constraint must be a set for SVRF"):
        FWSoftmax(None, optim.SVRF())
    with pytest.raises(TypeError, match="constraint must be a set"):
        FWSoftmax(3.0)


def test_memory_stays_flat():
    model, X, y = taught(n=1200)
    size = len(codec.dumps(model))
    model.learn_arrays(X, y)
    assert len(codec.dumps(model)) <= 1.1 * size + 500
