"""``fwonline report``: the curves of a run, or of several over one another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwonline._cli import FolderError
from fwonline._cli.compare import names_of
from fwonline._cli.folder import RunFolder, read_log

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

# Okabe and Ito's palette: distinct for every kind of colour vision, and on paper.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_DASHES = ("-", "--", ":", "-.")
_NO_CURVES = {  # shown on other axes, or for the log alone
    *("time", "n", "n_predicted", "n_learned", "elapsed", "progress", "samples"),
    *("n_checkpoints", "checkpoint_seconds", "n_rebalances", "n_commits_refused"),
}
_NAMES = {
    "gap_upper": "upper estimate",
    "gap_over_memory": "exact, over the memory",
    "gap_estimate": "optimizer's own (no bound)",
    "gap_estimate_ewm": "its own, faded mean",
    "gap_estimate_mean": "its own, mean",
    "violation": "now",
    "violation_worst": "worst so far",
    "support": "now",
    "support_largest": "most so far",
    "loss": "mean loss, by report",
}
_GAPS = ("gap_upper", "gap_over_memory", "gap_estimate_ewm", "gap_estimate")  # the one shown of several runs
_ROUNDING = 1e-9
_COUNTS = ("rejected", "n_pending", "n_expired", "n_unmatched")


@dataclass
class _Log:
    """The reports of one run as columns."""

    name: str
    n: np.ndarray
    columns: dict[str, np.ndarray]
    times: dict[str, np.ndarray]  # at which sample a value that is taken now and then was taken

    def curve(self, low: str, high: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Samples and bounds, one point for each time that the value was taken."""
        n, lows, highs = self.n, self.columns[low], self.columns[high]
        prefixes = [key for key in self.times if low.startswith(key.removesuffix("_at"))]
        if prefixes and not low.startswith("violation"):  # whose time is that of the worst
            n = self.times[max(prefixes, key=len)]
        seen = np.isfinite(n) & np.isfinite(lows) & np.isfinite(highs)
        _, first = np.unique(n[seen], return_index=True)
        return n[seen][first], lows[seen][first], highs[seen][first]


@dataclass
class _Panel:
    """One set of axes: which columns it shows, and how."""

    title: str
    keys: list[str] = field(default_factory=list)
    log_scale: bool = False
    from_zero: bool = False


def draw(runs: Sequence[Path], output: Path) -> None:
    """Draw the curves of `runs` over the samples into `output` (``.png``, ``.svg`` or ``.pdf``).

    Raises FolderError when a folder holds no run, or its log no curve. Raises ImportError when matplotlib is not
    installed.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    logs = [_load(Path(path)) for path in runs]
    title = " and ".join(log.name for log in logs) if len(logs) <= 2 else f"{len(logs)} runs"
    for log, name in zip(logs, names_of(runs), strict=True):
        log.name = name
    panels = _panels(logs)
    with mpl.rc_context({"font.size": 9, "axes.titlesize": 9.5, "axes.titleweight": "bold", "svg.fonttype": "none"}):
        figure = Figure(figsize=(8, 0.7 + 1.75 * len(panels)), layout="constrained")
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for panel, ax in zip(panels, axes, strict=True):
            _draw_panel(ax, panel, logs)
        axes[-1].set_xlabel("samples")
        axes[-1].xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        figure.suptitle(title, fontsize=12)
        figure.savefig(output, dpi=160)


def _load(path: Path) -> _Log:
    folder = RunFolder(path)
    if not folder.is_run:
        raise FolderError(f"{path}: expected the folder of a run (with definition.toml and log.jsonl)")
    rows = _one_a_sample(read_log(folder.log))
    if not rows:
        raise FolderError(f"{folder.log}: no reports yet; let the run go on for a while")
    keys = dict.fromkeys(key for row in rows for key in row)
    columns = {key: np.array([_float(row.get(key)) for row in rows]) for key in keys}
    shown = {key: values for key, values in columns.items() if _is_curve(key, values)}
    times = {key: values for key, values in columns.items() if key.endswith("_at")}
    return _Log(path.resolve().name, columns["n"], shown, times)


def _one_a_sample(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of two reports at one sample the later, which is the last of a run, with the rate of the earlier."""
    kept: list[dict[str, Any]] = []
    for row in rows:
        if kept and kept[-1]["n"] == row["n"]:
            kept[-1] = {**row, "rate": kept[-1]["rate"]}
        else:
            kept.append(row)
    return kept


def _is_curve(key: str, values: np.ndarray) -> bool:
    # at which sample something was, and how often it was looked at, is for the log alone
    return key not in _NO_CURVES and not key.endswith(("_at", "_looks")) and bool(np.isfinite(values).any())


