"""How kernels are compiled, and the numbers that they and their callers share."""

from __future__ import annotations

import typing

import numba as nb
import numpy as np
from numba.core.registry import CPUDispatcher

# Cached on disk; numpy's division, since every divisor is checked where it could vanish.
_OPTIONS: dict = {"cache": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
# For sums and maxima over dense arrays, whose order is the compiler's to choose, and which hold no NaN.
_FAST = {"reassoc", "nsz", "nnan", "arcp", "contract"}
_njit: typing.Any = nb.njit
jit = _njit(**_OPTIONS)
fast_jit = _njit(fastmath=_FAST, **_OPTIONS)
unlocked_jit = _njit(nogil=True, **_OPTIONS)  # other threads go on meanwhile


class _Inner(CPUDispatcher):
    """A function that only compiled ones call."""

    def __call__(self, *_args: typing.Any, **_kwargs: typing.Any) -> typing.NoReturn:
        raise TypeError(
            f"{self.py_func.__name__} is compiled without an entry from Python; use open_part or jit for it"
        )


def _inner(**options: typing.Any) -> typing.Callable[[typing.Callable], typing.Any]:
    """Compile without an entry from Python, which takes a quarter of the time that a first model waits for."""

    def decorate(function: typing.Callable) -> typing.Any:
        compiled = _njit(no_cpython_wrapper=True, **_OPTIONS, **options)(function)
        if isinstance(compiled, CPUDispatcher):  # not where numba is switched off
            compiled.__class__ = _Inner
        return compiled

    return decorate


# The parts of a step are inlined: passing a dozen arrays to a call, or slicing one, counts references atomically, which
# costs more than most of the parts do. For the same reason parts take an array with its start and stop, not a slice.
part = _inner(forceinline=True)
fast_part = _inner(forceinline=True, fastmath=_FAST)
# Parts that Python calls, too; and functions that are called by kernels alone.
open_part = _njit(forceinline=True, **_OPTIONS)
inner = _inner()
fast_inner = _inner(fastmath=_FAST)

INT64 = np.int64

# --- sets: those of coordinate atoms, those of dense atoms, and those that Python is asked about ---
L1, SIMPLEX, UNIT_SIMPLEX = 0, 1, 2
L2, LINF, BOX, BOX_ARRAYS = 3, 4, 5, 6
GENERIC = 7

# --- what a kernel returns ---
OK = 0
# Make room, draw more, give features up; then enter again: nothing was changed.
NEED_POOL, NEED_NOISE, NEED_NAMES = 1, 2, 4
# The row is refused; or a Python object that was called back has raised.
BAD_VALUE, BAD_TARGET, TOO_LARGE, FAILED = -1, -2, -3, -4

# Values beyond LARGEST are refused, and so are contributions alpha_i x_ij beyond its square: every sum a run keeps
# then stays finite for any radius and any memory that exist.
LARGEST = 1e100
# Weights of samples are 0, or from its inverse to this.
HEAVIEST = 1e30
