"""Values and errors of the polytopes of permutations and of points."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fwonline import sets


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_birkhoff_finds_the_best_permutation(n):
    rng = np.random.default_rng(n)
    for g in (rng.normal(size=(n, n)), rng.integers(0, 3, size=(n, n)).astype(float), np.zeros((n, n))):
        best = min(g[range(n), order].sum() for order in itertools.permutations(range(n)))
        atom = sets.Birkhoff().lmo(g)
        assert atom.nnz == n
        assert atom.dot(g) == pytest.approx(best, abs=1e-12)


def test_birkhoff_takes_square_matrices_only():
    for shape in ((4,), (2, 3), (2, 2, 2)):
        with pytest.raises(ValueError, match="must be a square matrix, got shape"):
            sets.Birkhoff().lmo(np.zeros(shape))
    with pytest.raises(ValueError, match="square matrix"):
        sets.Birkhoff().initial_point(3)
    assert not sets.Birkhoff().can_project
    assert sets.Birkhoff().diameter((4, 4)) == math.sqrt(8.0)


def test_birkhoff_measures_all_that_is_wrong():
    assert sets.Birkhoff().violation(np.full((3, 3), 1 / 3)) <= 1e-15
    assert sets.Birkhoff().violation([[1.0, 0.0], [0.0, 1.0]]) == 0.0
    assert sets.Birkhoff().violation([[2.0, -1.0], [-1.0, 2.0]]) == pytest.approx(math.sqrt(2.0))
    assert sets.Birkhoff().violation([[1.7e308, 1.7e308], [0.0, 0.0]]) == math.inf


def test_permutahedron_ranks():
    np.testing.assert_array_equal(sets.Permutahedron().lmo([1.0, 1.0, 2.0]).to_dense(), [2.0, 3.0, 1.0])
    np.testing.assert_array_equal(sets.Permutahedron().lmo(np.zeros(3)).to_dense(), [1.0, 2.0, 3.0])
    assert sets.Permutahedron().diameter(3) == pytest.approx(math.sqrt(8.0))


def test_permutahedron_projects_far_points_without_cancellation():
    np.testing.assert_array_equal(sets.Permutahedron().project([1e300, -1e300, 0.0]), [3.0, 1.0, 2.0])
    np.testing.assert_array_equal(sets.Permutahedron().project([1e17, 1e17, 1e17]), [2.0, 2.0, 2.0])
    np.testing.assert_allclose(sets.Permutahedron().project([1e9, 1e9 + 0.5, 0.0]), [2.25, 2.75, 1.0], atol=1e-6)


@pytest.mark.parametrize(
    ("vertices", "message"),
    [
        ([], "must have shape"),
        ([1.0, 2.0], r"must have shape \(m, d\), m and d >= 1, got \(2,\)"),
        (np.zeros((0, 3)), "must have shape"),
        ([[0.0, math.inf]], "must be finite"),
        ([[0.0, 1.0], [2.0]], "must be an array of numbers"),
        ("v", "must be an array of numbers"),
    ],
)
def test_bad_vertices_are_named(vertices, message):
    with pytest.raises(ValueError, match=f"ConvexHull: vertices {message}"):
        sets.ConvexHull(vertices)


def test_the_first_of_the_best_points_is_returned():
    hull = sets.ConvexHull([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_array_equal(hull.lmo([0.0, 0.0]).to_dense(), [1.0, 0.0])
    np.testing.assert_array_equal(hull.lmo([1.0, 1.0]).to_dense(), [1.0, 0.0])
    np.testing.assert_array_equal(hull.lmo([1.0, 0.5]).to_dense(), [0.0, 1.0])


def test_the_hull_does_not_follow_the_array_it_was_built_from():
    vertices = np.array([[1.0, 0.0], [0.0, 1.0]])
    hull = sets.ConvexHull(vertices)
    hull.lmo([0.0, 1.0]).to_dense()[:] = 9.0
    vertices[:] = 7.0
    np.testing.assert_array_equal(hull.lmo([0.0, 1.0]).to_dense(), [1.0, 0.0])


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_the_nearest_point_of_degenerate_hulls(data):
    """Repeated, collinear and tiny clouds: p is nearest where no vertex lies further along x - p than p does."""
    d = data.draw(st.integers(1, 4))
    grid = st.integers(-2, 2).map(float)
    vertices = data.draw(hnp.arrays(float, (data.draw(st.integers(1, 10)), d), elements=grid))
    x = data.draw(hnp.arrays(float, d, elements=st.one_of(grid, st.floats(-50, 50))))
    p = sets.ConvexHull(vertices).project(x)
    assert np.max((vertices - p) @ (x - p)) <= 1e-12 * (1 + np.abs(x).max())
    weights = data.draw(hnp.arrays(float, len(vertices), elements=st.floats(0.01, 1)))
    assert sets.ConvexHull(vertices).contains(weights @ vertices / weights.sum(), tol=1e-12)
