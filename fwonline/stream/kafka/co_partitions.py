"""Co-partitioned topics: partitions of one number belong together, as questions and answers that meet by their keys."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from fwonline.stream.kafka.compat import Metadata, drop_used_batch
from fwonline.stream.kafka.identity import partition_name
from fwonline.stream.records import listed

__all__ = ["GroupPartitions", "TimestampAligner", "group_partitions", "uneven"]

#: A partition of the group by its name, and what is read of it: one partition of each topic.
GroupPartitions = dict[str, tuple[Any, ...]]


def group_partitions(tps: Iterable[Any], topics: Sequence[str], *, co_partitioned: bool) -> GroupPartitions:
    """Return the group's partitions that these topic partitions are, or are parts of."""
    if not co_partitioned:
        return {partition_name(tp): (tp,) for tp in tps}
    by_number: dict[int, Any] = {tp.partition: tp for tp in tps}
    name = "+".join(topics)  # no topic has a plus in its name
    return {
        f"{name}[{number}]": tuple(by_number[number]._replace(topic=topic) for topic in topics)
        for number in sorted(by_number)
    }


def uneven(topics: Sequence[str], metadata: Metadata) -> str:
    """Return what is wrong if the topics' numbers of partitions differ, else an empty text."""
    counts = {topic: len(metadata.partitions(topic)) for topic in topics}
    if len(set(counts.values())) == 1:
        return ""
    found = listed([f"{topic} with {count}" for topic, count in counts.items()])
    return f"co_partitioned: expected topics with the same number of partitions, found {found}"


class TimestampAligner:
    """Pauses a topic that is ahead of another one by the timestamps of their messages.

    While a group catches up, brokers send a megabyte of one topic at a time: many more answers than questions, since
    these are longer.
    """

    def __init__(self) -> None:
        self._times: dict[Any, int] = {}  # of the last message

    def forget(self) -> None:
        """Start anew."""
        self._times.clear()

    def note(self, batch: dict[Any, list]) -> None:
        """Keep the time of each partition's last message. An empty poll clears them: no partition waits for another."""
        if not batch:
            self.forget()
        for tp, records in batch.items():
            self._times[tp] = records[-1].timestamp

    def align(self, consumer: Any, partitions: GroupPartitions, ends: dict[Any, int]) -> bool:
        """Pause each topic that is ahead of another one with something to read; return whether that changed."""
        times, assigned = self._times, consumer.assignment()
        ahead = {
            tp
            for tps in partitions.values()
            if assigned.issuperset(tps)
            for tp, other in itertools.permutations(tps, 2)
            if times.get(other, -1) < times.get(tp, -1) and (consumer.position(other, timeout_ms=0) or 0) < ends[other]
        }
        paused = consumer.paused()
        consumer.pause(*ahead - paused)
        consumer.resume(*paused - ahead)
        drop_used_batch(consumer)
        return ahead != paused
