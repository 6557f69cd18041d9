"""The comparator of a regret: true bounds always, and narrow ones against independent solvers."""

import os
import time

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from river import optim

from fwonline import datasets, losses, sets
from fwonline.optim.hindsight import best_fixed_point, best_fixed_point_quadratic
from fwonline.optim.problem.smoothed import Quadratic

SETS = [
    sets.L1Ball(1.5),
    sets.L2Ball(1.5),
    sets.LInfBall(0.4),
    sets.Box(-0.3, 0.7),
    sets.ProbabilitySimplex(1.5),
    sets.UnitSimplex(1.5),
]
SMOOTH = [optim.losses.Squared(), optim.losses.Huber(0.3), optim.losses.Poisson(), losses.NegativeLogReturn(0.2)]
SMOOTH_BINARY = [optim.losses.Log(2.0, 0.5), losses.SquaredHinge(), losses.SmoothHinge(0.5)]
KINKED = [optim.losses.Absolute(), optim.losses.Quantile(0.8), losses.EpsilonInsensitive(0.2)]
KINKED_BINARY = [optim.losses.Hinge(), optim.losses.EpsilonInsensitiveHinge(0.2)]


class Blind:
    """A set whose projection is out of reach: what a set with an oracle alone looks like."""

    def __new__(cls, constraint):
        blind = type("Blind" + type(constraint).__name__, (type(constraint),), {"can_project": False})
        copy = blind.__new__(blind)
        copy.__dict__.update(constraint.__dict__)
        return copy


def problem(loss, n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    z = X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n)
    if losses.is_binary(loss) or isinstance(loss, optim.losses.EpsilonInsensitiveHinge):
        return X, (z > 0).astype(float)
    if isinstance(loss, optim.losses.Poisson):
        return X, rng.poisson(np.exp(np.clip(z, -3, 2))).astype(float)
    return (np.exp(0.3 * X), np.zeros(n)) if isinstance(loss, losses.NegativeLogReturn) else (X, z)


def feasible(constraint, d, rng, n=40):
    inner = [constraint.project(3 * rng.standard_normal(d)) for _ in range(n)]
    vertices = [constraint.lmo(rng.standard_normal(d)).to_dense() for _ in range(n)]
    return np.array(inner + vertices)


def constraints_of(constraint, d):
    """The set in words of SLSQP, over w = p - q with p, q >= 0 where that makes it smooth."""
    r = getattr(constraint, "radius", None)
    free, positive = [(None, None)] * d, [(0, None)] * d
    split = np.hstack((np.eye(d), -np.eye(d)))
    if isinstance(constraint, sets.L1Ball):
        return split, positive * 2, [{"type": "ineq", "fun": lambda v: r - v.sum()}]
    if isinstance(constraint, sets.L2Ball):
        return np.eye(d), free, [{"type": "ineq", "fun": lambda v: r * r - v @ v}]
    if isinstance(constraint, sets.LInfBall):
        return np.eye(d), [(-r, r)] * d, []
    if isinstance(constraint, sets.Box):
        return np.eye(d), [(constraint.lower, constraint.upper)] * d, []
    kind = "eq" if isinstance(constraint, sets.ProbabilitySimplex) else "ineq"
    return np.eye(d), positive, [{"type": kind, "fun": lambda v: r - v.sum()}]


