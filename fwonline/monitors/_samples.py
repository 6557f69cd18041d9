"""Samples of a stream, kept as sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fwonline import _loaded

__all__ = ["Samples"]

_TYPES: dict[str, type] = {
    **{"lengths": np.int64, "indices": np.uint32, "values": np.float64},
    **{"targets": np.float64, "plays": np.float64},
}
_PACKED = 256  # so many samples are packed into arrays at once


class Samples:
    """Samples with a target and a prediction each: 12 bytes an entry and 24 a sample, few Python objects.

    Parameters
    ----------
    size
        Keep the last so many; None: all.
    """

    def __init__(self, size: int | None = None) -> None:
        self.size = size
        self.clear()

    def clear(self) -> None:
        self.n = 0
        self.nnz = 0
        self._packed: list[dict[str, NDArray]] = [{name: np.empty(0, kind) for name, kind in _TYPES.items()}]
        self._new: list[tuple[bytes, bytes, float, float]] = []  # nothing is quicker to keep

    def __len__(self) -> int:
        return self.n if self.size is None else min(self.n, self.size)

    def append(self, indices: bytes, values: bytes, y: float, prediction: float = 0.0) -> None:
        """Keep one more sample: positions as uint32, values as float64."""
        self._new.append((indices, values, y, prediction))
        self.n += 1
        self.nnz += len(values) // 8
        if len(self._new) > (self.size or _PACKED):
            self._pack()
            if self.size is not None:
                self._arrays()

    def extend(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.uint32],
        values: NDArray[np.float64],
        y: NDArray[np.float64],
        predictions: NDArray[np.float64],
    ) -> None:
        """Keep copies of more samples: the first has the entries from indptr[0] to indptr[1]."""
        first, last = int(indptr[0]), int(indptr[-1])
        if len(y) == 1:
            row = slice(first, last)
            self.append(indices[row].tobytes(), values[row].tobytes(), float(y[0]), float(predictions[0]))
            return
        self._pack()
        entries = {"lengths": np.diff(indptr), "indices": indices[first:last], "values": values[first:last]}
        more = {**entries, "targets": y, "plays": predictions}
        self._packed.append({name: np.array(array, dtype=_TYPES[name]) for name, array in more.items()})
        self.n += len(y)
        self.nnz += last - first
        if self.size is not None and self.n > 2 * self.size:
            self._arrays()

    def _pack(self) -> None:
        if self._new:
            indices, values, y, predictions = zip(*self._new, strict=True)
            packed: dict[str, NDArray] = {
                "lengths": np.array([len(entries) // 8 for entries in values], dtype=np.int64),
                "indices": np.frombuffer(b"".join(indices), dtype=np.uint32),
                "values": np.frombuffer(b"".join(values)),
                "targets": np.array(y, dtype=np.float64),
                "plays": np.array(predictions, dtype=np.float64),
            }
            self._packed.append(packed)
            self._new = []

    def _arrays(self) -> dict[str, NDArray]:
        """All samples in one array each, without those older than the last `size`."""
        self._pack()
        if len(self._packed) > 1:
            lengths = np.concatenate([packed["lengths"] for packed in self._packed])
            gone = 0 if self.size is None else max(0, len(lengths) - self.size)
            first = dict.fromkeys(_TYPES, gone) | dict.fromkeys(("indices", "values"), int(lengths[:gone].sum()))
            whole = {name: np.concatenate([packed[name] for packed in self._packed])[first[name] :] for name in _TYPES}
            self._packed = [whole]
            self.n, self.nnz = len(whole["targets"]), len(whole["values"])
        return self._packed[0]

    @property
    def y(self) -> NDArray[np.float64]:
        return self._arrays()["targets"]

    @property
    def predictions(self) -> NDArray[np.float64]:
        return self._arrays()["plays"]

    @property
    def highest(self) -> int:
        """The highest position of a feature; -1 where there is none."""
        return int(self._arrays()["indices"].max(initial=0)) if self.nnz else -1

    def matrix(self, d: int) -> scipy.sparse.csr_array:
        """The samples, oldest first, as a matrix with `d` columns."""
        arrays = self._arrays()
        ends = np.concatenate([[0], np.cumsum(arrays["lengths"])])
        entries = arrays["values"], arrays["indices"].view(np.int32), ends
        return scipy.sparse.csr_array(entries, shape=(len(self), d))

    def __getstate__(self) -> dict[str, Any]:
        return {"size": self.size, **self._arrays()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["size"])  # type: ignore[misc]
        self._packed = [{name: state[name] for name in _TYPES}]
        self.n, self.nnz = len(state["targets"]), len(state["values"])

    def _check_loaded(self) -> None:
        (arrays,) = self._packed
        for name, kind in _TYPES.items():
            if type(array := arrays[name]) is not np.ndarray or array.dtype != kind or array.ndim != 1:
                _loaded.fail(self, name, f"a vector of {kind.__name__}")
        self._packed = [{name: array.copy() for name, array in arrays.items()}]  # no other object shares their memory
        lengths = arrays["lengths"]
        most = self.n if self.size is None else _loaded.count(self, "size", 1)
        is_whole = self.n == len(lengths) == len(arrays["plays"]) and self.n <= most
        _loaded.require(self, "targets", is_whole, "as many as lengths and plays, within the size")
        # Each by itself before the sum, which huge ones would make overflow.
        fits = ((lengths >= 0) & (lengths <= self.nnz)).all() and lengths.sum() == self.nnz == len(arrays["indices"])
        _loaded.require(self, "lengths", fits, "lengths that add up to the entries")
        _loaded.require(self, "indices", self.highest <= np.iinfo(np.int32).max, "positions of features")
        for name in ("values", "targets", "plays"):
            _loaded.require(self, name, np.isfinite(arrays[name]).all(), "finite values")
