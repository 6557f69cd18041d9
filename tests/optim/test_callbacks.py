"""Losses, schedules and sets that are Python objects, called back from compiled steps; what they raise is raised."""

import copy

import numpy as np
import pytest

from fwonline import optim, sets
from fwonline._kernels import entry
from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError
from fwonline.linear_model import FWRegressor
from fwonline.losses import CompiledLoss
from fwonline.optim.runs.run import Run
from fwonline.optim.schedules import Harmonic, Schedule

X = np.random.default_rng(0).normal(size=(60, 4))
Y = X @ np.array([1.0, -0.5, 0.0, 0.25])


class Failing:
    """The squared loss, which raises once: at the call of this number, or at this target."""

    def __init__(self, call=None, target=None, error=None, what="gradient"):
        self.call, self.target, self.what, self.count = call, target, what, 0
        self.error = error or RuntimeError("of the loss")

    def _called(self, what, y):
        if what == self.what:
            self.count += 1
            if self.count == self.call or y == self.target:
                self.target = None
                raise self.error

    def __call__(self, y, z):
        self._called("value", y)
        return (z - y) ** 2

    def gradient(self, y, z):
        self._called("gradient", y)
        return 2.0 * (z - y)


class Stepping(Schedule):
    """2 / (t + 2), or what it is told to do at one step."""

    def __init__(self, at=None, what=None):
        self.at, self.what = at, what

    def gamma(self, t, gap, dist_sq):
        if t == self.at:
            if isinstance(self.what, BaseException):
                raise self.what
            return self.what
        return 2.0 / (t + 2.0)


class Ball(sets.L1Ball):
    """An l1 ball whose oracle is Python's, and fails when it is told to."""

    error = None

    def _lmo(self, g):
        if self.error is not None:
            raise self.error
        return super()._lmo(g)


def learned(model, n):
    """What a model that learned the first n rows says of itself."""
    fresh = FWRegressor(model.constraint.clone(), model.optimizer.clone(), seed=0, intercept=False)
    fresh.learn_arrays(X[:n], Y[:n])
    return fresh.weights


@pytest.mark.parametrize("what", ["gradient", "value"])
@pytest.mark.parametrize("optimizer", [optim.OneSampleFW, lambda: optim.SFW(memory=10), optim.StochasticPairwiseFW])
def test_the_row_whose_own_loss_raises_moves_nothing(optimizer, what):
    model = FWRegressor(sets.L1Ball(1.0), optimizer(), loss=Failing(1, what=what), seed=0, intercept=False)
    with pytest.raises(RuntimeError, match="of the loss"):
        model.learn_one({"a": 1.0}, 2.0)
    assert model.n_samples == model.n_features == 0
    assert model.last_sample is None
    model.learn_one({"a": 1.0}, 2.0)
    assert model.n_samples == model.n_features == 1


@pytest.mark.parametrize("error", [RuntimeError("of the loss"), KeyboardInterrupt()])
@pytest.mark.parametrize("row", [0, 17, 59])
def test_rows_before_the_one_that_raised_are_learned(row, error):
    """In the middle of a matrix, by Ctrl-C too."""
    loss = Failing(target=Y[row], error=error)
    model = FWRegressor(sets.L1Ball(1.0), optim.SFW(memory=100), loss=loss, seed=0, intercept=False)
    with pytest.raises(type(error)):
        model.learn_arrays(X, Y)
    assert model.n_samples == row
    assert model.weights == learned(model, row)
    model.learn_arrays(X[row:], Y[row:])
    assert model.n_samples == 60


@pytest.mark.parametrize("error", [RuntimeError("of the loss"), KeyboardInterrupt()])
def test_an_error_in_a_replayed_batch_leaves_a_model_that_goes_on(error):
    """The sample that was looked at again keeps its derivative; the row that paid for it has been learned."""
    loss = Failing(40, error=error)
    model = FWRegressor(sets.L1Ball(1.0), optim.SFW(memory=20, batch_size=5), loss=loss, seed=0, intercept=False)
    with pytest.raises(type(error)):
        model.learn_arrays(X, Y)
    reached = model.n_samples
    assert 0 < reached < 60
    assert model.violation <= 1e-12
    assert np.isfinite(model.exact_gap)
    model.learn_arrays(X[reached:], Y[reached:])
    assert model.n_samples == 60


