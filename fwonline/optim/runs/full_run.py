"""The Frank-Wolfe family on a finite sum whose derivatives are all taken at every step.

The predictions z = X w are kept beside w: with the atoms' images they follow a step in O(n), the derivative along a
direction is known without the gradient, and so is the objective along it. What a step costs beyond O(n) is therefore
its coordinates of the gradient, and the columns of its atoms.
"""

from __future__ import annotations

import abc
import typing

import numpy as np
from scipy import sparse

from fwonline import _loaded, sets
from fwonline._kernels import layout, memory
from fwonline.optim.problem.active_set import ActiveSet
from fwonline.optim.problem.data import SparseColumns
from fwonline.optim.problem.finite_sum import FiniteSum
from fwonline.optim.problem.line import Along, Line, Scheduled
from fwonline.optim.problem.partial_oracle import Oracle, is_polytope, oracle_of
from fwonline.optim.problem.score_loss import ScalarLoss
from fwonline.optim.runs.memory_run import MemoryRun
from fwonline.optim.schedules import LineSearch

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from fwonline.optim.problem.data import ByColumns
    from fwonline.optim.runs.full_gradient import FullGradient
    from fwonline.sets.atoms import Atom

    Array = NDArray[np.float64]

__all__ = ["ActiveRun", "ForwardRun", "FullRun"]

# Steps after which w and z are taken anew, so that their rounding does not add up.
FRESH = 1000


