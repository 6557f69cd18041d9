"""KafkaSource against a broker: what it yields, where it stands, and what it says when something is wrong."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import threading
import time

import pytest
from support.waiting import wait_until

from fwonline.exceptions import SourceError
from fwonline.stream import KafkaSource, Rejected, Sample

pytestmark = pytest.mark.kafka


@pytest.fixture
def producer(kafka):
    from kafka import KafkaProducer

    with contextlib.closing(KafkaProducer(bootstrap_servers=kafka.bootstrap.split(","), **kafka.client)) as producer:
        yield producer


@pytest.fixture
def put(producer):
    """Write messages: values that are not bytes are written as JSON."""

    def put(topic, values, *, partition=0, **options):
        for value in values:
            raw = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
            producer.send(topic, value=raw, partition=partition, **options)
        producer.flush(10)

    return put


@pytest.fixture
def read(kafka):
    """Make a source that reads what is there now, in partition 0 unless told otherwise."""
    with contextlib.ExitStack() as opened:

        def read(topics, **options):
            options = {"end": "latest", "partitions": [0], "target": "y", "client": kafka.consumer} | options
            return opened.enter_context(KafkaSource(topics, kafka.bootstrap, **options))

        yield read


def test_messages_become_samples_with_key_time_headers_and_origin(make_topic, put, read):
    topic = make_topic()
    headers = [("trace", b"\x00\x01"), ("trace", b"again")]
    put(topic, [{"a": 1.5, "word": "x", "y": True}], key=b"k1", headers=headers, timestamp_ms=1_700_000_000_123)
    put(topic, [{"y": 2}], key=b"\xff\x00", timestamp_ms=1)

    first, second = read(topic)

    assert first == Sample(
        {"a": 1.5, "word": "x"},
        True,
        "k1",
        1_700_000_000.123,
        f"{topic}[0]@0",
        (("trace", b"\x00\x01"), ("trace", b"again")),
    )
    assert second == Sample({}, 2, b"\xff\x00", 0.001, f"{topic}[0]@1", ())


def test_fields_of_the_value_can_be_key_and_time(make_topic, put, read):
    topic = make_topic()
    put(topic, [{"id": 7, "at": "2024-01-01T00:00:00Z", "a": 1, "y": 0, "note": "-"}], key=b"other")

    (sample,) = read(topic, key="id", time="at", drop=["note"])

    assert (sample.x, sample.key, sample.time) == ({"a": 1}, 7, 1_704_067_200.0)


@pytest.mark.slow
def test_every_position_resumes_with_exactly_the_next_message(make_topic, put, read):
    topic = make_topic()
    put(topic, [{"id": i} for i in range(12)])
    whole = read(topic, target="id")
    positions = [whole.position]
    for sample in whole:
        positions.append(whole.position)
        assert positions[-1] == {topic: {"0": sample.y + 1}}
    assert len(positions) == 13

    for passed, position in enumerate(positions):
        resumed = read(topic, target="id")
        resumed.seek(json.loads(json.dumps(position)))
        assert [sample.y for sample in resumed] == list(range(passed, 12))


def test_several_topics_and_partitions_are_read_once_each(make_topic, put, read):
    topics = [make_topic(3), make_topic(3)]
    ids = iter(range(600))
    for topic in topics:
        for partition in range(3):
            put(topic, [{"id": next(ids)} for _ in range(100)], partition=partition)

    first, seen = read(topics, target="id", partitions=None), []
    for sample in first:
        seen.append(sample.y)
        if len(seen) == 250:
            break
    second = read(topics, target="id", partitions=None)
    second.seek(first.position)
    seen += [sample.y for sample in second]

    assert sorted(seen) == list(range(600))
    assert sum(offset for offsets in second.position.values() for offset in offsets.values()) == 600


POISON = {
    "no JSON": b"{not json",
    "nothing": b"",
    "not UTF-8": b'{"a": "\xff"}',
    "cut off": b'{"a": 1, "y"',
    "two objects": b'{"y": 1}{"y": 2}',
    "NaN": b'{"a": NaN, "y": 1}',
    "a list": b"[1, 2]",
    "a number": b"17",
    "null": b"null",
    "bytes": bytes(range(256)),
    "deeper than a decoder goes": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "no target": b'{"a": 1}',
}


def test_poison_is_rejected_whole_and_the_stream_goes_on(make_topic, put, read):
    topic = make_topic()
    for poison in POISON.values():
        put(topic, [{"a": 1, "y": 1}])
        put(topic, [poison], key=b"k", headers=[("h", b"v")])
    put(topic, [{"a": 1, "y": 1}])

    items = list(read(topic))

    assert [type(item) for item in items] == [Sample, Rejected] * len(POISON) + [Sample]
    for number, (rejected, raw) in enumerate(zip(items[1::2], POISON.values(), strict=True)):
        assert rejected.raw == raw
        assert rejected.origin == f"{topic}[0]@{2 * number + 1}"
        assert rejected.error.startswith(f"{rejected.origin}: ")
        assert (rejected.key, rejected.headers) == ("k", (("h", b"v"),))


def test_decode_reads_other_formats_and_its_failures_reject_the_message(make_topic, put, read):
    topic = make_topic()
    put(topic, [b"1;2"], headers=[("separator", b";")])
    put(topic, [b"1,2"], headers=[("separator", b",")])
    put(topic, [b"x,2"], headers=[("separator", b",")])
    put(topic, [b"list"])

    def decode(value, headers):
        if value == b"list":
            return [1]
        a, y = value.split(dict(headers)["separator"])
        return {"a": float(a), "y": float(y)}

    one, two, failed, no_dict = read(topic, decode=decode)

    assert one.x == two.x == {"a": 1.0}
    assert failed.error == f"{failed.origin}: `decode` failed: ValueError(\"could not convert string to float: b'x'\")"
    assert no_dict.error == f"{no_dict.origin}: expected a dict of fields from `decode`, found list"


def test_tombstones_are_counted_and_move_the_position(make_topic, put, read):
    topic = make_topic()
    put(topic, [None], key=b"k")
    put(topic, [{"y": 1}])
    put(topic, [None, None], key=b"k")

    source = read(topic)

    assert [sample.y for sample in source] == [1]
    assert source.n_tombstones == 3
    assert source.position == {topic: {"0": 4}}


def test_lag_and_progress_follow_the_position(make_topic, put, read):
    topic = make_topic()
    put(topic, [{"y": i} for i in range(10)])
    source = read(topic)
    assert source.lag() is None
    assert source.progress is None

    lags = [(source.lag(), source.progress) for _ in source]

    assert lags == [(9 - i, (i + 1) / 10) for i in range(10)]


def test_latest_begins_behind_what_is_there(make_topic, put, read):
    topic = make_topic()
    put(topic, [{"y": i} for i in range(3)])
    assert list(read(topic, start="latest")) == []

    live = read(topic, start="latest", end="never")
    received = []
    reader = threading.Thread(target=lambda: received.append(next(iter(live)).y))
    reader.start()
    wait_until(lambda: live.position == {topic: {"0": 3}})
    put(topic, [{"y": 17}])
    reader.join(10)
    assert received == [17]


def test_a_bounded_stream_ends_where_the_topic_ended_when_it_began(make_topic, put, read):
    topic = make_topic()
    put(topic, [{"y": i} for i in range(5)])
    source = read(topic)
    items = iter(source)
    first = next(items)
    put(topic, [{"y": i} for i in range(5, 9)])

    assert [first.y, *(sample.y for sample in items)] == [0, 1, 2, 3, 4]
    assert source.position == {topic: {"0": 5}}
    assert list(source) == []


def test_two_loops_share_the_items(make_topic, put, read):
    topic = make_topic()
    put(topic, [{"y": i} for i in range(4)])
    source = read(topic)

    assert [next(iter(source)).y, next(iter(source)).y] == [0, 1]
    assert [sample.y for sample in source] == [2, 3]


def test_a_signal_ends_a_waiting_stream_at_once(make_topic, put, read):
    topic = make_topic()
    put(topic, [{"y": 1}])
    source = read(topic, end="never")
    before = signal.signal(signal.SIGALRM, lambda *_: source.close())
    try:
        items = iter(source)
        assert next(items).y == 1
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        began = time.monotonic()
        assert list(items) == []
        assert 0.4 < time.monotonic() - began < 2.5
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert source.position == {topic: {"0": 1}}


def test_closing_between_two_items_ends_the_stream_and_lets_go(make_topic, put, read):
    topic = make_topic()
    put(topic, [{"y": i} for i in range(5)])
    threads = threading.active_count()
    source = read(topic)
    items = iter(source)
    next(items)
    assert threading.active_count() > threads

    source.close()
    source.close()

    assert threading.active_count() == threads
    assert list(items) == []


def test_a_position_of_something_else_is_refused(make_topic, put, read):
    topic = make_topic()
    with pytest.raises(SourceError, match="a position"):
        read(topic).seek(17)
    with pytest.raises(SourceError, match=">= 0"):
        read(topic).seek({topic: {"0": -1}})
    with pytest.raises(SourceError, match="topics this stream does not read: elsewhere"):
        read(topic).seek({"elsewhere": {"0": 1}})
    with pytest.raises(SourceError, match="partitions this stream does not read: 2"):
        read(topic).seek({topic: {"2": 1}})

    put(topic, [{"y": 1}])
    source = read(topic)
    source.seek({topic: {"0": 5}})
    with pytest.raises(SourceError, match=r"offset 5 is due, and the broker has 0 to 1: this is not the topic it was"):
        list(source)
    with pytest.raises(SourceError, match="seek before reading"):
        source.seek({topic: {"0": 0}})


def test_a_partition_that_is_not_there_is_named(make_topic, read):
    with pytest.raises(SourceError, match=r"expected partition 17, found \d partitions"):
        list(read(make_topic(), partitions=[0, 17]))


def test_offsets_that_come_twice_or_are_missing_end_the_stream(make_topic, put, read, monkeypatch):
    from kafka import KafkaConsumer

    topic = make_topic()
    put(topic, [{"y": i} for i in range(6)])
    poll = KafkaConsumer.poll

    def altered(change):
        def polled(self, *args, **kwargs):
            return {tp: change(records) for tp, records in poll(self, *args, **kwargs).items()}

        monkeypatch.setattr(KafkaConsumer, "poll", polled)

    altered(lambda records: records[:2] + records[4:])
    source = read(topic)
    with pytest.raises(SourceError, match=r"expected offset 2, found 4: 2 missing.*gaps='allow'"):
        list(source)
    assert source.position == {topic: {"0": 2}}
    assert [sample.y for sample in read(topic, gaps="allow")] == [0, 1, 4, 5]

    altered(lambda records: records[:3] + records[2:])
    for gaps in ("error", "allow"):
        with pytest.raises(SourceError, match=r"@2: came again: 3 was due"):
            list(read(topic, gaps=gaps))


def test_an_absent_broker_is_named_within_the_time_given():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there
        address = f"127.0.0.1:{held.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(SourceError, match=rf"^clicks: no answer from {address} in 0.5 s \(.*REFUSED"):
            list(KafkaSource("clicks", address, timeout=0.5))
        assert time.monotonic() - began < 3


def test_closing_ends_the_wait_for_an_absent_broker():
    source = KafkaSource("clicks", "127.0.0.1:1", timeout=60)
    closer = threading.Timer(0.3, source.close)
    closer.start()
    began = time.monotonic()
    assert list(source) == []
    assert time.monotonic() - began < 5
    closer.join()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"start": "middle"}, "start: expected one of earliest, latest"),
        ({"end": "soon"}, "end: expected one of never, latest"),
        ({"gaps": "maybe"}, "gaps: expected one of error, allow"),
        ({"bootstrap_servers": "localhost"}, "expected host:port, found 'localhost'"),
        ({"topics": []}, "expected at least one"),
        ({"client": {"sasl_pasword": "x"}}, "no setting 'sasl_pasword'; it has .*sasl_plain_password"),
        ({"client": {"group_id": "x"}}, "'group_id' is not set here"),
        ({"client": {"security_protocol": "ssl"}}, "security_protocol among PLAINTEXT, SSL"),
    ],
)
def test_a_wrong_parameter_is_reported_before_anything_is_read(wrong, said):
    with pytest.raises(ValueError, match=said):
        KafkaSource(**{"topics": "t", "bootstrap_servers": "localhost:9092"} | wrong)


def test_a_missing_kafka_python_is_named_with_its_cure(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "kafka", None)
    with pytest.raises(SourceError, match=r"Kafka needs kafka-python: .*pip install '.*\[kafka\]'"):
        KafkaSource("t")
