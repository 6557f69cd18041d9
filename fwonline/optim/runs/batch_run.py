"""Runs whose steps are products over many samples: numpy's, with no compiled loop around them."""

from __future__ import annotations

import abc
import math
import typing

import numpy as np

from fwonline import _loaded, losses, sets
from fwonline._kernels import layout
from fwonline._kernels.coordinates import sparse_dot
from fwonline._kernels.state import Rows
from fwonline.optim.problem.score_loss import ScalarLoss
from fwonline.optim.runs import checks
from fwonline.optim.runs.batch_state import COUNTS, FLOATS, Features, Scalars
from fwonline.optim.runs.method import HUGE
from fwonline.optim.runs.model_run import ModelRun, resized
from fwonline.optim.runs.native import region_of
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
    """A run over a ring of the last samples, or offline over a data set; with ``fit_intercept`` it learns one too.

    Attributes
    ----------
    v, rank
        The iterate, and a number of each feature's name: ties go to the lowest.
    ring
        The samples held.
    """

    _saved: typing.ClassVar[tuple[str, ...]] = ("optimizer", "constraint", "loss", "rng", "ring")

    def __init__(self, optimizer, constraint, loss, seed: int | None = None, fit_intercept: bool = False):
        super().__init__(optimizer, constraint, loss, seed)
        self.ring = Ring(getattr(optimizer, "memory", None) or 1)
        self.v, self.rank = np.zeros(0), np.zeros(0, dtype=np.int64)
        self.s: typing.Any
        self.s = Scalars()
        self.s.gap = math.nan
        self.s.fit_intercept = int(fit_intercept)
        self._prepare()

    @property
    def it(self) -> Features:
        return Features(self.v, self.rank)

    def _prepare(self) -> None:
        """What follows from the parameters, and is never saved."""
        self.score_loss = self._score_loss()
        self._value, self._derivative = losses.scalar_loss(self.loss)
        self._settle(region_of(self.constraint))
        self._bind()

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
        self._check_bounded(new)
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
        self._start_in_box(d, need)

    def shrink(self, d: int) -> None:
        """Take back features that were just added; nothing has been learned of them."""
        self.v[d : self.n_features] = 0.0
        self.s.d = d

    def weighs(self) -> NDArray[np.bool_]:
        """Which features weigh something in a point that is held, which is more than they do before they are met."""
        return self.x != self.start_weight

    def take_out(self, gone: Ints) -> Ints:
        d = self.n_features
        new, holes, movers = self._moves(d, gone)
        self.s.d = left = d - gone.size
        for array in (self.v, self.rank):
            if array.size:
                array[holes] = array[movers]
                array[left:d] = 0
        self.ring.take_out(new)
        self._taken_out(new)
        return new

    # --- one sample on its way in -------------------------------------------------------------------------------

    def learn_buffered(self, n: int, y: float) -> int:
        row = self.row
        row.indptr[1], row.y[0] = n, y
        self._last = None
        return self._learn(row.idx[:n], row.val[:n], y)

    def learn_rows(self, rows: typing.Any, first: int, last: int) -> tuple[int, int]:
        indptr, idx, val, y = rows.indptr, rows.idx, rows.val, rows.y
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

    def _note_play(self, y: float, prediction: float, loss: float) -> None:
        """What monitors read of the sample that is about to be learned."""
        s = self.s
        s.target, s.prediction, s.loss = y, prediction, loss
        s.loss_sum += loss
        s.seen += 1

    # --- what is read -------------------------------------------------------------------------------------------

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
        self.row = Rows.room(64)
        self._prepare()

    def _check_loaded(self) -> None:
        """See that a run from a file is one that a stream could have made."""
        checks.check_problem(self)
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
        checks.check_point(self)
