"""Kafka topics whose partitions a consumer group assigns to its workers."""

from __future__ import annotations

import itertools
import math
import time as clock
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from fwonline.exceptions import SourceError
from fwonline.stream.base import Sink
from fwonline.stream.group import CommittedOffsets, GroupSource, PartitionsLost, PollResult
from fwonline.stream.kafka.assignment import Assignment
from fwonline.stream.kafka.client import Client, Deadline, close_quietly
from fwonline.stream.kafka.co_partitions import GroupPartitions, TimestampAligner, group_partitions, uneven
from fwonline.stream.kafka.compat import committed_offsets, errors, heartbeat
from fwonline.stream.kafka.identity import partition_name
from fwonline.stream.kafka.merge_topic import KafkaMergeTopic
from fwonline.stream.kafka.reader import POLL, RECONNECT, Closed, KafkaReader, ReaderOptions, one_of
from fwonline.stream.kafka.sinks import KafkaSink
from fwonline.stream.kafka.transactions import KafkaTransaction
from fwonline.stream.records import RecordLayout, listed

__all__ = ["KafkaGroupSource"]

# Seconds.
_COMMIT = 5.0  # one commit
_COMMIT_TRY = 1.0  # one try of it: a commit that is repeated does no harm
_REBALANCE = 5.0  # for the group to assign partitions after they were given up; then the client is replaced


