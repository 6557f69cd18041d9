"""Pairwise steps on quadratic memories: the model that remembers all, models that forget, and their mixture."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import mixing, pairwise
from fwonline._kernels.entry import Direct, opened
from fwonline._kernels.layout import GENERIC, L2, LARGEST, NEED_POOL, SIMPLEX, jit
from fwonline._kernels.state import Run as View
from fwonline.optim.runs import checks
from fwonline.optim.runs.kept import Kept
from fwonline.optim.runs.model_run import Shown, resized
from fwonline.optim.runs.run import Run

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Ensemble", "StochasticPairwiseRun", "show"]

# Steps a sample by default: as many as look at this many entries, but no more than these.
BUDGET, MOST = 300, 16
# The windows of the models that forget, the steps a sample that each takes, and windows of samples that each holds.
WINDOWS, WINDOW_STEPS, WINDOWS_HELD = (64, 16), 2, 3
# What of a mixture a file holds.
_SAVED = ("omega", "slopes", "squares", "peaks", "curvature", "lead", "spread")


class Ensemble(typing.NamedTuple):
    """The models of one stream: the one that remembers, then those that forget, the fastest last."""

    models: tuple[View, ...]
    mix: mixing.Mix


@jit
def join(bound, ranks):
    """Features of these ranks join all models."""
    run = opened(bound)
    for k in range(run.own.mix.omega.size):
        mixing.join(run.own.models[k], ranks)


_join = Direct(join)


@jit
def show(run):
    """The mixture's point and intercept, from those of the models; where only the first has weight, it is shown."""
    models, mix, s, region = run.own.models, run.own.mix, run.state[0], run.problem.region
    for k in range(s.mixed_nonzeros):
        mix.v[mix.listed[k]] = 0.0
    s.mixed_nonzeros = 0
    s.mixes = mix.omega[0] < 1.0
    if not s.mixes:
        return
    if region.kind > L2:
        mix.v[: s.d] = 0.0
    s.mixed_intercept = 0.0
    for k in range(mix.omega.size):
        if mix.omega[k] == 0.0:
            continue
        model = models[k]
        it, own, o = model.it, model.own, model.state[0]
        s.mixed_intercept += mix.omega[k] * o.intercept
        scale = mix.omega[k] * o.w_scale
        if region.kind > L2:
            for j in range(s.d):
                mix.v[j] += scale * it.v[j]
        else:
            for m in range(o.nonzeros):
                j = own.active[m]
                if mix.v[j] == 0.0:
                    mix.listed[s.mixed_nonzeros] = j
                    s.mixed_nonzeros += 1
                mix.v[j] += scale * it.v[j]
    if region.kind > L2:
        for j in range(s.d):
            mix.v[j] = pairwise.clipped(region, mix.v[j], j)


