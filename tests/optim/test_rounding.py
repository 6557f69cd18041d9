"""The bracket fun - gap <= minimum <= fun holds of the numbers as they stand: checked in rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from river import optim as river_optim

from fwonline import losses, optim, sets
from fwonline.optim.problem.data import as_rows, rows_of
from fwonline.optim.problem.finite_sum import FiniteSum
from fwonline.optim.problem.score_loss import ScalarLoss

OPTIMIZERS = {
    "SFW": optim.SFW,
    "StochasticPairwiseFW": optim.StochasticPairwiseFW,
    "FW": optim.FW,
    "AwayFW": optim.AwayFW,
    "SVRF": optim.SVRF,
    "ProjectedSGD": optim.ProjectedSGD,
    "OFW": optim.OFW,
}


def rational(array):
    return [Fraction(value) for value in np.ravel(array).tolist()]


def mean_square(X, y, w):
    errors = [sum(a * b for a, b in zip(row, w, strict=True)) - target for row, target in zip(X, y, strict=True)]
    return sum(error * error for error in errors) / len(y)


def least_on_segment(X, y, a, b):
    """The exact minimum of the mean squared error between two points."""
    f0, f1, half = mean_square(X, y, a), mean_square(X, y, b), [(p + q) / 2 for p, q in zip(a, b, strict=True)]
    middle = mean_square(X, y, half)
    bend = 2 * (f0 + f1 - 2 * middle)  # f(t) = f0 + slope t + bend t^2
    slope = f1 - f0 - bend
    best = -slope / (2 * bend) if bend else Fraction(0)
    t = min(max(best, Fraction(0)), Fraction(1))
    return min(f0, f1, f0 + slope * t + bend * t * t)


def exact_minimum(X, y, kind, radius):
    """That of two features over the simplex, or over the l1 ball where it binds."""
    rows = [rational(row) for row in X]
    r, zero = Fraction(radius), Fraction(0)
    corners = [[r, zero], [zero, r]] if kind == "simplex" else [[r, zero], [zero, r], [-r, zero], [zero, -r]]
    sides = zip(corners, corners[1:] + corners[:1], strict=True)
    return min(least_on_segment(rows, rational(y), a, b) for a, b in sides)


@pytest.mark.parametrize("kind", ["simplex", "l1"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_bracket_holds_in_exact_arithmetic(name, kind):
    constraint = sets.ProbabilitySimplex(0.7) if kind == "simplex" else sets.L1Ball(0.7)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(20, 2)) * 10.0 ** rng.integers(-3, 4, 2)
        # Far outside of the set, so that the ball binds; at odd seeds the best point is a corner.
        y = X @ (np.array([3.0, 0.0]) if seed % 2 else np.array([30.0, 20.0])) + 0.1 * rng.normal(size=20)
        result = OPTIMIZERS[name]().minimize(X, y, constraint=constraint, steps=60, seed=seed)
        least = exact_minimum(X, y, kind, 0.7)
        assert Fraction(result.fun - result.gap) <= least <= Fraction(result.fun), seed
        assert result.gap >= 0.0
        computed = np.mean((X @ result.x - y) ** 2)
        assert result.fun == pytest.approx(computed, rel=1e-12)


def test_a_bracket_around_a_corner_is_as_narrow_as_its_sums_allow():
    """At the best point itself nothing is left but rounding."""
    X, y = np.array([[1.0, 0.3], [0.2, 0.1], [0.7, 0.9]]), np.array([5.0, 1.0, 4.0])
    result = optim.FW().minimize(X, y, constraint=sets.L1Ball(0.1), steps=3)
    assert 0.0 < result.gap < 1e-12
    assert result.fun == pytest.approx(np.mean((X @ result.x - y) ** 2), rel=1e-13)


LOSSES = (
    river_optim.losses.Squared(),
    river_optim.losses.Absolute(),
    river_optim.losses.Huber(0.1),
    river_optim.losses.Poisson(),
    losses.EpsilonInsensitive(0.1),
    losses.NegativeLogReturn(),
)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_the_bounds_cover_what_rounding_did_to_a_value(loss):
    """Beside the mean of the losses in 80 bits or more, where predictions are differences of large numbers."""
    rng = np.random.default_rng(5)
    value, _ = losses.vector_loss(loss)
    for scale in (1.0, 1e6):
        X = rng.normal(size=(30, 4))
        X[:, 1] = -X[:, 0] * (1.0 + 1e-7 * rng.normal(size=30))
        X[:, :2] *= scale
        w = np.array([0.3, 0.3, 0.2, -0.1])
        y = rng.normal(size=30)
        csr, d = as_rows(X, y)
        fun, gap = FiniteSum(rows_of(csr, d), y, ScalarLoss(loss)).measure(w, sets.L1Ball(1.0))
        exact = [sum(a * b for a, b in zip(rational(row), rational(w), strict=True)) for row in X]
        nearest = value(y, np.array([float(z) for z in exact]))  # off by its own few roundings alone
        few = 16 * np.finfo(float).eps * (1.0 + np.abs(nearest) + np.abs([float(z) for z in exact]) * (1 + np.abs(y)))
        assert fun >= np.mean(nearest) - np.mean(few)
        assert fun - np.mean(nearest) <= 1e-8 * scale
        assert gap >= 0.0
