"""Passes over a data set, in random orders, by runs that keep no samples."""

from __future__ import annotations

import typing

import numpy as np

from fwonline._kernels import layout
from fwonline._kernels.state import Rows

if typing.TYPE_CHECKING:
    from fwonline.optim.runs.run import Run

__all__ = ["Passes"]


class Passes:
    """A data set whose samples come in passes, each in an order of its own."""

    def __init__(self, rows: Rows, rng: np.random.Generator):
        self.rows, self.rng = rows, rng
        self.order = np.empty(0, dtype=np.int64)

    def play(self, run: Run, samples: int) -> None:
        """Let a run learn that many samples."""
        while samples > 0:
            if not self.order.size:
                self.order = self.rng.permutation(len(self.rows.y))
            now, self.order = self.order[:samples], self.order[samples:]
            row, status = run.learn_rows(take(self.rows, now), 0, len(now))
            if status != layout.OK:
                raise ValueError(
                    f"row {now[row]} of X: the derivative of {run.loss} there is not finite, or too large to be summed"
                )
            samples -= len(now)


def take(rows: Rows, order: np.ndarray) -> Rows:
    """The rows of a CSR matrix in another order."""
    lengths = np.diff(rows.indptr)[order]
    new = np.concatenate([[0], np.cumsum(lengths)])
    where = np.repeat(rows.indptr[order] - new[:-1], lengths) + np.arange(new[-1])
    return Rows.of(new, rows.idx[where], rows.val[where], rows.y[order])
