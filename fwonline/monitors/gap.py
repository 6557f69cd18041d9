"""The Frank-Wolfe gap: how much a linear model of the objective says is left to gain."""

from __future__ import annotations

import math
from typing import Any

from fwonline.monitors.base import Monitor, exposed, number

__all__ = ["Gap"]


class Gap(Monitor):
    r"""The Frank-Wolfe gap $\max_{s \in C} \langle g, w - s \rangle$ of a model.

    With the gradient $g$ of a convex objective it bounds how far $w$ is from the optimum. Two gaps are told apart:

    - `gap_estimate`: with the optimizer's running estimate of the gradient. It comes free with each step (with
      `StochasticPairwiseFW` it costs O(d) a look), and is noisy and biased as the estimate is; so its mean and its
      exponentially weighted mean are given too.
    - `gap_over_memory`: with the exact gradient of the samples that the optimizer remembers, for these a true bound.
      It costs a pass over the memory, so it is taken every `every` samples; None where nothing is remembered.

    Reads `model`.

    Parameters
    ----------
    every
        Samples from one gap over the memory to the next; None to take none.
    fading_factor
        Weight of the newest estimate in the exponentially weighted mean, in (0, 1].

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from fwonline.monitors import Gap
    >>> monitor = Gap(every=2)
    >>> for gap in (0.5, 0.3, 0.1):
    ...     monitor.update(model=SimpleNamespace(gap=gap, exact_gap=lambda: 0.2))
    >>> monitor
    Gap: 0.1, mean 0.3, over memory 0.2
    >>> monitor.get()["gap_over_memory_at"]
    2

    References
    ----------
    [^1]: [Jaggi, M., 2013. Revisiting Frank-Wolfe: projection-free sparse convex optimization.
    ICML.](https://proceedings.mlr.press/v28/jaggi13.html)
    """

    def __init__(self, every: int | None = None, fading_factor: float = 0.01):
        if every is not None and every < 1:
            raise ValueError(f"every must be None or at least 1, not {every}")
        if not 0 < fading_factor <= 1:
            raise ValueError(f"fading_factor must lie in (0, 1], not be {fading_factor}")
        self.every = every
        self.fading_factor = fading_factor
        self._n = 0
        self._n_finite = 0
        self._last: float | None = None
        self._mean = 0.0
        self._faded: float | None = None
        self._exact: float | None = None
        self._exact_at: int | None = None

    def update(self, y_true: Any = None, y_pred: Any = None, *, x: dict | None = None, model: Any = None) -> None:
        gap = float(exposed(self, model, "gap"))
        self._n += 1
        if math.isfinite(gap):  # an optimizer that has made no step yet has no gap
            self._n_finite += 1
            self._last = gap
            self._mean += (gap - self._mean) / self._n_finite
            self._faded = gap if self._faded is None else self._faded + self.fading_factor * (gap - self._faded)
        if self.every is not None and self._n % self.every == 0:
            exact = exposed(self, model, "exact_gap")()
            if exact is not None:
                self._exact, self._exact_at = float(exact), self._n

    def get(self) -> dict[str, float | int | None]:
        return {
            "gap_estimate": self._last,
            "gap_estimate_ewm": self._faded,
            "gap_estimate_mean": self._mean if self._n_finite else None,
            "gap_over_memory": self._exact,
            "gap_over_memory_at": self._exact_at,
        }

    def _said(self) -> str:
        said = f"{number(self._last)}, mean {number(self.get()['gap_estimate_mean'])}"
        return said if self._exact is None else f"{said}, over memory {number(self._exact)}"
