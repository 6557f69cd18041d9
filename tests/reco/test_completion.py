"""Completion beside literal numpy versions, river's checks, and what must not harm it."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from river import checks, metrics

from fwonline import datasets, reco
from fwonline._kernels import lowrank, room
from fwonline.exceptions import SampleError
from fwonline.loop import EventLoop, codec
from fwonline.monitors import Metric
from fwonline.reco import _dense, _factored

METHODS = ("hcgm", "shcgm")


def ratings(n=1500, n_users=70, n_items=90, rank=2, seed=3, noise=0.2):
    data = datasets.LowRankRatings(n_users=n_users, n_items=n_items, rank=rank, noise=noise, seed=seed)
    X, y = data.to_arrays(n)
    users, items = X.astype(int).T
    return users, items, y, data.matrix


def model(method="hcgm", **changes):
    return reco.SHCGMCompletion(**({"lower": 1.0, "upper": 5.0, "method": method, "seed": 7, "batch": 50} | changes))


class Known:
    """Ratings by position, the last of each pair, in the order of first sight: what a model stores."""

    def __init__(self, users, items, y):
        rows, cols, at = {}, {}, {}
        for u, i, value in zip(users, items, y, strict=True):
            at[rows.setdefault(u, len(rows)), cols.setdefault(i, len(cols))] = value
        self.r, self.c = np.array(list(at)).T
        self.y = np.array(list(at.values()))
        self.shape = len(rows), len(cols)

    def matrix(self, entries):
        out = np.zeros(self.shape)
        out[self.r, self.c] = entries
        return out


def literal_hcgm(known, of_user, of_item, *, radius, beta0, batch, seed, steps):
    """HCGM with full singular value decompositions; `of_user`, `of_item`: the biases to begin with."""
    rng = np.random.default_rng(seed)
    (m, n), r, c, y = known.shape, known.r, known.c, known.y
    X, mean = np.zeros((m, n)), y.mean()
    for k in range(1, steps + 1):
        of_item = np.bincount(c, y - mean - of_user[r], n) / (np.bincount(c, minlength=n) + 5)
        of_user = np.bincount(r, y - mean - of_item[c], m) / (np.bincount(r, minlength=m) + 5)
        whole = mean + of_user[:, None] + of_item + X
        out = (whole - np.clip(whole, 1, 5)) * math.sqrt(k + 1) / beta0
        G = known.matrix(2 * (whole[r, c] - y) + out[r, c])
        rows, cols = rng.integers(0, m, batch, dtype=np.uint32), rng.integers(0, n, batch, dtype=np.uint32)
        np.add.at(G, (rows, cols), out[rows, cols])
        rng.standard_normal(n)  # what the LMO's start takes
        u, _, vt = np.linalg.svd(G)
        X += 2 / (k + 1) * (-radius * np.outer(u[:, 0], vt[0]) - X)
    return mean + of_user[:, None] + of_item + X


def literal_shcgm(known, *, radius, beta0, batch, seed, steps):
    """Algorithm 1 of Locatello et al., every matrix dense."""
    rng = np.random.default_rng(seed)
    X, d, N = np.zeros(known.shape), np.zeros(known.shape), known.y.size
    for k in range(1, steps + 1):
        eta, beta, rho = 9 / (k + 8), beta0 / math.sqrt(k + 8), 4 / (k + 7) ** (2 / 3)
        chosen = rng.choice(N, min(batch, N), replace=False)
        r, c = known.r[chosen], known.c[chosen]
        gradient = np.zeros(known.shape)
        gradient[r, c] = 2 * N / chosen.size * (X[r, c] - known.y[chosen])
        d = (1 - rho) * d + rho * gradient
        rng.standard_normal(known.shape[1])
        u, _, vt = np.linalg.svd(d + (X - np.clip(X, 1, 5)) / beta)
        X += eta * (-radius * np.outer(u[:, 0], vt[0]) - X)
    return X


def whole(completion):
    """Every prediction before it is clipped, users and items in their order."""
    m, n = completion.n_users, completion.n_items
    r, c = (a.ravel().astype(np.uint32) for a in np.meshgrid(range(m), range(n), indexing="ij"))
    x = completion._state.values(r, c)
    return (x + completion._ratings.biases(r, c) if completion._state.with_biases else x).reshape(m, n)


@pytest.mark.parametrize("steps", [1, 2, 7, 40])
def test_hcgm_is_the_literal_version(steps, monkeypatch):
    monkeypatch.setattr(_factored, "_TOLERANCE", 1e-12)
    monkeypatch.setattr(_factored, "_CUT", 1e-13)
    users, items, y, _ = ratings()
    ours = model(radius=60.0, beta0=1.0)
    ours.store(users, items, y)
    known, (m, n) = Known(users, items, y), ours._ratings.shape
    start = ours._ratings.of_user[:m].copy(), ours._ratings.of_item[:n].copy()
    expected = literal_hcgm(known, *start, radius=60.0, beta0=1.0, batch=50, seed=7, steps=steps)
    ours.advance(steps)
    assert whole(ours) == pytest.approx(expected, abs=1e-6)
    assert ours._state.fit[: known.y.size] == pytest.approx(
        ours._state.values(known.r, known.c), abs=1e-9
    )  # what is kept at the ratings is what the factors say


@pytest.mark.parametrize("steps", [1, 2, 7, 40])
def test_shcgm_is_the_literal_version(steps, monkeypatch):
    monkeypatch.setattr(_dense, "_TOLERANCE", 1e-12)
    users, items, y, _ = ratings()
    ours = model("shcgm", radius=300.0, beta0=2.0)
    ours.store(users, items, y)
    ours.advance(steps)
    expected = literal_shcgm(Known(users, items, y), radius=300.0, beta0=2.0, batch=50, seed=7, steps=steps)
    assert whole(ours) == pytest.approx(expected, abs=1e-5)
    assert ours._state.distance == pytest.approx(np.linalg.norm(expected - np.clip(expected, 1, 5)), abs=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_the_nuclear_norm_stays_within_the_radius(method):
    users, items, y, _ = ratings()
    ours = model(method, radius=80.0)
    ours.store(users, items, y)
    for _ in range(6):
        ours.advance(20)
        X = whole(ours)
        if ours._state.with_biases:
            X = X - ours._ratings.biases(*np.meshgrid(range(X.shape[0]), range(X.shape[1]), indexing="ij"))
        assert np.linalg.svd(X, compute_uv=False).sum() <= 80.0 * (1 + 1e-9)


@pytest.mark.parametrize(("method", "radius", "share"), [("hcgm", None, 0.25), ("shcgm", 400.0, 0.75)])
def test_completes_what_was_not_seen(method, radius, share):
    users, items, y, truth = ratings(6000, rank=1)
    ours = model(method, radius=radius, beta0=1.0)
    for u, i, value in zip(users.tolist(), items.tolist(), y.tolist(), strict=True):
        ours.learn_one(u, i, value)
    ours.advance(400)
    every = np.array([[ours.predict_one(u, i) for i in range(90)] for u in range(70)])
    assert math.sqrt(np.mean((every - truth) ** 2)) < share * truth.std()
    assert 0.0 <= ours.infeasibility < 0.05
    assert ours.n_steps == len(y) // 50 + 400


@pytest.mark.parametrize("method", METHODS)
def test_gap_bounds_what_is_left_to_gain(method, monkeypatch):
    """Without a box and at full batches the gap is the objective's own."""
    monkeypatch.setattr(_factored, "_TOLERANCE", 1e-9)
    monkeypatch.setattr(_dense, "_TOLERANCE", 1e-9)
    users, items, y, _ = ratings()
    ours = model(method, lower=None, upper=None, radius=300.0, batch=len(y))
    ours.store(users, items, y)
    ours._waiting = 0
    values = []
    for _ in range(5):
        ours.advance(100)
        values.append((ours._state.loss, ours.gap))
    assert values[-1][1] < values[0][1]
    if method == "hcgm":
        assert min(v for v, _ in values) >= values[-2][0] - values[-2][1]


