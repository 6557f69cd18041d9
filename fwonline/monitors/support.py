"""How many weights or atoms a model consists of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fwonline._pipeline import final_estimator
from fwonline.monitors.base import Periodic, exposed

__all__ = ["Support"]


class Support(Periodic):
    """How sparse a model is: the number of its weights that are not zero, or the rank of its matrix.

    Reads `model.support_size` (the protocol `HasSupportSize`), or where a model has none, as river's do,
    counts its `weights`. Reading costs the dimension rather than the non-zeros of a sample, and a decomposition for a
    matrix that is not held in factors, so it is done every `every` samples, beginning with the first.

    Parameters
    ----------
    every
        Samples from one reading to the next.

    Examples
    --------
    >>> from river import linear_model
    >>> from fwonline.monitors import Support
    >>> monitor, model = Support(every=1), linear_model.LinearRegression(l1=0.1)
    >>> for x, y in (({"a": 1.0}, 1.0), ({"b": 1.0}, 2.0), ({"c": 1.0}, 0.0)):
    ...     model.learn_one(x, y)
    ...     monitor.update(model=model)
    >>> monitor
    Support: 2 now, at most 2
    >>> monitor.get()
    {'support': 2, 'support_largest': 2}
    """

    _reads = ("support_size", "weights")

    def __init__(self, every: int = 100):
        super().__init__(every)
        self._last: int | None = None
        self._largest: int | None = None

    def _read(self, model: Any) -> None:
        if not hasattr(final_estimator(model), "support_size") and hasattr(final_estimator(model), "weights"):
            self._last = _n_nonzero(exposed(self, model, "weights"))
        else:
            self._last = int(exposed(self, model, "support_size"))
        self._largest = self._last if self._largest is None else max(self._largest, self._last)

    def get(self) -> dict[str, int | None]:
        return {"support": self._last, "support_largest": self._largest}

    def _text(self) -> str:
        return "unknown" if self._last is None else f"{self._last:,} now, at most {self._largest:,}"


def _n_nonzero(weights: Any) -> int:
    """Count the numbers that are not zero in a mapping, or in one of mappings, such as one by class."""
    if isinstance(weights, Mapping):
        return sum(_n_nonzero(weight) for weight in weights.values())
    return int(weights != 0)
