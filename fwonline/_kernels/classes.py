"""The quadratic model of `pairwise.py` for a matrix of weights, one column a class, under the softmax of the scores.

A sample's loss in the score z_c alone, the others held, is a log loss of the margin z_c - log sum_{k != c} e^{z_k}: its
derivative is alpha_ic = p_c - [y_i = c], and its curvature h_ic that of the touching parabola of Jaakkola and Jordan.
The model is the sum over classes of `pairwise`'s, each with its own alpha and h, of the same samples:

    F(W) = sum_c sum_i alpha_ic <x_i, W_c - W^i_c> + (h_ic / 2) sum_j x_ij^2 (W_jc - W^i_jc)^2.

What it leaves out, products of features and products of classes, is measured together when a sample is looked at again:
the larger of sum_c h_ic dz_c^2 and sum_c dalpha_c dz_c, z's change since the last look, against the model's.

The matrix is one long vector, the classes of a feature side by side: entry j * stride + c. So a row of a sample finds
what it needs of all classes in one place, and `pairwise.step` moves entries of the matrix as it moves coordinates.
The intercepts b_c are entries of F outside the set and without a penalty, each held by one pseudo-sample at 0.
"""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline._kernels import coordinates, pairwise
from fwonline._kernels.coordinates import BLOCK_SHIFT
from fwonline._kernels.entry import call
from fwonline._kernels.layout import L2, LINF, SIMPLEX, inner, jit, part
from fwonline._kernels.memory import row_of
from fwonline._kernels.state import Iterate, Row

# The curvature of the pseudo-sample that holds an intercept at 0: the largest that a sample's can be.
HOLD = 0.25
# Steps after a look, at most.
MOST = 16
# 1 - p is at least this, where a margin is asked for.
LEAST = 1e-16


# Samples after which a rise of the losses is looked for among so many, and its size in standard errors.
LOOK, RECENT, EVIDENCE = 32, 4096, 4.0
# Rows of ``scratch``.
Z, P, SHOWN, MOVED, SQUARE, SLOPE, SQUARES, NEW, OLD = range(9)
# Rows of ``bias``.
INTERCEPT, BIAS_SLOPE, BIAS_CURVATURE, BIAS_ANCHOR = range(4)


class Matrix(typing.NamedTuple):
    """The model by entries of the matrix, by samples held, and by classes."""

    v: np.ndarray  # W = s.w_scale * v
    u: np.ndarray  # keys, negated
    rank: np.ndarray  # of the feature's name
    bound: np.ndarray
    group: np.ndarray
    sums: np.ndarray
    means: np.ndarray  # of `pairwise`, not kept here
    active: np.ndarray
    place: np.ndarray
    at: np.ndarray  # of each entry in the pool, the weights when last looked at
    alphas: np.ndarray  # alpha_ic
    curves: np.ndarray  # h_ic
    anchors: np.ndarray  # of each sample held, the intercepts when last looked at
    bias: np.ndarray  # the intercepts, and three sums of each
    recent: np.ndarray  # the last losses
    scratch: np.ndarray  # by classes: scores, probabilities, scores as predicted; the terms of a look's changes


@jit
def since_rise(recent, seen, first, usual):
    """Samples since the losses rose, at a multiple of ``LOOK``; 0 where they have not, beyond doubt.

    Of all splits of the last losses since sample ``first`` the one of the largest difference of means, in standard
    errors. A loss counts as itself over itself plus the usual one, a number from 0 to 1.
    """
    count = min(seen - first, recent.size) // LOOK * LOOK
    if count < 2 * LOOK or not usual > 0.0:
        return 0
    total = squares = 0.0
    for age in range(count):
        x = recent[(seen - 1 - age) % recent.size]
        x /= x + usual
        total += x
        squares += x * x
    most, split = EVIDENCE, 0
    new = new_squares = 0.0
    for age in range(count - LOOK):
        x = recent[(seen - 1 - age) % recent.size]
        x /= x + usual
        new += x
        new_squares += x * x
        n = age + 1
        if n % LOOK == 0:
            rest = count - n
            mean, before = new / n, (total - new) / rest
            error = (new_squares / n - mean * mean) / n + ((squares - new_squares) / rest - before * before) / rest
            if mean - before > most * math.sqrt(max(error, 1e-12)):
                most = (mean - before) / math.sqrt(max(error, 1e-12))
                split = n
    return split


@part
def flat(own):
    """The matrix as `pairwise` has an iterate."""
    return Iterate(own.v, own.u, own.rank, own.bound, own.group, own.v)


@part
def sort_row(idx, val, start, stop):
    """Entries by position (Shell's sort): plain sums then do not depend on the order in which they came."""
    gap = 1
    while gap < (stop - start) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for k in range(start + gap, stop):
            j, x = idx[k], val[k]
            m = k
            while m >= start + gap and idx[m - gap] > j:
                idx[m], val[m] = idx[m - gap], val[m - gap]
                m -= gap
            idx[m], val[m] = j, x
        gap //= 3


