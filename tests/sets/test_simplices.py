"""Values and errors of the simplices."""

import math

import numpy as np
import pytest

from fwonline import sets

SIMPLICES = [sets.ProbabilitySimplex, sets.UnitSimplex]


@pytest.mark.parametrize("simplex", SIMPLICES)
@pytest.mark.parametrize("radius", [0.0, -1, math.nan, math.inf, None, "1", False])
def test_a_radius_is_a_finite_number_above_zero(simplex, radius):
    with pytest.raises(ValueError, match=rf"{simplex.__name__}: radius must be a finite number > 0, got"):
        simplex(radius)


@pytest.mark.parametrize("simplex", SIMPLICES)
def test_the_radius_is_one_by_default(simplex):
    assert simplex().radius == 1.0
    assert repr(simplex()) == f"{simplex.__name__}(radius=1.0)"


def test_ties_go_to_the_lowest_index_and_zero_to_the_origin():
    assert sets.ProbabilitySimplex().lmo([1.0, 0.0, 0.0]).index == 1
    assert sets.ProbabilitySimplex().lmo([0.0, 0.0]).index == 0
    assert sets.UnitSimplex().lmo([0.0, 0.0]) == sets.ZeroAtom((2,))
    assert sets.UnitSimplex().lmo([0.0, -5e-324]) == sets.CoordinateAtom(1, 1.0, (2,))


def simplex_projection_by_bisection(x, radius):
    low, high = x.min() - radius, x.max()
    for _ in range(200):
        middle = (low + high) / 2
        if np.maximum(x - middle, 0).sum() > radius:
            low = middle
        else:
            high = middle
    return np.maximum(x - high, 0)


@pytest.mark.parametrize("d", [1, 6, 1000])
@pytest.mark.parametrize("radius", [1e-6, 1.0, 50.0])
def test_projections_against_bisection(d, radius):
    rng = np.random.default_rng(d)
    for x in (rng.normal(size=d) * 10, rng.laplace(size=d) ** 3, np.round(rng.normal(size=d)), np.full(d, -7.0)):
        onto_sum = simplex_projection_by_bisection(x, radius)
        np.testing.assert_allclose(sets.ProbabilitySimplex(radius).project(x), onto_sum, atol=1e-11)
        positive = np.maximum(x, 0)
        below = positive if positive.sum() <= radius else onto_sum
        np.testing.assert_allclose(sets.UnitSimplex(radius).project(x), below, atol=1e-11)


def test_projection_of_entries_that_differ_by_less_than_their_rounding():
    far = np.array([1e17, 1e17, 0.0])
    np.testing.assert_array_equal(sets.ProbabilitySimplex().project(far), [0.5, 0.5, 0.0])
    np.testing.assert_array_equal(sets.ProbabilitySimplex().project([-1e308, 1e308]), [0.0, 1.0])


def test_vertices_are_no_violation():
    vertex = sets.ProbabilitySimplex(0.3).lmo([1.0, -1.0, 0.0]).to_dense()
    assert sets.ProbabilitySimplex(0.3).violation(vertex) == 0.0
    assert sets.UnitSimplex(0.3).violation(vertex) == 0.0


def test_diameters():
    assert sets.ProbabilitySimplex(2.0).diameter() == pytest.approx(math.sqrt(8.0))
    assert sets.ProbabilitySimplex(2.0).diameter(1) == 0.0
    assert sets.UnitSimplex(2.0).diameter(7) == pytest.approx(math.sqrt(8.0))
    assert sets.UnitSimplex(2.0).diameter(1) == 2.0


def test_learning_starts_at_the_uniform_point_or_the_origin():
    np.testing.assert_array_equal(sets.ProbabilitySimplex(2.0).initial_point(4), [0.5] * 4)
    np.testing.assert_array_equal(sets.UnitSimplex(2.0).initial_point(3), [0.0] * 3)
