"""The event loop: test-then-train, answers that come late, bad samples, reports, checkpoints."""

import copy
import itertools
import json
import math
import threading
import time

import numpy as np
import pytest
from river import (
    anomaly,
    base,
    cluster,
    compose,
    datasets,
    evaluate,
    linear_model,
    metrics,
    multioutput,
    preprocessing,
    reco,
)
from support.loop_worker import make_loop, result, write_stream

from fwonline import sets
from fwonline.checkpoint import Checkpoint, codec
from fwonline.exceptions import CheckpointError, SampleError, SourceError
from fwonline.linear_model import FWClassifier, FWRegressor
from fwonline.loop import BadSamples, EventLoop, Observer
from fwonline.monitors import Gap, Metric
from fwonline.stream import CallbackSink, JSONLinesSink, Rejected, Sample, Source, as_source


class Log(Observer):
    def __init__(self):
        self.starts, self.reports, self.rejected, self.saved, self.ends = [], [], [], [], []

    def on_start(self, start):
        self.starts.append(start)

    def on_report(self, report):
        self.reports.append(report)

    def on_rejected(self, rejected, reason):
        self.rejected.append((rejected, reason))

    def on_checkpoint(self, path, n):
        self.saved.append(n)

    def on_end(self, summary):
        self.ends.append(summary)


def pipeline():
    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def fw():
    return preprocessing.StandardScaler() | FWClassifier(sets.L1Ball(5.0), seed=1, intercept=False)


def numbers():
    return preprocessing.StandardScaler() | FWRegressor(sets.L1Ball(5.0), seed=1, intercept=False)


def learned(model) -> bytes:
    """Everything that a pipeline learned, to the bit."""
    scaler, final = model.steps.values()
    return codec.dumps([dict(scaler.counts), dict(scaler.means), dict(scaler.vars), dict(final.weights)])


# Test-then-train


@pytest.mark.parametrize("make", [pipeline, fw])
@pytest.mark.parametrize("metric", [metrics.Accuracy, metrics.ROCAUC, metrics.LogLoss])
def test_says_what_progressive_validation_says(make, metric):
    model, mine = make(), metric()
    summary = EventLoop(datasets.Phishing(), model, [Metric(mine)]).run()
    twin, theirs = make(), metric()
    evaluate.progressive_val_score(datasets.Phishing(), twin, theirs)
    assert mine.get() == theirs.get()
    assert learned(model) == learned(twin)
    assert summary.n == summary.n_learned == summary.n_predicted == 1250
    assert summary.monitors == {metric.__name__: theirs.get()}


class Spy(base.Classifier):
    def __init__(self):
        self.calls = []

    def learn_one(self, x, y):
        self.calls.append("learn")

    def predict_one(self, x):
        self.calls.append("label")
        return True

    def predict_proba_one(self, x):
        self.calls.append("probabilities")
        return {True: 0.75, False: 0.25}


def test_predicts_once_and_before_learning():
    for metric, call in ((metrics.Accuracy(), "label"), (metrics.Accuracy() + metrics.LogLoss(), "probabilities")):
        model, records = Spy(), []
        loop = EventLoop([({"a": 1.0}, True)] * 3, model, [Metric(metric)], [CallbackSink(records.append)])
        loop.run()
        assert model.calls == [call, "learn"] * 3
        assert [record["y_pred"] for record in records] == [True] * 3
        assert records[0].get("p") == (0.75 if call == "probabilities" else None)


@pytest.mark.parametrize("metric", [metrics.Accuracy, metrics.LogLoss])
def test_a_model_that_can_do_both_at_once_predicts_and_learns_the_same(metric):
    class Plain(FWClassifier):
        def learn_one(self, x, y):
            super().learn_one(x, y)

    class Contrary(FWClassifier):
        def predict_one(self, x):
            return "neither"

        def predict_proba_one(self, x):
            return {"neither": 1.0}

    seen = {}
    for kind in (FWClassifier, Plain, Contrary):
        model, records = kind(sets.L1Ball(5.0), seed=1, intercept=False), []
        EventLoop(datasets.Phishing().take(100), model, [Metric(metric())], [CallbackSink(records.append)]).run()
        seen[kind] = [record["y_pred"] for record in records], model.weights
    assert seen[FWClassifier] == seen[Plain]
    # A class derived from one that can has the last word on what is predicted.
    assert seen[Contrary] == (["neither"] * 100, seen[Plain][1])


