"""What a run holds, by public names: for users to look at, and for tests to compare to the last bit."""

from __future__ import annotations

import hashlib
import typing

import numpy as np

if typing.TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Sample = tuple[NDArray[np.uint32], NDArray[np.float64], float]

__all__ = ["digest", "public_names", "samples_by_name"]

# Where formulas have one letter, or code another word than users; all other names are their own.
_ARRAYS = {
    **{"old": "previous_point", "start": "first_point", "anchor": "first_point", "inner": "epoch_point"},
    **{"x": "leader", "y": "leader", "d": "gradient", "total": "gradient_sum", "alpha": "derivatives"},
    **{"sums": "quadratic_model", "curves": "curvatures", "sigma": "substitutes"},
    **{"H": "moments", "b": "targets_times_features", "m": "feature_sums"},
}
_NUMBERS = {
    **{"t": "epoch", "k": "step_of_epoch", "N": "steps_of_epoch", "m": "steps_of_epoch", "waiting": "samples_waiting"},
    **{"longest": "longest_gradient", "changes": "derivatives_renewed"},
}


def public_names(held: dict[str, typing.Any]) -> dict[str, typing.Any]:
    """Copies of the arrays and numbers that an algorithm holds, under public names; nothing else of it."""
    arrays = {_ARRAYS.get(name, name): array.copy() for name, array in held.items() if isinstance(array, np.ndarray)}
    numbers = {_NUMBERS.get(name, name): value for name, value in held.items() if isinstance(value, int | float)}
    return arrays | numbers


def samples_by_name(samples: Iterable[Sample], names: Sequence[typing.Any]) -> list[tuple[dict, float]]:
    """Samples as they were learned: dicts, which name features, and targets."""
    return [
        ({names[j]: v for j, v in zip(idx.tolist(), val.tolist(), strict=True)}, float(y)) for idx, val, y in samples
    ]


def digest(parts: Iterable[typing.Any]) -> str:
    """A hash of arrays and plain values, down to the last bit."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
    return found.hexdigest()[:32]
