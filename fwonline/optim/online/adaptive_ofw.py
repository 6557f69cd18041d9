"""Online Frank-Wolfe with adaptive regret, for streams that drift (Garber, Kretzu 2022)."""

from __future__ import annotations

import dataclasses
import math
import typing

import numpy as np

from fwonline._kernels import coordinates, memory, steps
from fwonline._kernels.entry import opened
from fwonline._kernels.layout import OK, fast_jit, jit, part
from fwonline.optim.base import Optimizer
from fwonline.optim.online import regret
from fwonline.optim.runs import checks
from fwonline.optim.runs.kept import Kept
from fwonline.optim.runs.method import RegretMethod, SumRun, distance_sq, move_towards
from fwonline.optim.runs.run import Run
from fwonline.optim.schedules import ShortStep

__all__ = ["AdaptiveOFW"]

# How far y is taken towards x where a hyperplane separates it from the set, as a share of their distance.
PULL = 2.0 / 3.0


class Leader(typing.NamedTuple):
    """y, which the iterate follows; u is the sum of the block's gradients."""

    y: np.ndarray


@part
def prepare(it, s, region):
    """The sums and bounds that ``direction`` reads, after all of u has changed; returns ||u||, without overflow."""
    u = it.u[: s.d]
    top, dot, square = steps.sums(u, it.v[: s.d])
    s.dot = dot * s.w_scale
    s.w_sq = square * s.w_scale * s.w_scale
    if steps.is_sparse(region):
        coordinates.rebuild(it, region.kind, s.d)
    return steps.norm(u, top) if top >= steps.SMALLEST_GRADIENT else 0.0


@fast_jit
def subtract(v, scale, y, u):
    """u = w - y."""
    for j in range(u.size):
        u[j] = scale * v[j] - y[j]


@jit
def begin(it, y, s, region):
    """w = y = lmo(u), u the first gradient."""
    prepare(it, s, region)
    steps.direction(it, s, region)
    steps.advance(it, s, region, 1.0)
    for j in range(s.d):
        y[j] = s.w_scale * it.v[j]
    s.gap = np.nan  # what was measured is no gap of a point of the set
    s.t -= 1


@jit
def gradient_step(it, y, s, region):
    """y = y - eta g, g the sum over the block; returns the estimated gap."""
    norm = prepare(it, s, region) / s.batch_size
    s.u_scale = 1.0 / s.batch_size
    steps.direction(it, s, region)
    gap = s.gap
    factor = regret.shortened(s, norm)
    if s.steepest > 0.0:
        length = factor * s.rate * s.diameter
        for j in range(s.d):
            y[j] -= length * (it.u[j] / s.steepest)
    s.u_scale = 1.0
    return gap


@part
def most_steps(s):
    """After 6.75 D^2 / eps - 2 steps Frank-Wolfe's gap on ||w - y||^2 / 2 is at most eps, wherever it began."""
    return np.int64(math.ceil(6.75 / s.tolerance))


@jit
def approach(it, y, s, problem, eps):
    """Frank-Wolfe on ||w - y||^2 / 2, whose gradient u is: whether w came near y before the gap fell to eps."""
    region = problem.region
    for _ in range(most_steps(s)):
        subtract(it.v[: s.d], s.w_scale, y[: s.d], it.u[: s.d])
        distance = prepare(it, s, region)
        if distance * distance <= 3.0 * eps:
            return True
        steps.direction(it, s, region)
        if s.gap <= eps:
            return False
        steps.advance(it, s, region, steps.step_size(s, region, problem.schedule))
        if problem.failed[0] != 0:
            return True
    return True  # only rounding can lead here


@jit
def close_block(it, y, s, problem):
    """The block's gradient moves y; y is pulled back until it lies near the set, and w near y."""
    t = s.t
    if s.d > 0:
        gap = gradient_step(it, y, s, problem.region)
        eps = s.tolerance * s.diameter * s.diameter
        while not approach(it, y, s, problem, eps):
            for j in range(s.d):
                y[j] += PULL * it.u[j]
        steps.upkeep(it, s, problem.region)
        s.gap = gap
        it.u[: s.d] = 0.0
    s.t = t  # a step is a round, whatever it took to find the point


