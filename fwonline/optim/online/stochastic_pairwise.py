"""Stochastic pairwise Frank-Wolfe on a quadratic memory: the default of the linear estimators."""

from __future__ import annotations

import copy
import math
import typing

import numpy as np
from river import base, drift

from fwonline import _loaded, losses
from fwonline._kernels import coordinates, layout, memory, pairwise
from fwonline._kernels.layout import (
    CROWDED,
    ENTRIES,
    INTERCEPT,
    LARGEST,
    LIVE,
    LOSS,
    LOSS_KIND,
    LOSS_P,
    LOSS_Q,
    LOSS_SUM,
    N_GRADIENTS,
    NEED_LOOK,
    NEED_NAMES,
    NEED_NOISE,
    NEED_POOL,
    NOISE,
    OK,
    PENALTY,
    SEEN,
    SET_P,
    SIGNIFICANCE,
    STEPS,
    TOO_LARGE,
    U_SCALE,
    WATCHED,
    D,
    jit,
    part,
)
from fwonline.losses import loss_curvature, loss_derivative, loss_value
from fwonline.optim.base import Optimizer, check_count
from fwonline.optim.online.one_sample import OneSampleFW
from fwonline.optim.runs.memory_run import MemoryRun
from fwonline.optim.runs.run import GENERIC, Run, resized, set_code
from fwonline.optim.schedules import Power, Schedule

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    from fwonline.sets import ConvexSet

__all__ = ["StochasticPairwiseFW"]

# Steps a sample by default: as many as look at this many entries, but neither fewer nor more than these.
BUDGET, FEWEST, MOST = 300, 4, 16
# Samples that the drift detector is shown together.
LOOK = 32
# Samples among which a change is looked for.
RECENT = 1024


@part
def can_sum(alpha, largest):
    """Whether the square of a contribution stays within what sums can hold; false for NaN too."""
    return abs(alpha) * largest <= LARGEST


