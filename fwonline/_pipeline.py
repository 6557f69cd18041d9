"""What pipelines of river are made of, and end in."""

from __future__ import annotations

import typing

from fwonline._kinds import derives

__all__ = ["final_estimator", "steps_of"]

_PIPELINE = "river.compose.pipeline.Pipeline"
_UNION, _PRODUCT = "river.compose.union.TransformerUnion", "river.compose.product.TransformerProduct"


def final_estimator(model: typing.Any) -> typing.Any:
    """The estimator at the end of a pipeline; any other model itself."""
    while derives(type(model), _PIPELINE):
        model = list(model.steps.values())[-1]
    return model


def steps_of(model: typing.Any) -> typing.Iterator[typing.Any]:
    """Yield the parts of a model that is made of pipelines and unions, however deep; any other model itself."""
    parts: typing.Iterable[typing.Any]
    if derives(type(model), _PIPELINE):
        parts = model.steps.values()
    elif derives(type(model), _UNION) or derives(type(model), _PRODUCT):
        parts = model.transformers.values()
    else:
        yield model
        return
    for part in parts:
        yield from steps_of(part)