class KafkaGroupSource(KafkaReader, GroupSource):
    """The messages of Kafka topics for one worker of a consumer group.

    The coordinator, a broker, assigns the partitions. Each worker has a source of its own with the same `group`.
    The group's committed offsets are the truth about a partition's position. The metadata that are committed with an
    offset hold the name of the saved state that has learned the messages before it: see `fwonline.loop.GroupLoop`.

    Parameters
    ----------
    topics, bootstrap_servers, target, key, time, features, drop, require_target, decode, gaps, timeout, patience, name
        As for `KafkaSource`.
    group
        The name of the consumer group. It belongs to one model: another model takes another group.
    start
        Where to begin in a partition without a committed offset: `"earliest"` or `"latest"`. A partition added to a
        topic later is read from its beginning in the first case alone.
    end
        `"never"`, or `"latest"`: the group stops where the topics ended when this worker began.
    co_partitioned
        Whether the partitions of one number, one of each topic, are one partition of the group, with one model and one
        table of waiting questions: `questions[3]` and `answers[3]` are `questions+answers[3]`. The topics have the same
        number of partitions, are written with the same keys, and are named in the same order by all members, the
        questions first. A topic is paused while another one has older messages to read, by their timestamps, so that
        none runs ahead by more than one poll returns (`max_poll_records`, 500). That is no order: an answer may come
        before its question (`max_early`), and learning a partition again may mix the topics differently and end with
        another model. If partitions were added to one topic alone, or the group assigns a part of them, nothing is
        learned, and after `timeout` seconds the stream ends with an error.
    client
        Further settings for kafka-python's consumer, as for `KafkaSource`: among them `session_timeout_ms`, after which
        a silent worker loses its partitions (45 s by default), and `max_poll_interval_ms`, within which a worker must
        poll again (5 minutes).

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

    _remedy = (
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
        options = ReaderOptions(decode, gaps, client, timeout, patience, name)
        super().__init__(topics, bootstrap_servers, layout, options)
        if not group:
            raise ValueError("group: expected a name")
        if "partition_assignment_strategy" in (client or {}):
            # With a strategy that revokes a part only, a worker could not prove that it owns the rest.
            raise ValueError(
                "client: expected no 'partition_assignment_strategy': a group source chooses its own; leave it out"
            )
        self.group = group
        self.start = one_of("start", start, "earliest", "latest")
        self.end = one_of("end", end, "never", "latest")
        if co_partitioned and len(set(self.topics)) < len(self.topics):
            raise ValueError(f"topics: expected different ones, found {listed(self.topics)}")
        self.co_partitioned = co_partitioned
        self._assigned: GroupPartitions = {}  # assigned, and `seek` was called for them
        self._unsought: GroupPartitions = {}  # assigned; `seek` has not been called yet
        self._assignment = Assignment()
        self._member: Any = None  # member id and generation to which the partitions were assigned
        self._is_subscribed = False
        self._has_joined = False  # ever
        self._lost_since = math.inf  # since when an assignment is waited for, after partitions were given up; or inf
        self._incomplete_since = math.inf  # since when only parts of co-partitioned topics are assigned
        self._aligner = TimestampAligner()
        self._transaction: KafkaTransaction | None = None
        self._deadline = Deadline()

    def enable_transactions(self, sinks: list[Sink]) -> None:
        kafka_sinks = [sink for sink in sinks if isinstance(sink, KafkaSink)]
        here = [sink for sink in kafka_sinks if sink.bootstrap_servers == self.bootstrap_servers]
        if strange := [sink for sink in sinks if sink not in here]:
            raise ValueError(
                f"transactional: expected sinks that write to Kafka at {self.client.servers}, found {strange[0]!r}"
            )
        client = kafka_sinks[0].client if kafka_sinks else Client("KafkaProducer", self.bootstrap_servers, {})
        self._transaction = KafkaTransaction(client, self.group, self.timeout, self.patience)
        for sink in kafka_sinks:
            sink.join(self._transaction)

    def merge_topic(self, topic: str) -> KafkaMergeTopic:
        return KafkaMergeTopic(topic, self.client, self.timeout, self.topics, co_partitioned=self.co_partitioned)

    # -- membership

    def poll(self) -> PollResult:
        try:
            if not self._is_subscribed:
                self._join()
            return self._poll()
        except Closed:
            return PollResult(lost=True)
        except (errors.KafkaError, TimeoutError) as error:
            if (permanent := self._permanent(error)) is not None:
                raise permanent from None
            if not self._has_joined and isinstance(error, TimeoutError):
                raise SourceError(f"{self.name}: {error}") from None
            self._tolerate(error)
            return self._lose() if self._consumer is None else PollResult()

    def _poll(self) -> PollResult:
        try:
            batch = self._fetch()
        except errors.NoOffsetForPartitionError:  # a new partition: `_take_assignment` decides where it starts
            batch = {}
        self._identity.check(self._metadata)
        if self._assignment.pending:
            self._lost_since = math.inf
            # The loss is returned before the brokers are asked, who may not answer, or end the stream.
            return self._lose() if self._assigned else self._take_assignment()
        if clock.monotonic() - self._lost_since > _REBALANCE:
            self._disconnect()
            self._lost_since = math.inf
            return self._lose()
        self._note_batch(batch)
        self._probe_quiet_brokers()
        if self.co_partitioned:
            batch = dict(sorted(batch.items(), key=lambda part: self.topics.index(part[0].topic)))
            self._aligner.note(batch)
        names = {tp: partition for partition, tps in self._assigned.items() for tp in tps}
        return PollResult(items=[(names[tp], self._items_of(tp, part)) for tp, part in batch.items() if tp in names])

    def _fetch(self) -> dict[Any, list]:
        """Return the next messages, if there are any soon."""
        batch: dict[Any, list] = {}
        pending = self._assignment.pending
        if pending or (self.co_partitioned and self._aligner.align(self._consumer, self._assigned, self._ends)):
            # kafka-python skips buffered messages of paused or revoked partitions in `poll` only, so it is called.
            batch = self._consumer.poll(timeout_ms=0)
        return batch if batch or self._assignment.pending else self._consumer.poll(timeout_ms=1000 * POLL)

    def _open(self) -> float:
        """Connect if need be; return the deadline for the requests that follow."""
        if self._consumer is not None:
            return clock.monotonic() + RECONNECT
        options: dict[str, Any] = {"group_id": self.group}
        if self._transaction is not None:
            # Committed offsets are returned when no transaction that moves them is open any more.
            options["isolation_level"] = "read_committed"
        if self.co_partitioned:
            from kafka.coordinator.assignors.range import RangePartitionAssignor

            # It assigns the partitions of one number, one of each topic, to the same member.
            options["partition_assignment_strategy"] = [RangePartitionAssignor]
        return self._connect(RECONNECT if self._has_joined else self.timeout, **options)

    def _join(self) -> None:
        deadline = self._open()
        if self.co_partitioned and not self._has_joined and (problem := uneven(self.topics, self._metadata)):
            raise SourceError(problem)
        self._assignment = Assignment()
        if self.end == "latest" and self._stops is None:
            self._stops = dict(self._ask(self._consumer.end_offsets, self._all_partitions(), deadline))
        self._consumer.subscribe(self.topics, listener=self._assignment.listener())
        # A leader that assigns partitions before it has their metadata does it a second time.
        self._metadata.refresh(deadline, check=self._stop_if_closed)
        self._last_contact = clock.monotonic()
        self._has_joined = self._is_subscribed = True

    def _all_partitions(self) -> list[Any]:
        kind, known = self._kafka.TopicPartition, self._metadata
        return [kind(topic, number) for topic in self.topics for number in sorted(known.partitions(topic))]

    def _group_partitions(self, tps: list[Any]) -> GroupPartitions:
        return group_partitions(tps, self.topics, co_partitioned=self.co_partitioned)

    def _take_assignment(self) -> PollResult:
        """Return the newly assigned partitions with their committed offsets."""
        assigned = self._assignment.take()
        self._lose()
        if assigned is None:  # the other members have not joined yet
            return PollResult(lost=True)
        try:
            consumer, deadline = self._consumer, clock.monotonic() + self.timeout
            member = consumer.group_metadata()
            tps = sorted(assigned)
            partitions = self._group_partitions(tps)
            if assigned != set(itertools.chain.from_iterable(partitions.values())):
                return self._await_complete(assigned, partitions)
            self._incomplete_since = math.inf
            begins = self._ask(consumer.beginning_offsets, tps, deadline)
            ends = self._ask(consumer.end_offsets, tps, deadline)
            committed = self._committed(partitions)
            first = begins if self.start == "earliest" else ends
            for partition, (offsets, metadata) in committed.items():
                for tp in partitions[partition]:
                    if metadata is None:
                        offsets[partition_name(tp)] = first[tp]
                    self._check_due(tp, offsets[partition_name(tp)], begins[tp], ends[tp])
        except BaseException:
            self._assignment.put_back(assigned)  # to be tried again
            raise
        self._identity.learn(self._metadata, self.topics)
        self._begins, self._ends, self._member = begins, ends, member
        self._last_contact = clock.monotonic()
        self._unsought = partitions
        return PollResult(lost=True, assigned=committed)

    def _await_complete(self, assigned: set[Any], partitions: GroupPartitions) -> PollResult:
        """Wait until all topics of co-partitions are assigned: partitions are added to one topic after another."""
        now = clock.monotonic()
        self._incomplete_since = min(self._incomplete_since, now)
        if now - self._incomplete_since > self.timeout:
            self._metadata.refresh(now + RECONNECT, check=self._stop_if_closed)
            name, lacking = next((name, tp) for name, tps in partitions.items() for tp in tps if tp not in assigned)
            raise SourceError(
                uneven(self.topics, self._metadata)
                or f"{self.name}: this worker was given a part of {name}, without {partition_name(lacking)}: some "
                f"member of the group {self.group!r} reads other topics or is not co_partitioned"
            )
        return self._await_assignment()

    def _lose(self) -> PollResult:
        """Drop everything that belongs to the partitions assigned so far."""
        self._assigned.clear()
        self._unsought.clear()
        self._offsets.clear()
        self._identity.forget()
        self._aligner.forget()
        self._member = None
        if self._transaction is not None:
            self._transaction.abort()
        return PollResult(lost=True)

    def _await_assignment(self) -> PollResult:
        """Drop everything, until the group assigns partitions or is asked again by a new client."""
        result = self._lose()
        self._lost_since = clock.monotonic()
        return result

    def _permanent(self, error: Exception) -> SourceError | None:
        if isinstance(error, errors.InconsistentGroupProtocolError):
            return SourceError(
                f"{self.name}: the group {self.group!r} has members that share out partitions in another way: this "
                "worker, or they, take another group"
            )
        return super()._permanent(error)

    def heartbeat(self) -> bool:
        """Return whether a rebalance is due; positions then go back to what was taken, so that nothing is skipped."""
        if self._consumer is None:
            return True
        try:
            rebalance = heartbeat(self._consumer) or self._assignment.pending
        except errors.KafkaError:
            rebalance = True  # `poll` deals with it
        if rebalance:
            for tp in self._consumer.assignment() & self._offsets.keys():
                self._consumer.seek(tp, self._offsets[tp])
        return rebalance

    @property
    def generation(self) -> int:
        return self._member.generation_id

    def _check_generation(self) -> None:
        """Raise PartitionsLost unless a commit would be of the generation in which the partitions were assigned.

        kafka-python commits as a member of the present generation. If that is a later one, others may have learned from
        the partitions meanwhile. And this worker must be a member: within a transaction the coordinator accepts offsets
        from those who are not.
        """
        if not self._is_current():
            self._await_assignment()
            raise PartitionsLost

    def _is_current(self) -> bool:
        if self._assignment.pending or self._consumer is None:
            return False
        now = self._consumer.group_metadata()
        return bool(now == self._member and now.generation_id >= 0 and now.member_id)

    # -- the assigned partitions

    def identity(self, partition: str) -> dict[str, Any]:
        return self._identity.state({tp: self._offsets[tp] for tp in self._assigned[partition]})

    def expect_identity(self, partition: str, identity: Any) -> None:
        tps = self._unsought[partition]
        ids = self._identity.restore(partition, identity, tps)
        try:
            self._check_identity(ids, {tp: self._begins[tp] for tp in tps})
        except (errors.KafkaError, TimeoutError) as error:
            self._tolerate(error)
            self._await_assignment()
            raise PartitionsLost from None
        except Closed:
            raise PartitionsLost from None

    def seek(self, partition: str, offsets: dict[str, int]) -> None:
        self._assigned[partition] = tps = self._unsought.pop(partition)
        assigned = self._consumer.assignment()
        for tp in tps:
            self._offsets[tp] = offsets[partition_name(tp)]
            if tp in assigned:  # else there was another rebalance, which the next poll returns
                # Even where it is assigned once more: the consumer would go on after messages that were given up.
                self._consumer.seek(tp, self._offsets[tp])

    def position(self, partition: str) -> dict[str, int]:
        return {partition_name(tp): self._offsets[tp] for tp in self._assigned[partition]}

    def at_end(self) -> bool:
        return self._stops is not None and all(offset >= self._stops.get(tp, 0) for tp, offset in self._offsets.items())

    # -- committed offsets

    def commit(self, offsets: dict[str, CommittedOffsets]) -> bool:
        if not offsets:
            return True
        self._check_generation()
        self._confirm_identity(next(self._deadline.timeouts(_COMMIT_TRY, _COMMIT_TRY)))
        by_tp = {
            tp: self._kafka.OffsetAndMetadata(committed.offsets[partition_name(tp)], committed.metadata, -1)
            for partition, committed in offsets.items()
            for tp in self._assigned.get(partition) or self._unsought[partition]
        }
        if self._transaction is None:
            return self._commit(by_tp)
        try:
            self._transaction.commit(by_tp, self._member)
        except PartitionsLost:
            if self._is_current():
                # There was no rebalance. A new membership makes sure that nothing of the transaction can count any
                # more, and returns the committed offsets.
                self._lose()
                self._disconnect()
            else:
                self._await_assignment()
            raise
        return True

    def _commit(self, offsets: dict[Any, Any]) -> bool:
        late: Exception = errors.KafkaTimeoutError("no time is left")
        for seconds in self._deadline.timeouts(_COMMIT, _COMMIT_TRY):
            self._check_generation()
            try:
                self._consumer.commit(offsets, timeout_ms=1000 * seconds)
            except (errors.CommitFailedError, errors.RebalanceInProgressError, errors.FencedInstanceIdError):
                self._await_assignment()
                raise PartitionsLost from None
            except errors.KafkaTimeoutError as error:
                late = error
            except errors.KafkaError as error:
                if (permanent := self._permanent(error)) is not None:
                    raise permanent from None
                late = error
                break
            else:
                return True
        self._tolerate(late)
        return False

    def committed(self) -> dict[str, CommittedOffsets]:
        try:
            self._open()
            return self._committed(self._group_partitions(self._all_partitions()))
        except (errors.KafkaError, TimeoutError) as error:
            if not self._last_contact and isinstance(error, TimeoutError):
                raise SourceError(f"{self.name}: {error}") from None
            self._tolerate(error)
            return {}

    def _committed(self, partitions: GroupPartitions) -> dict[str, CommittedOffsets]:
        found = committed_offsets(self._consumer, itertools.chain.from_iterable(partitions.values()), _COMMIT)
        committed = {}
        for partition, tps in partitions.items():
            offsets = {partition_name(tp): found[tp].offset if tp in found else 0 for tp in tps}
            metadata = {partition_name(tp): found[tp].metadata if tp in found else None for tp in tps}
            first, *others = set(metadata.values())
            if others:
                raise SourceError(
                    f"{partition}: expected the same metadata with the group's offsets, found different ones: "
                    f"{metadata}. Offsets were set or deleted by something else, or are of a group that was not "
                    "co_partitioned. Reset the group's offsets and its states together, or take another group"
                )
            committed[partition] = CommittedOffsets(offsets, first)
        return committed

    def all_committed(self) -> bool:
        if self._stops is None:
            return False
        committed = self.committed()
        learned: dict[str, int] = {}
        for offsets, metadata in committed.values():
            learned |= offsets if metadata is not None else {}
        return bool(committed) and all(
            stop == 0 or learned.get(partition_name(tp), -1) >= stop for tp, stop in self._stops.items()
        )

    # -- ending

    def _stop_if_closed(self) -> None:
        super()._stop_if_closed()
        self._deadline.check()

    def set_deadline(self, seconds: float) -> None:
        self._deadline.set(seconds)
        if self._transaction is not None:
            self._transaction.deadline.set(seconds)

    def close(self) -> None:
        self._closed = True
        self._lose()
        if self._transaction is not None:
            self._transaction.close()
        self._disconnect()

    def _disconnect(self) -> None:
        consumer, self._consumer, self._is_subscribed = self._consumer, None, False
        close_quietly(consumer, autocommit=False, timeout_ms=1000)
