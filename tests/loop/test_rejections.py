"""A stream of which too much is rejected ends the run."""

import itertools
import json
import math

import pytest
from river import metrics
from support.shared_fake import Group, Member, samples

from fwonline import sets
from fwonline.checkpoint import Checkpoint
from fwonline.exceptions import FWOnlineError, TooManyRejectedError
from fwonline.linear_model import FWClassifier, FWRegressor
from fwonline.loop import EventLoop, GroupLoop, Observer, PartitionStates
from fwonline.loop._rejections import Rejections
from fwonline.monitors import Metric
from fwonline.stream import CallbackSink, JSONLinesSink, Rejected


def regressor():
    return FWRegressor(sets.L1Ball(5.0), seed=1, intercept=False)


def stream(pattern):
    """Good samples and bad ones, as "+" and "-" say."""
    return [({"a": float(i % 3) if c == "+" else math.nan}, 1.0) for i, c in enumerate(pattern)]


def ends_at(pattern, **options):
    """The item that ends the run; None where it comes to its end."""
    loop = EventLoop(stream(pattern), regressor(), on_error="skip", **options)
    try:
        loop.run()
    except TooManyRejectedError:
        return loop.counts.n
    return None


@pytest.mark.parametrize(
    ("pattern", "options", "n"),
    [
        ("-" * 300, {}, 100),
        (
            "-" * 60 + "+" * 300,
            {},
            None,
        ),  # when the hundredth comes it is past the worst, and only rejections are judged
        ("-" * 60 + "+" * 39 + "-" + "+" * 99, {}, 100),
        ("+-" * 500, {}, None),  # exactly half is not beyond it
        ("+-" * 500 + "-", {}, 1001),
        ("+" * 5000 + "-" * 600, {}, 5501),  # the window is the last 1,000
        ("+" * 5000 + "-" * 600 + "+" * 400, {}, 5501),
        ("+" * 900 + "-" * 15, {"max_rejected_share": 0.01}, 910),
        ("+" * 200 + "-", {"max_rejected_share": 0}, 201),
        ("-" * 300, {"max_rejected_share": None}, None),
        ("-" * 300, {"max_rejected_share": 1.0}, None),
        ("---+", {}, 4),  # at the end, however few
        ("--++", {}, None),
        ("", {}, None),
    ],
)
def test_where_a_run_ends(pattern, options, n):
    assert ends_at(pattern, **options) == n


