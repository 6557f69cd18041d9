"""Kafka topics shared out among the workers of a consumer group."""

from __future__ import annotations

import contextlib
import itertools
import math
import time as clock
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from fwonline.exceptions import SourceError
from fwonline.stream.base import Rejected, Sample, Sink
from fwonline.stream.group import CommittedOffsets, GroupSource, PartitionsLost, PollResult
from fwonline.stream.kafka.assignment import Notes
from fwonline.stream.kafka.client import ClientSettings, Deadline, wait_for
from fwonline.stream.kafka.co_partitions import Abreast, Units, uneven, units_of
from fwonline.stream.kafka.merge_topic import KafkaMergeTopic
from fwonline.stream.kafka.reader import RECONNECT, SLICE, Closed, KafkaReader, one_of, partition_name
from fwonline.stream.kafka.sinks import KafkaSink
from fwonline.stream.kafka.transactions import KafkaTransaction
from fwonline.stream.records import RecordLayout, listed

__all__ = ["KafkaGroupSource"]

_CHORES = 5.0  # between two looks at where quiet partitions end
_COMMIT = 5.0  # how long one commit may take
_COMMIT_SLICE = 1.0  # and how long one try: a commit that is repeated does no harm
_STRANDED = 5.0  # how long the group may say nothing after it refused a commit


