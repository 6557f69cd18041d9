"""The rows of a CSV file in blocks: the same items and positions as by the road of samples, place by place."""

import io
import random

import pytest
from support.source_roads import check_roads

from fwonline import stream

HEADER = b"a,b,y\n"


def rows(n, seed=0, end=b"\n"):
    draw = random.Random(seed)
    return b"".join(
        b"%.6f,%d,%d" % (draw.gauss(0, 9), draw.randint(-99, 99), draw.randint(0, 1)) + end for _ in range(n)
    )


def source_of(data, *args, **kwargs):
    return lambda: stream.CSVSource(io.BytesIO(data), *(args or ("y",)), name="f", **kwargs)


MIDDLE = {
    "nothing": b"",
    "an empty line": b"\n",
    "empty lines": b"\n\r\n\r\r\n\n",
    "blanks": b"  \n",
    "blanks around": b" 1 , 2, 1 \n",
    "a ragged row": b"1,2\n",
    "a long row": b"1,2,3,4\n",
    "a comma too many": b"1,2,3,\n",
    "text": b"1,x,0\n",
    "a missing value": b"1,,0\n",
    "no target": b"1,2,\n",
    "the header again": HEADER,
    "a NUL": b"1,\x002,0\n",
    "no UTF-8": b"1,\xff,0\n",
    "other text": "1,ü,0\n".encode(),
    "a quoted number": b'1,"2",0\n',
    "a quoted record": b'1,"2\n1,2,0\n3,4,1\n",0\n',
    "a quoted record, wrong behind": b'1,"2\n1,2,0\n3,4,1\n"x,0\n',
    "a quote that never closes": b'"1,2,0\n',
    "a quote in the middle": b'1,2"2,0\n',
    "a lone CR": b"1,2\r,0\n",
    "a CR too many": b"1,2,0\r\r\n",
    "Windows ends": b"1,2,0\r\n4,5,1\r\n",
    "beyond floats": b"1e999,2,0\n1,-1e400,1\n",
    "tiny": b"1e-400,4.9e-324,0\n2.2250738585072014e-308,0,1\n",
    "long numbers": b"123456789012345678901234567890,0.1000000000000000055511151231257827,1\n",
    "ints beyond floats": b"9007199254740993,1,9007199254740993\n1,2,9007199254740992\n3,4,9007199254740991\n",
    "minus nothing": b"-0,-0.0,-0\n+0,+5,+0\n",
    "odd spellings": b"1_000,2,0\n.5,5.,1\n1e5,1E+05,0\ninfinity,nan,1\n0x1,1,0\n1e,.,0\n-,+,1\n",
    "floats among targets": b"1,2,0.5\n",
    "floats among targets, many": rows(20) + b"1,2,0.5\n1,2,1.0\n1,2,1e0\n" + rows(20),
    "truth": b"1,2,true\n1,2,yes\n",
}


ENDS = (b"", b"7,8,1", b"7,8,1\r\n\n", b'7,"8,1', b'7,"8\n', b"7,")


@pytest.mark.parametrize("middle", MIDDLE.values(), ids=MIDDLE)
def test_both_roads_are_one(middle):
    for end in ENDS:
        assert check_roads(source_of(HEADER + rows(30) + middle + rows(30, 1) + end), every=13) >= 25


@pytest.mark.parametrize("converters", ["number", "int", "bool", {"y": "bool"}, {"b": "int", "y": "number"}])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_what_columns_hold(converters, end):
    ones = b"1,0,1" + end
    data = b"".join(ones * 10 + rows(10, n, end) + middle for n, middle in enumerate(MIDDLE.values()))
    assert check_roads(source_of(HEADER + data, converters=converters), every=101) >= 300


def test_the_types_of_targets():
    def types(data, **options):
        found = []
        for item in source_of(HEADER + data, **options)().blocks():
            if not isinstance(item, stream.Sample):
                item.taken = len(item)
                found.append((item.y.dtype.kind, len(item)))
        return found

    ints, floats = b"1,2,3\n" * 10, b"1,2,3.5\n" * 10
    assert types(ints) == [("i", 9)]
    assert types(floats) == types(ints, converters="number") == [("f", 9)]
    assert types(ints + floats) == [("O", 19)]
    assert types(b"1,0,1\n" * 10, converters="bool") == [("b", 9)]
