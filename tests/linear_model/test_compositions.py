"""Estimators among river's own parts: pipelines, unions, ensembles, model selection, evaluation."""

import copy
import pickle

import pytest
from river import (
    bandit,
    compose,
    datasets,
    ensemble,
    evaluate,
    feature_extraction,
    metrics,
    model_selection,
    multiclass,
    preprocessing,
    stream,
)
from support.catalogue import OPTIMIZERS

from fwonline import optim, sets
from fwonline._pipeline import final_estimator
from fwonline.linear_model import FWClassifier, FWRegressor


def phishing(n=300):
    return stream.shuffle(datasets.Phishing().take(n), buffer_size=50, seed=0)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_behind_a_scaler(optimizer):
    model = preprocessing.StandardScaler() | FWClassifier(
        sets.L1Ball(5.0), OPTIMIZERS[optimizer](), seed=0, intercept=False
    )
    score = evaluate.progressive_val_score(phishing(), model, metrics.ROCAUC())
    assert score.get() > 0.75
    assert final_estimator(model).n_samples == 300
    assert final_estimator(model).violation < 1e-12


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_regression_on_real_data(optimizer):
    model = preprocessing.StandardScaler() | FWRegressor(
        sets.L1Ball(3.0), OPTIMIZERS[optimizer](), intercept=True, seed=0
    )
    mean = evaluate.progressive_val_score(datasets.TrumpApproval().take(600), model, metrics.MAE()).get()
    assert mean < 4.0
    assert final_estimator(model).intercept_ == pytest.approx(41.0, abs=6.0)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_behind_a_one_hot_encoder_and_a_hasher_in_a_union(optimizer):
    """Keys of mixed types: text made by the encoder, integers by the hasher, names of columns."""
    numbers = compose.Select("size") | preprocessing.StandardScaler()
    codes = compose.Select("colour") | preprocessing.OneHotEncoder()
    hashed = compose.Select("word") | preprocessing.FeatureHasher(n_features=8, seed=1)
    model = compose.TransformerUnion(numbers, codes, hashed) | FWClassifier(
        sets.L1Ball(4.0), OPTIMIZERS[optimizer](), intercept=True, seed=0
    )
    colours, words = ("red", "green", "blue"), ("a", "b", "c", "d")
    correct = 0
    for t in range(400):
        x = {"size": t % 7, "colour": colours[t % 3], "word": words[(t // 3) % 4]}
        y = x["colour"] == "red"
        correct += model.predict_one(x) == y
        model.learn_one(x, y)
    assert correct > 260
    names = final_estimator(model)._features.names
    assert {type(name) for name in names} == {str, int}
    assert final_estimator(model).violation < 1e-12


def test_text():
    model = feature_extraction.BagOfWords(lowercase=True) | FWClassifier(
        sets.L1Ball(6.0), optim.SFW(memory=50), intercept=False
    )
    for t in range(200):
        spam = t % 2 == 0
        model.learn_one(f"{'buy now' if spam else 'see you'} word{t}", spam)
    assert model.predict_one("please buy now") is True
    assert model.predict_one("when do I see you") is False
    assert len(final_estimator(model)._features) == 204


@pytest.mark.parametrize("optimizer", ["sfw", "one-sample", "ofw"])
def test_bagging(optimizer):
    model = preprocessing.StandardScaler() | ensemble.BaggingClassifier(
        FWClassifier(sets.L1Ball(5.0), OPTIMIZERS[optimizer](), seed=1, intercept=False), n_models=3, seed=2
    )
    assert evaluate.progressive_val_score(phishing(), model, metrics.ROCAUC()).get() > 0.85
    members = list(model["BaggingClassifier"])
    assert len({id(member.optimizer) for member in members}) == 3
    assert len({str(member.weights) for member in members}) == 3


def test_model_selection():
    greedy = preprocessing.StandardScaler() | model_selection.GreedyRegressor(
        [FWRegressor(sets.L1Ball(radius), intercept=True, seed=1) for radius in (0.01, 3.0)], metric=metrics.MSE()
    )
    for x, y in datasets.TrumpApproval().take(500):
        greedy.learn_one(x, y)
    assert greedy["GreedyRegressor"].best_model.constraint.radius in (0.01, 3.0)
    chosen = model_selection.BanditRegressor(
        [FWRegressor(sets.L1Ball(r), seed=1, intercept=False) for r in (0.1, 1.0)],
        metric=metrics.MSE(),
        policy=bandit.EpsilonGreedy(epsilon=0.1, seed=1),
    )
    for t in range(100):
        chosen.learn_one({"a": t % 3}, t % 3)
    assert sum(m.n_samples for m in chosen) >= 100


def test_one_versus_the_rest():
    model = multiclass.OneVsRestClassifier(FWClassifier(sets.L2Ball(5.0), optim.OneSampleFW(), seed=0, intercept=False))
    for t in range(600):
        model.learn_one({"a": float(t % 3 == 0), "b": float(t % 3 == 1), "c": 1.0}, "xyz"[t % 3])
    assert [model.predict_one({"a": float(k == 0), "b": float(k == 1), "c": 1.0}) for k in range(3)] == list("xyz")


def test_pipelines_are_copied_whole():
    model = preprocessing.StandardScaler() | FWClassifier(
        sets.L1Ball(5.0), optim.SFW(memory=20), seed=0, intercept=False
    )
    data = list(phishing(200))
    for x, y in data[:100]:
        model.learn_one(x, y)
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for x, y in data[100:]:
        for m in (model, *twins):
            m.learn_one(x, y)
    answers = [model.predict_proba_one(x) for x, _ in data]
    assert all([twin.predict_proba_one(x) for x, _ in data] == answers for twin in twins)


def test_final_estimator():
    model = FWRegressor(sets.L1Ball(1.0), intercept=False)
    assert final_estimator(model) is model
    assert final_estimator(preprocessing.StandardScaler() | preprocessing.MinMaxScaler() | model) is model
