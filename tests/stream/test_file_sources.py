"""What the three file formats share: opening, unpacking, positions, resuming, ends."""

import gzip
import io
import json
import os
import subprocess
import sys
import tracemalloc

import pytest

from fwonline import stream
from fwonline.exceptions import SourceError

CSV = b'\xef\xbb\xbfa,y\r\n1,0\r\n\r\n"2\r\n3",1\r\nbad\r\n"4""5",0\r\n6,1'
JSON = b'{"a": 1, "y": 0}\n\n{"a": "2\\n3", "y": 1}\nbad\n  {"a": [4], "y": 0}\r\n{"a": 6, "y": 1}'
SVM = b"# head\n0 1:1 # c\n\n1\nbad\n0 qid:3  2:4\t3:5\r\n1 1:6"
PLACE = {"offset": 9, "line": 2, "last_size": 4, "last_crc32": 1}
FORMATS = {
    "csv": (lambda file: stream.CSVSource(file, "y", name="f"), CSV),
    "jsonl": (lambda file: stream.JSONLinesSource(file, "y", name="f"), JSON),
    "svm": (lambda file: stream.SVMLightSource(file, name="f"), SVM),
}


@pytest.fixture(params=FORMATS)
def make(request):
    return FORMATS[request.param][0]


@pytest.fixture
def text(request, make):
    return FORMATS[request.node.callspec.params["make"]][1]


@pytest.fixture(params=["plain", "gzip", "gzip of two members"])
def path(request, tmp_path, text):
    """A file whose name says nothing of what is in it."""
    path = tmp_path / "stream.data"
    if request.param == "plain":
        path.write_bytes(text)
    elif request.param == "gzip":
        path.write_bytes(gzip.compress(text))
    else:
        path.write_bytes(gzip.compress(text[:20]) + gzip.compress(text[20:]))
    return path


def test_every_item_is_there(make, path):
    items = list(make(path))
    assert [type(item).__name__ for item in items] == ["Sample", "Sample", "Rejected", "Sample", "Sample"]
    assert [item.y for item in items if isinstance(item, stream.Sample)] == [0, 1, 0, 1]
    assert all(item.origin.startswith("f:") for item in items)


def test_seek_to_every_position_gives_exactly_the_rest(make, path):
    source = make(path)
    positions, items = [source.position], []
    for item in source:
        positions.append(json.loads(json.dumps(source.position)))
        items.append(item)
    assert len({position["offset"] for position in positions}) == len(items) + 1
    for n, position in enumerate(positions):
        with make(path) as resumed:
            resumed.seek(position)
            assert resumed.position["line"] == position["line"]
            assert list(resumed) == items[n:]  # origins too: lines are still counted from the start


def test_reading_goes_on_where_it_was_left(make, path):
    source = make(path)
    first = next(iter(source))
    rest = list(source)
    assert [first, *rest] == list(make(path))
    assert list(source) == []


def test_an_open_file_is_read_from_where_it_stands_and_stays_open(make, text):
    expected = list(make(io.BytesIO(text)))
    for packed in (text, gzip.compress(text)):
        file = io.BytesIO(b"something before" + packed)
        file.seek(16)
        with make(file) as source:
            items = iter(source)
            begun = [next(items), next(items)]
            position = source.position
        assert not file.closed
        assert begun == expected[:2]
        file.seek(16)
        resumed = make(file)
        resumed.seek(position)
        assert list(resumed) == expected[2:]


def test_an_unbuffered_file_is_read_and_left_open(make, path):
    with open(path, "rb", buffering=0) as file:
        assert list(make(file)) == list(make(path))
        assert not file.closed


def test_a_pipe_is_read_but_cannot_be_sought(make, text):
    expected = list(make(io.BytesIO(text)))
    for packed in (text, gzip.compress(text)):
        items = []
        for position in (None, PLACE):
            read, write = os.pipe()
            os.write(write, packed)
            os.close(write)
            with open(read, "rb") as file:
                source = make(file)
                if position is None:
                    items = list(source)
                    continue
                source.seek(position)
                with pytest.raises(SourceError, match="f: cannot be sought, so a former run cannot be resumed"):
                    next(iter(source))
        assert items == expected


def test_standard_input(make, text):
    fmt = next(name for name, (made, _) in FORMATS.items() if made is make)
    call = {"csv": "CSVSource('-', 'y')", "jsonl": "JSONLinesSource('-', 'y')", "svm": "SVMLightSource('-')"}[fmt]
    code = f"from fwonline import stream\nfor item in stream.{call}: print(type(item).__name__, item.origin)"
    ran = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, check=True)
    lines = ran.stdout.decode().splitlines()
    assert [line.split()[0] for line in lines] == ["Sample", "Sample", "Rejected", "Sample", "Sample"]
    assert lines[-1].split(" ", 1)[1] == f"standard input:{text.count(bytes([10])) + 1}"


