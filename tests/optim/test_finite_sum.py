"""The batch algorithms against their pseudocode, against the optimum, and online on a memory that moves."""

import inspect

import numpy as np
import pytest
from river import optim as river_optim
from scipy import sparse
from support import finite_sum_oracles as oracles
from support.oracles import Translated

from fwonline import losses, optim, sets
from fwonline.checkpoint import codec
from fwonline.exceptions import SampleError
from fwonline.linear_model import FWClassifier, FWRegressor
from fwonline.optim.hindsight import best_fixed_point
from fwonline.optim.problem.data import DenseRows, SparseRows
from fwonline.optim.problem.finite_sum import FiniteSum
from fwonline.optim.problem.score_loss import ScalarLoss, Softmax
from fwonline.optim.runs.method import distance_sq, move_towards
from fwonline.optim.variance_reduced.cndg import cndg

N, D = 150, 6
LOSSES = {"squared": river_optim.losses.Squared(), "log": river_optim.losses.Log()}
SETS = {
    "l1": sets.L1Ball(2.0),
    "l2": sets.L2Ball(1.5),
    "simplex": sets.ProbabilitySimplex(1.5),
    "box": sets.Box(-0.4, 0.8),
    "k-sparse": sets.KSparseBall(2, 1.5),
}


def data(kind, n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.7)
    y = X @ rng.normal(size=D) + 0.3 * rng.normal(size=n)
    return X, (y > 0).astype(float) if kind == "log" else y


# The optimizer, and its pseudocode with the same parameters.
CASES = {
    "hazan-luo": (optim.HazanLuoFW(), oracles.hazan_luo, {}),
    "hazan-luo-batch": (optim.HazanLuoFW(batch_size=7), oracles.hazan_luo, {"batch": 7}),
    "svrf": (optim.SVRF(), oracles.svrf, {}),
    "svrf-practical": (optim.SVRF(batch_size=9, epoch=11), oracles.svrf, {"batch": 9, "epoch": 11}),
    "scgs": (optim.SCGS(), oracles.scgs, {}),
    "scgs-practical": (
        optim.SCGS(lipschitz=1.0, diameter=0.5),
        oracles.scgs,
        {"lipschitz": 1.0, "diameter": 0.5},
    ),
    "storc-b": (optim.STORC(lipschitz=1.0, diameter=0.5), oracles.storc, {"lipschitz": 1.0, "diameter": 0.5}),
    "storc-batches": (
        optim.STORC(lipschitz=1.0, diameter=0.5, batch_size=20),
        oracles.storc,
        {"lipschitz": 1.0, "diameter": 0.5, "batch": 20},
    ),
    "storc-a": (
        optim.STORC(interior=True, lipschitz=2.0, diameter=0.5),
        oracles.storc,
        {"case": "a", "lipschitz": 2.0, "diameter": 0.5},
    ),
    "storc-c": (
        optim.STORC(strong_convexity=0.5, lipschitz=2.0, diameter=0.5),
        oracles.storc,
        {"case": "c", "lipschitz": 2.0, "diameter": 0.5, "alpha": 0.5},
    ),
    "svrg": (optim.ProjectedSVRG(batch_size=4), oracles.projected_svrg, {"batch": 4}),
    "svrg-practical": (
        optim.ProjectedSVRG(step=0.02, batch_size=3, epoch=20),
        oracles.projected_svrg,
        {"step": 0.02, "batch": 3, "epoch": 20},
    ),
}


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("name", CASES)
def test_equals_its_pseudocode(name, kind, dense):
    optimizer, oracle, parameters = CASES[name]
    X, y = data(kind)
    constraint = SETS["l1"]
    result = optimizer.clone().minimize(
        X if dense else sparse.csr_array(X), y, loss=LOSSES[kind], constraint=constraint, steps=45, seed=3
    )
    expected = oracle(oracles.Problem(X, y, kind), constraint, (D,), 45, 3, **parameters)
    np.testing.assert_allclose(result.x, expected, rtol=0, atol=1e-10)
    assert constraint.contains(result.x)


