"""The warning where a set is so large that the steps of an optimizer overshoot."""

import warnings

import numpy as np
import pytest
from river import datasets, preprocessing
from support.catalogue import OPTIMIZERS

from fwonline import datasets as simulated
from fwonline import optim, sets
from fwonline.checkpoint import codec
from fwonline.linear_model import FWClassifier, FWRegressor, FWSoftmax
from fwonline.linear_model.radius import SAMPLES

JUMP = pytest.mark.parametrize("optimizer", ["sfw", "one-sample", "momentum", "ofw", "ofw-adversarial", "adaptive"])


def matrix(n=SAMPLES, labels=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    y = X @ [2.0, -1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0] + 0.5 * rng.normal(size=n)
    return X, y > 0.0 if labels else y


def warned(learn):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        learn()
    return [str(one.message) for one in found]


@JUMP
@pytest.mark.parametrize("kind", [FWRegressor, FWClassifier])
def test_a_radius_far_too_large(optimizer, kind):
    X, y = matrix(labels=kind is FWClassifier)
    model, single = (kind(sets.L1Ball(1e4), OPTIMIZERS[optimizer](), seed=0) for _ in range(2))
    (said,) = warned(lambda: model.learn_arrays(X, y))
    assert "L1Ball(radius=10000.0) is too large for" in said
    assert "a tenth or less" in said
    assert "constraint=None" in said
    assert not warned(lambda: model.learn_arrays(X, y))  # once

    def one_by_one():
        for x, label in zip(X.tolist(), y.tolist(), strict=True):
            single.learn_one(dict(enumerate(x)), label)

    assert warned(one_by_one) == [said]
    assert (
        single.state_summary()["optimizer"]["digest"] != kind(sets.L1Ball(1e4)).state_summary()["optimizer"]["digest"]
    )


def test_before_so_many_samples_and_after_a_file_nothing_is_said():
    X, y = matrix()
    model = FWRegressor(sets.L1Ball(1e4), optim.SFW(memory=50), seed=0)
    assert not warned(lambda: model.learn_arrays(X[:-1], y[:-1]))
    again = codec.loads(codec.dumps(model))
    assert not warned(lambda: again.learn_arrays(X[-1:], y[-1:]))
    assert len(warned(lambda: model.learn_arrays(X[-1:], y[-1:]))) == 1


def test_what_does_not_mind_the_radius():
    X, y = matrix()
    for model in (FWRegressor(sets.L1Ball(1e4)), FWRegressor(), FWRegressor(None, optim.ProjectedSGD(10.0))):
        with np.errstate(all="ignore"):
            assert not warned(lambda model=model: model.learn_arrays(X, y))
    assert not warned(lambda: FWRegressor(sets.Box(1e4, 2e4), optim.SFW(memory=50)).learn_arrays(X, y))  # no zeros


def test_of_many_classes():
    X, _ = matrix()
    model = FWSoftmax(sets.NuclearBall(1e5), optim.OneSampleFW(), seed=0)
    (said,) = warned(lambda: model.learn_arrays(X, X[:, :3].argmax(axis=1)))
    assert "CrossEntropy" in said
    assert not warned(lambda: FWSoftmax(sets.NuclearBall(10.0), optim.OneSampleFW()).learn_arrays(X, X[:, 0] > 0.0))


@JUMP
def test_silent_on_ordinary_streams(optimizer):
    make = OPTIMIZERS[optimizer]
    for stream, kind, radius in (
        (datasets.Phishing(), FWClassifier, 10.0),
        (datasets.TrumpApproval(), FWRegressor, 10.0),
        (simulated.SparseLinear(n_features=50, n_informative=5, radius=10.0, seed=1).take(600), FWRegressor, 10.0),
        (simulated.SparseLinear(n_features=50, n_informative=5, drift_every=100, seed=1).take(600), FWRegressor, 5.0),
        (datasets.Bananas().take(600), FWClassifier, 10.0),
    ):
        model = preprocessing.StandardScaler() | kind(sets.L1Ball(radius), make(), seed=0)

        def learn(stream=stream, model=model):
            for x, y in stream:
                model.learn_one(x, y)

        assert not warned(learn)
    noise = FWRegressor(sets.L1Ball(2.0), make(), seed=0)
    X, y = np.random.default_rng(0).normal(size=(2, 600, 30))
    assert not warned(lambda: noise.learn_arrays(X, y[:, 0]))
