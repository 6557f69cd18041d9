"""Online Frank-Wolfe for regret (Hazan, Kale 2012)."""

from __future__ import annotations

import dataclasses
import typing

import numpy as np
from river import optim as river_optim

from fwonline import _loaded
from fwonline._kernels import coordinates, memory, stream
from fwonline._kernels.entry import opened
from fwonline._kernels.layout import NEED_POOL, OK, TOO_LARGE, jit, part
from fwonline._kernels.state import HELD, Memory
from fwonline._kernels.steps import is_sparse
from fwonline.optim.base import Optimizer
from fwonline.optim.online.one_sample import OneSampleMethod, add_recursive
from fwonline.optim.runs.kept import PREVIOUS, Kept
from fwonline.optim.runs.method import SumRun
from fwonline.optim.runs.model_run import resized
from fwonline.optim.runs.run import Run
from fwonline.optim.runs.samples import Passes
from fwonline.optim.schedules import Power, Schedule

__all__ = ["OFW"]

# How the gradient of F_t is known.
STATISTICS, SAMPLES, RECURSION = 0, 1, 2


class Statistics(typing.NamedTuple):
    """The iterate before the last step; and the sums of x x^T, y x and x."""

    old: np.ndarray
    H: np.ndarray
    b: np.ndarray
    m: np.ndarray


@jit
def gradient_from_statistics(it, own, s, region):
    """u = H w + intercept m - b; 2 u / t is the gradient of the mean of (<x_i, w> + intercept - y_i)^2. O(d^2)."""
    u = it.u
    for j in range(s.d):
        u[j] = s.intercept * own.m[j] - own.b[j]
    for k in range(s.d):
        w = it.v[k] * s.w_scale
        if w != 0.0:
            for j in range(s.d):
                u[j] += w * own.H[k, j]
    finish_statistics(it, s, region)


@jit
def finish_statistics(it, s, region):
    """<u, w> and the bounds of u's blocks, after all of u has changed; O(d)."""
    dot = 0.0
    for j in range(s.d):
        dot += it.u[j] * it.v[j]
    s.dot = dot * s.w_scale
    if is_sparse(region) and s.d > 0:
        coordinates.rebuild(it, region.kind, s.d)


@jit
def enter_statistics(it, own, s, region, x, seen, intercept):
    """f_t joins the sums, and u follows: u += (prediction - y) x times the weight, and the intercept's move times m."""
    idx, val = x.idx, x.val
    for k in range(x.start, x.stop):
        i, value = idx[k], s.weight * val[k]
        for n in range(x.start, x.stop):
            own.H[i, idx[n]] += value * val[n]
        own.b[i] += seen.y * value
        it.u[i] += (seen.prediction - seen.y) * value
        own.m[i] += value
    change = s.intercept - intercept
    if change != 0.0:
        for j in range(s.d):
            it.u[j] += change * own.m[j]
    s.u_scale = 2.0 / s.seen
    finish_statistics(it, s, region)


@jit
def follow(it, own, s, region):
    """u at the iterate that a step has reached: O(d) after a coordinate atom, O(d^2) after a dense one."""
    gamma = s.gamma
    # Rounding fades with every step; taken anew every 2^12 steps or d, whichever is more, it never adds up.
    if not is_sparse(region) or gamma >= 1.0 or s.since == 0:
        gradient_from_statistics(it, own, s, region)
        return
    if s.index == -2:
        return
    j = s.index
    atom = s.atom if j >= 0 else 0.0
    for i in range(s.d):
        # u = H w + c: the part c = intercept m - b does not shrink with w
        c = s.intercept * own.m[i] - own.b[i]
        it.u[i] = (1.0 - gamma) * it.u[i] + gamma * (c + (atom * own.H[j, i] if j >= 0 else 0.0))
    finish_statistics(it, s, region)


