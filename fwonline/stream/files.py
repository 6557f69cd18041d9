"""What the file sources share: opening, unpacking, lines, positions. A format is a subclass that parses a record."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import io
import os
import sys
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import IO, TYPE_CHECKING, Annotated, Any, BinaryIO, cast

import msgspec

from fwonline.exceptions import SourceError
from fwonline.stream.base import Rejected, Sample, Source

if TYPE_CHECKING:
    from fwonline.stream.ahead import Ahead, Parsed, Run
    from fwonline.stream.block import Block

__all__ = ["FileSource"]

Path = str | os.PathLike[str] | BinaryIO

BUFFER = 1 << 18
#: A longer line is no text, and would take the memory that streaming saves.
MAX_LINE = 1 << 26
#: Where few lines are rows of numbers, so many samples come before blocks are tried again, then four times as many.
PAUSE = 1 << 13

GZIP = b"\x1f\x8b"
UTF8_BOM = b"\xef\xbb\xbf"
OTHER_BOMS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32"}

Count = Annotated[int, msgspec.Meta(ge=0)]


class _Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How much was read, and size and checksum of the last record, by which a replaced file is noticed."""

    offset: Count
    line: Count
    last_size: Count
    last_crc32: Count
    #: Whether the last record was torn, and rejected: it is read once more when it is longer.
    refused: bool = False
    #: The checksum of the header's names, if there is a header.
    header_crc32: Count | None = None


@dataclasses.dataclass(slots=True)
class _Input:
    """The open file. (An object of more than 30 attributes is slower: a source has none to spare.)"""

    packed: IO[bytes]  # the archive itself if it is one
    file: IO[bytes]
    size: int | None  # of the packed file
    start: int = 0  # the place of the first byte

    @property
    def is_gzip(self) -> bool:
        return self.file is not self.packed


@dataclasses.dataclass(slots=True)
class _Blocks:
    """How far blocks are read."""

    ahead: Ahead | None = None
    run: Run | None = None  # the rows of the last block
    pause: int = 0  # samples that come before blocks are tried again
    next_pause: int = PAUSE