def test_records_say_which_sample_they_are_of():
    records = []
    source = as_source([Sample({"a": 1.0}, 2.0, key="k", origin="here:1"), ({"a": 2.0}, 3.0)])
    EventLoop(source, linear_model.LinearRegression(), sinks=[CallbackSink(records.append)]).run()
    assert records[0] == {"n": 1, "key": "k", "y": 2.0, "y_pred": 0.0, "origin": "here:1"}
    assert records[1]["n"] == 2


def test_monitors_are_told_after_learning():
    class Order:
        def update(self, y_true, y_pred, *, x, model):
            seen.append((y_true, y_pred, x, model.calls[-1]))

        def get(self):
            return {}

        def finish(self):
            seen.append("finished")

    seen, model = [], Spy()
    EventLoop([({"a": 1.0}, False)], model, [Order()]).run()
    assert seen == [(False, True, {"a": 1.0}, "learn"), "finished"]


def test_every_kind_of_model():
    phishing = datasets.Phishing().take(50)
    assert EventLoop(phishing, linear_model.Perceptron()).run().n_learned == 50
    numbers_only = [({"a": float(i)}, float(i)) for i in range(20)]
    assert EventLoop(numbers_only, linear_model.LinearRegression()).run().n_learned == 20
    without_target = [({"a": float(i)}, None) for i in range(20)]
    records = []
    loop = EventLoop(without_target, cluster.KMeans(2, seed=1), sinks=[CallbackSink(records.append)])
    assert loop.run().n_learned == 20
    assert {record["y_pred"] for record in records} <= {0, 1}
    loop = EventLoop(without_target, preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=1))
    assert loop.run().n_predicted == 20
    assert EventLoop(without_target, preprocessing.StandardScaler()).run().n_learned == 20
    ratings = [({"user": i % 3, "item": f"i{i % 5}"}, float(i % 5)) for i in range(20)]
    ranker = reco.FunkMF(seed=1)
    mean = metrics.MAE()
    assert EventLoop(ratings, ranker, [Metric(mean)]).run().n_learned == 20
    assert mean.get() > 0
    assert ranker.u_latents
    many = [({"a": float(i)}, {"p": float(i), "q": 1.0}) for i in range(20)]
    chain = multioutput.RegressorChain(linear_model.LinearRegression(), order=["p", "q"])
    assert EventLoop(many, chain).run().n_learned == 20


def test_gap_of_a_model_in_a_pipeline():
    summary = EventLoop(datasets.Phishing(), fw(), [Gap()]).run()
    assert math.isfinite(summary.monitors["gap_estimate"])


def test_names_of_monitors_that_collide_are_told_apart():
    summary = EventLoop([({"a": 1.0}, 1.0)], linear_model.LinearRegression(), [Metric(metrics.MAE()) for _ in range(3)])
    assert list(summary.run().monitors) == ["MAE", "MAE_2", "MAE_3"]


def test_limit_is_in_all_and_runs_go_on():
    model = pipeline()
    loop = EventLoop(datasets.Phishing(), model)
    assert loop.run(limit=100).n == 100
    assert loop.run(limit=100).n == 100
    assert loop.run(limit=300).n_learned == 300
    assert loop.run().n_learned == 1250
    twin = pipeline()
    EventLoop(datasets.Phishing(), twin).run()
    assert learned(model) == learned(twin)


def test_an_empty_stream_and_wrong_arguments():
    summary = EventLoop([], pipeline()).run()
    assert summary.n == summary.n_learned == 0
    assert summary.interrupted is False
    for wrong in (
        {"on_error": "ignore"},
        {"on_error": "dead-letter"},
        {"dead_letter": CallbackSink(print)},
        {"max_pending": 0},
        {"checkpoint_every": -1.0},
    ):
        with pytest.raises(ValueError, match=r"on_error|positive"):
            EventLoop([], pipeline(), **wrong)


