"""Stochastic Frank-Wolfe with a substitute gradient (Lu, Freund 2018; Negiar et al. 2020, appendix G, Algorithm 3)."""

from __future__ import annotations

import typing

import numpy as np
from scipy import sparse

from fwonline import _loaded
from fwonline._kernels import layout, memory, steps
from fwonline._kernels.coordinates import rebuild
from fwonline._kernels.layout import (
    ATOM,
    BATCH,
    CROWDED,
    DOT,
    GAMMA,
    INDEX,
    INTERCEPT,
    L2,
    LIVE,
    LOSS_KIND,
    LOSS_P,
    LOSS_Q,
    N_EXACT,
    N_GRADIENTS,
    NEED_NAMES,
    NEED_NOISE,
    NEED_POOL,
    NOISE,
    OK,
    SET,
    STEPS,
    UNIT_SIMPLEX,
    W_SCALE,
    D,
    T,
    jit,
    part,
)
from fwonline.losses import CUSTOM, loss_derivative
from fwonline.optim.base import Optimizer, check_count
from fwonline.optim.online.sfw import enter
from fwonline.optim.runs.memory_run import MemoryRun
from fwonline.optim.runs.method import Derivatives, Method, SumRun, fitted, move_towards
from fwonline.optim.runs.run import GENERIC, resized
from fwonline.optim.schedules import Harmonic, Schedule

__all__ = ["LuFreundFW"]


@part
def gamma_of(cnt):
    """gamma_t = 2 (2m + t) / ((t + 1) (4m + t)), m = n / b."""
    m, t = cnt[LIVE] / min(cnt[BATCH], cnt[LIVE]), cnt[T]
    return 2.0 * (2.0 * m + t) / ((t + 1.0) * (4.0 * m + t))


@part
def delta_of(cnt):
    """delta_t = 2m / (2m + t + 1)."""
    m = cnt[LIVE] / min(cnt[BATCH], cnt[LIVE])
    return 2.0 * m / (2.0 * m + cnt[T] + 1.0)


@part
def write_atom(v, u, num, cnt, atom):
    """s_t of a set of dense atoms, before u moves on."""
    if cnt[SET] > UNIT_SIMPLEX:
        for j in range(cnt[D]):
            if cnt[INDEX] == -2 or (u[j] == 0.0 and cnt[SET] != L2):
                atom[j] = v[j]
            elif cnt[SET] == L2:
                atom[j] = num[ATOM] * u[j]
            else:
                lower, upper = steps.bounds(num, cnt, j)
                atom[j] = lower if u[j] > 0.0 else upper


@part
def along(num, cnt, atom, idx, val, start, stop, margin):
    """<x, s_t>; margin = <x, w_t>, which s_t is where no atom is preferred."""
    j = cnt[INDEX]
    if j == -2:
        return margin
    if cnt[SET] > UNIT_SIMPLEX:
        return memory.sparse_dot(atom, idx, val, start, stop)
    total = 0.0
    if j >= 0:
        for k in range(start, stop):
            if idx[k] == j:
                total += val[k]
    return total * num[ATOM]


@part
def substitute_batch(
    v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val, batch, sigma, atom, first, last
):
    """sigma_i <- sigma_i + delta (<x_i, s_t> - sigma_i), alpha_i = f_i'(sigma_i); r follows."""
    intercept, delta = num[INTERCEPT], delta_of(cnt)
    cnt[N_GRADIENTS] += last - first
    wide = memory.is_wide(cnt, rows, batch, first, last)
    for k in range(first, last):
        memory.look_ahead(rows, pool_idx, pool_val, batch, k, last)
        slot = batch[k]
        start = rows[slot, memory.START]
        stop = start + rows[slot, memory.LENGTH]
        # <x_i, w> serves <u, w> alone, which after a wide batch is taken anew.
        margin = 0.0
        if not wide or cnt[INDEX] == -2:
            margin = num[W_SCALE] * memory.sparse_dot(v, pool_idx, pool_val, start, stop)
        sigma[slot] += delta * (along(num, cnt, atom, pool_idx, pool_val, start, stop, margin) - sigma[slot])
        alpha = loss_derivative(
            cnt[LOSS_KIND], num[LOSS_P], num[LOSS_Q], duals[slot, memory.LABEL], sigma[slot] + intercept
        )
        if wide:
            memory.renew_unbounded(u, num, rows, duals, pool_idx, pool_val, slot, margin, alpha)
        else:
            memory.renew(u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val, slot, margin, alpha)
    if wide:
        rebuild(cnt[SET], u, bound, group, cnt[D])
        num[DOT] = num[W_SCALE] * steps.dot(u, v, cnt[D])


