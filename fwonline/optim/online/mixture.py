"""The default learner and projected AdaGrad at several step sizes, mixed by what they would have lost."""

from __future__ import annotations

import dataclasses
import math

from fwonline._kernels import memory, mixing
from fwonline._kernels import projections as adagrad
from fwonline._kernels.entry import opened
from fwonline._kernels.layout import FAILED, NEED_NAMES, OK, SIMPLEX, TOO_LARGE, jit, part
from fwonline._kernels.state import Look
from fwonline.optim.base import Optimizer
from fwonline.optim.online import stochastic_pairwise
from fwonline.optim.online.mixture_run import COUNT, Mixed, MixtureRun, default_at, show_intercept, show_one
from fwonline.optim.online.stochastic_pairwise import StochasticPairwiseFW, can_square
from fwonline.optim.schedules import Power

__all__ = ["Mixture"]

# Samples over which the mixture remembers what its experts lost; what of the most that one sample has said is noise.
SPAN, SHARE = 300.0, 0.5


@part
def look(own: Mixed, s, loss, x, shown):
    """What each learner says of a sample; one whose derivative cannot be summed sits it out."""
    adagrad.look(own, x)
    for k in range(COUNT):
        z = own.sums[k] + s.intercept + own.offsets[k]
        alpha = memory.loss_derivative(loss, shown.y, z)
        usable = can_square(alpha, shown.largest) and can_square(z, 1.0)
        own.alphas[k] = alpha if usable else 0.0
        own.seen[k + 1].prediction = z if usable else math.nan


@part
def weigh(own: Mixed, s, loss, shown):
    """Each expert is weighed by what it said, the default learner having learned the sample."""
    own.seen[0].prediction = own.state[0].prediction
    for k in range(COUNT):
        if math.isnan(own.seen[k + 1].prediction):
            own.seen[k + 1].prediction = own.seen[0].prediction
    bend = stochastic_pairwise.curvature(s, loss, shown.y, shown.prediction, shown.loss, shown.alpha)
    mixing.observe_over(own, shown.alpha, bend, SPAN, SHARE)


@part
def note(own: Mixed, s, loss, x, shown):
    """The units in which steps are measured, and the best constant, learn a sample."""
    adagrad.note_entries(own.scales, x)
    y, z = shown.y, s.intercept
    if s.fit_intercept != 0:
        value, alpha = memory.loss_value(loss, y, z), memory.loss_derivative(loss, y, z)
        memory.fit_intercept(s, loss, Look(OK, y, 0.0, z, alpha, value, 1.0))
        if s.seen == 1:
            return  # of one target all is its mean
        z = s.intercept
    value, alpha = memory.loss_value(loss, y, z), memory.loss_derivative(loss, y, z)
    adagrad.note_constant(own.scales, alpha, stochastic_pairwise.curvature(s, loss, y, z, value, alpha))


@part
def shorten(own, s, loss, y):
    """Implicit steps take the derivative where they lead; of a loss that is Python's, by its curvature."""
    for k in range(adagrad.IMPLICIT, COUNT):
        z, alpha = own.seen[k + 1].prediction, own.alphas[k]
        if alpha == 0.0:
            continue
        if loss.is_compiled != 0:
            own.alphas[k] = adagrad.shortened(loss, y, z, alpha, own.reaches[k])
        else:
            h = stochastic_pairwise.curvature(s, loss, y, z, memory.loss_value(loss, y, z), alpha)
            own.alphas[k] = alpha / (1.0 + max(own.reaches[k] * h, 0.0))


@part
def start(own, s, kind):
    """On a simplex 0 is no point: the learners begin where the default learner does."""
    for k in range(COUNT):
        if kind == SIMPLEX and own.sizes[k] == 0.0:
            for j in range(s.d):
                own.points[j, k] = default_at(own, j)
            adagrad.measure(own, kind, s.d, k)


@jit
def learn(bound, bound_rows, first, last):
    """A step of all experts for each row; stops before one that needs room or randomness, or that is refused."""
    run, rows = opened(bound), opened(bound_rows)
    own, s, problem = run.own, run.state[0], run.problem
    region, loss = problem.region, problem.loss
    for i in range(first, last):
        x = memory.row_at(rows, i)
        adagrad.scale_back(own, region)
        for k in range(x.start, x.stop):
            show_one(own, region, run.it.v, x.idx[k])
        show_intercept(own, s)
        asked = memory.asked_margin(run.it.v, rows, i) + s.mixed_intercept if rows.asked.size > 0 else 0.0
        shown = memory.judge(problem, rows, i, memory.dot_with(run.it.v, x), s.mixed_intercept)
        if shown.status != OK:
            return shown.status
        if not (can_square(shown.alpha, shown.largest) and abs(asked) < math.inf):
            return TOO_LARGE
        look(own, s, loss, x, shown)
        if problem.failed[0] != 0:
            return FAILED
        if s.crowded != 0:
            return NEED_NAMES
        status = stochastic_pairwise.learn(own.default, bound_rows, i, i + 1)
        if status != OK:
            return status
        weigh(own, s, loss, shown)
        memory.play(s, shown, rows, i)
        memory.answer(rows, i, asked)
        s.t += 1
        note(own, s, loss, x, shown)
        start(own, s, region.kind)
        adagrad.note_slopes(own, x, s.fit_intercept != 0)
        shorten(own, s, loss, shown.y)
        adagrad.step(own, region, x, s.fit_intercept != 0)
        if s.d > 0:
            adagrad.bring_back(own, s, region)
        s.n_lmo = own.state[0].n_lmo
        s.n_gradients = own.state[0].n_gradients + COUNT * s.seen
    return OK


