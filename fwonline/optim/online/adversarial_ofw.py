"""Online Frank-Wolfe on the regularised sum of gradients, for losses that may be anything (Hazan 2016, chapter 7)."""

from __future__ import annotations

import dataclasses
import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import coordinates, memory, steps
from fwonline._kernels.entry import opened
from fwonline._kernels.layout import GENERIC, OK, jit, part
from fwonline._kernels.pairwise import list_coordinate
from fwonline.optim.base import Optimizer
from fwonline.optim.online import regret
from fwonline.optim.runs import checks
from fwonline.optim.runs.kept import Kept
from fwonline.optim.runs.method import RegretMethod, SumRun
from fwonline.optim.runs.run import Run
from fwonline.optim.schedules import Power, Schedule

__all__ = ["AdversarialOFW"]


class Sums(typing.NamedTuple):
    """w_1, the sum of gradients, and the list of coordinates where w or w_1 is not zero."""

    anchor: np.ndarray
    total: np.ndarray
    active: np.ndarray
    place: np.ndarray


@part
def pull(s):
    """2 / eta_t = 4 G T^(3/4) / D: how the regulariser ||w - w_1||^2 weighs against the sum of gradients."""
    rounds = s.horizon if s.horizon > 0.0 else s.t + 1.0
    return 4.0 * rounds**0.75 * (s.steepest / s.diameter) if s.diameter > 0.0 else 0.0


@part
def regularise(it, own, s, region):
    """u = sum of gradients + 2 / eta_t (w - w_1): O(support) where atoms are coordinates, O(d) elsewhere."""
    c = pull(s)
    s.u_scale = 1.0 / (s.t + 1.0)
    if not steps.is_sparse(region):
        for j in range(s.d):
            it.u[j] = own.total[j] + c * (it.v[j] - own.anchor[j])
        return
    dot = 0.0
    square = 0.0
    for k in range(s.nonzeros):
        j = own.active[k]
        w = s.w_scale * it.v[j]
        new = own.total[j] + c * (w - own.anchor[j])
        it.u[j] = new
        dot += new * w
        square += w * w
        key = coordinates.key(region.kind, new)
        if key > it.bound[np.uint32(j) >> np.uint32(coordinates.BLOCK_SHIFT)]:
            coordinates.raise_bounds(it, j, key)
    s.dot = dot
    s.w_sq = square


@part
def norm(x, largest):
    """||x||, without overflow; the sum compensated, so that the order of the entries does not show in it."""
    if largest == 0.0:
        return 0.0
    total = lost = 0.0
    for k in range(x.start, x.stop):
        share = x.val[k] / largest
        p = share * share
        t = total + p
        back = t - total
        lost += (total - (t - back)) + (p - back)
        total = t
    return largest * np.sqrt(total + lost)


@part
def enter(it, own, s, region, x, seen):
    """One more gradient in the sum, and in u where the sum is all that there is."""
    alpha = seen.alpha * regret.shortened(s, abs(seen.alpha) * norm(x, seen.largest))
    if alpha != 0.0:
        for k in range(x.start, x.stop):
            own.total[x.idx[k]] += alpha * x.val[k]
        if steps.is_sparse(region):
            coordinates.add_row(it, region.kind, x, alpha)
    s.n_gradients += 1


@part
def begin(it, own, s, region):
    """w_1 = lmo(u), u the first gradient."""
    if not steps.is_sparse(region):
        for j in range(s.d):
            it.u[j] = own.total[j]
    steps.direction(it, s, region)
    steps.advance(it, s, region, 1.0)
    if not steps.is_sparse(region):
        for j in range(s.d):
            own.anchor[j] = it.v[j]
    elif s.index >= 0:
        own.anchor[s.index] = it.v[s.index]
        list_coordinate(own, s, s.index)


@part
def has_direction(it, s, region):
    """Whether one point of the set is better than another; compiled oracles see for themselves."""
    if region.kind != GENERIC:
        return True
    for j in range(s.d):  # noqa: SIM110  numba has no generators
        if it.u[j] != 0.0:
            return True
    return False


@jit
def learn(bound, bound_rows, first, last):
    run, rows = opened(bound), opened(bound_rows)
    it, own, s, problem = run.it, run.own, run.state[0], run.problem
    region = problem.region
    for i in range(first, last):
        seen = memory.look(it, s, problem, rows, i)
        if seen.status != OK:
            return seen.status
        status = memory.is_ready(s, run.draws.noise, 0)
        if status != OK:
            return status
        x = memory.row_at(rows, i)
        memory.play(s, seen, rows, i)
        memory.fit_intercept(s, problem.loss, seen)
        if regret.is_outside(s, region):
            enter(it, own, s, region, x, seen)
            if s.d > 0:
                begin(it, own, s, region)
            continue
        regularise(it, own, s, region)
        if has_direction(it, s, region):
            steps.move(it, s, problem)
        else:
            s.t += 1  # the point held is kept
        if steps.is_sparse(region) and s.index >= 0 and s.d > 0:
            list_coordinate(own, s, s.index)
        enter(it, own, s, region, x, seen)
    return OK


