"""The last samples of a stream, kept for a look back now and then."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

__all__ = ["Window"]

_TYPES = {"lengths": np.int64, "indices": np.uint32, "values": np.float64, "y": np.float64}


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
        if (wrong := _inconsistency(state)) is not None:
            raise ValueError(f"the saved samples of a monitor are inconsistent: {wrong}")
        self.__init__(state["size"])  # type: ignore[misc]
        self._arrays = {name: state[name] for name in _TYPES}


def _inconsistency(state: dict[str, Any]) -> str | None:
    """What no window can have left, in words."""
    if missing := [name for name in ("size", *_TYPES) if name not in state]:
        return f"{missing[0]} is missing"
    if type(state["size"]) is not int or state["size"] < 1:
        return f"size is {state['size']!r}"
    for name, kind in _TYPES.items():
        array = state[name]
        if type(array) is not np.ndarray or array.dtype != kind or array.ndim != 1:
            return f"{name} is no vector of {kind.__name__}"
    lengths, indices, values, y = (state[name] for name in _TYPES)
    if not len(lengths) == len(y) <= state["size"]:
        return f"{len(lengths)} lengths, {len(y)} targets and a size of {state['size']}"
    # Before the sum, which a huge length would make overflow.
    if ((lengths < 0) | (lengths > len(values))).any() or lengths.sum() != len(values) or len(indices) != len(values):
        return "lengths do not add up to the entries"
    if len(indices) and int(indices.max()) > np.iinfo(np.int32).max:
        return f"a position is {indices.max()}"
    if not (np.isfinite(values).all() and np.isfinite(y).all()):
        return "a value is not finite"
    return None
