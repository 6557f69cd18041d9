"""A compacted topic on which workers publish the models of their partitions."""

from __future__ import annotations

import re
import time as clock
from collections.abc import Sequence
from typing import Any

from fwonline.exceptions import SourceError
from fwonline.stream.group import MergeTopic
from fwonline.stream.kafka.client import Client, close_quietly
from fwonline.stream.kafka.co_partitions import GroupPartitions, group_partitions
from fwonline.stream.kafka.compat import errors, kafka_python
from fwonline.stream.kafka.identity import partition_name

__all__ = ["KafkaMergeTopic"]

_READ = 2.0  # seconds that one call of `latest` may take
_OFFSET = re.compile(rb"[0-9]{1,19}")


class KafkaMergeTopic(MergeTopic):
    """Documents by partition: the key is the partition's name, a header its offset, the value the document.

    The topic has `cleanup.policy=compact` and takes messages as long as a model. `client`, `topics`, `co_partitioned`
    are those of the group's source: a key must name a partition of it, and an offset must not be behind its end. Of the
    client's settings the producer has those that it knows.
    """

    def __init__(
        self, topic: str, client: Client, timeout: float, topics: Sequence[str], *, co_partitioned: bool = False
    ) -> None:
        self.topic = topic
        self.client = client
        self.timeout = timeout
        self.topics = tuple(topics)
        self.co_partitioned = co_partitioned
        names = "|".join(map(re.escape, ["+".join(topics)] if co_partitioned else topics))
        self._key = re.compile(rf"({names})\[(0|[1-9][0-9]{{0,8}})\]")
        self._kafka = kafka_python()
        known = self._kafka.KafkaProducer.DEFAULT_CONFIG
        common = {name: value for name, value in client.settings.items() if name in known}
        self._producer_client = Client("KafkaProducer", client.addresses, common)
        self._producer: Any = None
        self._consumer: Any = None
        self._metadata: Any = None  # the `Metadata` of the consumer
        self._documents: dict[str, tuple[int, bytes]] = {}
        self._partitions: GroupPartitions = {}  # those that are known to exist
        self._ends: dict[str, int] = {}  # their ends, the sum for co-partitioned topics
        self._has_looked_up = False  # in this call of `latest`
        self._counted: dict[int, int] = {}  # by partition of this topic, the offset up to which refusals were counted

    def publish(self, partition: str, offset: int, document: bytes) -> None:
        try:
            if self._producer is None:
                defaults = {"max_request_size": 1 << 28, "max_block_ms": int(1000 * self.timeout)}
                self._producer, _ = self._producer_client.connect(self.timeout, defaults=defaults, acks="all")
            headers = [("offset", str(offset).encode())]
            self._producer.send(self.topic, key=partition.encode(), value=document, headers=headers).get(self.timeout)
        except (errors.KafkaError, TimeoutError) as error:
            raise SourceError(f"{self.topic}: the model of {partition} was not taken: {error}") from None

    def latest(self) -> dict[str, tuple[int, bytes]]:
        try:
            if self._consumer is None:
                self._connect()
            self._has_looked_up = False
            ends = self._consumer.end_offsets(list(self._consumer.assignment()), timeout_ms=1000 * _READ)
            deadline = clock.monotonic() + _READ
            while clock.monotonic() < deadline and any(
                (self._consumer.position(tp, timeout_ms=1000) or 0) < end for tp, end in ends.items()
            ):
                for records in self._consumer.poll(timeout_ms=200).values():
                    for record in records:
                        self._take(record)
        except (errors.KafkaError, TimeoutError):
            self._disconnect()  # what is known is better than nothing; the next call starts anew
        return self._documents

    def _connect(self) -> None:
        self._consumer, self._metadata = self.client.connect(
            self.timeout, defaults={"allow_auto_create_topics": False}, enable_auto_commit=False, group_id=None
        )
        numbers = self._consumer.partitions_for_topic(self.topic)
        if not numbers:
            raise SourceError(f"{self.client.servers} has no topic {self.topic}: merge_topic must be there")
        self._consumer.assign([self._kafka.TopicPartition(self.topic, number) for number in sorted(numbers)])
        self._consumer.seek_to_beginning()

    def _take(self, record: Any) -> None:
        if record.value is None:
            return
        partition = (record.key or b"").decode("utf-8", "replace")
        header: Any = dict(record.headers).get("offset")
        if problem := self._problem(partition, header):
            # A new client reads everything once more; each refusal is counted once.
            if record.offset >= self._counted.get(record.partition, 0):
                self.n_refused += 1
                self.refusal = f"{partition_name(record)}@{record.offset}: {problem}"
        # A fenced worker may have published late: the offset decides.
        elif int(header) >= self._documents.get(partition, (-1, b""))[0]:
            self._documents[partition] = int(header), record.value
        self._counted[record.partition] = max(record.offset + 1, self._counted.get(record.partition, 0))

    def _problem(self, partition: str, header: Any) -> str:
        """Return what is wrong with a message's key and offset; else an empty text."""
        if self._key.fullmatch(partition) is None:
            return f"expected a partition of {','.join(self.topics)} for a key, found {partition[:60]!r}"
        if header is None or _OFFSET.fullmatch(header) is None:
            found = header if header is None else header[:30]
            return f"expected an offset in the header 'offset', found {found!r}"
        if int(header) > self._ends.get(partition, -1) and not self._has_looked_up:
            self._look_up()
        if partition not in self._partitions and self._partitions:
            return f"{partition} is no partition of what the group reads"
        if int(header) > self._ends.get(partition, (1 << 63) - 1):
            return f"{partition} ends at {self._ends.get(partition)}, and the header says offset {int(header)}"
        return ""

    def _look_up(self) -> None:
        """Ask which partitions the group's topics have, and their ends. None are known if the brokers do not answer."""
        self._metadata.refresh(clock.monotonic() + _READ, topics=[self.topic, *self.topics])
        there = {
            self._kafka.TopicPartition(topic, number)
            for topic in self.topics
            for number in self._metadata.partitions(topic)
        }
        partitions = group_partitions(sorted(there), self.topics, co_partitioned=self.co_partitioned)
        self._partitions = {name: tps for name, tps in partitions.items() if there.issuperset(tps)}
        asked = [tp for tps in self._partitions.values() for tp in tps]
        ends = self._consumer.end_offsets(asked, timeout_ms=1000 * _READ) if asked else {}
        self._ends = {name: sum(ends[tp] for tp in tps) for name, tps in self._partitions.items()}
        self._has_looked_up = True

    def _disconnect(self) -> None:
        consumer, self._consumer = self._consumer, None
        close_quietly(consumer, autocommit=False, timeout_ms=1000)

    def close(self) -> None:
        self._disconnect()
        producer, self._producer = self._producer, None
        close_quietly(producer, timeout=1.0)
