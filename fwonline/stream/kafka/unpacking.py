"""Messages out of the batches that brokers send, five times as fast as kafka-python takes them out.

Two thirds of the time of reading go into varints and into a record of thirteen fields, in Python. Here a compiled loop
finds where each part of each record lies, and a record has what a stream wants of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from fwonline.stream.kafka import record_batch

__all__ = ["Record", "unpack_quickly"]

# The versions whose insides this knows.
_KNOWN = "3.0."


class Record(msgspec.Struct, gc=False):
    """A message.

    Parameters
    ----------
    topic, partition, offset
        Where it stands.
    timestamp
        Milliseconds since the epoch, or -1.
    key, value
        Bytes, or None.
    headers
        Names and values.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def unpack_quickly(consumer: Any) -> None:
    """Let a kafka-python consumer hand out `Record`s.

    Does nothing where its version is one whose insides are not known, or where it must tell committed transactions from
    others: then it hands out its own records, which have the same fields and more.
    """
    import kafka
    from kafka.protocol.consumer import IsolationLevel

    fetcher: Any = getattr(consumer, "_fetcher", None)
    theirs = getattr(fetcher, "PartitionRecords", None)
    level = IsolationLevel.build_from(consumer.config["isolation_level"])
    if kafka.__version__.startswith(_KNOWN) and theirs is not None and level == IsolationLevel.READ_UNCOMMITTED:
        fetcher.PartitionRecords = type("PartitionRecords", (theirs,), {"_unpack_records": _unpack_records})


def _unpack_records(self: Any, tp: Any, records: Any, key_deserializer: Any, value_deserializer: Any) -> Iterator[Any]:
    from kafka.errors import CorruptRecordError

    last = None
    while (batch := records.next_batch()) is not None:
        last = batch
        if self.check_crcs and not batch.validate_crc():
            raise CorruptRecordError(f"{tp.topic}[{tp.partition}]@{batch.base_offset}: the checksum does not fit")
        if batch.magic != 2:  # of topics that were written before Kafka 0.11
            for record in batch:
                self.next_fetch_offset = record.offset + 1
                yield record
            continue
        self.leader_epoch = batch.leader_epoch
        if batch.is_control_batch:  # the mark of a transaction's end
            self.next_fetch_offset = batch.next_offset
            continue
        batch._maybe_uncompress()
        for record in _records(tp, batch):
            self.next_fetch_offset = record.offset + 1
            yield record
        self.records_read += batch.records_count
        self.bytes_read += batch.size_in_bytes
    if last is not None and last.magic == 2:
        self.next_fetch_offset = last.next_offset  # behind what compaction has taken out of the batch's end
    self.drain()


def _records(tp: Any, batch: Any) -> Iterator[Record]:
    from kafka.errors import CorruptRecordError

    data = bytes(batch._buffer)
    table = np.empty((batch.records_count, record_batch.COLUMNS), dtype=np.int64)
    if record_batch.places(np.frombuffer(data, dtype=np.uint8), batch._pos, len(table), table) < 0:
        raise CorruptRecordError(f"{tp.topic}[{tp.partition}]@{batch.base_offset}: the batch's records are not whole")
    topic, partition, first = tp.topic, tp.partition, batch.base_offset
    if batch.timestamp_type == batch.LOG_APPEND_TIME:
        table[:, record_batch.TIME] = batch.max_timestamp
    else:
        table[:, record_batch.TIME] += batch.first_timestamp
    for offset, time, key, key_end, value, value_end, headers, n_headers in table.tolist():
        yield Record(
            topic,
            partition,
            first + offset,
            time,
            None if key < 0 else data[key:key_end],
            None if value < 0 else data[value:value_end],
            _headers(data, headers, n_headers) if n_headers else [],
        )


def _headers(data: bytes, pos: int, count: int) -> list[tuple[str, bytes | None]]:
    from kafka.record.util import decode_varint

    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, pos = decode_varint(data, pos)
        name, pos = data[pos : pos + size].decode("utf-8", "replace"), pos + size
        size, pos = decode_varint(data, pos)
        headers.append((name, None if size < 0 else data[pos : pos + size]))
        pos += max(size, 0)
    return headers
