r"""The best fixed point in hindsight, between two bounds: what a regret is measured against.

For a convex loss :math:`f`, data :math:`x_i, y_i` and a convex set :math:`C`

.. math::  F^* = \min_{w \in C} F(w), \qquad F(w) = \sum_i p_i f(y_i, \langle x_i, w \rangle), \quad \sum_i p_i = 1.

Any point of the set bounds :math:`F^*` from above. From below, any numbers :math:`\alpha_i` that are slopes of the loss
at some predictions :math:`u_i` do, since a convex function lies above its tangents:

.. math::  F^* \ge \sum_i p_i \left( f(y_i, u_i) - \alpha_i u_i \right)
           + \min_{s \in C} \Big\langle \sum_i p_i \alpha_i x_i, s \Big\rangle .

With :math:`u_i = \langle x_i, w \rangle` this is :math:`F(w)` minus the Frank-Wolfe gap at :math:`w`, and one call of
the set's oracle. Neither bound depends on how well a method converged, so the bracket is true at every iteration, and
the iterations only make it narrow.

Method: accelerated projected gradient with backtracking and restarts on sets with a projection; on others the atoms
found by the oracle, fully corrected by the same method over their mixtures. Where features differ much in scale, or
lie far from 0 on one side, the former takes as many iterations as the ratio of the two says. A quadratic that it has
not finished in half of the iterations goes on with the latter, whose mixtures are then found exactly (in an l2 ball by
the eigenvectors of the quadratic); another loss of at most 256 features goes on with Newton's steps, whose quadratic
models are minimised over the set in that way. Neither sees scales or offsets. With more features than that the bracket
may stay wide: centre and scale them.

An intercept b, which no set bounds, is left to each point: :math:`\min_b F(w, b)` is convex in w, too. Its lower planes
are mixtures of those at two intercepts on both sides of the best one, in which the slope along b cancels.

Losses with kinks are replaced by their Moreau envelopes, which come closer as the bracket closes. The slopes of an
envelope are slopes of the loss itself, at the points :math:`u_i` where the envelope takes its minimum, so the lower
bound is one for the true loss.

Sources: Jaggi 2013, https://proceedings.mlr.press/v28/jaggi13.html (the gap as a certificate); Beck, Teboulle 2009,
https://doi.org/10.1137/080716542; O'Donoghue, Candes 2015, https://arxiv.org/abs/1204.3982 (restarts); Nesterov 2005,
https://doi.org/10.1007/s10107-004-0552-5 (smoothing); Von Hohenbalken 1977, https://doi.org/10.1007/BF01593810
(simplicial decomposition); Wolfe 1976, https://doi.org/10.1007/BF01580381 (active sets).
"""

from __future__ import annotations

import typing

import numpy as np
import scipy.sparse
from river.optim.losses import Squared

from fwonline import losses
from fwonline.optim.problem.columns import DenseColumns, SparseColumns
from fwonline.optim.problem.profiled import ProfiledSum
from fwonline.optim.problem.score_loss import ScalarLoss
from fwonline.optim.problem.search import FEW, Bracket, solve
from fwonline.optim.problem.smoothed import Quadratic, SmoothedSum
from fwonline.sets import ConvexSet

if typing.TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = ["Bracket", "best_fixed_point", "best_fixed_point_quadratic"]


