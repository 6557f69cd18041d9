"""Messages taken out of batches by compiled code are those that kafka-python takes out."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("kafka")

from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from fwonline.stream.kafka import compat, record_batch

PLACE = TopicPartition("clicks", 3)


class Quick(Fetcher.PartitionRecords):
    _unpack_records = compat._unpack


def batch(rows, *, codec=0, first=0):
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 24,
    )
    for offset, (time, key, value, headers) in enumerate(rows):
        assert builder.append(offset, time, key, value, headers) is not None
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, first)  # the broker sets it; the checksum does not cover it
    return bytes(data)


def taken(kind, data, start=0, **options):
    part = kind(start, PLACE, MemoryRecords(data), **options)
    out = []
    while part:
        out += part.take(7)
    fields = [(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in out]
    return fields, part.next_fetch_offset


def rows(count, seed=0):
    rng = np.random.default_rng(seed)

    def some(size):
        return None if rng.random() < 0.2 else rng.bytes(int(rng.integers(0, size)))

    return [
        (
            int(rng.integers(0, 1 << 45)),
            some(20),
            some(300),
            [(f"naïve{j}", some(200)) for j in range(int(rng.integers(0, 4)))],
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4], ids=["none", "gzip", "snappy", "lz4", "zstd"])
def test_they_are_those_of_kafka_python(codec):
    data = batch(rows(200), codec=codec) + batch(rows(50, 1), codec=codec, first=1_000_000_007)
    theirs = taken(Fetcher.PartitionRecords, data)
    assert len(theirs[0]) == 250
    assert taken(Quick, data) == theirs
    assert taken(Quick, data, start=120) == taken(Fetcher.PartitionRecords, data, start=120)


def test_an_empty_answer_ends_at_once():
    assert taken(Quick, b"") == taken(Fetcher.PartitionRecords, b"") == ([], 0)


def test_the_brokers_clock_counts_where_the_topic_says_so():
    data = bytearray(batch(rows(5)))
    data[22] |= DefaultRecordBatch.TIMESTAMP_TYPE_MASK  # the low byte of the attributes
    theirs = taken(Fetcher.PartitionRecords, bytes(data), check_crcs=False)
    assert taken(Quick, bytes(data), check_crcs=False) == theirs
    assert len({time for *_, time, _, _, _ in theirs[0]}) == 1


def test_damage_is_an_error():
    data = bytearray(batch(rows(20)))
    data[-3] ^= 1
    with pytest.raises(CorruptRecordError, match=r"clicks\[3\]@0: the checksum does not fit"):
        taken(Quick, bytes(data))


def test_records_that_are_not_whole_are_no_records():
    rng = np.random.default_rng(1)
    data = np.frombuffer(batch(rows(20)), dtype=np.uint8)[61:]  # behind the header
    table = np.empty((20, record_batch.COLUMNS), dtype=np.int64)
    assert record_batch.locate(data, 0, 20, table) == data.size
    for stop in rng.integers(0, data.size, 50):
        assert record_batch.locate(data[:stop].copy(), 0, 20, table) == -1
    whole = 0
    for _ in range(500):  # no byte, whatever it is, leads outside
        damaged = data.copy()
        damaged[rng.integers(0, data.size, 3)] = rng.integers(0, 256, 3)
        end = record_batch.locate(damaged, 0, 20, table)
        assert -1 <= end <= data.size
        whole += end >= 0
        if end >= 0:
            assert table[:, [record_batch.KEY_END, record_batch.VALUE_END, record_batch.HEADERS]].max() <= data.size
    assert 0 < whole < 500


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_a_reader_of_what_is_committed_keeps_the_clients_own_way(level):
    kind = Fetcher.PartitionRecords
    fetcher = SimpleNamespace(PartitionRecords=kind)
    compat._read_compiled(SimpleNamespace(config={"isolation_level": level}, _fetcher=fetcher))
    assert fetcher.PartitionRecords._unpack_records is (
        compat._unpack if level == "read_uncommitted" else kind._unpack_records
    )
