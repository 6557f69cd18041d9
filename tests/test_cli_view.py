"""What a run shows in its first seconds, and how long it says that the rest takes."""

import io

import pytest

from fwonline._cli.view import Output, PlainView, number, told_of_compiling
from fwonline.loop import EventLoop, Observer
from fwonline.loop.report import Report, Start, Summary

COUNTS = {"n_predicted": 0, "n_learned": 0, "n_rejected": {}, "n_pending": 0, "n_expired": 0, "n_unmatched": 0}


def report(n, elapsed, progress=None):
    return Report(n=n, elapsed=elapsed, rate=1.0, monitors={}, progress=progress, lag=None, **COUNTS)


@pytest.fixture
def view():
    made = PlainView("a", 1000, Output(io.StringIO()))
    made.on_start(Start("source", "model", length=None))
    return made


def lines(view):
    return view.output.file.getvalue().splitlines()[1:]


def test_no_time_is_told_before_a_second_of_real_work(view):
    view.on_report(report(1, 30.0))  # half a minute went by while it compiled
    view.on_report(report(100, 30.9))
    assert view.time_left(report(100, 30.9)) is None
    assert view.time_left(report(201, 32.0)) == pytest.approx(799 * 2.0 / 200)
    view.compiling(True)
    assert view.time_left(report(300, 40.0)) is None
    view.on_report(report(300, 40.0))
    assert view.time_left(report(500, 42.0)) == pytest.approx(5.0)


def test_the_pace_leaves_out_what_was_compiled(view):
    view.compiling(True)
    view.compiling(False)
    view.on_report(report(1, 30.0))
    summary = Summary(n=1001, elapsed=32.0, rate=1001 / 32, monitors={}, interrupted=False, position=0, **COUNTS)
    assert view.pace(summary) == pytest.approx(500.0)


def test_the_time_left_of_a_file_goes_by_its_bytes():
    view = PlainView("a", None, Output(io.StringIO()))
    view.on_start(Start("source", "model", n=500))
    view.on_report(report(600, 5.0, progress=0.5))
    assert view.time_left(report(700, 7.0, progress=0.75)) == pytest.approx(2.0)


def test_compiling_is_told_once(view):
    for _ in range(3):
        view.compiling(True)
        view.compiling(False)
    assert lines(view) == ["compiling, once: later runs begin at once"]


def test_numba_tells_when_it_compiles(view):
    numba = pytest.importorskip("numba")
    with told_of_compiling(view):
        assert lines(view) == []
        assert numba.njit(lambda x: x + 1)(1) == 2
    assert len(lines(view)) == 1
    assert not view.is_compiling


def test_the_first_samples_are_no_line_of_their_own(view):
    view.on_report(report(1, 0.1))
    view.on_report(report(5, 0.2))
    assert lines(view) == []
    view.on_report(report(10, 0.3))
    view.on_report(report(20, 0.4))
    assert len(lines(view)) == 1


def test_minus_nothing_is_nothing():
    assert number(-0.0) == "0"


class Counter(Observer):
    def __init__(self):
        self.n = []

    def on_report(self, report):
        self.n.append(report.n)


class Model:
    def learn_one(self, x, y):
        pass

    def predict_one(self, x):
        return 0.0


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, [1, 2, 5, 10, 20, 50, 60]), ({"report_samples": 25}, [25, 50, 60]), ({"report_every": 60.0}, [60])],
)
def test_a_short_run_has_a_curve(options, expected):
    seen = Counter()
    loop = EventLoop([({"a": 1.0}, 0.0)] * 60, Model(), observers=[seen], **options)
    loop.run()
    assert seen.n == expected
