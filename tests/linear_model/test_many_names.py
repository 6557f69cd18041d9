"""More names than arrays double for, and than one dict holds: nothing shows of it."""

import copy
import pickle
import random

import numpy as np
import pytest
from support.catalogue import PAIRS, SETS, state_of
from test_max_names import FAMILY, fits, words

from fwonline import _positions, features, sets
from fwonline.checkpoint import codec
from fwonline.linear_model import FWRegressor
from fwonline.optim.runs import run

FEW = ("l1", "l2", "simplex")


def make(optimizer, where, **given):
    return FWRegressor(SETS[where](), FAMILY[optimizer](), intercept=False, seed=1, **given)


def learn(model, samples):
    for x, y in samples:
        model.learn_one(x, y)
    return model


@pytest.mark.parametrize(
    ("optimizer", "where"),
    # OFW's statistics are never of so many features.
    [p for p in [*PAIRS, ("lu-freund", "l2"), ("AwayFW", "l1")] if fits(*p) and p[1] in FEW and p[0] != "ofw"],
)
@pytest.mark.parametrize("most", [None, 40])
def test_a_model_whose_arrays_are_reserved(optimizer, where, most, monkeypatch):
    samples = list(words(60))
    plain = learn(make(optimizer, where, max_names=most), samples)
    monkeypatch.setattr(run, "DOUBLING", 16)
    monkeypatch.setattr(run, "RESERVED", 1 << 12)
    monkeypatch.setattr(_positions, "PART", 10)
    model = learn(make(optimizer, where, max_names=most), samples[:30])
    is_reserved = not hasattr(model._run, "ring")  # runs over batches double
    assert not is_reserved or model._run.it.v.size == 1 << 12
    assert isinstance(model._features.positions, _positions.Positions)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), codec.loads(codec.dumps(model))):
        assert state_of(copied) == state_of(model)
        assert not is_reserved or copied._run.it.v.size == copied._run.n_features
        assert state_of(learn(copied, samples[30:])) == state_of(plain)
        assert all(copied._features.positions[name] == j for j, name in enumerate(plain._features.names))


def test_what_is_reserved_is_not_saved():
    model = FWRegressor(sets.L1Ball(1.0), seed=0, intercept=False)
    model._run.grow(np.arange(140_000))
    assert model._run.it.v.size == run.RESERVED
    assert model._run.__getstate__()["sums"].shape == (140_000, 4)
    copied = pickle.loads(pickle.dumps(model))
    copied._run.grow(np.arange(1))
    assert copied._run.it.v.size == run.RESERVED


@pytest.mark.parametrize("seed", range(5))
def test_positions_in_parts_are_a_dict(seed, monkeypatch):
    monkeypatch.setattr(_positions, "PART", 7)
    rng = random.Random(seed)
    plain = {f"w{j}": j for j in range(rng.randrange(20))}
    parts = _positions.Positions(plain)
    for step in range(300):
        key = f"w{rng.randrange(40)}"
        action = rng.randrange(4)
        some = [f"w{rng.randrange(60)}" for _ in range(rng.randrange(12))]
        assert _positions.missing(parts, some) == _positions.missing(plain, some) == [k for k in some if k not in plain]
        if action == 0:
            plain[key] = parts[key] = step
        elif action == 1 and key in plain:
            del plain[key]
            del parts[key]
        elif action == 1:
            with pytest.raises(KeyError):
                del parts[key]
        elif action == 2:
            new = list(dict.fromkeys(name for name in some if name not in plain))
            assert _positions.put(parts, new, step) is parts
            plain.update(zip(new, range(step, step + len(new)), strict=True))
        assert (key in parts) == (key in plain)
        assert parts.get(key, -1) == plain.get(key, -1)
        assert len(parts) == len(plain)
        assert all(parts[name] == position for name, position in plain.items())
        assert all(len(part) <= 7 for part in parts.more)
    with pytest.raises(KeyError):
        parts["never"]


@pytest.mark.parametrize("spread", [3, 1_000, 10**9])
@pytest.mark.parametrize("count", [1, 50, 5_000])
def test_the_longest_unseen_of_many(spread, count):
    rng = np.random.default_rng(count)
    index = features.FeatureIndex(20_000)
    index.seen = rng.integers(spread, size=20_000)
    rank = rng.permutation(20_000)
    free = rng.random(20_000) < 0.7
    found = index._longest_unseen(rank, free, int(free.sum()), count)
    order = np.lexsort((rank, index.seen))
    assert sorted(found) == sorted(order[free[order]][:count])
