"""Running means of many samples at a time: the operations that one sample at a time takes, in the same order."""

from __future__ import annotations

import math

from fwonline._kernels.layout import jit

# What becomes of a value before it is averaged.
PLAIN, POWER, MINUS_LOG = 0, 1, 2


@jit
def roll_mean(values, held, size, kind, exponent, n, mean):
    """`river.stats.Mean` after values[held:], in a window of the last `size`, of which the first `held` are there.

    The values from `held` on are replaced by what is averaged. Powers and logarithms are taken here, one by one and by
    an exponent that the compiler does not know: those of several at once, and x * x for pow(x, 2), are rounded
    otherwise than Python's.
    """
    oldest = 0
    for t in range(held, values.size):
        if kind == POWER:
            values[t] = math.pow(values[t], exponent)
        elif kind == MINUS_LOG:
            values[t] = -math.log(values[t])
        if t - oldest == size:
            n -= 1.0
            mean = 0.0 if n == 0.0 else mean - (1.0 / n) * (values[oldest] - mean)
            oldest += 1
        n += 1.0
        mean += (1.0 / n) * (values[t] - mean)
    return n, mean


@jit
def roll_fit(y, p, held, size, n, mean, squares, residual):
    """The sums of `river.metrics.R2` after y[held:] and p[held:], in a window as above."""
    oldest = 0
    for t in range(held, y.size):
        if t - oldest == size:
            n -= 1.0
            before = mean
            mean += (-1.0 / n) * (y[oldest] - mean)
            squares -= (y[oldest] - before) * (y[oldest] - mean)
            residual -= (y[oldest] - p[oldest]) * (y[oldest] - p[oldest])
            oldest += 1
        n += 1.0
        before = mean
        mean += (1.0 / n) * (y[t] - mean)
        squares += (y[t] - before) * (y[t] - mean)
        residual += (y[t] - p[t]) * (y[t] - p[t])
    return n, mean, squares, residual


@jit
def note_gaps(gaps, factor, n, mean, faded):
    """The number, the mean and the exponentially weighted mean of gaps that are finite, after more of them."""
    for gap in gaps:
        n += 1
        mean += (gap - mean) / n
        faded = gap if n == 1 else faded + factor * (gap - faded)
    return n, mean, faded
