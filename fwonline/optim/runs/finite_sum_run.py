"""Runs of the batch algorithms: a finite sum, the iterate, the oracle, and the algorithm's own state.

Online, the sum is over the last samples, held as :class:`~fwonline.optim.runs.memory_run.MemoryRun` holds them: a new
sample takes the oldest one's place, then the algorithm takes its steps on the sum as it is now. Offline, it is over
the data.
An algorithm is a :class:`Method`: what it keeps between steps, and the step.
"""

from __future__ import annotations

import math
import typing

import numpy as np
from river import optim as river_optim

from fwonline import _loaded, losses, sets
from fwonline._kernels import layout, memory
from fwonline.optim.base import Optimizer, check_count
from fwonline.optim.problem.data import SparseRows, binary_targets, by_rows
from fwonline.optim.problem.finite_sum import FiniteSum
from fwonline.optim.problem.score_loss import ScalarLoss, ScoreLoss
from fwonline.optim.runs.memory_run import MemoryRun
from fwonline.optim.runs.method import HUGE, Method, distance_sq, move_towards
from fwonline.optim.schedules import Harmonic, Schedule

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray
    from scipy.optimize import OptimizeResult

    from fwonline.optim.base import State
    from fwonline.optim.runs.run import Run

    Array = NDArray[np.float64]
    Batch = NDArray[np.int64]

__all__ = ["FiniteSumOptimizer", "FiniteSumRun", "check_positive"]

TWO_OVER_K = Harmonic()
_SPECTRAL = (sets.NuclearBall, sets.Spectraplex, sets.Spectrahedron, sets.Fantope)
# Steps between two looks at the exact gap, where minimize is given a tolerance.
_LOOK = 10


def check_positive(name: str, value: float | None) -> None:
    """Raise unless value is None or a positive finite number."""
    if value is not None and not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be a positive finite number, or None, got {value!r}")


