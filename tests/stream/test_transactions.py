"""A transaction that fails is given up, and whose brokers say nothing is not waited for without an end."""

from __future__ import annotations

import threading
import time

import pytest

pytest.importorskip("kafka")
from kafka.errors import IllegalStateError, KafkaTimeoutError, MessageSizeTooLargeError

from fwonline.exceptions import SourceError
from fwonline.stream.group import PartitionsLost
from fwonline.stream.kafka import client
from fwonline.stream.kafka.client import Client
from fwonline.stream.kafka.transactions import KafkaTransaction


class Producer:
    """A producer whose calls return, raise or block as `answers` say."""

    def __init__(self, **answers):
        self.answers = answers
        self.calls = []

    def __getattr__(self, name):
        def call(*arguments, **options):
            self.calls.append(name)
            answer = self.answers.get(name)
            if answer == "silence":
                threading.Event().wait(5)
            elif answer is not None:
                raise answer

        return call


@pytest.fixture
def begun(monkeypatch):
    """A transaction that has begun, on a producer of ours, and what its sinks were told."""

    def begin(**answers):
        client = Client("KafkaProducer", "127.0.0.1:1", {})
        transaction = KafkaTransaction(client, "g", timeout=0.3, patience=100.0)
        told = []
        transaction.on_abort.append(lambda: told.append("forget"))
        monkeypatch.setattr(transaction, "_connect", lambda: setattr(transaction, "_producer", Producer(**answers)))
        assert transaction.producer() is not None
        return transaction, told

    return begin


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

    monkeypatch.setattr(client.time, "monotonic", lambda: Clock.now)
    return Clock


def test_a_commit_that_nobody_answers_is_given_up(begun):
    transaction, told = begun(commit_transaction="silence")
    first = transaction.producer()
    with pytest.raises(PartitionsLost):
        transaction.commit({}, None)
    assert first.calls == ["begin_transaction", "send_offsets_to_transaction", "commit_transaction", "close"]
    assert told == ["forget"]
    assert transaction.producer() is not first  # the next one is of another transaction


def test_a_commit_that_is_refused_is_taken_back(begun):
    transaction, told = begun(send_offsets_to_transaction=IllegalStateError())
    with pytest.raises(PartitionsLost):
        transaction.commit({}, None)
    assert transaction.producer().calls[:3] == ["begin_transaction", "send_offsets_to_transaction", "abort_transaction"]
    assert told == ["forget"]


def test_what_is_written_after_a_failure_counts_for_nothing(begun):
    transaction, told = begun()
    assert transaction.tolerates(KafkaTimeoutError("away"))
    assert transaction.producer() is None
    with pytest.raises(PartitionsLost):
        transaction.commit({}, None)
    assert told == ["forget"]
    assert transaction.producer() is not None
    assert not transaction.tolerates(MessageSizeTooLargeError())  # which no other transaction would take either


def test_failures_in_a_row_end_after_a_while_and_others_do_not(begun, clock):
    transaction, _ = begun()
    for _ in range(3):
        assert transaction.tolerates(IllegalStateError())
        clock.now += 45.0
    assert not transaction.tolerates(IllegalStateError())
    clock.now += 1000.0  # long past: another trouble
    assert transaction.tolerates(IllegalStateError())


def test_a_trouble_without_an_end_is_an_error(begun, clock):
    transaction, _ = begun(send_offsets_to_transaction=IllegalStateError())
    for _ in range(3):
        with pytest.raises(PartitionsLost):
            transaction.commit({}, None)
        clock.now += 45.0
    with pytest.raises(SourceError, match="g: no transaction could be ended"):
        transaction.commit({}, None)


def test_a_deadline_ends_the_wait(begun):
    transaction, _ = begun(commit_transaction="silence", abort_transaction="silence")
    transaction.timeout = 60.0
    transaction.deadline.set(0.2)
    began = time.monotonic()
    with pytest.raises(PartitionsLost):
        transaction.commit({}, None)
    assert time.monotonic() - began < 4.0  # the silence is of five seconds
