"""A group in memory: partitions of samples, committed places, and a script of what each worker is told."""

from __future__ import annotations

from collections import deque

from fwonline.exceptions import SourceError
from fwonline.stream import Rejected, Sample
from fwonline.stream.group import CommittedOffsets, GroupSource, MergeTopic, PartitionsLost, PollResult


class Board(MergeTopic):
    """A merge topic that a group shares."""

    def __init__(self) -> None:
        self.documents: dict[str, tuple[int, bytes]] = {}
        self.is_open = True

    def publish(self, partition, offset, document):
        if not self.is_open:
            raise SourceError("no room")
        self.documents[partition] = offset, document

    def latest(self):
        return self.documents


class Group:
    """What the brokers know: the messages and the committed places.

    `together` are the names of what is one partition: `{"q+a[0]": ("q[0]", "a[0]")}`.
    """

    def __init__(self, together: dict[str, tuple[str, ...]] | None = None, **partitions: list) -> None:
        self.messages = {f"{name[:-1].replace('p', 't')}[{name[-1]}]": items for name, items in partitions.items()}
        self.units = together or {name: (name,) for name in self.messages}
        self.places: dict[str, CommittedOffsets] = {}
        self.generation = 0
        self.board = Board()
        self.made = "first"  # what the stream's topics are, whatever they are called

    def place(self, partition: str) -> CommittedOffsets:
        return self.places.get(partition) or CommittedOffsets(dict.fromkeys(self.units[partition], 0), None)


class Member(GroupSource):
    """A worker's part, which does what the script says: `gain`, `read`, `lose`, `end`."""

    name, group = "t", "g"

    def __init__(self, group: Group, *script: tuple) -> None:
        self.shared = group
        self.script = deque(script)
        self.offsets: dict[str, int] = {}
        self.mine = -1
        self.done = False
        self.answers: deque = deque()  # of commits: True, False or PartitionsLost; True when there are none
        self.calls: deque = deque()  # whether the group calls, by turns; it does not when there are none

    @property
    def generation(self) -> int:
        return self.mine

    def merge_topic(self, topic):
        return self.shared.board

    def poll(self) -> PollResult:
        if not self.script:
            self.done = True
            return PollResult()
        what, *arguments = self.script.popleft()
        if callable(what):
            what()
            return PollResult()
        if what == "lose":
            self.offsets.clear()
            return PollResult(lost=True)
        if what == "gain":
            self.offsets.clear()
            self.shared.generation += 1
            self.mine = self.shared.generation
            return PollResult(lost=True, assigned={partition: self.shared.place(partition) for partition in arguments})
        name, count = arguments
        partition = next(unit for unit, names in self.shared.units.items() if name in names)
        return PollResult(items=[(partition, self._read(name, count))])

    def _read(self, name, count):
        for _ in range(count):
            item = self.shared.messages[name][self.offsets[name]]
            self.offsets[name] += 1
            yield item

    def heartbeat(self):
        return bool(self.calls) and self.calls.popleft()

    def identity(self, partition):
        return {partition: self.shared.made}

    def expect_identity(self, partition, identity):
        if identity is not None and identity != {partition: self.shared.made}:
            raise SourceError(f"{partition}: not what it was")

    def seek(self, partition, offsets):
        assert offsets.keys() == set(self.shared.units[partition])
        self.offsets.update(offsets)

    def commit(self, places):
        answer = self.answers.popleft() if self.answers else True
        if answer is PartitionsLost or self.mine != self.shared.generation:
            self.offsets.clear()
            raise PartitionsLost
        if answer:
            self.shared.places.update(places)
        return answer

    def committed(self):
        return {partition: self.shared.place(partition) for partition in self.shared.units}

    def position(self, partition):
        return {name: self.offsets[name] for name in self.shared.units[partition]}

    def at_end(self):
        return False

    def all_committed(self):
        return self.done


def samples(count, first=0, **extra):
    """Numbered samples."""
    return [
        Sample({"id": i, "a": (i * 7 % 11) / 11, **extra}, bool(i * 7 % 11 > 5), origin=f"t@{i}")
        for i in range(first, first + count)
    ]


__all__ = ["CommittedOffsets", "Group", "Member", "PartitionsLost", "Rejected", "samples"]
