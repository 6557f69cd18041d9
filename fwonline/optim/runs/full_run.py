"""The Frank-Wolfe family on a finite sum whose derivatives are all taken at every step.

The scores z = X w are kept beside w: with the atoms' images they follow a step in O(n), the derivative along a
direction is known without the gradient, and so is the objective along it. What a step costs beyond O(n) is therefore
its coordinates of the gradient, and the columns of its atoms.
"""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import _loaded, sets
from fwonline._kernels import layout
from fwonline.optim.problem.active_set import ActiveSet, atom_of, support
from fwonline.optim.problem.columns import SparseColumns
from fwonline.optim.problem.finite_sum import FiniteSum
from fwonline.optim.problem.line import Along, Line, Scheduled
from fwonline.optim.problem.partial_oracle import comes_in_blocks, is_polytope, oracle_of
from fwonline.optim.runs import checks
from fwonline.optim.runs.batch_run import BatchRun
from fwonline.optim.schedules import LineSearch

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from fwonline.optim.problem.columns import ByColumns
    from fwonline.optim.problem.partial_oracle import Oracle
    from fwonline.sets.atoms import Atom

    Array = NDArray[np.float64]
    Blocks = NDArray[np.int64]

__all__ = ["FRESH", "FullRun", "Look", "check_set"]

# Steps after which w and z are computed anew, so that their rounding does not add up.
FRESH = 1000


class Look(typing.NamedTuple):
    """What a step chooses from.

    Attributes
    ----------
    s
        The atom of the set, or of the part of it that was drawn, with the least <grad f(w), s>.
    v
        The atom of the active set with the largest <grad f(w), v>; None without an active set.
    towards, away, across
        <-grad f(w), s - w>, <-grad f(w), w - v> and <-grad f(w), s - v>.
    """

    s: Atom
    v: Atom | None
    towards: float
    away: float = 0.0
    across: float = 0.0


