"""Completions of parts of a stream become one, beside the weighted mean of the matrices written out."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fwonline import _room as room
from fwonline import cluster, datasets, reco, sets
from fwonline.checkpoint import codec
from fwonline.loop import merge
from fwonline.reco import _factored

METHODS = ("hcgm", "shcgm")
LOWER, UPPER = 1.0, 5.0
DIVISIONS = {"user": lambda u, i, k: u % 3, "item": lambda u, i, k: i % 3, "anyhow": lambda u, i, k: k % 3}


def model(method="hcgm", **changes):
    return reco.SHCGMCompletion(
        **({"lower": LOWER, "upper": UPPER, "method": method, "batch_size": 20, "seed": 7} | changes)
    )


def stream(n=900, seed=3, n_users=30, n_items=40):
    X, y = datasets.LowRankRatings(n_users=n_users, n_items=n_items, rank=2, noise=0.2, seed=seed).to_arrays(n)
    return *X.astype(int).T, y


def divided(division, *, count=3, method="hcgm", data=None, **changes):
    """Models of parts of a stream, and which ratings each has seen last of a pair."""
    users, items, y = stream() if data is None else data
    part = DIVISIONS[division](users, items, np.arange(y.size))
    models = [model(method, **changes) for _ in range(count)]
    for k, one in enumerate(models):
        one.learn_arrays(users[part == k], items[part == k], y[part == k])
    return models


def names(models):
    return [
        sorted({name for one in models for name in getattr(one._ratings, side).positions})
        for side in ("users", "items")
    ]


def written_out(one, users, items):
    """The matrix over these users and items, where it is known, and ratings by user and by item there."""
    state, ratings = one._state, one._ratings
    rows, cols = ratings.users.find(users), ratings.items.find(items)
    known = np.outer((rows >= 0) & (rows < state.seen[0]), (cols >= 0) & (cols < state.seen[1]))
    X = np.zeros(known.shape)
    a, b = np.nonzero(known)
    X[a, b] = state.values(rows[a], cols[b])
    of_user = np.where(known.any(axis=1), ratings.n_user[rows], 0.0)
    of_item = np.where(known.any(axis=0), ratings.n_item[cols], 0.0)
    return X, known, of_user, of_item


def fitted_biases(users, items, y, rounds=300):
    """The fixed point of damped means of what the others leave, and the mean."""
    mean, of_user = y.mean(), np.zeros(users.max() + 1)
    for _ in range(rounds):
        of_item = np.bincount(items, y - mean - of_user[users]) / (np.bincount(items) + 5.0)
        of_user = np.bincount(users, y - mean - of_item[items]) / (np.bincount(users) + 5.0)
    return mean + of_user[:, None] + of_item


def literal(models, whole, division):
    """The mean of the matrices, weighed by users or by items, projected on the ball."""
    users, items = names(models)
    parts = [written_out(one, users, items) for one in models]
    side = 3 if division == "item" else 2
    counts = np.array([part[side] for part in parts])
    weights = counts / counts.sum(axis=0)
    fill = 0.0
    if models[0].method == "shcgm":
        rows, cols = whole._ratings.users.find(users), whole._ratings.items.find(items)
        fill = np.clip(whole._ratings.biases(rows[:, None], cols), LOWER, UPPER)
    mean = sum(
        (weight if division == "item" else weight[:, None]) * np.where(known, X, fill)
        for weight, (X, known, *_) in zip(weights, parts, strict=True)
    )
    return mean, sets.NuclearBall(whole.current_radius).project(mean)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("division", ["user", "item"])
@pytest.mark.parametrize("radius", [None, 30.0, 1e4])
def test_the_matrix_is_the_weighted_mean_in_the_ball(method, division, radius, monkeypatch):
    monkeypatch.setattr(_factored, "_CUT", 1e-13)
    models = divided(division, method=method, radius=radius)

    whole = models[0].merged(models[1:])

    mean, nearest = literal(models, whole, division)
    np.testing.assert_allclose(written_out(whole, *names(models))[0], nearest, atol=1e-6 * np.abs(mean).max())
    norm = np.linalg.norm(mean, "nuc")
    assert (norm > whole.current_radius) == (np.linalg.norm(mean - nearest) > 1e-6 * norm)
    expected = radius
    if radius is None and method == "hcgm":
        expected = np.linalg.norm([one.current_radius for one in models])
    elif radius is None:
        y = whole._ratings.y[: whole.n_samples]
        expected = 1.5 * np.sqrt(30 * 40 * np.mean(y**2))
    assert whole.current_radius == pytest.approx(expected)


def test_few_factors_are_kept_and_little_is_cut_off():
    models = divided("user", batch_size=5)
    whole = models[0].merged(models[1:])
    mean = literal(models, whole, "user")[1]
    off = written_out(whole, *names(models))[0] - mean
    assert np.linalg.norm(off, "nuc") <= 0.01 * sum(one.current_radius for one in models)
    assert whole._state.rank < min(mean.shape) < sum(one._state.rank for one in models)


@pytest.mark.parametrize("method", METHODS)
def test_mean_and_biases_are_those_of_all_ratings(method):
    users, items, y = stream(600)
    first = np.sort(np.unique(users * 100 + items, return_index=True)[1])  # no pair twice
    data = users, items, y = users[first], items[first], y[first]
    models = divided("anyhow", method=method, data=data)
    whole = models[0].merged(models[1:])
    biases = fitted_biases(users, items, y)
    rows, cols = whole._ratings.users.find(users), whole._ratings.items.find(items)
    np.testing.assert_allclose(whole._ratings.biases(rows, cols), biases[users, items], atol=1e-2)
    assert whole.n_samples == y.size == sum(one.n_samples for one in models)
    assert whole.predict_one("nobody", "nothing") == pytest.approx(y.mean())


def test_a_user_whom_one_model_alone_has_learned_keeps_its_row():
    models = divided("user", radius=1e4)
    whole = models[0].merged(models[1:])
    for one in models:
        users, items = names([one])
        mine, known, *_ = written_out(one, users, items)
        theirs = written_out(whole, users, items)[0]
        assert np.linalg.norm((theirs - mine)[known]) <= 0.02 * np.linalg.norm(mine)


@pytest.mark.parametrize("division", ["user", "item"])
def test_the_merge_is_better_than_the_parts_and_than_an_even_mean(division):
    users, items, y = stream(4000, n_users=60, n_items=60)
    models = divided(division, data=(users[:3000], items[:3000], y[:3000]), batch_size=20)
    whole = models[0].merged(models[1:])

    def error(predicted):
        return float(np.sqrt(np.mean((predicted - y[3000:]) ** 2)))

    ours = error(whole.predict_arrays(users[3000:], items[3000:]))
    each = [one.predict_arrays(users[3000:], items[3000:]) for one in models]
    assert ours < 0.8 * error(np.mean(each, axis=0))
    assert ours < 0.8 * min(map(error, each))


@settings(deadline=None)  # a kernel may be compiled, or loaded, by the first example
@given(st.lists(st.integers(0, 2), min_size=40, max_size=120), st.sampled_from(METHODS), st.floats(1.0, 100.0))
def test_a_merge_stays_in_the_set(owners, method, radius):
    rng = np.random.default_rng(len(owners))
    models = [model(method, radius=radius, batch_size=7) for _ in range(3)]
    for owner in owners:
        models[owner].learn_one(int(rng.integers(8)), int(rng.integers(8)), float(rng.uniform(LOWER, UPPER)))
    whole = models[0].merged(models[1:])
    if not whole.n_steps:
        return
    users, items = names(models)
    X = written_out(whole, users, items)[0]
    assert np.linalg.norm(X, "nuc") <= radius * (1.0 + 1e-7)
    if method == "shcgm" and np.linalg.norm(X, "nuc") < 0.999 * radius:  # nothing was projected
        outside = [
            np.where(known, whole._problem.outside(Y), 0.0)
            for Y, known, *_ in (written_out(m, users, items) for m in models)
        ]
        assert np.abs(whole._problem.outside(X)).max() <= np.abs(outside).max() + 1e-9
    predicted = whole.predict_arrays(np.repeat(users, len(items)), np.tile(items, len(users)))
    assert LOWER <= predicted.min() <= predicted.max() <= UPPER


@pytest.mark.parametrize("method", METHODS)
def test_models_that_have_learned_nothing_count_for_nothing(method):
    fresh, learned = model(method), divided("user", method=method)[0]
    for whole in (fresh.merged([learned]), learned.merged([]), merge([fresh, learned, fresh])):
        assert whole is not learned
        assert codec.dumps(whole) == codec.dumps(learned)
    whole = fresh.merged([fresh])
    assert (whole.n_samples, whole.predict_one("a", "b")) == (0, LOWER)
    whole.learn_one("a", "b", 3.0)
    assert fresh.n_samples == 0

    waiting = [model(method, batch_size=100) for _ in range(2)]  # ratings, and no step yet
    for k, one in enumerate(waiting):
        one.learn_one("a", f"item {k}", 2.0 + 2.0 * k)
    whole = merge([*waiting, fresh])
    assert (whole.n_steps, whole.n_samples, whole.n_items) == (0, 2, 2)
    assert whole.predict_one("b", "c") == 3.0
    whole.advance()
    both = merge([learned, waiting[0]])
    assert both.n_samples == learned.n_samples + 1
    assert both.predict_one("a", "item 0") != both.predict_one("b", "item 0")


@pytest.mark.parametrize("method", METHODS)
def test_a_rating_that_two_models_hold_is_the_last_ones(method):
    models = [model(method, batch_size=2) for _ in range(2)]
    for k, one in enumerate(models):
        one.learn_arrays(["a", "b", "a"], ["x", "x", "y"], [1.0 + k, 3.0, 4.0])
    whole = merge(models)
    assert (whole.n_samples, whole._ratings.y[: whole.n_samples].tolist()) == (3, [2.0, 4.0, 3.0])


@pytest.mark.parametrize("method", METHODS)
def test_a_merge_is_saved_and_learns_on_and_leaves_its_parts_as_they_are(method):
    models = divided("anyhow", method=method)
    models = [codec.loads(codec.dumps(one)) for one in models]
    before = [codec.dumps(one) for one in models]
    whole = merge(models)
    assert [codec.dumps(one) for one in models] == before
    again = codec.loads(codec.dumps(whole))
    assert codec.dumps(copy.deepcopy(whole)) == codec.dumps(again)
    users, items, y = stream(300, seed=4)
    steps = whole.n_steps
    for one in (whole, again):
        one.learn_arrays(users, items, y)
    np.testing.assert_array_equal(whole.predict_arrays(users, items), again.predict_arrays(users, items))
    assert whole.n_steps == steps + 15
    assert [codec.dumps(one) for one in models] == before


def test_a_merge_of_equal_ratings_has_nothing_left_to_explain():
    models = [model(batch_size=2) for _ in range(2)]
    for k, one in enumerate(models):
        one.learn_arrays([1, 2, 3, 4], [k, k, k + 1, k + 1], [3.0] * 4)
    whole = merge(models)
    assert whole.current_radius == 0.0
    assert whole.predict_one(1, 0) == 3.0
    zeros = [reco.SHCGMCompletion(method="shcgm", batch_size=2) for _ in range(2)]
    for one in zeros:
        one.learn_arrays([1, 2], [1, 2], [0.0, 0.0])
    assert merge(zeros).predict_one(1, 2) == 0.0


@pytest.mark.parametrize("change", [{"radius": 3.0}, {"lower": 0.0}, {"upper": None}, {"method": "shcgm"}], ids=str)
def test_models_of_another_kind_are_refused(change):
    (name, value), *_ = change.items()
    told = rf"models of one kind, found a SHCGMCompletion with {name}=.* and a SHCGMCompletion with {name}={value}"
    with pytest.raises(ValueError, match=told):
        model().merged([model(**change)])
    with pytest.raises(ValueError, match="of one kind, found a SHCGMCompletion and a SHCGMKMeans"):
        model().merged([cluster.SHCGMKMeans(3)])


def test_what_does_not_fit_into_memory_is_told_before(monkeypatch):
    models = divided("user", method="shcgm")
    monkeypatch.setattr(room.os, "sysconf", lambda name: 200)  # a machine of 40 kB
    with pytest.raises(MemoryError, match="merging completions of 30 x 40 ratings with every entry written out"):
        merge(models)
