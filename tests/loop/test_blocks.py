"""Rows in blocks and rows one by one: the same models, predictions, rejects, reports and checkpoints, to the bit."""

import dataclasses
import math
import random
import signal
import time

import numpy as np
import pytest
from river import compose, linear_model, metrics, preprocessing
from scipy import sparse
from support.block_loops import BlockSource, ByRows, dicts_of

from fwonline import optim, sets
from fwonline.checkpoint import Checkpoint, codec
from fwonline.exceptions import SampleError
from fwonline.linear_model import FWClassifier, FWRegressor
from fwonline.loop import EventLoop, Observer
from fwonline.loop._guard import Guard
from fwonline.loop.blocks.rows import clean_rows
from fwonline.monitors import Gap, Metric, Monitor
from fwonline.stream import CSVSource, JSONLinesSink, Rejected, Sample
from fwonline.stream.block import Block


class Sum(Monitor):
    """Adds targets and predictions, and takes so many together at most."""

    def __init__(self, most=math.inf):
        self.most = most
        self.total, self.n = 0.0, 0

    def update(self, y_true=None, y_pred=None, *, x=None, model=None):
        self.update_many(np.array([y_true]), np.array([y_pred]))

    def most_together(self):
        return self.most - self.n % self.most if self.most < math.inf else math.inf

    def update_many(self, y_true, y_pred, *, model=None):
        assert len(y_true) == len(y_pred) <= self.most_together()
        self.n += len(y_true)
        for y, p in zip(y_true.tolist(), y_pred.tolist(), strict=True):
            self.total += float(y) * 0.9 + float(p)

    def get(self):
        return {"sum": self.total, "n_seen": self.n}

    def _text(self):
        return str(self.total)


codec.register(Sum)


class Log(Observer):
    def __init__(self):
        self.road, self.reports, self.rejected, self.saved = None, [], [], []

    def on_start(self, start):
        self.road = start.road

    def on_report(self, report):
        kept = dataclasses.asdict(report)
        self.reports.append({key: kept[key] for key in kept if key not in ("elapsed", "rate", "checkpoint_seconds")})

    def on_rejected(self, rejected, reason):
        self.rejected.append((rejected.to_record(), reason))

    def on_checkpoint(self, path, n):
        self.saved.append(n)


def regressor():
    return ByRows(preprocessing.StandardScaler() | linear_model.LinearRegression())


def rows(n, seed=0, width=4):
    rng = random.Random(seed)
    for _ in range(n):
        x = {f"x{j}": rng.gauss(0.0, 1.0) for j in range(width)}
        yield x, x["x0"] - 2 * x["x1"] + rng.gauss(0.0, 0.1)


def with_all_kinds(n, seed=0):
    """Rows among which is everything that a loop may meet."""
    rng = random.Random(seed)
    asked = 0
    for i, (x, y) in enumerate(rows(n, seed)):
        kind = rng.randrange(40)
        if kind == 0:
            yield {**x, "x1": rng.choice([math.nan, math.inf, 1e101, 1e300])}, y
        elif kind == 1:
            yield x, rng.choice([math.nan, None, "text", 1e200, True, 3, 2**70])
        elif kind == 2:
            yield {**x, "x2": rng.choice([None, "text", True, 2, 10**400])}, y
        elif kind == 3:
            yield {**x, "x3": rng.choice([1e6, -2e6, 3e7, 1e5])}, y
        elif kind == 4:
            yield Rejected(b"broken", f"rows:{i}: broken", f"rows:{i}")
        elif kind == 5:
            yield {}, y
        elif kind == 6:
            asked += 1
            yield Sample(x, None, f"q{asked}", float(i))
        elif kind in (7, 8, 9):
            yield Sample({}, y, f"q{rng.randrange(max(asked - 2, 0), asked + 1)}", float(i))
        elif kind == 10:
            yield Sample(x, y, f"k{i}", rng.choice([float(i), math.nan]))
        elif kind == 11:
            yield dict(reversed(x.items())), y
        elif kind == 12:
            yield {**x, "new": 1.0}, rng.choice([y, 1e7, -3e8])
        else:
            yield x, y


