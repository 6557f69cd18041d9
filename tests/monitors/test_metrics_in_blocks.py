"""Metrics that are told samples in blocks: to the bit what they are when told one by one."""

import math

import numpy as np
import pytest
from river import metrics, stats, utils

from fwonline._protocols import Probabilities
from fwonline.checkpoint import codec
from fwonline.exceptions import MonitorError
from fwonline.monitors import Metric

N = 500
CLASSES = ("a", "b", "c", "dd")
LABELS = [
    *(metrics.Accuracy, metrics.BalancedAccuracy, metrics.CohenKappa, metrics.GeometricMean),
    *(metrics.MacroF1, metrics.MicroF1, metrics.WeightedF1, metrics.MacroPrecision, metrics.MicroPrecision),
    *(metrics.WeightedPrecision, metrics.MacroRecall, metrics.MicroRecall, metrics.WeightedRecall),
]
BINARY = [metrics.Precision, metrics.Recall, metrics.F1, metrics.MCC, metrics.Jaccard]
NUMBERS = [metrics.MAE, metrics.MSE, metrics.RMSE, metrics.R2, metrics.MAPE, metrics.SMAPE]
SCORES = [metrics.LogLoss, metrics.ROCAUC, metrics.RollingROCAUC, metrics.RollingPRAUC]
WINDOWS = [None, 1, 40]


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def singly(monkeypatch):
    """How many samples were told one by one."""
    told = []

    def update(self, *args, **options):
        told.append(args)
        return one_by_one(self, *args, **options)

    one_by_one = Metric.update
    monkeypatch.setattr(Metric, "update", update)
    return told


def probabilities(rng, classes=CLASSES):
    p = rng.random((N, len(classes)))
    return Probabilities(p / p.sum(axis=1, keepdims=True), tuple(classes))


def part(values, start, stop):
    return (
        Probabilities(values.p[start:stop], values.classes)
        if isinstance(values, Probabilities)
        else (values[start:stop])
    )


def singly_told(monitor, y, predicted):
    dicts = predicted.dicts() if isinstance(predicted, Probabilities) else predicted.tolist()
    for pair in zip(y.tolist(), dicts, strict=True):
        monitor.update(*pair)


def windowed(metric, window):
    return metric() if window is None else utils.Rolling(metric, window)


def compared(rng, metric, window, y, predicted, **options):
    """Tell one monitor sample by sample, one in ragged blocks and one in both ways in turn."""
    whole, mixed, single = (Metric(windowed(metric, window), **options) for _ in range(3))
    singly_told(single, y, predicted)
    start = 0
    while start < N:
        stop = min(N, start + int(rng.choice([1, 3, 20, 90, 300])))
        block = y[start:stop], part(predicted, start, stop)
        whole.update_many(*block)
        if stop % 3:
            mixed.update_many(*block)
        else:
            singly_told(mixed, *block)
        start = stop
    checkpoint = codec.dumps(single)  # before `get`, at which some metrics write zeros into the matrix
    for monitor in (whole, mixed):
        assert monitor.most_together() == math.inf
        assert codec.dumps(monitor) == checkpoint, (metric.__name__, window)
        assert monitor.get() == single.get()


@pytest.mark.parametrize("window", WINDOWS)
def test_labels_of_all_kinds(rng, window):
    y, guess = rng.random(N) < 0.4, rng.random(N) < 0.5
    y_many, guess_many = rng.integers(-1, 6, (2, N))
    text, guess_text = np.array(CLASSES, object)[rng.integers(0, 4, (2, N))]
    made_anew = np.array(["".join(list(label)) for label in text], object)
    equal = np.array([0, 1, True, False, 1.0], object)[rng.integers(0, 5, N)]  # the first one becomes the key
    hundreds, guess_hundreds = rng.integers(0, 300, (2, N)).astype(float)
    for metric in LABELS:
        compared(rng, metric, window, y, guess)
        compared(rng, metric, window, equal, guess)
        compared(rng, metric, window, y.astype(float), probabilities(rng, (False, True)))
        compared(rng, metric, window, text, probabilities(rng))
    for metric in (metrics.Accuracy, metrics.MacroF1):
        compared(rng, metric, window, y_many, guess_many)
        compared(rng, metric, window, made_anew, guess_text)
        compared(rng, metric, window, hundreds, guess_hundreds)
        compared(rng, metric, window, np.array([("a", 1), "b", 2.5], object)[rng.integers(0, 3, N)], guess_text)


@pytest.mark.parametrize("window", WINDOWS)
def test_two_classes(rng, window):
    y, text = rng.random(N) < 0.4, np.array(CLASSES, object)[rng.integers(0, 4, N)]
    for metric in BINARY:
        compared(rng, metric, window, y, rng.random(N) < 0.5)
        compared(rng, metric, window, np.where(y, 1, -1), np.where(rng.random(N) < 0.5, 1, -1))
        compared(rng, metric, window, text, rng.permutation(text), positive="dd")
        compared(rng, metric, window, text, probabilities(rng), positive="b")
    for metric in SCORES:
        compared(rng, metric, window, y, probabilities(rng, (False, True)))
        compared(rng, metric, window, y.astype(int), probabilities(rng, (0, 1)))
        compared(rng, metric, window, text, probabilities(rng), positive="c")
        compared(rng, metric, window, y, rng.random(N))
    compared(rng, metrics.CrossEntropy, window, text, probabilities(rng))
    compared(rng, metrics.CrossEntropy, window, text, probabilities(rng, ("a", "b", "none")))


