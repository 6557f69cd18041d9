r"""The constants of stochastic Frank-Wolfe's theorems on a data set (Negiar et al. 2020).

Its rate depends on how far predictions can move within the set, :math:`D_p = \max_{u, v \in C} \|X (u - v)\|_p`, and on

.. math:: \kappa = D_1 / D_\infty \in [1, n],

which is small where few samples share a feature: 0.02 n on documents, near n where columns are dense.
"""

from __future__ import annotations

import math
import typing

import numpy as np
from scipy import sparse

from fwonline import sets
from fwonline._checks import check_positive

if typing.TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["kappa", "stochastic_gap_bound"]


def _columns(X: typing.Any) -> tuple[np.ndarray, np.ndarray]:
    """sum_i |X_ij| and max_i |X_ij| of each column."""
    if sparse.issparse(X):
        size = abs(sparse.csc_array(X, dtype=np.float64))
        largest = size.max(axis=0).toarray().ravel() if size.shape[1] else np.zeros(0)
        return np.asarray(size.sum(axis=0)).ravel(), largest
    size = np.abs(np.asarray(X, dtype=np.float64))
    if size.ndim != 2:
        raise ValueError(f"X must be a matrix of samples x features, got shape {size.shape}")
    return size.sum(axis=0), size.max(axis=0, initial=0.0)


def _widths(X: typing.Any, constraint: sets.ConvexSet) -> tuple[float, float]:
    """D_1 and D_infinity."""
    if isinstance(constraint, sets.L1Ball | sets.ProbabilitySimplex | sets.UnitSimplex):
        sums, largest = _columns(X)
        widest = 2.0 * float(constraint.radius)
        return widest * float(sums.max(initial=0.0)), widest * float(largest.max(initial=0.0))
    if isinstance(constraint, sets.ConvexHull):
        images = np.asarray(X @ np.asarray(constraint.vertices, dtype=np.float64).T)
        pairs = [np.abs(images - images[:, [k]]) for k in range(images.shape[1])]
        return max(float(p.sum(axis=0).max()) for p in pairs), max(float(p.max()) for p in pairs)
    raise ValueError(f"constraint must be an l1 ball, a simplex or a hull of points, got {constraint}")


def kappa(X: typing.Any, constraint: sets.ConvexSet | None = None) -> float:
    r"""How much of a data set one step of stochastic Frank-Wolfe can touch, :math:`\kappa = D_1 / D_\infty`.

    Over an l1 ball, of any radius, it is :math:`\max_j \sum_i |X_{ij}| / \max_{ij} |X_{ij}|` (equation 34 of [1]_).
    :class:`SFW` then needs :math:`O(\kappa / \varepsilon)` gradients of single samples, where methods without
    a memory need more; :math:`\kappa / n` near 1 says that memory cannot help.

    Parameters
    ----------
    X
        Samples x features, a dense array or a scipy sparse matrix.
    constraint
        The set: an l1 ball (the default) or a simplex, for which the same number is returned, or a
        :class:`~fwonline.sets.ConvexHull`, whose pairs of vertices are all looked at.

    Returns
    -------
    float
        In [1, n]; 1.0 for a matrix of zeros. For simplices both of its parts are bounds of the true widths.

    Notes
    -----
    Cost: one pass over the data; n times the square of the number of vertices for a hull.

    References
    ----------
    .. [1] G. Negiar et al., `Stochastic Frank-Wolfe for Constrained Finite-Sum Minimization
       <https://arxiv.org/abs/2002.11860>`_, ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim
    >>> optim.kappa(np.eye(5)), optim.kappa(np.ones((5, 2)))
    (1.0, 5.0)
    """
    d1, d_inf = _widths(X, sets.L1Ball(1.0) if constraint is None else constraint)
    return d1 / d_inf if d_inf > 0.0 else 1.0


def stochastic_gap_bound(
    X: typing.Any,
    steps: int,
    *,
    constraint: sets.ConvexSet,
    lipschitz: float,
    batch_size: int = 1,
    gammas: ArrayLike | None = None,
    initial: float | None = None,
) -> np.ndarray:
    r"""How far the gap that :class:`SFW` estimates lies from the true one at most, in expectation, after each step.

    With :math:`H_t = \frac1n \sum_i |f_i'(\langle x_i, w_{t-1} \rangle) - \alpha_{t,i}|`, the error of the derivatives
    remembered, the estimate :math:`\hat g_t = \max_{s \in C} \langle r_t, w_{t-1} - s \rangle` (equation 31) is within

    .. math:: |\hat g_t - g_t| \le D_\infty H_t

    of the true gap at every step (Proposition 1 of [1]_), since r - grad f is X^T of these errors over n. In a step of
    size :math:`\gamma` the derivatives move by at most :math:`\gamma L D_1 / n` in the mean, and a batch of b samples
    renews each with probability b / n, so that

    .. math:: E\,H_{t+1} \le \left( 1 - \frac bn \right) \left( E\,H_t + \gamma_t \frac{L D_1}{n} \right),
        \qquad E\,H_1 \le \left( 1 - \frac bn \right) H_0 ;

    the recursion is run as it stands, where the paper bounds it by :math:`O(1 / t)` in closed form.

    Parameters
    ----------
    X
        Samples x features, a dense array or a scipy sparse matrix.
    steps
        T, >= 1.
    constraint
        The set: an l1 ball, a simplex or a hull of points.
    lipschitz
        L, the largest second derivative of the loss in its prediction; > 0. 2 for the squared loss, 1/4 for ``Log``.
    batch_size
        b, in [1, n].
    gammas
        The steps' sizes, at least T - 1 numbers; 2 / (t + 2) with t = 0, 1, ... by default.
    initial
        :math:`H_0`, the mean size of the derivatives at the start, which SFW takes for 0 there. By default that of the
        log loss at w = 0, 1/2.

    Returns
    -------
    numpy.ndarray
        The bound :math:`D_\infty E\,H_t` for t = 1, ..., T.

    Raises
    ------
    ValueError
        If a parameter is outside its range: the message names it.

    References
    ----------
    .. [1] G. Negiar et al., `Stochastic Frank-Wolfe for Constrained Finite-Sum Minimization
       <https://arxiv.org/abs/2002.11860>`_, ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> bound = optim.stochastic_gap_bound(np.eye(10), 1000, constraint=sets.L1Ball(1.0), lipschitz=0.25)
    >>> bool(bound[-1] < 0.01 * bound.max())
    True
    """
    n = X.shape[0]
    if steps < 1:
        raise ValueError(f"steps must be an integer >= 1, got {steps!r}")
    if not 1 <= batch_size <= n:
        raise ValueError(f"batch_size must be in [1, {n}], got {batch_size!r}")
    check_positive("lipschitz", lipschitz)
    sizes = 2.0 / (np.arange(steps) + 2.0) if gammas is None else np.asarray(gammas, dtype=np.float64)
    if sizes.ndim != 1 or sizes.size < steps - 1 or not ((sizes >= 0.0) & (sizes <= 1.0)).all():
        raise ValueError(f"gammas must be at least {steps - 1} numbers in [0, 1]")
    start = 0.5 if initial is None else initial
    if not 0.0 <= start < math.inf:
        raise ValueError(f"initial must be a finite number >= 0, got {initial!r}")
    d1, d_inf = _widths(X, constraint)
    kept = 1.0 - batch_size / n
    error = np.empty(steps)
    error[0] = kept * start
    for t in range(1, steps):
        error[t] = kept * (error[t - 1] + sizes[t - 1] * lipschitz * d1 / n)
    return d_inf * error
