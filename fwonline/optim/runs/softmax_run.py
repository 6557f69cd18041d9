"""An algorithm at work on the matrix of a multinomial model: one row of weights a class."""

from __future__ import annotations

import typing

import numpy as np

from fwonline import _loaded, sets
from fwonline._kernels import layout, scores
from fwonline.optim.problem.score_loss import ScoreLoss, Softmax
from fwonline.optim.runs import checks
from fwonline.optim.runs.finite_sum_run import FiniteSumRun
from fwonline.optim.runs.method import HUGE

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["SoftmaxRun"]


class SoftmaxRun(FiniteSumRun):
    """State and steps of a softmax model. Targets are positions of classes; a new one brings a row of W.

    Attributes
    ----------
    W
        The iterate, classes x features, with room for more of both.
    k
        Classes.
    """

    _saved = (*FiniteSumRun._saved, "k", "W")

    def __init__(self, optimizer: typing.Any, constraint: sets.ConvexSet, loss: typing.Any, seed: int | None = None):
        self.k = 0
        self.W = np.zeros((0, 0))
        super().__init__(optimizer, constraint, loss, seed)

    def _score_loss(self) -> ScoreLoss:
        return Softmax()

    @property
    def x(self) -> Array:
        return self.W[: self.k, : self.n_features]

    @property
    def intercepts(self) -> Array:
        """None: one a class, 0."""
        return np.zeros(self.k)

    @property
    def weights(self) -> Array:
        """A copy of W, classes x features."""
        return self.x.copy()

    @property
    def point(self) -> Array:
        return self.weights

    # --- classes and features that come and go: W starts there so that it stays in a box without the origin --------

    def _reserve_matrix(self, k: int, d: int) -> None:
        rows, columns = self.W.shape
        if k > rows or d > columns:
            W = np.full((max(rows, k), max(d, 2 * columns) if d > columns else columns), self.start_weight)
            W[:rows, :columns] = self.W
            self.W = W

    def _enlarge(self, need: int) -> None:
        self._reserve_matrix(0, need)

    def shrink(self, d: int) -> None:
        self.s.d = d
        self.W[:, d:] = self.start_weight

    def _weighs(self, point):
        return (point != self.start_weight).any(axis=0)

    def _taken_out(self, new) -> None:
        stays = np.flatnonzero(new >= 0)
        self.W[:, new[stays]] = self.W[:, stays]
        self.W[:, self.n_features : new.size] = self.start_weight
        super()._taken_out(new)

    def admit(self, k: int) -> None:
        """Know k classes."""
        self._reserve_matrix(max(k, 2 * len(self.W)) if k > len(self.W) else 0, 0)
        self.k = max(self.k, k)

    def set_weights(self, x0) -> None:
        W = np.array(x0, dtype=np.float64)
        if W.shape != self.x.shape or not self.constraint.contains(W):
            raise ValueError(f"x0 must be a point of {self.constraint} of shape {self.x.shape}, got shape {W.shape}")
        self.x[...] = W
        self.s.warm = 1

    # --- samples --------------------------------------------------------------------------------------------------

    def scores(self, indptr: NDArray, idx: NDArray, val: NDArray) -> Array:
        """The score of each class for each row, shape (rows, k): no order of the entries shows in it."""
        z = np.empty((indptr.size - 1, self.k))
        scores.score_classes(self.W, indptr, idx, val, z)
        return z

    def _learn(self, idx, val, y):
        status, _ = self._status(val, y)
        if status != layout.OK:
            return status
        if self.s.crowded:
            return layout.NEED_NAMES
        self.admit(int(y) + 1)
        order = np.argsort(idx, kind="stable")
        idx, val = idx[order], val[order]
        z, target = self.scores(np.array([0, idx.size]), idx, val), np.array([y])
        slope = self.score_loss.derivative(target, z)[0]
        self._note_play(y, float(z[0, int(y)]), float(self.score_loss.value(target, z)[0]))
        self._hold(idx, val, y, slope)
        self._steps()
        return layout.OK

    # --- saved and loaded -----------------------------------------------------------------------------------------

    def _new_alike(self) -> SoftmaxRun:
        return SoftmaxRun(checks.small(self.optimizer), self.constraint, self.loss, 0)

    def _check_iterate(self) -> None:
        self.v = np.zeros(0)
        _loaded.owned(self, "W")
        W = _loaded.array(self, "W", np.float64, (None, None), least=-HUGE, most=HUGE)
        _loaded.count(self, "k", 0, len(W))
        _loaded.require(self, "W", W.shape[1] >= self.n_features or not W.size, f"{self.n_features} columns")
        unused = np.concatenate([W[self.k :].ravel(), W[:, self.n_features :].ravel()])
        start = self.start_weight
        _loaded.require(self, "W", (unused == start).all(), f"{start} where no class or feature is")
        labels = self.ring.targets()
        _loaded.require(self.ring, "y", np.isin(labels, np.arange(self.k)).all(), f"labels of {self.k} classes")

    def _check_point(self) -> None:
        is_start = not (self.s.t or self.s.warm) and bool((self.x == self.start_weight).all())
        _loaded.require(self, "W", is_start or checks.is_point(self, self.x), f"a point of {self.constraint}")
