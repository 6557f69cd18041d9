"""Runs of the algorithms that take gradients of batches: a finite sum, the iterate, the oracle, and a method.

Online, the sum is over the last samples: a new one takes the oldest one's place, then the algorithm takes its steps on
the sum as it is now. Offline, it is over the data. An algorithm is a :class:`~fwonline.optim.runs.method.Method`.
"""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import _loaded, sets
from fwonline._kernels import layout
from fwonline.optim.base import Optimizer
from fwonline.optim.problem.data import by_rows
from fwonline.optim.problem.finite_sum import FiniteSum
from fwonline.optim.runs import summary
from fwonline.optim.runs.batch_run import BatchRun
from fwonline.optim.runs.method import HUGE, Method, distance_sq, move_towards
from fwonline.optim.schedules import Harmonic, Schedule
from fwonline.sets.spectral import SpectralSet

if typing.TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from fwonline.optim.problem.score_loss import ScoreLoss

    Array = NDArray[np.float64]
    Batch = NDArray[np.int64]

__all__ = ["FiniteSumOptimizer", "FiniteSumRun"]

TWO_OVER_K = Harmonic()


class FiniteSumRun(BatchRun):
    """An algorithm at work on a finite sum, by its :class:`~fwonline.optim.runs.method.Method`."""

    method: Method
    _saved = (*BatchRun._saved, "method", "atom", "steepest", "largest", "newest")

    def __init__(self, optimizer: typing.Any, constraint, loss, seed=None, fit_intercept=False):
        self.atom: sets.Atom | None = None  # where the search of a spectral oracle begins
        self.steepest = 0.0  # the largest gradient of one sample that was met
        self.largest = 0.0  # the largest norm of a sample
        self.newest = 0  # its slot
        super().__init__(optimizer, constraint, loss, seed, fit_intercept)
        self.method = optimizer._method()
        if isinstance(optimizer, FiniteSumOptimizer):
            optimizer._check_problem(constraint, loss, self.score_loss)

    def _prepare(self) -> None:
        super()._prepare()
        self._data: FiniteSum | None = None
        self._order = np.empty(0, dtype=np.int64)
        self._is_searched = False  # whether the largest gradient of a data set has been looked for

    # --- the problem --------------------------------------------------------------------------------------------

    @property
    def sum(self) -> FiniteSum:
        if self._data is not None:
            return self._data
        rows = self.ring.rows(self.n_features, self.largest)
        return FiniteSum(rows, self.ring.targets(), self.score_loss, self.count_gradients, self.s.intercept)

    @property
    def is_online(self) -> bool:
        return self._data is None

    @property
    def capacity(self) -> int:
        return self.ring.capacity if self._data is None else self._data.n

    @property
    def L(self) -> float:
        if self.optimizer.lipschitz is not None:
            return float(self.optimizer.lipschitz)
        return max(typing.cast("float", self.score_loss.curvature) * self.largest**2, np.finfo(float).tiny)

    @property
    def D(self) -> float:
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

    # --- batches ------------------------------------------------------------------------------------------------

    @property
    def _n(self) -> int:
        """Samples of the sum."""
        return self.ring.live if self._data is None else self._data.n

    def at_most_all(self, size: float) -> int:
        return max(1, math.ceil(min(self._n, size)))

    def draw(self, size: int) -> Batch | None:
        n = self._n
        return None if size >= n else self.rng.integers(n, size=size)

    def pick(self, size: int) -> Batch:
        n = self._n
        if self._data is not None:
            return self.rng.choice(n, min(size, n), replace=False)
        others = self.rng.choice(n - 1, min(size, n) - 1, replace=False) if n > 1 else np.empty(0, dtype=np.int64)
        return np.concatenate([[self.newest], others + (others >= self.newest)]).astype(np.int64)

    def next_samples(self, size: int) -> Batch:
        if self._data is None:
            return np.array([self.newest])
        if self._order.size < size:
            self._order = self.rng.permutation(self._data.n)
        picked, self._order = self._order[:size], self._order[size:]
        return picked

    # --- steps --------------------------------------------------------------------------------------------------

    def lmo(self, g: Array) -> sets.Atom:
        """The atom of a direction. Spectral oracles start from the last one, as exact as the step needs."""
        self.s.n_lmo += 1
        if isinstance(self.constraint, SpectralSet):
            self.atom = self.constraint.lmo(g, start=self.atom, tol=max(1e-8, 0.1 / (self.s.t + 1.0)))
            return self.atom
        return self.constraint.lmo(g)

    def frank_wolfe(self, g: Array, schedule: Schedule, k: int) -> None:
        self.note(*self.frank_wolfe_at(self.x, g, schedule, k))

    def frank_wolfe_at(self, x: Array, g: Array, schedule: Schedule, k: int) -> tuple[float, float]:
        atom = self.lmo(g)
        gap = float(np.vdot(g, x)) - atom.dot(g)
        # Only the schedules that are formulas of k are known not to look at the distance.
        dist_sq = 0.0 if schedule is TWO_OVER_K else distance_sq(x, atom)
        gamma = float(schedule.gamma(k, gap, dist_sq))
        if not 0.0 <= gamma <= 1.0:
            raise ValueError(f"{schedule} returned a step of {gamma!r}; expected one in [0, 1]")
        move_towards(x, atom, gamma)
        return gap, gamma

    def start_at_vertex(self) -> None:
        if not self.s.warm:
            self.x[...] = 0.0
            self.lmo(self.sum.gradient(self.x)).add_to(self.x)

    def step(self) -> None:
        x = self.x
        if x.size == 0:
            return
        if not self.s.t and not self.constraint.contains(x):
            self.start_at_vertex()
        self.method.follow(x)
        if self.method.step(self) is not False:
            self.s.t += 1

    # --- samples and features that come and go ------------------------------------------------------------------

    def _enter(self, idx, val, y, slope):
        # In the order of their positions, so that no sum shows the order of keys in a dict.
        order = np.argsort(idx, kind="stable")
        self._hold(idx[order], val[order], y, slope)

    def _hold(self, idx: NDArray[np.uint32], val: Array, y: float, slope: typing.Any) -> None:
        """One more sample is remembered, in place of the oldest."""
        slot = (self.s.seen - 1) % self.ring.capacity
        self.method.follow(self.x)
        if self.ring.live == self.ring.capacity:
            self.method.leave(self, slot)
        self.ring.put(slot, idx, val, y)
        norm = float(np.linalg.norm(val))
        self.newest = slot
        self.largest = max(self.largest, norm)
        self.steepest = max(self.steepest, float(np.linalg.norm(slope)) * norm)
        self.count_gradients(1)
        self.method.enter(self, slot, slope)

    def weighs(self):
        self.method.follow(self.x)
        weighs = self._weighs(self.x)
        for name in self.method.held:
            if (point := getattr(self.method, name)) is not None:
                weighs |= self._weighs(point)
        return weighs

    def _held(self):
        samples, held, rest = super()._held()
        method, slots = self.method, self.ring.by_age(self.s.seen)
        for part, by_sample in ((method, method.by_sample), (method.memory, ("alpha",))):
            own = dict(vars(part)) if part else {}
            own |= {name: own[name][slots] for name in by_sample if name in own and own[name].size}
            held |= summary.public_names(own)
        return samples, held, [*rest, self.largest, self.steepest]

    def _weighs(self, point: Array) -> NDArray[np.bool_]:
        return point != self.start_weight

    def take_out(self, gone):
        self.method.follow(self.x)  # now, while the iterate is of the size that there was
        return super().take_out(gone)

    def _taken_out(self, new) -> None:
        stays = np.flatnonzero(new >= 0)
        order = np.empty(stays.size, dtype=np.int64)
        order[new[stays]] = stays
        self.method.take_out(order)
        self.atom = None  # a point of another size

    # --- gaps ---------------------------------------------------------------------------------------------------

    @property
    def n_remembered(self) -> int:
        # Without a memory the newest sample is held until the step is over.
        return self.ring.live if getattr(self.optimizer, "memory", None) else 0

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
        z = np.asarray(X @ self.x.T) + self.s.intercept
        with np.errstate(over="ignore", invalid="ignore"):
            return self._gap_of((X.T @ self.score_loss.derivative(y, z)).T / n)

    # --- offline, saved and loaded ------------------------------------------------------------------------------

    def attach(self, X: typing.Any, y: ArrayLike) -> FiniteSum:
        """Take a data set as the sum; dense ones stay dense.

        Raises
        ------
        ValueError
            If shapes do not fit, or an entry is not finite.
        """
        data, targets = by_rows(X, y)
        if not len(targets):
            raise ValueError("X has no rows: there is nothing to minimise")
        self._data = FiniteSum(data, targets, self.score_loss, self.count_gradients)
        self._is_searched = False
        self.largest = data.largest
        return self._data

    def _check_arrays(self) -> None:
        super()._check_arrays()
        _loaded.real(self, "largest", 0.0, layout.LARGEST * max(1, self.n_features))
        _loaded.real(self, "steepest", 0.0, HUGE)
        _loaded.count(self, "newest", 0, self.ring.capacity - 1)
        at_end = not self.s.seen or self.newest == (self.s.seen - 1) % self.ring.capacity
        _loaded.require(self, "newest", at_end, "where the newest sample is")
        self._check_atom()
        method, fresh = self.method, self.optimizer._method()
        _loaded.instance(self, "method", type(fresh))
        _loaded.claim(self, "method")
        method.optimizer = self.optimizer
        apart = (*method.points, *method.vectors, *method.by_sample, *method.counters, "memory", "optimizer")
        _loaded.alike(method, fresh, *apart)
        method.check(self)

    def _check_atom(self) -> None:
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


