"""The table encoder: what each kind of column becomes, what is refused, and what a checkpoint of it may hold."""

import copy
import math
import random
from datetime import date, datetime

import pandas as pd
import pytest
from river import checks, preprocessing

from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError, SampleError
from fwonline.tables import TableEncoder

ROW = {"age": 31, "plan": "basic", "joined": "2024-03-04", "is_new": True}


def learned(encoder, *rows):
    for row in rows:
        encoder.learn_one(row)
    return encoder


def test_numbers_are_scaled_as_rivers_scaler_does_to_the_bit():
    rng = random.Random(1)
    encoder, scaler = TableEncoder(), preprocessing.StandardScaler()
    for _ in range(50):
        x = {"a": rng.gauss(1e3, 5.0), "b": rng.randrange(9), 3: rng.random()}
        encoder.learn_one(x)
        scaler.learn_one(x)
        assert encoder.transform_one(x) == scaler.transform_one(x)


def test_a_category_has_a_feature_once_it_is_frequent():
    encoder = TableEncoder(min_frequency=3)
    seen = []
    for _ in range(4):
        seen += encoder.transform_one({"plan": " basic"})
        encoder.learn_one({"plan": "basic "})
    assert seen == ["plan=(other)"] * 3 + ["plan=basic"]
    assert encoder.categories == {"plan": {"basic": 4}}


def test_the_number_of_categories_is_bounded_and_a_warning_names_the_column():
    encoder = TableEncoder(max_categories=2, min_frequency=1)
    learned(encoder, {"c": "a"}, {"c": "b"})
    with pytest.warns(UserWarning, match="column 'c' has more than 2 categories"):
        encoder.learn_one({"c": "z"})
    encoder.learn_one({"c": "y"})  # once is enough
    assert encoder.transform_one({"c": "z"}) == {"c=(other)": 1.0}
    assert encoder.transform_one({"c": "a"}) == {"c=a": 1.0}


def test_ids_stay_in_bounded_memory_and_hide_no_frequent_category():
    encoder = TableEncoder({"id": "category"}, max_categories=3)
    rows = [{"id": text} for i in range(400) for text in (i, "guest")]
    with pytest.warns(UserWarning, match="column 'id' has more than 30 values that came fewer than 5 times each"):
        learned(encoder, *rows)
    assert encoder.categories == {"id": {"guest": 400}}
    assert len(encoder._candidates["id"]) <= 30
    encoder.learn_one({"id": "x" * 5000})
    assert max(map(len, encoder._candidates["id"])) < 10


@pytest.mark.parametrize("missing", [None, float("nan"), "", " ", "NA", pd.NaT])
@pytest.mark.parametrize(
    ("column", "imputed"),
    [("age", {"age": 0.0}), ("plan", {}), ("joined", {"joined.days": 0.0}), ("is_new", {"is_new": 1.0})],
)
def test_a_missing_value_is_imputed_and_flagged(column, imputed, missing):
    encoder = learned(TableEncoder(na_values=["NA"]), ROW)
    before = encoder.counts.copy(), copy.deepcopy(encoder.categories)
    encoder.learn_one({column: missing})
    assert (encoder.counts, encoder.categories) == before
    assert encoder.transform_one({column: missing}) == {**imputed, f"{column}=(missing)": 1.0}


def test_a_column_that_was_declared_and_is_absent_is_missing():
    encoder = TableEncoder({"age": "number", "id": "drop"})
    assert encoder.transform_one({"b": 1}) == {"b": 0.0, "age": 0.0, "age=(missing)": 1.0}
    assert TableEncoder().transform_one({"age": None}) == {}  # nothing is known of it


@pytest.mark.parametrize(
    ("kind", "value", "features"),
    [
        ("date", "2024-03-04", ["weekday=Mon", "month=3"]),
        ("date", "2024-03-04T14:30:00+02:00", ["weekday=Mon", "month=3", "hour=14"]),
        ("date", date(2023, 12, 31), ["weekday=Sun", "month=12"]),
        ("date", pd.Timestamp("2024-03-04 05:00"), ["weekday=Mon", "month=3", "hour=5"]),
        ("date", 1.5 * 86400, ["weekday=Fri", "month=1", "hour=12"]),
        ("date:ms", 1.5 * 86400e3, ["weekday=Fri", "month=1", "hour=12"]),
        ("date:%d.%m.%Y", "04.03.2024", ["weekday=Mon", "month=3"]),
        ("date:%m/%d/%Y %H:%M", "03/04/2024 14:30", ["weekday=Mon", "month=3", "hour=14"]),
    ],
)
def test_dates_have_parts(kind, value, features):
    encoder = TableEncoder({"d": kind})
    assert list(encoder.transform_one({"d": value})) == ["d.days", *(f"d.{name}" for name in features)]
    encoder.learn_one({"d": value})
    moment = datetime(1970, 1, 1) + pd.Timedelta(days=encoder.means["d.days"])
    assert f"month={moment.month}" in features


