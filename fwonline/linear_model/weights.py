"""Weights of samples: what their losses are multiplied by, also where a memory looks at them again."""

from __future__ import annotations

import contextlib
import numbers
import typing

import numpy as np

from fwonline._kernels import layout
from fwonline.exceptions import SampleError

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from fwonline._kernels.state import Rows
    from fwonline.optim.runs.model_run import ModelRun

__all__ = ["learn_rows", "of_rows", "weighing"]


def _check(model: typing.Any, w: typing.Any) -> float:
    """A weight as a float.

    Raises
    ------
    SampleError
        For one that is negative, not finite, or too large or small to be summed.
    ValueError
        For one other than 1 where samples are counted once.
    """
    weight = float(w) if isinstance(w, numbers.Real) else np.nan
    if weight != 0.0 and not 1.0 / layout.HEAVIEST <= weight <= layout.HEAVIEST:
        raise SampleError(
            f"the weight is {w!r}; expected 0, or a number from {1.0 / layout.HEAVIEST:g} to {layout.HEAVIEST:g}"
        )
    if weight != 1.0 and not model._takes_weights:
        raise ValueError(
            f"{type(model).__name__} with {model._run.optimizer} counts every sample once: w must be 1, got {w!r}; "
            "weights are taken by FWRegressor and FWClassifier with StochasticPairwiseFW, SFW, OneSampleFW, OFW and "
            "ProjectedSGD"
        )
    return weight


@contextlib.contextmanager
def weighing(model: typing.Any, w: typing.Any) -> Iterator[None]:
    """Let the sample that is learned meanwhile have this weight."""
    model._run.set_sample_weight(_check(model, w))
    try:
        yield
    finally:
        model._run.set_sample_weight(1.0)


def of_rows(model: typing.Any, w: ArrayLike, n: int) -> NDArray[np.float64] | None:
    """A weight for each of n rows; None where all are 1.

    Raises
    ------
    ValueError
        If there are not n of them, or one cannot be: the message names its row.
    """
    given = np.asarray(w, dtype=np.float64)
    if given.shape not in ((), (n,)):
        raise ValueError(f"w must be one weight, or one for each of the {n} rows, got shape {given.shape}")
    weights = np.broadcast_to(given, (n,))
    for row in np.flatnonzero(weights != 1.0).tolist():
        try:
            _check(model, weights[row].item())
        except SampleError as error:
            raise SampleError(f"row {row}: {error}") from None
    return weights if (weights != 1.0).any() else None


def learn_rows(run: ModelRun, rows: Rows, last: int, weights: NDArray[np.float64] | None) -> tuple[int, int]:
    """Learn the first rows, as ``run.learn_rows`` does: in one compiled loop where all weigh 1."""
    if weights is None:
        return run.learn_rows(rows, 0, last)
    row, status = 0, layout.OK
    try:
        while row < last and status == layout.OK:
            run.set_sample_weight(weights[row].item())
            row, status = run.learn_rows(rows, row, row + 1)
    finally:
        run.set_sample_weight(1.0)
    return row, status