# Answers that come later


def test_answers_are_learned_when_they_come_and_scored_with_the_first_prediction():
    model, metric, records = numbers(), metrics.MAE(), []
    items = [
        Sample({"a": 1.0}, 2.0),
        Sample({"a": 3.0}, None, key="q"),
        Sample({"a": 2.0}, 5.0),
        Sample({}, 7.0, key="q"),
    ]
    summary = EventLoop(items, model, [Metric(metric)], [CallbackSink(records.append)]).run()

    twin, score = numbers(), metrics.MAE()
    score.update(2.0, twin.predict_one({"a": 1.0}))
    twin.learn_one({"a": 1.0}, 2.0)
    asked = twin.predict_one({"a": 3.0})
    score.update(5.0, twin.predict_one({"a": 2.0}))
    twin.learn_one({"a": 2.0}, 5.0)
    score.update(7.0, asked)
    twin.learn_one({"a": 3.0}, 7.0)
    assert learned(model) == learned(twin)
    assert metric.get() == score.get()
    assert (summary.n_predicted, summary.n_learned, summary.n_pending) == (3, 3, 0)
    assert [record["n"] for record in records] == [1, 2, 3]
    assert "y" not in records[1]
    assert records[1]["y_pred"] == asked


def ask(key, time=None):
    return Sample({"a": 1.0}, None, key=key, time=time)


def answer(key, time=None, y=1.0, x=None):
    return Sample(x or {}, y, key=key, time=time)


@pytest.mark.parametrize(
    ("items", "options", "expected"),
    [
        # pending, expired, unmatched, learned
        ([ask(1), ask(2), ask(3)], {}, (3, 0, 0, 0)),
        ([ask(1), ask(2), ask(3), answer(1), answer(3)], {"max_pending": 2}, (1, 1, 1, 1)),
        ([ask(1), ask(1), answer(1)], {}, (0, 1, 0, 1)),
        ([answer(1)], {}, (0, 0, 1, 0)),
        ([Sample({"a": None, "b": None}, 1.0, key=1)], {}, (0, 0, 1, 0)),
        ([answer(1, x={"a": 1.0})], {}, (0, 0, 0, 1)),  # a whole sample with a key
        ([ask(1), answer(1), answer(1)], {}, (0, 0, 1, 1)),
        ([ask(1), Sample({"a": 1.0}, 1.0), answer(1)], {"expire_items": 2}, (0, 0, 0, 2)),
        ([ask(1), Sample({"a": 1.0}, 1.0), Sample({"a": 1.0}, 1.0), answer(1)], {"expire_items": 2}, (0, 1, 1, 2)),
        ([ask(1, 10.0), ask(2, 15.0), answer(1, 21.0), answer(2, 21.0)], {"expire_seconds": 10}, (0, 1, 1, 1)),
        ([ask(1, 10.0), answer(1, 20.0)], {"expire_seconds": 10}, (0, 0, 0, 1)),
        ([ask(1, 10.0), ask(2), answer(2, 30.0)], {"expire_seconds": 10}, (0, 1, 0, 1)),
        # answers that come before their questions
        ([answer(1), ask(1)], {}, (1, 0, 1, 0)),
        ([answer(1), ask(1), ask(2), answer(2)], {"max_early": 1}, (0, 0, 0, 2)),
        ([answer(1), answer(2), ask(1), ask(2)], {"max_early": 1}, (1, 0, 1, 1)),
        ([answer(1), answer(1), ask(1)], {"max_early": 2}, (0, 0, 1, 1)),
        ([answer(1, 10.0), ask(2, 30.0), ask(1, 30.0)], {"max_early": 2, "expire_seconds": 10}, (2, 0, 1, 0)),
    ],
)
def test_questions_wait_in_bounded_memory(items, options, expected):
    summary = EventLoop(items, linear_model.LinearRegression(), **options).run()
    assert (summary.n_pending, summary.n_expired, summary.n_unmatched, summary.n_learned) == expected


