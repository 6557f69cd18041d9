r"""A convex combination of several models of one stream, weighed by a quadratic model of what it would have lost.

Models k = 0, 1, ... predict z_k; their mixture predicts z = sum_k omega_k z_k, omega on the simplex. With
delta_k = z_k - z_0, and alpha and h the loss's derivative and curvature at z, a sample's loss in omega is

    alpha <delta, omega - omega^i> + (h / 2) <delta, omega - omega^i>^2,

and what is minimised is the sum over samples, each weighing 1 - 1/span of the next, plus, for each model but the
first, SIGNIFICANCE standard errors of its slope and the most that a single sample has added to it, or a share of that:
weight leaves the first model only where this has been seen to pay more than once. The minimum is taken exactly, by
pairwise steps.
"""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline._kernels.coordinates import admit, rebuild
from fwonline._kernels.layout import LARGEST, SIMPLEX, inner, part
from fwonline._kernels.pairwise import ALONG, ANCHOR, CURVATURE, SLOPE, SQUARES, TRUST, centres

# Samples over which what the models lost is remembered, and standard errors of a slope that count as noise.
SPAN = 100.0
SIGNIFICANCE = 0.3
# Pairwise steps at most: three models need about four.
STEPS = 64
# A model is replaced where it has lost more than another by so many standard errors, over so many of its windows.
EVIDENCE, WINDOWS = 5.0, 8.0

# A sample as one model sees it.
SEEN = np.dtype([("margin", "f8"), ("prediction", "f8"), ("alpha", "f8"), ("loss", "f8")], align=True)


class Mix(typing.NamedTuple):
    """The weights of models, the quadratic that they minimise, and the point that they make."""

    omega: np.ndarray
    slopes: np.ndarray  # of the quadratic at omega = 0
    squares: np.ndarray  # of the slopes' standard errors
    peaks: np.ndarray  # the most that one sample has added to a slope, or a share of it
    curvature: np.ndarray
    lead: np.ndarray  # what each model has lost more than the next one, and the sum of its squares
    spread: np.ndarray
    seen: np.ndarray  # of SEEN
    v: np.ndarray  # sum_k omega_k w_k
    listed: np.ndarray  # its coordinates that are not zero

    @classmethod
    def of(cls, count: int) -> Mix:
        """``count`` models, of which the first has all the weight."""
        omega, slopes, squares, peaks, lead, spread = (np.zeros(count) for _ in range(6))
        omega[0] = 1.0
        return cls(
            *(omega, slopes, squares, peaks, np.zeros((count, count)), lead, spread),
            *(np.zeros(count, SEEN), np.zeros(0), np.zeros(0, np.int64)),
        )


@part
def gradient(mix, k):
    """The slope of the quadratic in omega_k, with what counts as noise."""
    g = mix.slopes[k]
    for m in range(mix.omega.size):
        g += mix.curvature[k, m] * mix.omega[m]
    return g + SIGNIFICANCE * math.sqrt(mix.squares[k]) + mix.peaks[k] if k > 0 else g


@part
def balance(mix):
    """The best weights, by pairwise steps between the best model and the worst that has weight."""
    count = mix.omega.size
    for _ in range(STEPS):
        best = worst = 0
        least, most = np.inf, -np.inf
        for k in range(count):
            g = gradient(mix, k)
            if g < least:
                least, best = g, k
            if mix.omega[k] > 0.0 and g > most:
                most, worst = g, k
        if not most - least > 1e-12 * (abs(most) + abs(least)):
            break
        curvature = mix.curvature
        h = curvature[best, best] + curvature[worst, worst] - 2.0 * curvature[best, worst]
        step = mix.omega[worst]
        if h * step > most - least:
            step = (most - least) / h
            mix.omega[worst] -= step
        else:
            mix.omega[worst] = 0.0
        mix.omega[best] += step
    others = 0.0
    for k in range(1, count):
        others += mix.omega[k]
    mix.omega[0] = max(1.0 - others, 0.0) if mix.omega[0] > 0.0 else 0.0


@part
def observe_over(mix, alpha, h, span, share):
    """A sample's loss, of slope alpha and curvature h at the mixture's prediction, joins the quadratic."""
    count = mix.omega.size
    largest = along = 0.0
    for k in range(count):
        delta = mix.seen[k].prediction - mix.seen[0].prediction
        along += mix.omega[k] * delta
        largest = max(largest, abs(delta))
    if not (abs(alpha) * largest <= LARGEST and h * largest * largest <= LARGEST) or not h >= 0.0:
        return  # beyond what sums can hold
    keep = 1.0 - 1.0 / span
    for k in range(count):
        delta = mix.seen[k].prediction - mix.seen[0].prediction
        mix.slopes[k] = keep * mix.slopes[k] + (alpha - h * along) * delta
        mix.squares[k] = keep * keep * mix.squares[k] + (alpha * delta) * (alpha * delta)
        mix.peaks[k] = max(keep * mix.peaks[k], share * abs(alpha * delta))
        for m in range(count):
            other = mix.seen[m].prediction - mix.seen[0].prediction
            mix.curvature[k, m] = keep * mix.curvature[k, m] + h * delta * other
    balance(mix)


