"""Kafka topics read by one process, from offsets in its checkpoint."""

from __future__ import annotations

import contextlib
import math
import time as clock
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from fwonline.exceptions import SourceError
from fwonline.stream.ahead import FEWEST, Parsed
from fwonline.stream.base import Rejected, Sample, Source
from fwonline.stream.kafka.compat import errors
from fwonline.stream.kafka.reader import POLL, RECONNECT, Closed, KafkaReader, ReaderOptions, one_of
from fwonline.stream.records import RecordLayout, listed

if TYPE_CHECKING:
    from fwonline.stream.block import Block

__all__ = ["KafkaSource"]

# So many batches in a row of few rows, and messages are read one by one from then on.
_OTHERS = 16


class KafkaSource(KafkaReader, Source):
    """The messages of Kafka topics, each read once, from offsets that the run itself keeps.

    This source assigns partitions to itself, without a consumer group. The position, a mapping of topic to partition to
    the offset of the next message, belongs into the run's checkpoint: a source that seeks it goes on with exactly the
    next message of every partition. The order within a partition is Kafka's; between partitions there is none.

    A message's value is a JSON object, unless `decode` says otherwise; its key, timestamp and headers become the
    sample's. A message that cannot be read is rejected with its bytes unchanged. A tombstone (a message without a
    value) is no sample: it is counted in `n_tombstones` and passed over. Offsets are checked: one that comes twice or
    is missing ends the stream with an error, unless `gaps="allow"`.

    Topics are recognised by their ids, or if brokers have none (before 2.8), by the last message that was read of each
    partition. Both go into the run's checkpoint (`identity`): a topic that was deleted and created again is refused,
    however many messages it has.

    The stream waits for a broker that is away and goes on when it is back. `close` may be called from a signal handler
    while the stream waits for messages: iteration then ends within a fraction of a second.

    Parameters
    ----------
    topics
        One topic or several.
    bootstrap_servers
        `host:port` of one or several brokers, as a list or with commas between.
    target, features, drop, require_target
        As for `JSONLinesSource`.
    key
        The field that joins a question to its later answer. None: the message's key, as text if it is UTF-8.
    time
        The field that holds the event time: seconds since the epoch or an ISO 8601 date. None: the message's timestamp.
    partitions
        The partitions to read, of every topic. None: all, and those added while the stream runs.
    start
        Where to begin in a partition without a position: `"earliest"` or `"latest"`. A partition that was added to a
        topic after the position was taken is read from its beginning.
    end
        `"never"`, or `"latest"`: stop where the topics ended when reading began.
    decode
        `"json"` (also None), `"msgpack"`, or a function: `decode(value, headers)` returns the message's fields as a
        dict; `value` is bytes, `headers` a tuple of `(name, bytes)` pairs. What it raises rejects the message.
    gaps
        `"error"`: every offset must be there. `"allow"`: offsets may be missing, as is normal in compacted topics and
        in those written by transactions. One that comes twice is an error in any case.
    group
        A consumer group to which offsets are committed every few seconds, so that dashboards show this stream's lag.
        They are never read back.
    client
        Further settings for kafka-python's consumer by its own names, for instance `security_protocol` and
        `sasl_plain_password`. A value `{"env": "NAME"}` is read from the environment. No value appears in any message
        or in the `repr`. With `isolation_level="read_committed"` goes `gaps="allow"`.
    timeout
        Seconds within which a broker must answer at the start.
    patience
        Seconds that the brokers may be silent later, before the stream gives up.
    name
        The stream's name in messages; by default the topics.

    Attributes
    ----------
    n_tombstones
        How many messages without a value were passed over.

    Raises
    ------
    SourceError
        When kafka-python is not installed; while reading, when no broker answers in time or it refuses this client, a
        topic or partition does not exist, a message due is no longer or not yet there, or offsets have a gap.
    ValueError
        When a parameter cannot be what it is given as.

    Examples
    --------
    >>> from fwonline import stream
    >>> source = stream.KafkaSource("clicks", "localhost:9092", target="clicked", client={"check_crcs": False})
    >>> source
    KafkaSource('clicks', 'localhost:9092', client=<check_crcs>)
    >>> source.seek({"clicks": {"0": 17, "1": 4}})
    >>> source.position
    {'clicks': {'0': 17, '1': 4}}

    """

    _remedy = (
        "To learn it from its beginning, start over: `fwonline run --fresh`, or `resume=False` in Python; to go on, "
        "bring the old topic back"
    )

    def __init__(
        self,
        topics: str | Sequence[str],
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        target: str | None = None,
        *,
        key: str | None = None,
        time: str | None = None,
        features: Collection[str] | None = None,
        drop: Collection[str] = (),
        require_target: bool = True,
        partitions: Collection[int] | None = None,
        start: str = "earliest",
        end: str = "never",
        decode: Callable[[bytes, tuple], dict] | str | None = None,
        gaps: str = "error",
        group: str | None = None,
        client: Mapping[str, Any] | None = None,
        timeout: float = 10.0,
        patience: float = 300.0,
        name: str | None = None,
    ) -> None:
        layout = RecordLayout(target, key=key, time=time, features=features, drop=drop, require_target=require_target)
        options = ReaderOptions(decode, gaps, client, timeout, patience, name)
        super().__init__(topics, bootstrap_servers, layout, options)
        self.partitions = None if partitions is None else frozenset(partitions)
        self.start = one_of("start", start, "earliest", "latest")
        self.end = one_of("end", end, "never", "latest")
        self.group = group
        self._unfinished: set[Any] = set()  # partitions of a bounded stream that were not read to the end
        self._items: Iterator[Sample | Rejected | None] | None = None
        self._in_use = False  # the consumer is at work, in this thread below us or in another
        self._maintained = 0.0
        self.decode = decode
        self._parse: Callable[[bytes], Parsed] | None = None  # of messages that look like an earlier one
        self._n_others = 0  # batches in a row that hold few rows

    def __iter__(self) -> Iterator[Sample | Rejected | None]:
        if self._items is None:
            self._items = self._read()
        return self._items

    @property
    def has_blocks(self) -> bool:
        """Whether messages without headers, JSON objects of numbers, come in blocks, those of a poll together."""
        layout = self.layout
        return self.decode in (None, "json") and layout.target is not None and layout.key is layout.time is None

    def blocks(self, most: int = 4096) -> Iterator[Block | Sample | Rejected | None]:
        if not self.has_blocks:
            yield from super().blocks(most)
            return
        for item in iter(self):
            yield item
            while (block := self._next_block(most)) is not None:
                yield block

    def _next_block(self, most: int) -> Block | None:
        """Return messages that are rows of numbers; None where the next one is to be read alone, or there is none."""
        are_left, batch = self._end_block(), self._batch
        if are_left or self._closed or batch is None or batch.at == len(batch.records):
            return None
        if not batch.is_parsed:
            if len(batch.records) - batch.at < FEWEST or self._n_others == _OTHERS:
                return None
            stop = math.inf if self._stops is None else self._stops.get(batch.tp, math.inf)
            try:
                if self._parse is None:
                    from fwonline.stream.jsonrows import ObjectRows

                    self._parse = ObjectRows(msgspec.json.decode(self._last_record.value), self.layout)
                share = batch.parse(self._parse, has_gaps=self.gaps == "allow", stop=stop)
            except (ValueError, AttributeError):  # a message that is no such object
                share = 0.0
            if share < 0.5:
                self._parse, self._n_others = None, self._n_others + 1
            else:
                self._n_others = 0
        return batch.cut(most) if batch.is_parsed else None

    @property
    def position(self) -> dict[str, dict[str, int]]:
        self._count_taken()
        position: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(self._offsets.items()):
            position.setdefault(topic, {})[str(partition)] = offset
        return position

    def seek(self, position: Any) -> None:
        if self._items is not None:
            raise SourceError(f"{self.name}: seek before reading")
        try:
            sought = msgspec.convert(position, dict[str, dict[int, _Offset]], strict=False)
        except msgspec.ValidationError as error:
            raise SourceError(f"{self.name}: expected a position {{topic: {{partition: offset}}}}: {error}") from None
        if strange := sought.keys() - set(self.topics):
            raise SourceError(f"{self.name}: the position is of topics this stream does not read: {listed(strange)}")
        offsets = {
            self._kafka.TopicPartition(topic, partition): offset
            for topic, partitions in sought.items()
            for partition, offset in partitions.items()
        }
        if self.partitions is not None and (left_out := {p for _, p in offsets} - self.partitions):
            raise SourceError(
                f"{self.name}: the position is of partitions this stream does not read: {listed([*map(str, left_out)])}"
            )
        self._offsets = offsets

    @property
    def identity(self) -> dict[str, Any]:
        self._confirm_identity()
        self._count_taken()
        return self._identity.state(self._offsets)

    def expect_identity(self, identity: Any) -> None:
        self._identity.ids |= self._identity.restore(self.name, identity, self._offsets)

    def lag(self) -> int | None:
        """How many offsets lie between the position and the ends of the partitions, as last known.

        None before the first item. It sends no request, so it costs nothing and may be called from another thread.
        """
        return sum(self.lags().values()) if self._ends else None

    def close(self) -> None:
        self._closed = True
        if not self._in_use:  # else the iteration that uses it disconnects
            self._disconnect()

    def _read(self) -> Iterator[Sample | Rejected | None]:
        try:
            self._in_use = True
            try:
                self._start(self.timeout)
            finally:
                self._in_use = False
            while (batch := self._poll()) is not None:
                if not batch and self.idle_ticks:
                    yield None
                for tp, records in batch.items():
                    yield from self._items_of(tp, records)
                    if self._closed:
                        return
                    if self._stops is not None and records[-1].offset >= self._stops[tp] - 1:
                        self._unfinished.discard(tp)
            if not self._closed:
                self._confirm_identity()
        except Closed:
            return
        except TimeoutError as error:
            raise SourceError(f"{self.name}: {error}") from None
        finally:
            self._disconnect()

    def _poll(self) -> dict[Any, list] | None:
        """Return the next messages by partition, none if there are none yet, and None at the stream's end."""
        if self._closed or (self._stops is not None and not self._unfinished):
            return None

        self._in_use = True
        try:
            if self._consumer is None:
                self._start(RECONNECT)
            if self._stops is not None:
                self._consumer.pause(*self._stops.keys() - self._unfinished)  # what comes now is not of this stream
            batch: dict[Any, list] = self._consumer.poll(timeout_ms=1000 * POLL)
            self._identity.check(self._metadata)
            self._note_batch(batch)
            if clock.monotonic() - self._maintained > self._maintenance_every:
                self._maintain()
        except (errors.KafkaError, TimeoutError) as error:
            if (permanent := self._permanent(error)) is not None:
                raise permanent from None
            self._tolerate(error)
            return {}
        finally:
            self._in_use = False
        return batch

    def _pass_gaps(self) -> None:
        super()._pass_gaps()
        for tp, stop in (self._stops or {}).items():
            if (self._consumer.position(tp, timeout_ms=0) or 0) >= stop:
                self._unfinished.discard(tp)

    def _maintain(self) -> None:
        self._probe_quiet_brokers()
        if self._stops is None and set(self._partitions()) > self._offsets.keys():
            self._assign(clock.monotonic() + RECONNECT)
        if self.group is not None:
            self._consumer.commit_async(self._group_offsets())
        self._maintained = clock.monotonic()

    def _group_offsets(self) -> dict[Any, Any]:
        return {tp: self._kafka.OffsetAndMetadata(offset, "", -1) for tp, offset in self._offsets.items()}

    def _start(self, seconds: float) -> None:
        """Build a consumer at the stream's position. Raises TimeoutError when no broker answered in time."""
        self._assign(self._connect(seconds, group_id=self.group))
        self._last_contact = self._maintained = clock.monotonic()

    def _partitions(self) -> list[Any]:
        """Return the partitions to read, as far as they are known."""
        found = []
        for topic in self.topics:
            there = self._metadata.partitions(topic)
            if self.partitions is not None and (missing := self.partitions - there):
                raise self._missing(f"{topic}: expected partition {min(missing)}, found {len(there)} partitions")
            wanted = there if self.partitions is None else self.partitions
            found += [self._kafka.TopicPartition(topic, partition) for partition in sorted(wanted)]
        return found

    def _assign(self, deadline: float) -> None:
        """Assign every partition and seek the offset that is due there."""
        consumer, assigned = self._consumer, self._partitions()
        if gone := self._offsets.keys() - set(assigned):
            raise self._missing(f"{self.name}: a partition that was read before is not there: {min(gone)}")
        consumer.assign(assigned)
        self._identity.check(self._metadata)
        begins = self._ask(consumer.beginning_offsets, assigned, deadline)
        ends = self._ask(consumer.end_offsets, assigned, deadline)
        known = {tp.topic for tp in self._offsets}
        for tp in assigned:
            if tp not in self._offsets:
                from_start = self.start == "earliest" or tp.topic in known
                self._offsets[tp] = begins[tp] if from_start else ends[tp]
            due = self._offsets[tp]
            self._check_due(tp, due, begins[tp], ends[tp])
            consumer.seek(tp, due)
        self._check_identity(self._identity.ids, begins)
        self._identity.learn(self._metadata, self.topics)
        self._begins |= begins
        self._ends |= ends
        if self.end == "latest" and self._stops is None:
            self._stops = ends
            self._unfinished = {tp for tp in assigned if self._offsets[tp] < ends[tp]}

    def _disconnect(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        self._count_taken()
        if self.group is not None and self._failures.count == 0:
            with contextlib.suppress(errors.KafkaError):  # dashboards will show the lag of a few seconds ago
                consumer.commit(self._group_offsets(), timeout_ms=1000)
        consumer.close(autocommit=False, timeout_ms=1000)


_Offset = Annotated[int, msgspec.Meta(ge=0)]
