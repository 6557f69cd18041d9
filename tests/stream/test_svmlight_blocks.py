"""Rows of svmlight text in blocks: the same items and positions as by the road of samples, place by place."""

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
        b"%d %s" % (draw.randint(0, 1), b" ".join(b"%d:%.6f" % (j, draw.gauss(0, 9)) for j in range(1, 9, 3))) + end
        for _ in range(n)
    )


def source_of(data, **options):
    return lambda: stream.SVMLightSource(io.BytesIO(data), name="f", **options)


PAIRS = """
1: 1:x 1:1_0 1:+5 1:.5 1:5. 1:1e5 1:1E+05 1:1e 1:nan 1:inf 1:1e999 1:-0 1:-0.0 1:00 1:1e-400 1:2:3 :3 1 -1:2 +1:2
01:5 0000000000001:5 1.0:5 1e2:5 2147483646:1 2147483647:1 2147483648:1 99999999999999999:1 9999999999999999999:1
1:true 1:null a:1 qid:7 1:0x1 0:1 1:9007199254740993 1:123456789012345678901234567890
"""
LABELS = "+1 -1 0 -0 1.0 2.5 1e0 nan true YES no x +x 7_0 9007199254740993 \x7f ü -"
PAIRS, LABELS = PAIRS.split(), LABELS.split()
ODD = [f"1 {pair}".encode() for pair in PAIRS] + [f"{label} 1:2".encode() for label in LABELS]
ODD += [
    b"",
    b"  \t",
    b"# comment",
    b"\t# 1 2:3",
    b"1",
    b"1 ",
    b"1 # alone",
    b"1# alone",
    b"1:2 3:4",
    b" 1 2:3",
    b"\t-1\t2:3\t\t4:5 \t",
    b"1 2:3#4:5",
    b"1 2:3 # 4:5",
    b"1 2:3 4:5\r",
    b"1 2:3\r\r",
    b"1 2:3\r4:5",
    b"1 2:3\x0b4:5",
    b"1\x0c2:3",
    b"\x0b1 2:3",
    b"1 2:3\x00",
    b"1 qid:7 2:3",
    b"1\tqid:7",
    b"1 2:3 2:4",
    b"1 4:3 2:4",
    b"1 4:3 2:4 4:5",
    b"1 02:3 2:4",
    b"1 2 :3",
    b"1 2:\xff",
    b"\xff 2:3",
    b"1,2 2:3",
    b'1 3:1,"4":5',
    b"1 \\u0031:5",
]


@pytest.fixture(autouse=True)
def _odd_rows_among_others(monkeypatch):
    monkeypatch.setattr(ahead, "DENSE", 8)


@pytest.fixture
def every_row_in_a_block(monkeypatch):
    monkeypatch.setattr(ahead, "FEWEST", 1)
    monkeypatch.setattr(ahead, "FIRST", 64)


@pytest.mark.parametrize("label", ["number", "int", "bool", "text", "auto"])
def test_both_roads_are_one(label):
    lines = [rows(9, n) + line + b"\n" for n, line in enumerate(ODD)]
    for end in (b"", b"1 2:3", b"1 2:", b"\n#"):
        assert check_roads(source_of(b"".join(lines) + end, label=label), every=301) >= 8 * len(lines)


@pytest.mark.usefixtures("every_row_in_a_block")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"label": "auto"},
        {"label": "text"},
        {"first_index": 1},
        {"n_features": 5},
        {"first_index": 1, "n_features": 4},
    ],
)
def test_lines_one_after_another(options):
    check_roads(source_of(rows(9) + b"\n".join(ODD), **options), every=7)
    check_roads(source_of(rows(3) + b"\r\n".join(ODD), require_target=False, **options), most=2, every=29)


PAIR = st.sampled_from(PAIRS) | st.tuples(st.integers(0, 12), st.floats()).map(lambda pair: f"{pair[0]}:{pair[1]!r}")
BLANK = st.sampled_from([" ", " ", " ", "  ", "\t", " \t "])


@pytest.mark.usefixtures("every_row_in_a_block")
def test_rows_of_all_sorts():
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(st.tuples(BLANK, st.lists(PAIR, max_size=4)), min_size=8, max_size=8))
    def check(drawn):
        lines = [blank.join(["1", *pairs]) + "\n" for blank, pairs in drawn]
        check_roads(source_of(rows(1) + "".join(lines).encode()), every=100)

    check()


@pytest.mark.usefixtures("every_row_in_a_block")
def test_columns_in_any_order_are_found_twice_or_not():
    draw = random.Random(1)
    lines = []
    for size in [2, 3, 50, 2000, 2100] * 4:
        columns = draw.sample(range(10_000), size)
        twice = draw.random() < 0.4
        lines.append("1 " + " ".join(f"{column}:1" for column in columns + columns[:1] * twice) + "\n")
    assert check_roads(source_of("".join(lines * 2).encode()), every=100) > 0
    in_order = ["1 " + " ".join(f"{column}:1" for column in range(5000)) + "\n"] * 9
    assert check_roads(source_of("".join(in_order).encode()), every=100) == 8


@pytest.mark.usefixtures("every_row_in_a_block")
def test_lines_of_a_column_twice_follow_one_another():
    columns = [range(first, first - 2000, -1) for first in (9000, 7000, 5000, 3000)]
    lines = ["1 " + " ".join(f"{column}:1" for column in [*part, part[0]]) + "\n" for part in columns]
    assert check_roads(source_of(rows(20) + "".join(lines).encode() + rows(20)), every=20) > 20


def test_a_label_by_a_function_has_no_blocks():
    assert check_roads(source_of(rows(9), label=float)) == 0
    assert not source_of(b"", label=float)().has_blocks


@pytest.mark.parametrize(
    ("label", "kind"), [("number", "f"), ("int", "i"), ("bool", "b"), ("auto", "i"), ("text", "O")]
)
def test_the_types_of_targets(label, kind):
    source = source_of(rows(20), label=label)()
    blocks = []
    for item in source.blocks():
        if isinstance(item, Block):
            item.taken = len(item)
            blocks.append((item.y.dtype.kind, item.X.shape))
    assert blocks == [(kind, (19, 8))]