class StochasticPairwiseRun(Run):
    """The model that remembers all; beside it, online, models that forget (``windows``), and their mixture."""

    _holds_samples = True
    _own = pairwise.Quadratic
    _kept: typing.ClassVar[dict[str, Kept]] = {
        "sums": Kept("feature", columns=4),
        "means": Kept("feature", columns=2),
        "active": Kept("list"),
        "place": Kept("place"),
        "at": Kept("entry"),
        "curves": Kept("sample"),
        "counts": Kept("sample"),
        "offsets": Kept("sample"),
    }
    _decided = (*Run._decided, "entries", "significance", "growth")
    _within: typing.ClassVar[dict[str, tuple[float, float]]] = dict.fromkeys(
        ("penalty", "curvature_seen", "curvature_model", "pull", "total", "held", "per_held"), (0.0, checks.HUGE)
    )
    _most_contribution = LARGEST
    _key_kind = SIMPLEX
    gap_is_kept = False

    def __init__(self, optimizer, *args: typing.Any, **kwargs: typing.Any):
        self.windows: list[StochasticPairwiseRun] = []
        super().__init__(optimizer, *args, **kwargs)
        if self.region.kind == GENERIC:
            raise ValueError(
                f"{type(optimizer).__name__} moves coordinates, which {self.constraint} does not have; "
                "expected a ball of norm 1, 2 or infinity, a box or a simplex"
            )
        s = self.s
        s.steps = optimizer.steps_per_sample or MOST
        s.entries = 0 if optimizer.steps_per_sample else BUDGET
        s.significance = optimizer.significance
        s.unit, s.growth = 1.0, 1.0 if optimizer.window is None else 1.0 / (1.0 - 1.0 / optimizer.window)
        if optimizer.forgetting:
            for window, rng in zip(WINDOWS, self.rng.spawn(len(WINDOWS)), strict=True):
                theirs = type(optimizer)(
                    WINDOWS_HELD * window, WINDOW_STEPS, optimizer.significance, window, forgetting=False
                )
                run = type(self)(theirs, self.constraint, self.loss, None, bool(s.fit_intercept))
                run.rng, run._last = rng, ()  # samples come in by the first model's buffers
                self.windows.append(run)
        self.mix = mixing.Mix.of(1 + len(self.windows))

    # --- models that forget -----------------------------------------------------------------------------------

    @property
    def _models(self) -> tuple[StochasticPairwiseRun, ...]:
        return self, *self.windows

    @property
    def _form(self) -> tuple:  # type: ignore[override]
        return (len(self.windows),)

    @property
    def view(self) -> View:
        problem = self.native.problem
        models = tuple(View(run.it, run.mem, run.draws, run.own, problem, run.state) for run in self._models)
        return View(self.it, self.mem, self.draws, Ensemble(models, self.mix), problem, self.state)

    @property
    def shown(self) -> Shown:
        return Shown(self.mix.v, 1.0, self.s.mixed_intercept) if self.s.mixes else super().shown

    def _show(self) -> None:
        """The mixture's point anew, from nothing."""
        self.mix.v[:] = 0.0
        self.s.mixed_nonzeros = 0
        show(self.view)

    def _keeps(self, name: str) -> bool:
        return super()._keeps(name) and (name != "means" or bool(self.s.fit_intercept))

    def _resize(self, capacity: int) -> None:
        super()._resize(capacity)
        self.mix = self.mix._replace(v=resized(self.mix.v, capacity), listed=resized(self.mix.listed, capacity))

    def _bind(self) -> None:
        super()._bind()
        self._alone = None  # bound before it is entered, as one that serves another run never is

    def grow(self, ranks: NDArray[np.int64]) -> None:
        d, capacity = self.n_features, self.it.v.size
        if d + len(ranks) <= capacity and self.region.kind <= L2:
            bound = self._entered[0] if self._entered else self._alone
            if bound is None:
                bound = self._alone = self._bound_view()
            _join((len(self.windows), type(bound)), bound, ranks)
            return
        super().grow(ranks)
        for run in self.windows:
            Run.grow(run, ranks)
        if self.windows:
            self.mix.v[d : self.s.d] = self.it.v[d : self.s.d]
            if self.it.v.size != capacity:
                self._bind()

    def shrink(self, d: int) -> None:
        self.mix.v[d : self.n_features] = 0.0
        super().shrink(d)
        for run in self.windows:
            run.shrink(d)

    def weighs(self) -> NDArray[np.bool_]:
        weighs = super().weighs()
        for run in self.windows:
            weighs |= run.weighs()
        return weighs

    def take_out(self, gone: NDArray[np.int64]) -> NDArray[np.int64]:
        new = super().take_out(gone)
        for run in self.windows:
            run.take_out(gone)
        if self.windows:
            self._bind()
            self._show()
        return new

    def _provide(self, status: int, need: int) -> None:
        for run in self._models:
            noise = run.draws.noise
            if status == NEED_POOL:
                run._make_room(need)
            elif run.s.drawn + run.s.steps > noise.size:
                run._draw_noise()
            if status == NEED_POOL or run.draws.noise is not noise:
                self._bind()

    # --- saved, and from a file -------------------------------------------------------------------------------

    def __getstate__(self) -> dict:
        mix = self.mix._asdict()
        state = {**super().__getstate__(), "windows": self.windows, "mixed": self.mix.v[: self.n_features].copy()}
        return {**state, "mix": {name: mix[name].copy() for name in _SAVED}}

    def _restore(self, state: dict) -> None:
        super()._restore(state)
        self.windows = list(state["windows"])
        count, capacity = 1 + len(self.windows), self.it.v.size
        mix = mixing.Mix.of(count)._asdict()
        for name in _SAVED:
            value = checks.vector(np.ravel(state["mix"][name]), np.float64, size=mix[name].size)
            mix[name][...] = value.reshape(mix[name].shape)
        mix["v"], mix["listed"] = np.zeros(capacity), np.zeros(capacity, np.int64)
        mix["v"][: self.s.d] = checks.vector(state["mixed"], np.float64, size=self.s.d)
        listed = np.flatnonzero(mix["v"]) if self._lists_nonzeros else np.zeros(0, np.int64)
        mix["listed"][: listed.size] = listed
        self.s.mixed_nonzeros = listed.size
        self.mix = mixing.Mix(**mix)

    @property
    def _lists_nonzeros(self) -> bool:
        return self.region.kind <= L2

    def _check_own(self) -> None:
        super()._check_own()
        s, own = self.s, self.own
        checks.bounded(self, "forgotten", 0, s.seen)
        checks.bounded(self, "rotor", 0, max(0, self.it.v.size - 1))
        checks.bounded(self, "since", 0, pairwise.PERIOD)
        checks.bounded(self, "unit", 0.5, mixing.UNIT)
        # Curvatures are multiplied by the ratio: it must leave them numbers.
        checks.bounded(self, "curvature_seen", 0.0, LARGEST * s.curvature_model)
        _loaded.require(self, "curves", bool((own.curves >= 0.0).all()), "curvatures >= 0")
        _loaded.require(self, "counts", bool((own.counts >= 0.0).all()), "numbers >= 0")
        self._check_centre()
        checks.check_listed(self)
        if self._lists_nonzeros:
            w = s.w_scale * self.it.v[: self.n_features]
            held = np.flatnonzero(w)
            all_listed = held.size == s.nonzeros and bool((own.place[held] >= 0).all())
            _loaded.require(self, "active", all_listed, "all coordinates that are not zero, and no others")
            size = float(w @ w if self.region.kind == L2 else np.abs(w).sum())
            slack = 1e-6 * (self.region.p if self.is_free else max(1.0, self.region.p) ** 2)
            checks.bounded(self, "size", size - slack, size + slack)
        self._check_windows()

    def _check_centre(self) -> None:
        """What features lose to their means: nothing without an intercept, whose kernels look up no means."""
        s, means = self.s, self.own.means
        checks.bounded(self, "few", 0.0, pairwise.FEW)
        checks.bounded(self, "offset", -checks.HUGE, checks.HUGE)
        checks.bounded(self, "per_held", 0.0, 1.0 / pairwise.LEAST_HELD if s.fit_intercept else 0.0)
        # A mean is within twice the largest value there can be: steps along it leave the intercept a number.
        good = bool((np.abs(means[:, pairwise.ALONG]) <= 2.0 * LARGEST / max(s.per_held, 1e-100)).all())
        _loaded.require(self, "means", good, "means of values that features can have")
        trust = means[:, pairwise.TRUST]
        _loaded.require(self, "means", bool(((trust >= 0.0) & (trust <= 1.0)).all()), "shares from 0 to 1")

    def _check_windows(self) -> None:
        """The models that forget are those of the parameters, and have learned the same stream."""
        fresh: typing.Any = self._new_alike()
        mix, rank = self.mix, self.it.rank[: self.n_features]
        _loaded.require(self, "windows", len(self.windows) == len(fresh.windows), f"{len(fresh.windows)} models")
        for run, like in zip(self.windows, fresh.windows, strict=True):
            _loaded.require(self, "windows", isinstance(run, type(self)), f"models of {type(self).__name__}")
            good = (
                run is not self
                and run.constraint is self.constraint
                and run.loss is self.loss
                and vars(run.optimizer) == vars(like.optimizer)
                and run.s.seen == self.s.seen
                and run.s.fit_intercept == self.s.fit_intercept
                and run.capacity == like.capacity
                and run.it.v.size == self.it.v.size
                and run.n_features == self.n_features
                and np.array_equal(run.it.rank[: rank.size], rank)
            )
            _loaded.require(self, "windows", good, "models of the same stream")
        fits = bool((mix.omega >= 0.0).all()) and abs(float(mix.omega.sum()) - 1.0) <= 1e-9
        _loaded.require(self, "omega", fits, "weights of models, which sum to 1")
        for name in _SAVED:
            value = getattr(mix, name)
            _loaded.require(self, name, bool((np.abs(value) <= checks.HUGE).all()), "finite numbers")
            signed = name in ("slopes", "curvature") or bool((value >= 0.0).all())
            _loaded.require(self, name, signed, "numbers >= 0")
        self._show()

    def _taken_out(self, new, holes, movers) -> None:
        super()._taken_out(new, holes, movers)
        if self.region.kind == L2:
            self._measure()

    def _measure(self) -> None:
        pairwise.measure(self.it, self.own, self.state[0], self.region)

    # --- offline, and from given points -----------------------------------------------------------------------

    def offline(self, rows) -> None:
        self.windows, self.mix = [], mixing.Mix.of(1)
        super().offline(rows)
        self.own.counts[:] = 1.0
        self.s.significance = 0.0  # the mean loss itself is minimised

    def set_weights(self, x0) -> None:
        super().set_weights(x0)
        if self._lists_nonzeros:
            self._list_nonzeros()
            self._measure()
        for run in self.windows:
            run.set_weights(x0)

    def set_sample_weight(self, weight: float) -> None:
        for run in self._models:
            run.s.weight = weight

    def set_intercept(self, value: float) -> None:
        for run in self._models:
            run.s.intercept = value

    # --- what is read -----------------------------------------------------------------------------------------

    def _held(self):
        listed, held, rest = super()._held()
        held = {**held, "mixture_weights": self.mix.omega.copy()} if self.windows else held
        for run in self.windows:
            _, theirs, more = run._held()
            rest = [*rest, *more, *theirs.values()]
        return listed, held, [*rest, *(getattr(self.mix, name) for name in _SAVED)]

    @property
    def gap(self) -> float:
        """The Frank-Wolfe gap of the models' mean F, without its penalty: O(d), when asked. No bound of the loss's."""
        d = self.n_features
        return self.gap_along(self.slope_at(self.shown.scale * self.shown.v[:d])) if self.s.t and d else math.nan

    def slope_at(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """The gradient at w of the models' mean F, without its penalty."""
        slope = np.zeros(w.size)
        for omega, run in zip(self.mix.omega, self._models, strict=True):
            if omega:
                r, _, h, b = run.own.sums[: w.size].T
                slope += omega * run.s.u_scale * (r + h * w - b)
        return slope
