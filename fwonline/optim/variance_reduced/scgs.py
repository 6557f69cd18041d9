"""Stochastic conditional gradient sliding (Lan, Zhou 2016)."""

from __future__ import annotations

import dataclasses
import typing

import numpy as np

from fwonline import _loaded
from fwonline.optim.runs.finite_sum_run import FiniteSumOptimizer
from fwonline.optim.runs.method import Method, SumRun
from fwonline.optim.variance_reduced.cndg import cndg

__all__ = ["SCGS"]


class SCGSMethod(Method):
    optimizer: SCGS
    points: typing.ClassVar[tuple[str, ...]] = ("x",)
    counters: typing.ClassVar[dict[str, int]] = {"k": _loaded.MOST}
    x: typing.Any
    k: int

    def step(self, run: SumRun) -> None:
        L, D, y = run.L, run.D, run.x
        if self.x is None:
            self.x = y.copy()  # x_0 = y_0
        self.k += 1
        k = self.k
        gamma = 3.0 / (k + 2.0)
        beta = 4.0 * L / (k + 2.0)
        eta = L * D * D / (k * (k + 1.0))
        if self.optimizer.batch_size is not None:
            B = self.optimizer.batch_size
        else:
            sigma = self.optimizer.sigma or run.G
            ratio = sigma / (L * D)
            B = run.at_most_all(ratio * ratio * (k + 2.0) ** 3)
        z = (1.0 - gamma) * y + gamma * self.x  # z_k
        g = run.sum.gradient(z, run.draw(B))  # the mean of B_k independent grad F(z_k, xi)
        answer = cndg(g, self.x, beta, eta, run.lmo, self.optimizer.inner_steps)
        run.note(float(np.vdot(g, z)) - answer.first.dot(g), gamma)
        self.x = answer.x  # x_k
        y *= 1.0 - gamma
        y += gamma * self.x  # y_k


@dataclasses.dataclass(eq=False, repr=False)
class SCGS(FiniteSumOptimizer):
    r"""Stochastic conditional gradient sliding (Lan, Zhou 2016): Nesterov's acceleration without projections.

    .. math::
        z_k = (1 - \gamma_k) y_{k-1} + \gamma_k x_{k-1}, \quad
        g_k = \frac1{B_k} \sum_{i \in B_k} \nabla f_i(z_k), \quad
        x_k = \mathrm{CndG}(g_k, x_{k-1}, \beta_k, \eta_k), \quad
        y_k = (1 - \gamma_k) y_{k-1} + \gamma_k x_k

    where CndG (:func:`fwonline.optim.variance_reduced.cndg.cndg`) makes a proximal step by linear minimisation alone.
    The parameters are the theorem's, :math:`\gamma_k = 3 / (k + 2)`, :math:`\beta_k = 4 L / (k + 2)`,
    :math:`\eta_k = L D^2 / (k (k + 1))` and :math:`B_k = \sigma^2 (k + 2)^3 / (L D)^2`, all samples where that is more.
    The model is :math:`y_k`.

    Online, inside an estimator, the sum is over the last ``memory`` samples, and ``steps_per_sample`` steps follow
    each, k counting on.

    When to use it: where gradients are dear and linear minimisations cheap.

    Parameters
    ----------
    batch_size
        Samples a step, >= 1; the theorem's growing B_k where None.
    lipschitz
        L, the smoothness of f; by default max :math:`|l''|` times the largest squared norm of a sample, which is often
        a hundred times too much: steps are then short. A smaller one is a practical choice.
    sigma
        A bound of the standard deviation of grad f_i(x); by default G, the bound of the gradients themselves.
    gradient_bound
        G, a bound of the gradients of all f_i on the set; by default as in :class:`HazanLuoFW`.
    diameter
        D; by default the set's diameter. A smaller one is a practical choice: CndG then solves its problems better.
    inner_steps
        Linear minimisations of CndG at most, >= 1; None for as many as eta_k takes.
    memory, steps_per_sample
        Samples held online, and steps for each of them, >= 1.

    Notes
    -----
    With the theorem's parameters :math:`E f(y_k) - f^* \le 10.5\, L D^2 / ((k + 1)(k + 2))`:
    :math:`O(1/\sqrt\varepsilon)` steps,
    :math:`O(1/\varepsilon^2)` gradients and :math:`O(1/\varepsilon)` linear minimisations. A step costs B_k gradients
    and at most :math:`24 k` linear minimisations or so, most often a few.

    References
    ----------
    .. [1] G. Lan, Y. Zhou, `Conditional Gradient Sliding for Convex Optimization
       <https://doi.org/10.1137/140992382>`_, SIAM Journal on Optimization 26(2), 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> X = np.random.default_rng(0).normal(size=(2000, 20))
    >>> scgs = optim.SCGS(lipschitz=3.0)
    >>> result = scgs.minimize(X, X[:, 3] - X[:, 7], constraint=sets.L1Ball(2.0), steps=60, seed=1)
    >>> np.flatnonzero(np.abs(result.x) > 0.1)
    array([3, 7])
    """

    batch_size: int | None = None
    lipschitz: float | None = None
    sigma: float | None = None
    gradient_bound: float | None = None
    diameter: float | None = None
    inner_steps: int | None = None
    memory: int = 1000
    steps_per_sample: int = 1

    _method_class = SCGSMethod
    _needs_lipschitz = True
