"""Regret of online Frank-Wolfe against rounds, where losses are a sample, chosen by an adversary, or jump.

E. Hazan, S. Kale, Projection-free Online Learning, https://arxiv.org/abs/1206.4657
E. Hazan, Introduction to Online Convex Optimization, chapter 7, https://arxiv.org/abs/1909.05207
D. Garber, B. Kretzu, New Projection-free Algorithms for Online Convex Optimization with Adaptive Regret Guarantees,
https://arxiv.org/abs/2202.04721
"""

from __future__ import annotations

import csv
import dataclasses
import typing

import numpy as np
from river.optim import losses

from fwonline import linear_model, optim, sets
from tools.papers import drawing

if typing.TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["LEARNERS", "STREAMS", "Learner", "Stream", "draw", "follow", "slope"]

DIFFERENT = (
    "the papers have bounds and no such figure: streams are simulated, and slopes of bounds are drawn in grey",
    "i.i.d.: squared loss, 20 features, 5 of them relevant, an l1 ball that holds the truth; the fixed point is the "
    "best of all rounds so far, up to 1e-9 by a duality gap; mean over the seeds",
    "adversary: two assets on the simplex, losses linear; one asset costs 1 a round, then the other, for 2 sqrt(t) "
    "rounds each: about as long as a learner with steps of t^(-1/2) takes from one to the other, so that it holds what "
    "costs. Regret swings too; what is shown is the largest so far",
    "jumps: as i.i.d., with another truth twice; regret is against the best fixed point of each part",
    "OFW knows its gradient exactly; from samples it takes the same steps as from sums of products. Recursive is what "
    "it goes on with beyond its memory. AdaptiveOFW is told how many rounds there are, in a part where there are parts",
    "the adversarial mode pulls to its start with 4 G t^(-1/4) / D, G the longest gradient met: on samples that is "
    "still strong in the last round, so that its regret, far below 8 G D T^(3/4), has not bent to that exponent yet",
)


@dataclasses.dataclass(frozen=True)
class Learner:
    """An optimizer for T rounds, or parts of T rounds, and how it is drawn."""

    label: str
    color: str
    make: Callable[[int], optim.Optimizer]
    dashes: str = "-"


LEARNERS = (
    Learner("OFW", drawing.BLACK, lambda T: optim.OFW(memory=10 * T)),
    Learner("OFW, recursive", drawing.BLACK, lambda T: optim.OFW(memory=1, max_features=1), "--"),
    Learner("OFW, adversarial", drawing.VERMILION, lambda T: optim.AdversarialOFW()),
    Learner("AdaptiveOFW", drawing.BLUE, lambda T: optim.AdaptiveOFW(horizon=T)),
)


@dataclasses.dataclass(frozen=True)
class Stream:
    """Rounds, their set and loss, and the loss of the best fixed point up to each look.

    Attributes
    ----------
    rows
        Seed and rounds to (X, y).
    best
        (X, y, looks) to the cumulative loss of the best fixed point, part by part where there are parts.
    parts
        Where the truth changes, parts of one length.
    exponents
        Of the bounds.
    swings
        Whether regret goes up and down, so that the largest so far is what counts.
    """

    title: str
    constraint: sets.ConvexSet
    loss: typing.Any
    rows: Callable[[int, int], tuple[NDArray, NDArray]]
    best: Callable[[NDArray, NDArray, NDArray], NDArray]
    parts: int = 1
    exponents: tuple[float, ...] = (0.5, 0.75)
    swings: bool = False


_BALL = sets.L1Ball(1.0)


