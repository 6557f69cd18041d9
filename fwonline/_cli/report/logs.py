"""The log of a run as columns, thinned to what a picture can show, whatever its length."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fwonline._cli import FolderError
from fwonline._cli.compare import names_of
from fwonline._cli.folder import RunFolder

__all__ = [
    "WHOLE",
    "Log",
    "Row",
    "drifts_of",
    "here_and_there",
    "load",
    "load_all",
    "log_of",
    "one_a_sample",
    "report_of",
    "thinned",
]

# Shown on other axes, or for the log alone.
_NO_CURVES = {
    *("time", "n", "n_predicted", "n_learned", "elapsed", "progress", "samples"),
    *("n_checkpoints", "checkpoint_seconds", "n_rebalances", "n_commits_refused", "drifts"),
}
WHOLE = 1 << 25  # bytes of a log that is read as a whole; of a longer one some lines here and there
_LINES = 4000
_LONGEST = 1 << 16  # bytes of a line
_MOST = 600  # points of a curve
_PARTS = 12  # partitions, or reasons, that are shown

Row = dict[str, Any]


@dataclass
class Log:
    """The reports of one run as columns.

    Parameters
    ----------
    name
        What the run is called.
    n
        The samples at each report.
    columns
        Name -> values, NaN where there is none: what can be drawn as a curve.
    times
        At which sample a value that is taken now and then was taken.
    drifts
        The samples at which drifts were found.
    """

    name: str
    n: np.ndarray
    columns: dict[str, np.ndarray]
    times: dict[str, np.ndarray] = field(default_factory=dict)
    drifts: list[int] = field(default_factory=list)

    def curve(self, low: str, high: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Samples and bounds, one point for each time that the value was taken."""
        n, lows, highs = self.n, self.columns[low], self.columns[high]
        prefixes = [key for key in self.times if low.startswith(key.removesuffix("_at"))]
        if prefixes and not low.startswith(("violation", "drift")):  # whose times are those of the worst, of the last
            n = self.times[max(prefixes, key=len)]
        seen = np.isfinite(n) & np.isfinite(lows) & np.isfinite(highs)
        _, first = np.unique(n[seen], return_index=True)
        return n[seen][first], lows[seen][first], highs[seen][first]


def load(path: Path) -> Log:
    """Read the log of the run in the folder `path`.

    Raises FolderError when it holds no run, or no report yet.
    """
    folder = RunFolder(path)
    if not folder.is_run:
        raise FolderError(f"{path}: expected the folder of a run (with definition.toml and log.jsonl)")
    read, broken = _read(folder.log)
    if broken:
        print(f"warning: {folder.log}: {broken:,} broken lines were left out", file=sys.stderr, flush=True)
    if not read:
        raise FolderError(f"{folder.log}: no reports yet; let the run go on for a while")
    log = log_of(path.resolve().name, one_a_sample(read), drifts_of(read))
    if not log.columns:
        raise FolderError(f"{folder.log}: its reports hold no number that could be drawn")
    return log


def log_of(name: str, reports: list[Row], drifts: list[int]) -> Log:
    """Reports, one a sample, as columns."""
    rows = thinned(reports)
    keys = dict.fromkeys(key for row in rows for key in row)
    columns = {key: np.array([_float(row.get(key)) for row in rows]) for key in keys}
    shown = {key: values for key, values in columns.items() if _is_curve(key, values)}
    times = {key: values for key, values in columns.items() if key.endswith("_at")}
    return Log(name, columns["n"], shown, times, drifts)


def load_all(runs: Sequence[Path]) -> list[Log]:
    """The logs of several runs, each with a name of its own."""
    logs = [load(path) for path in runs]
    for log, name in zip(logs, names_of(runs), strict=True):
        log.name = name
    return logs


