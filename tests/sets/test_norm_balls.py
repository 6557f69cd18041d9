"""Values and errors of the norm balls and boxes."""

import math

import numpy as np
import pytest

from fwonline import sets

BALLS = [sets.L1Ball, sets.L2Ball, sets.LInfBall]


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("radius", [0, -1.0, math.nan, math.inf, 10**400, None, "1", True, [1.0]])
def test_a_radius_is_a_finite_number_above_zero(ball, radius):
    with pytest.raises(ValueError, match=rf"{ball.__name__}: radius must be a finite number > 0, got"):
        ball(radius)


@pytest.mark.parametrize("ball", BALLS)
def test_parameters_are_kept_as_given(ball):
    radius = np.float32(2.0)
    built = ball(radius)
    assert built.radius is radius
    assert repr(built) == f"{ball.__name__}(radius=2.0)"
    assert repr(ball(10)) == f"{ball.__name__}(radius=10)"


def test_ties_go_to_the_lowest_index():
    assert sets.L1Ball(1.0).lmo([0.0, -2.0, 2.0]).index == 1
    assert sets.L1Ball(1.0).lmo([0.0, 0.0]) == sets.CoordinateAtom(0, 1.0, (2,))
    assert sets.L1Ball(1.0).lmo([-0.0, 0.0]) == sets.CoordinateAtom(0, 1.0, (2,))
    np.testing.assert_array_equal(sets.L2Ball(2.0).lmo([0.0, 0.0]).to_dense(), [2.0, 0.0])
    np.testing.assert_array_equal(sets.LInfBall(2.0).lmo([0.0, -0.0, 1.0]).to_dense(), [2.0, 2.0, -2.0])
    np.testing.assert_array_equal(sets.Box(-1.0, 4.0).lmo([0.0, 1.0]).to_dense(), [4.0, -1.0])


@pytest.mark.parametrize("size", [1e300, 1e-300, 1.7e308, 5e-324])
def test_the_l2_ball_neither_overflows_nor_underflows(size):
    ball = sets.L2Ball(1.0)
    g = np.array([size, -size])
    np.testing.assert_allclose(ball.lmo(g).to_dense(), [-math.sqrt(0.5), math.sqrt(0.5)], rtol=1e-15)
    if size > 1:
        np.testing.assert_allclose(ball.project(g), [math.sqrt(0.5), -math.sqrt(0.5)], rtol=1e-15)
    if size == 1e300:
        assert ball.norm(g) == pytest.approx(math.sqrt(2) * size, rel=1e-15)


def test_norms_of_sums_beyond_the_largest_float_are_infinite_not_wrong():
    assert sets.L1Ball(1.0).norm([1.7e308, 1.7e308]) == math.inf
    np.testing.assert_array_equal(sets.L1Ball(1.0).project([1.7e308, -1.7e308]), [0.5, -0.5])
    assert sets.LInfBall(1.0).norm([1.7e308, 1.7e308]) == 1.7e308


def l1_projection_by_bisection(x, radius):
    low, high = 0.0, np.abs(x).max()
    for _ in range(200):
        middle = (low + high) / 2
        if np.maximum(np.abs(x) - middle, 0).sum() > radius:
            low = middle
        else:
            high = middle
    return np.sign(x) * np.maximum(np.abs(x) - high, 0)


@pytest.mark.parametrize("d", [1, 7, 1000])
@pytest.mark.parametrize("radius", [1e-6, 1.0, 30.0])
def test_l1_projection_against_bisection(d, radius):
    rng = np.random.default_rng(d)
    for x in (rng.normal(size=d) * 10, rng.laplace(size=d) ** 3, np.round(rng.normal(size=d)), np.full(d, 7.0)):
        expected = l1_projection_by_bisection(x, radius) if np.abs(x).sum() > radius else x
        np.testing.assert_allclose(sets.L1Ball(radius).project(x), expected, atol=1e-12)


def test_l1_projection_of_a_point_just_outside_is_exact():
    x = np.array([0.5, -0.5 - 1e-12, 0.0])
    assert sets.L1Ball(1.0).violation(x) == pytest.approx(1e-12 / math.sqrt(2), rel=1e-3)