@part
def advance(v, u, num, cnt, atom):
    """w_{t+1} = w_t + gamma_t (s_t - w_t)."""
    gamma = gamma_of(cnt)
    if cnt[SET] <= UNIT_SIMPLEX:
        steps.advance(v, u, num, cnt, gamma)
    else:
        num[GAMMA] = gamma
        cnt[T] += 1
        for j in range(cnt[D]):
            v[j] = (1.0 - gamma) * v[j] + gamma * atom[j]


@jit
def learn(
    v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val, noise, batch, sigma, atom,
    indptr, idx, val, ys, first, last,
):  # fmt: skip
    bits = val.view(layout.INT64)
    for i in range(first, last):
        start, stop, y = indptr[i], indptr[i + 1], ys[i]
        status, margin, prediction, alpha, largest = memory.look(v, num, cnt, bits, idx, val, start, stop, y)
        if status != OK:
            return status
        if cnt[NOISE] + cnt[STEPS] * cnt[BATCH] > noise.size:
            return NEED_NOISE
        if cnt[CROWDED] != 0:
            return NEED_NAMES
        at = memory.room(rows, cnt, pool_idx.size, stop - start)
        if at < 0:
            return NEED_POOL
        memory.play(num, cnt, y, prediction)
        newest = enter(
            v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val,
            at, idx, val, start, stop, y, margin, alpha, largest,
        )  # fmt: skip
        sigma[newest] = margin
        memory.fit_intercept(num, cnt, y, prediction, alpha)
        for k in range(cnt[STEPS] if cnt[D] > 0 else 0):
            size = min(cnt[BATCH], cnt[LIVE])
            memory.draw_batch(rows, cnt, noise, batch, size, newest if k == 0 else -1)
            steps.direction(v, u, rank, bound, group, num, cnt)
            write_atom(v, u, num, cnt, atom)
            substitute_batch(
                v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val, batch, sigma, atom, 0, size
            )
            memory.settle(v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val)
            advance(v, u, num, cnt, atom)
    return OK


@jit
def iterate(
    v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val, noise, batch, sigma, atom, count
):  # fmt: skip
    """Algorithm 3 offline: ``count`` steps on a memory that holds the whole data set."""
    for _ in range(count):
        memory.draw_batch(rows, cnt, noise, batch, cnt[BATCH], -1)  # B_t
        steps.direction(v, u, rank, bound, group, num, cnt)  # s_t = lmo(r_t)
        write_atom(v, u, num, cnt, atom)
        substitute_batch(
            v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val, batch, sigma, atom, 0, cnt[BATCH]
        )
        memory.settle(v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val)
        advance(v, u, num, cnt, atom)