def test_kinds_follow_from_first_values():
    encoder = learned(TableEncoder(), ROW, {"time": datetime(2024, 1, 1), "code": "2024-13-01"})
    assert encoder.kinds == {
        **{"age": "number", "plan": "category", "joined": "date", "is_new": "bool"},
        **{"time": "date", "code": "category"},
    }
    assert encoder.transform_one({"age": "31", "is_new": "no"}) == {"age": 0.0, "is_new": 0.0}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"age": "old"}, "column 'age' is 'old': expected a number, as its kind is"),
        ({"age": float("inf")}, "column 'age' is inf: expected a number of at most 1e"),
        ({"age": 10**400}, "column 'age' is 1000000000000.*: expected a number of at most 1e"),
        ({"plan": ["a"]}, r"column 'plan' is \['a'\]: expected a category"),
        ({"joined": "4.3.24"}, "column 'joined' is '4.3.24': expected an ISO 8601 date"),
        ({"is_new": 2}, "column 'is_new' is 2: expected true or false"),
        ({"tags": ["a"]}, "column 'tags' is of type list: expected a number, a text"),
    ],
)
def test_a_value_that_does_not_fit_is_named_and_nothing_is_learned(value, said):
    encoder = learned(TableEncoder(), ROW)
    before = codec.dumps(encoder)
    for act in (encoder.learn_one, encoder.transform_one):
        with pytest.raises(SampleError, match=said):
            act({"other": 1.0, "plan": "pro", **value})
    assert codec.dumps(encoder) == before


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"columns": {"a": "text"}}, "columns: the kind of 'a' must be one of 'number', 'category', .* got 'text'"),
        ({"columns": ["a"]}, "columns must be a table of columns and their kinds"),
        ({"max_categories": 0}, "max_categories must be an integer >= 1, got 0"),
        ({"min_frequency": 1.5}, "min_frequency must be an integer >= 1"),
        ({"na_values": "NA"}, "na_values must be a list of texts, got 'NA'"),
    ],
)
def test_parameters_are_checked(settings, said):
    with pytest.raises(ValueError, match=said):
        TableEncoder(**settings)


def test_frames_are_rows():
    frame = pd.DataFrame([{**ROW, "age": age, "plan": plan} for age, plan in [(1, "a"), (2, None), (3, "b")]])
    one, many = TableEncoder(min_frequency=1), TableEncoder(min_frequency=1)
    learned(one, *frame.to_dict("records"))
    many.learn_many(frame)
    found = many.transform_many(frame)
    for row, x in zip(found.to_dict("records"), frame.to_dict("records"), strict=True):
        assert {name: value for name, value in row.items() if value} == {
            name: value for name, value in one.transform_one(x).items() if value
        }


def test_rivers_checks_pass():
    for check in checks.yield_checks(TableEncoder()):
        if check.__name__ != "check_bounded_memory_growth":  # takes seconds
            check(TableEncoder())


def test_a_clone_has_learned_nothing_and_a_checkpoint_goes_on():
    encoder = learned(TableEncoder({"id": "drop", "zip": "category"}, max_categories=7), ROW, {**ROW, "zip": 8001})
    clone = encoder.clone()
    assert (clone.max_categories, clone.kinds, clone.counts) == (7, {"id": "drop", "zip": "category"}, {})
    again = codec.loads(codec.dumps(encoder))
    for other in (encoder, again):
        learned(other, *[{**ROW, "age": age, "plan": "pro"} for age in range(6)])
    assert again.transform_one(ROW) == encoder.transform_one(ROW)
    assert codec.dumps(again) == codec.dumps(encoder)


def test_a_file_shares_nothing_between_parts():
    encoder = learned(TableEncoder(), ROW)
    encoder.variances = encoder.means
    again = codec.loads(codec.dumps(encoder))
    assert again.variances is not again.means
    assert math.isfinite(learned(again, {"age": 1e6}).variances["age"])


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("columns", {"a": "code"}, "parameters that it refuses"),
        ("kinds", {"age": "date:%d"}, "the kinds of `columns`"),
        ("counts", {"age": -1, "joined.days": 1, "is_new": 1}, "positive whole numbers"),
        ("means", {}, "one number for each of `counts`"),
        ("means", {"age": "x", "joined.days": 1.0, "is_new": 1.0}, "numbers from -1e"),
        ("means", {"age": float("nan"), "joined.days": 1.0, "is_new": 1.0}, "numbers from -1e"),
        ("variances", {"age": -1.0, "joined.days": 1.0, "is_new": 1.0}, "numbers from 0 to"),
        ("categories", {"age": {}}, "columns of categories"),
        ("categories", {"plan": {str(i): 1 for i in range(101)}}, "at most 100 texts"),
        ("categories", {"plan": {"a": 0}}, "at most 100 texts"),
        ("categories", {"plan": {3: 1}}, "at most 100 texts"),
        ("categories", {"plan": ["a"]}, "at most 100 texts"),
        ("_candidates", {"plan": {"a" * 1000: 1}}, "at most 1000 texts"),
        ("_warned", 3, "a list"),
    ],
)
def test_a_file_that_somebody_changed_is_refused(name, value, expected):
    encoder = learned(TableEncoder(), ROW)
    setattr(encoder, name, value)
    with pytest.raises(CheckpointError, match=rf"TableEncoder.*{expected}"):
        codec.loads(codec.dumps(encoder))


def test_a_file_sets_nothing_that_follows_from_parameters():
    encoder = learned(TableEncoder(), ROW)
    encoder._missing = frozenset(["31"])
    again = codec.loads(codec.dumps(encoder))
    assert again._missing == {""}
