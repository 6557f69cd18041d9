"""A compacted topic on which workers show one another what they have learned."""

from __future__ import annotations

import contextlib
import time as clock
from collections.abc import Sequence
from typing import Any

from fwonline.exceptions import SourceError
from fwonline.stream.kafka.client import ClientSettings, connect, kafka_python
from fwonline.stream.shared import Exchange

__all__ = ["KafkaExchange"]

_READ = 2.0  # how long one look may take


class KafkaExchange(Exchange):
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
    """

    def __init__(self, topic: str, bootstrap_servers: Sequence[str], settings: dict[str, Any], timeout: float) -> None:
        self.topic = topic
        self.bootstrap_servers = list(bootstrap_servers)
        self.timeout = timeout
        self._kafka = kafka_python()
        known = self._kafka.KafkaProducer.DEFAULT_CONFIG
        self._ours = ClientSettings(settings, self._kafka.KafkaConsumer.DEFAULT_CONFIG)
        self._theirs = ClientSettings({name: value for name, value in settings.items() if name in known}, known)
        self._producer: Any = None
        self._consumer: Any = None
        self._documents: dict[str, tuple[int, bytes]] = {}

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
        self._consumer, cluster = connect(
            self._kafka.KafkaConsumer,
            {"bootstrap_servers": self.bootstrap_servers, "enable_auto_commit": False, "group_id": None},
            self._ours,
            seconds=self.timeout,
            defaults={"allow_auto_create_topics": False},
        )
        cluster.set_topics([self.topic])
        places = self._consumer.partitions_for_topic(self.topic)
        if not places:
            raise SourceError(
                f"{','.join(self.bootstrap_servers)} has no topic {self.topic}: merge_topic must be there"
            )
        self._consumer.assign([self._kafka.TopicPartition(self.topic, number) for number in sorted(places)])
        self._consumer.seek_to_beginning()

    def _take(self, record: Any) -> None:
        # A worker that was taken for dead may have said its last word late: the offset tells.
        told = dict(record.headers).get("offset", b"")
        if record.key is None or record.value is None or not told.isdigit():
            return
        partition, offset = record.key.decode("utf-8", "replace"), int(told)
        if offset >= self._documents.get(partition, (-1, b""))[0]:
            self._documents[partition] = offset, record.value

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
