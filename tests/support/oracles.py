"""The algorithms written out with dense vectors, as in their papers: what the compiled runs must agree with.

Nothing here is shared with the library's kernels: sets answer by their own `lmo` and `project`, losses by their own
methods, schedules by their own `gamma`, and every gradient is summed from the samples whenever it is needed.
"""

import abc

import numpy as np

from fwonline import sets
from support.draws import Draws


class Translated(sets.ConvexSet):
    """An l1 ball around a centre, known by its linear minimisation oracle alone: a set that a user might bring."""

    def __init__(self, radius=1.0, shift=0.25):
        self.radius = radius
        self.shift = shift

    @classmethod
    def _unit_test_params(cls):
        yield {}

    def _lmo(self, g):
        s = np.full(g.shape, self.shift)
        j = int(np.abs(g).argmax())
        s.flat[j] -= np.copysign(self.radius, g.flat[j])
        return sets.atoms.DenseAtom(s)

    def _violation(self, x):
        return max(float(np.abs(x - self.shift).sum()) - self.radius, 0.0)

    def _initial_point(self, shape):
        return np.full(shape, self.shift)

    def _scale(self, shape):
        return self.radius

    def diameter(self, shape=None):
        return 2.0 * self.radius


class OwnSquared:
    """The squared loss as somebody might write it: no compiled form."""

    def __call__(self, y_true, y_pred):
        return (y_pred - y_true) ** 2

    def gradient(self, y_true, y_pred):
        return 2.0 * (y_pred - y_true)

    def mean_func(self, y_pred):
        return y_pred


def atom_of(constraint, r, w):
    """argmin <r, s>; where the gradient does not care, what is held is kept."""
    if isinstance(constraint, sets.L1Ball | sets.L2Ball) and not r.any():
        return w
    s = constraint.lmo(r).to_dense()
    return np.where(r == 0.0, w, s) if isinstance(constraint, sets.Box | sets.LInfBall) else s


class Oracle(abc.ABC):
    """An iterate, and the Frank-Wolfe step that all algorithms share."""

    def __init__(self, constraint, loss, schedule, d, intercept=False):
        self.constraint, self.loss, self.schedule = constraint, loss, schedule
        self.w = np.zeros(d)
        if isinstance(constraint, sets.Box):
            self.w = constraint.initial_point(d)
        self.old = self.w
        self.gap = self.gamma = np.nan
        self.t = 0
        self.seen = []
        self.fit_intercept = intercept
        self.b = 0.0
        self.curvature = 0.0

    def slope(self, x, y, w=None):
        return self.loss.gradient(y, float(x @ (self.w if w is None else w)) + self.b)

    def step(self, r):
        s = atom_of(self.constraint, r, self.w)
        started = self.w
        unknown = isinstance(self.constraint, Translated | sets.ConvexHull)
        if self.t == 0 and unknown and not self.constraint.contains(self.w):
            started = s
        self.gap = float(r @ (started - s))
        gamma = self.schedule.gamma(self.t, self.gap, float((s - started) @ (s - started)))
        if isinstance(self.constraint, sets.ProbabilitySimplex) and not self.w.any():
            gamma = 1.0  # a step into the set
        self.old, self.gamma = self.w, gamma
        self.w = (1.0 - gamma) * started + gamma * s
        self.t += 1

    def learn(self, x, y):
        self.seen.append((x, y))
        z = float(x @ self.w) + self.b
        alpha = self.loss.gradient(y, z)
        self.enter(x, y, alpha)
        if self.fit_intercept:
            h = 1e-3
            self.curvature += (self.loss.gradient(y, z + h) - self.loss.gradient(y, z - h)) / (2 * h)
            self.b -= alpha / (self.curvature * (1.0 + 1.0 / len(self.seen)))
        self.act()

    @abc.abstractmethod
    def enter(self, x, y, alpha): ...

    @abc.abstractmethod
    def act(self): ...


