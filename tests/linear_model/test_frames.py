"""Frames of pandas and polars: a column is the feature of its name, however the frame comes."""

import numpy as np
import pandas as pd
import pytest

from fwonline import sets
from fwonline.linear_model import FWClassifier, FWRegressor, FWSoftmax

NAMES = ["age", "height", "weight"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
TARGETS = {
    FWRegressor: X @ [1.0, 0.0, -0.5],
    FWClassifier: X[:, 0] > 0.0,
    FWSoftmax: np.array(["a", "b", "c"])[X.argmax(axis=1)],
}
KINDS = pytest.mark.parametrize("kind", TARGETS)


def make(kind):
    return kind(seed=1) if kind is FWSoftmax else kind(sets.L1Ball(3.0), seed=1)


def pandas_frame():
    return pd.DataFrame(X.copy(), columns=NAMES)


def polars_frame():
    return pytest.importorskip("polars").DataFrame({name: X[:, j] for j, name in enumerate(NAMES)})


FRAMES = pytest.mark.parametrize("frame", [pandas_frame, polars_frame])


def learned(model):
    """All that a model has learned, to the last bit, and its weights by name."""
    return model.state_summary()["optimizer"]["digest"], model.weights


@KINDS
@FRAMES
def test_arrays_of_a_frame_keep_their_names(kind, frame):
    y = TARGETS[kind]
    model, series = make(kind), make(kind)
    model.learn_arrays(frame(), y)
    series.learn_many(pandas_frame(), pd.Series(y))
    assert learned(model) == learned(series)
    assert sorted(model.state_summary()["features"]) == NAMES
    one_by_one = make(kind)
    for x, label in zip(X.tolist(), y.tolist(), strict=True):
        one_by_one.learn_one(dict(zip(NAMES, x, strict=True)), label)
    assert learned(model) == learned(one_by_one)


@KINDS
@FRAMES
def test_predictions_find_columns_by_name(kind, frame):
    model = make(kind)
    model.learn_arrays(pandas_frame(), TARGETS[kind])
    turned = frame()[NAMES[::-1]]
    expected = [model.predict_one(dict(zip(NAMES, x, strict=True))) for x in X.tolist()]
    assert model.predict_arrays(turned).tolist() == expected
    assert list(model.predict_many(turned)) == expected
    if kind is not FWRegressor:
        np.testing.assert_array_equal(model.predict_proba_arrays(turned), model.predict_proba_arrays(frame()))


@FRAMES
def test_minimize_keeps_names(frame):
    model = FWSoftmax(sets.NuclearBall(5.0), seed=1)
    numbered = FWSoftmax(sets.NuclearBall(5.0), seed=1)
    W = model.minimize(frame(), TARGETS[FWSoftmax], steps=5).x
    np.testing.assert_array_equal(W, numbered.minimize(X, TARGETS[FWSoftmax], steps=5).x)
    expected = {c: {NAMES[j]: w for j, w in row.items()} for c, row in numbered.weights.items()}
    assert model.weights == expected
    assert model.predict_arrays(frame()[NAMES[::-1]]).tolist() == numbered.predict_arrays(X).tolist()


@KINDS
@FRAMES
def test_polars_and_pandas_learn_alike(kind, frame):
    model, expected = make(kind), make(kind)
    library = library_of(frame())
    model.learn_many(frame(), library.Series(TARGETS[kind].tolist()))
    expected.learn_arrays(pd.DataFrame(X, columns=NAMES), TARGETS[kind])
    predicted = model.predict_many(frame())
    assert type(predicted) is library.Series
    assert list(predicted) == expected.predict_arrays(pandas_frame()).tolist()


def library_of(frame):
    return pd if isinstance(frame, pd.DataFrame) else pytest.importorskip("polars")


@FRAMES
def test_a_column_of_text_is_named(frame):
    model = make(FWRegressor)
    table = frame()
    if isinstance(table, pd.DataFrame):
        table["height"] = "tall"
    else:
        table = table.with_columns(pytest.importorskip("polars").lit("tall").alias("height"))
    with pytest.raises(ValueError, match=r"column 'height' of X: .*'tall'.*; expected numbers"):
        model.learn_arrays(table, TARGETS[FWRegressor])
    assert model.n_samples == 0
    assert model.n_features == 0
    with pytest.raises(ValueError, match="column 'height'"):
        model.predict_arrays(table)


@KINDS
def test_a_missing_value_is_a_bad_sample_by_name(kind):
    table = pandas_frame()
    table.loc[2, "weight"] = np.nan
    model = make(kind)
    with pytest.raises(ValueError, match=r"row 2: .*'weight'.*nan"):
        model.learn_arrays(table, TARGETS[kind])
    assert model.n_samples == 2


def test_frames_of_whole_numbers_are_matrices():
    named, numbered = make(FWRegressor), make(FWRegressor)
    named.learn_arrays(pd.DataFrame(X), TARGETS[FWRegressor])
    numbered.learn_arrays(X, TARGETS[FWRegressor])
    assert learned(named) == learned(numbered)
