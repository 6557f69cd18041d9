"""A pipeline of river as one that plays blocks."""

from __future__ import annotations

import typing

import numpy as np

from fwonline._compiled.flow import Flow
from fwonline._compiled.steps import TargetScaling, step_of
from fwonline._protocols import Probabilities
from fwonline.exceptions import SampleError

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray
    from scipy import sparse

    from fwonline._protocols import LastSamples

__all__ = ["CompiledPipeline"]


class CompiledPipeline:
    """Transformers and a linear estimator over rows: to the last bit what river's methods make of one after another.

    What the transformers know is read from them before a block and written back behind it. Samples and blocks can
    take turns.
    """

    def __init__(self, model: typing.Any, transformers: list, final: typing.Any, estimator: typing.Any) -> None:
        self._model = model
        self._steps = {type(transformer).__name__: step_of(transformer) for transformer in transformers}
        self._made = [step for step in map(step_of, transformers) if step is not None]
        self._targets = None if final is estimator else TargetScaling(final)
        self._estimator = estimator

    @property
    def play_reason(self) -> str | None:
        """Why this pipeline plays samples; None where it plays blocks."""
        for name, step in self._steps.items():
            if step is None:
                return f"the step {name} has no compiled form"
        for step in self._made:
            if (reason := step.reason) is not None:
                return reason
        if getattr(self._model, "_LEARN_UNSUPERVISED_DURING_PREDICT", False):
            return "the transformers learn while they predict"
        return self._estimator.play_reason

    @property
    def last_samples(self) -> LastSamples | None:
        """The rows that were learned last, as the optimizer saw them."""
        return self._estimator.last_samples

    def play_block(
        self,
        X: NDArray[np.float64] | sparse.csr_array,
        y: NDArray[typing.Any],
        names: Sequence[Hashable] | None = None,
        *,
        probabilities: bool = False,
    ) -> tuple[NDArray[typing.Any] | Probabilities, Exception | None]:
        """Predict and learn rows, one after another, up to the first that cannot be, or that brings a new feature."""
        if (reason := self.play_reason) is not None:
            raise ValueError(f"this model plays samples, not blocks: {reason}")
        columns = range(X.shape[1]) if names is None else names
        flow, told = self._flow(X, columns)
        n_told = flow.n
        labels, before, tell = self._scaled(y, flow.n)
        flow.cut(len(labels))
        answers, error = self._estimator._play_block(
            flow.matrix(), labels, flow.names, probabilities=probabilities, asked=flow.asked
        )
        n = len(answers.p if isinstance(answers, Probabilities) else answers)
        if n < n_told:
            told = self._flow(X[:n], columns)[1]
            tell = self._scaled(y, n)[2]
        for tell_step in (*told, tell):
            tell_step()
        if error is None and n < len(y):
            error = SampleError("the row brings a feature that is new to a step, or a value that cannot be scaled")
        if before is not None and not isinstance(answers, Probabilities):
            answers = answers * before[:n, 0] + before[:n, 1]
        return answers, error

    def _flow(self, X: typing.Any, names: Sequence[Hashable]) -> tuple[Flow, list[Callable[[], None]]]:
        """Rows as the estimator is given them, and what tells the transformers of them."""
        flow = Flow(X, names)
        told = []
        n = -1
        while n != flow.n:
            # A step that ends the rows early ends them for those before it.
            n = flow.n
            flow = Flow(X[:n], names)
            told = [step.run(flow) for step in self._made]
            flow.know(self._estimator._features.positions.__contains__)
            flow.cut_large()
        return flow, told

    def _scaled(self, y: NDArray, n: int) -> tuple[NDArray, NDArray[np.float64] | None, Callable[[], None]]:
        """The first n targets as the estimator is given them, as many as can be."""
        if self._targets is None:
            return y[:n], None, lambda: None
        try:
            targets = np.array(y[:n], dtype=np.float64)
        except (TypeError, ValueError):
            return y[:0], None, lambda: None
        count, before, tell = self._targets.run(targets)
        return targets[:count], before, tell
