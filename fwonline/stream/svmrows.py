"""Rows of svmlight text, many at once: to the same values and types as `SVMLightSource` reads one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from fwonline.stream._kernels.pairs import LARGEST, Pairs, read_pairs
from fwonline.stream._kernels.rows import TEXT
from fwonline.stream.ahead import Origins, Parsed
from fwonline.stream.block import Block
from fwonline.stream.csvrows import CODES, targets
from fwonline.stream.records import KINDS

__all__ = ["PairRows"]


class PairRows:
    """Reads text as rows of a label and entries.

    Parameters
    ----------
    label
        What reads labels; one of `KINDS`.
    first_index, n_features
        As for `SVMLightSource`.
    """

    def __init__(self, label: Callable[[str], Any], first_index: int, n_features: int | None) -> None:
        self._label = label
        self._code = TEXT if label is KINDS["text"] else CODES[label]
        self._first = first_index
        self._most = LARGEST if n_features is None else min(first_index + n_features, LARGEST)

    def __call__(self, text: bytes) -> Parsed:
        n_lines, n_values = text.count(b"\n"), text.count(b":")
        n_rows = min(n_lines, n_values)
        found = Pairs(
            starts=np.empty(n_lines + 1, np.int32),
            odd=np.empty(n_lines, np.int32),
            lines=np.empty(n_rows, np.int32),
            ends=np.empty(n_rows + 1, np.int64),
            columns=np.empty(n_values, np.int32),
            values=np.empty(n_values),
            y=np.empty(n_rows),
            whole=np.empty(n_rows, np.bool_),
            spans=np.empty((n_rows, 2), np.int32),
            marks=np.zeros(1 << 12, np.int64),
        )
        n_found, n_rows, n_odd = read_pairs(np.frombuffer(text, np.uint8), self._code, self._first, self._most, found)
        if n_found != n_lines:
            raise AssertionError(f"expected {n_lines} lines, found {n_found}")

        def cut(first: int, last: int, origins: Origins) -> Block:
            begin, end = found.ends[first], found.ends[last]
            columns, ends = found.columns[begin:end], found.ends[first : last + 1] - begin
            X = sparse.csr_array((found.values[begin:end], columns, ends), shape=(last - first, columns.max() + 1))
            if self._code == TEXT:
                y = np.array([text[i:j].decode() for i, j in found.spans[first:last].tolist()], object)
            else:
                y = targets(self._label, found.y[first:last], found.whole[first:last])
            return Block(X, y, origins)

        return Parsed(found.starts, found.odd[:n_odd], found.lines[:n_rows], cut)