def test_a_second_rating_takes_the_place_of_the_first():
    ours, other = model(), model()
    for value in (1.0, 2.0, 5.0):
        ours.learn_one("a", "x", value)
    other.learn_one("a", "x", 5.0)
    assert ours.n_samples == 1
    assert ours._ratings.mean == pytest.approx(5.0)
    assert ours._ratings.y[:2].tolist() == [5.0, 0.0]


def test_finds_every_rating_again():
    users, items, y, _ = ratings(4000)
    ours = model(batch=10_000)
    ours.store(users, items, y)
    known = Known(users, items, y)
    assert ours.n_samples == known.y.size
    assert ours._ratings.y[: known.y.size].tolist() == known.y.tolist()
    assert ours._ratings.mean == pytest.approx(known.y.mean())


@pytest.mark.parametrize("method", METHODS)
def test_river_checks(method):
    checks.check_estimator(reco.SHCGMCompletion(method=method, batch=3, seed=1))
    checks.check_estimator(reco.SHCGMCompletion())


@pytest.mark.parametrize("method", METHODS)
def test_unseen_names_are_predicted_by_what_there_is(method):
    ours = model(method, batch=4)
    assert ours.predict_one("nobody", "nothing") == 1.0  # 0 is below the box
    assert ours.infeasibility == 0.0
    for user in "abcdef":
        ours.learn_one(user, "x", 4.0)
        ours.learn_one(user, "y", 2.0)
    before = pickle.dumps(ours)
    assert ours.predict_one("new", "x") > 3.0 > ours.predict_one("new", "y")
    assert ours.predict_one("a", "new") == pytest.approx(3.0, abs=0.2)
    assert ours.rank("new", {"x", "y"}) == ["x", "y"]
    assert pickle.dumps(ours) == before


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("user", "item", "y", "words"),
    [
        ("a", "x", math.nan, "rating of item 'x' by user 'a' is nan; expected a number from 1.0 to 5.0"),
        ("a", "x", math.inf, "is inf"),
        ("a", "x", 5.5, "is 5.5; expected a number from 1.0 to 5.0"),
        ("a", "x", "4", "is '4'"),
        ("a", "x", None, "is None"),
        (["a"], "x", 4.0, r"the user is \['a'\]; expected a hashable name"),
        ("a", math.nan, 4.0, "the item is nan; expected a name that is equal to itself"),
    ],
)
def test_a_bad_rating_leaves_no_trace(method, user, item, y, words):
    ours = model(method, batch=2)
    for k in range(5):
        ours.learn_one(k, k % 2, 3.0)
    before = codec.dumps(ours)
    with pytest.raises(SampleError, match=words):
        ours.learn_one(user, item, y)
    assert codec.dumps(ours) == before


