"""How far an estimate X and the second moment M of a stream are from the truth: what its samples show of both.

Matrices are packed as in :mod:`fwonline._kernels.symmetric`, which also says how loops over a row are written.
"""

from __future__ import annotations

import typing

import numpy as np

from fwonline._kernels.layout import fast_jit, fast_part

__all__ = ["FACTS", "LARGEST_FACT", "OFF_SCALE", "Clear", "Sample", "combine_clear", "enter", "overlaps"]

# Where a fading stream becomes constant its trace falls to nothing, and in units of it what is known from before has no
# end: more than samples can lead to otherwise is cut off, and an X of such a squared norm is not looked at.
LARGEST_FACT, OFF_SCALE = 1e60, 1e24
# What is known, in units of the trace of M; y are the samples' deviations.
FACTS = np.dtype(
    [
        (name, "f8")
        for name in (
            "trace",  # the unit
            "spread",  # the sum of the squares of the samples' weights
            "fourth",  # the mean of ||y||^4
            "eighth",
            "seen",  # samples that came when there was an X
            "uncertainty",  # the sum of the squares of their weights
            "of_x",  # the mean of what they show of X's part in the noise of M,
            "of_m",  # of that noise,
            "square_x",  # and of the squares and the product of both
            "product",
            "square_m",
        )
    ]
)


class Sample(typing.NamedTuple):
    """The trace of M with the sample, the sample's weight, the least weight of any, and whether there is a mean."""

    trace: float
    share: float
    fading: float
    centre: bool


class Clear(typing.NamedTuple):
    """What :func:`combine_clear` makes a gradient of: so much of X, and of the entries of M that are no noise."""

    of_x: float
    of_m: float
    bar: float


@fast_jit
def overlaps(x, m, n, unit, v, image):
    """image = M v; returns v^T X v, <X, M>, <X, X>, <M, M> and tr X, for `unit` times the matrices that are given."""
    zero = x.dtype.type(0.0)
    unit = x.dtype.type(unit)
    form = 0.0
    product = 0.0
    of_x = 0.0
    of_m = 0.0
    trace = 0.0
    for i in range(n):
        start = i * (i + 1) // 2
        x_row = x[start : start + i + 1]
        m_row = m[start : start + i + 1]
        here = v[i]
        along = zero
        along_x = zero
        products = zero
        squares = zero
        squares_m = zero
        for j in range(i):
            a = unit * x_row[j]
            b = unit * m_row[j]
            products += a * b
            squares += a * a
            squares_m += b * b
            along_x += a * v[j]
            along += b * v[j]
            image[j] += b * here
        a = unit * x_row[i]
        b = unit * m_row[i]
        form += here * (2.0 * along_x + a * here)
        product += 2.0 * products + a * b
        of_x += 2.0 * squares + a * a
        of_m += 2.0 * squares_m + b * b
        trace += a
        image[i] = along + b * here
    return form, product, of_x, of_m, trace


@fast_part
def _bounded(value):
    return min(max(value, -LARGEST_FACT), LARGEST_FACT)


@fast_jit
def enter(facts, third, x, m, n, sample, deviation, work):
    """Take in a sample's deviation before M does; `third` is the mean of ||y||^2 y, `work` has room for two vectors."""
    s = facts[0]
    trace, share, fading, centre = sample
    y, image = work
    keep = 1.0 - share
    old = s.trace / trace
    s.trace = trace
    s.fourth *= old**2
    s.eighth *= old**4
    s.of_x *= old**2
    s.of_m *= old**2
    s.square_x *= old**4
    s.product *= old**4
    s.square_m *= old**4
    unit = trace**-0.5
    square = 0.0
    for j in range(n):
        y[j] = unit * deviation[j]
        square += y[j] * y[j]
    form, product, of_x, of_m, _ = overlaps(x, m, n, 1.0 / trace, y, image)
    along = 0.0
    skew = 0.0
    for j in range(n):
        third[j] = _bounded(old**1.5 * third[j])
        along += y[j] * image[j]
        skew += y[j] * third[j]
    if product > 0.0 and s.spread < 1.0 and of_x < OFF_SCALE:
        # deviations from the mean so far vary more than those from the truth
        noise = 1.0 + s.spread if centre else 1.0
        a = (product - form / noise) / s.spread
        b = (of_m - along / noise) / s.spread
        s.seen += 1.0
        part = max(min(1.0, 2.0 / s.seen), fading)
        s.uncertainty = (1.0 - part) ** 2 * s.uncertainty + part * part
        s.of_x += part * (a - s.of_x)
        s.of_m += part * (b - s.of_m)
        s.square_x += part * (a * a - s.square_x)
        s.product += part * (a * b - s.product)
        s.square_m += part * (b * b - s.square_m)
    if centre:
        # the mean moves by share y, and all deviations before with it
        moved = share * share * square
        s.fourth += 4.0 * share * share * along - 4.0 * share * skew + 2.0 * moved * old + moved * moved
        for j in range(n):
            before = third[j] - share * (old + moved) * y[j] - 2.0 * share * image[j]
            third[j] = keep * before + share * keep**3 * square * y[j]
        square *= keep * keep
    s.fourth = _bounded(keep * s.fourth + share * square**2)
    s.eighth = _bounded(keep * s.eighth + share * square**4)
    s.of_x = _bounded(s.of_x)
    s.of_m = _bounded(s.of_m)
    s.square_x = _bounded(s.square_x)
    s.product = _bounded(s.product)
    s.square_m = _bounded(s.square_m)
    s.spread = keep * keep * s.spread + share * share


@fast_jit
def combine_clear(g, x, m, n, weights, roots, v, image):
    """G = of_x X + of_m C, and G v on the way; returns <G, X>. C is M without what is noise.

    Its entries off the diagonal are those with |m_ij| > bar sqrt(m_ii m_jj); `roots` has room for the square roots.
    """
    zero = g.dtype.type(0.0)
    of_x = g.dtype.type(weights.of_x)
    of_m = g.dtype.type(weights.of_m)
    for i in range(n):
        roots[i] = max(m[i * (i + 1) // 2 + i], zero) ** 0.5
    total = 0.0
    for i in range(n):
        start = i * (i + 1) // 2
        g_row = g[start : start + i + 1]
        x_row = x[start : start + i + 1]
        m_row = m[start : start + i + 1]
        here = v[i]
        bar = g.dtype.type(weights.bar * roots[i])
        along = zero
        products = zero
        for j in range(i):
            a = x_row[j]
            c = m_row[j]
            b = of_x * a + (of_m * c if abs(c) > bar * roots[j] else zero)
            g_row[j] = b
            products += b * a
            along += b * v[j]
            image[j] += b * here
        a = x_row[i]
        b = of_x * a + of_m * m_row[i]
        g_row[i] = b
        total += 2.0 * products + b * a
        image[i] = along + b * here
    return total
