"""Figure 1 of Cracco, Manente, Mazzieri 2020: a softmax model of Fashion-MNIST in a trace norm ball.

Most of the methods, and the experiment's form, are those of E. Hazan, H. Luo, https://arxiv.org/abs/1602.02101.
"""

from __future__ import annotations

import csv
import dataclasses
import time
import typing

import numpy as np

from fwonline import linear_model, optim, sets
from tools.papers import data, drawing

if typing.TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["METHODS", "Curve", "Method", "Run", "draw", "run"]

RADIUS = 50.0
SEED = 0

DIFFERENT = (
    "L is 1/2 the largest squared norm of a picture, D = 2 tau, G = sqrt 2 times the largest norm, sigma = G: bounds "
    "that hold, computed from the data; the paper's own constants may differ",
    "a batch of all samples or more is the exact gradient; derivatives at a snapshot are kept, so that SVRF, STORC and "
    "SVRG take m, not 2 m, of them a step",
    "under 'the theorems' parameters' SGM has the library's default, steps (t + 1)^-1/2, and SVRG 0.1 / L, batch 1",
    "'tuned' was chosen by hand on a tenth of the data, by the objective reached within the budget",
    "the grey area is what is known of f*: from the best certified lower bound, objective minus exact gap, of all "
    "runs, to the lowest objective",
    "seconds are processor time of the steps, one thread; looking at the objective is not counted",
)


@dataclasses.dataclass(frozen=True)
class Method:
    """A line: what makes its optimizer, with the theorem's parameters, and with practical ones from L and n."""

    label: str
    theorem: Callable[[], optim.Optimizer]
    tuned: Callable[[float, int], optim.Optimizer]
    color: str
    dashes: str = "-"


