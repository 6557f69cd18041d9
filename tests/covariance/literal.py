"""The algorithms written out in numpy, line by line from the papers: what the compiled ones are held to."""

import numpy as np


def project_l1(x, radius):
    """Sort-based projection of all entries onto the l1 ball."""
    sizes = np.sort(np.abs(x).ravel())[::-1]
    if sizes.sum() <= radius:
        return x.copy()
    thresholds = (np.cumsum(sizes) - radius) / np.arange(1, sizes.size + 1)
    tau = thresholds[np.flatnonzero(sizes > thresholds)[-1]]
    return np.sign(x) * np.maximum(np.abs(x) - tau, 0.0)


def lmo(v, trace):
    """The vertex of {X PSD, tr X <= trace} that minimises <S, v>."""
    values, vectors = np.linalg.eigh(v)
    return trace * np.outer(vectors[:, 0], vectors[:, 0]) if values[0] < 0 else np.zeros_like(v)


def shcgm(samples, trace, l1, beta0=1.0, batch=1):
    """Locatello et al. 2019, Algorithm 1, on min E ||X - w w^T||^2 / 2; yields every iterate."""
    n = samples.shape[1]
    x, d = np.zeros((n, n)), np.zeros((n, n))
    for k in range(1, len(samples) // batch + 1):
        w = samples[(k - 1) * batch : k * batch]
        eta, beta, rho = 9 / (k + 8), beta0 / np.sqrt(k + 8), 4 / (k + 7) ** (2 / 3)
        d = (1 - rho) * d + rho * (x - w.T @ w / batch)
        v = d + (x - project_l1(x, l1)) / beta
        x = x + eta * (lmo(v, trace) - x)
        yield x


def l1_bound(moment, count, l1, l1_fraction):
    if l1 is not None:
        return l1
    if l1_fraction is not None:
        return l1_fraction * np.abs(moment).sum()
    noise = np.sqrt(np.outer(np.diag(moment), np.diag(moment)) / count)
    return np.abs(moment[(np.abs(moment) > 2.9 * noise) | np.eye(len(moment), dtype=bool)]).sum()


def running_mean(samples, trace=None, l1=None, l1_fraction=None, beta0=1.0, centre=False, every=1, steps=1):
    """HCGM with the exact gradient of the mean over the samples seen so far; yields the iterate after each sample."""
    n = samples.shape[1]
    x, k = np.zeros((n, n)), 0
    for t in range(1, len(samples) + 1):
        seen = samples[:t] - (samples[:t].mean(axis=0) if centre else 0.0)
        moment = seen.T @ seen / t
        now = np.trace(moment) if trace is None else trace
        if t % every == 0 and now > 0:
            for _ in range(steps):
                k += 1
                bound = l1_bound(moment, t, l1, l1_fraction)
                v = x - moment + (x - project_l1(x, bound)) / (beta0 / np.sqrt(k + 1))
                x = x + 2 / (k + 1) * (lmo(v, now) - x)
        yield x