@jit
def learn(bound, bound_rows, first, last):
    run, rows = opened(bound), opened(bound_rows)
    it, y, s, problem = run.it, run.own.y, run.state[0], run.problem
    for i in range(first, last):
        seen = memory.look(it, s, problem, rows, i)
        if seen.status != OK:
            return seen.status
        status = memory.is_ready(s, run.draws.noise, 0)
        if status != OK:
            return status
        x = memory.row_at(rows, i)
        memory.play(s, seen, rows, i)
        for k in range(x.start, x.stop):
            it.u[x.idx[k]] += seen.alpha * x.val[k]
        s.n_gradients += 1
        memory.fit_intercept(s, problem.loss, seen)
        if s.d > 0 and regret.is_outside(s, problem.region):
            begin(it, y, s, problem.region)
        s.t += 1
        if s.seen % s.batch_size == 0:
            close_block(it, y, s, problem)
    return OK


class AdaptiveRun(Run):
    _own = Leader
    _kept: typing.ClassVar[dict[str, Kept]] = {"y": Kept("feature", follows=True)}
    _decided = (*Run._decided, "limit", "tolerance", "rate")

    def __init__(self, optimizer: AdaptiveOFW, *args: typing.Any, **kwargs: typing.Any):
        super().__init__(optimizer, *args, **kwargs)
        self.s.batch_size = optimizer._block
        self.s.tolerance = optimizer._tolerance
        self.s.rate = 1.0 / math.sqrt(optimizer._block * optimizer.horizon)
        regret.begin(self)

    _samples_per_step = 1

    def _features_changed(self) -> None:
        regret.measure(self)

    def _check_own(self) -> None:
        checks.bounded(self, "steepest", 0.0, min(self.s.limit, checks.HUGE))
        regret.measure(self)

    def set_weights(self, x0) -> None:
        super().set_weights(x0)
        self.own.y[: self.n_features] = self.it.v[: self.n_features]


class AdaptiveMethod(RegretMethod):
    """y follows the gradients by blocks; w, in the set, follows y by Frank-Wolfe."""

    points: typing.ClassVar[tuple[str, ...]] = ("y",)
    outside: typing.ClassVar[tuple[str, ...]] = ("y",)  # without a coordinate that w has not it comes nearer to w
    vectors: typing.ClassVar[tuple[str, ...]] = ("total",)
    y: typing.Any
    total: typing.Any

    def step(self, run: SumRun) -> None:
        if self.y is None:
            self.y, self.total = run.x.copy(), np.zeros(run.x.shape)
        self.total += run.sum.gradient(run.x, run.next_samples(1))
        block = self.optimizer._block
        if (run.t + 1) % block:
            return
        g, self.total = self.total / block, np.zeros(run.x.shape)
        run.note(float(np.vdot(g, run.x)) - run.lmo(g).dot(g), run.gamma)
        g = self.shortened(g)
        D = run.constraint.diameter(run.x.shape)
        if self.longest > 0.0:
            self.y -= D * np.sqrt(block / self.optimizer.horizon) * (g / self.longest)
        while not self._approach(run, self.optimizer._tolerance * D**2):
            self.y += PULL * (run.x - self.y)

    def _approach(self, run: SumRun, eps: float) -> bool:
        """Whether w came near y before the gap of ||w - y||^2 / 2 fell to eps."""
        for _ in range(int(np.ceil(6.75 / self.optimizer._tolerance))):
            r = run.x - self.y
            if np.vdot(r, r) <= 3.0 * eps:
                return True
            atom = run.lmo(r)
            gap = float(np.vdot(r, run.x)) - atom.dot(r)
            if gap <= eps:
                return False
            gamma = min(1.0, gap / distance_sq(run.x, atom))
            run.note(run.gap, gamma)
            move_towards(run.x, atom, gamma)
        return True


