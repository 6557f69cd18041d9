"""Projected stochastic gradient descent: the baseline that needs a step size and a projection."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import layout, memory, projections
from fwonline._kernels.layout import (
    BATCH,
    CROWDED,
    N_GRADIENTS,
    NEED_NAMES,
    NONZEROS,
    OK,
    PENDING,
    SEEN,
    STEP_A,
    STEP_B,
    T,
    jit,
    part,
)
from fwonline.optim.base import Optimizer, check_count
from fwonline.optim.runs.method import Method, SumRun
from fwonline.optim.runs.run import GENERIC, Run, resized
from fwonline.optim.runs.stream_run import StreamRun
from fwonline.optim.schedules import Power, Schedule

__all__ = ["ProjectedSGD"]


@part
def gather(u, cnt, changed, listed, idx, val, start, stop, alpha):
    """u += alpha x, the sum over a batch; ``changed`` lists its coordinates."""
    count = cnt[PENDING]
    for k in range(start, stop):
        j = idx[k]
        u[j] += alpha * val[k]
        if listed[j] == 0:
            listed[j] = 1
            changed[count] = j
            count += 1
    cnt[PENDING] = count


@part
def spend(v, u, cnt, changed, listed, step):
    """v -= step u on the coordinates changed, which are then none; answers how many they were."""
    count = cnt[PENDING]
    for k in range(count):
        j = changed[k]
        v[j] -= step * u[j]
        u[j] = 0.0
        listed[j] = 0
    cnt[PENDING] = 0
    return count


@jit
def learn(v, u, rank, bound, group, num, cnt, active, place, changed, listed, indptr, idx, val, ys, first, last):
    bits = val.view(layout.INT64)
    for i in range(first, last):
        start, stop, y = indptr[i], indptr[i + 1], ys[i]
        status, _, prediction, alpha, _ = memory.look(v, num, cnt, bits, idx, val, start, stop, y)
        if status != OK:
            return status
        if cnt[CROWDED] != 0:
            return NEED_NAMES
        memory.play(num, cnt, y, prediction)
        cnt[N_GRADIENTS] += 1
        size = num[STEP_A] * (cnt[T] + 1.0) ** -num[STEP_B]  # eta_t
        if cnt[BATCH] <= 1:
            step = size * alpha  # eta_t f'
            for k in range(start, stop):
                v[idx[k]] -= step * val[k]
            cnt[NONZEROS] = projections.project_after(v, num, cnt, idx, start, stop, active, place, cnt[NONZEROS])
            cnt[T] += 1
        else:
            gather(u, cnt, changed, listed, idx, val, start, stop, alpha)
            if cnt[SEEN] % cnt[BATCH] == 0:
                moved = spend(v, u, cnt, changed, listed, size / cnt[BATCH])
                cnt[NONZEROS] = projections.project_after(v, num, cnt, changed, 0, moved, active, place, cnt[NONZEROS])
                cnt[T] += 1
        memory.fit_intercept(num, cnt, y, prediction, alpha)
    return OK


class ProjectedSGDRun(StreamRun):
    optimizer: ProjectedSGD
    _by_feature = (*StreamRun._by_feature, "listed")
    _lists = (*StreamRun._lists, "active", "place", "changed")
    _compiled_learn = staticmethod(learn)
    # The coordinates that the batch has changed, whose sum of gradients `u` holds, and whether each is listed; none
    # are kept where a batch is a sample.
    changed = np.zeros(0, dtype=np.int64)
    listed = np.zeros(0, dtype=np.int64)

    def __init__(self, optimizer: ProjectedSGD, *args: typing.Any, **kwargs: typing.Any):
        # The non-zeros of w on the l1 ball: which they are, and where each stands in the list.
        self.active, self.place = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        super().__init__(optimizer, *args, **kwargs)
        self.num[STEP_A], self.num[STEP_B] = optimizer.step, optimizer.power
        self.cnt[BATCH] = optimizer.batch_size
        if self.cnt[layout.SET] == GENERIC and not self.constraint.can_project:
            raise ValueError(f"{self.constraint} has no projection, which ProjectedSGD needs at every step")

    def _extra(self) -> tuple:
        return self.active, self.place, self.changed, self.listed

    @property
    def _samples_per_step(self) -> int:
        return max(1, int(self.cnt[BATCH]))

    _apart = (*StreamRun._apart, "changed", "listed")

    def _check_scalars(self, fresh: Run) -> None:
        if fresh.cnt[BATCH] == 1 and self.cnt[BATCH] == 0:
            self.cnt[BATCH] = 1  # from a version that knew no batches
        super()._check_scalars(fresh)

    def _check_arrays(self) -> None:
        super()._check_arrays()
        self._check_batch()
        if self.cnt[layout.SET] in (layout.SIMPLEX, layout.UNIT_SIMPLEX):
            # Here the list only serves while a projection is made.
            _loaded.array(self, "place", np.int64, (self.v.size,))
            _loaded.array(self, "active", np.int64, (self.v.size,))
            self._check_cnt(NONZEROS, 0, 0)
            return
        self._check_listed()
        if self.cnt[layout.SET] == layout.L1:
            held = np.flatnonzero(self.v)
            _loaded.require(self, "active", (self.place[held] >= 0).all(), "all coordinates that are not zero")

    def _check_batch(self) -> None:
        """The batch under way is listed as it must be: the next step follows the list without looking."""
        size = self.v.size if self.cnt[BATCH] > 1 else 0
        changed = _loaded.array(self, "changed", np.int64, (size,))
        listed = _loaded.array(self, "listed", np.int64, (size,))
        self._check_cnt(PENDING, 0, min(size, self.n_features))
        changed = changed[: int(self.cnt[PENDING])]
        is_good = bool(((changed >= 0) & (changed < self.n_features)).all())
        marks = np.zeros(size, dtype=np.int64)
        if is_good:
            marks[changed] = 1
        is_good = is_good and int(marks.sum()) == changed.size and np.array_equal(marks, listed)
        _loaded.require(self, "changed", is_good, "coordinates, each once")

    def _resize(self, capacity: int) -> None:
        super()._resize(capacity)
        self.active = resized(self.active, capacity)
        self.place = resized(self.place, capacity)
        if self.cnt[BATCH] > 1:
            self.changed, self.listed = resized(self.changed, capacity), resized(self.listed, capacity)

    def _taken_out(self, new, holes, movers) -> None:
        super()._taken_out(new, holes, movers)
        self._relist(self.active, self.place, new)
        changed = new[self.changed[: self.cnt[PENDING]]]
        changed = changed[changed >= 0]
        self.changed[: changed.size] = changed
        self.cnt[PENDING] = changed.size

    def _enter(self, rows, i, margin, alpha, largest):
        indptr, idx, val, _ = rows
        start, stop = indptr[i], indptr[i + 1]
        w = self.v[: self.n_features]
        self.cnt[N_GRADIENTS] += 1
        size = self.optimizer._step(int(self.cnt[T]))
        if self.cnt[BATCH] <= 1:
            np.subtract.at(w, idx[start:stop], size * alpha * val[start:stop])
        else:
            gather(self.u, self.cnt, self.changed, self.listed, idx, val, start, stop, alpha)
            if self.cnt[SEEN] % self.cnt[BATCH]:
                return
            stop = spend(self.v, self.u, self.cnt, self.changed, self.listed, size / self.cnt[BATCH])
            idx, start = self.changed, 0
        if self.cnt[layout.SET] == GENERIC:
            if w.size:
                w[:] = self.constraint.project(w)
        else:
            self.cnt[NONZEROS] = projections.project_after(
                self.v, self.num, self.cnt, idx, start, stop, self.active, self.place, self.cnt[NONZEROS]
            )
        self.cnt[T] += 1

    def _moves(self):
        return iter(())


class ProjectedMethod(Method):
    """The same steps on matrices: w = Pi(w - eta_t g_t), g_t the mean over a batch."""

    vectors: typing.ClassVar[tuple[str, ...]] = ("d",)
    counters: typing.ClassVar[dict[str, int]] = {"waiting": _loaded.MOST}
    d: typing.Any
    waiting: int

    def step(self, run: SumRun) -> bool:
        size = self.optimizer.batch_size
        g = run.sum.gradient(run.x, run.next_samples(1 if run.is_online else size))
        if run.is_online and size > 1:
            self.d = g if self.d is None else self.d + g
            self.waiting += 1
            if self.waiting < size:
                return False
            g, self.d, self.waiting = self.d / size, None, 0
        eta = self.optimizer._step(run.t)
        run.note(np.nan, eta)
        run.x[...] = run.constraint.project(run.x - eta * g)
        return True

    def check(self, run):
        super().check(run)
        waits = self.waiting < self.optimizer.batch_size and (self.waiting > 0) == (self.d is not None)
        _loaded.require(self, "waiting", waits, "samples of a batch under way")


class ProjectedSGD(Optimizer):
    r"""Projected stochastic gradient descent, :math:`w_{t+1} = \Pi_C(w_t - \eta_t \nabla f(w_t; \xi_t))`.

    The projection-based baseline of the papers, :math:`\eta_t = \text{step} \cdot (t + 1)^{-\text{power}}` with
    t = 0, 1, ..., and :math:`\nabla f(w_t; \xi_t)` the mean gradient of a mini-batch: what a projection-free learner
    must beat, and what it is without a step size to tune. Its models have no gap: it keeps no estimate of the gradient.

    When to use it: as a baseline, or where projections are cheap and sparsity does not matter.

    Parameters
    ----------
    step
        The step size at the first sample, in units of weight per derivative; > 0. It must be tuned.
    power
        How fast the step falls, in [0, 1]; 1/2 for convex, 1 for strongly convex losses.
    batch_size
        Samples whose mean gradient makes one step, >= 1; online a step is taken every ``batch_size`` samples.

    Notes
    -----
    Cost of a step: the non-zeros of the sample and a few passes over those of w on the l1 ball, the non-zeros of the
    sample on boxes, O(d) on other sets; on a set without a compiled form, its ``project``. Offline the samples are
    drawn in passes, each in an order of its own, where the theory draws them independently.

    References
    ----------
    .. [1] J. Duchi et al., `Efficient Projections onto the l1-Ball for Learning in High Dimensions
       <https://stanford.edu/~jduchi/projects/DuchiShSiCh08.pdf>`_, ICML 2008.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from fwonline import linear_model, optim, sets
    >>> model = preprocessing.StandardScaler() | linear_model.FWClassifier(sets.L1Ball(5.0), optim.ProjectedSGD(0.3))
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.ROCAUC())
    ROCAUC: 9...
    """

    _run_class = ProjectedSGDRun
    _method_class = ProjectedMethod

    batch_size = 1  # of checkpoints of version 0.1.0

    def __init__(self, step: float = 1.0, power: float = 0.5, batch_size: int = 1):
        if not 0.0 < step < math.inf:
            raise ValueError(f"step must be a positive finite number, got {step!r}")
        if not 0.0 <= power <= 1.0:
            raise ValueError(f"power must be in [0, 1], got {power!r}")
        self.step = step
        check_count("batch_size", batch_size)
        self.power = power
        self.batch_size = batch_size

    def _step(self, t: int) -> float:
        return self.step * (t + 1.0) ** -self.power

    def _schedule(self) -> Schedule:
        # A gradient step is no convex combination: its size stands where a schedule's parameters would.
        return Power(self.power)
