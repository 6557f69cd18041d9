"""Symmetric matrices, held as the packed rows of their lower triangle.

Row i is the i + 1 entries from i (i + 1) / 2 on, so a matrix that grows by a row grows at its end. Loops over a row
begin at its first entry, which lets them vectorise, and are where the time goes: each pass moves n (n + 1) / 2 numbers
and does all that can be done with them. An entry off the diagonal stands for two.
"""

from __future__ import annotations

import math

from fwonline._kernels.layout import fast_jit, fast_part, jit

__all__ = [
    "blend",
    "combine",
    "lowest",
    "lowest_tridiagonal",
    "moment",
    "move",
    "multiply",
    "orthogonalise",
    "sample",
    "size",
    "squared_clip",
    "threshold",
]

# Rounds of Newton's method and of the Lanczos iteration that no matrix met so far has needed.
_MAX_ROUNDS = 100


def size(n: int) -> int:
    """Entries of the packed triangle of an n x n matrix."""
    return n * (n + 1) // 2


# --- the sample -----------------------------------------------------------------------------------------------------


@jit
def sample(n, idx, val, count, mean, delta, share, centre, absent_is_mean):
    """Write the sample less the running mean to delta, move the mean by `share` of it; answers ||delta||^2."""
    for j in range(n):
        delta[j] = mean[j] if absent_is_mean else 0.0
    for k in range(count):
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


@fast_jit
def blend(m, x, n, keep, of_x, weight, v):
    """M = keep M + of_x X + weight v v^T."""
    for i in range(n):
        start = i * (i + 1) // 2
        row = m[start : start + i + 1]
        of_row = x[start : start + i + 1]
        scaled = weight * v[i]
        for j in range(i + 1):
            row[j] = keep * row[j] + of_x * of_row[j] + scaled * v[j]


@fast_jit
def moment(m, n, keep, weight, v, roots, clear):
    """M = keep M + weight v v^T; answers sum |m|, and the sum over the diagonal and what stands clear of noise.

    An entry stands clear where |m_ij| > clear sqrt(m_ii m_jj); `roots` has room for the square roots.
    """
    for i in range(n):
        at = i * (i + 1) // 2 + i
        roots[i] = max(keep * m[at] + weight * v[i] * v[i], 0.0) ** 0.5
    off = 0.0
    off_clear = 0.0
    on = 0.0
    for i in range(n):
        start = i * (i + 1) // 2
        row = m[start : start + i + 1]
        scaled = weight * v[i]
        bar = clear * roots[i]
        for j in range(i):
            a = keep * row[j] + scaled * v[j]
            row[j] = a
            a = abs(a)
            off += a
            off_clear += a if a > bar * roots[j] else 0.0
        row[i] = keep * row[i] + scaled * v[i]
        on += abs(row[i])
    return 2.0 * off + on, 2.0 * off_clear + on


@fast_jit
def move(x, n, keep, weight, v, tau):
    """X = keep X + weight v v^T; answers sum |x|, and sum and number of the |x| above tau."""
    off = 0.0
    on = 0.0
    off_above = 0.0
    on_above = 0.0
    off_count = 0.0
    on_count = 0.0
    for i in range(n):
        start = i * (i + 1) // 2
        row = x[start : start + i + 1]
        scaled = weight * v[i]
        for j in range(i):
            a = keep * row[j] + scaled * v[j]
            row[j] = a
            a = abs(a)
            off += a
            off_above += a if a > tau else 0.0
            off_count += 1.0 if a > tau else 0.0
        a = keep * row[i] + scaled * v[i]
        row[i] = a
        a = abs(a)
        on += a
        if a > tau:
            on_above += a
            on_count += 1.0
    return 2.0 * off + on, 2.0 * off_above + on_above, 2.0 * off_count + on_count


@fast_jit
def _above(x, n, tau):
    """Sum and number of the |x| above tau."""
    off = 0.0
    on = 0.0
    off_count = 0.0
    on_count = 0.0
    for i in range(n):
        start = i * (i + 1) // 2
        row = x[start : start + i + 1]
        for j in range(i):
            a = abs(row[j])
            off += a if a > tau else 0.0
            off_count += 1.0 if a > tau else 0.0
        a = abs(row[i])
        if a > tau:
            on += a
            on_count += 1.0
    return 2.0 * off + on, 2.0 * off_count + on_count


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
def squared_clip(x, n, tau):
    """Sum of min(|x|, tau)^2: the squared distance to the l1 ball whose threshold is tau."""
    off = 0.0
    on = 0.0
    for i in range(n):
        start = i * (i + 1) // 2
        row = x[start : start + i + 1]
        for j in range(i):
            a = min(abs(row[j]), tau)
            off += a * a
        a = min(abs(row[i]), tau)
        on += a * a
    return 2.0 * off + on


