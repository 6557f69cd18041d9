"""Stochastic Frank-Wolfe with a substitute gradient (Lu, Freund 2018; Negiar et al. 2020, appendix G, Algorithm 3)."""

from __future__ import annotations

import dataclasses
import typing

import numpy as np
from scipy import sparse

from fwonline import losses
from fwonline._kernels import memory, steps
from fwonline._kernels.coordinates import rebuild
from fwonline._kernels.entry import opened
from fwonline._kernels.layout import L2, NEED_POOL, OK, jit, open_part, part
from fwonline.optim.base import Optimizer
from fwonline.optim.runs.kept import Kept
from fwonline.optim.runs.method import Derivatives, Method, SumRun, fitted, move_towards
from fwonline.optim.runs.run import Run

__all__ = ["LuFreundFW"]


class Substitutes(typing.NamedTuple):
    """sigma_i, the predictions that stand in for <x_i, w>; s_t of sets of dense atoms is ``it.atom``."""

    sigma: np.ndarray


@open_part
def gamma_of(m, t):
    """gamma_t, m = n / b."""
    return 2.0 * (2.0 * m + t) / ((t + 1.0) * (4.0 * m + t))


@open_part
def delta_of(m, t):
    """delta_t."""
    return 2.0 * m / (2.0 * m + t + 1.0)


@part
def batches(s):
    """m = n / b."""
    return s.live / min(s.batch_size, s.live)


@part
def write_atom(it, s, region):
    """s_t of a set of dense atoms, before u moves on; Python's oracle has written its own."""
    if steps.is_sparse(region):
        return
    if s.index == -2 or region.oracle == 0:
        for j in range(s.d):
            if s.index == -2 or (it.u[j] == 0.0 and region.kind != L2):
                it.atom[j] = it.v[j]
            elif region.kind == L2:
                it.atom[j] = s.atom * it.u[j]
            else:
                lower, upper = steps.bounds(region, j)
                it.atom[j] = lower if it.u[j] > 0.0 else upper


@part
def along(it, s, region, x, margin):
    """<x, s_t>; margin = <x, w_t>, which s_t is where no atom is preferred."""
    if s.index == -2:
        return margin
    if not steps.is_sparse(region):
        return memory.dot_with(it.atom, x)
    total = 0.0
    if s.index >= 0:
        for k in range(x.start, x.stop):
            if x.idx[k] == s.index:
                total += x.val[k]
    return total * s.atom


@part
def substitute_batch(run, size):
    """sigma_i <- sigma_i + delta (<x_i, s_t> - sigma_i), alpha_i = f_i'(sigma_i) for a batch; r follows."""
    it, mem, draws, s, sigma = run.it, run.mem, run.draws, run.state[0], run.own.sigma
    loss, region = run.problem.loss, run.problem.region
    delta = delta_of(batches(s), s.t)
    s.n_gradients += size
    wide = memory.is_wide(mem, draws, s, region, 0, size)
    for k in range(size):
        memory.look_ahead(mem, draws, k, size)
        slot = draws.batch[k]
        # <x_i, w> serves <u, w> alone, which after a wide batch is taken anew.
        margin = 0.0
        if not wide or s.index == -2:
            margin = memory.margin_of(it, mem, s, slot)
        sigma[slot] += delta * (along(it, s, region, memory.row_of(mem, slot), margin) - sigma[slot])
        alpha = memory.loss_derivative(loss, mem.held[slot].y, sigma[slot] + s.intercept)
        memory.renew(it, mem, s, region, slot, margin, alpha, wide)
    if wide:
        rebuild(it, region.kind, s.d)
        s.dot = s.w_scale * steps.dot(it.u, it.v, s.d)


@part
def advance(it, s, region):
    """w_{t+1} = w_t + gamma_t (s_t - w_t)."""
    gamma = gamma_of(batches(s), s.t)
    if steps.is_sparse(region):
        steps.advance(it, s, region, gamma)
    else:
        s.gamma = gamma
        s.t += 1
        for j in range(s.d):
            it.v[j] = (1.0 - gamma) * it.v[j] + gamma * it.atom[j]


@part
def take_step(run, size):
    """s_t = lmo(r_t), the substitutes of the batch drawn, w_{t+1}."""
    it, s, region = run.it, run.state[0], run.problem.region
    steps.direction(it, s, region)
    write_atom(it, s, region)
    substitute_batch(run, size)
    memory.bound_rounding(it, run.mem, s, region)
    advance(it, s, region)


