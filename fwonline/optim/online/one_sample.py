"""Frank-Wolfe with a recursive gradient, one sample a step (Zhang et al. 2019; Xie et al. 2020)."""

from __future__ import annotations

import typing

import numpy as np

from fwonline._kernels import layout, memory, stream
from fwonline._kernels.layout import (
    CROWDED,
    GAMMA,
    N_GRADIENTS,
    NEED_NAMES,
    OK,
    WARM,
    T,
    jit,
    part,
)
from fwonline.optim.base import Optimizer
from fwonline.optim.runs.method import Method, SumRun
from fwonline.optim.runs.stream_run import StreamRun
from fwonline.optim.schedules import Power, Schedule

__all__ = ["OneSampleFW"]


@part
def weight_of_new(num, cnt):
    """rho_t; 1 after a whole step, which leaves nothing of the iterate that the old estimate was for."""
    whole = num[GAMMA] >= 1.0 and (cnt[T] > 1 or cnt[WARM] != 0)
    return 1.0 if whole else stream.rho(num, cnt)


@part
def enter(u, rank, bound, group, num, cnt, idx, val, start, stop, margin, alpha, old_alpha):
    """d_t = g_t + (1 - rho_t) (d_{t-1} - g_t(w_{t-1}))."""
    keep = 1.0 - weight_of_new(num, cnt)
    stream.decay(u, bound, group, num, cnt, keep)
    stream.add(u, rank, bound, group, num, cnt, idx, val, start, stop, alpha - keep * old_alpha, margin)
    cnt[N_GRADIENTS] += 2


@jit
def learn(v, u, rank, bound, group, num, cnt, old, indptr, idx, val, ys, first, last):
    bits = val.view(layout.INT64)
    for i in range(first, last):
        start, stop, y = indptr[i], indptr[i + 1], ys[i]
        status, margin, prediction, alpha, largest = memory.look(v, num, cnt, bits, idx, val, start, stop, y)
        if status != OK:
            return status
        old_alpha = stream.old_derivative(num, cnt, old, idx, val, start, stop, y, margin)
        status = memory.check_contribution(old_alpha, largest)
        if status != OK:
            return status
        if cnt[CROWDED] != 0:
            return NEED_NAMES
        memory.play(num, cnt, y, prediction)
        enter(u, rank, bound, group, num, cnt, idx, val, start, stop, margin, alpha, old_alpha)
        memory.fit_intercept(num, cnt, y, prediction, alpha)
        stream.move_remembering(v, u, rank, bound, group, num, cnt, old)
    return OK


class OneSampleRun(StreamRun):
    optimizer: OneSampleFW
    _compiled_learn = staticmethod(learn)

    def __init__(self, *args: typing.Any, **kwargs: typing.Any):
        super().__init__(*args, **kwargs)
        self.num[layout.RHO_A : layout.RHO_C + 1] = 1.0, 1.0, self.optimizer.alpha

    def _enter(self, rows, i, margin, alpha, largest):
        indptr, idx, val, y = rows
        span = indptr[i], indptr[i + 1]
        before = stream.old_margin(self.num, self.cnt, self.old, idx, val, *span, margin)
        old_alpha = self.derivative(float(y[i]), float(before + self.num[layout.INTERCEPT]))
        enter(*self.core[1:], idx, val, *span, margin, alpha, old_alpha)

    def _moves(self):
        self._remember()
        yield


class OneSampleMethod(Method):
    """The same steps on matrices: d_t = g_t(w_t) + (1 - rho_t) (d_{t-1} - g_t(w_{t-1})), g_t that of the newest one."""

    points: typing.ClassVar[tuple[str, ...]] = ("old",)
    vectors: typing.ClassVar[tuple[str, ...]] = ("d",)
    old: typing.Any
    d: typing.Any

    def step(self, run: SumRun) -> None:
        self.recurse(run, self.optimizer.alpha)

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


class OneSampleFW(Optimizer):
    r"""Frank-Wolfe on a recursive gradient estimate, one sample a step (Zhang et al. 2019; Xie et al. 2020).

    The estimate of the last step is carried to the new iterate by the change of the new sample's own gradient:

    .. math::
        d_t = \nabla f(w_t; \xi_t) + (1 - \rho_t) \left( d_{t-1} - \nabla f(w_{t-1}; \xi_t) \right), \qquad
        w_{t+1} = w_t + \gamma_t (\text{lmo}(d_t) - w_t),

    with :math:`\rho_t = (t + 1)^{-\alpha}`, :math:`\gamma_t = 1 / (t + 1)` and t = 0, 1, ... It keeps no samples: the
    default of the estimators.

    When to use it: one pass over a long stream, where memory must not grow with what was seen. Where samples can be
    kept, :class:`SFW` learns more from each.

    Parameters
    ----------
    alpha
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
    logarithms, :math:`O(t^{-1/2})` with alpha = 1, and so is the average regret (Xie et al., ORGFW); with alpha = 2/3
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

    _run_class = OneSampleRun
    _method_class = OneSampleMethod

    def __init__(self, alpha: float = 2 / 3, schedule: Schedule | None = None):
        if not 0.0 < alpha <= 1.0:
            raise ValueError(f"alpha must be in (0, 1], got {alpha!r}")
        self.alpha = alpha
        self.schedule = schedule

    def _schedule(self) -> Schedule:
        return self.schedule or _ONE_OVER_T


_ONE_OVER_T = Power(a=1.0)
