"""Spectral sets against dense decompositions, on every kind of direction they take."""

import math
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from fwonline import sets
from fwonline.sets import _lanczos

SYMMETRIC = [sets.Spectraplex(2.0), sets.Spectrahedron(2.0), sets.Fantope(3)]


def minimum(constraint, g):
    """The exact minimum of <s, g> over the set."""
    if isinstance(constraint, sets.NuclearBall):
        return -constraint.radius * np.linalg.svd(g, compute_uv=False)[0]
    values = np.linalg.eigvalsh(0.5 * (g + g.T))
    if isinstance(constraint, sets.Fantope):
        return values[: constraint.k].sum()
    lowest = constraint.trace * values[0]
    return min(lowest, 0.0) if isinstance(constraint, sets.Spectrahedron) else lowest


def symmetric(rng, n):
    g = rng.normal(size=(n, n))
    return g + g.T


FORMS = [np.asarray, sparse.csr_matrix, sparse.coo_array, aslinearoperator]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [5, 64, 65, 150])
@pytest.mark.parametrize("constraint", SYMMETRIC, ids=str)
def test_symmetric_sets_against_eigh(constraint, n, form):
    rng = np.random.default_rng(n)
    for g in (symmetric(rng, n), symmetric(rng, n) + 100 * np.eye(n), np.diag(rng.normal(size=n))):
        atom = constraint.lmo(form(g))
        assert atom.dot(g) == pytest.approx(minimum(constraint, g), rel=1e-7, abs=1e-7 * np.linalg.norm(g, 2))
        assert atom.dot(form(g)) == pytest.approx(atom.dot(g), rel=1e-9, abs=1e-9)
        assert constraint.contains(atom.to_dense(), tol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(3, 5), (80, 3), (3, 80), (100, 90), (90, 140)])
def test_nuclear_ball_against_svd(shape, form):
    ball = sets.NuclearBall(3.0)
    g = np.random.default_rng(1).normal(size=shape)
    atom = ball.lmo(form(g))
    assert atom.shape == shape
    assert atom.dot(g) == pytest.approx(minimum(ball, g), rel=1e-7)
    assert ball.norm(atom.to_dense()) == pytest.approx(3.0, rel=1e-12)


@pytest.mark.parametrize("constraint", [sets.NuclearBall(2.0), *SYMMETRIC], ids=str)
@pytest.mark.parametrize("n", [4, 100])
@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_huge_and_tiny_directions(constraint, n, size):
    g = np.random.default_rng(2).uniform(-1, 1, size=(n, n))
    for form in (np.asarray, sparse.csr_matrix):
        atom = constraint.lmo(form(size * g))
        assert atom.dot(g) == pytest.approx(minimum(constraint, g), rel=1e-7, abs=1e-6)


@pytest.mark.parametrize("constraint", [sets.NuclearBall(2.0), *SYMMETRIC], ids=str)
@pytest.mark.parametrize("n", [4, 100])
def test_directions_of_zeros_get_an_atom(constraint, n):
    for form in FORMS:
        atom = constraint.lmo(form(np.zeros((n, n))))
        assert constraint.contains(atom.to_dense(), tol=1e-12)
        assert atom.dot(np.zeros((n, n))) == 0.0


@pytest.mark.parametrize("n", [4, 100])
def test_only_the_symmetric_part_counts(n):
    rng = np.random.default_rng(3)
    g, twist = symmetric(rng, n), rng.normal(size=(n, n))
    for constraint in SYMMETRIC:
        for form in (np.asarray, sparse.csr_matrix):
            atom = constraint.lmo(form(g + twist - twist.T))
            assert atom.dot(g) == pytest.approx(minimum(constraint, g), rel=1e-7)


def test_the_fantope_of_one_is_the_spectraplex():
    rng = np.random.default_rng(4)
    for n in (1, 3, 90):
        g = symmetric(rng, n)
        np.testing.assert_allclose(sets.Fantope(1).lmo(g).to_dense(), sets.Spectraplex().lmo(g).to_dense(), atol=1e-6)
        np.testing.assert_allclose(sets.Fantope(1).project(g), sets.Spectraplex(1.0).project(g), atol=1e-12)
        assert sets.Fantope(1).diameter((n, n)) == pytest.approx(sets.Spectraplex(1.0).diameter((n, n)))


