"""The state of one optimizer at work, and the calls that move it.

A :class:`Run` owns the iterate, the gradient sum and the scalars, and perhaps samples that the sum is over
(:mod:`~fwonline.optim.runs.samples`); an algorithm names its compiled step. Estimators feed a run rows;
``Optimizer.minimize`` feeds it a matrix. The loss, the set and the schedule are passed to the kernels
(:mod:`~fwonline.optim.runs.native`): a Python object is called back from the same step.
"""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import losses
from fwonline._kernels import coordinates, entry, layout, memory, steps
from fwonline._kernels.state import SCALARS, Draws, Iterate, Memory, Region, Rows, by_name
from fwonline._kernels.state import Run as View
from fwonline.optim.runs import checks, samples, summary
from fwonline.optim.runs.kept import BY_FEATURE, Kept, prepared
from fwonline.optim.runs.model_run import ModelRun, resized
from fwonline.optim.runs.native import Native
from fwonline.optim.runs.samples import Passes

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["Run"]

# Up to so many features arrays double. Then they are of the second size at once: zeros take no memory before something
# is written there, and what is that large is never copied when it grows, nor cleared.
DOUBLING, RESERVED = 1 << 17, (1 << 22) + 64

# Random numbers are drawn in blocks, so that a compiled step can use them without calling back.
NOISE_BLOCK = 4096

_admit = entry.Direct(coordinates.admit)


