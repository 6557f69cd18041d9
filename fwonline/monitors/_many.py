"""River's metrics after many samples at a time: their own state becomes what one sample at a time makes of it.

A form belongs to the function by which a class of metrics is updated, so it serves whatever derives from that class.
It plans first, and raises `BySample` where it cannot promise the same state to the bit: nothing was changed then. A
plan is a function that brings the state up to date.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fwonline._protocols import Probabilities
from fwonline.monitors import _running
from fwonline.monitors._labels import TWO, BySample, Labels, add, add_samples, coded, count, has_cell

__all__ = ["BySample", "Told", "plan"]

_MATRIX = "river.metrics.confusion.ConfusionMatrix"
_TINY = 1e-15  # by which river keeps probabilities from 0 and 1


class Told:
    """What a block tells metrics, in every form that they ask for, each made once.

    Parameters
    ----------
    y, predicted
        Those of `Monitor.update_many`.
    positive
        The positive label, or None: True.
    is_plain
        Whether a label needs no word on which one is positive.
    """

    def __init__(
        self, y: NDArray[Any], predicted: NDArray[Any] | Probabilities, positive: Any, is_plain: Callable[[Any], bool]
    ) -> None:
        self.y = y
        self.predicted = predicted
        self.positive = positive
        self.is_plain = is_plain
        if isinstance(predicted, Probabilities) and (not predicted.classes or not np.isfinite(predicted.p).all()):
            raise BySample

    @cached_property
    def true(self) -> Labels:
        return coded(self.y)

    @cached_property
    def labels(self) -> Labels:
        """The labels predicted."""
        if not isinstance(self.predicted, Probabilities):
            return coded(self.predicted)
        p = self.predicted.p
        best = (p[:, 1] > p[:, 0]).view(np.uint8) if p.shape[1] == 2 else p.argmax(axis=1)
        return Labels(best, list(self.predicted.classes))

    def _is_positive(self, labels: Labels) -> NDArray[np.bool_]:
        codes, names, _ = labels
        there = np.flatnonzero(np.bincount(codes)).tolist()
        if self.positive is None and not all(self.is_plain(names[k]) for k in there):
            raise BySample
        positive = True if self.positive is None else self.positive
        return np.array([bool(name == positive) for name in names])[codes]

    @cached_property
    def truth(self) -> NDArray[np.bool_]:
        """Whether each target is the positive label."""
        return self._is_positive(self.true)

    @cached_property
    def guess(self) -> NDArray[np.bool_]:
        """Whether each label predicted is the positive one."""
        return self._is_positive(self.labels)

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """The probability of the positive label, or the score in its place."""
        if isinstance(self.predicted, Probabilities):
            classes = list(self.predicted.classes)
            positive = True if self.positive is None else self.positive
            return self.predicted.p[:, classes.index(positive)] if positive in classes else np.zeros(len(self.y))
        return _floats(self.predicted)

    @cached_property
    def numbers(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Targets and predictions as floats."""
        if isinstance(self.predicted, Probabilities):
            raise BySample
        return _numbers(self.y), _floats(self.predicted)

    # The pairs that a metric would have been told one by one, from a sample on: what a window keeps.

    def label_pairs(self, start: int) -> Iterable[tuple[Any, Any]]:
        labels = self.labels
        if labels.values is not None:
            return zip(self.y[start:].tolist(), labels.values[start:].tolist(), strict=True)
        return zip(self.y[start:].tolist(), [labels.names[k] for k in labels.codes[start:].tolist()], strict=True)

    def binary_pairs(self, start: int) -> Iterable[tuple[Any, Any]]:
        return zip(self.truth[start:].tolist(), self.guess[start:].tolist(), strict=True)

    def score_pairs(self, start: int) -> Iterable[tuple[Any, Any]]:
        truth = self.truth[start:].tolist()
        if not isinstance(self.predicted, Probabilities):
            return zip(truth, self.scores[start:].tolist(), strict=True)
        if self.positive is None:
            return zip(truth, self._dicts(start), strict=True)
        return ((t, {True: p, False: 1.0 - p}) for t, p in zip(truth, self.scores[start:].tolist(), strict=True))

    def class_pairs(self, start: int) -> Iterable[tuple[Any, Any]]:
        return zip(self.y[start:].tolist(), self._dicts(start), strict=True)

    def number_pairs(self, start: int) -> Iterable[tuple[Any, Any]]:
        return zip(self.y[start:].tolist(), self.numbers[1][start:].tolist(), strict=True)

    def _dicts(self, start: int) -> list[dict]:
        assert isinstance(self.predicted, Probabilities)
        return Probabilities(self.predicted.p[start:], self.predicted.classes).dicts()


