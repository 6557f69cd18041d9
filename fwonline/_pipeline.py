"""What a pipeline of river ends in."""

from __future__ import annotations

import typing

from river import compose

__all__ = ["final_estimator"]


def final_estimator(model: typing.Any) -> typing.Any:
    """The estimator at the end of a pipeline; any other model itself."""
    # Called for every sample, and river's abstract classes make `isinstance` take four times as long.
    while compose.Pipeline in type(model).__mro__:
        model = list(model.steps.values())[-1]
    return model
