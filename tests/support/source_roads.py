"""A source read by its two roads, samples and blocks, and what the two must have in common."""

from __future__ import annotations

import json
import random
from itertools import islice

from scipy import sparse

from fwonline.exceptions import SourceError
from fwonline.stream import Sample
from fwonline.stream.block import Block


def typed(item):
    """An item with the types of its values, and with all numbers among the features as floats, as a model has them."""
    if not isinstance(item, Sample):
        return repr(item)
    x = [(name, repr(as_float(v))) for name, v in item.x.items()]
    return ("sample", x, repr(item.y), repr(item.key), repr(item.time), item.origin, item.headers)


def as_float(value):
    """What a model makes of a number that is not beyond floats; anything else as it is."""
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1 << 1023 else value


def samples_of(block):
    """The samples that the rows of a block are."""
    names = range(block.X.shape[1]) if block.names is None else block.names
    X, origins = block.X, block.origins(0, len(block))
    assert (X.shape, len(block.y), X.dtype) == ((len(block), len(names)), len(block), float)
    assert block.origins(len(block) // 2, len(block)) == origins[len(block) // 2 :]
    if sparse.issparse(X):
        X.check_format(full_check=True)
    else:
        assert X.flags.c_contiguous
    for i, y in enumerate(block.y.tolist()):
        if sparse.issparse(X):
            part = slice(X.indptr[i], X.indptr[i + 1])
            x = {names[j]: v for j, v in zip(X.indices[part].tolist(), X.data[part].tolist(), strict=True)}
        else:
            x = dict(zip(names, X[i].tolist(), strict=True))
        key = None if block.keys is None else block.keys[i]
        time = None if block.times is None else float(block.times[i])
        yield Sample(x, y, key, time, origins[i])


def by_samples(source):
    """Items, and the position before each and behind the last; the error that ended them, if one did."""
    items, positions = [], [source.position]
    try:
        for item in source:
            items.append(typed(item))
            positions.append(source.position)
    except SourceError as error:
        items.append(str(error))
    positions.append(source.position)
    return items, positions


def by_blocks(source, most=4096, cut=None):
    """The same by blocks, and how many rows came in one. `cut`: how many rows of a block to use, at random."""
    items, positions, n_rows, are_left = [], [source.position], 0, False
    try:
        for item in source.blocks(most):
            if isinstance(item, Block):
                assert 0 < len(item) <= most
                assert not are_left
                taken = len(item) if cut is None else cut.randint(0, len(item))
                for i, sample in enumerate(samples_of(item)):
                    if i == taken:
                        break
                    item.taken = i + 1
                    n_rows += 1
                    items.append(typed(sample))
                    positions.append(source.position)
                are_left = taken < len(item)
            else:
                are_left = False
                items.append(typed(item))
                positions.append(source.position)
    except SourceError as error:
        items.append(str(error))
    positions.append(source.position)
    return items, positions, n_rows


def in_turns(source, most):
    """The items by both roads in turns: three items by one, then by the other."""
    while True:
        n = 0
        for item in source.blocks(most):
            rows = list(samples_of(item)) if isinstance(item, Block) else [item]
            for row in rows[: 3 - n]:
                n += 1
                if isinstance(item, Block):
                    item.taken += 1
                yield typed(row)
            if n == 3:
                break
        found = [typed(item) for item in islice(source, 3)]
        yield from found
        if not found:
            return


def check_roads(make, *, most=4096, every=1):
    """Compare both roads of the source that `make` makes, places and all; return the rows that came in blocks.

    Each `every`th position is gone on from, by blocks.
    """
    items, positions = by_samples(make())
    with make() as source:
        found, places, n_rows = by_blocks(source, most)
    assert found == items
    assert places == positions
    with make() as source:
        found, places, _ = by_blocks(source, most, random.Random(1))
    assert (found, places) == (items, positions)
    if len(items) == len(positions) - 2:  # no error ended them
        with make() as source:
            assert list(in_turns(source, most)) == items
    for position in positions[::every]:
        resumed = make(), make()
        for source in resumed:
            source.seek(json.loads(json.dumps(position)))
        assert by_blocks(resumed[1], most)[:2] == by_samples(resumed[0])
    return n_rows