class FullRun(BatchRun):
    """One of the family at work: the optimizer's ``_step`` says where a step goes from what is seen here.

    Attributes
    ----------
    active
        The atoms that the iterate is a mixture of, where the optimizer steps away from some; else None.
    n_drop_steps
        Steps that took an atom out of it.
    n_coefficients
        Entries of gradients computed.
    is_placed
        Whether w is a point of the set.
    """

    _saved = (*BatchRun._saved, "active", "n_drop_steps", "n_coefficients", "is_placed")

    def __init__(self, optimizer: typing.Any, constraint, loss, seed=None, fit_intercept=False):
        super().__init__(optimizer, constraint, loss, seed, fit_intercept)
        check_set(optimizer, constraint)
        if optimizer._is_sampled and not comes_in_blocks(constraint):
            raise ValueError(
                f"{type(optimizer).__name__} needs a set whose oracle can be asked about some of its atoms: the l1 "
                f"ball, a simplex, a ball of groups or the hull of points; got {constraint}"
            )
        self.active: ActiveSet | None = ActiveSet() if optimizer._is_corrective else None
        self.n_drop_steps = 0
        self.n_coefficients = 0
        self.is_placed = False

    def _prepare(self) -> None:
        super()._prepare()
        self.is_online = True  # whether samples come and go
        self._sum: FiniteSum | None = None
        self._z = self._limit = np.zeros(0)
        self._oracle: Oracle | None = None
        self._rule: Along | Scheduled | None = None

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

    # --- samples and features -----------------------------------------------------------------------------------

    def _enter(self, idx, val, y, slope):
        # No derivative is kept: all of them are taken anew at every step.
        self.ring.put((self.s.seen - 1) % self.ring.capacity, idx, val, y)
        self.count_gradients(1)
        self._sum = None

    def grow(self, ranks) -> None:
        d = self.n_features
        super().grow(ranks)
        self._oracle = self._sum = None
        if self.active is not None and len(ranks):
            self.active.grow(self.v[d : self.n_features])

    def shrink(self, d: int) -> None:
        super().shrink(d)
        self._oracle = None
        if self.active is not None:
            self.active.shrink(d)

    def weighs(self):
        weighs = super().weighs()
        for atom in self.active or ():
            weighs[support(atom)] = True
        return weighs

    def _held(self):
        samples, held, rest = super()._held()
        if self.active is not None:
            held["active_atoms"] = [(repr(atom), self.active[atom]) for atom in self.active]
        held |= {"n_drop_steps": self.n_drop_steps, "n_coefficients": self.n_coefficients}
        return samples, held, [*rest, self.is_placed]

    def _taken_out(self, new) -> None:
        self._oracle = self._sum = None
        if self.active is not None:
            self.active.take_out(new)

    @property
    def sum(self) -> FiniteSum:
        """The sum that is minimised; online over the ring, turned to columns when it is asked for after a sample."""
        if self._sum is None:
            X, largest = self.ring.matrix(self.n_features)
            self.attach(SparseColumns(X), self.ring.targets(), largest)
        return typing.cast("FiniteSum", self._sum)

    def attach(self, data: ByColumns, y: Array, largest: Array) -> None:
        """Work on these samples from now on."""
        self._sum = FiniteSum(data, y, self.score_loss)
        # Beyond this a derivative times its sample could not be summed (see layout.LARGEST).
        self._limit = layout.LARGEST / np.maximum(largest / layout.LARGEST, 1.0 / layout.LARGEST)
        self.refresh()

    def refresh(self) -> None:
        """Compute w from the active set, and z from w."""
        if self.active is not None and len(self.active):
            self.x[:] = self.active.point(self.n_features)
            self._snap()
        self._z = self.sum.columns.times(self.x)

    def set_weights(self, x0) -> None:
        super().set_weights(x0)
        self._place(atom_of(self.x))

    # --- the gradient, and the atoms ----------------------------------------------------------------------------

    def _derivatives(self) -> Array:
        """alpha_i = f'(y_i, z_i)."""
        alpha = self.sum.loss.derivative(self.sum.y, self._z + self.s.intercept)
        self.count_gradients(len(alpha))
        return np.clip(np.nan_to_num(alpha, nan=0.0), -self._limit, self._limit)

    def _gradient(self, alpha: Array) -> Array:
        """The whole of X^T alpha / n."""
        self.count_gradients(0, exact=True)
        self.n_coefficients += self.n_features
        return self.sum.columns.transposed(alpha) / len(alpha)

    def _part_of_gradient(self, alpha: Array, columns: Blocks) -> Array:
        """X^T alpha / n at these coordinates, and nothing said of the others."""
        self.n_coefficients += len(columns)
        g = np.zeros(self.n_features)
        g[columns] = self.sum.columns.some(columns, alpha) / len(alpha)
        return g

    def _best(self, g: Array, picked: Blocks | None) -> Atom:
        self.s.n_lmo += 1
        return self.oracle.best(g, picked)

    def _pick(self) -> Blocks | None:
        """The blocks of atoms that this step asks about, None for all: a random part of those that are not active."""
        optimizer, count = self.optimizer, self.oracle.count
        if not optimizer._is_sampled:
            return None
        outside = np.ones(count, dtype=bool)
        if self.active is not None:
            outside[self._active_blocks()] = False
        blocks = np.flatnonzero(outside)
        size = math.ceil(optimizer.fraction * count)
        if size >= len(blocks):
            return None if len(blocks) == count or not len(blocks) else blocks
        return np.sort(blocks[self.rng.choice(len(blocks), size, replace=False, shuffle=False)])

    def _active_blocks(self) -> Blocks:
        blocks = [self.oracle.block_of(atom) for atom in self.active or ()]
        return np.array(sorted({k for k in blocks if k >= 0}), dtype=np.int64)

    def _along_w(self, alpha: Array) -> float:
        """<gradient, w> = (1/n) sum_i alpha_i <x_i, w>."""
        return float(alpha @ self._z) / len(alpha)

    def _look(self, alpha: Array, picked: Blocks | None) -> Look:
        """s_t and v_t, by the gradient as far as it is needed."""
        if picked is None:
            g = self._gradient(alpha)
        else:
            g = self._part_of_gradient(alpha, self._needed(picked))
            if self.active is not None:
                picked = np.union1d(picked, self._active_blocks())
        s = self._best(g, picked)
        here = self._along_w(alpha)
        if self.active is None:
            return Look(s, None, here - s.dot(g))
        candidates = list(self.active)
        dots = [atom.dot(g) for atom in candidates]
        v = candidates[int(np.argmax(dots))]
        lowest = int(np.argmin(dots))
        if picked is not None and dots[lowest] < s.dot(g):
            s = candidates[lowest]  # the start, too, which need not be one of the set's atoms
        down, up = s.dot(g), v.dot(g)
        return Look(s, v, here - down, up - here, up - down)

    def _needed(self, picked: Blocks) -> Blocks:
        """The coordinates of the gradient that the picked blocks and the active atoms have."""
        coordinates = self.oracle.coordinates(picked)
        if self.active is None:
            return coordinates
        needed = np.zeros(self.n_features, dtype=bool)
        needed[coordinates] = True
        for atom in self.active:
            needed[support(atom)] = True
        return np.flatnonzero(needed)

    # --- a step -------------------------------------------------------------------------------------------------

    def step(self, tol: float = -math.inf) -> bool:
        """One step, unless the gap that it certifies first is at most tol; returns whether it was."""
        if self.n_features == 0:
            return False
        _ = self.sum  # with z as it is for these samples
        if self.s.t % FRESH == FRESH - 1:
            self.refresh()
        if not self.is_placed:
            self._start()
        alpha, picked = self._derivatives(), self._pick()
        look = self._look(alpha, picked)
        self.s.gap = look.towards
        if picked is None and look.towards <= tol:
            return True
        self.optimizer._step(self, look)
        return False

    def _start(self) -> None:
        """Begin at w itself, or at the atom that the gradient asks for where w = 0 is no point of the set."""
        # Bounds by coordinate hold from the moment a feature appears, and may be of more features than have.
        has_bounds = type(self.constraint) is sets.Box and self.fixed_dimension is not None
        if has_bounds or self.constraint.contains(self.x):
            self._place(atom_of(self.x))
            return
        atom = self._best(self._gradient(self._derivatives()), None)
        self.x[:] = atom.to_dense()
        self._z = self.sum.columns.times(self.x)
        self._place(atom)

    def _place(self, atom: Atom) -> None:
        self.is_placed = True
        if self.active is not None:
            self.active = ActiveSet({atom: 1.0})

    def _go(self, slope: float, limit: float, q: Array, dist_sq: Callable[[], float]) -> float:
        """The step along a direction d with X d = q."""
        line = Line(slope, limit, self.sum.y, self._z + self.s.intercept, q, dist_sq)
        self.s.gamma = gamma = self.rule.gamma(self.s.t, line)
        self.s.t += 1
        return gamma

    def go_towards(self, s: Atom, slope: float) -> None:
        """w <- w + gamma (s - w), gamma <= 1."""
        image = self.sum.columns.image(s)
        gamma = self._go(slope, 1.0, image - self._z, lambda: distance_sq(self.x, s))
        if gamma > 0.0 or self.active is not None:
            self._mix(s, image, gamma)
        if self.active is not None:
            self.active.towards(s, gamma)

    def go_away(self, v: Atom, slope: float) -> None:
        """w <- w + gamma (w - v), gamma <= alpha_v / (1 - alpha_v)."""
        active = typing.cast("ActiveSet", self.active)
        image = self.sum.columns.image(v)
        gamma = self._go(slope, active.away_limit(v), self._z - image, lambda: distance_sq(self.x, v))
        self._mix(v, image, -gamma)
        self.n_drop_steps += active.away_from(v, gamma)

    def shift(self, v: Atom, s: Atom, slope: float) -> None:
        """w <- w + gamma (s - v), gamma <= alpha_v."""
        active = typing.cast("ActiveSet", self.active)
        q = self.sum.columns.image(s) - self.sum.columns.image(v)
        direction = s.to_dense() - v.to_dense()
        gamma = self._go(slope, active[v], q, lambda: float(direction @ direction))
        self.n_drop_steps += active.shift(v, s, gamma)
        self.x[:] += gamma * direction
        self._snap()
        self._z += gamma * q

    def _mix(self, atom: Atom, image: Array, gamma: float) -> None:
        """w <- (1 - gamma) w + gamma s, and z with it."""
        w = self.x
        w *= 1.0 - gamma
        atom.add_to(w, gamma)
        self._snap()
        self._z *= 1.0 - gamma
        self._z += gamma * image

    def _snap(self) -> None:
        """Back into a box where rounding has left it: its bounds hold exactly."""
        w, constraint = self.x, self.constraint
        if type(constraint) is sets.Box:
            np.clip(w, *self._box(w.size), out=w)
        elif type(constraint) is sets.LInfBall:
            np.clip(w, -constraint.radius, constraint.radius, out=w)

    # --- what is known of the whole objective -------------------------------------------------------------------

    def certify(self) -> tuple[float, float]:
        """The objective and its exact gap at w, rounded up (with z as new): one gradient, one linear minimisation."""
        if not self.is_placed:
            self._start()
        alpha = self._derivatives()
        g = self._gradient(alpha)
        s, z = self._best(g, None), self._z + self.s.intercept
        return self.sum.enclose(self.x, z, alpha, g, s, self.constraint.diameter(self.x.shape))

    def exact_gap(self) -> float | None:
        """The Frank-Wolfe gap of the mean loss over the samples held. One pass over them; the state stays."""
        if not self.ring.live:
            return None
        rows = self.ring.rows(self.n_features, 0.0)
        total = FiniteSum(rows, self.ring.targets(), self.score_loss, intercept=self.s.intercept)
        return self.gap_along(total.exact_gradient(self.x))

    # --- saved and loaded ---------------------------------------------------------------------------------------

    def __getstate__(self) -> dict:
        state = super().__getstate__()
        return state if self.active is None else {**state, "active": self.active.to_arrays()}

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        if state["active"] is not None:
            self.active = ActiveSet.from_arrays(state["active"], self.n_features)

    def _check_arrays(self) -> None:
        super()._check_arrays()
        _loaded.count(self, "n_drop_steps")
        _loaded.count(self, "n_coefficients")
        _loaded.instance(self, "is_placed", bool)
        _loaded.require(self, "is_placed", self.is_placed or not self.s.t, "a start before the first step")
        fits = (self.active is not None) == self.optimizer._is_corrective
        _loaded.require(self, "active", fits, "atoms where the optimizer steps away from some")
        if self.active is not None:
            self._check_active(self.active)

    def _check_active(self, active: ActiveSet) -> None:
        if not self.is_placed:
            _loaded.require(self, "active", not len(active), "no atoms before there is a start")
            return
        weights = np.fromiter(active.weights.values(), np.float64, len(active))
        is_mixture = bool((weights > 0.0).all()) and abs(weights.sum() - 1.0) <= 1e-6
        _loaded.require(self, "active", is_mixture, "weights that are positive and sum to 1")
        w = self.x
        mixed = np.zeros(w.size)
        for atom, weight in active.weights.items():
            point = atom.to_dense()
            _loaded.require(self, "active", checks.is_point(self, point), f"points of {self.constraint}")
            mixed += weight * point
        apart, scale = np.abs(mixed - w).max(initial=0.0), max(1.0, float(np.abs(w).max(initial=0.0)))
        _loaded.require(self, "active", apart <= 1e-6 * scale, "atoms that the iterate is a mixture of")


def check_set(optimizer: typing.Any, constraint: sets.ConvexSet) -> None:
    """Raise where an optimizer that steps away from atoms has no finite number of them."""
    if optimizer._is_corrective and not is_polytope(constraint):
        raise ValueError(
            f"{type(optimizer).__name__} needs a set with finitely many vertices to step away from, which {constraint} "
            f"has not; use FW there"
        )


def distance_sq(point: Array, atom: Atom) -> float:
    """||x - s||^2."""
    difference = point.copy()
    atom.add_to(difference, -1.0)
    return float(difference @ difference)
