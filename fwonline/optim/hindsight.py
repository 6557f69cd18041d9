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
from fwonline.optim.problem.score_loss import ScalarLoss
from fwonline.optim.problem.smoothed import Quadratic, SmoothedSum, Tangent
from fwonline.sets import ConvexSet, L2Ball, ProbabilitySimplex

if typing.TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = ["Bracket", "best_fixed_point", "best_fixed_point_quadratic"]

_PERFECT = 1e-3  # a fit this much better than the best constant's is as good as perfect: precision asks for no less
_FEW = 256  # features for which sums of products replace the samples of the squared loss
_PATIENCE = 1000  # iterations in which the bracket must have shrunk by a tenth
_ATOM_PATIENCE = 20  # the same where an iteration solves a small problem
_QUADRATIC_PATIENCE = 200  # the same where another method can go on
_POLISH = 10  # iterations after a mixture that was found exactly
_TINY = 1e-9  # the same as _PERFECT where only the value at the start is known, whatever the features' offsets


class Bracket(typing.NamedTuple):
    """A point of the set and the two bounds of the optimum that it comes with.

    Attributes
    ----------
    x
        The best point found, shape (d,). It lies in the set.
    upper
        Its objective, at least the optimum.
    lower
        A number that the optimum cannot lie below.
    gap
        `upper - lower`, at least 0.
    nit
        Iterations used.
    """

    x: Array
    upper: float
    lower: float
    gap: float
    nit: int


class _Search:
    """The bracket while it closes, until it is as narrow as asked for, or has stopped to shrink."""

    def __init__(
        self,
        objective: SmoothedSum | Quadratic,
        constraint: ConvexSet,
        w: Array,
        *,
        tol: float = 0.0,
        target: float = 0.0,
        max_iter: int,
        patience: int,
        scale: float | None = None,
    ):
        self.objective, self.constraint = objective, constraint
        self.tol, self.target, self.max_iter, self.patience = tol, target, max_iter, patience
        self.w, self.z = w, objective.image(w)
        self.upper = objective.value(w, self.z)
        self.lower = -np.inf
        self.solved, self.least = w, np.inf  # of the points solved for that of the least gap
        self.nit = 0
        self._floor = _TINY * abs(self.upper) if scale is None else _PERFECT * min(abs(scale), abs(self.upper))
        self._checked, self._width = 0, np.inf
        if objective.kinks is not None and objective.mu == 0.0:
            # An envelope of this width is lower than its loss by a tenth of what there is to lose.
            steepest = max(float(np.max(np.abs(s))) for s in objective.kinks[2:])
            objective.mu = 0.2 * max(abs(self.upper), np.finfo(float).tiny) / steepest**2

    def offer(self, w: Array, z: Array) -> None:
        """Take a point of the set if it is the best so far."""
        value = self.objective.value(w, z)
        if value < self.upper:
            self.w, self.z, self.upper = w, z, value

    def try_out(self, w: Array) -> None:
        """Take a point that was solved for, and its tangent even where its value is no better in the numbers at hand.

        Where the function is steep one way, a value says little of how exact a point is, and its gradient much.
        """
        z = self.objective.image(w)
        tangent = self.objective.tangent(w, z)
        gap = self.touch(tangent)
        if gap < self.least:
            self.solved, self.least = w, gap
        self.offer(w, z)

    def touch(self, tangent: Tangent) -> float:
        """Raise the lower bound by a tangent; return the Frank-Wolfe gap of the smooth function at its point."""
        towards = self.constraint.lmo(tangent.gradient).dot(tangent.gradient)
        bound = tangent.offset + towards
        size = abs(tangent.value) + abs(tangent.offset) + abs(towards) + self.objective.scale
        rounding = 8 * np.finfo(float).eps * size
        self.lower = max(self.lower, bound - rounding)
        return tangent.value - tangent.blur - bound

    def sharpen(self, gap: float, blur: float) -> bool:
        """Draw the envelopes closer once their blur, and no longer the gap, is what keeps the bracket open."""
        if self.objective.kinks is None or gap > blur:
            return False
        self.objective.mu *= 0.25
        return True

    @property
    def width(self) -> float:
        return self.upper - self.lower

    @property
    def narrow(self) -> bool:
        return self.width <= max(self.target, self.tol * max(abs(self.upper), self._floor))

    def done(self) -> bool:
        if self.narrow or self.nit >= self.max_iter:
            return True
        if self.nit - self._checked >= self.patience:
            if self.width > 0.9 * self._width:
                return True
            self._checked, self._width = self.nit, self.width
        return False

    def go_on(self, patience: int, max_iter: int) -> None:
        """Give another method its chance, from the best point and with the bounds reached."""
        self.max_iter = max_iter
        self.patience, self._checked, self._width = patience, self.nit, np.inf

    def bracket(self) -> Bracket:
        # Like the lower bound, the upper one allows for what its sums round away.
        upper = float(self.upper) + 8 * float(np.finfo(float).eps) * self.objective.scale
        lower = min(float(self.lower), upper)
        return Bracket(self.w, upper, lower, upper - lower, self.nit)