@part
def score(own, s, x, z):
    """z_c = <x, W_c> + b_c; x is sorted."""
    v, scale, stride = own.v, s.w_scale, s.stride
    for c in range(z.size):
        z[c] = 0.0
    for k in range(x.start, x.stop):
        value = x.val[k]
        base = np.int64(x.idx[k]) * stride
        for c in range(z.size):
            z[c] += value * (scale * v[base + c])
    for c in range(z.size):
        z[c] += own.bias[INTERCEPT, c]


@jit
def score_rows(own, state, indptr, idx, val, out):
    """The scores of the rows of a CSR matrix, which are sorted in place."""
    for i in range(out.shape[0]):
        sort_row(idx, val, indptr[i], indptr[i + 1])
        score(own, state[0], Row(idx, val, indptr[i], indptr[i + 1]), out[i])


@part
def softmax(own, classes):
    """Probabilities of the scores; returns log sum e^z."""
    terms = own.scratch
    top = -np.inf
    for c in range(classes):
        top = max(top, terms[Z, c])
    total = 0.0
    for c in range(classes):
        terms[P, c] = math.exp(terms[Z, c] - top)
        total += terms[P, c]
    for c in range(classes):
        terms[P, c] /= total
    return top + math.log(total)


@part
def look_again(own, s, slot, x):
    """Scores of a sample held, how far each has moved since its last look, and what the diagonal makes of that."""
    v, at, terms, scale, stride = own.v, own.at, own.scratch, s.w_scale, s.stride
    for c in range(s.classes):
        terms[Z, c] = 0.0
        terms[MOVED, c] = own.bias[INTERCEPT, c] - own.anchors[slot, c]
        terms[SQUARE, c] = terms[MOVED, c] * terms[MOVED, c]
    step, classes = np.uint64(stride), np.uint64(s.classes)  # unsigned, so that loops vectorise
    for k in range(np.uint64(x.start), np.uint64(x.stop)):
        value = x.val[k]
        base = np.uint64(x.idx[k]) * step
        for c in range(classes):
            w = scale * v[base + c]
            change = value * (w - at[k, c])
            terms[Z, c] += value * w
            terms[MOVED, c] += change
            terms[SQUARE, c] += change * change
    for c in range(s.classes):
        terms[Z, c] += own.bias[INTERCEPT, c]


@part
def contribute(own, s, problem, slot, target, largest):
    """What a sample says of each class at the present iterate; ``scratch`` takes the changes. Returns its loss."""
    lse = softmax(own, s.classes)
    loss, terms = problem.loss, own.scratch
    seen = secant = model = 0.0
    for c in range(s.classes):
        p = terms[P, c]
        alpha = p - 1.0 if c == target else p
        margin = terms[Z, c] - lse - math.log(max(1.0 - p, LEAST))
        h = pairwise.trusted(call(loss.curvature, (1.0, 1.0, 1.0, margin, 0.0, 0.0, 0.0)), largest, problem.region.p)
        old_alpha, old = own.alphas[slot, c], own.curves[slot, c]
        if old > 0.0:
            seen += h * terms[MOVED, c] * terms[MOVED, c]
            secant += (alpha - old_alpha) * terms[MOVED, c]
            model += h * terms[SQUARE, c]
        own.alphas[slot, c] = alpha
        own.curves[slot, c] = h
        terms[SLOPE, c] = alpha - old_alpha
        terms[SQUARES, c] = alpha * alpha - old_alpha * old_alpha
        terms[NEW, c] = h
        terms[OLD, c] = old
    pairwise.note_curvature(s, 1.0, math.sqrt(max(seen, secant)), model)
    return lse - terms[Z, target]


@part
def add(own, s, region, x):
    """The changes of a look join the sums of all classes; ``at`` takes the iterate.

    As `pairwise.add`, by loops over the classes that have no branch: what may be dropped, and bounds that must be
    raised, are looked for in the rows where there are any.
    """
    kind, scale, bend, penalty, radius = region.kind, s.w_scale, pairwise.stretch(s), s.penalty, region.p
    pull = s.pull if kind == L2 else 0.0
    sums, at, terms, u, v = own.sums, own.at, own.scratch, own.u, own.v
    stride, classes = np.uint64(s.stride), np.uint64(s.classes)  # unsigned, so that loops vectorise
    for k in range(np.uint64(x.start), np.uint64(x.stop)):
        value = x.val[k]
        if value == 0.0:
            continue  # an entry that says 0 is one that is absent
        square = value * value
        base = np.uint64(x.idx[k]) * stride
        drops = 0
        top = 0.0
        for c in range(classes):
            j = base + c
            w = scale * v[j]
            r = sums[j, pairwise.SLOPE] + terms[SLOPE, c] * value
            q = sums[j, pairwise.SQUARES] + terms[SQUARES, c] * square
            curvature = sums[j, pairwise.CURVATURE] + (terms[NEW, c] - terms[OLD, c]) * square
            b = sums[j, pairwise.ANCHOR] + square * (terms[NEW, c] * w - terms[OLD, c] * at[k, c])
            sums[j, pairwise.SLOPE] = r
            sums[j, pairwise.SQUARES] = q
            sums[j, pairwise.CURVATURE] = curvature
            sums[j, pairwise.ANCHOR] = b
            at[k, c] = w
            h = curvature * bend
            z = h * w - (r + curvature * w - b)
            size = max(abs(z) - penalty * math.sqrt(max(q, 0.0)), 0.0)
            is_curved = h > 0.0
            h += pull
            size = min(size, h * radius) if kind == LINF else size
            key = abs(math.copysign(size, z) - h * w)
            key = key * pairwise.ENTER if w == 0.0 else key
            key = key if is_curved else 0.0
            u[j] = -key
            top = max(top, key)
            drops += (w != 0.0) & (size == 0.0) & is_curved
        at_row = np.int64(base)
        first, last = at_row >> BLOCK_SHIFT, (at_row + s.classes - 1) >> BLOCK_SHIFT
        if drops > 0 or top > own.bound[first] or top > own.bound[last] or last > first + 1:
            settle(own, s, region, at_row, drops > 0)


