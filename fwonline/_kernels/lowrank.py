"""Matrices known at some entries: gradients there, their leading singular pair, iterates held as entries or factors.

Entries are listed by row, column and value. What is dense and mostly zero, the distance to a box, is gathered row by
row (`starts`, `columns`, `values`, as in CSR; a row written out whole, zeros included, begins with the number of
columns in place of a column). Rows are users, columns items.
"""

from __future__ import annotations

from fwonline._kernels.lanczos import lowest_tridiagonal, orthogonalise
from fwonline._kernels.layout import INT64, fast_jit, fast_part, jit

__all__ = [
    "bias_sweep",
    "by_row",
    "entries",
    "find",
    "gradient",
    "leading_pair",
    "move_dense",
    "move_entries",
    "rebuild",
]

_MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio


# --- where a rating stands ------------------------------------------------------------------------------------------


@jit
def find(table, rows, cols, row, col):
    """The place in an open hash table of positions + 1 where the entry (row, col) is, or belongs."""
    mask = table.size - 1
    place = (((row << 32) | col) * _MULTIPLIER >> 20) & mask
    while table[place] != 0:
        at = table[place] - 1
        if rows[at] == row and cols[at] == col:
            break
        place = (place + 1) & mask
    return place


@jit
def rebuild(table, rows, cols, count):
    """Enter the first `count` entries into an empty table."""
    for k in range(count):
        table[find(table, rows, cols, INT64(rows[k]), INT64(cols[k]))] = k + 1


# --- means ----------------------------------------------------------------------------------------------------------


@jit
def bias_sweep(rows, cols, y, count, mean, of_row, of_col, n_row, n_col, damping):
    """Damped means of what mean and column leave, by row, after those of what mean and row leave, by column."""
    of_col[:] = 0.0
    for k in range(count):
        of_col[cols[k]] += y[k] - mean - of_row[rows[k]]
    for j in range(of_col.size):
        of_col[j] /= n_col[j] + damping
    of_row[:] = 0.0
    for k in range(count):
        of_row[rows[k]] += y[k] - mean - of_col[cols[k]]
    for i in range(of_row.size):
        of_row[i] /= n_row[i] + damping


# --- entries of the iterate -----------------------------------------------------------------------------------------


@fast_jit
def entries(left, right, rank, scale, rows, cols, start, stop, out):
    """out[k] = scale <left[row], right[col]> for the entries from start to stop."""
    for k in range(start, stop):
        a = left[rows[k]]
        b = right[cols[k]]
        total = 0.0
        for r in range(rank):
            total += a[r] * b[r]
        out[k] = scale * total


@fast_jit
def move_entries(fit, rows, cols, count, keep, weight, u, v):
    """fit = keep fit + weight u v^T at the entries."""
    for k in range(count):
        fit[k] = keep * fit[k] + weight * u[rows[k]] * v[cols[k]]


@fast_jit
def gradient(rows, cols, y, fit, count, mean, of_row, of_col, lower, upper, of_box, g):
    """Derivatives of sum (x - y)^2 + of_box / 2 dist(x, box)^2 over the entries, x = mean + biases + fit.

    Answers <g, fit>, sum (x - y)^2 and sum (x - fit - y)^2, what mean and biases leave.
    """
    inner = 0.0
    squares = 0.0
    left_over = 0.0
    for k in range(count):
        base = mean + of_row[rows[k]] + of_col[cols[k]]
        x = base + fit[k]
        a = 2.0 * (x - y[k]) + of_box * (x - min(max(x, lower), upper))
        g[k] = a
        inner += a * fit[k]
        squares += (x - y[k]) * (x - y[k])
        left_over += (base - y[k]) * (base - y[k])
    return inner, squares, left_over


@jit
def by_row(rows, cols, g, count, m, starts, columns, values):
    """The entries row by row, in their order within a row."""
    starts[:] = 0
    for k in range(count):
        starts[rows[k] + 1] += 1
    for i in range(m):
        starts[i + 1] += starts[i]
    for k in range(count):
        at = starts[rows[k]]
        columns[at] = cols[k]
        values[at] = g[k]
        starts[rows[k]] += 1
    for i in range(m, 0, -1):
        starts[i] = starts[i - 1]
    starts[0] = 0


