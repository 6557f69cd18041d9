"""The public summary of a model: what it names, and that nothing a model knows is missed."""

import copy

import numpy as np
import pytest
from support.catalogue import OPTIMIZERS, SETS, exact, regression, state_of

from fwonline import optim, sets
from fwonline.checkpoint import codec
from fwonline.linear_model import FWClassifier, FWRegressor, FWSoftmax

FAMILY = {
    **OPTIMIZERS,
    "lu-freund": lambda: optim.LuFreundFW(memory=10),
    "svrf": lambda: optim.SVRF(memory=10),
    "storc": lambda: optim.STORC(memory=10),
    "hazan-luo": lambda: optim.HazanLuoFW(memory=10),
    "pairwise-fw": lambda: optim.PairwiseFW(memory=10),
}


def learned(model, samples):
    for x, y in samples:
        model.learn_one(x, y)
    return model


def samples(n=30, **given):
    X, y = regression(n, 4, **given)
    return [(dict(zip("abcd", row, strict=True)), t) for row, t in zip(X.tolist(), y.tolist(), strict=True)]


@pytest.mark.parametrize("optimizer", FAMILY)
def test_equal_models_have_equal_summaries_and_others_not(optimizer):
    model = learned(FWRegressor(SETS["l1"](), FAMILY[optimizer](), seed=1, intercept=False), samples())
    summary = model.state_summary()
    assert list(summary) == [
        *("class", "features", "classes", "weights", "intercept", "gap", "n_samples", "cumulative_loss", "optimizer")
    ]
    before = state_of(model)
    assert state_of(copy.deepcopy(model)) == state_of(codec.loads(codec.dumps(model))) == before
    copied = copy.deepcopy(model)
    # A summary is a copy: it stays as it is while the model goes on.
    ((x, y),) = samples(1, seed=1)
    model.learn_one(x, y)
    assert exact(summary) == before
    assert state_of(model) != before
    copied.learn_one(x, y)
    assert state_of(model) == state_of(copied)


@pytest.mark.parametrize("optimizer", FAMILY)
def test_names_are_words_and_arrays_are_as_long_as_features_or_samples(optimizer):
    model = learned(FWRegressor(SETS["l1"](), FAMILY[optimizer](), seed=1, intercept=False), samples())
    known = model.state_summary()["optimizer"]
    assert known["class"] == type(model.optimizer).__name__
    assert all(len(name) > 2 for name in known)
    sizes = {len(model.state_summary()["features"]), len(known["samples"])}
    for name, value in known.items():
        if isinstance(value, np.ndarray) and name not in ("mixture_weights", "expert_weights"):
            assert value.shape[0] in sizes | {0}, name


def test_samples_come_oldest_first_by_the_features_names():
    given = samples(12)
    for make in (lambda: optim.SFW(memory=5), lambda: optim.SVRF(memory=5)):
        model = learned(FWRegressor(sets.L1Ball(2.0), make(), seed=1, intercept=False), given)
        assert model.state_summary()["optimizer"]["samples"] == given[-5:]


def test_what_only_the_digest_shows():
    model = learned(FWRegressor(sets.L1Ball(2.0), optim.SFW(memory=5), seed=1, intercept=False), samples())
    before = model.state_summary()["optimizer"]
    model._run.s.drift += 1.0  # no one asks for it, and steps depend on it
    after = model.state_summary()["optimizer"]
    assert after.pop("digest") != before.pop("digest")
    assert exact(after) == exact(before)


def test_classifiers_say_their_classes():
    model = learned(FWClassifier(sets.L1Ball(1.0), seed=1, intercept=False), samples(labels=True))
    assert set(model.state_summary()["classes"]) == {True, False}
    matrix = learned(FWSoftmax(seed=1), [(x, round(y)) for x, y in samples()])
    summary = matrix.state_summary()
    assert list(summary["weights"]) == list(summary["classes"])
    assert state_of(matrix) == state_of(copy.deepcopy(matrix))
