"""The sample-by-sample algorithms on a finite sum, for iterates that are matrices.

On vectors their compiled runs are used (one file per algorithm); here are the same steps for
:class:`~fwonline.linear_model.FWSoftmax`, whose gradient of one sample is a matrix.
"""

from __future__ import annotations

import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import layout
from fwonline.optim.deterministic.fw import FW
from fwonline.optim.online.adaptive_ofw import AdaptiveOFW
from fwonline.optim.online.lu_freund import LuFreundFW
from fwonline.optim.online.momentum import MomentumFW
from fwonline.optim.online.ofw import OFW, RECURSION
from fwonline.optim.online.one_sample import OneSampleFW
from fwonline.optim.online.projected import ProjectedSGD
from fwonline.optim.online.sfw import SFW
from fwonline.optim.runs.finite_sum_run import FiniteSumOptimizer, FiniteSumRun, Method, Snapshot, advance, steps_taken
from fwonline.optim.schedules import LineSearch
from fwonline.optim.variance_reduced.finite_sum_regret import AdaptiveMethod, AdversarialMethod
from fwonline.sets import RankOneAtom

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from fwonline.sets import Atom

__all__ = ["KNOWN", "method_for"]


class FWMethod(Method):
    """s = lmo(grad f(w)), w = w + gamma_t (s - w)."""

    def __init__(self, optimizer: FW):
        super().__init__(optimizer)
        if isinstance(optimizer.schedule, LineSearch):
            raise TypeError(
                f"{optimizer} does not work on matrices: no line search is made there; name another schedule, or none "
                "for 2 / (t + 2)"
            )

    def step(self, run: FiniteSumRun) -> None:
        run.frank_wolfe(run.sum.gradient(run.x), self.optimizer._schedule(), steps_taken(run))


class Memory(Snapshot):
    """r = (1/n) sum alpha_i a_i, the derivatives of a batch renewed before each step; they start at 0."""

    def start(self, run: FiniteSumRun) -> None:
        if self.total is None:
            self._make_room(run)
            self.total = np.zeros(run.x.shape)

    def renew(self, run: FiniteSumRun, batch: typing.Any, alpha: typing.Any) -> typing.Any:
        """Take these derivatives for those of a batch; answers r."""
        run.sum.rows.add(batch, alpha - self.slopes[batch], self.total)
        self.slopes[batch] = alpha
        return self.total / run.sum.n


class SFWMethod(Memory):
    """alpha_i = l'(<a_i, w_t>)."""

    def step(self, run: FiniteSumRun) -> None:
        self.start(run)
        batch = run.pick(self.optimizer.batch_size)
        r = self.renew(run, batch, run.sum.slopes(run.x, batch))
        run.frank_wolfe(r, self.optimizer._schedule(), steps_taken(run))


class MomentumMemoryMethod(Memory):
    """alpha_i = alpha_i + rho_t (l'(<a_i, w_t>) - alpha_i), rho_t = c / (t + 8)^(2/3)."""

    def step(self, run: FiniteSumRun) -> None:
        self.start(run)
        t = steps_taken(run)
        batch = run.pick(self.optimizer.batch_size)
        alpha = self.slopes[batch]
        rho = min(self.optimizer._rho() / (t + 8.0) ** (2.0 / 3.0), 1.0)
        r = self.renew(run, batch, alpha + rho * (run.sum.slopes(run.x, batch) - alpha))
        run.frank_wolfe(r, self.optimizer._schedule(), t)


class LuFreundMethod(Memory):
    """s = lmo(r); sigma_i = sigma_i + delta_t (<a_i, s> - sigma_i), alpha_i = l'(sigma_i); w = w + gamma_t (s - w).

    delta_t = 2m / (2m + t + 1), gamma_t = 2 (2m + t) / ((t + 1) (4m + t)) with m = n / b.
    """

    by_sample: typing.ClassVar[tuple[str, ...]] = ("slopes", "sigma")

    def __init__(self, optimizer: LuFreundFW):
        super().__init__(optimizer)
        self.sigma: typing.Any = np.zeros(0)

    def enter(self, run, slot, slope):
        super().enter(run, slot, slope)
        self._fit(run)
        self.sigma[slot] = run.sum.rows.scores(run.x, np.array([slot]))[0]

    def _fit(self, run: FiniteSumRun) -> None:
        self._make_room(run)
        if self.sigma.shape != self.slopes.shape:
            sigma = np.zeros(self.slopes.shape)
            if self.sigma.size:
                sigma[tuple(slice(0, size) for size in self.sigma.shape)] = self.sigma
            self.sigma = sigma

    def start(self, run: FiniteSumRun) -> None:
        if self.total is None and not run.is_online and self.optimizer.first_gradient:
            self._fit(run)
            self.sigma[...] = run.sum.rows.scores(run.x, None)
            self.take(run, run.x)
        super().start(run)

    def step(self, run: FiniteSumRun) -> None:
        self.start(run)
        self._fit(run)
        t, n = steps_taken(run), run.sum.n
        m = n / min(self.optimizer.batch_size, n)
        atom = run.lmo(self.total / n)
        gap = (float(np.vdot(self.total, run.x)) - atom.dot(self.total)) / n
        batch = run.pick(self.optimizer.batch_size)
        self.sigma[batch] += 2.0 * m / (2.0 * m + t + 1.0) * (scores_of(run, atom, batch) - self.sigma[batch])
        self.renew(run, batch, run.sum.slopes_at(self.sigma[batch], batch))
        gamma = 2.0 * (2.0 * m + t) / ((t + 1.0) * (4.0 * m + t))
        run.note(gap, gamma)
        advance(run.x, atom, gamma)


