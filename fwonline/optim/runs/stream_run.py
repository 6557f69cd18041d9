"""Runs that keep no samples: one pass online, random passes offline."""

from __future__ import annotations

import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import layout
from fwonline.optim.runs.run import Rows, Run, resized

__all__ = ["StreamRun", "weighs_with_atom"]


class StreamRun(Run):
    """A run whose gradient estimate is made of the samples as they come."""

    _by_feature = (*Run._by_feature, "old")
    _points = (*Run._points, "old")

    def __init__(self, *args: typing.Any, **kwargs: typing.Any):
        # The iterate before the last step, on sets whose atoms are dense.
        self.old = np.zeros(0)
        self._data: Rows | None = None
        super().__init__(*args, **kwargs)

    def _extra(self) -> tuple:
        return (self.old,)

    def _resize(self, capacity: int) -> None:
        if self.cnt[layout.SET] > layout.UNIT_SIMPLEX:
            self.old = resized(self.old, capacity)

    _apart = (*Run._apart, "_data", "old")

    def _check_arrays(self) -> None:
        super()._check_arrays()
        self._data = None
        self._check_old()

    def _check_old(self) -> None:
        """The iterate before the last step, on sets of dense atoms; nothing on others."""
        size = 0 if self.cnt[layout.SET] <= layout.UNIT_SIMPLEX else self.v.size
        _loaded.array(self, "old", np.float64, (size,), least=-1e250, most=1e250)

    def weighs(self):
        # What was played before the last step is known by its atom.
        return weighs_with_atom(self, super().weighs())

    def __getstate__(self) -> dict:
        state = super().__getstate__()
        state["_data"] = None  # a data set minimised over is not the model's
        return state

    def offline(self, rows: Rows) -> None:
        self._data = rows
        self._order = np.empty(0, dtype=np.int64)

    def iterate(self, count: int) -> None:
        """Each pass over the data is in an order of its own."""
        assert self._data is not None
        samples = count * self._samples_per_step
        while samples > 0:
            if not self._order.size:
                self._order = self.rng.permutation(len(self._data[3]))
            now, self._order = self._order[:samples], self._order[samples:]
            row, status = self.learn_rows(take(self._data, now), 0, len(now))
            if status != layout.OK:
                raise ValueError(
                    f"row {now[row]} of X: the derivative of {self.loss} there is not finite, or too large to be summed"
                )
            samples -= len(now)

    @property
    def _samples_per_step(self) -> int:
        return 1

    def _remember(self) -> None:
        """By parts: keep the iterate that a step leaves."""
        if self.cnt[layout.SET] > layout.UNIT_SIMPLEX:
            self.old[: self.n_features] = self.v[: self.n_features]


def weighs_with_atom(run: Run, weighs: np.ndarray) -> np.ndarray:
    """The features that weigh something, the coordinate of the last step's atom among them."""
    if run.cnt[layout.SET] <= layout.UNIT_SIMPLEX and run.num[layout.GAMMA] > 0.0 and run.cnt[layout.INDEX] >= 0:
        weighs[run.cnt[layout.INDEX]] = True
    return weighs


def take(rows: Rows, order: np.ndarray) -> Rows:
    """The rows of a CSR matrix in another order."""
    indptr, idx, val, y = rows
    lengths = np.diff(indptr)[order]
    new = np.concatenate([[0], np.cumsum(lengths)])
    where = np.repeat(indptr[order] - new[:-1], lengths) + np.arange(new[-1])
    return new, idx[where], val[where], y[order]