@part
def may_go_on(run, x):
    """Whether there is room for a sample as the gradient is known now; a status, and where its entries go.

    Beyond its bounds ``mode`` changes: the caller lets go what was kept, and enters again.
    """
    mem, s = run.mem, run.state[0]
    at = np.int64(0)
    if s.mode == STATISTICS and s.d > run.own.b.size:
        s.mode = RECURSION
        s.gamma = 0.0  # u is the gradient at the present iterate, not at the one before
        return NEED_POOL, at
    if s.mode == SAMPLES:
        if s.live == mem.held.size:
            s.mode = RECURSION
            return NEED_POOL, at
        at = memory.room(mem, s, x.stop - x.start)
        if at < 0:
            return NEED_POOL, at
    return OK, at


@part
def enter_sample(run, x, at, seen):
    """One more sample is remembered; all derivatives are taken at the present iterate."""
    it, mem, s, region = run.it, run.mem, run.state[0], run.problem.region
    memory.store(mem, s, s.live, at, x, seen)
    memory.add_sample(it, s, region, x, seen.alpha, seen.margin)
    s.u_scale = 1.0 / s.live
    memory.renew_batch(run, 0, s.live, 1.0)
    memory.bound_rounding(it, mem, s, region)


@jit
def learn(bound, bound_rows, first, last):
    run, rows = opened(bound), opened(bound_rows)
    it, own, s, problem = run.it, run.own, run.state[0], run.problem
    region = problem.region
    for i in range(first, last):
        seen = memory.look(it, s, problem, rows, i)
        if seen.status != OK:
            return seen.status
        x = memory.row_at(rows, i)
        old_alpha = 0.0
        if s.mode == RECURSION:
            old_alpha = stream.old_derivative(own.old, s, problem, x, seen.y, seen.margin)
            if not memory.can_sum(old_alpha, seen.largest):
                return TOO_LARGE
        status = memory.is_ready(s, run.draws.noise, 0)
        if status != OK:
            return status
        status, at = may_go_on(run, x)
        if status != OK:
            return status
        memory.play(s, seen, rows, i)
        intercept = s.intercept
        memory.fit_intercept(s, problem.loss, seen)
        if s.mode == STATISTICS:
            enter_statistics(it, own, s, region, x, seen, intercept)
            s.n_gradients += 1
        elif s.mode == SAMPLES:
            enter_sample(run, x, at, seen)
        else:
            add_recursive(it, s, region, x, seen, old_alpha)
        s.n_exact += s.mode != RECURSION
        stream.move_remembering(it, own.old, s, problem)
        if s.mode == STATISTICS:
            follow(it, own, s, region)
    return OK


