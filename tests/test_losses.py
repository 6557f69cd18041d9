"""Compiled losses against river's own methods, and against differences."""

import math

import numpy as np
import pytest
from river import optim

from fwonline import losses

RIVER = [
    optim.losses.Squared(),
    optim.losses.Absolute(),
    optim.losses.Huber(0.3),
    optim.losses.Quantile(0.2),
    optim.losses.Poisson(),
    optim.losses.EpsilonInsensitiveHinge(0.2),
    optim.losses.Log(),
    optim.losses.Log(weight_pos=2.0, weight_neg=0.5),
    optim.losses.Hinge(),
    optim.losses.Hinge(0.0),
    optim.losses.BinaryFocalLoss(2.0, 1.0),
]
OURS = [losses.EpsilonInsensitive(0.2), losses.SquaredHinge(), losses.SmoothHinge(0.5), losses.NegativeLogReturn(0.2)]
GRID = np.array([-30.0, -2.0, -1.0, -0.5, -0.1, 0.0, 0.1, 0.3, 0.5, 0.9, 1.0, 1.2, 2.0, 30.0])


def labels(loss):
    return [0, 1] if losses.is_binary(loss) else [-1.5, 0.0, 0.4, 1.0]


@pytest.mark.parametrize("loss", RIVER, ids=repr)
def test_compiled_equals_rivers_own_methods(loss):
    value, derivative = losses.vector_loss(loss)
    assert losses.compiled(loss) is not None
    # river's sigmoid is clipped far out, and the value of its Quantile is not the one of its gradient
    grid = GRID[1:-1] if isinstance(loss, optim.losses.BinaryFocalLoss) else GRID
    twin = optim.losses.Quantile(1 - loss.alpha) if isinstance(loss, optim.losses.Quantile) else loss
    for label in labels(loss):
        y = np.full(grid.size, float(label))
        np.testing.assert_allclose(value(y, grid), [twin(label, z) for z in grid], rtol=1e-7, atol=1e-12)
        np.testing.assert_allclose(derivative(y, grid), [loss.gradient(label, z) for z in grid], rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("loss", [*RIVER, *OURS], ids=repr)
def test_derivative_is_the_slope_of_the_value(loss):
    value, derivative = losses.vector_loss(loss)
    h, z = 1e-6, np.random.default_rng(0).uniform(-3, 3, 200)  # random points miss the kinks
    for label in labels(loss):
        y = np.full(z.size, float(label))
        slope = (value(y, z + h) - value(y, z - h)) / (2 * h)
        np.testing.assert_allclose(derivative(y, z), slope, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("loss", [*RIVER, *OURS], ids=repr)
def test_convex(loss):
    value, _ = losses.vector_loss(loss)
    rng = np.random.default_rng(1)
    a, b, t = rng.normal(0, 3, 500), rng.normal(0, 3, 500), rng.uniform(0, 1, 500)
    for label in labels(loss):
        y = np.full(a.size, float(label))
        assert np.all(value(y, t * a + (1 - t) * b) <= t * value(y, a) + (1 - t) * value(y, b) + 1e-9)


@pytest.mark.parametrize("loss", OURS, ids=repr)
def test_our_losses_answer_scalars_and_arrays_alike(loss):
    y = labels(loss)[1]
    np.testing.assert_allclose(loss(y, GRID), [loss(y, z) for z in GRID])
    np.testing.assert_allclose(loss.gradient(y, GRID), [loss.gradient(y, z) for z in GRID])
    assert repr(loss.clone()) == repr(loss)


def test_extreme_margins_stay_finite():
    value, derivative = losses.vector_loss(optim.losses.Log())
    z = np.array([-1e6, -800.0, 800.0, 1e6])
    for y in (np.zeros(4), np.ones(4)):
        assert np.all(np.isfinite(value(y, z)))
        assert np.all(np.abs(derivative(y, z)) <= 1.0)


def test_a_loss_of_ones_own_runs_by_its_methods():
    class LogCosh:
        def __call__(self, y_true, y_pred):
            return math.log(math.cosh(y_pred - y_true))

        def gradient(self, y_true, y_pred):
            return math.tanh(y_pred - y_true)

    value, derivative = losses.vector_loss(LogCosh())
    assert losses.compiled(LogCosh()) is None
    np.testing.assert_allclose(derivative(np.zeros(2), np.array([0.0, 1.0])), [0.0, math.tanh(1.0)])
    np.testing.assert_allclose(value(np.zeros(2), np.array([0.0, 1.0])), [0.0, math.log(math.cosh(1.0))])


def test_a_subclass_is_not_taken_for_its_parent():
    class Flipped(optim.losses.Squared):
        def gradient(self, y_true, y_pred):
            return -super().gradient(y_true, y_pred)

    _, derivative = losses.vector_loss(Flipped())
    assert derivative(np.zeros(1), np.ones(1))[0] == -2.0


def test_what_is_no_loss_is_refused():
    with pytest.raises(TypeError, match="gradient"):
        losses.vector_loss(abs)
    with pytest.raises(ValueError, match="width must be a finite number > 0"):
        losses.SmoothHinge(0.0)
