"""The default learner and projected AdaGrad at several step sizes, mixed by what they would have lost."""

from __future__ import annotations

import dataclasses
import math
import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import memory, mixing, pairwise
from fwonline._kernels import projections as adagrad
from fwonline._kernels.entry import Direct, opened
from fwonline._kernels.layout import FAILED, L2, NEED_NAMES, OK, SIMPLEX, TOO_LARGE, jit, part
from fwonline._kernels.state import Look
from fwonline._kernels.state import Run as View
from fwonline.optim.base import Optimizer
from fwonline.optim.online import stochastic_pairwise
from fwonline.optim.online.stochastic_pairwise import StochasticPairwiseFW, can_square
from fwonline.optim.runs import checks
from fwonline.optim.runs.kept import Kept
from fwonline.optim.runs.model_run import Shown
from fwonline.optim.runs.run import Run
from fwonline.optim.schedules import Power

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Mixture"]

# Samples over which the mixture remembers what its experts lost.
SPAN = 300.0
COUNT = adagrad.COUNT


class Own(typing.NamedTuple):
    """AdaGrad's learners, a column or an entry each, and the weights of all experts with what these minimise."""

    points: np.ndarray
    metric: np.ndarray
    offsets: np.ndarray
    bends: np.ndarray
    sizes: np.ndarray
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
            w += own.omega[k + 1] * own.points[j, k]
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
    for j in range(run.state[0].d):
        show_one(run.own, run.problem.region, run.it.v, j)
    show_intercept(run.own, run.state[0])


@jit
def show_at(bound, positions):
    """The mixture's point at some positions."""
    run = opened(bound)
    for k in range(positions.size):
        show_one(run.own, run.problem.region, run.it.v, positions[k])
    show_intercept(run.own, run.state[0])


@part
def look(own, s, loss, x, shown):
    """What each learner says of a sample; one whose derivative cannot be summed sits it out."""
    adagrad.look(own, x)
    for k in range(COUNT):
        z = own.sums[k] + s.intercept + own.offsets[k]
        alpha = memory.loss_derivative(loss, shown.y, z)
        usable = can_square(alpha, shown.largest) and can_square(z, 1.0)
        own.alphas[k] = alpha if usable else 0.0
        own.seen[k + 1].prediction = z if usable else math.nan


@part
def weigh(own, s, loss, shown):
    """Each expert is weighed by what it said, the default learner having learned the sample."""
    own.seen[0].prediction = own.state[0].prediction
    for k in range(COUNT):
        if math.isnan(own.seen[k + 1].prediction):
            own.seen[k + 1].prediction = own.seen[0].prediction
    bend = stochastic_pairwise.curvature(s, loss, shown.y, shown.prediction, shown.loss, shown.alpha)
    mixing.observe_over(own, shown.alpha, bend, SPAN)


@part
def note(own, s, loss, x, shown):
    """The units in which steps are measured, and the best constant, learn a sample."""
    adagrad.note_entries(own.scales, x)
    y, z = shown.y, s.intercept
    if s.fit_intercept != 0:
        value, alpha = memory.loss_value(loss, y, z), memory.loss_derivative(loss, y, z)
        memory.fit_intercept(s, loss, Look(OK, y, 0.0, z, alpha, value, 1.0))
        if s.seen == 1:
            return  # of one target all is its mean
        z = s.intercept
    value, alpha = memory.loss_value(loss, y, z), memory.loss_derivative(loss, y, z)
    adagrad.note_constant(own.scales, alpha, stochastic_pairwise.curvature(s, loss, y, z, value, alpha))


@part
def start(own, s, kind):
    """On a simplex 0 is no point: the learners begin where the default learner does."""
    for k in range(COUNT):
        if kind == SIMPLEX and own.sizes[k] == 0.0:
            for j in range(s.d):
                own.points[j, k] = default_at(own, j)
            adagrad.measure(own, kind, s.d, k)


@jit
def learn(bound, bound_rows, first, last):
    """A step of all experts for each row; stops before one that needs room or randomness, or that is refused."""
    run, rows = opened(bound), opened(bound_rows)
    own, s, problem = run.own, run.state[0], run.problem
    region, loss = problem.region, problem.loss
    for i in range(first, last):
        x = memory.row_at(rows, i)
        for k in range(x.start, x.stop):
            show_one(own, region, run.it.v, x.idx[k])
        show_intercept(own, s)
        shown = memory.judge(problem, rows, i, memory.dot_with(run.it.v, x), s.mixed_intercept)
        if shown.status != OK:
            return shown.status
        if not can_square(shown.alpha, shown.largest):
            return TOO_LARGE
        look(own, s, loss, x, shown)
        if problem.failed[0] != 0:
            return FAILED
        if s.crowded != 0:
            return NEED_NAMES
        status = stochastic_pairwise.learn(own.default, bound_rows, i, i + 1)
        if status != OK:
            return status
        weigh(own, s, loss, shown)
        memory.play(s, shown)
        s.t += 1
        note(own, s, loss, x, shown)
        start(own, s, region.kind)
        adagrad.step(own, region, x, own.alphas)
        if s.d > 0:
            adagrad.bring_back(own, s, region)
        if s.fit_intercept != 0:
            adagrad.step_offsets(own, own.alphas)
        s.n_lmo = own.state[0].n_lmo
        s.n_gradients = own.state[0].n_gradients + COUNT * s.seen
    return OK


_show_at = Direct(show_at)


