"""FW, AwayFW, PairwiseFW and the randomised ones against their papers' pseudocode, and against the best fixed point."""

from __future__ import annotations

import math

import numpy as np
import pytest
from river import checks
from river import optim as river_optim
from scipy import sparse
from support.draws import BlockDraws
from support.oracles import OwnSquared

from fwonline import losses, optim, sets
from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError
from fwonline.linear_model import FWClassifier, FWRegressor, FWSoftmax
from fwonline.optim.hindsight import best_fixed_point
from fwonline.optim.schedules import CurvatureStep, Harmonic, LineSearch, ShortStep

FAMILY = {
    "fw": lambda schedule=None, **k: optim.FW(schedule=schedule or LineSearch(), **k),
    "away": optim.AwayFW,
    "pairwise": optim.PairwiseFW,
    "randomized": lambda **k: optim.RandomizedFW(0.3, **k),
    "randomized-away": lambda **k: optim.RandomizedAwayFW(0.3, **k),
}


def lasso(n=40, d=15, k=4, noise=0.1, seed=0, density=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    truth = np.zeros(d)
    truth[rng.choice(d, k, replace=False)] = rng.normal(size=k)
    return X, X @ truth + noise * rng.normal(size=n), 0.8 * float(np.abs(truth).sum())


# --- literal transcriptions: f(w) = ||Xw - y||^2 / n, exact line search -----------------------------------------------


def exact_search(X, y, w, direction, limit):
    q = X @ direction
    slope = -2.0 * float((X @ w - y) @ q)
    curvature = 2.0 * float(q @ q)
    if slope <= 0.0:
        return 0.0
    return min(slope / curvature, limit)


def vertices_of(constraint, d):
    """(block, vertex) of all vertices."""
    if isinstance(constraint, sets.L1Ball):
        eye = constraint.radius * np.eye(d)
        return [(j, sign * eye[j]) for j in range(d) for sign in (-1.0, 1.0)]
    if isinstance(constraint, sets.ProbabilitySimplex):
        return [(j, constraint.radius * np.eye(d)[j]) for j in range(d)]
    if isinstance(constraint, sets.UnitSimplex):
        return [(j, constraint.radius * np.eye(d)[j]) for j in range(d)] + [(-1, np.zeros(d))]
    return list(enumerate(np.array(constraint.vertices)))


def literal(name, X, y, constraint, count, draws=None, schedule=None):
    """The algorithms as published, over the list of all vertices."""
    n, d = X.shape
    everything = vertices_of(constraint, d)
    blocks = sorted({block for block, _ in everything if block >= 0})
    w = np.zeros(d)
    if not constraint.contains(w):
        g = 2.0 * X.T @ (X @ w - y) / n
        w = min((v for _, v in everything), key=lambda v: float(g @ v))
    active = {tuple(w): 1.0}
    points, drops = [], 0
    for t in range(count):
        g = 2.0 * X.T @ (X @ w - y) / n
        mine = {block for block, v in everything if tuple(v) in active and block >= 0}
        if draws is None:
            allowed = set(blocks)
        elif "away" in name:
            allowed = mine | set(draws.of([b for b in blocks if b not in mine], len(blocks)))
        else:
            allowed = set(draws.of(blocks, len(blocks)))
        candidates = [v for block, v in everything if block in allowed or block < 0]
        if draws is not None and "away" in name:
            candidates += [np.array(v) for v in active]
        s = min(candidates, key=lambda v: float(g @ v))
        v = np.array(max(active, key=lambda v: float(g @ np.array(v))))
        forward, backward = float(g @ (w - s)), float(g @ (v - w))

        def step(direction, limit, slope, t=t, w=w):
            if schedule is None:
                return exact_search(X, y, w, direction, limit)
            return min(schedule.gamma(t, slope, float(direction @ direction)), limit) if slope > 0.0 else 0.0

        if name in ("fw", "randomized"):
            gamma = step(s - w, 1.0, forward)
            w = w + gamma * (s - w)
        elif name == "pairwise":
            limit = active[tuple(v)]
            gamma = step(s - v, limit, forward + backward)
            w = w + gamma * (s - v)
            if gamma > 0.0 and tuple(s) != tuple(v):
                active[tuple(v)] -= gamma
                active[tuple(s)] = active.get(tuple(s), 0.0) + gamma
                if gamma >= limit:
                    del active[tuple(v)]
                    drops += 1
        elif forward >= backward:
            gamma = step(s - w, 1.0, forward)
            w = w + gamma * (s - w)
            active = {p: (1.0 - gamma) * a for p, a in active.items() if gamma < 1.0}
            if gamma > 0.0:
                active[tuple(s)] = active.get(tuple(s), 0.0) + gamma
        else:
            limit = active[tuple(v)] / (1.0 - active[tuple(v)])
            gamma = step(w - v, limit, backward)
            w = w + gamma * (w - v)
            active = {p: (1.0 + gamma) * a for p, a in active.items()}
            active[tuple(v)] -= gamma
            if gamma >= limit:
                del active[tuple(v)]
                drops += 1
        points.append(w)
    return points, drops


SETS = {
    "l1": sets.L1Ball(1.5),
    "simplex": sets.ProbabilitySimplex(1.5),
    "unit-simplex": sets.UnitSimplex(0.7),
    "hull": sets.ConvexHull(np.random.default_rng(3).normal(size=(25, 15))),
}


@pytest.mark.parametrize(
    ("where", "kind"), [*((where, "sparse") for where in SETS), ("l1", "dense"), ("l1", "rows"), ("hull", "columns")]
)
@pytest.mark.parametrize("name", FAMILY)
def test_iterates_are_those_of_the_pseudocode(name, where, kind, tmp_path):
    X, y, _ = lasso(density=0.5)
    draws = BlockDraws(4, 0.3) if "randomized" in name else None
    # An exact line search leaves s_t and v_t of a pairwise step equal but for rounding, which then decides the next.
    schedule = ShortStep(10.0) if name == "pairwise" else None
    points, drops = literal(name, X, y, SETS[where], 60, draws, schedule)
    seen = []
    optimizer = FAMILY[name](schedule=schedule)
    result = optimizer.minimize(
        stored(X, kind, tmp_path),
        y,
        constraint=SETS[where],
        steps=60,
        seed=4,
        callback=lambda state: seen.append(state.x) and False,
    )
    np.testing.assert_allclose(seen, points, rtol=0, atol=1e-10)
    if name not in ("fw", "randomized"):
        assert result.n_drop_steps == optimizer.n_drop_steps == drops
        mixture = sum(weight * atom.to_dense() for atom, weight in optimizer.active.items())
        np.testing.assert_allclose(mixture, result.x, rtol=0, atol=1e-12)
        assert sum(optimizer.active.values()) == pytest.approx(1.0)
    assert result.fun == pytest.approx(np.mean((X @ result.x - y) ** 2), abs=1e-13)
    g = 2.0 * X.T @ (X @ result.x - y) / len(y)
    # Rounded up by what the sums may have lost, which grows with the vertices of a hull.
    assert result.gap == pytest.approx(g @ result.x - SETS[where].lmo(g).dot(g), abs=1e-11)
    assert result.success
    assert result.message == "took the 60 steps asked for"


@pytest.mark.parametrize("where", SETS)
def test_by_default_steps_on_a_polytope_are_those_of_the_theorem(where):
    X, y, _ = lasso(density=0.5)
    points, _ = literal("fw", X, y, SETS[where], 60, schedule=Harmonic())
    seen = []
    optim.FW().minimize(X, y, constraint=SETS[where], steps=60, callback=lambda state: seen.append(state.x) and None)
    np.testing.assert_allclose(seen, points, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("constraint", "named"),
    [
        (sets.L1Ball(1.0), Harmonic()),
        (sets.LInfBall(0.1), Harmonic()),
        (sets.L2Ball(1.0), LineSearch()),
        (sets.LpBall(1.5, 1.0), LineSearch()),
        (sets.GroupL1Ball([[0, 1, 2], list(range(3, 15))], 1.0), LineSearch()),
    ],
    ids=str,
)
def test_the_default_offline_depends_on_the_set(constraint, named):
    X, y, _ = lasso()
    default, asked = (optim.FW(schedule=s).minimize(X, y, constraint=constraint, steps=30) for s in (None, named))
    np.testing.assert_array_equal(default.x, asked.x)


def test_the_default_online_is_line_search():
    X, y, _ = lasso(n=60, d=6)
    models = [
        FWRegressor(sets.L1Ball(1.0), optim.FW(20, schedule=s), seed=0, intercept=False)
        for s in (None, LineSearch(), Harmonic())
    ]
    for x, target in zip(X, y, strict=True):
        for model in models:
            model.learn_one(dict(enumerate(x.tolist())), target)
    default, search, harmonic = (model.weights for model in models)
    assert default == search
    assert default != harmonic


def test_line_search_is_slow_on_a_face_and_fast_elsewhere():
    """Canon and Cullum 1968 against Wirth, Kerdreux and Pokutta 2023: by orders of magnitude, both ways."""
    X, y, radius = lasso(n=60, d=30, k=5, noise=0.5, seed=2)
    best = {}
    for constraint in (sets.L1Ball(0.6 * radius), sets.L2Ball(10.0 * radius)):
        lower = best_fixed_point(X, y, loss=river_optim.losses.Squared(), constraint=constraint, tol=1e-10).lower
        for schedule in (LineSearch(), Harmonic()):
            result = optim.FW(schedule=schedule).minimize(X, y, constraint=constraint, steps=1000)
            best[type(constraint), type(schedule)] = result.fun - lower
    assert best[sets.L1Ball, LineSearch] > 20 * best[sets.L1Ball, Harmonic]
    assert best[sets.L2Ball, Harmonic] > 1000 * best[sets.L2Ball, LineSearch]


def test_a_line_search_is_for_those_who_know_the_objective():
    with pytest.raises(TypeError, match="LineSearch needs the whole objective"):
        FWRegressor(sets.L1Ball(1.0), optim.SFW(schedule=LineSearch()), intercept=False)
    with pytest.raises(TypeError, match="does not work on matrices: no line search"):
        FWSoftmax(sets.NuclearBall(1.0), optim.FW(schedule=LineSearch()))


def stored(X, kind, folder):
    if kind == "sparse":
        return sparse.csr_array(X)
    if kind == "dense":
        return X
    path = folder / "X.bin"
    order = "F" if kind == "columns" else "C"
    on_disk = np.memmap(path, dtype=np.float64, mode="w+", shape=X.shape, order=order)
    on_disk[:] = X
    on_disk.flush()
    return np.memmap(path, dtype=np.float64, mode="r", shape=X.shape, order=order)


@pytest.mark.parametrize("schedule", [Harmonic(), ShortStep(30.0), CurvatureStep(400.0)], ids=str)
@pytest.mark.parametrize("name", FAMILY)
def test_schedules_are_cut_where_they_would_leave_the_set(name, schedule):
    X, y, radius = lasso(seed=1)
    draws = BlockDraws(4, 0.3) if "randomized" in name else None
    ball = sets.L1Ball(radius)
    points, _ = literal(name, X, y, ball, 50, draws, schedule)
    seen = []
    FAMILY[name](schedule=schedule).minimize(
        X, y, constraint=ball, steps=50, seed=4, callback=lambda state: seen.append(state.x) and False
    )
    np.testing.assert_allclose(seen, points, rtol=0, atol=1e-10)
    assert all(ball.contains(w) for w in seen)


def test_pairwise_steps_are_exact_along_two_atoms():
    X, y, _ = lasso(density=0.5)
    radius = 1.5
    points, weights = [np.zeros(15)], [{}]
    optimizer = optim.PairwiseFW()

    def look(state):
        points.append(state.x)
        weights.append({tuple(atom.to_dense()): a for atom, a in optimizer.active.items()})

    optimizer.minimize(X, y, constraint=sets.L1Ball(radius), steps=40, callback=look)
    for before, after, old, new in zip(points[1:], points[2:], weights[1:], weights[2:], strict=False):
        g = 2.0 * X.T @ (X @ before - y) / len(y)
        lost = [v for v in old if new.get(v, 0.0) < old[v] - 1e-12]
        won = [v for v in new if old.get(v, 0.0) < new[v] - 1e-12]
        assert len(lost) == len(won) == 1
        assert g @ np.array(won[0]) == pytest.approx(-radius * np.abs(g).max(), abs=1e-12)
        assert g @ np.array(lost[0]) == pytest.approx(max(g @ np.array(v) for v in old), abs=1e-12)
        slope = 2.0 * (X @ after - y) @ (X @ (after - before))
        assert slope == pytest.approx(0.0, abs=1e-10) or (lost[0] not in new and slope < 0.0)


# --- what the papers promise ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["away", "pairwise", "randomized-away"])
def test_linear_convergence_on_a_lasso(name):
    """The log of the exact gap falls along a line, down to rounding."""
    X, y, radius = lasso(n=60, d=120, k=8, noise=0.3, seed=5)
    gaps = []

    def look(state):
        run = state._run
        residual = X @ state.x - y
        g = 2.0 * X.T @ residual / len(y)
        gaps.append(max(float(g @ state.x + radius * np.abs(g).max()), 1e-16))
        return gaps[-1] < 1e-11 or run is None

    result = FAMILY[name]().minimize(X, y, constraint=sets.L1Ball(radius), steps=20_000, seed=0, callback=look)
    assert result.message.startswith("the callback ended it")
    log_gaps = np.log(np.minimum.accumulate(gaps))
    steps = np.arange(len(gaps))
    slope, _ = np.polyfit(steps, log_gaps, 1)
    print(f"{name}: log gap falls by {-slope:.4f} a step")
    assert slope < -0.005
    correlation = np.corrcoef(steps, log_gaps)[0, 1]
    assert correlation < -0.95
    assert result.n_drop_steps > 0


def test_plain_frank_wolfe_does_not_converge_linearly_there():
    X, y, radius = lasso(n=60, d=120, k=8, noise=0.3, seed=5)
    result = FAMILY["fw"]().minimize(X, y, constraint=sets.L1Ball(radius), steps=1500, tol=1e-6)
    assert not result.success
    assert "is above tol = 1e-06" in result.message
    assert result.gap > 1e-5


LOSSES = {
    "squared": (river_optim.losses.Squared(), False),
    "huber": (river_optim.losses.Huber(0.3), False),
    "log": (river_optim.losses.Log(), True),
    "squared-hinge": (losses.SquaredHinge(), True),
    "poisson": (river_optim.losses.Poisson(), False),
}


@pytest.mark.parametrize(
    ("which", "where"),
    [
        *(("squared", where) for where in ("l1", "simplex", "hull", "linf", "l2", "group")),
        *((which, "l1") for which in ("huber", "log", "squared-hinge", "poisson")),
        ("log", "hull"),
        ("poisson", "simplex"),
    ],
)
@pytest.mark.parametrize("name", FAMILY)
def test_reaches_the_best_fixed_point(name, which, where):
    loss, binary = LOSSES[which]
    X, y, _ = lasso(n=50, d=6, k=3, seed=6)
    X, y = 0.5 * X, (y > 0 if binary else np.abs(y) if which == "poisson" else y)
    constraint = {
        "l1": sets.L1Ball(1.0),
        "simplex": sets.ProbabilitySimplex(),
        "hull": sets.ConvexHull(np.random.default_rng(1).normal(size=(12, 6))),
        "linf": sets.LInfBall(0.5),
        "l2": sets.L2Ball(1.0),
        "group": sets.GroupL1Ball([[0, 1], [2, 3, 4], [5]], 1.0),
    }[where]
    if name.startswith("randomized") and where in ("linf", "l2"):
        with pytest.raises(ValueError, match="needs a set"):
            FAMILY[name]().minimize(X, y, loss=loss, constraint=constraint)
        return
    if name in ("away", "pairwise", "randomized-away") and where in ("l2", "group"):
        with pytest.raises(ValueError, match="finitely many vertices"):
            FAMILY[name]().minimize(X, y, loss=loss, constraint=constraint)
        return
    tol = 1e-6 if name not in ("fw", "randomized") else 1e-2
    result = FAMILY[name]().minimize(X, y, loss=loss, constraint=constraint, steps=3000, seed=0, tol=tol)
    assert result.success, result.message
    best = best_fixed_point(X, y.astype(float), loss=loss, constraint=constraint, tol=1e-8)
    assert best.lower - 1e-9 <= result.fun <= best.upper + result.gap + 1e-9
    assert result.gap <= tol
    assert constraint.contains(result.x)


@pytest.mark.parametrize("name", [name for name in FAMILY if name != "pairwise"])  # ties, see above
def test_a_loss_of_ones_own_is_searched_by_bisection(name):
    X, y, radius = lasso(n=30, d=8)
    own, known = (
        FAMILY[name]().minimize(X, y, loss=loss, constraint=sets.L1Ball(radius), steps=25, seed=2)
        for loss in (OwnSquared(), None)
    )
    np.testing.assert_allclose(own.x, known.x, rtol=0, atol=1e-7)
    assert own.n_gradients == known.n_gradients


@pytest.mark.parametrize("loss", [river_optim.losses.Absolute(), losses.EpsilonInsensitive(0.1)])
def test_kinks_never_raise_the_objective(loss):
    X, y, radius = lasso(n=50, d=8)
    values = []

    def look(state):
        values.append(float(np.mean([loss(a, b) for a, b in zip(y, X @ state.x, strict=True)])))

    optim.AwayFW().minimize(X, y, loss=loss, constraint=sets.L1Ball(radius), steps=100, callback=look)
    assert (np.diff(values) <= 1e-9).all()
    assert values[-1] < 0.5 * values[0]


# --- counters, stopping, mistakes -------------------------------------------------------------------------------------


def test_counters():
    X, y, radius = lasso()
    n, d = X.shape
    ball = sets.L1Ball(radius)
    for make in (optim.FW, optim.AwayFW, optim.PairwiseFW):
        result = make().minimize(X, y, constraint=ball, steps=30)
        assert (result.nit, result.n_gradients, result.n_exact_gradients, result.n_lmo) == (30, 30 * n, 30, 30)
        assert result.n_coefficients == 30 * d
    result = optim.RandomizedFW(0.3).minimize(X, y, constraint=ball, steps=30, seed=0)
    assert (result.n_gradients, result.n_exact_gradients, result.n_lmo) == (30 * n, 0, 30)
    assert result.n_coefficients == 30 * math.ceil(0.3 * d)
    away = optim.RandomizedAwayFW(0.3)
    result = away.minimize(X, y, constraint=ball, steps=30, seed=0)
    assert (result.n_gradients, result.n_exact_gradients, result.n_lmo) == (30 * n, 0, 30)
    assert 30 * 5 <= result.n_coefficients <= 30 * (5 + len(away.active) + result.n_drop_steps)
    # The stopping rule looks every 2 floor(1 / 0.3) = 6 steps, at a whole gradient each time.
    result = optim.RandomizedFW(0.3).minimize(X, y, constraint=ball, steps=30, seed=0, tol=0.0)
    assert (result.n_exact_gradients, result.n_lmo) == (5, 35)
    assert result.n_coefficients == 30 * 5 + 5 * d


def test_fraction_one_is_the_deterministic_twin():
    X, y, radius = lasso()
    ball = sets.L1Ball(radius)
    for twin, sampled in ((FAMILY["fw"](), optim.RandomizedFW(1.0)), (optim.AwayFW(), optim.RandomizedAwayFW(1.0))):
        one, other = (each.minimize(X, y, constraint=ball, steps=40) for each in (twin, sampled))
        np.testing.assert_array_equal(one.x, other.x)


@pytest.mark.parametrize("name", FAMILY)
def test_it_never_ends_silently(name):
    X, y, radius = lasso()
    ball = sets.L1Ball(radius)
    enough = FAMILY[name]().minimize(X, y, constraint=ball, steps=3000, tol=1e-2, seed=0)
    assert enough.success
    assert enough.message.startswith("the exact gap")
    assert enough.gap <= 1e-2
    short = FAMILY[name]().minimize(X, y, constraint=ball, steps=2, tol=1e-9, seed=0)
    assert not short.success
    assert short.message.startswith("took 2 steps; the exact gap")
    ended = FAMILY[name]().minimize(X, y, constraint=ball, steps=30, seed=0, callback=lambda state: state.nit == 7)
    assert (ended.nit, ended.message) == (7, "the callback ended it after 7 steps")

    def stop(state):
        raise StopIteration

    assert FAMILY[name]().minimize(X, y, constraint=ball, steps=30, callback=stop).nit == 1


@pytest.mark.parametrize("name", FAMILY)
def test_starts(name):
    X, y, radius = lasso()
    ball = sets.L1Ball(radius)
    x0 = np.zeros(15)
    x0[[2, 5]] = 0.3 * radius, -0.5 * radius
    result = FAMILY[name]().minimize(X, y, constraint=ball, x0=x0, steps=4000, tol=2e-2, seed=0)
    assert result.success, result.message
    with pytest.raises(ValueError, match="x0 must be a point of"):
        FAMILY[name]().minimize(X, y, constraint=ball, x0=10 * x0)


def test_bad_parameters_name_themselves():
    for make in (optim.RandomizedFW, optim.RandomizedAwayFW):
        for fraction in (0.0, -0.1, 1.1, math.nan):
            with pytest.raises(ValueError, match=r"fraction must be in \(0, 1\]"):
                make(fraction)
        with pytest.raises(ValueError, match="check must be an integer >= 1"):
            make(0.5, check=0)
    for make in (optim.FW, optim.AwayFW, optim.PairwiseFW):
        with pytest.raises(ValueError, match="memory must be an integer >= 1"):
            make(memory=0)
        with pytest.raises(ValueError, match="steps_per_sample must be an integer >= 1"):
            make(steps_per_sample=1.5)
    X, y, _ = lasso()
    ball = sets.L1Ball(1.0)
    with pytest.raises(ValueError, match=r"X\[3, 2\] is nan"):
        optim.FW().minimize(np.where(np.arange(600).reshape(40, 15) == 47, np.nan, X), y, constraint=ball)
    with pytest.raises(ValueError, match="one target for each of the 40 rows"):
        optim.FW().minimize(X, y[:7], constraint=ball)
    with pytest.raises(ValueError, match="nothing to minimise"):
        optim.FW().minimize(X[:0], y[:0], constraint=ball)
    with pytest.raises(ValueError, match=r"y\[1\] is inf"):
        optim.FW().minimize(X, np.where(np.arange(40) == 1, np.inf, y), constraint=ball)
    with pytest.raises(ValueError, match="X has 15 columns"):
        optim.FW().minimize(X, y, constraint=sets.Box(np.zeros(3), np.ones(3)))
    with pytest.raises(ValueError, match="curvature must be a finite number > 0"):
        CurvatureStep(0.0)


# --- online -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["l1", "simplex", "hull"])
@pytest.mark.parametrize("name", FAMILY)
def test_online_it_is_the_same_algorithm_on_the_last_samples(name, where):
    """A memory that is full: the steps that a sample pays for, from where the iterate stands."""
    X, y, _ = lasso(n=30)
    constraint = SETS[where]
    model = FWRegressor(constraint, FAMILY[name](memory=10, steps_per_sample=20), seed=0, intercept=False)
    model.learn_arrays(X, y)
    assert model.violation < 1e-9
    last = slice(20, 30)
    g = 2.0 * X[last].T @ (X[last] @ model._run.weights - y[last]) / 10
    assert model.exact_gap == pytest.approx(g @ model._run.weights - constraint.lmo(g).dot(g), abs=1e-9)
    assert model.optimizer.n_steps == 600
    assert model.optimizer.n_gradients >= 30 + 20 * sum(min(i + 1, 10) for i in range(30))
    # Of one more sample and a step: literally what the pseudocode does from here.
    if name == "fw":
        w = model._run.weights
        model.optimizer.steps_per_sample = 1
        model.learn_one(dict(enumerate(X[0])), y[0])
        Z, z = np.vstack([X[21:], X[:1]]), np.append(y[21:], y[0])
        g = 2.0 * Z.T @ (Z @ w - z) / 10
        s = constraint.lmo(g).to_dense()
        expected = w + exact_search(Z, z, w, s - w, 1.0) * (s - w)
        np.testing.assert_allclose(model._run.weights, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", FAMILY)
def test_features_that_appear_later_and_a_saved_state(name):
    X, y, _ = lasso(n=60, density=0.5)
    X[:20, 5:] = 0.0
    model = FWRegressor(sets.L1Ball(2.0), FAMILY[name](memory=15, steps_per_sample=3), intercept=True, seed=1)
    for i, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        model.learn_one({j: value for j, value in enumerate(x.tolist()) if value}, label)
        if i == 35:
            copy = codec.loads(codec.dumps(model))
        if i > 35:
            copy.learn_one({j: value for j, value in enumerate(x.tolist()) if value}, label)
            assert copy.weights == model.weights
            assert copy.gap == model.gap
    assert model.violation == 0.0
    assert copy.optimizer.n_gradients == model.optimizer.n_gradients


@pytest.mark.parametrize("name", ["away", "pairwise"])
def test_a_box_of_features_that_appear_later(name):
    model = FWRegressor(sets.Box(0.5, 2.0), FAMILY[name](memory=20, steps_per_sample=2), intercept=False)
    X, y, _ = lasso(n=60, d=4, k=2)
    for i, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        model.learn_one(dict(list(enumerate(x.tolist()))[: 2 + (i > 20)]), label)
        assert model.violation == 0.0


@pytest.mark.parametrize("name", ["fw", "away", "pairwise"])
def test_bounds_of_features_that_no_sample_has_shown_yet(name):
    lower, upper = np.array([-1.0, 0.0, 0.5, -2.0]), np.array([1.0, 0.4, 1.5, -0.5])
    model = FWRegressor(sets.Box(lower, upper), FAMILY[name](memory=20, steps_per_sample=2), intercept=False)
    X, y, _ = lasso(n=40, d=4, k=2)
    for i, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        model.learn_one(dict(list(enumerate(x.tolist()))[: 2 if i < 15 else 4]), label)
        assert model.violation == 0.0
    with pytest.raises(ValueError, match="has 4 coordinates"):
        model.learn_one({9: 1.0}, 0.0)


@pytest.mark.parametrize("name", ["away", "pairwise"])
def test_a_bad_saved_state_is_refused(name):
    model = FWRegressor(sets.L1Ball(2.0), FAMILY[name](memory=8), intercept=False)
    model.learn_one({"a": 1.0, "b": -1.0}, 1.0)
    run = model._run
    state = run.__getstate__()
    kinds, sizes, indices, values, weights = state["active"]
    for bad in (
        (kinds, sizes, indices + 7, values, weights),
        (kinds, sizes, indices, values, -weights),
        (kinds, sizes + 1, indices, values, weights),
        (kinds + 3, sizes, indices, values, weights),
        tuple(part[:0] for part in state["active"]),
    ):
        loaded = type(run).__new__(type(run))
        if len(bad[0]):
            with pytest.raises(ValueError, match="inconsistent"):
                loaded.__setstate__({**state, "active": bad})
        else:
            loaded.__setstate__({**state, "active": bad})
            with pytest.raises(CheckpointError, match=r"Run\.active"):
                loaded._check_loaded()


@pytest.mark.parametrize("name", FAMILY)
def test_a_refused_sample_leaves_no_trace(name):
    X, y, _ = lasso(n=20)
    model = FWRegressor(sets.L1Ball(2.0), FAMILY[name](memory=8), seed=1, intercept=False)
    other = FWRegressor(sets.L1Ball(2.0), FAMILY[name](memory=8), seed=1, intercept=False)
    for x, label in zip(X, y.tolist(), strict=True):
        sample = dict(enumerate(x.tolist()))
        for bad in ({**sample, "new": math.nan}, {**sample, "other": math.inf}):
            with pytest.raises(ValueError, match=r"new|other"):
                model.learn_one(bad, label)
        with pytest.raises(ValueError, match="target"):
            model.learn_one({**sample, "newer": 1.0}, math.nan)
        model.learn_one(sample, label)
        other.learn_one(sample, label)
        assert model.weights == other.weights


def test_order_of_appearance_does_not_show():
    """Ties go to the feature of lowest rank."""
    samples = [({"a": 1.0, "b": 1.0}, 1.0), ({"b": 1.0, "a": 1.0}, 2.0)]
    weights = []
    for turn in (1, -1):
        model = FWRegressor(sets.L1Ball(1.0), optim.FW(schedule=Harmonic()), intercept=False)
        for x, y in samples:
            model.learn_one(dict(list(x.items())[::turn]), y)
        weights.append(model.weights)
    assert weights[0] == weights[1]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [FWRegressor, FWClassifier])
@pytest.mark.parametrize("name", FAMILY)
def test_rivers_suite(name, estimator):
    model = estimator(sets.L1Ball(5.0), FAMILY[name](memory=20), seed=1, intercept=False)
    for check in checks.yield_checks(model):
        # river lets memory grow for some seconds; the family holds it in one way.
        if check.__name__ != "check_bounded_memory_growth" or (name, estimator) == ("away", FWRegressor):
            check(model.clone())


def test_rounding_does_not_add_up_over_many_steps():
    X, y, radius = lasso(seed=3)
    run = optim.AwayFW(schedule=Harmonic())
    result = run.minimize(X, y, constraint=sets.L1Ball(radius), steps=2500)
    mixture = sum(weight * atom.to_dense() for atom, weight in run.active.items())
    np.testing.assert_allclose(mixture, result.x, rtol=0, atol=1e-12)
    assert result.fun == pytest.approx(np.mean((X @ result.x - y) ** 2), abs=1e-12)