def test_standard_input_cannot_be_sought_even_when_it_is_a_file(make, path, monkeypatch):
    with open(path, "rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        source = make("-")
        source.seek(PLACE)
        with pytest.raises(SourceError, match="cannot be sought"):
            next(iter(source))


def test_a_line_arrives_while_the_pipe_is_open(make):
    line = {"CSVSource": b"a,y\n1,0\n", "JSONLinesSource": b'{"y":0}\n', "SVMLightSource": b"0 1:1\n"}
    read, write = os.pipe()
    with open(read, "rb") as file:
        source = make(file)
        os.write(write, line[type(source).__name__])
        assert next(iter(source)).y == 0  # would hang if the source waited for a full buffer
        os.close(write)


def test_missing_file(make, tmp_path):
    with pytest.raises(SourceError, match="f: cannot be read: No such file or directory"):
        next(iter(make(tmp_path / "none")))


def test_folder(make, tmp_path):
    with pytest.raises(SourceError, match="f: cannot be read: Is a directory"):
        next(iter(make(tmp_path)))


@pytest.mark.parametrize("empty", [b"", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_empty_file_is_named(make, empty):
    with pytest.raises(SourceError, match="f: is empty; expected "):
        list(make(io.BytesIO(empty)))


def test_the_name_is_the_path(tmp_path):
    with pytest.raises(SourceError, match=r"ratings\.csv: cannot be read"):
        list(stream.CSVSource(tmp_path / "ratings.csv"))


@pytest.mark.parametrize("bom", [b"\xff\xfe", b"\xfe\xff"])
def test_another_encoding_is_named(make, bom):
    with pytest.raises(SourceError, match="f: expected UTF-8 text, found UTF-16"):
        list(make(io.BytesIO(bom + b"a\0")))


def test_a_file_open_for_text_is_refused(make, path):
    with (
        open(path) as file,
        pytest.raises(SourceError, match="expected a file open for bytes, found one open for text"),
    ):
        list(make(file))


def test_truncated_archive(make, text):
    text = text + b"\n" + text.splitlines(keepends=True)[-1] * 3
    with pytest.raises(SourceError, match=r"f:?\d*: cannot be read: Compressed file ended"):
        list(make(io.BytesIO(gzip.compress(text)[:-12])))


def test_damaged_archive_says_at_which_line(make, text):
    packed = bytearray(gzip.compress(text))
    packed[-8] ^= 1  # the checksum
    with pytest.raises(SourceError, match=r"f:\d+: cannot be read: CRC check failed"):
        list(make(io.BytesIO(packed)))


def test_a_file_that_was_replaced_is_noticed(make, text, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(text)
    source = make(path)
    items = iter(source)
    next(items), next(items)
    position = source.position
    for other in (text[:10], text.replace(b"1", b"11")):
        path.write_bytes(other)
        resumed = make(path)
        resumed.seek(position)
        with pytest.raises(SourceError, match=r"f: before byte \d+ \(line \d\) is not what .* not the file it"):
            next(iter(resumed))


def test_a_file_that_grew_is_read_on(make, text, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(text + b"\n")
    source = make(path)
    items = list(source)
    path.write_bytes(text + b"\n" + text.splitlines()[-1])
    resumed = make(path)
    resumed.seek(source.position)
    (added,) = resumed
    assert added.x == items[-1].x


@pytest.mark.parametrize("position", [3, None, {}, {"offset": 1}, {"offset": 1.5}, {"offset": "1"}, {"count": 1}])
def test_a_position_of_another_kind_is_an_error(make, position):
    with pytest.raises(SourceError, match="f: expected a position of this source, found"):
        make(io.BytesIO(b"x")).seek(position)


def test_seek_after_reading_is_an_error(make, path):
    source = make(path)
    next(iter(source))
    with pytest.raises(SourceError, match="seek before reading"):
        source.seek({"offset": 0, "line": 0})


def test_close_ends_reading_and_may_be_called_twice(make, path):
    source = make(path)
    items = iter(source)
    next(items)
    source.close()
    source.close()
    assert list(items) == []
    with pytest.raises(SourceError, match="closed"):
        iter(source)


def test_progress_goes_from_nothing_to_one(make, path):
    source = make(path)
    assert source.progress is None
    seen = [source.progress for _ in source]
    assert all(0 <= part <= 1 for part in seen)
    assert seen == sorted(seen)
    assert source.progress == 1.0


def test_an_endless_line_is_an_error(make, monkeypatch):
    monkeypatch.setattr("fwonline.stream.files.MAX_LINE", 100)
    with pytest.raises(SourceError, match="f:1: expected text, found a line of more than 100 bytes"):
        list(make(io.BytesIO(b"7" * 1000)))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_memory_stays_flat(make, text, tmp_path, pack):
    path = tmp_path / "long"
    lines = text.splitlines(keepends=True)
    path.write_bytes(pack(lines[0] + lines[1] * 60_000 + text.splitlines()[-1]))

    def peak(n):
        items = iter(make(path))
        tracemalloc.start()
        for _ in range(n):
            next(items, None)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(50_000) < peak(500) + 20_000
