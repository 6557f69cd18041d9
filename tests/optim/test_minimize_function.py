"""FW, AwayFW and PairwiseFW on functions that are no sums, against the literal algorithms."""

import numpy as np
import pytest

from fwonline import optim, sets
from fwonline.optim.problem.function import Search, SmoothFunction, search
from fwonline.optim.schedules import Harmonic, LineSearch, ShortStep

FAMILY = {"fw": optim.FW, "away": optim.AwayFW, "pairwise": optim.PairwiseFW}
EACH = pytest.mark.parametrize("name", FAMILY)
RNG = np.random.default_rng(0)
FACTOR = RNG.normal(size=(8, 8))
HESSIAN = FACTOR @ FACTOR.T / 8 + 0.1 * np.eye(8)
CENTER = RNG.normal(size=8)
LARGEST = float(np.linalg.eigvalsh(HESSIAN)[-1])
DESIGN = RNG.normal(size=(20, 4))


def quadratic(x):
    away = x.ravel() - CENTER
    return 0.5 * float(away @ HESSIAN @ away)


def slope(x):
    return (HESSIAN @ (x.ravel() - CENTER)).reshape(x.shape)


def information(x):
    return DESIGN.T @ (x[:, None] * DESIGN)


def log_det(x):
    sign, value = np.linalg.slogdet(information(x))
    return -float(value) if sign > 0 else np.inf


def log_det_slope(x):
    return -np.einsum("ij,jk,ik->i", DESIGN, np.linalg.inv(information(x)), DESIGN)


def literal(name, constraint, x, schedule, count):
    """The algorithms of Frank and Wolfe, and of Lacoste-Julien and Jaggi, with weights of dense atoms in a list."""
    points, atoms = [x], [[x, 1.0]]
    for t in range(count):
        g = slope(x)
        s = constraint.lmo(g).to_dense()
        towards = float(np.vdot(g, x - s))
        away = max(atoms, key=lambda atom: float(np.vdot(g, atom[0])))
        v, weight = away
        if name == "pairwise":
            direction, limit = s - v, weight
        elif name == "away" and float(np.vdot(g, v - x)) > towards:
            direction, limit = x - v, weight / (1.0 - weight) if len(atoms) > 1 else 0.0
        else:
            direction, limit = s - x, 1.0
        descent = -float(np.vdot(g, direction))
        gamma = min(schedule.gamma(t, descent, float(np.vdot(direction, direction))), limit) if descent > 0 else 0.0
        x = x + gamma * direction
        points.append(x)
        if name == "pairwise":
            away[1] -= gamma
            add(atoms, s, gamma)
        elif limit == 1.0 and np.array_equal(direction, points[-2] * 0 + s - points[-2]):
            for atom in atoms:
                atom[1] *= 1.0 - gamma
            add(atoms, s, gamma)
        else:
            for atom in atoms:
                atom[1] *= 1.0 + gamma
            away[1] -= gamma
        atoms = [atom for atom in atoms if atom[1] > 1e-14]
    return points


def add(atoms, s, gamma):
    for atom in atoms:
        if np.array_equal(atom[0], s):
            atom[1] += gamma
            return
    atoms.append([s, gamma])


@pytest.mark.parametrize("schedule", [ShortStep(LARGEST), Harmonic()], ids=str)
@pytest.mark.parametrize(
    ("constraint", "start"),
    [
        (sets.L1Ball(4.0), np.zeros(8)),
        (sets.ProbabilitySimplex(), np.eye(8)[3]),
        (sets.L1Ball(4.0), np.zeros((2, 4))),
        (sets.ConvexHull(np.random.default_rng(1).normal(size=(6, 8))), None),
    ],
    ids=str,
)
@EACH
def test_steps_are_those_of_the_pseudocode(name, constraint, start, schedule):
    x0 = constraint.initial_point() if start is None else start
    points = []
    optimizer = FAMILY[name](schedule=schedule)
    result = optimizer.minimize_function(
        quadratic, slope, constraint, x0, steps=30, callback=lambda state: points.append(state.x)
    )
    expected = literal(name, constraint, x0, schedule, 30)
    assert result.x.shape == x0.shape
    for x, at in zip(points, expected[1:], strict=True):
        np.testing.assert_allclose(x, at, atol=1e-10)
    assert result.n_gradients == 30
    assert result.nit == 30
    assert result.n_lmo == 30


