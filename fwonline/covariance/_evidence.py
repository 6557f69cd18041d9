"""What a stream shows of the error of its second moment and of an estimate: how far to shrink one towards the other.

The estimate is the mixture A = c_m M + c_x X + c_i (tr M / n) I of the second moment M, the estimate X of the ball and
the identity, with weights >= 0 that sum to 1, so that A is positive semidefinite. The best weights minimise
||A - C||^2 for the true covariance C, for which the inner products of all three with C have to be known. For the k-th
sample's deviation y_k and weights of samples whose squares sum to q (1 / k where all weigh alike):

- <M, C> = ||M||^2 - q V, where V, the variance of one sample's y y^T, is E ||y||^4 - ||M||^2 (Ledoit and Wolf 2004);
- <X, C> = <X, M> - q K. That K, the part of V that X has taken over, is learned from samples that X does not know yet:
  before a sample enters, (<X, M> - y^T X y) / q is an estimate of K, and the same of M one of V. The latter's error is
  known, since V is, and what the two errors have in common is taken off. Evidence counts in proportion to k.

Where that is uncertain the second moment is kept, and X is doubted: V is taken half a standard error smaller, at most
down to that of normal samples, and K three standard errors larger.

Everything is kept in units of the trace of M, so that no square leaves the range of a float.
"""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import symmetric
from fwonline._kernels.entry import Direct
from fwonline._room import longer
from fwonline.covariance import _passes
from fwonline.covariance._passes import LARGEST_FACT

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fwonline._kernels.lanczos import Space

__all__ = ["BALL_ONLY", "MOMENT_ONLY", "Evidence", "Mixture"]

# How many standard errors V is taken smaller, and K larger.
_OF_V, _OF_K = 0.5, 3.0

_overlaps, _enter = Direct(_passes.overlaps), Direct(_passes.enter)


class Mixture(typing.NamedTuple):
    """Weights of the second moment, of the ball's estimate, and of the identity times the mean variance."""

    moment: float
    ball: float
    identity: float


MOMENT_ONLY, BALL_ONLY = Mixture(1.0, 0.0, 0.0), Mixture(0.0, 1.0, 0.0)

# The power of the trace in whose units each of the facts is.
_POWERS = {"fourth": 2, "eighth": 4, "of_x": 2, "of_m": 2, "square_x": 4, "product": 4, "square_m": 4}


class Facts(typing.NamedTuple):
    """The scalars of :data:`fwonline.covariance._passes.FACTS`, by name."""

    trace: float
    spread: float
    fourth: float
    eighth: float
    seen: float
    uncertainty: float
    of_x: float
    of_m: float
    square_x: float
    product: float
    square_m: float


class Held(typing.Protocol):
    """What of a :class:`~fwonline.covariance._state.State` the evidence reads."""

    dtype_name: str
    n: int
    x: NDArray[np.floating]
    m: NDArray[np.floating]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    second_moment_trace: float
    space: Space
    evidence: Evidence | None


