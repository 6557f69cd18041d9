"""Stochastic pairwise Frank-Wolfe on a quadratic memory: the default of the linear estimators."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from fwonline import sets
from fwonline._kernels import memory, mixing, pairwise
from fwonline._kernels.entry import LINE, call, opened, prefetch, prefetch_row
from fwonline._kernels.layout import (
    FAILED,
    GENERIC,
    LARGEST,
    NEED_NAMES,
    NEED_NOISE,
    NEED_POOL,
    OK,
    TOO_LARGE,
    jit,
    part,
)
from fwonline.optim.base import Optimizer
from fwonline.optim.online.one_sample import OneSampleFW
from fwonline.optim.online.pairwise_run import StochasticPairwiseRun, show
from fwonline.optim.runs.native import region_of
from fwonline.optim.schedules import Power

__all__ = ["StochasticPairwiseFW"]

# Fewest steps a sample, where their number follows its entries.
FEWEST = 4
# Features whose numbers the processor keeps close by.
CLOSE = 4096


@part
def can_square(alpha, largest):
    """Whether the square of a contribution stays within what sums can hold; false for NaN too."""
    return abs(alpha) * largest <= LARGEST


@part
def looks(s, entries):
    """Steps that a sample of so many entries pays for."""
    return min(s.steps, max(FEWEST, s.entries // max(entries, 1))) if s.entries > 0 else s.steps


@part
def usual_loss(s):
    return s.loss_sum / max(s.seen, 1)


@part
def curvature(s, loss, y, z, value, alpha):
    """h_i, which steps may rely on some way from z."""
    return call(loss.curvature, (loss.p, loss.q, y, z, value, alpha, usual_loss(s)))


@part
def usable(s):
    """Samples held that count."""
    return min(s.live, s.seen - s.forgotten) if s.seen > 0 else s.live


@part
def slot_of(s, age, slots):
    """Where the sample learned ``age`` samples before the newest is held."""
    return (s.seen - 1 - age) % slots


@part
def penalty(s):
    """Standard errors of a slope that count as noise; where samples fade, less the fewer weights are 0.

    Half of them make no difference: the eighth power tells a point that is dense from one that is still forming.
    """
    errors = s.significance * math.sqrt(math.log(1.0 + s.d))
    return errors * (1.0 - (s.nonzeros / max(s.d, 1)) ** 8) if s.growth != 1.0 else errors


@part
def enter(run, problem, x, at, seen):
    """The newest sample takes the oldest one's place, whose contribution stays as it was last seen."""
    mem, own, s = run.mem, run.own, run.state[0]
    h = curvature(s, problem.loss, seen.y, seen.prediction, seen.loss, seen.alpha)
    s.penalty = penalty(s)
    slot = (s.seen - 1) % mem.held.size
    if s.live == mem.held.size:
        s.live -= 1
    memory.store(mem, s, slot, at, x, seen)
    own.curves[slot] = pairwise.trusted(h, seen.largest, problem.region.p)
    c = mixing.weigh_newest(run.it, own, s, slot)
    own.offsets[slot] = s.offset
    change = pairwise.Change(c * seen.alpha, (c * seen.alpha) * (c * seen.alpha), c * own.curves[slot], 0.0, True)
    pairwise.add(run.it, own, s, problem.region, memory.row_of(mem, slot), change)
    s.n_gradients += 1


@part
def drawn(run, ahead):
    """A slot of those that count, uniformly: that of the draw so many ahead of the next."""
    s = run.state[0]
    return slot_of(s, np.int64(run.draws.noise[s.drawn + ahead] * usable(s)), run.mem.held.size)


@part
def draw(run):
    """The slot of the next draw."""
    slot = drawn(run, 0)
    run.state[0].drawn += 1
    return slot


@part
def ask(run, x):
    """Ask for the numbers of a sample's features, where there are so many that they are not close by."""
    it, sums = run.it, run.own.sums
    if run.state[0].d <= CLOSE:
        return
    for k in range(x.start, x.stop):
        j = np.int64(x.idx[k])
        prefetch(sums, sums.shape[1] * j)
        prefetch(it.v, j)
        prefetch(it.u, j)


