"""Pairwise steps on a quadratic memory, written out sample by sample."""

import itertools
import math

import numpy as np
from river import optim as river_optim

from support.draws import NOISE_BLOCK


class PairwiseOracle:
    """F is summed from every sample that was ever learned, whenever a slope of it is wanted.

    ``window``: a sample counts 1 - 1 / window of the next one. With ``intercept`` a step along a feature is one along
    the feature less its mean.
    """

    def __init__(self, constraint, loss, memory, steps, c, seed, d, window=math.inf, intercept=False):
        self.constraint, self.loss, self.memory, self.steps = constraint, loss, memory, steps
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
        self.noise = iter(rng.random(NOISE_BLOCK))
        self.window, self.first = window, 0
        self.w, self.key = np.zeros(d), np.zeros(d)
        self.samples = []  # [x, y, alpha, h, w^i, what it counts]
        self.c = self.errors = c * math.sqrt(math.log(1 + d))
        self.seen = self.model = self.pull = self.total = 0.0
        self.count = 0
        self.trust, self.effective = np.zeros(d), 0.0
        self.intercept, self.b, self.offset, self.newton = intercept, 0.0, 0.0, 0.0
        self.kind = type(constraint).__name__
        if self.kind == "Box":
            self.lower, self.upper = constraint.lower, constraint.upper
        else:
            self.upper = constraint.radius
            self.lower = 0.0 if "Simplex" in self.kind else -constraint.radius

    def sums(self):
        X = np.array([s[0] for s in self.samples])
        c = np.array([s[5] for s in self.samples])[:, None]
        alpha, h = (c * np.array([s[k] for s in self.samples])[:, None] for k in (2, 3))
        at = np.array([s[4] for s in self.samples])
        H = (h * X**2).sum(0)
        m, share = self.mean(), self.share()
        g = (alpha * X).sum(0) - m * alpha.sum() + share * (h * X**2 * (self.w - at)).sum(0)
        ratio = max(self.seen / self.model, 1.0) if self.model else 1.0
        noise = 0.0 if self.kind == "ProbabilitySimplex" else self.c * np.sqrt(share * (alpha**2 * X**2).sum(0))
        return g, noise * np.ones_like(g), share * H * ratio

    def curvatures(self):
        """Those of the intercept, of each feature with it, and of each feature."""
        X = np.array([s[0] for s in self.samples])
        h = np.array([s[5] * s[3] for s in self.samples])
        return h.sum(), h @ X, h @ X**2

    def mean(self):
        """What a step takes from the intercept."""
        held, along, _ = self.curvatures()
        return self.trust * along / held if held and len(self.samples) > 1 else 0.0 * along

    def see_means(self, has):
        """How much of each mean is beyond chance."""
        held, along, H = self.curvatures()
        explained = along**2 / np.where(H > 0.0, H * held, np.inf)
        beyond = np.maximum(explained - 5.0 / self.effective * (1.0 - explained), 0.0)
        if len(self.samples) == 1 or self.window < math.inf:  # a trend is not told from a mean
            beyond *= 0.0
        self.trust[has] = np.divide(beyond, explained, out=np.zeros(self.w.size), where=beyond > 0.0)[has]

    def share(self):
        """How much of each curvature is not its mean's."""
        if not self.intercept or len(self.samples) == 1 or not self.curvatures()[0]:
            return np.ones(self.w.size)
        _, along, H = self.curvatures()
        left = np.where(H > 0.0, 1.0 - self.mean() * along / np.where(H > 0.0, H, 1.0), 0.0)
        return np.where(left > 1e-9, left, 0.0)

    def move(self, j, to):
        by = self.mean()[j] * (to - self.w[j])
        self.w[j] = to
        self.b, self.offset = self.b - by, self.offset + by

    def aim(self, j):
        g, noise, H = (a[j] for a in self.sums())
        if H <= 0.0:
            return self.w[j], 0.0, 0.0
        z = H * self.w[j] - g
        z = np.sign(z) * max(abs(z) - noise, 0.0)
        if self.kind == "UnitSimplex":
            z = max(z, 0.0)
        h = H + (self.pull if self.kind == "L2Ball" else 0.0)
        return min(max(z / h, self.lower), self.upper), h, z

    def touch(self, j):
        if self.kind == "ProbabilitySimplex":
            self.key[j] = -self.sums()[0][j]
            return
        to, h, z = self.aim(j)
        if self.kind in ("Box", "LInfBall"):
            z = h * to
        self.key[j] = abs(z - h * self.w[j]) * (0.8 if self.w[j] == 0.0 else 1.0)

    def look(self, sample):
        x, y, _, _, at, _, offset = sample
        _, alpha, h = self.loss_at(y, float(x @ self.w) + self.b)
        change = self.w - at
        model = h * float((self.share() * x * change) @ (x * change))
        if at is not self.w and model > 0.0:
            self.seen = 0.999 * self.seen + h * (float(x @ change) - (self.offset - offset)) ** 2
            self.model = 0.999 * self.model + model
        sample[2:5] = alpha, h, self.w.copy()
        sample[6] = self.offset
        if at is self.w and self.intercept:
            self.see_means(x != 0.0)
        for j in np.flatnonzero(x):
            if self.w[j] != 0.0 and self.kind != "ProbabilitySimplex":
                to, h_j, _ = self.aim(j)
                if h_j > 0.0 and to == 0.0:
                    self.move(j, 0.0)
            self.touch(j)

    def step(self):
        j = int(np.argmax(self.key))
        size, R = np.abs(self.w).sum(), self.upper
        if self.kind == "ProbabilitySimplex":
            if not self.w.any():
                self.move(j, R)
            else:
                self.exchange(j, 0.0)
        elif self.key[j] > 0.0:
            to, _, _ = self.aim(j)
            to = 0.0 if to * self.w[j] < 0.0 else to
            grows = abs(to) - abs(self.w[j])
            if self.kind in ("L1Ball", "UnitSimplex") and grows > 0.0 and size + grows > R:
                self.exchange(j, max(R - size, 0.0))
            else:
                self.move(j, to)
                if self.kind == "L2Ball" and np.linalg.norm(self.w) > R:
                    by = R / np.linalg.norm(self.w)
                    self.w *= by
                    self.b, self.offset = self.b + (1.0 - by) * self.offset, by * self.offset
        self.touch(j)

    def exchange(self, j, room):
        g, noise, H = self.sums()
        w = self.w
        sign = 1.0
        if self.kind != "ProbabilitySimplex":
            sign = 1.0 if w[j] > 0.0 or (w[j] == 0.0 and g[j] < 0.0) else -1.0
        others = [k for k in np.flatnonzero(w) if k != j]
        if not others:
            self.move(j, w[j] + sign * room)
            return
        gains = [np.sign(w[k]) * g[k] + noise[k] for k in others]
        k, gain = others[int(np.argmax(gains))], max(gains)
        mine = sign * g[j] + noise[j]
        step = max((gain - mine) / (H[j] + H[k]), 0.0)
        if step >= abs(w[k]) + room:
            step = abs(w[k]) + room
            self.move(k, 0.0)
        else:
            self.move(k, w[k] - np.copysign(max(step - room, 0.0), w[k]))
        self.move(j, w[j] + sign * step)
        self.touch(k)

    def loss_at(self, y, z):
        """The loss at z, its derivative and its curvature."""
        alpha, value = float(self.loss.gradient(y, z)), float(self.loss(y, z))
        if isinstance(self.loss, river_optim.losses.Squared):
            h = 2.0
        elif isinstance(self.loss, river_optim.losses.Log):
            h = math.tanh(z / 2) / (2 * z) if z else 0.25
        else:
            h = alpha**2 / (2 * max(value, 0.1 * self.total / self.count)) if self.total else 0.0
        return value, alpha, h

    def fit_intercept(self, y, z, weight):
        """A Newton step on the sample, by the curvature of all so far."""
        _, alpha, _ = self.loss_at(y, z)
        h = (self.loss_at(y, z + 1e-3)[1] - self.loss_at(y, z - 1e-3)[1]) / 2e-3
        self.newton = (1.0 - 1.0 / self.window) * self.newton + weight * h
        step = weight * alpha / (self.newton * (1.0 + 1.0 / self.count))
        while self.loss_at(y, z - step)[1] * alpha < 0.0:
            step /= 2.0
        self.b -= step

    def learn(self, x, y, weight=1.0):
        if self.window < math.inf and self.kind not in ("Box", "LInfBall"):  # less where no weight is 0
            self.c = self.errors * (1.0 - (np.count_nonzero(self.w) / self.w.size) ** 8)
        z = float(x @ self.w) + self.b
        self.total += float(self.loss(y, z))
        self.effective = (1.0 - 1.0 / self.window) * self.effective + 1.0
        self.count += 1
        for sample in self.samples:
            sample[5] *= 1.0 - 1.0 / self.window
        self.key *= 1.0 - 1.0 / self.window
        self.pull *= 1.0 - 1.0 / self.window
        self.samples.append([x, y, 0.0, 0.0, self.w, weight, self.offset])
        self.look(self.samples[-1])
        if self.intercept:
            self.fit_intercept(y, z, weight)
        for k in range(self.steps):
            if k:
                self.look(self.samples[-1 - int(next(self.noise) * min(len(self.samples) - self.first, self.memory))])
            self.step()


