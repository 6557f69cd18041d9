"""Whether a topic is the one that was read before: topics are deleted and made anew under the same name."""

from __future__ import annotations

import bisect
import hashlib
import operator
import time as clock
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import msgspec

from fwonline.exceptions import CheckpointError, SourceError
from fwonline.stream.kafka.client import ClientSettings, connect, kafka_python

__all__ = ["KnownTopics", "messages_at", "topic_id"]

_Offset = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
_offset_of = operator.attrgetter("offset")


class _Known(msgspec.Struct):
    """What a state says of a topic: its id, and by partition the offset and the digest of the last message read."""

    id: Annotated[str, msgspec.Meta(max_length=64)] | None = None
    last: dict[int, tuple[_Offset, _Digest]] = {}


def topic_id(cluster: Any, topic: str) -> str | None:
    """Return the topic's id as Kafka's tools show it; None where brokers (before 2.8) or the client know of none."""
    ask = getattr(cluster, "topic_id", None)
    found = None if ask is None else ask(topic)
    if found is None or not found.int:
        return None
    return urlsafe_b64encode(found.bytes).decode().rstrip("=")


def _digest(record: Any) -> str:
    parts = (str(record.timestamp).encode(), record.key, record.value)
    said = hashlib.blake2b(digest_size=16)
    for part in parts:
        said.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    return said.hexdigest()


class KnownTopics:
    """What a reader knows of its topics.

    A topic is known by its id. Where brokers tell none, or a state was written when they told none, it is known by the
    last message that was read of each partition, which must be there still.

    Parameters
    ----------
    gaps
        Whether a message that was read may be missing, as compaction leaves it: "allow" or "error".
    cure
        What to do about a topic that is another one.

    Attributes
    ----------
    ids
        Topic to its id, as it was seen first.
    """

    def __init__(self, gaps: str, cure: str) -> None:
        self._gaps = gaps
        self._cure = cure
        self.ids: dict[str, str] = {}
        self._told: dict[Any, tuple[int, str]] = {}  # partition to the last message, as a state tells it
        self._batches: dict[Any, list[Any]] = {}  # partition to what is being read
        self._last: dict[Any, Any] = {}  # partition to the last message of a batch that was read to its end

    # -- what was read

    def begin(self, tp: Any, records: list[Any]) -> None:
        """Note that these are being read."""
        self._batches[tp] = records

    def end(self, tp: Any, records: list[Any]) -> None:
        """Note that these were read, all of them."""
        self._batches.pop(tp, None)
        self._last[tp] = records[-1]

    def forget(self) -> None:
        """Forget what was read of the partitions; the topics' ids stay known."""
        self._told.clear()
        self._batches.clear()
        self._last.clear()

    def state(self, offsets: Mapping[Any, int]) -> dict[str, Any]:
        """Return what is known of partitions, each read up to an offset, as something JSON can hold."""
        state: dict[str, dict[str, Any]] = {}
        for tp, due in sorted(offsets.items()):
            known = state.setdefault(tp.topic, {"id": self.ids.get(tp.topic), "last": {}})
            if (last := self._last_read(tp, due)) is not None:
                known["last"][str(tp.partition)] = list(last)
        return state

    def _last_read(self, tp: Any, due: int) -> tuple[int, str] | None:
        batch = self._batches.get(tp, ())
        behind = bisect.bisect_left(batch, due, key=_offset_of)
        record = batch[behind - 1] if behind else self._last.get(tp)
        return self._told.get(tp) if record is None else (record.offset, _digest(record))

    # -- whether it is the same

    def expect(self, name: str, state: Any, tps: Iterable[Any]) -> dict[str, str]:
        """Take up what a state says of these partitions; return the ids that it tells of their topics.

        Raises
        ------
        CheckpointError
            When it cannot be understood.

        """
        try:
            told = msgspec.convert(state or {}, dict[str, _Known], strict=False)
        except msgspec.ValidationError as error:
            raise CheckpointError(f"{name}: what the state says of its topics cannot be read: {error}") from None
        ids: dict[str, str] = {}
        for tp in tps:
            known = told.get(tp.topic, _Known())
            if known.id is not None:
                ids[tp.topic] = known.id
            if (last := known.last.get(tp.partition)) is not None:
                self._told[tp] = last
        return ids

    def check(self, cluster: Any) -> None:
        """Make sure that topics have the ids that they had when they were seen first.

        Raises
        ------
        SourceError
            When a topic is another one of the same name.

        """
        self.check_ids(cluster, self.ids)

    def check_ids(self, cluster: Any, ids: Mapping[str, str]) -> None:
        """Make sure that topics have these ids, as far as the brokers tell.

        Raises
        ------
        SourceError
            As `check`.

        """
        for topic, before in ids.items():
            now = topic_id(cluster, topic)
            if now is not None and now != before:
                raise SourceError(
                    f"{topic}: this is not the topic that was read before: its id is {now}, and was {before}. It was "
                    f"deleted and made anew. {self._cure}"
                )

    def learn(self, cluster: Any, topics: Iterable[str]) -> None:
        """Note the ids of topics of which none is known yet."""
        for topic in topics:
            if topic not in self.ids and (now := topic_id(cluster, topic)) is not None:
                self.ids[topic] = now

    def doubtful(self, cluster: Any, ids: Mapping[str, str], begins: Mapping[Any, int]) -> dict[Any, int]:
        """Return the partitions of which ids say nothing, and where the message stands that must still be there.

        One that was deleted since proves nothing, and is left out.
        """
        return {
            tp: self._at(tp)
            for tp, begin in begins.items()
            if (tp.topic not in ids or topic_id(cluster, tp.topic) is None) and self._at(tp) >= begin
        }

    def _at(self, tp: Any) -> int:
        if (record := self._last.get(tp)) is not None:
            return int(record.offset)
        return self._told.get(tp, (-1, ""))[0]

    def compare(self, found: Mapping[Any, Any]) -> None:
        """Compare the messages that stand now, None where there is none, with those that were read.

        Raises
        ------
        SourceError
            When one is not the same.

        """
        for tp, record in found.items():
            at = self._at(tp)
            place = f"{tp.topic}[{tp.partition}]@{at}"
            last = self._last.get(tp)
            digest = self._told[tp][1] if last is None else _digest(last)
            if record is None or record.offset != at:
                if self._gaps == "allow":  # compaction may have taken it out
                    continue
                what = "the message that was read there is gone"
            elif _digest(record) == digest:
                continue
            else:
                what = "the message there is not the one that was read"
            raise SourceError(
                f"{place}: {what}: this is not the topic that was read before; it was deleted and made anew, or its "
                f"messages were lost. {self._cure}"
            )