@dataclasses.dataclass(eq=False, repr=False)
class Mixture(Optimizer):
    r"""The default learner and projected AdaGrad at several step sizes, mixed by what they would have lost.

    Each expert has a point :math:`w^k` of the set and predicts with it. What predicts is the point

    .. math:: w = \sum_k \omega_k w^k, \qquad \omega_k \ge 0, \quad \sum_k \omega_k = 1,

    which lies in the set, since that is convex. The first expert is :class:`StochasticPairwiseFW`, sparse and careful:
    what it has not seen to pay stays out. The others are AdaGrad's, which believe every sample: on long-tailed text,
    where most of what there is to know is in words that come once or twice, that is worth more.

    .. math:: w^k \leftarrow \Pi_C^{\sqrt G}\left(w^k - \eta_k g / \sqrt{G}\right), \qquad G_j = \sum_i g_{ij}^2,

    by entries, and projected in the norm that :math:`\sqrt G` makes. Three learners have step sizes of :math:`2^{-7},
    2^{-5}` and :math:`2^{-3}` in units that are measured: how far predictions have to go from the best constant, over
    the root of the mean square of the entries. No unit of features or targets makes a difference, and nothing is tuned.
    Two more, of :math:`2^{-3}` and :math:`2^{-1}`, step implicitly: their g is that of the loss where the step leads,
    so that none goes past what its own sample asks for, whatever that sample's length.

    The weights minimise, on the simplex, a quadratic model of the loss that the mixture would have had, each sample's
    by its derivative and curvature at what was predicted, a sample counting 1 - 1/300 of the next. Weight leaves the
    default only for what is gained beyond noise: 0.3 standard errors, and half the most that a single sample has said.

    When to use it: where the last percent of loss is worth more than a sparse model; on text in large balls; where
    a learner must not lose to one that was tuned. For a sparse model, or speed in a ball that binds, take the default.

    Parameters
    ----------
    memory
        Samples that the default learner can look at again, >= 1.
    forgetting
        Whether the default learner has models that forget beside it.

    Attributes
    ----------
    expert_weights
        :math:`\omega`, by name.

    Raises
    ------
    ValueError
        For parameters out of range, and for sets whose points have no coordinates to move (matrices, groups, hulls).

    Notes
    -----
    Cost: the default learner's, and some ten operations for each entry and learner. A box is met entry by entry. Where
    a learner has left a ball or a simplex, it is projected every d / 256 samples, in a few passes over the d features,
    and played scaled back to the radius in between. Held are ten numbers a feature more than by the default learner.

    The model is not sparse where AdaGrad has weight. ``exact_gap`` is that of the mixed point over the samples that
    the default learner remembers; ``gap`` that of its quadratic model there. With ``max_names`` those features leave
    that it does not use, whatever AdaGrad's learners made of them.

    References
    ----------
    .. [1] J. Duchi, E. Hazan, Y. Singer, `Adaptive Subgradient Methods for Online Learning and Stochastic Optimization
       <https://jmlr.org/papers/v12/duchi11a.html>`_, JMLR 2011.
    .. [2] T. van Erven, W. M. Koolen, `MetaGrad: Multiple Learning Rates in Online Learning
       <https://arxiv.org/abs/1604.08740>`_, NeurIPS 2016 (step sizes side by side, weighed by what they lost).
    .. [3] O. Wintenberger, `Optimal Learning with Bernstein Online Aggregation <https://arxiv.org/abs/1404.1356>`_,
       Machine Learning 2017 (a second-order rule on the simplex; the one here has the loss's own curvature).
    .. [4] B. Kulis, P. L. Bartlett, `Implicit Online Learning <https://icml.cc/Conferences/2010/papers/429.pdf>`_,
       ICML 2010.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from fwonline import linear_model, optim
    >>> learner = linear_model.FWClassifier(optimizer=optim.Mixture(), seed=1)
    >>> evaluate.progressive_val_score(datasets.Phishing(), preprocessing.StandardScaler() | learner, metrics.ROCAUC())
    ROCAUC: 9...
    >>> sum(learner.optimizer.expert_weights.values()) > 0.999
    True
    """

    memory: int = 1000
    forgetting: bool = True

    _default_schedule = Power(a=1.0)
    _run_class = MixtureRun
    _unbounded = StochasticPairwiseFW._unbounded
    _learn = staticmethod(learn)

    @property
    def expert_weights(self) -> dict[str, float]:
        """What each expert counts at present: they sum to 1, and the mixture's point is the mean of theirs by them."""
        sizes = (f"AdaGrad {size:g}" for size in adagrad.STEP_SIZES)
        kinds = adagrad.IMPLICIT * ("",) + (COUNT - adagrad.IMPLICIT) * ("implicit ",)
        names = (StochasticPairwiseFW.__name__, *(kind + size for kind, size in zip(kinds, sizes, strict=True)))
        omega = self._run.own.omega.tolist() if self.is_started else [1.0] + COUNT * [0.0]
        return dict(zip(names, omega, strict=True))
