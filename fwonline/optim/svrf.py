"""Stochastic variance-reduced Frank-Wolfe (Hazan, Luo 2016, Algorithm 1)."""

from __future__ import annotations

import typing

from fwonline.optim.base import check_count
from fwonline.optim.finite_sum_run import TWO_OVER_K, FiniteSumOptimizer, FiniteSumRun, Snapshot

if typing.TYPE_CHECKING:
    from fwonline.optim.schedules import Schedule

__all__ = ["SVRF"]


class SVRFMethod(Snapshot):
    optimizer: SVRF

    def __init__(self, optimizer: SVRF):
        super().__init__(optimizer)
        self.t = self.k = self.N = 0

    def step(self, run: FiniteSumRun) -> None:
        if self.k == self.N:
            if self.t == 0:
                run.start_at_vertex()  # w_0
            self.t += 1
            self.k = 0
            self.N = self.optimizer.epoch or 2 ** (self.t + 3) - 2  # N_t
            self.take(run, run.x)  # x_0 = w_{t-1} and grad f(x_0)
        self.k += 1
        m = self.optimizer.batch_size or 96 * (self.k + 1)  # m_k
        g = self.estimate(run, run.x, m)  # the mean of m_k independent grad f_i(x_{k-1}) - grad f_i(x_0) + grad f(x_0)
        run.frank_wolfe(g, self.optimizer.schedule or TWO_OVER_K, self.k - 1)  # gamma_k = 2 / (k + 1)


class SVRF(FiniteSumOptimizer):
    r"""Stochastic variance-reduced Frank-Wolfe (Hazan, Luo 2016, Algorithm 1).

    In epochs t = 1, 2, ... it takes the exact gradient at a snapshot :math:`x_0`, then :math:`N_t` steps

    .. math::
        \tilde\nabla_k = \frac1{m_k} \sum_{i \in B_k} \big(\nabla f_i(x_{k-1}) - \nabla f_i(x_0)\big) + \nabla f(x_0),
        \quad v_k = \arg\min_{v \in C} \langle \tilde\nabla_k, v \rangle,
        \quad x_k = (1 - \gamma_k) x_{k-1} + \gamma_k v_k .

    The derivatives at the snapshot are kept, one number a sample (for each class), so a step takes m_k derivatives, not
    2 m_k. Where m_k is all samples or more, the exact gradient is taken: it costs no more and has no noise.

    Online, inside an estimator, the sum is over the last ``memory`` samples, and ``steps`` steps follow each. The
    estimate stays unbiased within an epoch while samples change: one that comes in joins the snapshot with the
    derivative it was played with, one that goes takes its own away.

    When to use it: large data sets, where a pass is dear and a high precision is asked for.

    Parameters
    ----------
    batch_size
        m_k, samples a step, >= 1; the theorem's 96 (k + 1) where None.
    epoch
        N_t, steps an epoch, >= 1; the theorem's 2^(t+3) - 2 where None.
    schedule
        Step sizes within an epoch; the theorem's 2 / (k + 1), k = 1, 2, ..., by default. Note that its first step is a
        whole one: an epoch forgets all but the snapshot's gradient.
    memory
        Samples held online, >= 1.
    steps
        Steps a sample online, >= 1.

    Notes
    -----
    With the theorem's parameters :math:`E f(w_t) - f^* \le L D^2 / 2^{t+1}` after epoch t (Theorem 1), that is
    :math:`O(\ln(1/\varepsilon))` exact gradients, :math:`O(1/\varepsilon^2)` stochastic ones and
    :math:`O(1/\varepsilon)` linear minimisations. A step costs m_k gradients and one linear minimisation; memory:
    n derivatives and one gradient.

    References
    ----------
    .. [1] E. Hazan, H. Luo, `Variance-Reduced and Projection-Free Stochastic Optimization
       <https://arxiv.org/abs/1602.02101>`_, ICML 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> X = np.random.default_rng(0).normal(size=(2000, 20))
    >>> svrf = optim.SVRF()
    >>> result = svrf.minimize(X, X[:, 3] - X[:, 7], constraint=sets.L1Ball(2.0), steps=200, seed=1)
    >>> np.flatnonzero(np.abs(result.x) > 0.1)
    array([3, 7])
    >>> svrf.n_lmo
    201
    """

    _method_class = SVRFMethod

    def __init__(
        self,
        batch_size: int | None = None,
        epoch: int | None = None,
        schedule: Schedule | None = None,
        memory: int = 1000,
        steps: int = 1,
    ):
        for name, value in (("batch_size", batch_size), ("epoch", epoch)):
            if value is not None:
                check_count(name, value)
        check_count("memory", memory)
        check_count("steps", steps)
        self.batch_size = batch_size
        self.epoch = epoch
        self.schedule = schedule
        self.memory = memory
        self.steps = steps
