"""Features by name: from dicts and frames to positions in arrays, in an order that no dict decides."""

from __future__ import annotations

import array
import itertools
import math
import numbers
import operator
import struct
import typing
import zlib

import numpy as np

from fwonline import _loaded
from fwonline._kernels import layout
from fwonline.exceptions import SampleError

if typing.TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numpy.typing import NDArray

    from fwonline.optim.runs.model_run import ModelRun as Run

__all__ = ["FeatureIndex", "rank_of"]


def rank_of(key: Hashable) -> int:
    """A number that hangs on the name of a feature alone: ties in an LMO go to the lowest.

    Integers that are small rank as themselves, so that columns of a matrix rank in their order; other names rank by a
    hash that is the same in every process. Names that are equal (1, 1.0, True) rank the same.
    """
    if isinstance(key, numbers.Number):
        # Python's hash of a number: the same for equal ones, but -1 and -2, too, have one.
        return -1 if key == -1 else hash(key)
    name = (key if isinstance(key, str) else f"{type(key).__qualname__}:{key!r}").encode("utf-8", "surrogatepass")
    # Two checksums of 32 bits, the signs left out: quick, and the same in every process.
    return zlib.crc32(name) << 31 | zlib.adler32(name) >> 1


# Names of one dict, at most: one that grows beyond a third more moves them all, which takes 15 to 50 ms.
PART = 1 << 18

# Features that leave at once, at most, where there is a bound of them.
AT_ONCE = 2048

# Stands for a first key where there is none: nothing that a stream brings is equal to it.
_NO_KEY = object()


class _Asked:
    """The keys of the predictions of a dense stream, which come in the same order again and again.

    Predictions have buffers of their own: those of learning hold the sample learned last.
    """

    def __init__(self) -> None:
        self.size = -1
        self.first: typing.Any = _NO_KEY
        self.keys: tuple | None = None

    def keep(self, x: dict, idx: NDArray[np.int64]) -> None:
        """Know the positions of all keys of x, and have room for their values."""
        self.keys, self.idx = tuple(x), idx
        self.val = np.empty(len(x))
        self.bytes = self.val.data.cast("B")
        self.pack = struct.Struct(f"{len(x)}d").pack_into


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