class Evidence:
    """Moments of the deviations, and overlaps of M and X with samples that these did not know yet."""

    def __init__(self) -> None:
        self._record = np.zeros(1, _passes.FACTS)
        self.facts = Facts(*[0.0] * len(Facts._fields))._replace(spread=1.0, uncertainty=1.0)
        self.third = np.zeros(0)

    @property
    def facts(self) -> Facts:
        """The scalars."""
        return Facts(*self._record[0].item())

    @facts.setter
    def facts(self, facts: Facts) -> None:
        self._record[0] = tuple(facts)

    def make_room(self, capacity: int) -> None:
        """Make room for so many features."""
        self.third = longer(self.third, capacity)

    def enter(self, state: Held, share: float, fading: float, centre: bool) -> None:
        """Take in the sample whose deviation and trace are in the state, before M does."""
        sample = _passes.Sample(state.second_moment_trace, share, fading, centre)
        work = state.space.basis[0], state.space.image
        _enter(state.dtype_name, self._record, self.third, state.x, state.m, state.n, sample, state.deviation, work)

    def enter_nothing(self, share: float) -> None:
        """Take in a sample while all are equal."""
        s = self._record[0]
        s["spread"] = (1.0 - share) ** 2 * s["spread"] + share**2

    def mixture(self, state: Held) -> Mixture:
        """Return the weights with which the mixture is nearest to the true covariance, as far as the stream shows."""
        n, facts = state.n, self.facts
        q = facts.spread
        if not (0.0 < q < 1.0 and facts.trace > 0.0):
            return MOMENT_ONLY
        y, image = state.space.basis[0], state.space.image
        y[:] = 0.0
        _, product, of_x, of_m, trace = _overlaps(state.dtype_name, state.x, state.m, n, 1.0 / facts.trace, y, image)
        is_known = facts.seen > 0.0 and product > 0.0 and of_x < _passes.OFF_SCALE
        if not is_known:
            product = of_x = trace = 0.0
        noise = max(facts.fourth - of_m, 0.0)
        error = math.sqrt(max(facts.eighth - facts.fourth**2, 0.0) * q)
        noise = max(noise - _OF_V * error, min(noise, 1.0 + of_m))
        # Of <A, C> with A the moment, the ball's estimate and the identity; A is compared with all three.
        aims = [of_m - q * noise / (1.0 - q), 0.0, (1.0 - q * (noise + of_m)) / (1.0 - q) / n]
        gram = np.array([[of_m, product, 1.0 / n], [product, of_x, trace / n], [1.0 / n, trace / n, 1.0 / n]])
        if not is_known:
            return _best(gram, np.array(aims), (0, 2))
        slope = product / of_m
        variance = facts.square_x - 2.0 * slope * facts.product + slope**2 * facts.square_m
        variance = max(variance - (facts.of_x - slope * facts.of_m) ** 2, 0.0)
        taken = facts.of_x + slope * (noise - facts.of_m) + _OF_K * math.sqrt(variance * facts.uncertainty)
        aims[1] = product - q * min(max(taken, 0.0), slope * noise)
        return _best(gram, np.array(aims), (0, 1, 2))

    def pool(
        self, whole: Held, parts: Sequence[tuple[Held, float, NDArray[np.intp]]], moves: NDArray[np.float64]
    ) -> None:
        """Become that of all parts, of each of which the mean moves by a row of `moves`."""
        unit = whole.second_moment_trace
        sums = dict.fromkeys(Facts._fields, 0.0)
        for (state, share, places), move in zip(parts, moves, strict=True):
            part = typing.cast("Evidence", state.evidence)
            facts = part.facts
            sums["seen"] += facts.seen
            for name in ("spread", "uncertainty"):
                sums[name] += share * share * getattr(facts, name)
            if not unit > 0.0:
                continue
            old = facts.trace / unit
            for name, power in _POWERS.items():
                sums[name] += share * old**power * getattr(facts, name)
            third, image, d = np.zeros(whole.n), np.zeros(whole.n), move / math.sqrt(unit)
            third[places] = old**1.5 * part.third[: places.size]
            image[places] = symmetric.unpacked(state.m / unit, state.n) @ d[places]
            square = float(d @ d)
            sums["fourth"] += share * (4.0 * float(d @ (image - third)) + square * (2.0 * old + square))
            self.third[: whole.n] += share * (third - (old + square) * d - 2.0 * image)
        sums = {name: min(max(value, -LARGEST_FACT), LARGEST_FACT) for name, value in sums.items()}
        np.clip(self.third, -LARGEST_FACT, LARGEST_FACT, out=self.third)
        self.facts = Facts(**sums)._replace(trace=unit)

    def __getstate__(self) -> dict:
        return {"scalars": tuple(self.facts), "third": self.third}

    def __setstate__(self, state: dict) -> None:
        Evidence.__init__(self)
        self.third, facts = typing.cast("NDArray[np.float64]", state.get("third")), state.get("scalars")
        if not (
            type(facts) is tuple
            and len(facts) == len(Facts._fields)
            and all(type(value) is float and math.isfinite(value) for value in facts)
        ):
            _loaded.fail(self, "scalars", f"{len(Facts._fields)} finite numbers")
        self.facts = Facts(*facts)

    def check_loaded(self, state: Held, tiny: float) -> None:
        """See that samples can lead here; a trace of at most `tiny` counts as none."""
        third = _loaded.array(self, "third", np.float64, (state.mean.size,), least=-LARGEST_FACT, most=LARGEST_FACT)
        _loaded.require(self, "third", not third[state.n :].any(), "zeros where there is no feature yet")
        facts, trace = self.facts, state.second_moment_trace
        squares = facts.fourth, facts.eighth, facts.seen, facts.square_x, facts.square_m
        is_good = max(map(abs, facts[1:])) <= LARGEST_FACT and min(squares) >= 0.0
        is_good &= 0.0 < facts.spread <= 1.0 + 1e-9 and 0.0 < facts.uncertainty <= 1.0 + 1e-9
        _loaded.require(self, "scalars", is_good, "numbers that samples can lead to")
        # where a fading stream has become constant, the unit is that of before
        is_unit = abs(facts.trace - trace) <= 1e-6 * trace if trace > tiny else 0.0 <= facts.trace <= 1e16 * tiny
        _loaded.require(self, "scalars", is_unit, "the trace of the second moment as a unit")
        largest = float(np.abs(state.m).max(initial=0.0))
        _loaded.require(state, "m", largest <= 1.01 * max(trace, 1e16 * tiny), "no entry above the trace")


def _best(gram: NDArray[np.float64], aims: NDArray[np.float64], of: tuple[int, ...]) -> Mixture:
    """The weights c >= 0 of sum 1 that minimise c^T G c - 2 c^T a; only those of the targets `of` are not 0."""
    best, least = np.zeros(3), math.inf
    for i, one in enumerate(of):
        for other in of[i + 1 :]:
            # on the edge between two targets
            apart = gram[one, one] - 2.0 * gram[one, other] + gram[other, other]
            slope = gram[one, one] - gram[one, other] - aims[one] + aims[other]
            c = np.zeros(3)
            c[other] = min(max(slope / apart, 0.0), 1.0) if apart > 0.0 else float(slope > 0.0)
            c[one] = 1.0 - c[other]
            if (value := float(c @ gram @ c - 2.0 * c @ aims)) < least:
                best, least = c, value
    if len(of) == 3:
        # inside: two differences from the first target, where they are not parallel
        D = np.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])
        inner = D @ gram @ D.T
        if np.linalg.det(inner) > 1e-12 * inner[0, 0] * inner[1, 1]:
            b, c = np.linalg.solve(inner, D @ (aims - gram[0]))
            if min(b, c, 1.0 - b - c) >= 0.0:
                best = np.array([1.0 - b - c, b, c])
    return Mixture(float(best[0]), float(best[1]), float(best[2]))
