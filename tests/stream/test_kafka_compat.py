"""What kafka-python does while a broker is away: it asks at a pace, and forgets nothing."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

pytest.importorskip("kafka")
from kafka.errors import KafkaConnectionError, RetriableError
from kafka.future import Future
from kafka.net.compat import KafkaNetClient

from fwonline.exceptions import SourceError
from fwonline.stream import KafkaSink, KafkaSource
from fwonline.stream.kafka import compat
from fwonline.stream.kafka.compat import kafka_python, network_client


def test_the_coordinator_is_looked_up_at_a_pace():
    asked = []

    def lookup():
        asked.append(time.monotonic())
        return Future().success("coordinator-1")

    coordinator = SimpleNamespace(lookup_coordinator=lookup, _find_coordinator_future=None)
    compat._pace_coordinator_lookup(SimpleNamespace(_coordinator=coordinator, config={"retry_backoff_ms": 50}))
    answers = [coordinator.lookup_coordinator() for _ in range(100)]
    assert len(asked) == 1
    assert answers[0].value == "coordinator-1"
    assert all(isinstance(answer.exception, RetriableError) for answer in answers[1:])
    time.sleep(0.06)
    assert coordinator.lookup_coordinator().value == "coordinator-1"
    assert len(asked) == 2


def test_who_asks_while_an_answer_is_under_way_waits_for_the_same():
    pending = Future()
    coordinator = SimpleNamespace(lookup_coordinator=lambda: pending, _find_coordinator_future=pending)
    compat._pace_coordinator_lookup(SimpleNamespace(_coordinator=coordinator, config={"retry_backoff_ms": 50}))
    assert [coordinator.lookup_coordinator() for _ in range(3)] == [pending] * 3


@pytest.mark.parametrize("version", ["3.0.11", "3.0.12", "3.0.99"])
def test_versions_that_were_read_are_used(version, monkeypatch):
    monkeypatch.setattr("kafka.__version__", version)
    assert kafka_python().__version__ == version


@pytest.mark.parametrize("version", ["2.0.2", "3.0.10", "3.1.0", "3.1.0rc1", "4.0.0"])
def test_versions_that_were_not_read_are_refused(version, monkeypatch):
    monkeypatch.setattr("kafka.__version__", version)
    with pytest.raises(SourceError, match=rf"3\.0\.11 or later, before 3\.1, found {version}: .*pip install"):
        KafkaSource("t")
    with pytest.raises(SourceError, match=rf"found {version}: .*pip install"):
        KafkaSink("t")


def a_client(delay):
    client = object.__new__(network_client())
    updates = []
    cluster = SimpleNamespace(request_update=lambda: updates.append("asked"))
    client._manager = SimpleNamespace(connection_delay=lambda node: delay, cluster=cluster)
    return client, updates


def test_a_producer_waits_for_a_leader_that_is_away_and_asks_who_leads_now():
    client, updates = a_client(delay=0.03)
    assert client.connection_delay(1) == pytest.approx(30.0)  # which the producer takes for milliseconds
    assert updates == ["asked"]
    client, updates = a_client(delay=20.0)
    assert client.connection_delay(1) == 1000 * compat._POLL_INTERVAL  # another node may lead by then
    client, updates = a_client(delay=0)
    assert (client.connection_delay(1), updates) == (0, [])


def test_a_coordinator_that_cannot_be_reached_is_not_there_yet(monkeypatch):
    def refuse(self, node_id, timeout_ms=0):
        raise KafkaConnectionError("refused")

    client, _ = a_client(delay=0)
    monkeypatch.setattr(KafkaNetClient, "await_ready", refuse)
    assert client.await_ready("coordinator-1", timeout_ms=5) is False
    monkeypatch.setattr(KafkaNetClient, "await_ready", lambda self, node_id, timeout_ms=0: True)
    assert client.await_ready("coordinator-1", timeout_ms=5) is True


@pytest.mark.kafka
def test_the_consumers_of_this_kafka_python_are_paced(kafka):
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap, group_id="paced", **kafka.consumer)
    try:
        before = consumer._coordinator.lookup_coordinator
        compat._pace_coordinator_lookup(consumer)
        assert consumer._coordinator.lookup_coordinator is not before
        assert consumer.config["retry_backoff_ms"] > 0
        assert hasattr(consumer._coordinator, "_find_coordinator_future")
    finally:
        consumer.close()