class FeatureIndex:
    """Maps features to positions; new ones are appended, those of one sample by rank.

    Positions hang on the sequence of samples, never on the order of keys in a dict, and so do sums over them.

    Parameters
    ----------
    most
        Features at most, or None. Where a sample brings more than there is room for, those that weigh nothing and were
        not seen for longest are given up, once the run has accepted the sample.
    """

    # What files of version 0.1.0 do not say.
    most: int | None = None

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        # With a bound, the sample that showed each feature last, its value not 0: counted from 1, 0 for none.
        self.seen = np.zeros(0, dtype=np.int64)
        self.positions: dict[typing.Any, int] = {}
        self.names: list[typing.Any] = []
        # How many features there were when they were last seen to be the numbers from 0 on; -1 for never.
        self._numbered = -1
        self._size = -1
        self._first: typing.Any = _NO_KEY
        self._keys: tuple | None = None
        self._asked = _Asked()

    def __len__(self) -> int:
        return len(self.names)

    def __getstate__(self) -> dict:
        # The keys of the sample seen last and its packer only save time.
        state = {"names": self.names}
        return state if self.most is None else {**state, "most": self.most, "seen": self.seen[: len(self.names)]}

    def __setstate__(self, state: dict) -> None:
        self.__init__(state.get("most"))  # type: ignore[misc]
        self.names = state["names"]
        self.positions = positions_of(self.names)
        if self.most is not None:
            self.seen = state["seen"].copy()

    def _check_loaded(self) -> None:
        self.names = list(_loaded.instance(self, "names", list))
        _loaded.names(self, "names", self.names)
        if self.most is not None:
            _loaded.count(self, "most", 1)
            _loaded.array(self, "seen", np.int64, (len(self.names),), least=0)
        # Other attributes are not a file's to say.
        self.__setstate__({"names": self.names, "most": self.most, "seen": self.seen})

    def add(self, names: Iterable[typing.Any], run: Run) -> None:
        """Give positions to new features.

        A set of one dimension, such as a box with bounds by coordinate, speaks of its features by number: then they are
        the integers below its dimension, all of them there from the first sample on, each in its own place.
        """
        if (size := run.fixed_dimension) is not None:
            for name in names:
                if not isinstance(name, int | np.integer) or not 0 <= name < size:
                    raise SampleError(
                        f"{run.constraint} has {size} coordinates, so features are the integers 0 to {size - 1}; "
                        f"the sample brings {name!r}"
                    )
            names = range(len(self), size)
        names = list(names)
        if strange := [name for name in names if name != name]:  # noqa: PLR0124  NaN, which no later one would equal
            raise SampleError(f"a feature is named {strange[0]!r}; expected a name that is equal to itself")
        new = sorted(((rank_of(name), name) for name in names), key=lambda pair: pair[0])
        run.grow(np.array([rank for rank, _ in new], dtype=np.int64))
        if len(self.names) + len(new) > PART and type(self.positions) is dict:
            self.positions = Positions(self.positions)
        for _, name in new:
            self.positions[name] = len(self.names)
            self.names.append(name)

    def forget(self, count: int, run: Run) -> None:
        """Back to the first ``count`` features: what a refused sample brought leaves no trace."""
        if self.most is not None:
            run.s.crowded = 0
        for name in self.names[count:]:
            del self.positions[name]
        if len(self.names) > count:
            del self.names[count:]
            self._numbered = -1
            self._asked = _Asked()
            run.shrink(count)
        self._forget_buffer()

    def load(self, x: dict, run: Run) -> int:
        """Write a sample into the run's buffers; answers its number of entries.

        Nothing is changed but the buffers and, for features never seen, the size of the arrays.
        """
        n = len(x)
        if n != self._size:
            self._expect(n, run)
        try:
            self._pack_values(run.val_bytes, 0, *x.values())
        except (struct.error, OverflowError, TypeError):
            raise SampleError(describe(x)) from None
        if not n:
            return 0
        # A dense stream brings the same keys in the same order: then their positions still stand in the buffer. The
        # first key tells other streams apart at once.
        first = next(iter(x))
        same_first = first == self._first
        if not (same_first and self._keys == tuple(x)):
            self._forget_buffer()
            try:
                positions = self._find(x)
            except KeyError:
                # Should the sample be refused after all, whoever called takes them back (``forget``).
                known = len(self.names)
                self.add([key for key in x if key not in self.positions], run)
                positions = self._find(x)
                if self.most is not None and len(self.names) > self.most:
                    self._known = known
                    run.s.crowded = 1
            self._pack_positions(run.idx_bytes, 0, *positions)
            self._first = first
            if same_first:
                self._keys = tuple(x)
        return n

    # --- a bound of how many there are ------------------------------------------------------------------------

    def fits(self, names: typing.Sequence[typing.Any]) -> bool:
        """Whether columns of these names find room without others being given up."""
        if self.most is None:
            return True
        known = len(self)
        if isinstance(names, range) and len(names) == known == self._numbered:
            return known <= self.most
        return known + sum(name not in self.positions for name in names) <= self.most

    def saw(self, idx: NDArray[np.uint32], val: NDArray[np.float64], when: typing.Any) -> None:
        """Entries of samples that were learned; ``when`` counts the samples up to each."""
        if self.most is None:
            return
        if self.seen.size < len(self.names):
            seen = np.zeros(max(len(self.names), 2 * self.seen.size, 64), dtype=np.int64)
            seen[: self.seen.size] = self.seen
            self.seen = seen
        shown = val != 0.0
        self.seen[idx[shown]] = when if np.ndim(when) == 0 else when[shown]

    def make_room(self, run: Run) -> int:
        """Give features up for those of the sample in the run's buffers, which brings too many; returns its length.

        Features leave in the order of: whether they weigh something, the sample that showed them last, their rank. So
        that not every new name costs a pass over all that is held, up to a sixteenth leave at once. Where too few may
        leave, new names of the sample are passed over, those of the highest rank first, as if it had not brought them.
        """
        assert self.most is not None
        known, n, d = self._known, int(run.row.indptr[1]), len(self.names)
        run.s.crowded = 0
        self.saw(run.row.idx[:0], run.row.val[:0], 0)
        idx, val = run.row.idx[:n], run.row.val[:n]
        # A name that comes with the value 0 says nothing yet.
        silent = idx[(idx >= known) & (val == 0.0)].astype(np.int64)
        needed = max(d - silent.size - self.most, 0)
        leaving = self._oldest(run, known, idx, needed, max(needed, min(self.most // 16, AT_ONCE)))
        # New names stand in the order of their ranks.
        fresh = np.setdiff1d(np.arange(known, d), silent)
        passed_over = fresh[max(fresh.size - max(needed - leaving.size, 0), 0) :]
        gone = np.sort(np.concatenate([leaving, silent, passed_over]))
        names = self.names
        for j in gone.tolist():
            del self.positions[names[j]]
        new = run.take_out(gone)
        left = d - gone.size
        movers = left + np.flatnonzero(new[left:] >= 0)
        for source, to in zip(movers.tolist(), new[movers].tolist(), strict=True):
            names[to] = names[source]
            self.positions[names[to]] = to
        del names[left:]
        self.seen[new[movers]] = self.seen[movers]
        self.seen[left:] = 0
        stays = new[idx] >= 0
        n = int(np.count_nonzero(stays))
        run.row.idx[:n], run.row.val[:n] = new[idx[stays]], val[stays]
        self._numbered = -1
        self._asked = _Asked()
        self._forget_buffer()
        return n

    def _oldest(self, run: Run, known: int, idx: NDArray[np.uint32], needed: int, count: int) -> NDArray[np.int64]:
        """The positions of ``count`` features below ``known`` that may leave, or of as many as there are.

        Those that weigh something leave only where no others are left to make the room that is needed.
        """
        if not needed:
            return np.zeros(0, dtype=np.int64)
        weighs = run.weighs()[:known]
        free = ~weighs
        free[idx[idx < known]] = False
        there = int(np.count_nonzero(free))
        if there >= needed or not run.gives_weights_up:
            return self._longest_unseen(run, free, there, count)
        weighs[idx[idx < known]] = False
        heavy = self._longest_unseen(run, weighs, int(np.count_nonzero(weighs)), needed - there)
        return np.concatenate([np.flatnonzero(free), heavy])

    def _longest_unseen(self, run: Run, free: NDArray[np.bool_], there: int, count: int) -> NDArray[np.int64]:
        """Of the ``there`` positions that are free, ``count`` seen before the others; of equals the lowest ranks."""
        if there <= count:
            return np.flatnonzero(free)
        seen = self.seen[: free.size]
        if there > 16 * count:
            # A few of them tell where the wanted ones end, so that not all must be put in order.
            few = np.sort(seen[free][:: max(there // 4096, 1)])
            early = free & (seen <= few[min(2 * count * few.size // there + 8, few.size - 1)])
            if np.count_nonzero(early) >= count:
                free = early
        candidates = np.flatnonzero(free)
        last = np.partition(seen[candidates], count - 1)[count - 1]
        before, equal = candidates[seen[candidates] < last], candidates[seen[candidates] == last]
        order = np.argsort(run.it.rank[equal], kind="stable")
        return np.concatenate([before, equal[order[: count - before.size]]])

    def _expect(self, n: int, run: Run) -> None:
        """Prepare for samples of n features."""
        run.reserve(n)
        self._size = n
        self._forget_buffer()
        self._pack_values = struct.Struct(f"{n}d").pack_into
        self._pack_positions = struct.Struct(f"{n}I").pack_into

    def _forget_buffer(self) -> None:
        """What stands in the buffers is no longer the positions of ``_keys``."""
        self._first = _NO_KEY
        self._keys = None

    def _find(self, x: dict) -> tuple[int, ...]:
        """Positions of the features of a sample; a KeyError if one has none."""
        # itemgetter is the quickest way to many values of a dict, but has a form of its own for a single one.
        return operator.itemgetter(*x)(self.positions) if len(x) > 1 else (self.positions[next(iter(x))],)

    def known(self, x: dict) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Positions and values of the features that have a position; the others weigh nothing.

        The arrays may be overwritten by the next call.
        """
        asked, n = self._asked, len(x)
        is_like_the_last = n == asked.size and next(iter(x)) == asked.first
        try:
            if is_like_the_last and asked.keys == tuple(x):
                asked.pack(asked.bytes, 0, *x.values())
                return asked.idx, asked.val
            val = np.frombuffer(array.array("d", x.values())) if x else np.empty(0)
        except (struct.error, TypeError, OverflowError):
            raise SampleError(describe(x)) from None
        positions = self.positions
        try:
            idx = np.fromiter(map(positions.__getitem__, x), np.int64, n)
        except KeyError:
            idx = np.fromiter((positions.get(key, -1) for key in x), np.int64, n)
            return idx[idx >= 0], val[idx >= 0]
        if is_like_the_last:
            asked.keep(x, idx)
        elif n:
            asked.size, asked.first = n, next(iter(x))
        return idx, val

    def columns(self, names: typing.Sequence[typing.Any], run: Run) -> NDArray[np.uint32] | None:
        """Positions of named columns, added where new; None if column j stands at position j."""
        numbered = isinstance(names, range)
        if numbered and len(names) == len(self) == self._numbered:
            return None
        if len(self) == len(names) and self.names == list(names):
            self._numbered = len(names) if numbered else -1
            return None
        if not self.names and numbered and run.fixed_dimension is None:
            # The columns of a matrix: each name is its own rank.
            run.grow(np.arange(len(names)))
            self.names = list(names)
            self.positions = positions_of(self.names)
            self._numbered = len(names)
            return None
        new = [name for name in names if name not in self.positions]
        if new:
            if len(set(new)) < len(new):
                raise ValueError("two columns have the same name")
            self.add(new, run)
        positions = np.fromiter((self.positions[name] for name in names), np.uint32, len(names))
        return None if np.array_equal(positions, np.arange(len(positions))) else positions

    def find_columns(self, names: typing.Sequence[typing.Any]) -> NDArray[np.int64] | None:
        """Positions of named columns, -1 for one never seen; None if column j stands at position j."""
        if isinstance(names, range) and len(names) == len(self) == self._numbered:
            return None
        return np.fromiter((self.positions.get(name, -1) for name in names), np.int64, len(names))


def describe(x: dict) -> str | None:
    """What is wrong with a sample, naming the feature; None if nothing is."""
    for name, value in x.items():
        try:
            number = math.fabs(value)  # unlike float(), it reads no text
        except (TypeError, ValueError, OverflowError):
            number = None
        if number is None:
            return f"feature {name!r} is {value!r} ({type(value).__name__}); expected a number"
        if not number <= layout.LARGEST:
            return (
                f"feature {name!r} is {_plain(value)!r}; expected a finite number of at most {layout.LARGEST:g} in size"
            )
    return None


def _plain(value: typing.Any) -> typing.Any:
    """A number of numpy as Python shows it."""
    return value.item() if isinstance(value, np.generic) else value
