"""Sparse samples kept for later, in arrays that double."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from fwonline import _loaded

__all__ = ["Rows"]


class Rows:
    """Rows of a CSR matrix with a target and a prediction each: 12 bytes a value and 24 a row, no Python objects."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.n = 0
        self.nnz = 0
        self._indices = np.zeros(256, dtype=np.int32)
        self._values = np.zeros(256)
        self._ends = np.zeros(65, dtype=np.int64)
        self._y = np.zeros(64)
        self._predictions = np.zeros(64)

    def append(self, indices: ArrayLike, values: NDArray[np.float64], y: float, prediction: float) -> None:
        end = self.nnz + len(values)
        while end > self._values.size:
            self._indices, self._values = _doubled(self._indices), _doubled(self._values)
        if self.n == self._y.size:
            self._y, self._predictions = _doubled(self._y), _doubled(self._predictions)
            self._ends = np.append(self._ends, np.zeros(self.n, dtype=np.int64))
        self._indices[self.nnz : end] = indices
        self._values[self.nnz : end] = values
        self._y[self.n] = y
        self._predictions[self.n] = prediction
        self.n, self.nnz = self.n + 1, end
        self._ends[self.n] = end

    @property
    def y(self) -> NDArray[np.float64]:
        return self._y[: self.n]

    @property
    def predictions(self) -> NDArray[np.float64]:
        return self._predictions[: self.n]

    def matrix(self, d: int) -> scipy.sparse.csr_array:
        """The rows as a matrix with `d` columns. It shares their memory: use it before the next `append`."""
        parts = self._values[: self.nnz], self._indices[: self.nnz], self._ends[: self.n + 1]
        return scipy.sparse.csr_array(parts, shape=(self.n, d))

    def __getstate__(self) -> dict[str, Any]:
        # What is written out holds no spare room.
        return {
            "n": self.n,
            "nnz": self.nnz,
            "_indices": self._indices[: max(1, self.nnz)].copy(),
            "_values": self._values[: max(1, self.nnz)].copy(),
            "_ends": self._ends[: max(1, self.n) + 1].copy(),
            "_y": self._y[: max(1, self.n)].copy(),
            "_predictions": self._predictions[: max(1, self.n)].copy(),
        }

    def _check_loaded(self) -> None:
        _loaded.like(self, Rows())
        values = _loaded.array(self, "_values", np.float64, (None,)).size
        _loaded.require(self, "_values", values > 0, "room for a value")
        nnz = _loaded.count(self, "nnz", 0, values)
        _loaded.array(self, "_indices", np.int32, (values,), least=0)
        room = _loaded.array(self, "_y", np.float64, (None,)).size
        _loaded.require(self, "_y", room > 0, "room for a row")
        n = _loaded.count(self, "n", 0, room)
        _loaded.array(self, "_predictions", np.float64, (room,))
        ends = _loaded.array(self, "_ends", np.int64, (room + 1,))[: n + 1]
        is_rising = ends[0] == 0 and ends[-1] == nnz and (ends[1:] >= ends[:-1]).all()
        _loaded.require(self, "_ends", is_rising, f"ends of rows that rise from 0 to {nnz}")
        _loaded.owned(self, "_indices", "_ends")


def _doubled(array: NDArray) -> NDArray:
    out = np.empty(2 * array.size, dtype=array.dtype)
    out[: array.size] = array
    return out
