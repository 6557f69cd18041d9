"""Messages of numbers in blocks: the same items and positions as one by one, offset by offset."""

from __future__ import annotations

import contextlib
import json
import random

import pytest
from support.source_roads import check_roads

from fwonline.stream import KafkaSource
from fwonline.stream.block import Block
from fwonline.stream.kafka.batch import Batch

pytestmark = pytest.mark.kafka


def numbers(n, seed=0):
    draw = random.Random(seed)
    return [json.dumps({"a": draw.gauss(0, 9), "b": draw.randint(-9, 9), "y": True}).encode() for _ in range(n)]


ODD = [
    None,
    b"",
    b"{",
    b'{"a":1,"b":2,"y":null}',
    b'{"a":1,\n"b":2,"y":true}',
    b'{"a":1,"b":2,"y":true}\n',
    b'{"a":1,"b":2,"y":true}\r',
    b'{"b":1,"a":2,"y":true}',
    b'{"a":1,"b":"x","y":true}',
    b'{"a":1,"b":2,"y":"\xff"}',
]


@pytest.fixture
def topic(kafka, make_topic):
    """Three stretches of rows, with everything else between them; the keys of some, headers of others."""
    from kafka import KafkaProducer

    topic = make_topic()
    with contextlib.closing(KafkaProducer(bootstrap_servers=kafka.bootstrap.split(","), **kafka.client)) as producer:
        rows = numbers(30) + [value for odd in ODD for value in [*numbers(9, len(odd or b"")), odd]] + numbers(20)
        for k, value in enumerate(rows):
            key = (None, b"k%d" % k, b"\xff")[k % 3] if 40 < k < 60 else None
            key = b"gone" if value is None else key
            headers = [("h", b"1")] if k == 25 else None
            producer.send(topic, value=value, key=key, headers=headers, timestamp_ms=1_700_000_000_000 + k)
        producer.flush(10)
    return topic


def test_both_roads_are_one(kafka, topic):
    def make():
        return KafkaSource(topic, kafka.bootstrap, "y", end="latest", client=kafka.consumer)

    assert check_roads(make, every=40) > 100


def test_what_a_block_holds(kafka, topic):
    with KafkaSource(topic, kafka.bootstrap, "y", end="latest", client=kafka.consumer) as source:
        items = source.blocks(most=9)
        next(items)
        block = next(items)
        assert isinstance(block, Block)
        assert block.times.tolist() == [1_700_000_000 + k / 1000 for k in range(1, 10)]
        assert block.keys is None
        assert block.origins(0, 2) == [f"{topic}[0]@1", f"{topic}[0]@2"]
        block.taken = 4
        assert source.position == {topic: {"0": 5}}
        assert source.identity[topic]["last"]["0"][0] == 4
        assert source.lag() == sum(source.lags().values())
        assert next(iter(source)).origin == f"{topic}[0]@5"
        block = next(items)
        assert block.origins(0, 1) == [f"{topic}[0]@6"]
    assert source.position == {topic: {"0": 6}}


@pytest.mark.parametrize("options", [{"key": "a"}, {"time": "a"}, {"decode": "msgpack"}, {"target": None}])
def test_what_comes_one_by_one(options):
    assert not KafkaSource("topic", **{"target": "y", **options}).has_blocks


def test_a_row_follows_on_the_message_before():
    class Record:
        headers: tuple = ()
        key, timestamp = None, 0

        def __init__(self, offset):
            self.offset, self.value = offset, b"1"

    from fwonline.stream.ahead import Parsed

    def parse(text):
        n = text.count(b"\n")
        return Parsed(range(n + 1), [], range(n), None)

    batch = Batch(None, [Record(offset) for offset in (3, 4, 5, 7, 8, 6, 20)])
    batch.at = 1
    batch.parse(parse, has_gaps=False, stop=float("inf"))
    assert batch._is_row.tolist() == [True, True, False, True, False, False]
    batch.parse(parse, has_gaps=True, stop=20)
    assert batch._is_row.tolist() == [True, True, True, True, False, False]