def test_diameters():
    assert sets.L1Ball(3.0).diameter() == sets.L1Ball(3.0).diameter(1) == 6.0
    assert sets.L2Ball(3.0).diameter() == 6.0
    assert sets.LInfBall(3.0).diameter((2, 2)) == 12.0
    assert sets.Box([0.0, 0.0], [3.0, 4.0]).diameter() == 5.0
    assert sets.Box(0.0, 1.0).diameter(9) == 3.0
    for unknown in (sets.LInfBall(1.0), sets.Box(0.0, 1.0)):
        with pytest.raises(ValueError, match="give `shape`, the number of features"):
            unknown.diameter()
    for bad in (0, -1, (), (2, 0)):
        with pytest.raises(ValueError, match="shape must be one or more positive integers"):
            sets.LInfBall(1.0).diameter(bad)


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        (1.0, 0.0, "lower 1.0 and upper 0.0 at entry 0"),
        ([0.0, 2.0], [1.0, 1.0], "lower 2.0 and upper 1.0 at entry 1"),
        (math.nan, 1.0, "lower must be finite"),
        (0.0, [1.0, math.inf], "upper must be finite"),
        ([0.0, 0.0], [1.0, 1.0, 1.0], r"lower has shape \(2,\) and upper \(3,\)"),
        ("low", 1.0, "lower must be a number or an array of numbers"),
        (0.0, 10**400, "upper must be a number or an array of numbers"),
        (0.0, None, "upper must be"),
        ([], 1.0, "at least one entry"),
    ],
)
def test_bad_bounds_are_named(lower, upper, message):
    with pytest.raises(ValueError, match=message):
        sets.Box(lower, upper)


def test_a_box_keeps_its_bounds_and_its_copy_of_them():
    lower = np.array([0.0, 1.0])
    built = sets.Box(lower, 2.0)
    assert built.lower is lower
    assert repr(built) == "Box(lower=[0.0, 1.0], upper=2.0)"
    assert repr(sets.Box(np.zeros(100), 1.0)) == "Box(lower=<array of shape (100,)>, upper=1.0)"
    assert sets.Box([0.0, 1.0], (2.0, 2.0)) == sets.Box(np.array([0, 1]), np.array([2.0, 2.0]))


def test_learning_starts_in_the_box_nearest_to_zero():
    np.testing.assert_array_equal(sets.Box([-1.0, 2.0, -3.0], [1.0, 5.0, -2.0]).initial_point(3), [0.0, 2.0, -2.0])


def test_sets_that_offer_no_norm_or_projection_say_so():
    with pytest.raises(NotImplementedError, match=r"Box\(lower=0.0, upper=1.0\) is not the ball of a norm"):
        sets.Box(0.0, 1.0).norm([1.0])
    assert sets.Box(0.0, 1.0).can_project


@pytest.mark.parametrize("p", [0.5, 0, -1.0, math.nan, -math.inf, None, "2", True])
def test_an_exponent_is_at_least_one(p):
    with pytest.raises(ValueError, match="LpBall: p must be a number >= 1, or infinite, got"):
        sets.LpBall(p, 1.0)


@pytest.mark.parametrize("p", [1.001, 1.5, 2.5, 3, 50.0, 1e6])
def test_the_lp_ball_attains_the_dual_norm(p):
    """Hoelder: the minimum of <s, g> over the ball is -radius ||g||_q."""
    q = p / (p - 1)
    for g in np.random.default_rng(0).normal(size=(20, 6)):
        atom = sets.LpBall(p, 2.0).lmo(g)
        largest = np.abs(g).max()
        dual = largest * np.sum(np.abs(g / largest) ** q) ** (1 / q)
        assert atom.dot(g) == pytest.approx(-2.0 * dual, rel=1e-9)
        assert sets.LpBall(p, 2.0).norm(atom.to_dense()) == pytest.approx(2.0, rel=1e-9)


def test_the_lp_ball_is_the_classical_ones_at_its_ends():
    g = np.array([1.0, -3.0, 0.0, 2.0])
    for p, twin in ((1, sets.L1Ball(2.0)), (2.0, sets.L2Ball(2.0)), (math.inf, sets.LInfBall(2.0))):
        ball = sets.LpBall(p, 2.0)
        assert ball.lmo(g) == twin.lmo(g)
        assert ball.norm(g) == twin.norm(g)
        assert ball.diameter(4) == twin.diameter(4)
        np.testing.assert_array_equal(ball.project(g), twin.project(g))
    assert not sets.LpBall(3, 2.0).can_project
    with pytest.raises(NotImplementedError, match=r"LpBall\(p=3, radius=2.0\) has no cheap projection"):
        sets.LpBall(3, 2.0).project(g)
    assert sets.LpBall(3, 2.0).violation([0.0, 5.0]) == 3.0
    with pytest.raises(ValueError, match="give `shape`"):
        sets.LpBall(3, 2.0).diameter()
