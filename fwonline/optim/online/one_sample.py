"""Frank-Wolfe with a recursive gradient, one sample a step (Zhang et al. 2019; Xie et al. 2020)."""

from __future__ import annotations

import dataclasses
import typing

import numpy as np

from fwonline._kernels import memory, stream
from fwonline._kernels.entry import opened
from fwonline._kernels.layout import OK, TOO_LARGE, jit, part
from fwonline.optim.base import Optimizer
from fwonline.optim.runs.kept import PREVIOUS, Previous
from fwonline.optim.runs.method import Method, SumRun
from fwonline.optim.runs.run import Run
from fwonline.optim.schedules import Power, Schedule

__all__ = ["OneSampleFW"]


@part
def weight_of_new(s):
    """rho_t; 1 after a whole step, which leaves nothing of the iterate that the old estimate was for."""
    return 1.0 if s.gamma >= 1.0 and (s.t > 1 or s.warm != 0) else stream.rho(s)


@part
def add_recursive(it, s, region, x, seen, old_alpha):
    """d_t = g_t + (1 - rho_t) (d_{t-1} - g_t(w_{t-1}))."""
    keep = 1.0 - weight_of_new(s)
    stream.decay(it, s, region, keep)
    stream.add(it, s, region, x, seen.alpha - keep * old_alpha, seen.margin)
    s.n_gradients += 2


@jit
def learn(bound, bound_rows, first, last):
    run, rows = opened(bound), opened(bound_rows)
    it, s, problem, old = run.it, run.state[0], run.problem, run.own.old
    for i in range(first, last):
        seen = memory.look(it, s, problem, rows, i)
        if seen.status != OK:
            return seen.status
        x = memory.row_at(rows, i)
        old_alpha = stream.old_derivative(old, s, problem, x, seen.y, seen.margin)
        if not memory.can_sum(old_alpha, seen.largest):
            return TOO_LARGE
        status = memory.is_ready(s, run.draws.noise, 0)
        if status != OK:
            return status
        memory.play(s, seen, rows, i)
        add_recursive(it, s, problem.region, x, seen, old_alpha)
        memory.fit_intercept(s, problem.loss, seen)
        stream.move_remembering(it, old, s, problem)  # s_t = lmo(d_t), w_{t+1} = w_t + gamma_t (s_t - w_t)
    return OK


class OneSampleRun(Run):
    """A run with rho_t = a / (t + b)^c."""

    _own, _kept = Previous, PREVIOUS
    _decided = (*Run._decided, *stream.RHO)

    def __init__(self, *args: typing.Any, **kwargs: typing.Any):
        super().__init__(*args, **kwargs)
        self.s.rho_a, self.s.rho_b, self.s.rho_c = self.optimizer._momentum


class OneSampleMethod(Method):
    """The same steps on matrices: d_t = g_t(w_t) + (1 - rho_t) (d_{t-1} - g_t(w_{t-1})), g_t that of the newest one."""

    points: typing.ClassVar[tuple[str, ...]] = ("old",)
    vectors: typing.ClassVar[tuple[str, ...]] = ("d",)
    old: typing.Any
    d: typing.Any

    def step(self, run: SumRun) -> None:
        self.recurse(run, self.optimizer.a)

    def recurse(self, run: SumRun, exponent: float) -> None:
        """A step with rho_t = (t + 1)^-exponent."""
        t = run.t
        batch = run.next_samples(1)
        fresh = np.zeros(run.x.shape)
        run.sum.rows.add(batch, run.sum.slopes(run.x, batch), fresh)
        if self.d is not None and run.gamma < 1.0:  # a whole step leaves nothing that d was for
            before = np.zeros(run.x.shape)
            run.sum.rows.add(batch, run.sum.slopes(self.old, batch), before)
            fresh += (1.0 - (t + 1.0) ** -exponent) * (self.d - before)
        self.d, self.old = fresh, run.x.copy()
        run.frank_wolfe(fresh, self.optimizer._schedule(), t)


@dataclasses.dataclass(eq=False, repr=False)
class OneSampleFW(Optimizer):
    r"""Frank-Wolfe on a recursive gradient estimate, one sample a step (Zhang et al. 2019; Xie et al. 2020).

    The estimate of the last step is carried to the new iterate by the change of the new sample's own gradient:

    .. math::
        d_t = \nabla f(w_t; \xi_t) + (1 - \rho_t) \left( d_{t-1} - \nabla f(w_{t-1}; \xi_t) \right), \qquad
        w_{t+1} = w_t + \gamma_t (\text{lmo}(d_t) - w_t),

    with :math:`\rho_t = (t + 1)^{-a}`, :math:`\gamma_t = 1 / (t + 1)` and t = 0, 1, ... It keeps no samples.

    When to use it: one pass over a long stream, where memory must not grow with what was seen. Where samples can be
    kept, :class:`SFW` learns more from each.

    Parameters
    ----------
    a
        How fast the weight of a new gradient falls, in (0, 1]. What the estimate carries from iterate to iterate errs
        by the length of each step, thus by the diameter of the set: in small sets 1 is best, which is what the rates
        are proved for; in large ones, and under drift, it forgets too slowly. 2/3 loses little in the former and
        much less in the latter (rcv1, one pass, log loss at radius 100 / 300 / 1000: 0.495 / 0.390 / 0.392, with 1
        0.484 / 0.455 / 0.573).
    schedule
        Step sizes; ``Power(a=1)``, 1 / (t + 1), by default.

    Notes
    -----
    The ``gap`` of a step is that of :math:`d_t`, and no bound of the objective's: see
    :class:`fwonline.monitors.Gap`.

    Offline the samples come in passes over the data, each in an order of its own, where the papers draw them
    independently.

    Cost: the non-zeros of the sample, twice its derivative, and on l1 balls and simplices the scan of d / 65536
    maxima; O(d) on other sets. For a smooth convex objective and i.i.d. samples the expected suboptimality is, up to
    logarithms, :math:`O(t^{-1/2})` with a = 1, and so is the average regret (Xie et al., ORGFW); with a = 2/3
    it is :math:`O(t^{-1/3})`, with a smaller constant.

    References
    ----------
    .. [1] M. Zhang et al., `One Sample Stochastic Frank-Wolfe <https://arxiv.org/abs/1910.04322>`_, AISTATS 2020.
    .. [2] J. Xie et al., `Efficient Projection-Free Online Methods with Stochastic Recursive Gradient
       <https://arxiv.org/abs/1910.09396>`_, AAAI 2020.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from fwonline import linear_model, optim, sets
    >>> model = preprocessing.StandardScaler() | linear_model.FWClassifier(sets.L1Ball(5.0), optim.OneSampleFW())
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.ROCAUC())
    ROCAUC: 9...
    """

    a: float = 2 / 3
    schedule: Schedule | None = None

    _run_class = OneSampleRun
    _takes_weights = True
    _learn = staticmethod(learn)
    _method_class = OneSampleMethod
    _default_schedule = Power(a=1.0)

    @property
    def _momentum(self) -> tuple[float, float, float]:
        return 1.0, 1.0, self.a  # rho_t = (t + 1)^-a
