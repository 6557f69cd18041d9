"""What the learners for losses that may be anything promise: regret, linear minimisations, recovery from a drift."""

import numpy as np
import pytest
from river import optim as river_optim
from support.oracles import AdaptiveOFWOracle, AdversarialOFWOracle

from fwonline import optim, sets
from fwonline.linear_model import FWRegressor
from fwonline.optim.schedules import Power

SIMPLEX, BALL = sets.ProbabilitySimplex(), sets.L1Ball(2.0)


class Linear:
    """f(y, z) = y z: the losses of the theorems, whose gradients the adversary chooses."""

    def __call__(self, y_true, y_pred):
        return y_true * y_pred

    def gradient(self, y_true, y_pred):
        return y_true

    def mean_func(self, y_pred):
        return y_pred


def adversarial(kind, n=600, d=5):
    """Rows x_t whose losses <x_t, w> are hard to follow."""
    rng = np.random.default_rng(7)
    if kind == "alternating":  # what was best so far is worst next
        X = np.zeros((n, d))
        X[:, 0] = np.where(np.arange(n) % 2, 1.0, -1.0)
        X[0, 0] = -0.5
        X[:, 1] = -X[:, 0]
    elif kind == "turning":
        X = rng.normal(size=(n, d)) * 0.1
        X[np.arange(n), (np.arange(n) // 60) % d] -= 1.0
    else:
        X = rng.normal(size=(n, d))
    return X


def plays(model, X):
    losses = []
    for x in X:
        model.learn_one(dict(enumerate(x.tolist())), 1.0)
        losses.append(model.last_sample.loss)
    return np.array(losses)


def regret(losses, X, constraint):
    total = X.sum(axis=0)
    return losses.sum() - constraint.lmo(total).dot(total)


@pytest.mark.parametrize("kind", ["alternating", "turning", "noise"])
@pytest.mark.parametrize("constraint", [SIMPLEX, BALL, sets.L2Ball(1.0), sets.Box(-1.0, 1.0)], ids=repr)
def test_the_bound_of_hazan_s_theorem(kind, constraint):
    X = adversarial(kind)
    n, d = X.shape
    G, D = np.linalg.norm(X, axis=1).max(), constraint.diameter(d)
    for horizon in (n, None):
        model = FWRegressor(constraint, optim.AdversarialOFW(horizon=horizon), loss=Linear(), intercept=False)
        assert regret(plays(model, X), X, constraint) <= 8.0 * G * D * n**0.75
        assert (model.optimizer.n_steps, model.optimizer.n_gradients) == (n, n)
        assert model.optimizer.n_lmo <= n


@pytest.mark.parametrize("kind", ["alternating", "turning", "noise"])
@pytest.mark.parametrize("constraint", [SIMPLEX, BALL, sets.L2Ball(1.0), sets.Box(-1.0, 1.0)], ids=repr)
def test_the_adaptive_bound_in_every_window_and_the_linear_minimisations(kind, constraint):
    X = adversarial(kind)
    n, d = X.shape
    T = 200
    G, D = np.linalg.norm(X, axis=1).max(), constraint.diameter(d)
    for block, tolerance in ((None, None), (64, 1.5 / np.sqrt(T))):
        model = FWRegressor(constraint, optim.AdaptiveOFW(T, block, tolerance), loss=Linear(), intercept=False)
        losses = plays(model, X)
        K = block or 15
        tau = tolerance or 0.05 / np.sqrt(T)
        root = np.sqrt(3.0 * tau)
        bound = G * D * (0.5 * (1.0 + (1.0 + root) ** 2) * np.sqrt(K * T) + root * T + 2 * K)
        for start in range(0, n - T + 1, 25):
            window = slice(start, start + T)
            assert regret(losses[window], X[window], constraint) <= bound
        searches = 2 if block is None else 1
        assert model.optimizer.n_lmo <= n // K * (1 + searches * 6.75 / tau) + 1
        assert model.optimizer.n_steps == model.optimizer.n_gradients == n


@pytest.mark.parametrize("constraint", [SIMPLEX, BALL, sets.L2Ball(1.0), sets.KSparseBall(2, 1.0)], ids=repr)
def test_linear_minimisations_are_counted_one_by_one(constraint):
    X = adversarial("noise", n=60)
    model = FWRegressor(constraint, optim.AdaptiveOFW(40, 4, 1e-2), loss=Linear(), intercept=False)
    oracle = AdaptiveOFWOracle(constraint, Linear(), None, X.shape[1], horizon=40, block=4, tolerance=1e-2)
    for x in X:
        model.learn_one(dict(enumerate(x.tolist())), 1.0)
        oracle.learn(x, 1.0)
    np.testing.assert_allclose(model._run.weights, oracle.w, rtol=0, atol=1e-10)
    assert model.optimizer.n_lmo == oracle.n_lmo > 15
    assert (model.optimizer.n_steps, model.optimizer.n_exact_gradients) == (60, 0)


def drifting(n=1_500, d=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3 * n, d))
    truth = np.repeat(np.eye(d)[[0, 1, 2]] * [[1.0], [-1.0], [1.0]], n, axis=0)
    return X, np.einsum("ij,ij->i", X, truth) + 0.3 * rng.normal(size=3 * n)


@pytest.mark.parametrize("constraint", [sets.L1Ball(1.0), sets.L2Ball(1.0), sets.KSparseBall(2, 0.8)], ids=repr)
def test_it_recovers_from_every_jump_where_ofw_does_not(constraint):
    X, y = drifting()
    loss = {}
    for name, optimizer in (("ofw", optim.OFW()), ("adaptive", optim.AdaptiveOFW(horizon=1_500))):
        model = FWRegressor(constraint, optimizer, intercept=False)
        at = []
        for x, label in zip(X, y.tolist(), strict=True):
            model.learn_one(dict(enumerate(x.tolist())), label)
            at.append(model.last_sample.loss)
        loss[name] = np.array(at).reshape(3, -1)[:, -500:].mean(axis=1)  # the last third of each part
    floor = loss["ofw"][0]  # before the first jump both are as good
    assert loss["adaptive"][0] < 1.15 * floor
    assert (loss["adaptive"] < 1.5 * floor).all()
    assert (loss["ofw"][1:] > 2.0 * floor).all()


def test_an_outlier_does_not_count_beyond_a_bound_that_was_given():
    X, y = drifting(n=300)
    errors = []
    for bound in (None, 3.0):
        model = FWRegressor(sets.L1Ball(1.0), optim.AdaptiveOFW(horizon=300, gradient_bound=bound), intercept=False)
        model.learn_arrays(X[:50], y[:50])
        model.learn_one({0: 1e6}, -1e6)
        model.learn_arrays(X[50:300], y[50:300])
        errors.append(abs(model.weights.get(0, 0.0) - 1.0))
    assert errors[1] < 0.2 < errors[0]


@pytest.mark.parametrize("make", [optim.AdversarialOFW, lambda: optim.AdaptiveOFW(horizon=100)])
def test_sparse_iterates_cost_as_many_non_zeros_as_linear_minimisations(make):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3_000)) * (rng.random((40, 3_000)) < 0.05)
    model = FWRegressor(sets.L1Ball(3.0), make(), intercept=False)
    model.learn_arrays(X, X[:, 0])
    assert 0 < len(model.weights) <= model.optimizer.n_lmo < 100
    if model.optimizer.n_steps == model.optimizer.n_lmo:
        held = model._run.own.active[: model._run.s.nonzeros]
        assert set(np.flatnonzero(model._run.it.v)) <= set(held.tolist())
        np.testing.assert_allclose(
            np.delete(model._run.it.u, held), np.delete(model._run.own.total, held), rtol=0, atol=0
        )


