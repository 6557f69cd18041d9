"""Text where a model needs numbers is named with its column; an encoder that makes too many features is warned of."""

import warnings

import pytest
from river import compose, linear_model, preprocessing

from fwonline import sets
from fwonline.exceptions import SampleError
from fwonline.linear_model import FWClassifier
from fwonline.loop import EventLoop
from fwonline.tables import TableEncoder


def test_text_that_meets_a_scaler_is_named_with_its_column():
    model = preprocessing.StandardScaler() | linear_model.LinearRegression()
    with pytest.raises(SampleError) as error:
        EventLoop([({"age": 3.0, "plan": "basic", "note": None}, 1.0)], model).run()
    said = str(error.value)
    assert "feature 'plan' is 'basic' and 'note' is None, and the model takes numbers alone (TypeError: " in said
    assert said.endswith("a TableEncoder as the first step makes numbers of text, dates and missing values")
    assert not model["StandardScaler"].counts  # the pipeline has not seen it


def test_what_is_not_the_texts_fault_is_not_put_on_it():
    model = compose.Select("absent") | preprocessing.StandardScaler() | linear_model.LinearRegression()
    with pytest.raises(SampleError, match="the model cannot take it: KeyError"):
        EventLoop([({"age": 3.0, "plan": "basic"}, 1.0)], model).run()


def test_labels_that_are_numbers_may_come_with_large_features():
    samples = [({"a": 1.0}, 7), ({"a": 1e50}, 9), ({"a": 2.0}, 7), ({"a": 1e20}, 9)]
    assert EventLoop(samples, FWClassifier(sets.L1Ball(2.0))).run().n_learned == 4


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ([1000.0 + 0.5 * i for i in range(150)], "numbers"),
        ([f"id{i}" for i in range(150)], "values that hardly ever come again"),
    ],
)
def test_an_encoder_that_explodes_is_warned_of_once(values, what):
    model = preprocessing.OneHotEncoder() | linear_model.LinearRegression()
    loop = EventLoop([({"income": value}, 1.0) for value in values], model)
    with pytest.warns(UserWarning, match="of the column 'income' in 1[0-9]+ samples: it holds " + what) as warned:
        loop.run(120)
    assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loop.run()


@pytest.mark.filterwarnings("error")
def test_an_encoder_of_few_categories_is_left_in_peace():
    samples = [({"city": f"c{i % 90}", "n": i % 4}, 1.0) for i in range(150)]
    EventLoop(samples, preprocessing.OneHotEncoder() | linear_model.LinearRegression()).run()
    EventLoop(samples, TableEncoder() | linear_model.LinearRegression()).run()