class LuFreundRun(MemoryRun):
    optimizer: LuFreundFW
    _by_feature = (*MemoryRun._by_feature, "atom")
    _compiled_learn = staticmethod(learn)
    _compiled_iterate = staticmethod(iterate)

    def __init__(self, optimizer: LuFreundFW, *args: typing.Any, **kwargs: typing.Any):
        # sigma_i, the predictions that stand in for <x_i, w>; and s_t, on sets of dense atoms.
        self.sigma, self.atom = np.zeros(optimizer.memory), np.zeros(0)
        super().__init__(optimizer, *args, capacity=optimizer.memory, **kwargs)
        self.cnt[BATCH] = optimizer.batch_size
        self.cnt[STEPS] = optimizer.steps
        self.batch = np.zeros(optimizer.batch_size, dtype=np.int64)
        self._bind()

    def _extra(self) -> tuple:
        return (*super()._extra(), self.sigma, self.atom)

    def _resize(self, capacity: int) -> None:
        if self.cnt[SET] > UNIT_SIMPLEX:
            self.atom = resized(self.atom, capacity)

    def _check_arrays(self) -> None:
        super()._check_arrays()
        size = self.v.size if self.cnt[SET] > UNIT_SIMPLEX else 0
        _loaded.array(self, "sigma", np.float64, (len(self.rows),), least=-1e250, most=1e250)
        _loaded.array(self, "atom", np.float64, (size,), least=-1e250, most=1e250)

    def offline(self, rows):
        super().offline(rows)
        indptr, idx, val, y = rows
        X = sparse.csr_array((val, idx.view(np.int32), indptr), shape=(len(y), self.n_features))
        self.sigma = X @ self.weights  # sigma_0 = X w_0
        if self.optimizer.first_gradient:
            z = self.sigma + self.num[INTERCEPT]
            self.duals[:, memory.ALPHA] = [self.derivative(*pair) for pair in zip(y.tolist(), z.tolist(), strict=True)]
            memory.sum_anew(*self.core, *self.pool)
            self.cnt[N_GRADIENTS] += len(y)
            self.cnt[N_EXACT] += 1
        self._bind()

    def _enter(self, rows, i, margin, alpha, largest):
        indptr, idx, val, y = rows
        at = self._place(rows, i)  # first of all: it may bring a larger pool
        self._newest = enter(
            *self.core, *self.pool, at, idx, val, indptr[i], indptr[i + 1], y[i], margin, alpha, largest
        )
        self.sigma[self._newest] = margin

    def _moves(self):
        for k in range(self.optimizer.steps):
            size = min(self.optimizer.batch_size, int(self.cnt[LIVE]))
            self._draw(size, self._newest if k == 0 else -1)
            self.renew(0, size)
            memory.settle(*self.core, *self.pool)
            yield

    def renew(self, first: int, last: int) -> None:
        """By parts: the atom for r as it is, then the substitutes of the batch."""
        if self.n_features == 0:
            return
        num, cnt = self.num, self.cnt
        if cnt[SET] == GENERIC:
            self.atom[: self.n_features] = self._ask_oracle()
            cnt[INDEX] = 0
        else:
            steps.direction(*self.core)
            write_atom(self.v, self.u, num, cnt, self.atom)
        if cnt[LOSS_KIND] != CUSTOM:
            substitute_batch(*self.core, *self.pool, self.batch, self.sigma, self.atom, first, last)
            return
        delta = delta_of(cnt)
        for slot in self.batch[first:last]:
            start = self.rows[slot, memory.START]
            span = start, start + self.rows[slot, memory.LENGTH]
            margin = memory.margin_of(self.v, num, self.rows, self.pool_idx, self.pool_val, slot)
            target = along(num, cnt, self.atom, self.pool_idx, self.pool_val, *span, margin)
            self.sigma[slot] += delta * (target - self.sigma[slot])
            alpha = self.derivative(self.duals[slot, memory.LABEL], float(self.sigma[slot] + num[INTERCEPT]))
            memory.renew(self.u, *self.core[2:], *self.pool, slot, margin, alpha)
            cnt[N_GRADIENTS] += 1

    def move(self) -> None:
        if self.n_features:
            advance(self.v, self.u, self.num, self.cnt, self.atom)


class LuFreundMethod(Method):
    """The same steps on matrices: s = lmo(r), sigma_i = sigma_i + delta_t (<a_i, s> - sigma_i), alpha_i = l'(sigma_i).

    delta_t = 2m / (2m + t + 1), gamma_t = 2 (2m + t) / ((t + 1) (4m + t)) with m = n / b.
    """

    by_sample: typing.ClassVar[tuple[str, ...]] = ("sigma",)
    sigma: typing.Any
    memory: Derivatives

    def __init__(self, optimizer: LuFreundFW):
        super().__init__(optimizer)
        self.memory = Derivatives()

    def enter(self, run, slot, slope):
        super().enter(run, slot, slope)
        self.sigma = fitted(self.sigma, run)
        self.sigma[slot] = run.sum.rows.scores(run.x, np.array([slot]))[0]

    def _begin(self, run: SumRun) -> None:
        self.sigma = fitted(self.sigma, run)
        if self.memory.total is None and not run.is_online and self.optimizer.first_gradient:
            self.sigma[...] = run.sum.rows.scores(run.x, None)
            self.memory.take(run, run.x)
        self.memory.begin(run)

    def step(self, run: SumRun) -> None:
        self._begin(run)
        t, n, total = run.t, run.sum.n, self.memory.total
        m = n / min(self.optimizer.batch_size, n)
        atom = run.lmo(total / n)
        gap = (float(np.vdot(total, run.x)) - atom.dot(total)) / n
        batch = run.pick(self.optimizer.batch_size)
        self.sigma[batch] += 2.0 * m / (2.0 * m + t + 1.0) * (run.sum.scores_of(atom, batch) - self.sigma[batch])
        self.memory.renew(run, batch, run.sum.slopes_at(self.sigma[batch], batch))
        gamma = 2.0 * (2.0 * m + t) / ((t + 1.0) * (4.0 * m + t))
        run.note(gap, gamma)
        move_towards(run.x, atom, gamma)


