"""What only a real Kafka can show: passwords, transactions, deleted messages, growing topics, a broker that falls."""

from __future__ import annotations

import contextlib
import json
import threading
import time

import pytest
from support.waiting import wait_until

from fwonline.exceptions import SourceError
from fwonline.stream import KafkaSink, KafkaSource
from tools.kafka import RealCluster

pytestmark = pytest.mark.kafka


def producer(kafka, **options):
    from kafka import KafkaProducer

    return contextlib.closing(KafkaProducer(bootstrap_servers=kafka.bootstrap.split(","), **options))


def write(kafka, topic, values, *, partition=0):
    with producer(kafka) as client:
        for value in values:
            client.send(topic, value=json.dumps({"y": value}).encode(), partition=partition)
        client.flush(10)


def test_a_topic_that_is_not_there_is_an_error_and_is_not_created(real_kafka):
    with pytest.raises(SourceError, match=r":\d+ has no topic fwonline-misspelt"):
        list(KafkaSource("fwonline-misspelt", real_kafka.bootstrap))
    with contextlib.closing(real_kafka.admin()) as admin:
        assert "fwonline-misspelt" not in admin.list_topics()


def test_passwords_are_taken_from_the_environment_and_never_shown(real_kafka, make_topic, monkeypatch, caplog):
    if real_kafka.secured is None:
        pytest.skip(f"needs a listener that asks for a password, and {real_kafka.description} has none known here")
    caplog.set_level("DEBUG", "fwonline")
    topic = make_topic()
    client = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": {"env": "FWONLINE_TEST_PASSWORD"},
    }
    monkeypatch.delenv("FWONLINE_TEST_PASSWORD", raising=False)
    with pytest.raises(SourceError, match="variable FWONLINE_TEST_PASSWORD is not set"):
        list(KafkaSource(topic, real_kafka.secured, client=client))

    monkeypatch.setenv("FWONLINE_TEST_PASSWORD", "correct horse")
    with KafkaSink(topic, real_kafka.secured, client=client) as sink:
        sink.write({"y": 1})
    source = KafkaSource(topic, real_kafka.secured, "y", end="latest", client=client)
    assert [sample.y for sample in source] == [1]

    shown = [repr(source), repr(sink), caplog.text]
    for password in ({"env": "FWONLINE_TEST_PASSWORD"}, "wrong horse"):
        monkeypatch.setenv("FWONLINE_TEST_PASSWORD", "wrong horse")
        refused = KafkaSource(topic, real_kafka.secured, client=client | {"sasl_plain_password": password}, timeout=1)
        with pytest.raises(SourceError, match=r"password|refuses this client") as caught:
            list(refused)
        shown += [repr(refused), str(caught.value), repr(caught.value.__cause__)]
    assert "alice" not in "".join(shown)
    assert "horse" not in "".join(shown)


def test_transactions_leave_gaps_that_are_allowed_on_request(real_kafka, make_topic):
    topic = make_topic()
    with producer(real_kafka, transactional_id=topic) as client:
        client.init_transactions()
        for value, end in (
            (1, client.commit_transaction),
            (2, client.abort_transaction),
            (3, client.commit_transaction),
        ):
            client.begin_transaction()
            client.send(topic, value=json.dumps({"y": value}).encode()).get(10)
            end()
    options = {"target": "y", "end": "latest", "client": {"isolation_level": "read_committed"}}

    strict = KafkaSource(topic, real_kafka.bootstrap, **options)
    with pytest.raises(SourceError, match=r"expected offset 1, found 4: 3 missing"):
        list(strict)

    source = KafkaSource(topic, real_kafka.bootstrap, gaps="allow", **options)
    assert [sample.y for sample in source] == [1, 3]
    assert source.position == {topic: {"0": 6}}  # three messages, three marks of a transaction's end
    assert source.lag() == 0
    again = KafkaSource(topic, real_kafka.bootstrap, gaps="allow", **options)
    again.seek(source.position)
    assert list(again) == []


