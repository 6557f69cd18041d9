"""kappa, and the bound of the gap estimate against what stochastic Frank-Wolfe does."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from river import optim as river_optim
from scipy import sparse

from fwonline import optim, sets
from fwonline.optim.hindsight import best_fixed_point


def test_kappa_is_the_ratio_of_the_widths():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 5)) * (rng.random((12, 5)) < 0.6)
    vertices = [sign * 3.0 * e for e in np.eye(5) for sign in (1.0, -1.0)]
    widths = [
        max(np.linalg.norm(X @ (u - v), p) for u, v in itertools.product(vertices, repeat=2)) for p in (1, np.inf)
    ]
    assert optim.kappa(X) == pytest.approx(widths[0] / widths[1])
    assert optim.kappa(sparse.csr_array(X)) == pytest.approx(widths[0] / widths[1])
    assert optim.kappa(X, sets.L1Ball(9.0)) == pytest.approx(widths[0] / widths[1])
    assert optim.kappa(X, sets.ConvexHull(vertices)) == pytest.approx(widths[0] / widths[1])
    assert optim.kappa(X, sets.ProbabilitySimplex()) == optim.kappa(X)
    assert optim.kappa(np.zeros((3, 2))) == 1.0
    assert 1.0 <= optim.kappa(X) <= 12.0
    with pytest.raises(ValueError, match="must be an l1 ball, a simplex or a hull"):
        optim.kappa(X, sets.L2Ball(1.0))
    with pytest.raises(ValueError, match="samples x features"):
        optim.kappa(np.zeros(3))


@pytest.mark.parametrize("batch_size", [1, 4])
def test_the_gap_estimate_stays_within_its_bound_in_the_mean(batch_size):
    rng = np.random.default_rng(1)
    X, ball = rng.normal(size=(20, 6)), sets.L1Ball(2.0)
    y = rng.random(20) < 0.5
    T = 300
    distances = []
    for seed in range(15):
        estimates, points = [], [np.zeros(6)]

        def look(state, estimates=estimates, points=points):
            estimates.append(state.gap)
            points.append(state.x)

        optim.SFW(memory=20, batch_size=batch_size).minimize(
            X, y, loss=river_optim.losses.Log(), constraint=ball, steps=T, seed=seed, callback=look
        )
        slopes = 1.0 / (1.0 + np.exp(-np.array(points[:-1]) @ X.T)) - y
        gradients = slopes @ X / 20
        true = (gradients * points[:-1]).sum(axis=1) + ball.radius * np.abs(gradients).max(axis=1)
        distances.append(np.abs(np.array(estimates) - true))
    bound = optim.stochastic_gap_bound(X, T, constraint=ball, lipschitz=0.25, batch_size=batch_size)
    assert (np.mean(distances, axis=0) <= bound).all()
    assert bound[-1] < 0.2 * bound.max()  # and it falls


def test_mistakes_name_the_parameter():
    X, ball = np.eye(3), sets.L1Ball(1.0)
    for wrong, named in (
        ({"steps": 0}, "steps"),
        ({"batch_size": 4}, r"batch_size must be in \[1, 3\]"),
        ({"lipschitz": 0.0}, "lipschitz"),
        ({"gammas": [0.5]}, "gammas"),
        ({"initial": -1.0}, "initial"),
    ):
        told = {"steps": 10, "lipschitz": 1.0, **wrong}
        with pytest.raises(ValueError, match=named):
            optim.stochastic_gap_bound(X, told.pop("steps"), constraint=ball, **told)


class Biweight:
    """Tukey's loss, smooth but not convex: beyond c an error costs no more."""

    def __init__(self, c=2.0):
        self.c = c

    def __call__(self, y_true, y_pred):
        inside = max(1.0 - ((y_pred - y_true) / self.c) ** 2, 0.0)
        return (self.c**2 / 6.0) * (1.0 - inside**3)

    def gradient(self, y_true, y_pred):
        inside = max(1.0 - ((y_pred - y_true) / self.c) ** 2, 0.0)
        return (y_pred - y_true) * inside**2


@pytest.mark.parametrize(
    "make",
    [
        lambda: optim.SFW(memory=60, batch_size=10),
        lambda: optim.LuFreundFW(memory=60, batch_size=10),
        lambda: optim.MomentumFW(memory=60, batch_size=10),
        optim.FW,
        optim.AwayFW,
        optim.PairwiseFW,
        lambda: optim.RandomizedFW(0.5),
        lambda: optim.RandomizedAwayFW(0.5),
    ],
    ids=["sfw", "lu-freund", "momentum", "fw", "away", "pairwise", "randomized", "randomized-away"],
)
def test_on_a_smooth_loss_that_is_not_convex_the_gap_falls(make):
    """Theorem 2 of Negiar et al.: the limit points are stationary, that is, their gap is 0."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 8))
    y = X @ np.array([1.0, -1.0, 0.5, 0, 0, 0, 0, 0]) + 0.1 * rng.normal(size=60)
    y[:12] += 20.0  # outliers, which a convex loss would follow
    start = optim.FW().minimize(X, y, loss=Biweight(), constraint=sets.L1Ball(2.0), steps=1)
    result = make().minimize(X, y, loss=Biweight(), constraint=sets.L1Ball(2.0), steps=1500, seed=0, tol=0.01)
    assert result.success, result.message
    assert result.gap <= 0.01 < start.gap
    convex = best_fixed_point(X, y, loss=river_optim.losses.Squared(), constraint=sets.L1Ball(2.0), tol=1e-6)
    loss = Biweight()
    assert result.fun < np.mean([loss(a, b) for a, b in zip(y, X @ convex.x, strict=True)])
