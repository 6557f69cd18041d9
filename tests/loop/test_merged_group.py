"""Groups whose models are no linear ones predict with their merge, too."""

from __future__ import annotations

import numpy as np
from shared_fake import Group, Member

from fwonline import datasets, reco
from fwonline.loop import GroupLoop, MergedModel, PartitionStates, codec, merge
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
    alone = [states.read(partition, group.places[partition].note)["model"] for partition in ("t[0]", "t[1]")]
    for outside in (MergedModel(Member(group), states), MergedModel(Member(group), exchange=group.board)):
        assert outside.refresh()
        assert codec.dumps(outside.model) == codec.dumps(merge(alone))
    return loop, predicted, alone


def test_users_of_all_partitions_are_rated(tmp_path):
    parts = ratings(0), ratings(1)
    model = reco.SHCGMCompletion(lower=1.0, upper=5.0, batch=10, seed=1)
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
