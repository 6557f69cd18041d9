"""JSON objects in blocks: the same items and positions as by the road of samples, place by place."""

import io
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.source_roads import check_roads

from fwonline import stream
from fwonline.stream import ahead
from fwonline.stream.block import Block


def rows(n, seed=0, end=b"\n"):
    draw = random.Random(seed)
    return b"".join(
        b'{"a": %.6f, "b":%d,"y": true}' % (draw.gauss(0, 9), draw.randint(-99, 99)) + end for _ in range(n)
    )


def source_of(data, **options):
    return lambda: stream.JSONLinesSource(io.BytesIO(data), "y", name="f", **options)


ODD = [
    b"",
    b"  ",
    b"[]",
    b"{}",
    b"7",
    b'{"a":1,"b":2,"y":true',
    b'{"a":1,"b":2,"y":true}}',
    b'{"a":1,"b":2,"y":true} 7',
    b'{"a":1,"b":2,"y":true},',
    b'{"a":1,"b":2,"y":true}\r',
    b'{"a":1,"b":2,"y":true}\r\r',
    b'{"a":1,"b":2,"y":true}\x00',
    b'  { "a" :  1 , "b" : 2.5 , "y" : false }  ',
    b'\t{"a":1,"b":2,"y":true}',
    b'{"b":2,"a":1,"y":true}',
    b'{"a":1,"b":2}',
    b'{"a":1,"y":true}',
    b'{"a":1,"b":2,"y":null}',
    b'{"a":null,"b":2,"y":true}',
    b'{"a":1,"b":2,"y":true,"y":false}',
    b'{"a":1,"a":3,"b":2,"y":true}',
    b'{"a":1,"b":2,"y":true,"c":3}',
    b'{"\\u0061":1,"b":2,"y":true}',
    b'{"a":true,"b":false,"y":true}',
    b'{"a":[1],"b":{},"y":true}',
    b'{"a":"1","b":2,"y":true}',
    b'{"a":1,"b":2,"y":[]}',
    b'{"a":1,"b":2,"y":"no"}',
    b'{"a":1,"b":2,"y":""}',
    '{"a":1,"b":2,"y":"ü"}'.encode(),
    b'{"a":1,"b":2,"y":"\\n"}',
    b'{"a":1,"b":2,"y":"\xff"}',
    b'{"a":1,"b":2,"y":"\x01"}',
    b'{"a":1,"b":2,"y":"}',
    b'{"a":1 "b":2,"y":true}',
    b'{"a":1,,"b":2,"y":true}',
    b'{"a" 1,"b":2,"y":true}',
    b'{a:1,"b":2,"y":true}',
    b"{'a':1,'b':2,'y':true}",
    b'{"a":1,"b":2,"y":True}',
    b'{"a":1,"b":2,"y":tru}',
    b'{"a":1,"b":2,"y":truee}',
    b"\xef\xbb\xbf" + b'{"a":1,"b":2,"y":true}',
]
NUMBERS = (
    "0 -0 0.0 -0.0 00 01 -01 1. .5 -.5 +1 1.e5 1e5 1E+05 1e-5 1e 1e+ - -- -a 1_0 0x1 1e999 -1e400 1e-400 4.9e-324 "
    "2.2250738585072014e-308 2.2250738585072011e-308 NaN Infinity -Infinity nan 9007199254740993 9007199254740991 "
    "18446744073709551615 18446744073709551616 -9223372036854775809 123456789012345678901234567890 "
    "0.1000000000000000055511151231257827 1" + 400 * "0" + " 0." + 400 * "0" + "1 1.0 2 3.5 true false"
).split()
ODD += [b'{"a":%s,"b":2,"y":true}' % number.encode() for number in NUMBERS]
ODD += [b'{"a":1,"b":2,"y":%s}' % number.encode() for number in NUMBERS]


def test_both_roads_are_one():
    lines = [rows(9, n) + line + b"\n" for n, line in enumerate(ODD)]
    for end in (b"", rows(1).rstrip(), b'{"a":1,"b":', b"\n\n"):
        assert check_roads(source_of(b"".join(lines) + end), every=301) >= 8 * len(lines)