@jit
def iterate(bound, count):
    """Algorithm 3: ``count`` steps on a memory that holds the whole data set."""
    run = opened(bound)
    s = run.state[0]
    for _ in range(count):
        memory.draw_batch(run.mem, run.draws, s, s.batch_size, -1)  # B_t
        take_step(run, s.batch_size)


@jit
def learn(bound, bound_rows, first, last):
    """The same steps as samples come."""
    run, rows = opened(bound), opened(bound_rows)
    it, mem, draws, s, region = run.it, run.mem, run.draws, run.state[0], run.problem.region
    for i in range(first, last):
        seen = memory.look(it, s, run.problem, rows, i)
        if seen.status != OK:
            return seen.status
        status = memory.is_ready(s, draws.noise, s.steps * s.batch_size)
        if status != OK:
            return status
        x = memory.row_at(rows, i)
        at = memory.room(mem, s, x.stop - x.start)
        if at < 0:
            return NEED_POOL
        memory.play(s, seen, rows, i)
        newest = memory.enter(it, mem, s, region, x, at, seen)
        run.own.sigma[newest] = seen.margin
        memory.fit_intercept(s, run.problem.loss, seen)
        for k in range(s.steps if s.d > 0 else 0):
            size = min(s.batch_size, s.live)
            memory.draw_batch(mem, draws, s, size, newest if k == 0 else -1)
            take_step(run, size)
    return OK


class LuFreundRun(Run):
    _holds_samples = True
    _own = Substitutes
    _kept: typing.ClassVar[dict[str, Kept]] = {"sigma": Kept("sample")}

    @property
    def _writes_atom(self) -> bool:
        return not self.is_sparse

    def offline(self, rows):
        super().offline(rows)
        X = sparse.csr_array((rows.val, rows.idx.view(np.int32), rows.indptr), shape=(len(rows.y), self.n_features))
        self.own.sigma[:] = X @ self.weights  # sigma_0 = X w_0
        if self.optimizer.first_gradient:
            slopes = losses.vector_loss(self.loss)[1](rows.y, self.own.sigma + self.s.intercept)
            self.mem.held["alpha"] = slopes
            memory.sum_anew(self.it, self.mem, self.state[0], self.region)
            self.s.n_gradients += len(rows.y)
            self.s.n_exact += 1


class LuFreundMethod(Method):
    """The same steps on matrices: s = lmo(r), sigma_i += delta_t (<a_i, s> - sigma_i), alpha_i = l'(sigma_i)."""

    by_sample: typing.ClassVar[tuple[str, ...]] = ("sigma",)
    sigma: typing.Any
    memory: Derivatives
    remembers = True

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
        self.sigma[batch] += delta_of(m, t) * (run.sum.scores_of(atom, batch) - self.sigma[batch])
        self.memory.renew(run, batch, run.sum.slopes_at(self.sigma[batch], batch))
        gamma = gamma_of(m, t)
        run.note(gap, gamma)
        move_towards(run.x, atom, gamma)


@dataclasses.dataclass(eq=False, repr=False)
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

    Online, a new sample takes the oldest one's place with :math:`\sigma_i` its prediction; then follow
    ``steps_per_sample`` steps, the newest sample among the first batch. Offline :math:`\sigma = X w_0`, and the
    derivatives start at 0, as :class:`SFW`'s and those of copt's variant ``LF`` do: Lu and Freund spend a whole
    gradient first (``first_gradient``). :math:`\gamma_t` is what makes :math:`w_{t+1}` the mean of the atoms with the
    weights 2m + t; copt has 4m + t + 1 in the denominator, with which they do not sum to 1, and m = n whatever the
    batch.

    When to use it: to compare. :class:`SFW` takes the derivatives at w itself, at the same cost, and mostly wins.

    Parameters
    ----------
    memory
        Samples held, >= 1. Offline (:meth:`minimize`) the whole data set is the memory.
    batch_size
        b, the samples whose predictions follow a step, in [1, memory].
    steps_per_sample
        Steps for each sample, >= 1.
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

    memory: int = 1000
    batch_size: int = 1
    steps_per_sample: int = 1
    first_gradient: bool = False

    _run_class = LuFreundRun
    _learn = staticmethod(learn)
    _iterate = staticmethod(iterate)
    _method_class = LuFreundMethod