class FiniteSumRun(MemoryRun):
    """A batch algorithm at work on a vector."""

    optimizer: typing.Any
    method: Method
    _is_searched = False  # whether the largest gradient of a data set has been looked for

    def __init__(self, optimizer: typing.Any, constraint, loss, seed=None, fit_intercept=False):
        self.score_loss = self._score_loss(loss)
        self.atom: sets.Atom | None = None
        self.steepest = 0.0  # the largest gradient of one sample that was met
        self.largest = 0.0  # the largest norm of a sample
        self.newest = 0
        self._data: FiniteSum | None = None
        self._order = np.empty(0, dtype=np.int64)
        capacity = getattr(optimizer, "memory", None) or 1
        super().__init__(optimizer, constraint, loss, seed, fit_intercept, capacity=capacity)
        self.method = optimizer._method()
        self._check()

    def _score_loss(self, loss: typing.Any) -> ScoreLoss:
        return ScalarLoss(loss)

    def _bind(self) -> None:
        super()._bind()
        self._is_compiled = False

    def __getstate__(self) -> dict:
        # A data set minimised over is not the model's.
        return {**super().__getstate__(), "_data": None, "score_loss": None}

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self.score_loss = self._score_loss(self.loss)

    _apart = (*MemoryRun._apart, "_data", "_order", "atom", "method", "score_loss")

    def _check_scalars(self, fresh: Run) -> None:
        super()._check_scalars(fresh)
        self._check_num(layout.W_SCALE, 1.0, 1.0)
        self.score_loss = self._score_loss(self.loss)

    def _check_arrays(self) -> None:
        super()._check_arrays()
        self._data, self._order = None, np.empty(0, dtype=np.int64)
        _loaded.real(self, "largest", 0.0, layout.LARGEST * max(1, self.v.size))
        _loaded.real(self, "steepest", 0.0, HUGE)
        live = int(self.cnt[layout.LIVE])
        _loaded.count(self, "newest", 0, max(0, len(self.rows) - 1))
        at_end = not live or self.newest == (int(self.cnt[layout.SEEN]) - 1) % len(self.rows)
        _loaded.require(self, "newest", at_end or not self.cnt[layout.SEEN], "where the newest sample is")
        self._check_atom()
        fresh = self.optimizer._method()
        _loaded.instance(self, "method", type(fresh))
        _loaded.claim(self, "method")
        self.method.optimizer = self.optimizer
        method = self.method
        apart = (*method.points, *method.vectors, *method.by_sample, *method.counters, "memory", "optimizer")
        _loaded.alike(method, fresh, *apart)
        self.method.check(self)

    def _check_atom(self) -> None:
        """From where a spectral oracle starts its search, or None."""
        if self.atom is None:
            return
        atom: sets.RankOneAtom = _loaded.instance(self, "atom", sets.RankOneAtom)
        for name in ("u", "v"):
            value = getattr(atom, name)
            is_vector = isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == 1
            _loaded.require(atom, name, is_vector and bool(np.isfinite(value).all()), "a vector of finite numbers")
        _loaded.require(atom, "sigma", isinstance(atom.sigma, float) and math.isfinite(atom.sigma), "a finite number")
        fits = atom.shape == (atom.u.size, atom.v.size) and atom.u.size <= self.x.shape[0]
        fits = fits and self.x.ndim == 2 and atom.v.size <= self.x.shape[1]
        _loaded.require(self, "atom", fits, f"a matrix of at most the shape {self.x.shape}")

    @property
    def t(self) -> int:
        return self.s.t

    @property
    def gamma(self) -> float:
        return self.s.gamma

    @property
    def n_held(self) -> int:
        return self.s.live

    def count_gradients(self, n: int, exact: bool = False) -> None:
        self.s.n_gradients += n
        self.s.n_exact += exact

    # --- the problem ------------------------------------------------------------------------------------------

    @property
    def x(self) -> Array:
        """The iterate, to be changed in place."""
        return self.v[: self.n_features]

    @property
    def sum(self) -> FiniteSum:
        """The mean loss over what is held."""
        if self._data is not None:
            return self._data
        live = int(self.cnt[layout.LIVE])
        start, length = np.ascontiguousarray(self.rows[:live, : memory.STAMP].T)
        rows = SparseRows(start, length, self.pool_idx, self.pool_val, d=self.n_features, largest=self.largest)
        labels = self.duals[:live, memory.LABEL]
        return FiniteSum(rows, labels, self.score_loss, self.count_gradients, self.s.intercept)

    def _check(self) -> None:
        """Complain of what an algorithm needs and was not given, before a stream begins."""
        optimizer = self.optimizer
        if not isinstance(optimizer, FiniteSumOptimizer):
            return
        optimizer._check_set(self.constraint)
        if optimizer._needs_lipschitz and optimizer.lipschitz is None and self.score_loss.curvature is None:
            raise ValueError(
                f"lipschitz must be given, a number > 0: no bound of the second derivative of {self.loss} is known"
            )

    @property
    def L(self) -> float:
        """Smoothness of each f_i: max |l''| ||a_i||^2 unless given."""
        if self.optimizer.lipschitz is not None:
            return float(self.optimizer.lipschitz)
        return max(typing.cast("float", self.score_loss.curvature) * self.largest**2, np.finfo(float).tiny)

    @property
    def D(self) -> float:
        """Diameter of the set, unless given."""
        if self.optimizer.diameter is not None:
            return float(self.optimizer.diameter)
        return self.constraint.diameter(self.x.shape)

    @property
    def G(self) -> float:
        """A bound of the gradient of each f_i on the set.

        Where the loss has no largest slope, it is that of any point, plus L D.
        """
        if self.optimizer.gradient_bound is not None:
            return float(self.optimizer.gradient_bound)
        if self.score_loss.slope is not None:
            return max(self.score_loss.slope * self.largest, np.finfo(float).tiny)
        # Once: where the fit is perfect the largest is 0, and a pass at every step would find it again.
        if self._data is not None and not self._is_searched:
            self._is_searched = True
            everyone = np.arange(self._data.n)
            self.steepest = float(np.abs(self._data.slopes(self.x, everyone)).max()) * self.largest
        return self.steepest + self.L * self.D

    def at_most_all(self, size: float) -> int:
        """A number of samples as a formula has it, which may be beyond any; no more than there are."""
        return max(1, math.ceil(min(self.sum.n, size)))

    def draw(self, size: int) -> Batch | None:
        """``size`` samples, independent of each other; None, for all of them, where that is no more."""
        n = self.sum.n
        return None if size >= n else self.rng.integers(n, size=size)

    def pick(self, size: int) -> Batch:
        """Different samples; online the newest is among them."""
        n = self.sum.n
        if self._data is not None:
            return self.rng.choice(n, min(size, n), replace=False)
        others = self.rng.choice(n - 1, min(size, n) - 1, replace=False) if n > 1 else np.empty(0, dtype=np.int64)
        return np.concatenate([[self.newest], others + (others >= self.newest)]).astype(np.int64)

    def next_samples(self, size: int) -> Batch:
        """The samples that come next: online the newest, offline in passes in random orders."""
        if self._data is None:
            return np.array([self.newest])
        n = self._data.n
        if self._order.size < size:
            self._order = self.rng.permutation(n)
        picked, self._order = self._order[:size], self._order[size:]
        return picked

    def lmo(self, g: Array) -> sets.Atom:
        """The atom of a direction. Spectral oracles start from the last one, as exact as the step needs."""
        self.cnt[layout.N_LMO] += 1
        if isinstance(self.constraint, _SPECTRAL):
            tol = max(1e-8, 0.1 / (self.cnt[layout.T] + 1.0))
            self.atom = self.constraint.lmo(g, start=self.atom, tol=tol)
            return self.atom
        return self.constraint.lmo(g)

    def frank_wolfe(self, g: Array, schedule: Schedule, k: int) -> None:
        """v = lmo(g), x = (1 - gamma_k) x + gamma_k v; the gap of the estimate g is noted."""
        self.note(*self.frank_wolfe_at(self.x, g, schedule, k))

    def frank_wolfe_at(self, x: Array, g: Array, schedule: Schedule, k: int) -> tuple[float, float]:
        """The same step from a point x, in place; returns the gap of the estimate g there, and gamma_k."""
        atom = self.lmo(g)
        gap = float(np.vdot(g, x)) - atom.dot(g)
        # Only the schedules that are formulas of k are known not to look at the distance.
        dist_sq = 0.0 if schedule is TWO_OVER_K else distance_sq(x, atom)
        gamma = float(schedule.gamma(k, gap, dist_sq))
        if not 0.0 <= gamma <= 1.0:
            raise ValueError(f"{schedule} answered a step of {gamma!r}; expected one in [0, 1]")
        move_towards(x, atom, gamma)
        return gap, gamma

    @property
    def is_online(self) -> bool:
        """Whether the sum is over samples that come and go, not over a data set."""
        return self._data is None

    def note(self, gap: float, gamma: float) -> None:
        """What monitors read of a step."""
        self.num[layout.GAP] = gap
        self.num[layout.GAMMA] = gamma

    def start_at_vertex(self) -> None:
        """w_0 = argmin <grad f(x), w>, unless the run was given its start."""
        if not self.cnt[layout.WARM]:
            self.x[...] = 0.0
            self.lmo(self.sum.gradient(self.x)).add_to(self.x)

    def _step(self) -> None:
        if self.x.size == 0:
            return
        if not self.cnt[layout.T] and not self.constraint.contains(self.x):
            self.start_at_vertex()
        self.method.follow(self.x)
        if self.method.step(self) is not False:
            self.cnt[layout.T] += 1

    # --- features that are given up -----------------------------------------------------------------------------

    def weighs(self):
        self.method.follow(self.x)
        weighs = self._weighs(self.x)
        for name in self.method.held:
            if (point := getattr(self.method, name)) is not None:
                weighs |= self._weighs(point)
        return weighs

    def _weighs(self, point: Array) -> NDArray[np.bool_]:
        return point != self.start_weight

    def take_out(self, gone):
        self.method.follow(self.x)  # now, while the iterate is of the size that there was
        return super().take_out(gone)

    def _taken_out(self, new, holes, movers) -> None:
        super()._taken_out(new, holes, movers)
        stays = np.flatnonzero(new >= 0)
        order = np.empty(stays.size, dtype=np.int64)
        order[new[stays]] = stays
        self.method.take_out(order)
        self.atom = None  # where the oracle would begin: a point of another size

    # --- online -----------------------------------------------------------------------------------------------

    def _enter(self, rows, i, margin, alpha, largest):
        indptr, idx, val, y = rows
        start, stop = int(indptr[i]), int(indptr[i + 1])
        at = self._place(rows, i)
        # In the order of their positions, so that no sum shows the order of keys in a dict.
        order = start + np.argsort(idx[start:stop], kind="stable")
        self._hold(at, idx[order], val[order], float(y[i]), alpha, largest)

    def _hold(self, at: int, idx: NDArray[np.uint32], val: Array, y: float, slope: typing.Any, largest: float) -> None:
        """One more sample is remembered, in place of the oldest."""
        slot = (int(self.cnt[layout.SEEN]) - 1) % len(self.rows)
        self.method.follow(self.x)
        if self.cnt[layout.LIVE] == len(self.rows):
            self.method.leave(self, slot)
            self.cnt[layout.LIVE] -= 1
        memory.store(
            self.num, self.cnt, self.rows, self.duals, self.pool_idx, self.pool_val,
            slot, at, idx, val, 0, idx.size, y, 0.0, largest,
        )  # fmt: skip
        norm = float(np.linalg.norm(val))
        self.newest = slot
        self.largest = max(self.largest, norm)
        self.steepest = max(self.steepest, float(np.linalg.norm(slope)) * norm)
        self.cnt[layout.N_GRADIENTS] += 1
        self.method.enter(self, slot, slope)

    def _moves(self):
        for _ in range(getattr(self.optimizer, "steps", 1)):
            self._step()
        return iter(())

    @property
    def n_remembered(self) -> int:
        # Without a memory the newest sample is held until the step is over.
        return int(self.cnt[layout.LIVE]) if getattr(self.optimizer, "memory", None) else 0

    def exact_gap(self) -> float | None:
        """The Frank-Wolfe gap of the mean loss over the samples held. One pass over them; the state stays."""
        if not self.n_remembered or not self.x.size:
            return None
        return self._gap_of(self.sum.exact_gradient(self.x))

    def _gap_of(self, gradient: Array) -> float:
        if not np.isfinite(gradient).all():
            return math.inf
        return float(np.vdot(gradient, self.x) - self.constraint.lmo(gradient).dot(gradient))

    def gap_over(self, X, y):
        n = len(y)
        if not n or not self.x.size:
            return None
        z = np.asarray(X @ self.x.T) + self.num[layout.INTERCEPT]
        with np.errstate(over="ignore", invalid="ignore"):
            return self._gap_of((X.T @ self.score_loss.derivative(y, z)).T / n)

    # --- offline ----------------------------------------------------------------------------------------------

    def set_sum(self, objective: FiniteSum) -> None:
        """Take a data set as the sum."""
        self._is_searched = False
        self._data = objective
        self.capacity = objective.n
        self.largest = objective.rows.largest

    def iterate(self, count: int) -> None:
        for _ in range(count):
            self._step()


