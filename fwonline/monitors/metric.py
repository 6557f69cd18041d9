"""Any of river's metrics as a monitor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from river import metrics, utils

from fwonline import _loaded
from fwonline.monitors.base import Monitor

__all__ = ["Metric"]


class Metric(Monitor):
    """A river metric of the predictions made before learning.

    Reads `y_true` and `y_pred`. Where the metric wants labels and the prediction is a dict of probabilities, the most
    probable label counts. Samples without a prediction or without a target are left out, as river does.

    Parameters
    ----------
    metric
        A river metric, several of them added up, or one in `river.utils.Rolling` (whose window a clone copies).
    name
        What the value is called; by default the metric's class.

    Examples
    --------
    >>> from river import metrics, utils
    >>> from fwonline.monitors import Metric
    >>> monitor = Metric(metrics.Accuracy())
    >>> monitor.update(True, {True: 0.8, False: 0.2})
    >>> monitor.update(False, True)
    >>> monitor
    Metric: Accuracy: 50.00%
    >>> monitor.get()
    {'Accuracy': 0.5}
    """

    def __init__(self, metric: metrics.base.Metric | utils.Rolling | utils.TimeRolling, name: str | None = None):
        if isinstance(metric, type) or not (hasattr(metric, "update") and hasattr(metric, "get")):
            raise TypeError(f"metric must be a river metric such as metrics.MAE(), not {metric!r}")
        self.metric = metric
        self.name = name
        # Each metric, and whether it wants a label where the prediction is a dict of probabilities.
        self._parts = [(part, bool(getattr(part, "requires_labels", True))) for part in _parts(metric)]

    def _check_loaded(self) -> None:
        super()._check_loaded()
        found, wanted = self._parts, _loaded.rebuilt(self)._parts
        is_same = type(found) is list and [type(part) for part in found] == [tuple] * len(wanted)
        if not is_same or any(a[0] is not b[0] or a[1:] != b[1:] for a, b in zip(found, wanted, strict=True)):
            _loaded.fail(self, "_parts", "the parts of the metric")

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"metric": metrics.MAE()}

    def update(self, y_true: Any = None, y_pred: Any = None, *, x: dict | None = None, model: Any = None) -> None:
        if y_true is None or y_pred is None or y_pred == {}:
            return
        label = max(y_pred, key=y_pred.__getitem__) if isinstance(y_pred, dict) else y_pred
        for metric, requires_labels in self._parts:
            metric.update(y_true, label if requires_labels else y_pred)

    def get(self) -> dict[str, float | None]:
        values = {}
        for metric, _ in self._parts:
            value = float(metric.get())
            values[_called(metric)] = value if math.isfinite(value) else None
        if self.name is not None:
            prefix = len(values) > 1
            return {f"{self.name}_{key}" if prefix else self.name: value for key, value in values.items()}
        return values

    def _text(self) -> str:
        return ", ".join(str(metric) for metric, _ in self._parts)


def _parts(metric: Any) -> list[Any]:
    return list(metric) if isinstance(metric, metrics.base.Metrics) else [metric]


def _called(metric: Any) -> str:
    inner = getattr(metric, "obj", None)  # of Rolling and TimeRolling
    name = type(metric).__name__
    return name if inner is None else f"{name}{type(inner).__name__}"