class MixtureRun(Run):
    """The default learner's run, the learners of AdaGrad beside it, and the point that they make together."""

    _own = Own
    _kept: typing.ClassVar[dict[str, Kept]] = {
        "points": Kept("feature", columns=COUNT),
        "metric": Kept("feature", columns=COUNT),
        **{name: Kept("fixed", size=COUNT) for name in ("offsets", "bends", "sizes")},
        "scales": Kept("fixed", size=5),
        **{name: Kept("fixed", size=COUNT + 1) for name in ("omega", "slopes", "squares", "peaks")},
        "curvature": Kept("fixed", columns=COUNT + 1, size=COUNT + 1),
    }
    gap_is_kept = False

    def __init__(
        self,
        optimizer: Mixture,
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
        self._room = np.zeros(COUNT + 1, mixing.SEEN), *(np.zeros(COUNT) for _ in range(3))
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
        self.own.sizes[:] = self._sizes(kind)
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
        self.own.points[first:last] = self.it.v[first:last, None]

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
        self.own.sizes[:] = self._sizes(self.region.kind)
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
        for w, size in zip(own.points[: self.n_features].T, self._sizes(self.region.kind), strict=True):
            is_start = self.region.kind == SIMPLEX and size == 0.0
            _loaded.require(self, "points", is_start or checks.is_point(self, w), f"points of {self.constraint}")
        off = np.abs(self._sizes(self.region.kind) - own.sizes)
        _loaded.require(self, "sizes", bool((off <= 1e-6 * np.maximum(1.0, own.sizes)).all()), "the points' norms")
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


@dataclasses.dataclass(eq=False, repr=False)
class Mixture(Optimizer):
    r"""The default learner and projected AdaGrad at four step sizes, mixed by what they would have lost.

    Each expert has a point :math:`w^k` of the set and predicts with it. What predicts is the point

    .. math:: w = \sum_k \omega_k w^k, \qquad \omega_k \ge 0, \quad \sum_k \omega_k = 1,

    which lies in the set, since that is convex. The first expert is :class:`StochasticPairwiseFW`, sparse and careful:
    what it has not seen to pay stays out. The others are AdaGrad's, which believe every sample: on long-tailed text,
    where most of what there is to know is in words that come once or twice, that is worth more.

    .. math:: w^k \leftarrow \Pi_C^{\sqrt G}\left(w^k - \eta_k g / \sqrt{G}\right), \qquad G_j = \sum_i g_{ij}^2,

    by entries, and projected in the norm that :math:`\sqrt G` makes. The step sizes are :math:`2^{-7}, 2^{-5}, 2^{-3}`
    and :math:`2^{-1}` in units that are measured: how far predictions have to go from the best constant, over the root
    of the mean square of the entries. No unit of features or targets makes a difference, and nothing is tuned.

    The weights minimise, on the simplex, a quadratic model of the loss that the mixture would have had, each sample's
    by its derivative and curvature at what was predicted, a sample counting 1 - 1/300 of the next. Weight leaves the
    default only for what is gained beyond noise: 0.3 standard errors, and more than any single sample has said.

    When to use it: where the last percent of loss is worth more than a sparse model; on text in large balls; where
    a learner must not lose to one that was tuned. For a sparse model, or speed in a ball that binds, take the default.

    Parameters
    ----------
    memory
        Samples that the default learner can look at again, >= 1.
    forgetting
        Whether the default learner has models that forget beside it.

    Attributes
    ----------
    expert_weights
        :math:`\omega`, by name.

    Raises
    ------
    ValueError
        For parameters out of range, and for sets whose points have no coordinates to move (matrices, groups, hulls).

    Notes
    -----
    Cost: the default learner's, and ten operations for each entry and learner. Where a learner leaves a ball or the
    hull of a simplex and 0, it is projected to 1/64 inside, so that it leaves seldom: five to twenty passes over all d
    features now and then. On the simplex each of the four is projected at every sample. Boxes cost nothing. Held are
    eight numbers a feature more than by the default learner.

    The model is not sparse where AdaGrad has weight. ``exact_gap`` is that of the mixed point over the samples that
    the default learner remembers; ``gap`` that of its quadratic model there. With ``max_names`` those features leave
    that it does not use, whatever AdaGrad's learners made of them.

    References
    ----------
    .. [1] J. Duchi, E. Hazan, Y. Singer, `Adaptive Subgradient Methods for Online Learning and Stochastic Optimization
       <https://jmlr.org/papers/v12/duchi11a.html>`_, JMLR 2011.
    .. [2] T. van Erven, W. M. Koolen, `MetaGrad: Multiple Learning Rates in Online Learning
       <https://arxiv.org/abs/1604.08740>`_, NeurIPS 2016 (step sizes side by side, weighed by what they lost).
    .. [3] O. Wintenberger, `Optimal Learning with Bernstein Online Aggregation <https://arxiv.org/abs/1404.1356>`_,
       Machine Learning 2017 (a second-order rule on the simplex; the one here has the loss's own curvature).

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from fwonline import linear_model, optim, sets
    >>> learner = linear_model.FWClassifier(sets.L1Ball(50.0), optim.Mixture(), intercept=True, seed=1)
    >>> evaluate.progressive_val_score(datasets.Phishing(), preprocessing.StandardScaler() | learner, metrics.ROCAUC())
    ROCAUC: 9...
    >>> sum(learner.optimizer.expert_weights.values()) > 0.999
    True
    """

    memory: int = 1000
    forgetting: bool = True

    _default_schedule = Power(a=1.0)
    _run_class = MixtureRun
    _unbounded = StochasticPairwiseFW._unbounded
    _learn = staticmethod(learn)

    @property
    def expert_weights(self) -> dict[str, float]:
        """What each expert counts at present: they sum to 1, and the mixture's point is the mean of theirs by them."""
        names = (StochasticPairwiseFW.__name__, *(f"AdaGrad {size:g}" for size in adagrad.STEP_SIZES))
        omega = self._run.own.omega.tolist() if self.is_started else [1.0] + COUNT * [0.0]
        return dict(zip(names, omega, strict=True))