@pytest.mark.parametrize("constraint", [SIMPLEX, BALL, sets.L2Ball(1.0)], ids=repr)
def test_they_go_on_from_a_given_start(constraint):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(1, 4)), np.array([0.7])
    x0 = np.array([0.5, 0.25, 0.25, 0.0])
    squared = river_optim.losses.Squared()
    for optimizer, oracle in (
        (optim.AdversarialOFW(), AdversarialOFWOracle(constraint, squared, Power(0.5, 2.0), 4)),
        (
            optim.AdaptiveOFW(horizon=4, block=2, tolerance=1e-3),
            AdaptiveOFWOracle(constraint, squared, None, 4, horizon=4, block=2, tolerance=1e-3),
        ),
    ):
        oracle.w = oracle.old = oracle.y = x0
        for _ in range(12):
            oracle.learn(X[0], y[0])
        result = optimizer.minimize(X, y, constraint=constraint, steps=12, x0=x0)
        np.testing.assert_allclose(result.x, oracle.w, rtol=0, atol=1e-10)
        assert result.nit == optimizer.n_steps == 12


def test_boxes_grow_their_diameter_with_their_features():
    model = FWRegressor(sets.Box(-1.0, 1.0), optim.AdaptiveOFW(horizon=16), intercept=False)
    seen = []
    for t in range(40):
        model.learn_one(dict.fromkeys(range(1 + t // 10), 1.0), 1.0)
        seen.append(model._run.s.diameter)
    np.testing.assert_allclose(seen[::10], 2.0 * np.sqrt([1, 2, 3, 4]))
    with pytest.raises(ValueError, match="finite"):
        model.learn_one({99: np.nan}, 1.0)
    assert model._run.s.diameter == pytest.approx(4.0)
