"""Gap, feasibility, metric and throughput: what they say, and that they go where river's parts go."""

import collections
import json
import math
import pickle
import time
from types import SimpleNamespace

import pytest
from river import compose, linear_model, metrics, naive_bayes, preprocessing, utils

from fwonline import losses, monitors, sets
from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError

Sample = collections.namedtuple("Sample", "indices values y prediction loss n_features")


def told(gap=0.1, exact=None, violation=0.0, support_size=0):
    return SimpleNamespace(gap=gap, exact_gap=exact, violation=violation, support_size=support_size)


def all_of_them():
    return [
        monitors.Gap(every=3),
        monitors.Feasibility(every=2),
        monitors.Support(every=2),
        monitors.Metric(metrics.MAE()),
        monitors.Throughput(),
        monitors.Regret(losses.NegativeLogReturn(), sets.ProbabilitySimplex()),
    ]


def feed(monitor, n=10, start=0):
    for t in range(start, start + n):
        x = {"a": 1 + 0.1 * math.sin(t), "b": 1.0}
        monitor.update(
            0.5,
            x["a"] / 2 + 0.5,
            x=x,
            model=told(gap=1 / (t + 1), exact=2 / (t + 1), violation=t % 3, support_size=t % 5),
        )


@pytest.mark.parametrize("monitor", all_of_them(), ids=lambda m: type(m).__name__)
class TestEveryMonitor:
    def test_keys_are_stable_and_values_go_into_json(self, monitor):
        monitor = monitor.clone()
        before = monitor.get()
        json.dumps(before, allow_nan=False)
        feed(monitor, 100)
        after = monitor.get()
        assert list(before) == list(after)
        json.dumps(after, allow_nan=False)
        assert all(value is not None for value in after.values())

    def test_a_clone_is_fresh(self, monitor):
        monitor = monitor.clone()
        fresh = monitor.get()
        feed(monitor)
        clone = monitor.clone()
        assert clone.get() == fresh
        assert clone._get_params() == monitor._get_params() or isinstance(monitor, monitors.Metric)

    def test_pickled_halfway_it_goes_on_the_same(self, monitor):
        whole, first = monitor.clone(), monitor.clone()
        feed(whole, 90)
        feed(first, 40)
        for restored in (pickle.loads(pickle.dumps(first)), codec.loads(codec.dumps(first))):
            feed(restored, 50, start=40)
            restored.finish()
            whole.finish()
            if isinstance(monitor, monitors.Throughput):
                assert restored.get()["samples"] == 90
            else:
                assert restored.get() == whole.get()

    def test_its_repr_begins_with_its_name(self, monitor):
        monitor = monitor.clone()
        assert repr(monitor).startswith(f"{type(monitor).__name__}: ")
        feed(monitor, 100)
        assert repr(monitor) == str(monitor)
        assert any(digit in repr(monitor) for digit in "0123456789")

    def test_it_reads_the_estimator_at_the_end_of_a_pipeline(self, monitor):
        class Told(linear_model.LinearRegression):
            gap = 0.25
            violation = 0.5
            exact_gap = 0.125
            support_size = 3

        direct, piped = monitor.clone(), monitor.clone()
        model = Told()
        pipeline = preprocessing.StandardScaler() | compose.Pipeline(preprocessing.MinMaxScaler(), model)
        for _ in range(3):
            direct.update(1.0, 1.5, x={"a": 1.0}, model=model)
            piped.update(1.0, 1.5, x={"a": 1.0}, model=pipeline)
        if not isinstance(monitor, monitors.Throughput):
            assert piped.get() == direct.get()


def test_gap_statistics():
    monitor = monitors.Gap(every=2, fading_factor=0.5)
    gaps = [math.nan, 0.8, 0.4, 0.6, 0.2, 0.1]
    for i, gap in enumerate(gaps, start=1):
        monitor.update(model=told(gap, exact=60.0 / i))
    faded = 0.8
    for gap in gaps[2:]:
        faded += 0.5 * (gap - faded)
    assert monitor.get() == pytest.approx(
        {
            "gap_upper": 3.0 * max(30.0 * 0.7**2, 15.0 * 0.7, 10.0),
            "gap_over_memory": 10.0,
            "gap_over_memory_at": 6,
            "gap_estimate": 0.1,
            "gap_estimate_ewm": faded,
            "gap_estimate_mean": sum(gaps[1:]) / 5,
        }
    )


def test_gap_of_an_optimizer_without_a_memory():
    monitor = monitors.Gap(every=1)
    monitor.update(model=told(0.5, exact=None))
    assert monitor.get()["gap_over_memory"] is None
    assert "over memory" not in repr(monitor)


