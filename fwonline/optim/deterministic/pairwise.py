"""Pairwise Frank-Wolfe (Lacoste-Julien, Jaggi 2015)."""

from __future__ import annotations

import typing

from fwonline.optim.deterministic.base import Corrective, FullGradient

if typing.TYPE_CHECKING:
    from fwonline.optim.runs.full_run import FullRun, Look
    from fwonline.sets import Atom

__all__ = ["PairwiseFW"]


class PairwiseFW(Corrective, FullGradient):
    r"""Pairwise Frank-Wolfe: weight moves from one atom to another (Lacoste-Julien, Jaggi 2015, Algorithm 2).

    With :math:`s_t` and :math:`v_t` as in :class:`AwayFW` it steps along :math:`s_t - v_t`, with
    :math:`\gamma \le \alpha_{v_t}`: what :math:`s_t` gains only :math:`v_t` loses. A step of the largest size takes
    :math:`v_t` out of the active set; ``n_drop_steps`` counts these, whether :math:`s_t` is new in it (a swap) or not.

    When to use it: like :class:`AwayFW`; often faster in practice where solutions are sparse.

    Parameters
    ----------
    memory, steps_per_sample
        Samples held online, and steps for each of them, >= 1. Offline (:meth:`minimize`) the whole data set is held.
    schedule
        Step sizes, cut where they would leave the set; by default the objective decides: ``LineSearch()``.

    Notes
    -----
    Cost of a step: that of :class:`AwayFW` and the columns of a second atom, O(d) at least.

    For a strongly convex f over a polytope the suboptimality falls linearly in the steps that are neither drops nor
    swaps; the number of swaps between two of these is bounded only by a factorial of the number of vertices
    (Theorem 1 of [1]_), in practice they are few.

    References
    ----------
    .. [1] S. Lacoste-Julien, M. Jaggi, `On the Global Linear Convergence of Frank-Wolfe Optimization Variants
       <https://arxiv.org/abs/1511.05932>`_, NeurIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> y = X[:, 3] - 0.5 * X[:, 7]
    >>> result = optim.PairwiseFW().minimize(X, y, constraint=sets.L1Ball(1.4), steps=500, tol=1e-10)
    >>> result.success, np.flatnonzero(result.x)
    (True, array([3, 7]))
    """

    def _step(self, run: FullRun, look: Look) -> None:
        run.shift(typing.cast("Atom", look.v), look.s, look.across)
