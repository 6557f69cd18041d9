"""Online Frank-Wolfe on the regularised sum of gradients, for losses that may be anything (Hazan 2016, chapter 7)."""

from __future__ import annotations

import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import coordinates, layout, memory, steps
from fwonline._kernels.layout import (
    CROWDED,
    DIAMETER,
    DOT,
    INDEX,
    N_GRADIENTS,
    NEED_NAMES,
    NONZEROS,
    OK,
    RHO_A,
    SET,
    SIMPLEX,
    STEEPEST,
    U_SCALE,
    UNIT_SIMPLEX,
    W_SCALE,
    W_SQ,
    D,
    T,
    jit,
    part,
)
from fwonline._kernels.steps import move
from fwonline.optim.runs.method import RegretMethod, SumRun
from fwonline.optim.runs.regret_run import RegretRun, shortened
from fwonline.optim.runs.run import GENERIC, resized

if typing.TYPE_CHECKING:
    from fwonline.optim.online.ofw import OFW

__all__ = ["AdversarialRun"]

# Where a run keeps T, 0 where it is not known.
HORIZON = RHO_A


@part
def pull(num, cnt):
    """2 / eta_t = 4 G T^(3/4) / D: how the regulariser ||w - w_1||^2 weighs against the sum of gradients."""
    rounds = num[HORIZON] if num[HORIZON] > 0.0 else cnt[T] + 1.0
    return 4.0 * rounds**0.75 * (num[STEEPEST] / num[DIAMETER]) if num[DIAMETER] > 0.0 else 0.0


@part
def hold(active, place, cnt, j):
    """Coordinate j is one of those where w or w_1 is not zero, from now on."""
    if place[j] < 0:
        place[j] = cnt[NONZEROS]
        active[cnt[NONZEROS]] = j
        cnt[NONZEROS] += 1


@part
def regularise(v, u, bound, group, num, cnt, start_point, total, active, c):
    """u = sum of gradients + c (w - w_1): O(support) where atoms are coordinates, O(d) elsewhere."""
    num[U_SCALE] = 1.0 / (cnt[T] + 1.0)
    kind = cnt[SET]
    if kind > UNIT_SIMPLEX:
        for j in range(cnt[D]):
            u[j] = total[j] + c * (v[j] - start_point[j])
        return
    scale = num[W_SCALE]
    dot = 0.0
    square = 0.0
    for k in range(cnt[NONZEROS]):
        j = active[k]
        w = scale * v[j]
        new = total[j] + c * (w - start_point[j])
        u[j] = new
        dot += new * w
        square += w * w
        key = abs(new) if kind == layout.L1 else -new
        b = np.uint32(j) >> np.uint32(coordinates.BLOCK_SHIFT)
        if key > bound[b]:
            coordinates.raise_bounds(bound, group, b, key)
    num[DOT] = dot
    num[W_SQ] = square


@part
def norm(val, start, stop, largest):
    """||x||, without overflow; the sum compensated, so that the order of the entries does not show in it."""
    if largest == 0.0:
        return 0.0
    total = lost = 0.0
    for k in range(start, stop):
        share = val[k] / largest
        p = share * share
        t = total + p
        back = t - total
        lost += (total - (t - back)) + (p - back)
        total = t
    return largest * np.sqrt(total + lost)


@part
def enter(u, bound, group, num, cnt, total, idx, val, start, stop, alpha, largest):
    """One more gradient in the sum, and in u where the sum is all that there is."""
    alpha *= shortened(num, abs(alpha) * norm(val, start, stop, largest))
    if alpha != 0.0:
        for k in range(start, stop):
            total[idx[k]] += alpha * val[k]
        if cnt[SET] <= UNIT_SIMPLEX:
            coordinates.add_row(cnt[SET], u, bound, group, idx, val, start, stop, alpha)
    cnt[N_GRADIENTS] += 1


@part
def begin(v, u, rank, bound, group, num, cnt, start_point, active, place):
    """w_1 = lmo(u), u the first gradient."""
    steps.direction(v, u, rank, bound, group, num, cnt)
    steps.advance(v, u, num, cnt, 1.0)
    if cnt[INDEX] >= 0:
        start_point[cnt[INDEX]] = v[cnt[INDEX]]
        hold(active, place, cnt, cnt[INDEX])


