"""What a step of ``SHCGMCovariance`` costs against the number of features, beside a literal version in numpy."""

from __future__ import annotations

import csv
import dataclasses
import typing

import numpy as np

from tools.bench import covariance
from tools.papers import drawing

if typing.TYPE_CHECKING:
    from pathlib import Path

__all__ = ["draw"]

_SIZES = (50, 100, 200, 300, 500, 1000, 2000)
_LINES = (
    ("literal", "numpy and eigsh", drawing.BLACK),
    ("dual", "with dual", drawing.PURPLE),
    ("block", "default", drawing.VERMILION),
    ("single", "float32", drawing.GREEN),
    ("vertex", "one direction", drawing.ORANGE),
)


def draw(stem: Path, quick: bool = False) -> list[Path]:
    """The figure, its numbers and its table; by the machine's own clock."""
    sizes = ((20, 10, 5), (40, 10, 5)) if quick else tuple((n, 100, 30 if n < 1000 else 15) for n in _SIZES)
    steps = [covariance.step(*size) for size in sizes]
    print("medians of turns of 5 steps, after 100 others; block covariance, trace and l1 norm of the truth; one thread")
    print("the cost of a step is quadratic in n; ours moves half a matrix at a time, and keeps to memory's pace\n")
    print("| n | " + " | ".join(label for _, label, _ in _LINES) + " | numpy's over the default's |")
    print("|---|" + "---|" * (len(_LINES) + 1))
    for step in steps:
        cells = " | ".join(f"{1e3 * getattr(step, name):.3g} ms" for name, _, _ in _LINES)
        print(f"| {step.n:,} | {cells} | {step.literal / step.block:.1f} |")
    path = stem.with_suffix(".csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in dataclasses.fields(covariance.Step)])
        writer.writeheader()
        writer.writerows(dataclasses.asdict(step) for step in steps)
    picture = stem.with_suffix(".png")
    with drawing.panels(1, picture) as (figure, (ax,)):
        ax.set_title("milliseconds a step")
        for name, label, color in _LINES:
            values = 1e3 * np.array([getattr(step, name) for step in steps])
            ax.plot([step.n for step in steps], values, color=color, label=label)
        drawing.log_log(ax, 0.0, 1e3 * max(step.literal for step in steps))
        drawing.label_lines([ax])
        figure.supxlabel("features")
    return [path, picture]