class KafkaGroupSource(KafkaReader, GroupSource):
    """The messages of Kafka topics for one worker of a consumer group.

    The group's coordinator, a broker, decides who reads which partition. Each worker uses a source of its own with the
    same `group`. The group's committed offsets are the truth about where a partition stands, and the metadata committed
    with each says which state had learned what came before: see `fwonline.loop.GroupLoop`.

    Parameters
    ----------
    topics, bootstrap_servers, target
        As for `KafkaSource`.
    group
        The name of the consumer group. It belongs to one model: another model takes another group.
    key, time, features, drop, require_target, decode, gaps, timeout, patience, name
        As for `KafkaSource`.
    start
        Where to begin in a partition of which the group has no offset: `"earliest"` or `"latest"`. A partition added to
        a topic later is read from its beginning in the first case alone.
    end
        `"never"`, or `"latest"`: the group stops where the topics ended when this worker began.
    co_partitioned
        Whether the partitions of one number, one of each topic, are one partition to the group, with one model and one
        table of waiting questions: `questions[3]` and `answers[3]` are `questions+answers[3]`. That is for questions
        and answers on topics of their own, written with the same keys; name the questions' topic first. The topics must
        have the same number of partitions, and all members of the group this setting, the same topics and their order.
        A topic waits while another one has older messages to read, by their timestamps, so that none runs ahead of the
        others by more than one look brings (`max_poll_records`, 500) when there is much to catch up with. That is no
        order: an answer may come before its question (`max_early`), and learning a partition again from its beginning,
        which takes every message exactly once too, may mix the topics differently and end with another model. Where
        partitions were added to one of the topics alone, or the group tears apart what belongs together, nothing is
        learned of it, and after `timeout` seconds the stream ends with an error.
    client
        Further settings for kafka-python's consumer, as for `KafkaSource`: among them `session_timeout_ms`, after which
        a worker that says nothing is taken for dead (45 s by default), and `max_poll_interval_ms`, within which a
        worker must come back for more (5 minutes).

    Attributes
    ----------
    n_tombstones
        How many messages without a value were passed over.

    Raises
    ------
    SourceError, ValueError
        As for `KafkaSource`.

    Examples
    --------
    >>> from fwonline import stream
    >>> stream.KafkaGroupSource("clicks", "localhost:9092", target="clicked", group="click-model")
    KafkaGroupSource('clicks', 'localhost:9092', client=<>)

    """

    _cure = (
        "To learn it from its beginning, give the source another group, or delete the group and its states; to go on, "
        "bring the old topic back"
    )

    def __init__(
        self,
        topics: str | Sequence[str],
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        target: str | None = None,
        *,
        group: str,
        key: str | None = None,
        time: str | None = None,
        features: Collection[str] | None = None,
        drop: Collection[str] = (),
        require_target: bool = True,
        start: str = "earliest",
        end: str = "never",
        co_partitioned: bool = False,
        decode: Callable[[bytes, tuple], dict] | str | None = None,
        gaps: str = "error",
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
        if not group:
            raise ValueError("group: expected a name")
        if "partition_assignment_strategy" in (client or {}):
            # With one that takes away a part only, what a worker holds would need another proof that it is its own.
            raise ValueError("client: 'partition_assignment_strategy' is not set here: all is given anew each time")
        self.group = group
        self.start = one_of("start", start, "earliest", "latest")
        self.end = one_of("end", end, "never", "latest")
        if co_partitioned and len(set(self.topics)) < len(self.topics):
            raise ValueError(f"topics: expected different ones, found {listed(self.topics)}")
        self.co_partitioned = co_partitioned
        self._ours: Units = {}  # by the name of each of our partitions, once we stand in it
        self._waiting: Units = {}  # gained, and not stood in yet
        self._notes = Notes()
        self._membership: Any = None  # as whom we gained them
        self._is_member = False
        self._has_joined = False  # ever
        self._stranded = math.inf  # since when we own nothing and do not know why
        self._torn = math.inf  # since when we are given no whole partitions
        self._abreast = Abreast()
        self._stops: dict[Any, float] | None = None
        self._begins: dict[Any, int] = {}
        self._transaction: KafkaTransaction | None = None
        self._deadline = Deadline()

    def enable_transactions(self, sinks: list[Sink]) -> None:
        kafka_sinks = [sink for sink in sinks if isinstance(sink, KafkaSink)]
        here = [sink for sink in kafka_sinks if sink.bootstrap_servers == self.bootstrap_servers]
        if strange := [sink for sink in sinks if sink not in here]:
            raise ValueError(
                f"transactional: expected sinks that write to Kafka at {','.join(self.bootstrap_servers)}, found "
                f"{strange[0]!r}"
            )
        client = kafka_sinks[0].client if kafka_sinks else ClientSettings({}, self._kafka.KafkaProducer.DEFAULT_CONFIG)
        self._transaction = KafkaTransaction(self.bootstrap_servers, self.group, client, self.timeout, self.patience)
        for sink in kafka_sinks:
            sink.join(self._transaction)

    def merge_topic(self, topic: str) -> KafkaMergeTopic:
        return KafkaMergeTopic(
            topic,
            self.bootstrap_servers,
            self.client.given,
            self.timeout,
            topics=self.topics,
            together=self.co_partitioned,
        )

    # -- taking part

    def poll(self) -> PollResult:
        from kafka.errors import KafkaError, NoOffsetForPartitionError

        try:
            if not self._is_member:
                self._join()
            try:
                batch = self._fetch()
            except NoOffsetForPartitionError:  # a partition nobody has read yet: where it begins is settled below
                batch = {}
            self._known.check(self._cluster)
            if self._notes:
                self._stranded = math.inf
                # Told before the brokers are asked, who may not answer, or with what ends the stream.
                return self._lose() if self._ours else self._settle()
            if clock.monotonic() - self._stranded > _STRANDED:
                self._disconnect()
                self._stranded = math.inf
                return self._lose()
            if batch:
                self._heard = clock.monotonic()
                for tp in batch:
                    self._ends[tp] = self._consumer.highwater(tp) or self._ends[tp]
            else:
                self._look_behind_messages()
            if clock.monotonic() - self._heard > _CHORES and self._offsets:
                self._ends |= self._consumer.end_offsets(list(self._offsets), timeout_ms=1000)
                self._heard = clock.monotonic()
        except Closed:
            return PollResult(lost=True)
        except (KafkaError, TimeoutError) as error:
            if (refusal := self._refused(error)) is not None:
                raise refusal from None
            if not self._has_joined and isinstance(error, TimeoutError):
                raise SourceError(f"{self.name}: {error}") from None
            self._bear(error)
            return self._lose() if self._consumer is None else PollResult()
        if self.co_partitioned:
            batch = dict(sorted(batch.items(), key=lambda part: self.topics.index(part[0].topic)))
            self._abreast.see(batch)
        ours = {tp: partition for partition, tps in self._ours.items() for tp in tps}
        return PollResult(items=[(ours[tp], self._part(tp, records)) for tp, records in batch.items() if tp in ours])

    def _part(self, tp: Any, records: list[Any]) -> Iterator[Sample | Rejected]:
        return self._items_of(tp, records, self._stop_of(tp))

    def _stop_of(self, tp: Any) -> float:
        return math.inf if self._stops is None else self._stops.get(tp, math.inf)

    def _fetch(self) -> dict[Any, list]:
        """Return the next messages, if there are any soon."""
        batch: dict[Any, list] = {}
        if self._notes or (self.co_partitioned and self._abreast.hold_back(self._consumer, self._ours, self._ends)):
            # kafka-python has to be asked once before it looks past what it must not hand out any more.
            batch = self._consumer.poll(timeout_ms=0)
        return batch if batch or self._notes else self._consumer.poll(timeout_ms=1000 * SLICE)

    def _connect(self) -> float:
        """Have a client; return until when what is asked next may take."""
        if self._consumer is None:
            options: dict[str, Any] = {"group_id": self.group}
            if self._transaction is not None:
                # Where the group stands is asked for when no transaction that moves it is open any more.
                options["isolation_level"] = "read_committed"
            if self.co_partitioned:
                from kafka.coordinator.assignors.range import RangePartitionAssignor

                # It gives whom it gives one number of a topic the same number of every other: members and partitions
                # are counted in the same order for each topic.
                options["partition_assignment_strategy"] = [RangePartitionAssignor]
            return self._open(RECONNECT if self._has_joined else self.timeout, **options)
        return clock.monotonic() + RECONNECT

    def _join(self) -> None:
        deadline = self._connect()
        if self.co_partitioned and not self._has_joined and (said := uneven(self.topics, self._cluster)):
            raise SourceError(said)
        self._notes = Notes()
        if self.end == "latest" and self._stops is None:
            self._stops = dict(self._ask(self._consumer.end_offsets, self._all_partitions(), deadline))
        self._consumer.subscribe(self.topics, listener=self._notes.listener())
        # A leader that has shared out the partitions before it is told of them does it a second time.
        told = self._cluster.request_update()
        wait_for(told, lambda: told.is_done, deadline, self._stop_if_closed)
        self._heard = clock.monotonic()
        self._has_joined = self._is_member = True

    def _lose(self) -> PollResult:
        self._ours.clear()
        self._waiting.clear()
        self._offsets.clear()
        self._known.forget()
        self._abreast.forget()
        self._membership = None
        if self._transaction is not None:
            self._transaction.abort()
        return PollResult(lost=True)

    def _strand(self) -> None:
        """Let go of everything; the group will say what is ours, or is asked again by a new client."""
        self._lose()
        self._stranded = clock.monotonic()

    def _refused(self, error: Exception) -> SourceError | None:
        from kafka.errors import InconsistentGroupProtocolError

        if isinstance(error, InconsistentGroupProtocolError):
            return SourceError(
                f"{self.name}: the group {self.group!r} has members that share out partitions in another way: this "
                "worker, or they, take another group"
            )
        return super()._refused(error)

    def _tear(self, assigned: set[Any], units: Units) -> PollResult:
        """Wait for whole partitions, for a while: where topics grow, one is the first."""
        now = clock.monotonic()
        self._torn = min(self._torn, now)
        if now - self._torn > self.timeout:
            told = self._cluster.request_update()
            wait_for(told, lambda: told.is_done, now + RECONNECT, self._stop_if_closed)
            partition, lacking = next(
                (partition, tp) for partition, tps in units.items() for tp in tps if tp not in assigned
            )
            raise SourceError(
                uneven(self.topics, self._cluster)
                or f"{self.name}: this worker was given a part of {partition}, without {partition_name(lacking)}: some "
                f"member of the group {self.group!r} reads other topics or is not co_partitioned"
            )
        self._strand()
        return PollResult(lost=True)

    def heartbeat(self) -> bool:
        from kafka.errors import KafkaError

        if self._consumer is None:
            return True
        coordinator = self._consumer._coordinator
        try:
            coordinator.poll_heartbeat()  # so that `max_poll_interval_ms` begins anew
            called = bool(self._notes) or coordinator.need_rejoin()
        except KafkaError:
            called = True  # to be dealt with by `poll`
        if called:
            for tp in self._consumer.assignment() & self._offsets.keys():
                self._consumer.seek(tp, self._offsets[tp])
        return called

    @property
    def generation(self) -> int:
        return self._membership.generation_id

    def _settle(self) -> PollResult:
        """Deal with what the group has decided, on the thread that may ask it back."""
        assigned = self._notes.take()
        self._lose()
        if assigned is None:  # the others have not come together yet
            return PollResult(lost=True)
        try:
            consumer, deadline = self._consumer, clock.monotonic() + self.timeout
            membership = consumer.group_metadata()
            tps = sorted(assigned)
            units = units_of(tps, self.topics, together=self.co_partitioned)
            if assigned != set(itertools.chain.from_iterable(units.values())):
                return self._tear(assigned, units)
            self._torn = math.inf
            begins = self._ask(consumer.beginning_offsets, tps, deadline)
            ends = self._ask(consumer.end_offsets, tps, deadline)
            gained = self._places(units)
            first = begins if self.start == "earliest" else ends
            for partition, place in gained.items():
                for tp in units[partition]:
                    if place.metadata is None:
                        place.offsets[partition_name(tp)] = first[tp]
                    self._check_due(tp, place.offsets[partition_name(tp)], begins[tp], ends[tp])
        except BaseException:
            self._notes.put_back(assigned)  # to be tried again
            raise
        self._known.learn(self._cluster, self.topics)
        self._begins, self._ends, self._membership = begins, ends, membership
        self._heard = clock.monotonic()
        self._waiting = units
        return PollResult(lost=True, assigned=gained)

    def identity(self, partition: str) -> dict[str, Any]:
        return self._known.state({tp: self._offsets[tp] for tp in self._ours[partition]})

    def expect_identity(self, partition: str, identity: Any) -> None:
        from kafka.errors import KafkaError

        tps = self._waiting[partition]
        ids = self._known.expect(partition, identity, tps)
        try:
            self._recognise(ids, {tp: self._begins[tp] for tp in tps})
        except (KafkaError, TimeoutError) as error:
            self._bear(error)
            self._strand()
            raise PartitionsLost from None
        except Closed:
            raise PartitionsLost from None

    def seek(self, partition: str, offsets: dict[str, int]) -> None:
        self._ours[partition] = tps = self._waiting.pop(partition)
        assigned = self._consumer.assignment()
        for tp in tps:
            self._offsets[tp] = offsets[partition_name(tp)]
            if tp in assigned:  # else the group has moved on, which the next poll tells
                # Always: a partition that was ours before keeps the position it had, behind messages of which we know
                # nothing any more.
                self._consumer.seek(tp, self._offsets[tp])

    def _look_behind_messages(self) -> None:
        for tp in self._offsets if self.gaps == "allow" else ():
            seen = self._consumer.position(tp, timeout_ms=0) or 0
            self._offsets[tp] = max(self._offsets[tp], seen)

    # -- where the group stands

    def commit(self, places: dict[str, CommittedOffsets]) -> bool:
        from kafka.errors import (
            CommitFailedError,
            FencedInstanceIdError,
            KafkaError,
            KafkaTimeoutError,
            RebalanceInProgressError,
        )

        if not places:
            return True
        self._check_membership()
        self._confirm(next(self._deadline.timeouts(_COMMIT_SLICE, _COMMIT_SLICE)))
        offsets = {
            tp: self._kafka.OffsetAndMetadata(place.offsets[partition_name(tp)], place.metadata, -1)
            for partition, place in places.items()
            for tp in self._ours.get(partition) or self._waiting[partition]
        }
        if self._transaction is not None:
            try:
                self._transaction.commit(offsets, self._membership)
            except PartitionsLost:
                if self._is_membership_ours():
                    # The group has nothing to tell us. A new membership makes sure that of the transaction nothing
                    # can count any more, and says where the partitions stand.
                    self._lose()
                    self._disconnect()
                else:
                    self._strand()
                raise
            return True
        late: Exception = KafkaTimeoutError("no time is left")
        for seconds in self._deadline.timeouts(_COMMIT, _COMMIT_SLICE):
            self._check_membership()
            try:
                self._consumer.commit(offsets, timeout_ms=1000 * seconds)
            except (CommitFailedError, RebalanceInProgressError, FencedInstanceIdError):
                self._strand()
                raise PartitionsLost from None
            except KafkaTimeoutError as error:
                late = error
            except KafkaError as error:
                if (refusal := self._refused(error)) is not None:
                    raise refusal from None
                self._bear(error)
                return False
            else:
                return True
        self._bear(late)
        return False

    def _stop_if_closed(self) -> None:
        super()._stop_if_closed()
        self._deadline.check()

    def set_deadline(self, seconds: float) -> None:
        self._deadline.set(seconds)
        if self._transaction is not None:
            self._transaction.deadline.set(seconds)

    def _check_membership(self) -> None:
        """Raise PartitionsLost unless a commit would use the generation in which the partitions were assigned.

        It goes out under that of the moment. A later one may have given us back a partition that others have learned of
        meanwhile. And it must be one: in a transaction the coordinator takes offsets from who claims no membership.
        """
        if not self._is_membership_ours():
            self._strand()
            raise PartitionsLost

    def _is_membership_ours(self) -> bool:
        if self._notes or self._consumer is None:
            return False
        now = self._consumer.group_metadata()
        return bool(now == self._membership and now.generation_id >= 0 and now.member_id)

    def committed(self) -> dict[str, CommittedOffsets]:
        from kafka.errors import KafkaError

        try:
            self._connect()
            return self._places(units_of(self._all_partitions(), self.topics, together=self.co_partitioned))
        except (KafkaError, TimeoutError) as error:
            if not self._heard and isinstance(error, TimeoutError):
                raise SourceError(f"{self.name}: {error}") from None
            self._bear(error)
            return {}

    def _places(self, units: Units) -> dict[str, CommittedOffsets]:
        # One question, so that the answers are of one moment: the coordinator changes what it knows of a group by one
        # commit at a time.
        asked = list(itertools.chain.from_iterable(units.values()))
        told = self._consumer._coordinator.fetch_committed_offsets(asked, timeout_ms=1000 * _COMMIT)
        places = {}
        for partition, tps in units.items():
            offsets = {partition_name(tp): told[tp].offset if tp in told else 0 for tp in tps}
            notes = {partition_name(tp): told[tp].metadata if tp in told else None for tp in tps}
            note, *others = set(notes.values())
            if others:
                raise SourceError(
                    f"{partition}: expected the same note beside the group's offsets, found different ones: {notes}. "
                    "Offsets were set or deleted by something else, or are of a group that was not co_partitioned. "
                    "Reset the group's offsets and its states together, or take another group"
                )
            places[partition] = CommittedOffsets(offsets, note)
        return places

    def position(self, partition: str) -> dict[str, int]:
        return {partition_name(tp): self._offsets[tp] for tp in self._ours[partition]}

    def at_end(self) -> bool:
        return self._stops is not None and all(offset >= self._stops.get(tp, 0) for tp, offset in self._offsets.items())

    def all_committed(self) -> bool:
        if self._stops is None:
            return False
        places = self.committed()
        learned: dict[str, int] = {}
        for place in places.values():
            learned |= place.offsets if place.metadata is not None else {}
        return bool(places) and all(
            stop == 0 or learned.get(partition_name(tp), -1) >= stop for tp, stop in self._stops.items()
        )

    @property
    def progress(self) -> float | None:
        if self._stops is None or not self._ours:
            return None
        total = read = 0.0
        for tp, offset in self._offsets.items():
            stop = self._stops.get(tp, offset)
            total += stop - self._begins[tp]
            read += min(offset, stop) - self._begins[tp]
        return read / total if total else 1.0

    def lags(self) -> dict[str, int]:
        return {partition_name(tp): max(0, self._ends.get(tp, 0) - offset) for tp, offset in self._offsets.items()}

    def close(self) -> None:
        self._closed = True
        self._lose()
        if self._transaction is not None:
            self._transaction.close()
        self._disconnect()

    def _disconnect(self) -> None:
        consumer, self._consumer, self._is_member = self._consumer, None, False
        if consumer is not None:
            from kafka.errors import KafkaError

            with contextlib.suppress(KafkaError):
                consumer.close(autocommit=False, timeout_ms=1000)