@pytest.mark.parametrize(
    "constraint",
    [sets.L1Ball(1.0), sets.L1Ball(30.0), sets.L2Ball(0.5), sets.Box(-0.1, 0.3), sets.KSparseBall(2, 1.0)],
    ids=str,
)
@EACH
def test_the_bracket_holds(name, constraint):
    """fun - gap <= min <= fun at every stop, with the minimum of a run to 1e-11."""
    x0 = np.zeros(8)
    if name != "fw" and isinstance(constraint, sets.L2Ball | sets.KSparseBall):
        with pytest.raises(ValueError, match="finitely many vertices"):
            FAMILY[name]().minimize_function(quadratic, slope, constraint, x0)
        return
    best = optim.FW() if isinstance(constraint, sets.L2Ball | sets.KSparseBall) else optim.PairwiseFW()
    least = best.minimize_function(quadratic, slope, constraint, x0, steps=3000, tol=1e-11)
    for steps in (1, 5, 20):
        result = FAMILY[name]().minimize_function(quadratic, slope, constraint, x0, steps=steps)
        assert result.fun == quadratic(result.x)
        assert constraint.contains(result.x)
        assert result.fun - result.gap <= least.fun
        assert least.fun - least.gap <= result.fun


@pytest.mark.parametrize("constraint", [sets.NuclearBall(1.0), sets.Spectraplex(1.0), sets.Birkhoff()], ids=str)
def test_matrices(constraint):
    target = np.random.default_rng(2).normal(size=(5, 5))
    result = optim.FW().minimize_function(
        lambda x: 0.5 * float(np.sum((x - target) ** 2)),
        lambda x: x - target,
        constraint,
        constraint.initial_point((5, 5)),
        steps=3000,
        tol=1e-3,
    )
    assert result.success
    if constraint.can_project:
        nearest = 0.5 * float(np.sum((constraint.project(target) - target) ** 2))
        assert result.fun - result.gap <= nearest <= result.fun + 1e-12


@pytest.mark.parametrize("name", ["away", "pairwise"])
def test_a_domain_that_ends_within_the_set(name):
    """log det is infinite at every vertex of the simplex: each search begins beyond its domain."""
    x0 = np.full(20, 0.05)
    result = FAMILY[name]().minimize_function(log_det, log_det_slope, sets.ProbabilitySimplex(), x0, tol=1e-9)
    assert result.success
    assert result.gap <= 2e-9
    # Kiefer and Wolfowitz: at the optimum no point's variance is above the number of parameters.
    assert -log_det_slope(result.x).min() == pytest.approx(4.0, abs=1e-6)


def test_searches_find_the_zero_of_the_slope():
    seen = []
    optim.FW().minimize_function(
        quadratic, slope, sets.L2Ball(3.0), np.ones(8), steps=20, callback=lambda state: seen.append(state.x)
    )
    for x, nxt in zip([np.ones(8), *seen], seen, strict=False):
        direction = nxt - x
        assert abs(slope(nxt) @ direction) <= 0.0101 * abs(slope(x) @ direction) or (slope(nxt) @ direction) < 0


@EACH
def test_what_is_not_convex_never_rises(name):
    values = []
    FAMILY[name]().minimize_function(
        lambda x: float(np.sum(np.cos(5.0 * x))),
        lambda x: -5.0 * np.sin(5.0 * x),
        sets.Box(-2.0, 2.0),
        np.linspace(-1.0, 1.0, 6),
        steps=60,
        callback=lambda state: values.append(float(np.sum(np.cos(5.0 * state.x)))),
    )
    assert np.all(np.diff(values) <= 1e-12)
    assert values[-1] < -4.0