class OFWRun(Run):
    _holds_samples = True
    _own = Statistics
    _kept: typing.ClassVar[dict[str, Kept]] = {
        **PREVIOUS,
        "H": Kept("matrix"),
        "b": Kept("statistic"),
        "m": Kept("statistic"),
    }
    _decided = (*Run._decided, *stream.RHO)

    def __init__(self, optimizer: OFW, *args: typing.Any, **kwargs: typing.Any):
        super().__init__(optimizer, *args, **kwargs)
        squared = type(self.loss) is river_optim.losses.Squared
        self.s.mode = STATISTICS if squared else SAMPLES
        if squared:
            self._forget()
        else:
            self.draws = self.draws._replace(batch=np.arange(optimizer.memory))
        # The recursion's noise is of order gamma^2 / rho: rho_t = gamma_t = t^-a, as in ORGFW, balances it with what
        # the newest sample brings. With rho_t = 1 / t, the weight of a mean, it would not fade.
        self.s.rho_a, self.s.rho_b, self.s.rho_c = 1.0, 1.0, optimizer.a
        self._bind()

    def _check_own(self) -> None:
        mode = self.s.mode
        modes = (self._new_alike().s.mode, RECURSION)
        _loaded.require(self, "mode", mode in modes, f"one of {modes}")
        super()._check_own()
        d = min(self.it.v.size, self.optimizer.max_features) if mode == STATISTICS else 0
        n = self.n_features
        for name, shape in (("H", (d, d)), ("b", (d,)), ("m", (d,))):
            sums = getattr(self.own, name)
            good = sums.shape == shape and (np.abs(sums) <= 1e250).all() and not sums[n:].any()
            _loaded.require(self, name, bool(good) and (sums.ndim == 1 or not sums[:, n:].any()), "sums over features")
        if mode == SAMPLES:
            everyone = np.arange(self.capacity)
            _loaded.require(self, "batch", np.array_equal(self.draws.batch, everyone), "all samples, in their order")
            _loaded.require(self, "held", self.mem.held.size == self.capacity, f"room for {self.capacity} samples")
        elif self.s.seen:
            _loaded.require(self, "held", self.mem.held.size == 1, "no samples")

    def _slots(self) -> tuple[int, ...]:
        return (self.capacity, 1)

    def _resize(self, capacity: int) -> None:
        super()._resize(capacity)
        d = min(capacity, self.optimizer.max_features)
        if self.s.mode == STATISTICS and len(self.own.H) < d:
            H = np.zeros((d, d))
            H[: len(self.own.H), : len(self.own.H)] = self.own.H
            self.own = self.own._replace(H=H, b=resized(self.own.b, d), m=resized(self.own.m, d))

    def _taken_out(self, new, holes, movers) -> None:
        super()._taken_out(new, holes, movers)
        H, b, m = self.own.H, self.own.b, self.own.m
        if self.s.mode != STATISTICS or self.n_features > len(b):
            return
        # Beyond the statistics stand only features of the sample that is on its way in.
        stays = movers < len(b)
        for to, source in ((holes[stays], movers[stays]), (holes[~stays], None)):
            for array in (H, H.T, b, m):
                array[to] = 0.0 if source is None else array[source]
        for array in (H, H.T, b, m):
            array[self.n_features : new.size] = 0.0
        gradient_from_statistics(self.it, self.own, self.state[0], self.region)

    def _forget(self) -> None:
        self.own = self.own._replace(H=np.zeros((0, 0)), b=np.zeros(0), m=np.zeros(0))
        self.mem = Memory(np.zeros(1, HELD), np.zeros(0, np.uint32), np.zeros(0))
        self.draws = self.draws._replace(batch=np.zeros(1, dtype=np.int64))
        self.s.live = self.s.head = 0
        self._bind()

    def _make_room(self, need: int) -> None:
        if self.s.mode == RECURSION:
            self._forget()
        else:
            super()._make_room(need)

    def offline(self, rows) -> None:
        self._passes = Passes(rows, self.rng)

    def exact_gap(self) -> float | None:
        """The gap of F_t at the present iterate while it is exact, otherwise None."""
        s, d = self.s, self.n_features
        if s.mode == SAMPLES:
            return super().exact_gap()
        if s.mode == RECURSION or not s.seen:
            return None
        own = self.own
        return self.gap_along(2.0 / s.seen * (own.H[:d, :d] @ self.weights + s.intercept * own.m[:d] - own.b[:d]))


class OFWMethod(OneSampleMethod):
    """The same steps on matrices: the exact gradient of F_t while the memory holds all, then one sample each."""

    def __init__(self, optimizer: OFW):
        super().__init__(optimizer)
        self.plays: list[int] = []  # offline: the samples of F_t

    def check(self, run):
        super().check(run)
        self.plays = []

    def step(self, run: SumRun) -> None:
        if run.t == self.optimizer.memory:
            run.s.mode, self.plays = RECURSION, []
        if run.s.mode == RECURSION:
            self.recurse(run, self.optimizer.a)
            return
        newest = run.next_samples(1)
        if run.is_online:
            self.d = run.sum.gradient(run.x)
        else:
            self.plays.extend(newest.tolist())
            self.d = run.sum.gradient(run.x, np.array(self.plays))
            run.count_gradients(0, exact=True)  # of F_t, whose samples these are
        self.old = run.x.copy()
        run.frank_wolfe(self.d, self.optimizer._schedule(), run.t)