def quadratic(past, span=100.0, share=1.0):
    """Slopes and curvature of what weights of models would have lost, with what counts as noise.

    ``past`` has of each sample alpha, h, the models' predictions less the first one's, and the weights there were.
    """
    alpha, h = (np.array([part[k] for part in past]) for k in (0, 1))
    delta, omega = (np.array([part[k] for part in past]) for k in (2, 3))
    keep = (1.0 - 1.0 / span) ** np.arange(len(alpha))[::-1]
    C = (delta * (keep * h)[:, None]).T @ delta
    slopes = (keep * (alpha - h * (delta * omega).sum(1))) @ delta
    squares = keep**2 @ (alpha[:, None] * delta) ** 2
    peaks = share * (keep[:, None] * np.abs(alpha[:, None] * delta)).max(0)
    slopes[1:] += 0.3 * np.sqrt(squares[1:]) + peaks[1:]
    return slopes, C


def best_weights(past, start, span=100.0, share=1.0):
    """The weights of models that would have lost least: tried face by face of the simplex."""
    slopes, C = quadratic(past, span, share)
    count = len(start)
    best, least = start, 1e300
    for size in range(1, count + 1):
        for face in itertools.combinations(range(count), size):
            rows = list(face)
            system = np.block([[C[np.ix_(rows, rows)], np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
            part = np.linalg.lstsq(system, np.append(-slopes[rows], 1.0), rcond=None)[0][:size]
            omega = np.zeros(count)
            omega[rows] = part
            if (part < -1e-12).any() or abs(part.sum() - 1.0) > 1e-9:
                continue
            value = slopes @ omega + omega @ C @ omega / 2.0
            if value < least - 1e-12 * abs(least):
                best, least = omega, value
    return best


class MixtureOracle:
    """Models of several windows and their convex combination, whose weights are found face by face of the simplex."""

    def __init__(self, constraint, loss, memory, steps, c, seed, d, windows=(64, 16)):
        rng = np.random.default_rng(seed)
        spawned = rng.spawn(len(windows))
        self.models = [PairwiseOracle(constraint, loss, memory, steps, c, rng, d)]
        for window, own in zip(windows, spawned, strict=True):
            self.models.append(PairwiseOracle(constraint, loss, 3 * window, 2, c, own, d, window))
        self.omega = np.eye(len(self.models))[0]
        self.past = []  # (alpha, h, delta, omega) of each sample
        self.lead, self.spread = np.zeros(len(windows)), np.zeros(len(windows))
        self.replaced = 0

    @property
    def w(self):
        return self.omega @ [model.w for model in self.models]

    def learn(self, x, y):
        first = self.models[0]
        z = np.array([x @ model.w for model in self.models])
        _, alpha, h = first.loss_at(y, float(self.omega @ z))
        lost = np.array([model.loss_at(y, float(at))[0] for model, at in zip(self.models, z, strict=True)])
        for model in self.models:
            model.learn(x, y)
        self.past.append((alpha, h, z - z[0], self.omega))
        self.omega = best_weights(self.past, self.omega)
        for k in range(len(self.models) - 2, -1, -1):
            keep = 1.0 - 1.0 / (8.0 * self.models[k + 1].window)
            self.lead[k] = keep * self.lead[k] + lost[k] - lost[k + 1]
            self.spread[k] = keep**2 * self.spread[k] + (lost[k] - lost[k + 1]) ** 2
            is_behind = self.lead[k] > 5.0 * math.sqrt(self.spread[k])
            if is_behind or self.lead[k] <= 0.0:
                self.lead[k] = self.spread[k] = 0.0
            if is_behind:
                self.take_over(self.models[k], self.models[k + 1])

    def take_over(self, model, other):
        """The one becomes the other: its iterate, and of its samples those that it still holds."""
        self.replaced += 1
        common = min(len(model.samples), model.memory, other.memory, len(other.samples) - other.first)
        model.samples = [[*sample] for sample in other.samples]
        model.first = len(other.samples) - common
        model.w, model.key = other.w.copy(), other.key.copy()
        model.seen, model.model, model.pull = other.seen, other.model, other.pull
        model.b, model.offset, model.newton = other.b, other.offset, other.newton
        model.trust, model.effective = other.trust.copy(), other.effective
