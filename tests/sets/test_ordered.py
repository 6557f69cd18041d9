"""Values and errors of the balls of ordered norms, and the families that must agree."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from support.sets_catalogue import arrays, degenerate_directions

from fwonline import sets

D = 5
DIRECTIONS = [*degenerate_directions((D,)), *np.random.default_rng(0).normal(size=(20, D))]


@pytest.mark.parametrize("ball", [sets.KSparseBall, sets.KNormBall])
@pytest.mark.parametrize("k", [0, -1, 1.5, None, "2", True, math.inf])
def test_k_is_an_integer_from_one(ball, k):
    with pytest.raises(ValueError, match=rf"{ball.__name__}: k must be an integer >= 1, got"):
        ball(k, 1.0)
    with pytest.raises(ValueError, match=rf"{ball.__name__}: radius must be"):
        ball(1, -1.0)


@pytest.mark.parametrize(
    "weights", [[], 1.0, [[1.0]], [0.0, 0.0], [1.0, 2.0], [1.0, -0.5], [1.0, math.nan], [math.inf, 1.0], "w", None]
)
def test_weights_fall_and_are_not_negative(weights):
    with pytest.raises(ValueError, match="OrderedL1Ball: weights must be"):
        sets.OrderedL1Ball(weights, 1.0)


FAMILIES = [
    (sets.OrderedL1Ball(np.ones(D), 2.0), sets.L1Ball(2.0)),
    (sets.OrderedL1Ball([1.0, 0.0, 0.0, 0.0, 0.0], 2.0), sets.LInfBall(2.0)),
    (sets.OrderedL1Ball([1.0, 1.0, 1.0, 0.0, 0.0], 2.0), sets.KNormBall(3, 2.0)),
    (sets.OrderedL1Ball([0.5] * D, 2.0), sets.L1Ball(4.0)),
    (sets.KNormBall(D, 2.0), sets.L1Ball(2.0)),
    (sets.KNormBall(1, 2.0), sets.LInfBall(2.0)),
    (sets.KSparseBall(1, 2.0), sets.L1Ball(2.0)),
    (sets.KSparseBall(D, 2.0), sets.LInfBall(2.0)),
    (sets.KSparseBall(D + 3, 2.0), sets.LInfBall(2.0)),
    (sets.GroupL1Ball([[i] for i in range(D)], 2.0), sets.L1Ball(2.0)),
    (sets.GroupL1Ball([list(range(D))], 2.0), sets.L2Ball(2.0)),
    (sets.LatentGroupBall([[i] for i in range(D)], 2.0), sets.L1Ball(2.0)),
    (sets.LatentGroupBall([[0, 1], [2, 4], [3]], 2.0), sets.GroupL1Ball([[0, 1], [2, 4], [3]], 2.0)),
    (sets.Ellipsoid(np.eye(D), None, 2.0), sets.L2Ball(2.0)),
    (sets.ConvexHull(np.kron(np.eye(D), [[2.0], [-2.0]])), sets.L1Ball(2.0)),
    (sets.Product([(sets.L1Ball(2.0), D)]), sets.L1Ball(2.0)),
    (sets.Product([(sets.LInfBall(2.0), 2), (sets.LInfBall(2.0), 3)]), sets.LInfBall(2.0)),
]


@pytest.mark.parametrize(("one", "other"), FAMILIES, ids=[f"{a} = {b}" for a, b in FAMILIES])
def test_families_agree(one, other):
    for g in DIRECTIONS:
        np.testing.assert_allclose(one.lmo(g).to_dense(), other.lmo(g).to_dense(), rtol=1e-14, atol=1e-14)
        if not isinstance(one, sets.ConvexHull | sets.Product):
            assert one.norm(g) == pytest.approx((0.5 if one == FAMILIES[3][0] else 1.0) * other.norm(g), rel=1e-10)
        if one.can_project and other.can_project:
            np.testing.assert_allclose(one.project(3 * g), other.project(3 * g), rtol=1e-12, atol=1e-12)
    assert one.diameter(D) == pytest.approx(other.diameter(D), rel=1e-14)


@settings(max_examples=100, deadline=None)
@given(g=arrays((6,)), k=st.integers(1, 7))
def test_the_k_norm_ball_is_the_better_of_its_two_parts(g, k):
    values = [part.lmo(g).dot(g) for part in (sets.L1Ball(3.0), sets.LInfBall(3.0 / k))]
    assert sets.KNormBall(k, 3.0).lmo(g).dot(g) == pytest.approx(min(values), rel=1e-12, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(x=arrays((6,), magnitude=10.0), k=st.integers(1, 6))
def test_k_sparse_and_k_norm_are_dual(x, k):
    """The best of <s, x> over the k-sparse ball of radius 1 is the sum of the k largest magnitudes."""
    assert -sets.KSparseBall(k, 1.0).lmo(x).dot(x) == pytest.approx(sets.KNormBall(k, 1.0).norm(x), rel=1e-12)


def test_ties_go_to_the_lowest_indices():
    np.testing.assert_array_equal(sets.KSparseBall(2, 1.0).lmo([1.0, -2.0, 1.0, 1.0]).indices, [0, 1])
    np.testing.assert_array_equal(sets.KSparseBall(2, 1.0).lmo(np.zeros(4)).to_dense(), [1.0, 1.0, 0.0, 0.0])
    assert sets.OrderedL1Ball([2.0, 1.0], 1.0).lmo([1.0, -1.0]).nnz == 2
    assert sets.OrderedL1Ball([1.0, 1.0], 1.0).lmo([1.0, -1.0]) == sets.CoordinateAtom(0, -1.0, (2,))
    assert sets.KNormBall(2, 1.0).lmo([0.0, 1.0, 1.0]) == sets.CoordinateAtom(1, -1.0, (3,))


@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_projection_on_the_k_sparse_ball_against_bisection(k):
    rng = np.random.default_rng(k)
    for x in (rng.normal(size=40) * 3, rng.laplace(size=40) ** 3, np.full(40, 5.0), np.round(rng.normal(size=40) * 2)):
        low, high = 0.0, np.abs(x).max()
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if np.clip(np.abs(x) - middle, 0, 1).sum() > k else (low, middle)
        expected = np.sign(x) * np.clip(np.abs(x) - high, 0, 1)
        if np.clip(np.abs(x), 0, 1).sum() <= k:
            expected = np.clip(x, -1, 1)
        np.testing.assert_allclose(sets.KSparseBall(k, 1.0).project(x), expected, atol=1e-12)


def test_the_ordered_norm_is_the_support_function_of_its_weights():
    """sum w_i |x|_(i) is the largest <v, x> over the signed permutations v of the weights: an assignment problem."""
    weights = np.array([3.0, 2.5, 1.0, 0.0])
    for x in np.random.default_rng(1).normal(size=(10, 4)):
        gains = np.abs(x)[:, None] * weights
        best = gains[optimize.linear_sum_assignment(-gains)].sum()
        assert sets.OrderedL1Ball(weights, 1.0).norm(x) == pytest.approx(best, rel=1e-14)
