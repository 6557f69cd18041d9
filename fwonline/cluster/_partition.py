"""Passes over the packed triangle of a matrix that is to become a partition: entries >= 0, rows that sum to 1.

Packed as in :mod:`fwonline._kernels.symmetric`; :mod:`fwonline._kernels.lanczos` finds the eigenvector.
"""

from __future__ import annotations

import typing

from fwonline._kernels.layout import fast_jit, jit

__all__ = ["Weights", "add_block", "combine", "move", "read_row", "times", "write_row"]


class Weights(typing.NamedTuple):
    """What :func:`combine` makes a gradient of."""

    of_x: float
    of_d: float
    of_negative: float


@jit
def add_block(d, chosen, points, keep, weight):
    """D = keep D + weight times the squared distances, for pairs of the chosen points, given in ascending order."""
    for a in range(chosen.size):
        i = chosen[a]
        start = i * (i + 1) // 2
        for b in range(a):
            j = chosen[b]
            total = 0.0
            for f in range(points.shape[1]):
                gap = points[i, f] - points[j, f]
                total += gap * gap
            d[start + j] = keep * d[start + j] + weight * total


@fast_jit
def combine(g, x, d, n, weights, a, v, image):
    """G = of_d D + of_negative min(of_x X, 0) + a 1^T + 1 a^T, and G v on the way; returns <G, of_x X>."""
    of_x = weights.of_x
    of_d = weights.of_d
    of_negative = weights.of_negative
    off = 0.0
    on = 0.0
    for j in range(n):
        image[j] = 0.0
    for i in range(n):
        start = i * (i + 1) // 2
        g_row = g[start : start + i + 1]
        x_row = x[start : start + i + 1]
        d_row = d[start : start + i + 1]
        here = v[i]
        mine = a[i]
        along = 0.0
        for j in range(i):
            value = of_x * x_row[j]
            negative = min(value, 0.0)
            b = of_d * d_row[j] + of_negative * negative + mine + a[j]
            g_row[j] = b
            off += b * value
            along += b * v[j]
            image[j] += b * here
        value = of_x * x_row[i]
        negative = min(value, 0.0)
        b = of_d * d_row[i] + of_negative * negative + mine + mine
        g_row[i] = b
        on += b * value
        image[i] = along + b * here
    return 2.0 * off + on


@fast_jit
def move(x, n, keep, weight, v):
    """X = keep X + weight v v^T."""
    for i in range(n):
        start = i * (i + 1) // 2
        row = x[start : start + i + 1]
        scaled = weight * v[i]
        for j in range(i + 1):
            row[j] = keep * row[j] + scaled * v[j]


@jit
def times(x, n, points, out):
    """out = X points."""
    out[:] = 0.0
    for i in range(n):
        start = i * (i + 1) // 2
        for j in range(i):
            value = x[start + j]
            for f in range(points.shape[1]):
                out[i, f] += value * points[j, f]
                out[j, f] += value * points[i, f]
        value = x[start + i]
        for f in range(points.shape[1]):
            out[i, f] += value * points[i, f]


@jit
def read_row(x, n, i, row):
    """Row i of X, whole."""
    start = i * (i + 1) // 2
    for j in range(i + 1):
        row[j] = x[start + j]
    for k in range(i + 1, n):
        row[k] = x[k * (k + 1) // 2 + i]


@jit
def write_row(x, n, i, row):
    """Row and column i of X become `row`."""
    start = i * (i + 1) // 2
    for j in range(i + 1):
        x[start + j] = row[j]
    for k in range(i + 1, n):
        x[k * (k + 1) // 2 + i] = row[k]
