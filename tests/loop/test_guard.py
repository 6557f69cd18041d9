"""No message can ruin a model for those that follow it."""

import copy
import math
from decimal import Decimal

import numpy as np
import pytest
from river import compose, feature_extraction, linear_model, metrics, preprocessing, stats

from fwonline import sets
from fwonline.exceptions import SampleError
from fwonline.linear_model import FWClassifier, FWRegressor
from fwonline.loop import EventLoop, _trial
from fwonline.monitors import Metric
from fwonline.stream import CallbackSink, JSONLinesSink, Sample


def regressor():
    return FWRegressor(sets.L1Ball(5.0), seed=1, intercept=False)


def good(n, start=0):
    return [({"a": math.sin(i), "b": math.cos(3.0 * i)}, math.sin(i)) for i in range(start, start + n)]


# Each was learned, or ended the run, or made what followed it unlearnable.
HOSTILE = {
    "one huge": {"a": 1e200, "b": 1.0},
    "huge and cancelling": {"a": 1e200, "b": -1e200},
    "just too large": {"a": 1.0000001e100, "b": 1.0},
    "whole": {"a": 10**101, "b": 1},
    "beyond floats": {"a": 10**5000, "b": 1},
    "the largest float": {"a": 1.7e308, "b": -1.7e308},
    "infinities that cancel": {"a": math.inf, "b": -math.inf},
    "nan behind a number": {"a": 1.0, "b": math.nan},
    "numpy": {"a": np.float64(1e200), "b": 1.0},
    "single": {"a": np.float32("inf"), "b": 1.0},
    "longer than a double": {"a": np.longdouble("1e400"), "b": 1.0},
    "decimal": {"a": Decimal("1e200"), "b": 1.0},
    "decimal nan": {"a": Decimal("nan"), "b": 1.0},
    "decimal that signals": {"a": Decimal("snan"), "b": 1.0},
    "nested": {"a": [1.0, {"c": (1e200, 2)}], "b": 1.0},
    "an array": {"a": np.array([1.0, np.nan]), "b": 1.0},
    "complex": {"a": complex(math.nan, 1.0), "b": 1.0},
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("place", [0, 1, 30])
def test_numbers_that_are_too_large_are_refused_before_the_pipeline(name, place):
    model, twin = preprocessing.StandardScaler() | regressor(), preprocessing.StandardScaler() | regressor()
    items = good(60)
    summary = EventLoop([*items[:place], (HOSTILE[name], 1.0), *items[place:]], model, on_error="skip").run()
    EventLoop(items, twin).run()
    assert summary.n_rejected == {"features": 1}
    assert summary.n_learned == 60
    assert model["FWRegressor"].weights == twin["FWRegressor"].weights
    assert all(map(math.isfinite, model["StandardScaler"].vars.values()))


# What came through JSON lines, CSV or a broker, and went through some part of a pipeline without complaint.
MESSAGES = [
    *({"a": 1e200, "b": 1.0}, {"a": 1e100, "b": -1e100}, {"a": 1e77, "b": 1e77}, {"a": 1e30, "b": 1.0, "c": "x"}),
    *({"a": 5e-324, "b": -5e-324}, {"a": 1e-160, "b": 1e-160}, {"a": -0.0, "b": 0}, {"a": 10**100, "b": 10**99}),
    *({"a": True, "b": False}, {"a": "text", "b": 1.0}, {"a": "1e400", "b": "nan"}, {"a": None, "b": 1.0}),
    *({"a": [1.0, 2.0], "b": {"x": 1}}, {"c": 5}, {"c": ["x", "y"], "a": 1.0, "b": 2.0}, {"c": None}, {}, {"z": 1e99}),
]
TARGETS = [1e100, -1e100, 1e77, 10**100, 1e308, math.nan, "text", True, None, [1.0], {}, 5e-324]
WORDS = compose.Select("c") | preprocessing.OneHotEncoder()
SCALED = compose.Select("a", "b") | preprocessing.StandardScaler()
PIPELINES = {
    "bare": regressor,
    "standard": lambda: preprocessing.StandardScaler() | regressor(),
    "min max": lambda: preprocessing.MinMaxScaler() | regressor(),
    "max abs": lambda: preprocessing.MaxAbsScaler() | regressor(),
    "robust": lambda: preprocessing.RobustScaler() | regressor(),
    "adaptive": lambda: preprocessing.AdaptiveStandardScaler() | regressor(),
    "normalizer": lambda: preprocessing.Normalizer() | preprocessing.StandardScaler() | regressor(),
    "products": lambda: feature_extraction.PolynomialExtender(2) | preprocessing.StandardScaler() | regressor(),
    "fifth powers": lambda: feature_extraction.PolynomialExtender(5) | preprocessing.MinMaxScaler() | regressor(),
    "imputer": lambda: preprocessing.PreviousImputer() | preprocessing.StandardScaler() | regressor(),
    "words": lambda: (copy.deepcopy(WORDS) + copy.deepcopy(SCALED)) | regressor(),
    "bag of words": lambda: (feature_extraction.BagOfWords(on="c") + copy.deepcopy(SCALED)) | regressor(),
    "topics": lambda: (
        compose.Select("c") | feature_extraction.BagOfWords(on="c") | preprocessing.LDA(2, seed=1) | regressor()
    ),
    "fourth moments": lambda: (
        feature_extraction.Agg(on="a", by="c", how=stats.Kurtosis()) + copy.deepcopy(SCALED) | regressor()
    ),
    "targets": lambda: (
        feature_extraction.TargetAgg(by="c", how=stats.Var()) + copy.deepcopy(SCALED)
        | preprocessing.StandardScaler()
        | regressor()
    ),
    "scaled target": lambda: preprocessing.TargetStandardScaler(
        regressor=compose.Select("a", "b") | preprocessing.StandardScaler() | linear_model.LinearRegression()
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("place", [0, 1, 10])
def test_every_good_sample_behind_a_hostile_one_is_learned(name, place):
    wordy = name in ("words", "bag of words", "topics", "fourth moments", "targets")
    items = [({**x, "c": "xyz"[i % 3]} if wordy else x, y) for i, (x, y) in enumerate(good(16))]
    hostile = [(x, 1.0) for x in MESSAGES] + [(items[0][0], y) for y in TARGETS]
    for bad in hostile:
        model, rejected = PIPELINES[name](), []
        letters = CallbackSink(rejected.append)
        items_and_one = [*items[:place], bad, *items[place:]]
        summary = EventLoop(items_and_one, model, on_error="dead-letter", dead_letter=letters).run()
        assert {record["origin"] for record in rejected} <= {f"list#{place + 1}"}, bad
        assert summary.n_learned >= 16
        assert math.isfinite(model.predict_one(items[0][0]))


def test_what_overflows_with_the_second_sample_is_known_with_the_first():
    # One sample has no variance: the square of 1e200 meets the running mean when the next one comes.
    model = feature_extraction.PolynomialExtender(2) | preprocessing.StandardScaler() | regressor()
    items = good(20)
    loop = EventLoop([({"a": 1e100, "b": 1.0}, 1.0), *items], model, on_error="skip")
    summary = loop.run()
    assert summary.n_rejected == {"model": 1}
    assert loop._learner.guard.n_failed == 1
    assert all(map(math.isfinite, model["StandardScaler"].vars.values()))


def test_large_numbers_that_the_model_can_take_are_learned_after_one_trial_for_each_power_of_ten(copies):
    rng = np.random.default_rng(1)
    items = [({"mass": float(10 ** rng.uniform(20, 30)), "b": 1.0}, float(10 ** rng.uniform(8, 9))) for _ in range(300)]
    summary = EventLoop(items, preprocessing.StandardScaler() | regressor()).run()
    assert summary.n_learned == 300
    assert len(copies) <= 2 * 12


def test_a_sample_that_only_learning_can_mend_is_learned_and_not_scored():
    # A scaler that has seen nothing but 1e-320 makes infinity out of what follows, for ever, unless it learns that.
    model = preprocessing.MaxAbsScaler() | regressor()
    scores = Metric(metrics.MAE())
    summary = EventLoop([({"a": 5e-324, "b": 1.0}, 1.0), *good(20)], model, [scores], on_error="skip").run()
    assert summary.n_rejected == {}
    assert (summary.n_learned, summary.n_predicted) == (21, 20)
    assert math.isfinite(scores.metric.get())


@pytest.fixture
def copies(monkeypatch):
    """One entry for each copy of the model that a trial made."""
    made = []

    class Counted(_trial._Trial):
        def __init__(self, model):
            made.append(type(model).__name__)
            super().__init__(model)

    monkeypatch.setattr(_trial, "_Trial", Counted)
    return made


def test_the_same_bad_kind_is_tried_less_and_less(copies):
    items = good(4000)
    items[10:] = [item if i % 3 else ({"a": "text", "b": 1.0}, 1.0) for i, item in enumerate(items[10:])]
    loop = EventLoop(items, preprocessing.StandardScaler() | regressor(), on_error="skip")
    loop.run()
    assert loop.counts.n_rejected["model"] == len(copies) == 6  # items 11, 113, 314, ...: 100 items later, 200, 400
    assert loop.counts.n_rejected["untried"] == 1330 - 6


def test_ever_new_bad_kinds_cannot_copy_the_model_without_a_limit_and_a_good_one_gets_its_turn(copies):
    words = compose.FuncTransformer(lambda x: {"c": x.get("c", "")}) | preprocessing.OneHotEncoder()
    model = words + (compose.Discard("c") | preprocessing.StandardScaler()) | regressor()
    items = []
    for i, pair in enumerate(good(3000)):
        items += [pair, ({"a": 1.0, f"x{i}": "text"}, 1.0)]
        if i > 500 and i % 10 == 0:
            items.append(({**pair[0], "c": "word"}, pair[1]))  # rare, late and good
    loop = EventLoop(items, model, on_error="skip", max_rejected_share=None)
    summary = loop.run()
    assert len(copies) <= 100 + len(items) // 1000 + 3000 // 100
    assert loop._learner.guard.features == {("c", str)}
    # Good ones all, but for those with words that came before the hundredth.
    assert 3000 + 250 - 100 <= summary.n_learned < 3250
    assert len(loop._learner.guard.failed) + len(loop._learner.guard.waiting) < 3000


def test_memory_of_kinds_is_bounded(monkeypatch):
    monkeypatch.setattr("fwonline.loop._guard._MOST_KEPT", 10)
    model = preprocessing.StandardScaler() | regressor()
    items = [*good(3), *(({f"x{i}": "text"}, 1.0) for i in range(300)), *good(300)]
    loop = EventLoop(items, model, on_error="skip", max_rejected_share=None)
    assert loop.run().n_learned == 303
    assert len(loop._learner.guard.failed) == len(loop._learner.guard.waiting) == 10


def test_what_was_tried_is_in_the_checkpoint(tmp_path, copies):
    def make():
        words = compose.Select("c") | preprocessing.OneHotEncoder()
        return (words + (compose.Select("a", "b") | preprocessing.StandardScaler())) | FWClassifier(
            sets.L1Ball(5.0), seed=1, intercept=False
        )

    items = [({**x, "c": "xyz"[i % 3]}, y > 0) for i, (x, y) in enumerate(good(60))]
    for i in range(7, 60, 5):
        items[i][0]["a"] = "text" if i % 2 else 10.0 ** (i // 2)
    items[20] = (items[20][0], "a third class")
    whole = EventLoop(items, make(), on_error="skip")
    whole.run()
    n_copies = len(copies)
    copies.clear()
    for limit in (*range(1, 60, 3), None):
        part = EventLoop(items, make(), on_error="skip", checkpoint=tmp_path / "c")
        part.run(limit)
    assert len(copies) == n_copies
    assert part._learner.guard.state() == whole._learner.guard.state()
    assert part.counts.n_rejected == whole.counts.n_rejected
    assert part.model["FWClassifier"].weights == whole.model["FWClassifier"].weights


@pytest.mark.parametrize("time", [math.nan, math.inf, 10**400, "noon"])
def test_a_time_that_is_none_does_not_stop_the_clock_of_questions(time):
    items = [
        Sample({"a": 1.0}, None, key=1, time=0.0),
        Sample({"a": 1.0}, None, key=2, time=time),
        Sample({"a": 1.0}, None, key=3, time=100.0),
    ]
    summary = EventLoop(items, regressor(), on_error="skip", expire_seconds=50.0).run()
    assert summary.n_rejected == {"time": 1}
    assert (summary.n_expired, summary.n_pending) == (1, 1)


@pytest.mark.parametrize("time", [math.nan, "noon"])
def test_a_run_that_a_time_ended_begins_again_with_it(time, tmp_path):
    items = [*good(3), Sample({"a": 1.0}, None, key=1, time=time)]
    for _ in range(2):
        with pytest.raises(SampleError, match="the event time is"):
            EventLoop(items, regressor(), checkpoint=tmp_path / "c").run()


@pytest.mark.parametrize("place", [0, 1, 7, 8])
@pytest.mark.parametrize("time", [1e300, 4e9, -1e300, 10**200])
def test_a_wrong_clock_does_not_give_up_the_questions_of_others(place, time, tmp_path):
    items = []
    for i in range(20):
        items += [Sample({"a": 1.0}, None, key=i, time=10.0 * i), Sample({}, 1.0, key=i, time=10.0 * i + 5)]
    items.insert(20, Sample({"a": 1.0}, None, key="never answered", time=100.0))
    items.insert(2 * place, Sample({"a": 1.0}, None, key="wrong", time=time))
    options = {"on_error": "skip", "expire_seconds": 20.0, "checkpoint": tmp_path / "c"}
    for limit in (*range(1, 2 * place + 4), None):
        summary = EventLoop(items, regressor(), **options).run(limit)
    assert summary.n_learned == 20
    assert (summary.n_pending, summary.n_expired, summary.n_rejected) == (0, 2, {})


def test_a_clock_that_jumps_and_stays_there_counts():
    def ask(key, time):
        return Sample({"a": 1.0}, None, key=key, time=time)

    year = 3e7  # the stream of last year, and the stream of this
    items = [ask(1, 0.0), ask(2, 1.0), ask(3, year), ask(4, year + 1.0), Sample({}, 1.0, key=3, time=year + 2.0)]
    summary = EventLoop(items, regressor(), expire_seconds=20.0).run()
    assert (summary.n_learned, summary.n_pending, summary.n_expired) == (1, 1, 2)


def test_a_key_that_cannot_be_looked_up_is_rejected():
    items = [*good(3), Sample({"a": 1.0}, None, key=([1],)), Sample({"a": 1.0}, 1.0, key=([1],)), *good(3)]
    summary = EventLoop(items, regressor(), on_error="skip").run()
    assert summary.n_rejected == {"key": 1}
    assert summary.n_learned == 7


def test_what_cannot_be_written_out_is_rejected_all_the_same(tmp_path):
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    items = [*good(5), ({"a": 10**5000}, 1.0), ({"a": deep}, 1.0), *good(5)]
    with JSONLinesSink(tmp_path / "bad.jsonl") as sink:
        summary = EventLoop(items, regressor(), on_error="dead-letter", dead_letter=sink).run()
    assert summary.n_rejected == {"features": 1, "model": 1}
    assert len((tmp_path / "bad.jsonl").read_text().splitlines()) == 2
