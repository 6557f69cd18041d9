"""Frank-Wolfe (Frank, Wolfe 1956; Jaggi 2013)."""

from __future__ import annotations

import typing

from fwonline.optim.full_gradient import FullGradient
from fwonline.optim.full_run import ForwardRun

if typing.TYPE_CHECKING:
    pass

__all__ = ["FW"]


class FW(FullGradient):
    r"""Frank-Wolfe with the exact gradient of all samples it holds (Frank, Wolfe 1956; Jaggi 2013).

    .. math::
        s_t = \arg\min_{s \in C} \langle \nabla f(w_t), s \rangle, \qquad
        w_{t+1} = (1 - \gamma_t) w_t + \gamma_t s_t, \qquad
        f(w) = \frac1n \sum_i \text{loss}(y_i, \langle x_i, w \rangle).

    Online f is the mean over the last ``memory`` samples, and each new sample pays for ``steps`` steps.

    When to use it: offline, for few steps on data of moderate size, with a gap that is exact at every step; online,
    where a small memory and a whole gradient of it are affordable. :class:`SFW` takes far cheaper steps.

    Parameters
    ----------
    memory
        Samples held online, >= 1. Offline (:meth:`minimize`) the whole data set is.
    steps
        Steps a sample online, >= 1.
    schedule
        Step sizes, such as ``Harmonic()``, the 2 / (t + 2) of the theorem. By default the objective decides: the exact
        line search for the squared loss; for losses whose second derivative is at most L, the minimum of
        the quadratic bound with L along the direction, :math:`\gamma = g_t / (\frac{L}{n} \|X (s_t - w_t)\|^2)`; for
        all others bisection.

    Notes
    -----
    Cost of a step: one pass over the data (its non-zeros), one linear minimisation, the columns of one atom.

    For a convex f the suboptimality is at most :math:`2 C_f / (t + 2)`, :math:`C_f` the curvature of f over the set
    (Jaggi 2013, Theorem 1). ``gap`` of a step is the exact Frank-Wolfe gap of the objective before it.

    References
    ----------
    .. [1] M. Frank, P. Wolfe, `An algorithm for quadratic programming <https://doi.org/10.1002/nav.3800030109>`_, 1956.
    .. [2] M. Jaggi, `Revisiting Frank-Wolfe <https://proceedings.mlr.press/v28/jaggi13.html>`_, ICML 2013.

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

    _run_class = ForwardRun
