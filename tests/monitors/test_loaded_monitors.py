"""What monitors are loaded from: a file says what they have counted, and what sums and rows of samples they hold."""

import math

import numpy as np
import pytest
from river import metrics, optim

from fwonline import losses, sets
from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError, SampleError
from fwonline.monitors import Feasibility, Gap, Metric, Regret, Support, Throughput
from fwonline.optim.hindsight import Bracket


class Model:
    gap, exact_gap, violation, support_size = 0.5, 0.25, 0.0, 3


def regret(loss=None, n=70):
    monitor = Regret(loss or optim.losses.Absolute(), sets.L1Ball(2.0))
    rng = np.random.default_rng(0)
    for _ in range(n):
        x = {"a": rng.normal(), "b": rng.normal()}
        monitor.update(x["a"], 0.0, x=x)
    return monitor


def folded():
    monitor = regret(optim.losses.Squared())
    monitor._make_room()
    assert monitor._sums is not None
    return monitor


def watched(monitor):
    for _ in range(3):
        monitor.update(1.0, 0.5, x={"a": 1.0}, model=Model())
    return monitor


def put(*path, value):
    def damage(monitor):
        for name in path[:-1]:
            monitor = getattr(monitor, name)
        setattr(monitor, path[-1], value)

    return damage


def array(name, value):
    def damage(monitor):
        monitor._rows._arrays()[name] = value

    return damage


def highest_index(monitor):
    monitor._rows._arrays()["indices"][3] = 2


def not_a_number(monitor):
    monitor._rows._arrays()["values"][5] = math.nan


def one_more(monitor):
    monitor._rows.append(b"", b"", 0.0)


def some_gap():
    return watched(Gap(every=2))


DAMAGES = [
    (some_gap, put("_n", value=-1)),
    (some_gap, put("_n", value="x")),
    (some_gap, put("_mean", value=None)),
    (some_gap, put("_last", value=[1.0])),
    (some_gap, put("every", value=-1)),
    (some_gap, put("fading_factor", value=math.nan)),
    (lambda: watched(Feasibility()), put("_looks", value=1.5)),
    (lambda: watched(Feasibility()), put("_worst", value="x")),
    (lambda: watched(Support()), put("_largest", value=-1)),
    (lambda: watched(Throughput()), put("interval", value=-1.0)),
    (lambda: watched(Throughput()), put("_marked_n", value=math.inf)),
    (lambda: watched(Metric(metrics.MAE())), put("_parts", value=[])),
    (lambda: watched(Metric(metrics.MAE())), put("_parts", value=[(metrics.MSE(), True)])),
    (lambda: watched(Metric(metrics.MAE())), put("metric", value=3)),
    (regret, put("growth", value=1.0)),
    (regret, put("growth", value=math.inf)),
    (regret, put("max_iter", value=0)),
    (regret, put("_next", value=0)),
    (regret, put("_next", value=70)),
    (regret, put("_d", value=1)),
    (regret, put("_d", value=3.0)),
    (regret, put("_features", value={"a": 0, "b": 0})),
    (regret, put("_features", value=["a", "b"])),
    (regret, put("_objective", value=None)),
    (regret, put("_objective", value=(optim.losses.Squared(), sets.L1Ball(2.0)))),
    (regret, put("_best", value=(1.0,))),
    (regret, put("_best", value=Bracket(np.zeros(3), 1.0, 0.0, 1.0, 3))),
    (regret, put("_best", value=Bracket(np.full(2, math.nan), 1.0, 0.0, 1.0, 3))),
    (regret, put("_result", value={})),
    (regret, put("_rows", value=None)),
    (regret, put("_rows", "size", value=70)),
    (regret, one_more),
    (regret, array("indices", np.zeros(3, np.uint32))),
    (regret, array("indices", np.full(140, 2**32 - 1, np.uint32))),
    (regret, array("lengths", np.zeros(70, np.int64))),
    (regret, array("lengths", np.arange(-70, 70, 2))),
    (regret, array("targets", np.zeros(0))),
    (regret, highest_index),
    (regret, not_a_number),
    (folded, put("_sums", "XX", value=np.zeros((2, 3)))),
    (folded, put("_sums", "Xy", value=np.zeros(5))),
    (folded, put("_sums", "yy", value=math.nan)),
    (folded, put("_sums", "Xy", value=np.array([1e200, 0.0]))),
    (folded, put("_sums", value={})),
    (regret, put("_sums", value=folded()._sums)),
]


@pytest.mark.parametrize(("make", "damage"), DAMAGES)
def test_a_damaged_monitor_is_refused(make, damage):
    monitor = make()
    again = codec.loads(codec.dumps(monitor))
    assert again.get() == monitor.get()
    damage(monitor)
    with pytest.raises(CheckpointError, match=type(monitor).__name__ + r"|Samples|_Sums"):
        codec.loads(codec.dumps(monitor))


def test_monitors_that_have_seen_nothing_come_back():
    for monitor in (Gap(), Feasibility(), Support(), Throughput(), Metric(metrics.MAE() + metrics.MSE()), Regret()):
        assert codec.loads(codec.dumps(monitor)).get() == monitor.get()
    monitor = Regret(losses.EpsilonInsensitive(), sets.Box([-1.0], [1.0]))
    assert codec.loads(codec.dumps(monitor)).get() == monitor.get()


def test_samples_with_more_features_than_the_set_has_are_no_rows_of_its_matrix():
    """scipy's products take column numbers as they are, and would write outside of the result."""
    monitor = Regret(optim.losses.Squared(), sets.Box([0.0], [1.0]))
    for _ in range(63):
        monitor.update(1.0, 0.5, x={"a": 1.0, "b": 2.0})
    with pytest.raises(SampleError, match="samples have 2 features, the set has 1 coordinates"):
        monitor.update(1.0, 0.5, x={"a": 1.0, "b": 2.0})
