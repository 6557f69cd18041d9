"""SHCGM: stochastic homotopy conditional gradients for composite problems."""

from __future__ import annotations

import typing

from fwonline.optim.composite.base import CompositeOptimizer
from fwonline.optim.schedules import STOCHASTIC, momentum

if typing.TYPE_CHECKING:
    from fwonline.optim.composite.base import CompositeState

__all__ = ["SHCGM"]


class SHCGM(CompositeOptimizer):
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
    lmo_tol, lmo_share, dual_bound
        The error allowed to the oracles of spectral sets, additive or multiplicative, and the longest that the duals of
        the constraints may be: see :class:`~fwonline.optim.composite.base.CompositeOptimizer`.

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
        rho = momentum(run.time)
        run.direction += rho * (run.objective.sample(run.x, run.rng) - run.direction)
        run.homotopy_step(STOCHASTIC, self.beta0)
