"""Symmetric matrices, held as the packed rows of their lower triangle.

Row i is the i + 1 entries from i (i + 1) / 2 on, so a matrix that grows by a row grows at its end. Loops over a row
begin at its first entry, which lets them vectorise, and are where the time goes: each pass moves n (n + 1) / 2 numbers
and does all that can be done with them. An entry off the diagonal counts twice: sums over a row count all of it
twice, and take the diagonal off once.
"""

from __future__ import annotations

import typing

import numpy as np

from fwonline._kernels.layout import fast_jit, fast_part, jit

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Weights",
    "ascend",
    "blend",
    "combine",
    "diagonal",
    "moment",
    "move",
    "move_block",
    "multiply",
    "sample",
    "shift",
    "size",
    "squared_residual",
    "threshold",
    "unpacked",
]

# Rounds of Newton's method that no matrix met so far has needed.
_MAX_ROUNDS = 100


def size(n: int) -> int:
    """Entries of the packed triangle of an n x n matrix."""
    return n * (n + 1) // 2


def diagonal(n: int) -> NDArray[np.intp]:
    """Where the diagonal of an n x n matrix is in its packed triangle."""
    rows = np.arange(n)
    return rows * (rows + 3) // 2


def unpacked(x: NDArray, n: int) -> NDArray[np.float64]:
    """The whole n x n matrix of a packed triangle."""
    whole = np.zeros((n, n))
    whole[np.tril_indices(n)] = x[: size(n)]
    whole += np.tril(whole, -1).T
    return whole


class Weights(typing.NamedTuple):
    """What :func:`combine` makes a gradient of: so much of X, of M, and of Z clipped at tau."""

    of_x: float
    of_m: float
    of_clip: float
    tau: float


# --- the sample -----------------------------------------------------------------------------------------------------


@jit
def sample(n, idx, val, mean, delta, share, centre, absent_is_mean):
    """Write the sample less the running mean to delta, move the mean by `share` of it; returns ||delta||^2."""
    for j in range(n):
        delta[j] = mean[j] if absent_is_mean else 0.0
    for k in range(val.size):
        delta[idx[k]] = val[k]
    square = 0.0
    for j in range(n):
        deviation = delta[j] - mean[j]
        mean[j] += share * deviation
        if centre:
            delta[j] = deviation
        square += delta[j] * delta[j]
    return square


# --- passes over a triangle -----------------------------------------------------------------------------------------
# Scalars are brought to the matrix's own type, and so are the sums over a row: single precision then moves and adds
# twice as many numbers at a time. What is summed over rows is in double precision.


@fast_jit
def blend(m, x, n, keep, of_x, weight, v):
    """M = keep M + of_x X + weight v v^T."""
    keep = m.dtype.type(keep)
    of_x = m.dtype.type(of_x)
    for i in range(n):
        start = i * (i + 1) // 2
        row = m[start : start + i + 1]
        of_row = x[start : start + i + 1]
        scaled = m.dtype.type(weight * v[i])
        for j in range(i + 1):
            row[j] = keep * row[j] + of_x * of_row[j] + scaled * v[j]


@fast_jit
def moment(m, n, keep, weight, v, roots, clear):
    """M = keep M + weight v v^T; returns sum |m|, and the sum over the diagonal and what stands clear of noise.

    An entry stands clear where |m_ij| > clear sqrt(m_ii m_jj); `roots` has room for the square roots.
    """
    zero = m.dtype.type(0.0)
    for i in range(n):
        at = i * (i + 1) // 2 + i
        roots[i] = max(keep * m[at] + weight * v[i] * v[i], 0.0) ** 0.5
    keep = m.dtype.type(keep)
    total = 0.0
    total_clear = 0.0
    for i in range(n):
        start = i * (i + 1) // 2
        row = m[start : start + i + 1]
        scaled = m.dtype.type(weight * v[i])
        bar = m.dtype.type(clear * roots[i])
        whole = zero
        is_clear = zero
        for j in range(i + 1):
            a = keep * row[j] + scaled * v[j]
            row[j] = a
            a = abs(a)
            whole += a
            is_clear += a if a > bar * roots[j] else zero
        a = abs(row[i])
        total += 2.0 * whole - a
        total_clear += 2.0 * is_clear + (-a if a > bar * roots[i] else a)
    return total, total_clear


@fast_jit
def move(x, n, keep, weight, v, tau):
    """X = keep X + weight v v^T; returns sum |x|, and sum and number of the |x| above tau."""
    zero = x.dtype.type(0.0)
    one = x.dtype.type(1.0)
    keep = x.dtype.type(keep)
    tau = x.dtype.type(tau)
    total = 0.0
    above = 0.0
    count = 0.0
    for i in range(n):
        start = i * (i + 1) // 2
        row = x[start : start + i + 1]
        scaled = x.dtype.type(weight * v[i])
        sizes = zero
        large = zero
        number = zero
        for j in range(i + 1):
            a = keep * row[j] + scaled * v[j]
            row[j] = a
            a = abs(a)
            sizes += a
            large += a if a > tau else zero
            number += one if a > tau else zero
        a = abs(row[i])
        total += 2.0 * sizes - a
        above += 2.0 * large - (a if a > tau else zero)
        count += 2.0 * number - (one if a > tau else zero)
    return total, above, count


