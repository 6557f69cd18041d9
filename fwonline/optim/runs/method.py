"""An algorithm on a finite sum: its step, and what it keeps between steps.

An optimizer's own file names its :class:`Method`. :class:`Derivatives` and :class:`Epochs` are what several share.
"""

from __future__ import annotations

import typing

import numpy as np

from fwonline import _loaded, sets
from fwonline._kernels.layout import jit
from fwonline.optim.runs import checks
from fwonline.optim.runs.checks import HUGE

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    from fwonline.optim.problem.finite_sum import FiniteSum
    from fwonline.optim.schedules import Schedule

    Array = NDArray[np.float64]
    Batch = NDArray[np.int64]

__all__ = ["HUGE", "Derivatives", "Epochs", "Method", "RegretMethod", "SumRun", "distance_sq", "move_towards"]

# Samples after which a sum over the memory is computed anew, so that its rounding does not add up.
_RENEW = 4096


@jit
def shrink_and_add(x, factor, a, b):
    """x = factor x + a b^T, in one pass: the rank-one matrix is never formed."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] = factor * x[i, j] + a[i] * b[j]


def move_towards(x: Array, atom: sets.Atom, gamma: float) -> None:
    """x = (1 - gamma) x + gamma s, in place."""
    if isinstance(atom, sets.RankOneAtom):
        shrink_and_add(x, 1.0 - gamma, gamma * atom.sigma * atom.u, atom.v)
    else:
        x *= 1.0 - gamma
        atom.add_to(x, gamma)


def distance_sq(x: Array, atom: sets.Atom) -> float:
    """||s - x||^2."""
    if isinstance(atom, sets.RankOneAtom):
        own = (atom.sigma * float(np.linalg.norm(atom.u) * np.linalg.norm(atom.v))) ** 2
    elif isinstance(atom, sets.CoordinateAtom):
        own = atom.value**2
    else:
        away = atom.to_dense() - x
        return float(np.vdot(away, away))
    return max(float(np.vdot(x, x)) - 2.0 * atom.dot(x) + own, 0.0)


def enlarged(old: Array, shape: tuple[int, ...], fill: Array | None = None) -> Array:
    """The array in a larger shape, with ``fill`` (or zeros) in the new entries."""
    new = np.zeros(shape) if fill is None else fill.copy()
    if old.size:
        new[tuple(slice(0, size) for size in old.shape)] = old
    return new


class SumRun(typing.Protocol):
    """What an algorithm asks of its run.

    Attributes
    ----------
    constraint
        The set.
    s
        Counters and scalars, by name.
    """

    constraint: sets.ConvexSet
    s: typing.Any

    @property
    def capacity(self) -> int:
        """Slots of the memory; offline the samples of the data set."""

    @property
    def x(self) -> Array:
        """The iterate, to be changed in place."""

    @property
    def sum(self) -> FiniteSum:
        """The mean loss over the samples held."""

    @property
    def is_online(self) -> bool:
        """Whether the sum is over samples that come and go, not over a data set."""

    @property
    def n_held(self) -> int:
        """Samples of the memory."""

    @property
    def t(self) -> int:
        """Steps taken."""

    @property
    def gamma(self) -> float:
        """The last step's size."""

    @property
    def gap(self) -> float:
        """The gap that was noted last."""

    @property
    def L(self) -> float:
        """Smoothness of each f_i."""

    @property
    def D(self) -> float:
        """Diameter of the set."""

    @property
    def G(self) -> float:
        """A bound of the gradient of each f_i on the set."""

    def at_most_all(self, size: float) -> int:
        """A number of samples as a formula has it, which may be beyond any; no more than there are."""

    def note(self, gap: float, gamma: float) -> None:
        """Keep what monitors read of a step."""

    def count_gradients(self, n: int, exact: bool = False) -> None:
        """Count derivatives of single samples, and a gradient of the whole sum."""

    def draw(self, size: int) -> Batch | None:
        """``size`` samples, independent of each other; None, for all of them, where that is no more."""

    def pick(self, size: int) -> Batch:
        """Different samples; online the newest is among them."""

    def next_samples(self, size: int) -> Batch:
        """The samples that come next: online the newest, offline in passes in random orders."""

    def lmo(self, g: Array) -> sets.Atom:
        """argmin <g, s> over the set."""

    def frank_wolfe(self, g: Array, schedule: Schedule, k: int) -> None:
        """v = lmo(g), x = (1 - gamma_k) x + gamma_k v; the gap of the estimate g is noted."""

    def frank_wolfe_at(self, x: Array, g: Array, schedule: Schedule, k: int) -> tuple[float, float]:
        """The same step from a point x, in place; returns the gap of the estimate g there, and gamma_k."""

    def start_at_vertex(self) -> None:
        """w_0 = argmin <grad f(0), w>, unless the run was given its start."""