class Run(ModelRun):
    """A run of compiled steps; with ``fit_intercept`` it learns an intercept, outside the constraint, too."""

    # An algorithm's own arrays, a NamedTuple, and what each of them holds.
    _own: typing.Any = None
    _kept: typing.ClassVar[dict[str, Kept]] = {}
    # Compiled steps, where they are not the optimizer's: on rows as they come, and on all that is held.
    _learn: typing.Any = None
    _iterate: typing.Any = None
    # The scalars that parameters decide, and those that a file may say within bounds.
    _decided: typing.ClassVar[tuple[str, ...]] = ("batch_size", "steps", "crowded", "weight")
    _within: typing.ClassVar[dict[str, tuple[float, float]]] = {}
    # Whether the gradient estimate is a sum over samples that are held; else it is made of samples as they come.
    _holds_samples: typing.ClassVar[bool] = False
    # The largest derivative times value that a step lets into its sums.
    _most_contribution: typing.ClassVar[float] = layout.LARGEST**2
    capacity: int  # samples held at most, where some are
    _passes: Passes | None = None  # over a data set, offline
    # Whether the best coordinate is looked for by other keys than the set's own.
    _key_kind: int | None = None
    _form: tuple = ()  # what the type of a view depends on beside the class
    _forms: typing.ClassVar[dict[typing.Any, tuple[entry.Form, entry.Form]]] = {}

    def __init__(self, optimizer, constraint, loss, seed: int | None = None, fit_intercept: bool = False):
        super().__init__(optimizer, constraint, loss, seed)
        self.state = np.zeros(1, SCALARS)
        self.it, self.mem = Iterate.empty(), Memory.empty(0)
        self.draws = Draws(np.zeros(0), np.zeros(1, dtype=np.int64))
        self.own: typing.Any = (
            () if self._own is None else self._own(*(self._kept[name].empty() for name in self._own._fields))
        )
        s = self.s = by_name(self.state)
        self._prepare()
        s.w_scale = s.u_scale = s.weight = 1.0
        s.gap = math.nan
        s.fit_intercept = fit_intercept
        s.batch_size = getattr(optimizer, "batch_size", None) or 1
        s.steps = getattr(optimizer, "steps_per_sample", None) or 1
        if self._holds_samples:
            samples.begin(self)

    # What follows from the parameters, which may not have been read yet when a run comes from a file.
    native: Native = prepared()
    region: Region = prepared()
    fixed_dimension: int | None = prepared()  # features, where the set says how many
    start_weight: float = prepared()  # what a feature weighs before it is seen
    keys: int = prepared()  # the kind of set whose best coordinate is looked for in u

    def _prepare(self) -> None:
        """Make what is never saved."""
        self.native = Native(self.loss, self.constraint, self.optimizer._schedule(), self._ask)
        self._settle(self.native.problem.region)
        self.keys = self.region.kind if self._key_kind is None else self._key_kind
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
        samples.make_room(self, need)

    def _slots(self) -> tuple[int, ...]:
        """How many samples there may be room for."""
        return (self.capacity,)

    @property
    def _samples_per_step(self) -> int:
        """Samples that a step takes offline, where none are held."""
        return self.s.batch_size

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
        super()._bind()
        self._indptr, self._y = self.row.indptr, self.row.y

    def _bound_view(self) -> typing.Any:
        """What compiled functions take for all that they work on, until something grows."""
        _, view, key = self.native, self.view, (type(self), *self._form)
        if key not in Run._forms:
            Run._forms[key] = entry.form_of(view), entry.form_of(self.row)
        return entry.bind(view, Run._forms[key][0])

    def _enterable(self) -> tuple:
        """The arguments of the compiled step, which stay the same until something grows."""
        bound = self._bound_view()
        self._entered = (bound, self._bound(self.row), 0, 1)
        self._enter = entry.entry_point(self._learn or self.optimizer._learn, self._entered)
        self._calls_python = self.native.calls_python
        return self._entered

    def _bound(self, rows: Rows) -> typing.Any:
        return entry.bind(rows, Run._forms[type(self), *self._form][1])

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
        return {**state, **samples.state_of(self)} if self._holds_samples else state

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
        if self._holds_samples:
            samples.restore(self, state)

    def _check_loaded(self) -> None:
        checks.check_run(self)

    def _check_point(self) -> None:
        """The iterate lies in its set, or has not begun."""
        checks.check_point(self)

    def _check_own(self) -> None:
        """What an algorithm's own arrays and scalars ask for beyond what ``_kept`` says."""
        if self._holds_samples:
            samples.check(self)

    def grow(self, ranks: Ints) -> None:
        """Add a feature for each rank; arrays double, so that a feature costs O(1) amortised."""
        d = self.s.d
        new = d + len(ranks)
        self._check_bounded(new)
        if new > self.it.v.size:
            self._enlarge(new)
        self.it.rank[d:new] = ranks
        if "place" in self._kept:
            self.own.place[d:new] = -1
        self.s.d = new
        if self.keys <= layout.UNIT_SIMPLEX:
            _admit(None, self.it, d, new)
        self._start_in_box(d, new)
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

    def weighs(self) -> NDArray[np.bool_]:
        """Which features weigh something in a point that is held, which is more than they do before they are met."""
        points = [self.it.v, *(getattr(self.own, name) for name, kept in self._kept.items() if kept.is_point)]
        weighs = np.zeros(self.n_features, dtype=bool)
        for point in points:
            if point.size:
                weighs |= point[: weighs.size] != self.start_weight
        # What was played before the last step is known by that step's atom.
        looks_back = "old" in self._kept or not self._holds_samples
        if looks_back and self.is_sparse and self.s.gamma > 0.0 and self.s.index >= 0:
            weighs[self.s.index] = True
        return weighs

    def take_out(self, gone: Ints) -> Ints:
        d = self.n_features
        new, holes, movers = self._moves(d, gone)
        self.s.d = left = d - gone.size
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
        if self._holds_samples:
            more = [getattr(self.own, name) for name, kept in self._kept.items() if kept.by == "entry"]
            memory.take_out(self.mem, self.state, new, more[0] if more else np.zeros(0))

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

    # --- learning ---------------------------------------------------------------------------------------------

    def learn_buffered(self, n: int, y: float) -> int:
        self._indptr[1] = n
        self._y[0] = y
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
        if self._calls_python:
            self.native.check()
        return status

    def learn_rows(self, rows: Rows, first: int, last: int) -> tuple[int, int]:
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
        """Prepare to minimise over a data set: as the samples held, or in passes over it."""
        if self._holds_samples:
            samples.hold_all(self, rows)
        else:
            self._passes = Passes(rows, self.rng)

    def iterate(self, count: int) -> None:
        """Take ``count`` steps offline."""
        if self._passes is not None:
            self._passes.play(self, count * self._samples_per_step)
            return
        drawn = max(1, self.s.batch_size)
        while count > 0:
            left = (self.draws.noise.size - self.s.drawn) // drawn
            if left == 0:
                self._draw_noise()
                continue
            chunk = min(count, left)
            args = self._entered or self._enterable()
            (self._iterate or self.optimizer._iterate)(args[0], chunk)
            self.native.check()
            count -= chunk

    def set_weights(self, x0) -> None:
        super().set_weights(x0)
        steps.upkeep(self.it, self.state[0], self.region)

    # --- what is read -----------------------------------------------------------------------------------------

    def _held(self):
        d, slots = self.n_features, samples.by_age(self)
        cuts = {"feature": np.s_[:d], "statistic": np.s_[:d], "matrix": np.s_[:d, :d], "fixed": np.s_[:]}
        cuts["sample"] = slots
        shown = {name: cuts[kept.by] for name, kept in self._kept.items() if kept.by in cuts}
        arrays = {name: getattr(self.own, name)[cut] for name, cut in shown.items()}
        mem = self.mem.held[slots]
        held = {"derivatives": mem["alpha"], "gradient": self.s.u_scale * self.it.u[:d]}
        rest = [self.state, self.it.v[:d], self.it.u[:d], self.it.rank[:d], mem["largest"], mem["weight"]]
        return samples.listed(self), held | summary.public_names(arrays), rest

    @property
    def n_remembered(self) -> int:
        return self.s.live

    def exact_gap(self) -> float | None:
        """The Frank-Wolfe gap of the mean loss over the samples held, every derivative taken at the present iterate.

        None where no samples are held. Cost: one pass over the memory. The state is not changed.
        """
        live = self.s.live
        if live == 0:
            return None
        gradient = np.zeros(self.n_features)
        state = self.state.copy()
        v, state[0]["w_scale"], state[0]["intercept"] = self.shown
        memory.full_gradient(self.it._replace(v=v), self.mem, state, self.native.problem.loss, gradient)
        self.native.check()
        return self.gap_along(gradient / live)

    def _slopes(self, y: Floats, z: Floats) -> Floats:
        return losses.vector_loss(self.loss)[1](y, z)
