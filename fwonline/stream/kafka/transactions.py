"""What a worker writes and its group's committed offsets, in one transaction."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

from fwonline.exceptions import SourceError
from fwonline.stream.group import PartitionsLost
from fwonline.stream.kafka.client import Client, Deadline, Failures, close_quietly
from fwonline.stream.kafka.compat import errors

__all__ = ["KafkaTransaction", "producer_defaults"]

# A worker that dies leaves its transaction open for so long, and readers of what is committed wait for its end.
_TIMEOUT_MS = 10_000
_TRY = 0.1  # seconds between two looks whether there is time left


def producer_defaults(timeout: float) -> dict[str, Any]:
    """Return settings with which a producer reports within `timeout` seconds what was not delivered."""
    milliseconds = int(1000 * timeout)
    return {
        "linger_ms": 5,
        "max_block_ms": milliseconds,
        "request_timeout_ms": max(1, milliseconds // 2),
        "delivery_timeout_ms": milliseconds,
    }


class KafkaTransaction:
    """The producer that all sinks of a worker share, and its transaction.

    It begins with the first message and ends with the group's commit, which is a part of it (KIP-447): the coordinator
    refuses the commit of an older generation, and then nothing of the transaction ever counts.

    The group's name begins the transactional ids of its workers. Brokers must answer within `timeout` seconds, and
    transactions may fail one after another for `patience` seconds.
    """

    def __init__(self, client: Client, group: str, timeout: float, patience: float) -> None:
        self.group = group
        self.client = client
        self.timeout = timeout
        self.patience = patience
        self.deadline = Deadline()
        self.on_abort: list[Callable[[], None]] = []
        self._producer: Any = None
        self._has_begun = False
        self._has_failed = False  # which its commit will report
        self._failures = Failures(gap=60.0)

    def producer(self) -> Any:
        """Return the producer, in a transaction; None if that has failed, so that nothing written counts.

        Raises SourceError when no transaction could be begun for too long.
        """
        if self._has_failed:
            return None
        try:
            if self._producer is None:
                self._connect()
            if not self._has_begun:
                self._producer.begin_transaction()
                self._has_begun = True
        except (errors.KafkaError, TimeoutError) as error:
            self._discard()
            if not self.tolerates(error):
                raise SourceError(f"{self.group}: no transaction could be begun: {self.client.hide(error)}") from None
            return None
        return self._producer

    def _connect(self) -> None:
        self._producer, _ = self.client.connect(
            self.timeout,
            self.deadline.check,
            defaults=producer_defaults(self.timeout) | {"transaction_timeout_ms": _TIMEOUT_MS},
            acks="all",
            transactional_id=f"{self.group}-{uuid.uuid4()}",
        )
        self._within_time(self._producer.init_transactions)

    def _within_time(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call, and raise TimeoutError when it takes too long: some of kafka-python's calls wait for ever."""
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
        for seconds in self.deadline.timeouts(self.timeout, _TRY):
            caller.join(seconds)
            if outcome:
                break
        else:
            raise TimeoutError(f"no answer from {self.client.servers}")
        if outcome[0] is not None:
            raise outcome[0]

    def tolerates(self, error: Exception) -> bool:
        """Whether a producer's error ends this transaction only; its commit will then be refused.

        Brokers end a transaction that takes too long, as when its worker was frozen; and they may be away for a while.
        """
        temporary = (
            TimeoutError,
            errors.RetriableError,
            errors.IllegalStateError,  # kafka-python's producer knows before us that its transaction has ended
            errors.InvalidProducerEpochError,
            errors.InvalidProducerIdMappingError,
            errors.InvalidTxnStateError,
            errors.ProducerFencedError,
            errors.TransactionAbortedError,
            errors.UnknownProducerIdError,
        )
        self._has_failed = any(isinstance(cause, temporary) for cause in (error, *error.args))
        return self._has_failed and self._failures.add() <= self.patience

    def commit(self, offsets: dict[Any, Any], member: Any) -> None:
        """End the transaction with the group's offsets in it.

        Raises PartitionsLost when the member is not of the present generation, or it is unknown how the transaction
        ended: the committed offsets then decide. Raises SourceError when that has been so for too long.
        """
        producer = self.producer()
        if producer is None:
            self.abort()
            raise PartitionsLost
        try:
            self._within_time(producer.send_offsets_to_transaction, offsets, member)
            self._within_time(producer.commit_transaction)
            self._has_begun = False
            self._failures.end()
        except (errors.KafkaError, TimeoutError) as error:
            if isinstance(error, TimeoutError):  # brokers that do not answer cannot be told to abort
                self._discard()
            self.abort()
            if self._failures.add() > self.patience:
                raise SourceError(f"{self.group}: no transaction could be ended: {self.client.hide(error)}") from None
            raise PartitionsLost from None

    def abort(self) -> None:
        """Take back what was written since the last commit."""
        has_begun, self._has_begun, self._has_failed = self._has_begun, False, False
        if not has_begun:
            return
        try:
            self._within_time(self._producer.abort_transaction)
        except (errors.KafkaError, TimeoutError):  # fenced, or the brokers are away: they abort it after its timeout
            self._discard()
        else:
            self._notify_sinks()

    def _notify_sinks(self) -> None:
        for callback in self.on_abort:
            callback()

    def _discard(self) -> None:
        producer, self._producer, self._has_begun, self._has_failed = self._producer, None, False, False
        close_quietly(producer, timeout=0)
        self._notify_sinks()

    def close(self) -> None:
        """Take back what was not committed, and disconnect."""
        self.abort()
        self._discard()