class FiniteSumOptimizer(Optimizer):
    """Base of the optimizers that take gradients of batches of a finite sum.

    Subclasses store ``memory``, ``steps`` and ``lipschitz`` and name their ``_method_class``.
    """

    _run_class = FiniteSumRun
    _look_every = 10
    _default_schedule = TWO_OVER_K
    _method_class: typing.ClassVar[type[Method]]
    lipschitz: float | None = None
    gradient_bound: float | None = None
    diameter: float | None = None

    @property
    def _needs_lipschitz(self) -> bool:
        """Whether L is asked for, so that a loss without a bounded second derivative needs one given."""
        return False

    def _check_set(self, constraint: sets.ConvexSet) -> None:
        """Raise where the algorithm asks something of the set that it does not have."""

    def _check_problem(self, constraint: sets.ConvexSet, loss: typing.Any, score_loss: ScoreLoss) -> None:
        """Raise where an algorithm needs what was not given, before a stream begins."""
        self._check_set(constraint)
        if self._needs_lipschitz and self.lipschitz is None and score_loss.curvature is None:
            raise ValueError(
                f"lipschitz must be given, a number > 0: no bound of the second derivative of {loss} is known"
            )

    def _on_data(self, X, y, loss, constraint, seed, x0):
        run = self.start(constraint, loss, seed)
        total = run.attach(X, y)
        self._place(run, total.data.shape[1], x0)
        return run, total
