"""What holds for every set: its oracle, its membership, its projection, and that it is a value."""

import copy
import functools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize
from support.sets_catalogue import CASES, PERMUTATIONS, SIGNS, Case, arrays, degenerate_directions

from fwonline import sets

each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_polytope = pytest.mark.parametrize("case", [c for c in CASES if c.halfspaces], ids=str)
each_projection = pytest.mark.parametrize("case", [c for c in CASES if c.set.can_project], ids=str)
PUBLIC_SETS = [
    cls
    for cls in map(vars(sets).get, sets.__all__)
    if isinstance(cls, type) and issubclass(cls, sets.ConvexSet) and cls is not sets.ConvexSet
]
LOW_RANK = sets.RankOneAtom | sets.ProjectorAtom
# The same few examples in every run of the test command, many where they are drawn anew.
few = settings(max_examples=12 if settings().derandomize else 100, deadline=None)


def linear_program(case: Case, g: np.ndarray) -> float:
    a, b, c, e = case.halfspaces()
    result = optimize.linprog(g.ravel(), a, b, c, e, bounds=(None, None))
    assert result.success, result.message
    return result.fun


@functools.cache
def random_points(case: Case, seed: int, count: int) -> np.ndarray:
    """Points of the set: random averages of atoms in random directions, and atoms themselves."""
    rng = np.random.default_rng(seed)
    atoms = np.array([case.set.lmo(rng.normal(size=case.shape)).to_dense() for _ in range(count)])
    weights = rng.dirichlet(np.full(count, 0.3), size=count)
    return np.concatenate([np.tensordot(weights, atoms, 1), atoms])


# The oracle


@each_polytope
def test_lmo_attains_the_minimum_of_the_linear_program(case):
    rng = np.random.default_rng(0)
    for g in [
        *degenerate_directions(case.shape),
        *rng.normal(size=(15, *case.shape)),
        *rng.laplace(size=(5, *case.shape)) ** 3,
    ]:
        assert case.set.lmo(g).dot(g) == pytest.approx(linear_program(case, g), rel=1e-8, abs=1e-8)


@each_polytope
def test_lmo_returns_a_vertex(case):
    """A point of a polytope is a vertex when the facets it lies on have full rank."""
    a, b, c, _ = case.halfspaces()
    rng = np.random.default_rng(1)
    for g in [*degenerate_directions(case.shape), *rng.normal(size=(10, *case.shape))]:
        s = case.set.lmo(g).to_dense().ravel()
        tight = np.vstack([a[np.abs(a @ s - b) < 1e-9], c])
        assert np.linalg.matrix_rank(tight) == s.size


@each_case
@few
@given(data=st.data())
def test_lmo_beats_every_other_point_of_the_set(case, data):
    g = data.draw(arrays(case.shape))
    atom = case.set.lmo(g)
    assert case.set.contains(atom.to_dense(), tol=1e-12)
    others = random_points(case, seed=2, count=8)
    reach = np.abs(others).sum() * (np.abs(g).max() + 1e-300)
    assert atom.dot(g) <= np.min(np.tensordot(others, g, g.ndim)) + 1e-13 * reach


@each_case
@few
@given(data=st.data(), exponent=st.sampled_from([-900, -30, 40, 900]))
def test_lmo_depends_on_the_direction_not_on_its_length(case, data, exponent):
    g = data.draw(arrays(case.shape, magnitude=1e6).map(lambda g: np.where(np.abs(g) < 1e-6, 0.0, g)))
    scaled = np.ldexp(g, exponent)
    atom, expected = case.set.lmo(scaled), case.set.lmo(g)
    # Where many eigenvectors do as well, rounding picks one of them: the value is what must agree.
    assert atom.dot(g) == pytest.approx(expected.dot(g), rel=1e-12, abs=1e-13 * np.abs(g).max())
    if not any(isinstance(part, LOW_RANK) for part in getattr(atom, "atoms", [atom])):
        np.testing.assert_allclose(atom.to_dense(), expected.to_dense(), rtol=1e-12)


@each_case
@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_lmo_of_huge_and_tiny_directions(case, size):
    g = size * np.random.default_rng(3).uniform(-1, 1, case.shape)
    atom = case.set.lmo(g)
    assert case.set.contains(atom.to_dense(), tol=1e-12)
    assert math.isfinite(atom.dot(g))