def test_messages_that_were_deleted_unread_end_the_stream(real_kafka, make_topic):
    from kafka import TopicPartition

    topic = make_topic()
    write(real_kafka, topic, range(10))
    source = KafkaSource(topic, real_kafka.bootstrap, "y", end="latest")
    source.seek({topic: {"0": 3}})
    with contextlib.closing(real_kafka.admin()) as admin:
        admin.delete_records({TopicPartition(topic, 0): 5})

    with pytest.raises(SourceError, match="offset 3 is due, and the broker has 5 to 10: those before were deleted"):
        list(source)
    assert [sample.y for sample in KafkaSource(topic, real_kafka.bootstrap, "y", end="latest")] == [5, 6, 7, 8, 9]


def test_partitions_added_later_are_read_from_their_beginning(real_kafka, make_topic, monkeypatch):
    from kafka.admin import NewPartitions

    monkeypatch.setattr("fwonline.stream.kafka.reader.KafkaReader._maintenance_every", 0.5)
    topic = make_topic(1)
    write(real_kafka, topic, [1])
    source = KafkaSource(topic, real_kafka.bootstrap, "y", start="latest", client={"metadata_max_age_ms": 500})
    seen: list[int] = []
    reader = threading.Thread(target=lambda: seen.extend(sample.y for sample in source))
    reader.start()
    try:
        wait_until(lambda: source.position == {topic: {"0": 1}})
        with contextlib.closing(real_kafka.admin()) as admin:
            admin.create_partitions({topic: NewPartitions(2)})
            admin.wait_for_topics([topic])
        write(real_kafka, topic, [2], partition=1)
        write(real_kafka, topic, [3], partition=0)
        wait_until(lambda: sorted(seen) == [2, 3], 20)
    finally:
        source.close()
        reader.join(10)
    assert source.position == {topic: {"0": 2, "1": 1}}


def test_a_group_shows_the_lag_and_is_never_read_back(real_kafka, make_topic):
    from kafka import TopicPartition

    topic = make_topic()
    write(real_kafka, topic, range(6))
    with KafkaSource(topic, real_kafka.bootstrap, "y", group=topic) as source:
        items = iter(source)
        assert [next(items).y for _ in range(4)] == [0, 1, 2, 3]
    with contextlib.closing(real_kafka.admin()) as admin:
        committed = admin.list_group_offsets(topic)[topic]
        assert committed[TopicPartition(topic, 0)].offset == 4

    again = KafkaSource(topic, real_kafka.bootstrap, "y", group=topic, end="latest")
    assert [sample.y for sample in again] == [0, 1, 2, 3, 4, 5]


@pytest.mark.slow
def test_the_stream_waits_for_a_broker_that_falls_and_goes_on(real_kafka, make_topic):
    if not isinstance(real_kafka, RealCluster):
        pytest.skip("needs a broker that may be killed")
    topic = make_topic()
    write(real_kafka, topic, range(5))
    source = KafkaSource(topic, real_kafka.bootstrap, "y", patience=60)
    items = iter(source)
    seen = [next(items).y for _ in range(5)]

    def come_back_and_write():
        time.sleep(1.0)
        real_kafka.start_node(0)
        real_kafka.wait_until_ready()
        write(real_kafka, topic, range(5, 10))

    real_kafka.kill_node(0)
    writer = threading.Thread(target=come_back_and_write)
    writer.start()
    seen += [next(items).y for _ in range(5)]
    writer.join()
    source.close()

    assert seen == list(range(10))


@pytest.mark.slow
def test_a_broker_that_stays_away_ends_the_stream_after_its_patience(real_kafka, monkeypatch):
    if not isinstance(real_kafka, RealCluster):
        pytest.skip("needs a broker that may be killed")
    monkeypatch.setattr("fwonline.stream.kafka.reader.KafkaReader._maintenance_every", 0.5)
    with RealCluster() as cluster:
        cluster.create_topic("t")
        source = KafkaSource("t", cluster.bootstrap, patience=2)
        items = iter(source)
        timer = threading.Timer(1.0, cluster.kill_node, [0])
        timer.start()
        began = time.monotonic()
        with pytest.raises(SourceError, match=r"t: trouble with 127.0.0.1:\d+ for \d s"):
            next(items)
        assert time.monotonic() - began < 15
        timer.join()
