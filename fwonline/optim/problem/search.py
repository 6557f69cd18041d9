"""The search for a best point between two bounds: while the bracket closes, by one method or another."""

from __future__ import annotations

import typing

import numpy as np

from fwonline.optim.problem.smoothed import Quadratic, SmoothedSum, Tangent
from fwonline.sets import ConvexSet, L2Ball, ProbabilitySimplex

if typing.TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = ["FEW", "Bracket", "solve"]

_PERFECT = 1e-3  # a fit this much better than the best constant's is as good as perfect: precision asks for no less
FEW = 256  # features for which sums of products replace the samples of the squared loss
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
    intercept
        The best one for `x`; 0.0 where none was asked for.
    """

    x: Array
    upper: float
    lower: float
    gap: float
    nit: int
    intercept: float = 0.0


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


def solve(
    objective: SmoothedSum | Quadratic,
    constraint: ConvexSet,
    d: int,
    *,
    x0: ArrayLike | None,
    tol: float,
    max_iter: int,
    scale: float | None = None,
) -> Bracket:
    """The best point of a set, between two bounds: see `hindsight.py`."""
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
        another = isinstance(objective, Quadratic) or d <= FEW
        first = max(1, max_iter // 2) if constraint.can_project and another else max_iter
        search = _Search(objective, constraint, start, tol=tol, max_iter=first, patience=patience, scale=scale)
        if not objective.tangent(search.w, search.z).is_finite:
            raise ValueError(f"the loss is not finite at the start, whose largest entry is {np.abs(start).max():g}")
        if constraint.can_project:
            _accelerate(search)
        if not constraint.can_project or (isinstance(objective, Quadratic) and not search.narrow):
            search.go_on(max(_ATOM_PATIENCE, min(d, FEW)), max_iter)
            if isinstance(objective, Quadratic):
                _of_quadratic(search)
            else:
                _by_atoms(search)
        if isinstance(objective, SmoothedSum) and d <= FEW and constraint.can_project and not search.narrow:
            search.go_on(_ATOM_PATIENCE, max_iter)
            _by_newton(search)
    return search.bracket()
