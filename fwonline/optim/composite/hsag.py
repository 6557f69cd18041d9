"""H-SAG-CGM: homotopy conditional gradients with a stochastic average gradient."""

from __future__ import annotations

import typing

from fwonline._checks import check_count
from fwonline.optim.composite.base import CompositeOptimizer
from fwonline.optim.schedules import EXACT

if typing.TYPE_CHECKING:
    from fwonline.optim.composite.base import CompositeState

__all__ = ["HSAGFW"]


class HSAGFW(CompositeOptimizer):
    r"""Homotopy CGM on a finite sum, with SAG's gradient (Dresdner et al. 2022).

    The successor of SHCGM where samples can be looked at again: the gradient of every component is remembered as it
    was when last looked at, and the direction is the mean of these.

    .. math::
        d_k &= d_{k-1} + \tfrac1n (\nabla f_i(x_k) - \alpha_i), \quad \alpha_i \leftarrow \nabla f_i(x_k)
        \text{ for a random } i, \\
        v_k &= d_k + \textstyle\sum_j A_j^\top (A_j x_k - \operatorname{prox}_{\beta_k g_j}(A_j x_k)) / \beta_k, \\
        x_{k+1} &= x_k + \eta_k (\operatorname{lmo}(v_k) - x_k),

    with :math:`\eta_k = 2 / (k + 1)` and :math:`\beta_k = \beta_0 / \sqrt{k + 1}`.

    Parameters
    ----------
    beta0
        Smoothing of the terms at the first step, finite and > 0.
    batch_size
        Components looked at a step, drawn without replacement, >= 1.
    lmo_tol, lmo_share, dual_bound
        The error allowed to the oracles of spectral sets, additive or multiplicative, and the longest that the duals of
        the constraints may be: see :class:`~fwonline.optim.composite.base.CompositeOptimizer`.

    Notes
    -----
    Memory: one number a sample for :meth:`minimize`, one gradient a component for :meth:`minimize_composite`. The
    expected error falls like :math:`k^{-1/2}`, against :math:`k^{-1/3}` of SHCGM.

    References
    ----------
    .. [1] G. Dresdner et al., `Faster One-Sample Stochastic Conditional Gradient Method for Composite Convex
       Minimization <https://arxiv.org/abs/2202.13212>`_, AISTATS 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> result = optim.HSAGFW().minimize(
    ...     X, 2.0 * X[:, 0] - X[:, 1], constraint=sets.L1Ball(3.0), terms=[optim.Term(sets.Box(-1.5, 1.5))], seed=0
    ... )
    >>> bool(result.x[0] < 1.53), bool(result.infeasibility < 0.03)
    (True, True)
    """

    def __init__(
        self,
        beta0: float = 1.0,
        batch_size: int = 1,
        lmo_tol: float = 1e-8,
        lmo_share: float | None = None,
        dual_bound: float = 0.0,
    ):
        super().__init__(beta0, lmo_tol, lmo_share, dual_bound)
        check_count("batch_size", batch_size)
        self.batch_size = batch_size

    def _begin(self, run: CompositeState) -> None:
        run.objective.start_memory(run.x.shape)

    def _step(self, run: CompositeState) -> None:
        n = run.objective.n
        for i in run.rng.choice(n, min(self.batch_size, n), replace=False):
            run.direction += run.objective.renew(run.x, int(i))
        run.homotopy_step(EXACT, self.beta0)
