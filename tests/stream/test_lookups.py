"""Who looks for a group's coordinator asks at a pace, whatever the answer."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

pytest.importorskip("kafka")
from kafka.errors import RetriableError
from kafka.future import Future

from fwonline.stream.kafka.lookups import look_up_calmly


def test_the_coordinator_is_looked_up_once_in_a_while():
    asked = []

    def lookup():
        asked.append(time.monotonic())
        return Future().success("coordinator-1")

    coordinator = SimpleNamespace(lookup_coordinator=lookup, _find_coordinator_future=None)
    look_up_calmly(SimpleNamespace(_coordinator=coordinator, config={"retry_backoff_ms": 50}))
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
    look_up_calmly(SimpleNamespace(_coordinator=coordinator, config={"retry_backoff_ms": 50}))
    assert [coordinator.lookup_coordinator() for _ in range(3)] == [pending] * 3


def test_a_consumer_of_another_build_is_left_as_it_is():
    consumer = SimpleNamespace(config={})
    look_up_calmly(consumer)
    assert vars(consumer) == {"config": {}}


@pytest.mark.kafka
def test_the_consumers_of_this_kafka_python_are_calmed(kafka):
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap, group_id="calm", **kafka.consumer)
    try:
        before = consumer._coordinator.lookup_coordinator
        look_up_calmly(consumer)
        assert consumer._coordinator.lookup_coordinator is not before
        assert consumer.config["retry_backoff_ms"] > 0
        assert hasattr(consumer._coordinator, "_find_coordinator_future")
    finally:
        consumer.close()