class FullRun(MemoryRun):
    """State of one of the family at work: online on the ring of the last samples, offline on a design."""

    optimizer: FullGradient
    is_online = True  # whether samples come and go

    def __init__(self, optimizer: FullGradient, *args: typing.Any, **kwargs: typing.Any):
        super().__init__(optimizer, *args, capacity=optimizer.memory, **kwargs)
        self._sum: FiniteSum | None = None
        self._z = self._limit = np.zeros(0)
        self._oracle: Oracle | None = None
        self._rule: Along | Scheduled | None = None
        self.n_drop_steps = 0
        self.n_coefficients = 0
        self.is_placed = False  # whether w is a point of the set

    def __getstate__(self) -> dict:
        # What is made of the rest, and the data minimised over, is not the model's.
        empty = np.zeros(0)
        made = {"_sum": None, "_oracle": None, "_rule": None}
        state = {**super().__getstate__(), **made, "_z": empty, "_limit": empty}
        state.pop("is_online", None)
        return state

    _apart = (*MemoryRun._apart, "_sum", "_oracle", "_rule", "_z", "_limit")

    def _check_arrays(self) -> None:
        super()._check_arrays()
        self._sum = self._oracle = self._rule = None
        self._z = self._limit = np.zeros(0)
        _loaded.count(self, "n_drop_steps")
        _loaded.count(self, "n_coefficients")
        self._check_num(layout.W_SCALE, 1.0, 1.0)
        began = self.cnt[layout.T] > 0
        _loaded.require(self, "is_placed", self.is_placed or not began, "a start before the first step")

    def _bind(self) -> None:
        super()._bind()
        self._is_compiled = False  # a step is made of a few products over the whole memory: numpy's

    # --- features and samples ---------------------------------------------------------------------------------

    def grow(self, ranks: NDArray[np.int64]) -> None:
        d = self.n_features
        super().grow(ranks)
        self._dimension_changed(self.v[d : self.n_features])

    def shrink(self, d: int) -> None:
        super().shrink(d)
        self._oracle = None

    def _taken_out(self, new, holes, movers) -> None:
        super()._taken_out(new, holes, movers)
        self._oracle = self._sum = None

    def _dimension_changed(self, tail: Array) -> None:
        self._oracle = self._sum = None

    @property
    def rule(self) -> Along | Scheduled:
        """What decides a step's size."""
        if self._rule is None:
            schedule = self.optimizer.schedule
            if schedule is None:
                schedule = self.optimizer._own_schedule(self)
            self._rule = Along(self.loss) if isinstance(schedule, LineSearch) else Scheduled(schedule)
        return self._rule

    @property
    def oracle(self) -> Oracle:
        if self._oracle is None:
            self._oracle = oracle_of(self.constraint, self.n_features, self.rank)
        return self._oracle

    def _enter(self, rows, i, margin, alpha, largest):
        indptr, idx, val, y = rows
        at = self._place(rows, i)
        slot = (int(self.cnt[layout.SEEN]) - 1) % len(self.rows)
        if self.cnt[layout.LIVE] == len(self.rows):
            self.cnt[layout.LIVE] -= 1
        # No derivative is kept: all of them are taken anew at every step.
        memory.store(
            self.num, self.cnt, self.rows, self.duals, self.pool_idx, self.pool_val,
            slot, at, idx, val, indptr[i], indptr[i + 1], y[i], 0.0, largest,
        )  # fmt: skip
        self.cnt[layout.N_GRADIENTS] += 1
        self._sum = None

    def _moves(self):
        for _ in range(self.optimizer.steps):
            yield

    @property
    def sum(self) -> FiniteSum:
        """The sum that is minimised; online over the memory, turned to columns when it is asked for after a sample."""
        if self._sum is None:
            self._prepare()
        return typing.cast("FiniteSum", self._sum)

    def _prepare(self) -> None:
        live = self.s.live
        start, length = self.rows[:live, memory.START], self.rows[:live, memory.LENGTH]
        indptr = np.concatenate([[0], np.cumsum(length)])
        where = np.repeat(start - indptr[:-1], length) + np.arange(indptr[-1])
        X = sparse.csr_array(
            (self.pool_val[where], self.pool_idx[where].astype(np.int64), indptr), shape=(live, self.n_features)
        )
        self.attach(SparseColumns(X), self.duals[:live, memory.LABEL], self.duals[:live, memory.LARGEST_VALUE])

    def attach(self, data: ByColumns, y: Array, largest: Array) -> None:
        """Work on these samples from now on."""
        self._sum = FiniteSum(data, y, ScalarLoss(self.loss))
        # Beyond this a derivative times its sample could not be summed (see layout.LARGEST).
        self._limit = layout.LARGEST / np.maximum(largest / layout.LARGEST, 1.0 / layout.LARGEST)
        self._refresh()

    def _refresh(self) -> None:
        self._z = self.sum.columns.times(self.v[: self.n_features])

    def set_weights(self, x0) -> None:
        super().set_weights(x0)
        self.is_placed = True

    # --- a step -----------------------------------------------------------------------------------------------

    def _derivatives(self) -> Array:
        """alpha_i = f'(y_i, z_i)."""
        alpha = self.sum.loss.derivative(self.sum.y, self._z + self.num[layout.INTERCEPT])
        self.cnt[layout.N_GRADIENTS] += len(alpha)
        return np.clip(np.nan_to_num(alpha, nan=0.0), -self._limit, self._limit)

    def gradient(self, alpha: Array) -> Array:
        """The whole of X^T alpha / n."""
        self.cnt[layout.N_EXACT] += 1
        self.n_coefficients += self.n_features
        return self.sum.columns.transposed(alpha) / len(alpha)

    def some_of_gradient(self, alpha: Array, columns: NDArray[np.int64]) -> Array:
        """X^T alpha / n at these coordinates, and nothing said of the others."""
        self.n_coefficients += len(columns)
        g = np.zeros(self.n_features)
        g[columns] = self.sum.columns.some(columns, alpha) / len(alpha)
        return g

    def _pick(self) -> NDArray[np.int64] | None:
        """The blocks of atoms that this step asks about: None for all."""
        return None

    def best(self, g: Array, picked: NDArray[np.int64] | None) -> Atom:
        self.cnt[layout.N_LMO] += 1
        return self.oracle.best(g, picked)

    def move(self) -> None:
        self.step()

    def step(self, tol: float = -np.inf) -> bool:
        """One step, unless the gap that it certifies first is at most tol; answers whether it was."""
        if self.n_features == 0:
            return False
        if self._sum is None:
            self._prepare()
        if self.cnt[layout.T] % FRESH == FRESH - 1:
            self._refresh()
        if not self.is_placed:
            self._start()
        return self._step(self._derivatives(), tol)

    def _start(self) -> Atom:
        """The start as an atom: w itself, or the atom that the gradient asks for where w = 0 is no point of the set."""
        w = self.v[: self.n_features]
        self.is_placed = True
        # Bounds by coordinate hold from the moment a feature appears, and may be of more features than have.
        if self.cnt[layout.SET] == layout.BOX_ARRAYS or self.constraint.contains(w):
            return _point(w)
        atom = self.best(self.gradient(self._derivatives()), None)
        w[:] = atom.to_dense()
        self._refresh()
        return atom

    @abc.abstractmethod
    def _step(self, alpha: Array, tol: float) -> bool: ...

    def _go(self, slope: float, limit: float, q: Array, dist_sq: Callable[[], float]) -> float:
        """The step along a direction d with X d = q."""
        z = self._z + self.num[layout.INTERCEPT]
        gamma = self.rule.gamma(int(self.cnt[layout.T]), Line(slope, limit, self.sum.y, z, q, dist_sq))
        self.num[layout.GAMMA] = gamma
        self.cnt[layout.T] += 1
        return gamma

    def _towards(self, atom: Atom, image: Array, gamma: float) -> None:
        """w <- (1 - gamma) w + gamma s, and z with it."""
        w = self.v[: self.n_features]
        w *= 1.0 - gamma
        atom.add_to(w, gamma)
        self._snap()
        self._z *= 1.0 - gamma
        self._z += gamma * image

    def _snap(self) -> None:
        """Back into a box where rounding has left it: its bounds hold exactly."""
        kind, w = self.cnt[layout.SET], self.v[: self.n_features]
        if kind in (layout.BOX, layout.BOX_ARRAYS):
            np.clip(w, *self._box(w.size), out=w)
        elif kind == layout.LINF:
            np.clip(w, -self.num[layout.SET_P], self.num[layout.SET_P], out=w)

    def _along_w(self, alpha: Array) -> float:
        """<gradient, w> = (1/n) sum_i alpha_i <x_i, w>."""
        return float(alpha @ self._z) / len(alpha)

    # --- what is known of the whole objective -----------------------------------------------------------------

    def certify(self) -> tuple[float, float]:
        """The objective and its exact gap at w, rounded up (with z as new): one gradient, one linear minimisation."""
        if not self.is_placed:
            self._start()
        alpha = self._derivatives()
        g = self.gradient(alpha)
        s = self.best(g, None)
        w, z = self.v[: self.n_features], self._z + self.num[layout.INTERCEPT]
        return self.sum.enclose(w, z, alpha, g, s, self.constraint.diameter(w.shape))


