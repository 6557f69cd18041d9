"""Pairwise steps on a quadratic memory for the matrix of a softmax, written out sample by sample."""

import math

import numpy as np

from support.draws import NOISE_BLOCK

HOLD = 0.25  # the pseudo-sample that holds an intercept at 0


class Held:
    """A sample, and what it said of each class when it was last looked at."""

    def __init__(self, x, y, W, b):
        self.x, self.y, self.W, self.b = x, y, W.copy(), b.copy()
        self.alpha, self.h = np.zeros(b.size), np.zeros(b.size)


class ClassesOracle:
    """F is summed from every sample that was ever learned, whenever a slope is wanted; W is features x classes."""

    def __init__(self, d, k, radius, memory, steps, c, seed, intercept=True):
        self.W, self.b, self.keys = np.zeros((d, k)), np.zeros(k), np.zeros((d, k))
        self.radius, self.memory, self.steps, self.intercept = radius, memory, steps, intercept
        self.noise = iter(np.random.default_rng(seed).random(NOISE_BLOCK))
        self.penalty = c * math.sqrt(math.log(1 + d))
        self.samples, self.known = [], 0
        self.seen = self.model = self.loss = 0.0

    @property
    def stretch(self):
        return max(self.seen / self.model, 1.0) if self.model else 1.0

    def sums(self, j, c):
        """Slope, noise and curvature of F in an entry."""
        g = H = q = 0.0
        for s in self.samples:
            g += s.alpha[c] * s.x[j] + s.h[c] * s.x[j] ** 2 * (self.W[j, c] - s.W[j, c])
            H += s.h[c] * s.x[j] ** 2
            q += (s.alpha[c] * s.x[j]) ** 2
        return g, self.penalty * math.sqrt(q), H * self.stretch

    def aim(self, j, c):
        g, noise, H = self.sums(j, c)
        z = H * self.W[j, c] - g
        return math.copysign(max(abs(z) - noise, 0.0), z), H

    def touch(self, j, c):
        z, H = self.aim(j, c)
        self.keys[j, c] = abs(z - H * self.W[j, c]) * (0.8 if self.W[j, c] == 0.0 else 1.0)

    def look(self, s):
        k = self.known
        z = (s.x @ self.W + self.b)[:k]
        p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        alpha = p - np.eye(k)[s.y]
        margin = np.log(p) - np.log(np.maximum(1.0 - p, 1e-16))
        near = np.abs(margin) < 1e-3
        h = np.where(near, 0.25, np.tanh(margin / 2.0) / np.where(near, 1.0, 2.0 * margin))
        change = np.vstack([s.x[:, None] * (self.W - s.W), self.b - s.b])[:, :k]
        old = s.h[:k] > 0.0
        moved = np.where(old, change.sum(axis=0), 0.0)
        model = h @ np.where(old, (change**2).sum(axis=0), 0.0)
        if model > 0.0:
            self.seen = 0.999 * self.seen + max(h @ moved**2, (alpha - s.alpha[:k]) @ moved)
            self.model = 0.999 * self.model + model
        s.alpha[:k], s.h[:k], s.W, s.b = alpha, h, self.W.copy(), self.b.copy()
        for j in np.flatnonzero(s.x):
            for c in range(k):
                if self.W[j, c] != 0.0 and self.aim(j, c)[0] == 0.0:
                    self.W[j, c] = 0.0
                self.touch(j, c)
        for c in range(k if self.intercept else 0):
            g = sum(s.alpha[c] + s.h[c] * (self.b[c] - s.b[c]) for s in self.samples)
            H = sum(s.h[c] for s in self.samples)
            self.b[c] -= (g + HOLD * self.b[c]) / (H * self.stretch + HOLD)
        return math.log(np.exp(z - z.max()).sum()) + z.max() - z[s.y]

    def step(self):
        j, c = np.unravel_index(np.argmax(self.keys), self.keys.shape)
        if self.keys[j, c] <= 0.0:
            return
        z, H = self.aim(j, c)
        w, size = self.W[j, c], np.abs(self.W).sum()
        to = min(max(z / H, -self.radius), self.radius)
        to = 0.0 if to * w < 0.0 else to
        if abs(to) > abs(w) and size + abs(to) - abs(w) > self.radius:
            self.exchange(j, c, max(self.radius - size, 0.0))
        else:
            self.W[j, c] = to
        self.touch(j, c)

    def exchange(self, j, c, room):
        g, noise, H = self.sums(j, c)
        w = self.W[j, c]
        sign = 1.0 if w > 0.0 or (w == 0.0 and g < 0.0) else -1.0
        others = [at for at in zip(*np.nonzero(self.W), strict=True) if at != (j, c)]
        if not others:
            self.W[j, c] += sign * room
            return
        gains = [np.sign(self.W[at]) * self.sums(*at)[0] + self.sums(*at)[1] for at in others]
        worst, gain = others[int(np.argmax(gains))], max(gains)
        step = max((gain - (sign * g + noise)) / (H + self.sums(*worst)[2]), 0.0)
        if step >= abs(self.W[worst]) + room:
            step, self.W[worst] = abs(self.W[worst]) + room, 0.0
        else:
            self.W[worst] -= np.copysign(max(step - room, 0.0), self.W[worst])
        self.W[j, c] += sign * step
        self.touch(*worst)

    def learn(self, x, y):
        self.known = max(self.known, y + 1)
        self.samples.append(Held(x, y, self.W, self.b))
        self.loss += self.look(self.samples[-1])
        for look in range(self.steps):
            if look:
                self.look(self.samples[-1 - int(next(self.noise) * min(len(self.samples), self.memory))])
            for _ in range(min(self.known, 16)):
                self.step()

    def forget(self, keep):
        """What came before the last samples counts no longer; these are seen anew, the newest first."""
        self.samples = self.samples[-keep:]
        self.keys[:] = 0.0
        for s in self.samples:
            s.alpha[:] = s.h[:] = 0.0
        for s in reversed(self.samples):
            self.look(s)