def test_an_early_answer_waits_through_a_restart_and_is_named_when_it_is_bad(tmp_path):
    def loop(items, **options):
        return EventLoop(
            items, linear_model.LinearRegression(), checkpoint=tmp_path / "c", max_early=2, on_error="skip", **options
        )

    items = [answer("q", y=2.0), answer("r", y=math.inf), ask("q"), ask("r")]
    assert loop(items[:2]).run().n_learned == 0
    seen = []

    class Watch(Observer):
        def on_rejected(self, rejected, reason):
            seen.append((rejected.key, reason))

    summary = loop(items, observers=[Watch()]).run()
    assert (summary.n, summary.n_learned, summary.n_pending, summary.n_unmatched) == (4, 1, 1, 0)
    assert seen == [("r", "target")]
    with pytest.raises(ValueError, match="max_early must not be negative, found -1"):
        EventLoop([], linear_model.LinearRegression(), max_early=-1)


def test_a_bad_answer_leaves_the_question_waiting():
    items = [ask("q"), answer("q", y=math.nan), answer("q", y=2.0)]
    summary = EventLoop(items, linear_model.LinearRegression(), on_error="skip").run()
    assert summary.n_rejected == {"target": 1}
    assert summary.n_learned == 1


def test_waiting_questions_are_in_the_checkpoint(tmp_path):
    items = [ask("a"), ask(("b", 2)), Sample({"a": 2.0}, 1.0), answer("a"), answer(("b", 2), y=4.0)]
    whole = EventLoop(items, linear_model.LinearRegression(), [Metric(metrics.MAE())])
    whole.run()
    for stop in range(len(items) + 1):
        path = tmp_path / f"{stop}.ckpt"
        EventLoop(items, linear_model.LinearRegression(), [Metric(metrics.MAE())], checkpoint=path).run(limit=stop)
        loop = EventLoop(items, linear_model.LinearRegression(), [Metric(metrics.MAE())], checkpoint=path)
        summary = loop.run()
        assert loop.model.weights == whole.model.weights
        assert summary.monitors == whole.run().monitors
        assert (summary.n_learned, summary.n_pending) == (3, 0)


# Bad samples

BAD = {
    "nan": (Sample({"a": math.nan, "b": 1.0}, True), "features", "feature 'a' is nan: expected a finite number"),
    "inf": (Sample({"a": 1.0, "b": -math.inf}, True), "features", "feature 'b' is -inf"),
    "numpy nan": (Sample({"a": np.float64("nan")}, True), "features", "feature 'a' is"),
    "huge int": (Sample({"a": 10**400}, True), "features", r"feature 'a' is 1000*\.\.\.: expected a finite"),
    "text": (Sample({"a": "many", "b": 1.0}, True), "model", "feature 'a' is .*, and the model takes numbers alone"),
    "none": (Sample({"a": None, "b": 1.0}, True), "model", "feature 'a' is .*, and the model takes numbers alone"),
    "list": (Sample({"a": [1.0]}, True), "model", "feature 'a' is .*, and the model takes numbers alone"),
    "no target": (Sample({"a": 1.0}, None), "target", "the target is missing"),
    "nan target": (Sample({"a": 1.0}, math.nan), "target", "the target is nan"),
    "list target": (Sample({"a": 1.0}, [1]), "target", r"the target is \[1\]"),
    "list key": (Sample({"a": 1.0}, None, key=[1]), "key", "the key is"),
    "question with nan": (Sample({"a": math.nan}, None, key=1), "features", "feature 'a' is nan"),
    "malformed": (Rejected(b"\xff", "f.csv:3: no UTF-8", "f.csv:3"), "malformed", "no UTF-8"),
}


