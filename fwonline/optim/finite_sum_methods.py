"""The sample-by-sample algorithms on a finite sum, for iterates that are matrices.

On vectors their compiled runs are used (one file per algorithm); here are the same steps for
:class:`~fwonline.linear_model.FWSoftmax`, whose gradient of one sample is a matrix.
"""

from __future__ import annotations

import typing

import numpy as np

from fwonline._kernels import layout
from fwonline.optim.finite_sum_run import FiniteSumOptimizer, FiniteSumRun, Method, Snapshot
from fwonline.optim.fw import FW
from fwonline.optim.momentum import MomentumFW
from fwonline.optim.one_sample import OneSampleFW
from fwonline.optim.projected import ProjectedSGD
from fwonline.optim.sfw import SFW

__all__ = ["KNOWN", "method_for"]


def steps_taken(run: FiniteSumRun) -> int:
    return int(run.cnt[layout.T])


class FWMethod(Method):
    """s = lmo(grad f(w)), w = w + gamma_t (s - w)."""

    def step(self, run: FiniteSumRun) -> None:
        run.frank_wolfe(run.sum.gradient(run.x), self.optimizer._schedule(), steps_taken(run))


class SFWMethod(Snapshot):
    """r = (1/n) sum alpha_i a_i, the derivatives of a batch renewed before each step."""

    def step(self, run: FiniteSumRun) -> None:
        if self.total is None:
            self._make_room(run)
            self.total = np.zeros(run.x.shape)
        batch = run.pick(self.optimizer.batch_size)
        alpha = run.sum.slopes(run.x, batch)
        run.sum.rows.add(batch, alpha - self.slopes[batch], self.total)
        self.slopes[batch] = alpha
        run.frank_wolfe(self.total / run.sum.n, self.optimizer._schedule(), steps_taken(run))


class OneSampleMethod(Method):
    """d_t = g_t(w_t) + (1 - rho_t) (d_{t-1} - g_t(w_{t-1})), rho_t = (t + 1)^-alpha, g_t the newest one's gradient."""

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
            fresh += (1.0 - (t + 1.0) ** -self.optimizer.alpha) * (self.d - before)
        self.d, self.old = fresh, run.x.copy()
        run.frank_wolfe(fresh, self.optimizer._schedule(), t)


class MomentumMethod(Method):
    """d_t = (1 - rho_t) d_{t-1} + rho_t g_t, rho_t = 4 / (t + 8)^(2/3), g_t the mean over a batch of its own."""

    vectors: typing.ClassVar[tuple[str, ...]] = ("d",)
    d: typing.Any

    def step(self, run: FiniteSumRun) -> None:
        t = steps_taken(run)
        rho = 4.0 / (t + 8.0) ** (2.0 / 3.0)
        g = run.sum.gradient(run.x, run.next_samples(self.optimizer.batch_size))
        self.d = rho * g if self.d is None else (1.0 - rho) * self.d + rho * g
        run.frank_wolfe(self.d, self.optimizer._schedule(), t)


class ProjectedMethod(Method):
    """w = Pi(w - eta_t g_t)."""

    def step(self, run: FiniteSumRun) -> None:
        eta = self.optimizer._step(steps_taken(run))
        g = run.sum.gradient(run.x, run.next_samples(1))
        run.note(np.nan, eta)
        run.x[...] = run.constraint.project(run.x - eta * g)


KNOWN: dict[type, type[Method]] = {
    FW: FWMethod,
    MomentumFW: MomentumMethod,
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
    if type(optimizer) not in KNOWN or (type(optimizer) is MomentumFW and optimizer.memory is not None):
        names = sorted(cls.__name__ for cls in (*KNOWN, *FiniteSumOptimizer.__subclasses__()))
        raise TypeError(f"{optimizer} does not work on matrices; {', '.join(names)} do")
    return KNOWN[type(optimizer)](optimizer)
