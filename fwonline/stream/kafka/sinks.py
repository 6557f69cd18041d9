"""Sinks that write to Kafka topics."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fwonline.exceptions import SourceError
from fwonline.stream.base import Sink
from fwonline.stream.kafka.client import Client, Deadline, close_quietly
from fwonline.stream.kafka.compat import errors
from fwonline.stream.kafka.transactions import KafkaTransaction, producer_defaults
from fwonline.stream.sinks import plain

__all__ = ["KafkaDeadLetterSink", "KafkaSink"]

# The origin of a message, as `KafkaSource` writes it.
_FROM_KAFKA = re.compile(r"(?P<topic>.+)\[(?P<partition>\d+)\]@(?P<offset>\d+)")


class KafkaSink(Sink):
    """Writes each record as a JSON message to a topic.

    What was written cannot be taken back, so a run that resumes from a checkpoint writes what followed it once more:
    readers drop repeats by the record's own fields (`origin`, `n`). `flush(durable=True)` returns when the brokers
    have acknowledged everything.

    Parameters
    ----------
    topic
        Where to write.
    bootstrap_servers
        `host:port` of one or several brokers, as a list or with commas between.
    key
        The field of a record that becomes the message's key: records with equal keys stay in order.
    client
        Further settings for kafka-python's producer by its own names, as in `KafkaSource`.
    timeout
        Seconds within which the brokers must acknowledge what is flushed.
    name
        The sink's name in messages; by default the topic.

    Raises
    ------
    SourceError
        When kafka-python is not installed; when no broker answers in time, it refuses this client, or messages could
        not be delivered.
    ValueError
        When a parameter cannot be what it is given as.

    Examples
    --------
    >>> from fwonline import stream
    >>> stream.KafkaSink("predictions", "localhost:9092", client={"compression_type": "zstd"})
    KafkaSink('predictions', 'localhost:9092', client=<compression_type>)
    """

    _FLUSH_TRY = 0.5  # seconds of one try to flush

    #: After so many records the sink waits for the acknowledgements, so that a slow broker cannot fill the memory.
    _most_unacknowledged = 10_000

    def __init__(
        self,
        topic: str,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        *,
        key: str = "key",
        client: Mapping[str, Any] | None = None,
        timeout: float = 30.0,
        name: str | None = None,
    ) -> None:
        self.topic = topic
        self.client = Client("KafkaProducer", bootstrap_servers, client)
        self.bootstrap_servers = self.client.addresses
        self.key = key
        self.timeout = timeout
        self.name = topic if name is None else name
        self._to_json = msgspec.json.Encoder(enc_hook=plain).encode
        self._producer: Any = None
        self._transaction: KafkaTransaction | None = None
        self._unacknowledged = 0
        self._failure: Exception | None = None
        self._deadline = Deadline()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.client.servers!r}, client={self.client})"

    def _message(self, record: dict[str, Any]) -> tuple[bytes | None, bytes, list[tuple[str, bytes]]]:
        """Return the key, the value and the headers of the record's message."""
        return self._as_key(record.get(self.key)), self._to_json(record), []

    def _as_key(self, key: Any) -> bytes | None:
        if key is None or isinstance(key, bytes):
            return key
        return key.encode() if isinstance(key, str) else self._to_json(key)

    def write(self, record: dict[str, Any]) -> None:
        if self._transaction is not None:
            if (producer := self._transaction.producer()) is None:
                return
            self._producer = producer
        elif self._producer is None:
            self._connect()
        key, value, headers = self._message(record)
        try:
            sent = self._producer.send(self.topic, value=value, key=key, headers=headers)
        except errors.KafkaError as error:
            self._fail(error)
            return
        sent.add_errback(self._record_failure)
        self._unacknowledged += 1
        if self._unacknowledged >= self._most_unacknowledged:
            self.flush(durable=True)

    def join(self, transaction: KafkaTransaction) -> None:
        """Write into this transaction from now on: what is written counts when it is committed."""
        self._transaction = transaction
        transaction.on_abort.append(self._reset)

    def set_deadline(self, seconds: float) -> None:
        self._deadline.set(seconds)

    def _reset(self) -> None:
        self._producer, self._failure, self._unacknowledged = None, None, 0

    def _connect(self) -> None:
        try:
            self._producer, _ = self.client.connect(
                self.timeout, self._deadline.check, defaults=producer_defaults(self.timeout), acks="all"
            )
        except TimeoutError as error:
            raise SourceError(f"{self.name}: {error}") from None

    def _record_failure(self, error: Exception) -> None:
        # Called by the client's thread. The first failure explains the others.
        self._failure = self._failure or error

    def _fail(self, error: Exception) -> None:
        if self._transaction is not None and self._transaction.tolerates(error):
            return  # nothing of it counts, which its commit will report
        raise SourceError(
            f"{self.name}: {self.client.servers} did not take what was written: {self.client.hide(error)}"
        ) from None

    def flush(self, *, durable: bool = False) -> None:
        """Raise the error of earlier records, if any; with `durable`, wait until the brokers have acknowledged all."""
        if durable and self._producer is not None:
            self._await_acknowledgements()
            self._unacknowledged = 0
        if self._failure is not None:
            self._fail(self._failure)

    def _await_acknowledgements(self) -> None:
        late: Exception = errors.KafkaTimeoutError("no time is left")
        for seconds in self._deadline.timeouts(self.timeout, self._FLUSH_TRY):
            try:
                self._producer.flush(seconds)
            except errors.KafkaTimeoutError as error:
                late = error
            except errors.KafkaError as error:
                late = error
                break
            else:
                return
        self._fail(late)

    def close(self, timeout: float | None = None) -> None:
        """Wait until the brokers have everything, for `timeout` seconds at most, and disconnect.

        Raises
        ------
        SourceError
            When something written before was not delivered.
        """
        producer = self._producer
        if producer is None or self._transaction is not None:  # which closes its producer itself
            return
        try:
            self.timeout = self.timeout if timeout is None else timeout
            self.flush(durable=True)
        finally:
            self._producer = None
            # What could not be sent is not waited for a second time.
            close_quietly(producer, timeout=0 if self._failure is not None else 1.0)


