"""What a run is made of, by name: tuples of arrays, and one record of scalars. Kernels and Python share the names.

``run.it.v`` is an array, ``run.mem.held[i].alpha`` a number of sample i, ``s = run.state[0]`` the record: ``s.seen``.
Symbols: w the iterate, r the gradient estimate, s the atom of a step, alpha_i the derivative of sample i.
"""

from __future__ import annotations

import ctypes
import typing

import numpy as np

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_FLOATS = (
    "w_scale",  # the iterate is w = w_scale * v
    "u_scale",  # the gradient estimate is r = u_scale * u
    "dot",  # <u, w>
    "w_sq",  # ||w||^2
    "mass",  # sum over the memory of |alpha_i| ||x_i||_inf: what an entry of u can be at most
    "drift",  # sum of mass over the updates since u was summed anew: bounds its rounding, in units of 2^-53
    "gap",  # estimated Frank-Wolfe gap <r, w - s> of the last step
    "gamma",  # the last step
    "atom",  # the atom's value (coordinate atoms), or its factor of u (l2 ball)
    "dist_sq",  # ||s - w||^2
    "step_sum",  # what an adaptive schedule accumulates
    "intercept",
    "intercept_h",  # curvature seen by the intercept
    "prediction",  # of the sample learned last, before it was learned
    "loss",  # of that prediction
    "target",
    "loss_sum",  # of all predictions made before learning
    "weight",  # of the sample on its way: what its loss is multiplied by
)
_COUNTS = (
    "d",  # features
    "t",  # steps taken
    "index",  # the atom's coordinate; -1 for the zero atom, -2 for none
    "live",  # samples in memory
    "seen",  # samples learned
    "head",  # where the next row of the memory is written
    "drawn",  # random numbers used of the buffer
    "since",  # steps since upkeep
    "n_gradients",
    "n_lmo",
    "n_exact",  # exact gradients of the whole objective
    "n_sums",  # times u was summed anew
    "stamp",  # of the batch drawn last
    "fit_intercept",
    "batch_size",
    "steps",  # steps a sample
    "warm",  # whether the run started at a given point
    "crowded",  # whether the sample on its way brings more names than there is room for
    "nonzeros",  # coordinates that a list of them holds
)


# What single families of algorithms keep. All runs have one record, so that kernels are compiled for one: of records
# that begin alike numba takes the longer for a kind of the shorter.
_FLOATS_OF_FAMILIES = (
    *("rho_a", "rho_b", "rho_c"),  # a momentum's own schedule, rho_t = a / (t + b)^c
    "diameter",  # of the set, among the features known
    "steepest",  # the longest gradient met, or a bound of all that was given
    "limit",  # what gradients are shortened to
    "horizon",  # rounds to be played, 0 where that is not known
    "tolerance",  # eps / D^2
    "rate",  # eta G / D
    *("step", "power"),  # of projected gradient steps
    "size",  # ||w||_1, or ||w||^2 in the l2 ball
    *("significance", "penalty"),  # standard errors of a slope that count as noise: c, and c sqrt(log(1 + d))
    *("curvature_seen", "curvature_model"),  # of the loss along the steps taken, and what the diagonal says of it
    "pull",  # multiplier of the l2 ball
    *("unit", "growth", "total"),  # what the newest sample weighs, the next one over it, and all together
    "mixed_intercept",  # of a mixture of models
    *("bias_slope", "held", "per_held"),  # slope and curvature of the intercept, and 1 over it where it is used
    "few",  # what a mean explains by chance of what it does not
    "offset",  # what steps have taken from the intercept
)
_COUNTS_OF_FAMILIES = (
    "mode",  # how OFW knows its gradient
    "pending",  # coordinates that a batch of projected gradient steps has changed so far
    "rotor",  # where the search for an atom to leave goes on
    "forgotten",  # samples learned before those that count
    "mixes",  # whether the model shown is a mixture of several
    "mixed_nonzeros",  # coordinates that a list of its point holds
    *("classes", "stride"),  # of a matrix of weights: its classes, and entries from one feature to the next
    "entries",  # entries that the steps of a sample may look at; 0 where ``steps`` alone counts
)
SCALARS = np.dtype(
    [
        *((name, "f8") for name in (*_FLOATS, *_FLOATS_OF_FAMILIES)),
        *((name, "i8") for name in (*_COUNTS, *_COUNTS_OF_FAMILIES)),
    ],
    align=True,
)
# What is held of a sample: where its entries lie, the last batch it was drawn for, f'(y, <x, w>) as last looked at, its
# target, ||x||_inf, and its weight.
HELD = np.dtype(
    [
        *((name, "i8") for name in ("start", "length", "stamp")),
        *((name, "f8") for name in ("alpha", "y", "largest", "weight")),
    ],
    align=True,
)


