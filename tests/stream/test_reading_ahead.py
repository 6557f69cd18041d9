"""Files, archives and pipes of which blocks are read: pieces of any size, errors in their turn, threads that end."""

import gzip
import io
import os
import random
import threading
import time
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.source_roads import by_blocks, by_samples, check_roads

from fwonline import stream
from fwonline.exceptions import SourceError
from fwonline.stream import ahead
from fwonline.stream.block import Block

HEADER = b"a,b,y\n"


def rows(n, seed=0):
    draw = random.Random(seed)
    return b"".join(b"%.6f,%d,%d\n" % (draw.gauss(0, 9), draw.randint(-99, 99), draw.randint(0, 1)) for _ in range(n))


TEXT = HEADER + rows(40) + b'"1\n2",3,0\n\nx,y,z\n' + rows(40, 1) + b"1,2"


@pytest.fixture(params=[1, 100, 1 << 15])
def first(request, monkeypatch):
    monkeypatch.setattr(ahead, "FIRST", request.param)
    monkeypatch.setattr(ahead, "MOST", 4 * request.param)
    return request.param


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, lambda text: gzip.compress(text[:99]) + gzip.compress(text[99:])]
)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_files(pack, mark, tmp_path, first):
    path = tmp_path / "f"
    path.write_bytes(pack(mark + TEXT))
    assert check_roads(lambda: stream.CSVSource(path, "y", name="f"), every=17) >= (60 if first > 1000 else 0)


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize("damage", [lambda packed: packed[:-12], lambda packed: packed[:-8] + b"12345678"])
def test_a_broken_archive_ends_both_roads_at_the_same_row(damage):
    packed = damage(gzip.compress(TEXT))
    roads = [by(stream.CSVSource(io.BytesIO(packed), "y", name="f")) for by in (by_samples, by_blocks)]
    assert roads[0] == roads[1][:2]
    assert "cannot be read" in roads[0][0][-1]


BITS = st.sampled_from([b'"', b",", b"\n", b"\r\n", b"\r", b"a", b"\xff", b"\0", b"1,2,0\n" * 9]) | st.binary(
    max_size=2
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(BITS, max_size=30).map(b"".join))
def test_any_bytes(data):
    check_roads(lambda: stream.CSVSource(io.BytesIO(HEADER + data), "y", name="f"), every=9)


def test_a_line_that_is_too_long(monkeypatch):
    monkeypatch.setattr("fwonline.stream.files.MAX_LINE", 300)
    for line in (b"7" * 299 + b"\n", b"7" * 300 + b"\n", b"7" * 299, b"7" * 1000):
        check_roads(
            lambda line=line: stream.CSVSource(io.BytesIO(HEADER + rows(40) + line + rows(9)), "y", name="f"), every=40
        )


@pytest.mark.parametrize(
    "change", [lambda path: os.truncate(path, 300_000), lambda path: path.open("ab").write(b"5,6,1\n" * 20)]
)
def test_a_file_that_shrinks_or_grows_while_it_is_read(tmp_path, change, monkeypatch):
    monkeypatch.setattr(ahead, "MOST", ahead.FIRST)
    path = tmp_path / "f"
    path.write_bytes(HEADER + rows(20_000))
    n, changes = 0, iter([change])
    with stream.CSVSource(path, "y", name="f") as source:
        for item in source.blocks(500):
            n += len(item) if isinstance(item, Block) else 1
            if isinstance(item, Block):
                item.taken = len(item)
            if n > 3000:
                next(changes, str)(path)
        assert source.position["offset"] == path.stat().st_size
    assert n == len(path.read_bytes().splitlines()) - 1


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("fwonline-read")]


