"""A topic that was deleted and made anew is another topic, however many messages it has."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from fwonline.exceptions import CheckpointError, SourceError
from fwonline.stream import KafkaSource
from fwonline.stream.kafka.compat import Metadata
from fwonline.stream.kafka.identity import TopicIdentity

CURE = "Start over"


class TP(NamedTuple):
    topic: str
    partition: int


class Message(NamedTuple):
    offset: int
    value: bytes | None = b"v"
    key: bytes | None = b"k"
    timestamp: int = 1


def cluster(**ids):
    known = {name: uuid.UUID(int=number) for name, number in ids.items()}
    return Metadata(SimpleNamespace(topic_id=known.get))


HERE = TP("t", 0)


def test_an_id_is_shown_as_kafka_shows_it_and_may_be_missing():
    assert cluster(t=1).topic_id("t") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert cluster(t=0).topic_id("t") is None  # what a broker says of a topic that it does not know
    assert cluster().topic_id("t") is None


def test_a_topic_is_known_by_its_id():
    known = TopicIdentity("error", CURE)
    known.learn(cluster(t=1), ["t"])
    state = known.state({HERE: 3})
    assert state == {"t": {"id": "AAAAAAAAAAAAAAAAAAAAAQ", "last": {}}}

    again = TopicIdentity("error", CURE)
    ids = again.restore("s", json.loads(json.dumps(state)), [HERE])
    again.check(cluster(t=1), ids)
    again.check(cluster(), ids)  # a broker that tells none
    assert again.unproven(cluster(t=1), ids, {HERE: 0}) == {}
    with pytest.raises(SourceError, match=r"^t: this is not the topic .* its id is A+g, and was A+Q. .* Start over$"):
        again.check(cluster(t=2), ids)


@pytest.mark.parametrize("is_whole", [False, True])
def test_without_ids_it_is_known_by_the_last_message_read(is_whole):
    known = TopicIdentity("error", CURE)
    batch = [Message(offset, b"%d" % offset) for offset in (0, 1, 3, 4)]
    known.begin_batch(HERE, batch)
    if is_whole:
        known.end_batch(HERE, batch)
    state = known.state({HERE: 5 if is_whole else 4})
    at = 4 if is_whole else 3
    assert state["t"]["last"]["0"][0] == at

    again = TopicIdentity("error", CURE)
    ids = again.restore("s", state, [HERE])
    assert again.state({HERE: 5}) == state  # nothing read yet, nothing forgotten
    assert again.unproven(cluster(t=1), ids, {HERE: 0}) == {HERE: at}  # brokers that tell ids by now
    assert again.unproven(cluster(), ids, {HERE: at + 1}) == {}  # deleted since
    again.compare({HERE: Message(at, b"%d" % at)})
    for other in (Message(at, b"5"), Message(at, b"%d" % at, None), Message(at, b"%d" % at, timestamp=2)):
        with pytest.raises(SourceError, match=rf"^t\[0\]@{at}: the message there is not the one that was"):
            again.compare({HERE: other})
    for gone in (None, Message(at + 1)):
        with pytest.raises(SourceError, match=rf"^t\[0\]@{at}: the message that was read there is gone"):
            again.compare({HERE: gone})


def test_what_compaction_took_out_proves_nothing():
    known = TopicIdentity("allow", CURE)
    known.begin_batch(HERE, [Message(7)])
    again = TopicIdentity("allow", CURE)
    again.restore("s", known.state({HERE: 8}), [HERE])
    again.compare({HERE: None})
    again.compare({HERE: Message(9)})
    with pytest.raises(SourceError, match="the message there is not the one that was read"):
        again.compare({HERE: Message(7, None)})


@pytest.mark.parametrize(
    "state",
    [
        7,
        {"t": 7},
        {"t": {"id": 7}},
        {"t": {"id": "a" * 100}},
        {"t": {"last": {"x": [1, "0" * 32]}}},
        {"t": {"last": {"0": [-1, "0" * 32]}}},
        {"t": {"last": {"0": [1 << 70, "0" * 32]}}},
        {"t": {"last": {"0": [1, "0"]}}},
        {"t": {"last": {"0": [1]}}},
    ],
)
def test_an_identity_that_is_none_is_refused(state):
    with pytest.raises(CheckpointError, match=r"^s: what the state says of its topics cannot be read"):
        TopicIdentity("error", CURE).restore("s", state, [HERE])


# -- against a broker


def write(kafka, topic, values, partition=0):
    from kafka import KafkaProducer

    with contextlib.closing(KafkaProducer(bootstrap_servers=kafka.bootstrap.split(","), **kafka.client)) as producer:
        for value in values:
            producer.send(topic, value=json.dumps({"y": value}).encode(), partition=partition)
        producer.flush(10)


def source(kafka, topic, **options):
    return KafkaSource(topic, kafka.bootstrap, "y", **{"end": "latest", "client": kafka.consumer} | options)


def read(kafka, topic, count):
    with source(kafka, topic) as first:
        items = iter(first)
        for _ in range(count):
            next(items)
        return first.position, first.identity


@pytest.mark.kafka
def test_a_resumed_stream_knows_its_topic_with_an_id_and_without(make_topic, kafka):
    topic = make_topic()
    write(kafka, topic, range(8))
    position, identity = read(kafka, topic, 5)
    by_message = {topic: {"last": identity[topic]["last"]}}
    for known in (identity, by_message, None):  # None: of a checkpoint of version 0.1.0
        with source(kafka, topic) as again:
            again.seek(position)
            again.expect_identity(known)
            assert [sample.y for sample in again] == [5, 6, 7]
            assert again.identity[topic]["id"] == identity[topic]["id"]
            assert again.identity[topic]["last"]["0"][0] == 7

    other = make_topic()  # stands for a topic of the same name
    write(kafka, other, range(100, 120))
    for known in (identity, by_message):
        with source(kafka, other, timeout=3) as again:
            again.seek({other: position[topic]})
            again.expect_identity({other: known[topic]})
            with pytest.raises(SourceError, match=r"not the topic that was read before.*fwonline run --fresh"):
                list(again)


@pytest.mark.kafka
def test_a_topic_that_was_created_again_is_refused_also_during_a_run(make_topic, real_kafka):
    topic = make_topic()
    write(real_kafka, topic, range(3))
    position, identity = read(real_kafka, topic, 3)
    with source(real_kafka, topic, end="never", client={"fetch_max_wait_ms": 50}) as running:
        items = iter(running)
        assert [next(items).y for _ in range(3)] == [0, 1, 2]
        remake(real_kafka, topic)
        write(real_kafka, topic, range(100, 110))

        def go_on_and_save():
            return next(items), running.identity

        # At the next look at the stream, or where a message was had before the brokers told, before it counts.
        with pytest.raises(SourceError, match=f"^{topic}: this is not the topic that was read before: its id is "):
            go_on_and_save()
    with source(real_kafka, topic) as again:
        again.seek(position)
        again.expect_identity(identity)
        with pytest.raises(SourceError, match=f"^{topic}: this is not the topic that was read before: its id is "):
            list(again)


def remake(kafka, topic, partitions=1):
    kafka.delete_topic(topic)
    with contextlib.closing(kafka.admin()) as admin:
        deadline = time.monotonic() + 10
        while topic in admin.list_topics() and time.monotonic() < deadline:
            time.sleep(0.05)
    assert kafka.create_topic(topic, partitions) == partitions