@part
def looks(cnt, entries):
    """Steps that a sample of so many entries pays for."""
    return min(cnt[STEPS], max(FEWEST, cnt[ENTRIES] // max(entries, 1))) if cnt[ENTRIES] > 0 else cnt[STEPS]


@part
def usual_loss(num, cnt):
    return num[LOSS_SUM] / max(cnt[SEEN], 1)


@part
def enter(
    v, u, rank, bound, group, num, cnt, sums, active, place, rows, duals, pool_idx, pool_val, pool_at, curves,
    at, idx, val, start, stop, y, alpha, h, largest,
):  # fmt: skip
    """The newest sample takes the oldest one's place, whose contribution stays as it was last seen."""
    num[PENALTY] = num[SIGNIFICANCE] * math.sqrt(math.log(1.0 + cnt[D]))
    slot = (cnt[SEEN] - 1) % rows.shape[0]
    if cnt[LIVE] == rows.shape[0]:
        cnt[LIVE] -= 1
    memory.store(num, cnt, rows, duals, pool_idx, pool_val, slot, at, idx, val, start, stop, y, alpha, largest)
    curve = pairwise.trusted(h, largest, num[SET_P])
    curves[slot] = curve
    pairwise.add(
        v, u, bound, group, num, cnt, sums, active, place, pool_idx, pool_val, pool_at, at, at + stop - start,
        alpha, alpha * alpha, curve, 0.0,
    )  # fmt: skip
    cnt[N_GRADIENTS] += 1
    num[U_SCALE] = 1.0 / max(cnt[SEEN] - cnt[layout.FORGOTTEN], 1)


@part
def renew(
    v, u, rank, bound, group, num, cnt, sums, active, place, rows, duals, pool_idx, pool_val, pool_at, curves,
    slot, margin, alpha, h,
):  # fmt: skip
    """A sample held is seen as the present iterate has it."""
    largest = duals[slot, memory.LARGEST_VALUE]
    cnt[N_GRADIENTS] += 1
    if not can_sum(alpha, largest):
        return
    start = rows[slot, memory.START]
    stop = start + rows[slot, memory.LENGTH]
    curve = pairwise.trusted(h, largest, num[SET_P])
    old_alpha, old = duals[slot, memory.ALPHA], curves[slot]
    model, before = pairwise.moved(v, num, pool_idx, pool_val, pool_at, start, stop)
    pairwise.note_curvature(num, curve, margin - before, model)
    duals[slot, memory.ALPHA] = alpha
    curves[slot] = curve
    pairwise.add(
        v, u, bound, group, num, cnt, sums, active, place, pool_idx, pool_val, pool_at, start, stop,
        alpha - old_alpha, alpha * alpha - old_alpha * old_alpha, curve, old,
    )  # fmt: skip


@part
def draw(cnt, noise, capacity):
    """A slot of those held, uniformly."""
    count = pairwise.usable(cnt)
    age = np.int64(noise[cnt[NOISE]] * count)
    cnt[NOISE] += 1
    return pairwise.slot_of(cnt, age, capacity)


@part
def renew_slot(
    v, u, rank, bound, group, num, cnt, sums, active, place, rows, duals, pool_idx, pool_val, pool_at, curves, slot
):
    """The same with a compiled loss."""
    kind, p, q = cnt[LOSS_KIND], num[LOSS_P], num[LOSS_Q]
    margin = memory.margin_of(v, num, rows, pool_idx, pool_val, slot)
    y, z = duals[slot, memory.LABEL], margin + num[INTERCEPT]
    alpha = loss_derivative(kind, p, q, y, z)
    h = loss_curvature(kind, p, q, y, z, loss_value(kind, p, q, y, z), alpha, usual_loss(num, cnt))
    renew(
        v, u, rank, bound, group, num, cnt, sums, active, place, rows, duals, pool_idx, pool_val, pool_at, curves,
        slot, margin, alpha, h,
    )  # fmt: skip


@jit
def learn(
    v, u, rank, bound, group, num, cnt, sums, active, place, rows, duals, pool_idx, pool_val, pool_at, curves, recent,
    noise, indptr, idx, val, ys, first, last,
):  # fmt: skip
    """Learn rows first to last; stops before a row that needs room, randomness or a look, or that is refused."""
    bits = val.view(layout.INT64)
    kind, p, q = cnt[LOSS_KIND], num[LOSS_P], num[LOSS_Q]
    for i in range(first, last):
        start, stop, y = indptr[i], indptr[i + 1], ys[i]
        status, _, prediction, alpha, largest = memory.look(v, num, cnt, bits, idx, val, start, stop, y)
        if status != OK:
            return status
        if not can_sum(alpha, largest):
            return TOO_LARGE
        if cnt[SEEN] >= LOOK * (cnt[WATCHED] + 1):
            return NEED_LOOK
        if cnt[NOISE] + cnt[STEPS] > noise.size:
            return NEED_NOISE
        if cnt[CROWDED] != 0:
            return NEED_NAMES
        at = memory.room(rows, cnt, pool_idx.size, stop - start)
        if at < 0:
            return NEED_POOL
        memory.play(num, cnt, y, prediction)
        recent[(cnt[SEEN] - 1) % RECENT] = num[LOSS]
        h = loss_curvature(kind, p, q, y, prediction, num[LOSS], alpha, usual_loss(num, cnt))
        enter(
            v, u, rank, bound, group, num, cnt, sums, active, place, rows, duals, pool_idx, pool_val, pool_at, curves,
            at, idx, val, start, stop, y, alpha, h, largest,
        )  # fmt: skip
        memory.fit_intercept(num, cnt, y, prediction, alpha)
        for k in range(looks(cnt, stop - start)):
            if k > 0:
                slot = draw(cnt, noise, rows.shape[0])
                renew_slot(
                    v, u, rank, bound, group, num, cnt, sums, active, place,
                    rows, duals, pool_idx, pool_val, pool_at, curves, slot,
                )  # fmt: skip
            pairwise.step(v, u, rank, bound, group, num, cnt, sums, active, place)
    return OK


@jit
def iterate(
    v, u, rank, bound, group, num, cnt, sums, active, place, rows, duals, pool_idx, pool_val, pool_at, curves, noise,
    count,
):  # fmt: skip
    """Offline: ``count`` steps on a memory that holds the whole data set."""
    for _ in range(count):
        slot = draw(cnt, noise, rows.shape[0])
        renew_slot(
            v, u, rank, bound, group, num, cnt, sums, active, place, rows, duals, pool_idx, pool_val, pool_at, curves,
            slot,
        )  # fmt: skip
        pairwise.step(v, u, rank, bound, group, num, cnt, sums, active, place)


@jit
def renew_newest(
    v, u, rank, bound, group, num, cnt, sums, active, place, rows, duals, pool_idx, pool_val, pool_at, curves, count
):
    """Every one of the newest ``count`` samples, once."""
    for age in range(count):
        renew_slot(
            v, u, rank, bound, group, num, cnt, sums, active, place, rows, duals, pool_idx, pool_val, pool_at, curves,
            pairwise.slot_of(cnt, age, rows.shape[0]),
        )  # fmt: skip


def _since_change(x: NDArray[np.float64]) -> int:
    """Samples since the mean of x changed: the split, between two blocks, of least squares."""
    sums = np.cumsum(x[::-1])
    newest = np.arange(LOOK, x.size, LOOK)
    new, old = sums[newest - 1] / newest, (sums[-1] - sums[newest - 1]) / (x.size - newest)
    return int(newest[np.argmax((new - old) ** 2 * newest * (x.size - newest))]) if newest.size else x.size


class StochasticPairwiseRun(MemoryRun):
    optimizer: StochasticPairwiseFW
    _lists = (*MemoryRun._lists, "active", "place")
    _compiled_learn = staticmethod(learn)
    _compiled_iterate = staticmethod(iterate)
    _pools = ("pool_idx", "pool_val", "pool_at")
    _key_kind = layout.SIMPLEX
    gap_is_kept = False
    _by_feature = (*MemoryRun._by_feature, "sums")

    def __init__(self, optimizer: StochasticPairwiseFW, *args: typing.Any, **kwargs: typing.Any):
        self.sums = np.zeros((0, 4))
        self.active, self.place = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.pool_at = np.zeros(0)
        self.curves = np.zeros(0)
        self.recent = np.zeros(RECENT)
        super().__init__(optimizer, *args, capacity=optimizer.memory, **kwargs)
        if self.cnt[layout.SET] == GENERIC:
            raise ValueError(
                f"{type(optimizer).__name__} moves coordinates, which {self.constraint} does not have; "
                "expected a ball of norm 1, 2 or infinity, a box or a simplex"
            )
        self.curves = np.zeros(self.capacity)
        self.detector = (drift.ADWIN(**_WATCH) if optimizer.detector is None else optimizer.detector).clone()
        self.cnt[STEPS] = optimizer.steps or MOST
        self.cnt[ENTRIES] = 0 if optimizer.steps else BUDGET
        self.cnt[layout.BATCH] = 1
        self.num[SIGNIFICANCE] = optimizer.significance
        self._bind()

    def _extra(self) -> tuple:
        return (self.sums, self.active, self.place, *self.pool, self.pool_at, self.curves, self.recent, self.noise)

    _apart = (*MemoryRun._apart, "detector")
    _most_contribution = LARGEST

    def _check_scalars(self, fresh: Run) -> None:
        super()._check_scalars(fresh)
        if self.num[SIGNIFICANCE] != 0.0:  # which it is offline
            self._check_num(SIGNIFICANCE, fresh.num[SIGNIFICANCE], fresh.num[SIGNIFICANCE])
        for place in (PENALTY, layout.CURVATURE_SEEN, layout.CURVATURE_MODEL, layout.PULL):
            self._check_num(place, 0.0, 1e250)
        self._check_cnt(layout.FORGOTTEN, 0, int(self.cnt[SEEN]))
        # The detector has looked at all but the newest.
        self._check_cnt(WATCHED, max(0, int(self.cnt[SEEN]) // LOOK - 1), int(self.cnt[SEEN]) // LOOK)

    def _check_arrays(self) -> None:
        super()._check_arrays()
        self._check_cnt(layout.ROTOR, 0, max(0, self.v.size - 1))
        self._check_cnt(layout.SINCE, 0, pairwise.PERIOD)
        sums = _loaded.array(self, "sums", np.float64, (self.v.size, 4), least=-1e250, most=1e250)
        _loaded.require(self, "sums", not sums[self.n_features :].any(), "0 where no feature is")
        _loaded.array(self, "pool_at", np.float64, (self.pool_val.size,), least=-1e250, most=1e250)
        _loaded.array(self, "curves", np.float64, (len(self.rows),), least=0.0, most=1e250)
        _loaded.array(self, "recent", np.float64, (RECENT,), finite=False)
        self._check_listed()
        w = self.num[layout.W_SCALE] * self.v[: self.n_features]
        if self.cnt[layout.SET] <= layout.L2:
            held = np.flatnonzero(w)
            all_listed = held.size == self.cnt[layout.NONZEROS] and (self.place[held] >= 0).all()
            _loaded.require(self, "active", all_listed, "all coordinates that are not zero, and no others")
            size = float(w @ w if self.cnt[layout.SET] == layout.L2 else np.abs(w).sum())
            slack = 1e-6 * max(1.0, self.num[SET_P]) ** 2
            self._check_num(layout.SIZE, size - slack, size + slack)
        self._check_detector()

    def _check_detector(self) -> None:
        """The detector is one that the parameters ask for, and a copy of it works."""
        asked = drift.ADWIN(**_WATCH) if self.optimizer.detector is None else self.optimizer.detector
        _loaded.instance(self, "detector", type(asked))
        if self.optimizer.detector is None:
            _loaded.alike(self.detector, asked)
        tried = copy.deepcopy(self.detector)
        for k in range(2 * LOOK):
            tried.update(float(k % 2))
            _loaded.require(self, "detector", tried.drift_detected in (False, True), "one that finds a drift, or none")

    def _resize(self, capacity: int) -> None:
        self.sums = resized(self.sums, capacity)
        self.active = resized(self.active, capacity)
        self.place = resized(self.place, capacity)

    def _taken_out(self, new, holes, movers) -> None:
        super()._taken_out(new, holes, movers)
        if self.cnt[layout.SET] <= layout.L2:
            self._relist(self.active, self.place, new)
        if self.cnt[layout.SET] == layout.L2:
            pairwise.measure(self.v, self.num, self.cnt, self.sums, self.active)

    # --- online -----------------------------------------------------------------------------------------------

    def _provide(self, status: int, need: int) -> None:
        if status == NEED_LOOK:
            self._watch()
        else:
            super()._provide(status, need)

    def _watch(self) -> None:
        """Show the detector the last losses, each between 0 and 1 on the scale of the usual one."""
        usual = float(usual_loss(self.num, self.cnt))
        self.cnt[WATCHED] += 1
        before = getattr(self.detector, "estimation", -math.inf)
        seen = int(self.cnt[SEEN])
        last = self.recent[np.arange(max(seen - RECENT, 0), seen) % RECENT]
        # A loss that can be negative has no scale of its own: the logistic function serves as well as any.
        shown = 0.5 + 0.5 * np.tanh(0.5 * last)
        np.divide(last, last + usual, out=shown, where=(usual > 0.0) & (last >= 0.0))
        found = False
        for x in shown[-LOOK:].tolist():
            self.detector.update(x)
            found = found or self.detector.drift_detected
        if found and getattr(self.detector, "estimation", math.inf) > before:
            self.forget(_since_change(shown))

    def forget(self, keep: int) -> None:
        """Let the sums hold the last ``keep`` samples alone, as the present iterate sees them."""
        cnt = self.cnt
        keep = min(keep, int(cnt[LIVE]))
        cnt[layout.FORGOTTEN] = cnt[SEEN] - keep
        self.sums[: self.n_features] = 0.0
        self.u[: self.n_features] = 0.0
        coordinates.rebuild(layout.SIMPLEX, self.u, self.bound, self.group, self.n_features)
        self.curves[:] = 0.0
        self.duals[:, memory.ALPHA] = 0.0
        if cnt[LOSS_KIND] != losses.CUSTOM:
            renew_newest(*self._model, keep)
        else:
            for age in range(keep):
                self._renew_slot(pairwise.slot_of(cnt, age, len(self.rows)))
        self.num[U_SCALE] = 1.0 / max(keep, 1)

    @property
    def _model(self) -> tuple:
        return (*self.core, *self._extra()[:-2])

    # --- by parts ---------------------------------------------------------------------------------------------

    def _can_sum(self, alpha, largest):
        return bool(can_sum(alpha, largest))

    def _curvature(self, y: float, z: float, alpha: float) -> float:
        num, cnt = self.num, self.cnt
        value = self.value(y, z)
        return float(loss_curvature(cnt[LOSS_KIND], num[LOSS_P], num[LOSS_Q], y, z, value, alpha, usual_loss(num, cnt)))

    def _learn_by_parts(self, rows, i):
        if self.cnt[SEEN] >= LOOK * (self.cnt[WATCHED] + 1):
            self._watch()
        return super()._learn_by_parts(rows, i)

    def _enter(self, rows, i, margin, alpha, largest):
        indptr, idx, val, y = rows
        at = self._place(rows, i)  # first of all: it may bring a larger pool
        self.recent[(self.cnt[SEEN] - 1) % RECENT] = self.num[LOSS]
        h = self._curvature(float(y[i]), float(self.num[layout.PREDICTION]), alpha)
        enter(*self._model, at, idx, val, indptr[i], indptr[i + 1], y[i], alpha, h, largest)

    def _renew_slot(self, slot: int) -> None:
        margin = memory.margin_of(self.v, self.num, self.rows, self.pool_idx, self.pool_val, slot)
        y, z = float(self.duals[slot, memory.LABEL]), float(margin + self.num[INTERCEPT])
        alpha = self.derivative(y, z)
        renew(*self._model, slot, margin, alpha, self._curvature(y, z, alpha))

    def _moves(self):
        newest = self.rows[(self.cnt[SEEN] - 1) % len(self.rows), memory.LENGTH]
        for k in range(looks(self.cnt, newest)):
            if k > 0:
                if self.cnt[NOISE] >= self.noise.size:
                    self._draw_noise()
                    self._bind()
                self._renew_slot(draw(self.cnt, self.noise, len(self.rows)))
            yield

    def move(self) -> None:
        pairwise.step(*self.core, self.sums, self.active, self.place)

    # --- offline ----------------------------------------------------------------------------------------------

    def offline(self, rows) -> None:
        super().offline(rows)
        self.pool_at = np.zeros(self.pool_val.size)
        self.curves = np.zeros(self.capacity)
        self.num[SIGNIFICANCE] = 0.0  # the mean loss itself is minimised
        self._bind()

    def iterate(self, count: int) -> None:
        while count > 0:
            if self.cnt[NOISE] >= self.noise.size:
                self._draw_noise()
                self._bind()
            chunk = min(count, self.noise.size - int(self.cnt[NOISE]))
            if self._is_compiled:
                self._compiled_iterate(*self._model, self.noise, chunk)
            else:
                for _ in range(chunk):
                    self._renew_slot(draw(self.cnt, self.noise, len(self.rows)))
                    self.move()
            count -= chunk

    def set_weights(self, x0) -> None:
        super().set_weights(x0)
        if self.cnt[layout.SET] <= layout.L2:
            listed = np.flatnonzero(self.v[: self.n_features])
            self.active[: listed.size] = listed
            self.place[listed] = np.arange(listed.size)
            self.cnt[layout.NONZEROS] = listed.size
            pairwise.measure(self.v, self.num, self.cnt, self.sums, self.active)

    # --- what is read -----------------------------------------------------------------------------------------

    @property
    def gap(self) -> float:
        """The Frank-Wolfe gap of the quadratic model, without its penalty: O(d), when asked. No bound of the loss's."""
        d = int(self.cnt[D])
        if not self.cnt[layout.T] or not d:
            return math.nan
        r, _, h, b = self.sums[:d].T
        w = self.num[layout.W_SCALE] * self.v[:d]
        return self.gap_along(self.num[U_SCALE] * (r + h * w - b))


class StochasticPairwiseFW(Optimizer):
    r"""Stochastic pairwise Frank-Wolfe on a quadratic memory: several coordinates a sample, each to its best place.

    Every sample learned is remembered by its derivative :math:`\alpha_i` and a curvature :math:`h_i` at the iterate
    :math:`w^i` that last looked at it. Their sum over *all* samples, with the diagonal of the curvature alone, is a
    model of the objective that takes four numbers a feature, however many samples there were:

    .. math::
        F(w) = \sum_i \alpha_i \langle x_i, w - w^i \rangle
               + \frac{h_i}{2} \sum_j x_{ij}^2 (w_j - w^i_j)^2
               + c \sqrt{\log (1 + d)} \sum_j |w_j| \sqrt{\textstyle\sum_i \alpha_i^2 x_{ij}^2}.

    The newest sample enters at once. Then follow ``steps`` steps; before each but the first, one of the last
    ``memory`` samples, drawn at random, is looked at again, and its part of F made anew. A step picks the atom along
    which F promises most and goes there by Newton's step: a coordinate alone where the set has room, otherwise at the
    cost of the atom that is best given up (a pairwise step; a drop step where nothing of it is left). On the simplex
    every step is a pairwise one. In the l2 ball a step may be scaled back to the sphere, whose multiplier joins F.

    Nothing is tuned. How far a step may go is measured: when a sample is looked at again, the curvature seen along the
    steps since is compared with the diagonal's, and steps are divided by the ratio (it is about 1 where features are
    independent, 2 to 6 on text). The last term of F is what keeps a large set from being overfitted: a slope within
    some standard errors of 0, the more the more features there are to err by, is noise, and its feature stays out. Its
    weight in the mean falls like :math:`n^{-1/2}`. A drift detector watches the losses; when it says that they have
    risen, F is made anew from the samples since.

    When to use it: online, on one pass, on balls of norm 1, 2 or infinity, boxes and simplices: it is the default of
    the estimators there. For guarantees on a finite sum see :class:`SFW`; where no sample may be kept,
    :class:`OneSampleFW`.

    Parameters
    ----------
    memory
        Samples that can be looked at again, >= 1. What older ones said stays in F.
    steps
        Steps a sample, >= 1: what learning a sample costs is nearly proportional to it. By default as many as look at
        300 entries, but at least 4 and at most 16: samples of few features are cheap to look at again.
    significance
        c, in standard errors of a slope, >= 0; in the probability simplex, where every point has the same norm, it
        plays no part.
    detector
        A river drift detector; ``drift.ADWIN`` by default. Every 32 samples it is shown each one's loss over itself
        plus the mean loss so far, a number from 0 to 1. What is kept after a drift are the samples since the split
        of least squares among the last 1,024.

    Raises
    ------
    ValueError
        For parameters out of range, and for sets whose points have no coordinates to move (matrices, groups, hulls).

    Notes
    -----
    Cost: ``steps`` times the non-zeros of a sample (its margin, four sums and a key for each) and the scan of d / 65536
    maxima; a pairwise step looks at 64 non-zeros of w, in turns, for the atom to leave. 15 us a sample on documents
    of 75 words with 47,000 features. The gap is that of F without its last term, and costs O(d) when it is asked for.
    It says how far this model is from its own best point, and is no bound of the gap of the mean loss, which is often
    ten times as large and, where features differ much in scale, larger by orders of magnitude: see
    :class:`fwonline.monitors.Gap`.

    Offline (:meth:`minimize`) c is 0: the mean loss itself is minimised. The model is then that of a coordinate
    Newton method with stale derivatives; on smooth losses gaps of 1e-10 are usual, but no rate is proved here.

    Curvatures are those of the loss where they are constant, of the touching parabola of Jaakkola and Jordan for the
    log loss, and :math:`\alpha^2 / 2 f` for losses with corners.

    References
    ----------
    .. [1] S. Lacoste-Julien, M. Jaggi, `On the Global Linear Convergence of Frank-Wolfe Optimization Variants
       <https://arxiv.org/abs/1511.05932>`_, NeurIPS 2015 (pairwise steps).
    .. [2] G. Negiar et al., `Stochastic Frank-Wolfe for Constrained Finite-Sum Minimization
       <https://arxiv.org/abs/2002.11860>`_, ICML 2020 (a memory of derivatives).
    .. [3] A. Belloni, V. Chernozhukov, C. Hansen, `Inference on Treatment Effects after Selection
       <https://arxiv.org/abs/1201.0224>`_, 2014 (penalties by the standard error of each slope).
    .. [4] A. Bifet, R. Gavalda, `Learning from Time-Changing Data with Adaptive Windowing
       <https://doi.org/10.1137/1.9781611972771.42>`_, SDM 2007.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from fwonline import linear_model, optim, sets
    >>> model = preprocessing.StandardScaler() | linear_model.FWClassifier(
    ...     sets.L1Ball(5.0), optim.StochasticPairwiseFW(memory=500)
    ... )
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.ROCAUC())
    ROCAUC: 9...
    """

    _run_class = StochasticPairwiseRun

    def __init__(
        self,
        memory: int = 1000,
        steps: int | None = None,
        significance: float = 0.3,
        detector: base.DriftDetector | None = None,
    ):
        check_count("memory", memory)
        if steps is not None:
            check_count("steps", steps)
        if not 0.0 <= significance < math.inf:
            raise ValueError(f"significance must be a finite number >= 0, got {significance!r}")
        self.memory = memory
        self.steps = steps
        self.significance = significance
        self.detector = detector

    def _schedule(self) -> Schedule:
        return _NO_SCHEDULE


def default_optimizer(constraint: ConvexSet) -> Optimizer:
    """What the estimators use when told nothing: this one where it can, and elsewhere what keeps no samples."""
    return OneSampleFW() if set_code(constraint)[0] == GENERIC else StochasticPairwiseFW()


# Steps are Newton's on the model; a run asks for a schedule all the same.
_NO_SCHEDULE = Power(a=1.0)
# ADWIN, looking after every block.
_WATCH = {"clock": LOOK, "grace_period": LOOK}
