"""Stochastic pairwise Frank-Wolfe on a quadratic memory: the default of the linear estimators."""

from __future__ import annotations

import copy
import math
import typing

import numpy as np
from river import base, drift

from fwonline import _loaded
from fwonline._kernels import coordinates, memory, pairwise
from fwonline._kernels.entry import call, opened
from fwonline._kernels.layout import (
    GENERIC,
    L2,
    LARGEST,
    NEED_LOOK,
    NEED_POOL,
    OK,
    SIMPLEX,
    TOO_LARGE,
    jit,
    part,
)
from fwonline.optim.base import Optimizer, check_count
from fwonline.optim.online.one_sample import OneSampleFW
from fwonline.optim.runs import checks
from fwonline.optim.runs.kept import Kept
from fwonline.optim.runs.native import region_of
from fwonline.optim.runs.run import Run
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
    """Samples held that were learned since the last drift."""
    return min(s.live, s.seen - s.forgotten) if s.seen > 0 else s.live


@part
def slot_of(s, age, slots):
    """Where the sample learned ``age`` samples before the newest is held."""
    return (s.seen - 1 - age) % slots


@part
def enter(run, x, at, seen):
    """The newest sample takes the oldest one's place, whose contribution stays as it was last seen."""
    mem, own, s, problem = run.mem, run.own, run.state[0], run.problem
    h = curvature(s, problem.loss, seen.y, seen.prediction, seen.loss, seen.alpha)
    s.penalty = s.significance * math.sqrt(math.log(1.0 + s.d))
    slot = (s.seen - 1) % mem.held.size
    if s.live == mem.held.size:
        s.live -= 1
    memory.store(mem, s, slot, at, x, seen)
    own.curves[slot] = pairwise.trusted(h, seen.largest, problem.region.p)
    change = pairwise.Change(seen.alpha, seen.alpha * seen.alpha, own.curves[slot], 0.0)
    pairwise.add(run.it, own, s, problem.region, memory.row_of(mem, slot), change)
    s.n_gradients += 1
    s.u_scale = 1.0 / max(s.seen - s.forgotten, 1)


@part
def draw(run):
    """A slot of those held, uniformly."""
    s = run.state[0]
    age = np.int64(run.draws.noise[s.drawn] * usable(s))
    s.drawn += 1
    return slot_of(s, age, run.mem.held.size)


@part
def renew(run, slot):
    """A sample held is seen as the present iterate has it."""
    it, own, s, problem = run.it, run.own, run.state[0], run.problem
    held, x = run.mem.held[slot], memory.row_of(run.mem, slot)
    margin = memory.margin_of(it, run.mem, s, slot)
    z = margin + s.intercept
    alpha = memory.loss_derivative(problem.loss, held.y, z)
    h = curvature(s, problem.loss, held.y, z, memory.loss_value(problem.loss, held.y, z), alpha)
    s.n_gradients += 1
    if problem.failed[0] != 0 or not can_square(alpha, held.largest):
        return
    curve = pairwise.trusted(h, held.largest, problem.region.p)
    old_alpha, old = held.alpha, own.curves[slot]
    model, before = pairwise.moved(it, own, s, x)
    pairwise.note_curvature(s, curve, margin - before, model)
    held.alpha = alpha
    own.curves[slot] = curve
    change = pairwise.Change(alpha - old_alpha, alpha * alpha - old_alpha * old_alpha, curve, old)
    pairwise.add(it, own, s, problem.region, x, change)


@jit
def iterate(bound, count):
    """``count`` steps on a memory that holds the whole data set."""
    run = opened(bound)
    for _ in range(count):
        renew(run, draw(run))
        pairwise.step(run.it, run.own, run.state[0], run.problem.region)


