"""A group in memory: partitions of samples, committed places, and a script of what each worker is told."""

from __future__ import annotations

from collections import deque

from fwonline.exceptions import SourceError
from fwonline.stream import Rejected, Sample
from fwonline.stream.shared import Exchange, NotOurs, Place, SharedSource, Turn


class Board(Exchange):
    """An exchange that a group shares."""

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
        self.places: dict[str, Place] = {}
        self.era = 0
        self.board = Board()
        self.made = "first"  # what the stream's topics are, whatever they are called

    def place(self, partition: str) -> Place:
        return self.places.get(partition) or Place(dict.fromkeys(self.units[partition], 0), None)


class Member(SharedSource):
    """A worker's part, which does what the script says: `gain`, `read`, `lose`, `end`."""

    name, group = "t", "g"

    def __init__(self, group: Group, *script: tuple) -> None:
        self.shared = group
        self.script = deque(script)
        self.offsets: dict[str, int] = {}
        self.mine = -1
        self.done = False
        self.answers: deque = deque()  # of commits: True, False or NotOurs; True when there are none
        self.calls: deque = deque()  # whether the group calls, by turns; it does not when there are none

    @property
    def era(self) -> int:
        return self.mine

    def exchange(self, topic):
        return self.shared.board

    def poll(self) -> Turn:
        if not self.script:
            self.done = True
            return Turn()
        what, *arguments = self.script.popleft()
        if callable(what):
            what()
            return Turn()
        if what == "lose":
            self.offsets.clear()
            return Turn(lost=True)
        if what == "gain":
            self.offsets.clear()
            self.shared.era += 1
            self.mine = self.shared.era
            return Turn(lost=True, gained={partition: self.shared.place(partition) for partition in arguments})
        name, count = arguments
        partition = next(unit for unit, names in self.shared.units.items() if name in names)
        return Turn(items=[(partition, self._read(name, count))])

    def _read(self, name, count):
        for _ in range(count):
            item = self.shared.messages[name][self.offsets[name]]
            self.offsets[name] += 1
            yield item

    def is_called(self):
        return bool(self.calls) and self.calls.popleft()

    def identity(self, partition):
        return {partition: self.shared.made}

    def recognise(self, partition, identity):
        if identity is not None and identity != {partition: self.shared.made}:
            raise SourceError(f"{partition}: not what it was")

    def stand(self, partition, offsets):
        assert offsets.keys() == set(self.shared.units[partition])
        self.offsets.update(offsets)

    def commit(self, places):
        answer = self.answers.popleft() if self.answers else True
        if answer is NotOurs or self.mine != self.shared.era:
            self.offsets.clear()
            raise NotOurs
        if answer:
            self.shared.places.update(places)
        return answer

    def places(self):
        return {partition: self.shared.place(partition) for partition in self.shared.units}

    def position(self, partition):
        return {name: self.offsets[name] for name in self.shared.units[partition]}

    def is_read(self):
        return False

    def is_done(self):
        return self.done


def samples(count, first=0, **extra):
    """Numbered samples."""
    return [
        Sample({"id": i, "a": (i * 7 % 11) / 11, **extra}, bool(i * 7 % 11 > 5), origin=f"t@{i}")
        for i in range(first, first + count)
    ]


__all__ = ["Group", "Member", "NotOurs", "Place", "Rejected", "samples"]
