"""AdaGrad's learners beside a default learner, and their mixture, written out sample by sample."""

import math

import numpy as np

from support.pairwise_oracle import best_weights, quadratic

STEPS = 1.0 / 128.0, 1.0 / 32.0, 1.0 / 8.0, 1.0 / 8.0, 1.0 / 2.0
IMPLICIT = 3
SPAN, SHARE = 300.0, 0.5


def nearest(constraint, w, metric):
    """The nearest point in the norm sum_j h_j x_j^2, h = sqrt(metric), by bisection."""
    kind = type(constraint).__name__
    if kind == "Box":
        return np.clip(w, constraint.lower, constraint.upper)
    radius = constraint.radius
    if kind == "LInfBall":
        return np.clip(w, -radius, radius)
    if "Simplex" in kind:
        w = np.maximum(w, 0.0)
    norm = np.linalg.norm(w) if kind == "L2Ball" else np.abs(w).sum()
    if kind != "ProbabilitySimplex" and norm <= radius:
        return w
    takes_part = (metric > 0.0) | (w != 0.0)
    h = np.sqrt(np.maximum(metric, metric[metric > 0.0].min(initial=math.inf)))
    if not np.isfinite(h).all():
        return w  # nothing has moved

    def at(t):
        if kind == "L2Ball":
            return w * (h / (h + t))
        if kind == "L1Ball":
            return np.copysign(np.maximum(np.abs(w) - t / h, 0.0), w)
        return np.maximum(w - t / h, 0.0) * takes_part

    def size(t):
        return np.linalg.norm(at(t)) if kind == "L2Ball" else np.abs(at(t)).sum()

    low = high = 1e-300
    while size(high) > radius:
        high *= 2.0
    while size(low) < radius:
        low = 2.0 * low if low < 0.0 else -1e-300
    for _ in range(3000):
        middle = (low + high) / 2.0
        low, high = (middle, high) if size(middle) > radius else (low, middle)
    return at(high)


class AdaGradMixtureOracle:
    """``default`` is a model that has learned the same samples: its point and predictions are taken as they are."""

    def __init__(self, constraint, loss, default, d):
        self.constraint, self.loss, self.default, self.d = constraint, loss, default, d
        self.start = float(np.clip(0.0, constraint.lower, constraint.upper)) if "Box" in str(constraint) else 0.0
        self.points = np.full((len(STEPS), d), self.start)
        self.metric = np.zeros((len(STEPS), d))
        self.offsets, self.bends = np.zeros(len(STEPS)), np.zeros(len(STEPS))
        self.omega = np.eye(1 + len(STEPS))[0]
        self.past, self.entries, self.constant = [], [], []
        self.b = self.b_curvature = self.lost = 0.0
        self.started = "ProbabilitySimplex" not in str(constraint)

    def default_point(self):
        return np.array([self.default.weights.get(j, self.start) for j in range(self.d)])

    @property
    def w(self):
        return self.omega @ np.vstack([self.default_point(), self.points])

    @property
    def intercept(self):
        return self.omega @ np.append(self.default.intercept_, self.b + self.offsets)

    def curvature(self, y, z):
        if type(self.loss).__name__ == "Squared":
            return 2.0
        return 0.25 if abs(z) < 1e-6 else math.tanh(abs(z) / 2.0) / (2.0 * abs(z))

    def excess(self, omega):
        """How much more weights would have lost than the best ones, tried face by face; and how much those."""
        slopes, C = quadratic(self.past, SPAN, SHARE)
        lost = [slopes @ w + w @ C @ w / 2.0 for w in (omega, best_weights(self.past, self.omega, SPAN, SHARE))]
        return lost[0] - lost[1], abs(lost[1])

    def learn(self, x, y, weights):
        """``weights`` are asked for once the default learner has seen the sample: the best ones, as they were found."""
        z = float(x @ self.w + self.intercept)
        said = np.append(x @ self.default_point() + self.default.intercept_, self.points @ x + self.b + self.offsets)
        self.default.learn_one({j: v for j, v in enumerate(x.tolist()) if v}, y)
        self.past.append((self.loss.gradient(y, z), self.curvature(y, z), said - said[0], self.omega))
        self.omega = weights()
        # The best constant, by Newton's steps; how far it is off says how far predictions go.
        n = len(self.past)
        before, slope, after = (self.loss.gradient(y, self.b + shift) for shift in (-1e-3, 0.0, 1e-3))
        self.b_curvature += (after - before) / 2e-3
        self.b -= slope / (self.b_curvature * (1.0 + 1.0 / n))
        if n > 1:
            self.constant.append((self.loss.gradient(y, self.b) ** 2, self.curvature(y, self.b)))
        self.entries += [v * v for v in x.tolist() if v]
        squares, curves = np.mean(self.constant, axis=0) if self.constant else (0.0, 1.0)
        reach = math.sqrt(squares) / curves
        unit = reach / math.sqrt(np.mean(self.entries)) if self.entries else 0.0
        if not self.started:
            self.points[:] = self.default_point()
            self.started = True
        for k, size in enumerate(STEPS):
            z = float(said[k + 1])
            alpha = self.loss.gradient(y, z)
            self.metric[k] += (alpha * x) ** 2
            self.bends[k] += alpha**2
            roots = np.sqrt(np.where(self.metric[k] > 0.0, self.metric[k], np.inf))
            if k >= IMPLICIT:
                alpha = self.implicit(y, z, size * (unit * (x * x / roots).sum() + reach / math.sqrt(self.bends[k])))
            self.offsets[k] -= size * reach * alpha / math.sqrt(self.bends[k])
            self.points[k] = nearest(self.constraint, self.points[k] - size * unit * alpha * x / roots, self.metric[k])

    def implicit(self, y, z, length):
        """The derivative at z' = z - length f'(z'), by bisection."""
        low, high = sorted((z, z - length * self.loss.gradient(y, z)))
        for _ in range(200):
            middle = (low + high) / 2.0
            low, high = (middle, high) if middle + length * self.loss.gradient(y, middle) < z else (low, middle)
        return self.loss.gradient(y, low)
