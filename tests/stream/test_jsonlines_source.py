import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwonline import stream

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
RECORDS = st.lists(
    st.dictionaries(st.text().filter(lambda name: name != "y"), VALUES, max_size=5), min_size=1, max_size=8
)


def read(data, *args, **kwargs):
    return list(stream.JSONLinesSource(io.BytesIO(data), *args, name="f", **kwargs))


@given(RECORDS, st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_what_was_written_is_read_back(records, end):
    data = end.join(json.dumps(record | {"y": i}) for i, record in enumerate(records)).encode()
    items = read(data, "y")
    assert [item.x for item in items] == records
    assert [item.y for item in items] == list(range(len(records)))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "f:2: expected a JSON object: Input data was truncated"),
        (b"[1]", "f:2: expected a JSON object: Expected `object`, got `array`"),
        (b"3", "f:2: expected a JSON object: Expected `object`, got `int`"),
        (b"null", "f:2: expected a JSON object: Expected `object`, got `null`"),
        (b'{"a": NaN, "y": 1}', "f:2: expected a JSON object: JSON is malformed"),
        (b'{"a": 1, "y": 1} x', "f:2: expected a JSON object: JSON is malformed"),
        (b'{"a": "\xff", "y": 1}', "f:2: expected a JSON object: 'utf-8' codec can't decode"),
        (b'{"a":' * 100_000, "f:2: expected a JSON object: "),
        (b'{"a": 1}', "f:2: no target: expected a value in the field 'y'"),
        (b'{"a": 1, "y": null}', "f:2: no target: expected a value in the field 'y'"),
    ],
)
def test_a_malformed_line_is_rejected_whole_and_the_stream_goes_on(line, message):
    first, rejected, last = read(b'{"y": 1}\n' + line + b'\n{"y": 2}\n', "y")
    assert (first.y, last.y) == (1, 2)
    assert rejected.raw == line + b"\n"
    assert rejected.error.startswith(message)
    assert rejected.origin == "f:2"


def test_without_a_target_everything_is_a_question():
    (item,) = read(b'{"a": 1}')
    assert item == stream.Sample({"a": 1}, origin="f:1")


def test_a_missing_target_may_be_a_question():
    question, answer = read(b'{"id": 1, "a": 2}\n{"id": 1, "y": true}\n', "y", key="id", require_target=False)
    assert (question.x, question.y, question.key) == ({"a": 2}, None, 1)
    assert (answer.x, answer.y, answer.key) == ({}, True, 1)


def test_nested_values_are_kept_as_they_are():
    (item,) = read(b'{"a": {"b": [1, null]}}')
    assert item.x == {"a": {"b": [1, None]}}


def test_blank_lines_alone_are_a_stream_without_items():
    assert read(b"\n \r\n\t\n") == []