@pytest.mark.parametrize("make", [pipeline, fw])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_sample_touches_nothing(make, name, tmp_path):
    bad, reason, message = BAD[name]
    clean = [Sample(x, y) for x, y in datasets.Phishing().take(40)]
    for place in (0, 20):
        model, twin, log, letters = make(), make(), Log(), []
        loop = EventLoop(
            [*clean[:place], bad, *clean[place:]],
            model,
            on_error="dead-letter",
            dead_letter=CallbackSink(letters.append),
            observers=[log],
        )
        summary = loop.run()
        EventLoop(clean, twin).run()
        assert learned(model) == learned(twin)
        assert summary.n_rejected == {reason: 1}
        assert summary.n_learned == 40
        [(rejected, said)] = log.rejected
        assert said == reason
        assert rejected.error == letters[0]["error"]
        with pytest.raises(SampleError, match=message):
            EventLoop([*clean[:place], bad], make()).run()


def test_a_question_with_text_in_a_place_for_numbers():
    clean, model, twin = [({"a": float(i % 3)}, i % 2 == 0) for i in range(9)], pipeline(), pipeline()
    items = [*clean, Sample({"a": "x"}, None, key=1), Sample({"b": 2.0}, None, key=2), Sample({}, True, key=2)]
    summary = EventLoop(items, model, on_error="skip").run()
    EventLoop([*clean, ({"b": 2.0}, True)], twin).run()
    assert summary.n_rejected == {"model": 1}
    assert learned(model) == learned(twin)


def test_a_third_class_is_refused_before_the_scaler_learns_it():
    model, twin = fw(), fw()
    clean = list(datasets.Phishing().take(30))
    summary = EventLoop([*clean, (clean[0][0], "maybe")], model, on_error="skip").run()
    EventLoop(clean, twin).run()
    assert summary.n_rejected == {"model": 1}
    assert learned(model) == learned(twin)


def test_text_in_a_place_for_numbers_or_for_words():
    model = compose.Select("colour") | preprocessing.OneHotEncoder() | linear_model.LogisticRegression()
    items = [({"colour": colour, "size": 1.0}, colour == "red") for colour in ("red", "blue", "green") * 5]
    assert EventLoop(items, copy.deepcopy(model)).run().n_learned == 15
    items[7] = ({"colour": "red", "size": math.nan}, True)
    assert EventLoop(items, copy.deepcopy(model), on_error="skip").run().n_rejected == {"features": 1}
    # a regressor wants a number
    items = [({"a": 1.0}, 1.0), ({"a": 1.0}, "two"), ({"a": 1.0}, True)]
    assert EventLoop(items, linear_model.LinearRegression(), on_error="skip").run().n_rejected == {"target": 1}


def test_new_labels_and_words_are_tried_once_and_memory_is_bounded(monkeypatch):
    copies = []
    deepcopy = copy.deepcopy
    monkeypatch.setattr("fwonline.loop._trial.copy.deepcopy", lambda model: copies.append(1) or deepcopy(model))
    model = preprocessing.OneHotEncoder() | linear_model.LogisticRegression()
    EventLoop([({"w": "x"}, True), ({"w": "y"}, False)] * 50, model).run()
    assert len(copies) == 2
    monkeypatch.setattr("fwonline.loop._guard._TRUSTED", 5)
    copies.clear()
    loop = EventLoop([({f"w{i}": "x"}, True) for i in range(50)], deepcopy(model))
    assert loop.run().n_learned == 50
    assert len(copies) == 5
    assert len(loop._learner.guard.features) == 5


def test_values_need_not_be_looked_at():
    model = linear_model.LinearRegression()
    summary = EventLoop([({"a": math.nan}, 1.0), ({"a": 1.0}, None)], model, check_values=False, on_error="skip").run()
    assert summary.n_learned == 1
    assert summary.n_rejected == {"target": 1}


ERRORS = {error.__name__: error for error in (RuntimeError, TypeError, ValueError, SampleError)}


@codec.register
class Moody(base.Regressor):
    def __init__(self, error="RuntimeError"):
        self.error = error
        self.n = 0

    def predict_one(self, x):
        return 0.0

    def learn_one(self, x, y):
        if y == 13.0:
            raise ERRORS[self.error]("not today")
        self.n += 1


