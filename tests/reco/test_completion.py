"""Completion beside literal numpy versions, river's checks, and what must not harm it."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from river import base, checks, metrics
from river.checks import common
from river.reco.base import Ranker

from fwonline import _room as room
from fwonline import datasets, reco
from fwonline._kernels import lowrank
from fwonline._kernels.lanczos import Space
from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError, SampleError
from fwonline.loop import EventLoop
from fwonline.monitors import Feasibility, Metric
from fwonline.reco import _dense, _factored, _lmo, _ratings

METHODS = ("hcgm", "shcgm")


def ratings(n=1500, n_users=70, n_items=90, rank=2, seed=3, noise=0.2):
    data = datasets.LowRankRatings(n_users=n_users, n_items=n_items, rank=rank, noise=noise, seed=seed)
    X, y = data.to_arrays(n)
    users, items = X.astype(int).T
    return users, items, y, data.matrix


def model(method="hcgm", **changes):
    return reco.SHCGMCompletion(
        **({"lower": 1.0, "upper": 5.0, "method": method, "seed": 7, "batch_size": 50} | changes)
    )


class Known:
    """Ratings by position, the last of each pair, in the order of rows, then of first sight: what a model stores."""

    def __init__(self, users, items, y):
        rows, cols, at = {}, {}, {}
        for u, i, value in zip(users, items, y, strict=True):
            at[rows.setdefault(u, len(rows)), cols.setdefault(i, len(cols))] = value
        self.r, self.c, self.y = np.array([(*entry, value) for entry, value in at.items()]).T
        order = np.argsort(self.r, kind="stable")
        self.r, self.c, self.y = self.r[order].astype(int), self.c[order].astype(int), self.y[order]
        self.shape = len(rows), len(cols)

    def matrix(self, entries):
        out = np.zeros(self.shape)
        out[self.r, self.c] = entries
        return out


def literal_hcgm(known, of_user, of_item, *, radius, beta0, batch_size, seed, steps):
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
        rows, cols = rng.integers(0, m, batch_size, dtype=np.uint32), rng.integers(0, n, batch_size, dtype=np.uint32)
        np.add.at(G, (rows, cols), out[rows, cols])
        rng.standard_normal(n)  # what the LMO's start takes
        u, _, vt = np.linalg.svd(G)
        X += 2 / (k + 1) * (-radius * np.outer(u[:, 0], vt[0]) - X)
    return mean + of_user[:, None] + of_item + X


def literal_shcgm(known, *, radius, beta0, batch_size, seed, steps):
    """Algorithm 1 of Locatello et al., every matrix dense."""
    rng = np.random.default_rng(seed)
    X, d, N = np.zeros(known.shape), np.zeros(known.shape), known.y.size
    for k in range(1, steps + 1):
        eta, beta, rho = 9 / (k + 8), beta0 / math.sqrt(k + 8), 4 / (k + 7) ** (2 / 3)
        chosen = rng.choice(N, min(batch_size, N), replace=False)
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


@pytest.fixture
def exact(monkeypatch):
    """Steps as exact as doubles are."""
    monkeypatch.setattr(_lmo.Oracle, "precision", np.float64)
    for module in (_factored, _dense):
        monkeypatch.setattr(module, "_TOLERANCE", 1e-12)
    monkeypatch.setattr(_factored, "_CUT", 1e-13)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("steps", [1, 2, 7, 40])
def test_hcgm_is_the_literal_version(steps):
    users, items, y, _ = ratings()
    ours = model(radius=60.0, beta0=1.0)
    ours.store(users, items, y)
    known, (m, n) = Known(users, items, y), ours._ratings.shape
    start = ours._ratings.of_user[:m].copy(), ours._ratings.of_item[:n].copy()
    expected = literal_hcgm(known, *start, radius=60.0, beta0=1.0, batch_size=50, seed=7, steps=steps)
    ours.advance(steps)
    assert whole(ours) == pytest.approx(expected, abs=1e-6)
    assert ours._state.fit[: known.y.size] == pytest.approx(
        ours._state.values(known.r, known.c), abs=1e-9
    )  # what is kept at the ratings is what the factors say


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("steps", [1, 2, 7, 40])
def test_shcgm_is_the_literal_version(steps):
    users, items, y, _ = ratings()
    ours = model("shcgm", radius=300.0, beta0=2.0)
    ours.store(users, items, y)
    ours.advance(steps)
    expected = literal_shcgm(Known(users, items, y), radius=300.0, beta0=2.0, batch_size=50, seed=7, steps=steps)
    assert whole(ours) == pytest.approx(expected, abs=1e-5)


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
    ours = model(method, lower=None, upper=None, radius=300.0, batch_size=len(y))
    ours.store(users, items, y)
    ours._waiting = 0
    values = []
    for _ in range(5):
        ours.advance(100)
        values.append((ours._state.loss, ours.gap))
    assert values[-1][1] < values[0][1]
    if method == "hcgm":
        assert min(v for v, _ in values) >= values[-2][0] - values[-2][1]


def test_the_radius_grows_as_far_as_the_ratings_ask_for_it():
    users, items, y, truth = ratings(4000, n_users=60, n_items=80, rank=3, seed=2)
    left = truth - truth.mean()
    left -= left.mean(axis=1, keepdims=True)
    left -= left.mean(axis=0)
    ours, given = model(), model(radius=50.0)
    sizes = []
    for part in np.array_split(np.arange(4000), 8):
        ours.learn_arrays(users[part], items[part], y[part])
        given.learn_arrays(users[part], items[part], y[part])
        sizes.append(ours.current_radius)
    assert sizes == sorted(sizes)
    assert sizes[-1] > 2.0 * sizes[0]
    assert 0.7 < sizes[-1] / np.linalg.svd(left, compute_uv=False).sum() < 1.4
    assert given.current_radius == 50.0
    noise = model()
    noise.learn_arrays(users, items, 3.0 + 0.3 * np.random.default_rng(0).uniform(-1, 1, 4000))
    assert noise.current_radius < 1.3 * math.sqrt(noise.n_samples * 0.3**2 / 3)


@pytest.mark.parametrize("method", METHODS)
def test_infeasibility_is_that_of_a_sample_of_entries(method):
    users, items, y, _ = ratings()
    ours = model(method, radius=90.0 if method == "hcgm" else 600.0)
    ours.store(users, items, y)
    ours.advance(8)
    X = whole(ours)
    outside = X - np.clip(X, 1, 5)
    assert ours.infeasibility > 0.005
    rng = np.random.default_rng(0)
    at = rng.integers(0, X.shape[0], 10_000, np.uint32), rng.integers(0, X.shape[1], 10_000, np.uint32)
    assert ours.infeasibility == pytest.approx(np.linalg.norm(outside[at]) / np.linalg.norm(X[at]))
    assert ours.violation == pytest.approx(math.sqrt(X.size * np.mean(outside[at] ** 2)))
    monitor = Feasibility(every=1)
    monitor.update(model=ours)
    assert monitor.get()["violation"] == ours.violation


def test_the_error_of_the_linear_minimum_is_reported():
    """Without a box, on all ratings and at the first step, what the LMO sees is twice the ratings."""
    users, items, y, _ = ratings()
    ours, known = model("shcgm", lower=None, upper=None, radius=50.0, batch_size=2000), Known(users, items, y)
    assert ours.lmo_error == 0.0
    ours.store(users, items, y)
    ours.advance()
    exact = 50.0 * np.linalg.svd(2.0 * known.matrix(known.y), compute_uv=False)[0]
    assert 0.0 < ours.lmo_error < 0.01 * exact
    assert exact - ours.lmo_error <= ours.gap <= exact * (1 + 1e-6)


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
    ours = model(batch_size=10_000)
    ours.store(users[:1000], items[:1000], y[:1000])
    assert ours._ratings.arrange().size == ours._ratings.arranged
    ours.store(users[1000:], items[1000:], y[1000:])
    known = Known(users, items, y)
    assert ours.n_samples == known.y.size
    assert ours._ratings.arrange() is not None
    assert ours._ratings.y[: known.y.size].tolist() == known.y.tolist()
    assert ours._ratings.mean == pytest.approx(known.y.mean())
    assert ours._ratings.arrange() is None


@pytest.mark.parametrize("method", METHODS)
def test_many_at_once_are_what_one_by_one_are(method):
    users, items, y, _ = ratings(700)
    y[::5] = 3.0
    names = [f"user {u}" for u in users]  # of any kind
    one, many, bulk = (model(method) for _ in range(3))
    for sample in zip(names, items.tolist(), y.tolist(), strict=True):
        one.learn_one(*sample)
    for part in (slice(0, 33), slice(33, 410), slice(410, 700)):
        many.learn_arrays(names[part], items[part], y[part])
    assert many.n_steps == one.n_steps == 14
    asked = [*names, "nobody"], [*items.tolist(), 3]
    expected = [one.predict_one(user, item) for user, item in zip(*asked, strict=True)]
    assert many.predict_arrays(*asked).tolist() == one.predict_arrays(*asked).tolist() == pytest.approx(expected)
    bulk.store(names, items, y)
    assert bulk.n_steps == 0
    assert bulk._ratings.mean == one._ratings.mean
    for stars in ([3, 5, 4], np.array([3, 5, 4]), np.array([3, 5, 4], dtype=object), np.array([3, 5, 4], np.float32)):
        few = model(method)
        few.store(["a", "b", "a"], ["x", "x", "y"], stars)
        assert few._ratings.y[:3].tolist() == [3.0, 5.0, 4.0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("unit", [1e-60, 1e60])
def test_the_scale_of_ratings_does_not_show(method, unit):
    """What single precision could not hold is brought into its range."""
    users, items, y, _ = ratings(600)
    plain, scaled = (
        reco.SHCGMCompletion(radius=60 * u, lower=u, upper=5 * u, method=method, batch_size=100, seed=1)
        for u in (1.0, unit)
    )
    plain.learn_arrays(users, items, y)
    scaled.learn_arrays(users, items, np.clip(unit * y, unit, 5 * unit))
    plain.advance(20)
    scaled.advance(20)
    assert scaled.predict_arrays(users, items) / unit == pytest.approx(plain.predict_arrays(users, items), abs=0.05)


class OfDicts(base.Regressor):
    """A ranker whose user and item are features, which is the form that river's checks on data have."""

    def __init__(self, method="hcgm", seed=None):
        self.method, self.seed = method, seed
        self.ranker = model(method, batch_size=3, seed=seed)

    def learn_one(self, x, y):
        self.ranker.learn_one(x["user"], x["item"], y)

    def predict_one(self, x):
        return self.ranker.predict_one(x["user"], x["item"])


