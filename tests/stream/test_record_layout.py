import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwonline import stream
from fwonline.stream.records import KINDS, RecordLayout, listed


def sample(record, **layout):
    return RecordLayout(**layout).sample(dict(record), raw="raw", origin="f:1")


def test_roles_leave_the_features():
    record = {"a": 1, "b": 2, "y": 3, "id": 4, "at": 5, "note": "x"}
    made = sample(record, target="y", key="id", time="at", drop=["note"])
    assert made == stream.Sample({"a": 1, "b": 2}, 3, 4, 5.0, "f:1")


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        (1.5, 1.5),
        (2, 2.0),
        (None, None),
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01T00:01:00", 60.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
        ("1970-01-02", 86400.0),
    ],
)
def test_times(time, seconds):
    assert sample({"at": time}, time="at").time == seconds


@pytest.mark.parametrize("time", ["soon", True, [1], float("nan"), float("inf"), ""])
def test_other_times_are_rejected(time):
    rejected = sample({"at": time, "id": 7}, time="at", key="id")
    assert rejected.error.startswith("f:1: time 'at': expected seconds since the epoch or an ISO 8601 date, found ")
    assert rejected.key == 7  # a question's key is kept, so that its answer can be told to wait no longer


def test_a_key_must_be_hashable():
    assert sample({"id": [1]}, key="id").error == "f:1: key 'id': expected text or a number, found a list"


def test_an_unknown_field_is_rejected_and_an_absent_one_is_not():
    layout = {"target": "y", "features": ["a", "b"]}
    assert sample({"a": 1, "y": 0}, **layout).x == {"a": 1}
    rejected = sample({"a": 1, "c": 1, "y": 0}, **layout)
    assert rejected == stream.Rejected("raw", "f:1: unknown field 'c'; expected only a, b", "f:1")


def test_what_the_message_brings_holds_unless_a_field_says_otherwise():
    layout = RecordLayout(key="id")
    made = layout.sample({"id": 1, "a": 2}, "raw", "t[0]@1", key="k", time=3.0, headers=(("h", b"v"),))
    assert (made.key, made.time, made.headers) == (1, 3.0, (("h", b"v"),))
    assert RecordLayout().sample({"a": 2}, "raw", "t[0]@1", key="k").key == "k"


@pytest.mark.parametrize(
    "layout",
    [{"target": "a", "key": "a"}, {"target": "a", "drop": ["a"]}, {"time": "a", "features": ["a"]}],
)
def test_two_roles_for_one_field(layout):
    with pytest.raises(ValueError, match="the field 'a' cannot be both"):
        RecordLayout(**layout)


@pytest.mark.parametrize("parameter", ["features", "drop"])
def test_a_text_is_no_list_of_names(parameter):
    with pytest.raises(TypeError, match=f"{parameter}: expected a list of names, found the text 'abc'"):
        RecordLayout(**{parameter: "abc"})


@given(st.floats(), st.integers())
def test_numbers_are_read_back_exactly(real, integer):
    assert repr(KINDS["number"](repr(real))) == repr(real)
    assert repr(KINDS["auto"](repr(real))) == repr(real)
    assert KINDS["int"](str(integer)) == integer
    assert KINDS["auto"](str(integer)) == pytest.approx(integer, rel=1e-15)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("auto", "007", 7),
        ("auto", "1_000", "1_000"),
        ("auto", "²", "²"),
        ("auto", "1e3", 1000.0),
        ("auto", " 2.5", 2.5),
        ("auto", "New York", "New York"),
        ("int", "3.0", 3),
        ("int", "+12345678901234567891", 12345678901234567891),
        ("bool", "+1", True),
        ("bool", "Yes", True),
        ("bool", "-1", False),
        ("text", "7", "7"),
    ],
)
def test_kinds(kind, text, value):
    found = KINDS[kind](text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("number", "abc", "expected a number, found 'abc'"),
        ("number", "1_000", "expected a number, found '1_000'"),
        ("number", "", "expected a number, found ''"),
        ("int", "1.5", "expected a whole number, found '1.5'"),
        ("int", "nan", "expected a whole number, found 'nan'"),
        ("int", "inf", "expected a whole number, found 'inf'"),
        ("bool", "2", "expected one of 1, true, yes, 0, -1, false, no; found '2'"),
    ],
)
def test_what_is_not_of_a_kind(kind, text, message):
    with pytest.raises(ValueError, match="expected") as caught:
        KINDS[kind](text)
    assert str(caught.value) == message


def test_long_lists_are_shortened():
    assert listed(["a", "b"]) == "a, b"
    assert listed(list("abcdefghijk")) == "a, b, c, d, e, f, g, h, ... (11 in all)"
