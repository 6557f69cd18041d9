import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwonline import stream
from fwonline.exceptions import SourceError

# what csv.writer can write and UTF-8 can hold
CELLS = st.text(st.characters(codec="utf-8"), max_size=6)
TABLES = st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=1, max_size=6))


def read(data, *args, **kwargs):
    return list(stream.CSVSource(io.BytesIO(data), *args, name="f", **kwargs))


def written(table, **dialect):
    text = io.StringIO()
    csv.writer(text, **dialect).writerows(table)
    return text.getvalue().encode()


@given(TABLES, st.sampled_from(["\n", "\r\n"]), st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]))
def test_what_was_written_is_read_back(table, end, quoting):
    names = [f"c{i}" for i in range(len(table[0]))]
    data = written([names, *table], lineterminator=end, quoting=quoting)
    assert [list(item.x.values()) for item in read(data, converters="text")] == table


@given(TABLES)
def test_seek_to_every_position_gives_exactly_the_rest(table):
    data = b"\r\n" + written([[f"c{i}" for i in range(len(table[0]))], *table])
    source = stream.CSVSource(io.BytesIO(data), converters="text")
    positions = [source.position]
    items = []
    for item in source:
        items.append(item)
        positions.append(source.position)
    for n, position in enumerate(positions):
        resumed = stream.CSVSource(io.BytesIO(data), converters="text")
        resumed.seek(position)
        assert list(resumed) == items[n:]


BITS = st.sampled_from([b'"', b",", b"\n", b"\r\n", b"\r", b"a", b"\xff", b"\0"]) | st.binary(max_size=2)


@given(st.lists(BITS, max_size=40).map(lambda bits: b"a,b\n" + b"".join(bits)))
def test_no_bytes_stop_the_stream_and_none_are_lost(data):
    source = stream.CSVSource(io.BytesIO(data), name="f")
    items = list(source)
    assert all(isinstance(item, (stream.Sample, stream.Rejected)) for item in items)
    assert source.position["offset"] == len(data)
    assert all(item.raw in data for item in items if isinstance(item, stream.Rejected))


NUMBERS = st.one_of(
    st.integers().map(str), st.floats().map(repr), st.text('0123456789.-+eE \r_[]"tn', max_size=5), st.just("-0")
)


@given(st.lists(NUMBERS, min_size=2, max_size=2), st.sampled_from(["auto", "number"]))
def test_rows_of_numbers_are_read_at_once_to_the_same_values(cells, kind):
    header, row = b"a,b\n", ",".join(cells).encode() + b"\n"
    at_once = read(header + row, converters=kind)
    _, *one_by_one = read(header + b"x,1\n" + row, converters=kind)

    def told(items):  # the sign of "-0" may get lost, the type may not
        return [repr(i.x).replace("-0.0", "0.0") if isinstance(i, stream.Sample) else i.error[4:] for i in items]

    assert told(at_once) == told(one_by_one)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (b"1\n", "f:3: expected 3 fields (a, b, y), found 1"),
        (b"1,2,3,4\n", "f:3: expected 3 fields (a, b, y), found 4"),
        (b"1,\xff,0\n", "f:3: expected UTF-8 text, found byte 0xff at place 3 of the row"),
        (b'1,"\n\xff",0\n', "f:3: expected UTF-8 text, found byte 0xff at place 5 of the row"),
        (b'1,"2"3,0\n', "f:3: ',' expected after '\"'"),
        (b'1,"2\n"3,0\n', "f:3: ',' expected after '\"'"),
        (b"1,x,0\n", "f:3: column 'b': expected a number, found 'x'"),
        (b"1,2,\n", "f:3: no target: expected a value in the field 'y'"),
        (b"0,2,0\n", "f:3: column 'a': float division by zero"),
        (b'1,"x,0\n', "f:3: expected a closing quote, found none"),
    ],
)
def test_a_malformed_row_is_rejected_whole_and_the_stream_goes_on(row, error):
    data = b"a,b,y\n1,2,3\n" + row + b"4,5,6\n"
    first, rejected, last = read(data, "y", converters={"a": lambda text: 1 / float(text), "b": "number"})
    assert (first.y, last.y) == (3, 6)
    assert rejected == stream.Rejected(row, error, "f:3")
    assert last.origin == f"f:{3 + row.count(bytes([10]))}"


def test_a_quote_that_never_closes_costs_its_line_alone(monkeypatch):
    monkeypatch.setattr("fwonline.stream.csvfile.MAX_RECORD", 100)
    data = b'a,y\n"1,0\n' + b"2,1\n" * 1000 + b'"3",1\n'
    rejected, *samples = read(data, "y")
    assert rejected.raw == b'"1,0\n'
    assert len(samples) == 1001
    assert samples[-1] == stream.Sample({"a": 3}, 1, origin="f:1003")


def test_a_long_quoted_field_is_read():
    long = "line\n" * 20_000
    (item,) = read(written([["a"], [long]]))
    assert item.x == {"a": long}


