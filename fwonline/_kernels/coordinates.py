"""A sum under sparse updates, and the coordinate an LMO picks from it.

The LMO of the l1 ball wants argmax |u_j|, that of the simplices argmin u_j: both maximise a key. Coordinates come in
blocks of 64, blocks in groups of 32 and groups in regions of 32; ``bound[b]`` is at least every key of block b,
``group[g]`` at least every bound of group g, and what stands for region r, ``group[-1 - r]``, at least every number of
its groups. An update raises them in O(1), and almost always only compares; when a key falls nothing is done.
The search for the best looks into the block on top: if its bound is met the best is there, otherwise the bound comes
down to what the block holds, and the next block on top is looked into. That costs d / 65536 comparisons and a few
blocks.

Ties go to the lowest ``rank``, which a feature's name alone decides, so that neither the order of keys in a dict nor
that of first appearances shows in a model.
"""

from __future__ import annotations

import math

import numpy as np

from fwonline._kernels.layout import L1, fast_part, inner, jit, open_part, part

BLOCK_SHIFT, GROUP_SHIFT = 6, 5
BLOCK, GROUP = 1 << BLOCK_SHIFT, 1 << GROUP_SHIFT
# The distance from 1 to the next number.
UNIT = 2.0**-52


@inner
def stepwise_dot(v, idx, val, start, stop):
    """sum val_k v[idx_k] in an order that cannot show, for sums that cancel (pre-rounding: Demmel, Nguyen 2013).

    sigma is so large that the top bits (sigma + p) - sigma of all products p can be summed without rounding. The bits
    left over are summed likewise below a smaller sigma, and so on: five sums that no order changes, 150 bits or more.
    Zeros do not count, so that a row has one sum with and without them.
    """
    largest = 0.0
    count = 0
    total = 0.0
    for k in range(start, stop):
        p = v[idx[k]] * val[k]
        total += p
        largest = max(largest, abs(p))
        count += p != 0.0
    if not largest < np.inf:
        return total
    scale = 1.0 if largest < 1e280 else 2.0**-100  # so that no sigma overflows
    # Four times as much as the sum of all can be.
    room = 4.0 * 2.0 ** math.ceil(math.log2(max(count, 1)))
    largest_sigma = 2.0 ** math.frexp(scale * largest)[1] * room
    high = low = 0.0
    for level in range(5):
        extracted = 0.0
        for k in range(start, stop):
            p = scale * (v[idx[k]] * val[k])
            sigma = largest_sigma
            for _ in range(level):
                p -= (sigma + p) - sigma
                sigma *= UNIT * room
            extracted += (sigma + p) - sigma
        t = high + extracted
        back = t - high
        low += (high - (t - back)) + (extracted - back)
        high = t
    return (high + low) / scale


def bound_sizes(capacity: int) -> tuple[int, int]:
    """Lengths of ``bound`` and ``group`` for so many coordinates."""
    blocks = (capacity >> BLOCK_SHIFT) + 1
    groups = (blocks >> GROUP_SHIFT) + 1
    return blocks, groups + (groups >> GROUP_SHIFT) + 1


@open_part
def sparse_dot(v, idx, val, start, stop):
    """sum val_k v[idx_k] of the rounded products, so that no order of the entries shows in it.

    It is correctly rounded unless it lies below 2^-100 or so of the largest product. A compensated sum (Ogita, Rump,
    Oishi 2005, Sum2) is within (n u)^2 sum |p_k| of the true one, which nearly always decides what number is nearest;
    where it does not, ``stepwise_dot`` sums anew. Two sums run side by side, since each addition must wait for the one
    before it.
    """
    even = odd = lost_even = lost_odd = size_even = size_odd = 0.0
    paired = stop - ((stop - start) & 1)
    for k in range(start, paired, 2):
        p = v[idx[k]] * val[k]
        size_even += abs(p)
        t = even + p
        back = t - even
        lost_even += (even - (t - back)) + (p - back)
        even = t
        p = v[idx[k + 1]] * val[k + 1]
        size_odd += abs(p)
        t = odd + p
        back = t - odd
        lost_odd += (odd - (t - back)) + (p - back)
        odd = t
    if paired < stop:
        p = v[idx[paired]] * val[paired]
        size_even += abs(p)
        t = even + p
        back = t - even
        lost_even += (even - (t - back)) + (p - back)
        even = t
    total = even + odd
    back = total - even
    lost = ((even - (total - back)) + (odd - back)) + (lost_even + lost_odd)
    nearest = total + lost
    back = nearest - total
    rest = (total - (nearest - back)) + (lost - back)
    unsure = (stop - start + 2) * UNIT
    unsure *= unsure * (size_even + size_odd)
    if nearest + (rest + unsure) == nearest and nearest + (rest - unsure) == nearest:
        return nearest
    return stepwise_dot(v, idx, val, start, stop)


