"""What every reader of Kafka shares: messages to samples, offsets that are checked, brokers that come and go."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from fwonline.exceptions import SourceError
from fwonline.stream.base import Rejected, Sample
from fwonline.stream.kafka.client import ClientSettings, addresses, connect, kafka_python, wait_for
from fwonline.stream.kafka.compat import look_up_calmly
from fwonline.stream.kafka.identity import KnownTopics, messages_at
from fwonline.stream.kafka.unpacking import unpack_quickly
from fwonline.stream.records import RecordLayout, listed

__all__ = ["Closed", "KafkaReader", "one_of", "partition_name"]

SLICE = 0.2  # the longest wait for messages before the source looks whether it was closed
RECONNECT = 2.0  # how long one attempt to come back may take; patience decides how many there are
_ONE_TROUBLE = 10.0  # failures that follow one another within this time are one trouble, which patience ends
_TRIES = 3  # failures in a row after which the client is built anew, since some of kafka-python's never heal
_CONFIRM_AGAIN = 0.5  # after which time a topic may be another one; brokers are asked ten times a second at the most
_CONFIRM = 1.0  # how long the brokers may take to say that a topic is still the one it was
_TOPIC_APPEARS = 1.0  # how long a topic created a moment ago may be unknown to the broker that is asked


class Closed(Exception):
    """The stream was closed while it waited."""


class KafkaReader:
    """The parts of a source that do not depend on who decides which partitions it reads.

    Its parameters are those of `KafkaSource`, which says what they mean.
    """

    name: str
    _cure = "To learn it from its beginning, start over"  # where a topic is not the one it was

    def __init__(
        self,
        topics: str | Sequence[str],
        bootstrap_servers: str | Sequence[str],
        layout: RecordLayout,
        *,
        decode: Callable[[bytes, tuple], dict] | str | None,
        gaps: str,
        client: Mapping[str, Any] | None,
        timeout: float,
        patience: float,
        name: str | None,
    ) -> None:
        self.topics = (topics,) if isinstance(topics, str) else tuple(topics)
        if not self.topics:
            raise ValueError("topics: expected at least one")
        self.bootstrap_servers = addresses(bootstrap_servers)
        self.layout = layout
        self.gaps = one_of("gaps", gaps, "error", "allow")
        self.timeout = timeout
        self.patience = patience
        self.name = ",".join(self.topics) if name is None else name
        self.n_tombstones = 0
        self._is_own_decode = callable(decode)
        self._expected, self._decode = (
            ("", decode) if callable(decode) else _FORMATS[one_of("decode", decode or "json", *_FORMATS)]
        )
        self._kafka = kafka_python()
        self.client = ClientSettings(client, self._kafka.KafkaConsumer.DEFAULT_CONFIG)

        self._offsets: dict[Any, int] = {}  # partition to the offset due next
        self._ends: dict[Any, int] = {}  # as last heard of
        self._latest: Any = None  # the message yielded last
        self._known = KnownTopics(gaps, self._cure)
        self._confirmed = -math.inf  # when the topics were last known to be the same
        self._consumer: Any = None
        self._cluster: Any = None
        self._closed = False
        self._heard = self._chores_done = 0.0
        self._first_failure = self._last_failure = -math.inf
        self._failures = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {','.join(self.bootstrap_servers)!r}, client={self.client})"

    # -- from messages to items

    def _items_of(self, tp: Any, records: list[Any], stop: float = math.inf) -> Iterator[Sample | Rejected]:
        """Yield what is in the messages of one partition, up to the offset `stop`; the offset due goes with them."""
        offsets, item = self._offsets, self._item
        self._known.begin(tp, records)
        for record in records:
            offset = record.offset
            if self._closed or offset >= stop:
                return
            if offset != offsets[tp]:
                self._check_offset(tp, offset)
            offsets[tp] = offset + 1
            if record.value is None:
                self.n_tombstones += 1
            else:
                self._latest = record
                yield item(record)
        self._known.end(tp, records)

    def raw(self, origin: str) -> bytes | None:
        record = self._latest
        return None if record is None or origin != f"{partition_name(record)}@{record.offset}" else record.value

    def _item(self, record: Any) -> Sample | Rejected:
        origin = f"{record.topic}[{record.partition}]@{record.offset}"
        headers = tuple(record.headers) if record.headers else ()
        key = None if record.key is None else _as_text(record.key)
        try:
            fields = self._decode(record.value, headers)
        except Exception as error:  # whatever a user's function may raise: one bad message is not the stream's end
            why = f"`decode` failed: {error!r}" if self._is_own_decode else f"expected {self._expected}: {error}"
            return Rejected(record.value, f"{origin}: {why}", origin, key, headers)
        if type(fields) is not dict:  # only a user's function may answer with something else
            why = f"expected a dict of fields from `decode`, found {type(fields).__name__}"
            return Rejected(record.value, f"{origin}: {why}", origin, key, headers)
        time = record.timestamp / 1000 if record.timestamp >= 0 else None
        return self.layout.sample(fields, record.value, origin, key, time, headers)

    def _check_offset(self, tp: Any, offset: int) -> None:
        due = self._offsets[tp]
        place = partition_name(tp)
        if offset < due:
            raise SourceError(f"{place}@{offset}: came again: {due} was due")
        if self.gaps == "error":
            raise SourceError(
                f"{place}: expected offset {due}, found {offset}: {offset - due} missing. In compacted topics and in "
                "those written by transactions that is normal, and gaps='allow' reads them"
            )

    # -- brokers that come and go

    def _bear(self, error: Exception) -> None:
        """Live with a failure, unless failures have followed one another for too long."""
        now = clock.monotonic()
        if now - self._last_failure > _ONE_TROUBLE:
            self._first_failure, self._failures = now, 0
        self._last_failure = now
        if now - self._first_failure > self.patience:
            raise SourceError(
                f"{self.name}: trouble with {','.join(self.bootstrap_servers)} for {now - self._first_failure:.0f} s: "
                f"{self.client.hide(error)}"
            ) from None
        self._failures += 1
        if self._failures % _TRIES == 0:
            self._disconnect()
        clock.sleep(SLICE / 4)

    def _stop_if_closed(self) -> None:
        if self._closed:
            raise Closed

    def _open(self, seconds: float, **options: Any) -> float:
        """Build a consumer that knows its topics; return until when the rest of the beginning may take.

        Raises
        ------
        TimeoutError
            When no broker answered in time.

        """
        deadline = clock.monotonic() + seconds
        self._consumer, self._cluster = connect(
            self._kafka.KafkaConsumer,
            {
                "bootstrap_servers": self.bootstrap_servers,
                "enable_auto_commit": False,
                "auto_offset_reset": "none",  # to go on elsewhere would lose or double messages without a word
                **options,
            },
            self.client,
            seconds=seconds,
            keep_on=self._stop_if_closed,
            # A misspelt topic is an error, not a new topic; new partitions are found within this time.
            defaults={"allow_auto_create_topics": False, "metadata_max_age_ms": 30_000},
        )
        unpack_quickly(self._consumer)
        look_up_calmly(self._consumer)
        self._await_topics(deadline)
        return max(deadline, clock.monotonic() + 1.0)

    def _await_topics(self, deadline: float) -> None:
        appears = min(deadline, clock.monotonic() + _TOPIC_APPEARS)
        wait_for(self._cluster.set_topics(self.topics), self._all_topics_known, deadline, self._stop_if_closed)
        while not self._all_topics_known() and clock.monotonic() < appears:
            wait_for(self._cluster.request_update(), self._all_topics_known, appears, self._stop_if_closed)
        if unknown := [topic for topic in self.topics if not self._cluster.partitions_for_topic(topic)]:
            raise self._missing(f"{','.join(self.bootstrap_servers)} has no topic {listed(unknown)}")

    def _all_topics_known(self) -> bool:
        return all(self._cluster.partitions_for_topic(topic) for topic in self.topics)

    def _all_partitions(self) -> list[Any]:
        """Return the partitions of all topics, as the brokers last told them."""
        return [
            self._kafka.TopicPartition(topic, partition)
            for topic in self.topics
            for partition in sorted(self._cluster.partitions_for_topic(topic) or ())
        ]

    def _missing(self, what: str) -> Exception:
        # Brokers that come back from a fall may need a while to know again what they have.
        return TimeoutError(what) if self._heard else SourceError(what)

    def _ask(self, question: Callable[..., dict], partitions: list[Any], deadline: float) -> dict[Any, int]:
        from kafka.errors import RetriableError

        while True:
            self._stop_if_closed()
            try:
                return question(partitions, timeout_ms=1000)
            except RetriableError as error:
                if clock.monotonic() > deadline:
                    raise TimeoutError(f"no answer from {','.join(self.bootstrap_servers)}: {error}") from None

    def _refused(self, error: Exception) -> SourceError | None:
        """Return what to raise for an error that no patience heals, else None."""
        from kafka.errors import AuthorizationError, LogTruncationError, OffsetOutOfRangeError, UnsupportedCodecError

        if isinstance(error, (OffsetOutOfRangeError, LogTruncationError)):
            return SourceError(
                f"{self.name}: a message that is due is not on the broker, deleted before it was read or lost: {error}"
            )
        if isinstance(error, AuthorizationError):
            return SourceError(f"{self.name}: not allowed: {self.client.hide(error)}")
        if isinstance(error, UnsupportedCodecError):
            return SourceError(f'{self.name}: {error}: pip install "fwonline[kafka]" brings every codec')
        return None

    def _check_due(self, tp: Any, due: int, begin: int, end: int) -> None:
        if not begin <= due <= end:
            raise SourceError(
                f"{partition_name(tp)}: offset {due} is due, and the broker has {begin} to {end}: "
                + ("those before were deleted unread" if due < begin else "this is not the topic it was")
            )

    def _recognise(self, ids: Mapping[str, str], begins: Mapping[Any, int]) -> None:
        """Make sure that partitions, which begin where `begins` says, are of the topics that were read before.

        `ids` are those of the topics, as far as they were known.

        Raises
        ------
        SourceError
            When they are of others of the same name.
        TimeoutError
            When no broker answered in time.

        """
        self._known.check_ids(self._cluster, ids)
        if places := self._known.doubtful(self._cluster, ids, begins):
            found = messages_at(
                self.bootstrap_servers, self.client, places, seconds=self.timeout, keep_on=self._stop_if_closed
            )
            self._known.compare(found)

    def _confirm(self, seconds: float = _CONFIRM) -> None:
        """Make sure, before what was read counts, that it was read of the topics that were read before.

        Messages are asked for by the topic's name. What its id is now, the brokers say: if it is what it was, what came
        until now came from that topic. Where they say nothing in time, the next time decides.

        Raises
        ------
        SourceError
            When a topic is another one of the same name.

        """
        now = clock.monotonic()
        if self._consumer is None or not self._known.ids or now - self._confirmed < _CONFIRM_AGAIN:
            return
        told = self._cluster.request_update()
        wait_for(told, lambda: told.is_done, now + seconds, lambda: None)
        self._known.check(self._cluster)
        self._confirmed = now

    def _disconnect(self) -> None:
        raise NotImplementedError("each kind of reader lets go of its consumer in its own way")


_Fields = dict[str, Any]
_json_fields = msgspec.json.Decoder(_Fields).decode
_msgpack_fields = msgspec.msgpack.Decoder(_Fields).decode


def _decode_json(value: bytes, headers: tuple) -> dict[str, Any]:
    return _json_fields(value)


def _decode_msgpack(value: bytes, headers: tuple) -> dict[str, Any]:
    return _msgpack_fields(value)


#: The formats that a name chooses: what a message should have been, and its reader.
_FORMATS: dict[str, tuple[str, Callable[[bytes, tuple], dict]]] = {
    "json": ("a JSON object", _decode_json),
    "msgpack": ("a MessagePack map", _decode_msgpack),
}


def _as_text(key: bytes) -> str | bytes:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key


def partition_name(tp: Any) -> str:
    """Return `topic[0]`."""
    return f"{tp.topic}[{tp.partition}]"


def one_of(parameter: str, value: str, *known: str) -> str:
    """Return `value`, which must be one of the known words."""
    if value not in known:
        raise ValueError(f"{parameter}: expected one of {listed(known)}; found {value!r}")
    return value
