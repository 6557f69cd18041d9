"""HCGM: homotopy conditional gradients for composite problems."""

from __future__ import annotations

import typing

from fwonline.optim.composite.base import CompositeOptimizer
from fwonline.optim.schedules import EXACT

if typing.TYPE_CHECKING:
    from fwonline.optim.composite.base import CompositeState

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
    lmo_tol, lmo_share, dual_bound
        The error allowed to the oracles of spectral sets, additive or multiplicative, and the longest that the duals of
        the constraints may be: see :class:`~fwonline.optim.composite.base.CompositeOptimizer`.

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

    def _step(self, run: CompositeState) -> None:
        run.direction = run.exact_gradient()
        run.homotopy_step(EXACT, self.beta0)
