"""What a model may offer beyond river's methods, as protocols."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from scipy import sparse

__all__ = [
    "HasSupportSize",
    "LastSamples",
    "Probabilities",
    "SupportsMerged",
    "SupportsPlay",
    "SupportsPlayBlock",
    "SupportsPlayProba",
]


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


class Probabilities(typing.NamedTuple):
    """Probabilities of classes for many samples: what `predict_proba_one` returns for each, as one matrix."""

    p: NDArray[np.float64]  # samples x classes
    classes: tuple  # in the order of the dicts' keys

    def labels(self) -> list:
        """The most probable class of each sample, the first one of equals."""
        return [self.classes[k] for k in self.p.argmax(axis=1).tolist()]

    def dicts(self) -> list[dict]:
        """What `predict_proba_one` would have returned, sample by sample."""
        return [dict(zip(self.classes, row, strict=True)) for row in self.p.tolist()]


class LastSamples(typing.NamedTuple):
    """The samples that one call has learned, as the optimizer saw them: `last_sample` for each, as arrays."""

    indptr: NDArray[np.int64]  # sample i has the entries indptr[i] to indptr[i + 1]
    indices: NDArray[np.uint32]  # positions of features
    values: NDArray[np.float64]
    y: NDArray[np.float64]
    predictions: NDArray[np.float64]  # raw: <x, w> + intercept before the sample was learned
    gaps: NDArray[np.float64] | None  # the model's `gap` after each; None where the steps do not keep it
    n_features: NDArray[np.int64]  # known after each


@typing.runtime_checkable
class SupportsPlayBlock(typing.Protocol):
    """Plays many samples in one compiled loop: to the last bit `play_one`, or `play_proba_one`, for one after another.

    `play_reason` says in words why a model (a pipeline with a step that has no compiled form, for example) cannot, as
    it stands now; None where it can.
    """

    @property
    def play_reason(self) -> str | None: ...

    def play_block(
        self,
        X: NDArray[np.float64] | sparse.csr_array,
        y: NDArray[typing.Any],
        names: Sequence[Hashable] | None,
        *,
        probabilities: bool = False,
    ) -> tuple[NDArray[typing.Any] | Probabilities, Exception | None]:
        """Play rows, as `fwonline.stream.block.Block` holds them, up to the first that cannot be learned.

        Returns the predictions of the rows that were learned, and why the next one was not: None where all were. A
        classifier is asked once all labels of the rows are classes that it knows.
        """


@typing.runtime_checkable
class SupportsMerged(typing.Protocol):
    """Can be combined with models of its kind that have learned other samples."""

    def merged(self, others: typing.Any) -> typing.Any:
        """Return one model of this one and `others`; all of them stay as they are."""
