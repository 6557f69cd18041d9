"""One run over a file with checkpoints, for the tests that kill it. Everything about it is deterministic."""

import sys
from pathlib import Path

import numpy as np
from river import linear_model, metrics, preprocessing

from fwonline.checkpoint import codec
from fwonline.loop import EventLoop
from fwonline.monitors import Metric
from fwonline.stream import CSVSource, JSONLinesSink


def write_stream(path: Path, n: int) -> None:
    """A stream with questions and answers, and one line in fifty that is no good."""
    rng = np.random.default_rng(3)
    with open(path, "w") as file:
        file.write("id,a,b,c,y\n")
        for i in range(n):
            a, b, c = rng.normal(size=3).round(6)
            y = int(a - 2 * b + 0.3 * rng.normal() > 0)
            if i % 50 == 17:
                file.write(f"{i},{a},nan,{c},{y}\n" if i % 100 == 17 else f"{i},{a},{b}\n")
            elif i % 10 == 3:
                file.write(f"{i},{a},{b},{c},\n")  # asked now,
            elif i % 10 == 8:
                late = i % 40 == 38  # answered five lines later, or too late and then of a question long gone
                file.write(f"{i - (25 if late else 5)},,,,{y}\n")
            else:
                file.write(f"{i},{a},{b},{c},{y}\n")


def write_rows(path: Path, n: int) -> None:
    """A stream of answered rows, one in fifty of which is no good."""
    rng = np.random.default_rng(3)
    with open(path, "w") as file:
        file.write("a,b,c,y\n")
        for i in range(n):
            a, b, c = rng.normal(size=3).round(6)
            y = int(a - 2 * b + 0.3 * rng.normal() > 0)
            bad = f"{a},nan,{c},{y}\n" if i % 100 == 17 else f"{a},{b}\n"
            file.write(bad if i % 50 == 17 else f"{a},{b},{c},{y}\n")


def make_loop(folder: Path, model=None, **options) -> EventLoop:
    """A loop over `stream.csv` beside the folder, with everything that a checkpoint must keep."""
    if model is None:
        model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    path = folder.parent / "stream.csv"
    asks = path.read_bytes().startswith(b"id,")
    roles: dict = {"key": "id", "require_target": False} if asks else {}  # of questions and answers
    source = CSVSource(path, target="y", converters="number", **roles)
    defaults = {
        "on_error": "skip",
        "dead_letter": JSONLinesSink(folder / "rejected.jsonl"),
        "expire_items": 4,
        **options,
    }
    return EventLoop(
        source,
        model,
        [Metric(metrics.ROCAUC() + metrics.Accuracy())],
        [JSONLinesSink(folder / "predictions.jsonl")],
        **{**defaults, **options},
    )


def result(loop: EventLoop) -> bytes:
    """All that was learned, to the bit."""
    *scalers, final = loop.model.steps.values() if hasattr(loop.model, "steps") else [loop.model]
    return codec.dumps(
        {
            "scalers": [(dict(scaler.counts), dict(scaler.means), dict(scaler.vars)) for scaler in scalers],
            "weights": dict(final.weights),
            "intercept": float(getattr(final, "intercept", 0.0)),
            "monitors": [monitor.get() for monitor in loop.monitors],
            "counts": {**vars(loop.counts), "n_rejected": dict(loop.counts.n_rejected)},
        }
    )


def run(folder: Path, model=None) -> None:
    """Run to the end, or until killed; the end leaves a file `result`."""
    loop = make_loop(folder, model, checkpoint=folder / "run.ckpt", checkpoint_samples=97)
    print("started", flush=True)
    summary = loop.run()
    for sink in loop.outputs:
        sink.close()
    if not summary.interrupted:
        (folder / "result").write_bytes(result(loop))
    print(summary, flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
