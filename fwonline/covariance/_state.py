"""The covariance estimate at work: its arrays, and the two things done with them, entering a sample and a step."""

from __future__ import annotations

import math
import typing

import numpy as np
from scipy.linalg import lapack

from fwonline import _loaded, sets
from fwonline._kernels import lanczos, layout, symmetric
from fwonline._kernels.room import check_room, longer
from fwonline.covariance._methods import CLEAR, METHODS
from fwonline.exceptions import SampleError

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    from fwonline.covariance._methods import Method

__all__ = ["State"]

# Rows of the Lanczos basis, and products in all, that one linear minimisation may take.
BASIS = 40
MOST_PRODUCTS = 400
# The eigenvector's residual relative to its eigenvalue falls with the step: TOLERANCE sqrt(eta).
TOLERANCE = 0.1
# No variance is known yet, or it is so small that its inverse overflows.
TINY = {"float64": 1e-280, "float32": 1e-30}
# The largest value that can be learned.
LARGEST = {"float64": layout.LARGEST, "float32": 1e15}

# What a step fills, and a checkpoint leaves out.
_SCRATCH = (
    "g", "z", "deviation", "delta", "image", "basis", "block", "terms", "on", "off", "low", "work",
    "idx", "val", "idx_bytes", "val_bytes",
)  # fmt: skip
# Of the eigenvalues of a step's block in units of the trace.
_UNIT_TRACE = sets.UnitSimplex(1.0)


