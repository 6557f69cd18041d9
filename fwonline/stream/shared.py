"""Streams in partitions that several workers share out among themselves."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

from fwonline.stream.base import Rejected, Sample, Sink

__all__ = ["Exchange", "NotOurs", "Place", "SharedSource", "Turn"]


class NotOurs(Exception):
    """The partitions are somebody else's by now: nothing was committed, and what is held of them is worth nothing."""


class Place(NamedTuple):
    """Where a partition stands for the whole group.

    Parameters
    ----------
    offsets
        The offset of the next message, by the name of what is read: `{"topic[0]": 17}`. A partition of several topics
        has one for each.
    note
        What was committed with them: the name of the state that had learned all before. None where nothing was ever
        committed; `offsets` is then where to begin.

    """

    offsets: dict[str, int]
    note: str | None

    @property
    def offset(self) -> int:
        """A number that rises with every message: the sum of the offsets, which mostly are one."""
        return sum(self.offsets.values())


class Turn(NamedTuple):
    """What one look at the stream brought.

    Parameters
    ----------
    lost
        Whether all that was held before is somebody else's now. Comes first: what is gained may be the same partitions
        again, and they have moved on meanwhile.
    gained
        Partitions that are ours from now on, and where they stand; each waits for `SharedSource.stand`.
    items
        The items of each partition, in order.

    """

    lost: bool = False
    gained: dict[str, Place] = {}  # noqa: RUF012  (never changed)
    items: list[tuple[str, Iterator[Sample | Rejected]]] = []  # noqa: RUF012


class Exchange(abc.ABC):
    """Where workers show one another documents, one for each partition, the latest of each.

    What is shown there may come from anybody who can write there: a name that is no partition's and an offset that no
    worker can have learned up to are refused here, and documents that are none by whoever reads them.
    """

    #: How many were refused, and why the last one was.
    n_refused: int = 0
    refusal: str = ""

    @abc.abstractmethod
    def publish(self, partition: str, offset: int, document: bytes) -> None:
        """Show what was learned of a partition up to an offset (`Place.offset`).

        Raises
        ------
        SourceError
            When it was not taken.

        """

    @abc.abstractmethod
    def latest(self) -> dict[str, tuple[int, bytes]]:
        """Return offset and document of each partition, as far as they can be had now."""

    def close(self) -> None:  # noqa: B027  (nothing to let go of is possible)
        """Let go of what it holds."""


class SharedSource(abc.ABC):
    """A stream whose partitions a group of workers shares out; each partition has one owner at a time.

    Its place in a partition is kept with the group, together with a short note, in one write that only the partition's
    owner can do. A worker that was taken for dead and wakes up cannot write: that is what makes the note a pointer to
    the one state that counts.

    Partitions go by name, `topic[0]`. Those of one number in several topics may be one partition to the group, with one
    note: `questions+answers[0]`. The calls come from one thread.
    """

    #: What the source is called in messages.
    name: str = "stream"
    #: The group's name.
    group: str

    @abc.abstractmethod
    def poll(self) -> Turn:
        """Take part in the group and return what is new, after a fraction of a second at most.

        Raises
        ------
        SourceError
            When the stream cannot go on.

        """

    @abc.abstractmethod
    def stand(self, partition: str, offsets: dict[str, int]) -> None:
        """Read a gained partition from these offsets on: see `Place`."""

    def identity(self, partition: str) -> Any:
        """What a partition of ours is a part of, as something JSON can hold: see `Source.identity`."""
        return None

    def recognise(self, partition: str, identity: Any) -> None:  # noqa: B027  (nothing to know it by is possible)
        """Make sure that a gained partition is the one of which `identity` was said, before `stand`.

        Raises
        ------
        SourceError
            When it is another one by the same name.
        NotOurs
            When the source cannot tell now.

        """

    @abc.abstractmethod
    def commit(self, places: dict[str, Place]) -> bool:
        """Write the group's places in partitions of ours, all or none; whether it is known to be done.

        False: the brokers did not answer in time. It may have been done or not; the next commit decides.

        Raises
        ------
        NotOurs
            When the group has given the partitions to somebody else.

        """

    def hurry(self, seconds: float) -> None:  # noqa: B027  (nothing to wait for is possible)
        """Wait for nobody longer than so many seconds from now: the run is to end. Called by a signal's handler.

        Infinity ends the hurry.
        """

    def transact(self, sinks: list[Sink]) -> None:
        """Let what is written to the sinks count with the next commit, or never.

        Raises
        ------
        ValueError
            When the source cannot do that, or not with these sinks.

        """
        raise ValueError(f"{type(self).__name__} knows no transactions")

    def exchange(self, topic: str) -> Exchange:
        """Return the exchange of that name.

        Raises
        ------
        ValueError
            When the source has none.

        """
        raise ValueError(f"{type(self).__name__} has no exchange")

    def is_called(self) -> bool:
        """Say that this worker is at work; whether the group wants it to `poll`.

        Then what was not taken of the last turn is forgotten: it comes again, to us or to somebody else.
        """
        return False

    @property
    @abc.abstractmethod
    def era(self) -> int:
        """The number of our present membership. The group counts upwards, so that later owners have higher ones."""

    @abc.abstractmethod
    def places(self) -> dict[str, Place]:
        """Return the group's places in all partitions, ours or not."""

    @abc.abstractmethod
    def position(self, partition: str) -> dict[str, int]:
        """The offsets behind the item of a partition yielded last: see `Place`."""

    @abc.abstractmethod
    def is_read(self) -> bool:
        """Whether a stream with an end has nothing more to read in our partitions."""

    @abc.abstractmethod
    def is_done(self) -> bool:
        """Whether a stream with an end has been learned to the end, by whomever, in all partitions."""

    def raw(self, origin: str) -> Any:
        """The item yielded last as it came, if it is the one of that origin: see `Source.raw`."""
        return None

    @property
    def progress(self) -> float | None:
        """The part of our partitions that was read, from 0 to 1; None where the stream has no end."""
        return None

    def lags(self) -> dict[str, int]:
        """How many offsets lie between our position and the end of what we read, by its name, `topic[0]`."""
        return {}

    def close(self) -> None:  # noqa: B027  (nothing to let go of is possible)
        """Leave the group, so that others take over at once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self.close()
