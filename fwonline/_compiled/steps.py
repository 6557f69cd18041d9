"""River's transformers as steps over rows. What they know stays theirs: it is read before a block and written after."""

from __future__ import annotations

import abc
import typing

import numpy as np

from fwonline._compiled import kernels
from fwonline.linear_model.columns import KEPT

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from fwonline._compiled.flow import Flow

__all__ = ["Step", "TargetScaling", "step_of"]

_HALF = 0.5


class Step(abc.ABC):
    """A transformer at work on rows.

    Parameters
    ----------
    transformer
        River's.
    """

    def __init__(self, transformer: typing.Any) -> None:
        self.transformer = transformer

    @property
    def reason(self) -> str | None:
        """Why this transformer, as it is set, has no compiled form."""
        return None

    @abc.abstractmethod
    def run(self, flow: Flow) -> Callable[[], None]:
        """Transform rows, from the first to the last that can be; return what tells the transformer what it learned."""


class StandardScaling(Step):
    """`StandardScaler`."""

    @property
    def reason(self) -> str | None:
        if self.transformer.window_size is not None:
            return "StandardScaler(window_size=...) keeps its window sample by sample"
        return None if self.transformer.with_std else "StandardScaler(with_std=False) has no compiled form"

    def run(self, flow: Flow) -> Callable[[], None]:
        scaler = self.transformer
        counts, means, variances = scaler.counts, scaler.means, scaler.vars
        names = flow.know(counts.__contains__)
        stats = np.empty((len(names), 4))
        for column, known in ((kernels.COUNT, counts), (kernels.MEAN, means), (kernels.VAR, variances)):
            stats[:, column] = [known[name] for name in names]
        stats[:, kernels.ROOT] = [v**_HALF for v in stats[:, kernels.VAR].tolist()]
        flow.cut(kernels.standardize(flow.indptr, flow.slots(), flow.asked, flow.val, stats, _HALF))

        def tell() -> None:
            dict.update(counts, zip(names, map(int, stats[:, kernels.COUNT].tolist()), strict=True))
            means.update(zip(names, stats[:, kernels.MEAN].tolist(), strict=True))
            variances.update(zip(names, stats[:, kernels.VAR].tolist(), strict=True))

        return tell


class MinMaxScaling(Step):
    """`MinMaxScaler`."""

    @property
    def reason(self) -> str | None:
        if self.transformer.window_size is not None:
            return "MinMaxScaler(window_size=...) keeps its window sample by sample"
        return None

    def run(self, flow: Flow) -> Callable[[], None]:
        low, high = self.transformer.min, self.transformer.max
        names = flow.know(high.__contains__)
        stats = np.empty((len(names), 2))
        stats[:, kernels.LOW] = [low[name].min for name in names]
        stats[:, kernels.HIGH] = [high[name].max for name in names]
        before = stats.copy()
        flow.cut(kernels.stretch(flow.indptr, flow.slots(), flow.asked, flow.val, stats))

        def tell() -> None:
            for j in np.flatnonzero(stats[:, kernels.LOW] != before[:, kernels.LOW]).tolist():
                low[names[j]].min = stats[j, kernels.LOW].item()
            for j in np.flatnonzero(stats[:, kernels.HIGH] != before[:, kernels.HIGH]).tolist():
                high[names[j]].max = stats[j, kernels.HIGH].item()

        return tell


class Hashing(Step):
    """`FeatureHasher`, which is asked once where each column goes."""

    def __init__(self, transformer: typing.Any) -> None:
        super().__init__(transformer)
        self._names: typing.Any = None
        self._buckets, self._signs = np.zeros(0, np.int64), np.zeros(0)

    @property
    def reason(self) -> str | None:
        size = self.transformer.n_features
        return f"FeatureHasher(n_features={size}) has too many for a table of them" if size > KEPT else None

    def run(self, flow: Flow) -> Callable[[], None]:
        size = self.transformer.n_features
        buckets, signs = self._places(flow)
        columns = np.tile(np.arange(len(flow.names)), flow.n) if flow.columns is None else flow.columns
        out = np.zeros(flow.n + 1, np.int64), np.empty(columns.size, np.int64), *np.empty((2, columns.size))
        rows = flow.indptr, columns.astype(np.int64), flow.asked, flow.val
        count = kernels.hash_rows(rows, buckets, signs, np.full(size, -1), out)
        indptr, to, asked, val = out[0], *(array[:count] for array in out[1:])
        if flow.columns is None:
            # Every row has all columns, so that every row has the buckets of the first.
            flow.names = to[: indptr[1]].tolist() if flow.n else []
        else:
            flow.names, flow.columns = range(size), to.astype(np.int32)
        flow.indptr, flow.asked, flow.val = indptr, asked, val
        return lambda: None

    def _places(self, flow: Flow) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The bucket and the sign of each column that rows have."""
        names = flow.names if isinstance(flow.names, range) else list(flow.names)
        are_numbers = isinstance(names, range) and isinstance(self._names, range)
        if not are_numbers and self._names != names:
            self._buckets, self._signs = np.zeros(0, np.int64), np.zeros(0)
        if (more := len(names) - self._buckets.size) > 0:
            self._names = names
            self._buckets = np.append(self._buckets, np.full(more, -1))
            self._signs = np.append(self._signs, np.zeros(more))
        used = flow.used()
        for j in used[self._buckets[used] < 0].tolist():
            ((self._buckets[j], self._signs[j]),) = self.transformer.transform_one({names[j]: 1.0}).items()
        return self._buckets, self._signs


class TargetScaling:
    """`TargetStandardScaler` around an estimator."""

    def __init__(self, wrapper: typing.Any) -> None:
        self.wrapper = wrapper

    def run(self, y: NDArray[np.float64]) -> tuple[int, NDArray[np.float64], Callable[[], None]]:
        """Scale targets in place; return how many could be, each one's deviation and mean before, and what tells."""
        var = self.wrapper.var
        mean = var.mean
        stats = np.array([mean.n, mean._mean, var._S, var.ddof], dtype=np.float64)
        before = np.empty((y.size, 2))
        n = kernels.standardize_targets(y, stats, before, _HALF)

        def tell() -> None:
            mean.n, mean._mean, var._S = stats[:3].tolist()

        return n, before, tell


# By name, so that nothing of river is imported for a pipeline that does not have it; subclasses have other names.
_STEPS: dict[tuple[str, str], type[Step]] = {
    ("river.preprocessing.scale", "StandardScaler"): StandardScaling,
    ("river.preprocessing.scale", "MinMaxScaler"): MinMaxScaling,
    ("river.preprocessing.feature_hasher", "FeatureHasher"): Hashing,
}


def step_of(transformer: typing.Any) -> Step | None:
    """The compiled form of a transformer of exactly one of river's classes."""
    kind = type(transformer)
    form = _STEPS.get((kind.__module__, kind.__qualname__))
    return None if form is None else form(transformer)
