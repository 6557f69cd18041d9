"""KafkaSink and KafkaDeadLetterSink against a broker."""

from __future__ import annotations

import math
import socket
import time

import numpy as np
import pytest

pytest.importorskip("kafka")
from kafka.errors import KafkaTimeoutError

from fwonline.exceptions import SourceError
from fwonline.stream import KafkaSink, KafkaSource, Rejected
from fwonline.stream.kafka import KafkaDeadLetterSink, client

pytestmark = pytest.mark.kafka


@pytest.fixture
def read(kafka):
    """Return every message of a topic, as `decode` gets it."""

    def read(topic):
        messages = []

        def decode(value, headers):
            messages.append((value, headers))
            return {}

        with KafkaSource(topic, kafka.bootstrap, end="latest", decode=decode, client=kafka.consumer) as source:
            return [(sample.key, *message) for sample, message in zip(source, messages, strict=False)]

    return read


def test_records_arrive_as_json_with_their_keys(kafka, make_topic, read):
    topic = make_topic()
    with KafkaSink(topic, kafka.bootstrap, client=kafka.client) as sink:
        sink.write({"n": 1, "key": "ä", "y_pred": np.float32(0.5), "w": np.arange(2)})
        sink.write({"n": 2, "key": 17, "y_pred": math.nan})
        sink.write({"n": 3, "y_pred": None})

    assert sorted(read(topic), key=lambda message: message[1]) == [
        ("ä", '{"n":1,"key":"ä","y_pred":0.5,"w":[0,1]}'.encode(), ()),
        ("17", b'{"n":2,"key":17,"y_pred":null}', ()),
        (None, b'{"n":3,"y_pred":null}', ()),
    ]


def test_a_durable_flush_returns_when_the_brokers_have_everything(kafka, make_topic, read):
    topic = make_topic()
    sink = KafkaSink(topic, kafka.bootstrap, key="id", client=kafka.client | {"linger_ms": 10_000})
    for i in range(300):
        sink.write({"id": i})

    sink.flush(durable=True)

    assert len(read(topic)) == 300
    assert sink.position is None
    sink.close()
    sink.close()


class Silent:
    """A producer whose brokers say nothing any more."""

    def __init__(self):
        self.waited = 0.0

    def flush(self, timeout):
        self.waited += timeout
        raise KafkaTimeoutError("nothing came")


def test_a_deadline_ends_the_wait_for_brokers(monkeypatch):
    sink = KafkaSink("t", timeout=5.0)
    sink._producer = producer = Silent()
    monkeypatch.setattr(client.time, "monotonic", lambda: producer.waited)
    with pytest.raises(SourceError, match=r"did not take what was written: .*nothing came"):
        sink.flush(durable=True)
    assert producer.waited == pytest.approx(5.0)
    sink.set_deadline(1.2)
    for _ in range(2):  # the second time there is nothing left to wait
        with pytest.raises(SourceError):
            sink.flush(durable=True)
        assert producer.waited == pytest.approx(6.2)
    sink.set_deadline(math.inf)
    with pytest.raises(SourceError):
        sink.flush(durable=True)
    assert producer.waited == pytest.approx(11.2)


def test_a_source_reads_what_a_sink_wrote(kafka, make_topic):
    topic = make_topic(3)
    records = [{"key": str(i), "a": i / 7, "y": i} for i in range(500)]
    with KafkaSink(topic, kafka.bootstrap, client=kafka.client) as sink:
        for record in records:
            sink.write(record)

    with KafkaSource(topic, kafka.bootstrap, "y", drop=["key"], end="latest", client=kafka.consumer) as source:
        samples = sorted(source, key=lambda sample: sample.y)

    assert [(sample.key, sample.x, sample.y) for sample in samples] == [
        (record["key"], {"a": record["a"]}, record["y"]) for record in records
    ]
    assert all(abs(sample.time - time.time()) < 60 for sample in samples)


@pytest.mark.parametrize("raw", [b"\xff\x00 bytes", b"{text", b""])
def test_dead_letters_keep_the_bytes_and_name_origin_and_error(kafka, make_topic, read, raw):
    topic = make_topic()
    with KafkaDeadLetterSink(topic, kafka.bootstrap, client=kafka.client) as sink:
        sink.write(Rejected(raw, "t.x[3]@14: no good", "t.x[3]@14", key="k").to_record())
        sink.write(Rejected(raw, "a.csv:3: no good", "a.csv:3").to_record())

    headers = {value: dict(headers) for _, value, headers in read(topic)}
    assert set(headers) == {raw}
    messages = sorted((key or "", dict(headers)) for key, _, headers in read(topic))
    assert messages == [
        ("", {"origin": b"a.csv:3", "error": b"a.csv:3: no good"}),
        (
            "k",
            {
                "origin": b"t.x[3]@14",
                "error": b"t.x[3]@14: no good",
                "topic": b"t.x",
                "partition": b"3",
                "offset": b"14",
            },
        ),
    ]


def test_an_absent_broker_is_named_within_the_time_given():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there
        sink = KafkaSink("out", f"127.0.0.1:{held.getsockname()[1]}", timeout=0.5)
        began = time.monotonic()
        with pytest.raises(SourceError, match=r"^out: no answer from 127.0.0.1:\d+ in 0.5 s"):
            sink.write({"n": 1})
        sink.close()
        assert time.monotonic() - began < 3


def test_a_message_the_brokers_refuse_is_an_error(kafka, make_topic):
    sink = KafkaSink(make_topic(), kafka.bootstrap, client=kafka.client | {"max_request_size": 1000})
    with pytest.raises(SourceError, match="did not take what was written"):
        sink.write({"text": "x" * 2000})
    sink.close()


def test_records_that_were_not_delivered_are_reported_by_flush_and_close(real_kafka, make_topic):
    topic = make_topic(max_message_bytes="500")
    for tell in (lambda sink: sink.flush(durable=True), KafkaSink.close):
        sink = KafkaSink(topic, real_kafka.bootstrap, timeout=5)
        sink.write({"text": "x" * 2000})
        with pytest.raises(SourceError, match=r"did not take what was written: .*MESSAGE_TOO_LARGE|TooLarge"):
            tell(sink)
        if sink._producer is not None:
            with pytest.raises(SourceError):
                sink.close()
