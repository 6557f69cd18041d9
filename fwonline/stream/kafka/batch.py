"""The messages of one partition that came together, and which of them are rows of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fwonline.stream.ahead import FEWEST, Parsed
from fwonline.stream.block import Block

__all__ = ["Batch"]

# Milliseconds up to here are floats, too.
_EXACT = 1 << 53


class Batch:
    """Messages that are read one by one or in blocks.

    Parameters
    ----------
    tp
        Their partition.
    records
        The messages, in their order.

    Attributes
    ----------
    at
        How many were read.
    block
        Those that are out in a block and were not counted as read yet; None where there is none.
    """

    def __init__(self, tp: Any, records: list[Any]) -> None:
        self.tp = tp
        self.records = records
        self.at = 0
        self.block: Block | None = None
        self._parsed: Parsed | None = None
        self._first = 0  # of the messages that were parsed
        self._is_row = np.zeros(0, np.bool_)

    @property
    def behind(self) -> int:
        """The offset behind the last message that was taken."""
        taken = 0 if self.block is None else self.block.taken
        return int(self.records[self.at + taken - 1].offset) + 1

    def end_block(self) -> bool:
        """Count what was taken of the block; return whether messages of it are left."""
        block, self.block = self.block, None
        if block is None:
            return False
        self.at += block.taken
        return block.taken < len(block)

    @property
    def is_parsed(self) -> bool:
        return self._parsed is not None

    def parse(self, parse: Callable[[bytes], Parsed], *, has_gaps: bool, stop: float) -> float:
        """Find the rows among the messages that were not read yet; return their share.

        A row is a JSON object of numbers without headers, whose offset follows on the one before and is below `stop`.
        """
        self._first = self.at
        records = self.records[self.at :]
        values = [record.value for record in records]
        self._parsed = parse(b"\n".join([value or b"x" for value in values]) + b"\n")
        if len(self._parsed.starts) != len(values) + 1:  # a line's end within a message
            lines = [value if value and b"\n" not in value else b"x" for value in values]
            self._parsed = parse(b"\n".join(lines) + b"\n")
        is_row = self._is_row = np.zeros(len(values), np.bool_)
        is_row[self._parsed.rows] = True
        offsets = np.array([record.offset for record in self.records[self.at - 1 :]])
        times = np.array([record.timestamp for record in records])
        is_row &= (times >= 0) & (times < _EXACT) & (offsets[1:] < stop)
        is_row &= [not record.headers for record in records]
        steps = np.diff(offsets)
        is_row &= steps > 0 if has_gaps else steps == 1
        self._times = times / 1000
        return float(is_row.mean())

    def cut(self, most: int) -> Block | None:
        """Return the rows that come next, at most so many, as a block; None where there are few or none."""
        assert self._parsed is not None
        start = self.at - self._first
        is_row = self._is_row[start : start + most]
        n = len(is_row) if is_row.all() else int(is_row.argmin())
        if n < FEWEST:
            return None
        records = self.records[self.at : self.at + n]
        place = f"{self.tp.topic}[{self.tp.partition}]"
        row = int(self._parsed.rows.searchsorted(np.int32(start)))
        block = self._parsed.cut(
            row, row + n, lambda first, last: [f"{place}@{record.offset}" for record in records[first:last]]
        )
        block.times = self._times[start : start + n]
        keys = [record.key for record in records]
        if keys.count(None) < n:
            block.keys = [None if key is None else as_text(key) for key in keys]
        self.block = block
        return block


def as_text(key: bytes) -> str | bytes:
    """Return a message's key as text, if it is UTF-8."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key
