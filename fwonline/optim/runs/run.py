"""The state of one optimizer at work: arrays, and the calls that move them.

A :class:`Run` owns the iterate, the gradient sum and the scalars; a subclass adds what its gradient estimate needs and
names its compiled step. Estimators feed it rows; ``Optimizer.minimize`` feeds it a matrix. A step is made of parts
(look, enter, estimate, move) that are compiled, and so is the loop around them. Where the loss, the schedule or the set
is a Python object the same parts run one by one, with the object asked in between.
"""

from __future__ import annotations

import copy
import math
import typing

import numba as nb
import numpy as np

from fwonline import _loaded, losses, sets
from fwonline._kernels import coordinates, layout, memory, steps
from fwonline.exceptions import SampleError
from fwonline.optim.base import Optimizer, State

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy import sparse

__all__ = ["LastSample", "Run", "resized", "small"]

# A set that has no compiled oracle: asked through `lmo`, its atoms taken dense.
GENERIC = layout.BOX_ARRAYS + 1

# Up to so many features arrays double. Then they are of the second size at once: zeros take no memory before something
# is written there, and what is that large is never copied when it grows, nor cleared.
DOUBLING, RESERVED = 1 << 17, (1 << 22) + 64

# Random numbers are drawn in blocks, so that a compiled step can use them without calling back.
NOISE_BLOCK = 4096

Rows = tuple["NDArray[np.int64]", "NDArray[np.uint32]", "NDArray[np.float64]", "NDArray[np.float64]"]


class LastSample(typing.NamedTuple):
    """The sample learned last, as the optimizer saw it. Arrays are views: copy what is to be kept."""

    indices: NDArray[np.uint32]
    values: NDArray[np.float64]
    y: float
    prediction: float
    loss: float
    n_features: int


def set_code(constraint: sets.ConvexSet) -> tuple[int, float, float, NDArray[np.float64]]:
    """Code, two parameters and bounds by coordinate, under which a set's oracle runs compiled."""
    none = np.empty(0)
    simple = {
        sets.L1Ball: layout.L1,
        sets.ProbabilitySimplex: layout.SIMPLEX,
        sets.UnitSimplex: layout.UNIT_SIMPLEX,
        sets.L2Ball: layout.L2,
        sets.LInfBall: layout.LINF,
    }
    kind = simple.get(type(constraint))
    if kind is not None:
        return kind, float(constraint.radius), 0.0, none  # type: ignore[attr-defined]
    if type(constraint) is sets.Box:
        lower, upper = np.asarray(constraint.lower, dtype=float), np.asarray(constraint.upper, dtype=float)
        if lower.ndim == upper.ndim == 0:
            return layout.BOX, float(lower), float(upper), none
        lower, upper = np.broadcast_arrays(lower, upper)
        return layout.BOX_ARRAYS, 0.0, 0.0, np.concatenate([lower, upper])
    return GENERIC, 0.0, 0.0, none


