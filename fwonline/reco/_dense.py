"""The paper's way: every entry of the iterate written out, the box on all of them, a momentum of sampled gradients."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline._kernels import lowrank
from fwonline._kernels.room import check_room, longer, wider
from fwonline.reco._lmo import Oracle

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    from fwonline.reco._problem import Problem
    from fwonline.reco._ratings import Ratings

__all__ = ["Dense"]

# The residual of the LMO relative to the squared singular value.
_TOLERANCE = 0.01
# A radius that is not given: the nuclear norm of a constant matrix as large as the ratings, and half as much again.
_ROOM_FOR_MORE = 1.5


class Dense:
    """Algorithm 1 of Locatello et al. on min sum (X_ij - Y_ij)^2, a batch drawn anew from the ratings for each step.

    The gradient estimate d is zero where nothing is rated, so it is held at the ratings; X - proj(X) is zero inside the
    box, so it is gathered in the pass that moves X. What the LMO sees is as sparse as the two.
    """

    with_biases = False

    def __init__(self) -> None:
        self.oracle = Oracle()
        self.steps = 0
        self.x = np.zeros((0, 0))
        self.d = np.zeros(0)
        self.seen = (0, 0)
        self.radius = 0.0
        self.gap = math.nan
        self.loss = math.nan
        self._starts, self._columns, self._values = np.zeros(1, np.int64), np.zeros(0, np.uint32), np.zeros(0)
        self._along = 0.0
        self.distance = 0.0

    def sees(self, row: int, col: int) -> bool:
        """Whether a step has seen the row and the column."""
        return row < self.seen[0] and col < self.seen[1]

    def value(self, row: int, col: int) -> float:
        """X[row, col] of a row and a column that the last step has seen."""
        return float(self.x[row, col])

    def values(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> NDArray[np.float64]:
        """X at many entries that the last step has seen."""
        return self.x[rows, cols]

    def step(self, ratings: Ratings, problem: Problem, rng: np.random.Generator) -> None:
        """One step of Algorithm 1."""
        m, n = ratings.shape
        k = self.steps + 1
        eta, rho = 9.0 / (k + 8), 4.0 / (k + 7) ** (2.0 / 3.0)
        beta, beta_next = problem.beta0 / math.sqrt(k + 8), problem.beta0 / math.sqrt(k + 9)
        self._follow(ratings, problem, beta)
        ratings.sweep()
        self.radius = problem.radius or _ROOM_FOR_MORE * math.sqrt(
            m * n * float(np.mean(ratings.y[: ratings.count] ** 2))
        )
        batch = rng.choice(ratings.count, min(problem.batch, ratings.count), replace=False)
        d = self.d[: ratings.count]
        d *= 1.0 - rho
        residual = self.x[ratings.rows[batch], ratings.cols[batch]] - ratings.y[batch]
        self.loss = ratings.count * float(np.mean(residual**2))
        d[batch] += (2.0 * rho * ratings.count / batch.size) * residual
        u, v, sigma, _ = self.oracle(
            (m, n),
            (ratings.rows, ratings.cols, self.d, ratings.count),
            (self._starts, self._columns, self._values),
            _TOLERANCE,
            rng,
        )
        self.gap = self._along + float(d @ self.x[ratings.rows[: d.size], ratings.cols[: d.size]]) + self.radius * sigma
        self._move(1.0 - eta, -eta * self.radius, u, v, problem, beta_next)
        self.steps = k

    def _move(self, keep: float, weight: float, u: NDArray, v: NDArray, problem: Problem, beta: float) -> None:
        self._along, squares = lowrank.move_dense(
            self.x, *self.seen, keep, weight, u, v, problem.lower, problem.upper, 1.0 / beta,
            self._starts, self._columns, self._values,
        )  # fmt: skip
        self.distance = math.sqrt(squares)

    def _follow(self, ratings: Ratings, problem: Problem, beta: float) -> None:
        """Make room for new users, items and ratings."""
        m, n = ratings.shape
        if m > self.x.shape[0] or n > self.x.shape[1]:
            rows, columns = (
                max(size, min(held + held // 4, size * 2)) for size, held in zip((m, n), self.x.shape, strict=True)
            )
            self._make_room(rows, columns)
        if ratings.y.size > self.d.size:
            self.d = longer(self.d, ratings.y.size)
        if (m, n) == self.seen:
            return
        self.seen = (m, n)
        self._move(1.0, 0.0, np.zeros(m), np.zeros(n), problem, beta)

    def _make_room(self, rows: int, columns: int) -> None:
        # X, and what is gathered of it: at most all of it
        check_room(f"completing {rows} x {columns} ratings with every entry written out", 20.0 * rows * columns)
        self.x = wider(self.x, rows, columns)
        self._starts = np.zeros(rows + 1, dtype=np.int64)
        self._columns = np.zeros(rows * columns + 1, dtype=np.uint32)
        self._values = np.zeros(rows * columns + 1)
