"""Arrays that grow, where the machine has room."""

from __future__ import annotations

import os
import typing

import numpy as np

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["WithScratch", "check_room", "longer", "wider"]


class WithScratch:
    """An object with attributes that copies and checkpoints leave out, and that `_make_scratch` makes anew."""

    _scratch: typing.ClassVar[tuple[str, ...]]

    def _check_sizes(self) -> None:
        """See that arrays from a file have the types and sizes that `_make_scratch` and compiled functions need."""

    def _make_scratch(self) -> None:
        raise NotImplementedError

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name not in self._scratch}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._check_sizes()
        self._make_scratch()


def check_room(what: str, need: float) -> None:
    """Raise a MemoryError, before anything is allocated, where `need` bytes are more than this machine has."""
    try:
        have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not known on every system
        return
    if need > have:
        raise MemoryError(f"{what} takes {need / 2**30:.1f} GiB, this machine has {have / 2**30:.1f} GiB")


def longer(array: NDArray, rows: int) -> NDArray:
    """A copy with so many rows; those that were not there are 0."""
    out = np.zeros((rows, *array.shape[1:]), dtype=array.dtype)
    out[: len(array)] = array
    return out


def wider(array: NDArray, rows: int, columns: int) -> NDArray:
    """A copy with so many rows and columns; what was not there is 0."""
    out = np.zeros((rows, columns), dtype=array.dtype)
    out[: array.shape[0], : array.shape[1]] = array
    return out
