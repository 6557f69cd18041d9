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

import copy
import typing

import numpy as np
import scipy.sparse
from river.optim.losses import Squared

from fwonline import losses
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


class _Tangent(typing.NamedTuple):
    """What is known of a convex function at one point: it lies above `offset + <gradient, .>` everywhere."""

    value: float  # of the smooth function that is minimised
    gradient: Array
    offset: float  # of the true function's lower plane
    blur: float  # how far that plane is below the smooth function's tangent

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.value) and np.isfinite(self.gradient).all())


class _Samples:
    """The mean loss of linear predictions. A point's image is its predictions."""

    def __init__(self, X: typing.Any, y: Array, weight: Array | None, loss: typing.Any):
        self.X = X
        self.XT = scipy.sparse.csr_array(X.T) if scipy.sparse.issparse(X) else np.ascontiguousarray(X.T)
        self.y = y
        self.p = np.full(y.size, 1.0 / y.size) if weight is None else weight / weight.sum()
        self.f, self.slope = losses.vector_loss(loss)
        self.kinks = _kinks(loss, y)
        self.mu = 0.0  # width of the envelope
        self.scale = 0.0  # numbers that cancel in the value, for the rounding of the bounds

    def image(self, w: Array) -> Array:
        return self.X @ w

    def value(self, w: Array, z: Array) -> float:
        return float(self.p @ self.f(self.y, z))

    def _contact(self, z: Array) -> tuple[Array, Array]:
        """Slopes of the smooth losses at z, and the points where the true losses have these slopes."""
        if self.kinks is None:
            return self.slope(self.y, z), z
        k1, k2, s0, s1, s2 = self.kinks
        alpha = np.clip((z - k1) / self.mu, s0, s1) + np.clip((z - k2) / self.mu, s1, s2) - s1
        return alpha, z - self.mu * alpha

    def smooth_value(self, w: Array, z: Array) -> float:
        if self.kinks is None:
            return self.value(w, z)
        alpha, u = self._contact(z)
        return float(self.p @ (self.f(self.y, u) + 0.5 * self.mu * alpha * alpha))

    def tangent(self, w: Array, z: Array) -> _Tangent:
        alpha, u = self._contact(z)
        at_contact = float(self.p @ self.f(self.y, u))
        half = 0.5 * self.mu * float(self.p @ (alpha * alpha))
        weighted = self.p * alpha
        return _Tangent(at_contact + half, self.XT @ weighted, at_contact - float(weighted @ u), half)

    def constant(self) -> float:
        """The mean loss of the best constant prediction, found to a few digits: what a fit is measured by."""
        z = np.zeros_like(self.y)
        low, high = min(float(self.y.min()), -20.0), max(float(self.y.max()), 20.0)
        for _ in range(60):
            middle = 0.5 * (low + high)
            slope = float(self.p @ self.slope(self.y, z + middle))
            low, high = (low, middle) if slope > 0.0 else (middle, high)
        return float(self.p @ self.f(self.y, z + middle))

    def curvature(self, z: Array) -> Array:
        """X' f'' X, with the slope's change over a short way for f''."""
        h = np.maximum(1e-4 * (1.0 + np.abs(z)), 0.5 * self.mu)
        bend = np.maximum(self._contact(z + h)[0] - self._contact(z - h)[0], 0.0) / (2.0 * h)
        weighted = self.p * bend
        X = self.X.multiply(weighted[:, None]).tocsr() if scipy.sparse.issparse(self.X) else self.X * weighted[:, None]
        H = self.XT @ X
        H = H.toarray() if scipy.sparse.issparse(H) else H
        H = 0.5 * (H + H.T)
        # Where no sample bends, as between the kinks, a step must not be without bounds.
        H[np.diag_indices(len(H))] *= 1.0 + 1e-9
        return H

    def quadratic(self) -> _Quadratic:
        """The same function from the sums of squares and products, for the squared loss."""
        scaled = self.X.multiply(self.p[:, None]).tocsr() if scipy.sparse.issparse(self.X) else self.X * self.p[:, None]
        H = self.XT @ scaled
        H = H.toarray() if scipy.sparse.issparse(H) else H
        return _Quadratic(H + H.T, 2.0 * (self.y @ scaled), float(self.p @ (self.y * self.y)))

    def over(self, atoms: Array) -> _Samples:
        """The same function of the weights of a mixture of the columns of `atoms`."""
        mixture = copy.copy(self)
        mixture.X = self.X @ atoms
        mixture.XT = np.ascontiguousarray(mixture.X.T)
        return mixture


