"""The offline front door: what `minimize` promises, and Algorithm 1 step by step."""

import numpy as np
import pytest
from river import optim as river_optim
from scipy import sparse
from scipy.optimize import minimize as scipy_minimize
from support.oracles import OwnSquared, SFWOracle, Translated

from fwonline import losses, optim, sets
from fwonline.linear_model import FWRegressor
from fwonline.optim.hindsight import best_fixed_point
from fwonline.optim.schedules import AdaGradStep, Harmonic, ShortStep

N, D = 40, 6
SQUARED, LOG = river_optim.losses.Squared(), river_optim.losses.Log()
OPTIMIZERS = {
    "sfw": lambda: optim.SFW(batch_size=5),
    "momentum": lambda: optim.MomentumFW(batch_size=5),
    "one-sample": optim.OneSampleFW,
    "ofw": lambda: optim.OFW(memory=10_000),
    "ofw-adversarial": optim.AdversarialOFW,
    "adaptive": lambda: optim.AdaptiveOFW(horizon=100),
    "projected": lambda: optim.ProjectedSGD(0.1),
    "projected-batches": lambda: optim.ProjectedSGD(0.1, batch_size=3),
}
SETS = {
    "l1": sets.L1Ball(2.0),
    "l2": sets.L2Ball(1.0),
    "linf": sets.LInfBall(0.4),
    "box": sets.Box(np.linspace(-1.0, 0.2, D), np.linspace(0.0, 1.0, D)),
    "simplex": sets.ProbabilitySimplex(2.0),
    "unit-simplex": sets.UnitSimplex(1.0),
    "own-set": Translated(1.0, 0.1),
}
EACH = pytest.mark.parametrize("name", OPTIMIZERS)


def data(labels=False, n=N, d=D, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) + 0.3 * rng.normal(size=n)
    return X, (y > 0.0) if labels else y


def brute(X, y, loss, constraint, w):
    z = X @ w
    value = np.mean([loss(a, b) for a, b in zip(y.tolist(), z.tolist(), strict=True)])
    slopes = [loss.gradient(a, b) for a, b in zip(y.tolist(), z.tolist(), strict=True)]
    gradient = X.T @ slopes / len(y)
    return value, gradient @ (w - constraint.lmo(gradient).to_dense())


@pytest.mark.parametrize("batch_size", [1, 7, N])
@pytest.mark.parametrize("where", SETS)
def test_algorithm_1_of_negiar_et_al(where, batch_size):
    X, y = data()
    y = y > 0.0
    oracle = SFWOracle(SETS[where], LOG, Harmonic(), D, memory=N, batch_size=batch_size, seed=4)
    result = optim.SFW(batch_size=batch_size).minimize(X, y, loss=LOG, constraint=SETS[where], steps=150, seed=4)
    np.testing.assert_allclose(result.x, oracle.offline(X, y, 150), rtol=0, atol=1e-10)
    assert result.gap_estimate == pytest.approx(oracle.gap, abs=1e-9)
    assert (result.nit, result.n_gradients, result.n_lmo) == (150, 150 * batch_size, 150)


@pytest.mark.parametrize("schedule", [ShortStep(20.0), AdaGradStep(), Harmonic(floor=0.01, restart=60)], ids=repr)
def test_algorithm_1_with_other_steps(schedule):
    X, y = data(seed=1)
    oracle = SFWOracle(SETS["l1"], SQUARED, schedule.clone(), D, memory=N, batch_size=3, seed=2)
    result = optim.SFW(batch_size=3, schedule=schedule).minimize(X, y, constraint=SETS["l1"], steps=150, seed=2)
    np.testing.assert_allclose(result.x, oracle.offline(X, y, 150), rtol=0, atol=1e-10)


def test_algorithm_1_draws_beyond_one_block_of_random_numbers():
    X, y = data()
    oracle = SFWOracle(SETS["l1"], SQUARED, Harmonic(), D, memory=N, batch_size=30, seed=5)
    result = optim.SFW(batch_size=30).minimize(X, y, constraint=SETS["l1"], steps=300, seed=5)
    np.testing.assert_allclose(result.x, oracle.offline(X, y, 300), rtol=0, atol=1e-10)


