"""Online Frank-Wolfe for regret (Hazan, Kale 2012)."""

from __future__ import annotations

import typing

import numpy as np
from river import optim as river_optim

from fwonline import _loaded
from fwonline._kernels import coordinates, layout, memory, stream
from fwonline._kernels.layout import (
    CROWDED,
    DOT,
    GAMMA,
    INDEX,
    INTERCEPT,
    LIVE,
    MODE,
    N_EXACT,
    N_GRADIENTS,
    NEED_NAMES,
    NEED_POOL,
    OK,
    SEEN,
    SET,
    SINCE,
    U_SCALE,
    UNIT_SIMPLEX,
    W_SCALE,
    D,
    jit,
    part,
)
from fwonline.optim.base import Optimizer, check_count
from fwonline.optim.online.ofw_adversarial import AdversarialMethod, AdversarialRun
from fwonline.optim.online.one_sample import OneSampleMethod
from fwonline.optim.online.one_sample import enter as enter_recursive
from fwonline.optim.runs.memory_run import MemoryRun
from fwonline.optim.runs.method import Method, SumRun
from fwonline.optim.runs.regret_run import check_gradient_bound
from fwonline.optim.runs.run import Run, resized
from fwonline.optim.runs.stream_run import StreamRun, weighs_with_atom
from fwonline.optim.schedules import Power, Schedule

__all__ = ["OFW"]

# How the gradient of F_t is known.
STATISTICS, SAMPLES, RECURSION = 0, 1, 2


@jit
def gradient_from_statistics(v, u, bound, group, num, cnt, H, b, m):
    """u = H w + intercept m - b; 2 u / t is the gradient of the mean of (<x_i, w> + intercept - y_i)^2. O(d^2)."""
    d = cnt[D]
    for j in range(d):
        u[j] = num[INTERCEPT] * m[j] - b[j]
    for k in range(d):
        w = v[k] * num[W_SCALE]
        if w != 0.0:
            for j in range(d):
                u[j] += w * H[k, j]
    finish_statistics(v, u, bound, group, num, cnt)


@jit
def finish_statistics(v, u, bound, group, num, cnt):
    """<u, w> and the bounds of u's blocks, after all of u has changed; O(d)."""
    d = cnt[D]
    dot = 0.0
    for j in range(d):
        dot += u[j] * v[j]
    num[DOT] = dot * num[W_SCALE]
    if cnt[SET] <= UNIT_SIMPLEX and d > 0:
        coordinates.rebuild(cnt[SET], u, bound, group, d)


@jit
def enter_statistics(v, u, bound, group, num, cnt, H, b, m, idx, val, start, stop, y, prediction, intercept):
    """f_t joins the sums, and u follows: u += (prediction - y) x, and the intercept's last move times m."""
    d = cnt[D]
    for k in range(start, stop):
        i, x = idx[k], val[k]
        for n in range(start, stop):
            H[i, idx[n]] += x * val[n]
        b[i] += y * x
        u[i] += (prediction - y) * x
        m[i] += x
    change = num[INTERCEPT] - intercept
    if change != 0.0:
        for j in range(d):
            u[j] += change * m[j]
    num[U_SCALE] = 2.0 / cnt[SEEN]
    finish_statistics(v, u, bound, group, num, cnt)


@jit
def follow(v, u, bound, group, num, cnt, H, b, m):
    """u at the iterate that a step has reached: O(d) after a coordinate atom, O(d^2) after a dense one."""
    gamma = num[GAMMA]
    # Rounding fades with every step; taken anew every 2^12 steps or d, whichever is more, it never adds up.
    if cnt[SET] > UNIT_SIMPLEX or gamma >= 1.0 or cnt[SINCE] == 0:
        gradient_from_statistics(v, u, bound, group, num, cnt, H, b, m)
        return
    if cnt[INDEX] == -2:
        return
    j = cnt[INDEX]
    atom = num[layout.ATOM] if j >= 0 else 0.0
    for i in range(cnt[D]):
        # u = H w + c: the part c = intercept m - b does not shrink with w
        c = num[INTERCEPT] * m[i] - b[i]
        u[i] = (1.0 - gamma) * u[i] + gamma * (c + (atom * H[j, i] if j >= 0 else 0.0))
    finish_statistics(v, u, bound, group, num, cnt)


