"""Kernels entered without a look at the types of their arguments."""

import typing

import numpy as np
import pytest

from fwonline._kernels.entry import Direct
from fwonline._kernels.layout import jit


class Pair(typing.NamedTuple):
    values: np.ndarray
    factor: float


@jit
def scaled_sum(pair, offset):
    total = offset
    for k in range(pair.values.size):
        total += pair.factor * pair.values[k]
    return total


def test_it_returns_what_the_kernel_does_for_each_key():
    direct = Direct(scaled_sum)
    for dtype in (np.float64, np.float32):
        pair = Pair(np.arange(4, dtype=dtype), 2.0)
        for offset in (0.0, 1.5):
            assert direct(dtype, pair, offset) == scaled_sum(pair, offset) == 12.0 + offset
    longer = Pair(np.ones(9), 1.0)
    assert direct(np.float64, longer, 0.0) == 9.0


def test_what_cannot_be_converted_is_refused():
    direct = Direct(scaled_sum)
    direct(None, Pair(np.ones(2), 1.0), 0.0)
    for pair, offset in (
        (Pair(None, 1.0), 0.0),
        (Pair(np.ones(2, np.float32), 1.0), 0.0),
        ((np.ones(2),), 0.0),
        (Pair(np.ones(2), 1.0), "a"),
    ):
        with pytest.raises(TypeError):
            direct(None, pair, offset)
