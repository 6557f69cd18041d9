"""Stochastic variance-reduced Frank-Wolfe (Hazan, Luo 2016, Algorithm 1)."""

from __future__ import annotations

import dataclasses
import typing

from fwonline.optim.runs.finite_sum_run import FiniteSumOptimizer
from fwonline.optim.runs.method import Epochs, SumRun

if typing.TYPE_CHECKING:
    from fwonline.optim.schedules import Schedule

__all__ = ["SVRF"]


class SVRFMethod(Epochs):
    """The steps of an epoch; ``Epochs`` takes the snapshots. ``inner`` is x_{k-1}, ``k`` counts from 1 anew."""

    optimizer: SVRF

    def length(self, run: SumRun) -> int:
        return self.optimizer.epoch or 2 ** (min(self.t, 48) + 3) - 2  # N_t; of the 49th epoch no run sees the end

    def move(self, run: SumRun) -> tuple[float, float]:
        x, k = self.inner, self.k  # x_{k-1}
        m = self.optimizer.batch_size or 96 * (k + 1)  # m_k
        # The mean of m_k independent grad f_i(x_{k-1}) - grad f_i(x_0) + grad f(x_0).
        g = self.memory.estimate(run, x, m)
        return run.frank_wolfe_at(x, g, self.optimizer._schedule(), k - 1)  # gamma_k = 2 / (k + 1)


@dataclasses.dataclass(eq=False, repr=False)
class SVRF(FiniteSumOptimizer):
    r"""Stochastic variance-reduced Frank-Wolfe (Hazan, Luo 2016, Algorithm 1).

    In epochs t = 1, 2, ... it takes the exact gradient at a snapshot :math:`x_0`, then :math:`N_t` steps

    .. math::
        \tilde\nabla_k = \frac1{m_k} \sum_{i \in B_k} \big(\nabla f_i(x_{k-1}) - \nabla f_i(x_0)\big) + \nabla f(x_0),
        \quad v_k = \arg\min_{v \in C} \langle \tilde\nabla_k, v \rangle,
        \quad x_k = (1 - \gamma_k) x_{k-1} + \gamma_k v_k ,

    and the epoch's last point is its result, :math:`w_t`, and the next one's snapshot. The model is always the last
    complete epoch's :math:`w_t`: that is what predicts, what ``minimize`` returns and what a callback, a monitor, a
    checkpoint and ``exact_gap`` see, and it stays where it is while an epoch runs. The points within an epoch are no
    results, since its first steps are as long as those of the first epoch: 1 and 2/3. So ``minimize`` with a number of
    steps that ends within an epoch returns the point of the one before. With the theorem's epochs, :math:`w_t` is
    reached after :math:`2^{t+4} - 2 t - 16` steps: 14, 44, 106, 232, 486, 996, ...; before the first, the model is
    :math:`w_0`, the vertex that the first gradient asks for (or ``x0``).

    ``gap`` is exact for :math:`w_{t-1}` from the first step of epoch t on (offline; online up to the samples that came
    and went since). After the epoch's last step it is that of the last gradient estimate, at :math:`x_{N_t - 1}`.

    The derivatives at the snapshot are kept, one number a sample (for each class), so a step takes m_k derivatives, not
    2 m_k. Where m_k is all samples or more, the exact gradient is taken: it costs no more and has no noise.

    Online, inside an estimator, the sum is over the last ``memory`` samples, and ``steps_per_sample`` steps follow
    each. The estimate stays unbiased within an epoch while samples change: one that comes in joins the snapshot with
    the derivative it was played with, one that goes takes its own away. The model then changes where an epoch ends,
    ever more rarely with the theorem's epochs; one ``epoch`` for all keeps the pauses short, at a loss of accuracy
    where the stream does not drift (phishing, l1 ball of radius 10: log loss 0.345 with the theorem's, 0.391 with
    ``epoch=20``).

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
    memory, steps_per_sample
        Samples held online, and steps for each of them, >= 1.

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

    batch_size: int | None = None
    epoch: int | None = None
    schedule: Schedule | None = None
    memory: int = 1000
    steps_per_sample: int = 1

    _method_class = SVRFMethod