def test_converters_decide_what_columns_hold():
    data = b"n,zip,flag,note,y\n1,00123,yes,,1\n2.5,x,no,b,0\n"
    one, two = read(data, "y", converters={"zip": "text", "flag": "bool"})
    assert one == stream.Sample({"n": 1, "zip": "00123", "flag": True, "note": None}, 1, origin="f:2")
    assert two == stream.Sample({"n": 2.5, "zip": "x", "flag": False, "note": "b"}, 0, origin="f:3")


def test_empty_fields():
    (item,) = read(b"a,b,c,y\n,,,\n", "y", converters={"b": "text", "c": len, "y": "text"}, require_target=False)
    assert item.x == {"a": None, "b": "", "c": 0}
    assert item.y is None


def test_nan_and_infinity_are_numbers_that_a_model_refuses_by_name():
    (item,) = read(b"a,b\nnan,-inf\n", converters="number")
    assert repr(item.x) == "{'a': nan, 'b': -inf}"


def test_roles_and_drop():
    data = b"id,at,a,junk,y\nq7,1970-01-01T00:00:09Z,1,?,0\n"
    (item,) = read(data, "y", key="id", time="at", drop=["junk"], features=["a"], converters={"junk": "number"})
    assert item == stream.Sample({"a": 1}, 0, "q7", 9.0, "f:2")


def test_another_dialect():
    (item,) = read(b"a\tb\n\t'x\ty'\n", delimiter="\t", quotechar="'")
    assert item.x == {"a": None, "b": "x\ty"}


def test_a_header_given_by_hand():
    one, two = read(b"\xef\xbb\xbf1,2\n3,4\n", "y", header=["a", "y"])
    assert [one.x, one.y, one.origin, two.x] == [{"a": 1}, 2, "f:1", {"a": 3}]


def test_a_header_alone_is_a_stream_without_samples():
    source = stream.CSVSource(io.BytesIO(b"a,y\n"), "y")
    assert list(source) == []
    assert source.position["offset"] == 4


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"a,a,y", "f:1: expected every column once, found 'a' twice"),
        (b"a,b", r"f:1: expected a column 'y' \(target\), found a, b"),
        (b"a,\xff", "f:1: bad header: expected UTF-8 text, found byte 0xff"),
        (b"\n\n", "f:2: bad header: expected one, found only blank lines"),
        (b"a,y\r1,2\r", "f:1: expected lines that end in a newline, found carriage returns alone"),
        (b"", "f: is empty; expected a header and rows"),
    ],
)
def test_a_bad_header(header, message):
    with pytest.raises(SourceError, match=message):
        read(header, "y")


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"key": "id"}, r"f:1: expected a column 'id' \(key\), found a, b, y"),
        ({"time": "at"}, r"expected a column 'at' \(time\)"),
        ({"drop": ["c"]}, r"expected a column 'c' \(drop\)"),
        ({"converters": {"c": "int"}}, r"expected a column 'c' \(converters\)"),
        ({"features": ["a", "b", "c"]}, r"expected a column 'c' \(features\)"),
        ({"features": ["a"]}, "f:1: unknown column 'b'; expected only a"),
    ],
)
def test_columns_that_do_not_fit_their_roles(roles, message):
    with pytest.raises(SourceError, match=message):
        read(b"a,b,y\n1,2,3\n", "y", **roles)


def test_decimal_commas():
    file = b"a;b;y\n1,5;x,y;0,25\n-2;4.3.24;1e2\n1.234,5;;3\n"
    items = list(read(file, "y", delimiter=";", decimal=",", converters={"a": "number"}))
    assert [(item.x, item.y) for item in items[:2]] == [({"a": 1.5, "b": "x,y"}, 0.25), ({"a": -2, "b": "4.3.24"}, 100)]
    assert items[2].error.endswith("column 'a': expected a number with a decimal comma, found '1.234,5'")
    with pytest.raises(ValueError, match=r"decimal: expected '\.' or ',', found ';'"):
        stream.CSVSource("f", decimal=";")


def test_texts_that_mean_a_missing_value():
    file = b"a,b,y\nNA,x,1\n?,?,2\n3,,4\n5,n,NA\n"
    items = list(read(file, "y", na_values=["NA", "?"], converters={"a": "number", "b": "text"}))
    assert [item.x for item in items[:3]] == [{"a": None, "b": "x"}, {"a": None, "b": None}, {"a": 3.0, "b": ""}]
    assert "no target" in items[3].error
    numbers = list(read(b"a,y\n-9,1\n8,2\n", "y", na_values=["-9"]))
    assert [item.x for item in numbers] == [{"a": None}, {"a": 8}]
    with pytest.raises(TypeError, match="na_values: expected a list of names, found the text 'NA'"):
        stream.CSVSource("f", na_values="NA")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"converters": "float"},
            "converters: expected a function or one of auto, number, int, bool, text; found 'float'",
        ),
        ({"converters": {"a": 3}}, r"converters\['a'\]: expected a function or one of"),
        ({"delimiter": ";;"}, "delimiter: expected one character, found ';;'"),
        ({"quotechar": ""}, "quotechar: expected one character, found ''"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        stream.CSVSource("f", **options)