class Run:
    """State and steps shared by all optimizers.

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
    """

    # The arrays with an entry for each feature, and those of them that are points of the set.
    _by_feature: typing.ClassVar[tuple[str, ...]] = ("v", "u", "rank")
    _points: typing.ClassVar[tuple[str, ...]] = ("v",)
    # Arrays of the same size that list coordinates, and ``place``, where in such a list each stands, -1 for nowhere.
    _lists: typing.ClassVar[tuple[str, ...]] = ()
    place: NDArray[np.int64]

    def __init__(self, optimizer: Optimizer, constraint, loss, seed: int | None = None, fit_intercept: bool = False):
        losses.check_loss(loss)
        self.optimizer = optimizer
        self.constraint = constraint
        self.loss = loss
        self.rng = np.random.default_rng(seed)
        kind, p, q, bounds = set_code(constraint)
        loss_kind, loss_p, loss_q = losses.compiled(loss)
        step_kind, *step_parameters = optimizer._schedule()._compiled()

        self.num = np.concatenate([np.zeros(layout.NUM), bounds])
        self.num[[layout.W_SCALE, layout.U_SCALE]] = 1.0
        self.num[[layout.SET_P, layout.SET_Q]] = p, q
        self.num[[layout.LOSS_P, layout.LOSS_Q]] = loss_p, loss_q
        self.num[layout.STEP_A : layout.STEP_C + 1] = step_parameters
        self.num[layout.GAP] = np.nan
        self.cnt = np.zeros(layout.CNT, dtype=np.int64)
        self.cnt[[layout.SET, layout.LOSS_KIND, layout.STEP_KIND]] = kind, loss_kind, step_kind
        self.cnt[layout.FIT_INTERCEPT] = fit_intercept

        # How many features there are where the set says so, and what a feature weighs before it is seen.
        shape = constraint.shape if kind in (layout.BOX_ARRAYS, GENERIC) else None
        self.fixed_dimension = None if shape is None else math.prod(shape)
        self.start_weight = float(np.clip(0.0, p, q)) if kind == layout.BOX else 0.0

        self.v = np.zeros(0)
        self.u = np.zeros(0)
        self.rank = np.zeros(0, dtype=np.int64)
        self.bound = np.zeros(0)
        self.group = np.zeros(0)
        self.noise = np.zeros(0)
        # One sample on its way in: (row pointer, indices, values, label).
        self.indptr = np.zeros(2, dtype=np.int64)
        self.idx = np.zeros(64, dtype=np.uint32)
        self.val = np.zeros(64)
        self.y = np.zeros(1)
        # The entries of the sample learned last: None where they stand in the buffers, () where a refused one has
        # overwritten them.
        self._last: tuple[NDArray[np.uint32], NDArray[np.float64]] | tuple[()] | None = None
        self._bind()

    # Whether steps keep the gap of their estimate; where not, it is computed when it is asked for.
    gap_is_kept: typing.ClassVar[bool] = True

    # --- what subclasses give ---------------------------------------------------------------------------------

    @staticmethod
    def _compiled_learn(*arrays) -> int:
        """The compiled loop over rows."""
        raise NotImplementedError

    def _extra(self) -> tuple:
        """The arrays that a compiled step takes beyond the core."""
        return ()

    def _enter(self, rows: Rows, i: int, margin: float, alpha: float, largest: float) -> None:
        """Take one sample in, by parts."""
        raise NotImplementedError

    def _moves(self) -> typing.Iterator[None]:
        """By parts: renew the estimate, once for each step that the sample entered pays for."""
        raise NotImplementedError

    def _make_room(self, need: int) -> None:
        """Grow what holds samples."""

    def _resize(self, capacity: int) -> None:
        """Follow a change of the arrays' size."""

    # --- arrays -----------------------------------------------------------------------------------------------

    def _bind(self) -> None:
        """Gather the arguments of the compiled step, which stay the same objects until something grows."""
        self.s: typing.Any = layout.Scalars(self.num, self.cnt)
        self.core = (self.v, self.u, self.rank, self.bound, self.group, self.num, self.cnt)
        self._args = (*self.core, *self._extra(), self.indptr, self.idx, self.val, self.y, 0, 1)
        self._call: typing.Callable[..., int] | None = None
        # What a sample is packed into, without a look-up of the array's interface each time.
        self.idx_bytes, self.val_bytes = self.idx.data.cast("B"), self.val.data.cast("B")
        cnt = self.cnt
        self._is_compiled = bool(
            cnt[layout.LOSS_KIND] != losses.CUSTOM
            and cnt[layout.STEP_KIND] != steps.CUSTOM_STEP
            and cnt[layout.SET] != GENERIC
        )

    def __getstate__(self) -> dict:
        state = {name: value for name, value in self.__dict__.items() if name not in _DERIVED}
        if self.v.size > DOUBLING:
            for name in {*self._by_feature, *self._lists} & set(state):
                state[name] = state[name][: self.n_features]
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        u, cnt = self.u, self.cnt
        # Read at once, where a file's other arrays wait until all of them are there (`_check_loaded`).
        of_types = u.dtype == np.float64 and cnt.dtype == np.int64 and u.ndim == 1 and cnt.shape == (layout.CNT,)
        if not (of_types and 0 <= cnt[layout.D] <= u.size):
            raise ValueError(f"the saved state of a {type(self).__name__} is inconsistent: its arrays do not fit")
        self._measure_keys()
        self._bind()

    # --- from a file: a compiled step follows every index and takes every number as it is -----------------------

    # What may be of another type than in a new run, and is looked at one by one.
    _apart: typing.ClassVar[tuple[str, ...]] = ("optimizer", "constraint", "loss", "fixed_dimension", "_last")

    def _check_loaded(self) -> None:
        _loaded.kind(self, "constraint", sets.ConvexSet)._check_loaded()
        _loaded.kind(self, "optimizer", Optimizer)._check_loaded()
        losses.check_loaded(self, "loss")
        d = max(1, int(self.cnt[layout.D]))
        size = self.constraint._scale(self.constraint.shape or (d,))
        _loaded.require(self, "constraint", size <= _LARGEST_SET, f"a set of points of at most {_LARGEST_SET:g}")
        fresh = self._new_alike()
        _loaded.alike(self, fresh, *self._apart, *_DERIVED)
        _loaded.owned(self, *(name for name, value in vars(self).items() if isinstance(value, np.ndarray)))
        self.fixed_dimension, self.start_weight = fresh.fixed_dimension, fresh.start_weight
        self._check_scalars(fresh)
        self._check_arrays()
        self._check_point()
        self._measure_keys()
        self._bind()

    def _new_alike(self) -> Run:
        """A run of the same parameters before its first sample."""
        return type(self)(small(self.optimizer), self.constraint, self.loss, 0, bool(self.cnt[layout.FIT_INTERCEPT]))

    def _check_scalars(self, fresh: Run) -> None:
        """The numbers that parameters decide are the ones they decide; the others are numbers that a run can have."""
        num, cnt = self.num, self.cnt
        for name, own, theirs, places in (("num", num, fresh.num, _NUM_FIXED), ("cnt", cnt, fresh.cnt, _CNT_FIXED)):
            _loaded.require(self, name, own.size == theirs.size, f"{theirs.size} numbers")
            for place in places:
                same = own[place] == theirs[place]
                _loaded.require(self, f"{name}[{place}]", same, f"{theirs[place]}, as its parameters have it")
        _loaded.require(self, "num", np.array_equal(num[layout.NUM :], fresh.num[layout.NUM :]), "the set's bounds")
        are_numbers = np.isfinite(num)
        are_numbers[[layout.GAP, layout.LOSS, layout.LOSS_SUM]] = True  # NaN before a step; infinite where a square was
        are_numbers |= num == fresh.num
        _loaded.require(self, "num", are_numbers.all(), "finite numbers")
        self._check_num(layout.DOT, -_HUGE, _HUGE)
        self._check_num(layout.INTERCEPT, -_HUGE, _HUGE)
        self._check_num(layout.INTERCEPT_H, 0.0, _HUGE)
        if 0.0 < num[layout.INTERCEPT_H] < _LEAST_CURVATURE:
            num[layout.INTERCEPT_H] = _LEAST_CURVATURE
        self._check_num(layout.W_SCALE, steps.SMALLEST_SCALE, 1.0)
        self._check_num(layout.U_SCALE, steps.SMALLEST_SCALE, 2.0)
        counters = np.delete(cnt, (layout.INDEX, layout.LOSS_KIND))
        _loaded.require(self, "cnt", (counters >= 0).all() and (counters <= _loaded.MOST).all(), "counts")

    def _check_num(self, place: int, least: float, most: float) -> None:
        _loaded.require(self, f"num[{place}]", least <= self.num[place] <= most, f"a number from {least:g} to {most:g}")

    def _check_cnt(self, place: int, least: int, most: int) -> None:
        _loaded.require(self, f"cnt[{place}]", least <= self.cnt[place] <= most, f"a number from {least} to {most}")

    def _check_arrays(self) -> None:
        """Each array has the size that the others ask for, and holds what steps may follow or calculate with."""
        cnt, capacity = self.cnt, self.v.size
        self._check_cnt(layout.D, 0, capacity if self.fixed_dimension is None else min(capacity, self.fixed_dimension))
        d = self.n_features
        self._check_cnt(layout.INDEX, -2, max(0, d - 1))
        self._check_coordinates("v", "u")
        _loaded.array(self, "rank", np.int64, (capacity,))
        # What is drawn of them are positions.
        _loaded.array(self, "noise", np.float64, (None,), least=0.0, most=np.nextafter(1.0, 0.0))
        self._check_cnt(layout.NOISE, 0, self.noise.size)
        drawn = int(cnt[layout.STEPS]) * int(cnt[layout.BATCH])
        _loaded.require(self, "cnt", drawn <= _MOST_DRAWN, f"at most {_MOST_DRAWN} samples drawn at once")
        size = self.idx.size
        _loaded.array(self, "val", np.float64, (size,), finite=False)
        _loaded.array(self, "y", np.float64, (1,), finite=False)
        _loaded.array(self, "indptr", np.int64, (2,), least=0, most=size)
        _loaded.require(self, "indptr", self.indptr[0] == 0, "a beginning at 0")
        n = int(self.indptr[1]) if cnt[layout.SEEN] else 0
        last: tuple = (self.idx[:n], self.val[:n]) if self._last is None else self._last
        _loaded.require(self, "_last", type(last) is tuple and len(last) in (0, 2), "None, or indices and values")
        if last:
            self._check_entries("_last", *last)

    def _check_entries(self, name: str, idx: typing.Any, val: typing.Any) -> None:
        """A sample: positions of features, and their values."""
        of_type = isinstance(idx, np.ndarray) and isinstance(val, np.ndarray) and idx.dtype == np.uint32
        fits = of_type and val.dtype == np.float64 and idx.ndim == val.ndim == 1 and idx.size == val.size
        is_good = fits and bool((idx < self.n_features).all()) and bool((np.abs(val) <= layout.LARGEST).all())
        _loaded.require(self, name, is_good, f"values of the {self.n_features} features")

    def _check_coordinates(self, *names: str, dtype: typing.Any = np.float64, unused: float = 0.0) -> None:
        """Arrays of an entry by coordinate; of those that no feature has yet all is as a new feature finds it."""
        for name in names:
            value = _loaded.array(self, name, dtype, (self.v.size,), least=-_HUGE, most=_HUGE)
            _loaded.require(self, name, (value[self.n_features :] == unused).all(), f"{unused} where no feature is")

    def _check_listed(self) -> None:
        """``active`` lists coordinates, each once, and ``place`` finds them."""
        capacity, n = self.v.size, int(self.cnt[layout.NONZEROS])
        active = _loaded.array(self, "active", np.int64, (capacity,))
        place = _loaded.array(self, "place", np.int64, (capacity,))
        self._check_cnt(layout.NONZEROS, 0, self.n_features)
        listed = active[:n]
        is_good = bool(((listed >= 0) & (listed < self.n_features)).all())
        expected = np.full(self.n_features, -1)
        if is_good:
            expected[listed] = np.arange(n)
        fits = is_good and np.array_equal(place[: self.n_features], expected)
        _loaded.require(self, "active", fits, "coordinates, each once")

    def _check_point(self) -> None:
        """The iterate lies in its set, or has not begun."""
        w = self.num[layout.W_SCALE] * self.v[: self.n_features]
        began = self.cnt[layout.T] or self.cnt[layout.WARM]
        is_start = not w.any() and not began
        _loaded.require(self, "v", is_start or self._is_point(w), f"a point of {self.constraint}")
        if is_start and self.cnt[layout.SET] == layout.SIMPLEX:  # by this the first step is known to be one
            self._check_num(layout.W_SQ, 0.0, 0.0)

    def _is_point(self, w: NDArray[np.float64]) -> bool:
        """Whether a vector of an entry by feature lies in the set, rounding apart."""
        shape = self.constraint.shape
        if not w.size:
            return True
        if shape is not None and w.size < math.prod(shape):
            whole = self.constraint.initial_point().ravel()
            whole[: w.size] = w
            w = whole
        return bool(self.constraint.contains(w, tol=1e-6))

    @property
    def n_features(self) -> int:
        return int(self.cnt[layout.D])

    @property
    def _key_kind(self) -> int:
        """The set whose oracle searches ``u``."""
        return int(self.cnt[layout.SET])

    def grow(self, ranks: NDArray[np.int64]) -> None:
        """Add a feature for each rank; arrays double, so that a feature costs O(1) amortised."""
        d, new = self.n_features, self.n_features + len(ranks)
        size = (self.num.size - layout.NUM) // 2
        if self.cnt[layout.SET] == layout.BOX_ARRAYS and new > size:
            raise SampleError(f"{self.constraint} bounds {size} features, the sample brings feature number {new}")
        if new > self.v.size:
            self._enlarge(new)
        self.rank[d:new] = ranks
        if "place" in self._lists:
            self.place[d:new] = -1
        self.cnt[layout.D] = new
        if self._key_kind <= layout.UNIT_SIMPLEX:
            coordinates.admit(self.bound, self.group, d, new)
        if self.cnt[layout.SET] in (layout.BOX, layout.BOX_ARRAYS):
            lower, upper = self._box(new)
            self.v[d:new] = np.clip(0.0, lower[d:], upper[d:])

    def _enlarge(self, need: int) -> None:
        """Arrays for so many features, and for more to come."""
        capacity = max(need, 2 * self.v.size, 64)
        if capacity > DOUBLING:
            capacity = max(capacity, RESERVED)
        for name in ("v", "u", "rank"):
            setattr(self, name, resized(getattr(self, name), capacity))
        self._measure_keys()
        self._resize(capacity)
        self._bind()

    def _measure_keys(self) -> None:
        """The bounds of u's blocks, in arrays of the size that u has."""
        blocks, groups = coordinates.bound_sizes(self.u.size)
        self.bound, self.group = np.full(blocks, -np.inf), np.full(groups, -np.inf)
        if self._key_kind <= layout.UNIT_SIMPLEX:
            coordinates.rebuild(self._key_kind, self.u, self.bound, self.group, self.n_features)

    def shrink(self, d: int) -> None:
        """Take back features that were just added; nothing has been learned of them."""
        self.v[d : self.n_features] = 0.0
        self.cnt[layout.D] = d
        if self._key_kind <= layout.UNIT_SIMPLEX:
            coordinates.rebuild(self._key_kind, self.u, self.bound, self.group, d)

    # --- features that are given up -----------------------------------------------------------------------------

    @property
    def gives_weights_up(self) -> bool:
        """Whether a feature that weighs something may be given up: the set then holds what is left of its points.

        So it is with balls whose atoms are dense, and with boxes. On l1 balls and simplices points are sparse: there
        only what weighs nothing leaves.
        """
        solid = self.cnt[layout.SET] in (layout.L2, layout.LINF, layout.BOX)
        return bool(solid) or isinstance(self.constraint, _SOLID)

    def weighs(self) -> NDArray[np.bool_]:
        """Which features weigh something in a point that is held, which is more than they do before they are met."""
        weighs = np.zeros(self.n_features, dtype=bool)
        for name in self._points:
            if (point := getattr(self, name)).size:
                weighs |= point[: weighs.size] != self.start_weight
        return weighs

    def take_out(self, gone: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give features up, as if no sample had ever shown them; the last ones take their places.

        Every point, every sum and every sample held loses these coordinates, so that all that is left belongs to the
        problem without them. Predictions stay as they are where the features weigh nothing.

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
        self.cnt[layout.D] = left
        for name in self._by_feature:
            if (array := getattr(self, name)).size:
                array[holes] = array[movers]
                array[left:d] = 0
        if self.cnt[layout.INDEX] >= 0:
            self.cnt[layout.INDEX] = max(new[self.cnt[layout.INDEX]], 0)
        self._taken_out(new, holes, movers)
        self._measure_keys()
        self._bind()
        return new

    def _taken_out(self, new: NDArray[np.int64], holes: NDArray[np.int64], movers: NDArray[np.int64]) -> None:
        """Let what is held beyond ``_by_feature`` follow: the features at ``movers`` now stand at ``holes``."""

    def _relist(self, active: NDArray[np.int64], place: NDArray[np.int64], new: NDArray[np.int64]) -> None:
        """Let a list of coordinates follow, and ``place``, which says where in the list each stands."""
        listed = new[active[: self.cnt[layout.NONZEROS]]]
        listed = listed[listed >= 0]
        place[: new.size] = -1
        active[: listed.size] = listed
        place[listed] = np.arange(listed.size)
        self.cnt[layout.NONZEROS] = listed.size

    def _box(self, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self.cnt[layout.SET] == layout.BOX:
            return np.full(d, self.num[layout.SET_P]), np.full(d, self.num[layout.SET_Q])
        lower, upper = np.split(self.num[layout.NUM :], 2)
        return lower[:d], upper[:d]

    def reserve(self, n: int) -> None:
        """Room for a sample of n entries on its way in."""
        if n > self.idx.size:
            self.idx = np.zeros(2 * n, dtype=np.uint32)
            self.val = np.zeros(2 * n)
            self._bind()

    # --- learning ---------------------------------------------------------------------------------------------

    def learn_buffered(self, n: int, y: float) -> int:
        """Learn the sample that stands in ``idx[:n]``, ``val[:n]``; returns a status.

        It is OK, or negative for why the sample was refused, or NEED_NAMES where it is accepted, but brings more names
        than there is room for: then :meth:`take_out` must make some first.
        """
        self.indptr[1] = n
        self.y[0] = y
        self._last = None
        if not self._is_compiled:
            return self._learn_by_parts((self.indptr, self.idx, self.val, self.y), 0)
        call = self._call
        if call is None:
            status = self._compiled_learn(*self._args)
            self._call = undispatched(self._compiled_learn, self._args)
        else:
            status = call(*self._args)
        while 0 < status < layout.NEED_NAMES:
            self._provide(status, n)
            status = self._compiled_learn(*self._args)
        return status

    def learn_rows(self, rows: Rows, first: int, last: int) -> tuple[int, int]:
        """Learn rows ``first`` to ``last`` of a CSR matrix; answers the row reached and the status there."""
        indptr, idx, val, y = rows
        row, status = first, layout.OK
        self.cnt[layout.CROWDED] = 0  # columns have their features already
        while row < last:
            if self._is_compiled:
                before = int(self.cnt[layout.SEEN])
                status = self._compiled_learn(*self.core, *self._extra(), indptr, idx, val, y, row, last)
                row += int(self.cnt[layout.SEEN]) - before
                if status > 0:
                    self._provide(status, int(indptr[row + 1] - indptr[row]))
            else:
                status = self._learn_by_parts(rows, row)
                row += status == layout.OK
            if status < 0:
                break
        if row > first:
            self._last = _row(rows, row - 1)
        return row, min(status, layout.OK)

    def forget_last(self) -> None:
        """A sample that was refused has overwritten the buffers."""
        if self._last is None:
            self._last = ()

    def _provide(self, status: int, need: int) -> None:
        if status == layout.NEED_POOL:
            self._make_room(need)
        else:
            self._draw_noise()
        self._bind()

    def _draw_noise(self) -> None:
        self.noise = self.rng.random(max(NOISE_BLOCK, int(self.cnt[layout.STEPS] * self.cnt[layout.BATCH])))
        self.cnt[layout.NOISE] = 0

    def _learn_by_parts(self, rows: Rows, i: int) -> int:
        indptr, idx, val, y = rows
        start, stop, target = indptr[i], indptr[i + 1], float(y[i])
        if self.constraint.shape is not None and self.cnt[layout.SET] == GENERIC:
            self._check_dimension()
        status, largest = memory.check_values(val.view(np.int64), start, stop, target)
        if status != layout.OK:
            return status
        margin = self.num[layout.W_SCALE] * coordinates.sparse_dot(self.v, idx, val, start, stop)
        prediction = float(margin + self.num[layout.INTERCEPT])
        alpha = self.derivative(target, prediction)
        if not self._can_sum(alpha, largest):
            return layout.TOO_LARGE
        if self.cnt[layout.CROWDED]:
            return layout.NEED_NAMES
        memory.note_play(self.num, self.cnt, target, prediction, self.value(target, prediction))
        self._enter(rows, i, margin, alpha, largest)
        memory.fit_intercept(self.num, self.cnt, target, prediction, alpha)
        for _ in self._moves():
            self.move()
        return layout.OK

    def _can_sum(self, alpha: float, largest: float) -> bool:
        """Whether sums can hold a sample of this derivative and this largest value."""
        return bool(memory.check_contribution(alpha, largest) == layout.OK)

    def _check_dimension(self) -> None:
        size = math.prod(self.constraint.shape)
        if self.n_features != size:
            raise SampleError(
                f"{self.constraint} holds points of {size} features, the samples up to this one bring "
                f"{self.n_features}; expected the first sample to name them all, those that are 0 too"
            )

    def value(self, y: float, z: float) -> float:
        """The loss of a raw prediction z."""
        if self.cnt[layout.LOSS_KIND] == losses.CUSTOM:
            return float(self.loss(self._label(y), z))
        return losses.loss_value(self.cnt[layout.LOSS_KIND], self.num[layout.LOSS_P], self.num[layout.LOSS_Q], y, z)

    def derivative(self, y: float, z: float) -> float:
        """Its derivative in z."""
        if self.cnt[layout.LOSS_KIND] == losses.CUSTOM:
            return float(self.loss.gradient(self._label(y), z))
        return losses.loss_derivative(
            self.cnt[layout.LOSS_KIND], self.num[layout.LOSS_P], self.num[layout.LOSS_Q], y, z
        )

    def _label(self, y: float) -> float | bool:
        return bool(y) if losses.is_binary(self.loss) else y

    def move(self) -> None:
        """One step by parts: the set and the schedule are asked as objects where they have no compiled form."""
        num, cnt = self.num, self.cnt
        if cnt[layout.D] == 0:
            return
        atom = None
        if cnt[layout.SET] == GENERIC:
            atom = self._ask_oracle()
        else:
            steps.direction(*self.core)
        if cnt[layout.SET] == layout.SIMPLEX and num[layout.W_SQ] == 0.0:
            gamma = 1.0  # off a start that is no point of the simplex
        elif cnt[layout.STEP_KIND] == steps.CUSTOM_STEP:
            gamma = float(self.optimizer._schedule().gamma(int(cnt[layout.T]), num[layout.GAP], num[layout.DIST_SQ]))
            if not 0.0 <= gamma <= 1.0:
                raise ValueError(f"{self.optimizer._schedule()} answered a step of {gamma!r}; expected one in [0, 1]")
        else:
            gamma = steps.step_size(num, cnt)
        if atom is None:
            steps.advance(self.v, self.u, num, cnt, gamma)
        else:
            w = self.v[: cnt[layout.D]]
            w *= 1.0 - gamma
            w += gamma * atom
            num[layout.GAMMA] = gamma
            cnt[layout.T] += 1

    def _ask_oracle(self) -> NDArray[np.float64]:
        num, cnt = self.num, self.cnt
        w, r = self.v[: cnt[layout.D]], num[layout.U_SCALE] * self.u[: cnt[layout.D]]
        atom = self.constraint.lmo(r).to_dense()
        if not cnt[layout.T] and not self.constraint.contains(w):
            w[:] = atom  # the start is a point of the set
        cnt[layout.N_LMO] += 1
        num[layout.DOT] = self.u[: cnt[layout.D]] @ w
        num[layout.GAP] = r @ (w - atom)
        num[layout.DIST_SQ] = (atom - w) @ (atom - w)
        return atom

    # --- offline ----------------------------------------------------------------------------------------------

    def offline(self, rows: Rows) -> None:
        """Prepare to minimise over a data set."""
        raise NotImplementedError

    def iterate(self, count: int) -> None:
        """Take ``count`` steps offline."""
        raise NotImplementedError

    def set_weights(self, x0) -> None:
        """Start at x0."""
        x = np.array(x0, dtype=np.float64)
        if x.shape != (self.n_features,) or not self.constraint.contains(x):
            raise ValueError(f"x0 must be a point of {self.constraint} with {self.n_features} entries")
        self.v[: self.n_features] = x
        self.cnt[layout.WARM] = 1
        steps.upkeep(self.v, self.u, self.num, self.cnt)

    def state(self) -> State:
        cnt = self.cnt
        return State(int(cnt[layout.T]), self.gap, int(cnt[layout.N_GRADIENTS]), int(cnt[layout.N_LMO]), self)

    # --- what is read -----------------------------------------------------------------------------------------

    @property
    def weights(self) -> NDArray[np.float64]:
        """A copy of the iterate, shape (n_features,), rounding snapped back into the set."""
        w = self.num[layout.W_SCALE] * self.v[: self.n_features]
        kind, radius = self.cnt[layout.SET], self.num[layout.SET_P]
        if kind <= layout.UNIT_SIMPLEX:
            size = math.fsum(np.abs(w[w != 0.0]))
        elif kind == layout.L2:
            size = float(np.linalg.norm(w))
        else:
            return w  # bounds hold exactly
        return w * (radius / size) if size > radius or (kind == layout.SIMPLEX and size > 0.0) else w

    @property
    def gap(self) -> float:
        """The Frank-Wolfe gap of the last step by the optimizer's estimate of the gradient, no bound; NaN before it."""
        return float(self.num[layout.GAP])

    @property
    def last_sample(self) -> LastSample | None:
        last = (self.idx[: self.indptr[1]], self.val[: self.indptr[1]]) if self._last is None else self._last
        if not self.cnt[layout.SEEN] or not last:
            return None
        idx, val = last
        target, prediction, loss = (float(self.num[k]) for k in (layout.TARGET, layout.PREDICTION, layout.LOSS))
        return LastSample(idx, val, target, prediction, loss, self.n_features)

    def last_bytes(self) -> tuple[bytes, bytes, float] | None:
        """The last sample's positions, values and target: quick to take and to keep."""
        if self._last is None and self.cnt[layout.SEEN]:
            n = int(self.indptr[1])
            return self.idx_bytes[: 4 * n].tobytes(), self.val_bytes[: 8 * n].tobytes(), float(self.y[0])
        sample = self.last_sample
        return None if sample is None else (sample.indices.tobytes(), sample.values.tobytes(), sample.y)

    @property
    def point(self) -> NDArray[np.float64]:
        """The iterate as a point of the set: with its start where the set knows features that no sample has shown."""
        w, shape = self.weights, self.constraint.shape
        if shape is None or w.size >= math.prod(shape):
            return w
        whole = self.constraint.initial_point().ravel()
        whole[: w.size] = w
        return whole

    def gap_along(self, gradient: NDArray[np.float64]) -> float:
        """The largest <gradient, w - s> over the points s of the set; infinite for a gradient that is not finite."""
        if not gradient.size:
            return 0.0
        if not np.isfinite(gradient).all():
            return math.inf
        w = self.point
        whole = resized(gradient, w.size)
        return float(whole @ w - self.constraint.lmo(whole).dot(whole))

    @property
    def n_remembered(self) -> int:
        """Samples held, over which ``exact_gap`` passes."""
        return 0

    def exact_gap(self) -> float | None:
        """The Frank-Wolfe gap of the objective over what is remembered; None without a memory."""
        return None

    def gap_over(self, X: sparse.csr_array, y: NDArray[np.float64]) -> float | None:
        """The Frank-Wolfe gap of the mean loss over given samples, columns being positions of features."""
        if not len(y):
            return None
        w = self.weights
        z = X @ w + self.num[layout.INTERCEPT]
        if self.cnt[layout.LOSS_KIND] == losses.CUSTOM:
            slopes = np.array([self.derivative(a, b) for a, b in zip(y.tolist(), z.tolist(), strict=True)])
        else:
            slopes = losses.vector_loss(self.loss)[1](y, z)
        with np.errstate(over="ignore", invalid="ignore"):
            return self.gap_along(X.T @ slopes / len(y))


# What parameters decide among the scalars, and no step changes.
_NUM_FIXED = (
    *(layout.SET_P, layout.SET_Q, layout.LOSS_P, layout.LOSS_Q, layout.STEP_A, layout.STEP_B, layout.STEP_C),
    *(layout.RHO_A, layout.RHO_B, layout.RHO_C),
)
_CNT_FIXED = (
    *(layout.SET, layout.LOSS_KIND, layout.STEP_KIND, layout.FIT_INTERCEPT, layout.BATCH, layout.STEPS, layout.ENTRIES),
    layout.CROWDED,
)
# Beyond what sums of refusable samples can reach, and far from where products of two overflow.
_HUGE = 1e250
_MOST_DRAWN = 1 << 26
# The square of a distance in a set stays a number.
_LARGEST_SET = 1e150
# A step of the intercept divides by it, and is halved until it fits: one that is infinite never would.
_LEAST_CURVATURE = 1e-100


def small(optimizer: Optimizer) -> Optimizer:
    """The same parameters, but for a memory of few samples: to be looked at, not to learn."""
    small = copy.copy(optimizer)
    vars(small).pop("_run", None)
    if getattr(small, "memory", None) is not None:
        small.memory = min(small.memory, 8)  # type: ignore[attr-defined]
    return small


# Sets without a compiled oracle, which hold what is left of a point when a coordinate is left out.
_SOLID = (sets.LpBall, sets.KSparseBall, sets.NuclearBall)

# Attributes that `_measure_keys` and `_bind` make of the others.
_DERIVED = frozenset(
    ("s", "bound", "group", "core", "pool", "_args", "_call", "_is_compiled", "idx_bytes", "val_bytes")
)


def undispatched(function: typing.Any, args: tuple) -> typing.Callable[..., int]:
    """A compiled function for arguments of these very types, entered without looking at them again.

    A look at twenty arrays costs 0.25 us, more than a step on a dense sample of 30 features. A run allocates its arrays
    itself, so their types never change.
    """
    compiled = function.overloads.get(tuple(nb.typeof(a) for a in args))
    return function if compiled is None else compiled.entry_point


def resized(array: NDArray, capacity: int) -> NDArray:
    """The array with zeros behind it."""
    out = np.zeros((capacity, *array.shape[1:]), dtype=array.dtype)
    out[: len(array)] = array
    return out


def _row(rows: Rows, i: int):
    indptr, idx, val, _ = rows
    return idx[indptr[i] : indptr[i + 1]].copy(), val[indptr[i] : indptr[i + 1]].copy()
