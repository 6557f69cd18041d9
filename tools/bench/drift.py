"""The default on streams that change, beside projected gradients tuned in hindsight, river and other ways to forget."""

from __future__ import annotations

import dataclasses
import itertools
import math
import typing
from collections.abc import Callable

import numpy as np
from river import datasets as river_datasets
from river import linear_model as river_linear
from river import preprocessing

from fwonline import linear_model, optim, sets
from tools.bench.report import Comparison, Settings, Table

if typing.TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["covering", "run", "streams"]

Play = Callable[[dict, float], float]
# Steps of projected gradients, of which the best counts in hindsight: falling like t^-1/2, and constant.
STEPS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
# Windows of single models whose sums fade, the best in hindsight likewise.
WINDOWS = (16, 64, 256, 1024)
# What is asked of the default beside the best rival; a steady stream may cost it this much of what it was.
CHANGING, STEADY = 1.10, 1.01
# The shortest interval of the covering.
SHORTEST = 32


@dataclasses.dataclass(frozen=True)
class Stream:
    """Samples in their order, the l1 ball, and whether an intercept is fitted."""

    name: str
    rows: list[dict]
    y: list[float]
    radius: float
    intercept: bool = False
    wanted: float = CHANGING


def streams(n: int, seed: int) -> Iterator[Stream]:
    """Squared loss, 20 features, noise of 0.5: a best point that stays, flips, moves to others, rotates or walks."""
    rng = np.random.default_rng(seed)
    d, t = 20, np.arange(n)
    X, noise = rng.normal(size=(n, d)), 0.5 * rng.normal(size=n)

    def sparse_point() -> NDArray:
        w = np.zeros(d)
        w[rng.choice(d, 4, replace=False)] = 2.0, -1.5, 1.0, 2.0
        return w

    w, u = sparse_point(), sparse_point()
    supports = np.array([sparse_point() for _ in range(n // 1000 + 1)])
    points = {
        "steady": np.tile(w, (n, 1)),
        "flips every 1,000": np.outer(np.where(t // 1000 % 2, -1.0, 1.0), w),
        "other features every 1,000": supports[t // 1000],
        "another for 500 of every 2,000": np.where((t % 2000 < 1500)[:, None], w, u),
        **{f"rotates in {p:,}": np.outer(np.cos(2 * np.pi * t / p), w) + np.outer(np.sin(2 * np.pi * t / p), u)
           for p in (1500, 5000)},
        **{f"walks by {s} a sample": w + np.cumsum(s * rng.normal(size=(n, d)), axis=0) for s in (0.003, 0.01, 0.03)},
    }  # fmt: skip
    rows = [dict(enumerate(x)) for x in X.tolist()]
    for name, path in points.items():
        radius = 8.0 if not name.startswith("walks") else 60.0
        wanted = STEADY if name == "steady" else CHANGING
        yield Stream(name, rows, ((X * path).sum(1) + noise).tolist(), radius, wanted=wanted)


def _series() -> Iterator[Stream]:
    """River's time series, standardised as they come."""
    for kind in (
        river_datasets.ChickWeights,
        river_datasets.AirlinePassengers,
        river_datasets.WaterFlow,
        river_datasets.TrumpApproval,
    ):
        scaler, rows, y = preprocessing.StandardScaler(), [], []
        for x, target in kind():
            known = {name: value for name, value in x.items() if isinstance(value, int | float)}
            for name, value in x.items():
                if hasattr(value, "toordinal"):
                    known |= {name: value.toordinal(), "month": value.month, "hour": getattr(value, "hour", 0)}
            scaler.learn_one(known)
            rows.append(scaler.transform_one(known))
            y.append(float(target))
        yield Stream(kind.__name__, rows, y, 1000.0, intercept=True)


def covering(fresh: Callable[[], typing.Any], longest: int) -> Play:
    """Geometric covering intervals: models that begin anew every 32, 64, ... samples, weighed by AdaNormalHedge.

    Daniely, Gonen, Shalev-Shwartz 2015; Luo, Schapire 2015. Losses are put to [0, 1] by the largest that was met.
    """
    lengths = list(itertools.takewhile(lambda length: length <= 2 * longest, (SHORTEST << k for k in range(40))))
    models = [fresh() for _ in lengths]
    regret, spread = np.zeros(len(lengths)), np.zeros(len(lengths))
    seen, largest = 0, 1e-12

    def potential(r: NDArray, c: NDArray) -> NDArray:
        return np.exp(np.minimum(np.maximum(r, 0.0) ** 2 / (3.0 * c), 500.0))

    def play(x: dict, y: float) -> float:
        nonlocal seen, largest
        for k, length in enumerate(lengths):
            if seen and seen % length == 0:
                models[k], regret[k], spread[k] = fresh(), 0.0, 0.0
        weights = (potential(regret + 1, spread + 1) - potential(regret - 1, spread + 1)) / np.array(lengths)
        if not weights.sum() > 0.0:
            weights = np.ones(len(lengths))
        weights /= weights.sum()
        predicted = np.array([model.play_one(x, y) for model in models])
        out = float(weights @ predicted)
        losses = (predicted - y) ** 2
        largest = max(largest, float(losses.max()))
        r = (weights @ losses - losses) / largest
        regret[:] += r
        spread[:] += np.abs(r)
        seen += 1
        return out

    return play


def _learners(stream: Stream) -> dict[str, list[tuple[str, Play]]]:
    """Of each learner what is tried; of several the best in hindsight counts."""
    pairwise = optim.StochasticPairwiseFW
    n = len(stream.y)

    def ours(optimizer: typing.Any) -> typing.Any:
        ball = sets.L1Ball(stream.radius)
        return linear_model.FWRegressor(ball, optimizer, intercept=stream.intercept, seed=0)

    plain = river_linear.LinearRegression()

    def river(x: dict, y: float) -> float:
        predicted = plain.predict_one(x)
        plain.learn_one(x, y)
        return predicted

    return {
        "default": [("", ours(None).play_one)],
        "projected SGD": [
            (f"{step:g} t^-{a:g}", ours(optim.ProjectedSGD(step, a=a)).play_one) for a in (0.5, 0.0) for step in STEPS
        ],
        "AdaptiveOFW": [("", ours(optim.AdaptiveOFW(horizon=n)).play_one)],
        "river LinearRegression": [("", river)],
        "never forgetting": [("", ours(pairwise(forgetting=False)).play_one)],
        "one fading model": [(f"window {w}", ours(pairwise(window=w, forgetting=False)).play_one) for w in WINDOWS],
        "covering intervals": [("", covering(lambda: ours(pairwise(forgetting=False)), n))],
    }


def _lost(stream: Stream, play: Play) -> float:
    """The mean squared loss of one pass; infinite where numbers became too large."""
    total = 0.0
    try:
        for x, y in zip(stream.rows, stream.y, strict=True):
            total += (play(x, y) - y) ** 2
    except (OverflowError, ValueError):
        return math.inf
    return total / len(stream.y)


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """Means over seeds; the root of the mean for time series."""
    n, seeds = (600, 1) if settings.quick else (12_000, 3)
    cases = [[*same] for same in zip(*(streams(n, seed) for seed in range(seeds)), strict=True)]
    cases += [[one] for one in ([] if settings.quick else _series())]
    rows = []
    for case in cases:
        lost: dict[str, tuple[float, str]] = {}
        for name in _learners(case[0]):
            tried = {
                setting: [_lost(stream, _learners(stream)[name][k][1]) for stream in case]
                for k, (setting, _) in enumerate(_learners(case[0])[name])
            }
            best = min(tried, key=lambda setting: float(np.mean(tried[setting])))
            lost[name] = float(np.mean(tried[best])), best
        yield from _judged(case, lost, settings)
        root = case[0].intercept
        rows.append([case[0].name, *(_cell(*lost[name], root) for name in lost)])
    names: Sequence[str] = list(_learners(cases[0][0]))
    notes = (
        f"{n:,} samples, means over {seeds} seeds; of time series the root of the mean",
        "in brackets the setting that was best in hindsight",
        "river's is in no set: on a walk it follows the best point where that leaves the ball",
    )
    yield Table("squared loss over one pass of streams that change", ("stream", *names), rows, notes)


def _cell(loss: float, setting: str, root: bool) -> str:
    shown = f"{math.sqrt(loss) if root else loss:.3g}"
    return f"{shown} ({setting})" if setting else shown


def _judged(case: list[Stream], lost: dict[str, tuple[float, str]], settings: Settings) -> Iterator[Comparison]:
    stream = case[0]
    rivals = ("never forgetting",) if stream.wanted == STEADY else (*lost,)[1:4]
    peer = min(rivals, key=lambda name: lost[name][0])
    root = 0.5 if stream.intercept else 1.0
    mine, theirs = lost["default"][0] ** root, lost[peer][0] ** root
    met = None if settings.quick else mine <= stream.wanted * theirs
    cells = f"{mine:.4g}", peer, f"{theirs:.4g}", f"{mine / theirs:.3f} of it", f"<= {stream.wanted} of it"
    yield Comparison(f"{stream.name}: squared loss", *cells, met)
