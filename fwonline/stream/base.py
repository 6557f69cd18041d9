"""What a stream is made of: samples, rejected items, sources they come from, sinks where results go.

A loop reads a `Source`, writes `Sink`s and knows nothing else about them; a new kind of either is a subclass here.
"""

from __future__ import annotations

import abc
import base64
from collections.abc import Hashable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

import msgspec

if TYPE_CHECKING:
    from fwonline.stream.block import Block

__all__ = ["AnySource", "Rejected", "Sample", "Sink", "Source", "as_source"]


class Sample(msgspec.Struct, frozen=True):
    """One item of a stream, ready for a model.

    A `msgspec.Struct` is made ten times faster than a dataclass; `msgspec.structs.replace` returns a changed
    copy.

    Parameters
    ----------
    x
        The features as they were read: any hashable names, any values. Nothing has been checked yet.
    y
        The target, or None if there is none (a question).
    key
        Joins a question to the answer that comes later.
    time
        Event time in seconds since the epoch.
    origin
        The item's place, for messages: `ratings.csv:17`, `topic[2]@1234`.
    headers
        What came with the item and is no feature: `(name, value)` pairs, such as a Kafka message's headers or the
        `qid` of a ranking file.

    Examples
    --------
    >>> from fwonline import stream
    >>> stream.Sample({"a": 1.0}, True, origin="clicks.csv:2")
    Sample(x={'a': 1.0}, y=True, key=None, time=None, origin='clicks.csv:2', headers=())
    """

    x: dict
    y: Any = None
    key: Hashable | None = None
    time: float | None = None
    origin: str = ""
    headers: tuple = ()


class Rejected(msgspec.Struct, frozen=True):
    """An item that could not become a sample. The stream goes on behind it.

    Parameters
    ----------
    raw
        The item, unchanged.
    error
        What was wrong and what was expected, with the place in front: `ratings.csv:17: ...`.
    origin, key, headers
        As in `Sample`, as far as they could be read.

    Examples
    --------
    >>> from fwonline import stream
    >>> stream.Rejected(b"7,x\\n", "a.csv:3: expected 3 fields, found 2", origin="a.csv:3").to_record()
    {'origin': 'a.csv:3', 'error': 'a.csv:3: expected 3 fields, found 2', 'raw': '7,x\\n'}
    """

    raw: Any
    error: str
    origin: str = ""
    key: Hashable | None = None
    headers: tuple = ()

    def to_record(self) -> dict[str, Any]:
        """Return the flat dict that a dead-letter sink writes, and from which the item can be restored.

        `raw` holds text, `raw_base64` bytes that are not UTF-8. An item that is neither is written as its `repr`.
        """
        record: dict[str, Any] = {"origin": self.origin, "error": self.error}
        if self.key is not None:
            record["key"] = self.key
        if self.headers:
            record["headers"] = [list(header) for header in self.headers]
        if isinstance(self.raw, (bytes, bytearray, memoryview)):
            raw = bytes(self.raw)
            try:
                record["raw"] = raw.decode()
            except UnicodeDecodeError:
                record["raw_base64"] = base64.b64encode(raw).decode("ascii")
        else:
            record["raw"] = self.raw if isinstance(self.raw, str) else repr(self.raw)
        return record


class Closing:
    """What has a name in messages, and is closed at the end of a `with` block."""

    #: The name in messages.
    name: str = "stream"

    def close(self) -> None:
        """Release files and connections. May be called at any time and twice; reading on is an error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class AnySource(Closing):
    """What `Source` and `fwonline.stream.group.GroupSource` have in common."""

    @property
    def progress(self) -> float | None:
        """The part of the stream that was yielded, from 0 to 1, or None if that is not known.

        A file knows this by bytes even if it does not know its `length`.
        """
        return None

    def raw(self, origin: str) -> Any:
        """Return the last item yielded, unchanged, if it is the one of that origin; None if it is not kept."""
        return None

    def lags(self) -> dict[str, int]:
        """How many items wait behind `position` by part, such as a topic's partitions; empty if it has no parts."""
        return {}