@inner
def settle(own, s, region, base, drops):
    """Bounds of a feature's keys; and non-zeros that the noise outweighs go to 0, as in `pairwise.add`."""
    it = flat(own)
    for j in range(base, base + s.classes):
        w = s.w_scale * own.v[j]
        if drops and w != 0.0:
            h = own.sums[j, pairwise.CURVATURE] * pairwise.stretch(s)
            error = pairwise.error_of(own, s, j)
            z, h = pairwise.free_aim(region.kind, w, pairwise.slope(it, own, s, j), h, error, s.pull)
            if h > 0.0 and z == 0.0:
                pairwise.set_weight(it, own, s, region, j, 0.0)
                s.size -= pairwise.size_of(region.kind, w)
                pairwise.renew_key(it, own, s, region, j)
        if -own.u[j] > own.bound[j >> BLOCK_SHIFT]:
            coordinates.raise_bounds(it, j, -own.u[j])


@part
def fit_intercepts(own, s, slot):
    """The changes of a look join the sums of the intercepts, and each goes to its best place on the model."""
    if s.fit_intercept == 0:
        return
    bias, terms, bend = own.bias, own.scratch, pairwise.stretch(s)
    for c in range(s.classes):
        b = bias[INTERCEPT, c]
        bias[BIAS_SLOPE, c] += terms[SLOPE, c]
        bias[BIAS_CURVATURE, c] += terms[NEW, c] - terms[OLD, c]
        bias[BIAS_ANCHOR, c] += terms[NEW, c] * b - terms[OLD, c] * own.anchors[slot, c]
        own.anchors[slot, c] = b
        g = bias[BIAS_SLOPE, c] + (bias[BIAS_CURVATURE, c] + HOLD) * b - bias[BIAS_ANCHOR, c]
        bias[INTERCEPT, c] = b - g / (bias[BIAS_CURVATURE, c] * bend + HOLD)


@part
def move(own, s, region):
    """As many pairwise steps as there are classes, at most ``MOST``: the diagonal errs where many are taken at once."""
    features, it = s.d, flat(own)
    for _ in range(min(s.classes, MOST)):
        # `pairwise` counts coordinates, and looks after its sums too often for a list as long as this one may be.
        since, s.since, s.d = s.since, 0, features * s.stride
        pairwise.step(it, own, s, region)
        s.d = features
        s.since = since + 1
        if s.since >= (pairwise.PERIOD if region.kind == L2 else max(pairwise.PERIOD, s.nonzeros)):
            s.since = 0
            pairwise.measure(it, own, s, region)


@jit
def sum_gradients(own, mem, state, gradient):
    """The sum of the gradients of the samples held, at the present iterate, by features and classes."""
    s = state[0]
    for i in range(s.live):
        x = row_of(mem, i)
        score(own, s, x, own.scratch[Z][: s.classes])
        softmax(own, s.classes)
        own.scratch[P, np.int64(mem.held[i].y)] -= 1.0
        for k in range(x.start, x.stop):
            for c in range(s.classes):
                gradient[x.idx[k], c] += own.scratch[P, c] * x.val[k]


@jit
def take_out(mem, state, new, at):
    """Weights as last seen follow the entries that `memory.take_out` is to keep."""
    for i in range(state[0].live):
        start = mem.held[i].start
        to = start
        for k in range(start, start + mem.held[i].length):
            if new[mem.idx[k]] >= 0:
                for c in range(at.shape[1]):
                    at[to, c] = at[k, c]
                to += 1


@jit
def rebuild(own, state):
    """The bounds of the keys."""
    coordinates.rebuild(flat(own), SIMPLEX, state[0].d * state[0].stride)


@jit
def admit(own, state, first, last):
    """Bounds for features first to last."""
    coordinates.admit(flat(own), first * state[0].stride, last * state[0].stride)


@jit
def measure(own, state, region):
    pairwise.measure(flat(own), own, state[0], region)