def test_the_pass_over_the_memory_is_made_only_when_due():
    calls = []

    class Counting:
        gap = 0.1

        @property
        def exact_gap(self):
            calls.append(1)
            return 0.1

    model = Counting()
    quiet, due = monitors.Gap(every=0), monitors.Gap(every=10)
    for _ in range(35):
        quiet.update(model=model)
    assert calls == []
    assert quiet.get()["gap_upper"] is None
    for _ in range(35):
        due.update(model=model)
    assert len(calls) == 3


def looked_at(monitor, n, *, remembered, d=10, exact=lambda n: 0.2):
    """At which of n samples the monitor takes the exact gap."""
    times, now = [], 0

    class Model:
        gap, n_remembered, n_features = 0.1, remembered, d

        @property
        def exact_gap(self):
            times.append(now)
            return exact(now)

    model = Model()
    for now in range(1, n + 1):  # noqa: B007  the exact gap is told it
        monitor.update(model=model)
    return times


def test_by_itself_it_looks_eight_times_while_the_memory_is_replaced():
    assert looked_at(monitors.Gap(), 700, remembered=1000) == [16, 48, 112, 237, 362, 487, 612]
    assert looked_at(monitors.Gap(), 200, remembered=50) == [16, 48, 80, 112, 144, 176]  # but not within 32 samples
    assert looked_at(monitors.Gap(), 9000, remembered=100, d=1_000_000)[-3:] == [3985, 5938, 7891]  # nor d / 512
    assert looked_at(monitors.Gap(every=100), 350, remembered=1000) == [100, 200, 300]


def test_it_looks_more_often_after_its_upper_estimate_was_too_low():
    jump = looked_at(monitors.Gap(), 800, remembered=1000, exact=lambda n: 1.0 if n < 400 else 4.0)
    assert jump == [16, 48, 112, 237, 362, 487, 518, 580, 704]
    rise = looked_at(monitors.Gap(), 800, remembered=1000, exact=lambda n: 1.0 if n < 400 else 2.9)
    assert rise == [16, 48, 112, 237, 362, 487, 612, 737]


def test_an_estimate_that_is_not_kept_is_read_at_looks_alone():
    reads = []

    class Costly:
        gap_is_kept = False
        n_remembered, n_features = 1000, 10
        exact_gap = 0.2

        @property
        def gap(self):
            reads.append(1)
            return 0.1

    monitor, model = monitors.Gap(), Costly()
    for _ in range(112):
        monitor.update(model=model)
    assert len(reads) == 3  # at samples 16, 48 and 112
    assert monitor.get()["gap_estimate"] == 0.1


def test_a_gap_that_is_not_finite_leaves_the_upper_estimate_unknown():
    monitor = monitors.Gap(every=1)
    monitor.update(model=told(0.1, exact=1.0))
    monitor.update(model=told(0.1, exact=math.inf))
    assert monitor.get()["gap_upper"] is None
    assert monitor.get()["gap_over_memory_at"] == 1
    monitor.update(model=told(0.1, exact=2.0))
    assert monitor.get()["gap_upper"] == 6.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_n", -1),
        ("_n", 2.0),
        ("_n_finite", 7),
        ("_next", None),
        ("_spacing", 0),
        ("_last", math.nan),
        ("_mean", "much"),
        ("_faded", None),
        ("_exact", math.inf),
        ("_exact_at", 7),
        ("_exact_at", None),
        ("_largest", -1.0),
        ("_window", []),
        ("every", -1),
        ("fading_factor", 2.0),
    ],
)
def test_a_changed_state_of_a_gap_is_refused(name, value):
    monitor = monitors.Gap(every=3)
    feed(monitor, 6)
    codec.loads(codec.dumps(monitor))
    setattr(monitor, name, value)
    with pytest.raises(CheckpointError, match="Gap"):
        codec.loads(codec.dumps(monitor))


def test_feasibility_remembers_the_worst():
    monitor = monitors.Feasibility(every=1)
    for violation in (0.0, 3.0, 1.0):
        monitor.update(model=told(violation=violation))
    assert monitor.get() == {
        "violation": 1.0,
        "violation_worst": 3.0,
        "violation_worst_at": 2,
        "violation_looks": 3,
    }
    monitor.update(model=told(violation=math.nan))
    assert math.isnan(monitor.get()["violation_worst"])


def test_feasibility_looks_now_and_then_but_at_once():
    monitor = monitors.Feasibility(every=5)
    for t in range(12):
        monitor.update(model=told(violation=t))
    assert monitor.get() == {
        "violation": 10.0,
        "violation_worst": 10.0,
        "violation_worst_at": 11,
        "violation_looks": 3,
    }


