"""Matrices known at some entries: gradients there, their leading singular pair, iterates held as entries or factors.

Rows are users, columns items. Entries are in the order of their rows, as in CSR (`starts`, `columns`, `values`), but
for the last few, which are listed by row, column and value. A row that is mostly not zero may be written out whole,
zeros included: it begins with the number of columns in place of a column.
"""

from __future__ import annotations

import typing

import numpy as np

from fwonline._kernels.lanczos import extend, lowest_tridiagonal
from fwonline._kernels.layout import INT64, fast_jit, fast_part, jit, part

__all__ = [
    "Biases",
    "Box",
    "Entries",
    "Move",
    "Rows",
    "bias_sweep",
    "enter",
    "entries",
    "gradient",
    "leading_pair",
    "move_dense",
    "move_entries",
    "rebuild",
]

_MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio
# A pass over a row written out costs as much as one over a list of a sixteenth of it.
_WRITTEN = 16
_BLOCK = 32


class Entries(typing.NamedTuple):
    """Entries listed one by one."""

    rows: np.ndarray
    cols: np.ndarray
    values: np.ndarray


class Rows(typing.NamedTuple):
    """Entries in the order of their rows: those of row i from starts[i] to starts[i + 1]."""

    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray


class Biases(typing.NamedTuple):
    """What a row and a column add to an entry, and how many entries each has."""

    of_row: np.ndarray
    of_col: np.ndarray
    n_row: np.ndarray
    n_col: np.ndarray


class Box(typing.NamedTuple):
    """Bounds of every entry, and what half its squared distance to them counts."""

    lower: float
    upper: float
    weight: float


class Move(typing.NamedTuple):
    """X = keep X + weight u v^T."""

    keep: float
    weight: float
    u: np.ndarray
    v: np.ndarray


# --- where a rating stands ------------------------------------------------------------------------------------------


@part
def _find(table, rows, cols, row, col):
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
        table[_find(table, rows, cols, INT64(rows[k]), INT64(cols[k]))] = k + 1


@jit
def enter(table, held, count, mean, biases, damping, new):
    """Append entries, for which there is room, or overwrite what is there; the mean and two biases follow each.

    Returns the number of entries and their mean.
    """
    rows, cols, y = held
    of_row, of_col, n_row, n_col = biases
    new_rows, new_cols, new_y = new
    for k in range(new_y.size):
        row = INT64(new_rows[k])
        col = INT64(new_cols[k])
        place = _find(table, rows, cols, row, col)
        at = table[place] - 1
        if at >= 0:
            mean += (new_y[k] - y[at]) / count
            y[at] = new_y[k]
            continue
        rows[count] = row
        cols[count] = col
        y[count] = new_y[k]
        count += 1
        table[place] = count
        mean += (new_y[k] - mean) / count
        n_row[row] += 1.0
        n_col[col] += 1.0
        left = new_y[k] - mean - of_row[row] - of_col[col]
        of_row[row] += left / (n_row[row] + damping)
        of_col[col] += left / (n_col[col] + damping)
    return count, mean


# --- means ----------------------------------------------------------------------------------------------------------


@jit
def bias_sweep(starts, held, count, mean, biases, damping):
    """Damped means of what mean and column leave, by row, after those of what mean and row leave, by column."""
    rows, cols, y = held
    of_row, of_col, n_row, n_col = biases
    of_col[:] = 0.0
    for k in range(count):
        of_col[cols[k]] += y[k] - mean - of_row[rows[k]]
    for j in range(of_col.size):
        of_col[j] /= n_col[j] + damping
    for i in range(of_row.size):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += y[k] - mean - of_col[cols[k]]
        of_row[i] = total
    for k in range(starts[of_row.size], count):
        of_row[rows[k]] += y[k] - mean - of_col[cols[k]]
    for i in range(of_row.size):
        of_row[i] /= n_row[i] + damping


# --- entries of the iterate -----------------------------------------------------------------------------------------


@fast_jit
def entries(left, right, rank, scale, rows, cols, out):
    """out[k] = scale <left[row], right[col]> for as many entries as there is room for."""
    for k in range(out.size):
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
def gradient(held, fit, count, mean, biases, box, unit, g):
    """Derivatives, times unit, of sum (x - y)^2 + of_box / 2 dist(x, box)^2 over the entries, x = mean + biases + fit.

    Returns the derivatives' product with fit, sum (x - y)^2, sum (x - fit - y)^2, which is what mean and biases leave,
    and the sum of the derivatives' squares.
    """
    rows, cols, y = held
    of_row, of_col, _, _ = biases
    lower, upper, of_box = box
    inner = 0.0
    squares = 0.0
    left_over = 0.0
    steepness = 0.0
    for k in range(count):
        base = mean + of_row[rows[k]] + of_col[cols[k]]
        x = base + fit[k]
        a = 2.0 * (x - y[k]) + of_box * (x - min(max(x, lower), upper))
        g[k] = unit * a
        inner += a * fit[k]
        squares += (x - y[k]) * (x - y[k])
        left_over += (base - y[k]) * (base - y[k])
        steepness += a * a
    return inner, squares, left_over, steepness


