"""Balls of group norms: whole groups of features enter a model, or stay out."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ._numeric import l1_norm, project_on_simplex, relative_magnitudes, unit_vector
from .atoms import Array, Atom, SparseAtom
from .norm_balls import NormBall

__all__ = ["GroupL1Ball", "LatentGroupBall"]

Groups = Sequence[Sequence[int]]


class _GroupBall(NormBall):
    """A ball whose vertices are the points of Euclidean norm `radius` that live on one group."""

    def __init__(self, groups: Groups, radius: float):
        super().__init__(radius)
        self.groups = groups
        name = type(self).__name__
        # The groups' features one after the other, where each group starts there, and the groups' sizes.
        self._members, self._starts, self._sizes = _checked_groups(name, groups)
        n_features = int(self._members.max()) + 1
        # Where the highest is beyond their number, some are missing: they are not counted one by one up to there.
        size = min(n_features, self._members.size + 1)
        counts = np.bincount(self._members[self._members < size], minlength=size)
        if (counts == 0).any():
            last, missing = n_features - 1, int(np.argmin(counts))
            raise ValueError(f"{name}: groups must cover the features 0 to {last}, {missing} is in none")
        self._shape = (n_features,)

    def _norms(self, x: Array) -> Array:
        """Return the Euclidean norm of x on each group, taken relative to the group's largest entry."""
        magnitudes = np.abs(x[self._members])
        largest = np.maximum.reduceat(magnitudes, self._starts)
        unit = np.where(largest > 0, largest, 1.0)
        squares = np.square(magnitudes / np.repeat(unit, self._sizes))
        with np.errstate(over="ignore"):
            return largest * np.sqrt(np.add.reduceat(squares, self._starts))

    def _lmo(self, g: Array) -> Atom:
        best, radius = int(self._norms(relative_magnitudes(g)).argmax()), float(self.radius)
        members = self._members[self._starts[best] :][: self._sizes[best]]
        if g[members].any():
            values = unit_vector(g[members]) * -radius
        else:
            values = np.where(members == members.min(), radius, 0.0)
        return SparseAtom(members.copy(), values, g.shape)