class _Quadratic:
    """Half w'Hw minus b'w plus c. A point's image is Hw."""

    kinks = None
    mu = 0.0

    def __init__(self, H: Array, b: Array, c: float):
        self.H, self.b, self.c = H, b, c
        self.scale = abs(c)

    def image(self, w: Array) -> Array:
        return self.H @ w

    def value(self, w: Array, z: Array) -> float:
        return float(w @ (0.5 * z - self.b)) + self.c

    smooth_value = value

    def tangent(self, w: Array, z: Array) -> _Tangent:
        gradient = z - self.b
        value = self.value(w, z)
        return _Tangent(value, gradient, value - float(gradient @ w), 0.0)

    def over(self, atoms: Array) -> _Quadratic:
        return _Quadratic(atoms.T @ self.H @ atoms, atoms.T @ self.b, self.c)

    def best_mixture(self, start: Array) -> Array:
        """Go from a point of the probability simplex to the best one, exactly and however badly scaled.

        These are Wolfe's active sets: the minimum over the affine hull of the entries in use is the answer if it is
        inside; otherwise the entry that is in the way is given up.
        """
        mixing, used = start, np.ones(start.size, dtype=bool)
        while True:
            size = np.sqrt(np.maximum(np.diag(self.H)[used], 0.0))
            size = np.maximum(size, 1e-8 * size.max()) if size.any() else np.ones_like(size)
            k = size.size
            system = np.zeros((k + 1, k + 1))
            system[:k, :k] = self.H[np.ix_(used, used)] / np.outer(size, size)
            system[k, :k] = system[:k, k] = size.min() / size
            wanted = np.append(self.b[used] / size, size.min())
            solution = np.linalg.lstsq(system, wanted, rcond=None)[0]
            solution += np.linalg.lstsq(system, wanted - system @ solution, rcond=None)[0]  # what rounding left
            affine = np.zeros(start.size)
            affine[used] = solution[:k] / size
            leaving = used & (affine <= 0)
            if not leaving.any() or k == 1:
                return np.maximum(affine, 0) / np.maximum(affine, 0).sum() if affine.any() else mixing
            ratio = mixing[leaving] / np.maximum(mixing[leaving] - affine[leaving], np.finfo(float).tiny)
            mixing = np.maximum(mixing + ratio.min() * (affine - mixing), 0.0)
            mixing[np.flatnonzero(leaving)[ratio == ratio.min()]] = 0.0
            used &= mixing > 0


def _kinks(loss: typing.Any, y: Array) -> tuple[typing.Any, ...] | None:
    """Kinks k1 <= k2 and the slopes before, between and after them, of a piecewise linear loss; else None."""
    kind, p, _ = losses.compiled(loss)
    sign = 2.0 * y - 1.0
    if kind == losses.ABSOLUTE:
        return y, y, -1.0, 0.0, 1.0
    if kind == losses.QUANTILE:
        return y, y, -p, 0.0, 1.0 - p
    if kind == losses.EPSILON:
        return y - p, y + p, -1.0, 0.0, 1.0
    if kind == losses.EPSILON_LABEL:
        return sign - p, sign + p, -1.0, 0.0, 1.0
    if kind == losses.HINGE:
        return sign * p, sign * p, np.minimum(-sign, 0.0), 0.0, np.maximum(-sign, 0.0)
    return None


