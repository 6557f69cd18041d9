"""The two methods: what each knows of the gradient, and the steps that both take.

The objective is f(X) = E ||X - w w^T||^2 / 2, so a sample's gradient is X - w w^T. Each method keeps one packed matrix
M and reads the gradient off as `of_x X + of_m M`.
"""

from __future__ import annotations

import dataclasses
import math
import typing

import numpy as np
from scipy.linalg import lapack

from fwonline import sets
from fwonline._kernels import lanczos, symmetric
from fwonline._kernels.entry import Direct
from fwonline.covariance import _passes
from fwonline.covariance._state import TINY
from fwonline.optim.schedules import EXACT, STOCHASTIC, Homotopy, momentum

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    from fwonline.covariance._state import State

__all__ = ["METHODS", "Mean", "Method", "Momentum"]

# Products that one linear minimisation may take.
_MOST_PRODUCTS = 400
# Of the eigenvalues of a step's block in units of the trace.
_UNIT_TRACE = sets.UnitSimplex(1.0)
# An empirical covariance of independent features is noise of standard deviation sqrt(s_ii s_jj / samples); beyond so
# many of them an entry is taken for true. Without the others the l1 norm was within 2% of the truth's on simulated
# block covariances, n = 30 to 300, from 100 samples on; with them 4% to 40% above.
# Its square is no integer: perfectly correlated features stand exactly on such a bar at some number of samples.
_CLEAR = 2.9

# Of one kind of arguments for each dtype.
_combine, _lowest, _krylov = Direct(symmetric.combine), Direct(lanczos.lowest), Direct(lanczos.krylov)
_combine_clear = Direct(_passes.combine_clear)


