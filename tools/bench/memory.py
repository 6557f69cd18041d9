"""Memory while a long stream is learned, in a process of its own: `python -m tools.bench.memory NAME MARK ...`."""

from __future__ import annotations

import gc
import json
import pickle
import resource
import subprocess
import sys
import typing
from pathlib import Path

from tools.bench.report import Comparison, Settings, Table

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["run"]

OPTIMIZERS = ("OneSampleFW", "SFW")
FEATURES, PRESENT = 1000, 30
# Pages of the interpreter come and go; this is a quarter of what keeping a single float of each sample would take.
FLAT = 2 << 20


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """Resident memory and the pickled model, at the first mark and at the last."""
    marks = (1_000, 5_000) if settings.quick else (10_000, 100_000, 1_000_000)
    rows = []
    for name in OPTIMIZERS:
        answer = subprocess.run(
            [sys.executable, "-m", "tools.bench.memory", name, *map(str, marks)],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
        )
        seen = json.loads(answer.stdout)
        rows += [(name, f"{mark:,}", f"{rss / 2**20:.2f} MiB", f"{size:,} bytes") for mark, rss, size in seen]
        (_, rss_first, size_first), (_, rss_last, size_last) = seen[0], seen[-1]
        yield Comparison(
            f"memory of the process, {name}, after {marks[-1]:,} samples",
            f"{rss_last / 2**20:.1f} MiB",
            f"itself after {marks[0]:,}",
            f"{rss_first / 2**20:.1f} MiB",
            f"{(rss_last - rss_first) / 2**20:+.2f} MiB",
            f"at most {FLAT / 2**20:g} MiB more",
            rss_last - rss_first <= FLAT,
        )
        yield Comparison(
            f"the model as bytes, {name}, after {marks[-1]:,} samples",
            f"{size_last:,}",
            f"itself after {marks[0]:,}",
            f"{size_first:,}",
            f"{size_last / size_first:.3f}",
            "at most 1.1",
            size_last <= 1.1 * size_first,
        )
    yield Table(
        "memory",
        ("optimizer", "samples", "resident", "pickled model"),
        rows,
        (f"learn_one on dicts of about {PRESENT} of {FEATURES:,} features, simulated, seed 0; SFW(memory=1000)",),
    )


def _measure(name: str, marks: list[int]) -> list[tuple[int, int, int]]:
    from fwonline import datasets, linear_model, optim, sets

    stream = datasets.SparseLinear(
        classification=True, n_features=FEATURES, density=PRESENT / FEATURES, noise=1.0, seed=0
    )
    optimizer = {"OneSampleFW": optim.OneSampleFW, "SFW": lambda: optim.SFW(memory=1000)}[name]()
    model = linear_model.FWClassifier(sets.L1Ball(10.0), optimizer, seed=0, intercept=False)
    seen = []
    for count, (x, y) in enumerate(stream.take(marks[-1]), start=1):
        model.learn_one(x, y)
        if count in marks:
            size = len(pickle.dumps(model))
            gc.collect()
            seen.append((count, _resident(), size))
    return seen


def _resident() -> int:
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    # Elsewhere the most there ever was, in KiB, or in bytes on macOS.
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], [int(mark) for mark in sys.argv[2:]])))
