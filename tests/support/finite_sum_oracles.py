"""The batch algorithms written out as in their papers, with the gradients of all samples formed one by one.

Only the random numbers are shared with the library: batches are drawn by the same calls of the same generator. Sets
answer by their own ``lmo`` and ``project``. A batch of all samples or more is the exact gradient.
"""

import math

import numpy as np


class Problem:
    """Gradients of single samples: ``w`` is a vector for 0/1 labels or numbers, a matrix for a softmax."""

    def __init__(self, X, y, kind):
        self.X, self.y, self.kind, self.n = X, y, kind, len(y)
        self.largest = max(np.sqrt(x @ x) for x in X)
        self.L = {"squared": 2.0, "log": 0.25, "softmax": 0.5}[kind] * self.largest**2
        self.evaluations = 0

    def sample(self, w, i):
        x, y = self.X[i], self.y[i]
        z = w @ x
        if self.kind == "squared":
            return 2.0 * (z - y) * x
        if self.kind == "log":
            return (1.0 / (1.0 + math.exp(-z)) - y) * x
        p = np.exp(z) / np.exp(z).sum()
        p[int(y)] -= 1.0
        return np.outer(p, x)

    def mean(self, w, batch):
        self.evaluations += len(batch)
        return np.mean([self.sample(w, i) for i in batch], axis=0)

    def full(self, w):
        return self.mean(w, range(self.n))

    def bound(self, w, D):
        """G: the slope's bound times the largest norm, or the largest gradient at w plus L D."""
        if self.kind == "log":
            return self.largest
        if self.kind == "softmax":
            return math.sqrt(2.0) * self.largest
        return max(abs(2.0 * (w @ x - y)) for x, y in zip(self.X, self.y, strict=True)) * self.largest + self.L * D


def draw(rng, n, m):
    return None if m >= n else rng.integers(n, size=m)


def towards(w, gamma, atom):
    return (1.0 - gamma) * w + gamma * atom.to_dense()


def first_vertex(problem, constraint, shape):
    return constraint.lmo(problem.full(np.zeros(shape))).to_dense()


def hazan_luo(problem, constraint, shape, steps, seed, batch=None):
    rng, w = np.random.default_rng(seed), constraint.initial_point(shape)
    D = constraint.diameter(shape)
    G = problem.bound(w, D)
    for k in range(1, steps + 1):
        m = batch or math.ceil((G * (k + 1) / (problem.L * D)) ** 2)
        chosen = draw(rng, problem.n, m)
        g = problem.full(w) if chosen is None else problem.mean(w, chosen)
        w = towards(w, 2.0 / (k + 1), constraint.lmo(g))
    return w


def reduced(problem, w, snapshot, full, rng, m):
    """The mean of m independent grad f_i(w) - (grad f_i(w_0) - grad f(w_0))."""
    chosen = draw(rng, problem.n, m)
    if chosen is None:
        return problem.full(w)
    return np.mean([problem.sample(w, i) - problem.sample(snapshot, i) for i in chosen], axis=0) + full


def svrf(problem, constraint, shape, steps, seed, batch=None, epoch=None):
    """The snapshot after so many steps: w_t of the last complete epoch t."""
    rng = np.random.default_rng(seed)
    w = first_vertex(problem, constraint, shape)
    done = t = 0
    while True:
        t += 1
        snapshot, full = w, problem.full(w)
        for k in range(1, (epoch or 2 ** (t + 3) - 2) + 1):
            g = reduced(problem, w, snapshot, full, rng, batch or 96 * (k + 1))
            w = towards(w, 2.0 / (k + 1), constraint.lmo(g))
            done += 1
            if done == steps and k < (epoch or 2 ** (t + 3) - 2):
                return snapshot
        if done == steps:
            return w


def cndg(g, u, beta, eta, constraint):
    x = u
    while True:
        v = constraint.lmo(g + beta * (x - u)).to_dense()
        gap = np.vdot(g + beta * (x - u), x - v)
        if gap <= eta:
            return x
        x = x + min(1.0, np.vdot(beta * (u - x) - g, v - x) / (beta * np.vdot(v - x, v - x))) * (v - x)


def scgs(problem, constraint, shape, steps, seed, lipschitz=None, diameter=None):
    rng = np.random.default_rng(seed)
    L = problem.L if lipschitz is None else lipschitz
    D = constraint.diameter(shape) if diameter is None else diameter
    x = y = constraint.initial_point(shape)
    G = problem.bound(y, D)
    for k in range(1, steps + 1):
        gamma = 3.0 / (k + 2)
        z = (1.0 - gamma) * y + gamma * x
        chosen = draw(rng, problem.n, math.ceil(G**2 * (k + 2) ** 3 / (L * D) ** 2))
        g = problem.full(z) if chosen is None else problem.mean(z, chosen)
        x = cndg(g, x, 4.0 * L / (k + 2), L * D * D / (k * (k + 1)), constraint)
        y = (1.0 - gamma) * y + gamma * x
    return y


def storc(problem, constraint, shape, steps, seed, lipschitz=None, diameter=None, case="b", alpha=None, batch=None):
    """The snapshot after so many steps, as for :func:`svrf`."""
    rng = np.random.default_rng(seed)
    L = problem.L if lipschitz is None else lipschitz
    D = constraint.diameter(shape) if diameter is None else diameter
    y = first_vertex(problem, constraint, shape)
    G = problem.bound(y, D)
    done = t = 0
    while True:
        t += 1
        mu = L / alpha if case == "c" else None
        N = math.ceil(math.sqrt(32 * mu)) if case == "c" else math.ceil(2 ** (t / 2 + 2))
        D_sq = mu * D * D / 2 ** (t - 1) if case == "c" else D * D
        snapshot, full, x = y, problem.full(y), y
        for k in range(1, N + 1):
            m = {"a": 900 * N, "b": math.ceil(700 * N + 24 * N * G * (k + 1) / (L * D)), "c": None}[case]
            m = batch or (math.ceil(5600 * N * mu) if m is None else m)
            gamma = 2.0 / (k + 1)
            z = (1.0 - gamma) * y + gamma * x
            g = reduced(problem, z, snapshot, full, rng, m)
            x = cndg(g, x, 3.0 * L / k, 2.0 * L * D_sq / (N * k), constraint)
            y = (1.0 - gamma) * y + gamma * x
            done += 1
            if done == steps and k < N:
                return snapshot
        if done == steps:
            return y


def projected_svrg(problem, constraint, shape, steps, seed, batch=1, step=None, epoch=None):
    rng, w = np.random.default_rng(seed), constraint.initial_point(shape)
    eta = step or 0.1 / problem.L
    epoch = epoch or 2 * problem.n // batch
    for k in range(steps):
        if k % epoch == 0:
            snapshot, full = w, problem.full(w)
        w = constraint.project(w - eta * reduced(problem, w, snapshot, full, rng, batch))
    return w
