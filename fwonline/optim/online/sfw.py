"""Stochastic Frank-Wolfe on a finite-sample memory (Negiar et al. 2020)."""

from __future__ import annotations

import dataclasses
import typing
import warnings

from fwonline._kernels import memory, steps, stream
from fwonline._kernels.entry import opened
from fwonline._kernels.layout import NEED_POOL, OK, jit, part
from fwonline.optim.base import Optimizer
from fwonline.optim.runs.method import Derivatives, Method, SumRun
from fwonline.optim.runs.run import Run
from fwonline.optim.schedules import Schedule

__all__ = ["SFW"]


@part
def weight_of_new(s):
    """How much of a derivative is renewed: all of it, and by MomentumFW with a memory rho_t."""
    return 1.0 if s.rho_a == 0.0 else stream.rho(s)


@jit
def iterate(bound, count):
    """Algorithm 1: ``count`` steps on a memory that holds the whole data set.

    ``it`` is the iterate and the gradient estimate, ``mem`` the samples held, ``s`` the scalars of the run (the atom of
    the paper is s_t here), as ``_kernels/state.py`` names them.
    """
    run = opened(bound)
    it, mem, draws, s, region = run.it, run.mem, run.draws, run.state[0], run.problem.region
    for _ in range(count):
        memory.draw_batch(mem, draws, s, s.batch_size, -1)  # B_t
        memory.renew_batch(
            run, 0, s.batch_size, weight_of_new(s)
        )  # alpha_i = f_i'(<x_i, w_{t-1}>), r_t = (1/n) sum_i alpha_i x_i
        memory.bound_rounding(it, mem, s, region)
        steps.move(it, s, run.problem)  # s_t = lmo(r_t), w_t = w_{t-1} + gamma_t (s_t - w_{t-1})


@jit
def learn(bound, bound_rows, first, last):
    """The same steps for samples as they come, rows ``first`` to ``last``; returns a status.

    It stops before a row that is refused, or that needs room in the memory (NEED_POOL) or random numbers, of which
    nothing has changed yet: the caller provides them and enters again at that row, which ``s.seen`` tells.
    """
    run, rows = opened(bound), opened(bound_rows)
    it, mem, draws, s, region = run.it, run.mem, run.draws, run.state[0], run.problem.region
    for i in range(first, last):
        seen = memory.look(it, s, run.problem, rows, i)
        if seen.status != OK:
            return seen.status
        status = memory.is_ready(s, draws.noise, s.steps * s.batch_size)  # that many random numbers
        if status != OK:
            return status
        x = memory.row_at(rows, i)
        at = memory.room(mem, s, x.stop - x.start)
        if at < 0:
            return NEED_POOL
        memory.play(s, seen, rows, i)
        newest = memory.enter(it, mem, s, region, x, at, seen)
        memory.fit_intercept(s, run.problem.loss, seen)
        for k in range(s.steps):
            size = min(s.batch_size, s.live)
            if k > 0 or size > 1:
                # The newest one is the first of the first batch. Its derivative is that of this very iterate: it is
                # not computed again. The others' become the new ones with weight 1.
                memory.draw_batch(mem, draws, s, size, newest if k == 0 else -1)
                memory.renew_batch(run, 1 if k == 0 else 0, size, weight_of_new(s))
            memory.bound_rounding(it, mem, s, region)
            steps.move(it, s, run.problem)
    return OK


class SFWMethod(Method):
    """The same steps on matrices: alpha_i = l'(z_i(w_t)) for a batch, r = (1/n) sum alpha_i a_i."""

    memory: Derivatives
    remembers = True

    def step(self, run: SumRun) -> None:
        self.memory.begin(run)
        batch = run.pick(self.optimizer.batch_size)
        r = self.memory.renew(run, batch, run.sum.slopes(run.x, batch))
        run.frank_wolfe(r, self.optimizer._schedule(), run.t)


class SFWRun(Run):
    _holds_samples = True
    _decided = (*Run._decided, *stream.RHO)

    def __init__(self, *args: typing.Any, **kwargs: typing.Any):
        super().__init__(*args, **kwargs)
        self.s.rho_a, self.s.rho_b, self.s.rho_c = self.optimizer._momentum


# The share of the set through which an iterate may move while derivatives stay as they are.
_STABLE = 0.5