@jit
def learn(bound, bound_rows, first, last):
    """The same as samples come; stops before a row that needs room, randomness or a look, or that is refused."""
    run, rows = opened(bound), opened(bound_rows)
    it, mem, own, s, problem = run.it, run.mem, run.own, run.state[0], run.problem
    for i in range(first, last):
        seen = memory.look(it, s, problem, rows, i)
        if seen.status != OK:
            return seen.status
        if not can_square(seen.alpha, seen.largest):
            return TOO_LARGE
        if s.seen >= LOOK * (s.watched + 1):
            return NEED_LOOK
        status = memory.is_ready(s, run.draws.noise, s.steps)
        if status != OK:
            return status
        x = memory.row_at(rows, i)
        at = memory.room(mem, s, x.stop - x.start)
        if at < 0:
            return NEED_POOL
        memory.play(s, seen)
        own.recent[(s.seen - 1) % RECENT] = seen.loss
        enter(run, x, at, seen)
        memory.fit_intercept(s, problem.loss, seen)
        for k in range(looks(s, x.stop - x.start)):
            if k > 0:
                renew(run, draw(run))
            pairwise.step(it, own, s, problem.region)
    return OK


@jit
def renew_newest(run, count):
    """Every one of the newest ``count`` samples, once."""
    for age in range(count):
        renew(run, slot_of(run.state[0], age, run.mem.held.size))


def _since_change(x: NDArray[np.float64]) -> int:
    """Samples since the mean of x changed: the split, between two blocks, of least squares."""
    sums = np.cumsum(x[::-1])
    newest = np.arange(LOOK, x.size, LOOK)
    new, old = sums[newest - 1] / newest, (sums[-1] - sums[newest - 1]) / (x.size - newest)
    return int(newest[np.argmax((new - old) ** 2 * newest * (x.size - newest))]) if newest.size else x.size


