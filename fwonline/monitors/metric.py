"""Any of river's metrics as a monitor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from river import base

from fwonline import _loaded
from fwonline._kinds import derives
from fwonline._pipeline import final_estimator
from fwonline._protocols import Probabilities
from fwonline.exceptions import MonitorError
from fwonline.monitors.base import Monitor

if TYPE_CHECKING:
    from river import metrics, utils  # which import all of scipy.stats

__all__ = ["Metric", "gives_probabilities"]

_BINARY = "river.metrics.base.BinaryMetric"
# Where no label is named as the positive one, river takes True, which 1 equals; these are its counterparts.
_PLAIN = frozenset({False, True, -1, 2})  # 0 and 1 are False and True
_SINGLY = 8  # samples, which are told one by one sooner than together


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
    positive
        The label that metrics of two classes (`ROCAUC`, `LogLoss`, `F1`) take for the positive one; all others are
        negative. None: True, or 1, and a label that is neither of these nor 0, -1, 2 is an error, since nothing says
        which of them is meant.

    Raises
    ------
    MonitorError
        From `update`, for such a label.
    ValueError
        When the metric has another `pos_val` than True, with which river's metrics count wrongly: give `positive`.

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
    >>> monitor = Metric(metrics.ROCAUC(), positive="spam")
    >>> monitor.update("spam", {"spam": 0.8, "ham": 0.2})
    >>> monitor.update("ham", {"spam": 0.3, "ham": 0.7})
    >>> monitor.get()
    {'ROCAUC': 1.0}
    """

    def __init__(
        self,
        metric: metrics.base.Metric | utils.Rolling | utils.TimeRolling,
        name: str | None = None,
        positive: Any = None,
    ):
        if isinstance(metric, type) or not (hasattr(metric, "update") and hasattr(metric, "get")):
            raise TypeError(f"metric must be a river metric such as metrics.MAE(), not {metric!r}")
        self.metric = metric
        self.name = name
        self.positive = positive
        # Each metric, and whether it wants a label where the prediction is a dict of probabilities.
        self._parts = [(part, bool(getattr(part, "requires_labels", True))) for part in _parts(metric)]
        for part in self._inner():
            if (pos_val := getattr(part, "pos_val", True)) != True:  # noqa: E712  (1 serves, too)
                raise ValueError(
                    f"pos_val={pos_val!r}: river's metrics count wrongly with it; give positive={pos_val!r}"
                )

    def _check_loaded(self) -> None:
        super()._check_loaded()
        found, wanted = self._parts, _loaded.rebuilt(self)._parts
        is_same = type(found) is list and [type(part) for part in found] == [tuple] * len(wanted)
        if not is_same or any(a[0] is not b[0] or a[1:] != b[1:] for a, b in zip(found, wanted, strict=True)):
            _loaded.fail(self, "_parts", "the parts of the metric")

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import metrics

        yield {"metric": metrics.MAE()}

    def check_model(self, model: Any) -> None:
        estimator = final_estimator(model)
        binary = [type(part).__name__ for part in self._inner() if derives(type(part), _BINARY)]
        if binary and self.positive is None and getattr(estimator, "_multiclass", False):
            raise MonitorError(
                f"{binary[0]} measures two classes, and {type(estimator).__name__} predicts any number of them: write "
                f'positive = "LABEL" beside {binary[0]} for one class against the others, or take CrossEntropy, '
                "Accuracy, MacroF1 or another that measures them all"
            )
        wants = [type(part).__name__ for part in self._inner() if not getattr(part, "requires_labels", True)]
        if wants and not gives_probabilities(estimator):
            raise MonitorError(
                f"{wants[0]} needs probabilities, and {type(estimator).__name__} predicts labels alone: take Accuracy, "
                "F1 or another metric of labels"
            )
        if self.positive is not None and not binary:
            raise MonitorError(
                f"only a metric of two classes has a positive one, and {type(self._inner()[0]).__name__} is none"
            )

    def _inner(self) -> list[Any]:
        """The metrics themselves, without the windows around them."""
        return [getattr(part, "obj", part) for part, _ in self._parts]

    def update(self, y_true: Any = None, y_pred: Any = None, *, x: dict | None = None, model: Any = None) -> None:
        if y_true is None or y_pred is None or y_pred == {}:
            return
        label = max(y_pred, key=y_pred.__getitem__) if isinstance(y_pred, dict) else y_pred
        for metric, requires_labels in self._parts:
            inner = getattr(metric, "obj", metric)
            if derives(type(inner), _BINARY):
                metric.update(*self._binary(inner, y_true, label, None if requires_labels else y_pred))
            else:
                metric.update(y_true, label if requires_labels else y_pred)

    def most_together(self) -> float:
        return math.inf

    def update_many(self, y_true: Any, y_pred: Any, *, model: Any = None) -> None:
        """Take note of samples that were learned one after another: to the bit what `update` makes of them.

        River's own state is written, so the two may alternate. Accuracy and all that rests on river's confusion matrix,
        MAE, MSE, RMSE, MAPE, SMAPE, R2, LogLoss, CrossEntropy, ROCAUC, sums of these, and each in
        `river.utils.Rolling` cost 5 to 100 ns a sample; other metrics are told one sample after another.
        """
        if len(y_true) <= _SINGLY or not self._update_together(y_true, y_pred):
            predictions = y_pred.dicts() if isinstance(y_pred, Probabilities) else y_pred.tolist()
            for y, p in zip(y_true.tolist(), predictions, strict=True):
                self.update(y, p)

    def _update_together(self, y_true: Any, y_pred: Any) -> bool:
        """Update every part by all samples, or none by any."""
        from fwonline.monitors import _many  # which compiles

        matrices = [id(part.cm) for part in self._inner() if hasattr(part, "cm")]
        if len(set(matrices)) < len(matrices):  # which two metrics share
            return False
        try:
            told = _many.Told(y_true, y_pred, self.positive, _is_plain)
            with np.errstate(all="ignore"):  # a sum that is not finite is left to river
                plans = [_many.plan(part, told) for part, _ in self._parts]
        except _many.BySample:
            return False
        for update in plans:
            update()
        return True

    def _binary(self, metric: Any, y_true: Any, label: Any, p: Any) -> tuple[Any, Any]:
        """What a metric of two classes is told: labels, or in place of the predicted one `p`, which may be a score."""
        if self.positive is None:
            odd = [one for one in ([y_true, label] if p is None else [y_true]) if not _is_plain(one)]
            if odd:
                name, found = type(metric).__name__, odd[0]
                raise MonitorError(
                    f"{name} measures two classes, and which of them is positive is not known: expected labels true "
                    f"and false, or 1 and 0, found {found!r}. Write positive = {_toml(found)}, or the other label, "
                    f"beside {name}"
                )
        # In river's own terms: some of its metrics take any label that is not 0 for the positive one.
        positive = True if self.positive is None else self.positive
        if isinstance(p, dict) and self.positive is not None:
            p = {True: p.get(positive, 0.0), False: 1.0 - p.get(positive, 0.0)}
        return bool(y_true == positive), bool(label == positive) if p is None else p

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


def gives_probabilities(estimator: Any) -> bool:
    """Whether an estimator, if it is a classifier, predicts probabilities; river's classifiers may not."""
    method = getattr(type(estimator), "predict_proba_one", None)
    return not isinstance(estimator, base.Classifier) or method is not base.Classifier.predict_proba_one


def _is_plain(label: Any) -> bool:
    """Whether True, or 1, is the positive one of a label and its counterpart."""
    try:
        return label in _PLAIN
    except TypeError:  # what cannot be hashed
        return False


def _toml(label: Any) -> str:
    return f'"{label}"' if isinstance(label, str) else repr(label)


def _parts(metric: Any) -> list[Any]:
    return list(metric) if derives(type(metric), "river.metrics.base.Metrics") else [metric]


def _called(metric: Any) -> str:
    inner = getattr(metric, "obj", None)  # of Rolling and TimeRolling
    name = type(metric).__name__
    return name if inner is None else f"{name}{type(inner).__name__}"
