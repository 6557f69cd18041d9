"""Projections after a sparse update, against the sets' own."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fwonline import optim, sets
from fwonline.linear_model import FWRegressor

VALUES = st.floats(-1e3, 1e3) | st.sampled_from([0.0, 1.0, -1.0, 1e-12, 1e8, -1e8])
SETS = [
    sets.L1Ball(2.0),
    sets.L1Ball(1e-3),
    sets.L2Ball(0.5),
    sets.LInfBall(1.0),
    sets.Box(-1.0, 2.0),
    sets.ProbabilitySimplex(1.0),
    sets.ProbabilitySimplex(1e4),
    sets.UnitSimplex(2.0),
]


@pytest.mark.parametrize("constraint", SETS, ids=repr)
@example([([0.0, 1.0, 0.0, 0.0], 1.0), ([0.0, 0.0, 1.0, -1e8], 1.0), ([0.0, 1.0, 1e8, 1.0], 0.0)])  # a margin cancels
@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.lists(VALUES, min_size=4, max_size=4), st.floats(-10.0, 10.0)), min_size=1, max_size=12))
def test_each_step_is_the_sets_own_projection(constraint, samples):
    model = FWRegressor(constraint, optim.ProjectedSGD(0.5), intercept=False)
    w = np.zeros(4)
    for t, (entries, y) in enumerate(samples):
        model.learn_one(dict(enumerate(entries)), y)
        x = np.array(entries)
        moved = w - 0.5 * (t + 1.0) ** -0.5 * 2.0 * (math.fsum(x * w) - y) * x
        expected = constraint.project(moved)
        scale = 1.0 + np.abs(moved).max()
        np.testing.assert_allclose(model._run.weights, expected, rtol=0, atol=1e-12 * scale)
        assert model.violation <= 1e-12 * scale
        w = model._run.it.v[:4].copy()  # compare step by step: a projection is as well conditioned as it can be


def test_equal_and_nearly_equal_entries_end():
    """Rounding must not send the search for a threshold around for ever."""
    for constraint in (sets.L1Ball(1.0), sets.ProbabilitySimplex(), sets.UnitSimplex()):
        for seed in range(200):
            rng = np.random.default_rng(seed)
            model = FWRegressor(constraint, optim.ProjectedSGD(0.1), intercept=False)
            base = rng.normal() * 10.0 ** rng.integers(-8, 9)
            for _ in range(5):
                x = base * (1.0 + 2.0**-52 * rng.integers(-3, 4, size=12))
                model.learn_one(dict(enumerate(x.tolist())), float(rng.normal()))
            assert model.violation <= 1e-12
