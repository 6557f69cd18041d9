"""All use of kafka-python beyond its documented interface, and the versions it was written for.

Before `_BEFORE` is raised, every function here must be compared with the new version's source.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import re
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from fwonline._install import how_to_install
from fwonline.exceptions import SourceError
from fwonline.stream.kafka.record_batch import read_records

__all__ = [
    "Metadata",
    "committed_offsets",
    "connection_errors",
    "drop_used_batch",
    "errors",
    "heartbeat",
    "kafka_python",
    "network_client",
    "patch_consumer",
]

#: The module `kafka.errors`; None without kafka-python, when `kafka_python` raises before it is needed.
errors: Any = None
with contextlib.suppress(ImportError):
    errors = importlib.import_module("kafka.errors")
_FIRST, _BEFORE = (3, 0, 11), (3, 1)
_POLL_INTERVAL = 0.1  # seconds between two tries to reach a broker that is away


def kafka_python() -> Any:
    """Return the module `kafka`.

    Raises SourceError when kafka-python is not installed, or is a version whose internals this package does not know.
    """
    install = how_to_install("kafka")
    try:
        import kafka
    except ImportError as error:
        raise SourceError(f"Kafka needs kafka-python: {install}") from error
    version = tuple(int(number) for number in re.findall(r"\d+", kafka.__version__)[:3])
    if not _FIRST <= version < _BEFORE:
        raise SourceError(f"Kafka needs kafka-python 3.0.11 or later, before 3.1, found {kafka.__version__}: {install}")
    return kafka


# -- connections


@functools.cache
def network_client() -> type:
    """Return kafka-python's network client for consumers and producers, with two defects removed.

    The producer takes `connection_delay` for milliseconds, but gets seconds: it asks thousands of times a second, and
    it does not ask for the new leader of a partition, so it waits for a dead one. And when the connection to the
    transaction coordinator fails, the request that was due is forgotten, and the transaction stalls until its timeout.
    """
    from kafka.net.compat import KafkaNetClient

    class NetworkClient(KafkaNetClient):
        def await_ready(self, node_id: Any, timeout_ms: float = 30_000) -> bool:
            try:
                return bool(super().await_ready(node_id, timeout_ms=timeout_ms))
            except errors.KafkaError:
                time.sleep(_POLL_INTERVAL)  # in the producer's own thread
                return False

        def connection_delay(self, node_id: Any) -> float:
            seconds = super().connection_delay(node_id)
            if seconds > 0:
                self.cluster.request_update()  # which has its own pace
            return 1000.0 * min(seconds, _POLL_INTERVAL)

    return NetworkClient


@contextlib.contextmanager
def connection_errors() -> Iterator[list[Exception]]:
    """Collect why connections fail, in order.

    kafka-python retries, and in the end reports a timeout; a wrong password or a closed port is only in its log.
    """
    found: list[Exception] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if isinstance(record.args, tuple):
                found.extend(argument for argument in record.args if isinstance(argument, Exception))

    logger = logging.getLogger("kafka.net")
    listener = Listener(logging.WARNING)
    logger.addHandler(listener)
    try:
        yield found
    finally:
        logger.removeHandler(listener)


class Metadata:
    """What a client knows of its cluster, kafka-python's `ClusterMetadata`."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def brokers(self) -> Any:
        """Return the brokers that were found."""
        return self._cluster.brokers()

    def partitions(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions; empty if it is not known."""
        return self._cluster.partitions_for_topic(topic) or set()

    def topic_id(self, topic: str) -> str | None:
        """Return a topic's id as Kafka's tools show it; None if the brokers (before 2.8) return none."""
        found = self._cluster.topic_id(topic)
        return urlsafe_b64encode(found.bytes).decode().rstrip("=") if found is not None and found.int else None

    def refresh(
        self,
        deadline: float,
        until: Callable[[], Any] = lambda: None,
        check: Callable[[], None] = lambda: None,
        topics: Sequence[str] | None = None,
    ) -> Any:
        """Ask the brokers anew; return `until()` once it is true, metadata have arrived, or the deadline has passed.

        The deadline is one of `time.monotonic`. `check` is called many times a second, and what it raises ends the
        wait. `topics` are those to know from now on, by default as before. kafka-python has a call that waits for the
        same, and it can wait for ever.
        """
        if topics is not None:
            self._cluster.set_topics(topics)
        future = self._cluster.request_update()
        while not (found := until()) and not future.is_done and time.monotonic() < deadline:
            check()
            time.sleep(0.005)
        return found or until()


# -- consumers


def patch_consumer(consumer: Any) -> None:
    """Let a consumer read records by compiled code, and look up its group's coordinator at a pace."""
    _read_compiled(consumer)
    _pace_coordinator_lookup(consumer)


def _read_compiled(consumer: Any) -> None:
    """Let a consumer return `record_batch.Record`s, unless it must tell committed transactions from others."""
    from kafka.protocol.consumer import IsolationLevel

    fetcher = consumer._fetcher
    if IsolationLevel.build_from(consumer.config["isolation_level"]) == IsolationLevel.READ_UNCOMMITTED:
        fetcher.PartitionRecords = type("PartitionRecords", (fetcher.PartitionRecords,), {"_unpack_records": _unpack})


def _unpack(self: Any, tp: Any, records: Any, key_deserializer: Any, value_deserializer: Any) -> Iterator[Any]:
    last = None
    while (batch := records.next_batch()) is not None:
        last = batch
        origin = f"{tp.topic}[{tp.partition}]@{batch.base_offset}"
        if self.check_crcs and not batch.validate_crc():
            raise errors.CorruptRecordError(f"{origin}: the checksum does not fit")
        if batch.magic != 2:  # of topics that were written before Kafka 0.11
            for record in batch:
                self.next_fetch_offset = record.offset + 1
                yield record
            continue
        self.leader_epoch = batch.leader_epoch
        if batch.is_control_batch:  # the end of a transaction
            self.next_fetch_offset = batch.next_offset
            continue
        batch._maybe_uncompress()
        found = read_records(
            tp.topic,
            tp.partition,
            bytes(batch._buffer),
            batch._pos,
            batch.records_count,
            offset=batch.base_offset,
            time=batch.first_timestamp,
            append_time=batch.max_timestamp if batch.timestamp_type == batch.LOG_APPEND_TIME else None,
        )
        if found is None:
            raise errors.CorruptRecordError(f"{origin}: the batch's records are not whole")
        for record in found:
            self.next_fetch_offset = record.offset + 1
            yield record
        self.records_read += batch.records_count
        self.bytes_read += batch.size_in_bytes
    if last is not None and last.magic == 2:
        self.next_fetch_offset = last.next_offset  # compaction may have removed the batch's last records
    self.drain()


def _pace_coordinator_lookup(consumer: Any) -> None:
    """Let a consumer look up its group's coordinator once in `retry_backoff_ms`, not thousands of times a second.

    As long as the brokers name a coordinator that has just died, kafka-python finds it, cannot reach it, and asks again
    at once. That takes a core here and one of the broker, which elects the next coordinator the later.
    """
    from kafka.future import Future

    coordinator = consumer._coordinator
    look_up = coordinator.lookup_coordinator
    backoff = consumer.config["retry_backoff_ms"] / 1000
    asked = -backoff

    def paced() -> Any:
        nonlocal asked
        now = time.monotonic()
        if now - asked < backoff and coordinator._find_coordinator_future is None:
            return Future().failure(errors.CoordinatorNotAvailableError())  # after which callers wait
        asked = now
        return look_up()

    coordinator.lookup_coordinator = paced


def heartbeat(consumer: Any) -> bool:
    """Restart `max_poll_interval_ms`; return whether the group rebalances and waits for `poll`."""
    consumer._coordinator.poll_heartbeat()
    return bool(consumer._coordinator.need_rejoin())


def committed_offsets(consumer: Any, partitions: Iterable[Any], seconds: float) -> dict[Any, Any]:
    """Return a group's committed offsets and metadata by one request, so that all are of one moment."""
    return dict(consumer._coordinator.fetch_committed_offsets(list(partitions), timeout_ms=1000 * seconds))


def drop_used_batch(consumer: Any) -> None:
    """Let a consumer return what it keeps of a paused partition: a batch that is used up would be in the way."""
    fetcher = consumer._fetcher
    if not fetcher._next_partition_records:
        fetcher._next_partition_records = None