class FiniteSumOptimizer(Optimizer):
    """Base of the optimizers that take gradients of batches of a finite sum.

    Subclasses store ``memory``, ``steps`` and ``lipschitz`` and name their ``_method_class``.
    """

    _run_class = FiniteSumRun
    _method_class: typing.ClassVar[type[Method]]
    lipschitz: float | None = None
    gradient_bound: float | None = None
    diameter: float | None = None

    def _schedule(self) -> Schedule:
        return TWO_OVER_K

    @property
    def _needs_lipschitz(self) -> bool:
        """Whether L is asked for, so that a loss without a bounded second derivative needs one given."""
        return False

    def _check_set(self, constraint: sets.ConvexSet) -> None:
        """Raise where the algorithm asks something of the set that it does not have."""

    def minimize(
        self,
        X: typing.Any,
        y: ArrayLike,
        *,
        loss: typing.Any = None,
        constraint: sets.ConvexSet,
        steps: int = 10_000,
        seed: int | None = None,
        callback: Callable[[State], bool | None] | None = None,
        x0: ArrayLike | None = None,
        tol: float | None = None,
    ) -> OptimizeResult:
        check_count("steps", steps)
        loss = river_optim.losses.Squared() if loss is None else loss
        run = self.start(constraint, loss, seed)
        data = as_sum(X, binary_targets(y) if losses.is_binary(loss) else y, run)
        run.grow(np.arange(np.shape(X)[1]))
        if x0 is not None:
            run.set_weights(x0)
        run.set_sum(data)
        return self._follow(run, steps, _LOOK, callback, tol, lambda x: data.measure(x, constraint))

    minimize.__doc__ = Optimizer.minimize.__doc__


def as_sum(X: typing.Any, y: ArrayLike, run: FiniteSumRun) -> FiniteSum:
    """Samples and targets as the sum that a run is to minimise; dense ones stay dense.

    Raises
    ------
    ValueError
        If shapes do not fit, or an entry is not finite.
    """
    data, targets = by_rows(X, y)
    if not len(targets):
        raise ValueError("X has no rows: there is nothing to minimise")
    return FiniteSum(data, targets, run.score_loss, run.count_gradients)
