"""The default learner's run, AdaGrad's learners beside it, and the point that they make together."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import memory, mixing, pairwise
from fwonline._kernels import projections as adagrad
from fwonline._kernels.entry import Direct, opened
from fwonline._kernels.layout import L2, SIMPLEX, UNIT_SIMPLEX, jit, part
from fwonline._kernels.state import Run as View
from fwonline.optim.online.stochastic_pairwise import StochasticPairwiseFW
from fwonline.optim.runs import checks
from fwonline.optim.runs.kept import Kept
from fwonline.optim.runs.model_run import Shown
from fwonline.optim.runs.run import Run

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MixtureRun", "default_at", "show_intercept", "show_one"]

COUNT = adagrad.COUNT


class Own(typing.NamedTuple):
    """AdaGrad's learners, a column or an entry each, and the weights of all experts with what these minimise."""

    points: np.ndarray
    metric: np.ndarray
    offsets: np.ndarray
    bends: np.ndarray
    sizes: np.ndarray
    tops: np.ndarray
    scales: np.ndarray
    omega: np.ndarray
    slopes: np.ndarray
    squares: np.ndarray
    peaks: np.ndarray
    curvature: np.ndarray


class Mixed(typing.NamedTuple):
    """The same as kernels take it: beside room to work in stands the default learner, an optimizer's run of its own."""

    points: np.ndarray
    metric: np.ndarray
    offsets: np.ndarray
    bends: np.ndarray
    sizes: np.ndarray
    tops: np.ndarray
    scales: np.ndarray
    omega: np.ndarray
    slopes: np.ndarray
    squares: np.ndarray
    peaks: np.ndarray
    curvature: np.ndarray
    seen: np.ndarray  # of mixing.SEEN
    alphas: np.ndarray
    sums: np.ndarray
    lost: np.ndarray
    factors: np.ndarray
    reaches: np.ndarray
    default: typing.Any  # what its step is entered by
    state: np.ndarray  # its scalars, its first model's point, and that of its mixture of models
    v: np.ndarray
    mixed: np.ndarray


@part
def default_at(own, j):
    """The default learner's weight."""
    s = own.state[0]
    return own.mixed[j] if s.mixes else s.w_scale * own.v[j]


@part
def show_one(own, region, v, j):
    """v_j = sum_k omega_k w^k_j."""
    w = own.omega[0] * default_at(own, j)
    for k in range(COUNT):
        if own.omega[k + 1] > 0.0:
            w += own.omega[k + 1] * (own.factors[k] * own.points[j, k])
    v[j] = pairwise.clipped(region, w, j)


@part
def show_intercept(own, s):
    """The mixture's intercept."""
    o = own.state[0]
    s.mixed_intercept = own.omega[0] * (o.mixed_intercept if o.mixes else o.intercept)
    for k in range(COUNT):
        if own.omega[k + 1] > 0.0:
            s.mixed_intercept += own.omega[k + 1] * (s.intercept + own.offsets[k])


@jit
def show(bound):
    """The mixture's point, whole."""
    run = opened(bound)
    adagrad.scale_back(run.own, run.problem.region)
    for j in range(run.state[0].d):
        show_one(run.own, run.problem.region, run.it.v, j)
    show_intercept(run.own, run.state[0])


@jit
def show_at(bound, positions):
    """The mixture's point at some positions."""
    run = opened(bound)
    adagrad.scale_back(run.own, run.problem.region)
    for k in range(positions.size):
        show_one(run.own, run.problem.region, run.it.v, positions[k])
    show_intercept(run.own, run.state[0])


_show_at = Direct(show_at)


