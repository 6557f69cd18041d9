"""The Frank-Wolfe family on a function that is known by its value and its gradient alone."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import sets
from fwonline.optim.problem.active_set import ActiveSet, atom_of
from fwonline.optim.problem.function import Search, search
from fwonline.optim.problem.line import Line, Scheduled
from fwonline.optim.problem.rounding import EPS
from fwonline.optim.runs.full_run import FRESH, Look, check_set
from fwonline.optim.runs.model_run import State
from fwonline.optim.schedules import LineSearch
from fwonline.sets.spectral import SpectralSet

if typing.TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from fwonline.optim.problem.function import SmoothFunction
    from fwonline.sets.atoms import Atom

    Array = NDArray[np.float64]

__all__ = ["FunctionRun"]

_NONE = np.zeros(0)


class FunctionRun:
    """One of the family at work on a function: the optimizer's ``_step`` says where a step goes, as on a finite sum.

    Attributes
    ----------
    x
        The iterate, of any shape; each step makes a new array.
    active
        The atoms that the iterate is a mixture of, where the optimizer steps away from some; else None.
    """

    def __init__(self, optimizer: typing.Any, function: SmoothFunction, constraint: sets.ConvexSet, x0: ArrayLike):
        check_set(optimizer, constraint)
        self.optimizer, self.function, self.constraint = optimizer, function, constraint
        self.x: Array = np.array(x0, dtype=np.float64)
        if not constraint.contains(self.x):
            raise ValueError(f"x0 must be a point of {constraint}; its initial_point({self.x.shape}) is one")
        self.active = ActiveSet({atom_of(self.x): 1.0}) if optimizer._is_corrective else None
        self.s = function.counts
        self.n_drop_steps = 0
        schedule = optimizer.schedule
        self._rule = None if schedule is None or isinstance(schedule, LineSearch) else Scheduled(schedule)
        # Where the last search has ended, unless x has moved since.
        self._at = Search(0.0, self.x, None, math.nan, 0.0)
        self._atom: Atom | None = None  # where the search of a spectral oracle begins

    # --- what the optimizer's front door reads ------------------------------------------------------------------

    @property
    def t(self) -> int:
        return self.s.t

    @property
    def gap(self) -> float:
        return self.s.gap

    @property
    def weights(self) -> Array:
        return self.x.copy()

    @property
    def n_coefficients(self) -> int:
        return self.s.n_gradients * self.x.size

    def progress(self) -> State:
        return State(self.s.t, self.s.gap, self.s.n_gradients, self.s.n_lmo, typing.cast("typing.Any", self))

    def refresh(self) -> None:
        """Compute x from the active set, so that its rounding does not add up."""
        if self.active is not None:
            x = self.active.point(self.x.size).reshape(self.x.shape)
            self._stand(self._at._replace(x=x, gradient=None, value=math.nan))

    def certify(self) -> tuple[float, float]:
        """The function and its gap at x: of the numbers that f and its gradient return, up to their last digits."""
        g = self._finite(self.function.gradient(self.x))
        self._atom = None
        s = self._lmo(g)
        gap = max(float(np.vdot(g, self.x)) - s.dot(g), 0.0)
        if isinstance(self.constraint, SpectralSet):
            gap += self.constraint.lmo_error(g, s, 1e-8)
        spread = float((np.abs(g) * (np.abs(self.x) + np.abs(s.to_dense()))).sum())
        return self.function.value(self.x), gap + (30.0 + self.x.size / 8.0) * EPS * spread

    # --- a step -------------------------------------------------------------------------------------------------

    def _finite(self, g: Array) -> Array:
        if np.isfinite(g).all():
            return g
        raise ValueError(f"the gradient is not finite after {self.s.t} steps: x0 must lie in the domain of f")

    def _lmo(self, g: Array) -> Atom:
        self.s.n_lmo += 1
        if isinstance(self.constraint, SpectralSet):
            self._atom = self.constraint.lmo(g, start=self._atom)
            return self._atom
        return self.constraint.lmo(g)

    def step(self, tol: float = -math.inf) -> bool:
        """One step, unless the gap before it is at most tol; returns whether it was."""
        if self.s.t % FRESH == FRESH - 1:
            self.refresh()
        if self._at.gradient is None:
            self._at = self._at._replace(gradient=self.function.gradient(self.x))
        g = self._finite(typing.cast("Array", self._at.gradient))
        s, here = self._lmo(g), float(np.vdot(g, self.x))
        look = Look(s, None, here - s.dot(g))
        if self.active is not None:
            v = max(self.active, key=lambda atom: atom.dot(g))
            look = Look(s, v, look.towards, v.dot(g) - here, v.dot(g) - s.dot(g))
        self.s.gap = look.towards
        if look.towards <= tol:
            return True
        self.optimizer._step(self, look)
        return False

    def _stand(self, at: Search) -> None:
        """Be where a search has ended, back in a box where rounding has left it."""
        constraint, x = self.constraint, at.x
        if type(constraint) is sets.Box:
            x = np.clip(x, constraint.lower, constraint.upper)
        elif type(constraint) is sets.LInfBall:
            x = np.clip(x, -constraint.radius, constraint.radius)
        self.x, self._at = x, at._replace(x=x)

    def _go(self, direction: Array, slope: float, limit: float) -> float:
        """Go along a direction; returns the step."""
        if self._rule is None:
            if math.isnan(self._at.value):
                self._at = self._at._replace(value=self.function.value(self.x))
            at = search(self.function, self._at, direction, slope, limit)
        else:
            line = Line(slope, limit, _NONE, _NONE, _NONE, lambda: float(np.vdot(direction, direction)))
            gamma = self._rule.gamma(self.s.t, line)
            at = Search(gamma, self.x + gamma * direction, None, math.nan, 0.0)
        self._stand(at)
        gamma = at.gamma
        self.s.gamma = gamma
        self.s.t += 1
        return gamma

    def go_towards(self, s: Atom, slope: float) -> None:
        """x <- x + gamma (s - x), gamma <= 1."""
        gamma = self._go(s.to_dense() - self.x, slope, 1.0)
        if self.active is not None:
            self.active.towards(s, gamma)

    def go_away(self, v: Atom, slope: float) -> None:
        """x <- x + gamma (x - v), gamma <= alpha_v / (1 - alpha_v)."""
        active = typing.cast("ActiveSet", self.active)
        gamma = self._go(self.x - v.to_dense(), slope, active.away_limit(v))
        self.n_drop_steps += active.away_from(v, gamma)

    def shift(self, v: Atom, s: Atom, slope: float) -> None:
        """x <- x + gamma (s - v), gamma <= alpha_v."""
        active = typing.cast("ActiveSet", self.active)
        gamma = self._go(s.to_dense() - v.to_dense(), slope, active[v])
        self.n_drop_steps += active.shift(v, s, gamma)