@dataclasses.dataclass(eq=False, repr=False)
class AdaptiveOFW(Optimizer):
    r"""Online Frank-Wolfe with adaptive regret: little regret in every window, not over the whole stream alone.

    LOO-BOGD of Garber and Kretzu (2022), online gradient descent by blocks without projections. A point y follows the
    gradients and may lie outside the set C; the point that is played, w, lies in C and near y. After every block of K
    rounds, with :math:`\bar g` the mean of the block's gradients, all taken at w,

    .. math::
        y \leftarrow y - \eta K \bar g, \qquad \eta = \frac{D}{G \sqrt{K T}},

    and Frank-Wolfe with exact line search on :math:`\tfrac12 \|w - y\|^2` goes on from w until

    - :math:`\|w - y\|^2 \le 3 \varepsilon`, which ends the search, or
    - its gap is at most :math:`\varepsilon`: a hyperplane then separates y from the set, :math:`y \leftarrow
      y + \tfrac23 (w - y)` comes nearer to every point of C, and the search goes on.

    D is the diameter of C, T the ``horizon``, G the longest mean gradient of a block so far.

    When to use it: where the stream drifts, or jumps. :class:`OFW` follows the mean of all losses seen, and the more it
    has seen the longer a change takes to show; here every window of T rounds is worth as much as the first.

    Parameters
    ----------
    horizon
        T, the length of the windows whose regret is to be small, >= 1: about the time over which the stream changes.
        The stream may go on for ever.
    block
        K, rounds between two moves, >= 1; :math:`\lceil \sqrt T \rceil` by default.
    tolerance
        :math:`\varepsilon / D^2`, in [1e-8, 1]; :math:`0.05 / \sqrt T` by default. The theorem's constants, with which
        there is one linear minimisation a round even in the worst case, are ``block`` 4.5 sqrt(T) and ``tolerance``
        1.5 / sqrt(T); its bound is then three times as large, and so is what was measured.
    gradient_bound
        G, > 0, where it is known: mean gradients that are longer are shortened to it. By default the longest one met,
        which an outlier makes large for good.

    Notes
    -----
    For convex losses, in every window of at most T rounds, against every fixed point of C,

    .. math::
        \text{regret} \le G D \left( \tfrac12 \big(1 + (1 + \sqrt{3 \tau})^2\big) \sqrt{K T} + \sqrt{3 \tau}\, T
        + 2 K \right), \qquad \tau = \varepsilon / D^2,

    which is :math:`1.4\, G D\, T^{3/4} + O(\sqrt T)` by default. No search takes more than :math:`6.75 / \tau` linear
    minimisations, and by default there are at most two searches a block, so that there are O(T) in T rounds: at most
    270 a round, and 0.02 to 0.8 on streams that were tried, since a search goes on from where the last one ended.

    Cost of a round: the non-zeros of the sample; of a linear minimisation: O(d). With 47,236 features (rcv1, l1 ball of
    100) that is 60 us a round, and 2.5 us with ``tolerance`` 0.01. On l1 balls and simplices a linear minimisation
    adds at most one non-zero to w. Memory: two more vectors. A step, as counters and :meth:`minimize` count, is a
    round. ``gap`` is that of the last block's mean gradient.

    References
    ----------
    .. [1] D. Garber, B. Kretzu, `New Projection-free Algorithms for Online Convex Optimization with Adaptive Regret
       Guarantees <https://arxiv.org/abs/2202.04721>`_, COLT 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import linear_model, optim, sets
    >>> X = np.random.default_rng(0).normal(size=(4_000, 20))
    >>> y = np.concatenate([X[:3_000, 0], X[3_000:, 1]])  # what counts is another feature from one sample to the next
    >>> for optimizer in optim.OFW(), optim.AdaptiveOFW(horizon=1_000):
    ...     model = linear_model.FWRegressor(sets.L1Ball(1.0), optimizer, intercept=False)
    ...     model.learn_arrays(X, y)
    ...     print(f"{model.weights.get(0, 0.0):.1f} {model.weights.get(1, 0.0):.1f}")
    0.7 0.3
    0.0 1.0
    """

    horizon: int = 10_000
    block: int | None = None
    tolerance: float | None = None
    gradient_bound: float | None = None

    _run_class = AdaptiveRun
    _learn = staticmethod(learn)
    _method_class = AdaptiveMethod
    # The exact line search of ||w - y||^2 / 2, whose gradient has Lipschitz constant 1.
    _default_schedule = ShortStep(lipschitz=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tolerance is not None and not 1e-8 <= self.tolerance <= 1.0:
            raise ValueError(f"tolerance must be in [1e-8, 1], or None, got {self.tolerance!r}")

    @property
    def _block(self) -> int:
        return math.ceil(math.sqrt(self.horizon)) if self.block is None else self.block

    @property
    def _tolerance(self) -> float:
        return max(0.05 / math.sqrt(self.horizon), 1e-8) if self.tolerance is None else self.tolerance
