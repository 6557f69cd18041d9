"""The learners of regret on iterates that are matrices: the steps of their compiled runs, one sample a round."""

from __future__ import annotations

import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import layout
from fwonline.optim.online.adaptive_ofw import PULL
from fwonline.optim.runs.finite_sum_run import Method, advance, distance_sq, steps_taken

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    from fwonline.optim.runs.finite_sum_run import FiniteSumRun

    Array = NDArray[np.float64]

__all__ = ["AdaptiveMethod", "AdversarialMethod"]


class RegretMethod(Method):
    """Knows G, the longest gradient so far, and shortens those beyond a bound that was given."""

    def __init__(self, optimizer: typing.Any):
        super().__init__(optimizer)
        self.longest = optimizer.gradient_bound or 0.0

    def check(self, run):
        super().check(run)
        _loaded.real(self, "longest", 0.0)
        known = [getattr(self, name) is not None for name in (*self.points, *self.vectors)]
        _loaded.require(self, self.points[0], all(known) or not any(known), "both of its arrays, or none")

    def shortened(self, g: Array) -> Array:
        length, bound = float(np.linalg.norm(g)), self.optimizer.gradient_bound
        if bound is not None and length > bound:
            return g * (bound / length)
        self.longest = max(self.longest, length)
        return g


class AdversarialMethod(RegretMethod):
    """s_t = lmo(sum of gradients before this one + 2 / eta_t (w_t - w_1)), w_{t+1} = w_t + min(1, 2 t^-a) (s_t - w_t).

    2 / eta_t = 4 G T^(3/4) / D.
    """

    points: typing.ClassVar[tuple[str, ...]] = ("start",)
    vectors: typing.ClassVar[tuple[str, ...]] = ("total",)
    start: typing.Any
    total: typing.Any

    def step(self, run: FiniteSumRun) -> None:
        t = steps_taken(run)
        if self.start is None:
            self.start, self.total = run.x.copy(), np.zeros(run.x.shape)
        newest = run.sum.gradient(run.x, run.next_samples(1))
        rounds = self.optimizer.horizon or t + 1.0
        pull = 4.0 * self.longest * rounds**0.75 / run.constraint.diameter(run.x.shape)
        r = (self.total + pull * (run.x - self.start)) / (t + 1.0)
        if r.any():
            run.frank_wolfe(r, self.optimizer._schedule(), t)
        else:
            run.note(0.0, 0.0)  # no point is better than another: the one held is kept
        self.total += self.shortened(newest)


class AdaptiveMethod(RegretMethod):
    """y follows the gradients by blocks; w, in the set, follows y by Frank-Wolfe."""

    points: typing.ClassVar[tuple[str, ...]] = ("y",)
    beyond: typing.ClassVar[tuple[str, ...]] = ("y",)
    held = ()  # y lies outside the set; without a coordinate that w has not it comes nearer to every point left
    vectors: typing.ClassVar[tuple[str, ...]] = ("total",)
    y: typing.Any
    total: typing.Any

    def step(self, run: FiniteSumRun) -> None:
        if self.y is None:
            self.y, self.total = run.x.copy(), np.zeros(run.x.shape)
        self.total += run.sum.gradient(run.x, run.next_samples(1))
        block = self.optimizer._block
        if (steps_taken(run) + 1) % block:
            return
        g, self.total = self.total / block, np.zeros(run.x.shape)
        run.note(float(np.vdot(g, run.x)) - run.lmo(g).dot(g), float(run.num[layout.GAMMA]))
        g = self.shortened(g)
        D = run.constraint.diameter(run.x.shape)
        if self.longest > 0.0:
            self.y -= D * np.sqrt(block / self.optimizer.horizon) * (g / self.longest)
        while not self._approach(run, self.optimizer._tolerance * D**2):
            self.y += PULL * (run.x - self.y)

    def _approach(self, run: FiniteSumRun, eps: float) -> bool:
        """Whether w came near y before the gap of ||w - y||^2 / 2 fell to eps."""
        for _ in range(int(np.ceil(6.75 / self.optimizer._tolerance))):
            r = run.x - self.y
            if np.vdot(r, r) <= 3.0 * eps:
                return True
            atom = run.lmo(r)
            gap = float(np.vdot(r, run.x)) - atom.dot(r)
            if gap <= eps:
                return False
            run.num[layout.GAMMA] = min(1.0, gap / distance_sq(run.x, atom))
            advance(run.x, atom, run.num[layout.GAMMA])
        return True