@part
def enter_sample(
    v,
    u,
    rank,
    bound,
    group,
    num,
    cnt,
    rows,
    duals,
    pool_idx,
    pool_val,
    at,
    idx,
    val,
    start,
    stop,
    y,
    margin,
    alpha,
    largest,
):
    """One more sample is remembered."""
    memory.store(num, cnt, rows, duals, pool_idx, pool_val, cnt[LIVE], at, idx, val, start, stop, y, alpha, largest)
    memory.add_sample(u, rank, bound, group, num, cnt, idx, val, start, stop, alpha, margin)
    num[U_SCALE] = 1.0 / cnt[LIVE]


@jit
def learn(
    v,
    u,
    rank,
    bound,
    group,
    num,
    cnt,
    rows,
    duals,
    pool_idx,
    pool_val,
    everyone,
    old,
    H,
    b,
    m,
    indptr,
    idx,
    val,
    ys,
    first,
    last,
):
    bits = val.view(layout.INT64)
    for i in range(first, last):
        start, stop, y = indptr[i], indptr[i + 1], ys[i]
        status, margin, prediction, alpha, largest = memory.look(v, num, cnt, bits, idx, val, start, stop, y)
        old_alpha = 0.0
        if status == OK and cnt[MODE] == RECURSION:
            old_alpha = stream.old_derivative(num, cnt, old, idx, val, start, stop, y, margin)
            status = memory.check_contribution(old_alpha, largest)
        if status != OK:
            return status
        if cnt[CROWDED] != 0:
            return NEED_NAMES
        if cnt[MODE] == STATISTICS and cnt[D] > b.size:
            cnt[MODE] = RECURSION
            num[GAMMA] = 0.0  # u is the gradient at the present iterate, not at the one before
            return NEED_POOL  # the caller lets the statistics go, and comes again
        at = np.int64(0)
        if cnt[MODE] == SAMPLES:
            if cnt[LIVE] == rows.shape[0]:
                cnt[MODE] = RECURSION
                return NEED_POOL  # the caller lets the memory go, and comes again
            at = memory.room(rows, cnt, pool_idx.size, stop - start)
            if at < 0:
                return NEED_POOL
        memory.play(num, cnt, y, prediction)
        intercept = num[INTERCEPT]
        memory.fit_intercept(num, cnt, y, prediction, alpha)
        if cnt[MODE] == STATISTICS:
            enter_statistics(v, u, bound, group, num, cnt, H, b, m, idx, val, start, stop, y, prediction, intercept)
            cnt[N_GRADIENTS] += 1
            cnt[N_EXACT] += 1
        elif cnt[MODE] == SAMPLES:
            enter_sample(
                v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val,
                at, idx, val, start, stop, y, margin, alpha, largest,
            )  # fmt: skip
            memory.renew_batch(
                v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val, everyone, 0, cnt[LIVE]
            )
            memory.settle(v, u, rank, bound, group, num, cnt, rows, duals, pool_idx, pool_val)
            cnt[N_EXACT] += 1
        else:
            enter_recursive(u, rank, bound, group, num, cnt, idx, val, start, stop, margin, alpha, old_alpha)
        stream.move_remembering(v, u, rank, bound, group, num, cnt, old)
        if cnt[MODE] == STATISTICS:
            follow(v, u, bound, group, num, cnt, H, b, m)
    return OK


