"""Values of samples: which are numbers, which are acceptable, and how they look in messages."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np

from fwonline._kernels.layout import LARGEST
from fwonline.exceptions import SampleError


class Refusal(SampleError):
    """A sample that is rejected before the model gets it; `reason` is the word under which it is counted."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def is_number(value: Any) -> bool:
    """Whether a value is a real number."""
    kind = type(value)
    return kind is float or kind is int or kind is bool or isinstance(value, (numbers.Real, Decimal))


def wrong(value: Any) -> str | None:
    """What was expected in place of a number that is not finite, or too large; None where nothing is wrong."""
    try:
        size = abs(float(value))
    except (ArithmeticError, ValueError):  # an integer beyond every float; a signalling NaN
        size = math.nan
    if size <= LARGEST:
        return None
    return f"a number of at most {LARGEST:g}" if math.isfinite(size) else "a finite number"


def numbers_in(value: Any) -> Iterator[Any]:
    """Yield the numbers inside lists, dicts and arrays, however deep."""
    seen: set[int] = set()
    inside = [value]
    while inside:
        value = inside.pop()
        if is_number(value):
            yield value
        elif isinstance(value, complex):
            inside += [value.real, value.imag]
        elif isinstance(value, (dict, list, tuple, set, frozenset, np.ndarray)) and id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, np.ndarray):
                value = value.ravel().tolist()
            inside += value.values() if isinstance(value, dict) else value


def is_finite(y_pred: Any) -> bool:
    """Whether a prediction has only finite numbers."""
    values = y_pred.values() if isinstance(y_pred, dict) else [y_pred]
    return all(math.isfinite(float(value)) for value in values if isinstance(value, numbers.Real))


def is_hashable(value: Any) -> bool:
    """Whether a value can be a key; a tuple that holds a list cannot."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def check_time(time: Any) -> None:
    """Check an event time: with one that is not a number no question would ever expire.

    Raises Refusal when it is not finite.
    """
    try:
        is_right = time is None or math.isfinite(time)
    except (TypeError, OverflowError):
        is_right = False
    if not is_right:
        raise Refusal("time", f"the event time is {shown(time)}: expected finite seconds since the epoch")


def type_name(kind: type) -> str:
    """The name of a type, with its module unless it is a built-in one."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def shown(value: Any) -> str:
    """A value in at most 60 characters."""
    try:
        text = repr(value)
    except Exception:  # an integer of too many digits, a list nested too deep
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
