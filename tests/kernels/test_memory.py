"""The memory of a finite sum: its pool of rows, its batches, and the rounding of its sum."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from support.kernels import entered

from fwonline import optim, sets
from fwonline._kernels import layout, memory, steps
from fwonline._kernels.state import SCALARS, Draws, Memory
from fwonline.linear_model import FWRegressor
from fwonline.optim.schedules import Harmonic


def learner(capacity, constraint=None, **given_):
    return FWRegressor(constraint or sets.L1Ball(1.0), optim.SFW(memory=capacity, **given_), seed=0, intercept=False)


def held(model):
    """The rows in memory, oldest first, as (indices, values, label)."""
    run = model._run
    live, seen, mem = run.s.live, run.s.seen, run.mem
    for k in range(live):
        row = mem.held[(seen - live + k) % mem.held.size]
        where = slice(row["start"], row["start"] + row["length"])
        yield mem.idx[where].tolist(), mem.val[where].tolist(), row["y"]


def spans(model):
    held = model._run.mem.held[: model._run.s.live]
    return [(a, a + n) for a, n in zip(held["start"].tolist(), held["length"].tolist(), strict=True) if n]


@pytest.mark.parametrize("capacity", [1, 2, 3, 7, 20])
@settings(max_examples=40, deadline=None)
@given(lengths=st.lists(st.sampled_from([0, 0, 1, 2, 5, 40, 700, 1500]), max_size=60))
def test_rows_stay_whole_first_in_first_out(capacity, lengths):
    """Rows of any length, none at all among them, around the end of the pool and through its growth."""
    model = learner(capacity)
    kept = []
    for t, length in enumerate(lengths):
        x = {j: float(t + 1) + j for j in range(length)}
        model.learn_one(x, float(t))
        kept = [*kept, (sorted(x), [float(t + 1) + j for j in range(length)], float(t))][-capacity:]
        assert list(held(model)) == kept
        for (_, end), (start, _) in itertools.pairwise(sorted(spans(model))):
            assert end <= start
        assert all(stop <= model._run.mem.idx.size for _, stop in spans(model))


def test_the_pool_stops_growing():
    model = learner(30)
    rng = np.random.default_rng(0)
    sizes = set()
    for t in range(3000):
        model.learn_one(dict.fromkeys(rng.choice(200, size=rng.integers(0, 100), replace=False).tolist(), 1.0), 1.0)
        if t > 1000:
            sizes.add(model._run.mem.idx.size)
    assert len(sizes) == 1
    assert sizes.pop() < 4 * 30 * 100


def memory_of(n):
    """A memory of n samples without entries, and the scalars."""
    mem, record = Memory.empty(n), np.zeros(1, SCALARS)
    mem.held["stamp"], record["live"] = -1, n
    return mem, record


def batches(n, size, first, count, seed=0):
    rng = np.random.default_rng(seed)
    mem, record = memory_of(n)
    batch = np.zeros(size, dtype=np.int64)
    for _ in range(count):
        record["drawn"] = 0
        entered(memory.draw_batch)(mem, Draws(rng.random(size), batch), record[0], size, first)
        assert record[0]["drawn"] == size - (first >= 0)
        yield batch.tolist()


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_batches_hold_different_slots_and_the_one_that_must_be(n):
    for size in range(1, n + 1):
        for first in range(-1, n):
            for batch in batches(n, size, first, 60):
                assert len(set(batch)) == size
                assert set(batch) <= set(range(n))
                assert first < 0 or batch[0] == first


@pytest.mark.parametrize(("n", "size", "first"), [(5, 2, -1), (6, 3, -1), (6, 3, 2), (6, 3, 5), (5, 4, 0), (4, 1, -1)])
def test_batches_are_uniform(n, size, first):
    """Each set of slots as often as any other."""
    counts = {}
    for batch in batches(n, size, first, 6000, seed=1):
        key = frozenset(batch)
        counts[key] = counts.get(key, 0) + 1
    free = (n, size) if first < 0 else (n - 1, size - 1)
    assert len(counts) == math.comb(*free)
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_batches_at_the_edges_of_the_random_numbers():
    mem, record = memory_of(4)
    for number in (0.0, np.nextafter(1.0, 0.0)):
        record["drawn"] = 0
        batch = np.zeros(4, dtype=np.int64)
        entered(memory.draw_batch)(mem, Draws(np.full(4, number), batch), record[0], 4, -1)
        assert sorted(batch) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("value", "y", "status"),
    [
        (1.0, 1.0, layout.OK),
        (-1e50, 1e50, layout.OK),
        (1e-320, 0.0, layout.OK),
        (1.1e100, 1.0, layout.BAD_VALUE),
        (np.nan, 1.0, layout.BAD_VALUE),
        (-np.nan, 1.0, layout.BAD_VALUE),
        (-np.inf, 1.0, layout.BAD_VALUE),
        (1.0, np.nan, layout.BAD_TARGET),
        (1.0, -np.inf, layout.BAD_TARGET),
    ],
)
def test_values_are_checked_wherever_they_stand(value, y, status):
    for k in range(9):
        val = np.linspace(-1.0, 1.0, 9)
        val[k] = value
        model = learner(2)
        model.learn_one(dict.fromkeys(range(9), 0.0), 0.0)
        run = model._run
        run.row.idx[:9], run.row.val[:9] = np.arange(9), val
        assert run.learn_buffered(9, y) == status
        if status == layout.OK:
            assert memory.largest_of(val.view(np.int64), 0, 9) == np.abs(val).max()
        # Outside of the row nothing is looked at.
        if abs(y) < np.inf:
            run.row.val[: 9 - k - 1] = val[k + 1 :]
            assert run.learn_buffered(9 - k - 1, y) == layout.OK


def exact_sum(model):
    """sum alpha_i x_i, rounded once, and the largest it could have been."""
    run = model._run
    parts = [[] for _ in range(run.n_features)]
    mass = 0.0
    for slot in range(run.s.live):
        row = run.mem.held[slot]
        alpha = np.longdouble(row["alpha"])
        for k in range(row["start"], row["start"] + row["length"]):
            parts[run.mem.idx[k]].append(alpha * np.longdouble(run.mem.val[k]))
        mass += abs(float(alpha)) * row["largest"]
    return np.array([float(sum(p, np.longdouble(0.0))) for p in parts]), mass


def assert_rounding_is_bounded(model):
    run = model._run
    exact, mass = exact_sum(model)
    n = run.s.live
    bound = 2.0**-53 * (max(memory.REFRESH, n) + 2 * n) * mass
    error = np.abs(run.it.u[: run.n_features] - exact).max()
    assert error <= bound
    assert run.s.mass == pytest.approx(mass, rel=1e-9)
    dot = float(exact @ run.weights)
    assert run.s.dot == pytest.approx(dot, abs=1e-8 * mass)


def test_a_huge_sample_that_comes_and_leaves_takes_its_rounding_along():
    rng = np.random.default_rng(1)
    model = learner(20, batch_size=2, steps_per_sample=2)
    for t in range(300):
        huge = t in (50, 120, 121)
        model.learn_one(dict(enumerate((rng.normal(size=5) * (1e90 if huge else 1.0)).tolist())), 1.0)
        assert_rounding_is_bounded(model)
        if t in (49, 119, 299):
            assert np.abs(model._run.it.u[:5]).max() < 1e4


@pytest.mark.slow
def test_rounding_is_bounded_over_ten_million_steps():
    rng = np.random.default_rng(2)
    n, d, memory_size = 100_000, 8, 64
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-6, 7, size=(n, 1))
    y = rng.normal(size=n)
    model = learner(memory_size, schedule=Harmonic(floor=0.05))
    sums = []
    for t in range(100):
        if t == 40:
            outlier = X.copy()
            outlier[n - 100] = 1e90  # it is in memory for 64 samples, and gone at the end
            model.learn_arrays(outlier, y)
        else:
            model.learn_arrays(X, y)
        assert_rounding_is_bounded(model)
        sums.append(model._run.s.n_sums)
    assert model.n_samples == 10_000_000
    # An amortised cost: rarely more often than the updates' number asks for.
    assert 9 <= sums[-1] < 10_000_000 / memory_size


@pytest.mark.slow
@pytest.mark.parametrize(
    "constraint",
    [
        sets.L1Ball(3.0),
        sets.ProbabilitySimplex(3.0),
        sets.UnitSimplex(3.0),
        sets.L2Ball(3.0),
        sets.LInfBall(0.3),
        sets.Box(-0.1, 0.7),
    ],
    ids=repr,
)
def test_a_million_steps_stay_in_the_set(constraint):
    """The scale of the iterate is folded in many times over, and rounding snapped back."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(100_000, 10)), rng.normal(size=100_000)
    model = learner(10, constraint, schedule=Harmonic(floor=0.1))
    for _ in range(10):
        model.learn_arrays(X, y)
        run = model._run
        raw = run.s.w_scale * run.it.v[:10]
        assert constraint.contains(raw, tol=1e-12)
        assert model.violation < 1e-14
        if run.is_sparse:  # where ||w||^2 is kept up to date in O(1)
            assert run.s.w_sq == pytest.approx(raw @ raw, rel=1e-9)
        assert run.s.w_scale >= steps.SMALLEST_SCALE * 1e-16
    assert model.n_samples == 1_000_000
