"""Streams that come from Kafka."""

from __future__ import annotations

import contextlib
import math
import time as clock
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from fwonline.exceptions import SourceError
from fwonline.stream.base import Rejected, Sample, Source
from fwonline.stream.kafka.reader import RECONNECT, SLICE, Closed, KafkaReader, one_of, partition_name
from fwonline.stream.records import RecordLayout, listed

__all__ = ["KafkaSource"]

# Between two looks after the rest: new partitions, the group's offsets, whether a quiet broker still lives.
_CHORES = 5.0


class KafkaSource(KafkaReader, Source):
    """The messages of Kafka topics, each read once, from offsets that the run itself keeps.

    Partitions are assigned and sought by this source; no consumer group shares them out. The position, a mapping of
    topic to partition to the offset of the next message, belongs into the run's checkpoint: a source that seeks it goes
    on with exactly the next message of every partition. The order within a partition is Kafka's; between partitions
    there is none.

    A message's value is a JSON object, unless `decode` says otherwise; its key, timestamp and headers become the
    sample's. A message that cannot be read is rejected with its bytes untouched. A tombstone (a message without a
    value) is no sample: it is counted in `n_tombstones` and passed over. Offsets are checked: one that comes twice or
    is missing ends the stream with an error, unless `gaps="allow"`.

    Topics are known by their ids, or where brokers tell none (before 2.8), by the last message that was read of each
    partition. Both go into the run's checkpoint (`identity`): a topic that was deleted and made anew is refused,
    however many messages it has.

    The stream waits for a broker that is away and goes on when it is back. `close` may be called from a signal handler
    while the stream waits for messages: iteration then ends within a fraction of a second.

    Parameters
    ----------
    topics
        One topic or several.
    bootstrap_servers
        `host:port` of one or several brokers, as a list or with commas between.
    target
        The field that holds the target. None: every sample is a question.
    key
        The field that joins a question to its later answer. None: the message's key, as text where it is UTF-8.
    time
        The field that holds the event time: seconds since the epoch or an ISO 8601 date. None: the message's timestamp.
    features
        The only features that may occur; a message with another field is rejected. None: any.
    drop
        Fields to leave out.
    require_target
        Whether a message without its target (absent or null) is rejected. If not, it is a question.
    partitions
        The partitions to read, of every topic. None: all, and those added while the stream runs.
    start
        Where to begin in a partition no position speaks of: `"earliest"` or `"latest"`. A partition that was added to a
        topic after the position was taken is read from its beginning.
    end
        `"never"`, or `"latest"`: stop where the topics ended when reading began.
    decode
        `"json"`, which is also what None means, `"msgpack"`, or a function: `decode(value, headers)` gives the
        message's fields as a dict; `value` is bytes, `headers` a tuple of `(name, bytes)` pairs. What it raises rejects
        the message.
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
        What the stream is called in messages; by default the topics.

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

    References
    ----------
    .. [1] `kafka-python <https://kafka-python.readthedocs.io>`_.

    """

    _cure = (
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
        super().__init__(
            topics,
            bootstrap_servers,
            layout,
            decode=decode,
            gaps=gaps,
            client=client,
            timeout=timeout,
            patience=patience,
            name=name,
        )
        self.partitions = None if partitions is None else frozenset(partitions)
        self.start = one_of("start", start, "earliest", "latest")
        self.end = one_of("end", end, "never", "latest")
        self.group = group

        self._begins: dict[Any, int] = {}
        self._stops: dict[Any, int] | None = None  # where a bounded stream ends
        self._unfinished: set[Any] = set()
        self._items: Iterator[Sample | Rejected] | None = None
        self._in_use = False  # the consumer is at work, in this thread below us or in another

    def __iter__(self) -> Iterator[Sample | Rejected]:
        if self._items is None:
            self._items = self._read()
        return self._items

    @property
    def position(self) -> dict[str, dict[str, int]]:
        position: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(self._offsets.items()):
            position.setdefault(topic, {})[str(partition)] = offset
        return position

    def seek(self, position: Any) -> None:
        if self._items is not None:
            raise SourceError(f"{self.name}: seek before reading")
        try:
            told = msgspec.convert(position, dict[str, dict[int, _Offset]], strict=False)
        except msgspec.ValidationError as error:
            raise SourceError(f"{self.name}: expected a position {{topic: {{partition: offset}}}}: {error}") from None
        offsets = {
            self._kafka.TopicPartition(topic, partition): offset
            for topic, partitions in told.items()
            for partition, offset in partitions.items()
        }
        if strange := {topic for topic, _ in offsets}.difference(self.topics):
            raise SourceError(f"{self.name}: the position is of topics this stream does not read: {listed(strange)}")
        if self.partitions is not None and (left_out := {p for _, p in offsets} - self.partitions):
            raise SourceError(
                f"{self.name}: the position is of partitions this stream does not read: {listed([*map(str, left_out)])}"
            )
        self._offsets = offsets

    @property
    def identity(self) -> dict[str, Any]:
        self._confirm()
        return self._known.state(self._offsets)

    def expect_identity(self, identity: Any) -> None:
        self._known.ids |= self._known.expect(self.name, identity, self._offsets)

    @property
    def progress(self) -> float | None:
        if not self._stops:
            return None
        total = sum(stop - self._begins[tp] for tp, stop in self._stops.items())
        read = sum(min(self._offsets[tp], stop) - self._begins[tp] for tp, stop in self._stops.items())
        return read / total if total else 1.0

    def lag(self) -> int | None:
        """How many offsets lie between the position and the ends of the partitions, as the brokers last told them.

        None before the first item. It asks nobody, so it costs nothing and may be called from another thread.
        """
        return sum(self.lags().values()) if self._ends else None

    def lags(self) -> dict[str, int]:
        """`lag` by partition."""
        return {
            partition_name(tp): max(0, end - self._offsets.get(tp, end))
            for tp, end in sorted(self._ends.copy().items())
        }

    def close(self) -> None:
        self._closed = True
        if not self._in_use:  # else the iteration that uses it disconnects
            self._disconnect()

    def _read(self) -> Iterator[Sample | Rejected]:
        try:
            self._begin()
            while (batch := self._poll()) is not None:
                if not batch and self.idle_ticks:
                    yield None  # type: ignore[misc]  # no item, and asked for
                for tp, records in batch.items():
                    stop = math.inf if self._stops is None else self._stops[tp]
                    yield from self._items_of(tp, records, stop)
                    if self._closed:
                        return
                    if records[-1].offset >= stop - 1:
                        self._unfinished.discard(tp)
            if not self._closed:
                self._confirm()
        except Closed:
            return
        except TimeoutError as error:
            raise SourceError(f"{self.name}: {error}") from None
        finally:
            self._disconnect()

    def _begin(self) -> None:
        self._in_use = True
        try:
            self._connect(self.timeout)
        finally:
            self._in_use = False

    def _poll(self) -> dict[Any, list] | None:
        """Return the next messages by partition, none when there are none yet, and None at the stream's end."""
        if self._closed or (self._stops is not None and not self._unfinished):
            return None
        from kafka.errors import KafkaError

        self._in_use = True
        try:
            if self._consumer is None:
                self._connect(RECONNECT)
            if self._stops is not None:
                self._consumer.pause(*self._stops.keys() - self._unfinished)  # what comes now is not of this stream
            batch = self._consumer.poll(timeout_ms=1000 * SLICE)
            self._known.check(self._cluster)
            if batch:
                self._heard = clock.monotonic()
                for tp in batch:
                    self._ends[tp] = self._consumer.highwater(tp) or self._ends[tp]
            else:
                self._look_behind_messages()
            if clock.monotonic() - self._chores_done > _CHORES:
                self._do_chores()
        except (KafkaError, TimeoutError) as error:
            if (refusal := self._refused(error)) is not None:
                raise refusal from None
            self._bear(error)
            return {}
        finally:
            self._in_use = False
        return batch

    def _look_behind_messages(self) -> None:
        """Find what the stream has passed without seeing it: what compaction or a transaction left no message of.

        Called when all that was fetched has been yielded.
        """
        for tp in self._offsets:
            seen = self._consumer.position(tp, timeout_ms=0) or 0
            if seen > self._offsets[tp] and self.gaps == "allow":
                self._offsets[tp] = seen
            if self._stops is not None and seen >= self._stops[tp]:
                self._unfinished.discard(tp)

    def _do_chores(self) -> None:
        if clock.monotonic() - self._heard > _CHORES:
            # A broker that has died says as much as one that has nothing to say. So it is asked.
            self._ends |= self._consumer.end_offsets(list(self._offsets), timeout_ms=1000)
            self._heard = clock.monotonic()
        if self._stops is None and set(self._assignment()) > self._offsets.keys():
            self._stand(clock.monotonic() + RECONNECT)
        if self.group is not None:
            self._consumer.commit_async(self._committable())
        self._chores_done = clock.monotonic()

    def _committable(self) -> dict[Any, Any]:
        return {tp: self._kafka.OffsetAndMetadata(offset, "", -1) for tp, offset in self._offsets.items()}

    def _connect(self, seconds: float) -> None:
        """Build a consumer that stands where the stream stands.

        Raises
        ------
        TimeoutError
            When no broker answered in time.

        """
        self._stand(self._open(seconds, group_id=self.group))
        self._heard = self._chores_done = clock.monotonic()

    def _assignment(self) -> list[Any]:
        """Return the partitions to read, as the brokers last told them."""
        assigned = []
        for topic in self.topics:
            there = self._cluster.partitions_for_topic(topic) or set()
            if self.partitions is not None and (missing := self.partitions - there):
                raise self._missing(f"{topic}: expected partition {min(missing)}, found {len(there)} partitions")
            wanted = there if self.partitions is None else self.partitions
            assigned += [self._kafka.TopicPartition(topic, partition) for partition in sorted(wanted)]
        return assigned

    def _stand(self, deadline: float) -> None:
        """Assign every partition and seek the offset that is due there."""
        consumer, assigned = self._consumer, self._assignment()
        if gone := self._offsets.keys() - set(assigned):
            raise self._missing(f"{self.name}: a partition that was read before is not there: {min(gone)}")
        consumer.assign(assigned)
        self._known.check(self._cluster)
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
        self._recognise(self._known.ids, begins)
        self._known.learn(self._cluster, self.topics)
        self._begins |= begins
        self._ends |= ends
        if self.end == "latest" and self._stops is None:
            self._stops = ends
            self._unfinished = {tp for tp in assigned if self._offsets[tp] < ends[tp]}

    def _disconnect(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        if self.group is not None and self._failures == 0:
            from kafka.errors import KafkaError

            with contextlib.suppress(KafkaError):  # dashboards will show the lag of a few seconds ago
                consumer.commit(self._committable(), timeout_ms=1000)
        consumer.close(autocommit=False, timeout_ms=1000)


_Offset = Annotated[int, msgspec.Meta(ge=0)]