class Source(AnySource, abc.ABC):
    """A stream that can be left at any item and resumed behind it.

    A source is read once. `iter(source)` always goes on behind the last item yielded, so two loops over the same source
    share its items. A new source needs `__iter__`, `position` and `seek`, with these guarantees:

    - `__iter__` yields a `Rejected` for an item it cannot turn into a `Sample`, and goes on; it raises
      `fwonline.exceptions.SourceError` only if nothing can follow (no file, an empty one, a broken archive).
    - `position` is cheap, JSON can hold it, and it counts the items *yielded*, however far ahead the source reads.
    - `seek(position)` on a new source of the same definition makes it yield exactly what followed.

    Examples
    --------
    >>> from fwonline import stream
    >>> source = stream.as_source([({"a": 1.0}, 0), ({"a": 2.0}, 1), ({"a": 3.0}, 1)])
    >>> next(iter(source)).x
    {'a': 1.0}
    >>> again = stream.as_source([({"a": 1.0}, 0), ({"a": 2.0}, 1), ({"a": 3.0}, 1)])
    >>> again.seek(source.position)
    >>> [sample.x["a"] for sample in again]
    [2.0, 3.0]
    """

    #: Whether the reader wants a None now and then while the source waits for items, to look at the clock meanwhile.
    #: A source that cannot interrupt its wait, such as one of standard input, yields none.
    idle_ticks: bool = False

    #: Whether a rejected item may come once more, complete, when a run is resumed: see `mark_rejected`.
    may_reread: bool = False

    @abc.abstractmethod
    def __iter__(self) -> Iterator[Sample | Rejected | None]:
        """Yield the items behind `position`; if `idle_ticks` is set, also None, which is no item."""

    def blocks(self, most: int = 4096) -> Iterator[Block | Sample | Rejected | None]:
        """Yield the same rows as `__iter__`, in the same order, those that can be in blocks of at most `most` rows.

        Both iterators share the position, and an item that one has yielded the other has not. A source that waits for
        its rows yields what is there after a few milliseconds. Here every row comes by itself.
        """
        yield from islice(self, None)  # unlike the iterator itself, it does not end when this one is left

    @property
    def has_blocks(self) -> bool:
        """Whether rows of numbers come in blocks."""
        return type(self).blocks is not Source.blocks

    @property
    @abc.abstractmethod
    def position(self) -> Any:
        """The place behind the last item yielded, and of a block behind the last row that was taken.

        Something JSON can hold.
        """

    @abc.abstractmethod
    def seek(self, position: Any) -> None:
        """Go to the `position` of a former run, before the first item is read.

        Raises
        ------
        SourceError
            When the source cannot: it is not seekable, or it is not what it was.
        """

    @property
    def identity(self) -> Any:
        """What `position` is a place in, as something JSON can hold; None if nothing identifies it.

        A checkpoint keeps it with the position. A name is not enough: a Kafka topic can be deleted and created again,
        and then an offset means another message.

        Raises
        ------
        SourceError
            When the last items do not come from the source of those before.
        """
        return None

    def expect_identity(self, identity: Any) -> None:
        """Expect the `identity` of a former run; called after `seek`.

        If the source is another one, it raises SourceError, here or when it is read. What is no identity at all is a
        CheckpointError.
        """

    @property
    def length(self) -> int | None:
        """How many items the stream has from its start, or None if that is not known."""
        return None

    def mark_rejected(self, origin: str) -> bool:
        """Note that the item of that origin was not learned; return whether it may come once more, complete.

        A file notes in its position that its last line had no end yet, and a resumed run reads the line again.
        """
        return False

    def lag(self) -> int | None:
        """How many items already wait behind `position`, or None if that is not known."""
        return None


class Sink(Closing, abc.ABC):
    """Where a stream's records go: flat dicts, as JSON can hold them.

    A sink that can take back what it wrote has a `position`; for others it is None. What lies before a position that
    was read after `flush(durable=True)` survives a power cut, and `truncate` to that position makes a resumed run
    write each record once. `truncate` comes before the first `write`; `write` without it starts anew.

    Examples
    --------
    >>> from fwonline import stream
    >>> with stream.CallbackSink(print) as sink:
    ...     sink.write({"n": 1, "y_pred": 0.5})
    {'n': 1, 'y_pred': 0.5}
    """

    name = "sink"

    @abc.abstractmethod
    def write(self, record: dict[str, Any]) -> None:
        """Write one record. It may be buffered until `flush`."""

    def write_many(self, columns: dict[str, Sequence[Any]]) -> None:
        """Write a record for each row of equally long columns; a field that is None is left out of its record.

        The same as `write` for each of them.
        """
        for row in zip(*columns.values(), strict=True):
            self.write({name: value for name, value in zip(columns, row, strict=True) if value is not None})

    def flush(self, *, durable: bool = False) -> None:
        """Hand everything written to the system; with `durable`, wait until it is on the disk or acknowledged."""

    def set_deadline(self, seconds: float) -> None:
        """Limit all waiting to this many seconds from now: the run is to end. Infinity removes the limit.

        A signal handler calls it.
        """

    @property
    def position(self) -> Any:
        """The place of the next record, as something JSON can hold; None if nothing can be taken back."""
        return None

    def truncate(self, position: Any) -> None:
        """Remove every record that a former run wrote behind `position`.

        Raises
        ------
        CheckpointError
            When the sink ends before `position`: it is not what that run wrote.
        """

    def close(self) -> None:
        """Flush, and release files and connections. May be called twice."""
        self.flush()


def as_source(obj: Any, name: str | None = None) -> Source:
    """Return `obj` itself if it is a `Source`, else an `IterableSource` over its `(x, y)` pairs.

    `name` is the iterable's name in messages.

    Examples
    --------
    >>> from river import datasets
    >>> from fwonline import stream
    >>> source = stream.as_source(datasets.Phishing())
    >>> source.name, source.length
    ('Phishing', 1250)
    """
    if isinstance(obj, Source):
        return obj
    from fwonline.stream.iterables import IterableSource

    return IterableSource(obj, name=name)