@part
def key(kind, u_j):
    """What an LMO of coordinates looks for the largest of."""
    return abs(u_j) if kind == L1 else -u_j


@part
def raise_region(it, g, k):
    """Group g has a bound of k, above those it had."""
    it.group[g] = k
    r = it.group.size - 1 - (g >> GROUP_SHIFT)
    it.group[r] = max(it.group[r], k)


@part
def raise_bounds(it, j, k):
    """Key k of coordinate j, above the bound of its block."""
    b = np.uint32(j) >> np.uint32(BLOCK_SHIFT)
    it.bound[b] = k
    g = np.int64(b >> np.uint32(GROUP_SHIFT))
    if k > it.group[g]:
        raise_region(it, g, k)


@part
def add_row(it, kind, x, factor):
    """u += factor * x for a sparse row x; bounds follow."""
    u, bound = it.u, it.bound
    idx, val = x.idx, x.val
    if kind == L1:
        for k in range(x.start, x.stop):
            j = idx[k]
            new = u[j] + factor * val[k]
            u[j] = new
            if abs(new) > bound[j >> np.uint32(BLOCK_SHIFT)]:
                raise_bounds(it, j, abs(new))
    else:
        for k in range(x.start, x.stop):
            j = idx[k]
            new = u[j] + factor * val[k]
            u[j] = new
            if -new > bound[j >> np.uint32(BLOCK_SHIFT)]:
                raise_bounds(it, j, -new)


@fast_part
def _largest(kind, u, start, stop):
    top = -np.inf
    if kind == L1:
        for j in range(start, stop):
            k = abs(u[np.uint64(j)])
            top = k if k > top else top
    else:
        for j in range(start, stop):
            k = -u[np.uint64(j)]
            top = k if k > top else top
    return top


@jit
def admit(it, first, last):
    """Coordinates first to last join with u_j = 0."""
    for b in range(first >> BLOCK_SHIFT, ((last - 1) >> BLOCK_SHIFT) + 1 if last > first else 0):
        it.bound[b] = max(it.bound[b], 0.0)
        g = b >> GROUP_SHIFT
        if it.bound[b] > it.group[g]:
            raise_region(it, g, it.bound[b])


@jit
def rebuild(it, kind, d):
    """Bounds of blocks and groups from u."""
    bound, group = it.bound, it.group
    bound[:] = -np.inf
    group[:] = -np.inf
    for b in range((d + BLOCK - 1) >> BLOCK_SHIFT):
        start = b << BLOCK_SHIFT
        bound[b] = _largest(kind, it.u, start, min(start + BLOCK, d))
        g = b >> GROUP_SHIFT
        if bound[b] > group[g]:
            raise_region(it, g, bound[b])


@part
def best(it, kind, d):
    """The coordinate of the largest key; d >= 1."""
    u, rank, bound, group = it.u, it.rank, it.bound, it.group
    blocks = (d + BLOCK - 1) >> BLOCK_SHIFT
    groups = (blocks + GROUP - 1) >> GROUP_SHIFT
    regions = (groups + GROUP - 1) >> GROUP_SHIFT
    last = group.size - 1
    winner = -1
    while winner < 0:
        top = group[last]
        for r in range(1, regions):
            top = group[last - r] if group[last - r] > top else top
        for r in range(regions):
            if group[last - r] != top:
                continue
            highest_group = -np.inf
            for g in range(r << GROUP_SHIFT, min((r + 1) << GROUP_SHIFT, groups)):
                if group[g] == top:
                    highest = -np.inf
                    for b in range(g << GROUP_SHIFT, min((g + 1) << GROUP_SHIFT, blocks)):
                        if bound[b] == top:
                            start = b << BLOCK_SHIFT
                            stop = min(start + BLOCK, d)
                            held = _largest(kind, u, start, stop)
                            bound[b] = held
                            if held == top:
                                for j in range(start, stop):
                                    if key(kind, u[j]) == top and (winner < 0 or rank[j] < rank[winner]):
                                        winner = j
                        highest = bound[b] if bound[b] > highest else highest
                    group[g] = highest
                highest_group = group[g] if group[g] > highest_group else highest_group
            group[last - r] = highest_group
    return winner
