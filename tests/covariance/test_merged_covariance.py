"""Covariances of parts of a stream become one, beside the same written out, and beside one that has seen everything."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fwonline.checkpoint import codec
from fwonline.covariance import SHCGMCovariance
from fwonline.datasets import BlockCovariance
from fwonline.loop import merge

VARIANTS = [
    {},
    {"rank": 1},
    {"dual": True},
    {"center": False},
    {"trace": 4.0, "l1": 9.0},
    {"method": "shcgm", "trace": 4.0, "l1": 9.0},
    {"dtype": "float32"},
    {"missing": "mean", "l1_fraction": 0.9},
]


def samples(count=240, n=8, seed=0):
    return BlockCovariance(n_features=n, n_blocks=3, seed=seed).to_arrays(count)[0]


def parts(options, apart=0.5):
    """Three models of parts of different sizes and means, the second without one of the features, and their samples."""
    models, learned = [], []
    rows = samples()
    for k, (start, stop) in enumerate([(0, 120), (120, 180), (180, 240)]):
        x = rows[start:stop] + apart * k * np.eye(8)[k]
        names = [f"f{j}" for j in range(8) if k != 1 or j != 5]
        x[:, 5] *= k != 1
        model = SHCGMCovariance(seed=k, **options)
        for row in x:
            values = dict(zip([f"f{j}" for j in range(8)], row.tolist(), strict=True))
            model.learn_one({name: values[name] for name in names[:: 1 - 2 * (k % 2)]})
        models.append(model)
        learned.append(x)
    return models, learned


FEATURES = [f"f{j}" for j in range(8)]
SHARES = np.array([0.5, 0.25, 0.25])


def between(models, learned):
    if not models[0].center:
        return np.zeros((8, 8))
    deviations = np.array([x.mean(axis=0) for x in learned]) - np.concatenate(learned).mean(axis=0)
    return (deviations.T * SHARES) @ deviations


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize("apart", [0.0, 0.5])
def test_the_estimate_is_the_mean_and_what_there_is_room_for_of_the_spread_of_means(options, apart):
    models, learned = parts(options, apart)
    before = [codec.dumps(model) for model in models]

    whole = models[0].merged(models[1:])

    assert [codec.dumps(model) for model in models] == before
    near = 1e-5 if options.get("dtype") else 1e-10
    mean = np.einsum("p,pij->ij", SHARES, [model.ball(FEATURES) for model in models])
    spread, X = between(models, learned), whole.ball(FEATURES)
    most = np.array([whole._trace_bound, whole._l1_bound])
    rooms = (most - [np.trace(mean), np.abs(mean).sum()]) / np.maximum([np.trace(spread), np.abs(spread).sum()], 1e-300)
    part = min(1.0, max(0.0, rooms.min()))
    np.testing.assert_allclose(X, mean + part * spread, atol=near)
    if "trace" in options:
        assert most.tolist() == [4.0, 9.0]
    elif options.get("missing") != "mean":
        everything = np.concatenate(learned)
        second = everything - everything.mean(axis=0) if whole.center else everything
        assert whole._trace_bound == pytest.approx(np.mean((second**2).sum(axis=1)), rel=1e-6)
    assert np.linalg.eigvalsh(X)[0] > -near
    assert np.trace(X) <= most[0] + near
    assert np.abs(X).sum() <= max(most[1], np.abs(mean).sum()) + near
    assert whole._state.l1 == pytest.approx(np.abs(X).sum())
    assert whole.violation <= sum(share * model.violation for share, model in zip(SHARES, models, strict=True)) or (
        "l1" not in options
    )
    assert (whole.n_samples, whole.n_steps) == (240, max(model.n_steps for model in models))


@pytest.mark.parametrize("options", [{}, {"center": False}, {"dtype": "float32"}], ids=str)
def test_moments_are_those_of_one_that_has_seen_everything(options):
    models, learned = parts(options)
    one = SHCGMCovariance(**options)
    one.learn_arrays(np.concatenate(learned))
    whole = merge(models)
    order = [int(name[1:]) for name in whole.features]
    mine, theirs = whole._state, one._state
    near = 1e-4 if options.get("dtype") else 1e-10
    np.testing.assert_allclose(mine.mean[:8], theirs.mean[order], atol=near)
    for name in ("second_moment_trace", "empirical_l1", "clear_l1"):
        assert getattr(mine, name) == pytest.approx(getattr(theirs, name), rel=near)
    rows, cols = np.tril_indices(8)
    S = np.zeros((8, 8))
    S[rows, cols] = S[cols, rows] = theirs.m[:36]
    np.testing.assert_allclose(mine.m[:36], S[np.ix_(order, order)][rows, cols], atol=near)


def test_the_papers_gradient_estimate_stays_that_of_the_estimate():
    models, learned = parts({"method": "shcgm", "trace": 1e3, "l1": 1e3})
    for model, x in zip(models, learned, strict=True):  # exact gradients X - S
        names, state = model.features, model._state
        order = [int(name[1:]) for name in names]
        rows, cols = np.tril_indices(len(names))
        S = np.cov(x[:, order].T, bias=True)
        state.m[: rows.size] = state.x[: rows.size] - S[rows, cols]
    whole = merge(models)
    S = np.cov(np.concatenate(learned).T, bias=True)
    order = [int(name[1:]) for name in whole.features]
    rows, cols = np.tril_indices(8)
    expected = (whole.to_numpy() - S[np.ix_(order, order)])[rows, cols]
    np.testing.assert_allclose(whole._state.m[:36], expected, atol=1e-10)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 2), min_size=3, max_size=60),
    st.floats(0.1, 10.0),
    st.floats(0.1, 10.0),
    st.sampled_from(["mean", "shcgm"]),
)
def test_a_merge_stays_in_the_set(owners, trace, l1, method):
    rng = np.random.default_rng(len(owners))
    models = [SHCGMCovariance(trace, l1, method, seed=1) for _ in range(3)]
    for owner in owners:
        models[owner].learn_one({int(j): float(rng.normal(owner, 1)) for j in rng.choice(6, 4, replace=False)})
    whole = merge(models)
    X = whole.to_numpy()
    assert np.linalg.eigvalsh(X)[0] >= -1e-12
    assert np.trace(X) <= trace * (1.0 + 1e-12)
    shares = [model.n_samples / len(owners) for model in models]
    assert whole.violation <= sum(w * model.violation for w, model in zip(shares, models, strict=True)) + 1e-12
    assert np.abs(whole.feasible()).sum() <= l1 * (1.0 + 1e-12)
    assert whole.n_samples == len(owners)


def test_models_that_have_learned_nothing_count_for_nothing():
    fresh, learned = SHCGMCovariance(seed=3), parts({})[0][0]
    for whole in (fresh.merged([learned]), learned.merged([]), merge([fresh, learned])):
        assert whole is not learned
        assert codec.dumps(whole) == codec.dumps(learned)
    whole = fresh.merged([fresh])
    assert (whole.n_samples, whole.features) == (0, [])
    whole.learn_one({"a": 1.0})
    assert fresh.n_samples == 0


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_a_merge_is_saved_and_learns_on(options):
    models = [codec.loads(codec.dumps(model)) for model in parts(options)[0]]
    whole = merge(models)
    again = codec.loads(codec.dumps(whole))
    assert codec.dumps(copy.deepcopy(whole)) == codec.dumps(again)
    steps = whole.n_steps
    truth = BlockCovariance(n_features=8, n_blocks=3, seed=0).covariance
    for model in (whole, again):
        for row in samples(400)[240:]:
            model.learn_one(dict(zip(FEATURES, row.tolist(), strict=True)))
    np.testing.assert_array_equal(whole.to_numpy(), again.to_numpy())
    assert (whole.n_samples, whole.n_steps) == (400, steps + 160)
    X = whole.to_numpy()
    assert np.linalg.eigvalsh(X)[0] > -1e-6
    if not options:
        assert np.sum((whole.to_numpy(FEATURES) - truth) ** 2) < 0.2 * np.sum(truth**2)


@pytest.mark.parametrize(
    "change", [{"trace": 3.0}, {"l1": 5.0}, {"center": False}, {"dtype": "float32"}, {"dual": True}], ids=str
)
def test_estimates_of_another_kind_are_refused(change):
    (name, value), *_ = change.items()
    told = rf"models of one kind, found a SHCGMCovariance with {name}=.* and a SHCGMCovariance with {name}={value}"
    with pytest.raises(ValueError, match=told):
        SHCGMCovariance().merged([SHCGMCovariance(**change)])