def test_the_thread_ends_with_the_iterator_and_with_the_source():
    data = HEADER + rows(3000)
    for leave in ("end", "iterator", "source"):
        source = stream.CSVSource(io.BytesIO(data), "y")
        items = source.blocks(100)
        next(items)
        assert not threads()  # nothing is read ahead for samples
        next(items).taken = 100
        assert len(threads()) == 1
        if leave == "end":
            for item in items:
                if isinstance(item, Block):
                    item.taken = len(item)
            assert source.progress == 1.0
        elif leave == "iterator":
            items.close()
            assert source.progress < 1.0
            assert len(list(source)) == 2899
            assert not threads()
        else:
            position = source.position
            source.close()
            assert source.position == position
            assert list(items) == []
        assert not threads()


def test_lines_are_counted_beyond_32_bits():
    source = stream.CSVSource(io.BytesIO(HEADER + rows(100)), "y", name="f")
    items = source.blocks(50)
    next(items)
    before = source._line = 2**31 - 60
    for _ in range(2):
        block = next(items)
        assert block.origins(48, 49) == [f"f:{before + 49}"]
        before += 50
        block.taken = len(block)


def test_progress_counts_what_was_taken():
    for pack in (bytes, gzip.compress):
        data = pack(HEADER + rows(20_000))
        with stream.CSVSource(io.BytesIO(data), "y") as source:
            seen = []
            for item in source.blocks(500):
                if isinstance(item, Block):
                    item.taken = len(item)
                seen.append(source.progress)
            assert seen == sorted(seen)
            assert all(0 < part <= 1 for part in seen)
            assert seen[5] < 0.5


def test_rows_of_a_pipe_come_when_they_are_there():
    read, write = os.pipe()
    with open(read, "rb") as file:
        source = stream.CSVSource(file, "y", name="f")
        items = source.blocks()
        os.write(write, HEADER + rows(100) + b"1,2")
        assert next(items).origin == "f:2"
        block = next(items)
        assert len(block) == 99
        block.taken = 99
        os.write(write, b",1\n")  # trickles
        begun = time.monotonic()
        assert next(items).origin == "f:102"
        assert time.monotonic() - begun < 1.0
        assert not threads()  # who waits for a pipe can leave it
        assert source.position["offset"] == len(HEADER + rows(100)) + 6
        os.write(write, b"1,2,0\n" * 50)
        os.close(write)
        block = next(items)
        block.taken = len(block)
        assert [block.origins(0, 1), len(block)] == [["f:103"], 50]
        assert list(items) == []
        assert source.position["line"] == 152


def test_text_is_left_to_the_road_of_samples():
    data = HEADER + b"1,x,0\n" * 30_000 + rows(9000)
    source = stream.CSVSource(io.BytesIO(data), "y")
    blocks = 0
    for item in source.blocks():
        if isinstance(item, Block):
            item.taken = len(item)
            blocks += len(item)
    assert source.position["line"] == 39_001
    assert not threads()
    assert source.progress == 1.0


def test_memory_stays_flat(tmp_path):
    path = tmp_path / "f"
    part = rows(10_000)

    def peak(n):
        path.write_bytes(HEADER + part * n)
        tracemalloc.start()
        for item in stream.CSVSource(path, "y").blocks():
            if isinstance(item, Block):
                item.taken = len(item)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(1)
    assert peak(200) < 60e6  # 34 MB in pieces of 4 MiB, less than three of which are held, text and numbers


def test_an_error_is_raised_in_its_turn(monkeypatch):
    class Broken(io.BytesIO):
        def read1(self, size=-1):
            if self.tell() > 20_000:
                raise OSError(5, "Input/output error")
            return super().read1(min(size, 8_000))

    source = stream.CSVSource(Broken(HEADER + rows(5000)), "y", name="f")
    n = 0
    with pytest.raises(SourceError, match=r"f:\d+: cannot be read: Input/output error"):  # noqa: PT012
        for item in source.blocks(100):
            n += len(item) if isinstance(item, Block) else 1
            if isinstance(item, Block):
                item.taken = len(item)
    assert source.position["line"] == n + 1 > 1000
