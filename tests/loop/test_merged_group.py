"""Groups whose models are no linear ones predict with their merge, too."""

from __future__ import annotations

import numpy as np
import pytest
from river import preprocessing
from support.shared_fake import Group, Member

from fwonline import cluster, covariance, datasets, reco
from fwonline.checkpoint import codec
from fwonline.loop import GroupLoop, MergedModel, PartitionStates, merge
from fwonline.stream import CallbackSink, Sample


def ratings(parity, count=150):
    X, y = datasets.LowRankRatings(n_users=20, n_items=25, rank=2, seed=3).to_arrays(4 * count)
    mine = np.flatnonzero(X[:, 0] % 2 == parity)[:count]
    return [Sample({"user": int(X[k, 0]), "item": int(X[k, 1])}, float(y[k]), origin=f"t@{k}") for k in mine]


def worked(model, parts, folder):
    """A worker that has gone through two partitions; its loop, the predictions, the partitions' models."""
    group = Group(p0=parts[0], p1=parts[1])
    member = Member(group, ("gain", "t[0]", "t[1]"), ("read", "t[0]", 100), ("read", "t[1]", 100), ("read", "t[0]", 20))
    predicted = []
    options = {"states": folder, "merge_every": 1e-9, "merge_topic": "models", "checkpoint_samples": 10}
    loop = GroupLoop(member, model, sinks=[CallbackSink(predicted.append)], **options)
    loop.run()
    states = PartitionStates(folder, "g")
    alone = [states.read(partition, group.places[partition].metadata)["model"] for partition in ("t[0]", "t[1]")]
    for outside in (MergedModel(Member(group), states), MergedModel(Member(group), merge_topic=group.board)):
        assert outside.refresh()
        assert codec.dumps(outside.model) == codec.dumps(merge(alone))
    return loop, predicted, alone


def test_users_of_all_partitions_are_rated(tmp_path):
    parts = ratings(0), ratings(1)
    model = reco.SHCGMCompletion(lower=1.0, upper=5.0, batch_size=10, seed=1)
    loop, predicted, alone = worked(model, parts, tmp_path)
    whole = loop.merged.model
    assert whole.n_users == sum(one.n_users for one in alone)
    assert [one.n_samples for one in alone] == [
        len({tuple(sample.x.values()) for sample in part[:read]}) for part, read in zip(parts, (120, 100), strict=True)
    ]
    assert len(predicted) == 220

    def error(one):
        return sum((one.predict_one(**sample.x) - sample.y) ** 2 for part in parts for sample in part)

    assert error(whole) < 0.8 * min(map(error, alone))


def plain(first, count=120):
    """Samples about two of four centres."""
    rng = np.random.default_rng(first)
    centres = np.array([(0.0, 0.0), (3.0, 0.0), (0.0, 3.0), (3.0, 3.0)])[first : first + 2]
    points = centres[rng.integers(2, size=count)] + 0.1 * rng.standard_normal((count, 2))
    return [Sample({"x": float(x), "y": float(y)}, None, origin=f"t@{k}") for k, (x, y) in enumerate(points)]


def test_a_scaled_covariance_of_all_partitions(tmp_path):
    model = preprocessing.StandardScaler() | covariance.SHCGMCovariance(beta0=3.0, seed=1)
    loop, _, alone = worked(model, (plain(0), plain(2)), tmp_path)
    whole = loop.merged.model["SHCGMCovariance"]
    assert whole.n_samples == 220
    scaled = [one["SHCGMCovariance"] for one in alone]
    assert whole["x", "y"] != pytest.approx(scaled[0]["x", "y"])
    assert loop.merged.model["StandardScaler"].counts["x"] == 220


def test_clusters_of_all_partitions(tmp_path):
    model = cluster.SHCGMKMeans(n_clusters=4, n_points=50, batch_size=20, seed=1)
    loop, predicted, alone = worked(model, (plain(0), plain(2)), tmp_path)
    corners = np.array([(x, y) for x in (0.0, 3.0) for y in (0.0, 3.0)])

    def far(one):
        centres = np.array([(centre["x"], centre["y"]) for centre in one.centers.values()])
        return float(np.sqrt(((corners[:, None] - centres) ** 2).sum(axis=-1)).min(axis=1).max())

    assert far(loop.merged.model) < 0.2
    assert min(map(far, alone)) > 2.0
    assert {record["y_pred"] for record in predicted} <= {0, 1, 2, 3}
