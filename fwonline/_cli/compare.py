"""Several runs side by side: in what their definitions differ, and what came of it."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fwonline._cli.folder import RunFolder, last_report
from fwonline._cli.view import is_aside, number
from fwonline.definition import read_definition
from fwonline.loop.report import Report

__all__ = ["names_of", "rows_of", "table"]

_GAP = "  "


def names_of(runs: Sequence[Path]) -> list[str]:
    """The names of the runs' folders, without what they share in front, or their paths where two have one name."""
    names = [path.resolve().name for path in runs]
    if len(set(names)) < len(names):
        return [str(path) for path in runs]
    if len(names) > 1:  # `phishing-radius=3` and `phishing-radius=10` differ behind the dash
        shared = re.match(r"(?:.*[-/])?", os.path.commonprefix(names))  # noqa: RUF071  (characters)
        names = [name[shared.end() :] or name for name in names] if shared else names
    return names


def table(runs: Sequence[Path], width: int | None = None) -> Iterator[str]:
    """Yield the lines of a table: a column for each run, none of the lines wider than `width` if that can be."""
    width = width or shutil.get_terminal_size().columns
    rows = rows_of([RunFolder(path) for path in runs])
    names = names_of(runs)
    label = min(max(map(len, rows)), max(16, width // 2))
    columns = [[name, *(values[i] for values in rows.values())] for i, name in enumerate(names)]
    while columns:
        shown: list[list[str]] = []
        room = width - label
        while columns and (not shown or room >= max(map(len, columns[0])) + len(_GAP)):
            room -= max(map(len, columns[0])) + len(_GAP)
            shown.append(columns.pop(0))
        widths = [max(map(len, column)) for column in shown]
        for k, name in enumerate(["", *rows]):
            cells = (f"{column[k]:>{size}}" for column, size in zip(shown, widths, strict=True))
            yield _GAP.join([f"{_shortened(name, label):<{label}}", *cells]).rstrip()
        if columns:
            yield ""


def rows_of(folders: list[RunFolder]) -> dict[str, list[str]]:
    """Label -> a value for each run: parameters that differ, then results."""
    leaves = [read_definition(folder.definition).leaves() for folder in folders]
    rows = {}
    for key in dict.fromkeys(key for one in leaves for key in one):
        values = [one.get(key, "-") for one in leaves]
        if len(set(values)) > 1:
            rows[key] = values
    results = [_results(folder) for folder in folders]
    for key in dict.fromkeys(key for one in results for key in one):
        rows[key] = [number(one.get(key)) for one in results]
    return rows


def _results(folder: RunFolder) -> dict[str, Any]:
    """How a run ended, or how it stands."""
    summary, last = folder.read_summary(), last_report(folder.log)
    standing = {**last, **summary}
    if "monitors" not in standing and last:
        known = {field.name for field in dataclasses.fields(Report)} | {"time", "rejected", "rejected_by", "road"}
        standing["monitors"] = {key: value for key, value in last.items() if key not in known}
    found = {"state": standing.get("state", "unfinished"), "samples": standing.get("n")}
    if rejected := sum(standing.get("n_rejected", {}).values()):
        found["rejected"] = rejected
    found["seconds"] = standing.get("elapsed")
    return {**found, **{key: value for key, value in standing.get("monitors", {}).items() if not is_aside(key)}}


def _shortened(text: str, size: int) -> str:
    """The end of a text, which tells more than its beginning."""
    return text if len(text) <= size else f"~{text[1 - size :]}"
