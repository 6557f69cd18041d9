"""Clusters of parts of a stream become those of all of it."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fwonline import cluster
from fwonline.checkpoint import codec
from fwonline.cluster import _rounding, kmeans
from fwonline.loop import merge

METHODS = ("mean", "shcgm")
CENTRES = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.4], [0.0, 2.0, -0.6], [2.4, 2.2, 0.0]])


def model(method="mean", **changes):
    return cluster.SHCGMKMeans(
        **({"n_clusters": 4, "method": method, "n_points": 40, "batch_size": 10, "seed": 5} | changes)
    )


def cloud(n=240, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(4, size=n)
    return CENTRES[labels] + 0.1 * rng.standard_normal((n, 3)), labels


def learned(rows, names="xyz", **options):
    one = model(**options)
    for row in rows:
        one.learn_one(dict(zip(names, row.tolist(), strict=True)))
    return one


def told(one, names="xyz"):
    return np.array([[centre[name] for name in names] for centre in one.centers.values()])


def far(centres):
    """The largest distance of a true centre from the nearest of these."""
    return float(np.sqrt(((CENTRES[:, None] - centres) ** 2).sum(axis=-1)).min(axis=1).max())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("division", ["anyhow", "clusters"])
def test_clusters_of_all_parts_are_found(method, division):
    points, labels = cloud()
    owners = np.arange(len(points)) % 2 if division == "anyhow" else labels // 2
    models = [learned(points[owners == k], method=method) for k in range(2)]
    before = [codec.dumps(one) for one in models]

    whole = models[0].merged(models[1:])

    assert [codec.dumps(one) for one in models] == before
    assert far(told(whole)) < 0.15
    assert division == "anyhow" or min(far(told(one)) for one in models) > 1.0
    assert len({whole.predict_one(dict(zip("xyz", centre, strict=True))) for centre in CENTRES}) == 4
    assert (whole.n_samples, whole.n_steps) == (240, max(one.n_steps for one in models))
    held = whole._relaxation.points[: whole._relaxation.n]
    assert len(held) == 40
    assert whole.value <= min(_rounding.value(held, _rounding.assign(held, told(one))) for one in models) + 1e-12


def test_labels_are_those_of_the_first_model():
    points, _ = cloud()
    models = [learned(points[k::2]) for k in range(2)]
    for one, other in (models, models[::-1]):
        whole = one.merged([other])
        for label, centre in one.centers.items():
            assert whole.predict_one(centre) == label


def test_few_points_are_all_held_with_the_features_of_all():
    first, second = cloud(12)[0], cloud(15, seed=1)[0][:, :2]
    whole = learned(first).merged([learned(second, names="yw"), model()])
    assert whole.n_samples == whole._relaxation.n == 27
    expected = np.zeros((27, 4))
    expected[:12, :3] = first
    expected[12:, [1, 3]] = second
    held = whole._relaxation.points[:27, [whole._features[name] for name in "xyzw"]]
    np.testing.assert_array_equal(np.sort(held, axis=0), np.sort(expected, axis=0))
    assert all(set(centre) == set("xyzw") for centre in whole.centers.values())


def test_each_point_of_the_stream_is_as_likely_to_be_held():
    rng = np.random.default_rng(0)
    samples = [np.zeros((20, 1)), np.ones((20, 1))]
    means = [kmeans._pooled(samples, [300, 100], 20, rng).mean() for _ in range(300)]
    assert np.mean(means) == pytest.approx(0.25, abs=0.02)
    drawn = kmeans._pooled([np.arange(20.0)[:, None], np.ones((3, 1))], [3 * 10**9, 3], 20, rng)
    assert sorted(drawn.ravel()) == list(range(20))


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=10, max_size=60), st.integers(1, 30))
def test_the_matrix_of_a_merge_meets_all_constraints(method, owners, values):
    rng = np.random.default_rng(values)
    models = [model(method, n_clusters=3, n_points=15, batch_size=4, seed=k) for k in range(3)]
    for owner in owners:
        models[owner].learn_one({"a": float(rng.integers(values)), owner: 1.0})
    whole = merge(models)
    assert whole.n_samples == len(owners)
    if sum(one.n_samples > 0 for one in models) == 1 or not whole.n_steps:
        return
    X = whole.to_numpy()
    assert np.trace(X) == pytest.approx(3.0)
    assert X.min() >= 0.0
    np.testing.assert_allclose(X.sum(axis=1), 1.0)
    assert np.linalg.eigvalsh(X)[0] > -1e-12
    assert whole.infeasibility == (0.0, 0.0)
    assert whole.objective <= whole.value + 1e-9 * (1.0 + whole.value)


def test_models_that_have_learned_nothing_count_for_nothing():
    fresh, one = model(), learned(cloud(60)[0])
    for whole in (fresh.merged([one]), one.merged([]), merge([fresh, one, fresh])):
        assert whole is not one
        assert codec.dumps(whole) == codec.dumps(one)
    whole = fresh.merged([fresh])
    assert (whole.n_samples, whole.predict_one({"x": 1.0}), whole.centers) == (0, 0, {})

    short = [learned(cloud(3, seed=k)[0]) for k in range(2)]  # no step yet
    whole = merge(short)
    assert (whole.n_samples, whole.n_steps, whole.centers) == (6, 0, {})
    whole.advance()
    assert len(whole.centers) == 4


@pytest.mark.parametrize("method", METHODS)
def test_a_merge_is_saved_and_learns_on(method):
    points, _ = cloud()
    models = [codec.loads(codec.dumps(learned(points[k::3], method=method))) for k in range(3)]
    whole = merge(models)
    again = codec.loads(codec.dumps(whole))
    assert codec.dumps(copy.deepcopy(whole)) == codec.dumps(again)
    labels = {k: whole.predict_one(centre) for k, centre in whole.centers.items()}
    for one in (whole, again):
        for row in cloud(60, seed=2)[0]:
            one.learn_one(dict(zip("xyz", row.tolist(), strict=True)))
    assert whole.centers == again.centers
    assert far(told(whole)) < 0.15
    assert labels == {k: whole.predict_one(centre) for k, centre in whole.centers.items()}


@pytest.mark.parametrize("change", [{"n_clusters": 3}, {"n_points": 50}, {"method": "shcgm"}], ids=str)
def test_models_of_another_kind_are_refused(change):
    (name, value), *_ = change.items()
    match = rf"models of one kind, found a SHCGMKMeans with {name}=.* and a SHCGMKMeans with {name}={value}"
    with pytest.raises(ValueError, match=match):
        model().merged([model(**change)])