def slsqp(X, y, loss, constraint):
    value, derivative = losses.vector_loss(loss)
    A, bounds, conditions = constraints_of(constraint, X.shape[1])
    start = np.linalg.lstsq(A, constraint.initial_point(X.shape[1]), rcond=None)[0]
    result = scipy.optimize.minimize(
        lambda v: value(y, X @ A @ v).mean(),
        start,
        jac=lambda v: A.T @ (X.T @ derivative(y, X @ A @ v)) / y.size,
        bounds=bounds,
        constraints=conditions,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return result.fun


def linear_program(X, y, loss, constraint):
    """Minimise mean(t) with t above each piece of the loss."""
    n, d = X.shape
    A, bounds, _ = constraints_of(constraint, d)
    sign = 2 * y - 1
    alpha = getattr(loss, "alpha", None) or 0
    pieces = {  # pairs (slope, constant): t >= slope * z + constant
        optim.losses.Absolute: [(1, -y), (-1, y)],
        optim.losses.Quantile: [(1 - alpha, (alpha - 1) * y), (-alpha, alpha * y)],
        losses.EpsilonInsensitive: [(1, -y - 0.2), (-1, y - 0.2), (0, 0 * y)],
        optim.losses.EpsilonInsensitiveHinge: [(1, -sign - 0.2), (-1, sign - 0.2), (0, 0 * y)],
        optim.losses.Hinge: [(-sign, 1 + 0 * y), (0, 0 * y)],
    }[type(loss)]
    m = A.shape[1]
    rows = [np.hstack((np.reshape(slope * np.ones(n), (-1, 1)) * (X @ A), -np.eye(n))) for slope, _ in pieces]
    sums = np.hstack((np.ones((1, m)), np.zeros((1, n))))
    bounded_sum = isinstance(constraint, sets.L1Ball | sets.UnitSimplex)
    equal_sum = isinstance(constraint, sets.ProbabilitySimplex)
    result = scipy.optimize.linprog(
        np.concatenate((np.zeros(m), np.full(n, 1 / n))),
        A_ub=np.vstack(rows + [sums] * bounded_sum),
        b_ub=np.concatenate([-constant for _, constant in pieces] + [[getattr(constraint, "radius", 0)]] * bounded_sum),
        A_eq=sums if equal_sum else None,
        b_eq=[constraint.radius] if equal_sum else None,
        bounds=bounds + [(None, None)] * n,
    )
    assert result.success
    return result.fun


@pytest.mark.parametrize("constraint", SETS, ids=str)
@pytest.mark.parametrize("loss", SMOOTH + SMOOTH_BINARY, ids=lambda loss: type(loss).__name__)
def test_smooth_losses_agree_with_slsqp(loss, constraint):
    X, y = problem(loss)
    best = best_fixed_point(X, y, loss=loss, constraint=constraint, tol=1e-9)
    reference = slsqp(X, y, loss, constraint)
    assert best.gap <= 1e-8 * max(1, abs(best.upper))
    assert best.upper == pytest.approx(reference, rel=1e-7, abs=1e-8)
    assert best.lower <= reference + 1e-9


@pytest.mark.parametrize("constraint", [c for c in SETS if not isinstance(c, sets.L2Ball)], ids=str)
@pytest.mark.parametrize("loss", KINKED + KINKED_BINARY, ids=lambda loss: type(loss).__name__)
def test_losses_with_kinks_agree_with_a_linear_program(loss, constraint):
    X, y = problem(loss)
    best = best_fixed_point(X, y, loss=loss, constraint=constraint, tol=1e-5)
    reference = linear_program(X, y, loss, constraint)
    assert best.lower <= reference * (1 + 1e-9)
    assert best.upper >= reference * (1 - 1e-9)
    assert best.gap <= 2e-4 * best.upper


@pytest.mark.parametrize("constraint", SETS, ids=str)
@pytest.mark.parametrize("loss", SMOOTH + SMOOTH_BINARY + KINKED + KINKED_BINARY, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("max_iter", [1, 7, 200])
def test_the_bracket_is_true_wherever_the_search_ends(loss, constraint, max_iter):
    X, y = problem(loss, seed=1)
    value, _ = losses.vector_loss(loss)
    best = best_fixed_point(X, y, loss=loss, constraint=constraint, max_iter=max_iter)
    assert constraint.contains(best.x)
    assert best.upper == pytest.approx(value(y, X @ best.x).mean(), rel=1e-12, abs=1e-12)
    assert best.gap == best.upper - best.lower >= 0
    points = feasible(constraint, 5, np.random.default_rng(2))
    assert min(value(y, X @ w).mean() for w in points) >= best.lower
    full = best_fixed_point(X, y, loss=loss, constraint=constraint)
    assert best.lower <= full.upper


@pytest.mark.parametrize("constraint", SETS, ids=str)
@pytest.mark.parametrize("loss", [optim.losses.Squared(), optim.losses.Log(), optim.losses.Absolute()], ids=str)
def test_sets_without_a_projection_get_the_same_answer(loss, constraint):
    X, y = problem(loss)
    best = best_fixed_point(X, y, loss=loss, constraint=constraint)
    blind = best_fixed_point(X, y, loss=loss, constraint=Blind(constraint), tol=1e-4)
    assert max(best.lower, blind.lower) <= min(best.upper, blind.upper)
    assert blind.gap <= (0.05 if isinstance(loss, optim.losses.Absolute) else 1.1e-4) * blind.upper
    assert constraint.contains(blind.x)


@pytest.mark.parametrize("loss", [optim.losses.Squared(), optim.losses.Log(), optim.losses.Hinge()], ids=str)
def test_sparse_dense_and_weighted_samples_agree(loss):
    X, y = problem(loss, n=40, d=6, seed=3)
    X[np.random.default_rng(0).random(X.shape) < 0.6] = 0
    constraint, counts = sets.L1Ball(2.0), np.random.default_rng(1).integers(0, 4, 40)
    dense = best_fixed_point(X, y, loss=loss, constraint=constraint, sample_weight=counts)
    csr = best_fixed_point(scipy.sparse.csr_matrix(X), y, loss=loss, constraint=constraint, sample_weight=counts)
    repeated = best_fixed_point(np.repeat(X, counts, axis=0), np.repeat(y, counts), loss=loss, constraint=constraint)
    assert max(dense.lower, csr.lower, repeated.lower) <= min(dense.upper, csr.upper, repeated.upper) * (1 + 1e-12)


def test_a_quadratic_is_the_mean_squared_error_of_its_samples():
    X, y = problem(optim.losses.Squared(), n=80, d=7, seed=4)
    H, b, c = 2 * X.T @ X / 80, 2 * X.T @ y / 80, float(y @ y / 80)
    for constraint in SETS:
        direct = best_fixed_point(X, y, loss=optim.losses.Squared(), constraint=constraint, tol=1e-8)
        moments = best_fixed_point_quadratic(H, b, c, constraint, tol=1e-8)
        assert moments.upper == pytest.approx(direct.upper, rel=1e-7)
        assert moments.lower <= direct.upper * (1 + 1e-12)
        assert direct.lower <= moments.upper * (1 + 1e-12)


def test_fewer_samples_than_features_and_the_squared_loss():
    X, y = problem(optim.losses.Squared(), n=10, d=30, seed=5)
    best = best_fixed_point(X, y, loss=optim.losses.Squared(), constraint=sets.L1Ball(1.0))
    assert best.gap <= 1e-6 * best.upper
    assert best.upper == pytest.approx(slsqp(X, y, optim.losses.Squared(), sets.L1Ball(1.0)), rel=1e-6)


def test_a_perfect_fit_ends():
    X, _ = problem(optim.losses.Squared(), seed=6)
    truth = np.array([0.5, 0, -0.5, 0, 0])
    best = best_fixed_point(X, X @ truth, loss=optim.losses.Squared(), constraint=sets.L1Ball(2.0))
    assert best.gap <= 1e-8
    assert best.lower <= 0 + 1e-15
    np.testing.assert_allclose(best.x, truth, atol=1e-4)


def test_a_start_near_the_optimum_saves_iterations():
    X, y = problem(optim.losses.Log(), n=500, d=20, seed=7)
    args = {"loss": optim.losses.Log(), "constraint": sets.L1Ball(5.0), "tol": 1e-6}
    cold = best_fixed_point(X, y, **args)
    warm = best_fixed_point(X, y, x0=cold.x, **args)
    assert warm.nit < cold.nit / 2
    assert best_fixed_point(X, y, x0=np.full(20, 100.0), **args).upper == pytest.approx(cold.upper, rel=1e-6)


def test_one_feature_and_nothing_to_learn():
    best = best_fixed_point(np.ones((3, 1)), [1, 2, 3], loss=optim.losses.Squared(), constraint=sets.L1Ball(1.0))
    assert best.x.tolist() == pytest.approx([1.0])
    zero = best_fixed_point(np.zeros((3, 2)), [1, 2, 3], loss=optim.losses.Absolute(), constraint=sets.L2Ball(1.0))
    assert zero.upper == pytest.approx(2.0)
    assert zero.gap <= 1e-5


def test_large_margins_do_not_overflow():
    X, y = problem(optim.losses.Log(), seed=8)
    best = best_fixed_point(1e4 * X, y, loss=optim.losses.Log(), constraint=sets.L2Ball(100.0))
    assert np.isfinite(best.upper)
    args = {"loss": optim.losses.Poisson(), "constraint": sets.Box(-50.0, 50.0), "tol": 1e-3}
    counts = best_fixed_point(100 * X, y, **args)
    assert counts.gap <= 1e-3 * abs(counts.upper)
    with pytest.raises(ValueError, match="not finite at the start"):
        best_fixed_point(100 * X, y, x0=np.full(5, 50.0), **args)


def test_any_differentiable_loss_works():
    class Cosh:
        def __call__(self, y_true, y_pred):
            return np.log(np.cosh(y_pred - y_true))

        def gradient(self, y_true, y_pred):
            return np.tanh(y_pred - y_true)

    X, y = problem(optim.losses.Squared(), seed=9)
    best = best_fixed_point(X, y, loss=Cosh(), constraint=sets.L1Ball(1.0))
    assert best.gap <= 1e-6 * best.upper
    assert best.upper == pytest.approx(slsqp(X, y, Cosh(), sets.L1Ball(1.0)), rel=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros(3)}, "samples in rows"),
        ({"X": np.zeros((0, 3)), "y": []}, "samples in rows"),
        ({"X": [[np.nan, 1]]}, "X must be finite"),
        ({"y": [1, 2]}, "y must have one entry for each of the 1"),
        ({"y": [np.inf]}, "y must be finite"),
        ({"y": [-1.0], "loss": optim.losses.Log()}, "labels of Log must be 0 and 1"),
        ({"x0": [1.0]}, r"x0 has shape \(1,\)"),
        ({"x0": [5.0, 5.0], "constraint": Blind(sets.L1Ball(1.0))}, "x0 must lie in"),
        ({"sample_weight": [-1.0]}, "must not be negative"),
        ({"sample_weight": [0.0]}, "not all 0"),
        ({"tol": -1.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    args = {"X": [[1.0, 2.0]], "y": [1.0], "loss": optim.losses.Squared(), "constraint": sets.L1Ball(1.0)}
    with pytest.raises(ValueError, match=message):
        best_fixed_point(**{**args, **change})


@pytest.mark.parametrize(
    ("H", "b", "message"),
    [
        (np.eye(3), np.ones(2), "shapes"),
        (np.array([[1.0, 2.0], [0.0, 1.0]]), np.ones(2), "symmetric"),
        (np.full((2, 2), np.nan), np.ones(2), "finite"),
    ],
)
def test_wrong_quadratics_are_named(H, b, message):
    with pytest.raises(ValueError, match=message):
        best_fixed_point_quadratic(H, b, 0.0, sets.L1Ball(1.0))


REUTERS = [
    (100, 0.4632),
    (300, 0.3119),
    *(pytest.param(*p, marks=pytest.mark.slow) for p in ((1000, 0.1569), (3000, 0.0727))),
]


@pytest.mark.skipif(not os.environ.get("FWONLINE_DATA"), reason="FWONLINE_DATA does not name the papers' data")
@pytest.mark.parametrize(("radius", "optimum"), REUTERS)
def test_reuters_within_seconds(radius, optimum):
    X, y = datasets.load("rcv1_binary_sample")
    begin = time.perf_counter()
    best = best_fixed_point(
        X[:20242], y[:20242], loss=optim.losses.Log(), constraint=sets.L1Ball(radius), tol=1e-3, max_iter=1000
    )
    assert best.gap <= 1e-3 * best.upper
    assert best.upper == pytest.approx(optimum, abs=1e-4)
    assert time.perf_counter() - begin < 60


@pytest.mark.parametrize("constraint", [sets.L1Ball(3.0), sets.Box(-1.0, 1.0), sets.ProbabilitySimplex(2.0)], ids=str)
def test_features_of_very_different_scales(constraint):
    rng = np.random.default_rng(10)
    scales = 10.0 ** np.linspace(-3, 3, 12)
    X = rng.standard_normal((400, 12)) * scales
    y = X @ (rng.uniform(-1, 1, 12) / scales) + 0.1 * rng.standard_normal(400)
    best = best_fixed_point(X, y, loss=optim.losses.Squared(), constraint=constraint, tol=1e-7)
    assert best.gap <= 1e-6 * best.upper
    assert constraint.contains(best.x)
    value, _ = losses.vector_loss(optim.losses.Squared())
    assert min(value(y, X @ w).mean() for w in feasible(constraint, 12, rng)) >= best.lower


@pytest.mark.parametrize("constraint", [sets.L1Ball(3.0), sets.L2Ball(3.0)], ids=["l1", "l2"])
@pytest.mark.parametrize("name", ["squared", "log", "absolute"])
def test_features_far_from_zero_leave_the_bracket_narrow(name, constraint):
    """Offset by 1e4, their common direction is 1e8 times as steep as all others."""
    rng = np.random.default_rng(2)
    centred = rng.normal(size=(300, 4))
    w = np.array([1.0, -1.0, 0.5, 0.0])
    z = centred @ w
    X = centred + 1e4
    if name == "log":
        y = (rng.random(300) < 1.0 / (1.0 + np.exp(-2.0 * z))).astype(float)
    else:
        y = X @ w + 0.3 * rng.normal(size=300)
    loss = {"squared": optim.losses.Squared(), "log": optim.losses.Log(), "absolute": optim.losses.Absolute()}[name]
    best = best_fixed_point(X, y, loss=loss, constraint=constraint, tol=1e-3, max_iter=200)
    assert best.gap <= (0.3 if name == "absolute" else 2e-3) * best.upper
    value, _ = losses.vector_loss(loss)
    for point in (w, best.x, *(constraint.project(best.x + 1e-4 * rng.normal(size=4)) for _ in range(50))):
        assert best.lower <= np.mean(value(y, X @ point)) * (1.0 + 1e-9)
    assert best.upper == pytest.approx(np.mean(value(y, X @ best.x)), rel=1e-6)


def test_a_quadratic_in_an_l2_ball_is_minimised_by_its_eigenvectors():
    rng = np.random.default_rng(3)
    for radius in (0.1, 1.0, 100.0):
        A = rng.normal(size=(6, 4)) * 10.0 ** np.array([0.0, 3.0, -3.0, 1.0])
        H, b = A.T @ A, A.T @ rng.normal(size=6)
        w = Quadratic(H, b, 0.0).best_in_ball(radius)
        g = H @ w - b
        assert np.linalg.norm(w) <= radius * (1.0 + 1e-12)
        assert g @ w + radius * np.linalg.norm(g) <= 1e-9 * (1.0 + abs(b @ w))  # its Frank-Wolfe gap


class TestIntercept:
    @pytest.mark.parametrize("constraint", [sets.L1Ball(1.5), sets.L2Ball(1.5), sets.ProbabilitySimplex(1.5)], ids=str)
    @pytest.mark.parametrize(
        "loss", [*SMOOTH[:3], *SMOOTH_BINARY, *KINKED, *KINKED_BINARY], ids=lambda f: type(f).__name__
    )
    @pytest.mark.parametrize("is_sparse", [False, True])
    def test_true_and_narrow_bounds(self, constraint, loss, is_sparse):
        X, y = problem(loss)
        X = X + 2.0
        if is_sparse:
            X = scipy.sparse.csr_array(X * (np.random.default_rng(1).random(X.shape) < 0.2))
        best = best_fixed_point(X, y, loss=loss, constraint=constraint, tol=1e-4, intercept=True)
        value = losses.vector_loss(loss)[0]
        assert best.lower <= best.upper <= best.lower + 2e-3 * max(abs(best.upper), 0.05)
        assert value(y, X @ best.x + best.intercept).mean() <= best.upper + 1e-9 * (1.0 + abs(best.upper))
        assert constraint.contains(best.x)
        rng = np.random.default_rng(2)
        for w in feasible(constraint, X.shape[1], rng, 10):
            for b in best.intercept + rng.normal(size=20):
                assert value(y, X @ w + b).mean() >= best.lower - 1e-12
        assert best.upper <= best_fixed_point(X, y, loss=loss, constraint=constraint, tol=1e-4).upper * (1.0 + 1e-4)

    @pytest.mark.parametrize("loss", [optim.losses.Squared(), optim.losses.Log()], ids=lambda f: type(f).__name__)
    def test_an_independent_solver(self, loss):
        X, y = problem(loss)
        value = losses.vector_loss(loss)[0]
        best = best_fixed_point(X + 3.0, y, loss=loss, constraint=sets.L1Ball(1.0), tol=1e-7, intercept=True)

        def objective(v):  # w = p - q, and the intercept
            return value(y, (X + 3.0) @ (v[:5] - v[5:10]) + v[10]).mean()

        inside = {"type": "ineq", "fun": lambda v: 1.0 - v[:10].sum()}
        bounds = [(0, None)] * 10 + [(None, None)]
        found = scipy.optimize.minimize(
            objective, np.zeros(11), bounds=bounds, constraints=[inside], method="SLSQP", options={"ftol": 1e-12}
        )
        assert best.lower - 1e-9 <= found.fun
        assert best.upper == pytest.approx(found.fun, rel=1e-5)

    def test_features_far_from_0(self):
        X, y = problem(optim.losses.Squared())
        near, far = (
            best_fixed_point(X + by, y + by, loss=optim.losses.Squared(), constraint=sets.L1Ball(1.0), intercept=True)
            for by in (0.0, 1e6)
        )
        assert far.upper == pytest.approx(near.upper, rel=1e-4)
        assert far.gap <= 1e-3 * far.upper

    def test_labels_of_one_class(self):
        X, _ = problem(optim.losses.Log())
        best = best_fixed_point(
            X, np.ones(len(X)), loss=optim.losses.Log(), constraint=sets.L1Ball(1.0), intercept=True
        )
        assert 0.0 <= best.upper < 1e-9

    def test_a_loss_without_a_best_intercept(self):
        X, y = problem(losses.NegativeLogReturn())
        with pytest.raises(ValueError, match="the loss falls without end"):
            best_fixed_point(
                X, y, loss=losses.NegativeLogReturn(), constraint=sets.ProbabilitySimplex(), intercept=True
            )
