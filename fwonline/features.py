"""Features by name: from dicts and frames to positions in arrays, in an order that no dict decides."""

from __future__ import annotations

import array
import functools
import math
import operator
import struct
import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import layout
from fwonline._positions import arranged, missing, positions_of, put, rank_of
from fwonline.exceptions import SampleError

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

__all__ = ["Buffers", "FeatureIndex", "describe", "rank_of"]


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


@functools.lru_cache(maxsize=1024)
def _packers(n: int) -> tuple[Callable[..., None], Callable[..., None]]:
    """What writes n values, and n positions, into a buffer; samples of texts come in all lengths."""
    return struct.Struct(f"{n}d").pack_into, struct.Struct(f"{n}I").pack_into


class Buffers(typing.Protocol):
    """Where samples are written on their way in: positions as ``uint32``, values as ``float64``."""

    idx_bytes: typing.Any
    val_bytes: typing.Any

    def reserve(self, n: int) -> None:
        """Make room for a sample of n entries, in other buffers if need be."""


class FeatureIndex:
    """Maps features to positions; new ones are appended, those of one sample by rank.

    Positions depend on the sequence of samples, never on the order of keys in a dict, and so do sums over them.

    Features that a sample or a matrix brings are new until the caller has learned it. The caller gives its own arrays
    room for them, and then calls :meth:`commit`, or :meth:`rollback` to be rid of them.

    Parameters
    ----------
    most
        Features at most, or None. Where a sample brings more than there is room for, those that weigh nothing and were
        not seen for longest are given up, once the sample is known to be good.
    dimension
        How many features there are, where the set says so, or None. They are the integers below it then, all of them
        there from the first sample on, each at its own position.

    Attributes
    ----------
    names, positions
        The features, and the position of each.
    new_ranks
        Ranks of the features that are new, in the order of their positions; None where there are none.
    awaits_commit
        Whether the index must hear of a sample that was learned: there are new features, or a bound of all.
    """

    def __init__(self, most: int | None = None, dimension: int | None = None) -> None:
        self.most = most
        self.dimension = dimension
        # With a bound, the sample that showed each feature last, its value not 0: counted from 1, 0 for none.
        self.seen = np.zeros(0, dtype=np.int64)
        self.positions: dict[typing.Any, int] = {}
        self.names: list[typing.Any] = []
        self.new_ranks: NDArray[np.int64] | None = None
        self.awaits_commit = most is not None
        self._n_committed = 0
        # How many features there were when they were last seen to be the numbers from 0 on; -1 for never.
        self._numbered = -1
        self._size = -1
        self._first: typing.Any = _NO_KEY
        self._keys: tuple | None = None
        self._grows = False
        self._asked = _Asked()
        self.table: typing.Any = None  # positions of a sparse matrix's columns: see `linear_model/columns.py`

    def __len__(self) -> int:
        return len(self.names)

    def __getstate__(self) -> dict:
        # The keys of the sample seen last and its packer only save time.
        state: dict[str, typing.Any] = {"names": self.names}
        if self.most is not None:
            state |= {"most": self.most, "seen": self.seen[: len(self.names)]}
        return state if self.dimension is None else {**state, "dimension": self.dimension}

    def __setstate__(self, state: dict) -> None:
        self.__init__(state.get("most"), state.get("dimension"))  # type: ignore[misc]
        self.names = state["names"]
        self.positions = positions_of(self.names)
        self._n_committed = len(self.names)
        if self.most is not None:
            self.seen = state["seen"].copy()

    def _check_loaded(self) -> None:
        self.names = list(_loaded.instance(self, "names", list))
        _loaded.names(self, "names", self.names)
        if self.dimension is not None:
            _loaded.count(self, "dimension")
        if self.most is not None:
            _loaded.count(self, "most", 1)
            _loaded.array(self, "seen", np.int64, (len(self.names),), least=0)
        # Other attributes are not a file's to say.
        self.__setstate__({name: getattr(self, name) for name in ("names", "most", "seen", "dimension")})

    # --- new features -----------------------------------------------------------------------------------------

    def add(self, names: Iterable[typing.Any]) -> NDArray[np.int64]:
        """Give positions to new features; returns their ranks.

        Raises
        ------
        SampleError
            For a name that is not equal to itself, or with a dimension one that is no integer below it.
        """
        if (size := self.dimension) is not None:
            for name in names:
                if not isinstance(name, int | np.integer) or not 0 <= name < size:
                    raise SampleError(
                        f"the set has {size} coordinates, so features are the integers 0 to {size - 1}; the sample "
                        f"brings {name!r}"
                    )
            names = range(len(self), size)
        return self._place(list(names))[0]

    def _place(self, names: list[typing.Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Give positions to new names in the order of their ranks; return the ranks and that order."""
        (ranks, order), first = arranged(names), len(self.names)
        self.new_ranks, self.awaits_commit = ranks, True
        new = [names[k] for k in order.tolist()]
        self.names.extend(new)
        self.positions = put(self.positions, new, first)
        return ranks, order

    def commit(self) -> None:
        """Keep the features that are new."""
        self._n_committed, self.new_ranks, self.awaits_commit = len(self.names), None, self.most is not None

    def rollback(self) -> int:
        """Take back the features that are new, and return how many are left; what buffers hold is not trusted."""
        count = self._n_committed
        if len(self.names) > count:
            for name in self.names[count:]:
                if name in self.positions:
                    del self.positions[name]
            del self.names[count:]
            self._forget_order()
        self.forget_buffer()
        self.commit()
        return count

    def _forget_order(self) -> None:
        """Positions that were known by their order may be others now."""
        self._numbered = -1
        self._asked = _Asked()
        self.table = None

    # --- one sample, written into buffers ---------------------------------------------------------------------

    def load(self, x: dict, buffers: Buffers) -> int:
        """Write a sample into buffers; returns its number of entries. Features that it brings are new.

        Raises
        ------
        SampleError
            For a value that is no number, or a feature that cannot be added.
        """
        n = len(x)
        if n != self._size:
            self._expect(n, buffers)
        try:
            self._pack_values(buffers.val_bytes, 0, *x.values())
        except (struct.error, OverflowError, TypeError):
            raise SampleError(describe(x)) from None
        if not n:
            return 0
        # A dense stream brings the same keys in the same order: then their positions still stand in the buffer. The
        # first key tells other streams apart at once.
        first = next(iter(x))
        same_first = first == self._first
        if not (same_first and self._keys == tuple(x)):
            self.forget_buffer()
            try:
                # After a sample that brought new names the next one is likely to bring more.
                positions = self._find_or_add(x) if self._grows else self._find(x)
            except KeyError:
                positions = self._find_or_add(x)
            self._pack_positions(buffers.idx_bytes, 0, *positions)
            self._first = first
            if same_first:
                self._keys = tuple(x)
        return n

    def _expect(self, n: int, buffers: Buffers) -> None:
        """Prepare for samples of n features."""
        buffers.reserve(n)
        self._size = n
        self.forget_buffer()
        self._pack_values, self._pack_positions = _packers(n)

    def _find_or_add(self, x: dict) -> typing.Sequence[int]:
        """Positions of the features of a sample, the new ones added."""
        new, first = missing(self.positions, x), len(self.names)
        self._grows = bool(new)
        if self.dimension is None and len(new) == len(x):
            order = self._place(new)[1]
            positions = np.empty_like(order)
            positions[order] = np.arange(first, first + len(new))
            return positions.tolist()
        if new:
            self.add(new)
        return self._find(x)

    def forget_buffer(self) -> None:
        """What stands in the buffers is no longer the positions of the keys seen last."""
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

    # --- the columns of a matrix ------------------------------------------------------------------------------

    def columns(self, names: typing.Sequence[typing.Any]) -> NDArray[np.uint32] | None:
        """Positions of named columns, added where new; None if column j stands at position j.

        Raises
        ------
        ValueError
            Where two new columns have the same name.
        SampleError
            As :meth:`add` does.
        """
        numbered = isinstance(names, range)
        if numbered and len(names) == len(self) == self._numbered:
            return None
        if len(self) == len(names) and self.names == list(names):
            self._numbered = len(names) if numbered else -1
            return None
        if not self.names and numbered and self.dimension is None:
            # The columns of a matrix: each name is its own rank.
            self.new_ranks, self.awaits_commit = np.arange(len(names)), True
            self.names = list(names)
            self.positions = positions_of(self.names)
            self._numbered = len(names)
            return None
        new = missing(self.positions, names)
        if new:
            if len(set(new)) < len(new):
                raise ValueError("two columns have the same name")
            self.add(new)
        positions = np.fromiter((self.positions[name] for name in names), np.uint32, len(names))
        return None if np.array_equal(positions, np.arange(len(positions))) else positions

    def load_columns(self, names: typing.Sequence[typing.Any], buffers: Buffers) -> None:
        """Write the positions of named columns into buffers; new ones are added, as :meth:`columns` adds them."""
        columns, n = self.columns(names), len(names)
        buffers.reserve(n)
        self.forget_buffer()
        struct.pack_into(f"{n}I", buffers.idx_bytes, 0, *(range(n) if columns is None else columns.tolist()))

    def find_columns(self, names: typing.Sequence[typing.Any]) -> NDArray[np.int64] | None:
        """Positions of named columns, -1 for one never seen; None if column j stands at position j."""
        if isinstance(names, range) and len(names) == len(self) == self._numbered:
            return None
        return np.fromiter((self.positions.get(name, -1) for name in names), np.int64, len(names))

    # --- a bound of how many there are ------------------------------------------------------------------------

    @property
    def is_crowded(self) -> bool:
        """Whether there are more features than may be held."""
        return self.most is not None and len(self.names) > self.most

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
        self._reserve_seen()
        shown = val != 0.0
        self.seen[idx[shown]] = when if np.ndim(when) == 0 else when[shown]

    def _reserve_seen(self) -> None:
        if self.seen.size < len(self.names):
            seen = np.zeros(max(len(self.names), 2 * self.seen.size, 64), dtype=np.int64)
            seen[: self.seen.size] = self.seen
            self.seen = seen

    def leaving(
        self,
        idx: NDArray[np.uint32],
        val: NDArray[np.float64],
        ranks: NDArray[np.int64],
        weighs: Callable[[], NDArray[np.bool_]],
        heavy_may_leave: bool,
    ) -> NDArray[np.int64]:
        """Positions of the features to give up for those of a sample, idx and val, which brings too many.

        Features leave in the order of: whether they weigh something, the sample that showed them last, their rank. So
        that not every new name costs a pass over all that is held, up to a sixteenth leave at once. Where too few may
        leave, new names of the sample are passed over, those of the highest rank first, as if it had not brought them.
        """
        assert self.most is not None
        self._reserve_seen()
        known, d = self._n_committed, len(self.names)
        # A name that comes with the value 0 says nothing yet.
        silent = idx[(idx >= known) & (val == 0.0)].astype(np.int64)
        needed = max(d - silent.size - self.most, 0)
        leaving = self._oldest(idx[idx < known], needed, ranks, weighs, heavy_may_leave)
        # New names stand in the order of their ranks.
        fresh = np.setdiff1d(np.arange(known, d), silent)
        passed_over = fresh[max(fresh.size - max(needed - leaving.size, 0), 0) :]
        return np.sort(np.concatenate([leaving, silent, passed_over]))

    def give_up(
        self, gone: NDArray[np.int64], new: NDArray[np.int64], idx: NDArray[np.uint32], val: NDArray[np.float64]
    ) -> int:
        """Let names, and the sample idx and val, follow features that were given up; returns the sample's length.

        ``new`` has the new position of each feature there was, -1 for those that are gone. What is left is committed.
        """
        left, names = len(self.names) - gone.size, self.names
        for j in gone.tolist():
            del self.positions[names[j]]
        movers = left + np.flatnonzero(new[left:] >= 0)
        for source, to in zip(movers.tolist(), new[movers].tolist(), strict=True):
            names[to] = names[source]
            self.positions[names[to]] = to
        del names[left:]
        self.seen[new[movers]] = self.seen[movers]
        self.seen[left:] = 0
        self.commit()
        self._forget_order()
        self.forget_buffer()
        stays = new[idx] >= 0
        n = int(np.count_nonzero(stays))
        idx[:n], val[:n] = new[idx[stays]], val[stays]
        return n

    def _oldest(self, shown, needed, ranks, weighs, heavy_may_leave) -> NDArray[np.int64]:
        """Committed features that leave where so many are needed: those shown stay, heavy ones are the last to go."""
        if not needed:
            return np.zeros(0, dtype=np.int64)
        assert self.most is not None
        heavy = weighs()[: self._n_committed]
        free = ~heavy
        free[shown] = False
        there = int(np.count_nonzero(free))
        if there >= needed or not heavy_may_leave:
            return self._longest_unseen(ranks, free, there, max(needed, min(self.most // 16, AT_ONCE)))
        heavy[shown] = False
        others = self._longest_unseen(ranks, heavy, int(np.count_nonzero(heavy)), needed - there)
        return np.concatenate([np.flatnonzero(free), others])

    def _longest_unseen(
        self, ranks: NDArray[np.int64], free: NDArray[np.bool_], there: int, count: int
    ) -> NDArray[np.int64]:
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
        order = np.argsort(ranks[equal], kind="stable")
        return np.concatenate([before, equal[order[: count - before.size]]])


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