class AdversarialRun(Run):
    _own = Sums
    _kept: typing.ClassVar[dict[str, Kept]] = {
        "anchor": Kept("feature", is_point=True, follows=True),
        "total": Kept("feature"),
        "active": Kept("list"),
        "place": Kept("place"),
    }
    _decided = (*Run._decided, "limit", "horizon")

    def __init__(self, optimizer: AdversarialOFW, *args: typing.Any, **kwargs: typing.Any):
        super().__init__(optimizer, *args, **kwargs)
        self.s.horizon = optimizer.horizon or 0.0
        regret.begin(self)

    def _features_changed(self) -> None:
        regret.measure(self)

    def _check_own(self) -> None:
        checks.check_listed(self)
        checks.bounded(self, "steepest", 0.0, min(self.s.limit, checks.HUGE))
        regret.measure(self)
        if self.is_sparse:  # where w or w_1 is not zero is listed, and perhaps where they were
            held = np.flatnonzero((self.it.v != 0.0) | (self.own.anchor != 0.0))
            good = bool((self.own.place[held] >= 0).all())
            _loaded.require(self, "active", good, "all coordinates that are not zero")

    def set_weights(self, x0) -> None:
        super().set_weights(x0)
        self.own.anchor[: self.n_features] = self.it.v[: self.n_features]
        self._list_nonzeros()


class AdversarialMethod(RegretMethod):
    """s_t = lmo(sum of gradients before this one + 2 / eta_t (w_t - w_1)), w_{t+1} = w_t + min(1, 2 t^-a) (s_t - w_t).

    2 / eta_t = 4 G T^(3/4) / D.
    """

    points: typing.ClassVar[tuple[str, ...]] = ("start",)
    vectors: typing.ClassVar[tuple[str, ...]] = ("total",)
    start: typing.Any
    total: typing.Any

    def step(self, run: SumRun) -> None:
        t = run.t
        if self.start is None:
            self.start, self.total = run.x.copy(), np.zeros(run.x.shape)
        newest = run.sum.gradient(run.x, run.next_samples(1))
        rounds = self.optimizer.horizon or t + 1.0
        pull = 4.0 * self.longest * rounds**0.75 / run.constraint.diameter(run.x.shape)
        r = (self.total + pull * (run.x - self.start)) / (t + 1.0)
        if r.any():
            run.frank_wolfe(r, self.optimizer._schedule(), t)
        else:
            run.note(0.0, 0.0)  # no point is better than another: the one held is kept
        self.total += self.shortened(newest)


@dataclasses.dataclass(eq=False, repr=False)
class AdversarialOFW(Optimizer):
    r"""Online Frank-Wolfe on a regularised sum of gradients, for losses that may be anything (Hazan 2016, chapter 7).

    Regularised follow-the-leader, one Frank-Wolfe step a round: it follows the gradients met, each at the point that
    was played, and a pull back to where it began (algorithm 27):

    .. math::
        s_t = \arg\min_{s \in C} \Big\langle \sum_{\tau < t} \nabla f_\tau(w_\tau) + \frac{2}{\eta_t} (w_t - w_1), s
        \Big\rangle, \qquad w_{t+1} = w_t + \min(1, 2 t^{-a}) (s_t - w_t), \qquad \eta_t = \frac{D}{2 G T^{3/4}},

    D the diameter of C, G the longest gradient met, T the ``horizon``, or t where that is not known. Where the origin
    is no point of C, :math:`w_1` is the atom of the first gradient.

    When to use it: where regret is what counts and losses may be anything, or where there are many features, since a
    round costs little and nothing is kept. Where losses are a sample of one distribution :class:`OFW` is better, on
    streams that drift :class:`AdaptiveOFW`.

    Parameters
    ----------
    a
        Exponent of the step, in (0, 1]; 1/2 is what the theorem asks for.
    horizon
        T, rounds to be played, >= 1, where that is known.
    gradient_bound
        G, > 0, where it is known: longer gradients are shortened to it. By default the longest one met.

    Notes
    -----
    Cost of a round: the non-zeros of the sample and of w on l1 balls and simplices, O(d) on other sets. ``gap`` is
    that of the regularised sum, and bounds nothing. Offline the rounds' samples come in passes over the data, each in
    an order of its own.

    The regret after T rounds is at most :math:`8 G D T^{3/4}` with ``horizon`` = T and a = 1/2 (Theorem 7.3), and
    :math:`O(T^{3/4})` with t in place of T.

    References
    ----------
    .. [1] E. Hazan, `Introduction to Online Convex Optimization <https://arxiv.org/abs/1909.05207>`_, 2016, chapter 7.

    Examples
    --------
    >>> from fwonline import linear_model, optim, sets
    >>> model = linear_model.FWRegressor(
    ...     sets.ProbabilitySimplex(), optim.AdversarialOFW(horizon=400), intercept=False
    ... )
    >>> for t in range(400):
    ...     x = {"a": t % 2, "b": t % 3, "c": 1.0}
    ...     model.learn_one(x, 0.5 * x["a"] + 0.5 * x["c"])
    >>> sum(model.weights.values())
    1.0
    """

    a: float = 0.5
    horizon: int | None = None
    gradient_bound: float | None = None

    _run_class = AdversarialRun
    _method_class = AdversarialMethod
    _learn = staticmethod(learn)

    def _schedule(self) -> Schedule:
        return Power(self.a, factor=2.0)