@fast_jit
def combine(g, x, m, n, of_x, of_m, of_clip, tau, v, image):
    """G = of_x X + of_m M + of_clip clip(X, -tau, tau), and G v on the way; answers <G, X>.

    x - clip(x, -tau, tau) is the projection on the l1 ball: of the projection only tau is needed.
    """
    off = 0.0
    on = 0.0
    for i in range(n):
        start = i * (i + 1) // 2
        g_row = g[start : start + i + 1]
        x_row = x[start : start + i + 1]
        m_row = m[start : start + i + 1]
        here = v[i]
        along = 0.0
        for j in range(i):
            a = x_row[j]
            b = of_x * a + of_m * m_row[j] + of_clip * min(max(a, -tau), tau)
            g_row[j] = b
            off += b * a
            along += b * v[j]
            image[j] += b * here
        a = x_row[i]
        b = of_x * a + of_m * m_row[i] + of_clip * min(max(a, -tau), tau)
        g_row[i] = b
        on += b * a
        image[i] = along + b * here
    return 2.0 * off + on


@fast_part
def multiply(g, n, v, image):
    """image = G v, four rows a pass."""
    for j in range(n):
        image[j] = 0.0
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
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        s3 = 0.0
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
        along = 0.0
        for j in range(i):
            along += row[j] * v[j]
            image[j] += row[j] * here
        image[i] = along + row[i] * here


# --- the lowest eigenvector -----------------------------------------------------------------------------------------


@jit
def lowest_tridiagonal(on, off, count, upper, y, work):
    """The lowest eigenvalue of a tridiagonal matrix, at most `upper`, by bisection; its eigenvector to y.

    Below the lowest eigenvalue the shifted matrix is positive definite: elimination needs no pivots.
    """
    lower = upper
    spread = 0.0
    for i in range(count):
        radius = (off[i - 1] if i > 0 else 0.0) + (off[i] if i + 1 < count else 0.0)
        lower = min(lower, on[i] - radius)
        spread = max(spread, abs(on[i]) + radius)
    tiny = 1e-15 * spread + 1e-300  # never 0: a matrix of zeros has eigenvectors too
    while upper - lower > 2.0 * tiny:
        middle = 0.5 * (lower + upper)
        if not lower < middle < upper:
            break
        pivot = on[0] - middle
        for i in range(1, count):
            if pivot <= 0.0:
                break
            pivot = on[i] - middle - off[i - 1] * off[i - 1] / pivot
        if pivot > 0.0:
            lower = middle
        else:
            upper = middle
    shift = lower - tiny
    for i in range(count):
        y[i] = 1.0
    for _ in range(3):
        work[0] = on[0] - shift
        for i in range(1, count):
            factor = off[i - 1] / work[i - 1]
            work[i] = max(on[i] - shift - factor * off[i - 1], tiny)
            y[i] -= factor * y[i - 1]
        y[count - 1] /= work[count - 1]
        for i in range(count - 1, 0, -1):
            y[i - 1] = (y[i - 1] - off[i - 1] * y[i]) / work[i - 1]
        largest = 0.0
        for i in range(count):
            largest = max(largest, abs(y[i]))
        square = 0.0
        for i in range(count):
            y[i] /= largest
            square += y[i] * y[i]
        scale = square**-0.5
        for i in range(count):
            y[i] *= scale
    return lower


@fast_part
def orthogonalise(image, basis, count, n):
    """Take from the image what lies along the first rows of the basis; answers the norm of what is left."""
    for k in range(count):
        along = 0.0
        row = basis[k]
        for j in range(n):
            along += row[j] * image[j]
        for j in range(n):
            image[j] -= along * row[j]
    square = 0.0
    for j in range(n):
        square += image[j] * image[j]
    return square**0.5


@fast_jit
def lowest(g, n, basis, image, on, off, y, work, tol, limit):
    """The lowest eigenvalue of G and, in the first row of the basis, its unit eigenvector.

    Lanczos steps with full reorthogonalisation, from the first row of the basis, whose image is given; once the basis
    is full they begin again from the best vector so far. They end when the residual is at most tol times the
    eigenvalue's size, or after `limit` products.

    Returns
    -------
    tuple
        Eigenvalue, residual ||G v - theta v||, products.
    """
    room = min(basis.shape[0], n)
    products = 1
    while True:
        theta = math.inf
        spread = 0.0
        for count in range(1, room + 1):
            along = 0.0
            row = basis[count - 1]
            for j in range(n):
                along += row[j] * image[j]
            on[count - 1] = along
            coupling = orthogonalise(image, basis, count, n)
            off[count - 1] = coupling
            # By interlacing, the lowest eigenvalue only falls as the basis grows.
            theta = lowest_tridiagonal(on, off, count, min(theta, along), y, work)
            residual = coupling * abs(y[count - 1])
            spread = max(spread, abs(along) + coupling)
            # A coupling of zero up to rounding: the basis spans an invariant subspace.
            done = residual <= tol * abs(theta) or coupling <= 1e-14 * spread or products >= limit
            if done or count == room:
                break
            row = basis[count]
            for j in range(n):
                row[j] = image[j] / coupling
            multiply(g, n, row, image)
            products += 1
        for j in range(n):
            image[j] = 0.0
        for k in range(count):
            row = basis[k]
            for j in range(n):
                image[j] += y[k] * row[j]
        square = 0.0
        for j in range(n):
            square += image[j] * image[j]
        row = basis[0]
        for j in range(n):
            row[j] = image[j] / square**0.5
        if done:
            return theta, residual, products
        multiply(g, n, row, image)
        products += 1