@fast_jit
def _finish_row(x, i, keep, term, tau):
    """Row i of X = keep X + S, whose row is `term`; returns its part of what `move_block` returns."""
    zero = x.dtype.type(0.0)
    one = x.dtype.type(1.0)
    start = i * (i + 1) // 2
    row = x[start : start + i + 1]
    sizes = zero
    large = zero
    number = zero
    squares = zero
    products = zero
    product = row[i] * term[i]
    for j in range(i + 1):
        b = row[j]
        products += b * term[j]
        a = keep * b + term[j]
        row[j] = a
        squares += a * a
        a = abs(a)
        sizes += a
        large += a if a > tau else zero
        number += one if a > tau else zero
    a = abs(row[i])
    return (
        2.0 * sizes - a,
        2.0 * large - (a if a > tau else zero),
        2.0 * number - (one if a > tau else zero),
        2.0 * squares - a * a,
        2.0 * products - product,
    )


@fast_jit
def move_block(x, n, keep, weights, vectors, rank, tau, terms):
    """X = keep X + sum_k weights[k] v_k v_k^T, S for short: two rows at a time, four vectors a pass over them.

    `rank`, how many vectors there are, is a multiple of 4; `terms` has room for two rows of S.

    Returns
    -------
    tuple
        Of the new X: sum |x|, sum and number of the |x| above tau, and sum x^2; of the old one <X, S>.
    """
    zero = x.dtype.type(0.0)
    keep = x.dtype.type(keep)
    tau = x.dtype.type(tau)
    term = terms[0]
    other = terms[1]
    total = 0.0
    above = 0.0
    count = 0.0
    square = 0.0
    along = 0.0
    for i in range(0, n, 2):
        next_i = min(i + 1, n - 1)
        for j in range(next_i + 1):
            term[j] = zero
            other[j] = zero
        for k in range(0, rank, 4):
            v0 = vectors[k]
            v1 = vectors[k + 1]
            v2 = vectors[k + 2]
            v3 = vectors[k + 3]
            w0 = x.dtype.type(weights[k] * v0[i])
            w1 = x.dtype.type(weights[k + 1] * v1[i])
            w2 = x.dtype.type(weights[k + 2] * v2[i])
            w3 = x.dtype.type(weights[k + 3] * v3[i])
            u0 = x.dtype.type(weights[k] * v0[next_i])
            u1 = x.dtype.type(weights[k + 1] * v1[next_i])
            u2 = x.dtype.type(weights[k + 2] * v2[next_i])
            u3 = x.dtype.type(weights[k + 3] * v3[next_i])
            for j in range(next_i + 1):
                a = v0[j]
                b = v1[j]
                c = v2[j]
                d = v3[j]
                term[j] += w0 * a + w1 * b + w2 * c + w3 * d
                other[j] += u0 * a + u1 * b + u2 * c + u3 * d
        sizes, large, number, squares, products = _finish_row(x, i, keep, term, tau)
        total += sizes
        above += large
        count += number
        square += squares
        along += products
        if next_i > i:
            sizes, large, number, squares, products = _finish_row(x, next_i, keep, other, tau)
            total += sizes
            above += large
            count += number
            square += squares
            along += products
    return total, above, count, square, along


@fast_jit
def _above(x, n, tau):
    """Sum and number of the |x| above tau."""
    zero = x.dtype.type(0.0)
    one = x.dtype.type(1.0)
    tau = x.dtype.type(tau)
    above = 0.0
    count = 0.0
    for i in range(n):
        start = i * (i + 1) // 2
        row = x[start : start + i + 1]
        large = zero
        number = zero
        for j in range(i + 1):
            a = abs(row[j])
            large += a if a > tau else zero
            number += one if a > tau else zero
        a = abs(row[i])
        above += 2.0 * large - (a if a > tau else zero)
        count += 2.0 * number - (one if a > tau else zero)
    return above, count


@jit
def threshold(x, n, bound, tau, total, above, count):
    """tau with sum max(|x| - tau, 0) = bound, 0 where total = sum |x| is within the bound.

    Newton's method from a guess: `above` and `count` are the sum and the number of the |x| above it. The function is
    convex and falls, so after one step tau is below the solution and rises to it; when the same entries stay above, it
    is there.
    """
    if total <= bound:
        return 0.0
    if count == 0.0:
        above, count = _above(x, n, 0.0)
    for _ in range(_MAX_ROUNDS):
        tau = max((above - bound) / count, 0.0)
        kept = count
        above, count = _above(x, n, tau)
        if count in (kept, 0.0):
            break
    return tau


