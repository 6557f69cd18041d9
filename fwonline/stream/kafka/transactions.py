"""What a worker writes and where its group stands, in one transaction."""

from __future__ import annotations

import contextlib
import math
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from fwonline.exceptions import SourceError
from fwonline.stream.group import PartitionsLost
from fwonline.stream.kafka.client import ClientSettings, Deadline, connect, kafka_python

__all__ = ["KafkaTransaction"]

# A worker that dies leaves its transaction open for so long, and readers of what is committed wait for its end.
_TIMEOUT_MS = 10_000
_ONE_TROUBLE = 60.0  # failures that follow one another within this time are one trouble
_SLICE = 0.1  # between two looks whether there is time left


class KafkaTransaction:
    """The producer that all sinks of a worker share, and its transaction.

    It begins with the first message and ends with the group's commit, which is a part of it (KIP-447): the coordinator
    refuses it where the membership is no longer the present one, and then nothing of the transaction ever counts.

    Parameters
    ----------
    bootstrap_servers
        Where.
    name
        The group's name; each worker adds something of its own.
    client
        The sinks' settings for kafka-python's producer.
    timeout
        Seconds within which the brokers must answer.
    endurance
        Seconds for which transactions may fail, one after another, before that is an error.
    """

    def __init__(
        self, bootstrap_servers: Sequence[str], name: str, client: ClientSettings, timeout: float, endurance: float
    ) -> None:
        self.bootstrap_servers = list(bootstrap_servers)
        self.name = name
        self.client = client
        self.timeout = timeout
        self.endurance = endurance
        self.on_abort: list[Callable[[], None]] = []
        self._producer: Any = None
        self._has_begun = False
        self._is_over = False  # it has failed, and its commit will say so
        self._failing_since = self._failed_last = -math.inf
        self.deadline = Deadline()

    def producer(self) -> Any:
        """The producer, inside a transaction; None where that has failed, so that what is written counts for nothing.

        Raises
        ------
        SourceError
            When no transaction could be begun for too long.
        """
        from kafka.errors import KafkaError

        if self._is_over:
            return None
        try:
            if self._producer is None:
                self._connect()
            if not self._has_begun:
                self._producer.begin_transaction()
                self._has_begun = True
        except (KafkaError, TimeoutError) as error:
            self._discard()
            if not self.survives(error):
                raise SourceError(f"{self.name}: no transaction could be begun: {self.client.hide(error)}") from None
            return None
        return self._producer

    def _connect(self) -> None:
        milliseconds = int(1000 * self.timeout)
        self._producer, _ = connect(
            kafka_python().KafkaProducer,
            {
                "bootstrap_servers": self.bootstrap_servers,
                "acks": "all",
                "transactional_id": f"{self.name}-{uuid.uuid4()}",
            },
            self.client,
            seconds=self.timeout,
            keep_on=self.deadline.check,
            defaults={
                "linger_ms": 5,
                "max_block_ms": milliseconds,
                "request_timeout_ms": max(1, milliseconds // 2),
                "delivery_timeout_ms": milliseconds,
                "transaction_timeout_ms": _TIMEOUT_MS,
            },
        )
        self._within_time(self._producer.init_transactions)

    def _within_time(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call, and raise TimeoutError when it takes too long: some of kafka-python's calls wait without an end."""
        outcome: list[BaseException | None] = []

        def run() -> None:
            try:
                call(*arguments)
            except BaseException as error:
                outcome.append(error)
            else:
                outcome.append(None)

        caller = threading.Thread(target=run, daemon=True)
        caller.start()
        for seconds in self.deadline.timeouts(self.timeout, _SLICE):
            caller.join(seconds)
            if outcome:
                break
        else:
            raise TimeoutError(f"no answer from {','.join(self.bootstrap_servers)}")
        if outcome[0] is not None:
            raise outcome[0]

    def survives(self, error: Exception) -> bool:
        """Whether what a producer met with is the end of this transaction and no more; its commit will be refused.

        Brokers end a transaction that takes too long, as when its worker was frozen; and they may be away for a while.
        """
        from kafka import errors

        passing = (
            TimeoutError,
            errors.RetriableError,
            errors.IllegalStateError,  # kafka-python's producer knows before us that its transaction is no more
            errors.InvalidProducerEpochError,
            errors.InvalidProducerIdMappingError,
            errors.InvalidTxnStateError,
            errors.ProducerFencedError,
            errors.TransactionAbortedError,
            errors.UnknownProducerIdError,
        )
        self._is_over = any(isinstance(cause, passing) for cause in (error, *error.args))
        return self._is_over and self._endures()

    def _endures(self) -> bool:
        now = time.monotonic()
        if now - self._failed_last > _ONE_TROUBLE:
            self._failing_since = now
        self._failed_last = now
        return now - self._failing_since <= self.endurance

    def commit(self, offsets: dict[Any, Any], membership: Any) -> None:
        """End the transaction with the group's offsets in it.

        Raises
        ------
        PartitionsLost
            When the membership is no longer the present one, or nobody can say how the transaction ended: the group's
            offsets then say what counts.
        SourceError
            When that has been so for too long.
        """
        from kafka.errors import KafkaError

        producer = self.producer()
        if producer is None:
            self.abort()
            raise PartitionsLost
        try:
            self._within_time(producer.send_offsets_to_transaction, offsets, membership)
            self._within_time(producer.commit_transaction)
            self._has_begun = False
            self._failed_last = -math.inf
        except (KafkaError, TimeoutError) as error:
            if isinstance(error, TimeoutError):  # who is not there to commit cannot be told to abort
                self._discard()
            self.abort()
            if not self._endures():
                raise SourceError(f"{self.name}: no transaction could be ended: {self.client.hide(error)}") from None
            raise PartitionsLost from None

    def abort(self) -> None:
        """Take back what was written since the last commit."""
        from kafka.errors import KafkaError

        has_begun, self._has_begun, self._is_over = self._has_begun, False, False
        if not has_begun:
            return
        try:
            self._within_time(self._producer.abort_transaction)
        except (KafkaError, TimeoutError):  # fenced, or the brokers are away: they end it when its time is up
            self._discard()
        else:
            self._tell_sinks()

    def _tell_sinks(self) -> None:
        for forget in self.on_abort:
            forget()

    def _discard(self) -> None:
        from kafka.errors import KafkaError

        producer, self._producer, self._has_begun, self._is_over = self._producer, None, False, False
        if producer is not None:
            with contextlib.suppress(KafkaError):
                producer.close(timeout=0)
        self._tell_sinks()

    def close(self) -> None:
        """Take back what was not committed, and disconnect."""
        self.abort()
        self._discard()
