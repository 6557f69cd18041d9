"""Stochastic Frank-Wolfe with growing batches (Hazan, Luo 2016)."""

from __future__ import annotations

import dataclasses
import typing

from fwonline import _loaded
from fwonline.optim.runs.finite_sum_run import FiniteSumOptimizer
from fwonline.optim.runs.method import Method, SumRun

if typing.TYPE_CHECKING:
    from fwonline.optim.schedules import Schedule

__all__ = ["HazanLuoFW"]


class HazanLuoMethod(Method):
    optimizer: HazanLuoFW
    counters: typing.ClassVar[dict[str, int]] = {"k": _loaded.MOST}
    k: int

    def step(self, run: SumRun) -> None:
        self.k += 1
        if self.optimizer.batch_size is not None:
            m = self.optimizer.batch_size
        else:
            root = run.G * (self.k + 1) / (run.L * run.D)
            m = run.at_most_all(root * root)  # m_k = (G (k + 1) / (L D))^2
        g = run.sum.gradient(run.x, run.draw(m))  # the mean of m_k independent grad f_i(w_{k-1})
        run.frank_wolfe(g, self.optimizer._schedule(), self.k - 1)  # gamma_k = 2 / (k + 1)


@dataclasses.dataclass(eq=False, repr=False)
class HazanLuoFW(FiniteSumOptimizer):
    r"""Stochastic Frank-Wolfe with batches that grow (Hazan, Luo 2016, their section 2; "SFW" in comparisons).

    .. math::
        v_k = \arg\min_{v \in C} \Big\langle \frac1{m_k} \sum_{i \in B_k} \nabla f_i(w_{k-1}), v \Big\rangle, \qquad
        w_k = (1 - \gamma_k) w_{k-1} + \gamma_k v_k

    with :math:`\gamma_k = 2 / (k + 1)` and :math:`m_k = (G (k + 1) / (L D))^2` samples drawn independently. Where that
    is all samples or more, the exact gradient is taken instead: it costs no more and has no noise.

    Online, inside an estimator, the sum is over the last ``memory`` samples: a new one takes the place of the oldest,
    then ``steps_per_sample`` steps are taken on the mean loss over those held, k counting on.

    When to use it: as the plain baseline of the batch methods; :class:`SVRF` needs fewer gradients.

    Parameters
    ----------
    batch_size
        Samples a step, >= 1; the theorem's growing m_k where None.
    lipschitz
        L, the smoothness of each f_i; by default max :math:`|l''|` times the largest squared norm of a sample.
    gradient_bound
        G, a bound of the gradients of all f_i on the set; by default the loss's largest slope times the largest norm of
        a sample, and for losses without one the largest gradient met plus L D.
    diameter
        D; by default the set's diameter. A smaller one is a practical choice: batches then grow faster.
    schedule
        Step sizes; 2 / (k + 1), k = 1, 2, ..., by default.
    memory, steps_per_sample
        Samples held online, and steps for each of them, >= 1.

    Notes
    -----
    :math:`E f(w_k) - f^* \le 4 L D^2 / (k + 2)` (Theorem 3): :math:`O(1 / \varepsilon)` linear minimisations, but
    :math:`O(1 / \varepsilon^3)` gradients. A step costs m_k gradients and one linear minimisation.

    References
    ----------
    .. [1] E. Hazan, H. Luo, `Variance-Reduced and Projection-Free Stochastic Optimization
       <https://arxiv.org/abs/1602.02101>`_, ICML 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> X = np.random.default_rng(0).normal(size=(300, 20))
    >>> result = optim.HazanLuoFW().minimize(X, X[:, 3] - X[:, 7], constraint=sets.L1Ball(2.0), steps=300, seed=1)
    >>> np.flatnonzero(np.abs(result.x) > 0.1)
    array([3, 7])
    """

    batch_size: int | None = None
    lipschitz: float | None = None
    gradient_bound: float | None = None
    diameter: float | None = None
    schedule: Schedule | None = None
    memory: int = 1000
    steps_per_sample: int = 1

    _method_class = HazanLuoMethod

    @property
    def _needs_lipschitz(self) -> bool:
        return self.batch_size is None
