"""Linear models without a constraint: the default of all three estimators."""

import pickle

import numpy as np
import pandas as pd
import pytest
from river import preprocessing
from support.catalogue import state_of

from fwonline import monitors, optim, sets
from fwonline.checkpoint import codec
from fwonline.definition import load_definition
from fwonline.exceptions import CheckpointError, DefinitionError, MonitorError, SampleError
from fwonline.linear_model import FWClassifier, FWRegressor, FWSoftmax
from fwonline.loop import EventLoop
from fwonline.optim.free import RADIUS

KINDS = pytest.mark.parametrize("kind", [FWRegressor, FWClassifier])


def dicts(X):
    return [dict(enumerate(row)) for row in X.tolist()]


def taught(kind=FWRegressor, n=200, **given):
    X, y = matrix(kind, n)
    model = kind(**({"seed": 1} | given))
    model.learn_arrays(X, y)
    return model, X, y


def matrix(kind=FWRegressor, n=200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6))
    y = X @ [3.0, -2.0, 0.0, 0.0, 0.0, 1.0] + 5.0 + 0.1 * rng.normal(size=n)
    return X, y > 5.0 if kind is FWClassifier else y


def test_nothing_need_be_said():
    model, X, y = taught()
    assert (model.constraint, model.intercept, model.violation) == (None, True, 0.0)
    assert model.intercept_ == pytest.approx(5.0, abs=0.1)
    assert np.mean((model.predict_arrays(X) - y) ** 2) < 0.02


@pytest.mark.parametrize("by", [2.0**-60, 2.0**60])
@pytest.mark.parametrize("of", ["features", "targets"])
def test_no_scale_matters(by, of):
    model, X, y = taught()
    other = FWRegressor(seed=1)
    wide, high = (by, 1.0) if of == "features" else (1.0, by)
    other.learn_arrays(wide * X, high * y)
    assert (other.predict_arrays(wide * X) / high).tolist() == pytest.approx(model.predict_arrays(X).tolist(), rel=1e-9)


@KINDS
def test_a_ball_that_never_binds_does_the_same(kind):
    model, X, _ = taught(kind, forgets := 60)
    ball = kind(sets.L1Ball(1e6), seed=1)
    ball.learn_arrays(X, matrix(kind, forgets)[1])
    assert model.predict_arrays(X).tolist() == ball.predict_arrays(X).tolist()


@KINDS
def test_all_ways_to_learn_are_one(kind):
    model, X, y = taught(kind)
    one, played, framed = (kind(seed=1) for _ in range(3))
    names = [str(j) for j in range(X.shape[1])]
    for x, label in zip(dicts(X), y.tolist(), strict=True):
        assert played.play_one(x, label) == one.predict_one(x)
        one.learn_one(x, label)
    framed.learn_many(pd.DataFrame(X, columns=names), pd.Series(y))
    assert state_of(one) == state_of(model) == state_of(played)
    assert {int(name): weight for name, weight in framed.weights.items()} == model.weights
    assert kind(seed=1).constraint is model.clone().constraint is None


def test_gaps_are_over_the_ball_of_twice_the_norm():
    model, X, y = taught(n=60)
    w = np.array([model.weights.get(j, 0.0) for j in range(X.shape[1])])
    gradient = 2.0 * X.T @ (X @ w + model.intercept_ - y) / len(y)  # the intercept's slope plays no part
    radius = 2.0 * np.abs(w).sum()
    assert model.gap_set.radius == pytest.approx(radius)
    assert model.exact_gap == pytest.approx(gradient @ w + radius * np.abs(gradient).max())
    assert 0.0 <= model.gap < np.inf


def test_gaps_before_anything_is_known():
    model = FWRegressor()
    assert model.gap_set == sets.L1Ball(1.0)
    assert np.isnan(model.gap)
    assert model.exact_gap is None
    model.learn_one({"a": 1.0}, 0.0)
    assert (model.weights, model.gap, model.exact_gap) == ({}, 0.0, 0.0)
    assert FWRegressor(sets.L2Ball(3.0)).gap_set == sets.L2Ball(3.0)


def test_the_gap_monitor_tells_the_ball():
    model, monitor = FWRegressor(seed=1), monitors.Gap(every=20)
    for x, y in zip(dicts((data := matrix())[0]), data[1].tolist(), strict=True):
        model.learn_one(x, y)
        monitor.update(model=model)
    said = monitor.get()
    assert said["gap_radius"] == model.gap_set.radius
    assert 0.0 < said["gap_over_memory"] < np.inf
    assert repr(monitor).endswith(f"in the l1 ball of {model.gap_set.radius:.6g}")
    assert codec.loads(codec.dumps(monitor)).get() == said


def test_optimizers_whose_steps_need_a_set_say_so():
    for make in (optim.SFW, optim.OneSampleFW, optim.MomentumFW, optim.OFW, optim.PairwiseFW, optim.SVRF):
        with pytest.raises(ValueError, match=r"constraint must be a set for \w+\(.*such as sets.L1Ball.*Stochastic"):
            FWRegressor(optimizer=make())
        with pytest.raises(ValueError, match="constraint must be a set for"):
            make().minimize(np.eye(2), [1.0, 0.0], constraint=None)
    with pytest.raises(TypeError, match="constraint must be a set"):
        optim.river.FrankWolfe(None)


def test_projected_sgd_is_gradient_descent():
    X, y = matrix()
    model = FWRegressor(None, optim.ProjectedSGD(0.05), intercept=False)
    model.learn_arrays(X, y)
    w = np.zeros(X.shape[1])
    for t, (x, target) in enumerate(zip(X, y, strict=True)):
        w -= 0.05 * (t + 1.0) ** -0.5 * 2.0 * (x @ w - target) * x
    assert [model.weights[j] for j in range(X.shape[1])] == pytest.approx(w.tolist())
    softmax = FWSoftmax(None, optim.ProjectedSGD(0.1))
    softmax.learn_arrays(X, y > 5.0)
    assert np.mean(softmax.predict_arrays(X) == (y > 5.0)) > 0.9