class SFWOracle(Oracle):
    """Negiar et al. 2020, Algorithm 1, on the last samples."""

    def __init__(self, *args, memory, batch_size=1, steps=1, seed=None, by_parts=False, **kwargs):
        super().__init__(*args, **kwargs)
        self.memory, self.batch_size, self.steps = memory, batch_size, steps
        self.draws = Draws(seed, steps * batch_size)
        self.by_parts = by_parts
        self.slots = []  # [x, y, alpha], the newest in the oldest one's slot

    def enter(self, x, y, alpha):
        self.newest = (len(self.seen) - 1) % self.memory
        self.slots[self.newest : self.newest + 1] = [[x, y, alpha]]

    def act(self):
        if not self.by_parts:
            self.draws.need(self.steps * self.batch_size)
        for k in range(self.steps):
            size = min(self.batch_size, len(self.slots))
            if k > 0 or size > 1:
                self.draws.need(size)
                batch = self.draws.batch(len(self.slots), size, self.newest if k == 0 else None)
                self.renew(batch[1:] if k == 0 else batch)  # the newest one's derivative has just been taken
            self.step(self.estimate())

    def renew(self, batch):
        for i in batch:
            x, y, _ = self.slots[i]
            self.slots[i][2] = self.slope(x, y)

    def estimate(self):
        return sum(alpha * x for x, _, alpha in self.slots) / len(self.slots)

    def offline(self, X, y, count):
        self.slots = [[x, label, 0.0] for x, label in zip(X, y, strict=True)]
        for _ in range(count):
            self.draws.need(self.batch_size)
            self.renew(self.draws.batch(len(self.slots), self.batch_size))
            self.step(self.estimate())
        return self.w


class MomentumOracle(Oracle):
    """Mokhtari, Hassani, Karbasi 2018: a running average of mini-batch gradients."""

    def __init__(self, *args, batch_size=1, **kwargs):
        super().__init__(*args, **kwargs)
        self.batch_size = batch_size
        self.batch = []
        self.estimate = 0.0

    def enter(self, x, y, alpha):
        self.batch.append(alpha * x)

    def act(self):
        if len(self.batch) < self.batch_size:
            return
        rho = min(4.0 / (self.t + 8.0) ** (2.0 / 3.0), 1.0)
        self.estimate = (1.0 - rho) * self.estimate + rho * np.mean(self.batch, axis=0)
        self.batch = []
        self.step(self.estimate)


def recursive(oracle, x, y, rho):
    """g_t(w_t) + (1 - rho) (d_{t-1} - g_t(w_{t-1})); a whole step leaves nothing that d_{t-1} was for."""
    if oracle.t > 1 and oracle.gamma >= 1.0:
        rho = 1.0
    before = oracle.slope(x, y, oracle.old) * x
    return oracle.slope(x, y) * x + (1.0 - rho) * (oracle.estimate - before)


class OneSampleOracle(Oracle):
    """Zhang et al. 2019; Xie et al. 2020: the recursive estimate, rho_t = (t + 1)^-exponent."""

    def __init__(self, *args, exponent=2 / 3, **kwargs):
        super().__init__(*args, **kwargs)
        self.exponent = exponent
        self.estimate = 0.0

    def enter(self, x, y, alpha):
        self.estimate = recursive(self, x, y, (self.t + 1.0) ** -self.exponent)

    def act(self):
        self.step(self.estimate)


