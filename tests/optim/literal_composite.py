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

    def penalty(self, x, beta):
        z = self.A @ x
        feasible = z - np.minimum(z, self.b)
        soft = x - np.sign(x) * np.maximum(np.abs(x) - beta * WEIGHT, 0)
        return self.A.T @ feasible / beta + soft / beta


def lmo(v):
    s = np.zeros_like(v)
    i = np.argmax(np.abs(v))
    s[i] = -RADIUS * (np.sign(v[i]) or 1.0)
    return s


def shcgm(problem, steps, beta0, seed):
    rng = np.random.default_rng(seed)
    x = d = np.zeros(problem.C.shape[1])
    for k in range(1, steps + 1):
        eta, beta, rho = 9 / (k + 8), beta0 / np.sqrt(k + 8), 4 / (k + 7) ** (2 / 3)
        d = (1 - rho) * d + rho * (x - problem.C[rng.integers(20)])
        x = x + eta * (lmo(d + problem.penalty(x, beta)) - x)
    return x


def hcgm(problem, steps, beta0, seed):
    x = np.zeros(problem.C.shape[1])
    for k in range(1, steps + 1):
        eta, beta = 2 / (k + 1), beta0 / np.sqrt(k + 1)
        x = x + eta * (lmo(x - problem.C.mean(axis=0) + problem.penalty(x, beta)) - x)
    return x


def hsag(problem, steps, beta0, seed):
    rng = np.random.default_rng(seed)
    x = np.zeros(problem.C.shape[1])
    table = np.zeros_like(problem.C)
    for k in range(1, steps + 1):
        eta, beta = 2 / (k + 1), beta0 / np.sqrt(k + 1)
        i = rng.choice(20, 1, replace=False)[0]
        table[i] = x - problem.C[i]
        x = x + eta * (lmo(table.mean(axis=0) + problem.penalty(x, beta)) - x)
    return x
