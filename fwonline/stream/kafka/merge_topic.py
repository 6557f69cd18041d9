"""A compacted topic on which workers show one another what they have learned."""

from __future__ import annotations

import contextlib
import re
import time as clock
from collections.abc import Sequence
from typing import Any

from fwonline.exceptions import SourceError
from fwonline.stream.group import MergeTopic
from fwonline.stream.kafka.client import ClientSettings, connect, kafka_python, wait_for
from fwonline.stream.kafka.co_partitions import Units, units_of

__all__ = ["KafkaMergeTopic"]

_READ = 2.0  # how long one look may take
_OFFSET = re.compile(rb"[0-9]{1,19}")


class KafkaMergeTopic(MergeTopic):
    """Documents by partition: the key is the partition's name, a header its offset, the value the document.

    Parameters
    ----------
    topic
        A topic with `cleanup.policy=compact`, whose messages may be as long as a model is.
    bootstrap_servers
        Where.
    settings
        kafka-python's settings as the user gave them for the consumer; those that a producer has go to the producer.
    timeout
        Seconds within which a broker must answer.
    topics
        What the group reads: a key must name a partition of these, and an offset must not be behind its end.
    together
        Whether those of one number are one partition.
    """

    def __init__(
        self,
        topic: str,
        bootstrap_servers: Sequence[str],
        settings: dict[str, Any],
        timeout: float,
        *,
        topics: Sequence[str],
        together: bool = False,
    ) -> None:
        self.topic = topic
        self.bootstrap_servers = list(bootstrap_servers)
        self.timeout = timeout
        self.topics = tuple(topics)
        self.together = together
        names = "|".join(map(re.escape, ["+".join(topics)] if together else topics))
        self._name = re.compile(rf"({names})\[(0|[1-9][0-9]{{0,8}})\]")
        self._kafka = kafka_python()
        known = self._kafka.KafkaProducer.DEFAULT_CONFIG
        self._ours = ClientSettings(settings, self._kafka.KafkaConsumer.DEFAULT_CONFIG)
        self._theirs = ClientSettings({name: value for name, value in settings.items() if name in known}, known)
        self._producer: Any = None
        self._consumer: Any = None
        self._documents: dict[str, tuple[int, bytes]] = {}
        self._cluster: Any = None
        self._units: Units = {}  # the partitions that are known to be there
        self._ends: dict[str, int] = {}  # of these, as a worker counts them: one sum for what belongs together
        self._has_looked_up = False  # amid this look
        self._judged: dict[int, int] = {}  # by partition of this topic, up to where messages were counted

    def publish(self, partition: str, offset: int, document: bytes) -> None:
        from kafka.errors import KafkaError

        try:
            if self._producer is None:
                self._producer, _ = connect(
                    self._kafka.KafkaProducer,
                    {"bootstrap_servers": self.bootstrap_servers, "acks": "all"},
                    self._theirs,
                    seconds=self.timeout,
                    defaults={"max_request_size": 1 << 28, "max_block_ms": int(1000 * self.timeout)},
                )
            headers = [("offset", str(offset).encode())]
            sent = self._producer.send(self.topic, key=partition.encode(), value=document, headers=headers)
            sent.get(self.timeout)
        except (KafkaError, TimeoutError) as error:
            raise SourceError(f"{self.topic}: the model of {partition} was not taken: {error}") from None

    def latest(self) -> dict[str, tuple[int, bytes]]:
        from kafka.errors import KafkaError

        try:
            if self._consumer is None:
                self._begin()
            self._has_looked_up = False
            ends = self._consumer.end_offsets(list(self._consumer.assignment()), timeout_ms=1000 * _READ)
            deadline = clock.monotonic() + _READ
            while clock.monotonic() < deadline and any(
                (self._consumer.position(place, timeout_ms=1000) or 0) < end for place, end in ends.items()
            ):
                for records in self._consumer.poll(timeout_ms=200).values():
                    for record in records:
                        self._take(record)
        except (KafkaError, TimeoutError):
            self._disconnect()  # what is known is better than nothing; the next look begins anew
        return self._documents

    def _begin(self) -> None:
        self._consumer, self._cluster = connect(
            self._kafka.KafkaConsumer,
            {"bootstrap_servers": self.bootstrap_servers, "enable_auto_commit": False, "group_id": None},
            self._ours,
            seconds=self.timeout,
            defaults={"allow_auto_create_topics": False},
        )
        self._cluster.set_topics([self.topic])
        places = self._consumer.partitions_for_topic(self.topic)
        if not places:
            raise SourceError(
                f"{','.join(self.bootstrap_servers)} has no topic {self.topic}: merge_topic must be there"
            )
        self._consumer.assign([self._kafka.TopicPartition(self.topic, number) for number in sorted(places)])
        self._consumer.seek_to_beginning()

    def _take(self, record: Any) -> None:
        if record.value is None:
            return
        partition, offset, fault = self._judge(record)
        if fault:
            # A client that was built anew reads everything once more, and counts it once.
            if record.offset >= self._judged.get(record.partition, 0):
                self.n_refused += 1
                self.refusal = f"{self.topic}[{record.partition}]@{record.offset}: {fault}"
        # A worker that was taken for dead may have said its last word late: the offset tells.
        elif offset >= self._documents.get(partition, (-1, b""))[0]:
            self._documents[partition] = offset, record.value
        self._judged[record.partition] = max(record.offset + 1, self._judged.get(record.partition, 0))

    def _judge(self, record: Any) -> tuple[str, int, str]:
        """Return partition and offset, and what is wrong with them, if anything is."""
        told = dict(record.headers).get("offset")
        partition = (record.key or b"").decode("utf-8", "replace")
        if self._name.fullmatch(partition) is None:
            return "", -1, f"expected a partition of {','.join(self.topics)} for a key, found {partition[:60]!r}"
        if told is None or _OFFSET.fullmatch(told) is None:
            return "", -1, f"expected an offset in the header 'offset', found {told if told is None else told[:30]!r}"
        offset = int(told)
        if offset > self._ends.get(partition, -1) and not self._has_looked_up:
            self._look_up()
        if partition not in self._units and self._units:
            return "", -1, f"{partition} is no partition of what the group reads"
        if offset > self._ends.get(partition, (1 << 63) - 1):
            return "", -1, f"{partition} ends at {self._ends.get(partition)}, and the header says offset {offset}"
        return partition, offset, ""

    def _look_up(self) -> None:
        """Ask which partitions the group's topics have and where they end. Where that cannot be seen, none is known."""
        deadline = clock.monotonic() + _READ
        for topic in self.topics:
            self._cluster.add_topic(topic)
        told = self._cluster.request_update()
        wait_for(told, lambda: told.is_done, deadline, lambda: None)
        there = {
            self._kafka.TopicPartition(topic, number)
            for topic in self.topics
            for number in self._cluster.partitions_for_topic(topic) or ()
        }
        units = units_of(sorted(there), self.topics, together=self.together)
        self._units = {name: tps for name, tps in units.items() if there.issuperset(tps)}
        asked = [tp for tps in self._units.values() for tp in tps]
        ends = self._consumer.end_offsets(asked, timeout_ms=1000 * _READ) if asked else {}
        self._ends = {name: sum(ends[tp] for tp in tps) for name, tps in self._units.items()}
        self._has_looked_up = True

    def _disconnect(self) -> None:
        from kafka.errors import KafkaError

        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with contextlib.suppress(KafkaError):
                consumer.close(autocommit=False, timeout_ms=1000)

    def close(self) -> None:
        from kafka.errors import KafkaError

        self._disconnect()
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(KafkaError):
                producer.close(timeout=1.0)