def messages_at(
    bootstrap_servers: list[str],
    settings: ClientSettings,
    places: Mapping[Any, int],
    *,
    seconds: float,
    keep_on: Callable[[], None],
) -> dict[Any, Any]:
    """Return the first message from an offset on of each partition, None where there is none, by a client of its own.

    Raises
    ------
    TimeoutError
        When the brokers did not say in time.

    """
    from kafka.errors import KafkaError

    deadline = clock.monotonic() + seconds
    options = {
        "bootstrap_servers": bootstrap_servers,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",  # what was deleted meanwhile is found to be gone
        "group_id": None,
    }
    consumer, _ = connect(
        kafka_python().KafkaConsumer,
        options,
        settings,
        seconds=seconds,
        keep_on=keep_on,
        defaults={"allow_auto_create_topics": False},
    )
    found: dict[Any, Any] = {}
    try:
        consumer.assign(list(places))
        for tp, offset in places.items():
            consumer.seek(tp, offset)
        while len(found) < len(places):
            keep_on()
            if clock.monotonic() > deadline:
                raise TimeoutError(f"no answer from {','.join(bootstrap_servers)}: which messages are there")
            for tp, records in consumer.poll(timeout_ms=200).items():
                found.setdefault(tp, records[0])
            for tp in places.keys() - found.keys():
                if (consumer.position(tp, timeout_ms=0) or 0) > places[tp]:
                    found[tp] = None
            consumer.pause(*found)
    except KafkaError as error:
        raise TimeoutError(f"no answer from {','.join(bootstrap_servers)}: {error}") from None
    finally:
        consumer.close(autocommit=False, timeout_ms=1000)
    return found
