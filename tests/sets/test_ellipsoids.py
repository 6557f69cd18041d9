"""Values and errors of ellipsoids."""

import decimal
import math
from decimal import Decimal

import numpy as np
import pytest
from scipy import optimize

from fwonline import sets


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"matrix": [[1.0, 0.0]]}, r"matrix must have shape \(d, d\) or \(d,\), got \(1, 2\)"),
        ({"matrix": 1.0}, "matrix must have shape"),
        ({"matrix": []}, "matrix must have shape"),
        ({"matrix": "m"}, "matrix must be an array of numbers"),
        ({"matrix": [1.0, math.nan]}, "matrix must be finite"),
        ({"matrix": [[1.0, 0.5], [0.0, 1.0]]}, "matrix must be symmetric"),
        ({"matrix": [[1.0, 2.0], [2.0, 1.0]]}, "matrix must be positive definite, its smallest eigenvalue is -1"),
        ({"matrix": [1.0, 0.0]}, "matrix must be positive definite"),
        ({"matrix": [1.0, 1.0], "center": [0.0]}, r"center must be finite, of shape \(2,\)"),
        ({"matrix": [1.0], "center": [math.inf]}, "center must be finite"),
        ({"matrix": [1.0], "center": "c"}, "center must be an array of numbers"),
        ({"matrix": [1.0], "radius": 0.0}, "radius must be a finite number > 0"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=f"Ellipsoid: {message}"):
        sets.Ellipsoid(**parameters)


def random_ellipsoid(rng, d):
    factor = rng.normal(size=(d, d))
    return sets.Ellipsoid(factor @ factor.T + 0.1 * np.eye(d), rng.normal(size=d), rng.uniform(0.1, 3))


@pytest.mark.parametrize("seed", range(5))
def test_lmo_is_the_closed_form(seed):
    rng = np.random.default_rng(seed)
    ellipsoid = random_ellipsoid(rng, 4)
    for g in rng.normal(size=(5, 4)):
        solved = np.linalg.solve(ellipsoid.matrix, g)
        expected = ellipsoid.center - ellipsoid.radius * solved / math.sqrt(g @ solved)
        np.testing.assert_allclose(ellipsoid.lmo(g).to_dense(), expected, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_projection_against_a_solver(seed):
    rng = np.random.default_rng(seed)
    ellipsoid = random_ellipsoid(rng, 3)
    matrix, center, radius = ellipsoid.matrix, ellipsoid.center, ellipsoid.radius
    for x in center + rng.normal(size=(4, 3)) * 10:
        inside = {"type": "ineq", "fun": lambda p: radius**2 - (p - center) @ matrix @ (p - center)}
        solved = optimize.minimize(
            lambda p, x=x: np.sum((p - x) ** 2), center, constraints=[inside], options={"ftol": 1e-14, "maxiter": 500}
        )
        np.testing.assert_allclose(ellipsoid.project(x), solved.x, atol=1e-4)


@pytest.mark.parametrize("spread", [1.0, 1e4, 1e10])
def test_projection_of_badly_scaled_ellipsoids(spread):
    """x - p must be a positive multiple of the normal at p."""
    rng = np.random.default_rng(4)
    curvatures = np.geomspace(1.0, spread, 6)
    ellipsoid = sets.Ellipsoid(curvatures, radius=2.0)
    for x in rng.normal(size=(20, 6)) * 10.0 ** rng.integers(-3, 6, size=(20, 1)):
        p = ellipsoid.project(x)
        away, normal = x - p, curvatures * p
        if ellipsoid.norm(x) <= 2.0:
            np.testing.assert_array_equal(p, x)
        else:
            assert ellipsoid.norm(p) == pytest.approx(2.0, rel=1e-12)
            cosine = away @ normal / (np.linalg.norm(away) * np.linalg.norm(normal))
            assert cosine == pytest.approx(1.0, abs=1e-9)


def test_a_diagonal_may_be_given_alone():
    diagonal = np.array([1.0, 4.0, 9.0])
    short, full = (sets.Ellipsoid(matrix, [1.0, 0.0, 2.0], 2.0) for matrix in (diagonal, np.diag(diagonal)))
    for g in np.random.default_rng(5).normal(size=(5, 3)):
        np.testing.assert_allclose(short.lmo(g).to_dense(), full.lmo(g).to_dense(), rtol=1e-13)
        np.testing.assert_allclose(short.project(5 * g), full.project(5 * g), rtol=1e-11)
    assert short.diameter() == full.diameter() == 4.0


def test_only_a_centred_ellipsoid_has_a_norm():
    assert sets.Ellipsoid([4.0, 1.0]).norm([1.0, 0.0]) == 2.0
    with pytest.raises(NotImplementedError, match="is not the ball of a norm"):
        sets.Ellipsoid([4.0, 1.0], center=[1.0, 0.0]).norm([1.0, 0.0])


def test_learning_starts_nearest_to_the_origin():
    np.testing.assert_array_equal(sets.Ellipsoid([1.0, 1.0], [0.5, 0.0]).initial_point(2), [0.0, 0.0])
    np.testing.assert_allclose(sets.Ellipsoid([1.0, 1.0], [3.0, 4.0]).initial_point(2), [2.4, 3.2], rtol=1e-12)


def exact_projection(curvatures, radius, y):
    """By bisection for the multiplier, in 50 digits and with exponents of any size."""
    with decimal.localcontext(prec=50, Emax=10**8, Emin=-(10**8)):
        c, y, r = [Decimal(float(v)) for v in curvatures], [Decimal(float(v)) for v in y], Decimal(radius)

        def excess(mu):
            return sum(a * (b / (1 + mu * a)) ** 2 for a, b in zip(c, y, strict=True)) - r * r

        if excess(Decimal(0)) <= 0:
            return [float(v) for v in y]
        low, high = Decimal(-3000), (sum(b * b / a for a, b in zip(c, y, strict=True)).sqrt() / r).ln() + 1
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle.exp()) > 0 else (low, middle)
        return [float(b / (1 + high.exp() * a)) for a, b in zip(c, y, strict=True)]


