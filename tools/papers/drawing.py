"""How the figures look: colours that every kind of colour vision tells apart, lines named where they are."""

from __future__ import annotations

import contextlib
import typing

import numpy as np

if typing.TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["BLACK", "BLUE", "GREEN", "ORANGE", "PURPLE", "VERMILION", "label_lines", "log_log", "mark", "panels"]

# Okabe and Ito's palette.
BLUE, VERMILION, GREEN, BLACK = "#0072B2", "#D55E00", "#009E73", "#000000"
ORANGE, PURPLE = "#E69F00", "#CC79A7"

_STYLE = {
    "font.size": 13,
    "axes.titlesize": 13,
    "axes.labelsize": 13,
    "lines.linewidth": 2.4,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
}


@contextlib.contextmanager
def panels(count: int, path: Path) -> Iterator[tuple[Figure, list[Axes]]]:
    """A row of axes, written to ``path`` at the end."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.3 * count, 4.4), layout="constrained")
        yield figure, list(figure.subplots(1, count, squeeze=False)[0])
        figure.savefig(path, dpi=150)


def log_log(ax: Axes, resolution: float, top: float) -> None:
    """Log scales with few ticks; what lies below the resolution is grey, and the axis ends soon after."""
    from matplotlib.ticker import LogLocator

    ax.set_xscale("log")
    ax.set_yscale("log")
    lowest = min(float(np.min(line.get_ydata())) for line in ax.lines if not str(line.get_label()).startswith("_"))
    bottom = max(lowest / 2.0, resolution / 3.0)
    ax.set_ylim(bottom, 2.0 * top)
    if resolution > bottom:
        ax.axhspan(bottom, resolution, color="0.88", lw=0, zorder=0)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(numticks=6))
    ax.grid(which="major", color="0.9", lw=0.8)
    ax.set_axisbelow(True)


def mark(ax: Axes, x: float, text: str) -> None:
    """A thin upright line with its name at the top."""
    ax.axvline(x, color="0.55", lw=1.0, ls=":", zorder=1)
    ax.annotate(
        text,
        (x, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(4, -2),
        textcoords="offset points",
        va="top",
        color="0.4",
        fontsize=11,
    )


def label_lines(axes: list[Axes]) -> None:
    """Name the lines of the last axes beside them, one below the other, each tied to its line's end; no legend."""
    import matplotlib as mpl

    ax = axes[-1]
    lines = [line for line in ax.lines if not str(line.get_label()).startswith("_")]
    bottom = ax.get_ylim()[0]
    ends = [(np.asarray(line.get_xdata())[-1], max(np.asarray(line.get_ydata())[-1], bottom)) for line in lines]
    heights = ax.transAxes.inverted().transform(ax.transData.transform(ends))[:, 1]
    # a line of text in parts of the axes' height, which is about four fifths of the figure's
    gap = 1.25 * mpl.rcParams["font.size"] / 72.0 / (0.8 * ax.figure.get_figheight())  # type: ignore[union-attr]
    for i, height in zip(np.argsort(heights), _apart(np.sort(heights), gap), strict=True):
        line = lines[i]
        ax.annotate(
            str(line.get_label()),
            ends[i],
            xytext=(1.05, height),
            textcoords="axes fraction",
            va="center",
            color=line.get_color(),
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": line.get_color(),
                "lw": 0.8,
                "relpos": (0.0, 0.5),
                "shrinkA": 2.0,
                "shrinkB": 0.0,
            },
        )


def _apart(heights: NDArray[np.float64], gap: float) -> NDArray[np.float64]:
    """The heights, which ascend, moved as little as it takes to lie `gap` apart: groups are centred on their mean."""
    groups: list[list[float]] = []
    for height in heights:
        groups.append([float(height)])
        while len(groups) > 1 and _lowest(groups[-1], gap) < _lowest(groups[-2], gap) + gap * len(groups[-2]):
            last = groups.pop()
            groups[-1] += last
    return np.array([_lowest(group, gap) + k * gap for group in groups for k in range(len(group))])


def _lowest(group: list[float], gap: float) -> float:
    return float(np.mean(group)) - 0.5 * gap * (len(group) - 1)