@EACH
def test_the_result(name):
    X, y = data()
    result = OPTIMIZERS[name]().minimize(X, y, constraint=SETS["l1"], steps=200, seed=0)
    assert set(result) == {
        "x", "fun", "gap", "gap_estimate", "nit", "n_gradients", "n_exact_gradients", "n_lmo", "success", "message",
    }  # fmt: skip
    fun, gap = brute(X, y, SQUARED, SETS["l1"], result.x)
    assert (result.fun, result.gap) == (pytest.approx(fun), pytest.approx(gap))
    assert result.x.shape == (D,)
    assert SETS["l1"].violation(result.x) < 1e-12
    assert result.success
    assert result.message == "took the 200 steps asked for"
    assert result.nit == 200
    assert type(result.fun) is float
    assert type(result.gap) is float


@pytest.mark.parametrize("where", [w for w in SETS if w != "own-set"])
@EACH
def test_same_seed_same_result_dense_sparse_compiled_or_by_parts(name, where):
    X, y = data(seed=2)
    X[np.abs(X) < 0.5] = 0.0
    constraint = SETS[where]
    runs = [
        OPTIMIZERS[name]().minimize(matrix, y, constraint=constraint, steps=120, seed=1).x
        for matrix in (X, X, sparse.csr_array(X), sparse.csc_matrix(X), sparse.coo_array(X), X.tolist())
    ]
    assert all(np.array_equal(runs[0], x) for x in runs)
    stepwise = OPTIMIZERS[name]().minimize(X, y, constraint=constraint, steps=120, seed=1, callback=lambda s: False)
    assert np.array_equal(runs[0], stepwise.x)
    own = OPTIMIZERS[name]().minimize(X, y, loss=OwnSquared(), constraint=constraint, steps=120, seed=1)
    np.testing.assert_allclose(own.x, runs[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["sfw", "momentum", "one-sample"])
def test_other_seeds_other_draws(name):
    X, y = data()
    runs = [OPTIMIZERS[name]().minimize(X, y, constraint=SETS["l1"], steps=50, seed=seed).x for seed in (1, 2)]
    assert not np.array_equal(*runs)


@EACH
def test_labels_are_0_1_booleans_or_signs(name):
    X, y = data(labels=True)
    runs = [
        OPTIMIZERS[name]().minimize(X, labels, loss=LOG, constraint=SETS["l1"], steps=50, seed=1)
        for labels in (y, y.astype(int), np.where(y, 1.0, -1.0), y.tolist())
    ]
    assert all(np.array_equal(runs[0].x, run.x) and runs[0].fun == run.fun for run in runs)


@EACH
def test_callback_watches_and_ends(name):
    X, y = data()
    seen = []

    def callback(state):
        seen.append((state.nit, state.gap, state.n_gradients, state.n_lmo))
        assert SETS["l1"].violation(state.x) < 1e-12
        assert "Run" not in repr(state)
        return state.nit == 7

    result = OPTIMIZERS[name]().minimize(X, y, constraint=SETS["l1"], steps=50, seed=1, callback=callback)
    assert [s[0] for s in seen] == list(range(1, 8))
    assert result.nit == 7
    assert (result.n_gradients, result.n_lmo) == seen[-1][2:]
    assert "callback" in result.message

    def stop(state):
        raise StopIteration

    result = OPTIMIZERS[name]().minimize(X, y, constraint=SETS["l1"], steps=50, seed=1, callback=stop)
    assert result.nit == 1
    assert "callback" in result.message


def test_an_error_in_the_callback_is_the_callers():
    X, y = data()

    def callback(state):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        optim.SFW().minimize(X, y, constraint=SETS["l1"], steps=5, callback=callback)


@pytest.mark.parametrize("where", SETS)
@pytest.mark.parametrize("name", ["sfw", "momentum", "one-sample"])
def test_a_start_of_ones_own(name, where):
    """A step of 1/2 to begin with leaves half of it."""
    X, y = data()
    start = SETS[where].lmo(np.arange(1.0, D + 1.0)).to_dense()
    make = {"sfw": optim.SFW, "momentum": optim.MomentumFW, "one-sample": optim.OneSampleFW}[name]
    first = make(schedule=Harmonic(offset=4.0)).minimize(
        X, y, constraint=SETS[where], steps=1, seed=0, x0=start, callback=lambda state: True
    )
    assert SETS[where].contains(2.0 * first.x - start)


def test_the_recursive_estimate_does_not_take_a_given_start_for_the_origin():
    """After a whole step off x0 nothing is left to correct: the second gradient stands alone."""
    X, y = data(n=2)
    start = np.array([2.0, 0, 0, 0, 0, 0])
    played = []
    run = optim.OneSampleFW(schedule=Harmonic())
    run.minimize(X, y, constraint=SETS["l1"], steps=2, seed=0, x0=start, callback=lambda state: played.append(state.x))
    order = np.random.default_rng(0).permutation(2)
    x, label = X[order[1]], y[order[1]]
    atom = SETS["l1"].lmo(2.0 * (x @ played[0] - label) * x).to_dense()
    np.testing.assert_allclose(played[1], played[0] + 2.0 / 3.0 * (atom - played[0]), atol=1e-12)


@pytest.mark.parametrize("name", ["sfw", "one-sample", "ofw"])
def test_tolerance(name):
    X, y = data()
    result = OPTIMIZERS[name]().minimize(X, y, constraint=SETS["l2"], steps=200_000, seed=0, tol=0.05)
    assert result.success
    assert result.gap <= 0.05
    assert result.nit < 200_000
    assert "tol" in result.message
    short = OPTIMIZERS[name]().minimize(X, y, constraint=SETS["l2"], steps=3, seed=0, tol=1e-9)
    assert not short.success
    assert "above tol" in short.message
    assert short.nit == 3


CONVERGE = {
    "sfw": (optim.SFW(batch_size=20), 60_000, 2e-3),
    "sfw-short": (optim.SFW(batch_size=N, schedule=ShortStep(6.0)), 20_000, 2e-3),
    "momentum": (optim.MomentumFW(batch_size=20), 60_000, 5e-3),
    "one-sample": (optim.OneSampleFW(a=1.0), 200_000, 2e-2),
    "ofw": (optim.OFW(), 20_000, 3e-2),
    "projected": (optim.ProjectedSGD(0.05), 50_000, 2e-2),
}


@pytest.mark.parametrize("where", [w for w in SETS if w != "own-set"])
@pytest.mark.parametrize("name", CONVERGE)
def test_reaches_the_optimum(name, where):
    X, y = data(seed=3)
    best = best_fixed_point(X, y, loss=SQUARED, constraint=SETS[where], tol=1e-8)
    optimizer, steps, tol = CONVERGE[name]
    result = optimizer.clone().minimize(X, y, constraint=SETS[where], steps=steps, seed=0)
    assert best.lower - 1e-9 <= result.fun <= best.upper * (1.0 + tol) + tol
    assert result.fun - result.gap <= best.upper + 1e-9


def test_reaches_scipys_optimum_of_a_logistic_loss():
    X, y = data(labels=True, seed=4)
    s = np.where(y, 1.0, -1.0)
    reference = scipy_minimize(
        lambda w: np.logaddexp(0.0, -s * (X @ w)).mean(), np.zeros(D), bounds=[(-0.4, 0.4)] * D, tol=1e-12
    )
    result = optim.SFW(batch_size=10).minimize(X, y, loss=LOG, constraint=SETS["linf"], steps=50_000, seed=0)
    assert result.fun == pytest.approx(reference.fun, rel=1e-4)
    np.testing.assert_allclose(result.x, reference.x, atol=5e-3)


@pytest.mark.parametrize("where", SETS)
def test_the_gap_vanishes_at_a_fixed_gradient(where):
    """On a linear objective one exact step is the answer; the bracket fun - gap holds at any time."""
    X, y = data(seed=5)
    result = optim.SFW(batch_size=N, schedule=Harmonic()).minimize(
        X, y, loss=LinearLoss(), constraint=SETS[where], steps=1, seed=0
    )
    assert result.gap == pytest.approx(0.0, abs=1e-12)


class LinearLoss:
    def __call__(self, y_true, y_pred):
        return y_true * y_pred

    def gradient(self, y_true, y_pred):
        return y_true


@pytest.mark.parametrize("where", [w for w in SETS if w != "own-set"])
def test_projected_mini_batches_are_the_literal_ones(where):
    """In passes over the data, each in an order of its own; a batch may reach into the next pass."""
    X, y = data()
    rng, order, w = np.random.default_rng(6), [], SETS[where].initial_point(D)
    if where in ("simplex", "own-set"):
        w = np.zeros(D)
    result = optim.ProjectedSGD(0.2, batch_size=7).minimize(X, y, constraint=SETS[where], steps=30, seed=6)
    while len(order) < 7 * 30:
        order += rng.permutation(N).tolist()
    for t in range(30):
        batch = order[7 * t : 7 * t + 7]
        g = np.mean([2.0 * (X[i] @ w - y[i]) * X[i] for i in batch], axis=0)
        w = SETS[where].project(w - 0.2 / np.sqrt(t + 1.0) * g)
    np.testing.assert_allclose(result.x, w, rtol=0, atol=1e-10)
    assert (result.nit, result.n_gradients) == (30, 210)


def test_float32_integers_and_strided_matrices():
    X, y = data()
    expected = optim.SFW().minimize(X.round(), y.round(), constraint=SETS["l1"], steps=30, seed=0).x
    wide = np.zeros((N, 2 * D))
    wide[:, ::2] = X.round()
    for matrix in (X.round().astype(np.float32), X.round().astype(int), wide[:, ::2], np.asfortranarray(X.round())):
        x = optim.SFW().minimize(matrix, y.round().astype(int), constraint=SETS["l1"], steps=30, seed=0).x
        assert np.array_equal(x, expected)


@pytest.mark.slow
def test_the_data_is_left_alone_and_may_be_read_only():
    X, y = data()
    matrix = sparse.csr_array(X)
    for array in (matrix.data, matrix.indices, matrix.indptr, y):
        array.flags.writeable = False
    result = optim.SFW().minimize(matrix, y, constraint=SETS["l1"], steps=20, seed=0)
    assert np.array_equal(result.x, optim.SFW().minimize(X, y, constraint=SETS["l1"], steps=20, seed=0).x)


def test_all_zero_data_stays_where_it_starts():
    for name, make in OPTIMIZERS.items():
        result = make().minimize(np.zeros((5, 3)), np.ones(5), constraint=sets.L1Ball(1.0), steps=10, seed=0)
        assert not result.x.any(), name
        assert 0.0 <= result.gap < 1e-13  # what the sum of the losses may have lost


@EACH
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.array([[1.0, 2.0], [3.0, np.nan]])}, r"X\[1, 1\] is nan"),
        ({"X": sparse.csr_array([[0.0, 2.0], [np.inf, 0.0]])}, r"X\[1, 0\] is inf"),
        ({"X": np.array([[1.0, 2e200], [3.0, 1.0]])}, r"X\[0, 1\] is 2e\+200"),
        ({"y": [1.0, np.inf]}, r"y\[1\] is inf"),
        ({"y": [1.0, 2.0, 3.0]}, r"one target for each of the 2 rows"),
        ({"X": np.ones(2)}, r"matrix of samples x features"),
        ({"X": np.zeros((0, 2)), "y": []}, r"no rows"),
        ({"steps": 0}, r"steps must be an integer >= 1"),
        ({"steps": 1.5}, r"steps must be an integer >= 1"),
        ({"x0": [9.0, 9.0]}, r"x0 must be a point of L1Ball"),
        ({"x0": [0.0]}, r"x0 must be a point of L1Ball"),
        ({"loss": LOG, "y": [0.0, 2.0]}, r"labels of two classes"),
    ],
)
def test_what_cannot_be_minimised_is_named(name, change, message):
    asked = {"X": np.eye(2), "y": [1.0, 2.0], "constraint": sets.L1Ball(1.0), "steps": 5} | change
    optimizer = optim.SFW() if name == "sfw" else OPTIMIZERS[name]()
    with pytest.raises(ValueError, match=message):
        optimizer.minimize(asked.pop("X"), asked.pop("y"), **asked)


