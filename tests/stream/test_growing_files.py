"""Files that grow while runs come and go: torn lines, headers that change."""

import json

import pytest

from fwonline import sets, stream
from fwonline.exceptions import SampleError, SourceError
from fwonline.linear_model import FWRegressor
from fwonline.loop import EventLoop
from fwonline.stream import CallbackSink, Sample

# A head, whole lines, and a line that is refused wherever it is torn at one of these places.
FORMATS = {
    "csv": (
        lambda path: stream.CSVSource(path, "y", name="f"),
        b"a,b,y\n",
        [b"1,2,3\n", b"4,5,6\n"],
        b"7,8,9\n",
        [1, 2, 3],
    ),
    "jsonl": (
        lambda path: stream.JSONLinesSource(path, "y", name="f"),
        b"",
        [b'{"a": 1, "b": 2, "y": 3}\n', b'{"a": 4, "b": 5, "y": 6}\n'],
        '{"a": 7, "ü": 8, "y": 9}\n'.encode(),
        [1, 7, 11, 12, 20],
    ),
    "svmlight": (
        lambda path: stream.SVMLightSource(path, name="f"),
        b"# head\n",
        [b"3 1:1 2:2\n", b"6 1:4 2:5\n"],
        b"9 1:7 2:8\n",
        [3, 4, 7, 8],
    ),
}


@pytest.fixture(params=FORMATS)
def file(request, tmp_path):
    make, *rest = FORMATS[request.param]
    path = tmp_path / "f"
    return path, lambda: make(path), *rest


def read(make, position=None):
    source = make()
    if position is not None:
        source.seek(json.loads(json.dumps(position)))
    items = list(source)
    return items, source.position


def xs(items):
    return [item.y if isinstance(item, Sample) else "refused" for item in items]


def test_a_torn_last_line_is_read_again_when_it_is_whole(file):
    path, make, head, lines, last, places = file
    for place in places:
        path.write_bytes(head + b"".join(lines) + last[:place])
        items, position = read(make)
        assert xs(items) == [3, 6, "refused"]
        for _ in range(2):  # as long as nothing comes there is nothing to read
            items, position = read(make, position)
            assert items == []
        path.write_bytes(head + b"".join(lines) + last + lines[0])
        items, end = read(make, position)
        assert xs(items) == [9, 3]
        assert items[0].origin == f"f:{len(lines) + len(head.splitlines()) + 1}"
        assert end["line"] == len(lines) + len(head.splitlines()) + 2
        assert read(make, end)[0] == []


def test_a_line_that_is_torn_over_and_over(file):
    path, make, head, lines, last, places = file
    position, seen = None, []
    for place in [*places, len(last)]:
        path.write_bytes(head + b"".join(lines) + last[:place])
        items, position = read(make, position)
        seen += xs(items)
    assert seen == [3, 6, *["refused"] * len(places), 9]


def test_a_last_line_that_lacks_its_end_alone_was_whole(file):
    path, make, head, lines, last, _ = file
    for end in (b"\n", b"\r\n"):
        path.write_bytes(head + lines[0] + last.rstrip())
        items, position = read(make)
        assert xs(items) == [3, 9]
        path.write_bytes(head + lines[0] + last.rstrip() + end)
        assert read(make, position)[0] == []
        path.write_bytes(head + lines[0] + last.rstrip() + end + lines[1])
        (item,), _ = read(make, position)
        assert (item.y, item.origin) == (6, f"f:{len(head.splitlines()) + 3}")


def test_what_was_learned_of_a_torn_line_cannot_be_taken_back(tmp_path):
    path = tmp_path / "f"
    for make, torn, more in ((FORMATS["csv"][0], b"a,b,y\n1,2,3", b"3\n"), (FORMATS["svmlight"][0], b"3 1:1", b"5\n")):
        path.write_bytes(torn)
        items, position = read(lambda make=make: make(path))
        assert xs(items) == [3]
        path.write_bytes(torn + more)
        with pytest.raises(
            SourceError, match=r"f: line \d has no end where the former run read it, '.*', and is longer"
        ):
            read(lambda make=make: make(path), position)


def test_a_torn_line_that_became_another_is_noticed(file):
    path, make, head, lines, last, places = file
    path.write_bytes(head + b"".join(lines) + last[: places[-1]])
    _, position = read(make)
    path.write_bytes(head + b"".join(lines) + b"x" + last[1:])
    with pytest.raises(SourceError, match="this is not the file it was"):
        read(make, position)


@pytest.mark.parametrize("blank", [b"   ", b"# a comm"])
def test_a_torn_line_without_an_item_is_no_line_yet(tmp_path, blank):
    path = tmp_path / "f"
    make = FORMATS["jsonl" if blank.isspace() else "svmlight"][0]
    lines = (
        [b'{"a": 1, "y": 3}\n', b'   {"a": 1, "y": 6}\n'] if blank.isspace() else [b"3 1:1\n", b"# a comment\n6 1:1\n"]
    )
    path.write_bytes(lines[0] + blank)
    items, position = read(lambda: make(path))
    assert xs(items) == [3]
    path.write_bytes(b"".join(lines))
    assert xs(read(lambda: make(path), position)[0]) == [6]


def test_a_row_torn_inside_of_quotes_is_read_again_when_they_close(tmp_path):
    path, make = tmp_path / "f", lambda: stream.CSVSource(tmp_path / "f", "y", name="f")
    row = b'"one\n\ntwo ""words""\nthree",8,9\n'
    whole = b"a,b,y\n1,2,3\n" + row + b"4,5,6\n"
    for torn in range(len(row) - 8):
        path.write_bytes(whole[: 12 + torn])
        items, position = read(make)
        assert set(xs(items)) <= {3, "refused"}
        path.write_bytes(whole)
        items, end = read(make, position)
        assert xs(items) == [9, 6], torn
        assert items[0].origin == "f:3"
        assert end["line"] == 7