class Scalars(ctypes.Structure):
    """A record's scalars as Python reads and writes them: ``s.seen`` is an int, in the memory that kernels use."""

    _fields_: typing.ClassVar[typing.Any] = [
        (name, {"f": ctypes.c_double, "i": ctypes.c_int64}[SCALARS[name].kind]) for name in SCALARS.names or ()
    ]


def by_name(state: NDArray) -> typing.Any:
    """One record's scalars by name."""
    return Scalars.from_buffer(typing.cast("typing.Any", state))


class Iterate(typing.NamedTuple):
    """The point, the gradient estimate, and the bounds by which its best coordinate is found."""

    v: Floats  # w = s.w_scale * v
    u: Floats  # r = s.u_scale * u
    rank: Ints  # of a feature's name: ties go to the lowest
    bound: Floats  # of blocks of u: see coordinates.py
    group: Floats
    atom: Floats  # of sets without a compiled oracle, and where an algorithm keeps s_t

    @classmethod
    def empty(cls) -> Iterate:
        return cls(np.zeros(0), np.zeros(0), np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0))


class Memory(typing.NamedTuple):
    """The samples held: ``held[i]`` says where the entries of sample i lie in the pool."""

    held: NDArray  # of HELD
    idx: NDArray[np.uint32]
    val: Floats

    @classmethod
    def empty(cls, slots: int) -> Memory:
        return cls(np.zeros(slots, HELD), np.zeros(0, np.uint32), np.zeros(0))


class Draws(typing.NamedTuple):
    """Random numbers, uniform in [0, 1), and the slots of a batch."""

    noise: Floats
    batch: Ints


class Rows(typing.NamedTuple):
    """Samples as the rows of a CSR matrix, with their targets.

    The last three are empty but where many are played: the values to predict with, where those are others than the ones
    to learn from; what the model answers to each row before it learns it, where that is more than ``noted`` tells
    (answers to ``asked``, scores of all classes); and of each row ``s.prediction``, with the gap before it.
    """

    indptr: Ints
    idx: NDArray[np.uint32]
    val: Floats
    bits: Ints  # the same values' bits
    y: Floats
    asked: Floats
    shown: Floats
    noted: Floats

    @classmethod
    def of(cls, indptr: Ints, idx: NDArray[np.uint32], val: Floats, y: Floats) -> Rows:
        return cls(indptr, idx, val, val.view(np.int64), y, val[:0], np.zeros((0, 1)), np.zeros((0, 2)))

    def played(self, answers: int, asked: Floats | None = None) -> Rows:
        """The same rows with room for so many answers to each, beside what is noted."""
        n, asked = len(self.y), self.asked if asked is None else asked
        return self._replace(asked=asked, shown=np.zeros((n, answers)), noted=np.zeros((n, 2)))

    @classmethod
    def room(cls, size: int) -> Rows:
        """One row of at most ``size`` entries."""
        return cls.of(np.zeros(2, np.int64), np.zeros(size, np.uint32), np.zeros(size), np.zeros(1))


class Row(typing.NamedTuple):
    """A sparse x: its entries idx[start:stop], val[start:stop]."""

    idx: NDArray[np.uint32]
    val: Floats
    start: int
    stop: int


class Look(typing.NamedTuple):
    """A sample as the present iterate sees it."""

    status: int
    y: float
    margin: float  # <x, w>
    prediction: float
    alpha: float  # f'(y, prediction)
    loss: float
    largest: float  # ||x||_inf


class Loss(typing.NamedTuple):
    """Addresses of f(y, z), f'(y, z) and a curvature, and two parameters."""

    value: int
    derivative: int
    curvature: int
    p: float
    q: float
    is_compiled: int  # 0 where Python is called back


class Schedule(typing.NamedTuple):
    """The address of gamma(a, b, c, t, gap, dist_sq, step_sum)."""

    gamma: int
    a: float
    b: float
    c: float
    accumulates: int  # whether the sum of the squares of the gaps is kept


class Region(typing.NamedTuple):
    """A convex set."""

    kind: int
    p: float  # radius, or lower bound
    q: float  # upper bound
    lower: Floats  # bounds by coordinate
    upper: Floats
    oracle: int  # of sets without a compiled one: the address of what asks them


class Problem(typing.NamedTuple):
    """What differs between losses, sets and schedules, passed to kernels that are compiled once for all."""

    loss: Loss
    region: Region
    schedule: Schedule
    failed: Ints  # one number, not 0 once a Python object called back has raised


class Run(typing.NamedTuple):
    """All that a kernel works on; ``own`` is what a family of algorithms adds."""

    it: Iterate
    mem: Memory
    draws: Draws
    own: typing.Any
    problem: Problem
    state: NDArray  # one record of scalars
