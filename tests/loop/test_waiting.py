"""A source that waits leaves the loop its timers, and a simulated stream is taken up again without being replayed."""

from river import linear_model

from fwonline.datasets import SparseLinear
from fwonline.loop import EventLoop, Observer
from fwonline.stream import Sample, Source, as_source


class Waits(Source):
    """One sample, then nothing for a while, then another."""

    position = None  # an attribute serves as the property

    def __init__(self):
        self.position = 0

    def __iter__(self):
        for i in range(2):
            self.position += 1
            yield Sample({"a": float(i)}, 1.0)
            for _ in range(50 if self.idle_ticks else 0):
                yield None

    def seek(self, position):
        self.position = position


class Counts(Observer):
    def __init__(self):
        self.reports = []

    def on_report(self, report):
        self.reports.append(report.n)


def test_reports_come_while_the_source_waits():
    observer = Counts()
    loop = EventLoop(Waits(), linear_model.LinearRegression(), observers=[observer], report_every=1e-6)
    summary = loop.run()
    assert summary.n_learned == 2
    assert observer.reports.count(1) > 10


def test_a_source_that_nobody_asked_to_beat_yields_items_alone():
    assert all(item is not None for item in Waits())


def test_every_observer_sees_the_last_report_alike():
    observers = [Counts(), Counts()]
    EventLoop([({"a": 1.0}, 1.0)], linear_model.LinearRegression(), observers=observers).run()
    assert observers[0].reports == observers[1].reports != []


def test_a_simulator_is_taken_up_where_it_was_without_drawing_what_lay_before():
    class Watched(SparseLinear):
        def __iter__(self):
            raise AssertionError("replayed from the start")

    source = as_source(Watched(n_features=20, seed=3))
    source.seek(40)
    expected = [x for x, _ in SparseLinear(n_features=20, seed=3).take(42)][-2:]
    items = iter(source)
    assert [next(items).x, next(items).x] == expected