@pytest.mark.parametrize("method", METHODS)
def test_river_checks(method):
    checks.check_estimator(reco.SHCGMCompletion(method=method, batch_size=3, seed=1))
    assert reco.SHCGMCompletion()._unit_test_skips() == Ranker._unit_test_skips(reco.SHCGMCompletion())
    # river has none on data for rankers that are not regressors; those that do not take features away hold here too
    for check in (
        common.check_learn_one,
        common.check_pickling,
        common.check_shuffle_features_no_impact,
        common.check_predict_one_pure,
        common.check_predict_one_before_any_learn,
        common.check_no_state_aliasing_with_input,
        common.check_clone_is_independent,
        common.check_seeding_is_idempotent,
        common.check_bounded_memory_growth,
    ):
        check(OfDicts(method), datasets.LowRankRatings(n_users=5, n_items=6, seed=1).take(300))


@pytest.mark.parametrize("method", METHODS)
def test_unseen_names_are_predicted_by_what_there_is(method):
    ours = model(method, batch_size=4)
    assert ours.predict_one("nobody", "nothing") == 1.0  # 0 is below the box
    assert ours.infeasibility == ours.violation == 0.0
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
        ("a", "x", 10**400, "is 1000000"),
        ("a", "x", None, "is None"),
        (["a"], "x", 4.0, r"the user is \['a'\]; expected a hashable name"),
        ("a", math.nan, 4.0, "the item is nan; expected a name that is equal to itself"),
    ],
)
def test_a_bad_rating_leaves_no_trace(method, user, item, y, words):
    ours = model(method, batch_size=2)
    for k in range(5):
        ours.learn_one(k, k % 2, 3.0)
    before = codec.dumps(ours)
    with pytest.raises(SampleError, match=words):
        ours.learn_one(user, item, y)
    assert codec.dumps(ours) == before