@pytest.mark.parametrize("case", [c for c in CASES if SIGNS in c.symmetric], ids=str)
@few
@given(data=st.data())
def test_sign_symmetry(case, data):
    g = data.draw(arrays(case.shape).filter(lambda g: g.all()))
    signs = data.draw(arrays(case.shape).map(lambda a: np.where(a < 0, -1.0, 1.0)))
    np.testing.assert_array_equal(case.set.lmo(signs * g).to_dense(), signs * case.set.lmo(g).to_dense())
    assert case.set.norm(signs * g) == pytest.approx(case.set.norm(g), rel=1e-14)
    if case.set.can_project:
        np.testing.assert_allclose(case.set.project(signs * g), signs * case.set.project(g), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", [c for c in CASES if PERMUTATIONS in c.symmetric], ids=str)
@few
@given(data=st.data())
def test_permutation_symmetry(case, data):
    n = math.prod(case.shape)
    values = st.lists(st.floats(0.5, 100), min_size=n, max_size=n, unique_by=lambda v: round(v, 6))
    g = np.array(data.draw(values))
    order = np.array(data.draw(st.permutations(range(n))))
    for apply in (lambda v: case.set.lmo(v).to_dense(), *([case.set.project] if case.set.can_project else [])):
        original, permuted = (np.asarray(apply(v.reshape(case.shape))).ravel() for v in (g, g[order]))
        np.testing.assert_allclose(permuted, original[order], rtol=1e-10, atol=1e-12)


@each_case
@few
@given(data=st.data())
def test_atom_contract(case, data):
    g = data.draw(arrays(case.shape))
    atom = case.set.lmo(g)
    dense = atom.to_dense()
    assert atom.shape == case.shape == dense.shape
    assert atom.size == dense.size
    if not isinstance(atom, LOW_RANK | sets.ProductAtom):
        assert np.count_nonzero(dense) <= atom.nnz <= atom.size
    other = data.draw(arrays(case.shape))
    assert isinstance(atom.dot(other), float)
    assert atom.dot(other) == pytest.approx(float(np.vdot(dense, other)), rel=1e-10, abs=1e-9)
    out = other.copy(order="F")
    atom.add_to(out, -0.5)
    np.testing.assert_allclose(out, other - 0.5 * dense, rtol=1e-12, atol=1e-12)
    again = case.set.lmo(g.copy())
    assert again == atom
    assert hash(again) == hash(atom)
    assert pickle.loads(pickle.dumps(atom)) == atom


# Membership


@each_case
@few
@given(data=st.data())
def test_violation_is_zero_exactly_where_the_set_contains_the_point(case, data):
    x = data.draw(arrays(case.shape, magnitude=10.0))
    violation = case.set.violation(x)
    assert isinstance(violation, float)
    assert violation >= 0
    assert case.set.contains(x, tol=0.0) == (violation == 0)
    if case.halfspaces:
        a, b, c, e = case.halfspaces()
        excess = max(np.max(a @ x.ravel() - b, initial=0.0), np.max(np.abs(c @ x.ravel() - e), initial=0.0))
        assert case.set.contains(x, tol=1e-9) == (excess <= 1e-8) or 1e-12 < excess < 1e-6


@each_case
def test_points_of_the_set_are_contained(case):
    for x in random_points(case, seed=4, count=20):
        assert case.set.contains(x, tol=1e-12)
        assert case.set.violation(x) <= 1e-12 * max(1.0, np.abs(x).max())


@each_case
def test_points_that_are_not_finite_are_outside(case):
    for bad in (np.nan, np.inf, -np.inf):
        x = case.set.initial_point(case.shape)
        x.flat[-1] = bad
        assert case.set.violation(x) == math.inf
        assert not case.set.contains(x)


@each_case
def test_learning_starts_inside(case):
    start = case.set.initial_point(case.shape)
    assert start.shape == case.shape
    assert case.set.contains(start, tol=1e-12)
    origin = np.zeros(case.shape)
    assert not case.set.contains(origin) or np.array_equal(start, origin)


@each_case
def test_diameter_is_the_largest_distance(case):
    diameter = case.set.diameter(case.shape)
    corners = [case.set.lmo(g).to_dense().ravel() for g in np.random.default_rng(5).normal(size=(300, *case.shape))]
    corners += [case.set.lmo(g).to_dense().ravel() for g in degenerate_directions(case.shape)]
    farthest = max(np.linalg.norm(p - q) for p in corners for q in corners)
    assert farthest <= diameter * (1 + 1e-12) + 1e-13
    assert farthest >= 0.9 * diameter


# Projection


@each_projection
@few
@given(data=st.data())
def test_projection_is_the_nearest_point(case, data):
    """p is the projection of x exactly where no atom lies further along x - p than p does."""
    x = data.draw(arrays(case.shape, magnitude=100.0))
    p = case.set.project(x)
    assert case.set.contains(p, tol=1e-12)
    away = x - p
    scale = (1 + np.abs(x).max()) * (1 + case.set.diameter(case.shape))
    assert case.set.lmo(-away).dot(away) - np.vdot(p, away) <= 1e-11 * scale
    assert case.set.violation(x) == pytest.approx(np.linalg.norm(away), rel=1e-9, abs=1e-12 * scale)


@each_projection
@few
@given(data=st.data())
def test_projection_is_idempotent_and_nonexpansive(case, data):
    x, y = data.draw(arrays(case.shape)), data.draw(arrays(case.shape))
    p, q = case.set.project(x), case.set.project(y)
    np.testing.assert_allclose(case.set.project(p), p, rtol=1e-12, atol=1e-12)
    assert np.linalg.norm(p - q) <= np.linalg.norm(x - y) + 1e-10


@pytest.mark.parametrize("case", [c for c in CASES if c.halfspaces and c.set.can_project], ids=str)
def test_projection_agrees_with_a_quadratic_solver(case):
    a, b, c, e = case.halfspaces()
    constraints = [{"type": "ineq", "fun": lambda p: b - a @ p, "jac": lambda p: -a}]
    if c.size:
        constraints.append({"type": "eq", "fun": lambda p: c @ p - e, "jac": lambda p: c})
    for x in np.random.default_rng(6).normal(scale=3.0, size=(6, *case.shape)):
        solved = optimize.minimize(
            lambda p, x=x: 0.5 * np.sum((p - x.ravel()) ** 2),
            case.set.initial_point(case.shape).ravel(),
            jac=lambda p, x=x: p - x.ravel(),
            method="SLSQP",
            constraints=constraints,
            options={"ftol": 1e-14, "maxiter": 500},
        )
        np.testing.assert_allclose(case.set.project(x).ravel(), solved.x, atol=1e-5)


@each_projection
@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_projection_of_huge_and_tiny_points(case, size):
    x = size * np.random.default_rng(7).uniform(-1, 1, case.shape)
    assert case.set.contains(case.set.project(x), tol=1e-12)
    assert math.isfinite(case.set.violation(x))


def spread(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    """Arrays whose entries lie anywhere from 1e-300 to 1e300, side by side."""
    entry = st.builds(lambda sign, power: sign * 10.0**power, st.sampled_from([-1.0, 0.0, 1.0]), st.floats(-300, 300))
    return hnp.arrays(float, shape, elements=st.one_of(entry, st.sampled_from([1e300, -1e300, 1e-300, -1e-300])))


@each_case
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_entries_of_any_size_side_by_side(case, data):
    """In a direction and in a point; nothing overflows, and what is asked for holds relative to the largest entry."""
    x = data.draw(spread(case.shape))
    unit = float(np.abs(x).max()) or 1.0
    others = random_points(case, seed=2, count=8)
    reach = 1.0 + float(np.abs(others).max())
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        atom = case.set.lmo(x)
        assert case.set.contains(atom.to_dense(), tol=1e-11)
        assert atom.dot(x) / unit <= np.min(np.tensordot(others, x / unit, x.ndim)) + 1e-11 * reach * x.size
        violation = case.set.violation(x)
        assert not math.isnan(violation)
        assert case.set.contains(x, tol=0.0) == (violation == 0.0)
        if case.set.can_project:
            p = case.set.project(x)
            assert case.set.contains(p, tol=1e-11)
            away = (x - p) / max(unit, 1.0)
            reach += float(np.abs(p).max())
            assert case.set.lmo(-away).dot(away) - np.vdot(p, away) <= 1e-11 * reach * x.size


@pytest.mark.parametrize("case", [c for c in CASES if "radius" in c.set._parameters()], ids=str)
@pytest.mark.parametrize("radius", [1e300, 1e-300])
def test_a_radius_of_any_size(case, radius):
    parameters = case.set._parameters()
    if parameters.get("center") is not None:
        parameters["center"] = [0.0] * math.prod(case.shape)
    unit, scaled = (type(case.set)(**{**parameters, "radius": r}) for r in (1.0, radius))
    for x in 3.0 * np.random.default_rng(11).normal(size=(3, *case.shape)):
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            np.testing.assert_allclose(scaled.lmo(x).to_dense() / radius, unit.lmo(x).to_dense(), rtol=0, atol=1e-11)
            assert scaled.violation(radius * x) / radius == pytest.approx(unit.violation(x), abs=1e-11)
            for far in (1e300, 1e-300):
                assert not math.isnan(scaled.violation(far * x))
                if case.set.can_project:
                    assert scaled.contains(scaled.project(far * x), tol=1e-11)
            if case.set.can_project:
                np.testing.assert_allclose(scaled.project(radius * x) / radius, unit.project(x), rtol=0, atol=1e-11)


# Input


@each_case
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_directions_that_are_not_finite_are_refused(case, bad):
    g = np.ones(case.shape)
    g.flat[-1] = bad
    with pytest.raises(ValueError, match=rf"direction must be finite, its entry {g.size - 1} is {bad}"):
        case.set.lmo(g)


@each_case
def test_directions_without_entries_are_refused(case):
    for empty in ([], 1.0):
        with pytest.raises(ValueError, match="direction"):
            case.set.lmo(empty)


@pytest.mark.parametrize("case", [c for c in CASES if c.set.shape], ids=str)
def test_a_fixed_shape_is_kept(case):
    wrong = tuple(n + 1 for n in case.shape)
    assert case.set.shape == case.shape
    for ask in (case.set.lmo, case.set.violation):
        with pytest.raises(ValueError, match="shape"):
            ask(np.ones(wrong))
    for ask in (case.set.diameter, case.set.initial_point):
        with pytest.raises(ValueError, match="shape"):
            ask(wrong)
    assert case.set.diameter() == case.set.diameter(case.shape)


@each_case
def test_arguments_are_left_alone(case):
    g = np.random.default_rng(8).normal(size=case.shape)
    kept = g.copy()
    results = [case.set.lmo(g).to_dense(), *([case.set.project(g)] if case.set.can_project else [])]
    case.set.violation(g)
    for result in results:
        np.add(result, 1.0, out=result)
    np.testing.assert_array_equal(g, kept)
    inside = random_points(case, seed=9, count=2)[0]
    if case.set.can_project:
        assert not np.shares_memory(case.set.project(inside), inside)


@each_case
def test_the_tolerance_is_a_number_from_zero(case):
    for bad in (-1.0, math.nan):
        with pytest.raises(ValueError, match="tol must be"):
            case.set.contains(np.zeros(case.shape), tol=bad)


# Values


@each_case
def test_copies_are_equal_and_independent(case):
    for twin in (case.set.clone(), copy.deepcopy(case.set), pickle.loads(pickle.dumps(case.set))):
        assert twin is not case.set
        assert twin == case.set
        assert hash(twin) == hash(case.set)
        assert repr(twin) == repr(case.set) == str(case.set)
        g = np.random.default_rng(10).normal(size=case.shape)
        assert twin.lmo(g) == case.set.lmo(g)


@each_case
def test_the_representation_is_a_constructor_call(case):
    if "<" in repr(case.set):
        assert "array of shape" in repr(case.set)
    else:
        assert eval(repr(case.set), {**vars(sets), "inf": math.inf}) == case.set


@pytest.mark.parametrize("cls", PUBLIC_SETS)
def test_every_set_has_cases_and_parameters_for_checks(cls):
    assert any(type(case.set) is cls for case in CASES)
    examples = list(cls._unit_test_params())
    assert examples
    for params in examples:
        built = cls(**params)
        assert all(getattr(built, name) is value for name, value in params.items())
        assert built.clone() == built


def test_different_sets_differ():
    values = [case.set for case in CASES]
    assert len(set(values)) == len({repr(value) for value in values})
    assert sets.L1Ball(1.0) != sets.L2Ball(1.0)
    assert sets.L1Ball(1) == sets.L1Ball(1.0)
    assert sets.L1Ball(1.0) != "L1Ball(radius=1.0)"
