"""Frank-Wolfe (Frank, Wolfe 1956; Jaggi 2013)."""

from __future__ import annotations

import typing

from fwonline.optim.deterministic.base import FullGradient
from fwonline.optim.problem.partial_oracle import is_polytope
from fwonline.optim.runs.method import Method, SumRun
from fwonline.optim.schedules import Harmonic, LineSearch

if typing.TYPE_CHECKING:
    from fwonline.optim.runs.full_run import FullRun, Look
    from fwonline.optim.schedules import Schedule

__all__ = ["FW"]


class FWMethod(Method):
    """The same steps on matrices: s = lmo(grad f(w)), w = w + gamma_t (s - w)."""

    def __init__(self, optimizer: FW):
        super().__init__(optimizer)
        if isinstance(optimizer.schedule, LineSearch):
            raise TypeError(
                f"{optimizer} does not work on matrices: no line search is made there; name another schedule, or none "
                "for 2 / (t + 2)"
            )

    def step(self, run: SumRun) -> None:
        run.frank_wolfe(run.sum.gradient(run.x), self.optimizer._schedule(), run.t)


class FW(FullGradient):
    r"""Frank-Wolfe with the exact gradient of all samples it holds (Frank, Wolfe 1956; Jaggi 2013).

    .. math::
        s_t = \arg\min_{s \in C} \langle \nabla f(w_t), s \rangle, \qquad
        w_{t+1} = (1 - \gamma_t) w_t + \gamma_t s_t, \qquad
        f(w) = \frac1n \sum_i \text{loss}(y_i, \langle x_i, w \rangle).

    Online f is the mean over the last ``memory`` samples, and each new sample pays for ``steps_per_sample`` steps.

    When to use it: offline, for few steps on data of moderate size, with a gap that is exact at every step; online,
    where a small memory and a whole gradient of it are affordable. :class:`SFW` takes far cheaper steps.

    Parameters
    ----------
    memory, steps_per_sample
        Samples held online, and steps for each of them, >= 1. Offline (:meth:`minimize`) the whole data set is held.
    schedule
        Step sizes. Where None, offline on sets with finitely many vertices ``Harmonic()``, the 2 / (t + 2) of the
        theorem, and ``LineSearch()`` on all other sets and online. ``LineSearch()`` is exact for the squared loss; for
        losses whose second derivative is at most L, such as ``Log``, it is the minimum of the quadratic bound with L
        along the direction, :math:`\gamma = g_t / (\frac{L}{n} \|X (s_t - w_t)\|^2)`; for all others bisection.

    Notes
    -----
    Cost of a step: one pass over the data (its non-zeros), one linear minimisation, the columns of one atom.

    For a convex f the suboptimality is at most :math:`2 C_f / (t + 2)`, :math:`C_f` the curvature of f over the set
    (Jaggi 2013, Theorem 1). ``gap`` of a step is the exact Frank-Wolfe gap of the objective before it.

    Which steps are faster depends on where the minimum lies. In the relative interior of a face of a polytope, where a
    ball that binds puts it, line search zig-zags between the face's vertices and is no faster than about 1 / t (Canon
    and Cullum 1968), while 2 / (t + 2), which does not look at the objective, reaches 1 / t^2 (Wirth, Kerdreux and
    Pokutta 2023). In the interior of the set, and on the boundary of a strongly convex one, line search is linear, and
    2 / (t + 2) remains at 1 / t^2. Suboptimality after 2,000 steps, relative to the start's:

    =================================================== ==================== ============= ==============
    problem, and where its minimum lies                 short steps / exact  2 / (t + 2)   default
    =================================================== ==================== ============= ==============
    breast cancer, log, l1 ball of radius 3 (face)      2e-4 / 1e-4          1e-7          2 / (t + 2)
    the same, features not scaled (face)                3e-2 / 9e-3          1e-4          2 / (t + 2)
    300 x 100 Gaussian, squared, l1, 3 (face)           2e-4                 5e-7          2 / (t + 2)
    the same, box (face)                                2e-5                 5e-8          2 / (t + 2)
    the same, simplex (face of 3 vertices)              0                    4e-7          2 / (t + 2)
    2,000 x 5,000 sparse, log, l1, 50 (face)            7e-3 / 5e-3          1e-4          2 / (t + 2)
    the same, l1, 5 (face)                              5e-4 / 0             1e-6          2 / (t + 2)
    Gaussian, squared, l1, 50 (interior)                5e-11                8e-4          2 / (t + 2)
    the same, l2 ball of radius 20 (interior)           0                    1e-5          line search
    the same, l2, 1 (boundary)                          0                    3e-9          line search
    =================================================== ==================== ============= ==============

    (0: below 1e-15.) So name ``LineSearch()`` for a polytope so large that it does not bind. The gap at the last point
    falls like 1 / t with either on a face: to certify 3e-4 of the start takes 1,059 steps of the first problem by line
    search, 177 by 2 / (t + 2). :class:`AwayFW` and :class:`PairwiseFW` are linear on all polytopes, by line search.

    References
    ----------
    .. [1] M. Frank, P. Wolfe, `An algorithm for quadratic programming <https://doi.org/10.1002/nav.3800030109>`_, 1956.
    .. [2] M. Jaggi, `Revisiting Frank-Wolfe <https://proceedings.mlr.press/v28/jaggi13.html>`_, ICML 2013.
    .. [3] M. Canon, C. Cullum, `A Tight Upper Bound on the Rate of Convergence of Frank-Wolfe Algorithm
       <https://doi.org/10.1137/0306032>`_, SIAM Journal on Control 6(4), 1968.
    .. [4] E. Wirth, T. Kerdreux, S. Pokutta, `Acceleration of Frank-Wolfe Algorithms with Open-Loop Step-Sizes
       <https://arxiv.org/abs/2205.12838>`_, AISTATS 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> y = X[:, 3] - 0.5 * X[:, 7]
    >>> result = optim.FW().minimize(X, y, constraint=sets.L1Ball(1.4), steps=500, tol=0.02)
    >>> result.success, result.n_exact_gradients == result.nit + 1
    (True, True)
    >>> np.flatnonzero(np.abs(result.x) > 0.1)
    array([3, 7])
    """

    _method_class = FWMethod

    def _step(self, run: FullRun, look: Look) -> None:
        run.go_towards(look.s, look.towards)

    def _own_schedule(self, run: FullRun) -> Schedule:
        return Harmonic() if not run.is_online and is_polytope(run.constraint) else LineSearch()