@pytest.fixture(autouse=True)
def _odd_rows_among_others(monkeypatch):
    monkeypatch.setattr(ahead, "DENSE", 8)


@pytest.fixture
def every_row_in_a_block(monkeypatch):
    monkeypatch.setattr(ahead, "FEWEST", 1)
    monkeypatch.setattr(ahead, "FIRST", 64)


@pytest.mark.usefixtures("every_row_in_a_block")
def test_lines_one_after_another():
    check_roads(source_of(rows(9) + b"\n".join(ODD)), every=7)
    check_roads(source_of(rows(3) + b"\r\n".join(ODD), require_target=False), most=2, every=29)


VALUES = (
    st.sampled_from(NUMBERS)
    | st.floats().map(repr)
    | st.integers().map(str)
    | st.text('0123456789.eE+-"tf', max_size=9)
)
BLANKS = st.sampled_from(["", "", "", " ", "  ", "\t", "\r"])


@pytest.mark.usefixtures("every_row_in_a_block")
def test_numbers_as_json_has_them():
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(st.tuples(VALUES, VALUES, BLANKS, BLANKS), min_size=8, max_size=8))
    def check(drawn):
        lines = [f'{{"a":{a},{u}"b"{v}: 1,"y":{y}{u}}}{v}\n' for a, y, u, v in drawn]
        check_roads(source_of(rows(1) + "".join(lines).encode()), every=100)

    check()


@pytest.mark.parametrize(
    ("options", "n_rows"),
    [
        ({"features": ["a", "b"]}, 8),
        ({"features": ["a"]}, 0),
        ({"drop": ["a"]}, 8),
        ({"drop": ["a", "b"]}, 0),
        ({"key": "b"}, 8),
        ({"time": "b"}, 8),
        ({"key": "c"}, 0),
    ],
)
def test_roles(options, n_rows):
    assert check_roads(source_of(rows(9), **options)) == n_rows


def test_dropped_fields_may_hold_anything_plain():
    lines = b'{"id":"x","a":1,"y":2}\n{"id":7,"a":1,"y":2}\n{"id":null,"a":1,"y":2}\n{"id":true,"a":1,"y":2}\n' * 3
    assert check_roads(source_of(lines, drop=["id"])) == 11


@pytest.mark.usefixtures("every_row_in_a_block")
@pytest.mark.parametrize(
    ("options", "n_rows"),
    [({"key": "k"}, 14), ({"time": "t"}, 4), ({"key": "k", "time": "t"}, 13), ({"drop": ["k", "t"]}, 18)],
)
def test_keys_and_times(options, n_rows):
    keys = [b'"x"', b'""', b"7", b"7.5", b"true", b"null", b"[1]", '"\xfc"'.encode(), b"9007199254740993"]
    times = [b"0", b"1.5", b"-3", b"true", b"null", b'"2024-01-01"', b'"x"', b"1e999", b"9007199254740993"]
    pairs = [(k, b"1") for k in keys] + [(b'"x"', t) for t in times] + [(b"null", b"1")] * 3
    lines = b"".join(b'{"k":%s,"a":1,"t":%s,"y":2}\n' % pair for pair in [(b"1", b"5"), *pairs])
    assert check_roads(source_of(lines, **options), every=5) == n_rows
    check_roads(source_of(lines + b'{"a":1,"t":1,"y":2}\n{"k":1,"a":1,"y":2}\n', **options), most=3, every=5)


def test_the_first_object_that_is_a_row_says_how_rows_look():
    data = b'{"a":"x","b":1,"y":true}\n[]\n{"b\\"":1,"y":1}\n' + rows(20)
    assert check_roads(source_of(data)) == 19


@pytest.mark.parametrize(("y", "kind"), [(b"1", "i"), (b"1.5", "f"), (b"false", "b"), (b'"no"', "O")])
def test_the_types_of_targets(y, kind):
    source = source_of(b'{"a":1,"y":%s}\n' % y * 20)()
    blocks = []
    for item in source.blocks():
        if isinstance(item, Block):
            item.taken = len(item)
            blocks.append((item.y.dtype.kind, len(item)))
    assert blocks == [(kind, 19)]