class LuFreundFW(Optimizer):
    r"""Stochastic Frank-Wolfe with a substitute gradient (Lu, Freund 2018; Negiar et al. 2020, Algorithm 3).

    Each sample has a prediction :math:`\sigma_i` of its own that stands in for :math:`\langle x_i, w \rangle`, and
    moves towards the predictions of the atoms:

    .. math::
        s_t &= \arg\min_{s \in C} \langle r_t, s \rangle, \qquad r_t = \frac1n \sum_i f_i'(\sigma_i) x_i \\
        \sigma_i &\leftarrow (1 - \delta_t) \sigma_i + \delta_t \langle x_i, s_t \rangle, \quad i \in B_t \\
        w_{t+1} &= (1 - \gamma_t) w_t + \gamma_t s_t

    with :math:`\gamma_t = \frac{2 (2m + t)}{(t + 1)(4m + t)}`, :math:`\delta_t = \frac{2m}{2m + t + 1}` and
    m = n / b for batches :math:`B_t` of b samples; t = 0, 1, ...

    Online, a new sample takes the oldest one's place with :math:`\sigma_i` its prediction; then follow ``steps``
    steps, the newest sample among the first batch. Offline :math:`\sigma = X w_0`, and the derivatives start at 0, as
    :class:`SFW`'s and those of copt's variant ``LF`` do: Lu and Freund spend a whole gradient first
    (``first_gradient``). :math:`\gamma_t` is what makes :math:`w_{t+1}` the mean of the atoms with the weights 2m + t;
    copt has 4m + t + 1 in the denominator, with which they do not sum to 1, and m = n whatever the batch.

    When to use it: to compare. :class:`SFW` takes the derivatives at w itself, at the same cost, and mostly wins.

    Parameters
    ----------
    memory
        Samples held, >= 1. Offline (:meth:`minimize`) the whole data set is the memory.
    batch_size
        b, the samples whose predictions follow a step, in [1, memory].
    steps
        Steps a sample, >= 1.
    first_gradient
        Whether :meth:`minimize` begins with the derivatives of all samples, as Lu and Freund do: n gradients. Online
        each sample brings its own in any case.

    Notes
    -----
    Cost of a step: the non-zeros of the samples it touches, plus the scan of d / 65536 maxima, on the l1 ball and
    the simplices; O(d) more on sets of dense atoms. Memory: the samples held.

    For a smooth convex f the expected suboptimality after t steps is :math:`O(n / t)` (Theorem 2 of [1]_; the constant
    is n L D^2 where Negiar et al.'s is kappa). On a stream that drifts its steps, which only fall, forget too little.

    References
    ----------
    .. [1] H. Lu, R. Freund, `Generalized Stochastic Frank-Wolfe Algorithm with Stochastic "Substitute" Gradient for
       Structured Convex Optimization <https://arxiv.org/abs/1807.07680>`_, 2018.
    .. [2] G. Negiar et al., `Stochastic Frank-Wolfe for Constrained Finite-Sum Minimization
       <https://arxiv.org/abs/2002.11860>`_, ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> X = np.random.default_rng(0).normal(size=(200, 50))
    >>> y = X[:, 3] - X[:, 7]
    >>> result = optim.LuFreundFW(batch_size=20).minimize(X, y, constraint=sets.L1Ball(2.0), steps=5_000, seed=1)
    >>> np.flatnonzero(np.abs(result.x) > 0.1)
    array([3, 7])
    """

    _run_class = LuFreundRun
    _method_class = LuFreundMethod

    first_gradient = False  # of checkpoints of version 0.1.0

    def __init__(self, memory: int = 1000, batch_size: int = 1, steps: int = 1, first_gradient: bool = False):
        check_count("memory", memory)
        check_count("batch_size", batch_size)
        check_count("steps", steps)
        if batch_size > memory:
            raise ValueError(f"batch_size must be at most memory = {memory}, got {batch_size}")
        self.memory = memory
        self.batch_size = batch_size
        self.steps = steps
        self.first_gradient = first_gradient

    def _schedule(self) -> Schedule:
        return _UNUSED


# The steps are the algorithm's own.
_UNUSED = Harmonic()
