"""One covariance of several that have learned parts of one stream."""

from __future__ import annotations

import typing

import numpy as np

from fwonline._kernels import symmetric
from fwonline.covariance._methods import Mean

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fwonline.covariance._methods import Method
    from fwonline.covariance._state import State

__all__ = ["Part", "blend", "pool"]


class Part(typing.NamedTuple):
    """A state, its part of all samples, and where its features stand among all."""

    state: State
    share: float
    places: NDArray[np.intp]


def pool(whole: State, method: Method, parts: Sequence[Part]) -> NDArray[np.float64]:
    """Give `whole`, which has all features, the moments of all samples, and the mean of the estimates.

    A feature that a part has not met was 0 there. Returns the second moment of the parts' means about the mean of all,
    packed: 0 where samples are not centred.
    """
    n = whole.n
    means = np.zeros((len(parts), n))
    for mean, (state, share, places) in zip(means, parts, strict=True):
        mean[places] = state.mean[: state.n]
        where = _packed(places)
        for name in ("x", "m", "y") if whole.dual else ("x", "m"):
            getattr(whole, name)[where] += share * getattr(state, name)[: where.size]
        whole.second_moment_trace += share * state.second_moment_trace
    whole.mean[:n] = np.array([part.share for part in parts]) @ means
    apart = np.zeros(symmetric.size(n))
    if method.centre:
        for mean, part in zip(means, parts, strict=True):
            deviation = mean - whole.mean[:n]
            whole.second_moment_trace += part.share * float(deviation @ deviation)
            symmetric.blend(apart, apart, n, 1.0, 0.0, part.share, deviation)
    if whole.evidence is not None:
        whole.evidence.pool(whole, parts, (whole.mean[:n] - means) * method.centre)
    whole.seen = sum(part.state.seen for part in parts)
    whole.steps = max(part.state.steps for part in parts)
    # the gradient of_x X + of_m M is X less the second moment of all
    whole.m[: apart.size] -= (apart / method.of_m).astype(whole.m.dtype)
    if isinstance(method, Mean):
        method.measure(whole)
    return apart


def blend(whole: State, method: Method, apart: NDArray[np.float64], trace: float, l1: float) -> None:
    """Add `apart` to the estimate, or as much of it as trace and l1 norm have room for."""
    x = whole.x[: apart.size]
    sizes = zip((trace, l1), _sizes(x, whole.n), _sizes(apart, whole.n), strict=True)
    rooms = [(most - size) / more for most, size, more in sizes if more > 0.0]
    part = min(1.0, max(0.0, min(rooms, default=0.0)))
    x += (part * apart).astype(x.dtype)
    whole.m[: apart.size] += (part * (1.0 - method.of_x) / method.of_m * apart).astype(x.dtype)
    _, whole.l1 = _sizes(x, whole.n)
    with np.errstate(over="ignore", invalid="ignore"):  # squares of the largest values are beyond every float
        whole.square = _both_sides(np.square(x, dtype=np.float64), whole.n)


def _sizes(packed: NDArray, n: int) -> tuple[float, float]:
    """Trace and l1 norm."""
    return float(packed[symmetric.diagonal(n)].sum(dtype=np.float64)), _both_sides(np.abs(packed), n)


def _both_sides(packed: NDArray, n: int) -> float:
    """The sum over the whole matrix: an entry off the diagonal counts twice."""
    return float(2.0 * packed.sum(dtype=np.float64) - packed[symmetric.diagonal(n)].sum(dtype=np.float64))


def _packed(places: NDArray[np.intp]) -> NDArray[np.intp]:
    """Where the entries of a packed triangle are in another one, in which its rows have these places."""
    rows, cols = np.tril_indices(places.size)
    one, other = places[rows], places[cols]
    high = np.maximum(one, other)
    return high * (high + 1) // 2 + np.minimum(one, other)
