"""Online Frank-Wolfe with adaptive regret, for streams that drift (Garber, Kretzu 2022)."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline._kernels import coordinates, layout, memory, steps
from fwonline._kernels.layout import (
    BATCH,
    CROWDED,
    DIAMETER,
    DIST_SQ,
    DOT,
    GAMMA,
    GAP,
    N_GRADIENTS,
    N_LMO,
    NEED_NAMES,
    OK,
    RHO_A,
    RHO_B,
    SEEN,
    SET,
    SIMPLEX,
    STEEPEST,
    U_SCALE,
    UNIT_SIMPLEX,
    W_SCALE,
    W_SQ,
    D,
    T,
    fast_jit,
    jit,
    part,
)
from fwonline._kernels.steps import advance, direction, step_size, upkeep
from fwonline.optim.base import Optimizer, check_count
from fwonline.optim.runs.method import RegretMethod, SumRun, distance_sq, move_towards
from fwonline.optim.runs.regret_run import RegretRun, check_gradient_bound, shortened
from fwonline.optim.runs.run import GENERIC
from fwonline.optim.schedules import Schedule, ShortStep
from fwonline.sets._numeric import euclidean_norm

__all__ = ["AdaptiveOFW"]

# Where a run keeps eps / D^2, and eta G / D.
TOLERANCE, RATE = RHO_A, RHO_B
# How far y is taken towards x where a hyperplane separates it from the set, as a share of their distance.
PULL = 2.0 / 3.0


@part
def enter(u, cnt, idx, val, start, stop, alpha):
    """One more gradient in the block's sum."""
    for k in range(start, stop):
        u[idx[k]] += alpha * val[k]
    cnt[N_GRADIENTS] += 1


@part
def prepare(v, u, bound, group, num, cnt):
    """The sums and bounds that ``direction`` reads, after all of u has changed; answers ||u||, without overflow."""
    d = cnt[D]
    top, dot, square = steps.sums(u[:d], v[:d])
    num[DOT] = dot * num[W_SCALE]
    num[W_SQ] = square * num[W_SCALE] * num[W_SCALE]
    if cnt[SET] <= UNIT_SIMPLEX:
        coordinates.rebuild(cnt[SET], u, bound, group, d)
    return steps.norm(u[:d], top) if top >= steps.SMALLEST_GRADIENT else 0.0


@fast_jit
def subtract(v, scale, y, u):
    """u = w - y."""
    for j in range(u.size):
        u[j] = scale * v[j] - y[j]


@jit
def begin(v, u, rank, bound, group, num, cnt, y):
    """w = y = lmo(u), u the first gradient."""
    prepare(v, u, bound, group, num, cnt)
    direction(v, u, rank, bound, group, num, cnt)
    advance(v, u, num, cnt, 1.0)
    for j in range(cnt[D]):
        y[j] = num[W_SCALE] * v[j]
    num[GAP] = np.nan  # what was measured is no gap of a point of the set
    cnt[T] -= 1


@jit
def gradient_step(v, u, rank, bound, group, num, cnt, y):
    """y = y - eta g, g the sum over the block; answers the estimated gap."""
    norm = prepare(v, u, bound, group, num, cnt) / cnt[BATCH]
    num[U_SCALE] = 1.0 / cnt[BATCH]
    direction(v, u, rank, bound, group, num, cnt)
    gap = num[GAP]
    factor = shortened(num, norm)
    if num[STEEPEST] > 0.0:
        length = factor * num[RATE] * num[DIAMETER]
        for j in range(cnt[D]):
            y[j] -= length * (u[j] / num[STEEPEST])
    num[U_SCALE] = 1.0
    return gap


@part
def most_steps(num):
    """After 6.75 D^2 / eps - 2 steps Frank-Wolfe's gap on ||w - y||^2 / 2 is at most eps, wherever it began."""
    return np.int64(math.ceil(6.75 / num[TOLERANCE]))


@jit
def approach(v, u, rank, bound, group, num, cnt, y, eps):
    """Frank-Wolfe on ||w - y||^2 / 2, whose gradient u is: whether w came near y before the gap fell to eps."""
    for _ in range(most_steps(num)):
        d = cnt[D]
        subtract(v[:d], num[W_SCALE], y[:d], u[:d])
        distance = prepare(v, u, bound, group, num, cnt)
        if distance * distance <= 3.0 * eps:
            return True
        direction(v, u, rank, bound, group, num, cnt)
        if num[GAP] <= eps:
            return False
        advance(v, u, num, cnt, step_size(num, cnt))
    return True  # only rounding can lead here


@jit
def close_block(v, u, rank, bound, group, num, cnt, y):
    """The block's gradient moves y; y is pulled back until it lies near the set, and w near y."""
    d, t = cnt[D], cnt[T]
    if d > 0:
        gap = gradient_step(v, u, rank, bound, group, num, cnt, y)
        eps = num[TOLERANCE] * num[DIAMETER] * num[DIAMETER]
        while not approach(v, u, rank, bound, group, num, cnt, y, eps):
            for j in range(d):
                y[j] += PULL * u[j]
        upkeep(v, u, num, cnt)
        num[GAP] = gap
        u[:d] = 0.0
    cnt[T] = t  # a step is a round, whatever it took to find the point


