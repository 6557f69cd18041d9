"""Pipelines of parts of a stream become one."""

from __future__ import annotations

import numpy as np
import pytest
from river import compose, linear_model, preprocessing

from fwonline import sets
from fwonline.linear_model import FWRegressor
from fwonline.loop import merge, merge_step


def rows(count, first=0):
    rng = np.random.default_rng(first)
    return [{f"f{j}": float(rng.normal(j, 1 + j)) for j in range(4) if (i + j) % 5} for i in range(count)]


@pytest.mark.parametrize(
    "scaler",
    [
        preprocessing.StandardScaler(),
        preprocessing.StandardScaler(with_std=False),
        preprocessing.MinMaxScaler(),
        preprocessing.MaxAbsScaler(),
        preprocessing.OneHotEncoder(),
        preprocessing.Normalizer(),
    ],
    ids=str,
)
def test_merged_scalers_scale_as_if_one_had_seen_everything(scaler):
    parts = [rows(20, 1), rows(35, 2), rows(0), rows(1, 3)]
    if isinstance(scaler, preprocessing.OneHotEncoder):
        parts = [[{"c": "red"}, {"c": "green"}], [{"c": "blue"}, {"d": "red"}]]
    one, several = scaler.clone(), [scaler.clone() for _ in parts]
    for mine, part in zip(several, parts, strict=True):
        for x in part:
            one.learn_one(x)
            mine.learn_one(x)
    x = parts[0][0]
    before = several[0].transform_one(x)

    whole = merge(several)

    assert whole.transform_one(x) == pytest.approx(one.transform_one(x))
    assert set(whole.transform_one(x)) == set(one.transform_one(x))
    assert several[0].transform_one(x) == before


def test_pipelines_and_unions_are_merged_step_by_step():
    def model():
        union = preprocessing.StandardScaler() + (compose.Discard("f1") | preprocessing.MinMaxScaler())
        return union | FWRegressor(sets.L1Ball(2.0), seed=1, intercept=False)

    models = [model(), model()]
    for mine, part in zip(models, (rows(30, 1), rows(30, 2)), strict=True):
        for x in part:
            mine.learn_one(x, sum(x.values()))
    whole = merge(models)
    x = rows(1, 9)[0]
    scaled = whole["TransformerUnion"].transform_one(x)
    weights = whole["FWRegressor"].weights
    assert whole.predict_one(x) == pytest.approx(sum(weights.get(name, 0.0) * value for name, value in scaled.items()))
    assert whole["FWRegressor"].n_samples == 60
    assert merge(models[:1]).predict_one(x) == models[0].predict_one(x)


def test_others_say_how_they_are_merged():
    with pytest.raises(TypeError, match="LinearRegression has a state that cannot be merged: expected an estimator"):
        merge([linear_model.LinearRegression(), linear_model.LinearRegression()])
    with pytest.raises(TypeError, match="MinMaxScaler over a window"):
        merge([preprocessing.MinMaxScaler(window_size=2)] * 2)

    class Total:
        def __init__(self, total):
            self.total = total

    merge_step.register(Total, lambda first, others: Total(first.total + sum(other.total for other in others)))
    assert merge([Total(1), Total(2), Total(3)]).total == 6