def test_bad_parameters():
    for changes, words in (
        ({"lower": 5.0, "upper": 1.0}, "lower must not be above upper, got lower=5.0 and upper=1.0"),
        ({"lower": math.nan}, "lower must be a finite number"),
        ({"radius": 0.0}, "radius must be a finite number > 0, got 0.0"),
        ({"beta0": -1.0}, "beta0 must be a finite number > 0"),
        ({"method": "sgd"}, "method must be one of 'hcgm', 'shcgm', got 'sgd'"),
        ({"batch": 0}, "batch must be an integer >= 1"),
    ):
        with pytest.raises(ValueError, match=words):
            model(**changes)
    with pytest.raises(SampleError, match="row 1: the rating of item 4"):
        model().store([1, 2], [3, 4], [3.0, 9.0])
    with pytest.raises(ValueError, match="shorter"):
        model().store([1, 2], [3], [3.0, 4.0])


def test_a_matrix_larger_than_memory_is_refused_before_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(room.os, "sysconf", lambda name: 2**10)  # a machine of a MiB
    ours = model("shcgm", batch=10_000)
    users, items = np.arange(400), np.arange(400)
    ours.store(users, items, np.full(400, 3.0))
    before = codec.dumps(ours)
    with pytest.raises(MemoryError, match=r"400 x 400 .* takes 0.0 GiB"):
        ours.advance()
    assert codec.dumps(ours) == before