@EACH
def test_the_same_as_on_the_sum(name):
    X = np.random.default_rng(3).normal(size=(50, 8))
    y = X @ CENTER
    constraint = sets.L1Ball(2.0)
    options = {"steps": 400, "tol": 1e-6}
    of_sum = FAMILY[name](schedule=LineSearch()).minimize(X, y, constraint=constraint, **options)
    result = FAMILY[name]().minimize_function(
        lambda w: float(np.mean((X @ w - y) ** 2)),
        lambda w: 2 * X.T @ (X @ w - y) / 50,
        constraint,
        np.zeros(8),
        **options,
    )
    assert result.fun == pytest.approx(of_sum.fun, abs=1e-4)
    assert result.success is of_sum.success


def test_value_and_gradient_of_one_function():
    calls = []

    def both(x):
        calls.append(x)
        answer = quadratic(x), slope(x)
        x[:] = np.nan  # what it is given is a copy
        return answer

    together = optim.AwayFW().minimize_function(both, True, sets.L1Ball(4.0), np.zeros(8), tol=1e-8)
    apart = optim.AwayFW().minimize_function(quadratic, slope, sets.L1Ball(4.0), np.zeros(8), tol=1e-8)
    np.testing.assert_array_equal(together.x, apart.x)
    assert together.success
    assert len(calls) <= together.n_gradients + 2


def test_a_callback_ends_it_and_the_optimizer_counts():
    fw = optim.FW()
    result = fw.minimize_function(
        quadratic, slope, sets.L1Ball(4.0), np.zeros(8), callback=lambda state: state.nit == 3, tol=1e-12
    )
    assert result.message == "the callback ended it after 3 steps"
    assert (fw.n_steps, fw.n_lmo) == (3, 4)  # and the one that certifies
    assert fw.is_started


def test_a_start_at_the_minimum_ends_at_once():
    result = optim.FW().minimize_function(quadratic, slope, sets.L2Ball(100.0), CENTER, tol=1e-12)
    assert (result.nit, result.fun, result.success) == (0, 0.0, True)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"x0": np.full(8, 9.0)}, ValueError, r"x0 must be a point of L1Ball.*initial_point\(\(8,\)\) is one"),
        ({"grad": lambda x: 1.0}, ValueError, r"the gradient must have the shape of x, \(8,\), got \(\)"),
        ({"grad": lambda x: np.full(8, np.nan)}, ValueError, "the gradient is not finite after 0 steps: x0 must lie"),
        ({"grad": None}, TypeError, "grad must be a function of x, or True"),
        ({"f": 3.0}, TypeError, "f must be a function of x"),
        ({"grad": True}, TypeError, "with grad=True f must return its value and its gradient, got"),
        ({"steps": 0}, ValueError, "steps"),
    ],
)
def test_mistakes_are_named(changed, error, message):
    given = {"f": quadratic, "grad": slope, "constraint": sets.L1Ball(1.0), "x0": np.zeros(8)} | changed
    with pytest.raises(error, match=message):
        optim.FW().minimize_function(**given)


@pytest.mark.parametrize("optimizer", [optim.SFW(), optim.RandomizedFW(), optim.StochasticPairwiseFW(), optim.SVRF()])
def test_others_say_who_can(optimizer):
    with pytest.raises(TypeError, match="minimize_function of FW, AwayFW or PairwiseFW"):
        optimizer.minimize_function(quadratic, slope, sets.L1Ball(1.0), np.zeros(8))
    assert not optimizer.is_started


def test_composite_optimizers_take_an_objective():
    with pytest.raises(TypeError, match=r"minimize_composite\(optim.Objective\(gradient=grad, value=f\)"):
        optim.HCGM().minimize_function(quadratic, slope, sets.L1Ball(1.0), np.zeros(8))


@pytest.mark.parametrize("bend", [0.0, 1.0, 2.65e209])
def test_a_search_along_a_slope_of_rounding_alone_stays(bend):
    """At the best point -<g, d> is what sums are off by; a point beyond it may be all that there is."""
    x, direction = np.full(3, 0.1), np.array([3e-8, -1e-7, 2e-8])
    function = SmoothFunction(lambda x: float(direction @ x) + 2.0, lambda x: direction.copy())
    start = Search(0.0, x, function.gradient(x), function.value(x), bend)
    found = search(function, start, direction, np.spacing(1.0), 1.0)
    assert found.gamma == 0.0
    assert found.x is x
    assert found.curvature == bend
