"""The figures of Kerdreux, Pedregosa and d'Aspremont 2018: Frank-Wolfe whose oracle sees a part of the atoms.

T. Kerdreux et al., Frank-Wolfe with Subsampling Oracle, https://arxiv.org/abs/1803.07348
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import tempfile
import time
import typing
from pathlib import Path

import numpy as np
from river.optim import losses

from fwonline import optim, sets
from fwonline.optim.hindsight import Bracket, best_fixed_point
from tools.papers import data, drawing

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = [
    "AWAY",
    "PLAIN",
    "Method",
    "Problem",
    "Run",
    "draw_1",
    "draw_2",
    "draw_3",
    "draw_3_ads",
    "draw_groups",
    "run",
]


@dataclasses.dataclass(frozen=True)
class Problem:
    """What is minimised, and what is known of its answer."""

    title: str
    name: str
    X: typing.Any
    y: NDArray
    loss: typing.Any
    constraint: sets.ConvexSet
    support: NDArray | None = None

    def value(self, w: NDArray) -> float:
        """The objective, by its formula."""
        used = np.flatnonzero(w)
        z = self.X[:, used] @ w[used]
        if isinstance(self.loss, losses.Log):
            return float(np.mean(np.logaddexp(0.0, np.where(self.y > 0, -z, z))))
        return float(np.mean((self.y - z) ** 2))


@dataclasses.dataclass(frozen=True)
class Method:
    """A line: its optimizer for a fraction of the atoms."""

    label: str
    make: Callable[[float], optim.Optimizer]
    color: str
    dashes: str


PLAIN = (
    Method("FW", lambda fraction: optim.FW(schedule=optim.schedules.LineSearch()), drawing.VERMILION, "--"),
    Method("RFW", optim.RandomizedFW, drawing.BLUE, "-"),
)
AWAY = (
    Method("AFW", lambda fraction: optim.AwayFW(), drawing.VERMILION, "--"),
    Method("RAFW", optim.RandomizedAwayFW, drawing.BLUE, "-"),
)


@dataclasses.dataclass(frozen=True)
class Run:
    """One run: the objective after so many steps, coefficients of gradients, seconds."""

    method: str
    seed: int
    steps: NDArray
    coefficients: NDArray
    seconds: NDArray
    values: NDArray
    x: NDArray
    gap: float
    drops: int

    def against(self, axis: str) -> NDArray:
        """The numbers of an axis."""
        return getattr(self, axis)


AXES = {"steps": "iterations", "coefficients": "gradient coefficients", "seconds": "seconds"}


def lasso(quick: bool, folder: Path, noise: float = 0.1) -> Problem:
    """A synthetic lasso: gaussian design, one coefficient in ten, gaussian noise."""
    n, d = (40, 100) if quick else (200, 500)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    support = np.sort(rng.choice(d, d // 10, replace=False))
    truth = np.zeros(d)
    truth[support] = rng.normal(size=support.size)
    y = X @ truth + noise * rng.normal(size=n)
    radius = 0.9 * float(np.abs(truth).sum())
    title = f"synthetic lasso, {n} x {d}"
    return Problem(title, f"simulated, noise {noise:g}", X, y, losses.Squared(), sets.L1Ball(radius), support)


def rcv1(quick: bool, folder: Path) -> Problem:
    """Least squares on documents of RCV1."""
    documents = data.rcv1(quick)
    return _text(documents, 2.0 if quick else 50.0)


def farm_ads(quick: bool, folder: Path) -> Problem:
    """Least squares on the words of advertisements."""
    return _text(data.farm_ads(quick), 5.0)


def _text(documents: data.Data, radius: float) -> Problem:
    y = np.where(documents.y > 0, 1.0, -1.0)
    return Problem(
        f"lasso on {documents.shape}", documents.name, documents.X.tocsc(), y, losses.Squared(), sets.L1Ball(radius)
    )


def run(problem: Problem, method: Method, *, fraction: float, steps: int, seed: int) -> Run:
    """One run; looked at after steps that lie evenly on a log scale, the clock standing still meanwhile."""
    looks = set(np.unique(np.geomspace(1, steps, 100).round().astype(int)).tolist())
    optimizer = method.make(fraction)
    seen: list[tuple[int, int, float, NDArray]] = []
    spent, since = 0.0, time.perf_counter()

    def look(state: typing.Any) -> None:
        nonlocal spent, since
        if state.nit in looks:
            spent += time.perf_counter() - since
            seen.append((state.nit, optimizer.n_coefficients, spent, state.x))
            since = time.perf_counter()

    result = optimizer.minimize(
        problem.X,
        problem.y,
        loss=problem.loss,
        constraint=problem.constraint,
        steps=steps,
        seed=seed,
        callback=look,
    )
    count, coefficients, seconds, points = (list(column) for column in zip(*seen, strict=True))
    return Run(
        method.label,
        seed,
        np.array(count),
        np.array(coefficients),
        np.array(seconds),
        np.array([problem.value(w) for w in points]),
        result.x,
        result.gap,
        result.n_drop_steps,
    )


@dataclasses.dataclass(frozen=True)
class Setting:
    """One figure: its problem, methods, fraction, budget of coefficients, and what to draw against."""

    problem: Callable[[bool, Path], Problem]
    methods: Sequence[Method]
    fraction: float
    steps: int
    quick_steps: int
    axes: Sequence[str]
    different: Sequence[str]
    linear: bool = False


def figure(setting: Setting, stem: Path, quick: bool = False) -> list[Path]:
    """Draw a setting: the picture, its numbers and its tables."""
    with tempfile.TemporaryDirectory() as folder:
        return _figure(setting, setting.problem(quick, Path(folder)), stem, quick)


def _figure(setting: Setting, problem: Problem, stem: Path, quick: bool) -> list[Path]:
    seeds = range(2 if quick else 5)
    steps = setting.quick_steps if quick else setting.steps
    print(
        f"{problem.title}: {problem.name}; {_short(problem.constraint)}, fraction {setting.fraction:g}, {steps} steps"
    )
    for line in setting.different:
        print(f"- {line}")
    runs = [
        run(problem, method, fraction=setting.fraction, steps=steps * factor, seed=seed)
        for method in setting.methods
        for factor in (_more(method, setting.fraction),)
        for seed in (seeds if factor > 1 else [0])
    ]
    start = problem.value(problem.constraint.initial_point(problem.X.shape[1]))
    best = _optimum(problem, runs)
    print(f"f(start) = {start:.6g}, f* in [{best.lower:.10g}, {best.upper:.10g}]")
    _tell(setting, problem, runs, best, start)
    return [
        _write(stem.with_suffix(".csv"), problem, runs, best, start),
        _picture(stem.with_suffix(".png"), setting, problem, runs, best, start),
    ]


def _short(constraint: sets.ConvexSet) -> str:
    if isinstance(constraint, sets.LatentGroupBall):
        return f"latent group ball of {len(constraint.groups)} groups and radius {constraint.radius:g}"
    return f"l1 ball of {constraint.radius:g}"  # type: ignore[attr-defined]


def _more(method: Method, fraction: float) -> int:
    """Sampled steps are cheaper: they get about as many coefficients, up to five times the steps."""
    return 1 if method.label in ("FW", "AFW") else min(5, max(2, round(0.5 / fraction)))


def _optimum(problem: Problem, runs: Sequence[Run]) -> Bracket:
    """The bracket of the optimum by the best run's own gap, or by the comparator where that leaves it wide."""
    closest = min(runs, key=lambda r: r.gap)
    upper = min(float(r.values.min()) for r in runs)
    lower = problem.value(closest.x) - closest.gap
    if upper - lower > 1e-9 * abs(upper):
        projectable = problem.constraint.can_project
        best = best_fixed_point(
            np.asarray(problem.X),
            problem.y,
            loss=problem.loss,
            constraint=problem.constraint,
            tol=1e-10 if projectable else 1e-3,
            max_iter=20_000 if projectable else 150,
        )
        upper, lower = min(upper, best.upper), max(lower, best.lower)
    return Bracket(closest.x, upper, min(lower, upper), max(upper - lower, 0.0), 0)


