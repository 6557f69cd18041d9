"""Positions by name, of so many names that one dict of them would pause to grow."""

from __future__ import annotations

import itertools
import typing

if typing.TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["Positions", "positions_of", "with_room"]

# Names of one dict, at most: one that grows beyond a third more moves them all, which takes 15 to 50 ms.
PART = 1 << 18


class Positions(dict):
    """Positions of so many names that a dict of them all would pause to grow: in parts of a size that never does.

    The first part is the dict itself, so that its names are found as quickly as in any other.
    """

    def __init__(self, positions: typing.Mapping[typing.Any, int]):
        self.more: list[dict[typing.Any, int]] = []
        if len(positions) <= PART:
            super().__init__(positions)  # quick: a copy of the dict's table
            return
        names = iter(positions.items())
        super().__init__(itertools.islice(names, PART))
        while part := dict(itertools.islice(names, PART)):
            self.more.append(part)

    def _part(self, key: Hashable) -> dict[typing.Any, int] | None:
        return next((part for part in self.more if key in part), None)

    def __missing__(self, key: Hashable) -> int:
        if (part := self._part(key)) is None:
            raise KeyError(key)
        return part[key]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or self._part(key) is not None

    def get(self, key: Hashable, default: typing.Any = None) -> typing.Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __setitem__(self, key: Hashable, position: int) -> None:
        if not super().__contains__(key):
            part = self._part(key)
            if part is None and super().__len__() >= PART:
                part = next((part for part in self.more if len(part) < PART), None)
                if part is None:
                    self.more.append(part := {})
            if part is not None:
                part[key] = position
                return
        super().__setitem__(key, position)

    def __delitem__(self, key: Hashable) -> None:
        if super().__contains__(key):
            super().__delitem__(key)
        elif (part := self._part(key)) is not None:
            del part[key]
        else:
            raise KeyError(key)

    def __len__(self) -> int:
        return super().__len__() + sum(map(len, self.more))


def positions_of(names: list[typing.Any]) -> dict[typing.Any, int]:
    """The place of each name in the list."""
    positions = {name: j for j, name in enumerate(names)}
    return positions if len(positions) <= PART else Positions(positions)


def with_room(positions: dict[typing.Any, int], more: int) -> dict[typing.Any, int]:
    """The same positions, where so many more names can be added without a pause."""
    needs_parts = type(positions) is dict and len(positions) + more > PART
    return Positions(positions) if needs_parts else positions