def test_an_error_of_the_model_itself_is_never_swallowed(tmp_path):
    items = [Sample({"a": 1.0}, float(y), origin=f"f:{y}") for y in range(10, 16)]
    path = tmp_path / "a.ckpt"
    for kind in (RuntimeError, TypeError, ValueError):
        loop = EventLoop(
            items, Moody(kind.__name__), on_error="skip", checkpoint=path, checkpoint_samples=2, resume=False
        )
        with pytest.raises(kind, match="not today") as caught:
            loop.run()
        assert "f:13" in caught.value.__notes__[0]
        assert Checkpoint(path).load()["model"].n == 2
    model = Moody("SampleError")
    assert EventLoop(items, model, on_error="skip").run().n_rejected == {"model": 1}
    assert model.n == 5
    with pytest.warns(UserWarning, match="had already learned"):
        EventLoop(items, preprocessing.StandardScaler() | Moody("SampleError"), on_error="skip").run()


@pytest.mark.parametrize("bad", [Sample({"a": math.nan}, 1.0, origin="f:3"), Rejected(b"\xff", "f:3: bad", "f:3")])
def test_a_run_that_a_bad_item_ended_begins_again_with_it(bad, tmp_path):
    items = [Sample({"a": 1.0}, 1.0), Sample({"a": 2.0}, 2.0), bad, Sample({"a": 3.0}, 3.0)]
    path = tmp_path / "a.ckpt"
    for _ in range(2):
        with pytest.raises(SampleError, match=r"^f:3: ") as caught:
            EventLoop(items, linear_model.LinearRegression(), checkpoint=path).run()
        assert str(caught.value).count("f:3") == 1
        state = Checkpoint(path).load()
        assert state["counts"]["n"] == state["counts"]["n_learned"] == 2
    letters = []
    loop = EventLoop(items, linear_model.LinearRegression(), checkpoint=path, on_error="skip")
    assert loop._learner.kind["sinks"] == []
    summary = loop.run()
    assert (summary.n, summary.n_learned, sum(summary.n_rejected.values())) == (4, 3, 1)
    clean = linear_model.LinearRegression()
    EventLoop([item for item in items if item is not bad], clean).run()
    assert loop.model.weights == clean.weights
    assert letters == []


def test_the_same_loop_tries_the_bad_item_again():
    loop = EventLoop([({"a": 1.0}, 1.0), ({"a": math.nan}, 1.0), ({"a": 1.0}, 2.0)], linear_model.LinearRegression())
    for _ in range(2):
        with pytest.raises(SampleError, match="feature 'a' is nan"):
            loop.run()
        assert loop.counts.n == loop.counts.n_learned == 1
    loop._learner.options = BadSamples(on_error="skip")
    assert loop.run().n_learned == 2


def test_rejected_samples_are_kept_whole(tmp_path):
    path = tmp_path / "bad.jsonl"
    with JSONLinesSink(path) as sink:
        items = [Sample({"a": math.nan, "b": "x"}, True, key=7, time=1.5, origin="s:1"), "no pair"]
        EventLoop(items, pipeline(), on_error="skip", dead_letter=sink, max_rejected_share=1.0).run()
    first, second = map(json.loads, path.read_text().splitlines())
    raw = json.loads(first["raw"])
    assert math.isnan(raw["x"]["a"])
    assert (raw["x"]["b"], raw["y"], raw["key"], raw["time"]) == ("x", True, 7, 1.5)
    assert first["error"].startswith("s:1: feature 'a' is nan")
    assert second["raw"] == "'no pair'" or second["raw"] == "no pair"


# Reports


def test_reports_by_count_are_deterministic():
    log = Log()
    loop = EventLoop(datasets.Phishing(), pipeline(), [Metric(metrics.Accuracy())], report_samples=300, observers=[log])
    summary = loop.run()
    assert [report.n for report in log.reports] == [300, 600, 900, 1200, 1250]
    assert log.starts[0].length == 1250
    assert log.starts[0].resumed_from is None
    assert log.reports[0].progress == 300 / 1250
    assert 0 < log.reports[0].monitors["Accuracy"] <= 1
    assert log.ends == [summary]
    assert json.loads(json.dumps(summary.to_dict()))["n_learned"] == 1250
    assert "1,250 samples learned" in str(summary)


