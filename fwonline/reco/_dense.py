"""The paper's method: every entry of the iterate written out and held to the box, a momentum of sampled gradients."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import _loaded, sets
from fwonline._kernels import lowrank
from fwonline._kernels.entry import Direct
from fwonline._room import check_room, longer, wider
from fwonline.optim.schedules import STOCHASTIC, momentum
from fwonline.reco._base import MOST_RADIUS, Iterate
from fwonline.reco._lmo import Oracle

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fwonline.reco._base import Problem
    from fwonline.reco._merging import Part
    from fwonline.reco._ratings import Ratings

__all__ = ["Dense"]

# The residual of the LMO relative to the squared singular value.
_TOLERANCE = 0.01
# A radius that is not given: the nuclear norm of a constant matrix as large as the ratings, and half as much again.
_ROOM_FOR_MORE = 1.5

_move_dense = Direct(lowrank.move_dense)


class Dense(Iterate):
    """Algorithm 1 of Locatello et al. on min sum (X_ij - Y_ij)^2, a batch drawn anew from the ratings for each step.

    The gradient estimate d is zero where nothing is rated, so it is held at the ratings. A step's move of X waits for
    the next step, which in the same pass takes what X needs to be in the box.
    """

    with_biases = False
    _scratch = ("_gathered",)

    def __init__(self) -> None:
        super().__init__()
        self.d = np.zeros(0)
        # X is keep x + weight u v^T
        self.x = np.zeros((0, 0))
        self.keep, self.weight = 1.0, 0.0
        self.u, self.v = np.zeros(0), np.zeros(0)
        self._make_scratch()

    def _make_scratch(self) -> None:
        rows, cells = len(self.x), self.x.size
        self._gathered = lowrank.Rows(
            np.zeros(rows + 1, np.int64), np.zeros(cells + 1, np.uint32), np.zeros(cells + 1, Oracle.precision)
        )

    def value(self, row: int, col: int) -> float:
        return self.keep * float(self.x[row, col]) + self.weight * float(self.u[row]) * float(self.v[col])

    def values(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> NDArray[np.float64]:
        return self.keep * self.x[rows, cols] + self.weight * self.u[rows] * self.v[cols]

    def rank_of(self) -> int:
        m, n = self.seen
        return int(np.linalg.matrix_rank(self.values(*np.ogrid[:m, :n]))) if m and n else 0

    def step(self, ratings: Ratings, problem: Problem, rng: np.random.Generator) -> None:
        count, k = ratings.count, self.steps + 1
        eta, rho, beta = STOCHASTIC.eta(k), momentum(k), STOCHASTIC.beta(k, problem.beta0)
        self._follow(ratings)
        self.radius = _radius(ratings, problem)
        batch = rng.choice(count, min(problem.batch_size, count), replace=False)
        residual = self.values(ratings.rows[batch], ratings.cols[batch]) - ratings.y[batch]
        self.loss = count * float(np.mean(residual**2))
        self.d[:count] *= 1.0 - rho
        self.d[batch] += (2.0 * rho * count / batch.size) * residual
        along, late = self._gather(ratings, problem, 1.0 / beta)
        u, v, sigma = self.oracle(self.seen, self._gathered, late, _TOLERANCE, rng)
        self.gap = along + self.radius * sigma
        self.keep, self.weight, self.u, self.v = 1.0 - eta, -eta * self.radius, u, v
        self.steps = k

    def _gather(self, ratings: Ratings, problem: Problem, of_box: float) -> tuple[float, lowrank.Entries]:
        """Move X, and write what the LMO sees; returns its product with X, and its entries at late ratings."""
        late = slice(ratings.arranged, ratings.count)
        rows, cols, d = ratings.rows[late], ratings.cols[late], self.d[late]
        all_d = self.d[: ratings.count]
        square = float(all_d @ all_d)
        known = lowrank.Rows(ratings.starts, ratings.cols, self.d)
        while True:
            move = lowrank.Move(self.keep, self.weight, self.u, self.v)
            along, outside = _move_dense(
                Oracle.precision, self.x, move, problem.box(of_box), self.oracle.unit, known, self._gathered
            )
            self.keep, self.weight = 1.0, 0.0
            if self.oracle.takes(of_box * math.sqrt(outside) + math.sqrt(square)):
                return along + float(d @ self.x[rows, cols]), lowrank.Entries(rows, cols, self.oracle.unit * d)

    def make_room(self, m: int, n: int) -> None:
        if m <= self.x.shape[0] and n <= self.x.shape[1]:
            return
        rows, columns = (
            max(size, min(held + held // 4, size * 2)) for size, held in zip((m, n), self.x.shape, strict=True)
        )
        # X, and what is gathered of it: at most all of it
        need = (12.0 + Oracle.precision().itemsize) * rows * columns
        check_room(f"completing {rows} x {columns} ratings with every entry written out", need)
        self.x = wider(self.x, rows, columns)
        self._make_scratch()

    def _follow(self, ratings: Ratings) -> None:
        """Take in new users, items and ratings."""
        self.make_room(*ratings.shape)
        if ratings.shape != self.seen:
            m, n = self.seen = ratings.shape
            self.u, self.v = longer(self.u, m), longer(self.v, n)
        if ratings.y.size > self.d.size:
            self.d = longer(self.d, ratings.y.size)
        if (order := ratings.arrange()) is not None:
            self.d[: order.size] = self.d[order]

    # --- one of several ---

    def mix(self, parts: Sequence[Part[Dense]], ratings: Ratings, problem: Problem) -> None:
        # Where a part has met no rating, it counts as mean and biases, clipped to the box.
        m, n = self.seen = ratings.shape
        # X and a part, what both are made of, and the singular vectors
        check_room(f"merging completions of {m} x {n} ratings with every entry written out", 64.0 * m * n)
        x = self.x[:m, :n]
        x[...] = _guess(ratings, problem, np.arange(m), np.arange(n))
        for part in parts:
            theirs = part.state.values(*np.ogrid[: len(part.rows), : len(part.cols)])
            weight = part.of_user[:, None] * part.of_item
            x[np.ix_(part.rows, part.cols)] += weight * (theirs - _guess(ratings, problem, part.rows, part.cols))
        self.steps = max(part.state.steps for part in parts)
        self.radius = _radius(ratings, problem)
        if self.radius > 0.0:
            x[...] = sets.NuclearBall(self.radius).project(x)
        self.keep, self.weight = 1.0, 0.0
        self.u, self.v = np.zeros(m), np.zeros(n)
        kept = slice(ratings.count)
        self.d = np.zeros(ratings.y.size)
        self.d[kept] = 2.0 * (x[ratings.rows[kept], ratings.cols[kept]] - ratings.y[kept])

    def check_loaded(self, ratings: Ratings, problem: Problem) -> None:
        super().check_loaded(ratings, problem)
        m, n = self.seen
        rooms = _loaded.array(self, "x", np.float64, (None, None)).shape
        for have, size in zip(rooms, ratings.shape, strict=True):
            _loaded.require(self, "x", have >= size, f"room for {ratings.shape}")
        for name, size in (("u", m), ("v", n)):
            vector = _loaded.array(self, name, np.float64, (size,))
            _loaded.require(self, name, float(vector @ vector) <= 1.0 + 1e-6, "a vector of at most unit length")
        _loaded.array(self, "d", np.float64, (None,), least=-MOST_RADIUS, most=MOST_RADIUS)
        _loaded.real(self, "keep", 0.0, 1.0)
        radius = self.radius
        _loaded.real(self, "weight", -radius, 0.0)
        _loaded.require(self, "x", (np.abs(self.x) <= MOST_RADIUS).all(), f"values of at most {MOST_RADIUS:g}")
        _loaded.require(self, "x", not self.x[m:].any() and not self.x[:, n:].any(), "zeros where nothing stands yet")
        if problem.radius is not None and self.steps:
            # The Frobenius norm, with what waits: at most the nuclear norm, and read without its decomposition.
            norm = self.keep * float(np.linalg.norm(self.x)) - self.weight
            if norm > radius:
                norm = float(np.linalg.norm(self.values(*np.ogrid[:m, :n])))
            _loaded.require(self, "x", norm <= (1.0 + 1e-6) * radius, f"a matrix in the ball of radius {radius}")

    def _check_sizes(self) -> None:
        _loaded.array(self, "x", np.float64, (None, None))


def _radius(ratings: Ratings, problem: Problem) -> float:
    """The radius that is given, or the method's choice."""
    if problem.radius is not None:
        return problem.radius
    y = ratings.y[: ratings.count]
    return _ROOM_FOR_MORE * math.sqrt(math.prod(ratings.shape) * float(y @ y) / y.size)


def _guess(
    ratings: Ratings, problem: Problem, rows: NDArray[np.integer], cols: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Mean and biases of all pairs of these users and items, clipped to the box."""
    return np.clip(ratings.biases(rows[:, None], cols), problem.lower, problem.upper)
