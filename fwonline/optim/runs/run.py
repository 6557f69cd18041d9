"""The state of one optimizer at work, and the calls that move it.

A :class:`Run` owns the iterate, the gradient sum and the scalars; ``MemoryRun`` and ``StreamRun`` add what a gradient
estimate needs, and an algorithm names its compiled step. Estimators feed a run rows; ``Optimizer.minimize`` feeds it
a matrix. The loss, the set and the schedule are passed to the kernels (:mod:`~fwonline.optim.runs.native`): a Python
object is called back from the same step.
"""

from __future__ import annotations

import dataclasses
import math
import typing

import numpy as np

from fwonline import losses, sets
from fwonline._kernels import coordinates, entry, layout, steps
from fwonline._kernels.state import SCALARS, Draws, Iterate, Memory, Region, Rows, by_name
from fwonline._kernels.state import Run as View
from fwonline.exceptions import SampleError
from fwonline.optim.runs import checks
from fwonline.optim.runs.native import Native

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from scipy import sparse

    from fwonline.optim.runs.protocol import ModelRun

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["Kept", "LastSample", "Run", "State", "resized"]

# Up to so many features arrays double. Then they are of the second size at once: zeros take no memory before something
# is written there, and what is that large is never copied when it grows, nor cleared.
DOUBLING, RESERVED = 1 << 17, (1 << 22) + 64

# Random numbers are drawn in blocks, so that a compiled step can use them without calling back.
NOISE_BLOCK = 4096

# Sets without a compiled oracle, which hold what is left of a point when a coordinate is left out.
_SOLID = (sets.LpBall, sets.KSparseBall, sets.NuclearBall)


class LastSample(typing.NamedTuple):
    """The sample learned last, as the optimizer saw it. Arrays are views: copy what is to be kept."""

    indices: NDArray[np.uint32]
    values: Floats
    y: float
    prediction: float
    loss: float
    n_features: int


@dataclasses.dataclass
class State:
    """What a callback of :meth:`Optimizer.minimize` sees.

    Attributes
    ----------
    nit
        Steps taken.
    gap
        The Frank-Wolfe gap of the last one by the optimizer's own estimate of the gradient; no bound.
    n_gradients, n_lmo
        Derivatives of single samples, and linear minimisations, so far.
    """

    nit: int
    gap: float
    n_gradients: int
    n_lmo: int
    _run: ModelRun = dataclasses.field(repr=False)

    @property
    def x(self) -> NDArray[np.float64]:
        """A copy of the iterate."""
        return self._run.weights


BY_FEATURE = ("feature", "mark", "list", "place")


