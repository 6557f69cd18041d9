"""A source of blocks in memory, a model that plays them row by row, and what two runs are compared by."""

from itertools import islice

import numpy as np
from river import base
from scipy import sparse

from fwonline.checkpoint import codec
from fwonline.stream import Rejected, Sample, as_source
from fwonline.stream.base import Source
from fwonline.stream.block import Block


class BlockSource(Source):
    """The items of a list; rows of floats under the same names, with a target, come in blocks of `most` at most.

    As CSR where `is_sparse`: then names may differ from row to row, and are numbers.
    """

    def __init__(self, items, most=4096, is_sparse=False):
        self.items = list(as_source(items, "rows"))
        self.name = "rows"
        self.most = most
        self.is_sparse = is_sparse
        self._n = 0
        self._block = None
        self._samples = self._read()

    def _read(self):
        while self._n + self._taken < len(self.items):
            self._settle()
            self._n += 1
            yield self._at(self._n - 1)
        self._settle()

    def __iter__(self):
        return self._samples

    @property
    def _taken(self):
        return 0 if self._block is None else self._block.taken

    def _settle(self):
        self._n, self._block = self._n + self._taken, None

    def _at(self, i):
        item = self.items[i]
        if isinstance(item, Rejected):
            return item
        return Sample(item.x, item.y, item.key, item.time, item.origin or f"rows:{i}", item.headers)

    def blocks(self, most=4096):
        samples = iter(self)
        while True:
            left = self._block is not None and self._block.taken < len(self._block)
            self._settle()
            rows = list(islice(self._rows(), 0 if left else min(most, self.most)))
            if len(rows) < 2:
                if (item := next(samples, None)) is None:
                    return
                yield item
                continue
            self._block = self._made(rows, self._n)
            yield self._block

    def _rows(self):
        first = None
        for i in range(self._n, len(self.items)):
            item = self._at(i)
            if isinstance(item, Rejected) or item.y is None or type(item.y) is dict:
                return
            if {type(value) for value in item.x.values()} - {float}:
                return
            first = item if first is None else first
            if list(item.x) != list(first.x) if not self.is_sparse else set(map(type, item.x)) - {int}:
                return
            yield item

    def _made(self, rows, start):
        y = np.array([row.y for row in rows], dtype=object)
        kinds = {type(value) for value in y}
        if (len(kinds) == 1 and kinds <= {bool, float}) or (kinds == {int} and max(map(abs, y)) < 2**62):
            y = y.astype(kinds.pop())
        names = None if self.is_sparse else list(rows[0].x)
        values = [list(row.x.values()) for row in rows]
        if self.is_sparse:
            columns = [np.array(list(row.x), dtype=np.int32) for row in rows]
            ends = np.cumsum([0, *map(len, columns)])
            width = 1 + max((int(part.max()) for part in columns if len(part)), default=0)
            parts = np.concatenate([np.array(row) for row in values]), np.concatenate(columns), ends
            X = sparse.csr_array(parts, shape=(len(rows), width))
        else:
            X = np.array(values, dtype=float).reshape(len(rows), len(names))
        keys, times = [row.key for row in rows], [row.time for row in rows]
        return Block(
            *(X, y, lambda a, b: [self._at(start + i).origin for i in range(a, b)], names),
            keys=None if set(keys) == {None} else keys,
            times=None if None in times else np.array(times, dtype=float),
        )

    @property
    def position(self):
        return self._n + self._taken

    def seek(self, position):
        self._n = position


def dicts_of(X, names):
    """The rows of a matrix, as samples have them."""
    for i in range(X.shape[0]):
        if isinstance(X, np.ndarray):
            yield dict(zip(range(X.shape[1]) if names is None else names, X[i].tolist(), strict=True))
        else:
            part = slice(X.indptr[i], X.indptr[i + 1])
            yield dict(zip(X.indices[part].tolist(), X.data[part].tolist(), strict=True))


@codec.register
class ByRows(base.Wrapper, base.Regressor):
    """Plays blocks by the methods of a regressor for one sample; leaves targets that are no floats to these."""

    def __init__(self, model):
        self.model = model

    @property
    def _wrapped_model(self):
        return self.model

    play_reason = None

    def predict_one(self, x):
        return self.model.predict_one(x)

    def learn_one(self, x, y):
        self.model.learn_one(x, y)

    def play_block(self, X, y, names, *, probabilities=False):
        predictions, why = [], None
        for x, target in zip(dicts_of(X, names), y.tolist(), strict=True):
            if not isinstance(target, float):  # before the first step has learned it
                why = TypeError("expected a float")
                break
            predictions.append(self.predict_one(x))
            self.learn_one(x, target)
        return np.array(predictions, dtype=float), why