def scores_of(run: FiniteSumRun, atom: Atom, batch: typing.Any) -> typing.Any:
    """The scores of samples at an atom; a rank-one matrix is not written out for them."""
    if isinstance(atom, RankOneAtom):
        return np.outer(run.sum.rows.scores(np.ascontiguousarray(atom.v), batch), atom.sigma * atom.u)
    return run.sum.rows.scores(atom.to_dense(), batch)


class OneSampleMethod(Method):
    """d_t = g_t(w_t) + (1 - rho_t) (d_{t-1} - g_t(w_{t-1})), rho_t = (t + 1)^-alpha, g_t the newest one's gradient."""

    exponent: typing.ClassVar[str] = "alpha"

    points: typing.ClassVar[tuple[str, ...]] = ("old",)
    vectors: typing.ClassVar[tuple[str, ...]] = ("d",)
    old: typing.Any
    d: typing.Any

    def step(self, run: FiniteSumRun) -> None:
        t = steps_taken(run)
        batch = run.next_samples(1)
        fresh = np.zeros(run.x.shape)
        run.sum.rows.add(batch, run.sum.slopes(run.x, batch), fresh)
        if self.d is not None and run.num[layout.GAMMA] < 1.0:  # a whole step leaves nothing that d was for
            before = np.zeros(run.x.shape)
            run.sum.rows.add(batch, run.sum.slopes(self.old, batch), before)
            fresh += (1.0 - (t + 1.0) ** -getattr(self.optimizer, self.exponent)) * (self.d - before)
        self.d, self.old = fresh, run.x.copy()
        run.frank_wolfe(fresh, self.optimizer._schedule(), t)


class OFWMethod(OneSampleMethod):
    """The exact gradient of the mean of all losses seen, while the memory holds them; then as one sample a step."""

    exponent = "a"

    def __init__(self, optimizer: OFW):
        super().__init__(optimizer)
        self.plays: list[int] = []  # offline: what was played so far

    def check(self, run):
        super().check(run)
        self.plays = []

    def step(self, run: FiniteSumRun) -> None:
        if run.cnt[layout.MODE] != RECURSION and steps_taken(run) == self.optimizer.memory:
            run.cnt[layout.MODE] = RECURSION
            self.plays = []
        if run.cnt[layout.MODE] == RECURSION:
            super().step(run)
            return
        newest = run.next_samples(1)
        if run.is_online:
            self.d = run.sum.gradient(run.x)
        else:
            self.plays.extend(newest.tolist())
            self.d = run.sum.gradient(run.x, np.array(self.plays))
            run.cnt[layout.N_EXACT] += 1  # of F_t, whose samples these are
        self.old = run.x.copy()
        run.frank_wolfe(self.d, self.optimizer._schedule(), steps_taken(run))


class MomentumMethod(Method):
    """d_t = (1 - rho_t) d_{t-1} + rho_t g_t, rho_t = c / (t + 8)^(2/3), g_t the mean over a batch of its own."""

    vectors: typing.ClassVar[tuple[str, ...]] = ("d",)
    d: typing.Any

    def step(self, run: FiniteSumRun) -> None:
        t = steps_taken(run)
        rho = min(self.optimizer._rho() / (t + 8.0) ** (2.0 / 3.0), 1.0)
        g = run.sum.gradient(run.x, run.next_samples(self.optimizer.batch_size))
        self.d = rho * g if self.d is None else (1.0 - rho) * self.d + rho * g
        run.frank_wolfe(self.d, self.optimizer._schedule(), t)


class ProjectedMethod(Method):
    """w = Pi(w - eta_t g_t), g_t the mean over a batch."""

    vectors: typing.ClassVar[tuple[str, ...]] = ("d",)
    d: typing.Any = None
    waiting = 0

    def step(self, run: FiniteSumRun) -> bool:
        size = self.optimizer.batch_size
        g = run.sum.gradient(run.x, run.next_samples(1 if run.is_online else size))
        if run.is_online and size > 1:
            self.d = g if self.d is None else self.d + g
            self.waiting += 1
            if self.waiting < size:
                return False
            g, self.d, self.waiting = self.d / size, None, 0
        eta = self.optimizer._step(steps_taken(run))
        run.note(np.nan, eta)
        run.x[...] = run.constraint.project(run.x - eta * g)
        return True

    counters: typing.ClassVar[dict[str, int]] = {"waiting": _loaded.MOST}

    def check(self, run):
        super().check(run)
        waits = self.waiting < self.optimizer.batch_size and (self.waiting > 0) == (self.d is not None)
        _loaded.require(self, "waiting", waits, "samples of a batch under way")


KNOWN: dict[type, Callable[[typing.Any], Method]] = {
    AdaptiveOFW: AdaptiveMethod,
    FW: FWMethod,
    LuFreundFW: LuFreundMethod,
    MomentumFW: lambda it: MomentumMethod(it) if it.memory is None else MomentumMemoryMethod(it),
    OFW: lambda it: AdversarialMethod(it) if it.adversarial else OFWMethod(it),
    OneSampleFW: OneSampleMethod,
    ProjectedSGD: ProjectedMethod,
    SFW: SFWMethod,
}


def method_for(optimizer: typing.Any) -> Method:
    """An optimizer's algorithm on a finite sum.

    Raises
    ------
    TypeError
        For an optimizer that works on vectors alone.
    """
    if isinstance(optimizer, FiniteSumOptimizer):
        return optimizer._method_class(optimizer)
    if type(optimizer) not in KNOWN:
        names = sorted(cls.__name__ for cls in (*KNOWN, *FiniteSumOptimizer.__subclasses__()))
        raise TypeError(f"{optimizer} does not work on matrices; {', '.join(names)} do")
    return KNOWN[type(optimizer)](optimizer)
