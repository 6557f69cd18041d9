"""What pipelines of river are made of, and end in."""

from __future__ import annotations

import typing

from river import compose

__all__ = ["final_estimator", "steps_of"]


def final_estimator(model: typing.Any) -> typing.Any:
    """The estimator at the end of a pipeline; any other model itself."""
    # Called for every sample, and river's abstract classes make `isinstance` take four times as long.
    while compose.Pipeline in type(model).__mro__:
        model = list(model.steps.values())[-1]
    return model


def steps_of(model: typing.Any) -> typing.Iterator[typing.Any]:
    """Yield the parts of a model that is made of pipelines and unions, however deep; any other model itself."""
    parts: typing.Iterable[typing.Any]
    if isinstance(model, compose.Pipeline):
        parts = model.steps.values()
    elif isinstance(model, (compose.TransformerUnion, compose.TransformerProduct)):
        parts = model.transformers.values()
    else:
        yield model
        return
    for part in parts:
        yield from steps_of(part)