def best_fixed_point(
    X: typing.Any,
    y: ArrayLike,
    *,
    loss: typing.Any,
    constraint: ConvexSet,
    tol: float = 1e-6,
    max_iter: int = 20_000,
    x0: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    intercept: bool = False,
) -> Bracket:
    r"""Minimise the mean of `loss(y_i, <x_i, w>)` over a convex set, with two bounds of the optimum.

    The bounds hold for every convex loss at whatever iteration the search ends; only their distance depends on the
    method. Where the constraint has a projection, an iteration costs two products with `X`, one projection and one call
    of the oracle; otherwise, one call of the oracle and a small problem over the atoms found so far.

    Parameters
    ----------
    X
        Samples, shape (n, d), dense or any scipy sparse matrix.
    y
        Targets, shape (n,); 0/1 or booleans for binary losses, as river has them.
    loss
        A river loss, one of `fwonline.losses`, or any object with `__call__(y, p)` and `gradient(y, p)` that is convex
        and differentiable in `p`. Of the losses with kinks, `Absolute`, `Quantile`, `Hinge`, `EpsilonInsensitive` and
        `EpsilonInsensitiveHinge` are known; another one gets true bounds that need not meet.
    constraint
        The set, a `fwonline.sets` object.
    tol
        Ends the search once `upper - lower` is at most `tol` times the objective found, or times a thousandth of that
        of the best constant prediction where that is more, so that a perfect fit ends too.
    max_iter
        Most iterations. The search also ends when the bracket shrinks by less than a tenth in a thousand iterations.
    x0
        Where to start, shape (d,), for instance the optimum of fewer samples; projected onto the set if need be. By
        default the set's initial point.
    sample_weight
        Weights of the samples, shape (n,), not negative and not all 0.
    intercept
        Whether to add an intercept, which no set bounds, to `<x_i, w>`: at every point the best one. The bounds are
        then those of the least loss over both.

    Returns
    -------
    Bracket
        `x`, `upper`, `lower`, `gap`, `nit`, `intercept`.

    Raises
    ------
    ValueError
        For values that are not finite, shapes that do not fit, and a loss that has no best intercept where one is asked
        for.

    Examples
    --------
    >>> import numpy as np
    >>> from river import optim
    >>> from fwonline import sets
    >>> from fwonline.optim.hindsight import best_fixed_point
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> best = best_fixed_point(X, [3.0, 0.0, 3.0], loss=optim.losses.Squared(), constraint=sets.L1Ball(1.0))
    >>> best.x
    array([1., 0.])
    >>> round(best.upper, 6), best.lower <= best.upper, best.gap < 1e-5
    (2.666667, True, True)
    """
    X = X if scipy.sparse.issparse(X) else np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must have samples in rows and features in columns, at least one of each; shape {X.shape}")
    n, d = X.shape
    X = scipy.sparse.csr_array(X, dtype=np.float64) if scipy.sparse.issparse(X) else X
    targets = _vector("y", y, n)
    if not np.isfinite(X.data if scipy.sparse.issparse(X) else X).all():
        raise ValueError("X must be finite everywhere")
    if losses.is_binary(loss) and not np.isin(targets, (0.0, 1.0)).all():
        raise ValueError(f"the labels of {type(loss).__name__} must be 0 and 1, or booleans")
    p = np.full(n, 1.0 / n)
    if sample_weight is not None:
        weight = _vector("sample_weight", sample_weight, n)
        if weight.min() < 0 or weight.sum() <= 0:
            raise ValueError("sample_weight must not be negative, and not all 0")
        p = weight / weight.sum()
    mean = np.zeros(d)
    if intercept and not (scipy.sparse.issparse(X) and X.nnz < 0.25 * n * d):
        X = X.toarray() if scipy.sparse.issparse(X) else X
        mean = p @ X  # which the intercept makes up for
        X = X - mean
    data = SparseColumns(X) if scipy.sparse.issparse(X) else DenseColumns(X, by_rows=True)
    samples = (ProfiledSum if intercept else SmoothedSum)(data, targets, ScalarLoss(loss), p)
    if type(loss) is Squared and d <= min(FEW, n):
        best = solve(samples.quadratic(), constraint, d, x0=x0, tol=tol, max_iter=max_iter, scale=samples.constant())
        upper = max(samples.value(best.x, samples.image(best.x)), best.lower)  # without what cancels in the sums
        best = best._replace(upper=upper, gap=upper - best.lower)
    else:
        best = solve(samples, constraint, d, x0=x0, tol=tol, max_iter=max_iter, scale=samples.constant())
    if not isinstance(samples, ProfiledSum):
        return best
    return best._replace(intercept=samples.exact(samples.image(best.x)) - float(mean @ best.x))


def best_fixed_point_quadratic(
    H: ArrayLike,
    b: ArrayLike,
    c: float,
    constraint: ConvexSet,
    *,
    tol: float = 1e-6,
    max_iter: int = 20_000,
    x0: ArrayLike | None = None,
) -> Bracket:
    r"""Minimise :math:`\tfrac12 w^\top H w - b^\top w + c` over a convex set, with two bounds of the optimum.

    The mean squared error of samples has :math:`H = 2 X^\top X / n`, :math:`b = 2 X^\top y / n` and
    :math:`c = y^\top y / n`, which is all that need be kept of them. An iteration costs O(d^2), whatever their number.

    Parameters
    ----------
    H
        Symmetric positive semidefinite matrix of shape (d, d).
    b
        Vector of shape (d,).
    c
        Constant.
    constraint
        The set.
    tol, max_iter, x0
        As in `best_fixed_point`.

    Returns
    -------
    Bracket
        `x`, `upper`, `lower`, `gap`, `nit`.

    Examples
    --------
    >>> from fwonline import sets
    >>> from fwonline.optim.hindsight import best_fixed_point_quadratic
    >>> best = best_fixed_point_quadratic([[2.0, 0.0], [0.0, 2.0]], [4.0, 0.0], 4.0, sets.L2Ball(1.0))
    >>> best.x.round(6), round(best.upper, 6)
    (array([1., 0.]), 1.0)
    """
    b = np.asarray(b, dtype=np.float64)
    H = np.asarray(H, dtype=np.float64)
    if b.ndim != 1 or b.size == 0 or H.shape != (b.size, b.size):
        raise ValueError(f"b must be a vector of d entries and H a d x d matrix; shapes {b.shape} and {H.shape}")
    if not (np.isfinite(H).all() and np.isfinite(b).all() and np.isfinite(c)):
        raise ValueError("H, b and c must be finite everywhere")
    if not np.allclose(H, H.T):
        raise ValueError("H must be symmetric")
    return solve(Quadratic(H, b, float(c)), constraint, b.size, x0=x0, tol=tol, max_iter=max_iter)


def _vector(name: str, values: ArrayLike, n: int) -> Array:
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (n,):
        raise ValueError(f"{name} must have one entry for each of the {n} samples; shape {vector.shape}")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} must be finite everywhere")
    return vector
