"""How kernels are compiled, and the numbers that they and their callers share."""

from __future__ import annotations

import numba as nb
import numpy as np

# Cached on disk; numpy's division, since every divisor is checked where it could vanish.
_OPTIONS: dict = {"cache": True, "error_model": "numpy", "_nrt": False}
# For sums and maxima over dense arrays, whose order is the compiler's to choose, and which hold no NaN.
_FAST = {"reassoc", "nsz", "nnan", "arcp", "contract"}
jit = nb.njit(**_OPTIONS)
fast_jit = nb.njit(fastmath=_FAST, **_OPTIONS)
# The parts of a step are inlined: passing a dozen arrays to a call, or slicing one, counts references atomically, which
# costs more than most of the parts do. For the same reason parts take an array with its start and stop, not a slice.
part = nb.njit(forceinline=True, **_OPTIONS)
fast_part = nb.njit(forceinline=True, fastmath=_FAST, **_OPTIONS)

INT64 = np.int64

# --- sets: those of coordinate atoms, those of dense atoms, and those that Python is asked about ---
L1, SIMPLEX, UNIT_SIMPLEX = 0, 1, 2
L2, LINF, BOX, BOX_ARRAYS = 3, 4, 5, 6
GENERIC = 7

# --- what a kernel returns ---
OK = 0
# Make room, draw more, watch for drift, give features up; then enter again: nothing was changed.
NEED_POOL, NEED_NOISE, NEED_LOOK, NEED_NAMES = 1, 2, 3, 4
# The row is refused; or a Python object that was called back has raised.
BAD_VALUE, BAD_TARGET, TOO_LARGE, FAILED = -1, -2, -3, -4

# Values beyond LARGEST are refused, and so are contributions alpha_i x_ij beyond its square: every sum a run keeps
# then stays finite for any radius and any memory that exist.
LARGEST = 1e100