class _Search:
    """The bracket while it closes, until it is as narrow as asked for, or has stopped to shrink."""

    def __init__(
        self,
        objective: _Samples | _Quadratic,
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

    def touch(self, tangent: _Tangent) -> float:
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
        if isinstance(mixed, _Quadratic):
            mixing = mixed.best_mixture(mixing)
            search.try_out(atoms @ mixing)
        inner = _Search(
            mixed,
            ProbabilitySimplex(),
            mixing,
            target=0.1 * search.width,
            max_iter=_POLISH if isinstance(mixed, _Quadratic) else _PATIENCE,
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
    assert isinstance(objective, _Quadratic)
    if type(constraint) is L2Ball:
        search.try_out(_best_in_ball(objective, constraint.radius))
        search.nit += 1
    elif np.isfinite(size := float(np.abs(np.diag(objective.H)).max())) and size > 0.0:
        # Where the set does not bind, no mixture of atoms is as exact as the equations themselves.
        scale = np.sqrt(np.maximum(np.diag(objective.H), 1e-16 * size))
        w = np.linalg.lstsq(objective.H / np.outer(scale, scale), objective.b / scale, rcond=None)[0] / scale
        if constraint.violation(w) == 0.0:
            search.try_out(w)
    if not search.narrow:
        _by_atoms(search)


def _best_in_ball(objective: _Quadratic, radius: float) -> Array:
    """The least point of a quadratic in an l2 ball: (H + shift) w = b with the shift that brings w into it."""
    values, vectors = np.linalg.eigh(objective.H)
    values = np.maximum(values, np.finfo(float).eps * max(float(values[-1]), np.finfo(float).tiny))
    b = vectors.T @ objective.b
    low, high = 0.0, float(np.linalg.norm(b)) / radius
    if np.linalg.norm(b / values) > radius:
        while high - low > 1e-15 * high:
            shift = 0.5 * (low + high)
            if shift in (low, high):
                break
            low, high = (shift, high) if np.linalg.norm(b / (values + shift)) > radius else (low, shift)
        values = values + high
    w = vectors @ (b / values)
    return w * min(1.0, radius / float(np.linalg.norm(w))) if w.any() else w


def _by_newton(search: _Search) -> None:
    """Newton's steps on samples of few features: a quadratic model, its best point of the set, and the best way there.

    Neither the scale of features nor how far they lie from 0 plays a part.
    """
    objective = search.objective
    assert isinstance(objective, _Samples)
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
        model = _Quadratic(H, H @ w - tangent.gradient, 0.0)
        patience = max(_ATOM_PATIENCE, w.size)
        inner = _Search(
            model, search.constraint, w, target=0.05 * max(gap, 0.0), max_iter=4 * patience, patience=patience
        )
        _of_quadratic(inner)
        step, way = inner.solved - w, objective.image(inner.solved) - z
        low, high, t = 0.0, 1.0, 1.0
        while low < high and high - low > 1e-9 * high:  # the smooth function's slope along the way rises
            slope = float(objective.p @ (objective._contact(z + t * way)[0] * way))
            low, high = (low, t) if slope > 0.0 else (t, high)
            t = 0.5 * (low + high)
        if not low > 0.0:
            return
        w, z = w + low * step, z + low * way
        search.offer(w, z)


def _solve(
    objective: _Samples | _Quadratic,
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
        patience = _QUADRATIC_PATIENCE if isinstance(objective, _Quadratic) else _PATIENCE
        another = isinstance(objective, _Quadratic) or d <= _FEW
        first = max(1, max_iter // 2) if constraint.can_project and another else max_iter
        search = _Search(objective, constraint, start, tol=tol, max_iter=first, patience=patience, scale=scale)
        if not objective.tangent(search.w, search.z).is_finite:
            raise ValueError(f"the loss is not finite at the start, whose largest entry is {np.abs(start).max():g}")
        if constraint.can_project:
            _accelerate(search)
        if not constraint.can_project or (isinstance(objective, _Quadratic) and not search.narrow):
            search.go_on(max(_ATOM_PATIENCE, min(d, _FEW)), max_iter)
            if isinstance(objective, _Quadratic):
                _of_quadratic(search)
            else:
                _by_atoms(search)
        if isinstance(objective, _Samples) and d <= _FEW and constraint.can_project and not search.narrow:
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
    weight = None
    if sample_weight is not None:
        weight = _vector("sample_weight", sample_weight, n)
        if weight.min() < 0 or weight.sum() <= 0:
            raise ValueError("sample_weight must not be negative, and not all 0")
    samples = _Samples(X, targets, weight, loss)
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
    return _solve(_Quadratic(H, b, float(c)), constraint, b.size, x0=x0, tol=tol, max_iter=max_iter)


def _vector(name: str, values: ArrayLike, n: int) -> Array:
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (n,):
        raise ValueError(f"{name} must have one entry for each of the {n} samples; shape {vector.shape}")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} must be finite everywhere")
    return vector
