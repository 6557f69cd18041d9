"""Pipelines of river that end in an estimator of fwonline, with their transformers as compiled loops over rows."""

from __future__ import annotations

import typing

from fwonline._protocols import SupportsPlayBlock

__all__ = ["compiled"]


def compiled(model: typing.Any) -> SupportsPlayBlock | None:
    """What plays blocks just as a model plays samples; None where nothing does.

    A model that does so itself is returned as it is. So is, in a form of its own, a `Pipeline` of river, or a
    `TargetStandardScaler`, that ends in a linear estimator: its ``play_reason`` says whether its steps are compiled.
    """
    if isinstance(model, SupportsPlayBlock):
        return model
    steps = [*model.steps.values()] if _is(model, "river.compose.pipeline", "Pipeline") else [model]
    final = steps[-1] if steps else model
    estimator: typing.Any = (
        final.regressor if _is(final, "river.preprocessing.scale_target", "TargetStandardScaler") else final
    )
    if not isinstance(estimator, SupportsPlayBlock) or not type(estimator).__module__.startswith(
        "fwonline.linear_model."
    ):
        return None
    from fwonline._compiled.pipeline import CompiledPipeline  # when a pipeline asks for it

    return CompiledPipeline(model, steps[:-1], final, estimator)


def _is(model: typing.Any, module: str, name: str) -> bool:
    """Whether a model is of exactly this class, which need not have been imported."""
    return (type(model).__module__, type(model).__qualname__) == (module, name)
