"""Projected SVRG (Johnson, Zhang 2013): the variance-reduced baseline that needs a step size and a projection."""

from __future__ import annotations

import dataclasses
import typing

import numpy as np

from fwonline import _loaded
from fwonline.optim.runs.finite_sum_run import FiniteSumOptimizer
from fwonline.optim.runs.method import Derivatives, Method, SumRun

__all__ = ["ProjectedSVRG"]


class ProjectedSVRGMethod(Method):
    optimizer: ProjectedSVRG

    counters: typing.ClassVar[dict[str, int]] = {"k": _loaded.MOST, "m": _loaded.MOST}
    k: int
    m: int
    memory: Derivatives
    remembers = True

    def check(self, run):
        super().check(run)
        _loaded.require(self, "k", self.k <= self.m, f"a step of the {self.m} of an epoch")
        _loaded.require(self.memory, "total", not self.m or self.memory.total is not None, "a snapshot in an epoch")

    def step(self, run: SumRun) -> None:
        optimizer, w = self.optimizer, run.x
        if self.k == self.m:
            self.k = 0
            self.m = optimizer.epoch or max(1, 2 * run.sum.n // optimizer.batch_size)
            self.memory.take(run, w)  # the snapshot is the last iterate
        self.k += 1
        g = self.memory.estimate(run, w, optimizer.batch_size)
        eta = optimizer.step if optimizer.step is not None else 0.1 / run.L
        run.note(np.nan, eta)
        w[...] = run.constraint.project(w - eta * g)


@dataclasses.dataclass(eq=False, repr=False)
class ProjectedSVRG(FiniteSumOptimizer):
    r"""Projected SVRG (Johnson, Zhang 2013): SVRF's gradient estimate, a gradient step and a projection.

    .. math::
        w_k = \Pi_C\Big(w_{k-1} - \eta \Big(\frac1m
        \sum_{i \in B_k} \big(\nabla f_i(w_{k-1}) - \nabla f_i(\tilde w)\big) + \nabla f(\tilde w)\Big)\Big)

    with a snapshot :math:`\tilde w` taken anew, at the last iterate, every ``epoch`` steps. Its models have no gap.

    Online, inside an estimator, the sum is over the last ``memory`` samples, and ``steps_per_sample`` steps follow
    each, as with :class:`SVRF`.

    When to use it: as a baseline, or where projections are cheap.

    Parameters
    ----------
    step
        The step size eta, > 0; 0.1 / L where None, as the paper advises.
    batch_size
        Samples a step, >= 1.
    epoch
        Steps an epoch, >= 1; two passes over the data where None.
    lipschitz
        L, the smoothness of each f_i, of which the default step is made; by default max :math:`|l''|` times the largest
        squared norm of a sample.
    memory, steps_per_sample
        Samples held online, and steps for each of them, >= 1.

    Notes
    -----
    For a strongly convex f, :math:`\eta < 1 / (4 L)` and epochs long enough, the suboptimality of snapshots falls
    linearly (Theorem 1, for iterates drawn at random). A step costs ``batch_size`` gradients and one projection: on
    matrix sets a singular value decomposition.

    References
    ----------
    .. [1] R. Johnson, T. Zhang, `Accelerating Stochastic Gradient Descent using Predictive Variance Reduction
       <https://papers.nips.cc/paper/4937-accelerating-stochastic-gradient-descent-using-predictive-variance-reduction>`_,
       NIPS 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> X = np.random.default_rng(0).normal(size=(300, 20))
    >>> svrg = optim.ProjectedSVRG(batch_size=5)
    >>> result = svrg.minimize(X, X[:, 3] - X[:, 7], constraint=sets.L1Ball(2.0), steps=2000, seed=1)
    >>> np.flatnonzero(np.abs(result.x) > 0.1)
    array([3, 7])
    """

    step: float | None = None
    batch_size: int = 1
    epoch: int | None = None
    lipschitz: float | None = None
    memory: int = 1000
    steps_per_sample: int = 1

    _method_class = ProjectedSVRGMethod

    @property
    def _needs_lipschitz(self) -> bool:
        return self.step is None

    def _check_set(self, constraint: typing.Any) -> None:
        if not constraint.can_project:
            raise ValueError(f"{constraint} has no projection, which ProjectedSVRG needs at every step")