@pytest.mark.parametrize("name", ["svrf-practical", "scgs-practical", "storc-batches", "svrg-practical"])
@pytest.mark.parametrize("where", SETS)
def test_equals_its_pseudocode_on_other_sets(name, where):
    optimizer, oracle, parameters = CASES[name]
    X, y = data("squared")
    constraint = SETS[where]
    # Where w = 0 is no point of the set, the paper's start is not the set's.
    start = constraint.initial_point(D) if name in ("scgs-practical", "svrg-practical") else None
    result = optimizer.clone().minimize(X, y, constraint=constraint, steps=30, seed=3, x0=start)
    expected = oracle(oracles.Problem(X, y, "squared"), constraint, (D,), 30, 3, **parameters)
    np.testing.assert_allclose(result.x, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("optimizer", "oracle", "ends"),
    [
        (optim.SVRF(batch_size=9), oracles.svrf, (14, 44)),
        (optim.STORC(lipschitz=1.0, diameter=0.5, batch_size=20), oracles.storc, (6, 14, 26, 42)),
    ],
    ids=["svrf", "storc"],
)
def test_the_point_of_the_last_complete_epoch_is_what_is_seen(optimizer, oracle, ends):
    X, y = data("squared")
    constraint, parameters = SETS["l1"], {"batch": optimizer.batch_size}
    if isinstance(optimizer, optim.STORC):
        parameters |= {"lipschitz": 1.0, "diameter": 0.5}
    problem = oracles.Problem(X, y, "squared")
    starts = [oracles.first_vertex(problem, constraint, (D,))]
    starts += [oracle(problem, constraint, (D,), end, 3, **parameters) for end in ends]
    seen = []
    optimizer.minimize(
        X, y, constraint=constraint, steps=46, seed=3, callback=lambda state: seen.append((state.x, state.gap)) and None
    )
    for nit, (x, gap) in enumerate(seen, start=1):
        epoch = sum(nit >= end for end in ends)
        np.testing.assert_allclose(x, starts[epoch], rtol=0, atol=1e-10)
        gradient = problem.full(starts[epoch])
        if nit not in ends:  # the first step of the next epoch has certified it
            assert gap == pytest.approx(gradient @ x - constraint.lmo(gradient).dot(gradient), abs=1e-9)
    values = [np.mean((X @ x - y) ** 2) for x in starts]
    for steps in range(ends[-1], ends[-1] + 4):
        result = optimizer.clone().minimize(X, y, constraint=constraint, steps=steps, seed=3)
        assert result.nit == steps
        assert result.fun == pytest.approx(values[-1], abs=1e-10)
        assert values[-1] < values[0]


@pytest.mark.parametrize(
    "optimizer",
    [optim.SVRF(memory=30, batch_size=4), optim.STORC(memory=30, lipschitz=3.0, diameter=1.0, batch_size=5)],
    ids=["svrf", "storc"],
)
def test_a_model_stands_still_within_an_epoch(optimizer):
    X, y = data("squared", n=80)
    model = FWRegressor(sets.L1Ball(2.0), optimizer.clone(), seed=0, intercept=False)
    changes = []
    for i, (x, target) in enumerate(zip(X, y, strict=True)):
        sample, before = dict(enumerate(x.tolist())), model.weights
        raw = model.predict_one(sample)
        assert raw == pytest.approx(sum(before.get(j, 0.0) * v for j, v in sample.items()))
        model.learn_one(sample, target)
        if model.weights != before:
            changes.append(i + 1)
        method = model.optimizer._run.method
        assert sets.L1Ball(2.0).contains(method.inner)
        w = np.array([model.weights.get(j, 0.0) for j in range(D)])
        held = slice(max(0, i - 29), i + 1)
        g = 2.0 * X[held].T @ (X[held] @ w - y[held]) / (held.stop - held.start)
        assert model.exact_gap == pytest.approx(g @ w - sets.L1Ball(2.0).lmo(g).dot(g), abs=1e-9)
        if i == 50:
            copy = codec.loads(codec.dumps(model))
        elif i > 50:
            copy.learn_one(sample, target)
            assert copy.weights == model.weights
    assert changes == ([1, 14, 44] if isinstance(optimizer, optim.SVRF) else [1, 6, 14, 26, 42, 65])