@fast_jit
def move_dense(x, m, n, keep, weight, u, v, lower, upper, of_box, starts, columns, values):
    """X = keep X + weight u v^T, and its distance to the box times of_box, gathered on the way; answers the sum of its
    products with X and of the squared distances.
    """
    inner = 0.0
    squares = 0.0
    count = 0
    for i in range(m):
        starts[i] = count
        row = x[i]
        scaled = weight * u[i]
        outside = 0
        for j in range(n):
            a = keep * row[j] + scaled * v[j]
            row[j] = a
            outside += 1 if a < lower or a > upper else 0
        if 4 * outside > n:  # whole rows are read without their columns, four times as fast
            out = values[count : count + n]
            for j in range(n):
                a = row[j]
                d = a - min(max(a, lower), upper)
                out[j] = of_box * d
                inner += of_box * d * a
                squares += d * d
            columns[count] = n
            count += n
        elif outside > 0:
            for j in range(n):
                a = row[j]
                d = a - min(max(a, lower), upper)
                # written always, counted where it is not zero: no branch to mispredict
                columns[count] = j
                values[count] = of_box * d
                count += 1 if d != 0.0 else 0
                inner += of_box * d * a
                squares += d * d
    starts[m] = count
    return inner, squares


# --- the leading singular pair --------------------------------------------------------------------------------------


@fast_part
def _times(rows, cols, g, count, starts, columns, values, v, m, n, left):
    """left = G v."""
    for i in range(m):
        total = 0.0
        start = starts[i]
        stop = starts[i + 1]
        if stop > start and columns[start] == n:
            row = values[start:stop]
            for j in range(n):
                total += row[j] * v[j]
        else:
            for k in range(start, stop):
                total += values[k] * v[columns[k]]
        left[i] = total
    for k in range(count):
        left[rows[k]] += g[k] * v[cols[k]]


@fast_part
def _minus_times_transposed(rows, cols, g, count, starts, columns, values, left, m, n, image):
    """image = -G^T left."""
    for j in range(n):
        image[j] = 0.0
    for i in range(m):
        here = left[i]
        start = starts[i]
        stop = starts[i + 1]
        if stop > start and columns[start] == n:
            row = values[start:stop]
            for j in range(n):
                image[j] -= row[j] * here
        else:
            for k in range(start, stop):
                image[columns[k]] -= values[k] * here
    for k in range(count):
        image[cols[k]] -= g[k] * left[rows[k]]


@fast_jit
def leading_pair(rows, cols, g, count, starts, columns, values, m, n, basis, left, image, on, off, y, work, tol, limit):
    """The largest squared singular value of G, with its right vector in the first row of the basis and G times it in
    `left`.

    Lanczos steps for -G^T G with full reorthogonalisation, from the first row of the basis, a unit vector; once the
    basis is full they begin again from the best vector so far. They end when the residual is at most `tol` times the
    value, or after `limit` products.

    Returns
    -------
    tuple
        Squared singular value, residual, products with G^T G.
    """
    room = min(basis.shape[0] - 1, n)
    products = 0
    while True:
        length = 0
        theta = 0.0
        spread = 0.0
        while True:
            row = basis[length]
            _times(rows, cols, g, count, starts, columns, values, row, m, n, left)
            _minus_times_transposed(rows, cols, g, count, starts, columns, values, left, m, n, image)
            products += 1
            along = 0.0
            for j in range(n):
                along += row[j] * image[j]
            on[length] = along
            off[length] = orthogonalise(image, basis, length + 1, n)
            spread = max(spread, abs(along) + off[length])
            length += 1
            if spread == 0.0:
                return 0.0, 0.0, products
            theta = lowest_tridiagonal(on, off, length, min(theta, along), y, work)
            rest = off[length - 1]
            residual = rest * abs(y[length - 1])
            done = residual <= tol * abs(theta) or rest <= 1e-14 * spread or products >= limit
            if done or length >= room:
                break
            row = basis[length]
            for j in range(n):
                row[j] = image[j] / rest
        for j in range(n):
            image[j] = 0.0
        for k in range(length):
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
            _times(rows, cols, g, count, starts, columns, values, row, m, n, left)
            return -theta, residual, products
