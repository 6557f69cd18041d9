"""Whether a topic is the one that was read before: topics are deleted and created again under the same name."""

from __future__ import annotations

import bisect
import hashlib
import operator
import time as clock
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import msgspec

from fwonline.exceptions import CheckpointError, SourceError
from fwonline.stream.kafka.client import Client
from fwonline.stream.kafka.compat import Metadata, errors

__all__ = ["TopicIdentity", "messages_at", "partition_name"]

_Offset = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
_offset_of = operator.attrgetter("offset")


class _State(msgspec.Struct):
    """What a checkpoint keeps of a topic: its id; by partition, offset and digest of the last message read."""

    id: Annotated[str, msgspec.Meta(max_length=64)] | None = None
    last: dict[int, tuple[_Offset, _Digest]] = {}


def partition_name(tp: Any) -> str:
    """Return `topic[0]`."""
    return f"{tp.topic}[{tp.partition}]"


def _digest(record: Any) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in (str(record.timestamp).encode(), record.key, record.value):
        digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    return digest.hexdigest()


class TopicIdentity:
    """Recognises a reader's topics by their ids.

    If the brokers return none, or returned none when a checkpoint was written, a topic is recognised by the last
    message that was read of each partition, which must still be there.

    With `gaps="allow"` messages that were read may be missing later, as in compacted topics. The errors end with
    `remedy`: what to do about another topic of the same name.
    """

    def __init__(self, gaps: str, remedy: str) -> None:
        self._gaps = gaps
        self._remedy = remedy
        self.ids: dict[str, str] = {}  # by topic, as first seen
        self._restored: dict[Any, tuple[int, str]] = {}  # partition to its last message, from a checkpoint
        self._batches: dict[Any, list[Any]] = {}  # partition to the batch that is being read
        self._last: dict[Any, Any] = {}  # partition to the last message of a batch that was read to its end

    # -- what was read

    def begin_batch(self, tp: Any, records: list[Any]) -> None:
        """Note that these messages are being read."""
        self._batches[tp] = records

    def end_batch(self, tp: Any, records: list[Any]) -> None:
        """Note that all of them were read."""
        self._batches.pop(tp, None)
        self._last[tp] = records[-1]

    def forget(self) -> None:
        """Forget what was read; the topics' ids stay known."""
        self._restored.clear()
        self._batches.clear()
        self._last.clear()

    def state(self, offsets: Mapping[Any, int]) -> dict[str, Any]:
        """Return what a checkpoint keeps of partitions, each read up to an offset, as something JSON can hold."""
        state: dict[str, dict[str, Any]] = {}
        for tp, due in sorted(offsets.items()):
            topic = state.setdefault(tp.topic, {"id": self.ids.get(tp.topic), "last": {}})
            batch = self._batches.get(tp, ())
            index = bisect.bisect_left(batch, due, key=_offset_of)
            record = batch[index - 1] if index else self._last.get(tp)
            last = self._restored.get(tp) if record is None else (record.offset, _digest(record))
            if last is not None:
                topic["last"][str(tp.partition)] = list(last)
        return state

    # -- whether it is the same

    def restore(self, name: str, state: Any, tps: Iterable[Any]) -> dict[str, str]:
        """Take over what a checkpoint of `name` keeps of partitions; return their topics' ids, as far as it has them.

        Raises CheckpointError when it cannot be read.
        """
        try:
            topics = msgspec.convert(state or {}, dict[str, _State], strict=False)
        except msgspec.ValidationError as error:
            raise CheckpointError(f"{name}: what the state says of its topics cannot be read: {error}") from None
        ids: dict[str, str] = {}
        for tp in tps:
            topic = topics.get(tp.topic, _State())
            if topic.id is not None:
                ids[tp.topic] = topic.id
            if (last := topic.last.get(tp.partition)) is not None:
                self._restored[tp] = last
        return ids

    def check(self, metadata: Metadata, ids: Mapping[str, str] | None = None) -> None:
        """Check that topics have these ids, by default those first seen, as far as the brokers return ids.

        Raises SourceError when a topic is another one of the same name.
        """
        for topic, before in (self.ids if ids is None else ids).items():
            now = metadata.topic_id(topic)
            if now is not None and now != before:
                raise SourceError(
                    f"{topic}: this is not the topic that was read before: its id is {now}, and was {before}. It was "
                    f"deleted and made anew. {self._remedy}"
                )

    def learn(self, metadata: Metadata, topics: Iterable[str]) -> None:
        """Note the ids of topics that have none yet."""
        for topic in topics:
            if topic not in self.ids and (now := metadata.topic_id(topic)) is not None:
                self.ids[topic] = now

    def unproven(self, metadata: Metadata, ids: Mapping[str, str], begins: Mapping[Any, int]) -> dict[Any, int]:
        """Return the partitions that no id proves, each with the offset of the message that must still be there.

        One that was deleted since proves nothing, and is left out.
        """
        return {
            tp: self._last_offset(tp)
            for tp, begin in begins.items()
            if (tp.topic not in ids or metadata.topic_id(tp.topic) is None) and self._last_offset(tp) >= begin
        }

    def _last_offset(self, tp: Any) -> int:
        record = self._last.get(tp)
        return self._restored.get(tp, (-1, ""))[0] if record is None else int(record.offset)

    def compare(self, found: Mapping[Any, Any]) -> None:
        """Compare the messages that are there now, None if there is none, with those that were read.

        Raises SourceError when one is not the same.
        """
        for tp, record in found.items():
            offset, last = self._last_offset(tp), self._last.get(tp)
            if record is None or record.offset != offset:
                if self._gaps == "allow":  # compaction may have removed it
                    continue
                what = "the message that was read there is gone"
            elif _digest(record) == (self._restored[tp][1] if last is None else _digest(last)):
                continue
            else:
                what = "the message there is not the one that was read"
            raise SourceError(
                f"{partition_name(tp)}@{offset}: {what}: this is not the topic that was read before; it was deleted "
                f"and made anew, or its messages were lost. {self._remedy}"
            )


def messages_at(
    client: Client, offsets: Mapping[Any, int], seconds: float, check: Callable[[], None]
) -> dict[Any, Any]:
    """Return the first message from an offset on of each partition, None if there is none, by a consumer of its own.

    Raises TimeoutError when the brokers did not answer in time.
    """
    deadline = clock.monotonic() + seconds
    consumer, _ = client.connect(
        seconds,
        check,
        defaults={"allow_auto_create_topics": False},
        enable_auto_commit=False,
        auto_offset_reset="earliest",  # so that a deleted message is found to be gone
        group_id=None,
    )
    found: dict[Any, Any] = {}
    try:
        consumer.assign(list(offsets))
        for tp, offset in offsets.items():
            consumer.seek(tp, offset)
        while len(found) < len(offsets):
            check()
            if clock.monotonic() > deadline:
                raise TimeoutError(f"no answer from {client.servers}: which messages are there")
            for tp, records in consumer.poll(timeout_ms=200).items():
                found.setdefault(tp, records[0])
            for tp in offsets.keys() - found.keys():
                if (consumer.position(tp, timeout_ms=0) or 0) > offsets[tp]:
                    found[tp] = None
            consumer.pause(*found)
    except errors.KafkaError as error:
        raise TimeoutError(f"no answer from {client.servers}: {error}") from None
    finally:
        consumer.close(autocommit=False, timeout_ms=1000)
    return found
