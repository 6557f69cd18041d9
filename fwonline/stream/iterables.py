"""A stream over what Python can already iterate: lists, generators, river's datasets."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from fwonline.exceptions import SourceError
from fwonline.stream.base import Rejected, Sample, Source

__all__ = ["IterableSource"]


class IterableSource(Source):
    """The `(x, y)` pairs of any iterable, a generator or a river dataset.

    The position is the number of items yielded, so `seek` reads and drops that many: O(position), and right only if the
    iterable yields the same each time (river's synthetic datasets do if they have a seed).
    An item may also be a `Sample`. Anything else, or an `x` that is no mapping, is rejected.

    Parameters
    ----------
    iterable
        What to read. A generator can be read once: to resume, give a fresh one.
    name
        Its name in messages; by default the name of its class.

    Raises
    ------
    SourceError
        If `iterable` cannot be iterated, is a generator that was already consumed, ends before the position sought, or
        raises while it is read.

    Examples
    --------
    >>> from fwonline import stream
    >>> source = stream.IterableSource([({"a": 1.0}, True), "no pair"], name="clicks")
    >>> for item in source:
    ...     print(item)
    Sample(x={'a': 1.0}, y=True, key=None, time=None, origin='clicks#1', headers=())
    Rejected(raw='no pair', error="clicks#2: expected an (x, y) pair, found str: 'no pair'", ...)
    >>> source.position
    2
    """

    def __init__(self, iterable: Iterable[Any], name: str | None = None) -> None:
        if not isinstance(iterable, Iterable):
            raise SourceError(f"expected an iterable of (x, y) pairs, found {_described(iterable)}")
        self.iterable = iterable
        self.name = type(iterable).__name__ if name is None else name
        self._count = 0
        self._items: Iterator[Sample | Rejected] | None = None

    def __iter__(self) -> Iterator[Sample | Rejected]:
        if self._items is None:
            self._refuse_used_generator()
            self._items = self._read()
        return self._items

    def _refuse_used_generator(self) -> None:
        if not inspect.isgenerator(self.iterable):
            return
        state = inspect.getgeneratorstate(self.iterable)
        if state == inspect.GEN_CLOSED:
            raise SourceError(f"{self.name}: this generator was already consumed; give a fresh one")
        if self._count and state != inspect.GEN_CREATED:
            raise SourceError(f"{self.name}: this generator was already begun; give a fresh one to resume")

    def _read(self) -> Iterator[Sample | Rejected]:
        if self._count and (iter_from := getattr(self.iterable, "iter_from", None)) is not None:
            items = iter_from(self._count)  # the simulators reach any place without drawing what lies before it
        else:
            items = iter(self.iterable)
            if (skipped := sum(1 for _ in islice(items, self._count))) < self._count:
                raise SourceError(f"{self.name}: ended after {skipped} items, before position {self._count}")
        while True:
            try:
                item = next(items)
            except StopIteration:
                return
            except Exception as error:
                raise SourceError(f"{self.name}#{self._count + 1}: reading failed: {error!r}") from error
            self._count += 1
            yield self._converted(item, f"{self.name}#{self._count}")

    @staticmethod
    def _converted(item: Any, origin: str) -> Sample | Rejected:
        if type(item) is tuple and len(item) == 2 and type(item[0]) is dict:  # nearly always
            return Sample(item[0], item[1], origin=origin)
        if isinstance(item, (Sample, Rejected)):
            return item
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            return Rejected(item, f"{origin}: expected an (x, y) pair, found {_described(item)}", origin)
        x, y = item
        if not isinstance(x, Mapping):
            return Rejected(item, f"{origin}: expected x to be a mapping of features, found {_described(x)}", origin)
        return Sample(dict(x), y, origin=origin)

    @property
    def position(self) -> int:
        return self._count

    def seek(self, position: int) -> None:
        if isinstance(position, bool) or not isinstance(position, int) or position < 0:
            raise SourceError(f"{self.name}: expected a position that counts items (0, 1, ...), found {position!r}")
        if self._items is not None:
            raise SourceError(f"{self.name}: seek before reading: {self._count} items were already yielded")
        self._count = position

    @property
    def length(self) -> int | None:
        try:
            return len(self.iterable)  # type: ignore[arg-type]
        except TypeError:
            n_samples = getattr(self.iterable, "n_samples", None)  # river's datasets; None for endless ones
            return n_samples if isinstance(n_samples, int) else None

    @property
    def progress(self) -> float | None:
        length = self.length
        return min(1.0, self._count / length) if length else None


def _described(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__}: {text if len(text) <= 60 else text[:57] + '...'}"
