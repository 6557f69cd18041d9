"""``fwonline show``: what a run has learned, on one page."""

from __future__ import annotations

import csv
import re
import shutil
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from river import base, compose

from fwonline._cli.files import replacing
from fwonline._cli.folder import RunFolder, read_log
from fwonline._cli.learned.state import load_state
from fwonline._cli.view import duration, is_aside, number
from fwonline._pipeline import final_estimator
from fwonline.definition import read_definition

__all__ = ["card", "lines_of", "write_weights"]

_MOST = 10  # weights shown
Weight = tuple[Any, Any, float]  # class (None where there is one list of weights), feature, weight


def card(run: Path) -> dict[str, Any]:
    """All that is known of a run: what, when, from which data, how good, how sparse; as JSON can hold it.

    Raises FolderError when it has no model.
    """
    folder = RunFolder(run)
    state, summary, log = load_state(run), folder.read_summary(), read_log(folder.log)
    definition = read_definition(folder.definition) if folder.definition.is_file() else None
    model, counts, partitions = state["model"], state.get("counts", {}), state.get("partitions")
    final = final_estimator(model)
    last = log[-1] if log else {}
    monitors = summary.get("monitors") or {key: value for one in state["monitors"] for key, value in one.get().items()}
    values = {} if definition is None else definition.values
    found: dict[str, Any] = {
        "name": summary.get("name") or values.get("name", run.resolve().name),
        "state": summary.get("state", f"a group's, {partitions} partitions" if partitions else "unfinished"),
        "error": summary.get("error"),
        "samples": summary.get("n", counts.get("n", 0)),
        "learned": summary.get("n_learned", counts.get("n_learned", last.get("n_learned"))),
        "rejected": summary.get("n_rejected", dict(counts.get("n_rejected", {}))),
        "began": log[0]["time"] - log[0]["elapsed"] if log else None,
        "ended": last.get("time"),
        "seconds": summary.get("elapsed", last.get("elapsed")),
        "source": values.get("source"),
        "model": [repr(step) for step in _steps(model)],
        "monitors": monitors,
        "non_zeros": getattr(final, "support_size", None),
        "features": getattr(final, "n_features", None),
        "classes": [str(label) for label in getattr(final, "classes", ()) if label is not None],
        "intercept": _plain(getattr(final, "intercept_", None)),
        "weights": [
            {**({} if label is None else {"class": str(label)}), "feature": str(name), "weight": weight}
            for label, name, weight in weights_of(model)
        ],
    }
    return {key: value for key, value in found.items() if value not in (None, {}, [])}


def weights_of(model: Any) -> list[Weight]:
    """The weights that are not zero, the largest first."""
    final = final_estimator(model)
    weights = getattr(final, "weights", None) if isinstance(final, base.Classifier | base.Regressor) else None
    found: list[Weight] = []
    for name, weight in weights.items() if isinstance(weights, Mapping) else ():
        if isinstance(weight, Mapping):  # of one class
            found += [(name, feature, float(value)) for feature, value in weight.items() if value]
        elif weight:
            found.append((None, name, float(weight)))
    return sorted(found, key=lambda weight: -abs(weight[2]))


def write_weights(run: Path, to: Path) -> int:
    """Write the weights of a run as CSV, the largest first; return how many there are.

    Raises FolderError when it has no model.
    """
    weights = weights_of(load_state(run)["model"])
    has_classes = any(label is not None for label, _, _ in weights)
    with replacing(to) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*["class"] * has_classes, "feature", "weight"])
        writer.writerows([*[label] * has_classes, name, weight] for label, name, weight in weights)
    return len(weights)


def lines_of(card: dict[str, Any], width: int | None = None) -> Iterator[str]:
    """Yield the lines of a card, none of them wider than `width`, by default the terminal's."""
    width = width or shutil.get_terminal_size().columns
    yield f"{card['name']}: {card['state']}, {card['samples']:,} samples"
    for label, text in _facts(card):
        yield from _wrapped(label, text, width)
    if card.get("monitors"):
        yield "each sample predicted before it was learned:"
        shown = {key: value for key, value in card["monitors"].items() if value is not None and not is_aside(key)}
        for key, value in shown.items():
            yield from _wrapped(f"  {key}", number(value), width, 2 + max(map(len, shown)))
    if weights := card.get("weights"):
        yield f"the largest of {len(weights):,} weights:" if len(weights) > _MOST else "weights:"
        yield from _bars(weights[:_MOST], width)


def _facts(card: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if "error" in card:
        yield "failed", card["error"]
    if "began" in card:
        moments = [time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(card[key])) for key in ("began", "ended")]
        yield "when", f"{moments[0]} to {moments[1]}" + (f" ({duration(card['seconds'])})" if "seconds" in card else "")
    if "source" in card:
        source = card["source"] if isinstance(card["source"], dict) else {"class": card["source"]}
        parts = [f"{key} {_shown(value)}" for key, value in source.items() if key not in ("class", "client")]
        yield "data", ", ".join([str(source.get("class")), *parts])
    for k, step in enumerate(card["model"]):
        yield "model" if not k else "", _on_one_line(step)
    if "rejected" in card:
        yield "rejected", ", ".join(f"{count:,} {reason}" for reason, count in card["rejected"].items())
    if "classes" in card:
        binary = len(card["classes"]) == 2 and not any("class" in weight for weight in card.get("weights", ()))
        sign = f" (a weight above 0 is evidence of {card['classes'][1]})" if binary else ""
        yield "classes", ", ".join(card["classes"]) + sign
    if "non_zeros" in card:
        of = f"{card['features']:,} features" if "features" in card else ""
        if any("class" in weight for weight in card.get("weights", ())):
            of = f"{len(card['classes'])} classes x {of}"
        yield "non-zeros", f"{card['non_zeros']:,}" + (f" of {of}" if of else "")
    if "intercept" in card:
        several = isinstance(card["intercept"], dict)
        pairs = card["intercept"].items() if several else [("", card["intercept"])]
        yield "intercept", ", ".join(f"{label} {number(value)}".strip() for label, value in pairs)


def _on_one_line(text: str) -> str:
    """An object as river prints it, without the parameters that were left alone."""
    return re.sub(r"\s+", " ", re.sub(r"\s\w+=None(?=\s)", "", text)).replace("( ", "(").replace(" )", ")")


def _wrapped(label: str, text: str, width: int, column: int = 9) -> list[str]:
    room = max(20, width - column - 2)
    lines = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
    return [f"{label if not k else '':<{column}}  {line}".rstrip() for k, line in enumerate(lines)]


def _bars(weights: list[dict[str, Any]], width: int) -> Iterator[str]:
    names = [" ".join(str(w[key]) for key in ("class", "feature") if key in w) for w in weights]
    column = min(max(map(len, names)), max(8, width - 32))
    largest = abs(weights[0]["weight"])
    for name, weight in zip(names, weights, strict=True):
        value = weight["weight"]
        shown = name if len(name) <= column else f"{name[: column - 1]}~"
        bar = "#" * max(1, round(min(16, width - column - 15) * abs(value) / largest))
        yield f"  {shown:<{column}} {value:>+10.4g} {bar}"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _steps(model: Any) -> list[Any]:
    return list(model.steps.values()) if isinstance(model, compose.Pipeline) else [model]


def _plain(intercept: Any) -> Any:
    if isinstance(intercept, Mapping):
        return {str(label): float(value) for label, value in intercept.items()} or None
    return None if intercept is None or not float(intercept) else float(intercept)
