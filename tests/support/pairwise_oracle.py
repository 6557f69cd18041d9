"""Pairwise steps on a quadratic memory, written out sample by sample."""

import itertools
import math

import numpy as np
from river import optim as river_optim

from support.draws import NOISE_BLOCK


class PairwiseOracle:
    """F is summed from every sample that was ever learned, whenever a slope of it is wanted.

    ``window``: a sample counts 1 - 1 / window of the next one.
    """

    def __init__(self, constraint, loss, memory, steps, c, seed, d, window=math.inf):
        self.constraint, self.loss, self.memory, self.steps = constraint, loss, memory, steps
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
        self.noise = iter(rng.random(NOISE_BLOCK))
        self.window, self.first = window, 0
        self.w, self.key = np.zeros(d), np.zeros(d)
        self.samples = []  # [x, y, alpha, h, w^i, what it counts]
        self.c = c * math.sqrt(math.log(1 + d))
        self.seen = self.model = self.pull = self.total = 0.0
        self.count = 0
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
        g = (alpha * X).sum(0) + (h * X**2 * (self.w - at)).sum(0)
        ratio = max(self.seen / self.model, 1.0) if self.model else 1.0
        noise = 0.0 if self.kind == "ProbabilitySimplex" else self.c * np.sqrt((alpha**2 * X**2).sum(0))
        return g, noise * np.ones_like(g), H * ratio

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
        x, y, _, _, at, _ = sample
        _, alpha, h = self.loss_at(y, float(x @ self.w))
        change = self.w - at
        model = h * float((x * change) @ (x * change))
        if at is not self.w and model > 0.0:
            self.seen = 0.999 * self.seen + h * float(x @ change) ** 2
            self.model = 0.999 * self.model + model
        sample[2:5] = alpha, h, self.w.copy()
        for j in np.flatnonzero(x):
            if self.w[j] != 0.0 and self.kind != "ProbabilitySimplex":
                to, h_j, _ = self.aim(j)
                if h_j > 0.0 and to == 0.0:
                    self.w[j] = 0.0
            self.touch(j)

    def step(self):
        j = int(np.argmax(self.key))
        size, R = np.abs(self.w).sum(), self.upper
        if self.kind == "ProbabilitySimplex":
            if not self.w.any():
                self.w[j] = R
            else:
                self.exchange(j, 0.0)
        elif self.key[j] > 0.0:
            to, _, _ = self.aim(j)
            to = 0.0 if to * self.w[j] < 0.0 else to
            grows = abs(to) - abs(self.w[j])
            if self.kind in ("L1Ball", "UnitSimplex") and grows > 0.0 and size + grows > R:
                self.exchange(j, max(R - size, 0.0))
            else:
                self.w[j] = to
                if self.kind == "L2Ball" and np.linalg.norm(self.w) > R:
                    self.w *= R / np.linalg.norm(self.w)
        self.touch(j)

    def exchange(self, j, room):
        g, noise, H = self.sums()
        w = self.w
        sign = 1.0
        if self.kind != "ProbabilitySimplex":
            sign = 1.0 if w[j] > 0.0 or (w[j] == 0.0 and g[j] < 0.0) else -1.0
        others = [k for k in np.flatnonzero(w) if k != j]
        if not others:
            w[j] += sign * room
            return
        gains = [np.sign(w[k]) * g[k] + noise[k] for k in others]
        k, gain = others[int(np.argmax(gains))], max(gains)
        mine = sign * g[j] + noise[j]
        step = max((gain - mine) / (H[j] + H[k]), 0.0)
        if step >= abs(w[k]) + room:
            step, w[k] = abs(w[k]) + room, 0.0
        else:
            w[k] -= np.copysign(max(step - room, 0.0), w[k])
        w[j] += sign * step
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

    def learn(self, x, y, weight=1.0):
        self.total += float(self.loss(y, float(x @ self.w)))
        self.count += 1
        for sample in self.samples:
            sample[5] *= 1.0 - 1.0 / self.window
        self.key *= 1.0 - 1.0 / self.window
        self.pull *= 1.0 - 1.0 / self.window
        self.samples.append([x, y, 0.0, 0.0, self.w, weight])
        self.look(self.samples[-1])
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
