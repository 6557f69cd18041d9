"""Runs whose steps are products over many samples: numpy's, with no compiled loop around them."""

from __future__ import annotations

import abc
import copy
import math
import typing

import numpy as np

from fwonline import _loaded, losses, sets
from fwonline._kernels import layout
from fwonline._kernels.coordinates import sparse_dot
from fwonline.exceptions import SampleError
from fwonline.optim.base import Optimizer
from fwonline.optim.problem.score_loss import ScalarLoss
from fwonline.optim.runs import checks
from fwonline.optim.runs.batch_state import COUNTS, FLOATS, Features, Incoming, Scalars
from fwonline.optim.runs.method import HUGE
from fwonline.optim.runs.model_run import ModelRun, resized
from fwonline.optim.runs.ring import Ring

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    from fwonline.optim.problem.score_loss import ScoreLoss

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["BatchRun"]

# Sets whose points stay points of the smaller set where a coordinate is left out, though it is not 0.
_SOLID = (sets.L2Ball, sets.LInfBall)
_SOLID_BY_KIND = (sets.LpBall, sets.KSparseBall, sets.NuclearBall)
# The square of a distance in a set stays a number.
_LARGEST_SET = 1e150


class BatchRun(ModelRun, abc.ABC):
    """A run over a ring of the last samples, or offline over a data set.

    Parameters
    ----------
    optimizer
        The hyperparameters.
    constraint, loss
        Where the iterate lives, and what is minimised.
    seed
        Seed of the one ``numpy.random.Generator`` that all randomness comes from.
    fit_intercept
        Whether an intercept, outside the constraint, is learned.

    Attributes
    ----------
    s
        Counters and scalars, by name.
    v, rank
        The iterate, and a number of each feature's name: ties go to the lowest.
    row
        One sample on its way in.
    ring
        The samples held.
    """

    gap_is_kept: typing.ClassVar[bool] = True
    _saved: typing.ClassVar[tuple[str, ...]] = ("optimizer", "constraint", "loss", "rng", "ring")

    def __init__(self, optimizer, constraint, loss, seed: int | None = None, fit_intercept: bool = False):
        losses.check_loss(loss)
        self.optimizer = optimizer
        self.constraint = constraint
        self.loss = loss
        self.rng = np.random.default_rng(seed)
        self.ring = Ring(getattr(optimizer, "memory", None) or 1)
        self.v, self.rank = np.zeros(0), np.zeros(0, dtype=np.int64)
        self.s: typing.Any
        self.s = Scalars()
        self.s.gap = math.nan
        self.s.fit_intercept = int(fit_intercept)
        self._last: tuple | None = None
        self.row = Incoming(np.zeros(2, np.int64), np.zeros(0, np.uint32), np.zeros(0), np.zeros(1))
        self.reserve(64)
        self._prepare()

    @property
    def it(self) -> Features:
        return Features(self.v, self.rank)

    def _prepare(self) -> None:
        """What follows from the parameters, and is never saved."""
        self.score_loss = self._score_loss()
        self._value, self._derivative = losses.scalar_loss(self.loss)
        shape, box = self.constraint.shape, self.constraint
        # How many features there are where the set says so, and what a feature weighs before it is seen.
        self.fixed_dimension = None if shape is None else math.prod(shape)
        is_plain_box = type(box) is sets.Box and shape is None
        self.start_weight = float(np.clip(0.0, box.lower, box.upper)) if is_plain_box else 0.0

    # --- what an algorithm adds ---------------------------------------------------------------------------------

    def _score_loss(self) -> ScoreLoss:
        return ScalarLoss(self.loss)

    @abc.abstractmethod
    def _enter(self, idx: NDArray[np.uint32], val: Array, y: float, slope: typing.Any) -> None:
        """Take a sample in; ``slope`` is its derivative at the iterate that predicted it."""

    @abc.abstractmethod
    def step(self) -> typing.Any:
        """Take one step, if there are features."""

    @abc.abstractmethod
    def exact_gap(self) -> float | None:
        """The Frank-Wolfe gap of the mean loss over the samples held; None without a memory."""

    @abc.abstractmethod
    def _taken_out(self, new: Ints) -> None:
        """What is held beyond the iterate and the samples follows features that are given up."""

    # --- features -----------------------------------------------------------------------------------------------

    @property
    def x(self) -> Array:
        """The iterate, to be changed in place."""
        return self.v[: self.n_features]

    def grow(self, ranks: Ints) -> None:
        """Add a feature for each rank; arrays double, so that a feature costs O(1) amortised."""
        d, new = self.n_features, self.n_features + len(ranks)
        box, size = self.constraint, self.fixed_dimension
        if type(box) is sets.Box and size is not None and new > size:
            raise SampleError(f"{box} bounds {size} features, the sample brings feature number {new}")
        if new > self.rank.size:
            self.rank = resized(self.rank, max(new, 2 * self.rank.size, 64))
        self.rank[d:new] = ranks
        self._enlarge(new)
        self.s.d = new

    def _enlarge(self, need: int) -> None:
        """Room for so many features in the iterate, each of them where it starts."""
        d = self.n_features
        if need > self.v.size:
            self.v = resized(self.v, self.rank.size)
        if type(self.constraint) is sets.Box:
            lower, upper = self._box(need)
            self.v[d:need] = np.clip(0.0, lower[d:], upper[d:])

    def _box(self, d: int) -> tuple[Array, Array]:
        """The bounds of the first d features."""
        box = typing.cast("sets.Box", self.constraint)
        if self.fixed_dimension is None:
            lower, upper = (float(np.asarray(bound, dtype=float)) for bound in (box.lower, box.upper))
            return np.full(d, lower), np.full(d, upper)
        bounds = np.broadcast_arrays(np.asarray(box.lower, dtype=float), np.asarray(box.upper, dtype=float))
        return bounds[0][:d], bounds[1][:d]

    def shrink(self, d: int) -> None:
        """Take back features that were just added; nothing has been learned of them."""
        self.v[d : self.n_features] = 0.0
        self.s.d = d

    @property
    def gives_weights_up(self) -> bool:
        """Whether a feature that weighs something may be given up: the set then holds what is left of its points."""
        is_plain_box = type(self.constraint) is sets.Box and self.fixed_dimension is None
        return is_plain_box or type(self.constraint) in _SOLID or isinstance(self.constraint, _SOLID_BY_KIND)

    def weighs(self) -> NDArray[np.bool_]:
        """Which features weigh something in a point that is held, which is more than they do before they are met."""
        return self.x != self.start_weight

    def take_out(self, gone: Ints) -> Ints:
        """Give features up, as if no sample had ever shown them; the last ones take their places.

        Parameters
        ----------
        gone
            Positions, in ascending order.

        Returns
        -------
        numpy.ndarray
            The new position of each feature there was, -1 for those that are gone.
        """
        d = self.n_features
        left = d - gone.size
        holes = gone[gone < left]
        stays = np.ones(gone.size, dtype=bool)
        stays[gone[gone >= left] - left] = False
        movers = left + np.flatnonzero(stays)
        new = np.arange(d)
        new[gone] = -1
        new[movers] = holes
        self.s.d = left
        for array in (self.v, self.rank):
            if array.size:
                array[holes] = array[movers]
                array[left:d] = 0
        self.ring.take_out(new)
        self._taken_out(new)
        return new

    # --- one sample on its way in -------------------------------------------------------------------------------

    def reserve(self, n: int) -> None:
        """Room for a sample of n entries."""
        if n <= self.row.idx.size:
            return
        self.row = Incoming(np.zeros(2, np.int64), np.zeros(2 * n, np.uint32), np.zeros(2 * n), np.zeros(1))
        self.idx_bytes, self.val_bytes = self.row.idx.data.cast("B"), self.row.val.data.cast("B")

    def learn_buffered(self, n: int, y: float) -> int:
        """Learn the sample that stands in ``row.idx[:n]``, ``row.val[:n]``; returns a status.

        It is OK, or negative for why the sample was refused, or NEED_NAMES where it is accepted, but brings more names
        than there is room for: then :meth:`take_out` must make some first.
        """
        row = self.row
        row.indptr[1], row.y[0] = n, y
        self._last = None
        return self._learn(row.idx[:n], row.val[:n], y)

    def learn_rows(self, rows: typing.Any, first: int, last: int) -> tuple[int, int]:
        """Learn rows ``first`` to ``last`` of a CSR matrix; returns the row reached and the status there."""
        indptr, idx, val, y = rows[0], rows[1], rows[2], rows[-1]
        self.s.crowded = 0  # columns have their features already
        row, status = first, layout.OK
        while row < last and status == layout.OK:
            where = slice(indptr[row], indptr[row + 1])
            status = self._learn(idx[where], val[where], float(y[row]))
            row += status == layout.OK
        if row > first:
            where = slice(indptr[row - 1], indptr[row])
            self._last = idx[where].copy(), val[where].copy()
        return row, status

    def _learn(self, idx: NDArray[np.uint32], val: Array, y: float) -> int:
        self._check_dimension()
        status, largest = self._status(val, y)
        if status != layout.OK:
            return status
        prediction = float(sparse_dot(self.v, idx, val, 0, idx.size) + self.s.intercept)
        value, slope = self._value(y, prediction), self._derivative(y, prediction)
        if not abs(slope) * largest <= layout.LARGEST**2:
            return layout.TOO_LARGE
        if self.s.crowded:
            return layout.NEED_NAMES
        self._note_play(y, prediction, value)
        self._enter(idx, val, y, slope)
        if self.s.fit_intercept:
            self.s.fit(y, prediction, slope, self._derivative if self.score_loss.is_known else None)
        self._steps()
        return layout.OK

    def _status(self, val: Array, y: float) -> tuple[int, float]:
        """Whether all numbers of a sample may be learned from, and the size of its largest value."""
        largest = float(np.abs(val).max(initial=0.0))
        if not largest <= layout.LARGEST:
            return layout.BAD_VALUE, largest
        return (layout.OK if abs(y) <= layout.LARGEST else layout.BAD_TARGET), largest

    def _steps(self) -> None:
        optimizer = self.optimizer
        for _ in range(getattr(optimizer, "steps_per_sample", 1)):
            self.step()

    def _check_dimension(self) -> None:
        if self.fixed_dimension not in (None, self.n_features) and type(self.constraint) is not sets.Box:
            raise SampleError(
                f"{self.constraint} holds points of {self.fixed_dimension} features, the samples up to this one bring "
                f"{self.n_features}; expected the first sample to name them all, those that are 0 too"
            )

    def _note_play(self, y: float, prediction: float, loss: float) -> None:
        """What monitors read of the sample that is about to be learned."""
        s = self.s
        s.target, s.prediction, s.loss = y, prediction, loss
        s.loss_sum += loss
        s.seen += 1

    # --- what is read -------------------------------------------------------------------------------------------

    @property
    def weights(self) -> Array:
        """A copy of the iterate, shape (n_features,), rounding snapped back into the set."""
        w, kind = self.x.copy(), type(self.constraint)
        if kind in (sets.L1Ball, sets.ProbabilitySimplex, sets.UnitSimplex):
            size = math.fsum(np.abs(w[w != 0.0]))
        elif kind is sets.L2Ball:
            size = float(np.linalg.norm(w))
        else:
            return w  # bounds hold exactly
        radius, on_simplex = float(self.constraint.radius), kind is sets.ProbabilitySimplex
        return w * (radius / size) if size > radius or (on_simplex and size > 0.0) else w

    @property
    def gamma(self) -> float:
        """The last step's size."""
        return self.s.gamma

    @property
    def t(self) -> int:
        """Steps taken."""
        return self.s.t

    @property
    def capacity(self) -> int:
        """Samples held, at most."""
        return self.ring.capacity

    @property
    def n_held(self) -> int:
        """Samples of the ring."""
        return self.ring.live

    @property
    def n_remembered(self) -> int:
        """Samples held, over which ``exact_gap`` passes."""
        return self.ring.live

    def _held(self):
        ring, slots = self.ring, self.ring.by_age(self.s.seen)
        spans = zip(ring.start[slots].tolist(), ring.length[slots].tolist(), ring.y[slots].tolist(), strict=True)
        samples = [(ring.idx[a : a + n], ring.val[a : a + n], y) for a, n, y in spans]
        return samples, {}, [vars(self.s), self.x, self.rank[: self.n_features]]

    def _slopes(self, y: Array, z: Array) -> Array:
        return self.score_loss.derivative(y, z)

    # --- offline ------------------------------------------------------------------------------------------------

    def set_weights(self, x0) -> None:
        """Start at x0."""
        x = np.array(x0, dtype=np.float64)
        if x.shape != self.x.shape or not self.constraint.contains(x):
            raise ValueError(f"x0 must be a point of {self.constraint} with {self.n_features} entries")
        self.x[...] = x
        self.s.warm = 1

    def iterate(self, count: int) -> None:
        """Take ``count`` steps."""
        for _ in range(count):
            self.step()

    def note(self, gap: float, gamma: float) -> None:
        """Keep what monitors read of a step."""
        self.s.gap, self.s.gamma = gap, gamma

    def count_gradients(self, n: int, exact: bool = False) -> None:
        """Count derivatives of single samples, and a gradient of the whole sum."""
        self.s.n_gradients += n
        self.s.n_exact += exact

    # --- saved and loaded ---------------------------------------------------------------------------------------

    def __getstate__(self) -> dict:
        sample = self.last_sample
        return {
            **{name: getattr(self, name) for name in self._saved},
            "scalars": {name: getattr(self.s, name) for name in (*COUNTS, *FLOATS, "fit_intercept")},
            "v": self.v[: self.n_features],
            "rank": self.rank[: self.n_features],
            "last": () if sample is None else (sample.indices, sample.values),
        }

    def _restore(self, state: dict) -> None:
        for name in self._saved:
            setattr(self, name, state[name])
        self.s = Scalars()
        for name in (*COUNTS, "fit_intercept"):
            setattr(self.s, name, int(state["scalars"][name]))
        for name in FLOATS:
            setattr(self.s, name, float(state["scalars"][name]))
        self.v, self.rank = np.array(state["v"]), np.array(state["rank"])
        self._last = state["last"]
        self.row = Incoming(np.zeros(2, np.int64), np.zeros(0, np.uint32), np.zeros(0), np.zeros(1))
        self.reserve(64)
        self._prepare()

    def _new_alike(self) -> BatchRun:
        """A run of the same parameters before its first sample."""
        return type(self)(self._small_optimizer(), self.constraint, self.loss, 0, bool(self.s.fit_intercept))

    def _small_optimizer(self) -> Optimizer:
        """The same parameters, but for a memory of few samples."""
        small = copy.copy(self.optimizer)
        vars(small).pop("_run", None)
        if getattr(small, "memory", None) is not None:
            small.memory = min(small.memory, 8)
        return small

    def _check_loaded(self) -> None:
        """See that a run from a file is one that a stream could have made."""
        _loaded.kind(self, "constraint", sets.ConvexSet)._check_loaded()
        _loaded.kind(self, "optimizer", Optimizer)._check_loaded()
        checks.check_loss(self, "loss")
        size = self.constraint._scale(self.constraint.shape or (max(1, self.n_features),))
        _loaded.require(self, "constraint", size <= _LARGEST_SET, f"a set of points of at most {_LARGEST_SET:g}")
        _loaded.generator(self, "rng")
        self._prepare()
        self._new_alike()  # its parameters go together
        self.s.check()
        self._check_arrays()
        self._check_point()

    def _check_arrays(self) -> None:
        d = self.n_features
        _loaded.require(self, "d", self.fixed_dimension is None or d <= self.fixed_dimension, "features of the set")
        self._check_iterate()
        _loaded.array(self, "rank", np.int64, (d,))
        _loaded.instance(self, "ring", Ring)
        _loaded.claim(self, "ring")
        self.ring.check(d, self.s.seen)
        last = _loaded.instance(self, "_last", tuple)
        good = len(last) in (0, 2) and all(isinstance(part, np.ndarray) and part.ndim == 1 for part in last)
        if good and last:
            idx, val = last
            good = idx.dtype == np.uint32 and val.dtype == np.float64 and idx.size == val.size
            good = good and bool((idx < d).all()) and bool((np.abs(val) <= layout.LARGEST).all())
        _loaded.require(self, "_last", good, f"values of the {d} features")

    def _check_iterate(self) -> None:
        _loaded.array(self, "v", np.float64, (self.n_features,), least=-HUGE, most=HUGE)

    def _check_point(self) -> None:
        """The iterate lies in its set, or has not begun."""
        is_start = not self.x.any() and not (self.s.t or self.s.warm)
        _loaded.require(self, "v", is_start or self._is_point(self.x), f"a point of {self.constraint}")

    def _is_point(self, x: Array) -> bool:
        """Whether an array of an entry by feature lies in the set, rounding apart."""
        return not x.size or bool(self.constraint.contains(self._whole(x), tol=1e-6))
