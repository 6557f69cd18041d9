"""The contract of a source whose partitions several workers share: poll, commit, generation, committed offsets."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any, NamedTuple

from fwonline.stream.base import AnySource, Rejected, Sample, Sink

__all__ = ["CommittedOffsets", "GroupSource", "MergeTopic", "PartitionsLost", "PollResult"]


class PartitionsLost(Exception):
    """The group has given the partitions to another worker: nothing was committed, uncommitted work must be dropped."""


class CommittedOffsets(NamedTuple):
    """What the group has committed for one partition.

    Parameters
    ----------
    offsets
        The offset of the next message, by topic partition: `{"topic[0]": 17}`. Co-partitioned topics have one each.
    metadata
        Committed with the offsets: the name of the state that had learned every message before them. None if nothing
        was ever committed; `offsets` is then where to start.
    """

    offsets: dict[str, int]
    metadata: str | None

    @property
    def total_offset(self) -> int:
        """The sum of the offsets, which grows with every message; mostly there is only one."""
        return sum(self.offsets.values())


class PollResult(NamedTuple):
    """What one `poll` returned.

    Parameters
    ----------
    lost
        Whether the partitions assigned so far are lost. Handle it before `assigned`: the same partitions may be
        assigned again, and other workers may have committed meanwhile.
    assigned
        The new partitions and their committed offsets; read nothing of one before `GroupSource.seek`.
    items
        The items of each partition, in order.
    """

    lost: bool = False
    assigned: dict[str, CommittedOffsets] = {}  # noqa: RUF012  (never changed)
    items: list[tuple[str, Iterator[Sample | Rejected]]] = []  # noqa: RUF012


class MergeTopic(abc.ABC):
    """A topic on which workers publish one document for each partition; the latest of each counts.

    Anybody with write access may have written what is read there. This class refuses a key that is no partition and an
    offset behind the partition's end; the reader of a document checks the document.
    """

    #: How many messages were refused, and why the last one was.
    n_refused: int = 0
    refusal: str = ""

    @abc.abstractmethod
    def publish(self, partition: str, offset: int, document: bytes) -> None:
        """Publish what was learned of a partition up to an offset (`CommittedOffsets.total_offset`).

        Raises SourceError when the brokers did not acknowledge it.
        """

    @abc.abstractmethod
    def latest(self) -> dict[str, tuple[int, bytes]]:
        """Return offset and document of each partition, as far as the brokers return them now."""

    def close(self) -> None:  # noqa: B027  (optional)
        """Release connections."""


class GroupSource(AnySource, abc.ABC):
    """A stream whose partitions are assigned to the workers of a group; each partition has one owner at a time.

    The group keeps each partition's offset together with a short text (the metadata), in one write that only the
    partition's owner can do. A worker of an older generation is fenced: its commit is refused. So the metadata points
    to the one state that is valid.

    A partition is named `topic[0]`. With co-partitioned topics, `questions+answers[0]` is one partition of the group,
    with one metadata. All methods are called from one thread.
    """

    #: The group's name.
    group: str

    @abc.abstractmethod
    def poll(self) -> PollResult:
        """Take part in the group and return what is new, within a fraction of a second.

        Raises SourceError when the stream cannot go on.
        """

    @abc.abstractmethod
    def seek(self, partition: str, offsets: dict[str, int]) -> None:
        """Read a newly assigned partition from these offsets on."""

    def identity(self, partition: str) -> Any:
        """What identifies the topics of an assigned partition, as something JSON can hold: see `Source.identity`."""
        return None

    def expect_identity(self, partition: str, identity: Any) -> None:
        """Check, before `seek`, that a newly assigned partition is the one for which `identity` was returned.

        Raises SourceError when it is another partition of the same name. Raises PartitionsLost when the source cannot
        find out now.
        """

    @abc.abstractmethod
    def commit(self, offsets: dict[str, CommittedOffsets]) -> bool:
        """Commit offsets and metadata of assigned partitions, all or none; return whether that is certain.

        False: the brokers did not answer in time. The commit may be done or not; the next commit decides. Raises
        PartitionsLost when the group has given the partitions to another worker.
        """

    def set_deadline(self, seconds: float) -> None:
        """Limit all waiting to this many seconds from now: the run is to end. Infinity removes the limit.

        A signal handler calls it.
        """

    def enable_transactions(self, sinks: list[Sink]) -> None:
        """Make what is written to the sinks part of the next commit.

        Raises ValueError when the source has no transactions, or not with these sinks.
        """
        raise ValueError(f"{type(self).__name__} has no transactions")

    def merge_topic(self, topic: str) -> MergeTopic:
        """Return the merge topic of that name. Raises ValueError when the source has none."""
        raise ValueError(f"{type(self).__name__} has no merge topic")

    def heartbeat(self) -> bool:
        """Report that this worker is alive; return whether a rebalance is due and `poll` must be called.

        If so, the items of the last `poll` that were not read are dropped: they come again, here or at another worker.
        """
        return False

    @property
    @abc.abstractmethod
    def generation(self) -> int:
        """The generation in which the partitions were assigned. Later owners of a partition have higher ones."""

    @abc.abstractmethod
    def committed(self) -> dict[str, CommittedOffsets]:
        """Return the committed offsets of all partitions of the stream."""

    @abc.abstractmethod
    def position(self, partition: str) -> dict[str, int]:
        """The offsets behind the last item yielded, by topic partition."""

    @abc.abstractmethod
    def at_end(self) -> bool:
        """Whether the assigned partitions of a bounded stream were read to the end."""

    @abc.abstractmethod
    def all_committed(self) -> bool:
        """Whether the group has committed the end of every partition of a bounded stream."""

    def close(self) -> None:
        """Leave the group, so that others get the partitions at once."""
