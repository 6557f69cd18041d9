"""Values and errors of the group balls; the latent norm against an independent solver."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from support.sets_catalogue import arrays

from fwonline import sets

BALLS = [sets.GroupL1Ball, sets.LatentGroupBall]


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([], "at least one group"),
        ([[0], []], r"groups\[1\] must be a list of one or more integers >= 0"),
        ([[0, 1.5]], r"groups\[0\] must be a list of one or more integers"),
        ([[0, -1]], r"groups\[0\] must be a list of one or more integers"),
        ([["a"]], r"groups\[0\] must be"),
        ([0, 1], r"groups\[0\] must be"),
        (None, "must be a list of lists"),
        ([[0, 1, 0]], r"groups\[0\] names a feature twice"),
        ([[0], [3, 1]], "must cover the features 0 to 3, 2 is in none"),
    ],
)
def test_bad_groups_are_named(ball, groups, message):
    with pytest.raises(ValueError, match=rf"{ball.__name__}: groups.*{message}|{ball.__name__}: {message}"):
        ball(groups, 1.0)


def test_groups_that_overlap_are_for_the_latent_ball():
    with pytest.raises(ValueError, match="must not overlap, feature 1 is in two; LatentGroupBall allows it"):
        sets.GroupL1Ball([[0, 1], [1, 2]], 1.0)
    assert sets.LatentGroupBall([[0, 1], [1, 2]], 1.0).shape == (3,)


@pytest.mark.parametrize("ball", BALLS)
def test_the_best_group_is_the_first_with_the_largest_norm(ball):
    built = ball([[2, 0], [1], [3]], 2.0)
    np.testing.assert_allclose(built.lmo([0.6, 1.0, -0.8, 1.0]).to_dense(), [-1.2, 0.0, 1.6, 0.0], rtol=1e-15)
    np.testing.assert_array_equal(built.lmo(np.zeros(4)).to_dense(), [2.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(built.lmo([0.0, 1e-320, 0.0, 0.0]).to_dense(), [0.0, -2.0, 0.0, 0.0])
    np.testing.assert_allclose(built.lmo([1e308, 0.0, -1e308, 1e308]).to_dense()[[0, 2]], [-(2**0.5), 2**0.5])


def test_a_group_is_shrunk_as_a_whole():
    projected = sets.GroupL1Ball([[0, 1], [2, 3]], 5.0).project([6.0, 8.0, 0.3, 0.4])
    np.testing.assert_allclose(projected, [3.0, 4.0, 0.0, 0.0], rtol=1e-15)


def latent_norm_by_duality(groups, x):
    """max <x, u> with ||u_group|| <= 1 on every group."""
    constraints = [{"type": "ineq", "fun": lambda u, g=g: 1 - np.sum(u[g] ** 2)} for g in groups]
    start = np.sign(x) / np.sqrt(x.size)
    solved = optimize.minimize(lambda u: -u @ x, start, constraints=constraints, options={"ftol": 1e-14})
    assert max(np.linalg.norm(solved.x[g]) for g in groups) <= 1 + 1e-8
    return -solved.fun


GROUPS = [
    [[0, 1], [1, 2], [2, 3], [3, 0]],
    [[0, 1, 2, 3]],
    [[0, 1, 2], [1, 2, 3], [0], [3]],
    [[0, 1], [2, 3], [0, 2], [1, 3], [0, 3]],
]


@pytest.mark.parametrize("groups", GROUPS)
def test_the_latent_norm_against_its_dual(groups):
    ball = sets.LatentGroupBall(groups, 1.0)
    rng = np.random.default_rng(2)
    for x in [*rng.normal(size=(8, 4)), np.ones(4), np.array([1.0, 1e-3, 0.0, 2.0]), np.array([1.0, 0.0, 0.0, -1.0])]:
        assert ball.norm(x) == pytest.approx(latent_norm_by_duality(groups, x), rel=1e-6)


@pytest.mark.parametrize(
    ("groups", "x"),
    [
        ([[0], *[[3, 4]] * 4, [0, 2, 4], [0, 1], [2], [3, 4]], [100.0, 46.0, 2.0, 1.0, 2.0]),
        ([[0], *[[3, 4]] * 4, [0, 2, 4], [0, 1], [2], [3, 4]], [46.0, 100.0, 2.0, 1.0, 2.0]),
        ([[0, 1], [1, 0], [0, 1], [1, 2], [2, 1]], [1e-8, 1.0, 1e8]),
        ([[0, 1], [2, 3], [0, 2], [1, 3], [0, 3], [1, 2]], [1.0, 1.0, 1.0, 1.0]),
        ([[i, j] for i in range(5) for j in range(5) if i != j], [1.0, 1e-5, 1e5, 1.0, 1e-12]),
        ([*([[0, 1, 2]] * 30), *([[2, 3]] * 30), [0], [0, 1]], [3.0, 1.0, 2.0, 5.0]),
    ],
)
def test_the_latent_norm_where_groups_repeat_or_lie_in_others(groups, x):
    ball = sets.LatentGroupBall(groups, 1.0)
    distinct = {frozenset(group) for group in groups}
    largest = [sorted(group) for group in distinct if not any(group < other for other in distinct)]
    norm = ball.norm(x)
    assert norm == pytest.approx(sets.LatentGroupBall(largest, 1.0).norm(x), rel=1e-9)
    # Any point of the dual ball gives a lower bound, any decomposition an upper one.
    assert norm == pytest.approx(latent_norm_by_duality(largest, np.array(x) / max(x)) * max(x), rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_latent_norm_is_a_norm_between_l2_and_the_group_norm(data):
    groups = data.draw(st.lists(st.sets(st.integers(0, 4), min_size=1), min_size=1, max_size=6))
    groups = [sorted(group) for group in [*groups, {0, 1}, {2}, {3, 4}]]
    ball = sets.LatentGroupBall(groups, 1.0)
    x, y = (data.draw(arrays((5,), magnitude=100.0)) for _ in range(2))
    norm = ball.norm(x)
    assert ball.norm(2.0 * x) == pytest.approx(2.0 * norm, rel=1e-9)
    assert ball.norm(x + y) <= (norm + ball.norm(y)) * (1 + 1e-9) + 1e-12
    disjoint = sets.GroupL1Ball([[0, 1], [2], [3, 4]], 1.0)
    assert np.linalg.norm(x) * (1 - 1e-9) <= norm <= disjoint.norm(x) * (1 + 1e-9)
    # Duality: <x, y> is at most the norm of x times the largest group of y, which is what the LMO finds.
    assert abs(np.dot(x, y)) <= norm * -ball.lmo(y).dot(y) * (1 + 1e-9) + 1e-9


def test_the_latent_ball_contains_what_its_atoms_average_to():
    ball = sets.LatentGroupBall([[0, 1, 2], [2, 3], [3, 4, 0]], 3.0)
    rng = np.random.default_rng(3)
    atoms = np.array([ball.lmo(g).to_dense() for g in rng.normal(size=(30, 5))])
    for weights in rng.dirichlet(np.ones(30), size=20):
        assert ball.violation(weights @ atoms) == 0.0
    assert ball.violation(atoms[0] * 1.5) == pytest.approx(1.5)
