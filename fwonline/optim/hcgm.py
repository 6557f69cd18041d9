"""HCGM: homotopy conditional gradients for composite problems."""

from __future__ import annotations

import typing

from fwonline.optim.composite import CompositeOptimizer, check_positive
from fwonline.optim.schedules import EXACT

if typing.TYPE_CHECKING:
    from fwonline.optim.composite import CompositeState

__all__ = ["HCGM"]


class HCGM(CompositeOptimizer):
    r"""Homotopy CGM (Yurtsever, Fercoq, Locatello, Cevher 2018): the exact gradient, and smoothing that fades.

    .. math::
        v_k &= \nabla f(x_k)
            + \textstyle\sum_i A_i^\top (A_i x_k - \operatorname{prox}_{\beta_k g_i}(A_i x_k)) / \beta_k, \\
        x_{k+1} &= x_k + \eta_k (\operatorname{lmo}(v_k) - x_k),

    with :math:`\eta_k = 2 / (k + 1)` and :math:`\beta_k = \beta_0 / \sqrt{k + 1}`.

    Parameters
    ----------
    beta0
        Smoothing of the terms at the first step, finite and > 0.
    lmo_tol
        Relative residual of the eigenvectors and singular vectors that the oracles of spectral sets answer with, times
        the square root of the step size; what it can cost is reported as ``lmo_error``.

    Notes
    -----
    One gradient, one oracle call and one prox of each term a step. Objective and distance fall like
    :math:`k^{-1/2}`.

    References
    ----------
    .. [1] A. Yurtsever, O. Fercoq, F. Locatello, V. Cevher, `A Conditional Gradient Framework for Composite Convex
       Minimization with Applications to Semidefinite Programming <https://arxiv.org/abs/1804.08544>`_, ICML 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> target = np.diag([3.0, 1.0, 0.0])
    >>> objective = optim.Objective(gradient=lambda x: x - target, value=lambda x: 0.5 * np.sum((x - target) ** 2))
    >>> result = optim.HCGM().minimize_composite(
    ...     objective, constraint=sets.Spectraplex(4.0), terms=[optim.Term(sets.Box(-2.0, 2.0))], shape=(3, 3)
    ... )
    >>> result.x.round(1) + 0.0
    array([[2. , 0. , 0. ],
           [0. , 1.5, 0. ],
           [0. , 0. , 0.5]])
    """

    def __init__(self, beta0: float = 1.0, lmo_tol: float = 1e-8):
        check_positive("beta0", beta0)
        check_positive("lmo_tol", lmo_tol)
        self.beta0 = beta0
        self.lmo_tol = lmo_tol

    def _step(self, run: CompositeState) -> None:
        k = run.k
        eta, beta = EXACT.eta(k), EXACT.beta(k, self.beta0)
        run.direction = run.objective.gradient(run.x)
        v = run.direction + run.smoothed_gradient(beta)
        s = run.lmo(v, eta)
        run.move(s, eta)
