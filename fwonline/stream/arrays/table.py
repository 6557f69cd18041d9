"""What sources of numbered rows share: a position that counts them, and blocks cut out of what was read at once."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fwonline.exceptions import SourceError
from fwonline.stream.base import Rejected, Sample, Source
from fwonline.stream.block import Block

__all__ = ["VALUES", "Rows", "TableSource"]

#: About as many values are read at once.
VALUES = 1 << 18


class _Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    row: Annotated[int, msgspec.Meta(ge=0)]
    #: How many rows the table has in all; None where it was not opened yet.
    n_rows: int | None


class Rows(ABC):
    """Consecutive rows of a table that were read at once.

    Parameters
    ----------
    name
        The table's, for the places of rows.
    first
        How many rows of the table lie before these.
    n
        How many they are.
    alone
        The rows that can be in no block, in ascending order, counted from 0 for the first of these.
    """

    def __init__(self, name: str, first: int, n: int, alone: NDArray[np.int64]) -> None:
        self.name = name
        self.first = first
        self.n = n
        self.alone = alone

    @abstractmethod
    def item(self, row: int) -> Sample | Rejected:
        """Return one row, counted as `alone` counts."""

    @abstractmethod
    def block(self, start: int, stop: int) -> Block:
        """Return rows, none of which is alone, as a block."""

    def origin(self, row: int) -> str:
        """Return the place of a row."""
        return f"{self.name}:{self.first + row + 1}"

    def origins(self, start: int) -> Callable[[int, int], list[str]]:
        """Return what names the places of a block's rows; the block begins at `start`."""
        name, first = self.name, self.first + start + 1
        return lambda start, stop: [f"{name}:{row}" for row in range(first + start, first + stop)]


class TableSource(Source):
    """A source over the rows of a file that knows how many it has; the position is the number of rows yielded.

    A subclass reads them (`_read`), as parts of which both ways of reading take what they need.
    """

    def __init__(self, path: str | os.PathLike[str], name: str | None) -> None:
        self.path = path
        self.name = os.fspath(path) if name is None else name
        self._row = 0
        self._n_rows: int | None = None
        self._parts: Iterator[Rows] | None = None
        self._rows: Rows | None = None
        self._block: Block | None = None  # the last one, as long as nobody has asked for what follows

    @abstractmethod
    def _read(self) -> Iterator[Rows]:
        """Yield the rows from `_row` on, or from a little before, once the file is known to be whole (`_expect`)."""

    def _expect(self, n_rows: int) -> None:
        """Note how many rows the file has, and that a former run found as many."""
        expected, self._n_rows = self._n_rows, n_rows
        if expected not in (None, n_rows):
            raise SourceError(
                f"{self.name}: expected {expected:,} rows, as the former run read, found {n_rows:,}: this is not the "
                "file it was"
            )

    def __iter__(self) -> Iterator[Sample | Rejected]:
        self._settle()
        while (rows := self._here()) is not None:
            self._row += 1
            yield rows.item(self._row - 1 - rows.first)
            self._settle()

    def blocks(self, most: int = 4096) -> Iterator[Block | Sample | Rejected]:
        are_left = self._settle()
        while (rows := self._here()) is not None:
            start = self._row - rows.first
            k = int(np.searchsorted(rows.alone, start))
            stop = min(int(rows.alone[k]) if k < len(rows.alone) else rows.n, start + most)
            if are_left or start == stop:
                self._row += 1
                yield rows.item(start)
            else:
                self._block = rows.block(start, stop)
                yield self._block
            are_left = self._settle()

    def _settle(self) -> bool:
        """Go behind the rows that were taken of the last block; return whether some are left."""
        block, self._block = self._block, None
        if block is None:
            return False
        self._row += block.taken
        return block.taken < len(block)

    def _here(self) -> Rows | None:
        """Return the rows of which the next is one; None at the end."""
        if self._parts is None:
            self._parts = _ahead(self._read())
        while self._rows is None or self._row >= self._rows.first + self._rows.n:
            if (rows := next(self._parts, None)) is None:
                return None
            self._rows = rows
        return self._rows

    @property
    def _n_taken(self) -> int:
        return self._row + (0 if self._block is None else self._block.taken)

    @property
    def position(self) -> dict[str, int | None]:
        return {"row": self._n_taken, "n_rows": self._n_rows}

    def seek(self, position: Any) -> None:
        if self._parts is not None:
            raise SourceError(f"{self.name}: seek before reading: row {self._row} was already passed")
        try:
            sought = msgspec.convert(position, _Position)
        except msgspec.ValidationError as error:
            raise SourceError(f"{self.name}: expected a position of this source, found {position!r}: {error}") from None
        self._row, self._n_rows = sought.row, sought.n_rows

    @property
    def length(self) -> int | None:
        return self._n_rows

    @property
    def progress(self) -> float | None:
        return self._n_taken / self._n_rows if self._n_rows else None

    def close(self) -> None:
        if self._parts is not None:
            self._parts.close()  # type: ignore[attr-defined]  # a generator
            self._rows = None


def _ahead(parts: Iterator[Rows]) -> Iterator[Rows]:
    """Yield the same parts; a thread reads the next one while one is used."""
    with closing(parts), ThreadPoolExecutor(1, "fwonline-read") as executor:  # type: ignore[type-var]
        coming = executor.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = executor.submit(next, parts, None)
            yield part
