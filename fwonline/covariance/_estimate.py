"""What is read off a covariance that is held as a packed triangle."""

from __future__ import annotations

import math
import typing

import numpy as np
from river.covariance.emp import SymmetricMatrix
from scipy import linalg

from fwonline._checks import is_real
from fwonline._kernels import symmetric

if typing.TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from fwonline.covariance._state import State
    from fwonline.features import FeatureIndex

__all__ = ["Estimate"]


class Estimate(SymmetricMatrix):
    """The estimate by the names of its features, as river's covariances are read, and as arrays."""

    floor: float
    _features: FeatureIndex
    _state: State

    @property
    def _trace_bound(self) -> float:
        """The largest trace of the present constraint."""
        raise NotImplementedError

    @property
    def _l1_bound(self) -> float:
        """The largest l1 norm of the present constraint."""
        raise NotImplementedError

    @property
    def features(self) -> list:
        """The features, in the order of the rows of :meth:`to_numpy`."""
        return list(self._features.names)

    def __getitem__(self, key: tuple[Hashable, Hashable]) -> float:
        """The covariance of two features, in either order. O(1), after a new sample O(n^2) for the first.

        Raises
        ------
        KeyError
            For a feature that was never seen.
        """
        positions = self._features.positions
        i, j = (positions[name] for name in key)
        if i < j:
            i, j = j, i
        at, (of_x, of_m, added) = symmetric.size(i) + j, self._state.weights(self.floor)
        value = of_x * float(self._state.x[at]) + (added if i == j else 0.0)
        return value + of_m * float(self._state.m[at]) if of_m else value

    @property
    def matrix(self) -> dict:
        """The covariance of every pair of features, each pair once: sorted where its two names can be. O(n^2)."""
        names = self._features.names
        entries = iter(self._state.estimate(self.floor).tolist())
        return {_pair(names[j], names[i]): next(entries) for i in range(len(names)) for j in range(i + 1)}

    def to_numpy(self, features: Sequence[Hashable] | None = None) -> NDArray[np.float64]:
        """Return the estimate as an array.

        Parameters
        ----------
        features
            Here and in the methods below: which features, in which order; by default all, as in ``features``. What was
            never seen has covariance 0.
        """
        return self._unpacked(self._state.estimate(self.floor), features)

    def ball(self, features: Sequence[Hashable] | None = None) -> NDArray[np.float64]:
        """Return the estimate of the constrained problem alone: with bounds what :meth:`to_numpy` returns."""
        return self._unpacked(self._state.estimate(self.floor, ball=True), features)

    def _unpacked(self, packed: NDArray[np.floating], features: Sequence[Hashable] | None) -> NDArray[np.float64]:
        n = self._state.n
        whole = symmetric.unpacked(packed, n)
        if features is None:
            return whole
        where = np.array([self._features.positions.get(name, -1) for name in features], dtype=np.intp)
        out = whole[np.ix_(where, where)] if n else np.zeros((where.size, where.size))
        out[where < 0] = 0.0
        out[:, where < 0] = 0.0
        return out

    def feasible(self, features: Sequence[Hashable] | None = None) -> NDArray[np.float64]:
        """Return :meth:`ball` scaled into all its constraints: still positive semidefinite, and exactly feasible."""
        x = self.ball(features)
        l1, trace = self._state.l1, self._state.trace()
        factor = min(1.0, self._l1_bound / l1 if l1 > 0.0 else 1.0, self._trace_bound / trace if trace > 0.0 else 1.0)
        return factor * x

    def correlation(self, features: Sequence[Hashable] | None = None) -> NDArray[np.float64]:
        """Return the correlations: 1 on the diagonal, 0 beside a feature whose estimated variance is 0."""
        x = self.to_numpy(features)
        scale = np.sqrt(np.maximum(np.diag(x), 0.0))
        inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
        x = np.clip(inverse[:, None] * x * inverse, -1.0, 1.0)
        np.fill_diagonal(x, 1.0)
        return x

    def precision(self, ridge: float | None = None, features: Sequence[Hashable] | None = None) -> NDArray[np.float64]:
        """Return the inverse of the estimate plus `ridge` times the identity.

        Parameters
        ----------
        ridge
            What is added to every variance, > 0: an estimate of low rank has no inverse. By default nothing where
            there is a ``floor``, elsewhere a hundredth of the mean variance.

        Raises
        ------
        ValueError
            For a ridge that is not a finite number > 0, or when nothing is known of the variances yet.
        """
        x = self.to_numpy(features)
        if ridge is None and self.floor > 0.0 and x.size and np.diag(x).all():
            ridge = 0.0
        else:
            if ridge is None:
                ridge = 0.01 * float(np.mean(np.diag(x))) if x.size else 0.0
            if not (is_real(ridge) and 0.0 < ridge < math.inf):
                raise ValueError(f"ridge must be a finite number > 0, got {ridge!r}; all variances may still be 0")
        factor = linalg.cho_factor(x + ridge * np.eye(len(x)), lower=True)
        return linalg.cho_solve(factor, np.eye(len(x)))

    # --- measures and counters ---

    @property
    def infeasibility(self) -> float:
        """By how much the l1 norm of :meth:`ball` exceeds its bound, relative to the bound; 0.0 inside. O(1)."""
        bound = self._l1_bound
        return max(self._state.l1 / bound - 1.0, 0.0) if bound > 0.0 else 0.0

    @property
    def violation(self) -> float:
        """The Euclidean distance from :meth:`ball` to the l1 constraint; 0.0 inside. A few passes over the entries."""
        return self._state.distance(self._l1_bound)

    @property
    def weights(self) -> dict[str, float]:
        """The shares of the empirical covariance, of :meth:`ball` and of the identity, before the floor.

        They sum to 1. With a bound the ball's estimate is all. O(n^2) after a new sample.
        """
        moment, ball, identity = self._state.mixture()
        return {"empirical": moment, "ball": ball, "identity": identity}

    @property
    def n_samples(self) -> int:
        """Samples learned."""
        return self._state.seen

    @property
    def n_steps(self) -> int:
        """Steps taken, each of one linear minimisation."""
        return self._state.steps

    @property
    def n_products(self) -> int:
        """Products of a matrix with a vector that the steps have taken: what they cost."""
        return self._state.products

    @property
    def gap(self) -> float:
        """The Frank-Wolfe gap of the last step's smoothed objective, estimated with its gradient; NaN before.

        With ``rank`` > 1 it is taken against the point that the step moved towards.
        """
        return self._state.gap

    @property
    def exact_gap(self) -> None:
        """None: the expected objective is not known, and its gap is only estimated."""

    @property
    def lmo_error(self) -> float:
        """Bound on by how much the last step's linear minimisation may have missed the minimum."""
        return self._state.lmo_error


def _pair(one: typing.Any, other: typing.Any) -> tuple[typing.Any, typing.Any]:
    try:
        return (one, other) if one <= other else (other, one)
    except TypeError:  # names of types that have no order among them
        return (one, other)
