"""How far a model is outside its constraint set."""

from __future__ import annotations

from typing import Any

from fwonline.monitors.base import Periodic, exposed, number

__all__ = ["Feasibility"]


class Feasibility(Periodic):
    """How far the parameters lie outside the constraint set: 0 inside, a distance outside.

    Reads `model.violation`. On most sets that costs the dimension rather than the non-zeros of a sample, so it is read
    every `every` samples, beginning with the first.

    Parameters
    ----------
    every
        Samples from one look to the next.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from fwonline.monitors import Feasibility
    >>> monitor = Feasibility(every=1)
    >>> for violation in (0.0, 2e-9, 0.0):
    ...     monitor.update(model=SimpleNamespace(violation=violation))
    >>> monitor
    Feasibility: violation 0, worst 2e-09
    >>> monitor.get()
    {'violation': 0.0, 'violation_worst': 2e-09, 'violation_worst_at': 2, 'violation_looks': 3}
    """

    _reads = ("violation",)

    def __init__(self, every: int = 100):
        super().__init__(every)
        self._last: float | None = None
        self._worst: float | None = None
        self._worst_at: int | None = None
        self._looks = 0

    def _read(self, model: Any) -> None:
        self._looks += 1
        self._last = float(exposed(self, model, "violation"))
        if self._worst is None or not self._last <= self._worst:  # a nan is the worst of all
            self._worst, self._worst_at = self._last, self._n

    def get(self) -> dict[str, float | int | None]:
        return {
            "violation": self._last,
            "violation_worst": self._worst,
            "violation_worst_at": self._worst_at,
            "violation_looks": self._looks,
        }

    def _text(self) -> str:
        return f"violation {number(self._last)}, worst {number(self._worst)}"
