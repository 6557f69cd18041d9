"""SFW on a CSR matrix: beside copt's, a bare compiled loop, scikit-learn's SGD and Vowpal Wabbit's cached pass."""

from __future__ import annotations

import tempfile
import typing
from pathlib import Path

import numpy as np
from river.optim import losses

from fwonline import linear_model, optim, sets
from tools.bench import peers
from tools.bench.clock import Times, interleaved, stopwatch
from tools.bench.report import Comparison, Settings, Table, faster, skipped, within
from tools.papers import data

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["run"]

RADIUS = 100.0
COPT = 'copt minimize_sfw(variant="SAG", batch_size=1)'
BARE = "bare compiled sparse SGD loop"
SKLEARN = 'scikit-learn SGDClassifier(penalty="l1").partial_fit'
VOWPAL = "Vowpal Wabbit, cached pass"
OURS = "SFW batch 1"
# Steps of n / 100 samples: copt's variant, and the optimizer that takes the same steps.
BATCHES = {
    "SAG": ("SFW", lambda b: optim.SFW(memory=b, batch_size=b)),
    "MHK": ("MomentumFW by sample", lambda b: optim.MomentumFW(memory=b, batch_size=b)),
    "LF": ("LuFreundFW", lambda b: optim.LuFreundFW(memory=b, batch_size=b)),
}


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """One pass each; and copt's objective after as many gradients."""
    repeats, passes, seeds = (2, 2, 2) if settings.quick else (9, 2, 3)
    rows = data.rcv1(settings.quick)
    yield from _against_copt(rows, passes, seeds)
    yield from _batches_against_copt(rows, passes=1 if settings.quick else 30, repeats=1 if settings.quick else 5)
    yield from _against_loops(rows, repeats)
    yield Table(
        "learn_arrays: setting",
        ("data", "size", "ball", "repeats", "copt"),
        [(rows.name, rows.shape, f"l1, {RADIUS:g}", repeats, f"{passes} passes, seeds 0 to {seeds - 1}")],
        (
            "learn_arrays: from the user's CSR and labels to the end of one pass of FWClassifier(L1Ball, "
            "SFW(memory=1000)), checks and conversions included; times are those of a sample",
            "batches of n / 100: 30 passes of minimize, checks and conversions included, the same of copt's",
            "the objective is the mean log loss over all rows, its median over the seeds",
        ),
    )


def _model(memory: int) -> linear_model.FWClassifier:
    return linear_model.FWClassifier(sets.L1Ball(RADIUS), optim.SFW(memory=memory), seed=0, intercept=False)


def _learning(rows: data.Data, memory: int) -> Callable[[], float]:
    def contend() -> float:
        model = _model(memory)
        model.learn_arrays(rows.X[:10], rows.y[:10])
        with stopwatch() as seconds:
            model.learn_arrays(rows.X, rows.y)
        return seconds() / len(rows.y)

    return contend


def _minimised(
    rows: data.Data, passes: int, seed: int, optimizer: optim.Optimizer | None = None, batch_size: int = 1
) -> tuple[float, NDArray]:
    steps = passes * (len(rows.y) // batch_size)
    with stopwatch() as seconds:
        result = (optimizer or optim.SFW(batch_size=1)).minimize(
            rows.X, rows.y, loss=losses.Log(), constraint=sets.L1Ball(RADIUS), steps=steps, seed=seed
        )
    return seconds() / steps, result.x


def _objective(rows: data.Data, w: NDArray) -> float:
    z = rows.X @ w
    return float(np.mean(np.logaddexp(0.0, np.where(rows.y, -z, z))))


def _against_copt(rows: data.Data, passes: int, seeds: int) -> Iterator[Comparison]:
    measure = f"learn_arrays, {OURS}, l1 ball"
    learning = _learning(rows, len(rows.y))
    times: dict[str, list[float]] = {"learn": [], "minimize": [], COPT: []}
    values: dict[str, list[float]] = {"minimize": [], COPT: []}
    learning()
    _minimised(rows, 1, 0)
    try:
        for seed in range(seeds):
            for name, solve in (
                (COPT, lambda s: peers.copt_run(rows.X, rows.y, RADIUS, passes, s)),
                ("minimize", lambda s: _minimised(rows, passes, s)),
            ):
                seconds, w = solve(seed)
                times[name].append(seconds)
                values[name].append(_objective(rows, w))
            times["learn"].append(learning())
    except peers.Missing as error:
        yield skipped(measure, COPT, str(error))
        return
    clock = Times(times)
    for name, what in (("learn", measure), ("minimize", f"minimize, {OURS}, l1 ball")):
        yield faster(
            f"{what}: steps a second", clock.median(name), COPT, clock.median(COPT), clock.ratio(COPT, name), 60.0
        )
    ours, theirs = float(np.median(values["minimize"])), float(np.median(values[COPT]))
    yield Comparison(
        f"minimize, {OURS}: objective after {passes * len(rows.y):,} gradients",
        f"{ours:.4f}",
        COPT,
        f"{theirs:.4f}",
        f"{100 * (ours / theirs - 1):+.2f}%",
        "within 2%, or lower",
        ours <= 1.02 * theirs,
    )


def _batches_against_copt(rows: data.Data, passes: int, repeats: int) -> Iterator[Comparison]:
    """Steps of n / 100 samples, from the user's CSR to the result: all variants take turns."""
    b = max(2, len(rows.y) // 100)
    contenders: dict[str, Callable[[], float]] = {}
    for variant, (name, make) in BATCHES.items():
        contenders[variant] = lambda variant=variant: peers.copt_run(rows.X, rows.y, RADIUS, passes, 0, variant, b)[0]
        contenders[name] = lambda make=make: _minimised(rows, passes, 0, make(b), b)[0]
    try:
        times = interleaved(contenders, repeats)
    except peers.Missing as error:
        yield skipped("minimize, batches of n / 100", "copt minimize_sfw", str(error))
        return
    for variant, (name, _) in BATCHES.items():
        yield faster(
            f"minimize, {name}, batches of n / 100, l1 ball: steps a second",
            times.median(name),
            f'copt minimize_sfw(variant="{variant}")',
            times.median(variant),
            times.ratio(variant, name),
            8.0,
        )


def _against_loops(rows: data.Data, repeats: int) -> Iterator[Comparison]:
    measure = f"learn_arrays, {OURS}, memory 1000"
    contenders = {OURS: _learning(rows, 1000), BARE: peers.bare_pass(rows.X, rows.y)}
    missing = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, make in (
            (SKLEARN, lambda: peers.sklearn_pass(rows.X, rows.y)),
            (VOWPAL, lambda: peers.vowpal_pass(rows.X, rows.y, Path(folder))),
        ):
            try:
                contenders[name] = make()
            except peers.Missing as error:
                missing[name] = str(error)
        times = interleaved(contenders, repeats)
    for name, at_most in ((BARE, 4.0), (SKLEARN, 2.0), (VOWPAL, 1.0)):
        if name in missing:
            yield skipped(measure, name, missing[name])
        else:
            yield within(measure, times.median(OURS), name, times.median(name), times.ratio(OURS, name), at_most)