def _accelerate(search: _Search) -> None:
    """Accelerated projected gradient; the momentum is dropped where it points uphill."""
    objective, project = search.objective, search.constraint.project
    w, z = search.w, search.z
    v, image, theta = w, z, 1.0
    tangent = objective.tangent(v, image)
    curvature = float(np.linalg.norm(tangent.gradient)) / search.constraint.diameter(w.shape) or 1.0
    while True:
        gap = search.touch(tangent)
        if search.done():
            return
        search.nit += 1
        if search.sharpen(gap, tangent.blur):
            curvature *= 4.0
            v, image, theta = w, z, 1.0
            tangent = objective.tangent(v, image)
        curvature *= 0.9
        while True:
            w_next = project(v - tangent.gradient / curvature)
            z_next = objective.image(w_next)
            step = w_next - v
            model = tangent.value + float(tangent.gradient @ step) + 0.5 * curvature * float(step @ step)
            slack = 1e-14 * abs(tangent.value)
            if objective.smooth_value(w_next, z_next) <= model + slack or not step.any():
                break
            curvature *= 2.0
        search.offer(w_next, z_next)
        if float((v - w_next) @ (w_next - w)) > 0:
            theta = 1.0
        theta_next = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * theta * theta))
        momentum = (theta - 1.0) / theta_next
        v, image = w_next + momentum * (w_next - w), z_next + momentum * (z_next - z)
        w, z, theta = w_next, z_next, theta_next
        tangent = objective.tangent(v, image)
        if not tangent.is_finite:  # the momentum left the domain in which the loss is finite
            v, image, theta = w, z, 1.0
            tangent = objective.tangent(v, image)


def _by_atoms(search: _Search) -> None:
    """Fully corrective Frank-Wolfe: the best mixture of the atoms found so far, then the oracle's next atom."""
    objective = search.objective
    atoms, mixing = search.w[:, None], np.ones(1)
    while True:
        tangent = objective.tangent(search.w, search.z)
        search.touch(tangent)
        if search.done():
            return
        search.nit += 1
        atom = search.constraint.lmo(tangent.gradient).to_dense()
        atoms, mixing = np.column_stack((atoms, atom)), np.append(mixing, 0.0)
        mixed = objective.over(atoms)
        if isinstance(mixed, Quadratic):
            mixing = mixed.best_mixture(mixing)
            search.try_out(atoms @ mixing)
        inner = _Search(
            mixed,
            ProbabilitySimplex(),
            mixing,
            target=0.1 * search.width,
            max_iter=_POLISH if isinstance(mixed, Quadratic) else _PATIENCE,
            patience=_PATIENCE,
        )
        _accelerate(inner)
        objective.mu = inner.objective.mu
        kept = inner.w > 0
        atoms, mixing = atoms[:, kept], inner.w[kept] / inner.w[kept].sum()
        w = atoms @ mixing
        search.offer(w, objective.image(w))


def _of_quadratic(search: _Search) -> None:
    """A quadratic function over a set: in an l2 ball by its eigenvectors, elsewhere by mixtures of atoms."""
    objective, constraint = search.objective, search.constraint
    assert isinstance(objective, Quadratic)
    if type(constraint) is L2Ball:
        search.try_out(objective.best_in_ball(constraint.radius))
        search.nit += 1
    elif np.isfinite(size := float(np.abs(np.diag(objective.H)).max())) and size > 0.0:
        # Where the set does not bind, no mixture of atoms is as exact as the equations themselves.
        scale = np.sqrt(np.maximum(np.diag(objective.H), 1e-16 * size))
        w = np.linalg.lstsq(objective.H / np.outer(scale, scale), objective.b / scale, rcond=None)[0] / scale
        if constraint.violation(w) == 0.0:
            search.try_out(w)
    if not search.narrow:
        _by_atoms(search)