@pytest.mark.parametrize("window", [None, 2, 40])
def test_numbers(rng, window):
    y, predicted = 3.0 * rng.normal(size=(2, N))
    for metric in NUMBERS:
        compared(rng, metric, window, y, predicted)
        compared(rng, metric, window, np.round(y).astype(int), predicted)
        compared(rng, metric, window, np.round(y).astype(int).astype(object), predicted.astype(object))


def test_a_window_that_is_never_full(rng):
    y, p, numbers = rng.random(N) < 0.4, probabilities(rng, (False, True)), rng.normal(size=(2, N))
    compared(rng, metrics.Accuracy, 1000, y, p)
    compared(rng, metrics.LogLoss, 1000, y, p)
    compared(rng, metrics.R2, 1000, *numbers)


def test_sums_of_metrics_and_derived_classes(rng):
    def several():
        return metrics.Accuracy() + metrics.F1() + metrics.LogLoss()

    class Wrong(metrics.Accuracy):
        def get(self):
            return 1.0 - super().get()

    y = rng.random(N) < 0.4
    compared(rng, several, None, y, probabilities(rng, (False, True)))
    told, single = Metric(Wrong()), Metric(Wrong())
    guess = rng.random(N) < 0.5
    told.update_many(y, guess)
    singly_told(single, y, guess)
    assert vars(told.metric.cm) == vars(single.metric.cm)


def test_most_metrics_need_no_sample_by_itself(rng, singly):
    y, p, guess = rng.random(N) < 0.4, probabilities(rng, (False, True)), rng.random(N) < 0.5
    numbers = rng.normal(size=(2, N))
    for metric in [*LABELS, *BINARY]:
        Metric(metric()).update_many(y, guess)
        Metric(utils.Rolling(metric, 30)).update_many(y, p)
    for metric in [*SCORES, metrics.CrossEntropy]:
        Metric(metric()).update_many(y, p)
    for metric in NUMBERS:
        Metric(utils.Rolling(metric, 30)).update_many(*numbers)
    assert not singly
    Metric(metrics.RMSLE()).update_many(*np.abs(numbers))
    assert len(singly) == N


def test_metrics_of_a_shared_matrix(rng):
    def shared():
        cm = metrics.ConfusionMatrix()
        return metrics.MacroF1(cm) + metrics.Accuracy(cm)

    compared(rng, shared, None, rng.random(N) < 0.4, rng.random(N) < 0.5)


def test_what_is_missing_is_left_out_and_labels_that_are_none_of_each_other_stay_apart(rng):
    y = np.array([1, None, 0, True, "x"], object)[rng.integers(0, 5, N)]
    compared(rng, metrics.Accuracy, None, y, np.array([1, 0, None], object)[rng.integers(0, 3, N)])
    compared(rng, metrics.MAE, 40, np.array([1.0, None], object)[rng.integers(0, 2, N)], rng.normal(size=N))
    told = Metric(metrics.Accuracy())
    told.update_many(np.full(N, np.nan), np.full(N, np.nan))
    assert len(told.metric.cm.data) == N


@pytest.mark.parametrize(
    ("metric", "y", "odd", "error"),
    [
        (metrics.F1, True, "yes", MonitorError),
        (metrics.F1() + metrics.Accuracy(), True, 7, MonitorError),
        (metrics.Accuracy() + metrics.ROCAUC(), True, "yes", MonitorError),
        (metrics.Accuracy, True, [1], TypeError),
        (metrics.MSE, 1.0, 1e200, OverflowError),
        (metrics.MAE, 1.0, "2", TypeError),
    ],
)
@pytest.mark.parametrize("at", [0, 20, 99])
def test_an_odd_target_is_an_error_at_its_sample(metric, y, odd, error, at):
    told, single = (Metric(metric() if isinstance(metric, type) else metric.clone()) for _ in range(2))
    targets = np.full(100, y, object)
    targets[at] = np.array([odd, None], object)[0]
    predicted = np.full(100, y) if y is True else np.zeros(100)
    with pytest.raises(error) as of_many:
        told.update_many(targets, predicted)
    with pytest.raises(error) as of_one:
        singly_told(single, targets, predicted)
    assert str(of_many.value) == str(of_one.value)
    assert codec.dumps(told) == codec.dumps(single)


def test_numbers_that_are_not_finite_end_as_one_by_one(rng):
    y, predicted = rng.normal(size=(2, N))
    predicted[300:302] = np.inf, np.nan
    for metric in NUMBERS:
        told, single = Metric(metric()), Metric(metric())
        told.update_many(y, predicted)
        singly_told(single, y, predicted)
        assert repr(told.metric.get()) == repr(single.metric.get())


def test_a_metric_with_a_mean_of_its_own_is_told_one_by_one(rng, singly):
    class Heavy(stats.Mean):
        def update(self, x, w=1.0):
            super().update(x, 2.0)

    monitor = Metric(metrics.MAE())
    monitor.metric._mean = Heavy()
    monitor.update_many(*rng.normal(size=(2, N)))
    assert monitor.metric._mean.n == 2 * N
    assert len(singly) == N
