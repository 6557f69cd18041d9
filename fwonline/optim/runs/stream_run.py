"""Runs that keep no samples: one pass online, random passes offline."""

from __future__ import annotations

import typing

import numpy as np

from fwonline._kernels import layout
from fwonline._kernels.state import Rows
from fwonline.optim.runs.kept import Kept
from fwonline.optim.runs.run import Run

__all__ = ["Passes", "Previous", "StreamRun", "weighs_with_atom"]


class Previous(typing.NamedTuple):
    """The iterate before the last step, on sets whose atoms are dense."""

    old: np.ndarray


PREVIOUS = {"old": Kept("feature", is_point=True, on_dense=True)}


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


class StreamRun(Run):
    """A run whose gradient estimate is made of the samples as they come; offline a step takes a batch of them."""

    _own: typing.Any = Previous
    _kept: typing.ClassVar[dict[str, Kept]] = PREVIOUS
    _passes: Passes

    def weighs(self):
        return weighs_with_atom(self, super().weighs())

    def offline(self, rows: Rows) -> None:
        self._passes = Passes(rows, self.rng)

    def iterate(self, count: int) -> None:
        self._passes.play(self, count * self._samples_per_step)

    @property
    def _samples_per_step(self) -> int:
        return self.s.batch_size


def weighs_with_atom(run: Run, weighs: np.ndarray) -> np.ndarray:
    """The features that weigh something; what was played before the last step is known by that step's atom."""
    if run.is_sparse and run.s.gamma > 0.0 and run.s.index >= 0:
        weighs[run.s.index] = True
    return weighs


def take(rows: Rows, order: np.ndarray) -> Rows:
    """The rows of a CSR matrix in another order."""
    lengths = np.diff(rows.indptr)[order]
    new = np.concatenate([[0], np.cumsum(lengths)])
    where = np.repeat(rows.indptr[order] - new[:-1], lengths) + np.arange(new[-1])
    return Rows.of(new, rows.idx[where], rows.val[where], rows.y[order])
