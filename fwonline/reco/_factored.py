"""The default method: the full gradient over all ratings; the iterate as factors and as its values at the ratings."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import _loaded, sets
from fwonline._kernels import lowrank
from fwonline._kernels.entry import Direct
from fwonline._kernels.layout import LARGEST
from fwonline._room import longer, wider
from fwonline.optim.schedules import EXACT
from fwonline.reco._base import Iterate
from fwonline.reco._lmo import Oracle

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fwonline.reco._base import Problem
    from fwonline.reco._merging import Part
    from fwonline.reco._ratings import Ratings

__all__ = ["Factored"]

_LEAST_ROOM = 32
# What compaction may cut off, as a share of the nuclear norm.
_CUT = 1e-2
# Residual of the LMO relative to the squared singular value: so much times the square root of the step.
_TOLERANCE = 0.7
# A radius that is not given grows by this factor as long as ratings not learned yet show that the iterate is too small.
_GROWTH = 1.05
_FORGET = 0.9
# Steps shrink the scale until the next compaction, some hundred steps later: one that is smaller is none.
_LEAST_SCALE = 1e-30
# The square roots of a compaction leave columns that matter little this much too long.
_MOST_LENGTH = 4.0

_gradient = Direct(lowrank.gradient)


class Factored(Iterate):
    """X = scale L R^T, what is left of the ratings after mean and biases.

    Steps are HCGM's, with the gradient of the whole sum. The box is imposed on mean +
    biases + X at the ratings and at as many other entries, drawn anew for each step, as a batch has ratings.
    """

    with_biases = True
    _scratch = ("_g",)

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = np.zeros((0, _LEAST_ROOM)), np.zeros((0, _LEAST_ROOM))
        self.rank = 0
        self.scale = 1.0
        self.fit = np.zeros(0)  # X at the ratings
        self.fitted = 0
        self.growth = 1.0
        self._agree, self._square = 0.0, 0.0
        self._make_scratch()

    def _make_scratch(self) -> None:
        self._g = np.zeros(self.fit.size, Oracle.precision)  # derivatives at the ratings

    def value(self, row: int, col: int) -> float:
        return self.scale * float(self.left[row, : self.rank] @ self.right[col, : self.rank])

    def values(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> NDArray[np.float64]:
        out = np.zeros(rows.size)
        lowrank.entries(self.left, self.right, self.rank, self.scale, rows, cols, out)
        return out

    def rank_of(self) -> int:
        return self.rank

    def step(self, ratings: Ratings, problem: Problem, rng: np.random.Generator) -> None:
        m, n = ratings.shape
        count = ratings.count
        self._follow(ratings)
        ratings.sweep()
        k = self.steps + 1
        eta, of_box = EXACT.eta(k), problem.has_box / EXACT.beta(k, problem.beta0)
        while True:
            inner, self.loss, left_over, steepness = _gradient(
                Oracle.precision, ratings.held, self.fit, count, ratings.mean, ratings.of_names,
                problem.box(of_box), self.oracle.unit, self._g,
            )  # fmt: skip
            if self.oracle.takes(math.sqrt(steepness)):
                break
        self._set_radius(problem, left_over)
        loose, along = self._loose(ratings, problem, of_box, rng)
        gathered = lowrank.Rows(ratings.starts, ratings.cols, self._g)
        u, v, sigma = self.oracle((m, n), gathered, loose, _TOLERANCE * math.sqrt(eta), rng)
        self.gap = inner + along + self.radius * sigma
        lowrank.move_entries(self.fit, ratings.rows, ratings.cols, count, 1.0 - eta, -eta * self.radius, u, v)
        self._append(eta, u, v)
        self.seen = (m, n)
        self.steps = k

    def make_room(self, m: int, n: int) -> None:
        for name, size in (("left", m), ("right", n)):
            array = getattr(self, name)
            if size > len(array):
                setattr(self, name, wider(array, 2 * size, array.shape[1]))

    def _follow(self, ratings: Ratings) -> None:
        """Take in new ratings, and compare them with X, which has not learned them."""
        self.make_room(*ratings.shape)
        if self.rank == self.left.shape[1]:
            self._compact(_CUT)
            self._refit(ratings)
        if ratings.y.size > self.fit.size:
            self.fit = longer(self.fit, ratings.y.size)
            self._make_scratch()
        new = slice(self.fitted, ratings.count)
        rows, cols = ratings.rows[new], ratings.cols[new]
        fresh = self.fit[new] = self.values(rows, cols)
        self._agree = _FORGET * self._agree + float(fresh @ (ratings.y[new] - ratings.biases(rows, cols)))
        self._square = _FORGET * self._square + float(fresh @ fresh)
        self.fitted = ratings.count
        if (order := ratings.arrange()) is not None:
            self.fit[: order.size] = self.fit[order]

    def _set_radius(self, problem: Problem, left_over: float) -> None:
        if problem.radius is not None:
            self.radius = problem.radius
            return
        # An iterate far from the best of its ball, as after a growth, does not show that the ball is too small.
        if self._agree > _GROWTH * self._square > 0.0 and self.gap <= self.loss:
            self.growth *= _GROWTH
        self.radius = max(self.radius, self.growth * math.sqrt(left_over))

    def _loose(
        self, ratings: Ratings, problem: Problem, of_box: float, rng: np.random.Generator
    ) -> tuple[lowrank.Entries, float]:
        """Derivatives at the ratings not arranged yet, and of the distance to the box at random entries.

        Also returns the product of the second with X.
        """
        m, n = ratings.shape
        size = problem.batch_size if problem.has_box else 0
        rows = rng.integers(0, m, size, dtype=np.uint32)
        cols = rng.integers(0, n, size, dtype=np.uint32)
        x = self.values(rows, cols)
        distance = of_box * problem.outside(ratings.biases(rows, cols) + x)
        late = slice(ratings.arranged, ratings.count)
        loose = lowrank.Entries(
            np.concatenate((ratings.rows[late], rows)),
            np.concatenate((ratings.cols[late], cols)),
            np.concatenate((self._g[late], self.oracle.unit * distance)),
        )
        return loose, float(distance @ x)

    def _append(self, eta: float, u: NDArray, v: NDArray) -> None:
        if eta == 1.0:
            self.rank, self.scale = 0, 1.0
        else:
            self.scale *= 1.0 - eta
        self.left[: u.size, self.rank] = (-eta * self.radius / self.scale) * u
        self.right[: v.size, self.rank] = v
        self.rank += 1

    def _compact(self, cut: float) -> None:
        """Back to the singular vectors that matter, by eigenvectors of as many rows as there are columns.

        Columns on the left are then as long as the singular values, of which the least that make up `cut` are gone.

        With R = Q S, S from the eigenvectors of R^T R, the right singular vectors of X are Q times the eigenvectors of
        S L^T L S^T. The square roots leave eight digits, and the cut needs two. QR of factors this tall would wait
        for BLAS's threads at every few columns.
        """
        m, n = self.seen
        left, right = self.left[:m, : self.rank], self.right[:n, : self.rank]
        unit = float(np.max(np.abs(left))) or 1.0
        left = left / unit
        squares, turned = np.linalg.eigh(right.T @ right)
        roots = np.sqrt(np.maximum(squares, np.finfo(float).eps * squares[-1]))
        root = roots[:, None] * turned.T
        squares, inner = np.linalg.eigh(root @ (left.T @ left) @ root.T)
        tail = np.cumsum(np.sqrt(np.maximum(squares, 0.0)))[::-1]
        self.rank = max(1, int(np.count_nonzero(tail > cut * tail[0])))
        room = max(_LEAST_ROOM, 2 * self.rank)
        kept = inner[:, : -self.rank - 1 : -1]
        self.left = wider(unit * self.scale * (left @ (root.T @ kept)), len(self.left), room)
        self.right = wider(right @ (turned @ (kept / roots[:, None])), len(self.right), room)
        self.scale = 1.0

    def _refit(self, ratings: Ratings) -> None:
        """X at the ratings, from the factors."""
        lowrank.entries(self.left, self.right, self.rank, 1.0, ratings.rows, ratings.cols, self.fit[: self.fitted])

    # --- one of several ---

    def mix(self, parts: Sequence[Part[Factored]], ratings: Ratings, problem: Problem) -> None:
        self.seen = ratings.shape
        for part in parts:
            state, (a, b) = part.state, part.state.seen
            before, self.rank = self.rank, self.rank + state.rank
            new = slice(before, self.rank)
            room = max(_LEAST_ROOM, self.rank)
            self.left, self.right = (wider(array[:, :before], len(array), room) for array in (self.left, self.right))
            self.left[part.rows, new] = state.scale * part.of_user[:, None] * state.left[:a, : state.rank]
            self.right[part.cols, new] = part.of_item[:, None] * state.right[:b, : state.rank]
            self._compact(_CUT / len(parts))
        self.steps = max(part.state.steps for part in parts)
        self.growth = max(part.state.growth for part in parts)
        # A radius of the method's choice goes with the root of the squares that it has to explain.
        self.radius = problem.radius or math.hypot(*(part.state.radius for part in parts))
        values = np.linalg.norm(self.left[:, : self.rank], axis=0)
        if values.sum() > self.radius:
            nearest = sets.UnitSimplex(self.radius).project(values)
            self.left[:, : self.rank] *= nearest / values
            self.rank = int(np.count_nonzero(nearest))  # the largest come first
        self.fit, self.fitted = np.zeros(ratings.y.size), ratings.count
        self._make_scratch()
        self._refit(ratings)

    def check_loaded(self, ratings: Ratings, problem: Problem) -> None:
        super().check_loaded(ratings, problem)
        columns = _loaded.array(self, "left", np.float64, (None, None)).shape[1]
        _loaded.array(self, "right", np.float64, (None, columns))
        for name, size in zip(("left", "right"), ratings.shape, strict=True):
            _loaded.require(self, name, len(getattr(self, name)) >= size, f"at least {size} rows")
        _loaded.require(self, "left", columns > 0, "room for a column")
        rank = _loaded.count(self, "rank", bool(self.steps), columns if self.steps else 0)
        scale = _loaded.real(self, "scale", _LEAST_SCALE, 1.0)
        size = _loaded.array(self, "fit", np.float64, (None,)).size
        _loaded.count(self, "fitted", 0, min(ratings.count, size))
        _loaded.real(self, "growth", 1.0, LARGEST)
        for name in ("_agree", "_square"):
            _loaded.real(self, name, nan=True, inf=True)
        # Columns on the right are unit vectors up to rounding; those on the left sum to the nuclear norm.
        sizes = np.linalg.norm(self.right[:, :rank], axis=0)
        is_unit = not rank or 1e-3 <= sizes.max() <= _MOST_LENGTH
        _loaded.require(self, "right", is_unit, "columns of unit length")
        largest = float(np.abs(self.left[:, :rank]).max(initial=0.0)) or 1.0
        total = scale * largest * float(np.linalg.norm(self.left[:, :rank] / largest, axis=0).sum())
        most, ball = (1.0 + 1e-6) * self.radius, f"a matrix in the ball of radius {self.radius}"
        _loaded.require(self, "left", total <= most, ball)
        # An entry is at most as large as the nuclear norm.
        fit = np.abs(self.fit[: self.fitted]).max(initial=0.0)
        _loaded.require(self, "fit", fit <= most, f"entries of {ball}")

    def _check_sizes(self) -> None:
        _loaded.array(self, "fit", np.float64, (None,))
