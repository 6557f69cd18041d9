"""River's scalers over rows: the same operations in the same order, so that every number is river's to the last bit.

A row is predicted with the values that were scaled by what was known before it, and learned from with those scaled by
what is known with it: ``asked`` and ``val`` hold both, and are scaled in place. An entry's statistics stand at
``slots[k]``, or, where that is empty, at its place within the row.

Python's ``v ** 0.5`` is the C library's ``pow``, which need not round as ``sqrt`` does; an exponent that the compiler
knows would become ``sqrt``, so ``half`` is an argument.
"""

from __future__ import annotations

from fwonline._kernels.layout import LARGEST, jit, part

# Columns of the statistics of a feature.
COUNT, MEAN, VAR, ROOT = range(4)
LOW, HIGH = range(2)
# Those of a target.
N, TARGET_MEAN, SQUARES, DDOF = range(4)


@part
def is_usable(indptr, asked, val, i):
    """Whether all values of a row are numbers that may be scaled."""
    good = True
    for k in range(indptr[i], indptr[i + 1]):
        good &= (abs(asked[k]) <= LARGEST) & (abs(val[k]) <= LARGEST)
    return good


@jit
def standardize(indptr, slots, asked, val, stats, half):
    """`StandardScaler`; returns how many rows were scaled, which ends before one that cannot be."""
    for i in range(indptr.size - 1):
        if not is_usable(indptr, asked, val, i):
            return i
        start = indptr[i]
        for k in range(start, indptr[i + 1]):
            j = slots[k] if slots.size > 0 else k - start
            mean, var, root = stats[j, MEAN], stats[j, VAR], stats[j, ROOT]
            asked[k] = (asked[k] - mean) / root if var != 0.0 else 0.0
            x, n = val[k], stats[j, COUNT] + 1.0
            old = mean
            mean += (x - old) / n
            var += ((x - old) * (x - mean) - var) / n
            root = var**half
            val[k] = (x - mean) / root if var != 0.0 else 0.0
            stats[j, COUNT], stats[j, MEAN], stats[j, VAR], stats[j, ROOT] = n, mean, var, root
    return indptr.size - 1


@jit
def stretch(indptr, slots, asked, val, stats):
    """`MinMaxScaler`, likewise."""
    for i in range(indptr.size - 1):
        if not is_usable(indptr, asked, val, i):
            return i
        start = indptr[i]
        for k in range(start, indptr[i + 1]):
            j = slots[k] if slots.size > 0 else k - start
            low, high = stats[j, LOW], stats[j, HIGH]
            asked[k] = (asked[k] - low) / (high - low) if high != low else 0.0
            x = val[k]
            low = x if x < low else low
            high = x if x > high else high
            val[k] = (x - low) / (high - low) if high != low else 0.0
            stats[j, LOW], stats[j, HIGH] = low, high
    return indptr.size - 1


@jit
def standardize_targets(y, stats, before, half):
    """`TargetStandardScaler`: targets in place, and each row's mean and deviation before it in ``before``."""
    for i in range(y.size):
        if not abs(y[i]) <= LARGEST:
            return i
        n, mean, squares = stats[N], stats[TARGET_MEAN], stats[SQUARES]
        before[i, 0] = (squares / (n - stats[DDOF]) if n > stats[DDOF] else 0.0) ** half
        before[i, 1] = mean
        old = mean
        n += 1.0
        mean += (1.0 / n) * (y[i] - old)
        squares += (y[i] - old) * (y[i] - mean)
        root = (squares / (n - stats[DDOF]) if n > stats[DDOF] else 0.0) ** half
        y[i] = (y[i] - mean) / root if root != 0.0 else 0.0
        stats[N], stats[TARGET_MEAN], stats[SQUARES] = n, mean, squares
    return y.size


@jit
def hash_rows(rows, buckets, signs, marks, out):
    """`FeatureHasher` over rows of columns: entries of one bucket become one, where the first of them stands.

    ``marks`` holds, by bucket, where the row at hand has its entry; -1 before and after. Returns the entries left.
    """
    indptr, columns, asked, val = rows
    to_indptr, to_columns, to_asked, to_val = out
    at = 0
    for i in range(indptr.size - 1):
        first = at
        for k in range(indptr[i], indptr[i + 1]):
            column = columns[k]
            bucket, sign = buckets[column], signs[column]
            place = marks[bucket]
            if place < 0:
                marks[bucket] = at
                to_columns[at] = bucket
                to_asked[at] = sign * asked[k]
                to_val[at] = sign * val[k]
                at += 1
            else:
                to_asked[place] += sign * asked[k]
                to_val[place] += sign * val[k]
        for k in range(first, at):
            marks[to_columns[k]] = -1
        to_indptr[i + 1] = at
    return at