def _floats(values: NDArray[Any]) -> NDArray[np.float64]:
    """An array of floats; whole numbers are another matter, since their squares are exact in Python."""
    if values.dtype == np.float64:
        return values
    if values.dtype == object and set(map(type, values.tolist())) == {float}:
        return values.astype(np.float64)
    raise BySample


def _numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    if values.dtype.kind == "O" and not set(map(type, values.tolist())) <= {float, int, bool}:
        raise BySample
    if values.dtype.kind not in "fiubO":
        raise BySample
    try:
        return values.astype(np.float64, copy=False)
    except OverflowError:  # a whole number beyond the largest float
        raise BySample from None


class _Window:
    """The last samples of a metric in `river.utils.Rolling`; for a metric by itself, all.

    `n_old` of the samples in the window leave it while a block of n comes in, and `n_new` of those of the block.
    """

    def __init__(self, metric: Any, n: int) -> None:
        self.entries: deque | None = getattr(metric, "window", None) if _is_rolling(metric) else None
        if self.entries is None:
            self.size, self.held, self.n_old, self.n_new = n + 1, 0, 0, 0
            return
        self.size, self.held = self.entries.maxlen or 0, len(self.entries)
        if self.size < 1:
            raise BySample
        leaving = max(0, self.held + n - self.size)
        self.n_old, self.n_new = min(leaving, self.held), max(0, leaving - self.held)

    def old(self) -> list[tuple[Any, Any]]:
        """The pairs that leave."""
        if self.entries is None:
            return []
        entries = list(islice(self.entries, self.n_old))
        if any(len(args) != 2 or kwargs for args, kwargs in entries):
            raise BySample
        return [args for args, _ in entries]

    def advance(self, pairs: Callable[[int], Iterable[tuple[Any, Any]]]) -> None:
        if self.entries is not None:
            self.entries.extend((pair, {}) for pair in pairs(self.n_new))


def _is_rolling(metric: Any) -> bool:
    return type(metric).__name__ == "Rolling" and type(metric).__module__ == "river.utils.rolling"


def plan(metric: Any, told: Told) -> Callable[[], None]:
    """What updates a metric, or one in a window, by all samples of a block. Raises BySample where nothing does."""
    inner = metric.obj if _is_rolling(metric) else metric
    by = _place(inner, "update")
    if by not in _FORMS or _place(inner, "revert") != by:
        raise BySample
    window = _Window(metric, len(told.y))
    changes, pairs = _FORMS[by](inner, told, window)

    def update() -> None:
        changes()
        window.advance(pairs)

    return update


def _place(obj: Any, method: str) -> str:
    """Where a method of an object is defined: the module and the class."""
    function = getattr(type(obj), method, None)
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '').removesuffix('.' + method)}"


_Form = tuple[Callable[[], None], Callable[[int], Iterable[tuple[Any, Any]]]]


def _labels_form(metric: Any, told: Told, window: _Window) -> _Form:
    """Metrics of labels, which count them in a confusion matrix."""
    if not metric.requires_labels:
        raise BySample
    return _counted([(metric.cm, told.true, told.labels, None)], window, told.label_pairs)


def _binary_form(metric: Any, told: Told, window: _Window) -> _Form:
    if not (metric.requires_labels and metric._requires_labels):
        raise BySample
    guess = _two(told.guess)
    return _counted([(metric.cm, _two(told.truth), guess, None)], window, told.binary_pairs)