class MixtureRun(Run):
    """The default learner's run, the learners of AdaGrad beside it, and the point that they make together."""

    _own = Own
    _kept: typing.ClassVar[dict[str, Kept]] = {
        "points": Kept("feature", columns=COUNT),
        "metric": Kept("feature", columns=COUNT),
        **{name: Kept("fixed", size=COUNT) for name in ("offsets", "bends", "sizes", "tops")},
        "scales": Kept("fixed", size=5),
        **{name: Kept("fixed", size=COUNT + 1) for name in ("omega", "slopes", "squares", "peaks")},
        "curvature": Kept("fixed", columns=COUNT + 1, size=COUNT + 1),
    }
    gap_is_kept = False

    def __init__(
        self,
        optimizer: typing.Any,
        constraint: typing.Any,
        loss: typing.Any,
        seed: int | None = None,
        fit_intercept: bool = False,
    ):
        learner = StochasticPairwiseFW(optimizer.memory, forgetting=optimizer.forgetting)
        self._begin(learner._run_class(learner, constraint, loss, seed, fit_intercept))
        super().__init__(optimizer, constraint, loss, seed, fit_intercept)
        self.rng = self.default.rng
        self.own.omega[0] = 1.0

    def _begin(self, default: typing.Any) -> None:
        """Take in the default learner's run, and room to work in, which is never saved."""
        self.default = default
        default._last = ()  # samples come in by this run's buffers
        self._room = np.zeros(COUNT + 1, mixing.SEEN), *(np.zeros(COUNT) for _ in range(5))
        self._fresh = -1  # samples learned when the whole point was last made

    # --- what kernels take --------------------------------------------------------------------------------------

    @property
    def _form(self) -> tuple:  # type: ignore[override]
        return self.default._form

    @property
    def view(self) -> View:
        run = self.default
        entered = run._entered or run._enterable()
        own = Mixed._make((*self.own, *self._room, entered[0], run.state, run.it.v, run.mix.v))
        return View(self.it, self.mem, self.draws, own, self.native.problem, self.state)

    def _follow(self) -> None:
        """The default learner's arrays may have been replaced."""
        if self.default._entered is None:
            self._bind()

    def _provide(self, status: int, need: int) -> None:
        self.default._provide(status, need)
        self._follow()

    # --- the point ----------------------------------------------------------------------------------------------

    def _show(self) -> None:
        show((self._entered or self._enterable())[0])
        self._fresh = self.s.seen

    @property
    def shown(self) -> Shown:
        if self._fresh != self.s.seen:
            self._show()
        return Shown(self.it.v, 1.0, self.s.mixed_intercept)

    def shown_at(self, positions: NDArray) -> Shown:
        if self._fresh != self.s.seen:
            entered = self._entered or self._enterable()
            _show_at((type(self), *self._form, positions.dtype), entered[0], positions)
        return Shown(self.it.v, 1.0, self.s.mixed_intercept)

    def set_weights(self, x0: typing.Any) -> None:
        super().set_weights(x0)
        self.default.set_weights(x0)
        d, kind = self.n_features, self.region.kind
        self.own.points[:d] = self.it.v[:d, None]
        self.own.sizes[:] = self.own.tops[:] = self._sizes(kind)
        self._fresh = -1

    def set_intercept(self, value: float) -> None:
        super().set_intercept(value)
        self.default.set_intercept(value)
        self._fresh = -1

    def _sizes(self, kind: int) -> NDArray[np.float64]:
        """The learners' sizes, from their weights."""
        points = self.own.points[: self.n_features]
        return (points**2 if kind == L2 else np.abs(points)).sum(0)

    # --- features -----------------------------------------------------------------------------------------------

    def _let_follow(self, first: int, last: int) -> None:
        start = self.it.v[first:last]
        self.own.points[first:last] = start[:, None]
        if start.any():  # of a simplex, or a box without 0
            self.own.sizes[:] += (start**2 if self.region.kind == L2 else np.abs(start)).sum()
            np.maximum(self.own.tops, self.own.sizes, out=self.own.tops)

    def grow(self, ranks: NDArray[np.int64]) -> None:
        super().grow(ranks)
        self.default.grow(ranks)
        self._follow()

    def shrink(self, d: int) -> None:
        super().shrink(d)
        self.default.shrink(d)

    def weighs(self) -> NDArray[np.bool_]:
        """What the default learner uses: of the others' points any part may be left out, but in a simplex."""
        weighs = self.default.weighs()
        if self.region.kind == SIMPLEX:
            weighs |= self.own.points[: weighs.size].any(1)
        return weighs

    def take_out(self, gone: NDArray[np.int64]) -> NDArray[np.int64]:
        new = super().take_out(gone)
        self.default.take_out(gone)
        self.own.sizes[:] = self.own.tops[:] = self._sizes(self.region.kind)
        self._fresh = -1
        self._bind()
        return new

    # --- saved, and from a file ---------------------------------------------------------------------------------

    def __getstate__(self) -> dict:
        self.shown  # noqa: B018  made whole
        state = super().__getstate__()
        del state["rng"]
        return {**state, "default": self.default}

    def _restore(self, state: dict) -> None:
        default = state["default"]
        if type(default) is not StochasticPairwiseFW._run_class or not hasattr(default, "rng"):
            raise ValueError("no run of the default learner")
        self._begin(default)
        super()._restore({**state, "rng": default.rng})

    def _check_own(self) -> None:
        super()._check_own()
        s, own, run = self.s, self.own, self.default
        like = self._new_alike().default
        rank = self.it.rank[: self.n_features]
        run._check_loaded()
        good = (
            run.constraint is self.constraint
            and run.loss is self.loss
            and vars(run.optimizer) == vars(like.optimizer) | {"memory": self.optimizer.memory}
            and run.s.seen == s.seen
            and run.s.fit_intercept == s.fit_intercept
            and run.n_features == self.n_features
            and run.it.v.size == self.it.v.size
            and np.array_equal(run.it.rank[: rank.size], rank)
        )
        _loaded.require(self, "default", good, "the default learner of the same stream")
        _loaded.claim(self, "default")
        fits = bool((own.omega >= 0.0).all()) and abs(float(own.omega.sum()) - 1.0) <= 1e-9
        _loaded.require(self, "omega", fits, "weights of experts, which sum to 1")
        for name in Own._fields:
            value = getattr(own, name)
            _loaded.require(self, name, bool((np.abs(value) <= checks.HUGE).all()), "finite numbers")
            signed = name in ("points", "offsets", "slopes", "curvature") or bool((value >= 0.0).all())
            _loaded.require(self, name, signed, "numbers >= 0")
        off = np.abs(self._sizes(self.region.kind) - own.sizes)
        _loaded.require(self, "sizes", bool((off <= 1e-6 * np.maximum(1.0, own.tops)).all()), "the points' norms")
        if self.region.kind > L2:
            inside = all(checks.is_point(self, w) for w in own.points[: self.n_features].T)
            _loaded.require(self, "points", inside, f"points of {self.constraint}")
        elif self.region.kind in (SIMPLEX, UNIT_SIMPLEX):
            _loaded.require(self, "points", bool((own.points >= 0.0).all()), "weights >= 0")
        self._bind()
        self._show()

    # --- what is read -------------------------------------------------------------------------------------------

    def _held(self):
        self.shown  # noqa: B018  made whole
        _, mine, rest = super()._held()
        listed, held, theirs = self.default._held()
        held = {**held, "expert_weights": self.own.omega.copy()}
        return listed, held, [*rest, *theirs, *mine.values()]

    @property
    def n_remembered(self) -> int:
        return self.default.n_remembered

    def exact_gap(self) -> float | None:
        run = self.default
        if not run.s.live:
            return None
        gradient, state = np.zeros(self.n_features), run.state.copy()
        v, state[0]["w_scale"], state[0]["intercept"] = self.shown
        memory.full_gradient(run.it._replace(v=v), run.mem, state, run.native.problem.loss, gradient)
        run.native.check()
        return self.gap_along(gradient / run.s.live)

    @property
    def gap(self) -> float:
        """The gap at the mixture's point of the default learner's F: O(d), when asked."""
        d = self.n_features
        return self.gap_along(self.default.slope_at(self.shown.v[:d].copy())) if self.s.t and d else math.nan