def _float(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else np.nan


def _panels(logs: Sequence[_Log]) -> list[_Panel]:
    """Sort the columns into panels: what shares a scale and a meaning shares axes."""
    keys = list(dict.fromkeys(key for log in logs for key in log.columns))
    taken = {"rate", "lag", *_COUNTS}

    def pick(pattern: str) -> list[str]:
        found = [key for key in keys if key not in taken and re.search(pattern, key, re.IGNORECASE)]
        taken.update(found)
        return found

    gaps = pick("gap")
    if len(logs) > 1:  # one curve a run tells them apart; five do not
        gaps = next(([key] for key in _GAPS if key in gaps), gaps)
    known = [
        _Panel(
            "Frank-Wolfe gap" + (f": {_NAMES.get(gaps[0], gaps[0])}" if len(logs) > 1 and gaps else ""),
            gaps,
            log_scale=True,
        ),
        _Panel("Regret against the best fixed point", pick("^regret(?!_average)")),
        _Panel("Average regret a sample", pick("^regret_average")),
        _Panel("Distance to the constraint set", pick("violation"), from_zero=True),
        _Panel("Weights that are not zero, or rank", pick("^support"), from_zero=True),
        _Panel("Samples a second", ["rate", *pick("per_second")], from_zero=True),
    ]
    rest = [key for key in keys if key not in taken]
    shares = [key for key in rest if _within_unit(logs, key)]
    metrics = [_Panel(shares[0] if len(shares) == 1 else "Metrics", shares)]
    metrics += [_Panel(key, [key]) for key in rest if key not in shares]
    waiting = [
        key for key in ("lag", *_COUNTS) if any(np.nanmax(log.columns.get(key, np.zeros(1))) > 0 for log in logs)
    ]
    panels = [*metrics, *known, _Panel("Waiting and set aside", waiting, from_zero=True)]
    return [panel for panel in panels if any(key in log.columns for key in panel.keys for log in logs)]


def _within_unit(logs: Sequence[_Log], key: str) -> bool:
    values = np.concatenate([log.columns[key] for log in logs if key in log.columns])
    return bool(np.nanmin(values) >= 0 and np.nanmax(values) <= 1)


def _draw_panel(ax: Axes, panel: _Panel, logs: Sequence[_Log]) -> None:
    lines = list(_lines(panel.keys))
    for i, log in enumerate(logs):
        for j, (label, low, high) in enumerate(lines):
            if low not in log.columns or high not in log.columns:
                continue
            color, dash = _COLORS[j % len(_COLORS)], "-"
            if len(logs) > 1:
                color, dash = _COLORS[i % len(_COLORS)], _DASHES[(i // len(_COLORS) + j) % len(_DASHES)]
            shown = _NAMES.get(label, label)
            if len(logs) > 1:
                shown = log.name if len(lines) == 1 else f"{shown} ({log.name})"
            _draw_line(ax, log, low, high, color=color, linestyle=dash, label=shown)
    values = np.concatenate([line.get_ydata() for line in ax.get_lines()])
    if panel.log_scale and (values[np.isfinite(values)] > 0).any():
        ax.set_yscale("log", nonpositive="mask")
    else:
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    title = panel.title
    if panel.from_zero:
        top = float(np.nanmax(values, initial=0.0))
        if panel.keys[0].startswith("violation") and top < _ROUNDING:
            title += f": at most {top:.1g}, which is rounding" if top else ": none"
            top = _ROUNDING
        ax.set_ylim(-0.05 * (top or 1.0), 1.05 * (top or 1.0))  # a line at zero shows
    ax.set_title(title, loc="left")
    ax.grid(color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(x=0.01)
    if len(lines) * len(logs) > 1:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _lines(keys: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Label and the two columns of each curve, which are one and the same unless it is an interval."""
    for key in keys:
        stem, _, end = key.rpartition("_")
        if end == "lo" and f"{stem}_hi" in keys:
            yield stem, key, f"{stem}_hi"
        elif not (end == "hi" and f"{stem}_lo" in keys):
            yield key, key, key


def _draw_line(ax: Axes, log: _Log, low: str, high: str, *, label: str, **style: Any) -> None:
    n, lows, highs = log.curve(low, high)
    marker = "." if len(n) <= 25 else None
    if low == high:
        ax.plot(n, lows, label=label, linewidth=1.3, marker=marker, **style)
        return
    # a band between its two bounds: the value is inside, and no line in the middle would be right
    ax.fill_between(n, lows, highs, color=style["color"], alpha=0.3, linewidth=0, label=label)
    for bound in (lows, highs):
        ax.plot(n, bound, linewidth=0.8, marker=marker, **style)
