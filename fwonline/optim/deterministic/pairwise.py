"""Pairwise Frank-Wolfe (Lacoste-Julien, Jaggi 2015)."""

from __future__ import annotations

import typing

from fwonline._kernels import layout
from fwonline.optim.runs.full_gradient import Corrective
from fwonline.optim.runs.full_run import ActiveRun

if typing.TYPE_CHECKING:
    pass

__all__ = ["PairwiseFW"]


class PairwiseRun(ActiveRun):
    def _step(self, alpha, tol):
        g, s, v, picked = self._choose(alpha)
        here = self._along_w(alpha)
        self.num[layout.GAP] = here - s.dot(g)
        if picked is None and self.num[layout.GAP] <= tol:
            return True
        slope = v.dot(g) - s.dot(g)  # <-grad f(w_t), s_t - v_t>
        q = self.sum.columns.image(s) - self.sum.columns.image(v)
        direction = s.to_dense() - v.to_dense()
        gamma = self._go(slope, self.active[v], q, lambda: float(direction @ direction))  # gamma_max = alpha_v
        self.n_drop_steps += self.active.shift(v, s, gamma)
        self.v[: self.n_features] += gamma * direction
        self._snap()
        self._z += gamma * q
        return False


class PairwiseFW(Corrective):
    r"""Pairwise Frank-Wolfe: weight moves from one atom to another (Lacoste-Julien, Jaggi 2015, Algorithm 2).

    With :math:`s_t` and :math:`v_t` as in :class:`AwayFW` it steps along :math:`s_t - v_t`, with
    :math:`\gamma \le \alpha_{v_t}`: what :math:`s_t` gains only :math:`v_t` loses. A step of the largest size takes
    :math:`v_t` out of the active set; ``n_drop_steps`` counts these, whether :math:`s_t` is new in it (a swap) or not.

    When to use it: like :class:`AwayFW`; often faster in practice where solutions are sparse.

    Parameters
    ----------
    memory
        Samples held online, >= 1. Offline (:meth:`minimize`) the whole data set is.
    steps
        Steps a sample online, >= 1.
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

    _run_class: typing.ClassVar[type] = PairwiseRun
