"""The arrays of a covariance estimate: how they grow, and what must hold of them in a checkpoint."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import layout, symmetric
from fwonline._kernels.lanczos import Space
from fwonline._room import WithScratch, check_room, longer
from fwonline.covariance._evidence import BALL_ONLY, MOMENT_ONLY, Evidence, Mixture
from fwonline.exceptions import SampleError

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray


__all__ = ["LARGEST", "TINY", "State"]

# Rows of the Lanczos basis of one linear minimisation.
_BASIS = 40
# The largest value that can be learned.
LARGEST = {"float64": layout.LARGEST, "float32": 1e15}
# No variance is known yet, or it is so small that its inverse overflows.
TINY = {"float64": 1e-280, "float32": 1e-30}


class State(WithScratch):
    """The estimate X, the method's matrix M, the dual Y where there is one, and what is known of their sizes.

    The matrices are packed. They grow as a :class:`~fwonline.features.FeatureIndex` adds features.
    """

    # What a step fills, and a checkpoint leaves out.
    _scratch = (
        "g", "z", "deviation", "delta", "space", "block", "terms", "idx", "val", "idx_bytes", "val_bytes", "_weights",
    )  # fmt: skip

    def __init__(self, rank: int, dual: bool, dtype: str, seed: int | None, shrinks: bool = False) -> None:
        self.rank = rank
        self.dual = dual
        self.dtype_name = dtype
        self.rng = np.random.default_rng(seed)

        self.n = 0  # features
        self.seen = 0  # samples
        self.steps = 0
        self.waiting = 0  # samples since the last step
        self.products = 0  # of a matrix with a vector, in all
        self.x, self.m, self.y = np.zeros((3, 0), dtype=dtype)
        self.mean = np.zeros(0)
        self.evidence = Evidence() if shrinks else None
        self.second_moment_trace = 0.0
        self.empirical_l1 = 0.0  # of the second moment, and of those entries that stand clear of noise
        self.clear_l1 = 0.0
        # The l1 threshold of the last step, and of X: the l1 norm, and sum and number of the |x| above that threshold.
        self.tau = 0.0
        self.l1 = 0.0
        self.above = 0.0
        self.n_above = 0.0
        self.square = 0.0  # ||X||^2, where steps are blocks
        self.gap = math.nan
        self.lmo_error = 0.0
        self._make_scratch()

    # --- room ---

    def _make_scratch(self) -> None:
        # Of which samples, steps and features they are, and the weights.
        self._weights: tuple[tuple[int, int, int, bool], tuple[float, float, float]] | None = None
        self._buffers(64)
        self._work()

    def _work(self) -> None:
        """Make the arrays that a step fills."""
        capacity, dtype = self.mean.size, self.dtype_name
        self.g = np.zeros(symmetric.size(capacity), dtype)
        self.z = np.zeros(symmetric.size(capacity) if self.dual else 0, dtype)
        # The sample less its mean is a small difference of numbers that may be large: in double precision.
        self.deviation = np.zeros(capacity)
        self.delta = self.deviation if dtype == "float64" else np.zeros(capacity, dtype)
        rank = min(self.rank, capacity)  # no more directions than features
        self.space = Space.of(max(_BASIS, rank), capacity, dtype)
        self.block = np.zeros((-(-rank // 4) * 4 if self.rank > 1 else 0, capacity), dtype)
        self.terms = np.zeros((2, capacity), dtype)

    def _buffers(self, count: int) -> None:
        self.idx = np.zeros(count, dtype=np.uint32)
        self.val = np.zeros(count)
        self.idx_bytes, self.val_bytes = self.idx.data.cast("B"), self.val.data.cast("B")

    def reserve(self, count: int) -> None:
        """Make room for a sample of `count` entries on its way in."""
        if count > self.idx.size:
            self._buffers(2 * count)

    def grow(self, n: int) -> None:
        """Have n features; what was not there before was 0."""
        if n > self.mean.size:
            # Packed rows only ever grow at the end; features that trickle in cost a copy for every eighth of them.
            capacity = max(n, self.mean.size + self.mean.size // 8, 8)
            size = symmetric.size(capacity)
            need = float(5 if self.dual else 3) * self.x.itemsize * size
            try:
                check_room(f"the covariance of {capacity} features", need)
            except MemoryError as error:
                raise SampleError(str(error)) from error
            self.x, self.m = longer(self.x, size), longer(self.m, size)
            if self.dual:
                self.y = longer(self.y, size)
            self.mean = longer(self.mean, capacity)
            if self.evidence is not None:
                self.evidence.make_room(capacity)
            self._work()
        self.n = n

    # --- what is read off X ---

    def mixture(self) -> Mixture:
        """Return the shares of which the estimate is made. O(n^2)."""
        if self.evidence is None:
            return BALL_ONLY
        return self.evidence.mixture(self) if self.second_moment_trace > TINY[self.dtype_name] else MOMENT_ONLY

    def weights(self, floor: float, ball: bool = False) -> tuple[float, float, float]:
        """Return how much of X and of M the estimate is, or that of the ball, and what is added to its diagonal.

        Where this is too little, so much of the mean variance as brings every eigenvalue to `floor` times that mean.
        O(n^2) for the first time after a sample, then O(1).
        """
        now = self.seen, self.steps, self.n, ball
        if self._weights is None or self._weights[0] != now:
            mixture, trace = BALL_ONLY if ball else self.mixture(), self.second_moment_trace
            of_x, of_m, n = mixture.ball, mixture.moment, max(self.n, 1)
            added = mixture.identity * trace / n
            mean = ((of_x * self.trace() if of_x else 0.0) + (of_m + mixture.identity) * trace) / n
            if added < floor * mean:
                part = (floor * mean - added) / (mean - added)
                of_x, of_m, added = (1.0 - part) * of_x, (1.0 - part) * of_m, floor * mean
            self._weights = now, (of_x, of_m, added)
        return self._weights[1]

    def estimate(self, floor: float, ball: bool = False) -> NDArray[np.floating]:
        """Return the estimate, or that of the ball, packed."""
        of_x, of_m, added = self.weights(floor, ball)
        x = self.x[: symmetric.size(self.n)]
        if (of_x, of_m, added) == (1.0, 0.0, 0.0):
            return x
        x = of_x * x.astype(np.float64)
        if of_m:
            x += of_m * self.m[: x.size]
        x[symmetric.diagonal(self.n)] += added
        return x

    def trace(self) -> float:
        """Return the trace of X."""
        return float(self.x[symmetric.diagonal(self.n)].sum(dtype=np.float64))

    def threshold(self, l1: float) -> float:
        """Return by how much every |x| must shrink so that X lies in the l1 ball; 0 where it does."""
        return symmetric.threshold(self.x, self.n, l1, self.tau, self.l1, self.above, self.n_above)

    def distance(self, l1: float) -> float:
        """Return the Euclidean distance from X to the l1 ball."""
        tau = self.threshold(l1)
        return math.sqrt(symmetric.squared_residual(self.x, self.x, self.n, 0.0, tau)) if tau > 0.0 else 0.0

    # --- checkpoints ---

    def _check_sizes(self) -> None:
        _loaded.choice(self, "dtype_name", LARGEST)
        _loaded.choice(self, "dual", (True, False))
        _loaded.count(self, "rank", 1)
        capacity = _loaded.array(self, "mean", np.float64, (None,)).size
        size = symmetric.size(capacity)
        for name, entries in (("x", size), ("m", size), ("y", size if self.dual else 0)):
            _loaded.array(self, name, self.dtype_name, (entries,))
        _loaded.count(self, "n", 0, capacity)

    def check_loaded(self, batch_size: int) -> None:
        """See that this is a state to which samples and steps can lead."""
        self._check_sizes()
        n, largest = self.n, LARGEST[self.dtype_name]
        _loaded.count(self, "seen", 1 if n else 0)
        _loaded.count(self, "steps")
        _loaded.count(self, "waiting", 0, batch_size - 1)
        _loaded.count(self, "products")
        _loaded.generator(self, "rng")
        # A square of a deviation is at most (2 largest)^2, and what is seen of the l1 norm a sum over all entries.
        most = 8.0 * largest * largest
        used = slice(symmetric.size(n))
        for name in ("x", "m", "y"):
            entries = getattr(self, name)
            _loaded.require(self, name, not entries[used.stop :].any(), "zeros where there is no feature yet")
            if name != "y":
                _loaded.require(self, name, (np.abs(entries[used]) <= most).all(), f"values of at most {most:g}")
        _loaded.array(self, "mean", np.float64, (None,), least=-1.001 * largest, most=1.001 * largest)
        _loaded.require(self, "mean", not self.mean[n:].any(), "zeros where there is no feature yet")
        rounding = 1e-4 if self.dtype_name == "float32" else 1e-9
        _loaded.positive_semidefinite(self, "x", self.x, n, rounding)
        for name in ("second_moment_trace", "empirical_l1", "clear_l1", "tau", "l1", "above"):
            _loaded.real(self, name, 0.0, 1.001 * most * max(n, 1) ** 2)
        # Only the gap reads it, and squares of the largest values are beyond every float.
        _loaded.real(self, "square", 0.0, nan=True, inf=True)
        _loaded.real(self, "n_above", 0.0, float(n) ** 2)
        _loaded.require(self, "n_above", self.n_above.is_integer(), "a whole number")
        total = 2.0 * float(np.abs(self.x[used]).sum(dtype=np.float64)) - self.trace()
        is_total = abs(self.l1 - total) <= 10.0 * rounding * max(n, 1) * total
        _loaded.require(self, "l1", is_total, "the sum of the entries of x")
        for name in ("gap", "lmo_error"):
            _loaded.real(self, name, nan=True, inf=True)
        if self.evidence is not None:
            _loaded.instance(self, "evidence", Evidence).check_loaded(self, TINY[self.dtype_name])
