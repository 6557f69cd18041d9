"""Where a run keeps its scalars, and the codes that kernels and their callers share."""

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

# fmt: off
# --- num: floats ---
W_SCALE = 0        # the iterate is w = W_SCALE * v
U_SCALE = 1        # the gradient estimate is r = U_SCALE * u
DOT = 2            # <u, w>
W_SQ = 3           # ||w||^2
MASS = 4           # sum over the memory of |alpha_i| ||x_i||_inf: what an entry of u can be at most
DRIFT = 5          # sum of MASS over the updates since u was summed anew: bounds its rounding, in units of 2^-53
GAP = 6            # estimated Frank-Wolfe gap <r, w - s> of the last step
GAMMA = 7          # the last step
ATOM = 8           # the atom's value (coordinate atoms) or its factor of u (L2 ball)
DIST_SQ = 9        # ||s - w||^2
STEP_SUM = 10      # what an adaptive schedule accumulates
INTERCEPT = 11
INTERCEPT_H = 12   # curvature seen by the intercept
PREDICTION = 13    # of the sample learned last, before it was learned
LOSS = 14          # of that prediction
TARGET = 15
LOSS_P, LOSS_Q = 16, 17
SET_P, SET_Q = 18, 19          # radius; or lower and upper
STEP_A, STEP_B, STEP_C = 20, 21, 22
RHO_A, RHO_B, RHO_C = 23, 24, 25  # a momentum's own schedule
LOSS_SUM = 26      # of all predictions made before learning
DIAMETER = 27      # of the set, among the features known
STEEPEST = 28      # the longest gradient met, or a bound of all that was given
LIMIT = 29         # what gradients are shortened to
# --- of the pairwise steps on a quadratic memory ---
SIZE = 27          # ||w||_1, or ||w||^2 in the l2 ball
PENALTY = 28       # standard errors of a slope that count as noise
CURVATURE_SEEN, CURVATURE_MODEL = 29, 30  # of the loss along the steps taken, and what the diagonal says of it
PULL = 31          # multiplier of the l2 ball
SIGNIFICANCE = 32  # what PENALTY is but for the number of features
NUM = 40           # the scalars' count; bounds by coordinate follow

# --- cnt: integers ---
D = 0              # features
T = 1              # steps taken
SET, LOSS_KIND, STEP_KIND = 2, 3, 4
INDEX = 5          # the atom's coordinate; -1 for the zero atom
LIVE = 6           # samples in memory
SEEN = 7           # samples learned
HEAD = 8           # where the next row of the memory is written
NOISE = 9          # random numbers used of the buffer
SINCE = 10         # steps since upkeep
N_GRADIENTS, N_LMO = 11, 12
FIT_INTERCEPT = 13
BATCH, STEPS = 14, 15
N_SUMS = 16        # times u was summed anew
DRAW = 17          # stamp of the batch drawn last
N_EXACT = 18       # exact gradients of the whole objective
MODE = 19          # how OFW knows its gradient
NONZEROS = 20      # of w, as projections list them
WARM = 21          # whether the run started at a given point
FORGOTTEN = 22     # samples learned before the drift found last
WATCHED = 23       # blocks that the drift detector has seen
ROTOR = 24         # where the search for an atom to leave goes on
ENTRIES = 25       # entries that the steps of a sample may look at; 0 where STEPS alone counts
PENDING = 26       # coordinates that a batch of projected gradient steps has changed so far
CROWDED = 27       # whether the sample on its way brings more names than there is room for
CNT = 32

# --- sets ---
L1, SIMPLEX, UNIT_SIMPLEX = 0, 1, 2      # atoms are coordinates
L2, LINF, BOX, BOX_ARRAYS = 3, 4, 5, 6   # atoms are dense

# --- what a kernel answers ---
OK = 0
# make room, draw more, watch for drift, give features up; call again: nothing was changed
NEED_POOL, NEED_NOISE, NEED_LOOK, NEED_NAMES = 1, 2, 3, 4
BAD_VALUE, BAD_TARGET, TOO_LARGE = -1, -2, -3
# fmt: on

# Values beyond LARGEST are refused, and so are contributions alpha_i x_ij beyond its square: every sum a run keeps
# then stays finite for any radius and any memory that exist.
LARGEST = 1e100


class Scalars:
    """The scalars of a run by name: ``s.seen`` is ``cnt[SEEN]``, ``s.gap`` is ``num[GAP]``."""

    __slots__ = ("cnt", "num")

    def __init__(self, num: np.ndarray, cnt: np.ndarray):
        self.num, self.cnt = num, cnt

    def __getattr__(self, name: str):
        kind, place = _PLACES[name]
        return float(self.num[place]) if kind == "f" else int(self.cnt[place])

    def __setattr__(self, name: str, value) -> None:
        if name in ("num", "cnt"):
            object.__setattr__(self, name, value)
            return
        kind, place = _PLACES[name]
        (self.num if kind == "f" else self.cnt)[place] = value


_FLOATS = (
    "W_SCALE U_SCALE DOT W_SQ MASS DRIFT GAP GAMMA ATOM DIST_SQ STEP_SUM INTERCEPT INTERCEPT_H PREDICTION LOSS TARGET "
    "LOSS_SUM DIAMETER STEEPEST LIMIT SIZE PENALTY CURVATURE_SEEN CURVATURE_MODEL PULL SIGNIFICANCE"
)
_COUNTS = (
    "D T INDEX LIVE SEEN HEAD NOISE SINCE N_GRADIENTS N_LMO FIT_INTERCEPT BATCH STEPS N_SUMS DRAW N_EXACT MODE "
    "NONZEROS WARM FORGOTTEN WATCHED ROTOR ENTRIES PENDING CROWDED"
)
_PLACES = {name.lower(): ("f", globals()[name]) for name in _FLOATS.split()}
_PLACES |= {name.lower(): ("i", globals()[name]) for name in _COUNTS.split()}