class State:
    """The estimate X, the method's matrix M, the dual Y where there is one, and what is known of their sizes.

    The matrices are packed. It grows by features as a :class:`~fwonline.linear_model.features.FeatureIndex` asks it to.
    """

    fixed_dimension: int | None = None  # features may always be added

    def __init__(
        self,
        method: str,
        *,
        beta0: float,
        batch_size: int,
        rank: int,
        dual: bool,
        dtype: str,
        fading: float,
        centre: bool,
        absent_is_mean: bool,
        seed: int | None,
    ) -> None:
        self.method_name = method
        self.beta0 = beta0
        self.batch_size = batch_size
        self.rank = rank
        self.dual = dual
        self.dtype_name = dtype
        self.fading = fading
        self.centre = centre
        self.absent_is_mean = absent_is_mean
        self.tolerance = TOLERANCE
        self.rng = np.random.default_rng(seed)

        self.n = 0  # features
        self.seen = 0  # samples
        self.steps = 0
        self.waiting = 0  # samples since the last step
        self.products = 0  # of a matrix with a vector, in all
        self.x, self.m, self.y = np.zeros((3, 0), dtype=dtype)
        self.mean = np.zeros(0)
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
        self._scratch(0)
        self._buffers(64)

    # --- room ---

    def _scratch(self, capacity: int) -> None:
        dtype = self.dtype_name
        self.g = np.zeros(symmetric.size(capacity), dtype)
        self.z = np.zeros(symmetric.size(capacity) if self.dual else 0, dtype)
        # The sample less its mean is a small difference of numbers that may be large: in double precision.
        self.deviation = np.zeros(capacity)
        self.delta = self.deviation if dtype == "float64" else np.zeros(capacity, dtype)
        self.image = np.zeros(capacity, dtype)
        rank = min(self.rank, capacity)  # no more directions than features
        rows = max(BASIS, rank)
        self.basis = np.zeros((rows, capacity), dtype)
        self.block = np.zeros((-(-rank // 4) * 4 if self.rank > 1 else 0, capacity), dtype)
        self.terms = np.zeros((2, capacity), dtype)
        self.on, self.off, self.low, self.work = np.zeros((4, rows))

    def _buffers(self, count: int) -> None:
        self.idx = np.zeros(count, dtype=np.uint32)
        self.val = np.zeros(count)
        self.idx_bytes, self.val_bytes = self.idx.data.cast("B"), self.val.data.cast("B")

    def reserve(self, count: int) -> None:
        """Room for a sample of `count` entries on its way in."""
        if count > self.idx.size:
            self._buffers(2 * count)

    def grow(self, ranks: NDArray[np.int64]) -> None:
        """Add a feature for each rank; what was not there before was 0."""
        n = self.n + len(ranks)
        if n > self.mean.size:
            # Packed rows only ever grow at the end; features that trickle in cost a copy for every eighth of them.
            capacity = max(n, self.mean.size + self.mean.size // 8, 8)
            _check_memory(capacity, (5 if self.dual else 3) * self.x.itemsize)
            self.x, self.m = (longer(a, symmetric.size(capacity)) for a in (self.x, self.m))
            if self.dual:
                self.y = longer(self.y, symmetric.size(capacity))
            self.mean = longer(self.mean, capacity)
            self._scratch(capacity)
        self.n = n

    def shrink(self, n: int) -> None:
        """Take back features that were just added; nothing has been learned of them."""
        self.n = n

    # --- learning ---

    @property
    def method(self) -> Method:
        return METHODS[self.method_name]

    @property
    def next_step(self) -> int:
        """Number of the next step; it stays where the step is as long as the memory of a fading stream."""
        k = self.steps + 1
        return k if self.fading == 0.0 else min(k, math.ceil(2.0 / self.fading))

    def enter(self, count: int) -> bool:
        """Take in the sample that stands in the buffers; answers whether it completes a batch."""
        self.seen += 1
        share = max(1.0 / self.seen, self.fading)
        square = symmetric.sample(
            self.n, self.idx, self.val, count, self.mean, self.deviation, share, self.centre, self.absent_is_mean
        )
        if self.delta is not self.deviation:
            self.delta[: self.n] = self.deviation[: self.n]
        weight = share * (1.0 - share) if self.centre else share
        self.second_moment_trace = (1.0 - share) * self.second_moment_trace + weight * square
        self.method.enter(self, share, weight)
        self.waiting = (self.waiting + 1) % self.batch_size
        return self.waiting == 0

    def measure_moment(self) -> None:
        """Find the l1 norms of M, where it is the second moment, anew."""
        clear = CLEAR * math.sqrt(max(1.0 / self.seen, self.fading))
        nothing = np.zeros(self.n, self.dtype_name)
        self.empirical_l1, self.clear_l1 = symmetric.moment(self.m, self.n, 1.0, 0.0, nothing, self.image, clear)

    def step(self, trace: float, l1: float) -> None:
        """One step on {X PSD, tr X <= trace} with the distance to {||X||_1 <= l1} smoothed."""
        if trace <= TINY[self.dtype_name]:
            return
        eta, beta = self.method.steps(self.next_step, self.beta0)
        has_dual = self.dual and l1 < math.inf
        if has_dual:
            shifted = self._shift(l1, beta)
        else:
            shifted = self.x
            self.tau = symmetric.threshold(self.x, self.n, l1, self.tau, self.l1, self.above, self.n_above)
        if self.rank == 1:
            self._step_to_vertex(trace, eta, beta, shifted)
        else:
            smoothness = 1.0 + (1.0 / beta if l1 < math.inf else 0.0)
            self._step_to_block(trace, eta, beta, shifted, smoothness * eta)
        self.steps += 1
        if has_dual:
            self._ascend(trace, l1, eta, self.method.steps(self.next_step, self.beta0)[1])

    def _step_to_vertex(self, trace: float, eta: float, beta: float, shifted: NDArray[np.float64]) -> None:
        """X = X + eta (s - X) with s the vertex least along v = gradient + clip(Z) / beta."""
        n, method = self.n, self.method
        start = self._start()
        # in units of the trace, so that no square leaves the range of a float
        unit = 1.0 / trace
        inner = symmetric.combine(
            self.g, self.x, self.m, shifted, n,
            method.of_x * unit, method.of_m * unit, unit / beta, self.tau, start, self.image,
        )  # fmt: skip
        theta, residual, products = lanczos.lowest(
            self.g, n, self.basis, self.image, self.on, self.off, self.low, self.work,
            self.tolerance * math.sqrt(eta), MOST_PRODUCTS,
        )  # fmt: skip
        height = trace if theta < 0.0 else 0.0  # s = trace v v^T, or 0 where no direction descends
        self.gap = trace * (inner - height * theta)
        self.lmo_error = trace * trace * residual
        self.products += products
        self.l1, self.above, self.n_above = symmetric.move(self.x, n, 1.0 - eta, eta * height, self.basis[0], self.tau)

    def _step_to_block(
        self, trace: float, eta: float, beta: float, shifted: NDArray[np.float64], curvature: float
    ) -> None:
        """X = X + eta (S - X) with S least in <v, S> + curvature / 2 ||S - X||^2 among the matrices on a Krylov space.

        That is the projection of X - v / curvature on {Q P Q^T: P PSD, tr P <= trace}: with Q orthonormal, the
        eigenvalues of Q^T (X - v / curvature) Q are projected.
        """
        n, method = self.n, self.method
        start = self._start()
        unit = 1.0 / trace
        # G = (v / curvature - X) / trace
        inner = symmetric.combine(
            self.g, self.x, self.m, shifted, n,
            (method.of_x / curvature - 1.0) * unit, method.of_m / curvature * unit, unit / (curvature * beta),
            self.tau, start, self.image,
        )  # fmt: skip
        rows, coupling = lanczos.krylov(self.g, n, self.basis, self.image, self.on, self.off, self.rank)
        values, vectors, _ = lapack.dstev(self.on[:rows], self.off[: max(rows - 1, 1)])
        shares = _UNIT_TRACE.project(-values)
        taken = np.flatnonzero(shares)
        padded = -(-taken.size // 4) * 4
        self.block[: taken.size, :n] = vectors[:, taken].T @ self.basis[:rows, :n]
        self.block[taken.size : padded] = 0.0
        weights = np.zeros(padded)
        weights[: taken.size] = eta * trace * shares[taken]
        before = self.square
        self.l1, self.above, self.n_above, self.square, along = symmetric.move_block(
            self.x, n, 1.0 - eta, weights, self.block, padded, self.tau, self.terms
        )
        # <v, X - S>, from v = curvature (trace G + X)
        linear = trace * (inner - trace * float(shares @ values))
        self.gap = curvature * (linear + before - along / eta)
        missed = coupling * float(np.max(np.abs(vectors[-1, taken]), initial=0.0))
        self.lmo_error = curvature * trace * trace * missed
        self.products += rows

    # --- the dual ---

    def _shift(self, l1: float, beta: float) -> NDArray[np.float64]:
        """Z = X + beta Y, whose distance to the l1 ball is smoothed in the place of that of X; and its threshold."""
        sums = symmetric.shift(self.z, self.x, self.y, self.n, beta, self.tau)
        self.tau = symmetric.threshold(self.z, self.n, l1, self.tau, *sums)
        return self.z

    def _ascend(self, trace: float, l1: float, eta: float, beta: float) -> None:
        """Y = Y + sigma R with R = X - proj(X + beta Y); sigma is at most 1 / beta0, and sigma ||R||^2 must fade."""
        z = self._shift(l1, beta)
        square = symmetric.squared_residual(z, self.y, self.n, beta, self.tau)
        sigma = 1.0 / self.beta0
        most = 4.0 * eta * eta * trace * trace / beta
        if sigma * square > most:
            sigma = most / square
        # R = clip(Z) - beta Y
        symmetric.ascend(self.y, z, self.n, 1.0 - sigma * beta, sigma, self.tau)

    def _start(self) -> NDArray[np.float64]:
        """A unit vector to start the eigenvector iteration from.

        The sample learned last, along which the gradient has just fallen, and a random part, which meets every
        eigenvector: a seventh fewer products than from a random vector, while the last eigenvector saves none.
        """
        n, delta = self.n, self.delta[: self.n]
        noise = self.rng.standard_normal(n)
        noise *= 0.5 / math.sqrt(noise @ noise)
        length = math.sqrt(delta @ delta)
        if length > 0.0:
            noise += delta / length
        start = self.basis[0]
        start[:n] = noise / math.sqrt(noise @ noise)
        return start

    def distance(self, l1: float) -> float:
        """Euclidean distance from X to the l1 ball."""
        tau = symmetric.threshold(self.x, self.n, l1, self.tau, self.l1, self.above, self.n_above)
        return math.sqrt(symmetric.squared_clip(self.x, self.n, tau)) if tau > 0.0 else 0.0

    # --- checkpoints ---

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name not in _SCRATCH}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._check_sizes()
        self._scratch(self.mean.size)
        self._buffers(64)

    def _check_sizes(self) -> None:
        """See that the arrays are of the types, and as long, as compiled functions and scratch take for granted."""
        _loaded.choice(self, "method_name", METHODS)
        _loaded.choice(self, "dtype_name", LARGEST)
        _loaded.choice(self, "dual", (True, False))
        _loaded.count(self, "rank", 1)
        capacity = _loaded.array(self, "mean", np.float64, (None,)).size
        size = symmetric.size(capacity)
        for name, entries in (("x", size), ("m", size), ("y", size if self.dual else 0)):
            _loaded.array(self, name, self.dtype_name, (entries,))
        _loaded.count(self, "n", 0, capacity)

    def _check_loaded(self) -> None:
        self._check_sizes()
        n, largest = self.n, LARGEST[self.dtype_name]
        batch = _loaded.count(self, "batch_size", 1)
        _loaded.count(self, "seen", 1 if n else 0)
        _loaded.count(self, "steps")
        _loaded.count(self, "waiting", 0, batch - 1)
        _loaded.count(self, "products")
        _loaded.real(self, "tolerance", 0.0, 1.0)
        _loaded.generator(self, "rng")
        # A square of a deviation is at most (2 largest)^2, and what is seen of the l1 norm a sum over all entries.
        most = 8.0 * largest * largest
        used = slice(symmetric.size(n))
        for name in ("x", "m", "y"):
            entries = getattr(self, name)
            _loaded.require(self, name, not entries[used.stop :].any(), "zeros where no feature stands yet")
            if name != "y":
                _loaded.require(self, name, (np.abs(entries[used]) <= most).all(), f"values of at most {most:g}")
        _loaded.array(self, "mean", np.float64, (None,), least=-1.001 * largest, most=1.001 * largest)
        _loaded.require(self, "mean", not self.mean[n:].any(), "zeros where no feature stands yet")
        rounding = 1e-4 if self.dtype_name == "float32" else 1e-9
        _loaded.positive_semidefinite(self, "x", self.x, n, rounding)
        for name in ("second_moment_trace", "empirical_l1", "clear_l1", "tau", "l1", "above"):
            _loaded.real(self, name, 0.0, 1.001 * most * max(n, 1) ** 2)
        # Only the gap reads it, and squares of the largest values are beyond every float.
        _loaded.real(self, "square", 0.0, nan=True, inf=True)
        _loaded.real(self, "n_above", 0.0, float(n) ** 2)
        _loaded.require(self, "n_above", self.n_above.is_integer(), "a whole number")
        total = 2.0 * float(np.abs(self.x[used]).sum(dtype=np.float64)) - self._trace_of_x()
        _loaded.require(
            self, "l1", abs(self.l1 - total) <= 10.0 * rounding * max(n, 1) * total, "the sum of the entries of x"
        )
        for name in ("gap", "lmo_error"):
            _loaded.real(self, name, nan=True, inf=True)

    def _trace_of_x(self) -> float:
        rows = np.arange(1, self.n + 1)
        return float(self.x[rows * (rows + 1) // 2 - 1].sum(dtype=np.float64))


def _check_memory(n: int, width: int) -> None:
    """Raise before packed matrices of n rows, so many bytes for each pair, are asked for that cannot be held."""
    try:
        check_room(f"the covariance of {n} features", float(width) * symmetric.size(n))
    except MemoryError as error:
        raise SampleError(str(error)) from error