@pytest.mark.parametrize("what", [RuntimeError("of the schedule"), 1.5, float("nan"), -0.1])
def test_a_schedule_that_fails_leaves_the_iterate_where_it_was(what):
    model = FWRegressor(sets.L1Ball(1.0), optim.SFW(schedule=Stepping(3, what)), seed=0, intercept=False)
    with pytest.raises((RuntimeError, ValueError), match=r"of the schedule|returned a step of"):
        model.learn_arrays(X, Y)
    assert model.n_samples == 4  # the row had entered: its step was left out
    compared = FWRegressor(sets.L1Ball(1.0), optim.SFW(), seed=0, intercept=False)
    compared.learn_arrays(X[:3], Y[:3])
    assert model.weights == compared.weights


def test_a_set_that_fails_leaves_the_iterate_where_it_was():
    model = FWRegressor(Ball(1.0), optim.OneSampleFW(), seed=0, intercept=False)
    model.learn_arrays(X[:5], Y[:5])
    before, model.constraint.error = model.weights, RuntimeError("of the set")
    with pytest.raises(RuntimeError, match="of the set"):
        model.learn_arrays(X[5:], Y[5:])
    assert (model.n_samples, model.weights) == (6, before)
    model.constraint.error = None
    model.learn_arrays(X[6:], Y[6:])
    assert model.n_samples == 60


def test_objects_called_back_take_the_steps_that_compiled_ones_take():
    for optimizer in (optim.SFW(memory=10, batch_size=3, steps_per_sample=2), optim.OneSampleFW(), optim.MomentumFW()):
        compiled = FWRegressor(sets.L1Ball(1.0), optimizer.clone(), seed=0, intercept=False)
        called = FWRegressor(sets.L1Ball(1.0), optimizer.clone(), loss=Failing(), seed=0, intercept=False)
        written = FWRegressor(
            sets.L1Ball(1.0),
            optimizer.clone(),
            loss=CompiledLoss(lambda y, z: (z - y) ** 2, lambda y, z: 2.0 * (z - y)),
            seed=0,
            intercept=False,
        )
        for model in (compiled, called, written):
            model.learn_arrays(X, Y)
            assert model.weights == compiled.weights
            assert model.cumulative_loss == compiled.cumulative_loss
    by_hand = FWRegressor(sets.L1Ball(1.0), optim.SFW(schedule=Stepping()), seed=0, intercept=False)
    harmonic = FWRegressor(sets.L1Ball(1.0), optim.SFW(schedule=Harmonic()), seed=0, intercept=False)
    for model in (by_hand, harmonic):
        model.learn_arrays(X, Y)
    assert by_hand.weights == harmonic.weights


def square(y, z):
    return (z - y) ** 2


def slope(y, z):
    return 2.0 * (z - y)


def test_a_model_with_a_loss_of_compiled_functions_is_copied_cloned_and_saved():
    model = FWRegressor(
        sets.L1Ball(1.0), optim.SFW(memory=10), loss=CompiledLoss(square, slope), seed=0, intercept=False
    )
    model.learn_arrays(X[:30], Y[:30])
    with pytest.raises(CheckpointError, match=r"loss\.value cannot be saved: it is .*function"):
        codec.dumps(model)
    codec.register(square), codec.register(slope)
    copies = copy.deepcopy(model), codec.loads(codec.dumps(model))
    clone = model.clone()
    clone.learn_arrays(X[:30], Y[:30])
    for other in (*copies, clone):
        other.learn_arrays(X[30:], Y[30:])
    model.learn_arrays(X[30:], Y[30:])
    assert all(other.weights == model.weights for other in (*copies, clone))


@pytest.mark.parametrize("optimizer", [lambda: optim.SFW(memory=10, batch_size=3), optim.StochasticPairwiseFW])
def test_kernels_entered_in_the_ordinary_way_do_the_same(optimizer, monkeypatch):
    """Without addresses: numba looks at every array each time, and nothing else changes."""
    by_address = FWRegressor(sets.L1Ball(1.0), optimizer(), seed=0, intercept=False)
    by_address.learn_arrays(X, Y)
    monkeypatch.setattr(entry, "BY_ADDRESS", False)
    monkeypatch.setattr(Run, "_forms", {})
    plain = FWRegressor(sets.L1Ball(1.0), optimizer(), seed=0, intercept=False)
    for x, y in zip(X, Y.tolist(), strict=True):
        plain.learn_one(dict(enumerate(x.tolist())), y)
    assert plain.weights == by_address.weights
    assert optimizer().minimize(X, Y, constraint=sets.L1Ball(1.0), steps=50, seed=1).nit == 50
