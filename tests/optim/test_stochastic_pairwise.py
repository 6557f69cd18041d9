"""Pairwise steps on a quadratic memory, against the model written out sample by sample."""

import math
import warnings

import numpy as np
import pytest
from river import drift
from river import optim as river_optim
from support.oracles import OwnSquared
from support.pairwise_oracle import PairwiseOracle

from fwonline import losses, sets
from fwonline._kernels.entry import call
from fwonline._kernels.layout import jit
from fwonline.checkpoint import codec
from fwonline.linear_model import FWClassifier, FWRegressor
from fwonline.optim import OneSampleFW, StochasticPairwiseFW
from fwonline.optim.hindsight import best_fixed_point
from fwonline.optim.online.stochastic_pairwise import _since_change

SETS = {
    "l1-small": sets.L1Ball(0.5),
    "l1": sets.L1Ball(20.0),
    "unit-simplex": sets.UnitSimplex(0.8),
    "simplex": sets.ProbabilitySimplex(1.5),
    "l2-small": sets.L2Ball(0.7),
    "l2": sets.L2Ball(9.0),
    "linf": sets.LInfBall(0.4),
    "box": sets.Box(-0.2, 0.9),
}
LOSSES = {
    "squared": river_optim.losses.Squared(),
    "own": OwnSquared(),
    "log": river_optim.losses.Log(),
    "absolute": river_optim.losses.Absolute(),
}


