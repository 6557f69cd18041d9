"""Kernels entered without a look at the types of their arguments, for calls of a few microseconds."""

from __future__ import annotations

import typing

import numba as nb

__all__ = ["Direct"]


class Direct:
    """A kernel whose arguments are of the same types wherever the key is the same.

    numba looks at every argument of every call, most slowly at named tuples: 1 to 3 us a call. Here it looks once a
    key. Arguments are converted as ever, and what cannot be converted is refused.

    Parameters
    ----------
    kernel
        The compiled function.
    """

    def __init__(self, kernel: typing.Any):
        self._kernel = kernel
        self._entries: dict[typing.Any, typing.Callable] = {}

    def __call__(self, key: typing.Any, *args: typing.Any) -> typing.Any:
        if (entry := self._entries.get(key)) is None:
            signature = tuple(nb.typeof(argument) for argument in args)
            if signature not in self._kernel.overloads:
                self._kernel.compile(signature)
            entry = self._entries[key] = self._kernel.overloads[signature].entry_point
        return entry(*args)