@dataclasses.dataclass(eq=False, repr=False)
class OFW(Optimizer):
    r"""Online Frank-Wolfe (Hazan, Kale 2012): plays a point, sees its loss, follows the mean of all losses seen.

    In round t it plays :math:`w_t`, sees :math:`f_t`, and with :math:`F_t = \frac1t \sum_{\tau \le t} f_\tau` steps

    .. math::
        s_t = \arg\min_{s \in C} \langle \nabla F_t(w_t), s \rangle, \qquad
        w_{t+1} = w_t + t^{-a} (s_t - w_t).

    How the gradient of the mean is known:

    - for ``river.optim.losses.Squared`` and at most ``max_features`` features, exactly, from sufficient statistics
      (the sums of :math:`x x^T` and :math:`y x`);
    - for other losses, exactly, while at most ``memory`` samples have been seen: all derivatives are taken at
      :math:`w_t`;
    - beyond either bound, by the recursive estimate of :class:`OneSampleFW` with :math:`\rho_t = t^{-a}`, an average
      that favours what is recent. What was kept is then let go.

    :attr:`is_exact` tells which one is running: the ``gap`` of a step is the Frank-Wolfe gap of :math:`F_t` at
    :math:`w_t` where the gradient is exact, and otherwise that of an estimate, which bounds nothing.

    When to use it: where regret is what counts, and losses are a sample of one distribution, or nearly. Where they may
    be anything, linear for instance, or where there are many features: :class:`AdversarialOFW`. For streams that
    drift: :class:`AdaptiveOFW`.

    Parameters
    ----------
    a
        Exponent of the step, in (0, 1]; 1/2 is what the theorems ask for.
    memory
        Samples kept for losses other than the squared one, >= 1.
    max_features
        The largest d for which the d x d statistics of a squared loss are kept.

    Notes
    -----
    Offline the rounds' samples come in passes over the data, each in an order of its own.

    Cost of a round: with statistics O(non-zeros^2 + d) on l1 balls and simplices and O(d^2) on other sets; with samples
    the non-zeros of all that is kept; by recursion the non-zeros of the sample. Memory: 8 d^2 bytes, or the samples.

    For smooth stochastic losses the regret after T rounds is :math:`\tilde O(\sqrt T)`. An adversary can make it linear
    in T: two assets that fall in turn, for about as long as steps of :math:`t^{-1/2}` take from one to the other, find
    it at the one that falls.

    References
    ----------
    .. [1] E. Hazan, S. Kale, `Projection-free Online Learning <https://arxiv.org/abs/1206.4657>`_, ICML 2012.

    Examples
    --------
    >>> from fwonline import linear_model, optim, sets
    >>> model = linear_model.FWRegressor(sets.ProbabilitySimplex(), optim.OFW(), intercept=False)
    >>> for t in range(400):
    ...     x = {"a": t % 2, "b": t % 3, "c": 1.0}
    ...     model.learn_one(x, 0.5 * x["a"] + 0.5 * x["c"])
    >>> model.optimizer.is_exact
    True
    >>> round(model.weights["a"], 1), round(model.weights["c"], 1)
    (0.5, 0.5)
    """

    a: float = 0.5
    memory: int = 1000
    max_features: int = 1000

    _run_class = OFWRun
    _takes_weights = True
    _method_class = OFWMethod
    _learn = staticmethod(learn)

    def _schedule(self) -> Schedule:
        return Power(self.a)

    @property
    def is_exact(self) -> bool:
        """Whether the gradient of F_t is known exactly; False once the recursive estimate is running."""
        return not self.is_started or self._run.s.mode != RECURSION