def stream(n, d, binary, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    y = X[:, 0] - 2.0 * X[:, 2] + 0.3 * rng.normal(size=n)
    return X, (y > 0.0) if binary else y


# An exchange leaves two slopes equal, and rounding to say which is less: 15 samples go by before that shows.
@pytest.mark.parametrize(
    ("where", "loss"), [(s, f) for s in SETS for f in LOSSES if f == "squared" or not s.startswith("l2")]
)
def test_the_model_is_the_sum_over_all_samples(where, loss):
    X, y = stream(15, 6, loss == "log", seed=5)
    kind = FWClassifier if loss == "log" else FWRegressor
    model = kind(SETS[where], StochasticPairwiseFW(memory=8, steps_per_sample=4), LOSSES[loss], seed=3)
    oracle = PairwiseOracle(SETS[where], LOSSES[loss], 8, 4, 0.3, 3, 6)
    for x, label in zip(X, y.tolist(), strict=True):
        model.learn_one(dict(enumerate(x.tolist())), label)
        oracle.learn(x, label)
        np.testing.assert_allclose(model._run.weights, oracle.w, atol=1e-9)


@pytest.mark.parametrize("where", SETS)
def test_offline_it_reaches_the_optimum(where):
    X, y = stream(200, 10, False)
    result = StochasticPairwiseFW().minimize(X, y, constraint=SETS[where], steps=8_000, seed=0)
    best = best_fixed_point(X, y, loss=river_optim.losses.Squared(), constraint=SETS[where], tol=1e-6)
    assert result.fun <= best.upper + 1e-5
    assert result.gap <= 1e-4
    assert SETS[where].contains(result.x)
    assert result.gap_estimate == pytest.approx(result.gap, abs=1e-3)


@pytest.mark.parametrize("where", SETS)
def test_never_outside_the_set(where):
    X, y = stream(120, 12, False, seed=1)
    X[::17] *= 1e8
    model = FWRegressor(SETS[where], seed=0)
    for x, label in zip(X, (1e3 * y).tolist(), strict=True):
        model.learn_one(dict(enumerate(x.tolist())), label)
        assert model.violation <= 1e-9
        assert math.isfinite(model.predict_one({0: 1.0, 5: -2.0}))


def test_it_is_the_default_where_points_have_coordinates():
    assert isinstance(FWClassifier(sets.L2Ball(1.0))._run.optimizer, StochasticPairwiseFW)
    assert isinstance(FWClassifier(sets.KSparseBall(2, 1.0))._run.optimizer, OneSampleFW)


def test_steps_follow_the_entries_of_a_sample():
    model = FWRegressor(sets.L1Ball(1.0), seed=0)
    seen = 0
    for entries, steps in ((2, 16), (30, 10), (100, 4)):
        model.learn_one(dict.fromkeys(range(entries), 1.0), 1.0)
        assert model._run.optimizer.n_gradients - seen == steps
        seen = model._run.optimizer.n_gradients


def test_what_is_noise_stays_out():
    """Two hundred features say nothing: an unbounded fit would use them all."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 200))
    y = X[:, 0] - X[:, 1] + rng.normal(size=2000)
    free, careful = (FWRegressor(sets.L1Ball(100.0), StochasticPairwiseFW(significance=c), seed=0) for c in (0.0, 1.0))
    for model in (free, careful):
        model.learn_arrays(X, y)
    assert len(careful.weights) < len(free.weights) / 3
    assert {0, 1} <= set(careful.weights)
    assert careful.cumulative_loss < free.cumulative_loss


def test_a_flip_is_noticed_and_the_past_forgotten():
    X, y = stream(1600, 8, True)
    y[800:] = ~y[800:]
    model = FWClassifier(sets.L1Ball(50.0), seed=0)
    still = FWClassifier(sets.L1Ball(50.0), StochasticPairwiseFW(detector=drift.DummyDriftDetector(t_0=10**9)), seed=0)
    at = {}
    for name, one in (("watching", model), ("still", still)):
        one.learn_arrays(X[:1000], y[:1000])
        before = one.cumulative_loss
        one.learn_arrays(X[1000:], y[1000:])
        at[name] = one.cumulative_loss - before
    assert 800 <= model._run.s.forgotten < 1000
    assert still._run.s.forgotten == 0
    assert at["watching"] < at["still"] / 3


def test_a_change_is_dated_by_blocks():
    x = np.concatenate([np.full(500, 0.2), np.full(100, 0.6)]) + 0.01 * np.random.default_rng(0).normal(size=600)
    assert _since_change(x) == 96
    assert _since_change(x[:20]) == 20


def test_the_gap_is_that_of_the_model():
    X, y = stream(60, 6, False)
    model = FWRegressor(sets.L1Ball(1.0), seed=0)
    assert math.isnan(model.gap)
    model.learn_arrays(X, y)
    r, _, H, b = model._run.own.sums[:6].T
    w = model._run.weights
    g = (r + H * w - b) / 60
    assert model.gap == pytest.approx(g @ w + np.abs(g).max(), rel=1e-9)
    # What the squared loss says of the last samples is exact, but for their diagonal.
    assert model.exact_gap == pytest.approx(model.gap, abs=0.3)


@pytest.mark.parametrize("name", ["memory", "steps_per_sample"])
def test_counts_are_counts(name):
    with pytest.raises(ValueError, match=f"{name} must be an integer >= 1, got 0"):
        StochasticPairwiseFW(**{name: 0})


@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan])
def test_significance_is_a_number_from_zero(value):
    with pytest.raises(ValueError, match="significance must be a finite number >= 0"):
        StochasticPairwiseFW(significance=value)


@jit
def curvature_at(native, y, z, value, derivative):
    return call(native.curvature, (native.p, native.q, y, z, value, derivative, 1.0))


@pytest.mark.parametrize(
    "loss",
    [
        river_optim.losses.Poisson(),
        river_optim.losses.Huber(0.5),
        losses.NegativeLogReturn(),
        losses.SmoothHinge(),
        losses.SquaredHinge(),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_a_step_by_the_curvature_does_not_raise_the_loss(loss):
    """To the least point of the parabola through value and slope."""
    native = losses.compiled(loss)
    value, derivative = losses.vector_loss(loss)
    for y in (0.0, 1.0):
        for z in (-2.0, -0.5, 0.3, 0.9, 2.5):
            at = np.array([y]), np.array([z])
            f, a = float(value(*at)[0]), float(derivative(*at)[0])
            h = curvature_at(native, y, z, f, a)
            assert math.isfinite(h)
            assert h >= 0.0
            if h > 0.0 and f > 0.1:
                step = -a / h
                assert value(at[0], at[1] + step)[0] <= f + 1e-12


def test_a_checkpoint_holds_the_detector_too():
    X, y = stream(600, 8, True)
    y[300:] = ~y[300:]
    whole = FWClassifier(sets.L1Ball(50.0), seed=0)
    whole.learn_arrays(X, y)
    parts = FWClassifier(sets.L1Ball(50.0), seed=0)
    for k in range(0, 600, 97):
        parts = codec.loads(codec.dumps(parts))
        parts.learn_arrays(X[k : k + 97], y[k : k + 97])
    assert whole._run.state.tobytes() == parts._run.state.tobytes()
    assert whole._run.own.sums[:8].tobytes() == parts._run.own.sums[:8].tobytes()
    assert whole.weights == parts.weights
    assert whole._run.s.forgotten > 0


def test_a_loss_of_nothing_and_one_below_zero_are_watched_quietly():
    X = np.abs(stream(100, 4, False)[0]) + 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for constraint, loss in (
            (sets.L1Ball(1.0), losses.EpsilonInsensitive(5.0)),
            (sets.ProbabilitySimplex(), losses.NegativeLogReturn()),
        ):
            model = FWRegressor(constraint, loss=loss, seed=0)
            model.learn_arrays(X, np.zeros(100))
            assert model._run.s.watched == 3
