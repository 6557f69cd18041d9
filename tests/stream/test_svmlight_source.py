import io
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fwonline import stream
from fwonline.stream import svmlight

ROWS = st.lists(
    st.tuples(st.floats(allow_nan=False), st.dictionaries(st.integers(0, 10**9), st.floats(), max_size=6)), min_size=1
)


def read(data, **kwargs):
    return list(stream.SVMLightSource(io.BytesIO(data), name="f", **kwargs))


def bits(number):
    return struct.pack("d", number)


@given(ROWS, st.sampled_from([" ", "  ", "\t", " \t "]), st.sampled_from(["\n", "\r\n", " \n", " # 7:7\n\n"]))
def test_what_was_written_is_read_back(rows, blank, end):
    data = "".join(blank.join([repr(y), *(f"{i}:{v!r}" for i, v in x.items())]) + end for y, x in rows).encode()
    items = read(data)
    assert [item.y for item in items] == [y for y, _ in rows]
    assert [list(item.x) for item in items] == [list(x) for _, x in rows]
    assert [repr(v) for item in items for v in item.x.values()] == [repr(v) for _, x in rows for v in x.values()]


PAIRS = st.lists(
    st.text('0123456789:.eE+-_ \\"u,{}nafi\t', max_size=12)
    | st.from_regex(r"-?\d{1,3}:-?\d{1,3}(\.\d)?", fullmatch=True)
).map(lambda parts: " ".join(parts).strip().encode())


@given(PAIRS.filter(bool))
@example(b'3:1,"4":5')
@example(b"\\u0031:5")
@example(b"-3:1")
@example(b"-0:1")
@example(b"1:2 01:3")
@example(b"1: 2:3")
@example(b"1:2:3 4")
@example(b"1:1e999")
@example(b"1:true")
@example(b"1:null")
@example(b"1.0:2")
@example(b"1e2:2")
def test_the_fast_way_takes_exactly_what_the_careful_one_takes(pairs):
    def outcome(function):
        try:
            return [(i, type(i), bits(v + 0.0)) for i, v in function(pairs).items()]  # "-0" may lose its sign
        except ValueError as error:
            return str(error)

    assert outcome(svmlight._features) == outcome(svmlight._features_one_by_one)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (b"1 2", "expected index:value, found '2'"),
        (b"1 2:", "feature 2: expected a number, found ''"),
        (b"1 2:x", "feature 2: expected a number, found 'x'"),
        (b"1 2:1_0", "feature 2: expected a number, found '1_0'"),
        (b"1 2: 3", "feature 2: expected a number, found ''"),
        (b"1 2:3:4", "feature 2: expected a number, found '3:4'"),
        (b"1 2:\xff", "feature 2: expected a number, found '\\\\xff'"),
        (b"1 a:3", "feature index: expected a whole number, 0 or more, found 'a'"),
        (b"1 -2:3", "feature index: expected a whole number, 0 or more, found '-2'"),
        (b"1 1.5:3", "feature index: expected a whole number, 0 or more, found '1.5'"),
        (b"1 :3", "feature index: expected a whole number, 0 or more, found ''"),
        (b"1 " + b"9" * 5000 + b":3", "feature index: expected a whole number, 0 or more, found '999"),
        (b"1 2:3 2:4", "feature 2: expected once, found twice"),
        (b"1 2:3 qid:4", "feature index: expected a whole number, 0 or more, found 'qid'"),
        (b"1 qid:x 2:3", "qid: expected a whole number, 0 or more, found 'x'"),
        (b"x 2:3", "label: expected a number, found 'x'"),
        (b"1,2 2:3", "label: expected a number, found '1,2'"),
        (b"2:3 4:5", "no target: expected a label before the first index:value"),
    ],
)
def test_a_malformed_row_is_rejected_whole_and_the_stream_goes_on(row, error):
    first, rejected, last = read(b"1 1:1\n" + row + b"\n0 1:1\n")
    assert (first.y, last.y) == (1, 0)
    assert rejected.raw == row + b"\n"
    assert rejected.error.startswith(f"f:2: {error}")
    assert rejected.origin == "f:2"


@pytest.mark.parametrize("row", [b"1", b" 1 ", b"1 # alone", b"1\t#1:2"])
def test_a_label_alone_is_a_sample(row):
    assert read(row) == [stream.Sample({}, 1.0, origin="f:1")]


def test_blank_lines_and_comments_are_passed_over():
    assert read(b"\n# 1 2:3\n  \n\t# x\n") == []


def test_qid_is_no_feature():
    plain, tabs, alone = read(b"2 qid:7 1:0.5\n2\tqid:8\t1:0.5\n1 qid:9\n")
    assert (plain.x, plain.headers) == ({1: 0.5}, (("qid", 7),))
    assert (tabs.x, tabs.headers) == ({1: 0.5}, (("qid", 8),))
    assert (alone.x, alone.headers) == ({}, (("qid", 9),))


def test_a_missing_label_may_be_a_question():
    (item,) = read(b"2:3 4:5\n", require_target=False)
    assert item == stream.Sample({2: 3.0, 4: 5.0}, None, origin="f:1")


@pytest.mark.parametrize(
    ("label", "text", "value"),
    [("number", "+1", 1.0), ("int", "-1", -1), ("int", "2.0", 2), ("bool", "-1", False), ("text", "a,b", "a,b")],
)
def test_label_kinds(label, text, value):
    (item,) = read(f"{text} 1:1".encode(), label=label)
    assert item.y == value
    assert type(item.y) is type(value)


def test_a_label_by_a_function():
    one, two = read(b"3,1 1:1\nx\n", label=lambda text: [int(part) for part in text.split(",")])
    assert one.y == [3, 1]
    assert two.error == "f:2: label: invalid literal for int() with base 10: 'x'"


def test_first_index():
    one, two, three = read(b"1 1:5 3:7\n1 0:1\n1\n", first_index=1)
    assert one.x == {0: 5.0, 2: 7.0}
    assert two.error == "f:2: feature 0: expected an index of 1 or more"
    assert three.x == {}


@pytest.mark.parametrize(("first", "row"), [(0, b"1 0:1 2:1"), (1, b"1 1:1 3:1")])
def test_n_features(first, row):
    (item,) = read(row, first_index=first, n_features=3)
    assert item.x == {0: 1.0, 2: 1.0}
    (rejected,) = read(row, first_index=first, n_features=2)
    assert rejected.error == f"f:1: feature {2 + first}: expected an index of {1 + first} or less"


@pytest.mark.parametrize("options", [{"first_index": 2}, {"label": "class"}])
def test_bad_options(options):
    (name,) = options
    with pytest.raises(ValueError, match=f"{name}: expected"):
        stream.SVMLightSource("f", **options)
