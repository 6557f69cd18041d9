"""The argmax under sparse updates, and the compensated dot product."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.kernels import entered

from fwonline._kernels import coordinates
from fwonline._kernels.layout import L1, SIMPLEX, UNIT_SIMPLEX
from fwonline._kernels.state import Iterate, Row

FEW = st.sampled_from([0.0, 1.0, -1.0, 2.0, -2.0, 0.5])
EXTREME = st.floats(-1e200, 1e200, allow_subnormal=True)


class Sum:
    """u with its bounds, as a run holds them, beside a plain copy."""

    def __init__(self, kind, capacity, d, seed):
        self.kind, self.d = kind, d
        self.rank = np.random.default_rng(seed).permutation(capacity)
        bound, group = (np.full(size, -np.inf) for size in coordinates.bound_sizes(capacity))
        self.it = Iterate.empty()._replace(u=np.zeros(capacity), rank=self.rank, bound=bound, group=group)
        coordinates.admit(self.it, 0, d)
        self.plain = np.zeros(capacity)

    def grow(self, count):
        new = min(self.d + count, len(self.it.u))
        coordinates.admit(self.it, self.d, new)
        self.d = new

    def add(self, idx, val, factor):
        idx, val = np.array(idx, dtype=np.uint32), np.array(val, dtype=float)
        entered(coordinates.add_row)(self.it, self.kind, Row(idx, val, 0, len(idx)), factor)
        np.add.at(self.plain, idx, factor * val)

    def check(self):
        got = entered(coordinates.best)(self.it, self.kind, self.d)
        keys = np.abs(self.plain[: self.d]) if self.kind == L1 else -self.plain[: self.d]
        ties = np.flatnonzero(keys == keys.max())
        assert got == ties[self.rank[ties].argmin()]


@pytest.mark.parametrize("kind", [L1, SIMPLEX, UNIT_SIMPLEX])
@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 300),
    st.lists(st.lists(st.tuples(st.integers(0, 10**6), FEW | EXTREME), max_size=6), max_size=25),
    st.randoms(use_true_random=False),
)
def test_best_is_what_a_plain_scan_finds(kind, d, updates, random):
    held = Sum(kind, 5000, d, seed=d)
    held.check()
    for update in updates:
        factor = random.choice([1.0, -1.0, 0.5, -2.0])
        held.add([j % held.d for j, _ in update], [x for _, x in update], factor)
        held.check()
        if random.random() < 0.2:
            held.grow(random.choice([1, 63, 64, 65, 2048]))
            held.check()


@pytest.mark.parametrize("kind", [L1, SIMPLEX])
def test_best_under_thousands_of_updates_that_rise_and_fall(kind):
    rng = np.random.default_rng(0)
    held = Sum(kind, 5000, 5000, seed=1)
    for _ in range(1500):
        idx = rng.choice(5000, size=8, replace=False)
        # Now and then a row leaves u again, exactly: keys fall, and many tie at 0.
        held.add(idx, rng.integers(-3, 4, size=8), 1.0)
        held.check()
        if rng.random() < 0.5:
            held.add(idx, held.it.u[idx], -1.0)
            held.check()


def test_best_among_several_regions_of_groups():
    rng = np.random.default_rng(5)
    held = Sum(L1, 300_000, 140_000, seed=1)  # 65,536 coordinates a region
    for step in range(300):
        if step == 150:
            held.grow(160_000)
        idx = rng.integers(held.d, size=4)
        held.add(np.unique(idx), rng.integers(-3, 4, size=np.unique(idx).size), 1.0)
        held.check()
        if rng.random() < 0.5:
            top = np.flatnonzero(np.abs(held.it.u) == np.abs(held.it.u).max())
            held.add(top, held.it.u[top], -1.0)  # all that ties at the top goes, and the best is elsewhere
            held.check()


def test_rebuild_gives_the_tightest_bounds():
    held = Sum(L1, 5000, 4321, seed=2)
    held.it.u[:] = held.plain[:] = np.random.default_rng(3).normal(size=5000)
    coordinates.rebuild(held.it, L1, 4321)
    for b in range(67):
        assert held.it.bound[b] == np.abs(held.it.u[64 * b : 64 * (b + 1)]).max()
    held.check()


def exact_dot(v, idx, val):
    return sum((Fraction(float(v[j] * x)) for j, x in zip(idx, val, strict=True)), Fraction(0))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), max_size=40), st.randoms(use_true_random=False))
def test_the_order_of_entries_does_not_show_in_a_dot_product(val, random):
    v = np.random.default_rng(len(val)).normal(size=max(len(val), 1))
    order = list(range(len(val)))
    answers = set()
    for _ in range(5):
        random.shuffle(order)
        idx, x = np.array(order, dtype=np.uint32), np.array([val[j] for j in order])
        answers.add(coordinates.sparse_dot(v, idx, x, 0, len(order)))
    exact = exact_dot(v, order, [val[j] for j in order])
    size = sum(abs(v[j] * x) for j, x in enumerate(val))
    for answer in answers:
        # As if summed in twice the precision and then rounded.
        assert abs(Fraction(answer) - exact) <= Fraction(2.0**-53) * abs(exact) + Fraction(2.0**-97) * Fraction(size)
    if abs(exact) > 1e-9 * size:
        assert len(answers) <= 1


def test_a_dot_product_of_part_of_a_pool():
    v, idx, val = np.arange(5.0), np.array([4, 3, 2, 1, 0], dtype=np.uint32), np.full(5, 2.0)
    assert coordinates.sparse_dot(v, idx, val, 1, 4) == 12.0
    assert coordinates.sparse_dot(v, idx, val, 2, 2) == 0.0
    hard = np.array([1e16, 1.0, -1e16, 1.0])
    assert coordinates.sparse_dot(np.ones(4), np.arange(4, dtype=np.uint32), hard, 0, 4) == math.fsum(hard) == 2.0