class Method:
    """An algorithm at work: its step, and its state between steps.

    A subclass names its attributes: ``points``, arrays of the iterate's shape that lie in the set (but for those in
    ``outside``); ``vectors``, arrays of that shape that are 0 where nothing is known; ``by_sample``, arrays of a number
    for each sample held, or for each sample and class; ``counters``, whole numbers with the largest value of each. The
    first two follow when features or classes appear.
    """

    points: typing.ClassVar[tuple[str, ...]] = ()
    outside: typing.ClassVar[tuple[str, ...]] = ()
    vectors: typing.ClassVar[tuple[str, ...]] = ()
    by_sample: typing.ClassVar[tuple[str, ...]] = ()
    counters: typing.ClassVar[dict[str, int]] = {}

    # Whether an algorithm remembers a derivative of each sample, and those.
    remembers: typing.ClassVar[bool] = False
    memory: typing.Any = None

    def __init__(self, optimizer: typing.Any):
        self.optimizer = optimizer
        if self.remembers:
            self.memory = Derivatives()
        for name in (*self.points, *self.vectors):
            setattr(self, name, None)
        for name in self.by_sample:
            setattr(self, name, np.zeros(0))
        for name in self.counters:
            setattr(self, name, 0)

    def step(self, run: SumRun) -> bool | None:
        """Move ``run.x``; False where the samples so far do not make a step."""
        raise NotImplementedError

    # --- samples that come and go -------------------------------------------------------------------------------

    def leave(self, run: SumRun, slot: int) -> None:
        """The sample in a slot of the memory is about to go."""
        if self.memory is not None:
            self.memory.leave(run, slot)

    def enter(self, run: SumRun, slot: int, slope: Array | float) -> None:
        """A sample has come into a slot; ``slope`` is its derivative at the iterate that predicted it."""
        if self.memory is not None:
            self.memory.enter(run, slot, slope)

    # --- features and classes that come and go ------------------------------------------------------------------

    @property
    def held(self) -> tuple[str, ...]:
        """The points that lie in the set: a feature that is not 0 in one of them is kept."""
        return tuple(name for name in self.points if name not in self.outside)

    def take_out(self, order: NDArray[np.int64]) -> None:
        """Features are given up: what stood at position ``order[j]`` stands at j from now on."""
        for name in (*self.points, *self.vectors):
            if (array := getattr(self, name)) is not None:
                setattr(self, name, np.ascontiguousarray(array[..., order]))
        if self.memory is not None and self.memory.total is not None:
            self.memory.total = np.ascontiguousarray(self.memory.total[..., order])

    def follow(self, x: Array) -> None:
        """Grow with the iterate; in new features a point is where the iterate starts there."""
        for name in (*self.points, *self.vectors):
            old = getattr(self, name)
            if old is not None and old.shape != x.shape:
                setattr(self, name, enlarged(old, x.shape, x if name in self.points else None))
        if self.memory is not None:
            self.memory.follow(x)

    # --- from a file --------------------------------------------------------------------------------------------

    def check(self, run: SumRun) -> None:
        """See that the state fits its run; subclasses add what they know."""
        if self.memory is not None:
            _loaded.instance(self, "memory", Derivatives)
            _loaded.claim(self, "memory")
            self.memory.check(run)
        for name in (*self.points, *self.vectors):
            check_like_iterate(self, name, run)
        for name in self.by_sample:
            check_by_sample(self, name, run)
        for name, most in self.counters.items():
            _loaded.count(self, name, 0, most)
        self.follow(run.x)
        if run.t > 1:  # the point before the first step is where the run began
            for name in self.held:
                if (value := getattr(self, name)) is not None:
                    _loaded.require(self, name, checks.is_point(run, value), f"a point of {run.constraint}")


