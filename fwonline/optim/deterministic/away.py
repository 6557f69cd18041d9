"""Frank-Wolfe with away steps (Guelat, Marcotte 1986; Lacoste-Julien, Jaggi 2015)."""

from __future__ import annotations

import typing

from fwonline.optim.deterministic.base import Corrective, FullGradient

if typing.TYPE_CHECKING:
    from fwonline.optim.runs.full_run import FullRun, Look
    from fwonline.sets import Atom

__all__ = ["AwayFW"]


def step_or_away(run: FullRun, look: Look) -> None:
    """Towards s_t or away from v_t, whichever descends more steeply."""
    if look.towards >= look.away:
        run.go_towards(look.s, look.towards)
    else:
        run.go_away(typing.cast("Atom", look.v), look.away)


class AwayFW(Corrective, FullGradient):
    r"""Frank-Wolfe with away steps (Guelat, Marcotte 1986; Lacoste-Julien, Jaggi 2015, Algorithm 1).

    The iterate is held as a mixture :math:`w_t = \sum_{v \in S_t} \alpha_v v` of atoms. With

    .. math::
        s_t = \arg\min_{s \in C} \langle \nabla f(w_t), s \rangle, \qquad
        v_t = \arg\max_{v \in S_t} \langle \nabla f(w_t), v \rangle

    it steps along whichever descends more steeply: towards :math:`s_t` with :math:`\gamma \le 1`, or away from
    :math:`v_t`, along :math:`w_t - v_t`, with :math:`\gamma \le \alpha_{v_t} / (1 - \alpha_{v_t})`. A step away of
    the largest size drops :math:`v_t`: the zigzag of plain Frank-Wolfe near a face of the set ends.

    When to use it: for solutions of high precision on polytopes (l1 ball, simplices, boxes, hulls).

    Parameters
    ----------
    memory, steps_per_sample
        Samples held online, and steps for each of them, >= 1. Offline (:meth:`minimize`) the whole data set is held.
    schedule
        Step sizes, cut where they would leave the set; by default the objective decides: ``LineSearch()``.

    Notes
    -----
    Cost of a step: that of :class:`FW`, and a product with the gradient for each atom of the active set. Memory: the
    samples and the active set, of at most t + 1 atoms; on sets with ever new vertices, such as boxes of many features,
    it is what grows.

    For a strongly convex f over a polytope (and for the least squares of a lasso) the suboptimality falls linearly,
    like :math:`(1 - \rho)^{k(t)}` with k(t) >= t / 2 steps that are no drop steps, and
    :math:`\rho = \mu \delta^2 / (4 L D^2)`, :math:`\delta` the pyramidal width (Theorem 1 of [2]_).

    References
    ----------
    .. [1] J. Guelat, P. Marcotte, `Some comments on Wolfe's away step <https://doi.org/10.1007/BF01589445>`_, 1986.
    .. [2] S. Lacoste-Julien, M. Jaggi, `On the Global Linear Convergence of Frank-Wolfe Optimization Variants
       <https://arxiv.org/abs/1511.05932>`_, NeurIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> y = X[:, 3] - 0.5 * X[:, 7]
    >>> away = optim.AwayFW()
    >>> result = away.minimize(X, y, constraint=sets.L1Ball(1.4), steps=500, tol=1e-10)
    >>> result.success, np.flatnonzero(result.x)
    (True, array([3, 7]))
    >>> len(away.active)
    2
    """

    def _step(self, run: FullRun, look: Look) -> None:
        step_or_away(run, look)
