"""Checks and shares of the models that a `merged` makes one of."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_alike", "shares"]


def shares(models: Sequence[typing.Any]) -> list[float]:
    """The part of all samples that each model has learned; they sum to 1, or are all 0 where nothing was learned."""
    total = sum(model.n_samples for model in models)
    return [model.n_samples / total if total else 0.0 for model in models]


def check_alike(models: Sequence[typing.Any], *parameters: str) -> None:
    """See that models are of one class and agree in these parameters.

    Raises
    ------
    ValueError
        When they do not.
    """
    first = models[0]
    for other in models[1:]:
        names = parameters if type(other) is type(first) else ()
        apart = [name for name in names if str(getattr(other, name)) != str(getattr(first, name))]
        if apart or type(other) is not type(first):
            raise ValueError(
                f"expected models of one kind, found a {_described(first, apart)} and a {_described(other, apart)}"
            )


def _described(model: typing.Any, parameters: Sequence[str]) -> str:
    shown = ", ".join(f"{name}={getattr(model, name)}" for name in parameters)
    return f"{type(model).__name__} with {shown}" if shown else type(model).__name__