def _sampled(seed: int, rounds: int, parts: int = 1) -> tuple[NDArray, NDArray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rounds, 20))
    truth = np.zeros((parts, 20))
    for w in truth:
        w[rng.choice(20, 5, replace=False)] = rng.choice([-0.2, 0.2], 5)
    return X, np.einsum("ij,ij->i", X, np.repeat(truth, rounds // parts, axis=0)) + 0.5 * rng.normal(size=rounds)


def _best_point(X: NDArray, y: NDArray, looks: NDArray, parts: int = 1) -> NDArray:
    """The least sum of squares over the ball, of the rounds so far of each part."""
    length = len(y) // parts
    found = []
    for look in looks:
        total = 0.0
        for start in range(0, look, length):
            rows = slice(start, min(start + length, look))
            n = rows.stop - start
            H, b = 2.0 * X[rows].T @ X[rows] / n, 2.0 * X[rows].T @ y[rows] / n
            total += n * optim.best_fixed_point_quadratic(H, b, float(y[rows] @ y[rows]) / n, _BALL, tol=1e-9).upper
        found.append(total)
    return np.array(found)


def _swings(seed: int, rounds: int) -> tuple[NDArray, NDArray]:
    """Rows (cost of one asset, cost of the other); |<x, w> + 1| = <x, w> + 1 is linear on the simplex."""
    side = np.empty(rounds, dtype=int)
    start, now = 0, seed % 2
    while start < rounds:
        length = max(1, round(2.0 * np.sqrt(start + 1.0)))
        side[start : start + length] = now
        start, now = start + length, 1 - now
    return np.eye(2)[side], np.full(rounds, -1.0)


def _best_asset(X: NDArray, y: NDArray, looks: NDArray) -> NDArray:
    return looks + np.cumsum(X, axis=0)[looks - 1].min(axis=1)


STREAMS = (
    Stream("i.i.d. samples", _BALL, losses.Squared(), _sampled, _best_point),
    Stream(
        "an adversary", sets.ProbabilitySimplex(), losses.Absolute(), _swings, _best_asset, 1, (0.75, 1.0), swings=True
    ),
    Stream(
        "two jumps",
        _BALL,
        losses.Squared(),
        lambda seed, rounds: _sampled(seed, rounds, 3),
        lambda X, y, looks: _best_point(X, y, looks, 3),
        parts=3,
        exponents=(),
    ),
)


def looks_of(rounds: int, parts: int) -> NDArray[np.int64]:
    """Rounds at which regret is looked at: evenly on a log scale, or evenly where there are parts."""
    if parts > 1:
        return np.linspace(0, rounds, 46)[1:].round().astype(np.int64)
    return np.unique(np.geomspace(10, rounds, 120).round().astype(np.int64))


@dataclasses.dataclass(frozen=True)
class Curve:
    """Regret at looks, the mean over seeds, and linear minimisations a round."""

    learner: Learner
    looks: NDArray
    regret: NDArray
    n_lmo: float


def follow(stream: Stream, rounds: int, seeds: typing.Sequence[int]) -> list[Curve]:
    """Play a stream with every learner."""
    looks = looks_of(rounds, stream.parts)
    data = [stream.rows(seed, rounds) for seed in seeds]
    best = [stream.best(X, y, looks) for X, y in data]
    curves = []
    for learner in LEARNERS:
        regret = np.zeros(len(looks))
        calls = 0
        for (X, y), least in zip(data, best, strict=True):
            model = linear_model.FWRegressor(
                stream.constraint, learner.make(rounds // stream.parts), loss=stream.loss, intercept=False
            )
            for k, (first, last) in enumerate(zip((0, *looks), looks, strict=False)):
                model.learn_arrays(X[first:last], y[first:last])
                regret[k] += (model.cumulative_loss - least[k]) / len(seeds)
            calls += model.optimizer.n_lmo
        if stream.swings:
            regret = np.maximum.accumulate(regret)
        curves.append(Curve(learner, looks, regret, calls / rounds / len(seeds)))
    return curves


def slope(curve: Curve) -> float:
    """The exponent of the regret over the last tenfold of rounds, NaN where it was not positive throughout."""
    late = curve.looks >= curve.looks[-1] / 10
    if (curve.regret[late] <= 0.0).any():
        return float("nan")
    return float(np.polyfit(np.log(curve.looks[late]), np.log(curve.regret[late]), 1)[0])


def draw(stem: Path, quick: bool = False) -> list[Path]:
    """The figure, its numbers and its table."""
    rounds, seeds = (1_500, range(1)) if quick else (30_000, range(3))
    for line in DIFFERENT:
        print(f"- {line}")
    print(f"{rounds:,} rounds, {len(seeds)} seeds\n")
    every = [(stream, follow(stream, rounds, seeds)) for stream in STREAMS]
    print("| stream | learner | regret | exponent over the last tenfold | linear minimisations a round |")
    print("|---|---|---|---|---|")
    for stream, curves in every:
        for curve in curves:
            exponent = f"{slope(curve):.2f}" if stream.parts == 1 else ""
            print(
                f"| {stream.title} | {curve.learner.label} | {curve.regret[-1]:,.1f} | {exponent} | {curve.n_lmo:.2f} |"
            )
    return [_write(stem.with_suffix(".csv"), every), _picture(stem.with_suffix(".png"), every)]


def _write(path: Path, every: list[tuple[Stream, list[Curve]]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["stream", "learner", "round", "regret"])
        for stream, curves in every:
            for curve in curves:
                for look, value in zip(curve.looks, curve.regret, strict=True):
                    writer.writerow([stream.title, curve.learner.label, look, value])
    return path


def _picture(path: Path, every: list[tuple[Stream, list[Curve]]]) -> Path:
    with drawing.panels(len(every), path) as (figure, axes):
        for ax, (stream, curves) in zip(axes, every, strict=True):
            ax.set_title(stream.title)
            for curve in curves:
                learner = curve.learner
                values = np.maximum(curve.regret, 1.0) if stream.parts == 1 else curve.regret
                ax.plot(curve.looks, values, color=learner.color, ls=learner.dashes, label=learner.label)
            if stream.parts == 1:
                top = max(float(curve.regret.max()) for curve in curves)
                drawing.log_log(ax, 0.0, top)
                _slopes(ax, stream, curves[0].looks)
            else:
                ax.set_xticks([0, curves[0].looks[-1]])
                for k in range(1, stream.parts):
                    drawing.mark(ax, k * curves[0].looks[-1] / stream.parts, "jump")
        drawing.label_lines(axes)
        axes[0].set_ylabel("regret")
        figure.supxlabel("rounds", fontsize=axes[0].yaxis.label.get_fontsize())
    return path


def _slopes(ax: typing.Any, stream: Stream, looks: NDArray) -> None:
    """The bounds' slopes, as grey lines that meet in the upper right corner."""
    high = ax.get_ylim()[1]
    for exponent, where in zip(stream.exponents, (0.3, 0.45), strict=True):
        line = high * (looks / looks[-1]) ** exponent
        ax.plot(looks, line, color="0.6", lw=1.0, ls=":", label="_bound")
        k = int(where * len(looks))
        text = f"$T^{{{exponent:g}}}$" if exponent != 1.0 else "$T$"
        ax.annotate(
            text, (looks[k], line[k]), (-4, 2), textcoords="offset points", ha="right", color="0.4", fontsize=11
        )