def test_the_nuclear_ball_of_diagonal_matrices_is_the_l1_ball():
    for x in np.random.default_rng(5).normal(size=(5, 4)) * 3:
        ball, twin = sets.NuclearBall(2.0), sets.L1Ball(2.0)
        np.testing.assert_allclose(ball.project(np.diag(x)), np.diag(twin.project(x)), atol=1e-13)
        np.testing.assert_allclose(ball.lmo(np.diag(x)).to_dense(), np.diag(twin.lmo(x).to_dense()), atol=1e-13)
        assert ball.norm(np.diag(x)) == pytest.approx(twin.norm(x), rel=1e-14)
        assert ball.violation(np.diag(x)) == pytest.approx(twin.violation(x), abs=1e-13)


def test_the_spectrahedron_returns_zero_where_nothing_is_gained():
    for n in (3, 100):
        assert sets.Spectrahedron(1.0).lmo(np.eye(n)) == sets.ZeroAtom((n, n))
        assert isinstance(sets.Spectrahedron(1.0).lmo(-np.eye(n)), sets.RankOneAtom)


class Counted:
    """The product with a matrix, counting the vectors it was asked for."""

    def __init__(self, matrix):
        self.matrix = matrix
        self.count = 0

    def __call__(self, x):
        self.count += x.shape[1]
        return self.matrix @ x


@pytest.mark.parametrize("count", [1, 3])
def test_a_warm_start_saves_products(count):
    rng = np.random.default_rng(6)
    g = symmetric(rng, 300)
    cold = Counted(g)
    vectors = _lanczos.lowest_eigenvectors(cold, 300, count, tol=1e-3)
    warm = Counted(g + 1e-3 * symmetric(rng, 300))
    again = _lanczos.lowest_eigenvectors(warm, 300, count, vectors, tol=1e-3)
    assert warm.count < 0.7 * cold.count
    assert np.trace(again.T @ g @ again) == pytest.approx(np.linalg.eigvalsh(g)[:count].sum(), rel=1e-3)


@pytest.mark.parametrize("constraint", [sets.NuclearBall(2.0), *SYMMETRIC], ids=str)
def test_an_atom_is_a_start_for_the_next_direction(constraint):
    rng = np.random.default_rng(7)
    g = symmetric(rng, 120)
    atom = constraint.lmo(g, tol=1e-2)
    assert atom.dot(g) <= minimum(constraint, g) * (1 - 0.05)
    nearby = g + 0.01 * symmetric(rng, 120)
    better = constraint.lmo(nearby, start=atom, tol=1e-9)
    assert better.dot(nearby) == pytest.approx(minimum(constraint, nearby), rel=1e-9)
    other_shape = constraint.lmo(symmetric(rng, 90), start=atom)
    assert other_shape.shape == (90, 90)


@pytest.mark.parametrize("constraint", [sets.Spectraplex(1.0), sets.NuclearBall(1.0)], ids=str)
def test_a_start_that_is_the_wrong_eigenvector_does_no_harm(constraint):
    """Lanczos from an exact eigenvector would stop there at once."""
    g = np.diag(np.concatenate([[1.0], np.linspace(-0.5, 0.5, 98), [-2.0]]))
    e0 = np.eye(100)[0]
    atom = constraint.lmo(g, start=sets.RankOneAtom(1.0, e0.copy(), e0.copy()))
    assert atom.dot(g) == pytest.approx(-2.0, rel=1e-9)


@pytest.mark.parametrize("k", [2, 5])
def test_eigenvalues_that_repeat_are_all_found(k):
    rng = np.random.default_rng(8)
    q = np.linalg.qr(rng.normal(size=(400, 400)))[0]
    values = np.concatenate([np.full(k, -2.0), np.linspace(-1.9, 1.0, 400 - k)])
    g = (q * values) @ q.T
    assert sets.Fantope(k).lmo(g).dot(g) == pytest.approx(-2.0 * k, rel=1e-9)


@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-10])
def test_the_error_is_the_one_asked_for(tol):
    for seed in range(3):
        g = symmetric(np.random.default_rng(seed), 200)
        vectors = _lanczos.lowest_eigenvectors(lambda x, g=g: g @ x, 200, 2, tol=tol)
        values = np.sum(vectors * (g @ vectors), axis=0)
        size = np.linalg.norm(g, 2)
        assert np.linalg.norm(g @ vectors - vectors * values, axis=0).max() <= 1.01 * tol * size
        np.testing.assert_allclose(values, np.linalg.eigvalsh(g)[:2], atol=tol * size)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(2), atol=1e-12)