TUNED = {
    "hazan-luo": (lambda: optim.HazanLuoFW(batch_size=2000), 600, 2e-2),
    "svrf": (optim.SVRF, 238, 2e-2),
    "scgs": (lambda: optim.SCGS(lipschitz=2.0, diameter=1.0), 150, 2e-3),
    "storc": (lambda: optim.STORC(lipschitz=2.0, diameter=0.3), 150, 2e-3),
    "svrg": (lambda: optim.ProjectedSVRG(step=0.1, batch_size=10), 1500, 1e-4),
}


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        # Every step draws its batch: G = L D makes that the theorem's without G / (L D). Besides, one search for G.
        (optim.HazanLuoFW(), 2000 + sum((k + 1) ** 2 for k in (1, 2, 3, 4))),
        (optim.SCGS(), 2000 + sum((k + 2) ** 3 for k in (1, 2, 3, 4))),
        (optim.STORC(epoch=2), 2000 + 2 * 2000 + 2 * sum(1400 + 48 * (k + 1) for k in (1, 2))),
    ],
    ids=["hazan-luo", "scgs", "storc"],
)
def test_a_perfect_fit_costs_one_search_for_the_largest_gradient(optimizer, expected):
    X = np.random.default_rng(0).normal(size=(2000, 3))
    start = np.array([0.5, 0.0, -0.5])
    result = optimizer.clone().minimize(X, X @ start, constraint=sets.L1Ball(1.0), x0=start, steps=4, seed=0)
    assert abs(result.n_gradients - expected) <= 4  # where rounding a batch up meets a whole number


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("name", TUNED)
def test_comes_to_the_best_fixed_point(name, kind):
    make, steps, close = TUNED[name]
    X, y = data(kind, n=1000)
    constraint, loss = sets.L1Ball(1.0), LOSSES[kind]
    best = best_fixed_point(X, y, loss=loss, constraint=constraint, tol=1e-8)
    result = make().minimize(X, y, loss=loss, constraint=constraint, steps=steps, seed=0)
    start = losses.vector_loss(loss)[0](y, np.zeros(len(y))).mean()
    assert best.lower - 1e-9 <= result.fun <= best.upper + close * (start - best.lower)
    assert result.fun - result.gap <= best.upper + 1e-9


def test_counters_are_true():
    X, y = data("squared")

    class Counting(OwnLoss):
        calls = 0

        def gradient(self, y_true, y_pred):
            Counting.calls += 1
            return super().gradient(y_true, y_pred)

    ball = Asked(2.0)
    for optimizer in (
        optim.SVRF(batch_size=10, epoch=5),
        optim.HazanLuoFW(batch_size=10),
        optim.SCGS(batch_size=10, lipschitz=3.0, diameter=0.4),
        optim.STORC(batch_size=10, epoch=5, lipschitz=3.0, diameter=0.4),
        optim.ProjectedSVRG(batch_size=10, epoch=5, step=0.01),
    ):
        seen = []
        Counting.calls = Asked.lmos = 0

        def look(state, seen=seen):
            seen.append((state.n_gradients, state.n_lmo, Counting.calls, Asked.lmos))

        result = optimizer.minimize(X, y, loss=Counting(), constraint=ball, steps=17, seed=0, callback=look)
        assert all(counted == called for counted, _, called, _ in seen)
        assert all(counted == asked for _, counted, _, asked in seen)
        assert (result.n_gradients, result.n_lmo) == seen[-1][:2]
        exact = {"SVRF": 5, "STORC": 5, "ProjectedSVRG": 4}.get(type(optimizer).__name__, 0)
        assert optimizer.n_exact_gradients == exact
        assert optimizer.n_steps == 17


class OwnLoss:
    def __call__(self, y_true, y_pred):
        return (y_pred - y_true) ** 2

    def gradient(self, y_true, y_pred):
        return 2.0 * (y_pred - y_true)


class Asked(sets.L1Ball):
    """An l1 ball that counts what it is asked."""

    lmos = 0

    def _lmo(self, g):
        Asked.lmos += 1
        return super()._lmo(g)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "constraint", [sets.L1Ball(1.5), sets.L2Ball(1.0), sets.NuclearBall(2.0), sets.KSparseBall(2, 1.0)], ids=str
)
def test_cndg_ends_below_its_gap_near_the_projection(constraint, seed):
    rng = np.random.default_rng(seed)
    g, u, beta, eta = rng.normal(size=(3, 4)), constraint.lmo(rng.normal(size=(3, 4))).to_dense(), 2.0, 0.02
    answer = cndg(g, u, beta, eta, constraint.lmo)
    h = g + beta * (answer.x - u)
    exact = float(np.vdot(h, answer.x)) - constraint.lmo(h).dot(h)
    assert exact <= eta
    assert answer.gap == pytest.approx(exact)
    assert answer.steps <= np.ceil(6 * beta * constraint.diameter((3, 4)) ** 2 / eta)
    if constraint.can_project:
        # phi is strongly convex: the gap bounds the distance to its minimum, the projection of u - g / beta
        away = answer.x - constraint.project(u - g / beta)
        assert 0.5 * beta * np.vdot(away, away) <= eta + 1e-12
    limited = cndg(g, u, beta, 1e-12, constraint.lmo, limit=3)
    assert limited.steps == 3 or limited.gap <= 1e-12
    assert constraint.contains(limited.x)