def _read(path: Path) -> tuple[list[Row], int]:
    """The reports of a log, oldest first, and how many lines are none."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            lines = file.readlines() if size <= WHOLE else here_and_there(file, size)
    except FileNotFoundError:
        return [], 0
    if lines and not lines[-1].endswith(b"\n"):  # the run is writing it, or was killed then
        lines.pop()
    rows = [row for line in lines if (row := report_of(line)) is not None]
    return rows, len(lines) - len(rows)


def here_and_there(file: Any, size: int) -> list[bytes]:
    """The first lines, those at places as far from one another, and the last ones."""
    lines = file.readlines(1 << 17)
    for place in np.linspace(file.tell(), size - (1 << 17), _LINES).astype(np.int64).tolist():
        if place < file.tell():
            continue
        file.seek(place)
        file.readline(_LONGEST)  # the rest of a line
        lines.append(file.readline(_LONGEST))
    return [*lines, *file.readlines()]


def report_of(line: bytes) -> Row | None:
    """The report that a line is, with what it holds by part as columns of their own."""
    try:
        row = msgspec.json.decode(line)
        n = _float(row["n"])
    except (msgspec.DecodeError, TypeError, KeyError):
        return None
    if not math.isfinite(n):
        return None
    for key, label in (("lags", "lag of"), ("rejected_by", "rejected:")):
        if isinstance(parts := row.pop(key, None), dict):
            row.update({f"{label} {part}": count for part, count in sorted(parts.items())[:_PARTS]})
    return row


def one_a_sample(rows: list[Row]) -> list[Row]:
    """Of two reports at one sample the later, which is the last of a run, with the rate and loss of the earlier."""
    kept: list[Row] = []
    for row in rows:
        if kept and kept[-1]["n"] == row["n"]:
            since = {key: value for key, value in kept[-1].items() if key in ("rate", "loss")}
            kept[-1] = {**row, **since}
        else:
            kept.append(row)
    return kept


def thinned(rows: list[Row]) -> list[Row]:
    """At most so many of the reports; those that are left have the rate and loss since the one before them.

    Half lie evenly, half in even ratios, so that the beginning is seen as well. What checkpoints took is added.
    """
    kept = set(range(len(rows)))
    if len(rows) > _MOST:
        last = len(rows) - 1
        kept = {round(i) for i in np.linspace(0, last, _MOST // 2)} | {
            round(i) - 1 for i in np.geomspace(1, last + 1, _MOST // 2)
        }
    found, start = [], 0
    for i in sorted(kept):
        since, row = rows[start : i + 1], dict(rows[i])
        before = rows[start - 1] if start else {}
        if len(since) > 1:
            row.update(_means(since, before))
        written = _float(row.get("n_checkpoints")) - _float(before.get("n_checkpoints", 0))
        if written > 0:
            took = _float(row.get("checkpoint_seconds")) - _float(before.get("checkpoint_seconds", 0.0))
            row["checkpoint"] = max(0.0, took) / written
        found.append(row)
        start = i + 1
    return found


def _means(rows: list[Row], before: Row) -> Row:
    """Rate and loss of several reports as if they were one."""
    n = np.array([before.get("n", 0), *(row["n"] for row in rows)], dtype=float)
    losses = np.array([_float(row.get("loss")) for row in rows])
    weight = np.where(np.isfinite(losses), np.maximum(np.diff(n), 0.0), 0.0)
    found = {}
    if weight.sum() > 0:
        found["loss"] = float(np.nansum(losses * weight) / weight.sum())
    seconds = _float(rows[-1].get("elapsed")) - _float(before.get("elapsed", 0.0))
    if seconds > 0:  # else it began anew in between
        found["rate"] = (n[-1] - n[0]) / seconds
    return found


def drifts_of(rows: list[Row]) -> list[int]:
    """Where the monitor Drift found one; of several between two reports the last."""
    found, known = [], 0.0
    for row in rows:
        if (count := _float(row.get("drifts"))) > known:
            known = count
            if math.isfinite(at := _float(row.get("drift_at"))):
                found.append(int(at))
    return found[-200:]


def _is_curve(key: str, values: np.ndarray) -> bool:
    # at which sample something was, and how often it was looked at, is for the log alone
    return key not in _NO_CURVES and not key.endswith(("_at", "_looks")) and bool(np.isfinite(values).any())


def _float(value: Any) -> float:
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:  # an integer beyond every float
        return math.nan
