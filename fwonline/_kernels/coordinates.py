"""A sum under sparse updates, and the coordinate an LMO picks from it.

The LMO of the l1 ball wants argmax |u_j|, that of the simplices argmin u_j: both maximise a key. Coordinates come in
blocks of 64 and blocks in groups of 32; ``bound[b]`` is at least every key of block b, ``group[g]`` at least every
bound of group g. An update raises them in O(1), and almost always only compares; when a key falls nothing is done.
Finding the best looks into the block on top: if its bound is met the answer is there, otherwise the bound comes down
to what the block holds, and the next block on top is looked into. That costs d / 2048 comparisons and a few blocks.

Ties go to the lowest ``rank``, which hangs on a feature's name alone, so that neither the order of keys in a dict nor
that of first appearances shows in a model.
"""

from __future__ import annotations

import numpy as np

from fwonline._kernels.layout import L1, fast_part, jit, part

BLOCK_SHIFT, GROUP_SHIFT = 6, 5
BLOCK, GROUP = 1 << BLOCK_SHIFT, 1 << GROUP_SHIFT


@part
def sparse_dot(v, idx, val, start, stop):
    """sum val_k v[idx_k], the sum compensated (Neumaier): the order of the entries does not show in its result."""
    total = 0.0
    lost = 0.0
    for k in range(start, stop):
        p = v[idx[k]] * val[k]
        t = total + p
        back = t - total
        lost += (total - (t - back)) + (p - back)
        total = t
    return total + lost


@part
def raise_bounds(bound, group, b, k):
    """Key k, above the bound of its block b."""
    bound[b] = k
    g = b >> np.uint32(GROUP_SHIFT)
    group[g] = max(group[g], k)


@part
def add_row(kind, u, bound, group, idx, val, start, stop, factor):
    """u += factor * x for a sparse row x."""
    if kind == L1:
        for k in range(start, stop):
            j = idx[k]
            new = u[j] + factor * val[k]
            u[j] = new
            b = j >> np.uint32(BLOCK_SHIFT)
            if abs(new) > bound[b]:
                raise_bounds(bound, group, b, abs(new))
    else:
        for k in range(start, stop):
            j = idx[k]
            new = u[j] + factor * val[k]
            u[j] = new
            b = j >> np.uint32(BLOCK_SHIFT)
            if -new > bound[b]:
                raise_bounds(bound, group, b, -new)


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
def rebuild(kind, u, bound, group, d):
    """Bounds of blocks and groups from u."""
    bound[:] = -np.inf
    group[:] = -np.inf
    for b in range((d + BLOCK - 1) >> BLOCK_SHIFT):
        start = b << BLOCK_SHIFT
        bound[b] = _largest(kind, u, start, min(start + BLOCK, d))
        g = b >> GROUP_SHIFT
        group[g] = max(group[g], bound[b])


@part
def best(kind, u, rank, bound, group, d):
    """The coordinate of the largest key; d >= 1."""
    blocks = (d + BLOCK - 1) >> BLOCK_SHIFT
    groups = (blocks + GROUP - 1) >> GROUP_SHIFT
    winner = -1
    while winner < 0:
        top = group[0]
        for g in range(1, groups):
            top = group[g] if group[g] > top else top
        for g in range(groups):
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
                                if (abs(u[j]) if kind == L1 else -u[j]) == top and (
                                    winner < 0 or rank[j] < rank[winner]
                                ):
                                    winner = j
                    highest = bound[b] if bound[b] > highest else highest
                group[g] = highest
    return winner