def check_like_iterate(owner: typing.Any, name: str, run: SumRun) -> None:
    """See that an array is None, or at most of the iterate's shape."""
    if getattr(owner, name) is None:
        return
    _loaded.owned(owner, name)
    value = _loaded.array(owner, name, np.float64, (None,) * run.x.ndim, least=-HUGE, most=HUGE)
    fits = all(a <= b for a, b in zip(value.shape, run.x.shape, strict=True))
    _loaded.require(owner, name, fits, f"an array of at most the shape {run.x.shape}")


def check_by_sample(owner: typing.Any, name: str, run: SumRun) -> None:
    """See that an array has a number for each sample, or for each sample and class; nothing before the first."""
    _loaded.owned(owner, name)
    value = getattr(owner, name)
    if value.size or value.shape != (0,):
        shape = (run.capacity,) if run.x.ndim == 1 else (run.capacity, None)
        value = _loaded.array(owner, name, np.float64, shape, least=-HUGE, most=HUGE)
        fits = run.x.ndim == 1 or value.shape[1] <= run.x.shape[0]
        _loaded.require(owner, name, fits, f"a column for each of {run.x.shape[0]} classes")


class Derivatives:
    r"""A derivative :math:`\alpha_i` for each sample held, and the sum of :math:`\alpha_i a_i`.

    With :math:`\alpha_i = \ell'(z_i)` at a snapshot :math:`x_0`, the mean over a batch of
    :math:`(\ell'_i(x) - \alpha_i) a_i` plus :math:`\frac1n \sum \alpha_i a_i` is the variance-reduced gradient
    :math:`\tilde\nabla f(x; x_0)`. It is unbiased whatever the :math:`\alpha_i` are. So online a sample that comes
    brings the derivative it was predicted with, one that goes takes its own away, and no snapshot is taken anew.

    Attributes
    ----------
    alpha
        By slot of the memory, shape (capacity,) or (capacity, classes).
    total
        The sum, of the iterate's shape; None before the first.
    changes
        Samples that came.
    """

    def __init__(self) -> None:
        self.alpha: Array = np.zeros(0)
        self.total: typing.Any = None
        self.changes = 0

    def take(self, run: SumRun, x: Array) -> Array:
        """Take a snapshot at x; returns the gradient there."""
        self.alpha = fitted(self.alpha, run)
        self.total = run.sum.snapshot(x, self.alpha)
        return self.total / run.sum.n

    def estimate(self, run: SumRun, x: Array, size: int) -> Array:
        """The gradient at x from ``size`` samples, or the exact one where that costs no more."""
        batch = run.draw(size)
        if batch is None:
            return run.sum.gradient(x)
        return run.sum.gradient(x, batch, less=self.alpha) + self.total / run.sum.n

    def begin(self, run: SumRun) -> None:
        """Begin with derivatives that are 0, unless there are some."""
        if self.total is None:
            self.alpha, self.total = fitted(self.alpha, run), np.zeros(run.x.shape)

    def renew(self, run: SumRun, batch: NDArray[np.int64], alpha: Array) -> Array:
        """Take these derivatives for those of a batch; returns the mean gradient."""
        run.sum.rows.add(batch, alpha - self.alpha[batch], self.total)
        self.alpha[batch] = alpha
        return self.total / run.sum.n

    def leave(self, run: SumRun, slot: int) -> None:
        self.alpha = fitted(self.alpha, run)  # the sample that comes may bring a class
        self._add(run, slot, -self.alpha[slot])

    def enter(self, run: SumRun, slot: int, slope: Array | float) -> None:
        self.alpha = fitted(self.alpha, run)
        if self.total is None:
            self.total = np.zeros(run.x.shape)
        self.alpha[slot] = slope
        self._add(run, slot, self.alpha[slot])
        self.changes += 1
        if self.changes % _RENEW == 0:
            self.total = np.zeros(run.x.shape)
            everyone = np.arange(run.sum.n)
            run.sum.rows.add(everyone, self.alpha[everyone], self.total)

    def _add(self, run: SumRun, slot: int, slope: Array) -> None:
        run.sum.rows.add(np.array([slot]), np.asarray(slope)[None], self.total)

    def follow(self, x: Array) -> None:
        if self.total is not None and self.total.shape != x.shape:
            self.total = enlarged(self.total, x.shape)

    def check(self, run: SumRun) -> None:
        _loaded.alike(self, Derivatives(), "alpha", "total")
        check_like_iterate(self, "total", run)
        check_by_sample(self, "alpha", run)
        _loaded.count(self, "changes")
        held = bool(self.alpha.size) or not run.n_held or self.total is None
        _loaded.require(self, "alpha", held, "a derivative of each sample, as their sum is there")
        _loaded.require(self, "total", self.total is not None or not self.alpha.size, "the sum of the derivatives")


