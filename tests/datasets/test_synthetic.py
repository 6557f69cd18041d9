"""Simulators: repeatable, true to what they say of themselves."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from river import optim
from river.datasets.base import SyntheticDataset

from fwonline.datasets import AdversarialLinear, BlockCovariance, GaussianMixture, LowRankRatings, SparseLinear

MAKERS = [
    lambda seed: SparseLinear(n_features=12, n_informative=4, drift_every=70, drift_width=20, seed=seed),
    lambda seed: SparseLinear(n_features=3000, density=0.01, classification=True, drift_every=90, seed=seed),
    lambda seed: AdversarialLinear(seed=seed, switch_every=30),
    lambda seed: BlockCovariance(n_features=300, noise=0.1, seed=seed),
    lambda seed: BlockCovariance(n_features=30, drift_every=70, drift_width=20, seed=seed),
    lambda seed: GaussianMixture(n_features=7, skew=1.0, seed=seed),
    lambda seed: LowRankRatings(n_users=30, n_items=40, seed=seed),
]


@pytest.mark.parametrize("make", MAKERS)
def test_same_seed_same_stream(make):
    stream = make(3)
    first = list(stream.take(700))
    assert first == list(stream.take(700))
    assert first == list(make(3).take(700))
    assert first[:50] != list(make(4).take(50))


@pytest.mark.parametrize("make", MAKERS)
def test_any_place_is_reached(make):
    stream = make(3)
    samples = list(stream.take(1500))
    for n in (0, 1, 217, 1024, 1499):
        assert list(itertools.islice(stream.iter_from(n), 1)) == samples[n : n + 1]


@pytest.mark.parametrize("make", MAKERS)
def test_arrays_hold_what_the_iteration_gives(make):
    stream = make(5)
    X, y = stream.to_arrays(333)
    samples = list(stream.take(333))
    assert X.shape == (333, stream.n_features)
    assert scipy.sparse.issparse(X) == stream.sparse
    if stream.sparse:
        ends = X.indptr
        rows = [
            dict(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)) for a, b in itertools.pairwise(ends)
        ]
    else:
        rows = [dict(zip(samples[0][0], row, strict=True)) for row in X.tolist()]
    assert rows == [x for x, _ in samples]
    assert ([None] * 333 if y is None else y.tolist()) == [target for _, target in samples]


@pytest.mark.parametrize("make", MAKERS)
def test_is_a_river_dataset(make):
    stream = make(5)
    assert isinstance(stream, SyntheticDataset)
    text = repr(stream)
    assert type(stream).__name__ in text
    assert "seed" in text
    assert stream.task in text


def test_without_a_seed_a_stream_repeats_itself_but_no_other():
    a, b = SparseLinear(n_features=10), SparseLinear(n_features=10)
    assert list(a.take(5)) == list(a.take(5))
    assert list(a.take(5)) != list(b.take(5))


@pytest.mark.parametrize("width", [0, 15, 40])
def test_sparse_linear_targets_come_from_the_true_weights(width):
    stream = SparseLinear(
        n_features=25,
        n_informative=5,
        radius=2.5,
        noise=0,
        drift_every=40,
        drift_width=width,
        drift_fraction=0.4,
        seed=1,
    )
    X, y = stream.to_arrays(1000)
    W = np.array([stream.true_weights(t) for t in range(1000)])
    np.testing.assert_allclose(y, np.einsum("ij,ij->i", X, W), rtol=1e-10, atol=1e-12)
    norms = np.abs(W).sum(axis=1)
    assert norms.max() <= 2.5 * (1 + 1e-12)
    settled = np.arange(1000) % 40 >= width
    np.testing.assert_allclose(norms[settled], 2.5)
    assert set((W[settled] != 0).sum(axis=1)) <= {5}


def test_sparse_linear_changes_the_fraction_it_says():
    stream = SparseLinear(n_features=400, n_informative=10, drift_every=10, drift_fraction=0.3, seed=2)
    supports = [set(np.flatnonzero(stream.true_weights(10 * k))) for k in range(30)]
    kept = [len(a & b) for a, b in itertools.pairwise(supports)]
    assert min(kept) >= 7
    assert np.mean(kept) < 7.5  # a slot may draw the feature it had, seldom
    whole = SparseLinear(n_features=400, n_informative=10, drift_every=10, drift_fraction=1.0, seed=2)
    assert len(set(np.flatnonzero(whole.true_weights(0))) & set(np.flatnonzero(whole.true_weights(10)))) <= 2


def test_sparse_linear_never_drifts_unless_asked():
    stream = SparseLinear(seed=3)
    assert np.array_equal(stream.true_weights(0), stream.true_weights(10**9))


def test_sparse_linear_density_and_noise():
    stream = SparseLinear(n_features=2000, density=0.02, noise=0.5, seed=4)
    X, y = stream.to_arrays(4000)
    assert X.nnz / (4000 * 2000) == pytest.approx(0.02, rel=0.01)
    presence = np.bincount(X.indices, minlength=2000)
    assert presence.std() == pytest.approx(np.sqrt(4000 * 0.02 * 0.98), rel=0.1)
    assert X.has_canonical_format
    assert np.std(y - X @ stream.true_weights(0)) == pytest.approx(0.5, rel=0.05)
    assert X.data.std() == pytest.approx(1, rel=0.01)


def test_sparse_linear_labels_follow_the_logistic_model():
    stream = SparseLinear(n_features=20, n_informative=5, radius=4, noise=1, classification=True, seed=5)
    X, y = stream.to_arrays(20_000)
    p = 1 / (1 + np.exp(-X @ stream.true_weights(0)))
    for low, high in itertools.pairwise(np.linspace(0, 1, 6)):
        inside = (p > low) & (p <= high)
        assert y[inside].mean() == pytest.approx(p[inside].mean(), abs=0.03)
    assert all(isinstance(label, bool) for _, label in stream.take(3))


def test_adversarial_losses_are_linear_on_the_simplex():
    stream = AdversarialLinear(n_features=6, seed=6)
    X, y = stream.to_arrays(2000)
    assert np.array_equal(y, X.max(axis=1))
    w = np.random.default_rng(0).dirichlet(np.ones(6), 50)
    shortfall = y[:, None] - X @ w.T
    assert shortfall.min() >= -1e-12
    np.testing.assert_allclose(optim.losses.Absolute()(y[:, None], X @ w.T), np.abs(shortfall))


def test_adversarial_leaders_take_turns():
    stream = AdversarialLinear(n_features=5, switch_every=20, edge=1, volatility=0, seed=7)
    X, _ = stream.to_arrays(5000)
    leaders = np.array([stream.leader(t) for t in range(0, 5000, 20)])
    assert np.all(leaders[1:] != leaders[:-1])
    assert np.array_equal(X.argmax(axis=1), np.repeat(leaders, 20))
    assert np.array_equal(X.argmin(axis=1)[20:], np.repeat(leaders, 20)[:-20])
    counts = np.array([np.bincount(leaders[:k], minlength=5) for k in range(len(leaders))])
    before = counts[np.arange(len(leaders)), leaders]
    assert np.all(before <= counts.min(axis=1))  # a new leader led least often so far


def test_following_the_leader_has_linear_regret_on_the_textbook_sequence():
    X, _ = AdversarialLinear(n_features=2, switch_every=1, edge=1, volatility=0, seed=0).to_arrays(4000)
    best_so_far = np.vstack([np.zeros(2), np.cumsum(X, axis=0)[:-1]]).argmax(axis=1)
    regret = X.sum(axis=0).max() - X[np.arange(4000), best_so_far].sum()
    assert regret >= 0.9 * 4000


def test_block_covariance_is_the_covariance_of_the_samples():
    stream = BlockCovariance(n_features=30, n_blocks=6, noise=0.3, seed=8)
    X, y = stream.to_arrays(60_000)
    assert y is None
    np.testing.assert_allclose(np.cov(X.T), stream.covariance, atol=0.03)


def test_block_covariance_has_unequal_blocks_of_rank_one():
    truth = BlockCovariance(n_features=200, n_blocks=10, seed=9).covariance
    assert np.linalg.matrix_rank(truth) == 10
    n, labels = scipy.sparse.csgraph.connected_components(truth != 0)
    assert n == 10
    assert all(np.array_equal(np.flatnonzero(labels == b), np.arange(a, a + size)) for b, a, size in _runs(labels))
    assert len({size for _, _, size in _runs(labels)}) > 1
    assert np.abs(truth).max() <= 1


@pytest.mark.parametrize("width", [0, 30])
def test_a_drifting_covariance_is_that_of_the_samples_at_its_time(width):
    """Over many seeds of the samples alone, at single times before, during and after a change."""
    stream = BlockCovariance(n_features=6, n_blocks=2, drift_every=30, drift_width=width, seed=3)
    before, after = stream.covariance_at(29), stream.covariance_at(60)
    np.testing.assert_array_equal(before, stream.covariance)
    assert not np.allclose(before, after)
    X = np.stack([stream._draw(0, 70, np.random.default_rng(i))[0] for i in range(2500)])
    for t in (29, 30, 44, 59, 60):
        truth = stream.covariance_at(t)
        np.testing.assert_allclose(X[:, t].T @ X[:, t] / len(X), truth, atol=0.1)
        if width and t == 44:
            part = 15 / 31
            middle = stream.covariance_at(59) * 31 / 30 - before / 30
            np.testing.assert_allclose(truth, (1 - part) * before + part * middle, atol=1e-12)


def test_a_mixture_has_the_centres_sizes_and_spread_it_says():
    stream = GaussianMixture(n_features=3, n_clusters=4, spread=10.0, noise=0.5, skew=1.0, seed=1)
    X, y = stream.to_arrays(40_000)
    np.testing.assert_allclose(stream.weights, np.array([1, 1 / 2, 1 / 3, 1 / 4]) / (25 / 12))
    np.testing.assert_allclose(np.bincount(y) / y.size, stream.weights, atol=0.01)
    for k, center in enumerate(stream.centers):
        np.testing.assert_allclose(X[y == k].mean(axis=0), center, atol=0.03)
        np.testing.assert_allclose(X[y == k].std(axis=0), 0.5, atol=0.02)
    many = GaussianMixture(n_features=100, n_clusters=100, spread=2.0, seed=1)
    assert many.centers.std() == pytest.approx(2.0, rel=0.03)


def _runs(labels):
    start = 0
    for label, group in itertools.groupby(labels):
        size = len(list(group))
        yield label, start, size
        start += size


def test_ratings_come_from_a_matrix_of_low_rank_in_the_box():
    stream = LowRankRatings(n_users=40, n_items=60, rank=4, lower=-1, upper=3, noise=0.2, seed=10)
    truth = stream.matrix
    assert truth.shape == (40, 60)
    assert np.linalg.matrix_rank(truth) == 5
    assert truth.min() >= -1
    assert truth.max() <= 3
    X, y = stream.to_arrays(20_000)
    assert y.min() >= -1
    assert y.max() <= 3
    inside = np.abs(truth[X[:, 0], X[:, 1]] - 1) < 1
    residual = (y - truth[X[:, 0], X[:, 1]])[inside]
    assert residual.std() == pytest.approx(0.2, rel=0.03)
    assert residual.mean() == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("skew", [0.0, 1.2])
def test_popularity_follows_the_power_law(skew):
    X, _ = LowRankRatings(n_users=20, n_items=50, skew=skew, seed=11).to_arrays(50_000)
    for column, n in enumerate((20, 50)):
        counts = np.sort(np.bincount(X[:, column], minlength=n))[::-1] / 50_000
        expected = np.arange(1, n + 1) ** -skew / (np.arange(1, n + 1) ** -skew).sum()
        np.testing.assert_allclose(counts, expected, atol=0.004)


def test_users_and_items_arrive_one_after_another():
    parameters = {"n_users": 20, "n_items": 50, "skew": 0.5, "seed": 11}
    stream = LowRankRatings(**parameters, arrival=10_000)
    X, _ = stream.to_arrays(60_000)
    for column, n in enumerate((20, 50)):
        first = np.sort([np.argmax(X[:, column] == name) for name in range(n)])
        due = 10_000 * np.arange(n) / n
        assert (first >= np.floor(due)).all()
        assert first - due == pytest.approx(np.zeros(n), abs=600)
        counts = np.sort(np.bincount(X[10_000:, column], minlength=n))[::-1] / 50_000
        expected = np.arange(1, n + 1) ** -0.5 / (np.arange(1, n + 1) ** -0.5).sum()
        np.testing.assert_allclose(counts, expected, atol=0.006)
    x, y = next(stream.iter_from(12_345))
    assert [x["user"], x["item"]] == X[12_345].tolist()
    assert next(LowRankRatings(**parameters).iter_from(12_345)) != (x, y)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: SparseLinear(n_features=5, n_informative=6), "n_informative"),
        (lambda: SparseLinear(density=0), "density"),
        (lambda: SparseLinear(noise=-1), "noise"),
        (lambda: SparseLinear(radius=0), "radius"),
        (lambda: SparseLinear(drift_width=5), "drift_width"),
        (lambda: SparseLinear(drift_every=0), "drift_every"),
        (lambda: SparseLinear(drift_fraction=1.5), "drift_fraction"),
        (lambda: AdversarialLinear(n_features=1), "2 assets"),
        (lambda: AdversarialLinear(switch_every=0), "switch_every"),
        (lambda: AdversarialLinear(volatility=-1), "volatility"),
        (lambda: AdversarialLinear(edge=-1), "edge"),
        (lambda: BlockCovariance(n_features=5), "n_blocks"),
        (lambda: BlockCovariance(noise=-1), "noise"),
        (lambda: BlockCovariance(drift_every=0), "drift_every"),
        (lambda: BlockCovariance(drift_width=1), "drift_width"),
        (lambda: BlockCovariance(seed=1).covariance_at(-1), "counted from 0"),
        (lambda: GaussianMixture(n_clusters=0), "n_clusters"),
        (lambda: GaussianMixture(n_features=0), "n_features"),
        (lambda: GaussianMixture(spread=-1), "spread"),
        (lambda: GaussianMixture(noise=-1), "noise"),
        (lambda: GaussianMixture(skew=-1), "skew"),
        (lambda: LowRankRatings(lower=5, upper=5), "lower"),
        (lambda: LowRankRatings(rank=0), "rank"),
        (lambda: LowRankRatings(skew=-1), "skew"),
        (lambda: LowRankRatings(arrival=-1), "arrival"),
        (lambda: LowRankRatings(n_users=0), "n_users"),
        (lambda: SparseLinear(seed=1).iter_from(-1), "sample 0"),
        (lambda: SparseLinear(seed=1).to_arrays(0), "at least 1"),
    ],
)
def test_a_wrong_parameter_is_named(make, word):
    with pytest.raises(ValueError, match=word):
        make()