STREAMS = {
    "clean": lambda: list(rows(200)),
    "all kinds": lambda: list(with_all_kinds(300)),
    "other kinds": lambda: list(with_all_kinds(300, seed=1)),
    "sparse": lambda: [({int(k[1]): v for k, v in x.items() if abs(v) > 0.7}, y) for x, y in rows(150)],
    "empty": list,
}
# Rows of a block, and the loop's options.
OPTIONS = {
    "plain": (4096, {"checkpoint_samples": 10**6}),
    "by tens": (16, {"report_samples": 10, "checkpoint_samples": 37}),
    "unchecked": (4096, {"check_values": False, "checkpoint_samples": 10**6}),
    "expiring": (7, {"expire_items": 5, "max_early": 3, "checkpoint_samples": 90}),
}


def outcome(folder, source, model, monitors, *, limits=(None,), roads=(True,), **options):
    """Everything that a run, or one that stops at limits and goes on, leaves; the roads are taken in turns."""
    folder.mkdir(exist_ok=True)
    seen = Log()
    for i, limit in enumerate(limits):
        seen.road = None
        loop = EventLoop(
            *(source(), model(), monitors(), [JSONLinesSink(folder / "predictions")]),
            checkpoint=folder / "checkpoint",
            observers=[seen],
            dead_letter=JSONLinesSink(folder / "rejected"),
            on_error="dead-letter",
            max_rejected_share=None,
            blocks=roads[i % len(roads)],
            **options,
        )
        error = None
        try:
            loop.run(limit)
        except Exception as raised:
            error = type(raised), str(raised)
        for sink in loop.outputs:
            sink.close()
        if error is not None:
            break
    state = Checkpoint(folder / "checkpoint").load()
    return {
        "error": error,
        "model": codec.dumps(loop.model),
        "monitors": repr([monitor.get() for monitor in loop.monitors]),
        "state": codec.dumps({key: state[key] for key in state if key not in ("written_by",)}),
        "counts": vars(loop.counts),
        "predictions": (folder / "predictions").read_bytes(),
        "rejected file": (folder / "rejected").read_bytes(),
        "reports": [repr(report) for report in seen.reports],
        "rejected": seen.rejected,
        "saved": seen.saved,
    }, seen.road


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("options", OPTIONS)
def test_both_roads_lead_to_the_same(tmp_path, stream, options):
    items = STREAMS[stream]()
    most, options = OPTIONS[options]

    def source():
        return BlockSource(items, most, is_sparse=stream == "sparse")

    def monitors():
        return [Sum(), Sum(5)]

    n = len(items)
    by_rows, road = outcome(tmp_path / "rows", source, regressor, monitors, roads=(False,), **options)
    assert str(road) == "rows come one by one: blocks = false"
    in_blocks, road = outcome(tmp_path / "blocks", source, regressor, monitors, **options)
    assert str(road) == "rows come in blocks"
    limits = (n // 7, n // 3, n // 3 + 1, n // 2, None)
    in_turns, _ = outcome(
        tmp_path / "turns", source, regressor, monitors, limits=limits, roads=(True, False), **options
    )
    for part, expected in by_rows.items():
        if part == "counts" and by_rows["error"] is not None:
            continue  # where a model fails, they are of the last look
        assert in_blocks[part] == expected, part
        if part not in ("reports", "saved", "state"):
            assert in_turns[part] == expected, part


# What may stand in a file where a number, a target, a row, a byte is expected.
ODD_CELLS = [
    "",
    " ",
    "nan",
    "-inf",
    "1e400",
    "1e101",
    "2e6",
    "-3e7",
    "5e-324",
    "text",
    '"1.5"',
    '"a,b"',
    '"a\nb"',
    '"',
    "1_0",
]
ODD_CELLS += [
    " 1.5",
    "+1",
    "-0",
    "0x1",
    ".5",
    "5.",
    "9007199254740993",
    "true",
    "\u0663",
    "\x00",
    "1,5",
    "1e5",
    "00012",
]
ODD_TARGETS = ["", "nan", "text", "2", "-1", "1e200", "3e8", '"1"', " 1", "1.0", "true", "no", "9007199254740993", "0"]
ODD_LINES = ["", "   ", "1.0", "x0,x1,x2,y", '"unclosed,1,2,3', ",,,", "1,2,3,4,5", "1,2,3,"]


def csv_text(draw, n, share):
    """Rows of which a share is odd in some way; `draw` is what targets are drawn from."""
    rng = random.Random(n)
    lines = ["x0,x1,x2,y"]
    for _ in range(n):
        cells = [repr(round(rng.gauss(0.0, 1.0), rng.randrange(1, 17))) for _ in range(3)] + [rng.choice(draw)]
        if rng.random() < share:
            kind = rng.randrange(4)
            cells[rng.randrange(3)] = rng.choice(ODD_CELLS) if kind < 2 else cells[0]
            cells[3] = rng.choice(ODD_TARGETS) if kind == 2 else cells[3]
            lines.append(rng.choice(ODD_LINES) if kind == 3 else ",".join(cells))
        else:
            lines.append(",".join(cells))
    return "\n".join(lines)


def real_regressor():
    return FWRegressor(sets.L1Ball(3.0), optim.SFW(), seed=1, intercept=False)


def real_classifier():
    return FWClassifier(sets.L1Ball(3.0), optim.SFW(), seed=1, intercept=False)


def scaled_regressor():
    final = preprocessing.TargetStandardScaler(FWRegressor(sets.L1Ball(3.0), optim.SFW(), seed=1))
    return preprocessing.MinMaxScaler() | final


def scaled_classifier():
    return preprocessing.StandardScaler() | real_classifier()


FILES = {
    "numbers": (["1.5", "-2.25", "0.125"], real_regressor, lambda: [Metric(metrics.MAE() + metrics.R2()), Gap()]),
    "whole numbers, too": (["1", "1.5", "0", "-3"], real_regressor, lambda: [Metric(metrics.RMSE())]),
    "labels": (["0", "1"], real_classifier, lambda: [Metric(metrics.Accuracy())]),
    "texts": (["yes", "no"], real_classifier, lambda: [Metric(metrics.Accuracy())]),
    "scaled": (["1.5", "-2.25", "7"], scaled_regressor, lambda: [Metric(metrics.RMSE())]),
    "scaled labels": (["1", "0"], scaled_classifier, lambda: [Metric(metrics.Accuracy())]),
    "probabilities": (["true", "0"], real_classifier, lambda: [Metric(metrics.CrossEntropy())]),
}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("share", [0.01, 0.2])
def test_both_roads_through_a_file_lead_to_the_same(tmp_path, file, share):
    draw, model, monitors = FILES[file]
    converters = {"y": "bool"} if draw[0] in ("true", "yes") else "auto"
    n = 900 if share < 0.1 else 250
    (tmp_path / "rows.csv").write_bytes(csv_text(draw, n, share).encode())

    def source():
        return CSVSource(tmp_path / "rows.csv", target="y", converters=converters, require_target=file != "numbers")

    options = {"report_samples": 50, "checkpoint_samples": 211, "check_values": file != "labels"}
    by_rows, road = outcome(tmp_path / "rows", source, model, monitors, roads=(False,), **options)
    in_blocks, road = outcome(tmp_path / "blocks", source, model, monitors, **options)
    assert road.in_blocks
    for part, expected in by_rows.items():
        assert in_blocks[part] == expected, part
    limits = (n // 5, n // 2, n // 2 + 1, None)
    # A quote that is never closed may be torn, and is read again by the next run on either road.
    stopped, _ = outcome(tmp_path / "stopped", source, model, monitors, limits=limits, roads=(False,), **options)
    in_turns, _ = outcome(tmp_path / "turns", source, model, monitors, limits=limits, roads=(True, False), **options)
    for part, expected in stopped.items():
        assert in_turns[part] == expected, part


@pytest.mark.parametrize("blocks", [True, False])
def test_a_signal_ends_a_run_behind_the_slice_in_hand(blocks):
    class Slow(ByRows):
        """Takes a tenth of a millisecond a row, and asks for the end in the middle."""

        def learn_one(self, x, y):
            time.sleep(1e-4)
            heard.append(y)
            if len(heard) == 1000:
                signal.raise_signal(signal.SIGINT)

    heard = []
    items = list(rows(4000))
    source = BlockSource(items)
    loop = EventLoop(source, Slow(linear_model.LinearRegression()), blocks=blocks)
    summary = loop.run()
    assert summary.interrupted
    assert 1000 <= summary.n == source.position == len(heard) < 1000 + (500 if blocks else 1)
    assert loop.run().n == len(heard) == 4000
    assert heard == [y for _, y in items]


def test_rows_that_trickle_do_not_wait_for_others():
    class Trickle(BlockSource):
        """Gives what is there, two rows at a time."""

        def blocks(self, most=4096):
            for item in super().blocks(2):
                n_out.append(self.position)
                yield item

    class Seen(Sum):
        def update_many(self, y_true, y_pred, *, model=None):
            assert len(y_true) <= 2
            n_out.clear()
            super().update_many(y_true, y_pred, model=model)

    n_out = []
    loop = EventLoop(Trickle(list(rows(300))), regressor(), [Seen()])
    assert loop.run().n_learned == 300
    assert len(n_out) <= 2


def error_of(loop):
    try:
        loop.run()
    except SampleError as error:
        return str(error)
    return None


def test_a_bad_row_ends_the_run_and_the_next_one_begins_with_it(tmp_path):
    items = list(with_all_kinds(120, seed=3))

    def run(blocks):
        """Where the runs ended, each of which leaves out what ended it, and what the last one has learned."""
        ends, left = [], list(items)
        while True:
            folder = tmp_path / f"{blocks}{len(ends)}"
            loop = EventLoop(BlockSource(left), model := regressor(), [Sum()], checkpoint=folder, blocks=blocks)
            errors = [error_of(loop)]
            if errors[0] is None:
                return ends, codec.dumps([model, loop.monitors]), vars(loop.counts)
            errors.append(error_of(loop))  # the same loop, and one that resumes, begin with it
            resumed = EventLoop(BlockSource(left), regressor(), [Sum()], checkpoint=folder, blocks=not blocks)
            errors.append(error_of(resumed))
            ends.append((errors, *((one.counts.n, one.source.position) for one in (loop, resumed))))
            del left[loop.counts.n]

    assert run(blocks=True) == run(blocks=False)


TARGETS = {
    "number": [
        1.0,
        -2.5,
        0.0,
        3,
        -4,
        True,
        False,
        1e6,
        999999.0,
        -1e6,
        1e5,
        math.nan,
        math.inf,
        2**60,
        "a",
        None,
        10**400,
    ],
    "label": [1.0, 0, 0.0, True, False, 2, 3.0, -1, "a", "b", math.nan, 2**53 + 1, float(2**53), None, (1, "x"), [1]],
}
LABELS = [{0, 1}, {True, False}, {1.0, "a"}, {2**53, 3}, {"a", "b", (1, "x")}, set(range(-20, 30)), set(), {math.nan}]


@pytest.mark.parametrize("target", TARGETS)
def test_a_row_of_a_block_is_clean_only_where_the_sample_is(target):
    rng = random.Random(4)
    guard = Guard(regressor() if target == "number" else linear_model.LogisticRegression())
    numbers = [0.0, 1.0, -3.5, 1e5, -9.9e5, 999999.0, 1e6, 7e5, math.nan, math.inf, 1e200, 5e-324]
    found = 0
    for _ in range(1500):
        n, width = rng.randrange(1, 6), rng.randrange(4)
        few = numbers if rng.random() < 0.5 else numbers[:4]
        X = np.array([[rng.choice(few) for _ in range(width)] for _ in range(n)], dtype=float).reshape(n, width)
        guard.labels = rng.choice(LABELS)
        guard.targets = {(None, kind) for kind in rng.sample([float, int, bool], 2)}
        guard.features = rng.choice([set(), {("x", str)}])
        guard.target_size = rng.choice([1e6, 1e18, 1e101])
        drawn = [rng.choice(TARGETS[target]) for _ in range(n)]
        y = np.array([*drawn, None], dtype=object)[:-1]
        if rng.random() < 0.7:  # one type
            kind = rng.choice([float, int, bool])
            y = np.array([value for value in drawn if type(value) is kind and value != 10**400], dtype=kind)
            n, X = len(y), X[: len(y)]
        is_sparse = rng.random() < 0.5
        block = Block(sparse.csr_array(X) if is_sparse else X, y, list, None)
        block.taken = rng.randrange(n + 1)
        last = block.taken + clean_rows(guard, block, labels=guard.labels, check_values=True)
        for i, x in enumerate(dicts_of(block.X, None)):
            if block.taken <= i < last:
                assert x
                assert guard.is_clean(x, y.tolist()[i])
        found += last - block.taken
    assert found > 50


class Own(FWClassifier):
    def predict_one(self, x):
        return "its own"


class Watching(Sum):
    most_together = Monitor.most_together


class Foreign:
    def update(self, y_true, y_pred, *, x, model):
        pass

    def get(self):
        return {}

    def finish(self):
        pass


REASONS = [
    (linear_model.LogisticRegression, [], "LogisticRegression learns samples one by one"),
    (lambda: Own(sets.L1Ball(1.0)), [], "Own has a predict_one of its own, which no block goes through"),
    (lambda: FWClassifier(sets.L1Ball(1.0), max_names=5), [], "max_names=5: which features make room"),
    (lambda: compose.Select("a") | real_classifier(), [], "the step Select has no compiled form"),
    (lambda: preprocessing.StandardScaler() | linear_model.Perceptron(), [], "Perceptron learns samples one by one"),
    (real_classifier, [Watching()], "the monitor Watching looks at each sample"),
    (real_classifier, [Foreign()], "the monitor Foreign looks at each sample"),
]


@pytest.mark.parametrize(("model", "monitors", "why"), REASONS)
def test_says_what_keeps_rows_from_blocks(model, monitors, why):
    model = model()
    for blocks, said in ((True, why), (False, "blocks = false")):
        loop = EventLoop(BlockSource([]), model, monitors, blocks=blocks, observers=[seen := Log()])
        loop.run()
        assert str(seen.road).startswith(f"rows come one by one: {said}")
        assert seen.road.is_slower == blocks


def test_targets_are_not_kept_as_labels():
    items = [(x, 7 if i % 30 == 9 else y) for i, (x, y) in enumerate(rows(200))]
    loop = EventLoop(BlockSource(items), regressor(), check_values=False)
    assert loop.run().n_learned == 200
    assert not loop._learner._met


class Never(Sum):
    def most_together(self):
        return 0

    def update_many(self, y_true, y_pred, *, model=None):
        self.n += len(y_true)


def test_a_monitor_that_takes_no_sample_gets_one():
    loop = EventLoop(BlockSource(list(rows(50))), regressor(), [Never()])
    assert loop.run().monitors["n_seen"] == 50