@part
def observe(mix, alpha, h):
    """The same over ``SPAN`` samples, peaks counting whole."""
    observe_over(mix, alpha, h, SPAN, 1.0)


@part
def is_behind(mix, k, window):
    """Whether model k has lost more than the next one, of that window, beyond doubt."""
    lost = mix.seen[k].loss - mix.seen[k + 1].loss
    if not abs(lost) <= LARGEST:
        return False
    keep = 1.0 - 1.0 / (WINDOWS * window)
    mix.lead[k] = keep * mix.lead[k] + lost
    mix.spread[k] = keep * keep * mix.spread[k] + lost * lost
    if mix.lead[k] <= 0.0:
        mix.lead[k] = mix.spread[k] = 0.0
        return False
    if mix.lead[k] <= EVIDENCE * math.sqrt(mix.spread[k]):
        return False
    mix.lead[k] = mix.spread[k] = 0.0
    return True


# Weights are brought down by this when the newest sample's passes it; a power of two, so that nothing is rounded.
UNIT = 2.0**128


@inner
def rescale(it, own, s):
    """All weights of samples, and so F, over ``UNIT``."""
    by = 1.0 / UNIT
    multiply(it.u, own, s.d, by)
    for k in range(it.bound.size):
        it.bound[k] *= by
    for k in range(it.group.size):
        it.group[k] *= by
    for i in range(own.counts.size):
        own.counts[i] *= by
    s.pull *= by
    s.bias_slope *= by
    s.held *= by
    s.per_held /= by
    s.total *= by
    s.unit *= by


@part
def multiply(u, own, d, by):
    """Keys and sums of F, times a number."""
    sums, means = own.sums, own.means
    for j in range(d):
        u[j] *= by
        sums[j, SLOPE] *= by
        sums[j, SQUARES] *= by * by
        sums[j, CURVATURE] *= by
        sums[j, ANCHOR] *= by
        if means.shape[0] > 0:
            means[j, ALONG] *= by


@part
def weigh_newest(it, own, s, slot):
    """c_i of the newest sample, its weight times a unit that grows by a factor each time: so F forgets."""
    s.unit *= s.growth
    if s.unit > UNIT:
        rescale(it, own, s)
    own.counts[slot] = s.weight * s.unit
    s.total += s.unit
    s.u_scale = 1.0 / s.total
    return own.counts[slot]


@part
def join(run, ranks):
    """Features of these ranks, whose weights and sums are 0."""
    it, place, s = run.it, run.own.place, run.state[0]
    d = s.d
    s.d = d + ranks.size
    for i in range(ranks.size):
        it.rank[d + i] = ranks[i]
        place[d + i] = -1
    admit(it, d, s.d)


@inner
def take_over(run, other):
    """A model becomes what another one is, which holds samples of the same stream: its iterate, F and scalars."""
    it, own, s = run.it, run.own, run.state[0]
    source, theirs, o = other.it, other.own, other.state[0]
    by, d = 1.0 / o.unit, s.d
    for j in range(d):
        it.v[j], it.u[j] = source.v[j], source.u[j]
        own.active[j], own.place[j] = theirs.active[j], theirs.place[j]
        for column in range(4):
            own.sums[j, column] = theirs.sums[j, column]
        if s.fit_intercept != 0:
            own.means[j, ALONG], own.means[j, TRUST] = theirs.means[j, ALONG], theirs.means[j, TRUST]
    multiply(it.u, own, d, by)
    rebuild(it, SIMPLEX, d)
    s.w_scale, s.nonzeros, s.size, s.rotor, s.since = o.w_scale, o.nonzeros, o.size, o.rotor, o.since
    s.pull, s.penalty = by * o.pull, o.penalty
    s.curvature_seen, s.curvature_model = o.curvature_seen, o.curvature_model
    s.bias_slope, s.held = by * o.bias_slope, by * o.held
    s.few, s.offset = o.few, o.offset
    s.intercept, s.intercept_h = o.intercept, o.intercept_h
    s.unit, s.total = 1.0, by * o.total
    s.per_held = 1.0 / s.held if s.fit_intercept != 0 and centres(s) else 0.0
    s.u_scale = 1.0 / s.total
    held, their_held = run.mem.held, other.mem.held
    own.counts[:] = 0.0
    own.curves[:] = 0.0
    for i in range(held.size):
        held[i].alpha = 0.0
    common = min(s.live, o.live, o.seen - o.forgotten)
    s.forgotten = s.seen - common
    for age in range(common):
        i, k = (s.seen - 1 - age) % held.size, (o.seen - 1 - age) % their_held.size
        held[i].alpha = their_held[k].alpha
        own.curves[i], own.counts[i] = theirs.curves[k], by * theirs.counts[k]
        own.offsets[i] = theirs.offsets[k]
        start, at = held[i].start, their_held[k].start
        for entry in range(held[i].length):
            own.at[start + entry] = theirs.at[at + entry]