def fitted(values: Array, run: SumRun) -> Array:
    """Numbers by sample, in an array for all slots and classes of a run."""
    shape = (run.capacity, *run.x.shape[:-1])
    return values if values.shape == shape else enlarged(values, shape)


class Epochs(Method):
    """A method whose result is the point of the last complete epoch: that is ``run.x``, and the snapshot.

    What moves within an epoch is ``inner``. An epoch begins with steps as long as the first of all, so that its points
    are far from the minimum until it ends: they neither predict nor are they reported or certified.

    Attributes
    ----------
    t, k, N
        Number of the epoch, of the step in it, and its steps.
    """

    points: typing.ClassVar[tuple[str, ...]] = ("inner",)
    # An epoch more is twice as many steps: no run reaches what is beyond.
    counters: typing.ClassVar[dict[str, int]] = dict.fromkeys(("t", "k", "N"), _loaded.MOST)
    inner: typing.Any
    t: int
    k: int
    N: int
    memory: Derivatives
    remembers = True

    def step(self, run: SumRun) -> None:
        if self.k == self.N:
            if self.t == 0:
                run.start_at_vertex()  # w_0
            self.t += 1
            self.k = 0
            self.N = self.length(run)
            self.memory.take(run, run.x)  # x_0 = w_{t-1} and grad f(x_0)
            self.begin(run)
        self.k += 1
        gap, gamma = self.move(run)
        run.note(gap if self.k in (1, self.N) else run.gap, gamma)
        if self.k == self.N:
            run.x[...] = self.inner  # w_t

    def length(self, run: SumRun) -> int:
        """N_t, the steps of the epoch that begins."""
        raise NotImplementedError

    def begin(self, run: SumRun) -> None:
        """An epoch begins at the snapshot."""
        self.inner = run.x.copy()

    def move(self, run: SumRun) -> tuple[float, float]:
        """Step k of the epoch on ``inner``; returns the gap of its gradient estimate, and gamma."""
        raise NotImplementedError

    def check(self, run):
        super().check(run)
        _loaded.require(self, "k", self.k <= self.N, f"a step of the {self.N} of an epoch")
        _loaded.require(self, "t", self.t <= run.t and (self.t or not self.N), "epochs that were begun")
        _loaded.require(self, "inner", not self.N or self.inner is not None, "a point within an epoch")
        _loaded.require(self.memory, "total", not self.N or self.memory.total is not None, "a snapshot in an epoch")


class RegretMethod(Method):
    """Knows G, the longest gradient so far, and shortens those beyond a bound that was given."""

    def __init__(self, optimizer: typing.Any):
        super().__init__(optimizer)
        self.longest = optimizer.gradient_bound or 0.0

    def check(self, run):
        super().check(run)
        _loaded.real(self, "longest", 0.0)
        known = [getattr(self, name) is not None for name in (*self.points, *self.vectors)]
        _loaded.require(self, self.points[0], all(known) or not any(known), "both of its arrays, or none")

    def shortened(self, g: Array) -> Array:
        length, bound = float(np.linalg.norm(g)), self.optimizer.gradient_bound
        if bound is not None and length > bound:
            return g * (bound / length)
        self.longest = max(self.longest, length)
        return g