class KafkaDeadLetterSink(KafkaSink):
    """Writes rejected items to a topic as they came: the bytes are the message's value, untouched.

    The headers `origin` and `error` hold the place and what was wrong; for an item that came from Kafka, there are
    also `topic`, `partition` and `offset`. The item's own headers come before them. It writes what `Rejected.to_record`
    returns.

    Parameters
    ----------
    topic
        Where to write; by custom the source's topic with `.dlq` behind.
    bootstrap_servers, key, client, timeout, name
        As for `KafkaSink`.

    Examples
    --------
    >>> from fwonline.stream.kafka import KafkaDeadLetterSink
    >>> KafkaDeadLetterSink("clicks.dlq", "localhost:9092")
    KafkaDeadLetterSink('clicks.dlq', 'localhost:9092', client=<>)
    """

    def _message(self, record: dict[str, Any]) -> tuple[bytes | None, bytes, list[tuple[str, bytes]]]:
        raw = record.get("raw")
        value = raw.encode() if raw is not None else b64decode(record["raw_base64"])
        texts = {"origin": record["origin"], "error": record["error"]}
        if origin := _FROM_KAFKA.fullmatch(record["origin"]):
            texts |= origin.groupdict()
        headers = [(str(name), _as_bytes(content)) for name, content in record.get("headers", ())]
        headers += [(name, text.encode()) for name, text in texts.items()]
        return self._as_key(record.get(self.key)), value, headers


def _as_bytes(content: Any) -> bytes:
    return content if isinstance(content, bytes) else str(content).encode()
