"""What is drawn of runs: their columns sorted into panels. What shares a scale and a meaning shares axes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fwonline._cli.report.logs import Log

__all__ = ["COLORS", "ROUNDING", "Panel", "label_of", "lines", "panels_of", "scale_of"]

# Okabe and Ito's palette: distinct for every kind of colour vision, and on paper.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
ROUNDING = 1e-9
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
_COUNTS = ("rejected", "n_pending", "n_expired", "n_unmatched")


@dataclass
class Panel:
    """One set of axes: which columns it shows, and how."""

    title: str
    keys: list[str] = field(default_factory=list)
    log_scale: bool = False
    from_zero: bool = False
    has_drifts: bool = False  # where drifts are marked
    slope: bool = False  # on log-log scales, beside a line of the slope that theory gives


def panels_of(logs: Sequence[Log]) -> list[Panel]:
    """Sort the columns into panels: what shares a scale and a meaning shares axes."""
    keys = list(dict.fromkeys(key for log in logs for key in log.columns))
    taken = {"rate", "lag", "checkpoint", "loss", *_COUNTS}

    def pick(pattern: str) -> list[str]:
        found = [key for key in keys if key not in taken and re.search(pattern, key, re.IGNORECASE)]
        taken.update(found)
        return found

    lags, reasons = pick("^lag of "), pick("^rejected: ")
    gaps = pick("gap")
    if len(logs) > 1:  # one curve a run tells them apart; five do not
        gaps = next(([key] for key in _GAPS if key in gaps), gaps)
    known = [
        Panel("Mean loss between reports", ["loss"], has_drifts=True),
        Panel(
            "Frank-Wolfe gap" + (f": {_NAMES.get(gaps[0], gaps[0])}" if len(logs) > 1 and gaps else ""),
            gaps,
            log_scale=True,
        ),
        Panel("Regret against the best fixed point", pick("^regret(?!_average)"), slope=True),
        Panel("Average regret a sample", pick("^regret_average")),
        Panel("Distance to the constraint set", pick("violation"), from_zero=True),
        Panel("Weights that are not zero, or rank", pick("^support"), from_zero=True),
        Panel("Samples a second", ["rate", *pick("per_second")], from_zero=True),
    ]
    rest = [key for key in keys if key not in taken]
    shares = [key for key in rest if _within_unit(logs, key)]
    metrics = [Panel(shares[0] if len(shares) == 1 else "Metrics", shares, has_drifts=True)]
    metrics += [Panel(key, [key], has_drifts=True) for key in rest if key not in shares]
    waiting = [
        key for key in ("lag", *_COUNTS) if any(np.nanmax(log.columns.get(key, np.zeros(1))) > 0 for log in logs)
    ]
    panels = [
        *(*metrics, *known, Panel("Waiting and set aside", waiting, from_zero=True)),
        Panel("Waiting, by partition", lags if len(lags) > 1 else [], from_zero=True),
        Panel("Rejected, by reason", reasons if len(reasons) > 1 else [], from_zero=True),
        Panel("Seconds a checkpoint takes", ["checkpoint"], from_zero=True),
    ]
    return [panel for panel in panels if any(key in log.columns for key in panel.keys for log in logs)]


def label_of(key: str) -> str:
    """What a curve is called."""
    return _NAMES.get(key, key)


def scale_of(panel: Panel, largest: float) -> tuple[str, float]:
    """The title of a panel that begins at zero, and where its axis ends: rounding is not shown as if it were more."""
    if panel.keys[0].startswith("violation") and largest < ROUNDING:
        said = f": at most {largest:.1g}, which is rounding" if largest else ": none"
        return panel.title + said, ROUNDING
    return panel.title, largest or 1.0


def _within_unit(logs: Sequence[Log], key: str) -> bool:
    values = np.concatenate([log.columns[key] for log in logs if key in log.columns])
    return bool(np.nanmin(values) >= 0 and np.nanmax(values) <= 1)


def lines(keys: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Label and the two columns of each curve, which are one and the same unless it is an interval."""
    for key in keys:
        stem, _, end = key.rpartition("_")
        if end == "lo" and f"{stem}_hi" in keys:
            yield stem, key, f"{stem}_hi"
        elif not (end == "hi" and f"{stem}_lo" in keys):
            yield key, key, key
