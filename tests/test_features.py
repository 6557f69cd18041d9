"""Features by name: what a sample brings is new until it is committed, and gone after a rollback."""

import copy

import numpy as np
import pytest

from fwonline._positions import FEW, MANY, arranged
from fwonline.exceptions import SampleError
from fwonline.features import FeatureIndex, rank_of


class Buffers:
    def __init__(self):
        self.reserve(2)

    def reserve(self, n):
        self.idx, self.val = np.zeros(n, np.uint32), np.zeros(n)
        self.idx_bytes, self.val_bytes = self.idx.data.cast("B"), self.val.data.cast("B")


def loaded(index, buffers, x):
    n = index.load(x, buffers)
    return dict(zip(buffers.idx[:n].tolist(), buffers.val[:n].tolist(), strict=True))


def test_positions_and_values_are_written_and_new_features_kept_by_a_commit():
    index, buffers = FeatureIndex(), Buffers()
    assert index.new_ranks is None
    assert len(loaded(index, buffers, {"b": 2.0, "a": 1.0, "c": 0.0})) == 3
    assert index.names == sorted("abc", key=rank_of)
    assert index.new_ranks.tolist() == [rank_of(name) for name in index.names]
    index.commit()
    assert index.new_ranks is None
    assert index.rollback() == 3
    assert loaded(index, buffers, {"c": 5.0}) == {index.positions["c"]: 5.0}
    assert index.new_ranks is None


def test_a_rollback_takes_back_what_is_new_and_no_more():
    index, buffers = FeatureIndex(), Buffers()
    index.load({"a": 1.0}, buffers)
    index.commit()
    before = copy.deepcopy(vars(index)["positions"])
    for load in (lambda: index.load({"b": 1.0, "a": 2.0}, buffers), lambda: index.columns(["x", "a"])):
        load()
        assert len(index) > 1
        assert index.rollback() == 1
        assert (index.names, index.positions, index.new_ranks) == (["a"], before, None)
    # What stood in the buffers is not trusted: the same keys in the same order are looked up anew.
    for _ in range(3):
        index.load({"b": 1.0, "a": 2.0}, buffers)
        buffers.idx[:] = 9
        index.rollback()
    assert set(loaded(index, buffers, {"b": 1.0, "a": 2.0})) == {0, 1}


def test_what_cannot_be_added_is_refused_and_changes_nothing_after_a_rollback():
    index, buffers = FeatureIndex(), Buffers()
    for x in ({"a": "text"}, {"a": 1.0, float("nan"): 1.0}):
        with pytest.raises(SampleError, match="expected a n"):
            index.load(x, buffers)
        index.rollback()
        assert not index.names
        assert not index.positions
    with pytest.raises(ValueError, match="two columns"):
        index.columns(["a", "a"])


def test_coordinates_of_a_set_are_all_there_from_the_first_on():
    index, buffers = FeatureIndex(dimension=3), Buffers()
    with pytest.raises(SampleError, match="integers 0 to 2"):
        index.load({3: 1.0}, buffers)
    assert loaded(index, buffers, {2: 4.0}) == {2: 4.0}
    assert index.names == [0, 1, 2]
    assert copy.deepcopy(index).dimension == 3


def test_columns_are_written_as_a_sample_is():
    index, buffers = FeatureIndex(), Buffers()
    index.load_columns(range(3), buffers)
    assert buffers.idx[:3].tolist() == [0, 1, 2]
    index.commit()
    index.load_columns([2, "new", 0], buffers)
    assert buffers.idx[:3].tolist() == [2, 3, 0]
    assert index.new_ranks.tolist() == [rank_of("new")]


TEXTS = ["", "word", "n\u00e4me", "\u540d\u524d", "\udcff", *(f"{'long ' * k}{k}" for k in range(40)), 70_000 * "\xff"]


@pytest.mark.parametrize(
    "names",
    [
        TEXTS[:FEW],
        TEXTS,
        [*TEXTS, "with \0"],
        [*TEXTS, 3],
        [*range(-30, 30)],
        ["a", b""] * 9,
        [*map(str, range(MANY + 1))],
    ],
)
def test_names_rank_the_same_together_and_one_by_one(names):
    ranks, order = arranged(names)
    expected = [rank_of(name) for name in names]
    assert order.tolist() == sorted(range(len(names)), key=expected.__getitem__)
    assert ranks.tolist() == [expected[k] for k in order]


def test_positions_depend_on_no_order_of_keys_however_many_are_new():
    words = [f"w{j}" for j in range(60)]
    ways, buffers = (FeatureIndex(), FeatureIndex()), (Buffers(), Buffers())
    for start in (0, 3, 20, 30, 31):
        x = {word: float(start) for word in words[start : start + 29]}
        turned = dict(reversed(x.items()))
        results = [loaded(ways[0], buffers[0], x), loaded(ways[1], buffers[1], turned)]
        assert results[0] == results[1] == {ways[0].positions[word]: float(start) for word in x}
        for index in ways:
            index.commit()
    assert ways[0].names == ways[1].names