@jit
def learn(v, u, rank, bound, group, num, cnt, y, indptr, idx, val, ys, first, last):
    bits = val.view(layout.INT64)
    for i in range(first, last):
        start, stop, target = indptr[i], indptr[i + 1], ys[i]
        status, _, prediction, alpha, _ = memory.look(v, num, cnt, bits, idx, val, start, stop, target)
        if status != OK:
            return status
        if cnt[CROWDED] != 0:
            return NEED_NAMES
        memory.play(num, cnt, target, prediction)
        enter(u, cnt, idx, val, start, stop, alpha)
        memory.fit_intercept(num, cnt, target, prediction, alpha)
        if cnt[SET] == SIMPLEX and num[W_SQ] == 0.0 and cnt[D] > 0:
            begin(v, u, rank, bound, group, num, cnt, y)
        cnt[T] += 1
        if cnt[SEEN] % cnt[BATCH] == 0:
            close_block(v, u, rank, bound, group, num, cnt, y)
    return OK


class AdaptiveRun(RegretRun):
    """``anchor`` is y, which the iterate follows; u is the sum of the block's gradients."""

    optimizer: AdaptiveOFW
    _compiled_learn = staticmethod(learn)

    def __init__(self, optimizer: AdaptiveOFW, *args: typing.Any, **kwargs: typing.Any):
        super().__init__(optimizer, *args, **kwargs)
        self.cnt[BATCH] = optimizer._block
        self.num[TOLERANCE] = optimizer._tolerance
        self.num[RATE] = 1.0 / math.sqrt(optimizer._block * optimizer.horizon)

    def _extra(self) -> tuple:
        return (self.anchor,)

    def _enter(self, rows, i, margin, alpha, largest):
        indptr, idx, val, _ = rows
        enter(self.u, self.cnt, idx, val, indptr[i], indptr[i + 1], alpha)

    def _moves(self):
        d = self.n_features
        if d and not self.cnt[T] and self._is_outside:
            if self.cnt[SET] == GENERIC:
                self.v[:d] = self.anchor[:d] = self._oracle(self.u[:d])
            else:
                begin(*self.core, self.anchor)
        self.cnt[T] += 1
        if self.cnt[SEEN] % self.cnt[BATCH] == 0:
            if self.cnt[SET] == GENERIC:
                self._close_block()
            else:
                close_block(*self.core, self.anchor)
        return iter(())

    def _close_block(self) -> None:
        """The same, with a set that is asked as an object."""
        d, num = self.n_features, self.num
        if not d:
            return
        w, y, g = self.v[:d], self.anchor[:d], self.u[:d] / self.cnt[BATCH]
        atom = self._oracle(g)
        gap = float(g @ (w - atom))
        factor = shortened(num, euclidean_norm(g))
        if num[STEEPEST] > 0.0:
            y -= factor * num[RATE] * num[DIAMETER] * (self.u[:d] / num[STEEPEST])
        eps = num[TOLERANCE] * num[DIAMETER] ** 2
        while not self._approach(w, y, eps):
            y += PULL * (w - y)
        num[GAP] = gap
        self.u[:d] = 0.0

    def _approach(self, w, y, eps: float) -> bool:
        for _ in range(most_steps(self.num)):
            r = w - y
            if r @ r <= 3.0 * eps:
                return True
            away = w - self._oracle(r)
            gap = float(r @ away)
            if gap <= eps:
                return False
            self.num[DIST_SQ] = away @ away
            self.num[GAMMA] = min(gap / self.num[DIST_SQ], 1.0)
            w -= self.num[GAMMA] * away
        return True

    def _oracle(self, g):
        self.cnt[N_LMO] += 1
        return self.constraint.lmo(g).to_dense()


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
    ...     model = linear_model.FWRegressor(sets.L1Ball(1.0), optimizer)
    ...     model.learn_arrays(X, y)
    ...     print(f"{model.weights.get(0, 0.0):.1f} {model.weights.get(1, 0.0):.1f}")
    0.7 0.3
    0.0 1.0
    """

    _run_class = AdaptiveRun
    _method_class = AdaptiveMethod

    def __init__(
        self,
        horizon: int = 10_000,
        block: int | None = None,
        tolerance: float | None = None,
        gradient_bound: float | None = None,
    ):
        check_count("horizon", horizon)
        if block is not None:
            check_count("block", block)
        if tolerance is not None and not 1e-8 <= tolerance <= 1.0:
            raise ValueError(f"tolerance must be in [1e-8, 1], or None, got {tolerance!r}")
        check_gradient_bound(gradient_bound)
        self.horizon = horizon
        self.block = block
        self.tolerance = tolerance
        self.gradient_bound = gradient_bound

    @property
    def _block(self) -> int:
        return math.ceil(math.sqrt(self.horizon)) if self.block is None else self.block

    @property
    def _tolerance(self) -> float:
        return max(0.05 / math.sqrt(self.horizon), 1e-8) if self.tolerance is None else self.tolerance

    def _schedule(self) -> Schedule:
        return _EXACT


# The exact line search of ||w - y||^2 / 2, whose gradient has Lipschitz constant 1.
_EXACT = ShortStep(lipschitz=1.0)