class Kept(typing.NamedTuple):
    """What an array of an algorithm's own holds.

    ``by`` is "feature", "sample" or "entry" (of the pool) for one number each; "mark" for 0 or 1 of a feature; "list"
    for coordinates, each once, and "place" for where in that list each coordinate stands, -1 for nowhere; "fixed" for
    what never changes its size; anything else for what the algorithm itself resizes and checks.
    """

    by: str
    columns: int = 0
    is_point: bool = False  # of the set, or near it: a feature that weighs something there is not given up
    on_dense: bool = False  # kept on sets of dense atoms alone
    follows: bool = False  # in a new feature it is where the iterate starts there
    size: int = 0

    def empty(self) -> NDArray:
        dtype = np.int64 if self.by in ("list", "place", "mark") else np.float64
        if self.by == "matrix":
            return np.zeros((0, 0))
        return np.zeros((self.size, self.columns) if self.columns else self.size, dtype)


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

    # An algorithm's own arrays, a NamedTuple, and what each of them holds.
    _own: typing.Any = None
    _kept: typing.ClassVar[dict[str, Kept]] = {}
    # The scalars that parameters decide, and those that a file may say within bounds.
    _decided: typing.ClassVar[tuple[str, ...]] = ("batch_size", "steps", "crowded")
    _within: typing.ClassVar[dict[str, tuple[float, float]]] = {}
    # Whether steps keep the gap of their estimate; where not, it is computed when it is asked for.
    gap_is_kept: typing.ClassVar[bool] = True
    # Whether the best coordinate is looked for by other keys than the set's own.
    _key_kind: int | None = None
    _forms: typing.ClassVar[dict[type, tuple[entry.Form, entry.Form]]] = {}

    def __init__(self, optimizer, constraint, loss, seed: int | None = None, fit_intercept: bool = False):
        losses.check_loss(loss)
        self.optimizer = optimizer
        self.constraint = constraint
        self.loss = loss
        self.rng = np.random.default_rng(seed)
        self.state = np.zeros(1, SCALARS)
        self.it, self.mem = Iterate.empty(), Memory.empty(0)
        self.draws = Draws(np.zeros(0), np.zeros(1, dtype=np.int64))
        self.own: typing.Any = (
            () if self._own is None else self._own(*(self._kept[name].empty() for name in self._own._fields))
        )
        # One sample on its way in.
        self.row = Rows.room(64)
        # The entries of the sample learned last: None where they stand in the buffers, () where a refused one has
        # overwritten them.
        self._last: tuple[NDArray[np.uint32], Floats] | tuple[()] | None = None
        self.s: typing.Any = by_name(self.state)
        self._prepare()
        s = self.s
        s.w_scale = s.u_scale = 1.0
        s.gap = math.nan
        s.fit_intercept = fit_intercept
        s.batch_size = getattr(optimizer, "batch_size", None) or 1
        s.steps = getattr(optimizer, "steps_per_sample", None) or 1

    # What follows from the parameters, which may not have been read yet when a run comes from a file.
    native: Native
    region: Region
    fixed_dimension: int | None  # how many features there are, where the set says so
    start_weight: float  # what a feature weighs before it is seen
    keys: int  # the kind of set whose best coordinate is looked for in u

    def __getattr__(self, name: str) -> typing.Any:
        if name not in ("native", "region", "fixed_dimension", "start_weight", "keys"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._prepare()
        return self.__dict__[name]

    def _prepare(self) -> None:
        """Make what is never saved."""
        self.native = Native(self.loss, self.constraint, self.optimizer._schedule(), self._ask)
        self.region = region = self.native.problem.region
        shape = self.constraint.shape if region.kind in (layout.BOX_ARRAYS, layout.GENERIC) else None
        self.fixed_dimension = None if shape is None else math.prod(shape)
        self.start_weight = float(np.clip(0.0, region.p, region.q)) if region.kind == layout.BOX else 0.0
        self.keys = region.kind if self._key_kind is None else self._key_kind
        self._resize_bounds()

    # --- what an algorithm adds -------------------------------------------------------------------------------

    def _ask(self, what: float) -> float | None:
        """A set without a compiled oracle, asked from within a kernel."""
        s, d = self.s, self.s.d
        w = self.it.v[:d]
        if what == steps.PROJECTION:
            if d:
                w[:] = self.constraint.project(w)
            return None
        if what == steps.OUTSIDE:
            return float(d > 0 and not self.constraint.contains(w))
        s.index = -2  # no step, should what follows raise
        r = s.u_scale * self.it.u[:d]
        atom = self.constraint.lmo(r).to_dense()
        if not s.t and not self.constraint.contains(w):
            w[:] = atom  # the start is a point of the set
        s.dot = self.it.u[:d] @ w
        s.gap = r @ (w - atom)
        s.dist_sq = (atom - w) @ (atom - w)
        self.it.atom[:d] = atom
        s.index = 0
        return None

    def _make_room(self, need: int) -> None:
        """Grow what holds samples."""

    def _features_changed(self) -> None:
        """Called after features were added or given up."""

    # --- arrays -----------------------------------------------------------------------------------------------

    @property
    def is_sparse(self) -> bool:
        """Whether atoms are coordinates."""
        return self.region.kind <= layout.UNIT_SIMPLEX

    def _keeps(self, name: str) -> bool:
        return not (self._kept[name].on_dense and self.is_sparse)

    @property
    def view(self) -> View:
        """All that kernels work on."""
        return View(self.it, self.mem, self.draws, self.own, self.native.problem, self.state)

    def _bind(self) -> None:
        """Forget what was bound: an array has been replaced."""
        self._entered: tuple | None = None
        self._enter: Callable[..., int] | None = None
        # What a sample is packed into, without a look-up of the array's interface each time.
        self.idx_bytes, self.val_bytes = self.row.idx.data.cast("B"), self.row.val.data.cast("B")

    def _enterable(self) -> tuple:
        """The arguments of the compiled step, which stay the same until something grows."""
        _, view, cls = self.native, self.view, type(self)
        if cls not in Run._forms:
            Run._forms[cls] = entry.form_of(view), entry.form_of(self.row)
        forms = Run._forms[cls]
        self._entered = (entry.bind(view, forms[0]), entry.bind(self.row, forms[1]), 0, 1)
        self._enter = entry.entry_point(self.optimizer._learn, self._entered)
        return self._entered

    def _bound(self, rows: Rows) -> typing.Any:
        return entry.bind(rows, Run._forms[type(self)][1])

    def __getstate__(self) -> dict:
        names = ("optimizer", "constraint", "loss", "rng")
        state: dict[str, typing.Any] = {name: getattr(self, name) for name in names}
        state["scalars"] = {name: self.state[0][name].item() for name in self.state.dtype.names or ()}
        d = self.s.d if self.it.v.size > DOUBLING else self.it.v.size
        state["v"], state["u"], state["rank"] = self.it.v[:d], self.it.u[:d], self.it.rank[:d]
        for name in self._kept:
            array = getattr(self.own, name)
            state[name] = array[:d] if self._kept[name].by in BY_FEATURE else array
        state["noise"] = self.draws.noise
        sample = self.last_sample
        state["last"] = () if sample is None else (sample.indices.copy(), sample.values.copy())
        return state

    def __setstate__(self, state: dict) -> None:
        try:
            self._restore(state)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"the saved state of a {type(self).__name__} does not fit: {error}") from error

    def _restore(self, state: dict) -> None:
        for name in ("optimizer", "constraint", "loss", "rng"):
            setattr(self, name, state[name])
        self.state = np.zeros(1, SCALARS)
        for name in SCALARS.names or ():
            self.state[0][name] = state["scalars"][name]
        v = checks.vector(state["v"], np.float64)
        if not 0 <= self.state[0]["d"] <= v.size:
            raise ValueError("more features than numbers")
        self.it = Iterate.empty()._replace(
            v=v.copy(),
            u=checks.vector(state["u"], np.float64, v.size, own=True),
            rank=checks.vector(state["rank"], np.int64, v.size, own=True),
        )
        self.own = ()
        if self._own is not None:
            self.own = self._own(*(checks.like(state[name], self._kept[name]) for name in self._own._fields))
        self.draws = Draws(checks.vector(state["noise"], np.float64, own=True), np.zeros(1, dtype=np.int64))
        self.mem = Memory.empty(0)
        last = state["last"]
        idx, val = last if last else (np.zeros(0, np.uint32), np.zeros(0))
        idx, val = checks.vector(idx, np.uint32), checks.vector(val, np.float64, size=len(idx))
        self.row = Rows.room(max(64, idx.size))
        self.row.idx[: idx.size], self.row.val[: idx.size] = idx, val
        self.row.indptr[1], self.row.y[0] = idx.size, self.state[0]["target"]
        self._last = None if last else ()
        self.s = by_name(self.state)
        self._bind()

    def _check_loaded(self) -> None:
        checks.check_run(self)

    def _new_alike(self) -> Run:
        """A run of the same parameters before its first sample."""
        return type(self)(checks.small(self.optimizer), self.constraint, self.loss, 0, bool(self.s.fit_intercept))

    def _check_point(self) -> None:
        """The iterate lies in its set, or has not begun."""
        checks.check_point(self)

    def _check_own(self) -> None:
        """What an algorithm's own arrays and scalars ask for beyond what ``_kept`` says."""

    @property
    def n_features(self) -> int:
        return self.s.d

    def grow(self, ranks: Ints) -> None:
        """Add a feature for each rank; arrays double, so that a feature costs O(1) amortised."""
        d, new = self.n_features, self.n_features + len(ranks)
        if self.region.kind == layout.BOX_ARRAYS and new > self.region.lower.size:
            size = self.region.lower.size
            raise SampleError(f"{self.constraint} bounds {size} features, the sample brings feature number {new}")
        if new > self.it.v.size:
            self._enlarge(new)
        self.it.rank[d:new] = ranks
        for name, kept in self._kept.items():
            if kept.by == "place":
                getattr(self.own, name)[d:new] = -1
        self.s.d = new
        if self.keys <= layout.UNIT_SIMPLEX:
            coordinates.admit(self.it, d, new)
        if self.region.kind in (layout.BOX, layout.BOX_ARRAYS):
            lower, upper = self._box(new)
            self.it.v[d:new] = np.clip(0.0, lower[d:], upper[d:])
        self._let_follow(d, new)
        self._features_changed()

    def _let_follow(self, first: int, last: int) -> None:
        """Points beside the iterate are where it is in these features."""
        for name, kept in self._kept.items():
            if kept.follows:
                getattr(self.own, name)[first:last] = self.it.v[first:last]

    def _enlarge(self, need: int) -> None:
        """Arrays for so many features, and for more to come."""
        capacity = max(need, 2 * self.it.v.size, 64)
        if capacity > DOUBLING:
            capacity = max(capacity, RESERVED)
        it = self.it
        self.it = it._replace(v=resized(it.v, capacity), u=resized(it.u, capacity), rank=resized(it.rank, capacity))
        self._resize(capacity)
        self._resize_bounds()
        self._bind()

    def _resize(self, capacity: int) -> None:
        """Let an algorithm's own arrays follow a change of size."""
        if self._own is not None:
            self.own = self.own._replace(
                **{
                    name: resized(getattr(self.own, name), capacity)
                    for name, kept in self._kept.items()
                    if kept.by in BY_FEATURE and self._keeps(name)
                }
            )

    def _resize_bounds(self) -> None:
        """The bounds of u's blocks, in arrays of the size that u has; and room for an atom where Python writes one."""
        blocks, groups = coordinates.bound_sizes(self.it.u.size)
        size = self.it.u.size if self._writes_atom else 0
        self.it = self.it._replace(
            bound=np.full(blocks, -np.inf), group=np.full(groups, -np.inf), atom=resized(self.it.atom, size)
        )
        if self.keys <= layout.UNIT_SIMPLEX:
            coordinates.rebuild(self.it, self.keys, self.n_features)
        self._bind()

    @property
    def _writes_atom(self) -> bool:
        return self.region.kind == layout.GENERIC

    def shrink(self, d: int) -> None:
        """Take back features that were just added; nothing has been learned of them."""
        self.it.v[d : self.n_features] = 0.0
        self._let_follow(d, self.n_features)
        self.s.d = d
        if self.keys <= layout.UNIT_SIMPLEX:
            coordinates.rebuild(self.it, self.keys, d)
        self._features_changed()

    # --- features that are given up -----------------------------------------------------------------------------

    @property
    def gives_weights_up(self) -> bool:
        """Whether a feature that weighs something may be given up: the set then holds what is left of its points.

        So it is with balls whose atoms are dense, and with boxes. On l1 balls and simplices points are sparse: there
        only what weighs nothing leaves.
        """
        return self.region.kind in (layout.L2, layout.LINF, layout.BOX) or isinstance(self.constraint, _SOLID)

    def weighs(self) -> NDArray[np.bool_]:
        """Which features weigh something in a point that is held, which is more than they do before they are met."""
        points = [self.it.v, *(getattr(self.own, name) for name, kept in self._kept.items() if kept.is_point)]
        weighs = np.zeros(self.n_features, dtype=bool)
        for point in points:
            if point.size:
                weighs |= point[: weighs.size] != self.start_weight
        return weighs

    def take_out(self, gone: Ints) -> Ints:
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
        self.s.d = left
        own = [getattr(self.own, name) for name, kept in self._kept.items() if kept.by in ("feature", "mark")]
        for array in (self.it.v, self.it.u, self.it.rank, *own):
            if array.size:
                array[holes] = array[movers]
                array[left:d] = 0
        if self.s.index >= 0:
            self.s.index = int(max(new[self.s.index], 0))
        self._taken_out(new, holes, movers)
        self._features_changed()
        self._resize_bounds()
        return new

    def _taken_out(self, new: Ints, holes: Ints, movers: Ints) -> None:
        """Let what is held beyond arrays by feature follow: the features at ``movers`` now stand at ``holes``."""
        if "place" in self._kept:
            self.s.nonzeros = self._relist(self.own.active, self.s.nonzeros, new)
            self.own.place[: new.size] = -1
            self.own.place[self.own.active[: self.s.nonzeros]] = np.arange(self.s.nonzeros)

    @staticmethod
    def _relist(listed: Ints, count: int, new: Ints) -> int:
        """Let a list of coordinates follow; return how many are left."""
        left = new[listed[:count]]
        left = left[left >= 0]
        listed[: left.size] = left
        return left.size

    def _list_nonzeros(self) -> None:
        """List the coordinates of the iterate that are not zero."""
        listed = np.flatnonzero(self.it.v[: self.n_features])
        self.own.active[: listed.size] = listed
        self.own.place[listed] = np.arange(listed.size)
        self.s.nonzeros = listed.size

    def _box(self, d: int) -> tuple[Floats, Floats]:
        if self.region.kind == layout.BOX:
            return np.full(d, self.region.p), np.full(d, self.region.q)
        return self.region.lower[:d], self.region.upper[:d]

    def reserve(self, n: int) -> None:
        """Room for a sample of n entries on its way in."""
        if n > self.row.idx.size:
            self.row = Rows.room(2 * n)
            self._bind()

    # --- learning ---------------------------------------------------------------------------------------------

    def learn_buffered(self, n: int, y: float) -> int:
        """Learn the sample that stands in ``row.idx[:n]``, ``row.val[:n]``; return a status.

        It is OK, or negative for why the sample was refused, or NEED_NAMES where it is accepted, but brings more names
        than there is room for: then :meth:`take_out` must make some first.
        """
        self.row.indptr[1] = n
        self.row.y[0] = y
        self._last = None
        args = self._entered
        if args is None:
            self._check_dimension()
            args = self._enterable()
        status = self._enter(*args)  # type: ignore[misc]
        while 0 < status < layout.NEED_NAMES:
            self._provide(status, n)
            args = self._entered or self._enterable()
            status = self._enter(*args)  # type: ignore[misc]
        if self.native.failed[0]:
            self.native.check()
        return status

    def learn_rows(self, rows: Rows, first: int, last: int) -> tuple[int, int]:
        """Learn rows ``first`` to ``last``; return the row reached and the status there."""
        row, status = first, layout.OK
        s = self.s
        s.crowded = 0  # columns have their features already
        self._check_dimension()
        bound = None
        try:
            while row < last:
                args = self._entered or self._enterable()
                if bound is None:
                    bound = self._bound(rows)
                before = s.seen
                status = self._enter(args[0], bound, row, last)  # type: ignore[misc]
                row += s.seen - before
                self.native.check()
                if status < 0:
                    break
                if status > 0:
                    self._provide(status, int(rows.indptr[row + 1] - rows.indptr[row]))
        finally:
            if row > first:
                start, stop = rows.indptr[row - 1], rows.indptr[row]
                self._last = rows.idx[start:stop].copy(), rows.val[start:stop].copy()
        return row, min(status, layout.OK)

    def _check_dimension(self) -> None:
        if self.region.kind == layout.GENERIC and self.fixed_dimension not in (None, self.n_features):
            raise SampleError(
                f"{self.constraint} holds points of {self.fixed_dimension} features, the samples up to this one bring "
                f"{self.n_features}; expected the first sample to name them all, those that are 0 too"
            )

    def forget_last(self) -> None:
        """A sample that was refused has overwritten the buffers."""
        if self._last is None:
            self._last = ()

    def _provide(self, status: int, need: int) -> None:
        """What a kernel asks for before it goes on."""
        if status == layout.NEED_POOL:
            self._make_room(need)
        else:
            self._draw_noise()

    def _draw_noise(self) -> None:
        need = max(NOISE_BLOCK, self.s.steps * self.s.batch_size)
        if need == self.draws.noise.size:
            self.rng.random(out=self.draws.noise)  # in place: what is bound stays
        else:
            self.draws = self.draws._replace(noise=self.rng.random(need))
            self._bind()
        self.s.drawn = 0

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
        self.it.v[: self.n_features] = x
        self.s.warm = 1
        steps.upkeep(self.it, self.state[0], self.region)

    def progress(self) -> State:
        """What a callback of ``minimize`` sees."""
        return State(self.s.t, self.gap, self.s.n_gradients, self.s.n_lmo, self)

    # --- what is read -----------------------------------------------------------------------------------------

    @property
    def weights(self) -> Floats:
        """A copy of the iterate, shape (n_features,), rounding snapped back into the set."""
        w = self.s.w_scale * self.it.v[: self.n_features]
        kind, radius = self.region.kind, self.region.p
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
        return self.s.gap

    @property
    def last_sample(self) -> LastSample | None:
        row, s = self.row, self.s
        last = (row.idx[: row.indptr[1]], row.val[: row.indptr[1]]) if self._last is None else self._last
        if not s.seen or not last:
            return None
        return LastSample(*last, s.target, s.prediction, s.loss, s.d)

    def last_bytes(self) -> tuple[bytes, bytes, float] | None:
        """The last sample's positions, values and target: quick to take and to keep."""
        if self._last is None and self.s.seen:
            n = int(self.row.indptr[1])
            return self.idx_bytes[: 4 * n].tobytes(), self.val_bytes[: 8 * n].tobytes(), float(self.row.y[0])
        sample = self.last_sample
        return None if sample is None else (sample.indices.tobytes(), sample.values.tobytes(), sample.y)

    @property
    def point(self) -> Floats:
        """The iterate as a point of the set: with its start where the set knows features that no sample has shown."""
        w, shape = self.weights, self.constraint.shape
        if shape is None or w.size >= math.prod(shape):
            return w
        whole = self.constraint.initial_point().ravel()
        whole[: w.size] = w
        return whole

    def gap_along(self, gradient: Floats) -> float:
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

    def gap_over(self, X: sparse.csr_array, y: Floats) -> float | None:
        """The Frank-Wolfe gap of the mean loss over given samples, columns being positions of features."""
        if not len(y):
            return None
        z = X @ self.weights + self.s.intercept
        slopes = losses.vector_loss(self.loss)[1](y, z)
        with np.errstate(over="ignore", invalid="ignore"):
            return self.gap_along(X.T @ slopes / len(y))


def resized(array: NDArray, capacity: int) -> NDArray:
    """The array with zeros behind it."""
    out = np.zeros((capacity, *array.shape[1:]), dtype=array.dtype)
    out[: len(array)] = array[:capacity]
    return out
