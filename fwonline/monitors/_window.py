"""The last samples of a stream, kept for a look back now and then."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fwonline import _loaded

__all__ = ["Window"]

_TYPES: dict[str, type] = {"lengths": np.int64, "indices": np.uint32, "values": np.float64, "y": np.float64}


class Window:
    """The last samples that a model has learned, as its optimizer saw them: 12 bytes an entry.

    Parameters
    ----------
    size
        How many.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._arrays: dict[str, NDArray] = {name: np.empty(0, kind) for name, kind in _TYPES.items()}
        # What has come since as bytes of positions and of values, and the target: nothing is quicker to keep.
        self._new: list[tuple[bytes, bytes, float]] = []

    def __len__(self) -> int:
        return min(len(self._new) + len(self._arrays["y"]), self.size)

    def append(self, sample: tuple[bytes, bytes, float] | None) -> None:
        """Keep one more sample; None, for one that is not known, is left out."""
        if sample is not None:
            self._new.append(sample)
            if len(self._new) > self.size:
                self._gather()

    def _gather(self) -> dict[str, NDArray]:
        """Bring what is new into the arrays, and let go of what is older than the window."""
        if not self._new:
            return self._arrays
        indices, values, y = zip(*self._new[-self.size :], strict=True)
        new: dict[str, NDArray] = {
            "lengths": np.array([len(entries) // 8 for entries in values], dtype=np.int64),
            "indices": np.frombuffer(b"".join(indices), dtype=np.uint32),
            "values": np.frombuffer(b"".join(values)),
            "y": np.array(y, dtype=np.float64),
        }
        old = self._arrays
        gone = max(0, len(old["y"]) + len(y) - self.size)
        entries = int(old["lengths"][:gone].sum())
        first = {"lengths": gone, "y": gone, "indices": entries, "values": entries}
        self._arrays = {name: np.concatenate([old[name][first[name] :], array]) for name, array in new.items()}
        self._new = []
        return self._arrays

    def matrix(self, d: int) -> tuple[scipy.sparse.csr_array, NDArray[np.float64]]:
        """The samples, oldest first, as a matrix with `d` columns, and their targets.

        Samples with a position beyond `d` are of another model, to which positions mean something else: then none are
        kept.
        """
        if int(self._gather()["indices"].max(initial=0)) >= max(d, 1):
            self.__init__(self.size)  # type: ignore[misc]
        arrays = self._arrays
        ends = np.concatenate([[0], np.cumsum(arrays["lengths"])])
        entries = arrays["values"], arrays["indices"].view(np.int32), ends
        return scipy.sparse.csr_array(entries, shape=(len(self), d)), arrays["y"]

    def __getstate__(self) -> dict[str, Any]:
        return {"size": self.size, **self._gather()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["size"])  # type: ignore[misc]
        self._arrays = {name: state[name] for name in _TYPES}

    def _check_loaded(self) -> None:
        _loaded.count(self, "size", 1)
        arrays = dict(self._arrays)
        for name, kind in _TYPES.items():
            if type(array := arrays[name]) is not np.ndarray or array.dtype != kind or array.ndim != 1:
                _loaded.fail(self, name, f"a vector of {kind.__name__}")
        lengths, entries = arrays["lengths"], len(arrays["values"])
        _loaded.require(self, "y", len(arrays["y"]) == len(lengths) <= self.size, "as many as lengths, within the size")
        # Each by itself before the sum, which huge ones would make overflow.
        fits = ((lengths >= 0) & (lengths <= entries)).all() and lengths.sum() == entries == len(arrays["indices"])
        _loaded.require(self, "lengths", fits, "lengths that add up to the entries")
        positions = arrays["indices"].max(initial=0) <= np.iinfo(np.int32).max
        _loaded.require(self, "indices", positions, "positions of features")
        for name in ("values", "y"):
            _loaded.require(self, name, np.isfinite(arrays[name]).all(), "finite values")
        self._arrays = {name: array.copy() for name, array in arrays.items()}
