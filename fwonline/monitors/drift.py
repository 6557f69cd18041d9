"""Where a stream has changed: a model's errors grow."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base, drift

from fwonline import _loaded
from fwonline._pipeline import final_estimator
from fwonline._protocols import Probabilities
from fwonline.monitors.base import Monitor, number

__all__ = ["Drift"]


class Drift(Monitor):
    r"""Counts the drifts of a stream: the samples at which a model's errors have grown beyond what chance explains.

    Errors are those of predictions made before learning: $|y - \hat y|$ of numbers, 1 less the probability of the label
    where probabilities are predicted, else 1 for a wrong label and 0 for the right one. They go through ADWIN [1],
    which keeps a window as long as the errors in it have one mean and drops its older part where they have two.
    A drift is counted where what is left has the larger mean; where errors fall, as while a model learns, none is.

    It tells of drifts and changes nothing: the model forgets, or not, as its optimizer does.
    Reads `y_true`, `y_pred` and `model`.

    Parameters
    ----------
    delta
        The probability of a drift that is none, for each test, in (0, 1): the smaller, the later drifts are found.

    Notes
    -----
    Cost: O(log n) a sample in time and room, for a window of n.

    Examples
    --------
    >>> from fwonline.monitors import Drift
    >>> monitor = Drift()
    >>> for i in range(3000):
    ...     monitor.update(y_true=i % 2 if i < 2000 else 5.0, y_pred=0.5)
    >>> monitor
    Drift: 1 drift, the last at sample 2,016; mean error of late 4.5
    >>> monitor.get()
    {'drifts': 1, 'drift_at': 2016, 'drift_error': 4.5}

    References
    ----------
    [^1]: [Bifet, A., Gavalda, R., 2007. Learning from time-changing data with adaptive windowing.
    SDM.](https://doi.org/10.1137/1.9781611972771.42)
    """

    def __init__(self, delta: float = 0.002):
        if not 0 < delta < 1:
            raise ValueError(f"delta must lie in (0, 1), not be {delta}")
        self.delta = delta
        self._n = 0
        self._drifts = 0
        self._at: int | None = None
        self._detector = drift.ADWIN(delta)

    def _check_loaded(self) -> None:
        super()._check_loaded()
        _loaded.instance(self, "_detector", drift.ADWIN)
        _loaded.count(self, "_drifts", most=self._n)
        if self._at is not None:
            _loaded.count(self, "_at", 1, self._n)

    def update(self, y_true: Any = None, y_pred: Any = None, *, x: dict | None = None, model: Any = None) -> None:
        self._note(_error(y_true, y_pred, _has_labels(model)))

    def most_together(self) -> float:
        return math.inf

    def update_many(self, y_true: Any, y_pred: Any, *, model: Any = None) -> None:
        for error in _errors(y_true, y_pred, _has_labels(model)):
            self._note(error)

    def _note(self, error: float) -> None:
        self._n += 1
        if not math.isfinite(error):
            return
        detector = self._detector
        before = detector.estimation
        detector.update(error)
        if detector.drift_detected and detector.estimation > before:
            self._drifts, self._at = self._drifts + 1, self._n

    def get(self) -> dict[str, float | int | None]:
        error = float(self._detector.estimation) if self._n else None
        return {"drifts": self._drifts, "drift_at": self._at, "drift_error": error}

    def _text(self) -> str:
        if self._at is None:
            return f"none found; mean error of late {number(self.get()['drift_error'])}"
        found = f"{self._drifts:,} drift{'s' * (self._drifts != 1)}, the last at sample {self._at:,}"
        return f"{found}; mean error of late {number(self.get()['drift_error'])}"


def _has_labels(model: Any) -> bool:
    return isinstance(final_estimator(model), base.Classifier)


def _error(y: Any, guess: Any, has_labels: bool) -> float:
    """The error of a prediction; NaN where there is no target, or nothing was predicted."""
    if y is None or guess is None:
        return math.nan
    if isinstance(guess, dict):
        return 1.0 - float(guess.get(y, 0.0))
    if has_labels or isinstance(y, bool) or not (isinstance(y, numbers.Real) and isinstance(guess, numbers.Real)):
        return float(y != guess)
    return abs(float(y) - float(guess))


def _errors(y: NDArray[Any], guesses: NDArray[Any] | Probabilities, has_labels: bool) -> list[float]:
    """The same of many."""
    if isinstance(guesses, Probabilities):
        column = {label: j for j, label in enumerate(guesses.classes)}.get
        rows = zip(guesses.p.tolist(), y.tolist(), strict=True)
        shares = [math.nan if own is None else p[j] if (j := column(own)) is not None else 0.0 for p, own in rows]
        return [1.0 - share for share in shares]
    if y.dtype.kind not in "biuf" or guesses.dtype.kind not in "biuf":
        return [_error(*pair, has_labels) for pair in zip(y.tolist(), guesses.tolist(), strict=True)]
    if has_labels or y.dtype == np.bool_:
        return (y != guesses).astype(np.float64).tolist()
    with np.errstate(invalid="ignore"):  # infinity less infinity is no error
        return np.abs(y.astype(np.float64) - guesses.astype(np.float64)).tolist()