def _checked_groups(
    name: str, groups: Groups
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    try:
        arrays = [np.asarray(group) for group in groups]
    except (TypeError, ValueError):
        raise ValueError(f"{name}: groups must be a list of lists of feature numbers") from None
    if not arrays:
        raise ValueError(f"{name}: groups must have at least one group")
    for position, group in enumerate(arrays):
        if group.ndim != 1 or group.size == 0 or not np.issubdtype(group.dtype, np.integer) or group.min() < 0:
            raise ValueError(f"{name}: groups[{position}] must be a list of one or more integers >= 0")
        if np.unique(group).size < group.size:
            raise ValueError(f"{name}: groups[{position}] names a feature twice")
    sizes = np.array([group.size for group in arrays])
    return np.concatenate(arrays).astype(np.intp), np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes


class GroupL1Ball(_GroupBall):
    """The ball of the group lasso, `sum over groups of ||x_group||_2 <= radius`, for groups that do not overlap.

    The LMO returns `-radius g_group / ||g_group||_2` on the group with the largest `||g_group||_2`, the first on a tie,
    in O(d). Groups of one feature each give the l1 ball, one group of all features the l2 ball. The projection costs
    O(d + m log m) for m groups.

    Parameters
    ----------
    groups
        Lists of feature numbers; together they name each of 0, ..., d - 1 once.
    radius
        Largest norm, finite and > 0.

    Examples
    --------
    >>> from fwonline import sets
    >>> ball = sets.GroupL1Ball(groups=[[0, 1], [2]], radius=5.0)
    >>> ball.norm([3.0, 4.0, -2.0])
    7.0
    >>> ball.lmo([3.0, 4.0, -2.0]).to_dense()
    array([-3., -4.,  0.])
    >>> ball.project([3.0, 4.0, -2.0])
    array([ 2.4,  3.2, -1. ])

    References
    ----------
    Yuan, Lin 2006, "Model selection and estimation in regression with grouped variables",
    https://doi.org/10.1111/j.1467-9868.2005.00532.x
    """

    def __init__(self, groups: Groups, radius: float):
        super().__init__(groups, radius)
        repeated = np.flatnonzero(np.bincount(self._members) > 1)
        if repeated.size:
            raise ValueError(
                f"GroupL1Ball: groups must not overlap, feature {repeated[0]} is in two; LatentGroupBall allows it"
            )

    _examples = ({"groups": [[0, 1], [2]], "radius": 1.0},)

    def _norm(self, x: Array) -> float:
        return l1_norm(self._norms(x))

    def _project(self, x: Array) -> Array:
        norms = self._norms(x)
        if l1_norm(norms) <= self.radius:
            return x.copy()
        shrunk = project_on_simplex(norms, float(self.radius))
        factors = np.divide(shrunk, norms, out=np.zeros_like(norms), where=norms > 0)
        projected = np.empty_like(x)
        projected[self._members] = x[self._members] * np.repeat(factors, self._sizes)
        return projected


class LatentGroupBall(_GroupBall):
    """The convex hull of the points of Euclidean norm `radius` that live on one group; groups may overlap.

    Its norm, the latent group lasso's, is the least `sum of ||v_group||_2` over all ways to write x as a sum of vectors
    `v_group`, each zero outside its group. The support of a sparse point is a union of groups. The LMO returns
    `-radius g_group / ||g_group||_2` on the group with the largest `||g_group||_2`, the first on a tie, and costs the
    sum of the sizes of the groups.

    The norm has no closed form where x needs several groups that overlap. It is then computed by an interior-point
    method over one weight a group, some twenty Newton steps of O(m^2 (d + m)) for m groups, stopped by a duality gap of
    1e-11 of the norm, and the returned number is an upper bound. `violation` is `norm(x) - radius`.

    Parameters
    ----------
    groups
        Lists of feature numbers; together they name each of 0, ..., d - 1 at least once.
    radius
        Largest norm, finite and > 0.

    Examples
    --------
    >>> from fwonline import sets
    >>> ball = sets.LatentGroupBall(groups=[[0, 1], [1, 2]], radius=5.0)
    >>> ball.lmo([1.0, 4.0, 3.0]).to_dense()
    array([ 0., -4., -3.])
    >>> ball.norm([0.0, 4.0, 3.0])
    5.0
    >>> round(ball.norm([1.0, 0.0, 1.0]), 9)
    2.0

    References
    ----------
    Obozinski, Jacob, Vert 2011, "Group lasso with overlaps: the latent group lasso approach",
    https://arxiv.org/abs/1110.0413
    """

    _examples = ({"groups": [[0, 1], [1, 2]], "radius": 1.0},)

    def _norm(self, x: Array) -> float:
        largest = float(np.abs(x).max())
        if largest == 0.0:
            return 0.0
        scaled = x / largest
        support = scaled != 0
        covered = np.add.reduceat(support[self._members], self._starts)
        if covered.max() == np.count_nonzero(support):
            return largest * float(np.linalg.norm(scaled))
        indicator = np.zeros((self._sizes.size, x.size))
        indicator[np.repeat(np.arange(self._sizes.size), self._sizes), self._members] = 1.0
        return largest * _latent_group_norm(np.abs(scaled[support]), _largest_groups(indicator[:, support]))


def _largest_groups(indicator: Array) -> Array:
    """The groups that lie in no other: what is zero outside a group is zero outside every group that holds it."""
    distinct = np.unique(indicator, axis=0)
    in_common = distinct @ distinct.T
    lies_in = in_common == distinct.sum(axis=1)[:, None]
    np.fill_diagonal(lies_in, False)
    return distinct[~lies_in.any(axis=1)]


def _latent_group_norm(x: Array, indicator: Array) -> float:
    """Return the latent group norm of x > 0; `indicator[g, i]` says whether group g has feature i.

    With one weight eta_g >= 0 for each group and zeta = indicator^T eta, the norm is the minimum over eta of
    (sum_i x_i^2 / zeta_i + sum_g eta_g) / 2. Any eta gives a decomposition,
    v_g = eta_g x / zeta, hence an upper bound, and a dual point, x / zeta scaled to have norm 1 on its largest group,
    hence a lower bound. A primal-dual interior-point method lowers the gap between the two; z are the multipliers of
    eta >= 0.
    """
    m = indicator.shape[0]
    eta = np.full(m, float(np.linalg.norm(x)) / m)
    z = np.ones(m)
    best = np.inf
    for _ in range(100):
        zeta = eta @ indicator
        ratio = x / zeta
        group_norms = np.sqrt(np.square(ratio) @ indicator.T)
        upper = float(eta @ group_norms)
        lower = float(x @ ratio / group_norms.max())
        best = min(best, upper)
        if best - lower <= 1e-11 * best:
            break
        # Newton's step on 1 - sum_{i in g} ratio_i^2 - z_g = 0, eta_g z_g = mu: the gradient's Hessian plus z / eta.
        mu = 0.05 * float(eta @ z) / m
        gradient = 1.0 - np.square(group_norms)
        scale = np.sqrt(eta / z)
        factor = scale[:, None] * indicator * (np.sqrt(2.0 / zeta) * ratio)
        step = scale * _solve_shifted(factor, scale * (mu / eta - gradient))
        dual_step = (mu - z * step) / eta - z
        eta = eta + _fraction_to_boundary(eta, step) * step
        z = z + _fraction_to_boundary(z, dual_step) * dual_step
    return best


def _solve_shifted(factor: Array, b: Array) -> Array:
    """Return the y with (I + F F^T) y = b.

    Where F is so large that I is lost beside it, and F F^T singular, as it is for groups that depend on each other, by
    the singular values of F, with which nothing is lost.
    """
    if np.square(factor).sum() < 1e10:
        return np.asarray(np.linalg.solve(np.eye(b.size) + factor @ factor.T, b), dtype=np.float64)
    u, s, _ = np.linalg.svd(factor, full_matrices=False)
    along = b @ u
    return b - u @ along + u @ (along / (1.0 + np.square(s)))


def _fraction_to_boundary(value: Array, step: Array) -> float:
    """Return the largest step length <= 1 that keeps a hundredth of every positive entry."""
    falling = step < 0
    return min(1.0, 0.99 * float(np.min(value[falling] / -step[falling], initial=np.inf)))
