"""Features by name: from dicts and frames to positions in arrays, in an order that no dict decides."""

from __future__ import annotations

import hashlib
import numbers
import struct
import typing

import numpy as np

from fwonline._kernels import layout
from fwonline.exceptions import SampleError

if typing.TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numpy.typing import NDArray

    from fwonline.optim.run import Run

__all__ = ["FeatureIndex", "rank_of"]


def rank_of(key: Hashable) -> int:
    """A number that hangs on the name of a feature alone: ties in an LMO go to the lowest.

    Integers that are small rank as themselves, so that columns of a matrix rank in their order; other names rank by a
    hash that is the same in every process. Names that are equal (1, 1.0, True) rank the same.
    """
    if isinstance(key, numbers.Number):
        return hash(key)
    name = key if isinstance(key, str) else f"{type(key).__qualname__}:{key!r}"
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


class FeatureIndex:
    """Maps features to positions; new ones are appended, those of one sample by rank.

    Positions hang on the sequence of samples, never on the order of keys in a dict, and so do sums over them.
    """

    def __init__(self) -> None:
        self.positions: dict[typing.Any, int] = {}
        self.names: list[typing.Any] = []
        self._keys: tuple = ()
        self._packer = struct.Struct("0d")

    def __len__(self) -> int:
        return len(self.names)

    def __getstate__(self) -> dict:
        # The keys of the sample seen last and its packer only save time.
        return {"names": self.names}

    def __setstate__(self, state: dict) -> None:
        self.__init__()  # type: ignore[misc]
        self.names = state["names"]
        self.positions = {name: j for j, name in enumerate(self.names)}

    def add(self, names: Iterable[typing.Any], run: Run) -> None:
        """Give positions to new features."""
        new = sorted(((rank_of(name), name) for name in names), key=lambda pair: pair[0])
        run.grow(np.array([rank for rank, _ in new], dtype=np.int64))
        for _, name in new:
            self.positions[name] = len(self.names)
            self.names.append(name)

    def forget(self, count: int, run: Run) -> None:
        """Back to the first ``count`` features: what a refused sample brought leaves no trace."""
        for name in self.names[count:]:
            del self.positions[name]
        if len(self.names) > count:
            del self.names[count:]
            run.shrink(count)
        self._keys = ()

    def load(self, x: dict, run: Run) -> int:
        """Write a sample into the run's buffers; answers its number of entries.

        Nothing is changed but the buffers and, for features never seen, the size of the arrays.
        """
        keys = tuple(x)
        n = len(keys)
        if n > run.idx.size:
            run.reserve(n)
            self._keys = ()
        if n != len(self._keys):
            self._packer = struct.Struct(f"{n}d")
        try:
            self._packer.pack_into(run.val, 0, *x.values())
        except (struct.error, OverflowError, TypeError):
            raise SampleError(describe(x)) from None
        if keys != self._keys:
            # A dense stream brings the same keys in the same order: then their positions still stand in the buffer.
            self._keys = ()
            try:
                positions = [self.positions[key] for key in keys]
            except KeyError:
                if (bad := describe(x)) is not None:
                    raise SampleError(bad) from None
                self.add([key for key in keys if key not in self.positions], run)
                positions = [self.positions[key] for key in keys]
            run.idx[:n] = positions
            self._keys = keys
        return n

    def known(self, x: dict) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Positions and values of the features that have a position; the others weigh nothing."""
        positions = self.positions
        try:
            idx = np.fromiter(map(positions.__getitem__, x), np.int64, len(x))
            return idx, np.fromiter(x.values(), np.float64, len(x))
        except KeyError:
            pairs = [(positions[key], value) for key, value in x.items() if key in positions]
            return np.array([p for p, _ in pairs], dtype=np.int64), np.array([v for _, v in pairs], dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise SampleError(describe(x)) from None

    def columns(self, names: typing.Sequence[typing.Any], run: Run) -> NDArray[np.uint32] | None:
        """Positions of named columns, added where new; None if column j stands at position j."""
        if len(self) == len(names) and self.names == list(names):
            return None
        new = [name for name in names if name not in self.positions]
        if new:
            if len(set(new)) < len(new):
                raise ValueError("two columns have the same name")
            self.add(new, run)
        positions = np.fromiter((self.positions[name] for name in names), np.uint32, len(names))
        return None if np.array_equal(positions, np.arange(len(positions))) else positions


def describe(x: dict) -> str | None:
    """What is wrong with a sample, naming the feature; None if nothing is."""
    for name, value in x.items():
        try:
            number = float(value) if not isinstance(value, str | bytes) else None
        except (TypeError, ValueError, OverflowError):
            number = None
        if number is None:
            return f"feature {name!r} is {value!r} ({type(value).__name__}); expected a number"
        if not abs(number) <= layout.LARGEST:
            return f"feature {name!r} is {value!r}; expected a finite number of at most {layout.LARGEST:g} in size"
    return None
