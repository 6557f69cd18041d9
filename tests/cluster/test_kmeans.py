"""The relaxation beside literal numpy versions, its rounding, river's checks, and what must not harm it."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from river import checks

from fwonline import _room as room
from fwonline import cluster, datasets
from fwonline.checkpoint import codec
from fwonline.cluster import _methods, _rounding
from fwonline.exceptions import CheckpointError, SampleError
from fwonline.loop import EventLoop
from fwonline.optim.schedules import EXACT

METHODS = ("mean", "shcgm")
CENTRES = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.2], [0.0, 1.0, -0.3], [1.2, 1.1, 0.0]])


def cloud(n=80, spread=0.12, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(4, size=n)
    return CENTRES[labels] + spread * rng.standard_normal((n, 3)), labels


def model(method="mean", **changes):
    return cluster.SHCGMKMeans(
        **({"n_clusters": 4, "method": method, "n_points": 80, "batch_size": 20, "seed": 5} | changes)
    )


def distances(P):
    return ((P[:, None] - P) ** 2).sum(axis=-1)


def literal(P, method, *, k, beta0, batch_size, seed, steps):
    """Algorithm 1 of Locatello et al., or HCGM on the distances seen, with full eigendecompositions."""
    rng = np.random.default_rng(seed)
    N, D = len(P), distances(P)
    X, d, one = np.zeros((N, N)), np.zeros((N, N)), np.ones(N)
    unit = k / (N * D.sum() / (N * (N - 1)))
    for t in range(1, steps + 1):
        chosen = rng.choice(N, batch_size, replace=False)
        block = np.ix_(chosen, chosen)
        if method == "mean":
            eta, beta = 2 / (t + 1), beta0 * unit / math.sqrt(t + 1)
            d[block] = D[block]
        else:
            eta, beta, rho = 9 / (t + 8), beta0 / math.sqrt(t + 8), 4 / (t + 7) ** (2 / 3)
            d *= 1 - rho
            d[block] += rho * N * (N - 1) / (batch_size * (batch_size - 1)) * D[block]
        rows = np.outer(X @ one - one, one)
        weight = 1 if method == "mean" else N
        V = d + (weight * (X - np.maximum(X, 0)) + (rows + rows.T) / 2) / beta
        rng.standard_normal(N)  # what the eigenvector's start takes
        v = np.linalg.eigh(V)[1][:, 0]
        X += eta * (k * np.outer(v, v) - X)
    return X


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("steps", [1, 2, 7, 40])
def test_steps_are_the_literal_ones(method, steps, monkeypatch):
    monkeypatch.setattr(_methods, "_TOLERANCE", 1e-12)
    P, _ = cloud()
    ours = model(method, beta0=0.5)
    ours.store(P)
    ours.advance(steps)
    expected = literal(P, method, k=4, beta0=0.5, batch_size=20, seed=5, steps=steps)
    X = ours.to_numpy()
    assert pytest.approx(expected, abs=1e-7) == X
    assert ours.objective == pytest.approx(np.vdot(distances(P), expected), abs=1e-4)
    rows, negative = ours.infeasibility
    assert rows == pytest.approx(np.linalg.norm(expected.sum(axis=1) - 1) / math.sqrt(80), abs=1e-6)
    assert negative == pytest.approx(np.linalg.norm(np.minimum(expected, 0)) / np.linalg.norm(expected), abs=1e-6)
    both = math.hypot(np.linalg.norm(expected.sum(axis=1) - 1), np.linalg.norm(np.minimum(expected, 0)))
    assert ours.violation == pytest.approx(both, abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_x_stays_in_the_spectraplex_while_points_come_and_go(method):
    P, _ = cloud(400)
    ours = model(method, n_points=60)
    for t, row in enumerate(P.tolist()):
        ours.learn_one(dict(enumerate(row)))
        if ours.n_steps and t % 37 == 0:
            X = ours.to_numpy()
            assert np.trace(X) == pytest.approx(4.0, rel=1e-9)
            assert np.linalg.eigvalsh(X)[0] > -1e-9
            assert ours._relaxation.sums[: len(X)] == pytest.approx(X.sum(axis=1), abs=1e-9)
    assert len(ours.to_numpy()) == 60
    assert ours.n_samples == 400


def test_the_sample_is_uniform():
    kept = np.zeros(300)
    for seed in range(100):
        ours = model(n_points=30, batch_size=1000, seed=seed)
        for t in range(300):
            ours.learn_one({"t": float(t)})
        kept[ours._relaxation.points[:30, 0].astype(int)] += 1
    # 100 draws of a share of 1/10: by halves, the means are known to about 0.4
    assert kept[:150].mean() == pytest.approx(10, abs=1.3)
    assert kept[150:].mean() == pytest.approx(10, abs=1.3)


@pytest.mark.parametrize("method", METHODS)
def test_finds_the_clusters(method):
    P, truth = cloud(1500)
    ours = model(method, beta0=1.0 if method == "mean" else 0.05)
    for row in P.tolist():
        ours.learn_one(dict(enumerate(row)))
    ours.advance(300)
    labels = np.array([ours.predict_one(dict(enumerate(row))) for row in P.tolist()])
    for c in range(4):
        assert np.bincount(labels[truth == c], minlength=4).max() >= 0.98 * (truth == c).sum()
    assert set(ours.centers) == {0, 1, 2, 3}
    held = ours._relaxation.points[: ours._relaxation.n]
    best = _rounding.value(held, _rounding.assign(held, CENTRES))
    assert ours.value == pytest.approx(best, rel=0.02)


def test_a_stream_ends_at_the_best_partition_and_never_falls_behind_its_rounding():
    ours = model(n_clusters=5, n_points=200, batch_size=50)
    for t, (x, _) in enumerate(datasets.GaussianMixture(n_clusters=5, seed=3).take(1000), 1):
        ours.learn_one(x)
        if t % 50 == 0:
            assert ours.value <= ours.rounded_value * (1 + 1e-9)
    held = ours._relaxation.points[:200]
    assert ours.value <= 1.001 * _rounding.value(held, _rounding.places(held, 5))


def test_the_error_of_the_linear_minimum_is_reported():
    P, _ = cloud()
    ours = model(batch_size=80)
    assert ours.lmo_error == 0.0
    ours.store(P)
    ours.advance()
    unit = 4 / (80 * distances(P).sum() / (80 * 79))
    rows = -np.ones((80, 80)) / EXACT.beta(1, unit)
    exact = -4 * np.linalg.eigvalsh(distances(P) + rows)[0]  # at X = 0
    assert 0.0 < ours.lmo_error < exact
    assert exact - ours.lmo_error <= ours.gap <= exact * (1 + 1e-9)


def test_the_gap_closes_on_the_relaxation():
    P, _ = cloud()
    ours = model(batch_size=80)
    ours.store(P)
    gaps = []
    for _ in range(4):
        ours.advance(200)
        gaps.append((ours.gap, max(ours.infeasibility)))
    assert gaps[-1][0] < gaps[0][0]
    assert gaps[-1][1] < gaps[0][1]
    # a feasible X cannot do better than the relaxation's minimum, which is near, and no partition does
    assert ours.objective <= ours.value * 1.05


def test_labels_stay_from_one_rounding_to_the_next():
    P, _ = cloud(600)
    ours = model()
    ours.store(P[:200])
    ours.advance(100)
    before = [ours.predict_one(dict(enumerate(c))) for c in CENTRES]
    for row in P[200:].tolist():
        ours.learn_one(dict(enumerate(row)))
    assert [ours.predict_one(dict(enumerate(c))) for c in CENTRES] == before
    assert len(set(before)) == 4


def test_rounding_of_points_is_k_means():
    P, _ = cloud(200)
    labels = _rounding.places(P, 4)
    assert _rounding.value(P, labels) <= _rounding.value(P, _rounding.assign(P, CENTRES)) * 1.001
    D, onehot = distances(P), np.eye(4)[labels]
    X = onehot / onehot.sum(axis=0) @ onehot.T
    assert _rounding.value(P, labels) == pytest.approx(np.vdot(D, X))


def test_river_checks():
    for parameters in cluster.SHCGMKMeans._unit_test_params():
        checks.check_estimator(cluster.SHCGMKMeans(**parameters))


def test_answers_before_learning_and_on_what_is_new():
    ours = model()
    assert ours.predict_one({"a": 1.0}) == 0
    assert math.isnan(ours.value)
    assert math.isnan(ours.objective)
    assert ours.violation == 0.0
    assert ours.centers == {}
    P, _ = cloud(100)
    for row in P.tolist():
        ours.learn_one(dict(zip("abc", row, strict=True)))
    before = pickle.dumps(ours)
    assert ours.predict_one({"a": 0.0, "new": 3.0}) == ours.predict_one({}) == ours.predict_one({"c": 0, "b": 0})
    assert pickle.dumps(ours) == before
    ours.learn_one({"new": 2.0})  # a feature of its own, 0 for all before
    ours.advance()
    assert set(ours.centers[0]) == {"a", "b", "c", "new"}


def test_the_order_of_keys_does_not_show():
    P, _ = cloud(200)
    one, other = model(), model()
    for row in P.tolist():
        x = dict(zip("abc", row, strict=True))
        one.learn_one(x)
        other.learn_one(dict(reversed(x.items())))
    assert one.centers == other.centers
    assert (one.to_numpy() == other.to_numpy()).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, "1", None, 1e200, 10**400])
def test_a_bad_value_leaves_no_trace(value):
    ours = model()
    ours.store(cloud(50)[0])
    before = codec.dumps(ours)
    with pytest.raises(SampleError, match=r"feature 'b' is .*; expected a finite number"):
        ours.learn_one({"a": 1.0, "b": value})
    assert codec.dumps(ours) == before


def test_bad_parameters():
    for changes, words in (
        ({"n_clusters": 1}, "n_clusters must be from 2 to n_points - 1 = 79, got 1"),
        ({"n_clusters": 80}, "n_clusters must be from 2"),
        ({"batch_size": 1}, "batch_size must be at least 2"),
        ({"method": "lloyd"}, "method must be one of 'mean', 'shcgm', got 'lloyd'"),
        ({"beta0": math.nan}, "beta0 must be a finite number > 0"),
    ):
        with pytest.raises(ValueError, match=words):
            model(**changes)
    with pytest.raises(ValueError, match="points x features"):
        model().store([1.0, 2.0])
    ours = model()
    with pytest.raises(SampleError, match="row 1: feature 0 is nan"):
        ours.store([[1.0], [math.nan], [3.0]])
    assert ours.n_samples == 1


def test_more_points_than_memory_holds_are_refused_before_it_is_asked_for(monkeypatch):
    ours = model(n_points=10_000, batch_size=10_000)
    ours.store(np.arange(64.0)[:, None])
    monkeypatch.setattr(room.os, "sysconf", lambda name: 2**8)
    before = codec.dumps(ours)
    with pytest.raises(MemoryError, match=r"relaxation for 128 points of 1 features takes 0\.0 GiB"):
        ours.learn_one({0: 1.0})
    assert codec.dumps(ours) == before


def test_more_features_than_memory_holds_are_refused_before_it_is_asked_for(monkeypatch):
    ours = model(n_points=100, batch_size=100)
    ours.store(np.arange(10.0)[:, None])
    monkeypatch.setattr(room.os, "sysconf", lambda name: 2**9)
    before = codec.dumps(ours)
    with pytest.raises(MemoryError, match=r"relaxation for 64 points of 500 features takes 0\.0 GiB"):
        ours.learn_one(dict.fromkeys(range(500), 1.0))
    assert codec.dumps(ours) == before
    ours.learn_one({0: 1.0, 1: 2.0})
    assert ours.n_samples == 11


def test_points_that_are_all_alike():
    ours = model()
    ours.store(np.ones((30, 2)))
    ours.advance(5)
    assert ours.predict_one({0: 1.0, 1: 1.0}) in range(4)
    assert ours.value == 0.0


@pytest.mark.parametrize("method", METHODS)
def test_a_checkpoint_goes_on_to_the_bit(method):
    P, _ = cloud(300)
    ours = model(method)
    for row in P[:130].tolist():
        ours.learn_one(dict(enumerate(row)))
    again, copied = codec.loads(codec.dumps(ours)), copy.deepcopy(ours)
    for row in P[130:].tolist():
        for one in (ours, again, copied):
            one.learn_one(dict(enumerate(row)))
    for other in (again, copied):
        assert other.centers == ours.centers
        assert (other.to_numpy() == ours.to_numpy()).all()
    assert codec.dumps(again) == codec.dumps(ours)


def test_learns_from_a_stream():
    P, _ = cloud(300)
    ours = model()
    summary = EventLoop([(dict(enumerate(row)), None) for row in P.tolist()], ours).run()
    assert summary.n_learned == 300
    assert ours.n_steps == 15


# --- from a file ---


def put(name, place, value):
    def damage(model):
        getattr(model._relaxation, name)[place] = value

    return damage


DAMAGES = {
    **{
        f"{k}: relaxation.{name} = {type(value).__name__}": ("_relaxation", name, value)
        for k, (name, value) in enumerate(
            (
                ("n", 65),
                ("n", -1),
                ("n", 3),
                ("points", np.zeros((64, 3))),
                ("points", np.zeros((64, 2), np.float32)),
                ("points", np.zeros((2, 64)).T),
                ("points", np.full((64, 2), np.nan)),
                ("points", np.zeros((0, 2))),
                ("x", np.zeros(10)),
                ("x", np.full(2080, 1e200)),
                ("d", np.full(2080, -1.0)),
                ("sums", np.zeros(64)),
                ("sums", np.zeros(3)),
                ("v", np.ones(64)),
                ("x_scale", 0.0),
                ("x_scale", 2.0),
                ("d_scale", math.inf),
                ("steps", -1),
                ("steps", 0),
                ("rng", np.random.RandomState(0)),
                ("n_clusters", 3),
            )
        )
    },
    **{
        f"{name} = {value!r:.30}": (name, value)
        for name, value in (
            ("n_samples", 10),
            ("n_samples", 1 << 60),
            ("n_points", 39),
            ("beta0", math.nan),
            ("_centres", np.zeros((3, 2))),
            ("_centres", np.zeros((2, 3))),
            ("_centres", np.full((2, 2), np.nan)),
            ("_features", {"a": 0}),
            ("_features", {"a": 1, "b": 0}),
            ("_features", {"a": 0, "b": 0}),
            ("_features", {"a": 0, "b": True}),
            ("_waiting", -1),
        )
    },
    "x not semidefinite": put("x", 1, 1e-3),
    "x of a point to come": put("x", -1, 1.0),
    "points to come": put("points", -1, 1.0),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_state_is_refused(damage):
    model = cluster.SHCGMKMeans(n_clusters=2, n_points=70, batch_size=20, seed=1)
    rng = np.random.default_rng(0)
    for _ in range(40):
        model.learn_one(dict(zip("ab", rng.normal(size=2).tolist(), strict=True)))
    codec.loads(codec.dumps(model))
    if callable(damage):
        damage(model)
    else:
        *path, name, value = damage
        setattr(getattr(model, path[0]) if path else model, name, value)
    with pytest.raises(CheckpointError, match=r"Relaxation|SHCGMKMeans"):
        codec.loads(codec.dumps(model))


def test_two_models_cannot_have_one_relaxation():
    one, other = (cluster.SHCGMKMeans(n_clusters=2, seed=1) for _ in range(2))
    codec.loads(codec.dumps([one, other]))
    other._relaxation = one._relaxation
    with pytest.raises(CheckpointError, match="_relaxation: expected an object that no other has"):
        codec.loads(codec.dumps([one, other]))
