"""What the simulated streams have in common."""

from __future__ import annotations

import abc
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from river.datasets import base

__all__ = ["SAMPLES", "TRUTH", "DriftingSimulator", "Simulator", "require", "samples"]

_CELLS = 1 << 16  # numbers in a chunk: large enough for vectorised drawing, small enough to stay in cache
SAMPLES, TRUTH = 0, 1  # what a random stream is for: part of its key, so that the two never meet


def require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def samples(X: Any, y: np.ndarray | None, keys: Iterable[Any]) -> Iterator[tuple[dict, Any]]:
    """Yield the rows of a dense or CSR matrix as dicts, with their targets; `keys` name the columns of a dense one."""
    targets = itertools.repeat(None) if y is None else y.tolist()
    if scipy.sparse.issparse(X):
        indices, values, ends = X.indices.tolist(), X.data.tolist(), X.indptr.tolist()
        for (a, b), target in zip(itertools.pairwise(ends), targets, strict=False):
            yield dict(zip(indices[a:b], values[a:b], strict=True)), target
    else:
        for row, target in zip(X.tolist(), targets, strict=False):
            yield dict(zip(keys, row, strict=True)), target


class Simulator(base.SyntheticDataset):
    """A stream whose chunk number `i` depends on the seed and on `i` alone.

    So a stream is the same however much of it is read, a second iteration repeats the first, and any place in it is
    reached without drawing what lies before. Without a seed an object picks one for itself: it still repeats itself,
    and its truth stays readable.
    """

    seed: int | None

    def _start(self, seed: int | None, keys: Sequence[Any], width: float) -> None:
        """Begin: `keys` name the columns of a dense chunk, a sample is made of `width` numbers on average."""
        self.seed, self._keys, self._width = seed, keys, width
        self._entropy = np.random.SeedSequence(seed).entropy

    def _rng(self, *key: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=key))

    @property
    def _rows(self) -> int:
        return int(max(1, min(1024, _CELLS // max(1.0, self._width))))

    @abc.abstractmethod
    def _draw(self, start: int, n: int, rng: np.random.Generator) -> tuple[Any, np.ndarray | None]:
        """Samples `start` to `start + n` as a dense or CSR matrix and their targets."""

    def _chunks(self, first: int) -> Iterator[tuple[Any, np.ndarray | None]]:
        for i in itertools.count(first):
            yield self._draw(i * self._rows, self._rows, self._rng(SAMPLES, i))

    def __iter__(self) -> Iterator[tuple[dict, Any]]:
        return self.iter_from(0)

    def iter_from(self, n: int) -> Iterator[tuple[dict, Any]]:
        """Iterate from sample `n` on, without drawing those before it (but for the ones in the same chunk)."""
        require(n >= 0, f"a stream starts at sample 0, not at {n}")
        first, skip = divmod(n, self._rows)
        chunks = (samples(X, y, self._keys) for X, y in self._chunks(first))
        return itertools.islice(itertools.chain.from_iterable(chunks), skip, None)

    def to_arrays(self, n: int) -> tuple[Any, np.ndarray | None]:
        """Return the first `n` samples as arrays: the same numbers as the iteration gives.

        `X` has shape (n, n_features), dense or CSR as the stream is, and `y` shape (n,), or is None if the stream has
        no target. Labels are booleans.
        """
        require(n >= 1, f"at least 1 sample must be asked for, not {n}")
        parts = list(itertools.islice(self._chunks(0), -(-n // self._rows)))
        stack = scipy.sparse.vstack if scipy.sparse.issparse(parts[0][0]) else np.concatenate
        X = stack([X for X, _ in parts])[:n]
        targets = [y for _, y in parts if y is not None]
        return X, np.concatenate(targets)[:n] if targets else None


class DriftingSimulator(Simulator):
    """A simulator whose truth changes every `drift_every` samples, in a straight line over `drift_width` of them."""

    def _set_drift(self, every: int | None, width: int) -> None:
        require(every is None or every >= 1, f"drift_every must be None or at least 1, not {every}")
        require(0 <= width <= (every or 0), f"drift_width must lie in 0 .. drift_every={every or 0}, not be {width}")
        self.drift_every = every
        self.drift_width = width

    def _phases(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many changes began by samples `t`, and how much of the truth before the last is still in force."""
        if self.drift_every is None:
            return np.zeros_like(t), np.zeros(t.shape)
        k, age = np.divmod(t, self.drift_every)
        old_part = np.maximum(1.0 - (age + 1.0) / (self.drift_width + 1.0), 0.0)
        return k, np.where(k > 0, old_part, 0.0)