@dataclasses.dataclass(eq=False, repr=False)
class SFW(Optimizer):
    r"""Stochastic Frank-Wolfe on a memory of the last samples (Negiar et al. 2020, Algorithm 1).

    It minimises the mean loss over the samples it holds, :math:`\frac1n \sum_i f(y_i, \langle x_i, w \rangle)`, by
    remembering the derivative :math:`\alpha_i` of each at the iterate that last looked at it:

    .. math::
        r = \frac1n \sum_i \alpha_i x_i, \qquad s = \arg\min_{s \in C} \langle r, s \rangle, \qquad
        w \leftarrow (1 - \gamma) w + \gamma s.

    Online, a new sample takes the place of the oldest, whose contribution leaves r; its own derivative enters at once;
    then follow ``steps_per_sample`` steps, each of which renews the derivatives of ``batch_size`` samples drawn without
    replacement (the newest among the first batch). While the memory fills, the objective is the mean over what it
    holds. With ``steps_per_sample=1, batch_size=1`` nothing is replayed.

    When to use it: whenever samples can be kept. One step a sample is enough in small sets; more steps learn more from
    each sample in large ones.

    Parameters
    ----------
    memory
        Samples held, >= 1. Offline (:meth:`minimize`) the whole data set is the memory.
    batch_size
        Derivatives renewed a step, in [1, memory].
    steps_per_sample
        Steps for each sample, >= 1.
    schedule
        Step sizes; :class:`~fwonline.optim.schedules.Harmonic`, 2 / (t + 2) with t = 0, 1, ..., by default. With a
        floor it forgets at a constant rate, but see below when that is stable.

    Warns
    -----
    UserWarning
        Where the schedule's floor times ``memory / batch_size`` is above 0.5.

    Notes
    -----
    Cost of a step: the non-zeros of the samples it touches, and, on the l1 ball and the simplices, the search for the
    largest entry of r among d / 65536 bounds of parts of it; O(d) more on sets whose atoms are dense vectors, such as
    the l2 ball and boxes. Memory: the samples held.

    For a smooth convex f the suboptimality falls like :math:`O(\kappa / t)` in expectation, with
    :math:`\kappa \le n` of equation 34 (Theorem 1). The gap of each step, :math:`\hat g = \langle r, w - s \rangle`
    (equation 31), differs from the Frank-Wolfe gap at the same iterate by at most
    :math:`D_\infty \frac1n \sum_i |\alpha_i - f_i'(\langle x_i, w \rangle)|` (Proposition 1; in expectation
    :func:`stochastic_gap_bound`). This difference falls like 1/t, as the gap itself does, so the ratio of the estimate
    to the gap need not tend to 1: from step 500 to step 50,000 it was 0.13 to 0.22 in the mean (breast cancer, and
    normal features, in l1 balls). The estimate bounds the gap from neither side.

    A derivative is renewed once in ``memory / batch_size`` steps. Under steps that fall that hardly matters; under a
    floor the iterate has moved through a share of the set of floor times ``memory / batch_size`` meanwhile, and r is
    that of iterates long left. Where this share is well below 1 the steps are stable; near 1 and above they are not,
    and the loss on a stream that never changes is many times what it could be (20 features, l1 ball of 8, best loss
    0.25: 0.28 at a share of 0.2, 0.6 to 1.5 at 0.5, 1.3 to 3.3 at 1, 8.6 at 2). For streams that drift
    :class:`StochasticPairwiseFW` needs no such care.

    r is a long sum of additions and removals. Its rounding stays below
    :math:`5 \cdot 2^{-53} (\max(2^{20}, n) + 2n) \sum_i |\alpha_i| \|x_i\|_\infty`: r is computed anew from the memory
    before it could exceed that (the header of ``_kernels/memory.py`` derives it).

    References
    ----------
    .. [1] G. Negiar et al., `Stochastic Frank-Wolfe for Constrained Finite-Sum Minimization
       <https://arxiv.org/abs/2002.11860>`_, ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from river import optim as river_optim
    >>> from fwonline import optim, sets
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 50))
    >>> y = X[:, 3] - X[:, 7]
    >>> result = optim.SFW(batch_size=2).minimize(X, y, constraint=sets.L1Ball(2.0), steps=20_000, seed=1)
    >>> np.flatnonzero(np.abs(result.x) > 0.1)
    array([3, 7])
    >>> bool(result.fun < 0.01)
    True
    """

    memory: int = 1000
    batch_size: int = 1
    steps_per_sample: int = 1
    schedule: Schedule | None = None

    _run_class = SFWRun
    _takes_weights = True
    _learn = staticmethod(learn)
    _momentum = 0.0, 0.0, 0.0
    _iterate = staticmethod(iterate)
    _method_class = SFWMethod

    def __post_init__(self) -> None:
        super().__post_init__()
        floor = getattr(self.schedule, "floor", 0.0)
        share = floor * self.memory / self.batch_size
        if share > _STABLE:
            warnings.warn(
                f"steps under a floor of {floor:g} are unstable with memory={self.memory} and batch_size="
                f"{self.batch_size}: floor * memory / batch_size is {share:.3g}, expected at most {_STABLE}; take a "
                "larger batch_size, a smaller memory, or StochasticPairwiseFW, which forgets by itself",
                stacklevel=3,
            )
