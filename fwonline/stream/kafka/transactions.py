"""What a worker writes and where its group stands, in one transaction."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from fwonline.exceptions import SourceError
from fwonline.stream.kafka.client import ClientSettings, connect, kafka_python
from fwonline.stream.shared import NotOurs

__all__ = ["KafkaTransaction"]

# A worker that dies leaves its transaction open for so long, and readers of what is committed wait for its end.
_TIMEOUT_MS = 10_000


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
    """

    def __init__(self, bootstrap_servers: Sequence[str], name: str, client: ClientSettings, timeout: float) -> None:
        self.bootstrap_servers = list(bootstrap_servers)
        self.name = name
        self.client = client
        self.timeout = timeout
        self.on_abort: list[Callable[[], None]] = []
        self._producer: Any = None
        self._has_begun = False
        self._is_over = False  # the brokers have ended it

    def producer(self) -> Any:
        """The producer, inside a transaction.

        Raises
        ------
        SourceError
            When no broker answers in time.
        """
        from kafka.errors import KafkaError

        try:
            if self._producer is None:
                self._connect()
            if not self._has_begun:
                self._producer.begin_transaction()
                self._has_begun = True
        except (KafkaError, TimeoutError) as error:
            self._discard()
            raise SourceError(f"{self.name}: no transaction could be begun: {self.client.hide(error)}") from None
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
            defaults={
                "linger_ms": 5,
                "max_block_ms": milliseconds,
                "request_timeout_ms": max(1, milliseconds // 2),
                "delivery_timeout_ms": milliseconds,
                "transaction_timeout_ms": _TIMEOUT_MS,
            },
        )
        self._producer.init_transactions()

    def flush(self, timeout: float) -> None:
        """Wait until the brokers have what was sent."""
        if self._producer is not None:
            self._producer.flush(timeout)

    def has_ended(self, error: Exception) -> bool:
        """Whether what a producer met with says that the brokers have ended the transaction.

        They do that to one that takes too long, as when its worker was frozen. What is written then does not count, and
        the commit is refused.
        """
        from kafka import errors

        ended = (
            errors.InvalidProducerEpochError,
            errors.InvalidProducerIdMappingError,
            errors.InvalidTxnStateError,
            errors.ProducerFencedError,
            errors.TransactionAbortedError,
            errors.UnknownProducerIdError,
        )
        self._is_over = self._is_over or any(isinstance(cause, ended) for cause in (error, *error.args))
        return self._is_over

    def commit(self, offsets: dict[Any, Any], membership: Any) -> None:
        """End the transaction with the group's offsets in it.

        Raises
        ------
        NotOurs
            When the membership is no longer the present one, or nobody can say how the transaction ended: the group's
            offsets then say what counts.
        """
        from kafka.errors import KafkaError

        if self._is_over:
            self.abort()
            raise NotOurs
        producer = self.producer()
        try:
            producer.send_offsets_to_transaction(offsets, membership)
            producer.commit_transaction()
            self._has_begun = False
        except KafkaError:
            self.abort()
            raise NotOurs from None

    def abort(self) -> None:
        """Take back what was written since the last commit."""
        from kafka.errors import KafkaError

        if not self._has_begun:
            return
        self._has_begun = self._is_over = False
        try:
            self._producer.abort_transaction()
        except KafkaError:  # fenced, or the brokers are away: they end it when its time is up
            self._discard()
        for forget in self.on_abort:
            forget()

    def _discard(self) -> None:
        from kafka.errors import KafkaError

        producer, self._producer, self._has_begun = self._producer, None, False
        if producer is not None:
            with contextlib.suppress(KafkaError):
                producer.close(timeout=0)

    def close(self) -> None:
        """Take back what was not committed, and disconnect."""
        self.abort()
        self._discard()
