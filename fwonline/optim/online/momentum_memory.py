"""Momentum in each sample's derivative: the form in which Negiar et al. 2020 compare with MomentumFW (appendix G)."""

from __future__ import annotations

import typing

import numpy as np

from fwonline._kernels import layout, memory, steps, stream
from fwonline._kernels.coordinates import rebuild
from fwonline._kernels.layout import (
    BATCH,
    CROWDED,
    INTERCEPT,
    LIVE,
    LOSS_KIND,
    LOSS_P,
    LOSS_Q,
    N_GRADIENTS,
    NEED_NAMES,
    NEED_NOISE,
    NEED_POOL,
    NOISE,
    OK,
    STEPS,
    jit,
    part,
)
from fwonline.losses import CUSTOM, loss_derivative
from fwonline.optim.online.sfw import enter
from fwonline.optim.runs.memory_run import MemoryRun
from fwonline.optim.runs.method import Derivatives, Method, SumRun

if typing.TYPE_CHECKING:
    from fwonline.optim.online.momentum import MomentumFW

__all__ = ["MomentumMemoryRun"]


@part
def renew_damped(v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val, batch, first, last):
    """alpha_i <- alpha_i + rho_t (f_i'(<x_i, w_t>) - alpha_i) for batch[first:last]; r follows."""
    intercept, rho = num[INTERCEPT], stream.rho(num, cnt)
    cnt[N_GRADIENTS] += last - first
    wide = memory.is_wide(cnt, rows, batch, first, last)
    for k in range(first, last):
        memory.look_ahead(rows, pool_idx, pool_val, batch, k, last)
        slot = batch[k]
        margin = memory.margin_of(v, num, rows, pool_idx, pool_val, slot)
        slope = loss_derivative(cnt[LOSS_KIND], num[LOSS_P], num[LOSS_Q], duals[slot, memory.LABEL], margin + intercept)
        alpha = duals[slot, memory.ALPHA]
        alpha += rho * (slope - alpha)
        if wide:
            memory.renew_unbounded(u, num, rows, duals, pool_idx, pool_val, slot, margin, alpha)
        else:
            memory.renew(u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val, slot, margin, alpha)
    if wide:
        rebuild(cnt[layout.SET], u, bound, group, cnt[layout.D])


@jit
def learn(
    v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val, noise, batch, indptr, idx, val, ys, first, last
):
    bits = val.view(layout.INT64)
    for i in range(first, last):
        start, stop, y = indptr[i], indptr[i + 1], ys[i]
        status, margin, prediction, alpha, largest = memory.look(v, num, cnt, bits, idx, val, start, stop, y)
        if status != OK:
            return status
        if cnt[NOISE] + cnt[STEPS] * cnt[BATCH] > noise.size:
            return NEED_NOISE
        if cnt[CROWDED] != 0:
            return NEED_NAMES
        at = memory.room(rows, cnt, pool_idx.size, stop - start)
        if at < 0:
            return NEED_POOL
        memory.play(num, cnt, y, prediction)
        newest = enter(
            v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val,
            at, idx, val, start, stop, y, margin, alpha, largest,
        )  # fmt: skip
        memory.fit_intercept(num, cnt, y, prediction, alpha)
        for k in range(cnt[STEPS]):
            size = min(cnt[BATCH], cnt[LIVE])
            if k > 0 or size > 1:
                memory.draw_batch(rows, cnt, noise, batch, size, newest if k == 0 else -1)
                renew_damped(
                    v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val,
                    batch, 1 if k == 0 else 0, size,
                )  # fmt: skip
            memory.settle(v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val)
            steps.move(v, u, rank, bound, group, num, cnt)
    return OK


@jit
def iterate(v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val, noise, batch, count):
    for _ in range(count):
        memory.draw_batch(rows, cnt, noise, batch, cnt[BATCH], -1)  # B_t
        renew_damped(v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val, batch, 0, cnt[BATCH])
        memory.settle(v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val)
        steps.move(v, u, rank, bound, group, num, cnt)  # s_t = lmo(r_t), w_{t+1} = w_t + gamma_t (s_t - w_t)


class MomentumMemoryRun(MemoryRun):
    """The per-sample form of :class:`MomentumFW` at work."""

    _compiled_learn = staticmethod(learn)
    _compiled_iterate = staticmethod(iterate)

    def __init__(self, optimizer: MomentumFW, *args: typing.Any, **kwargs: typing.Any):
        super().__init__(optimizer, *args, capacity=optimizer.memory or 1, **kwargs)
        self.num[layout.RHO_A : layout.RHO_C + 1] = optimizer._rho(), 8.0, 2.0 / 3.0
        self.cnt[BATCH] = optimizer.batch_size
        self.cnt[STEPS] = 1
        self.batch = np.zeros(optimizer.batch_size, dtype=np.int64)
        self._bind()

    def _enter(self, rows, i, margin, alpha, largest):
        indptr, idx, val, y = rows
        at = self._place(rows, i)  # first of all: it may bring a larger pool
        self._newest = enter(
            *self.core, *self.pool, at, idx, val, indptr[i], indptr[i + 1], y[i], margin, alpha, largest
        )

    def _moves(self):
        size = min(self.batch.size, int(self.cnt[LIVE]))
        if size > 1:
            self._draw(size, self._newest)
            self.renew(1, size)
        memory.settle(*self.core, *self.pool)
        yield

    def renew(self, first: int, last: int) -> None:
        num, cnt = self.num, self.cnt
        if cnt[LOSS_KIND] != CUSTOM:
            renew_damped(*self.core, *self.pool, self.batch, first, last)
            return
        rho = stream.rho(num, cnt)
        for slot in self.batch[first:last]:
            margin = memory.margin_of(self.v, num, self.rows, self.pool_idx, self.pool_val, slot)
            slope = self.derivative(self.duals[slot, memory.LABEL], float(margin + num[INTERCEPT]))
            alpha = self.duals[slot, memory.ALPHA]
            memory.renew(self.u, *self.core[2:], *self.pool, slot, margin, alpha + rho * (slope - alpha))
            cnt[N_GRADIENTS] += 1


class MomentumMemoryMethod(Method):
    """The same steps on matrices: alpha_i = alpha_i + rho_t (l'(z_i(w_t)) - alpha_i), rho_t = c / (t + 8)^(2/3)."""

    memory: Derivatives

    def __init__(self, optimizer: MomentumFW):
        super().__init__(optimizer)
        self.memory = Derivatives()

    def step(self, run: SumRun) -> None:
        self.memory.begin(run)
        t = run.t
        batch = run.pick(self.optimizer.batch_size)
        alpha = self.memory.alpha[batch]
        rho = min(self.optimizer._rho() / (t + 8.0) ** (2.0 / 3.0), 1.0)
        r = self.memory.renew(run, batch, alpha + rho * (run.sum.slopes(run.x, batch) - alpha))
        run.frank_wolfe(r, self.optimizer._schedule(), t)