class OFWOracle(Oracle):
    """Hazan, Kale 2012: the gradient of the mean of all losses seen, at w_t; beyond a cap, the recursive estimate."""

    def __init__(self, *args, a=0.5, memory=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.a, self.memory = a, memory
        self.estimate = 0.0

    def enter(self, x, y, alpha):
        if self.memory is not None and len(self.seen) > self.memory:
            self.estimate = recursive(self, x, y, (self.t + 1.0) ** -self.a)

    def act(self):
        if self.memory is None or len(self.seen) <= self.memory:
            self.estimate = np.mean([self.slope(x, y) * x for x, y in self.seen], axis=0)
        self.step(self.estimate)


class AdversarialOFWOracle(Oracle):
    """Hazan 2016, algorithm 27: the gradients where points were played, their sum regularised around w_1."""

    def __init__(self, *args, horizon=None, bound=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.horizon, self.bound = horizon, bound
        self.gradients = []
        self.lengths = []
        self.start = None

    def enter(self, x, y, alpha):
        g = alpha * x
        if self.bound is not None and np.linalg.norm(g) > self.bound:
            g = g * (self.bound / np.linalg.norm(g))
        self.gradients.append(g)
        self.lengths.append(np.linalg.norm(g))

    def act(self):
        if self.start is None:
            self.start = self.w
            if not self.constraint.contains(self.w):
                self.step(self.gradients[0])
                self.start = self.w
                return
        longest = max([self.bound or 0.0, *self.lengths[:-1]])
        rounds = self.horizon or len(self.gradients)
        pull = 4.0 * longest * rounds**0.75 / self.constraint.diameter(self.w.size)  # 2 / eta_t
        r = sum(self.gradients[:-1], np.zeros(self.w.size)) + pull * (self.w - self.start)
        if isinstance(self.constraint, Translated | sets.KSparseBall | sets.ConvexHull) and not r.any():
            self.t += 1  # no point is better than another
            return
        self.step(r / len(self.gradients))


class AdaptiveOFWOracle(Oracle):
    """Garber, Kretzu 2022: gradient descent by blocks, w in the set near to y, which may lie outside."""

    def __init__(self, *args, horizon, block, tolerance, bound=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.horizon, self.block, self.tolerance, self.bound = horizon, block, tolerance, bound
        self.y = self.w
        self.gradients = []
        self.longest = bound or 0.0
        self.n_lmo = 0

    def enter(self, x, y, alpha):
        self.gradients.append(alpha * x)

    def atom(self, g):
        self.n_lmo += 1
        return atom_of(self.constraint, g, self.w)

    def act(self):
        if not self.t and not self.constraint.contains(self.w):
            self.w = self.y = self.atom(self.gradients[0])
        self.t += 1
        if len(self.gradients) < self.block:
            return
        g = np.mean(self.gradients, axis=0)
        self.gradients = []
        s = self.atom(g)
        self.gap = float(g @ (self.w - s))
        if self.bound is not None and np.linalg.norm(g) > self.bound:
            g = g * (self.bound / np.linalg.norm(g))
        self.longest = max(self.longest, np.linalg.norm(g))
        diameter = self.constraint.diameter(self.w.size)
        if self.longest > 0.0:
            self.y = self.y - diameter / (self.longest * np.sqrt(self.block * self.horizon)) * self.block * g
        eps = self.tolerance * diameter**2
        while not self.near(eps):
            self.y = self.y + (2.0 / 3.0) * (self.w - self.y)

    def near(self, eps):
        while True:
            r = self.w - self.y
            if r @ r <= 3.0 * eps:
                return True
            away = self.w - self.atom(r)
            if r @ away <= eps:
                return False
            self.w = self.w - min(1.0, (r @ away) / (away @ away)) * away


class ProjectedOracle(Oracle):
    """Projected stochastic gradient descent, by the set's own projection, on mini-batches."""

    def __init__(self, *args, step, power=0.5, batch_size=1, **kwargs):
        super().__init__(*args, **kwargs)
        self.size, self.power, self.batch_size = step, power, batch_size
        self.batch = []

    def enter(self, x, y, alpha):
        self.batch.append(alpha * x)
        if len(self.batch) == self.batch_size:
            step = self.size * (self.t + 1.0) ** -self.power
            self.w = self.constraint.project(self.w - step * np.mean(self.batch, axis=0))
            self.t += 1
            self.batch = []

    def act(self):
        pass
