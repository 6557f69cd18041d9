"""S3CCM: stochastic three-composite minimization, the projection-based baseline."""

from __future__ import annotations

import typing

import numpy as np

from fwonline._checks import check_positive
from fwonline.optim.composite.base import CompositeOptimizer

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    from fwonline.optim.composite.base import CompositeState
    from fwonline.optim.problem.terms import Term

__all__ = ["S3CCM"]


class S3CCM(CompositeOptimizer):
    r"""Stochastic three-composite convex minimization (Yurtsever, Vu, Cevher 2016): it projects in every step.

    With g the one term, C the set and :math:`r_k` a stochastic gradient of f at :math:`z_k`,

    .. math::
        z_k &= \operatorname{prox}_{\gamma_{k-1} g}(x_k + \gamma_{k-1} u_{k-1}), \\
        u_k &= u_{k-1} + (x_k - z_k) / \gamma_{k-1}, \\
        x_{k+1} &= \operatorname{proj}_C(z_k - \gamma_k (u_k + r_k)).

    Several terms, m of them, are one term of as many copies of x, which are all to be the same point of C: the prox
    takes the copies apart, :math:`z_k^i = \operatorname{prox}_{m \gamma g_i}(x_k + m \gamma u^i)`, f is taken at
    their mean, and the projection of their mean is that of all of them.

    .. math::
        x_{k+1} = \operatorname{proj}_C \bigl(\bar z_k - \gamma_k (\textstyle\sum_i u_k^i + r_k)\bigr).

    When to use it: as the baseline, or where the projection on the set is cheap. On sets of matrices every step takes a
    full decomposition.

    Parameters
    ----------
    gamma0
        The first step size, finite and > 0: above half the inverse of f's strong convexity for the rate below.
    a
        The steps are gamma0 / k^a, in (0, 1]: 1 for a strongly convex f, 1/2 for others.

    Notes
    -----
    One stochastic gradient, one projection and one prox of each term a step; memory: one x for each term. For a
    strongly convex f the squared distance to the solution falls like 1 / k in expectation. Terms have the identity as
    their map: the prox of a composition with another is not known, and a copy of A x in place of one of x would be
    brought back to the graph of A by a linear system in every step.

    References
    ----------
    .. [1] A. Yurtsever, B. C. Vu, V. Cevher, `Stochastic Three-Composite Convex Minimization
       <https://arxiv.org/abs/1701.09033>`_, NIPS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> truth = np.array([0.6, 0.3, 0.1, 0.0])
    >>> result = optim.S3CCM().minimize_composite(
    ...     lambda x, rng: x - truth - 0.1 * rng.standard_normal(4),
    ...     constraint=sets.ProbabilitySimplex(1.0),
    ...     terms=[optim.Term(sets.Box(0.0, 0.4))],
    ...     shape=4,
    ...     steps=3_000,
    ...     seed=0,
    ... )
    >>> bool(abs(result.x - [0.4, 0.367, 0.167, 0.067]).max() < 0.02)
    True
    """

    def __init__(self, gamma0: float = 1.0, a: float = 1.0):
        check_positive("gamma0", gamma0)
        check_positive("a", a)
        if a > 1.0:
            raise ValueError(f"a must be in (0, 1], got {a!r}")
        self.gamma0 = gamma0
        self.a = a

    def _begin(self, run: CompositeState) -> None:
        if any(term.forward is not None for term in run.terms):
            raise ValueError("S3CCM takes terms without a linear map: their prox must be known")
        if not run.constraint.can_project:
            raise ValueError(f"S3CCM projects on the set in every step, and {run.constraint} has no projection")
        run.memory = np.zeros((len(run.terms), *run.x.shape))  # u, a subgradient of each term

    def _step(self, run: CompositeState) -> None:
        before, gamma = self.gamma0 / max(run.nit, 1) ** self.a, self.gamma0 / (run.nit + 1) ** self.a
        u, spread = run.memory, len(run.terms) * before
        mean = np.zeros_like(run.x) if run.terms else run.x
        for i, term in enumerate(run.terms):
            z = self._prox(term, run.x + spread * u[i], spread)
            u[i] += (run.x - z) / spread
            mean += z / len(run.terms)
        run.direction = run.objective.sample(mean, run.rng)
        run.x = run.constraint.project(mean - gamma * (u.sum(axis=0) + run.direction))

    @staticmethod
    def _prox(term: Term, z: NDArray[np.float64], gamma: float) -> NDArray[np.float64]:
        offset = 0.0 if term.offset is None else np.asarray(term.offset, dtype=np.float64)
        return term.prox(z + offset, gamma) - offset
