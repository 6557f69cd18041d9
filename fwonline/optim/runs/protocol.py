"""What estimators and ``minimize`` ask of a run, whoever makes its steps."""

from __future__ import annotations

import typing

import numpy as np

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["ModelRun"]


class ModelRun(typing.Protocol):
    """An optimizer at work on one model.

    Attributes
    ----------
    optimizer, constraint, loss
        What it minimises, where, and how.
    s
        Counters and scalars, by name.
    fixed_dimension
        Features that the set has, where it says so.
    start_weight
        What a feature weighs before it is seen.
    gap_is_kept
        Whether steps keep the gap of their estimate; where not, it is computed when it is read.
    """

    optimizer: typing.Any
    constraint: typing.Any
    loss: typing.Any
    s: typing.Any
    fixed_dimension: int | None
    start_weight: float
    gap_is_kept: typing.ClassVar[bool]

    # One sample on its way in, and its buffers' bytes.
    row: typing.Any
    idx_bytes: typing.Any
    val_bytes: typing.Any

    @property
    def it(self) -> typing.Any: ...  # the iterate v, and the ranks of the features' names
    @property
    def n_features(self) -> int: ...
    @property
    def weights(self) -> Array: ...
    @property
    def point(self) -> Array: ...
    @property
    def gap(self) -> float: ...
    @property
    def n_remembered(self) -> int: ...
    @property
    def gives_weights_up(self) -> bool: ...
    @property
    def last_sample(self) -> typing.Any: ...
    def last_bytes(self) -> tuple[bytes, bytes, float] | None: ...
    def exact_gap(self) -> float | None: ...
    def gap_over(self, X: typing.Any, y: Array) -> float | None: ...
    def grow(self, ranks: Ints) -> None: ...
    def shrink(self, d: int) -> None: ...
    def weighs(self) -> NDArray[np.bool_]: ...
    def take_out(self, gone: Ints) -> Ints: ...
    def reserve(self, n: int) -> None: ...
    def learn_buffered(self, n: int, y: float) -> int: ...
    def learn_rows(self, rows: typing.Any, first: int, last: int) -> tuple[int, int]: ...
    def forget_last(self) -> None: ...
    def set_weights(self, x0: typing.Any) -> None: ...
    def iterate(self, count: int) -> None: ...
    def progress(self) -> typing.Any: ...