def test_bad_parameters():
    for changes, words in (
        ({"lower": 5.0, "upper": 1.0}, "lower must not be above upper, got lower=5.0 and upper=1.0"),
        ({"lower": math.nan}, r"lower must be a number of at most 1e\+100 in size, or None, got nan"),
        ({"upper": 10**400}, "upper must be a number"),
        ({"lower": True}, "lower must be a number"),
        ({"radius": 0.0}, "radius must be a finite number > 0, got 0.0"),
        ({"beta0": -1.0}, "beta0 must be a finite number > 0"),
        ({"method": "sgd"}, "method must be one of 'hcgm', 'shcgm', got 'sgd'"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1"),
    ):
        with pytest.raises(ValueError, match=words):
            model(**changes)
    for store in ("store", "learn_arrays"):
        for last in (9.0, "9", math.nan, 9, 10**400):
            ours = model()
            with pytest.raises(SampleError, match="row 1: the rating of item 4"):
                getattr(ours, store)([1, 2], [3, 4], [3.0, last])
            assert ours.n_samples == 1
    with pytest.raises(ValueError, match="users, items and y must have the same length, got 2, 1 and 2"):
        model().store([1, 2], [3], [3.0, 4.0])


def test_a_matrix_larger_than_memory_is_refused_before_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(room.os, "sysconf", lambda name: 990)  # a machine of a MB
    ours = model("shcgm", batch_size=10_000)
    ours.store(range(200), range(200), [3.0] * 200)
    before = codec.dumps(ours)
    names = range(200, 400)
    with pytest.raises(MemoryError, match=r"400 x 400 .* takes 0\.0 GiB"):
        ours.store(names, names, [3.0] * 200)
    with pytest.raises(MemoryError, match=r"250 x 250 .* takes 0\.0 GiB"):
        ours.learn_one("new", "new", 3.0)
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
    ours = model(lower=None, upper=None, batch_size=1)
    ours.advance(3)
    assert ours.n_steps == 0
    for _ in range(4):
        ours.learn_one("a", "x", 0.0)
    assert ours.predict_one("a", "x") == 0.0
    assert ours.n_steps == 4


def mixed(precision):
    """A matrix whose rows are written out, listed, or both but for some entries; as a kernel and as numpy has it."""
    rng = np.random.default_rng(0)
    m, n = 60, 45
    dense = np.where(rng.random((m, n)) < 0.2, rng.normal(size=(m, n)), 0.0)
    starts, columns, values = [0], [], []
    for i, row in enumerate(dense):
        at = np.arange(n) if i in (*range(8, 17), 30) else np.nonzero(row)[0]
        columns += [n, *at[1:]] if at.size == n else [*at]
        values += [*row[at]]
        starts.append(len(values))
    loose = rng.integers(0, m, 300).astype(np.uint32), rng.integers(0, n, 300).astype(np.uint32), rng.normal(size=300)
    np.add.at(dense, loose[:2], loose[2])
    gathered = np.array(starts), np.array([*columns, 0], np.uint32), np.array([*values, 0.0], precision)
    return dense, lowrank.Rows(*gathered), lowrank.Entries(*loose[:2], loose[2].astype(precision))


@pytest.mark.parametrize(("precision", "tol"), [(np.float64, 1e-11), (np.float32, 1e-4)])
def test_the_leading_pair(precision, tol):
    dense, gathered, loose = mixed(precision)
    m, n = dense.shape
    space, lefts = Space.of(10, n, precision), np.zeros((10, m), precision)
    basis = space.basis
    basis[0] = 1 / math.sqrt(n)
    square, residual, products = lowrank.leading_pair(gathered, loose, m, n, space, lefts, tol, 500)
    u, s, vt = np.linalg.svd(dense)
    assert math.sqrt(square) == pytest.approx(s[0], rel=tol)
    assert residual <= tol * square
    assert products < 500
    assert abs(basis[0] @ vt[0]) == pytest.approx(1.0, rel=100 * tol)
    assert lefts[0] == pytest.approx(s[0] * u[:, 0] * np.sign(basis[0] @ vt[0]), abs=1e4 * tol)


def test_what_the_lmo_sees_of_a_dense_iterate():
    rng = np.random.default_rng(0)
    m, n, room = 40, 90, 95
    x, u, v = rng.normal(3.0, 0.6, (50, room)), rng.normal(size=m), rng.normal(size=n)
    x[20:25, :n] += 5.0  # far outside the box
    rows = np.sort(rng.integers(0, m, 60))
    rows[:8] = 0
    cols, d = rng.permutation(n)[np.arange(60) % n].astype(np.uint32), rng.normal(size=60)
    starts = np.searchsorted(rows, np.arange(m + 1))
    out = np.zeros(m + 1, np.int64), np.zeros(m * n + 1, np.uint32), np.zeros(m * n + 1)
    X = 0.9 * x[:m, :n] - 0.2 * np.outer(u, v)
    move, box = lowrank.Move(0.9, -0.2, u, v), lowrank.Box(1.0, 5.0, 2.5)
    inner, squares = lowrank.move_dense(x, move, box, 0.5, lowrank.Rows(starts, cols, d), lowrank.Rows(*out))
    assert x[:m, :n] == pytest.approx(X)
    outside = X - np.clip(X, 1.0, 5.0)
    V = 2.5 * outside
    np.add.at(V, (rows, cols), d)
    seen, whole = np.zeros((m, n)), 0
    for i in range(m):
        row = slice(out[0][i], out[0][i + 1])
        columns = out[1][row]
        if columns.size and columns[0] == n:
            whole, columns = whole + 1, np.arange(n)
        np.add.at(seen[i], columns, out[2][row])
    assert 5 < whole < m
    assert seen == pytest.approx(0.5 * V)
    assert inner == pytest.approx(np.vdot(V, X))
    assert squares == pytest.approx(np.vdot(outside, outside))


@pytest.mark.usefixtures("exact")
def test_a_user_who_rated_everything_in_any_order():
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
    expected = literal_hcgm(known, *start, radius=9.0, beta0=1.0, batch_size=50, seed=7, steps=3)
    assert whole(ours) == pytest.approx(expected, abs=1e-6)


def filled(dtype, *entries, size=64):
    array = np.zeros(size, dtype)
    array[: len(entries)] = entries
    return array


@pytest.mark.parametrize(
    "damage",
    [
        {"arranged": 8},  # the rows do not ascend
        {"count": 99},
        {"count": -1},
        {"count": 7},
        {"rows": np.arange(8, dtype=np.uint32)},
        {"rows": filled(np.uint32, 0, 1, 2, 0, 1, 2, 0, 3)},
        {"rows": filled(np.uint32, 0, 1, 2, 0, 1, 2, 0, 0)},  # one pair twice
        {"rows": filled(np.int64, 0, 1, 2, 0, 1, 2, 0, 1)},
        {"cols": np.full(64, 3, dtype=np.uint32)},
        {"y": np.zeros(5)},
        {"y": np.zeros(0), "rows": np.zeros(0, np.uint32), "cols": np.zeros(0, np.uint32), "count": 0},
        {"y": filled(float, math.nan)},
        {"y": filled(float, 9.0)},  # out of the box
        {"mean": math.inf},
        {"mean": 3},
        {"n_user": np.zeros(2)},
        {"n_user": filled(float, 3, 3, 3, size=8)},
        {"of_user": filled(float, math.nan, size=8)},
        {"of_item": filled(float, 0, 0, 0, 1, size=8)},  # of an item to come
        {"users": None},
    ],
)
def test_saved_ratings_that_do_not_fit_each_other_are_refused(damage):
    ours = model(batch_size=1000)
    ours.store([0, 1, 2, 0, 1, 2, 0, 1], [0, 0, 0, 1, 1, 1, 2, 2], [3.0] * 8)
    codec.loads(codec.dumps(ours))
    vars(ours._ratings).update(damage)
    with pytest.raises(CheckpointError, match="Ratings"):
        codec.loads(codec.dumps(ours))


@pytest.mark.parametrize(
    "names", [["a", "a", "b"], ["a", "b"], ["a", "b", math.nan], range(10**12), ("a", "b", "c"), [["a"], "b", "c"]]
)
def test_saved_names_that_do_not_fit_are_refused(names, monkeypatch):
    ours = model(batch_size=1000)
    ours.store(["a", "b", "c"], [0, 0, 0], [3.0] * 3)
    codec.loads(codec.dumps(ours))
    monkeypatch.setattr(_ratings.Index, "__getstate__", lambda index: {"names": names})
    with pytest.raises(CheckpointError):
        codec.loads(codec.dumps(ours))


@pytest.mark.parametrize("method", METHODS)
def test_saved_iterates_that_do_not_fit_their_ratings_are_refused(method):
    ours = model(method)
    ours.learn_arrays(*ratings(200)[:3])
    codec.loads(codec.dumps(ours))
    m, n = ours._state.seen
    damages = {
        "hcgm": {
            "left": [np.zeros((3, 32)), np.zeros((m, 0)), np.full((m, 32), 1e9), np.zeros((32, m)).T],
            "right": [np.zeros((90, 3)), np.full((n, 32), np.nan)],
            "rank": [33, 0, -1, 1.0],
            "scale": [0.0, -1.0, 1e-300],
            "fitted": [999],
            "fit": [np.zeros(3), np.full(512, 1e9)],
            "with_biases": [False],
        },
        "shcgm": {
            "x": [np.zeros((3, 3)), np.full((m, n), 1e200), np.zeros((n, m)).T],
            "u": [np.zeros(3), np.full(m, 1e9)],
            "d": [np.zeros(300, np.float32)],
            "keep": [2.0],
            "weight": [1.0],
        },
    }
    both = {
        "seen": [(99, 99), (m, n + 1), (0, n), [m, n], (m, float(n))],
        "steps": [-1, 1 << 60],
        "radius": [math.nan, -1.0],
        "oracle": [None, _oracle(v=np.zeros(n + 1)), _oracle(v=np.full(n, 1e9)), _oracle(unit=0.0)],
    }
    for name, values in {**damages[method], **both}.items():
        for value in values:
            other = codec.loads(codec.dumps(ours))
            setattr(other._state, name, value)
            with pytest.raises(CheckpointError, match=r"Factored|Dense|Oracle"):
                codec.loads(codec.dumps(other))


def _oracle(**changes):
    made = _lmo.Oracle()
    vars(made).update(changes)
    return made


def test_damaged_parameters_are_refused():
    ours = model(radius=9.0)
    ours.learn_arrays(*ratings(200)[:3])
    for name, value in {"radius": 5.0, "lower": math.nan, "batch_size": 7, "method": "shcgm", "_waiting": -1}.items():
        other = codec.loads(codec.dumps(ours))
        setattr(other, name, value)
        with pytest.raises(CheckpointError, match=r"SHCGMCompletion|Problem"):
            codec.loads(codec.dumps(other))
    other = codec.loads(codec.dumps(ours))
    other._ratings.items = other._ratings.users
    with pytest.raises(CheckpointError, match="Ratings"):
        codec.loads(codec.dumps(other))


def test_what_names_ratings_has_memory_of_its_own():
    """Another object of the file that is a view of it would move ratings to users that there are not."""
    ours = model(batch_size=1000)
    ours.store([0, 1], [0, 1], [3.0, 3.0])
    rows = ours._ratings.rows
    loaded, view = codec.loads(codec.dumps([ours, rows[:3]]))
    assert view.tolist() == [0, 1, 0]
    assert not np.shares_memory(view, loaded._ratings.rows)
