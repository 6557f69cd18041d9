"""Raw predictions of whole matrices, each row by the sum that a single sample is predicted with."""

from __future__ import annotations

import math

import numpy as np

from fwonline._kernels.coordinates import sparse_dot
from fwonline._kernels.layout import jit, open_part, part


@open_part
def sigmoid(z):
    """1 / (1 + e^-z) without overflow."""
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    e = math.exp(z)
    return e / (1.0 + e)


@part
def log1p_exp(z):
    """log(1 + e^z) without overflow."""
    return z + math.log1p(math.exp(-z)) if z > 0.0 else math.log1p(math.exp(z))


@jit
def score_rows(v, scalars, indptr, idx, val, raw, probability):
    """raw[i] = <x_i, w> + intercept, w = scale v; probability[i] its logistic function, where there is room for it.

    Both in one loop over rows, whose inner loop keeps the compiler from taking several exponentials at once: those are
    rounded otherwise than the one of a single sample.
    """
    scale, intercept = scalars
    for i in range(raw.size):
        raw[i] = scale * sparse_dot(v, idx, val, indptr[i], indptr[i + 1]) + intercept
        if probability.size:
            probability[i] = sigmoid(raw[i])


@jit
def score_classes(W, indptr, idx, val, raw):
    """raw[i, c] = <x_i, W_c>."""
    for i in range(raw.shape[0]):
        for c in range(raw.shape[1]):
            raw[i, c] = sparse_dot(W[c], idx, val, indptr[i], indptr[i + 1])


@jit
def softmax_rows(z, p):
    """The softmax of each row, without overflow."""
    for i in range(z.shape[0]):
        largest = -np.inf
        for c in range(z.shape[1]):
            largest = max(largest, z[i, c])
        total = 0.0
        for c in range(z.shape[1]):
            p[i, c] = np.exp(z[i, c] - largest)
            total += p[i, c]
        for c in range(z.shape[1]):
            p[i, c] /= total
