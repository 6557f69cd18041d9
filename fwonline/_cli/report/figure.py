"""``fwonline report``: the curves of a run, or of several over one another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwonline._cli.report.logs import Log
from fwonline._cli.report.panels import COLORS, Panel, label_of, lines, panels_of, scale_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

_DASHES = ("-", "--", ":", "-.")


def draw(logs: Sequence[Log], output: Path) -> None:
    """Draw the curves of runs over the samples into `output` (``.png``, ``.svg`` or ``.pdf``).

    Raises ImportError when matplotlib is not
    installed.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    title = " and ".join(log.name for log in logs) if len(logs) <= 2 else f"{len(logs)} runs"
    panels = panels_of(logs)
    with mpl.rc_context(
        {
            "font.size": 9,
            "axes.titlesize": 9.5,
            "axes.titleweight": "bold",
            "svg.fonttype": "none",
            "text.parse_math": False,
        }
    ):
        figure = Figure(figsize=(8, 0.7 + 1.75 * len(panels)), layout="constrained")
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for panel, ax in zip(panels, axes, strict=True):
            _draw_panel(ax, panel, logs)
        axes[-1].set_xlabel("samples")
        axes[-1].xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        figure.suptitle(title, fontsize=12)
        figure.savefig(output, dpi=160)


def _draw_panel(ax: Axes, panel: Panel, logs: Sequence[Log]) -> None:
    curves = list(lines(panel.keys))
    for i, log in enumerate(logs):
        for j, (label, low, high) in enumerate(curves):
            if low not in log.columns or high not in log.columns:
                continue
            color, dash = COLORS[j % len(COLORS)], "-"
            if len(logs) > 1:
                color, dash = COLORS[i % len(COLORS)], _DASHES[(i // len(COLORS) + j) % len(_DASHES)]
            shown = label_of(label)
            if len(logs) > 1:
                shown = log.name if len(curves) == 1 else f"{shown} ({log.name})"
            _draw_line(ax, log, low, high, color=color, linestyle=dash, label=shown)
    values = np.concatenate([line.get_ydata() for line in ax.get_lines()])
    if panel.log_scale and (values[np.isfinite(values)] > 0).any():
        ax.set_yscale("log", nonpositive="mask")
    else:
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    title = panel.title
    if panel.from_zero:
        title, top = scale_of(panel, float(np.nanmax(values, initial=0.0)))
        ax.set_ylim(-0.05 * top, 1.05 * top)  # a line at zero shows
    for log in logs if panel.has_drifts and len(logs) == 1 else ():
        for n in log.drifts:
            ax.axvline(n, color="0.5", linewidth=0.8, linestyle=":")
    ax.set_title(title, loc="left")
    ax.grid(color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(x=0.01)
    if len(curves) * len(logs) > 1:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _draw_line(ax: Axes, log: Log, low: str, high: str, *, label: str, **style: Any) -> None:
    n, lows, highs = log.curve(low, high)
    marker = "." if len(n) <= 25 else None
    if low == high:
        ax.plot(n, lows, label=label, linewidth=1.3, marker=marker, **style)
        return
    # a band between its two bounds: the value is inside, and no line in the middle would be right
    ax.fill_between(n, lows, highs, color=style["color"], alpha=0.3, linewidth=0, label=label)
    for bound in (lows, highs):
        ax.plot(n, bound, linewidth=0.8, marker=marker, **style)
