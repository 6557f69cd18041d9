"""Pairwise steps on a quadratic memory, written out sample by sample."""

import math

import numpy as np
from river import optim as river_optim

from support.draws import NOISE_BLOCK


class PairwiseOracle:
    """F is summed from every sample that was ever learned, whenever a slope of it is wanted."""

    def __init__(self, constraint, loss, memory, steps, c, seed, d):
        self.constraint, self.loss, self.memory, self.steps = constraint, loss, memory, steps
        self.noise = iter(np.random.default_rng(seed).random(NOISE_BLOCK))
        self.w, self.key = np.zeros(d), np.zeros(d)
        self.samples = []  # [x, y, alpha, h, w^i]
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
        alpha, h = (np.array([s[k] for s in self.samples])[:, None] for k in (2, 3))
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
        x, y, _, _, at = sample
        z = float(x @ self.w)
        alpha, value = float(self.loss.gradient(y, z)), float(self.loss(y, z))
        if isinstance(self.loss, river_optim.losses.Squared):
            h = 2.0
        elif isinstance(self.loss, river_optim.losses.Log):
            h = math.tanh(z / 2) / (2 * z) if z else 0.25
        else:
            h = alpha**2 / (2 * max(value, 0.1 * self.total / self.count))
        change = self.w - at
        model = h * float((x * change) @ (x * change))
        if at is not self.w and model > 0.0:
            self.seen = 0.999 * self.seen + h * float(x @ change) ** 2
            self.model = 0.999 * self.model + model
        sample[2:] = alpha, h, self.w.copy()
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

    def learn(self, x, y):
        self.total += float(self.loss(y, float(x @ self.w)))
        self.count += 1
        self.samples.append([x, y, 0.0, 0.0, self.w])
        self.look(self.samples[-1])
        for k in range(self.steps):
            if k:
                self.look(self.samples[-1 - int(next(self.noise) * min(len(self.samples), self.memory))])
            self.step()