def _by_newton(search: _Search) -> None:
    """Newton's steps on samples of few features: a quadratic model, its best point of the set, and the best way there.

    Neither the scale of features nor how far they lie from 0 plays a part.
    """
    objective = search.objective
    assert isinstance(objective, SmoothedSum)
    w, z = search.w, search.z
    while True:
        tangent = objective.tangent(w, z)
        gap = search.touch(tangent)
        if search.done():
            return
        search.nit += 1
        if search.sharpen(gap, tangent.blur):
            tangent = objective.tangent(w, z)
        H = objective.curvature(z)
        model = Quadratic(H, H @ w - tangent.gradient, 0.0)
        patience = max(_ATOM_PATIENCE, w.size)
        inner = _Search(
            model, search.constraint, w, target=0.05 * max(gap, 0.0), max_iter=4 * patience, patience=patience
        )
        _of_quadratic(inner)
        step, way = inner.solved - w, objective.image(inner.solved) - z
        low, high, t = 0.0, 1.0, 1.0
        while low < high and high - low > 1e-9 * high:  # the smooth function's slope along the way rises
            slope = objective.slope_along(z + t * way, way)
            low, high = (low, t) if slope > 0.0 else (t, high)
            t = 0.5 * (low + high)
        if not low > 0.0:
            return
        w, z = w + low * step, z + low * way
        search.offer(w, z)


def _solve(
    objective: SmoothedSum | Quadratic,
    constraint: ConvexSet,
    d: int,
    *,
    x0: ArrayLike | None,
    tol: float,
    max_iter: int,
    scale: float | None = None,
) -> Bracket:
    if not tol >= 0:
        raise ValueError(f"tol must be a number >= 0, got {tol!r}")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, got {max_iter!r}")
    if x0 is None:
        start = constraint.initial_point(d)
    else:
        start = np.array(x0, dtype=np.float64)
        if start.shape != (d,):
            raise ValueError(f"x0 has shape {start.shape}, the data have {d} features")
        if constraint.can_project:
            start = constraint.project(start)
        elif not constraint.contains(start):
            raise ValueError(
                f"x0 must lie in {constraint}, which has no projection; it is off by {constraint.violation(start)}"
            )
    with np.errstate(over="ignore", invalid="ignore"):  # a step too far is not finite, and is taken back
        patience = _QUADRATIC_PATIENCE if isinstance(objective, Quadratic) else _PATIENCE
        another = isinstance(objective, Quadratic) or d <= _FEW
        first = max(1, max_iter // 2) if constraint.can_project and another else max_iter
        search = _Search(objective, constraint, start, tol=tol, max_iter=first, patience=patience, scale=scale)
        if not objective.tangent(search.w, search.z).is_finite:
            raise ValueError(f"the loss is not finite at the start, whose largest entry is {np.abs(start).max():g}")
        if constraint.can_project:
            _accelerate(search)
        if not constraint.can_project or (isinstance(objective, Quadratic) and not search.narrow):
            search.go_on(max(_ATOM_PATIENCE, min(d, _FEW)), max_iter)
            if isinstance(objective, Quadratic):
                _of_quadratic(search)
            else:
                _by_atoms(search)
        if isinstance(objective, SmoothedSum) and d <= _FEW and constraint.can_project and not search.narrow:
            search.go_on(_ATOM_PATIENCE, max_iter)
            _by_newton(search)
    return search.bracket()


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

    Returns
    -------
    Bracket
        `x`, `upper`, `lower`, `gap`, `nit`.

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
    data = SparseColumns(X) if scipy.sparse.issparse(X) else DenseColumns(X, by_rows=True)
    samples = SmoothedSum(data, targets, ScalarLoss(loss), p)
    if type(loss) is Squared and d <= min(_FEW, n):
        best = _solve(samples.quadratic(), constraint, d, x0=x0, tol=tol, max_iter=max_iter, scale=samples.constant())
        upper = max(samples.value(best.x, samples.image(best.x)), best.lower)  # without what cancels in the sums
        return best._replace(upper=upper, gap=upper - best.lower)
    return _solve(samples, constraint, d, x0=x0, tol=tol, max_iter=max_iter, scale=samples.constant())


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
    return _solve(Quadratic(H, b, float(c)), constraint, b.size, x0=x0, tol=tol, max_iter=max_iter)


def _vector(name: str, values: ArrayLike, n: int) -> Array:
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (n,):
        raise ValueError(f"{name} must have one entry for each of the {n} samples; shape {vector.shape}")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} must be finite everywhere")
    return vector