def test_support_is_read_now_and_then_and_its_largest_kept():
    monitor = monitors.Support(every=3)
    for size in (2, 90, 90, 7, 90, 90, 5):
        monitor.update(model=told(support_size=size))
    assert monitor.get() == {"support": 5, "support_largest": 7}


def test_support_counts_weights_of_a_model_that_does_not():
    monitor = monitors.Support(every=1)
    monitor.update(model=SimpleNamespace(weights={"a": 1.0, "b": 0.0, "c": -2.0}))
    assert monitor.get()["support"] == 2
    monitor.update(model=SimpleNamespace(weights={"spam": {"a": 1.0, "b": 0.0}, "ham": {}}))
    assert monitor.get() == {"support": 1, "support_largest": 2}


def test_metric_is_the_metric():
    monitor, metric = monitors.Metric(metrics.ROCAUC()), metrics.ROCAUC()
    for i in range(50):
        y, p = i % 3 == 0, {True: (i * 7 % 10) / 10, False: 1 - (i * 7 % 10) / 10}
        monitor.update(y, p)
        metric.update(y, p)
    assert monitor.get() == {"ROCAUC": metric.get()}


def test_metric_takes_the_most_probable_label_where_labels_are_wanted():
    monitor = monitors.Metric(metrics.Accuracy() + metrics.LogLoss())
    accuracy, log_loss = metrics.Accuracy(), metrics.LogLoss()
    for y, p in ((True, 0.8), (False, 0.6), (False, 0.1)):
        monitor.update(y, {False: 1 - p, True: p})
        accuracy.update(y, p > 0.5)
        log_loss.update(y, {False: 1 - p, True: p})
    assert monitor.get() == {"Accuracy": accuracy.get(), "LogLoss": log_loss.get()}


def test_metric_leaves_out_what_has_no_prediction_or_no_target():
    monitor = monitors.Metric(metrics.Accuracy())
    monitor.update(True, None)
    monitor.update(True, {})
    monitor.update(None, True)
    monitor.update(True, True)
    assert monitor.get() == {"Accuracy": 1.0}
    assert monitor.metric.cm.n_samples == 1


def test_metrics_can_be_named_and_rolled():
    rolling = monitors.Metric(utils.Rolling(metrics.MAE, window_size=2))
    for error in (10, 1, 2):
        rolling.update(0, error)
    assert rolling.get() == {"RollingMAE": 1.5}
    named = monitors.Metric(metrics.MAE(), name="error")
    named.update(0, 3)
    assert named.get() == {"error": 3.0}
    both = monitors.Metric(metrics.MAE() + metrics.MSE(), name="last")
    both.update(0, 3)
    assert both.get() == {"last_MAE": 3.0, "last_MSE": 9.0}


def test_throughput_counts_and_does_not_count_the_time_between_runs():
    monitor = monitors.Throughput(interval=0.02)
    for _ in range(10):
        monitor.update()
        time.sleep(0.005)
    assert 20 < monitor.get()["samples_per_second"] < 200
    again = pickle.loads(pickle.dumps(monitor))
    time.sleep(0.3)
    again.update()
    assert again.get()["samples"] == 11
    assert again.get()["samples_per_second_mean"] == pytest.approx(
        monitor.get()["samples_per_second_mean"] * 10 / 9, rel=1e-6
    )


@pytest.mark.parametrize(
    ("monitor", "needed"),
    [(monitors.Gap(), "gap"), (monitors.Feasibility(), "violation"), (monitors.Support(), "support_size")],
    ids=["gap", "feasibility", "support"],
)
def test_a_model_that_cannot_tell_is_named(monitor, needed):
    with pytest.raises(TypeError, match=f"'{needed}'; GaussianNB has none"):
        monitor.clone().update(1, 1, model=naive_bayes.GaussianNB())
    with pytest.raises(TypeError, match="from the model"):
        monitor.clone().update(1, 1)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: monitors.Gap(every=-1), "every"),
        (lambda: monitors.Gap(fading_factor=0), "fading_factor"),
        (lambda: monitors.Feasibility(every=0), "every"),
        (lambda: monitors.Support(every=0), "every"),
        (lambda: monitors.Metric(metrics.MAE), "river metric"),
        (lambda: monitors.Metric(3), "river metric"),
        (lambda: monitors.Throughput(interval=0), "interval"),
        (lambda: monitors.Regret(growth=1), "growth"),
        (lambda: monitors.Regret(tol=-1), "tol"),
        (lambda: monitors.Regret(max_iter=0), "max_iter"),
        (lambda: monitors.Regret(max_values=0), "max_values"),
        (lambda: monitors.Regret(loss=3), "loss"),
    ],
)
def test_wrong_parameters_are_named(make, word):
    with pytest.raises((ValueError, TypeError), match=word):
        make()
