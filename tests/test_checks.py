"""Checks of parameters."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fwonline._checks import check_choice, check_count, check_positive, is_real


@pytest.mark.parametrize("value", [1, 0.5, np.float32(2.0), Fraction(1, 3)])
def test_positive_numbers_pass(value):
    check_positive("radius", value)
    assert is_real(value)


@pytest.mark.parametrize("value", [0.0, -1, math.inf, math.nan, True, "1", None, 10**400])
def test_others_are_named(value):
    with pytest.raises(ValueError, match="radius must be a finite number > 0, got"):
        check_positive("radius", value)


@pytest.mark.parametrize("value", [1, 0.0, -1, True, "2", None])
def test_a_count_is_a_whole_number_of_at_least_so_many(value):
    check_count("k", np.int64(2), 2)
    with pytest.raises(ValueError, match="k must be an integer >= 2, got"):
        check_count("k", value, 2)


def test_a_choice_is_one_of_a_few():
    check_choice("method", "mean", {"mean": 1, "shcgm": 2})
    with pytest.raises(ValueError, match="method must be one of 'mean', 'shcgm', got 'other'"):
        check_choice("method", "other", {"mean": 1, "shcgm": 2})