class OFWRun(MemoryRun):
    _compiled_learn = staticmethod(learn)

    def __init__(self, optimizer: OFW, *args: typing.Any, **kwargs: typing.Any):
        self.max_features = optimizer.max_features
        # Sufficient statistics of a squared loss: sums of x x^T, y x and x.
        self.H, self.b, self.m, self.old = np.zeros((0, 0)), np.zeros(0), np.zeros(0), np.zeros(0)
        super().__init__(optimizer, *args, capacity=optimizer.memory, **kwargs)
        squared = type(self.loss) is river_optim.losses.Squared
        self.cnt[MODE] = STATISTICS if squared else SAMPLES
        if squared:
            self._forget()
        else:
            self.batch = np.arange(optimizer.memory)
        # The recursion's noise is of order gamma^2 / rho: rho_t = gamma_t = t^-a, as in ORGFW, balances it with what
        # the newest sample brings. With rho_t = 1 / t, the weight of a mean, it would not fade.
        self.num[layout.RHO_A : layout.RHO_C + 1] = 1.0, 1.0, optimizer.a
        self._bind()

    def _extra(self) -> tuple:
        return (*self.pool, self.batch, self.old, self.H, self.b, self.m)

    def _check_scalars(self, fresh: Run) -> None:
        super()._check_scalars(fresh)
        modes = (fresh.cnt[MODE], RECURSION)
        _loaded.require(self, f"cnt[{MODE}]", self.cnt[MODE] in modes, f"one of {modes}")
        self.max_features = fresh.optimizer.max_features  # type: ignore[attr-defined]

    def _check_arrays(self) -> None:
        super()._check_arrays()
        capacity, mode = self.v.size, self.cnt[MODE]
        size = 0 if self.cnt[SET] <= UNIT_SIMPLEX else capacity
        _loaded.array(self, "old", np.float64, (size,), least=-1e250, most=1e250)
        d = min(capacity, self.max_features) if mode == STATISTICS else 0
        for name, shape in (("H", (d, d)), ("b", (d,)), ("m", (d,))):
            sums = _loaded.array(self, name, np.float64, shape, least=-1e250, most=1e250)
            unused = (slice(self.n_features, None), ...)
            _loaded.require(self, name, not sums[unused].any(), "0 where no feature is")
        _loaded.require(self, "H", not self.H[:, self.n_features :].any(), "0 where no feature is")
        if mode == SAMPLES:
            everyone = np.arange(self.capacity)
            _loaded.require(self, "batch", np.array_equal(self.batch, everyone), "all samples, in their order")
            _loaded.require(self, "rows", len(self.rows) == self.capacity, f"room for {self.capacity} samples")
        elif self.cnt[SEEN]:
            _loaded.require(self, "rows", len(self.rows) == 1, "no samples")

    def _slots(self) -> tuple[int, ...]:
        return (self.capacity, 1)

    def _resize(self, capacity: int) -> None:
        if self.cnt[SET] > UNIT_SIMPLEX:
            self.old = resized(self.old, capacity)
        d = min(capacity, self.max_features)
        if self.cnt[MODE] == STATISTICS and len(self.H) < d:
            H = np.zeros((d, d))
            H[: len(self.H), : len(self.H)] = self.H
            self.H, self.b, self.m = H, resized(self.b, d), resized(self.m, d)

    _by_feature = (*MemoryRun._by_feature, "old")
    _points = (*MemoryRun._points, "old")

    def weighs(self):
        return weighs_with_atom(self, super().weighs())

    def _taken_out(self, new, holes, movers) -> None:
        super()._taken_out(new, holes, movers)
        if self.cnt[MODE] != STATISTICS or self.n_features > len(self.b):
            return
        # Beyond the statistics stand only features of the sample that is on its way in.
        stays = movers < len(self.b)
        left, old = self.n_features, new.size
        for to, source in ((holes[stays], movers[stays]), (holes[~stays], None)):
            for array in (self.H, self.H.T, self.b, self.m):
                array[to] = 0.0 if source is None else array[source]
        for array in (self.H, self.H.T, self.b, self.m):
            array[left:old] = 0.0
        gradient_from_statistics(self.v, self.u, self.bound, self.group, self.num, self.cnt, self.H, self.b, self.m)

    def _forget(self) -> None:
        self.H, self.b, self.m = np.zeros((0, 0)), np.zeros(0), np.zeros(0)
        self.rows, self.duals = np.zeros((1, 3), dtype=np.int64), np.zeros((1, 3))
        self.pool_idx, self.pool_val = np.zeros(0, dtype=np.uint32), np.zeros(0)
        self.batch = np.zeros(1, dtype=np.int64)
        self.cnt[[LIVE, layout.HEAD]] = 0
        self._bind()

    def _make_room(self, need: int) -> None:
        if self.cnt[MODE] == RECURSION:
            self._forget()
        else:
            super()._make_room(need)

    def _enter(self, rows, i, margin, alpha, largest):
        indptr, idx, val, y = rows
        span = indptr[i], indptr[i + 1]
        if self.cnt[MODE] == SAMPLES and self.cnt[LIVE] == len(self.rows):
            self.cnt[MODE] = RECURSION
            self._forget()
        if self.cnt[MODE] == STATISTICS and self.n_features > self.b.size:
            self.cnt[MODE] = RECURSION
            self.num[GAMMA] = 0.0
            self._forget()
        if self.cnt[MODE] == STATISTICS:
            self.cnt[N_GRADIENTS] += 1
            intercept = self.num[INTERCEPT]
            enter_statistics(
                self.v, self.u, self.bound, self.group, self.num, self.cnt, self.H, self.b, self.m,
                idx, val, *span, y[i], margin + intercept, intercept,
            )  # fmt: skip
        elif self.cnt[MODE] == SAMPLES:
            at = self._place(rows, i)
            enter_sample(*self.core, *self.pool, at, idx, val, *span, y[i], margin, alpha, largest)
        else:
            before = stream.old_margin(self.num, self.cnt, self.old, idx, val, *span, margin)
            old_alpha = self.derivative(float(y[i]), float(before + self.num[INTERCEPT]))
            enter_recursive(*self.core[1:], idx, val, *span, margin, alpha, old_alpha)

    def _moves(self):
        statistics = (self.v, self.u, self.bound, self.group, self.num, self.cnt, self.H, self.b, self.m)
        if self.cnt[MODE] == STATISTICS:
            gradient_from_statistics(*statistics)  # with the intercept as it is now
        elif self.cnt[MODE] == SAMPLES:
            self.renew(0, int(self.cnt[LIVE]))
            memory.settle(*self.core, *self.pool)
        if self.cnt[SET] > UNIT_SIMPLEX:
            self.old[: self.n_features] = self.v[: self.n_features]
        self.cnt[N_EXACT] += self.cnt[MODE] != RECURSION
        yield
        if self.cnt[MODE] == STATISTICS:
            gradient_from_statistics(*statistics)

    offline = StreamRun.offline
    iterate = StreamRun.iterate
    _samples_per_step = 1

    def exact_gap(self) -> float | None:
        """The gap of F_t at the present iterate while it is exact, otherwise None."""
        if self.cnt[MODE] == SAMPLES:
            return super().exact_gap()
        if self.cnt[MODE] == RECURSION or not self.cnt[SEEN]:
            return None
        w = self.weights
        d = self.n_features
        return self.gap_along(
            2.0 / self.cnt[SEEN] * (self.H[:d, :d] @ w + self.num[INTERCEPT] * self.m[:d] - self.b[:d])
        )


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
    :math:`w_t` where the gradient is exact, and otherwise, or with ``adversarial``, that of an estimate, which bounds
    nothing.

    With ``adversarial`` it follows the gradients met, each at the point that was played, and a pull back to where it
    began (Hazan 2016, algorithm 27; regularised follow-the-leader, one Frank-Wolfe step a round):

    .. math::
        s_t = \arg\min_{s \in C} \Big\langle \sum_{\tau < t} \nabla f_\tau(w_\tau) + \frac{2}{\eta_t} (w_t - w_1), s
        \Big\rangle, \qquad w_{t+1} = w_t + \min(1, 2 t^{-a}) (s_t - w_t), \qquad \eta_t = \frac{D}{2 G T^{3/4}},

    D the diameter of C, G the longest gradient met, T the ``horizon``, or t where that is not known. Where the origin
    is no point of C, :math:`w_1` is the atom of the first gradient.

    When to use it: where regret is what counts. As it is where losses are a sample of one distribution, or nearly; with
    ``adversarial`` where they may be anything, linear for instance, or where there are many features, since a round
    then costs little and nothing is kept. For streams that drift: :class:`AdaptiveOFW`.

    Parameters
    ----------
    a
        Exponent of the step, in (0, 1]; 1/2 is what the theorems ask for.
    memory
        Samples kept for losses other than the squared one, >= 1.
    max_features
        The largest d for which the d x d statistics of a squared loss are kept.
    adversarial
        Whether to follow the regularised sum of gradients; ``memory`` and ``max_features`` are then not used.
    horizon
        T, rounds to be played, >= 1, where that is known; for ``adversarial``.
    gradient_bound
        G, > 0, where it is known: longer gradients are shortened to it. By default the longest one met. For
        ``adversarial``.

    Notes
    -----
    Offline the rounds' samples come in passes over the data, each in an order of its own.

    Cost of a round: with statistics O(non-zeros^2 + d) on l1 balls and simplices and O(d^2) on other sets; with samples
    the non-zeros of all that is kept; by recursion the non-zeros of the sample. Memory: 8 d^2 bytes, or the samples.
    With ``adversarial``: the non-zeros of the sample and of w on l1 balls and simplices, O(d) on other sets.

    For smooth stochastic losses the regret after T rounds is :math:`\tilde O(\sqrt T)`. For adversarial ones it is at
    most :math:`8 G D T^{3/4}` with ``adversarial``, ``horizon`` = T and a = 1/2 (Theorem 7.3 of [2]_), and
    :math:`O(T^{3/4})` with t in place of T. Without, an adversary can make it linear in T: two assets that fall in
    turn, for about as long as steps of :math:`t^{-1/2}` take from one to the other, find it at the one that falls.

    References
    ----------
    .. [1] E. Hazan, S. Kale, `Projection-free Online Learning <https://arxiv.org/abs/1206.4657>`_, ICML 2012.
    .. [2] E. Hazan, `Introduction to Online Convex Optimization <https://arxiv.org/abs/1909.05207>`_, 2016, chapter 7.

    Examples
    --------
    >>> from fwonline import linear_model, optim, sets
    >>> model = linear_model.FWRegressor(sets.ProbabilitySimplex(), optim.OFW())
    >>> for t in range(400):
    ...     x = {"a": t % 2, "b": t % 3, "c": 1.0}
    ...     model.learn_one(x, 0.5 * x["a"] + 0.5 * x["c"])
    >>> model.optimizer.is_exact
    True
    >>> round(model.weights["a"], 1), round(model.weights["c"], 1)
    (0.5, 0.5)
    """

    def __init__(
        self,
        a: float = 0.5,
        memory: int = 1000,
        max_features: int = 1000,
        adversarial: bool = False,
        horizon: int | None = None,
        gradient_bound: float | None = None,
    ):
        if not 0.0 < a <= 1.0:
            raise ValueError(f"a must be in (0, 1], got {a!r}")
        check_count("memory", memory)
        check_count("max_features", max_features)
        if horizon is not None:
            check_count("horizon", horizon)
        check_gradient_bound(gradient_bound)
        for name, value in (("horizon", horizon), ("gradient_bound", gradient_bound)):
            if value is not None and not adversarial:
                raise ValueError(f"{name} is for adversarial=True alone, got {value!r}")
        self.a = a
        self.memory = memory
        self.max_features = max_features
        self.adversarial = adversarial
        self.horizon = horizon
        self.gradient_bound = gradient_bound

    @property
    def _run_class(self) -> type:  # type: ignore[override]
        return AdversarialRun if self.adversarial else OFWRun

    _method_class = OFWMethod

    def _method(self) -> Method:
        return AdversarialMethod(self) if self.adversarial else OFWMethod(self)

    def _schedule(self) -> Schedule:
        return Power(self.a, factor=2.0 if self.adversarial else 1.0)

    @property
    def is_exact(self) -> bool:
        """Whether the gradient of F_t is known exactly; False once the recursive estimate is running."""
        return not self.is_started or int(self._run.cnt[MODE]) != RECURSION