def _roc_form(metric: Any, told: Told, window: _Window) -> _Form:
    scores, truth = told.scores, _two(told.truth)
    cells = [] if window.entries is not None else _roc_cells(metric, scores, truth.codes)
    if not cells:
        parts = [(cm, truth, _two(scores > t), t) for t, cm in zip(metric.thresholds, metric.cms, strict=True)]
        return _counted(parts, window, told.score_pairs)

    def changes() -> None:
        for cm, true, guess, n in cells:
            add(cm, true, guess, n)
        for cm in metric.cms:
            add_samples(cm, len(scores))

    return changes, told.score_pairs


def _roc_cells(
    metric: Any, scores: NDArray[np.float64], truth: NDArray[np.integer]
) -> list[tuple[Any, bool, bool, int]]:
    """What is added to each matrix, from one table: scores between the same thresholds are one to all of them.

    None where there is a new key, whose place depends on the order of the samples.
    """
    matrices, width = metric.cms, len(metric.cms) + 1
    is_plain = all(_place(cm, "update") == _MATRIX for cm in matrices) and metric.thresholds == sorted(
        metric.thresholds
    )
    if not is_plain or np.isnan(scores).any():
        return []
    places = np.searchsorted(metric.thresholds, scores) + width * truth.astype(np.intp)
    below = np.bincount(places, minlength=2 * width).reshape(2, width).cumsum(axis=1).tolist()
    cells = []
    for k, cm in enumerate(matrices):
        for true in TWO:
            low, both = below[true][k], below[true][-1]
            cells += [(cm, true, guess, n) for guess, n in ((False, low), (True, both - low)) if n]
    return cells if all(has_cell(cm, a, b) for cm, a, b, _ in cells) else []


def _two(flags: NDArray[np.bool_]) -> Labels:
    return Labels(flags.view(np.uint8), TWO)


def _counted(
    parts: list[tuple[Any, Labels, Labels, float | None]],
    window: _Window,
    pairs: Callable[[int], Iterable[tuple[Any, Any]]],
) -> _Form:
    """Count labels in confusion matrices; with a threshold, the predictions of the window are scores."""
    if any(_place(cm, "update") != _MATRIX for cm, *_ in parts):
        raise BySample
    old = window.old()
    y_old = coded(np.fromiter((y for y, _ in old), object, len(old))) if old else None
    if old and parts[0][3] is not None:
        p_old = np.array([_score(p) for _, p in old])
        leaving = [_two(p_old > t) for *_, t in parts]
    elif old:
        leaving = [coded(np.fromiter((p for _, p in old), object, len(old)))]

    def changes() -> None:
        for k, (cm, true, predicted, _) in enumerate(parts):
            count(cm, true, predicted, 1)
            if y_old is not None:
                count(cm, y_old, leaving[k], -1)
            if window.n_new:
                count(cm, true.first(window.n_new), predicted.first(window.n_new), -1)

    return changes, pairs


def _score(p: Any) -> Any:
    return p.get(True, 0.0) if isinstance(p, dict) else p


def _mean_form(metric: Any, told: Told, window: _Window) -> _Form:
    """Metrics that are running means of what a sample costs."""
    by = _place(metric, "_eval")
    if by not in _COSTS or _place(metric._mean, "update") != "river.stats.mean.Mean":
        raise BySample
    values, kind, pairs = _COSTS[by](told)
    held = np.zeros(window.held)  # of which only those that leave are looked at
    held[: window.n_old] = [metric._eval(y, p) for y, p in window.old()]
    values = np.concatenate([held, values])
    mean = metric._mean
    n, new = _running.roll_mean(values, len(held), window.size, kind, 2.0, float(mean.n), float(mean._mean))
    if not math.isfinite(new):
        raise BySample  # values so large that Python raises an error for some, or none at all

    def changes() -> None:
        mean.n, mean._mean = n, new

    return changes, pairs


_Cost = tuple[NDArray[np.float64], int, Callable[[int], Iterable[tuple[Any, Any]]]]