@dataclasses.dataclass
class Method:
    """The parameters of an estimate, and what is done with its state: entering a sample, and a step."""

    beta0: float
    batch_size: int
    fading: float = 0.0
    centre: bool = True
    absent_is_mean: bool = False
    # The eigenvector's residual relative to its eigenvalue falls with the step: so much times its square root.
    tolerance: float = 0.1

    default_beta0: typing.ClassVar[float]
    default_rank: typing.ClassVar[int]  # of the terms added by a step
    of_x: typing.ClassVar[float]
    of_m: typing.ClassVar[float]
    knows_moment: typing.ClassVar[bool]  # whether M is the second moment of what was seen
    homotopy: typing.ClassVar[Homotopy]

    def _take(self, state: State, share: float, weight: float) -> None:
        """Take the deviation `state.delta` into M, as `weight` of the second moment of which it makes up `share`."""
        raise NotImplementedError

    def next_step(self, state: State) -> int:
        """Return the number of the next step; it stays where the step is as long as the memory of a fading stream."""
        k = state.steps + 1
        return k if self.fading * k <= 2.0 else math.ceil(2.0 / self.fading)

    def _share(self, state: State) -> float:
        """The weight of the last sample among all."""
        return max(1.0 / state.seen, self.fading)

    def enter(self, state: State, count: int) -> bool:
        """Take in the sample of `count` entries in the buffers; return whether it completes a batch."""
        state.seen += 1
        share = self._share(state)
        square = symmetric.sample(
            state.n, state.idx, state.val[:count], state.mean, state.deviation, share, self.centre, self.absent_is_mean
        )
        if state.delta is not state.deviation:
            state.delta[: state.n] = state.deviation[: state.n]
        weight = share * (1.0 - share) if self.centre else share
        state.second_moment_trace = (1.0 - share) * state.second_moment_trace + weight * square
        if state.evidence is not None:
            if state.second_moment_trace > TINY[state.dtype_name]:
                state.evidence.enter(state, share, self.fading, self.centre)
            else:
                state.evidence.enter_nothing(share)
        self._take(state, share, weight)
        state.waiting = (state.waiting + 1) % self.batch_size
        return state.waiting == 0

    # --- steps ---

    def step(self, state: State, trace: float, l1: float) -> None:
        """Take one step on {X PSD, tr X <= trace} with the distance to {||X||_1 <= l1} smoothed."""
        if trace <= TINY[state.dtype_name]:
            return
        k = self.next_step(state)
        eta, beta = self.homotopy.eta(k), self.homotopy.beta(k, self.beta0)
        has_dual = state.dual and l1 < math.inf
        if has_dual:
            shifted = self._shift(state, l1, beta)
        else:
            shifted = state.x
            state.tau = state.threshold(l1)
        if state.rank == 1:
            self._step_to_vertex(state, trace, eta, beta, shifted)
        else:
            smoothness = 1.0 + (1.0 / beta if l1 < math.inf else 0.0)
            self._step_to_block(state, trace, eta, beta, shifted, smoothness * eta)
        state.steps += 1
        if has_dual:
            self._ascend(state, trace, l1, eta, self.homotopy.beta(self.next_step(state), self.beta0))

    def _write_gradient(
        self, state: State, weights: symmetric.Weights, shifted: NDArray[np.floating], start: NDArray[np.floating]
    ) -> float:
        """Write G and its product with the start; returns <G, X>. Without bounds, noise in M is left out of G."""
        dtype, n, image = state.dtype_name, state.n, state.space.image
        if state.evidence is None:
            return _combine(dtype, state.g, state.x, state.m, shifted, n, weights, start, image)
        clear = _passes.Clear(weights.of_x, weights.of_m, _CLEAR * math.sqrt(self._share(state)))
        return _combine_clear(dtype, state.g, state.x, state.m, n, clear, state.terms[0], start, image)

    def _step_to_vertex(
        self, state: State, trace: float, eta: float, beta: float, shifted: NDArray[np.floating]
    ) -> None:
        """X = X + eta (s - X) with s the vertex least along v = gradient + clip(Z) / beta."""
        n, space = state.n, state.space
        # in units of the trace, so that no square leaves the range of a float
        unit = 1.0 / trace
        weights = symmetric.Weights(self.of_x * unit, self.of_m * unit, unit / beta, state.tau)
        inner = self._write_gradient(state, weights, shifted, _start(state))
        tol = self.tolerance * math.sqrt(eta)
        theta, residual, products = _lowest(state.dtype_name, state.g, n, space, tol, _MOST_PRODUCTS)
        height = trace if theta < 0.0 else 0.0  # s = trace v v^T, or 0 where no direction descends
        state.gap = trace * (inner - height * theta)
        state.lmo_error = trace * trace * residual
        state.products += products
        state.l1, state.above, state.n_above = symmetric.move(
            state.x, n, 1.0 - eta, eta * height, space.basis[0], state.tau
        )

    def _step_to_block(
        self, state: State, trace: float, eta: float, beta: float, shifted: NDArray[np.floating], curvature: float
    ) -> None:
        """X = X + eta (S - X) with S least in <v, S> + curvature / 2 ||S - X||^2 among the matrices on a Krylov space.

        That is the projection of X - v / curvature on {Q P Q^T: P PSD, tr P <= trace}: with Q orthonormal, the
        eigenvalues of Q^T (X - v / curvature) Q are projected.
        """
        n, space, block = state.n, state.space, state.block
        unit = 1.0 / trace
        # G = (v / curvature - X) / trace
        weights = symmetric.Weights(
            (self.of_x / curvature - 1.0) * unit, self.of_m / curvature * unit, unit / (curvature * beta), state.tau
        )
        inner = self._write_gradient(state, weights, shifted, _start(state))
        rows, coupling = _krylov(state.dtype_name, state.g, n, space, state.rank)
        values, vectors, _ = lapack.dstev(space.on[:rows], space.off[: max(rows - 1, 1)])
        shares = _UNIT_TRACE.project(-values)
        taken = np.flatnonzero(shares)
        padded = -(-taken.size // 4) * 4
        block[: taken.size, :n] = vectors[:, taken].T @ space.basis[:rows, :n]
        block[taken.size : padded] = 0.0
        amounts = np.zeros(padded)
        amounts[: taken.size] = eta * trace * shares[taken]
        before = state.square
        state.l1, state.above, state.n_above, state.square, along = symmetric.move_block(
            state.x, n, 1.0 - eta, amounts, block, padded, state.tau, state.terms
        )
        # <v, X - S>, from v = curvature (trace G + X)
        linear = trace * (inner - trace * float(shares @ values))
        state.gap = curvature * (linear + before - along / eta)
        missed = coupling * float(np.max(np.abs(vectors[-1, taken]), initial=0.0))
        state.lmo_error = curvature * trace * trace * missed
        state.products += rows

    # --- the dual ---

    def _shift(self, state: State, l1: float, beta: float) -> NDArray[np.floating]:
        """Z = X + beta Y, whose distance to the l1 ball is smoothed in the place of that of X; and its threshold."""
        sums = symmetric.shift(state.z, state.x, state.y, state.n, beta, state.tau)
        state.tau = symmetric.threshold(state.z, state.n, l1, state.tau, *sums)
        return state.z

    def _ascend(self, state: State, trace: float, l1: float, eta: float, beta: float) -> None:
        """Y = Y + sigma R with R = X - proj(X + beta Y); sigma is at most 1 / beta0, and sigma ||R||^2 must fade."""
        z = self._shift(state, l1, beta)
        square = symmetric.squared_residual(z, state.y, state.n, beta, state.tau)
        sigma = 1.0 / self.beta0
        most = 4.0 * eta * eta * trace * trace / beta
        if sigma * square > most:
            sigma = most / square
        # R = clip(Z) - beta Y
        symmetric.ascend(state.y, z, state.n, 1.0 - sigma * beta, sigma, state.tau)


class Mean(Method):
    """The exact gradient of the running mean objective, X - S with S the second moment so far; the steps of HCGM."""

    default_beta0, default_rank = 3.0, 16
    of_x, of_m = 1.0, -1.0
    knows_moment = True
    homotopy = EXACT

    def _take(self, state: State, share: float, weight: float) -> None:
        # S_k = (1 - a) S_{k-1} + a (1 - a) delta delta^T about running means; a delta delta^T about 0
        _move_moment(state, 1.0 - share, weight, state.delta, share)

    def measure(self, state: State) -> None:
        """Find the l1 norms of M anew."""
        _move_moment(state, 1.0, 0.0, np.zeros(state.n, state.dtype_name), self._share(state))


class Momentum(Method):
    """The paper's gradient estimate, d_k = (1 - rho_k) d_{k-1} + rho_k (X_k - w w^T) with rho_k = 4 / (k + 7)^(2/3)."""

    default_beta0, default_rank = 1.0, 1
    of_x, of_m = 0.0, 1.0
    knows_moment = False
    homotopy = STOCHASTIC

    def _take(self, state: State, share: float, weight: float) -> None:
        rho = momentum(self.next_step(state))
        # X stays where it is until the batch is full: its share enters d with the batch's first sample.
        keep, of_x = (1.0 - rho, rho) if state.waiting == 0 else (1.0, 0.0)
        unbiased = weight / share  # about running means the k-th deviation is k / (k - 1) times too large, squared
        symmetric.blend(state.m, state.x, state.n, keep, of_x, -rho * unbiased / self.batch_size, state.delta)


METHODS: dict[str, type[Method]] = {"mean": Mean, "shcgm": Momentum}


def _move_moment(state: State, keep: float, weight: float, v: NDArray[np.floating], share: float) -> None:
    """M = keep M + weight v v^T, and its l1 norms, where the last of all samples makes up `share`."""
    clear = _CLEAR * math.sqrt(share)
    norms = symmetric.moment(state.m, state.n, keep, weight, v, state.space.image, clear)
    state.empirical_l1, state.clear_l1 = norms


def _start(state: State) -> NDArray[np.floating]:
    """Write a unit vector from which the eigenvector iteration starts into the basis's first row, and return it.

    The sample learned last, along which the gradient has just fallen, and a random part, which meets every
    eigenvector: a seventh fewer products than from a random vector, while the last eigenvector saves none.
    """
    n, delta = state.n, state.delta[: state.n]
    noise = state.rng.standard_normal(n)
    noise *= 0.5 / math.sqrt(noise @ noise)
    length = math.sqrt(delta @ delta)
    if length > 0.0:
        noise += delta / length
    start = state.space.basis[0]
    start[:n] = noise / math.sqrt(noise @ noise)
    return start
