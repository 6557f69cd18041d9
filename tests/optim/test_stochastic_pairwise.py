"""Pairwise steps on a quadratic memory, against the model written out sample by sample."""

import copy
import math
import warnings

import numpy as np
import pytest
from river import datasets, preprocessing
from river import optim as river_optim
from scipy import sparse
from support.oracles import OwnSquared
from support.pairwise_oracle import MixtureOracle, PairwiseOracle

from fwonline import losses, sets
from fwonline._kernels.entry import call
from fwonline._kernels.layout import jit
from fwonline.checkpoint import codec
from fwonline.linear_model import FWClassifier, FWRegressor
from fwonline.optim import OneSampleFW, StochasticPairwiseFW
from fwonline.optim.hindsight import best_fixed_point

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
@pytest.mark.parametrize("window", [None, 5.0])
@pytest.mark.parametrize(
    ("where", "loss"), [(s, f) for s in SETS for f in LOSSES if f == "squared" or not s.startswith("l2")]
)
def test_the_model_is_the_sum_over_all_samples(where, loss, window):
    X, y = stream(15, 6, loss == "log", seed=5 if window is None else 11)
    kind = FWClassifier if loss == "log" else FWRegressor
    alone = StochasticPairwiseFW(memory=8, steps_per_sample=4, window=window, forgetting=False)
    model = kind(SETS[where], alone, LOSSES[loss], seed=3, intercept=False)
    oracle = PairwiseOracle(SETS[where], LOSSES[loss], 8, 4, 0.3, 3, 6, window or math.inf)
    for x, label in zip(X, y.tolist(), strict=True):
        model.learn_one(dict(enumerate(x.tolist())), label)
        oracle.learn(x, label)
        np.testing.assert_allclose(model._run.weights, oracle.w, atol=1e-9)


@pytest.mark.parametrize("window", [None, 5.0])
@pytest.mark.parametrize("where", SETS)
@pytest.mark.parametrize("loss", ["squared", "log"])
def test_with_an_intercept_features_count_without_their_means(where, loss, window):
    X, y = stream(15, 6, loss == "log", seed=5)
    X[:, :3] += np.array([3.0, 0.5, -1.0]) * (X[:, :3] != 0.0)
    kind = FWClassifier if loss == "log" else FWRegressor
    alone = StochasticPairwiseFW(memory=8, steps_per_sample=4, window=window, forgetting=False)
    model = kind(SETS[where], alone, LOSSES[loss], intercept=True, seed=3)
    oracle = PairwiseOracle(SETS[where], LOSSES[loss], 8, 4, 0.3, 3, 6, window or math.inf, intercept=True)
    for x, label in zip(X, y.tolist(), strict=True):
        model.learn_one(dict(enumerate(x.tolist())), label)
        oracle.learn(x, label)
        np.testing.assert_allclose(model._run.weights, oracle.w, atol=1e-7)
        assert model.intercept_ == pytest.approx(oracle.b, abs=1e-7)