@fast_jit
def move_dense(x, move, box, unit, known, gathered):
    """X = keep X + weight u v^T, and of the new X V = unit (of_box (X - clip(X, lower, upper)) + D) on the way.

    D is known at entries in the order of rows; V is gathered, its rows written out where that is cheaper than listing
    them. Returns <V, X> / unit, and the squared distance of X to the box.
    """
    keep, weight, u, v = move
    m = u.size
    n = v.size
    lower, upper, of_box = box
    starts, cols, d = known
    row_starts, columns, values = gathered
    inner = 0.0
    squares = 0.0
    to_box = of_box * unit
    at = 0
    for i in range(m):
        row_starts[i] = at
        row = x[i]
        out = values[at : at + n]
        scaled = weight * u[i]
        outside = 0.0  # counted as a float, or the loop does not vectorise
        along = 0.0
        for j in range(n):
            a = keep * row[j] + scaled * v[j]
            row[j] = a
            b = a - min(max(a, lower), upper)
            out[j] = to_box * b
            outside += 1.0 if b != 0.0 else 0.0
            along += b * a
            squares += b * b
        inner += of_box * along
        start = starts[i]
        stop = starts[i + 1]
        if _WRITTEN * (outside + stop - start) > n:
            columns[at] = n
            for k in range(start, stop):
                out[cols[k]] += unit * d[k]
            at += n
        else:
            at = _list(columns, values, at, n)
            for k in range(start, stop):
                columns[at] = cols[k]
                values[at] = unit * d[k]
                at += 1
        for k in range(start, stop):
            inner += d[k] * row[cols[k]]
    row_starts[m] = at
    return inner, squares


@fast_part
def _list(columns, values, at, n):
    """Of n values from `at` on, bring those that are not 0 to the front, with their columns; returns where they end."""
    first = at
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        some = 0
        for j in range(first + start, first + stop):
            some += 1 if values[j] != 0.0 else 0
        if some == 0:
            continue
        for j in range(start, stop):
            # written always, counted where it is not zero: no branch to mispredict
            value = values[first + j]
            columns[at] = j
            values[at] = value
            at += 1 if value != 0.0 else 0
    return at


# --- the leading singular pair --------------------------------------------------------------------------------------


@fast_part
def _gram(gathered, loose, m, n, v, left, image):
    """left = G v and image = -G^T left, each row read once, for both."""
    starts, columns, values = gathered
    rows, cols, g = loose
    count = g.size
    for i in range(m):
        left[i] = 0.0
    for j in range(n):
        image[j] = 0.0
    for k in range(count):
        left[rows[k]] += g[k] * v[cols[k]]
    i = 0
    while i < m:
        start = starts[i]
        if (
            i + 4 <= m
            and _whole(starts, columns, i, n)
            and _whole(starts, columns, i + 1, n)
            and _whole(starts, columns, i + 2, n)
            and _whole(starts, columns, i + 3, n)
        ):
            first = values[start : start + n]
            second = values[start + n : start + 2 * n]
            third = values[start + 2 * n : start + 3 * n]
            fourth = values[start + 3 * n : start + 4 * n]
            s0 = left[i]
            s1 = left[i + 1]
            s2 = left[i + 2]
            s3 = left[i + 3]
            for j in range(n):
                here = v[j]
                s0 += first[j] * here
                s1 += second[j] * here
                s2 += third[j] * here
                s3 += fourth[j] * here
            left[i] = s0
            left[i + 1] = s1
            left[i + 2] = s2
            left[i + 3] = s3
            for j in range(n):
                image[j] -= first[j] * s0 + second[j] * s1 + third[j] * s2 + fourth[j] * s3
            i += 4
            continue
        stop = starts[i + 1]
        total = left[i]
        if _whole(starts, columns, i, n):
            row = values[start:stop]
            for j in range(n):
                total += row[j] * v[j]
            left[i] = total
            for j in range(n):
                image[j] -= row[j] * total
        else:
            for k in range(start, stop):
                total += values[k] * v[columns[k]]
            left[i] = total
            for k in range(start, stop):
                image[columns[k]] -= values[k] * total
        i += 1
    for k in range(count):
        image[cols[k]] -= g[k] * left[rows[k]]


@part
def _whole(starts, columns, i, n):
    """Whether row i is written out."""
    return starts[i + 1] - starts[i] == n and columns[starts[i]] == n


@fast_jit
def leading_pair(gathered, loose, m, n, space, lefts, tol, limit):
    """The largest squared singular value of G, with its right vector in the first row of the basis and G times it in
    the first row of `lefts`.

    Lanczos steps for -G^T G with full reorthogonalisation, from the first row of the basis, a unit vector; once the
    basis is full they begin again from the best vector so far. They end when the residual is at most `tol` times the
    value, or after `limit` products.

    Returns
    -------
    tuple
        Squared singular value, residual, products with G^T G.
    """
    basis = space.basis
    y = space.y
    room = min(basis.shape[0], n)
    products = 0
    while True:
        length = 0
        theta = 0.0
        spread = 0.0
        while True:
            _gram(gathered, loose, m, n, basis[length], lefts[length], space.image)
            products += 1
            length += 1
            along, _ = extend(space, length, n, 0.0)
            rest = space.off[length - 1]
            spread = max(spread, abs(along) + rest)
            if spread == 0.0:
                return 0.0, 0.0, products
            theta = lowest_tridiagonal(space.on, space.off, length, min(theta, along), y, space.work)
            residual = rest * abs(y[length - 1])
            done = residual <= tol * abs(theta) or rest <= 1e-14 * spread or products >= limit
            if done or length >= room:
                break
            row = basis[length]
            for j in range(n):
                row[j] = space.image[j] / rest
        _mix(basis, y, length, n)
        _mix(lefts, y, length, m)
        if done:
            return -theta, residual, products


@fast_part
def _mix(rows, y, count, n):
    """The first row becomes sum y_k row_k."""
    first = rows[0]
    for j in range(n):
        first[j] *= y[0]
    for k in range(1, count):
        row = rows[k]
        for j in range(n):
            first[j] += y[k] * row[j]
