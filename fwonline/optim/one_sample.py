"""Frank-Wolfe with a recursive gradient, one sample a step (Zhang et al. 2019; Xie et al. 2020)."""

from __future__ import annotations

import typing

from fwonline._kernels import layout, memory, stream
from fwonline._kernels.layout import (
    GAMMA,
    N_GRADIENTS,
    OK,
    WARM,
    T,
    jit,
    part,
)
from fwonline.optim.base import Optimizer
from fwonline.optim.schedules import Harmonic, Schedule
from fwonline.optim.stream_run import StreamRun

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
        memory.play(num, cnt, y, prediction)
        enter(u, rank, bound, group, num, cnt, idx, val, start, stop, margin, alpha, old_alpha)
        memory.fit_intercept(num, cnt, y, prediction, alpha)
        stream.move_remembering(v, u, rank, bound, group, num, cnt, old)
    return OK


class OneSampleRun(StreamRun):
    _compiled_learn = staticmethod(learn)

    def __init__(self, *args: typing.Any, **kwargs: typing.Any):
        super().__init__(*args, **kwargs)
        self.num[layout.RHO_A : layout.RHO_C + 1] = 1.0, 1.0, 1.0

    def _enter(self, rows, i, margin, alpha, largest):
        indptr, idx, val, y = rows
        span = indptr[i], indptr[i + 1]
        before = stream.old_margin(self.num, self.cnt, self.old, idx, val, *span, margin)
        old_alpha = self.derivative(float(y[i]), float(before + self.num[layout.INTERCEPT]))
        enter(*self.core[1:], idx, val, *span, margin, alpha, old_alpha)

    def _moves(self):
        self._remember()
        yield


class OneSampleFW(Optimizer):
    r"""Frank-Wolfe on a recursive gradient estimate, one sample a step (Zhang et al. 2019; Xie et al. 2020).

    The estimate of the last step is carried to the new iterate by the change of the new sample's own gradient:

    .. math::
        d_t = \nabla f(w_t; \xi_t) + (1 - \rho_t) \left( d_{t-1} - \nabla f(w_{t-1}; \xi_t) \right), \qquad
        w_{t+1} = w_t + \gamma_t (\text{lmo}(d_t) - w_t),

    with :math:`\rho_t = 1 / (t + 1)` and t = 0, 1, ... It keeps no samples: the default of the estimators.

    When to use it: one pass over a long stream, where memory must not grow with what was seen. Where samples can be
    kept, :class:`SFW` learns more from each.

    Parameters
    ----------
    schedule
        Step sizes; :math:`\gamma_t = 2 / (t + 2)` by default. The papers prove their rates for
        ``Power(a=1)``, 1 / (t + 1); the larger step is better by a constant in practice.

    Notes
    -----
    Cost: the non-zeros of the sample, twice its derivative, and on l1 balls and simplices the scan of d / 2048
    maxima; O(d) on other sets. For a smooth convex objective and i.i.d. samples the expected suboptimality is
    :math:`O(t^{-1/2})` up to logarithms, and so is the average regret (Xie et al., ORGFW).

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

    def __init__(self, schedule: Schedule | None = None):
        self.schedule = schedule

    def _schedule(self) -> Schedule:
        return self.schedule or _TWO_OVER_T


_TWO_OVER_T = Harmonic()