@pytest.mark.parametrize("method", METHODS)
def test_a_checkpoint_goes_on_to_the_bit(method):
    users, items, y, _ = ratings(2000)
    samples = list(zip(users.tolist(), items.tolist(), y.tolist(), strict=True))
    ours = model(method)
    for sample in samples[:1030]:
        ours.learn_one(*sample)
    again, copied = codec.loads(codec.dumps(ours)), copy.deepcopy(ours)
    for sample in samples[1030:]:
        for one in (ours, again, copied):
            one.learn_one(*sample)
    for other in (again, copied):
        assert [other.predict_one(u, i) for u, i, _ in samples[:99]] == [
            ours.predict_one(u, i) for u, i, _ in samples[:99]
        ]
    assert codec.dumps(again) == codec.dumps(ours)


def test_same_seed_same_model():
    users, items, y, _ = ratings(500)
    answers = []
    for _ in range(2):
        ours = model()
        ours.store(users, items, y)
        ours.advance(10)
        answers.append(ours.predict_arrays(users, items).tolist())
    assert answers[0] == answers[1]


def test_learns_from_a_stream():
    stream = datasets.LowRankRatings(n_users=40, n_items=50, rank=1, seed=1)
    loop = EventLoop(stream, model(), monitors=[Metric(metrics.RMSE())])
    summary = loop.run(limit=3_000)
    assert summary.n_learned == 3_000
    assert summary.monitors["RMSE"] < 0.9 * stream.matrix.std()


def test_nothing_to_learn_is_learned():
    ours = model(lower=None, upper=None, batch=1)
    ours.advance(3)
    assert ours.n_steps == 0
    for _ in range(4):
        ours.learn_one("a", "x", 0.0)
    assert ours.predict_one("a", "x") == 0.0
    assert ours.n_steps == 4


def test_leading_pair_of_entries_and_gathered_rows():
    rng = np.random.default_rng(0)
    m, n, count = 60, 45, 300
    rows, cols = rng.integers(0, m, count).astype(np.uint32), rng.integers(0, n, count).astype(np.uint32)
    g = rng.normal(size=count)
    dense = np.zeros((m, n))
    np.add.at(dense, (rows, cols), g)
    extra = np.where(rng.random((m, n)) < 0.2, rng.normal(size=(m, n)), 0.0)
    at = np.nonzero(extra)
    starts = np.searchsorted(at[0], np.arange(m + 1))
    basis, small = np.zeros((11, n)), np.zeros((4, 11))
    basis[0] = 1 / math.sqrt(n)
    left, image = np.zeros(m), np.zeros(n)
    square, residual, _ = lowrank.leading_pair(
        rows, cols, g, count, starts, at[1].astype(np.uint32), extra[at], m, n, basis, left, image, *small, 1e-12, 500
    )
    u, s, vt = np.linalg.svd(dense + extra)
    assert math.sqrt(square) == pytest.approx(s[0], rel=1e-12)
    assert residual <= 1e-11 * square
    assert abs(basis[0] @ vt[0]) == pytest.approx(1.0, rel=1e-9)
    assert left == pytest.approx(s[0] * u[:, 0] * np.sign(basis[0] @ vt[0]), abs=1e-6)


def test_a_user_who_rated_everything_in_any_order(monkeypatch):
    monkeypatch.setattr(_factored, "_TOLERANCE", 1e-12)
    users, items = [0] * 30 + [1, 2, 3], [*range(30)[::-1], 4, 5, 6]
    y = [1.0 + 4.0 * (i % 7) / 6 for i in range(33)]
    ours = model(radius=9.0, beta0=1.0)
    ours.store(users[29:], items[29:], y[29:])  # not in the order of the items' positions
    ours.store(users[:29], items[:29], y[:29])
    known = Known([*users[29:], *users[:29]], [*items[29:], *items[:29]], [*y[29:], *y[:29]])
    m, n = known.shape
    start = ours._ratings.of_user[:m].copy(), ours._ratings.of_item[:n].copy()
    ours.store([0], [items[29]], [5.0])  # rated again
    known.y[0] = 5.0
    ours.advance(3)
    expected = literal_hcgm(known, *start, radius=9.0, beta0=1.0, batch=50, seed=7, steps=3)
    assert whole(ours) == pytest.approx(expected, abs=1e-6)
