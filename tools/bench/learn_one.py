"""``learn_one`` on dicts, beside river's LogisticRegression without and with an l1 penalty."""

from __future__ import annotations

import typing

import numpy as np
from river import linear_model as river_linear

from fwonline import linear_model, optim, sets
from tools.bench.clock import interleaved, stopwatch
from tools.bench.report import Comparison, Settings, Table, faster
from tools.papers import data

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Samples = list[tuple[dict, bool]]

__all__ = ["run"]

# Ours has an intercept as river's has. The default takes several steps a sample where the others take one.
DEFAULT = "default (several steps)"
OURS: dict[str, Callable[[], typing.Any]] = {
    DEFAULT: lambda: linear_model.FWClassifier(sets.L1Ball(100.0), intercept=True),
    "OneSampleFW": lambda: linear_model.FWClassifier(sets.L1Ball(100.0), optim.OneSampleFW(), intercept=True),
    "SFW(1000)": lambda: linear_model.FWClassifier(sets.L1Ball(100.0), optim.SFW(memory=1000), intercept=True),
}
# New words of a sample.
NEW = 75
PLAIN, L1 = "river LogisticRegression()", "river LogisticRegression(l1=1e-4)"
RIVER: dict[str, Callable[[], typing.Any]] = {
    PLAIN: river_linear.LogisticRegression,
    L1: lambda: river_linear.LogisticRegression(l1=1e-4),
}


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """Features already seen, as they mostly are in a stream that runs; and those of a stream that begins."""
    size, repeats = (100, 2) if settings.quick else (1000, 15)
    documents = data.rcv1(settings.quick, size) if settings.quick else data.rcv1()
    n, d = documents.X.shape
    sparse_name = f"sparse dict, {documents.X.nnz / n:.0f} of {d:,}"
    cases = [
        (sparse_name, _documents(documents, size), 1.5, 6.0),
        ("dense dict, 30 features", _dense(size, 30), 1.5, 5.0),
        ("dense dict, 100 features", _dense(size, 100), 2.0, 8.0),
    ]
    for name, samples, plain, l1 in cases:
        yield from _case(f"learn_one, {name}", samples, repeats, {PLAIN: plain, L1: l1}, passes=1)
    yield from _case(f"learn_one, {sparse_name}, features new", cases[0][1], repeats, {PLAIN: None, L1: None}, passes=0)
    unseen = f"{NEW} words a sample that none had before"
    cases.append((unseen, _unseen(size), 1.0, 1.0))
    yield from _case(f"learn_one, {unseen}", cases[-1][1], repeats, {PLAIN: None, L1: None}, passes=0)
    yield Table(
        "learn_one: setting",
        ("case", "samples", "repeats"),
        [(name, len(samples), repeats) for name, samples, *_ in cases],
        (
            f"sparse: {documents.name}, keys are strings; dense: standard normal, seed 0",
            "a fresh model a turn, which has seen the samples once before it is timed on them again; "
            "'features new', 'none had before': timed on the first sight of them",
            "l1 ball of 100, log loss; models of both libraries learn an intercept; "
            "times are those of a sample, the calls in a loop",
        ),
    )


def _case(
    measure: str, samples: Samples, repeats: int, wanted: dict[str, float | None], passes: int
) -> Iterator[Comparison]:
    contenders = {name: _contender(make, samples, passes) for name, make in (OURS | RIVER).items()}
    times = interleaved(contenders, repeats)
    for ours in OURS:
        for peer, at_least in wanted.items():
            yield faster(
                f"{measure}: {ours}",
                times.median(ours),
                peer,
                times.median(peer),
                times.ratio(peer, ours),
                None if ours == DEFAULT else at_least,
            )


def _contender(make: Callable[[], typing.Any], samples: Samples, passes: int) -> Callable[[], float]:
    def contend() -> float:
        model = make()
        for _ in range(passes):
            for x, y in samples:
                model.learn_one(x, y)
        learn = model.learn_one
        with stopwatch() as seconds:
            for x, y in samples:
                learn(x, y)
        return seconds() / len(samples)

    return contend


def _documents(documents: data.Data, size: int) -> Samples:
    X, y = documents.X, documents.y
    words = [f"w{j}" for j in range(X.shape[1])]
    return [
        (
            dict(
                zip(
                    [words[j] for j in X.indices[X.indptr[i] : X.indptr[i + 1]].tolist()],
                    X.data[X.indptr[i] : X.indptr[i + 1]].tolist(),
                    strict=True,
                )
            ),
            bool(y[i]),
        )
        for i in range(min(size, len(y)))
    ]


def _unseen(size: int) -> Samples:
    values = np.abs(np.random.default_rng(0).normal(size=(size, NEW))).tolist()
    return [({f"word {i * NEW + j}": v for j, v in enumerate(row)}, i % 3 == 0) for i, row in enumerate(values)]


def _dense(size: int, features: int) -> Samples:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(size, features))
    y = X @ rng.normal(size=features) + rng.logistic(size=size) > 0
    names = [f"x{j}" for j in range(features)]
    return [(dict(zip(names, row, strict=True)), label) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
