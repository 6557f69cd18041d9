"""SHCGM: stochastic homotopy conditional gradients for composite problems."""

from __future__ import annotations

import typing

from fwonline.optim.composite.base import HomotopyOptimizer
from fwonline.optim.schedules import STOCHASTIC, momentum

if typing.TYPE_CHECKING:
    from fwonline.optim.composite.base import CompositeState

__all__ = ["SHCGM"]


class SHCGM(HomotopyOptimizer):
    r"""Stochastic homotopy CGM (Locatello, Yurtsever, Fercoq, Cevher 2019, Algorithm 1).

    .. math::
        d_k &= (1 - \rho_k) d_{k-1} + \rho_k \nabla f(x_k, \omega_k), \\
        v_k &= d_k + \textstyle\sum_i A_i^\top (A_i x_k - \operatorname{prox}_{\beta_k g_i}(A_i x_k)) / \beta_k, \\
        x_{k+1} &= x_k + \eta_k (\operatorname{lmo}(v_k) - x_k),

    with :math:`\eta_k = 9 / (k + 8)`, :math:`\beta_k = \beta_0 / \sqrt{k + 8}`, :math:`\rho_k = 4 / (k + 7)^{2/3}`.

    When to use it: where only single samples of the gradient can be had and none can be kept.

    Parameters
    ----------
    beta0
        Smoothing of the terms at the first step, finite and > 0.
    lmo_tol
        Additive error of the oracles of spectral sets: the residual of the eigenvectors and singular vectors they
        answer with, relative to the largest eigenvalue, times the square root of the step size. What it can cost is
        reported as ``lmo_error``.
    lmo_share
        Multiplicative error, in (0, 1), in the place of ``lmo_tol``: the share of the largest :math:`\langle v, x - s
        \rangle` that the oracle's answer is to reach. The schedules then count :math:`1 + \text{lmo\_share} (k - 1)`
        for k; the share that was reached is reported as ``lmo_share``.
    dual_bound
        The longest that the duals of the constraints may be, all together; 0 for none, ``math.inf`` for no bound. With
        duals the constraints are met sooner: an augmented Lagrangian, see :mod:`fwonline.optim.composite.base`.

    Notes
    -----
    One sample of the gradient, one oracle call and one prox of each term a step. The objective falls like
    :math:`k^{-1/3}` and the distance to the terms' sets like :math:`k^{-5/12}` in expectation (Theorems 1 and 2).

    References
    ----------
    .. [1] F. Locatello, A. Yurtsever, O. Fercoq, V. Cevher, `Stochastic Frank-Wolfe for Composite Convex Minimization
       <https://arxiv.org/abs/1901.10348>`_, NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> truth = np.array([0.6, 0.3, 0.1, 0.0])
    >>> result = optim.SHCGM().minimize_composite(
    ...     lambda x, rng: x - truth - 0.1 * rng.standard_normal(4),
    ...     constraint=sets.ProbabilitySimplex(1.0),
    ...     terms=[optim.Term(sets.Box(0.0, 0.4))],
    ...     shape=4,
    ...     steps=3_000,
    ...     seed=0,
    ... )
    >>> bool(abs(result.x - [0.4, 0.367, 0.167, 0.067]).max() < 0.05), result.infeasibility < 0.02
    (True, True)
    """

    def _step(self, run: CompositeState) -> None:
        k = run.time
        eta, beta, rho = STOCHASTIC.eta(k), STOCHASTIC.beta(k, self.beta0), momentum(k)
        run.direction += rho * (run.objective.sample(run.x, run.rng) - run.direction)
        v = run.direction + run.smoothed_gradient(beta)
        s = run.lmo(v, eta)
        run.move(s, eta)
        run.ascend(self.beta0, eta, STOCHASTIC.beta(k + 1, self.beta0))