def _absolute(told: Told) -> _Cost:
    y, p = told.numbers
    return np.abs(y - p), _running.PLAIN, told.number_pairs


def _squared(told: Told) -> _Cost:
    y, p = told.numbers
    return y - p, _running.POWER, told.number_pairs


def _percentage(told: Told) -> _Cost:
    y, p = told.numbers
    return _ratio(np.abs(y - p), np.abs(y)), _running.PLAIN, told.number_pairs


def _symmetric_percentage(told: Told) -> _Cost:
    y, p = told.numbers
    return _ratio(2.0 * np.abs(y - p), np.abs(y) + np.abs(p)), _running.PLAIN, told.number_pairs


def _ratio(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(a, b, out=np.zeros(len(a)), where=b != 0.0)


def _log_loss(told: Told) -> _Cost:
    truth, p = told.truth, _clamped(told.scores)
    return np.where(truth, p, 1 - p), _running.MINUS_LOG, told.score_pairs


def _cross_entropy(told: Told) -> _Cost:
    if not isinstance(told.predicted, Probabilities):
        raise BySample
    p, classes = told.predicted
    columns = {name: j for j, name in enumerate(classes)}
    codes, names, _ = told.true
    column = np.array([columns.get(name, -1) for name in names])[codes]
    # A label without a probability costs nothing.
    probable = np.where(column < 0, 1.0, _clamped(p[np.arange(len(p)), column]))
    return probable, _running.MINUS_LOG, told.class_pairs


def _clamped(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(np.minimum(p, 1 - _TINY), _TINY)


def _fit_form(metric: Any, told: Told, window: _Window) -> _Form:
    """R2."""
    y, p = told.numbers
    y_held, p_held = np.zeros(window.held), np.zeros(window.held)
    if old := window.old():
        y_old, p_old = (np.fromiter(side, object, len(old)) for side in zip(*old, strict=True))
        y_held[: len(old)], p_held[: len(old)] = _numbers(y_old), _floats(p_old)
    y, p = np.concatenate([y_held, y]), np.concatenate([p_held, p])
    var = metric._y_var
    if _place(var, "update") != "river.stats.var.Var" or _place(var.mean, "update") != "river.stats.mean.Mean":
        raise BySample
    sums = float(var.mean.n), float(var.mean._mean), float(var._S), float(metric._residual_sum_of_squares)
    n, mean, squares, residual = _running.roll_fit(y, p, window.held, window.size, *sums)
    if not math.isfinite(mean + squares + residual):
        raise BySample

    def changes() -> None:
        var.mean.n, var.mean._mean, var._S, metric._residual_sum_of_squares = n, mean, squares, residual

    return changes, told.number_pairs


def _ranks_form(metric: Any, told: Told, window: _Window) -> _Form:
    """River's own windows of scores, which wait in lists until they are asked."""
    if window.entries is not None:
        raise BySample
    truth, scores = told.truth, told.scores

    def changes() -> None:
        metric._buf_labels.extend(map(int, truth.tolist()))
        metric._buf_scores.extend(scores.tolist())

    return changes, told.score_pairs


_FORMS: dict[str, Callable[[Any, Told, _Window], _Form]] = {
    "river.metrics.base.ClassificationMetric": _labels_form,
    "river.metrics.base.BinaryMetric": _binary_form,
    "river.metrics.base.MeanMetric": _mean_form,
    "river.metrics.r2.R2": _fit_form,
    "river.metrics.roc_auc.ROCAUC": _roc_form,
    "river.metrics.rolling_roc_auc.RollingROCAUC": _ranks_form,
    "river.metrics.rolling_pr_auc.RollingPRAUC": _ranks_form,
}
_COSTS: dict[str, Callable[[Told], _Cost]] = {
    "river.metrics.mae.MAE": _absolute,
    "river.metrics.mse.MSE": _squared,
    "river.metrics.mape.MAPE": _percentage,
    "river.metrics.smape.SMAPE": _symmetric_percentage,
    "river.metrics.log_loss.LogLoss": _log_loss,
    "river.metrics.cross_entropy.CrossEntropy": _cross_entropy,
}
