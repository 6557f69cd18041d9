"""Projected stochastic gradient descent: the baseline that needs a step size and a projection."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import _loaded, sets
from fwonline._kernels import layout, memory
from fwonline._kernels.entry import opened
from fwonline._kernels.layout import OK, jit, part
from fwonline._kernels.projections import project_after
from fwonline.optim.base import Optimizer, check_count
from fwonline.optim.runs import checks
from fwonline.optim.runs.kept import Kept
from fwonline.optim.runs.method import Method, SumRun
from fwonline.optim.runs.run import Run
from fwonline.optim.schedules import Power, Schedule

__all__ = ["ProjectedSGD"]


class Lists(typing.NamedTuple):
    """The non-zeros of w on the l1 ball; and the coordinates that a batch has changed, whose gradients u sums."""

    active: np.ndarray
    place: np.ndarray
    changed: np.ndarray
    listed: np.ndarray


@part
def gather(it, own, s, x, alpha):
    """u += alpha x, the sum over a batch; ``changed`` lists its coordinates."""
    for k in range(x.start, x.stop):
        j = x.idx[k]
        it.u[j] += alpha * x.val[k]
        if own.listed[j] == 0:
            own.listed[j] = 1
            own.changed[s.pending] = j
            s.pending += 1


@part
def spend(it, own, s, step):
    """v -= step u on the coordinates changed, which are then none; returns how many they were."""
    count = s.pending
    for k in range(count):
        j = own.changed[k]
        it.v[j] -= step * it.u[j]
        it.u[j] = 0.0
        own.listed[j] = 0
    s.pending = 0
    return count


@jit
def learn(bound, bound_rows, first, last):
    run, rows = opened(bound), opened(bound_rows)
    it, own, s, problem = run.it, run.own, run.state[0], run.problem
    for i in range(first, last):
        seen = memory.look(it, s, problem, rows, i)
        if seen.status != OK:
            return seen.status
        status = memory.is_ready(s, run.draws.noise, 0)
        if status != OK:
            return status
        x = memory.row_at(rows, i)
        memory.play(s, seen, rows, i)
        s.n_gradients += 1
        eta = s.step * (s.t + 1.0) ** -s.power
        if s.batch_size <= 1:
            step = eta * seen.alpha  # eta_t f'
            for k in range(x.start, x.stop):
                it.v[x.idx[k]] -= step * x.val[k]
            project_after(it, own, s, problem.region, x.idx, x.start, x.stop)
            s.t += 1
        else:
            gather(it, own, s, x, seen.alpha)
            if s.seen % s.batch_size == 0:
                moved = spend(it, own, s, eta / s.batch_size)
                project_after(it, own, s, problem.region, own.changed, 0, moved)
                s.t += 1
        memory.fit_intercept(s, problem.loss, seen)
    return OK


class ProjectedSGDRun(Run):
    _own = Lists
    _kept: typing.ClassVar[dict[str, Kept]] = {
        "active": Kept("list"),
        "place": Kept("place"),
        "changed": Kept("list"),
        "listed": Kept("mark"),
    }
    _decided = (*Run._decided, "step", "power")

    def __init__(self, optimizer: ProjectedSGD, *args: typing.Any, **kwargs: typing.Any):
        super().__init__(optimizer, *args, **kwargs)
        self.s.step, self.s.power = optimizer.step, optimizer.a
        if self.region.kind == layout.GENERIC and not self.constraint.can_project:
            raise ValueError(f"{self.constraint} has no projection, which ProjectedSGD needs at every step")

    def _keeps(self, name: str) -> bool:
        return self.optimizer.batch_size > 1 or name not in ("changed", "listed")

    def _check_own(self) -> None:
        self._check_batch()
        if self.region.kind in (layout.SIMPLEX, layout.UNIT_SIMPLEX):
            checks.bounded(self, "nonzeros", 0, 0)  # here the list only serves while a projection is made
            return
        checks.check_listed(self)
        if self.region.kind == layout.L1:
            good = bool((self.own.place[np.flatnonzero(self.it.v)] >= 0).all())
            _loaded.require(self, "active", good, "all coordinates that are not zero")

    def _check_batch(self) -> None:
        """The batch under way is listed as it must be: the next step follows the list without looking."""
        own = self.own
        size = self.it.v.size if self._keeps("changed") else 0
        checks.bounded(self, "pending", 0, min(size, self.n_features))
        changed = own.changed[: self.s.pending]
        good = own.changed.size == own.listed.size == size
        good = good and bool(((changed >= 0) & (changed < self.n_features)).all())
        marks = np.zeros(size, dtype=np.int64)
        if good:
            marks[changed] = 1
        good = good and int(marks.sum()) == changed.size and np.array_equal(marks, own.listed)
        _loaded.require(self, "changed", good, "coordinates, each once")

    def _taken_out(self, new, holes, movers) -> None:
        super()._taken_out(new, holes, movers)
        self.s.pending = self._relist(self.own.changed, self.s.pending, new)


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

    The projection-based baseline of the papers, :math:`\eta_t = \text{step} \cdot (t + 1)^{-a}` with
    t = 0, 1, ..., and :math:`\nabla f(w_t; \xi_t)` the mean gradient of a mini-batch: what a projection-free learner
    must beat, and what it is without a step size to tune. Its models have no gap: it keeps no estimate of the gradient.
    Without a set it is plain stochastic gradient descent.

    When to use it: as a baseline, or where projections are cheap and sparsity does not matter.

    Parameters
    ----------
    step
        The step size at the first sample, in units of weight per derivative; > 0. It must be tuned.
    a
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
    _takes_weights = True
    _learn = staticmethod(learn)
    _method_class = ProjectedMethod
    _unbounded = sets.LInfBall  # whose projection costs the sample's entries alone

    def __init__(self, step: float = 1.0, a: float = 0.5, batch_size: int = 1):
        if not 0.0 < step < math.inf:
            raise ValueError(f"step must be a positive finite number, got {step!r}")
        if not 0.0 <= a <= 1.0:
            raise ValueError(f"a must be in [0, 1], got {a!r}")
        check_count("batch_size", batch_size)
        self.step = step
        self.a = a
        self.batch_size = batch_size

    def _step(self, t: int) -> float:
        return self.step * (t + 1.0) ** -self.a

    def _schedule(self) -> Schedule:
        # A gradient step is no convex combination: its size stands where a schedule's parameters would.
        return Power(self.a)