class ForwardRun(FullRun):
    """Steps towards atoms."""

    def _step(self, alpha: Array, tol: float) -> bool:
        picked = self._pick()
        g = self.gradient(alpha) if picked is None else self._partial(alpha, picked)
        s = self.best(g, picked)  # s_t
        slope = self._along_w(alpha) - s.dot(g)  # <-grad f(w_t), s_t - w_t>
        self.num[layout.GAP] = slope
        if picked is None and slope <= tol:
            return True
        image = self.sum.columns.image(s)
        w = self.v[: self.n_features]
        gamma = self._go(slope, 1.0, image - self._z, lambda: distance_sq(w, s))
        if gamma > 0.0:
            self._towards(s, image, gamma)
        return False

    def _partial(self, alpha: Array, picked: NDArray[np.int64]) -> Array:
        return self.some_of_gradient(alpha, self.oracle.coordinates(picked))


def distance_sq(point: Array, atom: Atom) -> float:
    """||x - s||^2."""
    difference = point.copy()
    atom.add_to(difference, -1.0)
    return float(difference @ difference)


class ActiveRun(FullRun):
    """Steps towards atoms or away from them: the iterate is known as a mixture of atoms."""

    def __init__(self, *args: typing.Any, **kwargs: typing.Any):
        self.active = ActiveSet()
        super().__init__(*args, **kwargs)
        if not is_polytope(self.constraint):
            raise ValueError(
                f"{type(self.optimizer).__name__} needs a set with finitely many vertices to step away from, "
                f"which {self.constraint} has not; use FW there"
            )

    def __getstate__(self) -> dict:
        state = super().__getstate__()
        state["active"] = self.active.to_arrays()
        return state

    def __setstate__(self, state: dict) -> None:
        arrays = state["active"]
        super().__setstate__({**state, "active": ActiveSet()})
        self.active = ActiveSet.from_arrays(arrays, self.n_features)

    def _check_arrays(self) -> None:
        super()._check_arrays()
        active, d = self.active, self.n_features
        if not self.is_placed:
            _loaded.require(self, "active", not len(active), "no atoms before there is a start")
            return
        weights = np.fromiter(active.weights.values(), np.float64, len(active))
        is_mixture = bool((weights > 0.0).all()) and abs(weights.sum() - 1.0) <= 1e-6
        _loaded.require(self, "active", is_mixture, "weights that are positive and sum to 1")
        mixed = np.zeros(d)
        for atom, weight in active.weights.items():
            point = atom.to_dense()
            _loaded.require(self, "active", not d or self._is_point(point), f"points of {self.constraint}")
            mixed += weight * point
        apart = np.abs(mixed - self.v[:d]).max(initial=0.0)
        scale = max(1.0, float(np.abs(self.v[:d]).max(initial=0.0)))
        _loaded.require(self, "active", apart <= 1e-6 * scale, "atoms that the iterate is a mixture of")

    def _dimension_changed(self, tail: Array) -> None:
        super()._dimension_changed(tail)
        if tail.size:
            self.active.grow(tail)

    def shrink(self, d: int) -> None:
        super().shrink(d)
        self.active.shrink(d)

    def weighs(self):
        weighs = super().weighs()
        for atom in self.active:
            weighs[support(atom)] = True
        return weighs

    def _taken_out(self, new, holes, movers) -> None:
        super()._taken_out(new, holes, movers)
        self.active.take_out(new)

    def set_weights(self, x0) -> None:
        super().set_weights(x0)
        self.active = ActiveSet({_point(self.v[: self.n_features]): 1.0})

    def _start(self) -> Atom:
        atom = super()._start()
        self.active = ActiveSet({atom: 1.0})
        return atom

    def _refresh(self) -> None:
        if len(self.active):
            self.v[: self.n_features] = self.active.point(self.n_features)
            self._snap()
        super()._refresh()

    def _needed(self, picked: NDArray[np.int64]) -> NDArray[np.int64]:
        """The coordinates of the gradient that the picked blocks and the active atoms have."""
        needed = np.zeros(self.n_features, dtype=bool)
        needed[self.oracle.coordinates(picked)] = True
        for atom in self.active:
            needed[support(atom)] = True
        return np.flatnonzero(needed)

    def _choose(self, alpha: Array) -> tuple[Array, Atom, Atom, NDArray[np.int64] | None]:
        """The gradient as far as it is needed, s_t, v_t, and the blocks picked (None for all)."""
        picked = self._pick()
        if picked is None:
            g = self.gradient(alpha)
            s = self.best(g, None)
        else:
            g = self.some_of_gradient(alpha, self._needed(picked))
            asked = np.zeros(self.oracle.count, dtype=bool)
            asked[picked] = True
            asked[self._active_blocks()] = True
            s = self.best(g, np.flatnonzero(asked))
        dots = [atom.dot(g) for atom in self.active]
        candidates = list(self.active)
        v = candidates[int(np.argmax(dots))]  # v_t = argmax over S_t of <grad f(w_t), v>
        lowest = int(np.argmin(dots))
        if picked is not None and dots[lowest] < s.dot(g):
            s = candidates[lowest]  # V_t holds S_t: the start, too, which need not be one of the set's atoms
        return g, s, v, picked

    def _active_blocks(self) -> NDArray[np.int64]:
        blocks = [self.oracle.block_of(atom) for atom in self.active]
        return np.array(sorted({k for k in blocks if k >= 0}), dtype=np.int64)


def support(atom: Atom) -> NDArray[np.int64]:
    """The coordinates at which an atom may be other than 0."""
    if isinstance(atom, sets.ZeroAtom):
        return np.zeros(0, dtype=np.int64)
    if isinstance(atom, sets.CoordinateAtom):
        return np.array([atom.index])
    if isinstance(atom, sets.SparseAtom):
        return atom.indices
    return np.arange(atom.size)


def _point(w: Array) -> Atom:
    """A point of the set as an atom of the active set; one of the set's own atoms where it is a signed coordinate."""
    used = np.flatnonzero(w)
    if used.size == 0:
        return sets.ZeroAtom(w.shape)
    if used.size == 1:
        return sets.CoordinateAtom(int(used[0]), float(w[used[0]]), w.shape)
    return sets.DenseAtom(w.copy())
