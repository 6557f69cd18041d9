"""A sample of a stream, made of samples of its parts."""

from __future__ import annotations

import typing

import numpy as np

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["pooled"]

# What numpy's sampler takes at most.
_MOST = 10**9 - 1


def pooled(
    samples: Sequence[NDArray[np.float64]], counts: Sequence[int], most: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """A uniform sample, of at most so many points, of a stream in parts of `counts` points.

    Each of the samples, rows of as many columns, is one of its part: all of it, or `most` points.
    """
    total = sum(counts)
    parts = counts if total <= _MOST else [count * _MOST // total for count in counts]
    taken = rng.multivariate_hypergeometric(parts, min(most, total))
    chosen = [
        sample[np.sort(rng.choice(len(sample), count, replace=False))]
        for sample, count in zip(samples, taken, strict=True)
    ]
    return np.concatenate(chosen)
