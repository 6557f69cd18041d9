"""Topics whose partitions of one number belong together: questions and answers that meet by their keys."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from fwonline.stream.kafka.reader import partition_name
from fwonline.stream.records import listed

__all__ = ["Abreast", "Units", "uneven", "units_of"]

#: A partition as the group's members know it, by name, and what is read of it: one partition of each topic.
Units = dict[str, tuple[Any, ...]]


def units_of(tps: Iterable[Any], topics: Sequence[str], *, together: bool) -> Units:
    """Return the partitions that these are, or are parts of where several are one."""
    if not together:
        return {partition_name(tp): (tp,) for tp in tps}
    one_of: dict[int, Any] = {tp.partition: tp for tp in tps}
    name = "+".join(topics)  # no topic has a plus in its name
    return {
        f"{name}[{number}]": tuple(one_of[number]._replace(topic=topic) for topic in topics)
        for number in sorted(one_of)
    }


def uneven(topics: Sequence[str], cluster: Any) -> str:
    """Say which topics have how many partitions, where that is not the same number; else nothing."""
    counts = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}
    if len(set(counts.values())) == 1:
        return ""
    found = listed([f"{topic} with {count}" for topic, count in counts.items()])
    return f"co_partitioned: expected topics with the same number of partitions, found {found}"


class Abreast:
    """Keeps topics abreast of one another by the times of their messages, as far as single looks at the stream go.

    Where there is much to catch up with, brokers send what they have in portions of a megabyte, a topic at a time: many
    more answers than questions, as these are longer.
    """

    def __init__(self) -> None:
        self._times: dict[Any, int] = {}  # of the message that came last

    def forget(self) -> None:
        """Begin anew."""
        self._times.clear()

    def see(self, batch: dict[Any, list]) -> None:
        """Note what a look has brought.

        One that brings nothing lets everybody go on: nobody waits for what does not come.
        """
        if not batch:
            self.forget()
        for tp, records in batch.items():
            self._times[tp] = records[-1].timestamp

    def hold_back(self, consumer: Any, units: Units, ends: dict[Any, int]) -> bool:
        """Let each wait that is ahead of another one of its unit with something to read; whether that changed."""
        times, assigned = self._times, consumer.assignment()
        ahead = {
            tp
            for tps in units.values()
            if assigned.issuperset(tps)
            for tp, other in itertools.permutations(tps, 2)
            if times.get(other, -1) < times.get(tp, -1) and (consumer.position(other, timeout_ms=0) or 0) < ends[other]
        }
        paused = consumer.paused()
        consumer.pause(*ahead - paused)
        consumer.resume(*paused - ahead)
        # What was laid aside of a paused partition is taken up again where nothing is in hand; for kafka-python a batch
        # that is used up is something.
        fetcher = consumer._fetcher
        if not getattr(fetcher, "_next_partition_records", True):
            fetcher._next_partition_records = None
        return ahead != paused