def test_a_mean_costs_nothing_where_there_is_an_intercept():
    """Features of mean 5 are learned from nearly as those of mean 0 are."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 10))
    y = X[:, 0] - 1.5 * X[:, 1] + 2.0 * X[:, 2] + 0.5 * rng.normal(size=1500)
    lost = {}
    for mean in (0.0, 5.0, 50.0):
        model = FWRegressor(sets.L1Ball(100.0), intercept=True, seed=0)
        model.learn_arrays(X + mean, y)
        lost[mean] = model.cumulative_loss / 1500
    assert lost[5.0] < 1.4 * lost[0.0]
    assert lost[50.0] < 2.0 * lost[5.0]


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
    model = FWRegressor(SETS[where], seed=0, intercept=False)
    for x, label in zip(X, (1e3 * y).tolist(), strict=True):
        model.learn_one(dict(enumerate(x.tolist())), label)
        assert model.violation <= 1e-9
        assert math.isfinite(model.predict_one({0: 1.0, 5: -2.0}))


def test_it_is_the_default_where_points_have_coordinates():
    assert isinstance(FWClassifier(sets.L2Ball(1.0), intercept=False)._run.optimizer, StochasticPairwiseFW)
    assert isinstance(FWClassifier(sets.KSparseBall(2, 1.0), intercept=False)._run.optimizer, OneSampleFW)


def test_steps_follow_the_entries_of_a_sample():
    model = FWRegressor(sets.L1Ball(1.0), seed=0, intercept=False)
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
    free, careful = (
        FWRegressor(sets.L1Ball(100.0), StochasticPairwiseFW(significance=c), seed=0, intercept=False)
        for c in (0.0, 1.0)
    )
    for model in (free, careful):
        model.learn_arrays(X, y)
    assert len(careful.weights) < len(free.weights) / 3
    assert {0, 1} <= set(careful.weights)
    assert careful.cumulative_loss < free.cumulative_loss


def test_words_seen_once_stay_out_of_a_large_vocabulary_and_noise_costs_little():
    """Labels that no word tells: beside the log loss of the mean, those of the default are within an eighth."""
    rng = np.random.default_rng(0)
    n, d, words = 1000, 70_000, 50
    frequency = 1.0 / (np.arange(d) + 10.0)
    columns = rng.choice(d, n * words, p=frequency / frequency.sum())
    X = sparse.csr_array((np.full(n * words, words**-0.5), (np.repeat(np.arange(n), words), columns)), shape=(n, d))
    X.sum_duplicates()
    y = rng.random(n) < 0.5
    model = FWClassifier(sets.L1Ball(1e5), seed=0)
    model.learn_arrays(X, y)
    assert model.cumulative_loss / n < 1.125 * math.log(2.0)
    seen = np.bincount(X.indices, minlength=d)
    assert min(seen[j] for j in model.weights) > 1


def test_where_samples_fade_noise_is_no_bar_once_every_weight_counts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 20))
    bars = {}
    for name, w in {"dense": np.where(np.arange(20) % 2, 3.0, -3.0), "sparse": 3.0 * (np.arange(20) == 7)}.items():
        model = FWRegressor(sets.L1Ball(100.0), seed=0, intercept=False)
        model.learn_arrays(X, X @ w + rng.normal(size=400))
        full, *bars[name] = (run.s.penalty for run in model._run._models)
        assert full == pytest.approx(0.3 * math.sqrt(math.log(21.0)))
    assert max(bars["dense"]) < 0.1 * full
    assert min(bars["sparse"]) > 0.8 * full


def changing(seed, n=400, d=4):
    """Samples whose best point turns round in the middle."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    w = np.arange(d) - 1.0
    return X, np.where(np.arange(n) < n // 2, 1.0, -1.0) * (X @ w)


@pytest.mark.parametrize("where", ["l1", "linf", "unit-simplex"])
@pytest.mark.parametrize("loss", ["squared", "log"])
def test_the_mixture_is_what_its_definition_says(where, loss):
    X, y = changing(3, n=300 if where == "l1" and loss == "squared" else 130)
    y = y > 0.0 if loss == "log" else y
    kind = FWClassifier if loss == "log" else FWRegressor
    constraint = {"unit-simplex": sets.UnitSimplex(20.0)}.get(where, SETS[where])
    model = kind(constraint, StochasticPairwiseFW(memory=50, steps_per_sample=2), LOSSES[loss], seed=3, intercept=False)
    oracle = MixtureOracle(constraint, LOSSES[loss], 50, 2, 0.3, 3, 4)
    mixed = False
    for x, label in zip(X, y.tolist(), strict=True):
        oracle.learn(x, label)
        model.learn_one(dict(enumerate(x.tolist())), label)
        np.testing.assert_allclose(model._run.mix.omega, oracle.omega, atol=1e-4)
        np.testing.assert_allclose(model._run.weights, oracle.w, atol=1e-4)
        mixed = mixed or 0.0 < oracle.omega.max() < 0.9
    assert mixed
    assert oracle.replaced or len(y) < 300


@pytest.mark.parametrize("where", SETS)
def test_what_is_predicted_is_what_was_learned_from(where):
    """A mixture's weights, predictions and gaps are all those of one point, which lies in the set."""
    X, y = changing(1)
    model = FWRegressor(SETS[where], intercept=True, seed=0)
    mixed = False
    for x, label in zip(X, y.tolist(), strict=True):
        sample = dict(enumerate(x.tolist()))
        before = model.predict_one(sample)
        many = float(model.predict_arrays(x[None])[0])
        assert model.play_one(sample, label) == before == many
        assert SETS[where].contains(model._run.weights, tol=1e-9)
        mixed = mixed or bool(model._run.s.mixes)
        by_hand = sum(model.weights.get(j, 0.0) * v for j, v in sample.items()) + model.intercept_
        assert model.predict_one(sample) == pytest.approx(by_hand, abs=1e-9)
    assert mixed
    w, b = np.array([model.weights.get(j, 0.0) for j in range(4)]), model.intercept_
    gradient = 2.0 * (X @ w + b - y) @ X / len(y)  # the memory holds them all
    assert model.exact_gap == pytest.approx(gradient @ w - SETS[where].lmo(gradient).dot(gradient), rel=1e-6, abs=1e-9)


def test_a_sudden_change_is_learned_at_once_and_a_steady_stream_keeps_its_memory():
    X, y = changing(0, n=4000, d=8)
    y += 0.5 * np.random.default_rng(1).normal(size=y.size)
    after = {}
    for forgetting in (False, True):
        model = FWRegressor(sets.L1Ball(50.0), StochasticPairwiseFW(forgetting=forgetting), seed=0, intercept=False)
        model.learn_arrays(X[:2000], y[:2000])
        steady = model.cumulative_loss / 2000
        if forgetting:
            assert model._run.mix.omega[0] > 0.9
            assert model._run.s.forgotten == 0
        model.learn_arrays(X[2000:], y[2000:])
        after[forgetting] = model.cumulative_loss / 2000 - steady
        assert steady < 0.6
    assert after[True] < 0.05 * after[False]
    assert after[True] < 3.0
    # The model that remembers has begun anew with what the others had learned since.
    assert 2000 - 3 * 64 < model._run.s.forgotten < 2200


def test_a_copy_and_a_file_learn_on_as_the_model_does():
    X, y = changing(5)
    whole = FWRegressor(sets.L1Ball(50.0), seed=0, intercept=False)
    parts = FWRegressor(sets.L1Ball(50.0), seed=0, intercept=False)
    whole.learn_arrays(X, y)
    for k in range(0, 400, 97):
        parts = codec.loads(codec.dumps(parts)) if k % 2 else copy.deepcopy(parts)
        parts.learn_arrays(X[k : k + 97], y[k : k + 97])
    for mine, theirs in zip(whole._run._models, parts._run._models, strict=True):
        assert mine.state.tobytes() == theirs.state.tobytes()
        assert mine.own.sums[:4].tobytes() == theirs.own.sums[:4].tobytes()
    assert whole._run.mix.omega.tobytes() == parts._run.mix.omega.tobytes()
    assert whole.weights == parts.weights
    from_copy = copy.deepcopy(FWRegressor(sets.L1Ball(50.0), seed=0, intercept=False))
    from_copy.learn_arrays(X, y)
    assert codec.dumps(from_copy) == codec.dumps(whole)


def test_weights_of_samples_are_brought_down_without_rounding():
    """After 1,500 samples a window of 16 has passed 2**128: a model that never would is the same."""
    X, y = stream(3000, 3, False)
    model = FWRegressor(
        sets.L1Ball(5.0), StochasticPairwiseFW(memory=48, window=16.0, forgetting=False), seed=0, intercept=False
    )
    model.learn_arrays(X, y)
    s = model._run.s
    assert 1.0 <= s.unit <= 2.0**128
    assert s.total / s.unit == pytest.approx(16.0, rel=1e-9)
    again = FWRegressor(
        sets.L1Ball(5.0), StochasticPairwiseFW(memory=48, window=16.0, forgetting=False), seed=0, intercept=False
    )
    again.learn_arrays(X[-400:], y[-400:])
    assert model.predict_one({0: 1.0}) == pytest.approx(again.predict_one({0: 1.0}), abs=0.1)


def test_the_gap_is_that_of_the_model():
    X, y = stream(60, 6, False)
    model = FWRegressor(sets.L1Ball(1.0), StochasticPairwiseFW(forgetting=False), seed=0, intercept=False)
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


def test_a_loss_of_nothing_and_one_below_zero_are_watched_quietly():
    X = np.abs(stream(100, 4, False)[0]) + 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for constraint, loss in (
            (sets.L1Ball(1.0), losses.EpsilonInsensitive(5.0)),
            (sets.ProbabilitySimplex(), losses.NegativeLogReturn()),
        ):
            model = FWRegressor(constraint, loss=loss, seed=0, intercept=False)
            model.learn_arrays(X, np.zeros(100))
            assert math.isfinite(model.predict_one({0: 1.0}))


@pytest.mark.parametrize("value", [1.0, 0, -3.0, math.inf, math.nan])
def test_a_window_is_longer_than_a_sample(value):
    with pytest.raises(ValueError, match="window must be a number of samples > 1, or None"):
        StochasticPairwiseFW(window=value)


def test_a_trend_is_no_mean_to_the_models_that_forget():
    """For 16 samples a date stands still: less its mean it is worth anything, which an intercept would extrapolate."""
    scaler, lost = preprocessing.StandardScaler(), {"all": 0.0, "window": 0.0}
    models = {
        "all": FWRegressor(sets.L1Ball(1000.0), seed=0, intercept=True),
        "window": FWRegressor(
            sets.L1Ball(1000.0), StochasticPairwiseFW(window=64, forgetting=False), seed=0, intercept=True
        ),
    }
    for x, y in datasets.WaterFlow():
        row = {"day": x["Time"].toordinal(), "month": x["Time"].month, "hour": x["Time"].hour}
        scaler.learn_one(row)
        for name, model in models.items():
            lost[name] += (model.play_one(scaler.transform_one(row), y) - y) ** 2
    assert lost["all"] < 1.3 * lost["window"]
