"""A source's two ways of reading, sample by sample and in blocks, must yield the same rows at the same positions."""

import json
from itertools import pairwise

import scipy.sparse

from fwonline.exceptions import SourceError
from fwonline.stream import Sample
from fwonline.stream.block import Block


def check_both_roads(make, most=(1, 3, 4096), step=1):
    """Read `make()`, a new source each time, in both ways, leave it at rows, and resume it; return its rows.

    Blocks have at most `most` rows. Every `step`-th row is a place to leave a block, to change to the other way, and to
    resume. A row is what `plain` makes of it, and its position.
    """
    expected = read(make(), samples)
    for n in most:
        assert read(make(), blocks, n) == expected
        for k in range(0, len(expected), step):
            assert read(make(), cut, k, n) == expected, f"a block of {n} left at row {k}"
    for k in range(0, len(expected) - 1, step):
        for way in (samples, blocks):
            with make() as source:
                source.seek(json.loads(json.dumps(expected[k][1])))
                assert read(source, way) == expected[k + 1 :], f"resumed behind row {k} by {way.__name__}"
            with make() as source:
                rows = list(part(cut(source, k, changes=True), k + 1))
                assert rows + read(source, way) == expected, f"left at row {k}, on by {way.__name__}"
    return expected


def read(source, way, *args):
    """All rows that a way of reading finds; the last one is what ended it."""
    rows = []
    with source:
        try:
            rows.extend(way(source, *args))
        except SourceError as error:
            rows.append((("error", str(error)), source.position))
        else:
            rows.append((("end",), source.position))
    return rows


def samples(source):
    """The rows, one by one."""
    for item in source:
        if item is not None:
            yield plain(item), source.position


def blocks(source, most=4096):
    """The rows of the source in blocks, all of which are taken."""
    for item in source.blocks(most):
        yield from taken(source, item, most)


def cut(source, row, most=4096, changes=False):
    """The rows of the source in blocks; the one with that row is left behind it, the next is no longer in a block."""
    n, is_next = 0, False
    for item in source.blocks(most):
        if item is None:
            continue
        if not isinstance(item, Block):
            is_next = False
            n += 1
            yield plain(item), source.position
            continue
        assert not is_next, "the rest of a block came as a block"
        stop = row + 1 - n if n <= row < n + len(item) else len(item)
        is_next = stop < len(item)
        n += stop
        yield from taken(source, item, most, stop)


def taken(source, item, most, stop=None):
    """The rows of a block, taken one after another, or the item alone."""
    if item is None:
        return
    if not isinstance(item, Block):
        yield plain(item), source.position
        return
    assert 0 < len(item) <= most
    assert source.has_blocks
    rows = samples_of(item)
    for row in rows[:stop]:
        item.taken += 1
        yield plain(row), source.position


def part(rows, n):
    """The first rows, and no look at what follows them."""
    for _ in range(n):
        if (row := next(rows, None)) is None:
            return
        yield row


def in_blocks(source):
    """The origins of the rows that come in blocks."""
    origins = []
    for item in source.blocks():
        if isinstance(item, Block):
            item.taken = len(item)
            origins += item.origins(0, len(item))
    return origins


def samples_of(block):
    """The samples that a block stands for."""
    n = len(block)
    assert len(block.y) == block.X.shape[0] == n
    columns = range(block.X.shape[1]) if block.names is None else block.names
    assert len(columns) == block.X.shape[1]
    if scipy.sparse.issparse(block.X):
        block.X.check_format(full_check=True)
        ptr = block.X.indptr
        rows = [block.X.indices[i:j].tolist() for i, j in pairwise(ptr)]
        values = [block.X.data[i:j].tolist() for i, j in pairwise(ptr)]
        xs = [{columns[j]: v for j, v in zip(*row, strict=True)} for row in zip(rows, values, strict=True)]
        assert [len(x) for x in xs] == [len(row) for row in rows]
    else:
        assert block.X.dtype == float
        assert block.X.flags.c_contiguous
        xs = [dict(zip(columns, row, strict=True)) for row in block.X.tolist()]
    keys = [None] * n if block.keys is None else list(block.keys)
    times = [None] * n if block.times is None else block.times.tolist()
    origins = block.origins(0, n)
    assert block.origins(n // 2, n) == origins[n // 2 :]
    return list(map(Sample, xs, block.y.tolist(), keys, times, origins))


def plain(item):
    """An item in a form that is equal to another one's only if no model can tell them apart."""
    if isinstance(item, Sample):
        x = {name: _value(value) for name, value in item.x.items()}
        return "sample", x, (type(item.y), repr(item.y)), item.key, item.time, item.origin, item.headers
    return "rejected", repr(item.raw), item.error, item.origin, item.key, item.headers


def _value(value):
    return repr(float(value)) if isinstance(value, (bool, int, float)) else (type(value), repr(value))