def _relative(values: NDArray, best: Bracket, start: float) -> NDArray:
    return np.maximum((values - best.upper) / (start - best.upper), 1e-14)


def _tell(setting: Setting, problem: Problem, runs: Sequence[Run], best: Bracket, start: float) -> None:
    print("| method | steps | coefficients | seconds | relative suboptimality | gap | non-zeros | drop steps |")
    print("|---|---|---|---|---|---|---|---|")
    for method in setting.methods:
        mine = [r for r in runs if r.method == method.label]
        middle = sorted(mine, key=lambda r: r.values[-1])[len(mine) // 2]
        print(
            f"| {method.label} | {middle.steps[-1]:,} | {middle.coefficients[-1]:,} | {middle.seconds[-1]:.2f} "
            f"| {_relative(middle.values, best, start)[-1]:.2e} | {middle.gap:.2e} "
            f"| {np.count_nonzero(middle.x)} | {middle.drops} |"
        )
        if problem.support is not None:
            chosen = np.flatnonzero(np.abs(middle.x) > 1e-3)
            print(
                f"{method.label}: of the {problem.support.size} true coefficients "
                f"{np.intersect1d(chosen, problem.support).size} are found, and {chosen.size} are not 0"
            )
        if setting.linear:
            level = _relative(middle.values, best, start)
            useful = (level > 1e-10) & (middle.steps > middle.steps[-1] // 50)
            if useful.sum() > 2:
                slope = np.polyfit(middle.steps[useful], np.log(level[useful]), 1)[0]
                print(f"{method.label}: the log of the suboptimality falls by {-slope:.2e} a step")
    for axis in ("coefficients", "seconds"):
        _compare(setting, runs, best, start, axis)


def _compare(setting: Setting, runs: Sequence[Run], best: Bracket, start: float, axis: str) -> None:
    """What each method has spent when it reaches a level that all reach."""
    worst = max(float(_relative(r.values, best, start).min()) for r in runs)
    target = 1.01 * max(worst, 1e-8)
    spent = {}
    for method in setting.methods:
        at = []
        for r in (r for r in runs if r.method == method.label):
            reached = int(np.argmax(_relative(r.values, best, start) <= target))
            at.append(r.against(axis)[reached])
        spent[method.label] = float(np.median(at))
    told = ", ".join(f"{label} {amount:,.4g}" for label, amount in spent.items())
    print(f"to a relative suboptimality of {target:.1e}: {told} {AXES[axis]}")


def _write(path: Path, problem: Problem, runs: Sequence[Run], best: Bracket, start: float) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["data", "method", "seed", "step", "coefficients", "seconds", "objective", "relative_suboptimality"]
        )
        for r in runs:
            columns = (r.steps, r.coefficients, r.seconds, r.values, _relative(r.values, best, start))
            for step, count, seconds, value, level in zip(*columns, strict=True):
                writer.writerow([problem.name, r.method, r.seed, step, count, seconds, repr(float(value)), level])
    return path


def _picture(path: Path, setting: Setting, problem: Problem, runs: Sequence[Run], best: Bracket, start: float) -> Path:
    resolution = max(best.gap / (start - best.upper), 1e-12)
    with drawing.panels(len(setting.axes), path) as (figure, axes):
        for ax, axis in zip(axes, setting.axes, strict=True):
            for method in setting.methods:
                mine = [r for r in runs if r.method == method.label]
                levels = [_relative(r.values, best, start) for r in mine]
                x = np.median([r.against(axis) for r in mine], axis=0)
                middle, low, high = (f(levels, axis=0) for f in (np.median, np.min, np.max))
                # A line ends where f* is not known well enough, and has its name there.
                below = np.flatnonzero(middle < resolution)
                shown = slice(below[0] if below.size else None)
                ax.fill_between(x[shown], low[shown], high[shown], color=method.color, alpha=0.2, lw=0)
                ax.plot(x[shown], middle[shown], color=method.color, ls=method.dashes, label=method.label)
            drawing.log_log(ax, resolution, 1.0)
            if setting.linear:
                ax.set_xscale("linear")
            ax.set_xlabel(AXES[axis])
        axes[0].set_ylabel("relative suboptimality")
        figure.suptitle(problem.title)
        drawing.label_lines(axes)
    return path


# --- latent group lasso, from disk ------------------------------------------------------------------------------------


def groups(quick: bool, folder: Path) -> Problem:
    """Overlapping groups of 10 features that share 3 with the next; the design written to disk by columns."""
    n, d, size, shared = (60, 500, 10, 3) if quick else (1_000, 20_000, 10, 3)
    rng = np.random.default_rng(0)
    starts = range(0, d - size + 1, size - shared)
    members = [list(range(s, s + size)) for s in starts]
    members[-1].extend(range(members[-1][-1] + 1, d))
    X = np.memmap(folder / "design.bin", dtype=np.float64, mode="w+", shape=(n, d), order="F")
    for s in range(0, d, 1_000):
        X[:, s : s + 1_000] = rng.normal(size=(n, min(1_000, d - s)))
    X.flush()
    chosen = rng.choice(len(members), max(2, len(members) // 100), replace=False)
    truth = np.zeros(d)
    for k in chosen:
        truth[members[k]] += rng.normal(size=len(members[k]))
    used = np.flatnonzero(truth)
    y = X[:, used] @ truth[used] + 0.1 * rng.normal(size=n)
    radius = 0.8 * sum(float(np.linalg.norm(truth[members[k]])) for k in chosen)
    opened = np.memmap(folder / "design.bin", dtype=np.float64, mode="r", shape=(n, d), order="F")
    return Problem(
        f"latent group lasso, {n:,} x {d:,} on disk",
        f"simulated, {8 * n * d / 2**20:.0f} MiB on disk by columns",
        opened,
        y,
        losses.Squared(),
        sets.LatentGroupBall(members, radius),
        used,
    )


_COMMON = (
    "exact line search; at each sampled step a fraction of the features, both signs of each, where the paper draws "
    "signed atoms: a feature drawn costs one coefficient either way",
    "f* is bracketed by a duality gap; curves are medians over seeds, the shade spans all of them; sampled methods get "
    "more steps, so that they may spend as many coefficients",
)
_LASSO = (
    "the design is gaussian, 200 x 500, one coefficient in ten is not 0; noise (0.1) and radius (0.9 of the true l1 "
    "norm) are ours",
    *_COMMON,
)
_REAL = ("real text in place of E2006-tfidf (16,087 x 150,360), least squares on the labels -1 and 1", *_COMMON)
_GROUPS = (
    "sizes are ours; the file is read in chunks of the columns drawn, mostly from the system's cache, since it has "
    "just been written",
    "exact line search; f* is bracketed by a fully corrective method, to within the grey area",
)
_THREE = ("steps", "coefficients", "seconds")

draw_1 = functools.partial(figure, Setting(lasso, PLAIN, 0.1, 3_000, 300, _THREE[:2], _LASSO))
draw_2 = functools.partial(figure, Setting(lasso, AWAY, 0.1, 1_500, 300, _THREE[:2], _LASSO, linear=True))
draw_3 = functools.partial(figure, Setting(rcv1, AWAY, 0.05, 1_000, 200, _THREE, _REAL))
draw_3_ads = functools.partial(figure, Setting(farm_ads, AWAY, 0.05, 1_000, 200, _THREE, _REAL))
draw_groups = functools.partial(figure, Setting(groups, PLAIN, 0.05, 100, 60, _THREE, _GROUPS))
