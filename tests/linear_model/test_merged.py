"""Models of parts of a stream become one: the mean of their weights, inside the set."""

from __future__ import annotations

import numpy as np
import pytest

from fwonline import optim, sets
from fwonline.linear_model import FWClassifier, FWRegressor, FWSoftmax

SETS = [
    sets.L1Ball(3.0),
    sets.L2Ball(2.0),
    sets.LInfBall(1.0),
    sets.ProbabilitySimplex(1.0),
    sets.UnitSimplex(1.0),
    sets.Box(0.5, 2.0),
]


def part(model, k, rng, label=lambda z: z):
    """A model of a part of the stream, in which one feature never occurs."""
    for _ in range(30 * (k + 1)):
        x = {f"f{j}": float(rng.normal()) for j in range(5) if j != k}
        model.learn_one(x, label(sum(x.values()) * 0.3 + 0.1))
    return model


@pytest.mark.parametrize("constraint", SETS, ids=str)
@pytest.mark.parametrize(
    "optimizer", [None, optim.SFW(memory=20), optim.Mixture(memory=20)], ids=["default", "SFW", "Mixture"]
)
def test_a_merge_predicts_the_mean_of_predictions_and_stays_in_the_set(constraint, optimizer):
    rng = np.random.default_rng(5)
    models = [
        part(FWRegressor(constraint, optimizer and optimizer.clone(), intercept=True, seed=k), k, rng) for k in range(3)
    ]
    before = [dict(model.weights) for model in models]

    whole = models[0].merged(models[1:])

    x = {f"f{j}": float(rng.normal()) for j in range(5)}
    counts = [model.n_samples for model in models]
    assert whole.n_samples == sum(counts) == 180
    assert whole.predict_one(x) == pytest.approx(np.average([m.predict_one(x) for m in models], weights=counts))
    assert whole.violation == 0.0
    assert [model.weights for model in models] == before
    whole.learn_one(x, 1.0)
    assert whole.violation < 1e-12


def test_models_without_samples_count_for_nothing():
    rng = np.random.default_rng(1)
    fresh, learned = (
        FWRegressor(sets.L1Ball(2.0), intercept=False),
        part(FWRegressor(sets.L1Ball(2.0), intercept=False), 0, rng),
    )
    assert fresh.merged([learned]).weights == learned.weights
    assert fresh.merged([fresh]).weights == {}


def test_classes_met_in_another_order_are_turned_round():
    rng = np.random.default_rng(2)
    one = FWClassifier(sets.L1Ball(4.0), seed=1, intercept=False)
    other = FWClassifier(sets.L1Ball(4.0), seed=1, intercept=False)
    for _ in range(200):
        a = float(rng.normal())
        one.learn_one({"a": a}, "up" if a > 0 else "down")
        other.learn_one({"a": a}, "up" if a > 0 else "down") if other.n_samples or a > 0 else None
    first = FWClassifier(sets.L1Ball(4.0), seed=1, intercept=False)
    first.learn_one({"a": -1.0}, "down")
    pair = [first.merged([one, other]), other.merged([one, first])]
    assert pair[0].classes != pair[1].classes or one.classes == other.classes
    for whole in pair:
        assert whole.predict_one({"a": 1.0}) == "up"
        assert whole.predict_one({"a": -1.0}) == "down"
    assert pair[0].predict_proba_one({"a": 0.7})["up"] == pytest.approx(pair[1].predict_proba_one({"a": 0.7})["up"])


def test_what_cannot_be_merged_is_told():
    rng = np.random.default_rng(3)
    with pytest.raises(ValueError, match=r"found a FWRegressor with constraint=L1Ball\(radius=1.0\) and a FWR"):
        FWRegressor(sets.L1Ball(1.0), intercept=False).merged([FWRegressor(sets.L1Ball(2.0), intercept=False)])
    models = [FWClassifier(sets.L1Ball(1.0), intercept=False) for _ in range(2)]
    for model, labels in zip(models, (("a", "b"), ("a", "c")), strict=True):
        for label in labels:
            model.learn_one({"x": 1.0}, label)
    with pytest.raises(ValueError, match=r"same two classes, found \('a', 'b'\) and \('a', 'c'\)"):
        models[0].merged(models[1:])
    models = [FWClassifier(sets.ProbabilitySimplex(1.0), intercept=False) for _ in range(2)]
    for model, labels in zip(models, ("ab", "ba"), strict=True):
        for label in labels:
            model.learn_one({"x": float(rng.normal())}, label)
    with pytest.raises(ValueError, match="in different orders"):
        models[0].merged(models[1:])


def test_a_softmax_knows_the_classes_and_features_of_all():
    rng = np.random.default_rng(4)
    models = []
    for k in range(2):
        model = FWSoftmax(sets.NuclearBall(5.0), seed=k)
        for i in range(60):
            x = {f"f{j}": float(rng.normal()) for j in range(k, k + 3)}
            model.learn_one(x, ("red", "green", "blue")[(i + k) % (2 + k)])
        models.append(model)

    whole = models[0].merged(models[1:])

    assert set(whole.classes) == {"red", "green", "blue"}
    mean = sum(model.weights.get("green", {}).get("f1", 0.0) for model in models) / 2
    assert whole.weights["green"].get("f1", 0.0) == pytest.approx(mean)
    assert whole.constraint.contains(whole._run.x)
