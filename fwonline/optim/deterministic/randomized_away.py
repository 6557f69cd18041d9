"""Away-step Frank-Wolfe with a subsampled oracle (Kerdreux, Pedregosa, d'Aspremont 2018, Algorithm 2)."""

from __future__ import annotations

import typing

from fwonline.optim.deterministic.away import step_or_away
from fwonline.optim.deterministic.base import Corrective, FullGradient, SampledOracle

if typing.TYPE_CHECKING:
    from fwonline.optim.runs.full_run import FullRun, Look


__all__ = ["RandomizedAwayFW"]


class RandomizedAwayFW(SampledOracle, Corrective, FullGradient):
    r"""Away-step Frank-Wolfe whose oracle sees a random fraction of the atoms (Kerdreux et al. 2018, Algorithm 2).

    The iterate is a mixture of atoms :math:`S_t`. A random part :math:`\mathcal{A}_t` of the atoms outside joins them,
    :math:`V_t = S_t \cup \mathcal{A}_t`, and

    .. math::
        s_t = \arg\min_{s \in V_t} \langle \nabla f(w_t), s \rangle, \qquad
        v_t = \arg\max_{v \in S_t} \langle \nabla f(w_t), v \rangle ;

    the step goes towards :math:`s_t` or away from :math:`v_t`, whichever descends more steeply, as in :class:`AwayFW`.
    Atoms are drawn in blocks, as in :class:`RandomizedFW`, and only the coordinates of :math:`V_t` are computed.

    When to use it: offline, for sparse solutions of high precision among many features (a lasso in its l1 ball).

    Parameters
    ----------
    fraction
        :math:`\eta`, the fraction of the blocks drawn for each step, in (0, 1]; rounded up to a whole number of them.
    memory, steps_per_sample
        Samples held online, and steps for each of them, >= 1. Offline (:meth:`minimize`) the whole data set is held.
    schedule
        Step sizes, cut where they would leave the set; by default the objective decides: ``LineSearch()``.
    check
        Offline with a ``tol`` the whole gradient is taken, and the oracle asked about all atoms, before every
        ``check`` times floor(1 / fraction) steps; >= 1.

    Notes
    -----
    Cost of a step: O(n) for the derivatives, the columns drawn and active, those of one atom.

    For a strongly convex f over a polytope the expected suboptimality falls linearly, like
    :math:`(1 - \eta^2 \rho_f)^{\max(0, \lfloor (t - s) / 2 \rfloor)}` with s the size of the first active set (Theorem
    3.1 of [1]_). ``gap`` of a step is its slope towards the best atom of :math:`V_t`: a lower bound of the Frank-Wolfe
    gap. ``n_drop_steps`` counts the steps that took an atom out of the active set.

    References
    ----------
    .. [1] T. Kerdreux, F. Pedregosa, A. d'Aspremont, `Frank-Wolfe with Subsampling Oracle
       <https://arxiv.org/abs/1803.07348>`_, ICML 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> X = np.random.default_rng(0).normal(size=(100, 200))
    >>> y = X[:, 3] - 0.5 * X[:, 7]
    >>> sampled = optim.RandomizedAwayFW(fraction=0.1)
    >>> result = sampled.minimize(X, y, constraint=sets.L1Ball(1.4), steps=5000, tol=1e-8, seed=0)
    >>> result.success, np.flatnonzero(result.x)
    (True, array([3, 7]))
    """

    def _step(self, run: FullRun, look: Look) -> None:
        step_or_away(run, look)
