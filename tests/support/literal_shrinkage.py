"""The estimate of a covariance without bounds, written out, and the shrinkage that it is compared with."""

import itertools

import numpy as np

from support.literal_covariance import weights as sample_weights


def best_on_simplex(gram, aims):
    """The c >= 0 of sum 1 that minimise c^T G c - 2 c^T a: the best of all supports whose solution is not negative."""
    best, least = None, np.inf
    for count in range(1, len(aims) + 1):
        for support in itertools.combinations(range(len(aims)), count):
            at = list(support)
            system = np.block([[gram[np.ix_(at, at)], np.ones((count, 1))], [np.ones((1, count)), np.zeros((1, 1))]])
            c = np.zeros(len(aims))
            c[at] = np.linalg.lstsq(system, np.append(aims[at], 1.0), rcond=None)[0][:count]
            if (c >= -1e-12).all() and (value := c @ gram @ c - 2.0 * c @ aims) < least:
                best, least = c, value
    return best


def deviations(samples, centre, fading):
    """Of all samples from their weighted mean, and their weights."""
    of = sample_weights(len(samples), fading)
    return samples - (of @ samples if centre else 0.0), of


def mixture(samples, balls, centre=True, fading=0.0):
    """Weights of the second moment, of the last ball's estimate and of the identity; `balls[k]` knows k samples."""
    evidence = []
    for k in range(1, len(samples)):
        y, of = deviations(samples[:k], centre, fading)
        S, X, q = (of * y.T) @ y, balls[k], of @ of
        if (X * S).sum() <= 0.0 or q == 1.0:
            continue
        w = samples[k] - (of @ samples[:k] if centre else 0.0)
        noise = 1.0 + q if centre else 1.0
        evidence.append([(A * S).sum() / q - w @ A @ w / noise / q for A in (X, S)])
    y, of = deviations(samples, centre, fading)
    S, X, q, n = (of * y.T) @ y, balls[len(samples)], of @ of, samples.shape[1]
    fourth = of @ (y**2).sum(axis=1) ** 2
    eighth = 0.0
    for k in range(1, len(samples) + 1):  # as the samples came, about the mean with each
        y_k, of_k = deviations(samples[:k], centre, fading)
        eighth = (1.0 - of_k[-1]) * eighth + of_k[-1] * (y_k[-1] ** 2).sum() ** 4
    of_m, trace = (S * S).sum(), np.trace(S)
    noise = fourth - of_m
    noise = max(noise - 0.5 * np.sqrt(max(eighth - fourth**2, 0.0) * q), min(noise, trace**2 + of_m))
    identity = trace / n * np.eye(n)
    aims = [of_m - q * noise / (1 - q), None, (trace**2 - q * (noise + of_m)) / (1 - q) / n]
    targets = [S, X, identity]
    if evidence:
        part, shares, means = 0.0, np.zeros(0), np.array(evidence)
        for k in range(1, len(means) + 1):
            part = max(min(1.0, 2.0 / k), fading)
            shares = np.append((1.0 - part) * shares, part)
        of_x, of_v = shares @ means
        slope = (X * S).sum() / of_m
        apart = means[:, 0] - slope * means[:, 1]
        spread = shares @ apart**2 - (shares @ apart) ** 2
        taken = of_x + slope * (noise - of_v) + 3.0 * np.sqrt(spread * (shares @ shares))
        aims[1] = (X * S).sum() - q * min(max(taken, 0.0), slope * noise)
        used = [0, 1, 2]
    else:
        used = [0, 2]
    gram = np.array([[(targets[i] * targets[j]).sum() for j in used] for i in used])
    out = np.zeros(3)
    out[used] = best_on_simplex(gram / trace**2, np.array([aims[i] for i in used]) / trace**2)
    return out


def ledoit_wolf(samples):
    """Ledoit and Wolf 2004."""
    y = samples - samples.mean(axis=0)
    count, n = y.shape
    S = y.T @ y / count
    identity = np.trace(S) / n * np.eye(n)
    distance = ((S - identity) ** 2).sum()
    noise = ((y**2).sum(axis=1) ** 2).mean() - (S * S).sum()
    part = min(noise / count, distance) / distance
    return (1 - part) * S + part * identity


def oracle_approximating(samples):
    """Chen, Wiesel, Eldar and Hero 2010, as scikit-learn has it."""
    y = samples - samples.mean(axis=0)
    count, n = y.shape
    S = y.T @ y / count
    alpha, mu = (S**2).mean(), np.trace(S) / n
    part = min(1.0, (alpha + mu**2) / ((count + 1.0) * (alpha - mu**2 / n)))
    return (1 - part) * S + part * mu * np.eye(n)
