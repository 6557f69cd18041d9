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


def shcgm(samples, trace, l1, beta0=1.0, batch_size=1):
    """Locatello et al. 2019, Algorithm 1, on min E ||X - w w^T||^2 / 2; yields every iterate."""
    n = samples.shape[1]
    x, d = np.zeros((n, n)), np.zeros((n, n))
    for k in range(1, len(samples) // batch_size + 1):
        w = samples[(k - 1) * batch_size : k * batch_size]
        eta, beta, rho = 9 / (k + 8), beta0 / np.sqrt(k + 8), 4 / (k + 7) ** (2 / 3)
        d = (1 - rho) * d + rho * (x - w.T @ w / batch_size)
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


def project_spectrahedron(x, trace):
    """The nearest point of {X PSD, tr X <= trace}."""
    values, vectors = np.linalg.eigh(x)
    kept = np.maximum(values, 0.0)
    if kept.sum() > trace:
        down = values[::-1]
        thresholds = (np.cumsum(down) - trace) / np.arange(1, down.size + 1)
        kept = np.maximum(values - thresholds[np.flatnonzero(down > thresholds)[-1]], 0.0)
    return (vectors * kept) @ vectors.T


def clear(moment, share):
    """What of a second moment stands clear of noise; all variances do."""
    noise = np.sqrt(np.outer(np.diag(moment), np.diag(moment)) * share)
    return np.where((np.abs(moment) > 2.9 * noise) | np.eye(len(moment), dtype=bool), moment, 0.0)


def weights(count, fading):
    """Of the first `count` samples."""
    out = np.ones(1)
    for k in range(2, count + 1):
        share = max(1.0 / k, fading)
        out = np.append((1.0 - share) * out, share)
    return out


def running_mean(
    samples, trace=None, l1=None, l1_fraction=None, beta0=1.0, centre=False, every=1, steps=1, dual=False, block=False,
    free=False, fading=0.0,
):  # fmt: skip
    """HCGM with the exact gradient of the mean over the samples seen so far; yields the iterate after each sample.

    What is sent to it takes the iterate's place: then the two are compared step by step, and an eigenvector's error,
    which a step may amplify many times over, does not add up.

    With `free` the bounds are given up, and the aim is what of the second moment stands clear of noise.
    With `block` a step goes to the point that minimises <v, S> + L eta / 2 ||S - X||^2. With `dual` as in CGAL.
    """
    n = samples.shape[1]
    x, y, k = np.zeros((n, n)), np.zeros((n, n)), 0
    for t in range(1, len(samples) + 1):
        of = weights(t, fading)
        seen = samples[:t] - (of @ samples[:t] if centre else 0.0)
        moment = (of * seen.T) @ seen
        now = np.trace(moment) if trace is None else trace
        if t % every == 0 and now > 0:
            for _ in range(steps):
                k += 1 if fading == 0.0 else k < np.ceil(2.0 / fading)
                bound = np.inf if free else l1_bound(moment, t, l1, l1_fraction)
                aim = clear(moment, max(1.0 / t, fading)) if free else moment
                eta, beta, next_beta = 2 / (k + 1), beta0 / np.sqrt(k + 1), beta0 / np.sqrt(k + 2)
                z = x + beta * y
                v = x - aim + (z - project_l1(z, bound)) / beta
                curvature = eta if free else (1 + 1 / beta) * eta
                s = project_spectrahedron(x - v / curvature, now) if block else lmo(v, now)
                x = x + eta * (s - x)
                if dual:
                    r = x - project_l1(x + next_beta * y, bound)
                    square = (r**2).sum()
                    sigma = 1 / beta0
                    if sigma * square > 4 * (eta * now) ** 2 / next_beta:
                        sigma = 4 * (eta * now) ** 2 / next_beta / square
                    y = y + sigma * r
        sent = yield x
        x = x if sent is None else sent