@pytest.mark.parametrize("name", ["momentum", "one-sample", "ofw", "projected"])
def test_a_row_that_cannot_be_summed_is_named_not_skipped(name):
    X, y = np.ones((30, 1)), np.zeros(30)
    X[17] = 1e99
    with pytest.raises(ValueError, match="row 17 of X: the derivative of Poisson"):
        OPTIMIZERS[name]().minimize(
            X, y, loss=river_optim.losses.Poisson(), constraint=sets.ProbabilitySimplex(), steps=100, seed=0
        )


def test_other_mistakes_are_named():
    X, y = data()
    with pytest.raises(TypeError, match="loss must be an object with"):
        optim.SFW().minimize(X, y, loss=abs, constraint=SETS["l1"])
    with pytest.raises(ValueError, match="batch_size must be at most the number of samples, 40"):
        optim.SFW(batch_size=41).minimize(X, y, constraint=SETS["l1"])
    with pytest.raises(ValueError, match="no projection"):
        optim.ProjectedSGD().minimize(X, y, constraint=Translated())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.SFW(memory=0), "memory must be an integer >= 1, got 0"),
        (lambda: optim.SFW(memory=10.0), "memory must be an integer"),
        (lambda: optim.SFW(memory=True), "memory must be an integer"),
        (lambda: optim.SFW(batch_size=0), "batch_size must be an integer"),
        (lambda: optim.SFW(steps_per_sample=-1), "steps_per_sample must be an integer"),
        (lambda: optim.SFW(memory=3, batch_size=4), "batch_size must be at most memory = 3, got 4"),
        (lambda: optim.MomentumFW(0), "batch_size must be an integer"),
        (lambda: optim.OFW(a=0.0), r"a must be in \(0, 1\]"),
        (lambda: optim.OFW(a=1.5), r"a must be in \(0, 1\]"),
        (lambda: optim.OFW(memory=0), "memory must be"),
        (lambda: optim.OFW(max_features=0), "max_features must be"),
        (lambda: optim.AdversarialOFW(horizon=0), "horizon must be an integer >= 1, got 0"),
        (lambda: optim.AdversarialOFW(gradient_bound=0.0), "gradient_bound must be a finite number > 0"),
        (lambda: optim.AdaptiveOFW(horizon=0), "horizon must be an integer >= 1"),
        (lambda: optim.AdaptiveOFW(block=0), "block must be an integer >= 1"),
        (lambda: optim.AdaptiveOFW(tolerance=0.0), r"tolerance must be in \[1e-8, 1\], or None, got 0.0"),
        (lambda: optim.AdaptiveOFW(gradient_bound=np.inf), "gradient_bound must be a finite number > 0, got inf"),
        (lambda: optim.ProjectedSGD(batch_size=0), "batch_size must be an integer >= 1"),
        (lambda: optim.ProjectedSGD(0.0), "step must be a positive finite number"),
        (lambda: optim.ProjectedSGD(np.inf), "step must be a positive finite number"),
        (lambda: optim.ProjectedSGD(1.0, 2.0), r"a must be in \[0, 1\]"),
        (lambda: Harmonic(offset=1.0), "offset must be"),
        (lambda: Harmonic(floor=1.5), "floor must be"),
        (lambda: Harmonic(restart=0), "restart must be"),
        (lambda: optim.schedules.Power(1.5), "a must be"),
        (lambda: optim.schedules.Power(factor=0.0), "factor must be a finite number > 0"),
        (lambda: ShortStep(0.0), "lipschitz must be"),
        (lambda: AdaGradStep(-1.0), "scale must be"),
    ],
)
def test_hyperparameters_are_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_optimizers_show_and_clone_their_parameters():
    for optimizer, shown in (
        (optim.SFW(memory=5, steps_per_sample=2), "SFW(memory=5, batch_size=1, steps_per_sample=2)"),
        (optim.SFW(schedule=Harmonic(floor=0.1)), "schedule=Harmonic(offset=2.0, floor=0.1, restart=None))"),
        (optim.MomentumFW(3), "MomentumFW(batch_size=3)"),
        (optim.OneSampleFW(0.5), "OneSampleFW(a=0.5)"),
        (optim.OFW(a=0.25), "OFW(a=0.25, memory=1000, max_features=1000)"),
        (optim.AdaptiveOFW(block=7), "AdaptiveOFW(horizon=10000, block=7)"),
        (optim.ProjectedSGD(0.5), "ProjectedSGD(step=0.5, a=0.5, batch_size=1)"),
    ):
        assert repr(optimizer).endswith(shown)
        assert repr(optimizer.clone()) == repr(optimizer)
        assert not optimizer.is_started


def test_losses_by_parts_are_called_with_their_labels():
    seen = set()

    class Loss(losses.SquaredHinge):
        def gradient(self, y_true, y_pred):
            seen.add(y_true if isinstance(y_true, bool) else "no label")
            return super().gradient(y_true, y_pred)

    X, y = data(labels=True)
    assert losses.compiled(Loss()) is None
    optim.SFW().minimize(X, np.where(y, 1, -1), loss=Loss(), constraint=SETS["l1"], steps=50, seed=0)
    assert seen >= {True, False}


def test_minimising_with_a_models_optimizer_does_not_touch_the_model():
    X, y = data()
    model = FWRegressor(SETS["l1"], optim.SFW(memory=10), seed=0, intercept=False)
    model.learn_arrays(X, y)
    weights, n = model.weights, model.n_samples
    model.optimizer.minimize(X, -y, constraint=SETS["l2"], steps=10, seed=0)
    assert model.weights == weights
    assert model.n_samples == n