class StochasticPairwiseRun(Run):
    _holds_samples = True
    _own = pairwise.Quadratic
    _kept: typing.ClassVar[dict[str, Kept]] = {
        "sums": Kept("feature", columns=4),
        "active": Kept("list"),
        "place": Kept("place"),
        "at": Kept("entry"),
        "curves": Kept("sample"),
        "recent": Kept("fixed", size=RECENT),
    }
    _decided = (*Run._decided, "entries", "significance")
    _within: typing.ClassVar[dict[str, tuple[float, float]]] = dict.fromkeys(
        ("penalty", "curvature_seen", "curvature_model", "pull"), (0.0, checks.HUGE)
    )
    _most_contribution = LARGEST
    _key_kind = SIMPLEX
    gap_is_kept = False

    def __init__(self, optimizer: StochasticPairwiseFW, *args: typing.Any, **kwargs: typing.Any):
        super().__init__(optimizer, *args, **kwargs)
        if self.region.kind == GENERIC:
            raise ValueError(
                f"{type(optimizer).__name__} moves coordinates, which {self.constraint} does not have; "
                "expected a ball of norm 1, 2 or infinity, a box or a simplex"
            )
        self.detector = (drift.ADWIN(**_WATCH) if optimizer.detector is None else optimizer.detector).clone()
        self.s.steps = optimizer.steps_per_sample or MOST
        self.s.entries = 0 if optimizer.steps_per_sample else BUDGET
        self.s.significance = optimizer.significance

    def __getstate__(self) -> dict:
        return {**super().__getstate__(), "detector": self.detector}

    def _restore(self, state: dict) -> None:
        super()._restore(state)
        self.detector = state["detector"]

    @property
    def _lists_nonzeros(self) -> bool:
        return self.region.kind <= L2

    def _check_own(self) -> None:
        super()._check_own()
        s = self.s
        checks.bounded(self, "forgotten", 0, s.seen)
        checks.bounded(self, "watched", max(0, s.seen // LOOK - 1), s.seen // LOOK)  # it has seen all but the newest
        checks.bounded(self, "rotor", 0, max(0, self.it.v.size - 1))
        checks.bounded(self, "since", 0, pairwise.PERIOD)
        _loaded.require(self, "curves", bool((self.own.curves >= 0.0).all()), "curvatures >= 0")
        checks.check_listed(self)
        if self._lists_nonzeros:
            w = s.w_scale * self.it.v[: self.n_features]
            held = np.flatnonzero(w)
            all_listed = held.size == s.nonzeros and bool((self.own.place[held] >= 0).all())
            _loaded.require(self, "active", all_listed, "all coordinates that are not zero, and no others")
            size = float(w @ w if self.region.kind == L2 else np.abs(w).sum())
            slack = 1e-6 * max(1.0, self.region.p) ** 2
            checks.bounded(self, "size", size - slack, size + slack)
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

    def _measure(self) -> None:
        pairwise.measure(self.it, self.own, self.state[0], self.region)

    def _taken_out(self, new, holes, movers) -> None:
        super()._taken_out(new, holes, movers)
        if self.region.kind == L2:
            self._measure()

    # --- online -----------------------------------------------------------------------------------------------

    def _provide(self, status: int, need: int) -> None:
        if status == NEED_LOOK:
            self._watch()
        else:
            super()._provide(status, need)

    def _watch(self) -> None:
        """Show the detector the last losses, each between 0 and 1 on the scale of the usual one."""
        s = self.s
        usual = s.loss_sum / max(s.seen, 1)
        s.watched += 1
        before = getattr(self.detector, "estimation", -math.inf)
        last = self.own.recent[np.arange(max(s.seen - RECENT, 0), s.seen) % RECENT]
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
        s, d = self.s, self.n_features
        keep = min(keep, s.live)
        s.forgotten = s.seen - keep
        self.own.sums[:d] = 0.0
        self.it.u[:d] = 0.0
        coordinates.rebuild(self.it, SIMPLEX, d)
        self.own.curves[:] = 0.0
        self.mem.held["alpha"] = 0.0
        renew_newest(self.view, keep)
        self.native.check()
        s.u_scale = 1.0 / max(keep, 1)

    # --- offline ----------------------------------------------------------------------------------------------

    def offline(self, rows) -> None:
        super().offline(rows)
        self.s.significance = 0.0  # the mean loss itself is minimised

    def set_weights(self, x0) -> None:
        super().set_weights(x0)
        if self._lists_nonzeros:
            self._list_nonzeros()
            self._measure()

    # --- what is read -----------------------------------------------------------------------------------------

    @property
    def gap(self) -> float:
        """The Frank-Wolfe gap of the quadratic model, without its penalty: O(d), when asked. No bound of the loss's."""
        d = self.n_features
        if not self.s.t or not d:
            return math.nan
        r, _, h, b = self.own.sums[:d].T
        return self.gap_along(self.s.u_scale * (r + h * (self.s.w_scale * self.it.v[:d]) - b))


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
    weight in the mean falls like :math:`n^{-1/2}`. A drift detector watches the losses; when it says that they have
    risen, F is made anew from the samples since.

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
    Cost: ``steps_per_sample`` times the non-zeros of a sample (its margin, four sums and a key for each) and the scan
    of d / 65536 maxima; a pairwise step looks at 64 non-zeros of w, in turns, for the atom to leave. 15 us a sample
    on documents of 75 words with 47,000 features. The gap is that of F without its last term, and costs O(d) when it
    is asked for. It says how far this model is from its own best point, and is no bound of the gap of the mean loss,
    which is often ten times as large and, where features differ much in scale, larger by orders of magnitude: see
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
    _learn = staticmethod(learn)
    _iterate = staticmethod(iterate)

    def __init__(
        self,
        memory: int = 1000,
        steps_per_sample: int | None = None,
        significance: float = 0.3,
        detector: base.DriftDetector | None = None,
    ):
        check_count("memory", memory)
        if steps_per_sample is not None:
            check_count("steps_per_sample", steps_per_sample)
        if not 0.0 <= significance < math.inf:
            raise ValueError(f"significance must be a finite number >= 0, got {significance!r}")
        self.memory = memory
        self.steps_per_sample = steps_per_sample
        self.significance = significance
        self.detector = detector

    def _schedule(self) -> Schedule:
        return _NO_SCHEDULE


def default_optimizer(constraint: ConvexSet) -> Optimizer:
    """What the estimators use when told nothing: this one where it can, and elsewhere what keeps no samples."""
    return OneSampleFW() if region_of(constraint).kind == GENERIC else StochasticPairwiseFW()


# Steps are Newton's on the model; a run asks for a schedule all the same.
_NO_SCHEDULE = Power(a=1.0)
# ADWIN, looking after every block.
_WATCH = {"clock": LOOK, "grace_period": LOOK}