@pytest.mark.parametrize("matrix", [False, True])
def test_dense_and_sparse_rows_give_the_gradients_of_the_formula(matrix):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 5)) * (rng.random((300, 5)) < 0.5)
    csr = sparse.csr_array(X)
    y = rng.integers(3, size=300).astype(float) if matrix else rng.normal(size=300)
    x = rng.normal(size=(3, 5)) if matrix else rng.normal(size=5)
    loss = Softmax() if matrix else ScalarLoss(river_optim.losses.Squared())
    problem = oracles.Problem(X, y, "softmax" if matrix else "squared")
    start, length = csr.indptr[:-1].astype(np.int64), np.diff(csr.indptr).astype(np.int64)
    batch = rng.integers(300, size=200)
    for rows in (
        DenseRows(X),
        SparseRows(start, length, csr.indices.astype(np.uint32), csr.data, d=5),
        DenseRows(X.astype(np.float32).astype(np.float64).astype(np.float32)),
    ):
        close = 1e-12 if not isinstance(rows, DenseRows) or rows.X.dtype == np.float64 else 1e-6
        f = FiniteSum(rows, y, loss)
        np.testing.assert_allclose(f.gradient(x, batch), problem.mean(x, batch), atol=close)
        np.testing.assert_allclose(f.gradient(x), problem.full(x), atol=close)
        slopes = np.zeros((300, 3) if matrix else 300)
        np.testing.assert_allclose(f.snapshot(x, slopes) / 300, problem.full(x), atol=close)
        total = np.zeros(x.shape)
        rows.add(batch, slopes[batch], total)
        np.testing.assert_allclose(total / 200, problem.mean(x, batch), atol=close)
        epsilon = 1e-6 * rng.normal(size=x.shape)
        rise = f.value(x + epsilon) - f.value(x - epsilon)
        assert rise == pytest.approx(2 * np.vdot(problem.full(x), epsilon), rel=1e-3, abs=1e-10)


@pytest.mark.parametrize(
    "atom",
    [
        sets.RankOneAtom(2.0, np.array([0.6, 0.8]), np.array([1.0, 2.0, 2.0])),
        sets.CoordinateAtom(4, -3.0, (2, 3)),
        sets.DenseAtom(np.arange(6.0).reshape(2, 3)),
    ],
    ids=["rank-one", "coordinate", "dense"],
)
def test_a_step_towards_an_atom(atom):
    wide = np.random.default_rng(0).normal(size=(4, 9))
    x = wide[:2, :3]
    expected = 0.75 * x + 0.25 * atom.to_dense()
    assert distance_sq(x, atom) == pytest.approx(np.sum((x - atom.to_dense()) ** 2))
    move_towards(x, atom, 0.25)
    np.testing.assert_allclose(x, expected, atol=1e-14)


ONLINE = {
    "hazan-luo": optim.HazanLuoFW(memory=30),
    "svrf": optim.SVRF(memory=30, batch_size=4),
    "svrf-twice": optim.SVRF(memory=30, batch_size=4, steps_per_sample=2),
    "scgs": optim.SCGS(memory=30, lipschitz=3.0),
    "storc": optim.STORC(memory=30, lipschitz=3.0, diameter=1.0, batch_size=5),
    "svrg": optim.ProjectedSVRG(memory=30),
}


@pytest.mark.parametrize("name", ONLINE)
@pytest.mark.parametrize("intercept", [False, True])
def test_online_learns_stays_inside_and_is_saved(name, intercept):
    X, y = data("log", n=200, seed=4)
    model = FWClassifier(sets.L1Ball(3.0), ONLINE[name].clone(), intercept=intercept, seed=2)
    right = 0
    for i, (x, label) in enumerate(zip(X, y, strict=True)):
        sample = {j: float(v) for j, v in enumerate(x[: 3 if i < 20 else D]) if v}  # features that appear later
        right += model.predict_one(sample) == bool(label)
        before = model.optimizer.n_steps
        model.learn_one(sample, bool(label))
        assert model.optimizer.n_steps - before == model.optimizer.steps_per_sample
        assert model.violation <= 1e-12
        if i == 120:
            model = codec.loads(codec.dumps(model))
            copy = codec.loads(codec.dumps(model))
        elif i > 120:
            copy.learn_one(sample, bool(label))
            assert copy.weights == model.weights
    assert right / len(y) > 0.72
    assert model.exact_gap >= -1e-12
    with pytest.raises(SampleError, match="feature 'bad' is nan"):
        model.learn_one({"bad": float("nan")}, True)
    assert copy.weights == model.weights


