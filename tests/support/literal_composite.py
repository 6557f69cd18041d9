"""The composite algorithms written out in numpy for one problem with two terms: what the package is held to.

min 1/2 ||x - c||^2 over the l1 ball of radius R, A x <= b by projection, and lambda ||x||_1.
"""

import numpy as np

RADIUS, WEIGHT = 3.0, 0.05


class Problem:
    def __init__(self, d=8, seed=0):
        rng = np.random.default_rng(seed)
        self.A = rng.standard_normal((3, d))
        self.b = 0.1 * np.ones(3)
        self.C = rng.standard_normal((20, d))  # f is the mean of 1/2 ||x - c_i||^2

    def below(self, z):
        return np.minimum(z, self.b)

    def penalty(self, x, beta, dual=0.0):
        z = self.A @ x + beta * dual
        soft = x - np.sign(x) * np.maximum(np.abs(x) - beta * WEIGHT, 0)
        return self.A.T @ (z - self.below(z)) / beta + soft / beta

    def ascend(self, x, beta0, eta, beta, dual):
        """One dual step of CGAL for the constraint; the penalty has none."""
        z = self.A @ x
        r = z - self.below(z + beta * dual)
        square = (r**2).sum()
        if square == 0:
            return dual
        return dual + min(1 / beta0, (2 * RADIUS * eta) ** 2 / (beta * square)) * r


def lmo(v):
    s = np.zeros_like(v)
    i = np.argmax(np.abs(v))
    s[i] = -RADIUS * (np.sign(v[i]) or 1.0)
    return s


def shcgm(problem, steps, beta0, seed, with_dual=False):
    rng = np.random.default_rng(seed)
    x = d = np.zeros(problem.C.shape[1])
    dual = np.zeros(3)
    for k in range(1, steps + 1):
        eta, beta, rho = 9 / (k + 8), beta0 / np.sqrt(k + 8), 4 / (k + 7) ** (2 / 3)
        d = (1 - rho) * d + rho * (x - problem.C[rng.integers(20)])
        x = x + eta * (lmo(d + problem.penalty(x, beta, dual)) - x)
        if with_dual:
            dual = problem.ascend(x, beta0, eta, beta0 / np.sqrt(k + 9), dual)
    return x


def hcgm(problem, steps, beta0, seed, with_dual=False):
    x, dual = np.zeros(problem.C.shape[1]), np.zeros(3)
    for k in range(1, steps + 1):
        eta, beta = 2 / (k + 1), beta0 / np.sqrt(k + 1)
        x = x + eta * (lmo(x - problem.C.mean(axis=0) + problem.penalty(x, beta, dual)) - x)
        if with_dual:
            dual = problem.ascend(x, beta0, eta, beta0 / np.sqrt(k + 2), dual)
    return x


def hsag(problem, steps, beta0, seed, with_dual=False):
    rng = np.random.default_rng(seed)
    x, dual = np.zeros(problem.C.shape[1]), np.zeros(3)
    table = np.zeros_like(problem.C)
    for k in range(1, steps + 1):
        eta, beta = 2 / (k + 1), beta0 / np.sqrt(k + 1)
        i = rng.choice(20, 1, replace=False)[0]
        table[i] = x - problem.C[i]
        x = x + eta * (lmo(table.mean(axis=0) + problem.penalty(x, beta, dual)) - x)
        if with_dual:
            dual = problem.ascend(x, beta0, eta, beta0 / np.sqrt(k + 2), dual)
    return x


def s3ccm(c, steps, proxes, project, gamma0):
    """min 1/2 ||x - c||^2 + sum_i g_i(x) over a set, on the product space of one copy of x a term, as it stands."""
    m = len(proxes)
    x, u = np.zeros((m, c.size)), np.zeros((m, c.size))
    gamma = m * gamma0
    for k in range(1, steps + 1):
        z = np.array([prox(x[i] + gamma * u[i], gamma) for i, prox in enumerate(proxes)])
        u = u + (x - z) / gamma
        gamma = m * gamma0 / k
        gradient = np.tile((z.mean(axis=0) - c) / m, (m, 1))  # of f(mean of the copies)
        x = np.tile(project((z - gamma * (u + gradient)).mean(axis=0)), (m, 1))
    return x[0]