def test_reports_by_time():
    class Slow(Observer):
        def on_report(self, report):
            times.append(report.elapsed)

    def stream():
        for _ in range(60):
            time.sleep(0.005)
            yield {"a": 1.0}, True

    times = []
    EventLoop(stream(), pipeline(), report_every=0.05, observers=[Slow()]).run()
    assert 3 <= len(times) <= times[-1] / 0.05 + 1  # a busy machine may sleep longer
    assert all(later - sooner > 0.045 for sooner, later in itertools.pairwise(times[:-1]))


# Checkpoints


def test_resumed_anywhere_it_ends_the_same(tmp_path):
    write_stream(tmp_path / "stream.csv", 400)
    whole = tmp_path / "whole"
    whole.mkdir()
    loop = make_loop(whole)
    loop.run()
    for sink in loop.outputs:
        sink.close()
    for stop in (0, 1, 17, 18, 96, 97, 250, 399):
        folder = tmp_path / str(stop)
        folder.mkdir()
        make_loop(folder, checkpoint=folder / "c").run(limit=stop)
        log = Log()
        again = make_loop(folder, checkpoint=folder / "c", observers=[log])
        again.run()
        for sink in again.outputs:
            sink.close()
        assert log.starts[0].n == stop
        assert log.starts[0].resumed_from == str(folder / "c")
        assert result(again) == result(loop)
        for output in ("predictions.jsonl", "rejected.jsonl"):
            assert (folder / output).read_bytes() == (whole / output).read_bytes()


def test_checkpoints_by_count_and_only_when_something_changed(tmp_path):
    log = Log()
    options = {"checkpoint": tmp_path / "c", "checkpoint_samples": 500, "observers": [log]}
    loop = EventLoop(datasets.Phishing(), pipeline(), **options)
    loop.run()
    assert log.saved == [0, 500, 1000, 1250]
    loop.run()
    EventLoop(datasets.Phishing(), pipeline(), **options).run()
    assert log.saved == [0, 500, 1000, 1250]
    assert log.starts[-1].n == 1250


def test_a_fresh_run_leaves_nothing_of_the_old_one(tmp_path):
    path = tmp_path / "c"
    EventLoop(datasets.Phishing(), pipeline(), checkpoint=path, checkpoint_samples=100).run()
    loop = EventLoop(datasets.Phishing(), pipeline(), checkpoint=path, resume=False)
    assert loop.run(limit=10).n_learned == 10
    assert Checkpoint(path).load()["counts"]["n"] == 10
    assert Checkpoint(path).previous.exists()
    assert Checkpoint(tmp_path / "c.previous").load()["counts"]["n"] == 0


def test_what_cannot_be_saved_is_known_before_the_first_sample(tmp_path):
    model = compose.FuncTransformer(lambda x: x) | linear_model.LinearRegression()
    with pytest.raises(CheckpointError, match=r"^model\.steps\['<lambda>'\]\.func cannot be saved"):
        EventLoop([({"a": 1.0}, 1.0)], model, checkpoint=tmp_path / "c").run()


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "c"
    data = list(datasets.Phishing().take(50))

    def loop(model, monitors=(), source=data):
        return EventLoop(source, model, monitors, checkpoint=path)

    loop(fw()).run()
    others = {
        r"model was river\.compose.*and is .*LogisticRegression now": linear_model.LogisticRegression(),
        r"model\.StandardScaler is gone": compose.Pipeline(FWClassifier(sets.L1Ball(5.0), seed=1, intercept=False)),
        r"model\.FWClassifier\.constraint\.radius was 5\.0 and is 6\.0 now": (
            preprocessing.StandardScaler() | FWClassifier(sets.L1Ball(6.0), seed=1, intercept=False)
        ),
        r"model\.FWClassifier\.seed was 1 and is 2 now": (
            preprocessing.StandardScaler() | FWClassifier(sets.L1Ball(5.0), seed=2, intercept=False)
        ),
    }
    for message, model in others.items():
        before = codec.dumps(model)
        with pytest.raises(CheckpointError, match=message):
            loop(model).run()
        assert codec.dumps(model) == before
    with pytest.raises(CheckpointError, match="monitors"):
        loop(fw(), [Gap()]).run()

    class Other(Source):
        position = 0

        def __iter__(self):
            return iter([])

        def seek(self, position):
            raise AssertionError

    with pytest.raises(CheckpointError, match=r"source was IterableSource and is .*Other now"):
        loop(fw(), source=Other()).run()
    with pytest.warns(UserWarning, match="of the source list; going on with Phishing"):
        loop(fw(), source=datasets.Phishing()).run()


