"""The semidefinite relaxation's arrays: points that come and go, and the matrix X over them."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import symmetric
from fwonline._kernels.lanczos import Space
from fwonline._kernels.layout import LARGEST
from fwonline._room import WithScratch, check_room, longer, wider
from fwonline.cluster import _partition as partition
from fwonline.cluster._rounding import squares

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Relaxation"]

# Rows of the Lanczos basis of one linear minimisation.
_BASIS = 41
# D is kept as a multiple of what is stored; before that factor underflows it is multiplied in.
_LEAST_SCALE = 1e-100
# What steps, one after another, may have added up to.
_ROUNDING = 1e-7


class Relaxation(WithScratch):
    """min <D, X> over X positive semidefinite of trace k, X 1 = 1, X >= 0, for the squared distances D of points.

    X is `x_scale` times the packed x; the estimate of D is `d_scale` times the packed d.
    """

    _scratch = ("g", "space")

    def __init__(self, n_clusters: int, seed: int | None) -> None:
        self.n_clusters = n_clusters
        self.rng = np.random.default_rng(seed)
        self.n = 0
        self.points = np.zeros((0, 0))
        self.x, self.d = np.zeros(0), np.zeros(0)
        self.x_scale = self.d_scale = 1.0
        self.sums = np.zeros(0)  # X 1
        self.v = np.zeros(0)
        self.steps = 0
        self.products = 0
        self.gap = math.nan
        self.lmo_error = 0.0
        self._make_scratch()

    def _make_scratch(self) -> None:
        capacity = len(self.points)
        self.g, self.space = np.zeros(self.x.size), Space.of(_BASIS, capacity)

    # --- points ---

    def make_room(self, at_most: int, features: int, more: int = 1) -> None:
        """Room for more points, up to `at_most` of them, and for so many features; what was not there is 0.

        Raises
        ------
        MemoryError
            Where the machine has none; nothing is changed then.
        """
        held, known = self.points.shape
        capacity = held if self.n + more <= held else min(max(2 * self.n, self.n + more, 64), at_most)
        if (capacity, features) == (held, known):
            return
        size = symmetric.size(capacity)
        # X, D and the gradient; the points
        check_room(
            f"the relaxation for {capacity} points of {features} features", 24.0 * size + 8.0 * capacity * features
        )
        self.points = wider(self.points, capacity, features)
        if capacity > held:
            self.x, self.d = longer(self.x, size), longer(self.d, size)
            self.sums, self.v = longer(self.sums, capacity), longer(self.v, capacity)
            self._make_scratch()

    def put(self, point: NDArray[np.float64], place: int) -> None:
        """Put a point, all its features, at the end or in the place of another.

        It takes over the row and column of the nearest of the others, as if it were a copy of that point: X stays
        positive semidefinite, is brought back to its trace, and its row sums change little.
        """
        self.points[place] = point
        self.n += place == self.n
        if not self.steps:
            return
        n, row = self.n, np.zeros(self.n)
        squares = ((self.points[:n] - point) ** 2).sum(axis=1)
        squares[place] = np.inf
        nearest = int(np.argmin(squares))
        partition.read_row(self.x, n, place, row)
        before = row.copy()
        partition.read_row(self.x, n, nearest, row)
        row[place] = row[nearest]
        partition.write_row(self.x, n, place, row)
        self.sums[:n] += self.x_scale * (row - before)
        self.sums[place] = self.x_scale * row.sum()
        factor = self.n_clusters / (self.n_clusters + self.x_scale * (row[place] - before[place]))
        self.x_scale *= factor
        self.sums[:n] *= factor
        squares[place] = 0.0
        partition.write_row(self.d, n, place, squares / self.d_scale)

    def fill(self, points: NDArray[np.float64]) -> None:
        """Put in all points at once, where there are none and there is room for them."""
        self.n = len(points)
        self.points[: self.n] = points

    def set_partition(self, labels: NDArray[np.integer], steps: int) -> None:
        """Set X to that of a partition of the points into clusters, of which none is empty, after so many steps."""
        n, points = self.n, self.points[: self.n]
        rows, cols = np.tril_indices(n)
        share = 1.0 / np.bincount(labels)
        self.x[: rows.size] = np.where(labels[rows] == labels[cols], share[labels[rows]], 0.0)
        self.d[: rows.size] = squares(points, points)[rows, cols]
        self.x_scale = self.d_scale = 1.0
        self.sums[:n] = 1.0
        self.steps = steps

    # --- steps ---

    def move(self, eta: float, v: NDArray[np.float64]) -> None:
        """X = X + eta (k v v^T - X), for a unit vector v."""
        n, weight = self.n, eta * self.n_clusters
        partition.move(self.x, n, (1.0 - eta) * self.x_scale, weight, v)
        self.x_scale = 1.0
        self.sums[:n] = (1.0 - eta) * self.sums[:n] + weight * v.sum() * v
        self.v[:n] = v
        self.steps += 1

    def fade(self, keep: float) -> None:
        """The estimate of D becomes so much of itself."""
        self.d_scale *= keep
        if self.d_scale < _LEAST_SCALE:
            self.d *= self.d_scale
            self.d_scale = 1.0

    # --- what is read off X ---

    def smoothed(self) -> NDArray[np.float64]:
        """X P: each point as X mixes it of all."""
        out = np.zeros((self.n, self.points.shape[1]))
        partition.times(self.x, self.n, self.points, out)
        return self.x_scale * out

    def objective(self) -> float:
        """<D, X>, with the exact distances."""
        points = self.points[: self.n]
        return 2.0 * float(self.sums[: self.n] @ (points**2).sum(axis=1) - np.vdot(points, self.smoothed()))

    def row_infeasibility(self) -> float:
        """||X 1 - 1|| / ||1||."""
        return float(np.linalg.norm(self.sums[: self.n] - 1.0)) / math.sqrt(self.n) if self.steps else 0.0

    def negativity(self) -> float:
        """||min(X, 0)|| / ||X||, in the Frobenius norm."""
        negative, size = self._norms()
        return negative / size if size > 0.0 else 0.0

    def violation(self) -> float:
        """How far X is from X 1 = 1 and X >= 0: the length of both distances."""
        rows = float(np.linalg.norm(self.sums[: self.n] - 1.0)) if self.steps else 0.0
        return math.hypot(rows, self._norms()[0])

    def _norms(self) -> tuple[float, float]:
        """||min(X, 0)|| and ||X||: an entry off the diagonal, which is not negative, counts twice."""
        x = self.x_scale * self.x[: symmetric.size(self.n)]
        diagonal = x[symmetric.diagonal(self.n)]
        negative = np.minimum(x, 0.0)
        return math.sqrt(2.0 * float(negative @ negative)), math.sqrt(2.0 * float(x @ x) - float(diagonal @ diagonal))

    def to_numpy(self) -> NDArray[np.float64]:
        """X, written out."""
        return symmetric.unpacked(self.x_scale * self.x, self.n)

    # --- checkpoints ---

    def _check_sizes(self) -> None:
        capacity = len(_loaded.array(self, "points", np.float64, (None, None), least=-LARGEST, most=LARGEST))
        _loaded.count(self, "n", 0, capacity)
        for name in ("x", "d"):
            _loaded.array(self, name, np.float64, (symmetric.size(capacity),))
        for name in ("sums", "v"):
            _loaded.array(self, name, np.float64, (capacity,))

    def _check_loaded(self) -> None:
        self._check_sizes()
        n, clusters = self.n, _loaded.count(self, "n_clusters", 2)
        _loaded.generator(self, "rng")
        steps = _loaded.count(self, "steps")
        _loaded.count(self, "products")
        _loaded.require(self, "steps", not steps or n > clusters, f"none before there are {clusters + 1} points")
        scale = _loaded.real(self, "x_scale", _LEAST_SCALE, 1.0 / _LEAST_SCALE)
        of_d = _loaded.real(self, "d_scale", _LEAST_SCALE, 1.0 / _LEAST_SCALE)
        for name in ("gap", "lmo_error"):
            _loaded.real(self, name, nan=True, inf=True)
        used = slice(symmetric.size(n))
        for name in ("x", "d", "sums", "v"):
            rest = getattr(self, name)[n if name in ("sums", "v") else used.stop :]
            _loaded.require(self, name, not rest.any(), "zeros where there is no point yet")
        _loaded.require(self, "points", not self.points[n:].any(), "zeros where there is no point yet")
        # A squared distance, times how many pairs one pair may be scaled up to.
        most = 4.0 * LARGEST * LARGEST * max(self.points.shape[1], 1) * max(n, 1) ** 2
        d = self.d[used]
        _loaded.require(self, "d", ((d >= 0.0) & (of_d * d <= most)).all(), f"values from 0 to {most:g}")
        _loaded.require(self, "v", float(self.v @ self.v) <= 1.0 + 1e-6, "a vector of at most unit length")
        if not steps:
            _loaded.require(self, "x", not self.x.any(), "zeros before the first step")
            return
        _loaded.require(
            self, "x", scale * np.abs(self.x[used]).max() <= 2.0 * clusters, f"values of at most {clusters}"
        )
        _loaded.positive_semidefinite(self, "x", self.x, n, _ROUNDING)
        trace = scale * float(self.x[symmetric.diagonal(n)].sum())
        _loaded.require(self, "x", abs(trace - clusters) <= _ROUNDING * clusters, f"a trace of {clusters}")
        sums = np.zeros((n, 1))
        partition.times(self.x, n, np.ones((n, 1)), sums)
        apart = np.abs(scale * sums[:, 0] - self.sums[:n]).max()
        _loaded.require(self, "sums", apart <= _ROUNDING * clusters * n, "the sums of the rows of x")
