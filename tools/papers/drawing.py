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

__all__ = ["BLACK", "BLUE", "GREEN", "VERMILION", "label_lines", "log_log", "mark", "panels"]

# Okabe and Ito's palette.
BLUE, VERMILION, GREEN, BLACK = "#0072B2", "#D55E00", "#009E73", "#000000"

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
    """Name the lines of the last axes at their ends; no legend."""
    ax = axes[-1]
    for line in (line for line in ax.lines if not str(line.get_label()).startswith("_")):
        x, y = np.asarray(line.get_xdata())[-1], np.asarray(line.get_ydata())[-1]
        ax.annotate(
            str(line.get_label()),
            (x, max(y, ax.get_ylim()[0])),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=line.get_color(),
            annotation_clip=False,
        )
