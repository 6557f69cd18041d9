"""``optim.river.FrankWolfe`` inside river's own models, against its formula."""

import math

import numpy as np
import pandas as pd
import pytest
from river import checks, datasets, linear_model, metrics, preprocessing
from river import optim as river_optim

from fwonline import optim, sets
from fwonline.checkpoint import codec
from fwonline.monitors import Regret


@pytest.mark.parametrize("constraint", [sets.L1Ball(2.0), sets.L2Ball(1.0), sets.ProbabilitySimplex(1.5)], ids=str)
def test_equals_its_formula_and_stays_inside(constraint):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) * (rng.random((60, 4)) < 0.7)
    X[0] = 1.0
    y = X @ np.array([1.0, 0.0, -0.5, 0.2])
    optimizer = optim.river.FrankWolfe(constraint)
    model = linear_model.LinearRegression(optimizer=optimizer, intercept_lr=0.0)
    w, d = np.zeros(4), np.zeros(4)
    assert math.isnan(optimizer.gap)
    for t, (x, target) in enumerate(zip(X, y, strict=True)):
        model.learn_one({j: float(v) for j, v in enumerate(x) if v}, target)
        rho = min(1.0, 4.0 / (t + 8) ** (2 / 3))
        d = (1 - rho) * d + rho * 2.0 * (x @ w - target) * x
        atom = constraint.lmo(d)
        gap = d @ w - atom.dot(d)
        gamma = 1.0 if t == 0 and isinstance(constraint, sets.ProbabilitySimplex) else 2.0 / (t + 8)
        w = (1 - gamma) * w + gamma * atom.to_dense()
        weights = np.array([model.weights.get(j, 0.0) for j in range(4)])
        np.testing.assert_allclose(weights, w, atol=1e-12)
        assert optimizer.gap == pytest.approx(gap, abs=1e-12)
        assert constraint.contains(weights)


def test_orders_batches_and_copies():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"])
    y = pd.Series(X["a"] > 0.2)
    one, other, batch = (linear_model.LogisticRegression(optim.river.FrankWolfe(sets.L1Ball(3.0))) for _ in range(3))
    for x, label in zip(X.to_dict("records"), y, strict=True):
        one.learn_one(x, label)
        other.learn_one(dict(reversed(x.items())), label)
    assert one.weights == other.weights
    batch.learn_many(X, y)
    assert batch.optimizer.n_iterations == 1
    assert sum(map(abs, batch.weights.values())) == pytest.approx(0.25 * 3.0)
    copy = codec.loads(codec.dumps(one))
    copy.learn_one({"d": 1.0, "a": -1.0}, True)
    one.learn_one({"d": 1.0, "a": -1.0}, True)
    assert copy.weights == one.weights
    assert one.clone().optimizer.n_iterations == 0


def test_learns():
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression(optim.river.FrankWolfe(sets.L1Ball(5.0)))
    auc = metrics.ROCAUC()
    for x, y in datasets.Phishing():
        auc.update(y, model.predict_proba_one(x)[True])
        model.learn_one(x, y)
    assert auc.get() > 0.9


def test_its_regret_is_bracketed_and_falls():
    """A monitor is told a river model's loss, set and plays; it has no own estimate to read them from."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1_024, 5))
    y = X @ np.array([1.0, -0.5, 0.0, 0.0, 0.3]) + 0.1 * rng.normal(size=len(X))
    ball = sets.L1Ball(1.5)
    model = linear_model.LinearRegression(optim.river.FrankWolfe(ball), intercept_lr=0.0)
    regret = Regret(river_optim.losses.Squared(), ball)
    averages = []
    for t, (x, target) in enumerate(zip(X, y.tolist(), strict=True)):
        sample = dict(enumerate(x.tolist()))
        played = model.predict_one(sample)
        model.learn_one(sample, target)
        regret.update(target, played, x=sample, model=model)
        if t + 1 in (128, 1_024):
            told = regret.evaluate()
            assert 0.0 < told["regret_lo"] <= told["regret_hi"]
            averages.append(told["regret_average_hi"])
    assert averages[1] < 0.4 * averages[0]


def test_river_suite():
    model = linear_model.LogisticRegression(optimizer=optim.river.FrankWolfe(sets.L1Ball(3.0)))
    for check in checks.yield_checks(model):
        # river's models take one step for a batch, whatever the optimizer
        if getattr(check, "__name__", "") not in model._unit_test_skips():
            check(model.clone())


@pytest.mark.parametrize("constraint", [sets.Box(0.5, 1.0), sets.Box([-1.0], [1.0]), sets.ConvexHull(np.eye(3))])
def test_sets_without_the_origin_or_of_one_dimension_are_refused(constraint):
    with pytest.raises(ValueError, match="constraint must hold the weight 0"):
        optim.river.FrankWolfe(constraint)
    with pytest.raises(TypeError, match="constraint must be a set"):
        optim.river.FrankWolfe(0.01)


def test_gradients_that_are_not_finite_are_refused():
    optimizer = optim.river.FrankWolfe(sets.L1Ball(1.0))
    with pytest.raises(ValueError, match="the gradient must be finite"):
        optimizer.step({"a": 0.0}, {"a": float("nan")})
    assert optimizer.step({"a": 0.0}, {"a": 1.0}) == {"a": -0.25}
    assert isinstance(optimizer, river_optim.base.Optimizer)