@fast_jit
def shift(z, x, y, n, of_y, tau):
    """Z = X + of_y Y; returns sum |z|, and sum and number of the |z| above tau."""
    zero = x.dtype.type(0.0)
    one = x.dtype.type(1.0)
    of_y = x.dtype.type(of_y)
    tau = x.dtype.type(tau)
    total = 0.0
    above = 0.0
    count = 0.0
    for i in range(n):
        start = i * (i + 1) // 2
        x_row = x[start : start + i + 1]
        y_row = y[start : start + i + 1]
        z_row = z[start : start + i + 1]
        sizes = zero
        large = zero
        number = zero
        for j in range(i + 1):
            a = x_row[j] + of_y * y_row[j]
            z_row[j] = a
            a = abs(a)
            sizes += a
            large += a if a > tau else zero
            number += one if a > tau else zero
        a = abs(z_row[i])
        total += 2.0 * sizes - a
        above += 2.0 * large - (a if a > tau else zero)
        count += 2.0 * number - (one if a > tau else zero)
    return total, above, count


@fast_jit
def squared_residual(z, y, n, of_y, tau):
    """||clip(Z, -tau, tau) - of_y Y||^2: with Z = X + of_y Y, what X is away from the projection of Z."""
    zero = z.dtype.type(0.0)
    of_y = z.dtype.type(of_y)
    tau = z.dtype.type(tau)
    total = 0.0
    for i in range(n):
        start = i * (i + 1) // 2
        z_row = z[start : start + i + 1]
        y_row = y[start : start + i + 1]
        squares = zero
        for j in range(i):
            a = min(max(z_row[j], -tau), tau) - of_y * y_row[j]
            squares += a * a
        a = min(max(z_row[i], -tau), tau) - of_y * y_row[i]
        total += 2.0 * squares + a * a
    return total


@fast_jit
def ascend(y, z, n, keep, of_clip, tau):
    """Y = keep Y + of_clip clip(Z, -tau, tau)."""
    keep = y.dtype.type(keep)
    of_clip = y.dtype.type(of_clip)
    tau = y.dtype.type(tau)
    for k in range(n * (n + 1) // 2):
        y[k] = keep * y[k] + of_clip * min(max(z[k], -tau), tau)


@fast_jit
def combine(g, x, m, z, n, weights, v, image):
    """G = of_x X + of_m M + of_clip clip(Z, -tau, tau), and G v on the way; returns <G, X>.

    z - clip(z, -tau, tau) is the projection on the l1 ball: of the projection only tau is needed. Z may be X.
    """
    zero = g.dtype.type(0.0)
    of_x = g.dtype.type(weights.of_x)
    of_m = g.dtype.type(weights.of_m)
    of_clip = g.dtype.type(weights.of_clip)
    tau = g.dtype.type(weights.tau)
    total = 0.0
    for i in range(n):
        start = i * (i + 1) // 2
        g_row = g[start : start + i + 1]
        x_row = x[start : start + i + 1]
        m_row = m[start : start + i + 1]
        z_row = z[start : start + i + 1]
        here = v[i]
        along = zero
        products = zero
        for j in range(i):
            a = x_row[j]
            b = of_x * a + of_m * m_row[j] + of_clip * min(max(z_row[j], -tau), tau)
            g_row[j] = b
            products += b * a
            along += b * v[j]
            image[j] += b * here
        a = x_row[i]
        b = of_x * a + of_m * m_row[i] + of_clip * min(max(z_row[i], -tau), tau)
        g_row[i] = b
        total += 2.0 * products + b * a
        image[i] = along + b * here
    return total


@fast_part
def multiply(g, n, v, image):
    """image = G v, four rows a pass."""
    zero = g.dtype.type(0.0)
    for j in range(n):
        image[j] = zero
    for block in range(n // 4):
        i = 4 * block
        start = i * (i + 1) // 2
        first = g[start : start + i + 4]
        start += i + 1
        second = g[start : start + i + 4]
        start += i + 2
        third = g[start : start + i + 4]
        start += i + 3
        fourth = g[start : start + i + 4]
        v0 = v[i]
        v1 = v[i + 1]
        v2 = v[i + 2]
        v3 = v[i + 3]
        s0 = zero
        s1 = zero
        s2 = zero
        s3 = zero
        for j in range(i):
            a = first[j]
            b = second[j]
            c = third[j]
            d = fourth[j]
            here = v[j]
            s0 += a * here
            s1 += b * here
            s2 += c * here
            s3 += d * here
            image[j] += a * v0 + b * v1 + c * v2 + d * v3
        image[i] = s0 + first[i] * v0 + second[i] * v1 + third[i] * v2 + fourth[i] * v3
        image[i + 1] = s1 + second[i] * v0 + second[i + 1] * v1 + third[i + 1] * v2 + fourth[i + 1] * v3
        image[i + 2] = s2 + third[i] * v0 + third[i + 1] * v1 + third[i + 2] * v2 + fourth[i + 2] * v3
        image[i + 3] = s3 + fourth[i] * v0 + fourth[i + 1] * v1 + fourth[i + 2] * v2 + fourth[i + 3] * v3
    for i in range(n - n % 4, n):
        start = i * (i + 1) // 2
        row = g[start : start + i + 1]
        here = v[i]
        along = zero
        for j in range(i):
            along += row[j] * v[j]
            image[j] += row[j] * here
        image[i] = along + row[i] * here