def test_rows_behind_a_quote_that_never_closes_are_learned_once(tmp_path):
    path, make = tmp_path / "f", lambda: stream.CSVSource(tmp_path / "f", "y", name="f")
    path.write_bytes(b'a,b,y\n1,2,3\n"x,1,2\nbad\n4,5,6\nbad\n')
    items, position = read(make)
    assert xs(items) == [3, "refused", "refused", 6, "refused"]
    path.write_bytes(b'a,b,y\n1,2,3\n"x,1,2\nbad\n4,5,6\nbad\n7,8,"9"\n')
    assert xs(read(make, position)[0]) == [9]


def test_positions_say_no_more_than_they_did_where_nothing_is_torn(file):
    path, make, head, lines, last, _ = file
    path.write_bytes(head + b"".join(lines) + last)
    _, position = read(make)
    header = {"header_crc32"} if head.startswith(b"a") else set()
    assert position.keys() == {"offset", "line", "last_size", "last_crc32"} | header


# In a loop


def model():
    return FWRegressor(sets.L1Ball(5.0), seed=1, intercept=False)


@pytest.mark.parametrize("on_error", ["raise", "dead-letter"])
def test_a_run_goes_on_when_the_line_is_whole(file, on_error, tmp_path):
    path, make, head, lines, last, places = file
    letters = []
    options = {"on_error": on_error, "checkpoint": tmp_path / "c"}
    if on_error == "dead-letter":
        options["dead_letter"] = CallbackSink(letters.append)
    for place in places:
        path.write_bytes(head + b"".join(lines) + last[:place])
        loop = EventLoop(make(), model(), **options)
        if on_error == "raise":
            with pytest.raises(SampleError, match=f"f:{len(head.splitlines()) + 3}: "):
                loop.run()
        else:
            loop.run()
        assert loop.counts.n_learned == 2
    path.write_bytes(head + b"".join(lines) + last)
    loop = EventLoop(make(), model(), **options)
    summary = loop.run()
    assert summary.n_learned == 3
    assert {letter["origin"] for letter in letters} <= {f"f:{len(head.splitlines()) + 3}"}
    twin = model()
    EventLoop(make(), twin).run()
    assert loop.model.weights == twin.weights


def test_a_torn_number_that_the_model_refuses_is_read_again(tmp_path):
    # 1e is text for CSV, and only the model objects to it.
    path, letters = tmp_path / "f.csv", []
    path.write_bytes(b"a,y\n1,2\n3,1e")
    options = {"checkpoint": tmp_path / "c", "on_error": "dead-letter", "dead_letter": CallbackSink(letters.append)}
    assert EventLoop(stream.CSVSource(path, "y"), model(), **options).run().n_rejected == {"target": 1}
    path.write_bytes(b"a,y\n1,2\n3,1e1\n")
    assert EventLoop(stream.CSVSource(path, "y"), model(), **options).run().n_learned == 2


def test_a_line_that_stays_bad_is_tried_again_by_a_run_that_raises(file, tmp_path):
    path, make, head, lines, last, places = file
    path.write_bytes(head + lines[0] + last[: places[0]])
    for ending in (b"", b"", b"\n", b"\n" + lines[1]):
        path.write_bytes(head + lines[0] + last[: places[0]] + ending)
        with pytest.raises(SampleError, match=f"f:{len(head.splitlines()) + 2}: "):
            EventLoop(make(), model(), checkpoint=tmp_path / "c").run()
    summary = EventLoop(make(), model(), checkpoint=tmp_path / "c", on_error="skip").run()
    assert (summary.n, summary.n_learned) == (3, 2)


# Headers


@pytest.mark.parametrize("names", ["b,a,y", "a,c,y", "y,a,b"])
def test_a_header_whose_names_changed_is_refused(tmp_path, names):
    path = tmp_path / "f.csv"
    path.write_text("a,b,y\n" + "1,2,3\n" * 5)
    loop = EventLoop(stream.CSVSource(path, "y", name="f"), model(), checkpoint=tmp_path / "c")
    loop.run(3)
    path.write_text(f"{names}\n" + "1,2,3\n" * 5)
    with pytest.raises(
        SourceError, match=f"f: the columns are not those .* but {', '.join(names.split(','))}: this is not"
    ):
        EventLoop(stream.CSVSource(path, "y", name="f"), model(), checkpoint=tmp_path / "c").run()
    path.write_text("a,b,y\n" + "1,2,3\n" * 5)
    assert EventLoop(stream.CSVSource(path, "y", name="f"), model(), checkpoint=tmp_path / "c").run().n == 5


def test_names_given_by_hand_are_a_header_too(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("1,2,3\n" * 5)
    source = stream.CSVSource(path, "y", header=["a", "b", "y"])
    next(iter(source))
    again = stream.CSVSource(path, "y", header=["b", "a", "y"])
    again.seek(source.position)
    with pytest.raises(SourceError, match="the columns are not those that the former run read"):
        next(iter(again))


def test_a_position_of_before_knows_no_header(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("a,b,y\n" + "1,2,3\n" * 5)
    source = stream.CSVSource(path, "y")
    next(iter(source))
    position = dict(source.position)
    del position["header_crc32"]
    again = stream.CSVSource(path, "y")
    again.seek(position)
    assert len(list(again)) == 4