def test_the_snapshot_follows_the_memory():
    """Whatever comes and goes within an epoch, derivatives and their sum belong to the samples held."""
    X, y = data("squared", n=90)
    model = FWRegressor(sets.L1Ball(2.0), optim.SVRF(memory=25, batch_size=3, epoch=40), seed=0, intercept=False)
    for i, (x, target) in enumerate(zip(X, y, strict=True)):
        model.learn_one(dict(enumerate(x.tolist())), target)
        run = model.optimizer._run
        held = range(max(0, i - 24), i + 1)
        expected = sum(run.method.memory.alpha[j % 25] * X[j] for j in held)
        np.testing.assert_allclose(run.method.memory.total, expected, atol=1e-10)
        everyone = np.arange(run.sum.n)
        estimate = np.mean(
            [run.sum.gradient(run.x, np.array([k]), less=run.method.memory.alpha) for k in everyone], axis=0
        )
        estimate = estimate + run.method.memory.total / run.sum.n
        np.testing.assert_allclose(estimate, run.sum.exact_gradient(run.x), atol=1e-10)


def test_an_order_of_keys_does_not_show_and_arrays_learn_the_same():
    X, y = data("squared", n=60)
    one, other, arrays = (
        FWRegressor(sets.L1Ball(2.0), optim.SVRF(memory=20, batch_size=4), seed=1, intercept=False) for _ in range(3)
    )
    for x, target in zip(X, y, strict=True):
        sample = dict(enumerate(x.tolist()))
        one.learn_one(sample, target)
        other.learn_one(dict(reversed(sample.items())), target)
    arrays.learn_arrays(X, y)
    assert one.weights == other.weights
    assert one.weights == pytest.approx(arrays.weights, abs=1e-12)


@pytest.mark.parametrize("cls", [optim.HazanLuoFW, optim.SVRF, optim.SCGS, optim.STORC, optim.ProjectedSVRG])
def test_bad_parameters_are_named(cls):
    names = inspect.signature(cls).parameters
    for name in names:
        if name in ("schedule", "interior"):
            continue
        with pytest.raises(ValueError, match=f"{name} must be"):
            cls(**{name: 0})
        with pytest.raises(ValueError, match=f"{name} must be"):
            cls(**{name: -1.5})


def test_a_missing_constant_is_asked_for_before_the_stream():
    X, y = np.ones((4, 2)), np.arange(4.0)
    for optimizer in (optim.HazanLuoFW(), optim.SCGS(), optim.STORC(), optim.ProjectedSVRG()):
        with pytest.raises(ValueError, match="lipschitz must be given, a number > 0"):
            FWRegressor(sets.L1Ball(1.0), optimizer.clone(), loss=river_optim.losses.Poisson(), intercept=False)
    with pytest.raises(ValueError, match="has no projection, which ProjectedSVRG needs"):
        optim.ProjectedSVRG().minimize(X, y, constraint=Translated(1.0, 0.25))
    with pytest.raises(ValueError, match="X has no rows"):
        optim.SVRF().minimize(np.ones((0, 2)), [], constraint=sets.L1Ball(1.0))
    with pytest.raises(ValueError, match=r"X\[1, 1\] is nan"):
        optim.SVRF().minimize(np.array([[1.0, 0.0], [0.0, np.nan]]), [0, 1], constraint=sets.L1Ball(1.0))
    with pytest.raises(ValueError, match="one target for each of the 4 rows"):
        optim.SVRF().minimize(X, [1.0], constraint=sets.L1Ball(1.0))
    with pytest.raises(ValueError, match="x0 must be a point of"):
        optim.SVRF().minimize(X, y, constraint=sets.L1Ball(1.0), x0=[3.0, 3.0])


def test_a_start_a_tolerance_and_a_callback():
    X, y = data("squared")
    start = np.array([0.5, 0, 0, 0, 0, -0.5])
    short = optim.ProjectedSVRG(step=1e-12).minimize(X, y, constraint=sets.L1Ball(1.0), x0=start, steps=1)
    np.testing.assert_allclose(short.x, start, atol=1e-8)
    reached = optim.SVRF().minimize(X, y, constraint=sets.L1Ball(1.0), steps=400, seed=0, tol=0.1)
    assert reached.success
    assert reached.gap <= 0.1
    assert reached.nit < 400
    failed = optim.SVRF().minimize(X, y, constraint=sets.L1Ball(1.0), steps=12, seed=0, tol=1e-9)
    assert not failed.success
    assert "above tol" in failed.message
    ended = optim.SVRF().minimize(X, y, constraint=sets.L1Ball(1.0), steps=50, callback=lambda state: state.nit == 7)
    assert ended.nit == 7
