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


def both(make, fewest, step):
    """Compare the two roads of a source; at least so many rows must come in blocks."""
    check_roads(make, most=9, every=100 * step)
    n_rows = check_roads(make, every=step)
    assert n_rows >= fewest
    return n_rows


@pytest.mark.parametrize(("i", "name"), list(enumerate(MIDDLE)), ids=list(MIDDLE))
def test_both_roads_are_one(i, name):
    for end in (ENDS[i % 6], ENDS[(i + 1) % 6]):
        both(source_of(HEADER + rows(30) + MIDDLE[name] + rows(20, 1) + end), 29, 11)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("converters", ["number", "int", "bool", {"y": "bool"}, {"b": "int", "y": "number"}])
def test_what_columns_hold(converters, end):
    ones = b"1,0,1" + end
    data = b"".join(ones * 199 + rows(5, n, end) + middle for n, middle in enumerate(MIDDLE.values()))
    both(source_of(HEADER + data, converters=converters), 300, 1501)


TABLE = b"id,at,name,a,on,y\n" + b"".join(
    b"k%d,2024-05-01T00:00:%02d,N\xc3\xbc n,%d.5,%s,%d\n" % (i, i % 60, i, [b"yes", b"FALSE"][i % 2], i % 3)
    if i % 29 == 0
    else b"k%d,%d,Joe,%d.5,%s,%d\n" % (i, 1e9 + i, i, [b"yes", b"False"][i % 2], i % 3)
    for i in range(60)
)
ROLES = {"key": "id", "time": "at", "drop": ["name"], "converters": {"on": "bool", "name": len}}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"features": ["a", "on"]},
        {"na_values": ["k7", "NA", "?"]},
        {"require_target": False},
        {"converters": {"on": "bool", "id": "text", "y": "text"}},
        {"converters": {"on": "bool", "at": "number"}},
    ],
)
@pytest.mark.parametrize(
    "broken", [b"", b"k,x,,1,no,0\n", b'"k\n1",1,,1,no,0\n', b"k,1,,1,no,\nk,1,,1,maybe,0\n,5,,1,no,0\n"]
)
def test_roles(options, broken):
    both(source_of(TABLE + broken + TABLE[18:], "y", **ROLES | options), 80, 31)


def test_labels():
    data = b"a,b,y\n" + b"".join(
        b"%d,%d,%s\n" % (i, i, [b"cat", b"dog", b"3", b"1.5", b" x", b"no"][i % 6]) for i in range(60)
    )
    both(source_of(data), 50, 9)
    both(source_of(data, na_values=["dog"]), 0, 9)
    both(source_of(data, converters={"y": "text"}), 50, 9)


DIALECTS = {
    "semicolons, commas": (b"a;b;y\n", b"%d,5;-1,25e1;%d\n", {"delimiter": ";", "decimal": ","}, 1),
    "a point among commas": (b"a;b;y\n", b"%d.5;1,5;%d\n", {"delimiter": ";", "decimal": ","}, 0),
    "keys with commas": (b"a;b;y\n", b"%d,5;1,5;%d\n", {"delimiter": ";", "decimal": ",", "key": "b"}, 1),
    "tabs": (b"a\tb\ty\n", b"%d\t1.5\t%d\n", {"delimiter": "\t"}, 1),
    "blanks": (b"a b y\n", b"%d 1.5 %d\n", {"delimiter": " "}, 1),
    "NULs around": (b"a b y\n", b"\0%d 1.5 %d\n", {"delimiter": " "}, 0),
    "two blanks": (b"a b y\n", b"%d  1.5 %d\n", {"delimiter": " "}, 0),
    "other quotes": (b"a,b,y\n", b"%d,1.5,%d\n", {"quotechar": "'"}, 1),
    "quoting blanks": (b"a,b,y\n", b"%d, 1.5,%d\n", {"quotechar": " "}, 0),
    "quotes beyond ASCII": (b"a,b,y\n", b"%d,1.5,%d\n", {"quotechar": "\u00ab"}, None),
    "a digit between": (b"a5b5y\n", b"%d515%d\n", {"delimiter": "5"}, None),
    "a sign between": (b"a-b-y\n", b"%d-1-%d\n", {"delimiter": "-"}, None),
    "a quoting digit": (b"a,b,y\n", b"%d,1.5,%d\n", {"quotechar": "7"}, None),
    "commas twice": (b"a,b,y\n", b"%d,5,%d\n", {"decimal": ","}, None),
    "numbers that are missing": (b"a,b,y\n", b"%d,5,%d\n", {"na_values": ["-9"]}, None),
    "words that are missing": (b"a,b,y\n", b"%d,5,%d\n", {"na_values": ["No"]}, None),
    "texts": (b"a,b,y\n", b"%d,5,%d\n", {"converters": "text"}, None),
    "a text": (b"a,b,y\n", b"%d,5,%d\n", {"converters": {"b": "text"}}, None),
    "a function": (b"a,b,y\n", b"%d,5,%d\n", {"converters": {"b": float}}, None),
    "a function of labels": (b"a,b,y\n", b"%d,5,%d\n", {"converters": {"y": float}}, None),
    "a function of keys": (b"a,b,y\n", b"%d,5,%d\n", {"converters": {"b": float}, "key": "b"}, None),
}


@pytest.mark.parametrize(("header", "row", "options", "in_block"), DIALECTS.values(), ids=DIALECTS)
def test_dialects(header, row, options, in_block):
    make = source_of(header + b"".join(row % (i, i % 2) for i in range(40)), "y", **options)
    assert make().has_blocks == (in_block is not None)
    n_rows = both(make, 30 * (in_block or 0), 7)
    assert in_block or not n_rows


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
