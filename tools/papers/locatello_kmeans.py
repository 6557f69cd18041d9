"""Figure 1 of Locatello et al. 2019: the relaxation of k-means on MNIST's softmax features, against epochs.

F. Locatello et al., Stochastic Frank-Wolfe for Composite Convex Minimization, https://arxiv.org/abs/1901.10348
"""

from __future__ import annotations

import csv
import os
import typing
from pathlib import Path

import numpy as np

from fwonline import cluster
from tools.papers import drawing

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["METHODS", "curve", "draw", "points"]

OPTIMUM = 77.2066  # of the relaxation on the real features
DIFFERENT = (
    "the blocks are scaled by N (N - 1) / (s (s - 1)), which makes them unbiased, where the authors' code has N / s",
    "in that scale the paper's beta0 is 1; 0.03 is drawn beside it, since at 1 X stays far from X >= 0; mean and HCGM "
    "have 1 in their own unit, k / N over the mean distance",
    "HCGM sees all distances at each step, so an epoch of it is one step; of the others N^2 / s^2 steps",
    "curves of one seed; rounding is from ten starts of k-means on the points that X mixes",
)
# Name -> method, batch as a share of the points, beta0, colour.
METHODS = {
    "SHCGM": ("shcgm", 0.1, 1.0, drawing.BLUE),
    "SHCGM, 0.03": ("shcgm", 0.1, 0.03, drawing.GREEN),
    "HCGM": ("mean", 1.0, 1.0, drawing.BLACK),
    "mean": ("mean", 0.1, 1.0, drawing.VERMILION),
}


def points(quick: bool) -> tuple[str, NDArray, float]:
    """The features, what they are called, and the relaxation's optimum (NaN: not known)."""
    folder = os.environ.get("FWONLINE_DATA")
    path = Path(folder or ".") / "mnist_kmeans_sdp.npz"
    if not quick and folder and path.is_file():
        with np.load(path, allow_pickle=False) as arrays:
            return "mnist_kmeans_sdp", arrays["features"].astype(np.float64), OPTIMUM
    rng = np.random.default_rng(0)
    n = 100 if quick else 1000
    features = np.eye(10)[rng.integers(10, size=n)] + 0.1 * rng.standard_normal((n, 10))
    return "simulated stand-in for mnist_kmeans_sdp", features, float("nan")


def curve(P: NDArray, name: str, at: list[int]) -> list[tuple[float, ...]]:
    """Steps, epochs, objective, both infeasibilities and the rounded value after so many steps."""
    method, share, beta0, _ = METHODS[name]
    model = cluster.SHCGMKMeans(
        10, method=method, n_points=len(P), batch=max(2, int(share * len(P))), beta0=beta0, seed=0
    )
    model.store(P)
    out = []
    for steps in at:
        model.advance(steps - model.n_steps)
        out.append((steps, steps * share**2, model.objective, *model.infeasibility, model.value))
    return out


def draw(stem: Path, quick: bool = False) -> list[Path]:
    """The figure, its numbers and its table."""
    name, P, optimum = points(quick)
    at = [1, 10, 30] if quick else [1, 10, 30, 100, 300, 1_000, 3_000, 10_000]
    print(f"{name}: {P.shape[0]:,} x {P.shape[1]}, 10 clusters, seed 0; optimum {optimum}")
    for line in DIFFERENT:
        print(f"- {line}")
    print("\n| method | steps | epochs | <D, X> | ||X1 - 1|| / ||1|| | ||min(X, 0)|| / ||X|| | rounded |")
    print("|---|---|---|---|---|---|---|")
    curves = {}
    for method in METHODS:
        curves[method] = curve(P, method, at)
        for steps, epochs, objective, rows, negative, rounded in curves[method]:
            cells = f"{steps:,} | {epochs:g} | {objective:.2f} | {rows:.4f} | {negative:.4f} | {rounded:.2f}"
            print(f"| {method} | {cells} |")
    path = stem.with_suffix(".csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["data", "method", "steps", "epochs", "objective", "row_sums", "negativity", "rounded"])
        writer.writerows((name, method, *row) for method, values in curves.items() for row in values)
    picture = stem.with_suffix(".png")
    # Objectives are signed: an X that is not feasible may lie below the optimum.
    reference = optimum if optimum == optimum else min(row[5] for row in curves["mean"])  # noqa: PLR0124
    titles = ("|objective - optimum| / optimum", "||X1 - 1|| / ||1||", "||min(X, 0)|| / ||X||")
    with drawing.panels(3, picture) as (figure, axes):
        for panel, (ax, title) in enumerate(zip(axes, titles, strict=True)):
            ax.set_title(title)
            top = 0.0
            for method, rows in curves.items():
                values = np.array(rows)
                shown = np.abs(values[:, 2] - reference) / reference if panel == 0 else values[:, 2 + panel]
                ax.plot(values[:, 1], np.maximum(shown, 1e-6), color=METHODS[method][3], label=method)
                top = max(top, float(shown.max()))
            drawing.log_log(ax, 1e-6, top)
        drawing.label_lines(axes)
        figure.supxlabel("epochs")
    return [path, picture]