EXTREME = [
    ([1e-6, 1e6], 1.0, [1e300, 1e300]),
    ([1e-6, 1e6], 1.0, [1e300, 1e-300]),
    ([1e6, 1e6], 1e-300, [1e300, -1e300]),
    ([1e-6, 1.0, 1e6], 1e-3, [1e5, -1e-2, 1e-5]),
    ([1e-100, 1e100], 1e10, [1e200, 1e-39]),
    ([1e-100, 1e100], 1e-10, [1e-200, 1e300]),
    ([1.0, 1e-12, 1e12], 1.0, [0.0, 1e7, 1e-5]),
    ([1e-145, 1e145, 1.0], 1e100, [1e180, 1e30, 0.0]),
    ([1e-145, 1e145], 1e134, [1e143, 1e243]),
]


@pytest.mark.parametrize(("curvatures", "radius", "y"), EXTREME)
def test_projections_of_extreme_points_onto_extreme_ellipsoids(curvatures, radius, y):
    ellipsoid = sets.Ellipsoid(curvatures, radius=radius)
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        point = ellipsoid.project(y)
        assert ellipsoid.contains(point, tol=1e-12)
    # Each coordinate in units of its own half-axis.
    errors = np.sqrt(curvatures) * (point - exact_projection(curvatures, radius, y)) / radius
    assert np.abs(errors).max() < 1e-12


def test_projections_onto_long_ellipsoids_are_exact():
    rng = np.random.default_rng(3)
    for _ in range(30):
        curvatures = 10.0 ** rng.uniform(-12, 12, 3)
        y = 10.0 ** rng.uniform(-20, 20, 3) * rng.choice([-1.0, 0.0, 1.0], 3)
        point = sets.Ellipsoid(curvatures).project(y)
        errors = np.sqrt(curvatures) * (point - exact_projection(curvatures, 1.0, y))
        assert np.abs(errors).max() < 1e-12