def test_offline():
    X, y = matrix()
    result = optim.StochasticPairwiseFW().minimize(X, y - 5.0, constraint=None, steps=20_000, seed=0, tol=1e-6)
    best = np.linalg.lstsq(X, y - 5.0)[0]
    assert result.success
    assert result.x == pytest.approx(best, abs=1e-4)


def test_regret_asks_for_a_set():
    model = taught()[0]
    with pytest.raises(MonitorError, match=r"no constraint.*Regret\(constraint=sets.L1Ball"):
        EventLoop([], preprocessing.StandardScaler() | model, [monitors.Regret()])
    with pytest.raises(MonitorError, match="no constraint"):
        monitors.Regret().update(model=model)
    EventLoop([], model, [monitors.Regret(constraint=sets.L1Ball(10.0))])


def test_a_definition_without_a_constraint(tmp_path):
    path = tmp_path / "stream.toml"
    text = 'source = "Phishing"\nmodel = ["StandardScaler", {{ class = "FWClassifier" }}]\nmonitors = ["{}"]\n'
    path.write_text(text.format("Gap"))
    assert load_definition(path).build(tmp_path).run(300).monitors["gap_radius"] > 0.0
    path.write_text(text.format("Regret"))
    with pytest.raises(DefinitionError, match=r"monitors\[0\]: Regret compares.*no constraint"):
        load_definition(path).build(tmp_path)


@KINDS
@pytest.mark.parametrize("optimizer", [None, optim.ProjectedSGD(0.1), optim.Mixture()])
def test_saved_and_loaded(kind, optimizer):
    X, y = matrix(kind)
    model = taught(kind, 100, optimizer=optimizer)[0]
    again = codec.loads(codec.dumps(model))
    assert again.constraint is None
    assert state_of(again) == state_of(model) == state_of(pickle.loads(pickle.dumps(model)))
    for one in (model, again):
        one.learn_arrays(X[100:], y[100:])
    assert state_of(again) == state_of(model)


def test_files_that_mix_sets_are_refused():
    free, bound = FWRegressor(seed=1), FWRegressor(sets.L1Ball(5.0), seed=1)
    for model, constraint in ((free, sets.L1Ball(5.0)), (bound, None)):
        model.constraint = constraint
        with pytest.raises(CheckpointError, match="one in the model's set"):
            codec.loads(codec.dumps(model))
    model = FWRegressor(sets.L1Ball(RADIUS), optim.SFW(memory=5), seed=1)
    model.constraint = None  # with an optimizer that needs one
    with pytest.raises(CheckpointError, match="one in the model's set"):
        codec.loads(codec.dumps(model))
    for seen, model_ in ((1.0, 0.0), (1e100, 1e-100)):  # steps would divide by what is no number
        other = taught()[0]
        other._run.s.curvature_seen, other._run.s.curvature_model = seen, model_
        with pytest.raises(CheckpointError, match="curvature_seen"):
            codec.loads(codec.dumps(other))
    other = taught()[0]
    other._run.s.size = 1e39
    with pytest.raises(CheckpointError, match="size"):
        codec.loads(codec.dumps(other))


def test_merged():
    parts = [taught(n=100 * k)[0] for k in (1, 3)]
    whole = parts[0].merged(parts[1:])
    for j, weight in whole.weights.items():
        assert weight == pytest.approx(0.25 * parts[0].weights.get(j, 0.0) + 0.75 * parts[1].weights.get(j, 0.0))
    assert whole.constraint is None
    with pytest.raises(ValueError, match="constraint=None"):
        parts[0].merged([FWRegressor(sets.L1Ball(1.0))])
    one, two = FWClassifier(seed=1), FWClassifier(seed=1)  # which meet the classes in different orders
    one.learn_arrays([[1.0], [-1.0]] * 50, ["p", "n"] * 50)
    two.learn_arrays([[-1.0], [1.0]] * 50, ["n", "p"] * 50)
    assert one.merged([two]).predict_one({0: 1.0}) == "p"


def test_bad_samples_move_nothing():
    model = taught()[0]
    before = state_of(model)
    for x, y in (({"a": np.nan}, 1.0), ({"a": 1e101}, 1.0), ({"a": 1.0}, np.inf)):
        with pytest.raises(SampleError):
            model.learn_one(x, y)
    model._run._last = None
    assert state_of(model) == before


def test_values_at_the_edge_of_what_numbers_hold():
    for x, y in ((1e100, 1.0), (1e-100, 1.0), (1.0, 1e100), (1e-100, 1e100)):
        model = FWRegressor(seed=1)
        for k in range(30):
            try:
                model.learn_one({"a": x * (-1) ** k}, y * (-1) ** k)
            except SampleError:  # too large to be summed
                break
        assert np.isfinite(model.predict_one({"a": 1.0}))
        assert not np.isnan(model.cumulative_loss)


def test_names_make_room():
    model = FWRegressor(max_names=4, seed=1)
    for k in range(200):
        model.learn_one({"a": (a := (-1.0) ** k), f"new{k}": 1.0}, 2.0 * a)
    assert model.n_features <= 4
    assert model.weights["a"] == pytest.approx(2.0, abs=0.2)
    dense = FWRegressor(None, optim.ProjectedSGD(0.01), max_names=4)
    for k in range(50):
        dense.learn_one({f"new{k}": 1.0}, 1.0)
    assert "new49" in dense.weights  # where all weigh something the oldest leave
