"""The lines of a file, many at once: read ahead of the reader, and parsed to rows where they are regular."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fwonline.stream.block import Block

__all__ = ["Ahead", "Origins", "Parsed", "Run"]

Origins = Callable[[int, int], list[str]]

#: Bytes that are read and parsed at once: few at first, since a file may turn out not to be made of rows.
FIRST, MOST = 1 << 15, 1 << 22
#: Seconds for which the lines of a pipe may wait for others to come with them.
WAIT = 0.003
#: Shorter runs of rows come as samples, which cost less.
FEWEST = 8
#: Where one line in fewer than so many is no row, samples cost less: a block of so many rows costs a loop as much.
DENSE = 16


class Parsed(NamedTuple):
    """What a format finds in a text of whole lines, each of which it reads as if it stood alone.

    Parameters
    ----------
    starts
        Of each line, and the end of the last one.
    odd
        The lines that are to be read one by one, rising. A line that is neither odd nor a row is blank.
    rows
        The line of each row, rising.
    cut
        Returns the block of the rows from one to another. The last argument is the block's `origins`.
    """

    starts: NDArray[np.int32]
    odd: NDArray[np.int32]
    rows: NDArray[np.int32]
    cut: Callable[[int, int, Origins], Block]


class Piece:
    """A part of a file: whole lines, or the end of one."""

    def __init__(self, text: bytes, parsed: Parsed | None, offset: int, line: int, packed: int) -> None:
        self.text = text
        self.offset = offset  # of the first line
        self.line = line  # lines before it
        self.packed = packed  # bytes of an archive that were read when this piece was
        if parsed is None:
            ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
            self.starts = np.concatenate([[0], ends[ends < len(text)], [len(text)]]).astype(np.int32)
            self.odd, self.rows = np.arange(len(self.starts) - 1, dtype=np.int32), np.empty(0, np.int32)
        else:
            self.starts, self.odd, self.rows, self.cut = parsed

    @property
    def n_lines(self) -> int:
        return len(self.starts) - 1

    def of(self, line: int) -> bytes:
        return self.text[self.starts[line] : self.starts[line + 1]]


class Run:
    """Rows of a piece that are out in a block."""

    def __init__(self, piece: Piece, first: int, last: int, name: str) -> None:
        self.piece = piece
        rows = self._rows = piece.rows[first:last]
        before = piece.line + 1  # which may be more than 32 bits hold
        self.block = piece.cut(first, last, lambda a, b: [f"{name}:{before + row}" for row in rows[a:b].tolist()])

    @property
    def last_line(self) -> int:
        """The line within the piece of the last row that was taken."""
        return int(self._rows[self.block.taken - 1])


class Ahead:
    """Reads a file from where it stands, and gives its lines one by one or in runs of rows.

    Parameters
    ----------
    file
        The unpacked file.
    packed
        The archive, or the file itself.
    parse
        Reads text that ends with a line's end.
    longest
        What is no line any more.
    in_thread
        Whether the next piece is read and parsed while this one is used. A pipe is read when a piece is asked for, and
        a piece is what is there: who waits for a pipe must be free to leave it.
    """

    def __init__(
        self,
        file: IO[bytes],
        packed: IO[bytes],
        parse: Callable[[bytes], Parsed],
        longest: int,
        in_thread: bool,
    ) -> None:
        self._file, self._read = file, getattr(file, "read1", file.read)
        self._packed, self._parse, self._longest = packed, parse, longest
        self._in_thread = in_thread
        self._size = FIRST
        self._rest = b""
        self._is_end = False
        self._error: Exception | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._next: Future[Piece | None] | None = None
        self._piece: Piece | None = None
        self.offset, self.line = 0, 0  # before the next piece that is read
        self.at = 0  # the next line of the piece
        self.is_left = False  # nobody reads blocks now
        self.is_sparse = False  # too few lines are rows for more to be read ahead

    # What the reader calls

    def run(self, most: int, name: str) -> Run | None:
        """Return the rows from the next line on, at most so many, as they come before a line that is none."""
        piece = self._current()
        if piece is None:
            return None
        at = np.int32(self.at)
        first = int(piece.rows.searchsorted(at))
        k = int(piece.odd.searchsorted(at))
        last = int(piece.rows.searchsorted(piece.odd[k])) if k < len(piece.odd) else len(piece.rows)
        last = min(last, first + most)
        return Run(piece, first, last, name) if last - first >= min(FEWEST, most) else None

    @property
    def left(self) -> int:
        """How many lines of the piece at hand are left."""
        return 0 if self._piece is None else self._piece.n_lines - self.at

    def readline(self) -> bytes:
        """Return the next line; nothing at the end of what was read ahead."""
        piece = self._current()
        if piece is None:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            line, self._rest = self._rest, b""
            if line:  # which its end follows in the file
                line += self._file.readline(self._longest - len(line))
                self.offset += len(line)
                self.line += 1
            return line
        self.at += 1
        return piece.of(self.at - 1)

    @property
    def packed(self) -> int | None:
        return None if self._piece is None else self._piece.packed

    def stop(self) -> None:
        """End the thread. What it has read stays."""
        self.is_left = True
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    # Pieces

    def _current(self) -> Piece | None:
        while self._piece is None or self.at >= self._piece.n_lines:
            self._piece, self.at = self._take(), 0
            if self._piece is None:
                return None
        return self._piece

    def _take(self) -> Piece | None:
        """The next piece; the thread begins with the one after it."""
        if self._next is not None:
            piece, self._next = self._next.result(), None
        else:
            piece = None if self.is_left or self.is_sparse else self._fetch()
        if piece is not None:
            self.is_sparse = DENSE * len(piece.odd) > max(piece.n_lines, 128)
        if piece is not None and self._in_thread and not (self.is_left or self.is_sparse):
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, "fwonline-read")
            self._next = self._executor.submit(self._fetch)
        return piece

    def _fetch(self) -> Piece | None:
        """Read and parse; None at the end, and after an error, which waits until it is the reader's turn."""
        parts, size, until = [self._rest], len(self._rest), 0.0
        while not self._is_end and not (until and self._is_enough(size, until)) and size < self._longest:
            try:
                part = self._read(max(self._size - size, FIRST))
            except Exception as error:
                self._error, part = error, b""
            self._is_end = not part
            if not until and b"\n" in part:
                until = time.monotonic() + WAIT
            parts.append(part)
            size += len(part)
        text = b"".join(parts)
        end = text.rfind(b"\n") + 1
        if self._error is not None:  # of the line that it has torn, nothing can be said
            text = text[:end]
        if not text:
            self._rest = b""
            return None
        self._rest = text[end:] if end else b""
        self._size = min(4 * self._size, MOST)
        return self._made(text[:end] if end else text, is_whole=end > 0)

    def _is_enough(self, size: int, until: float) -> bool:
        if size >= self._size or self._in_thread:
            return size >= self._size
        left = until - time.monotonic()
        try:
            waits = select.poll()
            waits.register(self._packed, select.POLLIN)
            return left <= 0 or not waits.poll(1000 * left)
        except (AttributeError, OSError, ValueError, TypeError):  # no file of the system's, or a system without poll
            return True

    def _made(self, text: bytes, *, is_whole: bool) -> Piece:
        parsed = self._parse(text) if is_whole and len(text) < self._longest else None
        piece = Piece(text, parsed, self.offset, self.line, self._packed.tell() if self._in_thread else 0)
        self.offset += len(text)
        self.line += piece.n_lines
        return piece
