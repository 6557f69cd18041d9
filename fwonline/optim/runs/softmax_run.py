"""A batch algorithm at work on the matrix of a multinomial model: one row of weights a class."""

from __future__ import annotations

import typing

import numpy as np

from fwonline import _loaded, sets
from fwonline._kernels import layout, memory, scores
from fwonline.optim.problem.score_loss import Softmax
from fwonline.optim.runs.finite_sum_run import FiniteSumRun
from fwonline.optim.runs.run import small

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SoftmaxRun"]


class SoftmaxRun(FiniteSumRun):
    """State and steps of a softmax model. Targets are positions of classes; a new one brings a row of W."""

    def __init__(self, optimizer: typing.Any, constraint: sets.ConvexSet, loss: typing.Any, seed: int | None = None):
        self.k = 0
        self.W = np.zeros((0, 0))
        # Where W starts in a new class or feature, so that it stays in a box that does not hold the origin.
        self.constraint = constraint
        self.fill = self._start_of_entries()
        super().__init__(optimizer, constraint, loss, seed)

    def _score_loss(self, loss):
        return Softmax()

    @property
    def x(self):
        return self.W[: self.k, : self.n_features]

    @property
    def weights(self) -> NDArray[np.float64]:
        """A copy of W, classes x features."""
        return self.x.copy()

    @property
    def point(self) -> NDArray[np.float64]:
        return self.weights

    def _new_alike(self) -> SoftmaxRun:
        return SoftmaxRun(small(self.optimizer), self.constraint, self.loss, 0)

    def _check_arrays(self) -> None:
        self.fill = self._start_of_entries()
        W = _loaded.array(self, "W", np.float64, (None, None), least=-1e250, most=1e250)
        _loaded.count(self, "k", 0, len(W))
        _loaded.require(self, "W", W.shape[1] >= self.n_features or not W.size, f"{self.n_features} columns")
        unused = np.concatenate([W[self.k :].ravel(), W[:, self.n_features :].ravel()])
        _loaded.require(self, "W", (unused == self.fill).all(), f"{self.fill} where no class or feature is")
        super()._check_arrays()
        labels = self.duals[: int(self.cnt[layout.LIVE]), memory.LABEL]
        _loaded.require(self, "duals", np.isin(labels, np.arange(self.k)).all(), f"labels of {self.k} classes")

    def _check_point(self) -> None:
        began = self.cnt[layout.T] or self.cnt[layout.WARM]
        is_start = not began and bool((self.x == self.fill).all())
        _loaded.require(self, "W", is_start or self._is_point(self.x), f"a point of {self.constraint}")

    def _start_of_entries(self) -> float:
        box = self.constraint
        return float(np.clip(0.0, box.lower, box.upper)) if isinstance(box, sets.Box) else 0.0

    def _reserve_matrix(self, k: int, d: int) -> None:
        rows, columns = self.W.shape
        if k > rows or d > columns:
            W = np.full((max(rows, k), max(d, 2 * columns) if d > columns else columns), self.fill)
            W[:rows, :columns] = self.W
            self.W = W

    def grow(self, ranks) -> None:
        self._reserve_matrix(0, self.n_features + len(ranks))
        super().grow(ranks)

    def shrink(self, d: int) -> None:
        super().shrink(d)
        self.W[:, d:] = self.fill

    def _weighs(self, point):
        return (point != self.fill).any(axis=0)

    def _taken_out(self, new, holes, movers) -> None:
        self.W[:, holes] = self.W[:, movers]
        self.W[:, self.n_features : new.size] = self.fill
        super()._taken_out(new, holes, movers)

    def admit(self, k: int) -> None:
        """Know k classes."""
        self._reserve_matrix(max(k, 2 * len(self.W)) if k > len(self.W) else 0, 0)
        self.k = max(self.k, k)

    def set_weights(self, x0) -> None:
        W = np.array(x0, dtype=np.float64)
        if W.shape != self.x.shape or not self.constraint.contains(W):
            raise ValueError(f"x0 must be a point of {self.constraint} of shape {self.x.shape}, got shape {W.shape}")
        self.x[...] = W
        self.cnt[layout.WARM] = 1

    def scores(self, indptr: NDArray, idx: NDArray, val: NDArray) -> NDArray[np.float64]:
        """The score of each class for each row, shape (rows, k): no order of the entries shows in it."""
        z = np.empty((indptr.size - 1, self.k))
        scores.score_classes(self.W, indptr, idx, val, z)
        return z

    def _learn_by_parts(self, rows, i):
        indptr, idx, val, y = rows
        start, stop, target = indptr[i], indptr[i + 1], float(y[i])
        status, largest = memory.check_values(val.view(np.int64), start, stop, target)
        if status != layout.OK:
            return status
        if self.cnt[layout.CROWDED]:
            return layout.NEED_NAMES
        self.admit(int(target) + 1)
        order = start + np.argsort(idx[start:stop], kind="stable")
        idx, val = idx[order], val[order]
        z = self.scores(np.array([0, idx.size]), idx, val)
        slope = self.score_loss.derivative(np.array([target]), z)[0]
        loss = float(self.score_loss.value(np.array([target]), z)[0])
        memory.note_play(self.num, self.cnt, target, float(z[0, int(target)]), loss)
        at = self._place((np.array([0, idx.size]), idx, val, y), 0)
        self._hold(at, idx, val, target, slope, largest)
        for _ in self._moves():
            pass
        return layout.OK
