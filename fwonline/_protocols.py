"""What a model may offer beyond river's methods, as protocols."""

from __future__ import annotations

import typing

__all__ = ["HasSupportSize", "SupportsMerged", "SupportsPlay", "SupportsPlayProba"]


@typing.runtime_checkable
class HasSupportSize(typing.Protocol):
    """Counts what its parameters are made of; the monitor `Support` reads it."""

    @property
    def support_size(self) -> int:
        """Weights that are not zero; for a matrix, its rank or the factors that it is held in."""


@typing.runtime_checkable
class SupportsPlay(typing.Protocol):
    """Predicts a sample and learns it in one pass: the same as `predict_one`, then `learn_one`."""

    def play_one(self, x: dict, y: typing.Any) -> typing.Any:
        """Return the prediction made before the sample was learned."""


@typing.runtime_checkable
class SupportsPlayProba(typing.Protocol):
    """Predicts probabilities and learns in one pass: the same as `predict_proba_one`, then `learn_one`."""

    def play_proba_one(self, x: dict, y: typing.Any) -> dict:
        """Return the probabilities predicted before the sample was learned."""


@typing.runtime_checkable
class SupportsMerged(typing.Protocol):
    """Can be combined with models of its kind that have learned other samples."""

    def merged(self, others: typing.Any) -> typing.Any:
        """Return one model of this one and `others`; all of them stay as they are."""
