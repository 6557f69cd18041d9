"""Names in numbers, many at once: their ranks, and positions of so many that one dict of them would pause to grow."""

from __future__ import annotations

import itertools
import numbers
import typing
import zlib

import numpy as np

from fwonline._kernels.entry import Direct
from fwonline._kernels.layout import jit
from fwonline.exceptions import SampleError

if typing.TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numpy.typing import NDArray

__all__ = ["Positions", "arranged", "missing", "positions_of", "put", "rank_of"]

# Names that are ranked one by one as quickly as together, and those that numpy puts in order sooner.
FEW, MANY = 6, 300


def rank_of(key: Hashable) -> int:
    """A number that depends on the name of a feature alone: ties in an LMO go to the lowest.

    Integers that are small rank as themselves, so that columns of a matrix rank in their order; other names rank by a
    hash that is the same in every process. Names that are equal (1, 1.0, True) rank the same.
    """
    if isinstance(key, numbers.Number):
        # Python's hash of a number: the same for equal ones, but -1 and -2, too, have one.
        return -1 if key == -1 else hash(key)
    name = (key if isinstance(key, str) else f"{type(key).__qualname__}:{key!r}").encode("utf-8", "surrogatepass")
    # Two checksums of 32 bits, the signs left out: quick, and the same in every process.
    return zlib.crc32(name) << 31 | zlib.adler32(name) >> 1


def arranged(names: list[typing.Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ranks of names in ascending order, and the place of each one's name in the list.

    Raises
    ------
    SampleError
        For a name that is not equal to itself.
    """
    n = len(names)
    ranks, order = np.empty((2, n), np.int64)
    try:
        # Texts alone can be joined; a zero within one is found below.
        text = "\0".join(names).encode("utf-8", "surrogatepass") if FEW < n <= MANY else b""
    except TypeError:
        text = b""
    if text and _rank(None, np.frombuffer(text, np.uint8), _TABLE, ranks, order):
        return ranks, order
    if strange := [name for name in names if name != name]:  # noqa: PLR0124  NaN, which no later one would equal
        raise SampleError(f"a feature is named {strange[0]!r}; expected a name that is equal to itself")
    ranks[:] = [rank_of(name) for name in names]
    order = ranks.argsort(kind="stable")
    return ranks[order], order


def _crc_table() -> NDArray[np.uint32]:
    """What a byte does to a checksum of 32 bits (the polynomial of zlib)."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)
    return table


_TABLE = _crc_table()


@jit
def _rank_text(text, table, ranks, order):
    """Ranks, in order, of names that stand in a text with a zero between two; whether they are as many as that."""
    at = 0
    for i in range(ranks.size):
        crc, a, b = np.uint32(0xFFFFFFFF), np.int64(1), np.int64(0)
        while at < text.size and text[at] != 0:
            byte = text[at]
            crc = table[(crc ^ byte) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
            a += byte
            a -= 65521 if a >= 65521 else 0
            b += a
            b -= 65521 if b >= 65521 else 0
            at += 1
        at += 1
        rank = (np.int64(crc ^ np.uint32(0xFFFFFFFF)) << 31) | (((b << 16) | a) >> 1)
        k = i
        while k > 0 and ranks[k - 1] > rank:
            ranks[k], order[k] = ranks[k - 1], order[k - 1]
            k -= 1
        ranks[k], order[k] = rank, i
    return at == text.size + 1


_rank = Direct(_rank_text)

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

    def missing(self, names: Iterable[typing.Any]) -> list[typing.Any]:
        """The names that are not there, in their order."""
        for contains in (super().__contains__, *(part.__contains__ for part in self.more)):
            names = itertools.filterfalse(contains, names)
        return list(names)

    def put(self, names: list[typing.Any], first: int) -> None:
        """Add names that are not there, at positions from ``first`` on."""
        items = zip(names, range(first, first + len(names)), strict=True)
        super().update(itertools.islice(items, max(PART - super().__len__(), 0)))
        for part in self.more:
            part.update(itertools.islice(items, PART - len(part)))
        while part := dict(itertools.islice(items, PART)):
            self.more.append(part)

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


def missing(positions: dict[typing.Any, int], names: Iterable[typing.Any]) -> list[typing.Any]:
    """The names that have no position, in their order."""
    if type(positions) is dict:
        return list(itertools.filterfalse(positions.__contains__, names))
    assert isinstance(positions, Positions)
    return positions.missing(names)


def put(positions: dict[typing.Any, int], names: list[typing.Any], first: int) -> dict[typing.Any, int]:
    """The positions with new names, from ``first`` on; never with a pause."""
    if type(positions) is dict and len(positions) + len(names) > PART:
        positions = Positions(positions)
    if isinstance(positions, Positions):
        positions.put(names, first)
    else:
        for position, name in enumerate(names, first):
            positions[name] = position
    return positions