def test_the_objects_that_the_caller_holds_are_brought_to_the_saved_state(tmp_path):
    path = tmp_path / "c"

    def make():
        final = FWClassifier(sets.L1Ball(5.0), seed=1, intercept=False)
        metric = metrics.Accuracy()
        model = preprocessing.StandardScaler() | final
        return final, metric, model, EventLoop(datasets.Phishing(), model, [Metric(metric)], checkpoint=path)

    one, score, _, loop = make()
    loop.run()
    other, metric, model, loop = make()
    loop.run()
    assert loop.model is model
    assert other.weights == one.weights
    assert metric.get() == score.get() > 0


def test_a_damaged_checkpoint_gives_way_and_the_end_is_the_same(tmp_path):
    path = tmp_path / "c"
    loop = EventLoop(datasets.Phishing(), pipeline(), checkpoint=path, checkpoint_samples=100)
    loop.run(limit=250)
    path.write_bytes(path.read_bytes()[:-3])
    loop = EventLoop(datasets.Phishing(), pipeline(), checkpoint=path)
    with pytest.warns(UserWarning, match="damaged"):
        assert loop.run().n == 1250
    twin = pipeline()
    EventLoop(datasets.Phishing(), twin).run()
    assert learned(loop.model) == learned(twin)


def test_a_source_that_fails_leaves_a_checkpoint_of_what_was_learned(tmp_path):
    def broken(fails):
        yield from datasets.Phishing().take(70)
        if fails:
            raise OSError("the cable")
        yield from list(datasets.Phishing().take(80))[70:]

    path = tmp_path / "c"
    with pytest.raises(SourceError, match="the cable"):
        EventLoop(broken(True), pipeline(), checkpoint=path).run()
    assert Checkpoint(path).load()["counts"]["n_learned"] == 70
    loop = EventLoop(broken(False), pipeline(), checkpoint=path)
    assert loop.run().n_learned == 80


def test_runs_off_the_main_thread(tmp_path):
    summaries = []
    loop = EventLoop(datasets.Phishing(), pipeline(), checkpoint=tmp_path / "c")
    thread = threading.Thread(target=lambda: summaries.append(loop.run()))
    thread.start()
    thread.join()
    assert summaries[0].n_learned == 1250


class Losing(base.Regressor):
    """Loses its sample's target, and keeps the sum, as fwonline's estimators do."""

    def __init__(self):
        self.cumulative_loss, self.n_samples = 100.0, 10  # what it was merged of

    def learn_one(self, x, y):
        self.cumulative_loss += y
        self.n_samples += 1

    def predict_one(self, x):
        return 0.0


def test_a_report_has_the_mean_loss_since_the_last_and_what_checkpoints_took(tmp_path):
    class Reports(Observer):
        def __init__(self):
            self.seen = []

        def on_report(self, report):
            self.seen.append(report.to_dict())

    reports = Reports()
    items = [({"a": 1.0}, float(y)) for y in (1, 2, 3, 6)]
    EventLoop(items, Losing(), observers=[reports], report_samples=2).run()
    assert [row.get("loss") for row in reports.seen] == [1.5, 4.5, None]  # the last one, of no sample
    assert "n_rebalances" not in reports.seen[0]

    reports = Reports()
    EventLoop(items, linear_model.LinearRegression(), [], [], tmp_path / "c", observers=[reports]).run()
    assert reports.seen[0]["n_checkpoints"] == 1
    assert reports.seen[-1]["n_checkpoints"] == 2
    assert 0 < reports.seen[0]["checkpoint_seconds"] < reports.seen[-1]["checkpoint_seconds"]
