"""Projected stochastic gradient descent: the baseline that needs a step size and a projection."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline._kernels import layout, memory, projections
from fwonline._kernels.layout import (
    N_GRADIENTS,
    NONZEROS,
    OK,
    STEP_A,
    STEP_B,
    T,
    jit,
)
from fwonline.optim.base import Optimizer
from fwonline.optim.run import GENERIC, resized
from fwonline.optim.schedules import Power, Schedule
from fwonline.optim.stream_run import StreamRun

__all__ = ["ProjectedSGD"]


@jit
def learn(v, u, rank, bound, group, num, cnt, active, place, indptr, idx, val, ys, first, last):
    bits = val.view(layout.INT64)
    for i in range(first, last):
        start, stop, y = indptr[i], indptr[i + 1], ys[i]
        status, _, prediction, alpha, _ = memory.look(v, num, cnt, bits, idx, val, start, stop, y)
        if status != OK:
            return status
        memory.play(num, cnt, y, prediction)
        step = num[STEP_A] * (cnt[T] + 1.0) ** -num[STEP_B] * alpha  # eta_t f'
        for k in range(start, stop):
            v[idx[k]] -= step * val[k]
        cnt[NONZEROS] = projections.project_after(v, num, cnt, idx, start, stop, active, place, cnt[NONZEROS])
        cnt[N_GRADIENTS] += 1
        cnt[T] += 1
        memory.fit_intercept(num, cnt, y, prediction, alpha)
    return OK


class ProjectedSGDRun(StreamRun):
    optimizer: ProjectedSGD
    _compiled_learn = staticmethod(learn)

    def __init__(self, optimizer: ProjectedSGD, *args: typing.Any, **kwargs: typing.Any):
        # The non-zeros of w on the l1 ball: which they are, and where each stands in the list.
        self.active, self.place = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        super().__init__(optimizer, *args, **kwargs)
        self.num[STEP_A], self.num[STEP_B] = optimizer.step, optimizer.power
        if self.cnt[layout.SET] == GENERIC and not self.constraint.can_project:
            raise ValueError(f"{self.constraint} has no projection, which ProjectedSGD needs after every sample")

    def _extra(self) -> tuple:
        return self.active, self.place

    def _is_consistent(self) -> bool:
        listed = self.active[: self.cnt[NONZEROS]]
        return (
            super()._is_consistent()
            and self.active.size == self.place.size == self.v.size
            and 0 <= self.cnt[NONZEROS] == listed.size
            and bool(np.all((listed >= 0) & (listed < self.v.size)))
        )

    def _resize(self, capacity: int) -> None:
        super()._resize(capacity)
        self.active = resized(self.active, capacity)
        self.place = resized(self.place, capacity, fill=-1)

    def _enter(self, rows, i, margin, alpha, largest):
        indptr, idx, val, _ = rows
        start, stop = indptr[i], indptr[i + 1]
        w = self.v[: self.n_features]
        np.subtract.at(w, idx[start:stop], self.optimizer._step(int(self.cnt[T])) * alpha * val[start:stop])
        if self.cnt[layout.SET] == GENERIC:
            if w.size:
                w[:] = self.constraint.project(w)
        else:
            self.cnt[NONZEROS] = projections.project_after(
                self.v, self.num, self.cnt, idx, start, stop, self.active, self.place, self.cnt[NONZEROS]
            )
        self.cnt[N_GRADIENTS] += 1
        self.cnt[T] += 1

    def _moves(self):
        return iter(())


class ProjectedSGD(Optimizer):
    r"""Projected stochastic gradient descent, :math:`w_{t+1} = \Pi_C(w_t - \eta_t \nabla f(w_t; \xi_t))`.

    The projection-based baseline of the papers, :math:`\eta_t = \text{step} \cdot (t + 1)^{-\text{power}}` with
    t = 0, 1, ...: what a projection-free learner must beat, and what it is without a step size to tune. Its models
    have no gap: it keeps no estimate of the gradient.

    When to use it: as a baseline, or where projections are cheap and sparsity does not matter.

    Parameters
    ----------
    step
        The step size at the first sample, in units of weight per derivative; > 0. It must be tuned.
    power
        How fast the step falls, in [0, 1]; 1/2 for convex, 1 for strongly convex losses.

    Notes
    -----
    Cost of a step: the non-zeros of the sample and a few passes over those of w on the l1 ball, the non-zeros of the
    sample on boxes, O(d) on other sets; on a set without a compiled form, its ``project``.

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

    def __init__(self, step: float = 1.0, power: float = 0.5):
        if not 0.0 < step < math.inf:
            raise ValueError(f"step must be a positive finite number, got {step!r}")
        if not 0.0 <= power <= 1.0:
            raise ValueError(f"power must be in [0, 1], got {power!r}")
        self.step = step
        self.power = power

    def _step(self, t: int) -> float:
        return self.step * (t + 1.0) ** -self.power

    def _schedule(self) -> Schedule:
        # A gradient step is no convex combination: its size stands where a schedule's parameters would.
        return Power(self.power)
