"""The monitor of drifts."""

import numpy as np
import pytest
from river import linear_model

from fwonline._protocols import Probabilities
from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError
from fwonline.monitors import Drift

RNG = np.random.default_rng(0)
ERRORS = np.concatenate([RNG.uniform(0, 1, 2000), RNG.uniform(0.5, 1.5, 1500), RNG.uniform(0, 0.5, 1500)])


def test_errors_that_grow_are_a_drift_and_errors_that_fall_are_none():
    monitor, at = Drift(), []
    for error in ERRORS:
        before = monitor.get()["drifts"]
        monitor.update(1.0, 1.0 + error)
        if monitor.get()["drifts"] > before:
            at.append(monitor.get()["drift_at"])
    assert len(at) in (1, 2)  # the window may drop its older part in two pieces
    assert 2000 < at[0] <= at[-1] < 2200
    assert monitor.get()["drift_error"] == pytest.approx(0.25, abs=0.05)
    steady = Drift()
    for error in ERRORS[:2000]:
        steady.update(0.0, error)
    assert steady.get()["drifts"] == 0


@pytest.mark.parametrize(
    ("y", "guess", "model", "error"),
    [
        (True, {True: 0.75, False: 0.25}, None, 0.25),
        ("new", {"old": 1.0}, None, 1.0),
        (True, False, None, 1.0),
        ("a", "a", None, 0.0),
        (7, 4, linear_model.LogisticRegression(), 1.0),
        (7, 4, linear_model.LinearRegression(), 3.0),
        (7, float("nan"), None, 0.0),
        (None, 1.0, None, 0.0),
    ],
)
def test_the_error_is_that_of_the_prediction(y, guess, model, error):
    monitor = Drift()
    monitor.update(y, guess, model=model)
    assert monitor.get()["drift_error"] == error


def test_many_at_once_are_the_same():
    one, many, labels = Drift(), Drift(), Drift()
    p = np.column_stack([ERRORS / 1.5, 1 - ERRORS / 1.5])
    for row in Probabilities(p, (False, True)).dicts():
        one.update(True, row)
    for part in np.split(p, [7, 2100]):
        many.update_many(np.ones(len(part), dtype=bool), Probabilities(part, (False, True)))
    assert one.get() == many.get()
    assert one.get()["drifts"] > 0
    labels.update_many(np.array(["a", "b"]), np.array(["a", "a"]))
    assert labels.get()["drift_error"] == 0.5


def test_it_goes_on_from_a_checkpoint():
    monitor, whole = Drift(), Drift()
    for error in ERRORS[:2100]:
        whole.update(0.0, error)
    for error in ERRORS[:1000]:
        monitor.update(0.0, error)
    monitor = codec.loads(codec.dumps(monitor))
    for error in ERRORS[1000:2100]:
        monitor.update(0.0, error)
    assert monitor.get() == whole.get()
    monitor._at = 2101
    with pytest.raises(CheckpointError, match="_at"):
        codec.loads(codec.dumps(monitor))


def test_what_it_refuses():
    with pytest.raises(ValueError, match=r"delta must lie in \(0, 1\), not be 0"):
        Drift(delta=0)


@pytest.mark.parametrize("model", [None, linear_model.LogisticRegression(), linear_model.LinearRegression()])
def test_errors_of_all_kinds_are_the_same_many_at_once(model):
    n, objects = 40, np.empty(40, object)
    objects[:] = [("a", 1), "b", None, True, 2.5] * 8
    numbers_, flags = RNG.normal(size=n), RNG.random(n) < 0.5
    numbers_[3] = np.inf
    p = RNG.random((n, 3))
    for y in (numbers_, flags, RNG.integers(0, 3, n), objects):
        for guess in (numbers_[::-1], numbers_, flags[::-1], objects[::-1], Probabilities(p, (True, 2, "b"))):
            one, many = Drift(), Drift()
            answers = guess.dicts() if isinstance(guess, Probabilities) else guess.tolist()
            for pair in zip(y.tolist(), answers, strict=True):
                one.update(*pair, model=model)
            many.update_many(y, guess, model=model)
            assert codec.dumps(many) == codec.dumps(one)