@part
def ask_rows(run, count):
    """Ask for the rows of the next draws."""
    for ahead in range(count if run.state[0].d > CLOSE else 0):
        held = run.mem.held[drawn(run, ahead)]
        prefetch_row(run.mem.idx, run.mem.val, held.start, held.length)
        for k in range(held.start, held.start + held.length, LINE // 8):
            prefetch(run.own.at, np.int64(k))


@part
def renew(run, problem, slot):
    """A sample held is seen as the present iterate has it."""
    it, own, s = run.it, run.own, run.state[0]
    held, x = run.mem.held[slot], memory.row_of(run.mem, slot)
    margin = memory.margin_of(it, run.mem, s, slot)
    z = margin + s.intercept
    alpha = memory.loss_derivative(problem.loss, held.y, z)
    h = curvature(s, problem.loss, held.y, z, memory.loss_value(problem.loss, held.y, z), alpha)
    s.n_gradients += 1
    if problem.failed[0] != 0 or not can_square(held.weight * alpha, held.largest):
        return
    curve = pairwise.trusted(h, held.largest, problem.region.p)
    old_alpha, old, c = held.alpha, own.curves[slot], own.counts[slot]
    model, before = pairwise.moved(it, own, s, x)
    pairwise.note_curvature(s, curve, margin - before - (s.offset - own.offsets[slot]), model)
    held.alpha = alpha
    own.curves[slot], own.offsets[slot] = curve, s.offset
    change = pairwise.Change(
        c * (alpha - old_alpha), (c * c) * (alpha * alpha - old_alpha * old_alpha), c * curve, c * old, False
    )
    pairwise.add(it, own, s, problem.region, x, change)


@jit
def iterate(bound, count):
    """``count`` steps on a memory that holds the whole data set."""
    whole = opened(bound)
    run, problem = whole.own.models[0], whole.problem
    for _ in range(count):
        renew(run, problem, draw(run))
        pairwise.step(run.it, run.own, run.state[0], problem.region)


@part
def shown_margin(run, x):
    """<x, w> of the point shown."""
    s = run.state[0]
    return memory.dot_with(run.own.mix.v, x) if s.mixes else s.w_scale * memory.dot_with(run.it.v, x)


@part
def asked_margin(run, rows, i):
    """The same of the values that row i is predicted with."""
    s = run.state[0]
    margin = memory.asked_margin(run.own.mix.v if s.mixes else run.it.v, rows, i)
    return margin if s.mixes else s.w_scale * margin


@part
def look_with(run, model, x, k, shown):
    """A sample as one of the models sees it; a status."""
    s, problem, seen = model.state[0], run.problem, run.own.mix.seen[k]
    if k == 0 and run.state[0].mixes == 0:
        seen.margin, seen.prediction, seen.alpha, seen.loss = shown.margin, shown.prediction, shown.alpha, shown.loss
    else:
        seen.margin = s.w_scale * memory.dot_with(model.it.v, x)
        seen.prediction = seen.margin + s.intercept
        seen.alpha = memory.loss_derivative(problem.loss, shown.y, seen.prediction)
        seen.loss = memory.loss_value(problem.loss, shown.y, seen.prediction)
    if not can_square(s.weight * seen.alpha, shown.largest):
        return TOO_LARGE
    if s.drawn + s.steps > model.draws.noise.size:
        return NEED_NOISE
    return NEED_POOL if memory.room(model.mem, s, x.stop - x.start) < 0 else OK


@part
def learn_with(run, model, x, k, look):
    """One of the models learns a sample that it has looked at."""
    s, problem, mine = model.state[0], run.problem, run.own.mix.seen[k]
    entries = x.stop - x.start
    seen = memory.Look(OK, look.y, mine.margin, mine.prediction, mine.alpha, mine.loss, look.largest)
    at = memory.room(model.mem, s, entries)
    memory.count(s, seen)
    enter(model, problem, x, at, seen)
    s.intercept_h /= s.growth
    memory.fit_intercept(s, problem.loss, memory.weighed(seen, s.weight))
    mine.loss *= s.weight  # what models are compared by
    steps = looks(s, entries)
    ask_rows(model, steps - 1)
    for step in range(steps):
        if step > 0:
            renew(model, problem, draw(model))
        if step + 1 < steps:
            ask(model, memory.row_of(model.mem, drawn(model, 0)))
        pairwise.step(model.it, model.own, s, problem.region)


@part
def replace_those_behind(run):
    """Models that a faster one has left behind become what that one is, the fastest first."""
    models, mix = run.own.models, run.own.mix
    for k in range(mix.omega.size - 2, -1, -1):
        if mixing.is_behind(mix, k, 1.0 / (1.0 - 1.0 / models[k + 1].state[0].growth)):
            mixing.take_over(models[k], models[k + 1])


@jit
def learn(bound, bound_rows, first, last):
    """A step of each model for each row; stops before one that needs room or randomness, or that is refused."""
    run, rows = opened(bound), opened(bound_rows)
    models, mix, s, problem = run.own.models, run.own.mix, run.state[0], run.problem
    count = mix.omega.size
    for i in range(first, last):
        x = memory.row_at(rows, i)
        intercept = s.mixed_intercept if s.mixes else s.intercept
        if rows.asked.size > 0 and not memory.answer(rows, i, asked_margin(run, rows, i) + intercept):
            return TOO_LARGE
        shown = memory.judge(problem, rows, i, shown_margin(run, x), intercept)
        if shown.status != OK:
            return shown.status
        if not can_square(s.weight * shown.alpha, shown.largest):
            return TOO_LARGE
        for k in range(count):
            ask(models[k], x)
        for k in range(count):
            status = look_with(run, models[k], x, k, shown)
            if problem.failed[0] != 0:
                return FAILED
            if status != OK:
                return status
        if s.crowded != 0:
            return NEED_NAMES
        bend = curvature(s, problem.loss, shown.y, shown.prediction, shown.loss, shown.alpha)
        lost = s.loss_sum + shown.loss
        for k in range(count):
            learn_with(run, models[k], x, k, shown)
        s.prediction, s.loss, s.loss_sum = shown.prediction, shown.loss, lost
        memory.note(s, rows, i)
        if count > 1:
            mixing.observe(mix, s.weight * shown.alpha, s.weight * bend)
            replace_those_behind(run)
            if s.mixes or mix.omega[0] < 1.0:
                show(run)
    return OK


@dataclasses.dataclass(eq=False, repr=False)
class StochasticPairwiseFW(Optimizer):
    r"""Stochastic pairwise Frank-Wolfe on a quadratic memory: several coordinates a sample, each to its best place.

    Every sample learned is remembered by its derivative :math:`\alpha_i` and a curvature :math:`h_i` at the iterate
    :math:`w^i` that last looked at it. Their sum over *all* samples, with the diagonal of the curvature alone, is a
    model of the objective that takes four numbers a feature, however many samples there were:

    .. math::
        F(w) = \sum_i \alpha_i \langle x_i, w - w^i \rangle
               + \frac{h_i}{2} \sum_j x_{ij}^2 (w_j - w^i_j)^2
               + c \sqrt{\log (1 + d)} \sum_j |w_j| \sqrt{\textstyle\sum_i \alpha_i^2 x_{ij}^2}.

    The newest sample enters at once. Then follow ``steps_per_sample`` steps; before each but the first, one of the last
    ``memory`` samples, drawn at random, is looked at again, and its part of F made anew. A step picks the atom along
    which F promises most and goes there by Newton's step: a coordinate alone where the set has room, otherwise at the
    cost of the atom that is best given up (a pairwise step; a drop step where nothing of it is left). On the simplex
    every step is a pairwise one. In the l2 ball a step may be scaled back to the sphere, whose multiplier joins F.

    Nothing is tuned. How far a step may go is measured: when a sample is looked at again, the curvature seen along the
    steps since is compared with the diagonal's, and steps are divided by the ratio (it is about 1 where features are
    independent, 2 to 6 on text). The last term of F is what keeps a large set from being overfitted: a slope within
    some standard errors of 0, the more the more features there are to err by, is noise, and its feature stays out. Its
    weight in the mean falls like :math:`n^{-1/2}`.

    Features that come together because none of them is ever far from its mean cost nothing where an intercept is
    fitted: a step along a feature is one along the feature less its mean, what it adds to every prediction taken from
    the intercept (one more sum a feature, :math:`\sum_i h_i x_{ij}`; sparse rows stay sparse). Means within two
    standard errors of 0 count as 0. Where samples fade this is left out: there a mean is not told from a trend.

    Streams change: suddenly, gradually, again and again, by a slope that never stops. So, online, two more such models
    learn beside this one, in whose sums a sample counts :math:`e^{-1/64}` and :math:`e^{-1/16}` of the next (nearly:
    1 - 1/64 and 1 - 1/16). Of theirs the last term of F counts 1 - (share of the weights that are not 0)^8: where every
    weight moves, none is held back. What predicts is a convex combination of the three points, which lies in the set.
    Its weights minimise, on the simplex, a quadratic model of the loss that they would have had on the last hundred
    samples, in which weight leaves the model that remembers only for what is gained beyond noise. On a stream that
    stays the same that is nothing: all weight is on one model, and the others cost time alone. A model that loses more
    than the next faster one, by five standard errors of the difference within the last eight of that one's windows,
    becomes a copy of it: after a sudden change the model that remembers begins anew with what the others have learned
    since, and on a slow one its memory is cut again and again to about what still holds.

    When to use it: online, on one pass, on balls of norm 1, 2 or infinity, boxes and simplices: it is the default of
    the estimators there. For guarantees on a finite sum see :class:`SFW`; where no sample may be kept,
    :class:`OneSampleFW`.

    Parameters
    ----------
    memory
        Samples that can be looked at again, >= 1. What older ones said stays in F.
    steps_per_sample
        Steps for each sample, >= 1: what learning a sample costs is nearly proportional to it. By default as many as
        look at 300 entries, but at least 4 and at most 16: samples of few features are cheap to look at again.
    significance
        c, in standard errors of a slope, >= 0; in the probability simplex, where every point has the same norm, it
        plays no part.
    window
        Samples after which a sample counts 1/e of what it did, > 1; None lets it count for ever.
    forgetting
        Whether the two models that forget learn beside this one. Offline they never do.

    Raises
    ------
    ValueError
        For parameters out of range, and for sets whose points have no coordinates to move (matrices, groups, hulls).

    Notes
    -----
    Cost: ``steps_per_sample`` times the non-zeros of a sample (its margin, four sums and a key for each) and the scan
    of d / 65536 maxima; a pairwise step looks at 64 non-zeros of w, in turns, for the atom to leave. An intercept makes
    it 1.1 to 1.5 times as long, by the means of features: most where all features are non-zero. The models that
    forget take two steps a sample each, which makes it 1.2 to 2 times as long; while they have weight, the non-zeros of
    w are added up besides (all coordinates of a box). The gap is that of F without its last term (of a mixture, of the
    models' mean F at its point) and costs O(d) when it is asked for. It says how far this model is from its own best
    point, and is no bound of the gap of the mean loss, which is often ten times as large and, where features differ
    much in scale, larger by orders of magnitude: see :class:`fwonline.monitors.Gap`.

    Offline (:meth:`minimize`) c is 0: the mean loss itself is minimised. The model is then that of a coordinate
    Newton method with stale derivatives, and no rate is proved here: on smooth losses gaps of 1e-10 are usual where the
    set hardly binds, but in a small ball it may stay at 1e-2, since it asks each coordinate where it would go alone.
    For such a problem take :class:`PairwiseFW`.

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
    .. [4] S. Bach, M. Maloof, `Paired Learners for Concept Drift <https://doi.org/10.1109/ICDM.2008.119>`_, ICDM 2008
       (a model that a faster one has left behind is replaced by it).

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

    memory: int = 1000
    steps_per_sample: int | None = None
    significance: float = 0.3
    window: float | None = None
    forgetting: bool = True

    _default_schedule = Power(a=1.0)  # steps are Newton's on the model; a run asks for a schedule all the same
    _run_class = StochasticPairwiseRun
    _takes_weights = True
    _learn = staticmethod(learn)
    _iterate = staticmethod(iterate)
    _unbounded = sets.L1Ball

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.significance < math.inf:
            raise ValueError(f"significance must be a finite number >= 0, got {self.significance!r}")
        if self.window is not None and not 1.0 < self.window < math.inf:
            raise ValueError(f"window must be a number of samples > 1, or None, got {self.window!r}")


def default_optimizer(constraint: sets.ConvexSet | None) -> Optimizer:
    """What the estimators use when told nothing: this one where it can, and elsewhere what keeps no samples."""
    is_generic = constraint is not None and region_of(constraint).kind == GENERIC
    return OneSampleFW() if is_generic else StochasticPairwiseFW()