def test_the_share_is_that_of_a_literal_window():
    rejections = Rejections(0.3)
    outcomes = [(i * i // 7) % 3 == 0 or 1500 < i < 1700 for i in range(3000)]
    for n, is_bad in enumerate(outcomes, start=1):
        if is_bad:
            window = outcomes[max(0, n - 1000) : n]
            try:
                rejections.add(n, "")
            except TooManyRejectedError:
                assert n >= 100
                assert sum(window) > 0.3 * len(window)
            else:
                assert n < 100 or sum(window) <= 0.3 * len(window)
            assert list(rejections.items) == [k for k in range(max(1, n - 999), n + 1) if outcomes[k - 1]]


class Log(Observer):
    def __init__(self):
        self.reports, self.saved = [], []

    def on_report(self, report):
        self.reports.append(report)

    def on_checkpoint(self, path, n):
        self.saved.append(n)


def test_the_end_says_why_and_keeps_what_was_done(tmp_path):
    path, log = tmp_path / "c", Log()
    with JSONLinesSink(tmp_path / "bad.jsonl") as sink:
        items = stream("+" * 40 + "-" * 300)
        loop = EventLoop(items, regressor(), checkpoint=path, on_error="dead-letter", dead_letter=sink, observers=[log])
        with pytest.raises(TooManyRejectedError) as caught:
            loop.run()
        letters = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert isinstance(caught.value, FWOnlineError)
    assert str(caught.value).startswith(
        "60 of the last 100 items were rejected, more than max_rejected_share = 0.5 allows; the first of them:\n"
        "  list#41: feature 'a' is nan: expected a finite number\n  list#42: "
    )
    assert [why.partition(":")[0] for why in caught.value.reasons] == [f"list#{n}" for n in range(41, 46)]
    assert [letter["origin"] for letter in letters] == [f"list#{n}" for n in range(41, 101)]
    state = Checkpoint(path).load()
    assert (state["position"], state["counts"]["n_learned"], state["counts"]["n_rejected"]) == (
        100,
        40,
        {"features": 60},
    )
    assert log.saved[-1] == log.reports[-1].n == 100
    assert log.reports[-1].n_rejected == {"features": 60}


def test_a_resumed_run_goes_on_judging(tmp_path):
    path, pattern = tmp_path / "c", "+" * 700 + "-" * 400 + "+" * 50 + "-" * 200 + "+" * 2000
    loop, n = None, None
    for limit in itertools.chain(range(90, 4000, 90), [None]):
        loop = EventLoop(stream(pattern), regressor(), checkpoint=path, on_error="skip")
        try:
            loop.run(limit)
        except TooManyRejectedError:
            n = loop.counts.n
            break
    assert n == ends_at(pattern) == 1251
    # Tried again it takes one more, and is judged with that: where the stream is good again, it goes through.
    with pytest.raises(TooManyRejectedError, match="502 of the last 1,000"):
        EventLoop(stream(pattern), regressor(), checkpoint=path, on_error="skip").run()
    again = stream(pattern[:1252] + "+" * 1998)
    assert EventLoop(again, regressor(), checkpoint=path, on_error="skip").run().n_learned == 2748


def test_what_raises_is_not_judged():
    items = stream("+++---")
    loop = EventLoop(items, regressor(), max_rejected_share=0.0)
    with pytest.raises(ValueError, match="list#4"):
        loop.run()


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_a_share_is_a_share(share):
    with pytest.raises(ValueError, match="max_rejected_share must be from 0 to 1, found"):
        EventLoop([], regressor(), max_rejected_share=share)


# Groups


def bad(items, which):
    return [Rejected(b"{", f"t[0]@{i}: not JSON", f"t[0]@{i}") if which(i) else item for i, item in enumerate(items)]


def worker(member, folder, **options):
    options = {"states": folder, "checkpoint_samples": 50, "on_error": "dead-letter", **options}
    return GroupLoop(
        member, FWClassifier(sets.L1Ball(3.0), seed=1, intercept=False), [Metric(metrics.Accuracy())], **options
    )


def test_a_partition_of_which_too_much_is_rejected_ends_its_worker_behind_a_commit(tmp_path):
    group, states, kept = Group(p0=bad(samples(400), lambda i: i >= 150)), PartitionStates(tmp_path, "g"), []
    offsets = []
    for _ in range(3):
        loop = worker(
            Member(group, ("gain", "t[0]"), ("read", "t[0]", 400)), tmp_path, dead_letter=CallbackSink(kept.append)
        )
        with pytest.raises(TooManyRejectedError, match=r"not JSON\n  t\[0\]@151: not JSON"):
            loop.run()
        place = group.places["t[0]"]
        assert states.read("t[0]", place.metadata)["counts"]["n"] == place.total_offset
        offsets.append(place.total_offset)
    assert offsets == [301, 302, 303]  # 151 of 301; each worker that takes it up is told so with its first item
    assert len(kept) == 153
    assert loop.counts.n_rejected == {"malformed": 1}


def test_a_short_partition_is_judged_at_the_end(tmp_path):
    group = Group(p0=bad(samples(10), lambda i: i >= 4))
    options = {"dead_letter": CallbackSink([].append)}
    with pytest.raises(TooManyRejectedError, match="6 of the last 10 items"):
        worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 10)), tmp_path, **options).run()
    assert group.places["t[0]"].total_offset == 10