class FileSource(Source):
    """A source over the lines of a file: plain, gzipped, open already, or standard input.

    The first bytes decide whether a file is gzipped, not its name. The position counts bytes (`offset`) and lines
    (`line`) of the unpacked text, and holds size and checksum of the last record before it, which must still be there
    when the run is resumed, and of a header's names. A last line without its end that was rejected may be torn, in a
    file that grows: a resumed run reads it once more as soon as there is more of it. A plain file is sought in O(1); a
    gzipped one is unpacked up to the position; standard input and pipes cannot be resumed. A file without a single byte
    is an error, since it is nearly always one that was not written.

    Parameters
    ----------
    path
        A path, `"-"` for standard input, or a file open for reading bytes (which stays open when the source is closed,
        and whose present place counts as its start).
    name
        The file's name in messages; by default its path.

    Raises
    ------
    SourceError
        While reading: when the file is missing, empty, not UTF-8 by its byte order mark, a broken archive, has a line
        of more than 64 MiB, or is not the one that the position sought was taken from.
    """

    may_reread = True

    #: What an empty file should have held, for the message.
    _expected = "at least one line"

    def __init__(self, path: Path, *, name: str | None = None) -> None:
        self.path = path
        self.name = _name(path) if name is None else name
        self._offset = 0
        self._line = 0
        self._last = b""  # the last record
        self._n_lines = 1  # of the record that is being read
        self._rejected_at = -1  # the offset behind the last record that was rejected, or was blank
        self._torn = b""  # the end of the file, from a record on that is not complete, and was rejected
        self._header: int | None = None  # a checksum
        self._sought = _Position(0, 0, 0, 0)
        self._input: _Input | None = None
        self._ended = False
        self._closed = False
        self._items: Iterator[Sample | Rejected] | None = None
        self._blocks = _Blocks()

    @abstractmethod
    def _parse(self, raw: bytes, origin: str) -> Sample | Rejected | None:
        """Return the item of a record, None if it is blank."""

    def _records(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Return the records that lines make, by default one each; `_n_lines` is set along with each."""
        return lines

    def _parser(self, item: Sample | Rejected) -> Callable[[bytes], Parsed] | None:
        """Return what finds rows in whole lines (in another thread, so it changes nothing), or None.

        `item` is the last one that was read by itself: what follows may be like it.
        """
        return None

    def _holds_lines(self) -> bool:
        """Whether lines were read that belong to no item yet."""
        return False

    def __iter__(self) -> Iterator[Sample | Rejected]:
        if self._closed:
            raise SourceError(f"{self.name}: this source is closed")
        if self._items is None:
            self._items = self._read()
        return self._items

    def _read(self) -> Iterator[Sample | Rejected]:
        item, parse, name = None, self._parse, self.name
        for raw in self._records(self._lines()):  # as `_advance`, inlined
            first = self._line + 1
            self._line += self._n_lines
            self._offset += len(raw)
            self._last = raw
            found = parse(raw, f"{name}:{first}")
            if found is None:
                self._rejected_at = self._offset
            else:
                item = found
                yield found
        if isinstance(item, Rejected):
            self.mark_rejected(item.origin)

    @property
    def has_blocks(self) -> bool:
        return type(self)._parser is not FileSource._parser

    def blocks(self, most: int = 4096) -> Iterator[Block | Sample | Rejected]:
        """Yield rows of numbers in blocks; every other line, and the first, comes by the road of samples.

        A thread reads and parses the next 4 MiB while the rows at hand are used; of a pipe, what is there is read.
        """
        items = iter(self)
        if not self.has_blocks:
            yield from islice(items, None)  # unlike the iterator itself, it does not end when this one is left
            return
        try:
            for item in items:
                yield item
                while (run := self._next_run(most, item)) is not None:
                    yield run.block
                if self._blocks.pause:
                    pause, self._blocks.pause = self._blocks.pause, 0
                    yield from islice(items, pause)
        finally:
            self._stop_reading_ahead()

    def _next_run(self, most: int, item: Sample | Rejected) -> Run | None:
        """Return rows of numbers; None where the next line must be read by itself, or there is none."""
        if self._end_run() or self._holds_lines() or self._blocks.pause or self._closed:
            return None
        blocks, opened = self._blocks, self._input
        if (ahead := blocks.ahead) is None:
            from fwonline.stream.ahead import Ahead

            if opened is None or opened.packed.closed or (parse := self._parser(item)) is None:
                return None
            ahead = blocks.ahead = Ahead(opened.file, opened.packed, parse, MAX_LINE, self._seekable(opened.packed))
            ahead.offset, ahead.line = self._offset, self._line
        ahead.is_left = False
        try:
            blocks.run = ahead.run(most, self.name)
        except BaseException:  # a signal, and with it what was being read: nothing can follow
            self._close_items()
            raise
        if ahead.is_sparse:
            blocks.pause, blocks.next_pause = ahead.left + blocks.next_pause, min(4 * blocks.next_pause, 128 * PAUSE)
        return blocks.run

    def _count_taken(self) -> None:
        """Bring the place behind the last row that was taken from a block."""
        if (run := self._blocks.run) is not None and run.block.taken:
            line = run.last_line
            self._offset = run.piece.offset + int(run.piece.starts[line + 1])
            self._line = run.piece.line + line + 1
            self._last = run.piece.of(line)

    def _end_run(self) -> bool:
        """Go on behind the last row that was taken; return whether it is not the block's last one."""
        if (run := self._blocks.run) is None:
            return False
        self._count_taken()
        assert self._blocks.ahead is not None
        if run.block.taken:
            self._blocks.ahead.at = run.last_line + 1
        self._blocks.run = None
        return run.block.taken < len(run.block)

    def _line_ahead(self) -> bytes:
        """Return the next line that was read ahead; nothing behind the last one."""
        assert self._blocks.ahead is not None
        self._end_run()
        if not (line := self._blocks.ahead.readline()):
            self._blocks.ahead.stop()
            self._blocks.ahead = None
        return line

    def _advance(self, raw: bytes, n_lines: int) -> None:
        self._line += n_lines
        self._offset += len(raw)
        self._last = raw

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines behind the position, line ends included, without moving it."""
        with contextlib.ExitStack() as stack:
            try:
                file = self._open(stack).file
                if self._sought.line:
                    self._resume(file)
                raw, readline = b"", partial(file.readline, MAX_LINE)
                blocks = self._blocks
                while True:
                    for raw in iter(readline, b""):
                        if len(raw) == MAX_LINE and not raw.endswith(b"\n"):
                            raise self._too_long()
                        yield raw
                        if blocks.ahead is not None:
                            break
                    else:
                        break
                    while line := self._line_ahead():
                        if len(line) - line.endswith(b"\n") >= MAX_LINE:
                            raise self._too_long()
                        yield line
            except (OSError, EOFError, ValueError, zlib.error) as error:  # ValueError: the caller closed the file
                what = error.strerror if isinstance(error, OSError) and error.strerror else error
                raise SourceError(f"{self._here() if self._line else self.name}: cannot be read: {what}") from error
            if not raw and not self._sought.line:
                raise SourceError(f"{self.name}: is empty; expected {self._expected}")
            self._ended = True

    def _too_long(self) -> SourceError:
        return SourceError(f"{self._here()}: expected text, found a line of more than {MAX_LINE} bytes")

    def _here(self) -> str:
        return f"{self.name}:{self._line + 1}"

    def _open(self, stack: contextlib.ExitStack) -> _Input:
        """Open the file, and go behind its byte order mark."""
        packed = file = self._opened(stack)
        size = None
        if self._seekable(packed):
            start = packed.tell()
            size = packed.seek(0, os.SEEK_END) - start
            packed.seek(start)
        # a pipe may have only the first byte ready, and no text begins with that one
        if (head := _peek(packed, 2)) and GZIP.startswith(head):
            file = cast(IO[bytes], stack.enter_context(gzip.GzipFile(fileobj=packed)))
        self._input = _Input(packed, file, size, file.tell() if self._seekable(packed) else 0)
        head = _peek(file, 4)
        for bom, encoding in OTHER_BOMS.items():
            if head.startswith(bom):
                raise SourceError(f"{self.name}: expected UTF-8 text, found {encoding}")
        if head.startswith(UTF8_BOM):
            file.read(len(UTF8_BOM))
            self._offset = max(self._offset, len(UTF8_BOM))
        return self._input

    def _opened(self, stack: contextlib.ExitStack) -> IO[bytes]:
        if self.path == "-":
            return sys.stdin.buffer
        if isinstance(self.path, (str, os.PathLike)):
            return stack.enter_context(open(self.path, "rb", buffering=BUFFER))
        if isinstance(self.path, io.TextIOBase):
            raise SourceError(f"{self.name}: expected a file open for bytes, found one open for text")
        if isinstance(self.path, io.RawIOBase):
            buffered = io.BufferedReader(self.path, BUFFER)
            stack.callback(buffered.detach)  # else the caller's file would be closed with its buffer
            return buffered
        return self.path

    def _seekable(self, file: IO[bytes]) -> bool:
        # standard input may be a file, but the next run's need not be the same one
        return self.path != "-" and file.seekable()

    def _resume(self, file: IO[bytes]) -> None:
        """Seek the position, and check that a line begins there."""
        assert self._input is not None
        if not self._seekable(self._input.packed):
            raise SourceError(
                f"{self.name}: cannot be sought, so a former run cannot be resumed on it; write the stream to a file, "
                "or start afresh"
            )
        sought = self._sought
        offset, line = sought.offset, sought.line
        if sought.header_crc32 is not None and sought.header_crc32 != self._header:
            raise SourceError(f"{self.name}: {self._changed_header()}")
        file.seek(self._input.start + max(0, offset - sought.last_size))
        last = file.read(sought.last_size)
        if len(last) != sought.last_size or zlib.crc32(last) != sought.last_crc32:
            raise SourceError(
                f"{self.name}: before byte {offset} (line {line}) is not what the former run read there: "
                "this is not the file it was"
            )
        more = b"" if last.endswith(b"\n") and not sought.refused else file.readline(MAX_LINE)
        if more and sought.refused:
            offset -= len(last)
            line -= last.count(b"\n") + (not last.endswith(b"\n"))
        elif not more.strip(b"\r\n"):
            offset += len(more)  # only the line's end was missing
        else:
            shown = repr(last[-40:].decode(errors="backslashreplace"))
            raise SourceError(
                f"{self.name}: line {line} has no end where the former run read it, {shown}, and is longer "
                "now: it was learned as it was, so this is not the file it was. Write whole lines, or start afresh"
            )
        file.seek(self._input.start + offset)
        self._offset, self._line, self._last = offset, line, b""

    def _changed_header(self) -> str:
        raise NotImplementedError

    def mark_rejected(self, origin: str) -> bool:
        self._count_taken()
        begins = self._line - self._last.count(b"\n")
        if not self._last.endswith(b"\n") and origin == f"{self.name}:{begins}":
            self._rejected_at = self._offset
        return bool(self._torn) or self._rejected_at == self._offset

    @property
    def position(self) -> dict[str, int]:
        self._count_taken()
        position = self._sought
        if self._last:
            last, refused = self._last, self._rejected_at == self._offset and not self._last.endswith(b"\n")
            if self._torn:
                last, refused = self._torn, True
            position = _Position(self._offset, self._line, len(last), zlib.crc32(last), refused, self._header)
        return msgspec.to_builtins(position)

    def seek(self, position: Any) -> None:
        if self._items is not None:
            raise SourceError(f"{self.name}: seek before reading: line {self._line} was already passed")
        try:
            self._sought = msgspec.convert(position, _Position)
        except msgspec.ValidationError as error:
            raise SourceError(f"{self.name}: expected a position of this source, found {position!r}: {error}") from None

    @property
    def progress(self) -> float | None:
        if self._ended:
            return 1.0
        opened, ahead = self._input, self._blocks.ahead
        if opened is None or not opened.size or opened.packed.closed:
            return None
        self._count_taken()
        done = self._offset
        if opened.is_gzip:  # the unpacked size of an archive is not known, so packed bytes count
            done = opened.packed.tell() if ahead is None or ahead.packed is None else ahead.packed
        return min(1.0, done / opened.size)

    def close(self) -> None:
        self._closed = True
        self._stop_reading_ahead()
        self._close_items()

    def _stop_reading_ahead(self) -> None:
        if self._blocks.ahead is not None:
            self._blocks.ahead.stop()

    def _close_items(self) -> None:
        if self._items is not None:
            self._items.close()  # type: ignore[attr-defined]  # a generator, by _read


def _name(path: Path) -> str:
    if path == "-":
        return "standard input"
    if isinstance(path, (str, os.PathLike)):
        return os.fspath(path)
    name = getattr(path, "name", None)
    return name if isinstance(name, str) else type(path).__name__


def _peek(file: IO[bytes], n: int) -> bytes:
    if hasattr(file, "peek"):
        return file.peek(n)[:n]
    head = file.read(n)
    file.seek(-len(head), os.SEEK_CUR)
    return head
