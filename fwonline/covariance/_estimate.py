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
        """The covariance of two features, in either order. O(1).

        Raises
        ------
        KeyError
            For a feature that was never seen.
        """
        positions = self._features.positions
        i, j = (positions[name] for name in key)
        if i < j:
            i, j = j, i
        return float(self._state.x[symmetric.size(i) + j])

    @property
    def matrix(self) -> dict:
        """The covariance of every pair of features, each pair once: sorted where its two names can be. O(n^2)."""
        names = self._features.names
        entries = iter(self._state.x[: symmetric.size(len(names))].tolist())
        return {_pair(names[j], names[i]): next(entries) for i in range(len(names)) for j in range(i + 1)}

    def to_numpy(self, features: Sequence[Hashable] | None = None) -> NDArray[np.float64]:
        """Return the estimate as an array.

        Parameters
        ----------
        features
            Which features, in which order; by default all, as in ``features``. What was never seen has covariance 0.
        """
        n = self._state.n
        whole = symmetric.unpacked(self._state.x, n)
        if features is None:
            return whole
        where = np.array([self._features.positions.get(name, -1) for name in features], dtype=np.intp)
        out = whole[np.ix_(where, where)] if n else np.zeros((where.size, where.size))
        out[where < 0] = 0.0
        out[:, where < 0] = 0.0
        return out

    def feasible(self, features: Sequence[Hashable] | None = None) -> NDArray[np.float64]:
        """Return the estimate scaled into all its constraints: still positive semidefinite, and exactly feasible.

        Parameters
        ----------
        features
            As in :meth:`to_numpy`.
        """
        x = self.to_numpy(features)
        l1, trace = self._state.l1, self._state.trace()
        factor = min(1.0, self._l1_bound / l1 if l1 > 0.0 else 1.0, self._trace_bound / trace if trace > 0.0 else 1.0)
        return factor * x

    def correlation(self, features: Sequence[Hashable] | None = None) -> NDArray[np.float64]:
        """Return the correlations: 1 on the diagonal, 0 beside a feature whose estimated variance is 0.

        Parameters
        ----------
        features
            As in :meth:`to_numpy`.
        """
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
            What is added to every variance, > 0: the estimate has low rank, and alone has no inverse. By default a
            hundredth of the mean variance.
        features
            As in :meth:`to_numpy`.

        Raises
        ------
        ValueError
            For a ridge that is not a finite number > 0, or when nothing is known of the variances yet.
        """
        x = self.to_numpy(features)
        if ridge is None:
            ridge = 0.01 * float(np.mean(np.diag(x))) if x.size else 0.0
        if not (is_real(ridge) and 0.0 < ridge < math.inf):
            raise ValueError(f"ridge must be a finite number > 0, got {ridge!r}; all variances may still be 0")
        factor = linalg.cho_factor(x + ridge * np.eye(len(x)), lower=True)
        return linalg.cho_solve(factor, np.eye(len(x)))


def _pair(one: typing.Any, other: typing.Any) -> tuple[typing.Any, typing.Any]:
    try:
        return (one, other) if one <= other else (other, one)
    except TypeError:  # names of types that have no order among them
        return (one, other)