@jit
def learn(v, u, rank, bound, group, num, cnt, start_point, total, active, place, indptr, idx, val, ys, first, last):
    bits = val.view(layout.INT64)
    for i in range(first, last):
        start, stop, y = indptr[i], indptr[i + 1], ys[i]
        status, _, prediction, alpha, largest = memory.look(v, num, cnt, bits, idx, val, start, stop, y)
        if status != OK:
            return status
        if cnt[CROWDED] != 0:
            return NEED_NAMES
        memory.play(num, cnt, y, prediction)
        memory.fit_intercept(num, cnt, y, prediction, alpha)
        if cnt[SET] == SIMPLEX and num[W_SQ] == 0.0:
            enter(u, bound, group, num, cnt, total, idx, val, start, stop, alpha, largest)
            if cnt[D] > 0:
                begin(v, u, rank, bound, group, num, cnt, start_point, active, place)
            continue
        regularise(v, u, bound, group, num, cnt, start_point, total, active, pull(num, cnt))
        move(v, u, rank, bound, group, num, cnt)
        if cnt[SET] <= UNIT_SIMPLEX and cnt[INDEX] >= 0 and cnt[D] > 0:
            hold(active, place, cnt, cnt[INDEX])
        enter(u, bound, group, num, cnt, total, idx, val, start, stop, alpha, largest)
    return OK


class AdversarialRun(RegretRun):
    """``anchor`` is w_1, ``total`` the sum of gradients; ``active`` lists where w or w_1 is not zero."""

    optimizer: OFW
    _by_feature = (*RegretRun._by_feature, "total")
    _points = (*RegretRun._points, "anchor")
    _lists = (*RegretRun._lists, "active", "place")
    _compiled_learn = staticmethod(learn)

    def __init__(self, optimizer: OFW, *args: typing.Any, **kwargs: typing.Any):
        self.total = np.zeros(0)
        self.active, self.place = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._newest: typing.Any = None
        super().__init__(optimizer, *args, **kwargs)
        self.num[HORIZON] = optimizer.horizon or 0.0

    def _extra(self) -> tuple:
        return self.anchor, self.total, self.active, self.place

    _apart = (*RegretRun._apart, "_newest")

    def _check_arrays(self) -> None:
        super()._check_arrays()
        self._newest = None
        self._check_coordinates("total")
        self._check_listed()
        if self.cnt[SET] <= UNIT_SIMPLEX:  # where w or w_1 is not zero is listed, and perhaps where they were
            held = np.flatnonzero((self.v != 0.0) | (self.anchor != 0.0))
            _loaded.require(self, "active", (self.place[held] >= 0).all(), "all coordinates that are not zero")

    def _resize(self, capacity: int) -> None:
        super()._resize(capacity)
        self.total = resized(self.total, capacity)
        self.active = resized(self.active, capacity)
        self.place = resized(self.place, capacity)

    def _taken_out(self, new, holes, movers) -> None:
        super()._taken_out(new, holes, movers)
        self._relist(self.active, self.place, new)

    def set_weights(self, x0) -> None:
        super().set_weights(x0)
        for j in np.flatnonzero(self.v[: self.n_features]):
            hold(self.active, self.place, self.cnt, j)

    def _enter(self, rows, i, margin, alpha, largest):
        indptr, idx, val, _ = rows
        self._newest = (idx, val, indptr[i], indptr[i + 1], alpha, largest)  # the step comes first

    def _moves(self):
        newest, self._newest = self._newest, None
        d = self.n_features
        if d and self._is_outside:
            self._add(newest)
            if self.cnt[SET] == GENERIC:
                self.u[:d] = self.total[:d]
                self.anchor[:d] = self._ask_oracle()
                self.cnt[T] += 1
            else:
                begin(*self.core, self.anchor, self.active, self.place)
            return
        regularise(
            self.v, self.u, self.bound, self.group, self.num, self.cnt, self.anchor, self.total, self.active,
            pull(self.num, self.cnt),
        )  # fmt: skip
        if self.cnt[SET] == GENERIC and not self.u[:d].any():
            self.cnt[T] += 1  # no point is better than another: the one held is kept
        else:
            yield
        if self.cnt[SET] <= UNIT_SIMPLEX and self.cnt[INDEX] >= 0 and d:
            hold(self.active, self.place, self.cnt, self.cnt[INDEX])
        self._add(newest)

    def _add(self, newest) -> None:
        enter(self.u, self.bound, self.group, self.num, self.cnt, self.total, *newest)


class AdversarialMethod(RegretMethod):
    """s_t = lmo(sum of gradients before this one + 2 / eta_t (w_t - w_1)), w_{t+1} = w_t + min(1, 2 t^-a) (s_t - w_t).

    2 / eta_t = 4 G T^(3/4) / D.
    """

    points: typing.ClassVar[tuple[str, ...]] = ("start",)
    vectors: typing.ClassVar[tuple[str, ...]] = ("total",)
    start: typing.Any
    total: typing.Any

    def step(self, run: SumRun) -> None:
        t = run.t
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