# tuned(L, n) is given the smoothness of the mean, half the largest eigenvalue of the mean of x x', not each sample's.
METHODS = (
    Method("FW", optim.FW, lambda L, n: optim.FW(schedule=optim.schedules.ShortStep(L / 10)), drawing.BLACK),
    Method("SFW", optim.HazanLuoFW, lambda L, n: optim.HazanLuoFW(batch_size=n // 200), drawing.BLUE),
    Method(
        "SVRF",
        optim.SVRF,
        # No first step that is a whole one: an epoch then goes on from the last one's end, by short steps.
        lambda L, n: optim.SVRF(
            batch_size=max(1, n // 600), epoch=500, schedule=optim.schedules.Harmonic(offset=4000.0)
        ),
        drawing.BLUE,
        "--",
    ),
    Method(
        "SCGS",
        optim.SCGS,
        lambda L, n: optim.SCGS(lipschitz=L / 10, diameter=RADIUS / 5, batch_size=n // 20, inner_steps=100),
        drawing.GREEN,
    ),
    Method(
        "STORC",
        optim.STORC,
        lambda L, n: optim.STORC(lipschitz=L / 10, diameter=RADIUS / 25, batch_size=n // 60, epoch=200, inner_steps=50),
        drawing.GREEN,
        "--",
    ),
    Method("SGM", optim.ProjectedSGD, lambda L, n: optim.ProjectedSGD(0.3), drawing.VERMILION),
    Method(
        "SVRG",
        optim.ProjectedSVRG,
        lambda L, n: optim.ProjectedSVRG(step=10.0 / L, batch_size=max(1, n // 120)),
        drawing.VERMILION,
        "--",
    ),
)


@dataclasses.dataclass(frozen=True)
class Curve:
    """One run: what had been spent, and the objective there."""

    method: str
    tuned: bool
    gradients: NDArray
    seconds: NDArray
    values: NDArray
    lower: float
    n_lmo: int


def objective(X: NDArray, y: NDArray, W: NDArray) -> float:
    """The mean cross entropy, by its formula."""
    total = 0.0
    for start in range(0, len(X), 4096):
        part = slice(start, start + 4096)
        z = X[part].astype(np.float64) @ W.T
        top = z.max(axis=1)
        total += float(np.sum(top + np.log(np.exp(z - top[:, None]).sum(axis=1)) - z[np.arange(len(z)), y[part]]))
    return total / len(X)


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run may spend: passes' worth of gradients, or seconds, whichever is first."""

    passes: float
    seconds: float


def run(rows: data.Data, method: Method, tuned: bool, smooth: float, budget: Run) -> Curve:
    """One run; the objective is looked at when gradients have grown by a fifth, or a 25th of the time is over."""
    n = len(rows.y)
    spent, seen, marks = 0.0, [], [0.0, 0.0]
    since = time.process_time()

    def look(state: typing.Any) -> bool:
        nonlocal spent, since
        spent += time.process_time() - since
        over = state.n_gradients >= budget.passes * n or spent >= budget.seconds
        if state.n_gradients >= marks[0] or spent >= marks[1] or over:
            seen.append((state.n_gradients, spent, objective(rows.X, rows.y, state.x)))
            marks[:] = max(1.2 * state.n_gradients, n / 100), spent + budget.seconds / 25
        since = time.process_time()
        return over

    optimizer = method.tuned(smooth, n) if tuned else method.theorem()
    model = linear_model.FWSoftmax(sets.NuclearBall(RADIUS), optimizer, seed=SEED)
    result = model.minimize(rows.X, rows.y, steps=10**9, callback=look)
    gradients, seconds, values = (np.array(column) for column in zip(*seen, strict=True))
    return Curve(method.label, tuned, gradients, seconds, values, result.fun - result.gap, result.n_lmo)


def draw(stem: Path, quick: bool = False) -> list[Path]:
    """The figure, its numbers and its tables."""
    rows = data.fashion_mnist(quick)
    budget = Run(5, 1.0) if quick else Run(20, 12.0)
    X = rows.X.astype(np.float64)
    smooth = 0.5 * float(np.linalg.eigvalsh(X.T @ X / len(X))[-1])
    each = 0.5 * float(np.einsum("ij,ij->i", X, X).max())
    print(f"{rows.name}, {rows.shape}, trace norm ball of {RADIUS:g}, seed {SEED}")
    print(f"at most {budget.passes:g} passes' worth of gradients or {budget.seconds:g} s a run")
    print(f"L = {each:.4g} for each sample, {smooth:.4g} for their mean")
    for line in DIFFERENT:
        print(f"- {line}")
    curves = [run(rows, method, tuned, smooth, budget) for tuned in (False, True) for method in METHODS]
    bracket = max(curve.lower for curve in curves), min(float(curve.values.min()) for curve in curves)
    print(f"f(0) = {np.log(len(np.unique(rows.y))):.4f}, f* in [{bracket[0]:.6f}, {bracket[1]:.6f}]")
    print("| parameters | method | objective | gradients / n | seconds | linear minimisations |")
    print("|---|---|---|---|---|---|")
    for curve in curves:
        name = "tuned" if curve.tuned else "theorem"
        passes = curve.gradients[-1] / len(rows.y)
        print(
            f"| {name} | {curve.method} | {curve.values[-1]:.4f} | {passes:.2f} | {curve.seconds[-1]:.1f} |"
            f" {curve.n_lmo:,} |"
        )
    return [_write(stem.with_suffix(".csv"), curves), _picture(stem.with_suffix(".png"), curves, bracket, len(rows.y))]


def _write(path: Path, curves: list[Curve]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["parameters", "method", "gradients", "seconds", "objective"])
        for curve in curves:
            for point in zip(curve.gradients, curve.seconds, curve.values, strict=True):
                writer.writerow(["tuned" if curve.tuned else "theorem", curve.method, *map(repr, map(float, point))])
    return path


def _picture(path: Path, curves: list[Curve], bracket: tuple[float, float], n: int) -> Path:
    looks = {method.label: method for method in METHODS}
    with drawing.panels(4, path) as (_, axes):
        for ax, (tuned, by_time) in zip(
            axes, ((False, False), (False, True), (True, False), (True, True)), strict=True
        ):
            ax.set_title("tuned" if tuned else "the theorems' parameters")
            ax.axhspan(*bracket, color="0.85", lw=0, zorder=0)
            for curve in (curve for curve in curves if curve.tuned == tuned):
                method = looks[curve.method]
                x = curve.seconds if by_time else curve.gradients / n
                ax.plot(x, curve.values, color=method.color, ls=method.dashes, label=curve.method)
            ax.set_xscale("log")
            ax.set_yscale("log")
            top = np.log(10) * 2
            ax.set_ylim(max(bracket[0], 0.5 * bracket[1]), top)
            ax.set_xlabel("seconds" if by_time else "gradients / n")
        drawing.label_lines(axes)
        axes[0].set_ylabel("objective")
    return path
