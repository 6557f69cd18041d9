"""Encoders that make a feature of nearly every value: named before they fill memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fwonline._kinds import derives
from fwonline._pipeline import steps_of
from fwonline.loop._values import is_number

__all__ = ["exploding"]

# A column has exploded with more categories than this, when they are numbers, or as many as half of the samples.
_MANY = 100


def exploding(model: Any, n: int) -> Iterator[tuple[Any, str]]:
    """Yield the columns that river's `OneHotEncoder`s in `model` have made too many features of, each with a warning.

    `n` is how many samples were learned.
    """
    for step in steps_of(model):
        if not derives(type(step), "river.preprocessing.one_hot.OneHotEncoder"):
            continue
        for column, values in step.values.items():
            if len(values) > _MANY and (2 * len(values) > n or all(map(is_number, values))):
                what = "numbers" if all(map(is_number, values)) else "values that hardly ever come again"
                made = f"{len(values):,} features of the column {column!r} in {n:,} samples"
                advice = "Scale it or leave it out (Select, Discard); TableEncoder bounds the number of categories"
                yield column, f"OneHotEncoder has made {made}: it holds {what}. {advice}"
