"""What every reader of Kafka shares: messages to samples, checked offsets, brokers that fail and return."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from fwonline._install import how_to_install
from fwonline.exceptions import SourceError
from fwonline.stream.base import Rejected, Sample
from fwonline.stream.kafka.batch import Batch, as_text
from fwonline.stream.kafka.client import Client, Failures
from fwonline.stream.kafka.compat import errors, kafka_python, patch_consumer
from fwonline.stream.kafka.identity import TopicIdentity, messages_at, partition_name
from fwonline.stream.records import RecordLayout, listed

__all__ = ["POLL", "RECONNECT", "Closed", "KafkaReader", "ReaderOptions", "one_of"]

# Seconds.
POLL = 0.2  # the longest wait for messages before the source looks whether it was closed
RECONNECT = 2.0  # one attempt to reconnect; `patience` decides how many there are
_CONFIRM_EVERY = 0.5  # between two checks of the topics' ids
_CONFIRM = 1.0  # one such check
_TOPIC_APPEARS = 1.0  # how long brokers may not know a topic that was created a moment ago
# Failures in a row after which the client is replaced: some of kafka-python's never recover.
_TRIES = 3


class Closed(Exception):
    """The stream was closed while it waited."""


class ReaderOptions(NamedTuple):
    """The parameters of `KafkaSource` that all readers share."""

    decode: Callable[[bytes, tuple], dict] | str | None
    gaps: str
    client: Mapping[str, Any] | None
    timeout: float
    patience: float
    name: str | None


class KafkaReader:
    """The parts of a source that do not depend on who assigns its partitions.

    Its parameters are described at `KafkaSource`.
    """

    name: str
    #: Seconds between two looks at new partitions, the group's offsets, whether a quiet broker is alive.
    _maintenance_every = 5.0
    _remedy: str  # what to do about a topic that is another one of the same name

    def __init__(
        self,
        topics: str | Sequence[str],
        bootstrap_servers: str | Sequence[str],
        layout: RecordLayout,
        options: ReaderOptions,
    ) -> None:
        self.topics = (topics,) if isinstance(topics, str) else tuple(topics)
        if not self.topics:
            raise ValueError("topics: expected at least one")
        self.client = Client("KafkaConsumer", bootstrap_servers, options.client)
        self.bootstrap_servers = self.client.addresses
        self.layout = layout
        self.gaps = one_of("gaps", options.gaps, "error", "allow")
        self.timeout = options.timeout
        self.patience = options.patience
        self.name = ",".join(self.topics) if options.name is None else options.name
        self.n_tombstones = 0
        decode = options.decode
        self._expected, self._decode = (
            ("", decode) if callable(decode) else _FORMATS[one_of("decode", decode or "json", *_FORMATS)]
        )
        self._kafka = kafka_python()

        # By partition: the offset due next, the first offset, the end as last known, the end of a bounded stream.
        self._offsets: dict[Any, int] = {}
        self._begins: dict[Any, int] = {}
        self._ends: dict[Any, int] = {}
        self._stops: dict[Any, int] | None = None
        self._last_record: Any = None
        self._batch: Batch | None = None  # that is being read
        self._identity = TopicIdentity(self.gaps, self._remedy)
        self._confirmed = -math.inf  # when the topics' ids were checked
        self._consumer: Any = None
        self._metadata: Any = None  # the `Metadata` of the consumer
        self._closed = False
        self._last_contact = 0.0
        self._failures = Failures(gap=10.0)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.client.servers!r}, client={self.client})"

    # -- from messages to items

    def _items_of(self, tp: Any, records: list[Any]) -> Iterator[Sample | Rejected]:
        """Yield the items of one partition's messages, up to the end of a bounded stream; `_offsets` moves along."""
        offsets, item = self._offsets, self._item
        stop = math.inf if self._stops is None else self._stops.get(tp, math.inf)
        self._identity.begin_batch(tp, records)
        batch = self._batch = Batch(tp, records)
        while batch.at < len(records):
            record = records[batch.at]
            offset = record.offset
            if self._closed or offset >= stop:
                return
            if offset != offsets[tp]:
                self._check_offset(tp, offset)
            batch.at += 1
            offsets[tp] = offset + 1
            if record.value is None:
                self.n_tombstones += 1
            else:
                self._last_record = record
                yield item(record)
                if batch.block is not None:
                    self._end_block()
        self._identity.end_batch(tp, records)

    def _count_taken(self) -> None:
        """Let `_offsets` be those behind the last message that was taken from a block."""
        if (batch := self._batch) is not None and batch.block is not None and batch.block.taken:
            self._offsets[batch.tp] = batch.behind

    def _end_block(self) -> bool:
        """Go on behind the last message that was taken; return whether it is not the block's last one."""
        self._count_taken()
        return self._batch is not None and self._batch.end_block()

    def raw(self, origin: str) -> bytes | None:
        record = self._last_record
        return None if record is None or origin != f"{partition_name(record)}@{record.offset}" else record.value

    def _item(self, record: Any) -> Sample | Rejected:
        origin = f"{record.topic}[{record.partition}]@{record.offset}"
        headers = tuple(record.headers) if record.headers else ()
        key = None if record.key is None else as_text(record.key)
        try:
            fields = self._decode(record.value, headers)
        except Exception as error:  # a user's function may raise anything, and one message must not end the stream
            why = f"expected {self._expected}: {error}" if self._expected else f"`decode` failed: {error!r}"
            return Rejected(record.value, f"{origin}: {why}", origin, key, headers)
        if type(fields) is not dict:  # only a user's function may return something else
            why = f"expected a dict of fields from `decode`, found {type(fields).__name__}"
            return Rejected(record.value, f"{origin}: {why}", origin, key, headers)
        time = record.timestamp / 1000 if record.timestamp >= 0 else None
        return self.layout.sample(fields, record.value, origin, key, time, headers)

    def _check_offset(self, tp: Any, offset: int) -> None:
        due, place = self._offsets[tp], partition_name(tp)
        if offset < due:
            raise SourceError(f"{place}@{offset}: came again: {due} was due")
        if self.gaps == "error":
            raise SourceError(
                f"{place}: expected offset {due}, found {offset}: {offset - due} missing. In compacted topics and in "
                "those written by transactions that is normal, and gaps='allow' reads them"
            )

    @property
    def progress(self) -> float | None:
        if self._stops is None or not self._offsets:
            return None
        self._count_taken()
        total = read = 0
        for tp, offset in self._offsets.items():
            stop = self._stops.get(tp, offset)
            total += stop - self._begins[tp]
            read += min(offset, stop) - self._begins[tp]
        return read / total if total else 1.0

    def lags(self) -> dict[str, int]:
        offsets = self._offsets.copy()
        return {
            partition_name(tp): max(0, end - offsets[tp])
            for tp, end in sorted(self._ends.copy().items())
            if tp in offsets
        }

    # -- brokers that fail and return

    def _connect(self, seconds: float, **options: Any) -> float:
        """Build a consumer that knows its topics; return the deadline for the requests that follow.

        Raises TimeoutError when no broker answered in time.
        """
        deadline = clock.monotonic() + seconds
        self._consumer, self._metadata = self.client.connect(
            seconds,
            self._stop_if_closed,
            # A misspelt topic is an error, not a new topic; new partitions are found within this time.
            defaults={"allow_auto_create_topics": False, "metadata_max_age_ms": 30_000},
            enable_auto_commit=False,
            auto_offset_reset="none",  # any other offset would silently lose or repeat messages
            **options,
        )
        patch_consumer(self._consumer)
        appears = min(deadline, clock.monotonic() + _TOPIC_APPEARS)
        self._metadata.refresh(deadline, self._knows_topics, self._stop_if_closed, self.topics)
        while not self._knows_topics() and clock.monotonic() < appears:
            self._metadata.refresh(appears, self._knows_topics, self._stop_if_closed)
        if unknown := [topic for topic in self.topics if not self._metadata.partitions(topic)]:
            raise self._missing(f"{self.client.servers} has no topic {listed(unknown)}")
        return max(deadline, clock.monotonic() + 1.0)

    def _knows_topics(self) -> bool:
        return all(self._metadata.partitions(topic) for topic in self.topics)

    def _missing(self, what: str) -> Exception:
        # Brokers that restart may need a while to know their topics again.
        return TimeoutError(what) if self._last_contact else SourceError(what)

    def _disconnect(self) -> None:
        raise NotImplementedError("each kind of reader closes its consumer in its own way")

    def _stop_if_closed(self) -> None:
        if self._closed:
            raise Closed

    def _tolerate(self, error: Exception) -> None:
        """Go on after a failure, unless failures have followed one another for longer than `patience`."""
        if (seconds := self._failures.add()) > self.patience:
            raise SourceError(
                f"{self.name}: trouble with {self.client.servers} for {seconds:.0f} s: {self.client.hide(error)}"
            ) from None
        if self._failures.count % _TRIES == 0:
            self._disconnect()
        clock.sleep(POLL / 4)

    def _permanent(self, error: Exception) -> SourceError | None:
        """Return what to raise for an error that waiting does not cure, else None."""
        if isinstance(error, (errors.OffsetOutOfRangeError, errors.LogTruncationError)):
            return SourceError(
                f"{self.name}: a message that is due is not on the broker, deleted before it was read or lost: {error}"
            )
        if isinstance(error, errors.AuthorizationError):
            return SourceError(f"{self.name}: not allowed: {self.client.hide(error)}")
        if isinstance(error, errors.UnsupportedCodecError):
            return SourceError(f"{self.name}: {error}: {how_to_install('kafka')} brings every codec")
        return None

    def _ask(self, question: Callable[..., dict], partitions: list[Any], deadline: float) -> dict[Any, int]:
        while True:
            self._stop_if_closed()
            try:
                return question(partitions, timeout_ms=1000)
            except errors.RetriableError as error:
                if clock.monotonic() > deadline:
                    raise TimeoutError(f"no answer from {self.client.servers}: {error}") from None

    def _note_batch(self, batch: dict[Any, list]) -> None:
        """Note where partitions end; without a message, what the consumer has passed."""
        if batch:
            self._last_contact = clock.monotonic()
            for tp in batch:
                self._ends[tp] = self._consumer.highwater(tp) or self._ends[tp]
        else:
            self._pass_gaps()

    def _pass_gaps(self) -> None:
        """Pass offsets without a message, which compaction and transactions leave, once every message was read."""
        for tp in self._offsets if self.gaps == "allow" else ():
            self._offsets[tp] = max(self._offsets[tp], self._consumer.position(tp, timeout_ms=0) or 0)

    def _probe_quiet_brokers(self) -> None:
        # No messages may mean a broker that has died.
        if clock.monotonic() - self._last_contact > self._maintenance_every and self._offsets:
            self._ends |= self._consumer.end_offsets(list(self._offsets), timeout_ms=1000)
            self._last_contact = clock.monotonic()

    def _check_due(self, tp: Any, due: int, begin: int, end: int) -> None:
        if not begin <= due <= end:
            raise SourceError(
                f"{partition_name(tp)}: offset {due} is due, and the broker has {begin} to {end}: "
                + ("those before were deleted unread" if due < begin else "this is not the topic it was")
            )

    # -- whether the topics are the same

    def _check_identity(self, ids: Mapping[str, str], begins: Mapping[Any, int]) -> None:
        """Check that partitions, whose first offsets are `begins`, are of the topics that were read before.

        `ids` are the ids of those topics, as far as they were known. Raises SourceError when they are of other topics
        of the same name. Raises TimeoutError when no broker answered in time.
        """
        self._identity.check(self._metadata, ids)
        if unproven := self._identity.unproven(self._metadata, ids, begins):
            self._identity.compare(messages_at(self.client, unproven, self.timeout, self._stop_if_closed))

    def _confirm_identity(self, seconds: float = _CONFIRM) -> None:
        """Check, before what was read counts, that the topics still have the ids they had.

        Messages are fetched by the topic's name. If its id is what it was, they came from that topic. If the brokers do
        not answer in time, the next check decides. Raises SourceError when a topic is another one of the same name.
        """
        now = clock.monotonic()
        if self._consumer is None or not self._identity.ids or now - self._confirmed < _CONFIRM_EVERY:
            return
        self._metadata.refresh(now + seconds)
        self._identity.check(self._metadata)
        self._confirmed = now


_Fields = dict[str, Any]
_json_fields = msgspec.json.Decoder(_Fields).decode
_msgpack_fields = msgspec.msgpack.Decoder(_Fields).decode
#: The formats with a name: what a message should have been, and its reader.
_FORMATS: dict[str, tuple[str, Callable[[bytes, tuple], dict]]] = {
    "json": ("a JSON object", lambda value, headers: _json_fields(value)),
    "msgpack": ("a MessagePack map", lambda value, headers: _msgpack_fields(value)),
}


def one_of(parameter: str, value: str, *known: str) -> str:
    """Return `value`, which must be one of the known words."""
    if value not in known:
        raise ValueError(f"{parameter}: expected one of {listed(known)}; found {value!r}")
    return value