def test_an_iteration_that_does_not_end_in_time_says_so(monkeypatch):
    monkeypatch.setattr(_lanczos, "_MAX_PRODUCTS", 5)
    g = symmetric(np.random.default_rng(9), 100)
    with pytest.warns(RuntimeWarning, match=r"100 x 100 operator have a relative error of .* after 5 products"):
        atom = sets.Spectraplex(1.0).lmo(g)
    assert sets.Spectraplex(1.0).contains(atom.to_dense())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sets.Spectraplex(1.0).lmo(g, tol=0.5)


@pytest.mark.parametrize("constraint", [sets.NuclearBall(2.0), *SYMMETRIC], ids=str)
def test_bad_directions_are_named(constraint):
    with pytest.raises(ValueError, match="must be a matrix, got shape"):
        constraint.lmo(np.ones(9))
    bad = np.ones((4, 4))
    bad[1, 2] = math.nan
    with pytest.raises(ValueError, match="direction must be finite, its entry 6 is nan"):
        constraint.lmo(bad)
    with pytest.raises(ValueError, match="direction must be finite, a stored entry is not"):
        constraint.lmo(sparse.csr_matrix(bad))
    for n in (4, 100):
        broken = LinearOperator((n, n), matvec=lambda x: x * math.nan, rmatvec=lambda x: x * math.nan, dtype=float)
        with pytest.raises(ValueError, match="products must be finite"):
            constraint.lmo(broken)
    with pytest.raises(ValueError, match="tol must be a number >= 0"):
        constraint.lmo(np.eye(4), tol=-1.0)
    with pytest.raises(ValueError, match="at least one entry"):
        constraint.lmo(sparse.csr_matrix((0, 4)))


def test_symmetric_sets_take_square_matrices_only():
    for constraint in SYMMETRIC:
        for shape in ((3, 4), (2, 2, 2)):
            with pytest.raises(ValueError, match=r"must be a (square )?matrix, got shape"):
                constraint.violation(np.zeros(shape))
    with pytest.raises(ValueError, match="at least k = 3 rows"):
        sets.Fantope(3).lmo(np.eye(2))
    with pytest.raises(ValueError, match="at least k = 3 rows"):
        sets.Fantope(3).diameter((2, 2))


@pytest.mark.parametrize("cls", [sets.Spectraplex, sets.Spectrahedron])
@pytest.mark.parametrize("trace", [0.0, -1, math.nan, math.inf, None, True])
def test_a_trace_is_a_finite_number_above_zero(cls, trace):
    with pytest.raises(ValueError, match=f"{cls.__name__}: trace must be a finite number > 0, got"):
        cls(trace)


@pytest.mark.parametrize("k", [0, 1.0, None, -2])
def test_a_rank_is_an_integer_from_one(k):
    with pytest.raises(ValueError, match="Fantope: k must be an integer >= 1, got"):
        sets.Fantope(k)


def test_a_matrix_that_is_not_symmetric_is_a_violation():
    x = np.array([[0.5, 0.2], [-0.2, 0.5]])
    assert sets.Spectraplex(1.0).violation(x) == pytest.approx(np.linalg.norm([0.2, 0.2]))


def test_atoms_cost_their_factors_and_add_up():
    rng = np.random.default_rng(10)
    g = rng.normal(size=(30, 20))
    atom = sets.NuclearBall(2.0).lmo(g)
    assert atom.nnz == 50
    out = np.ones((30, 20), order="F")
    atom.add_to(out, 0.5)
    np.testing.assert_allclose(out, 1 + 0.5 * 2.0 * np.outer(atom.u, atom.v), rtol=1e-14)
    projector = sets.Fantope(2).lmo(symmetric(rng, 6))
    assert projector.nnz == 12
    np.testing.assert_allclose(projector.to_dense() @ projector.to_dense(), projector.to_dense(), atol=1e-13)


@pytest.mark.parametrize("constraint", [sets.Spectrahedron(0.5), sets.Spectraplex(), sets.Fantope(2)], ids=str)
def test_a_matrix_whose_entries_differ_by_more_than_floats_can(constraint):
    """LAPACK's eigendecomposition of this one does not converge."""
    x = np.full((4, 4), -1.0)
    x[0, 2] = x[2, 0] = x[3, 0] = 1e300
    x[1, 2:] = x[2, 1:] = x[3, 2] = 1e-300
    x[3, 1] = -1e16
    point = constraint.project(x)
    assert constraint.contains(point, tol=1e-12)
    away = (x - point) / 1e300
    assert constraint.lmo(-away).dot(away) - np.vdot(point, away) < 1e-12
