"""Checks of parameters, shared by sets, optimizers and estimators."""

from __future__ import annotations

import math
import numbers
import typing

if typing.TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["check_choice", "check_count", "check_positive", "is_real"]


def is_real(value: typing.Any) -> bool:
    """Whether the value is a real number, and not True or False."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_positive(name: str, value: typing.Any) -> None:
    """Raise a ValueError unless `value` is a finite number > 0."""
    try:
        size = float(value) if is_real(value) else math.nan
    except OverflowError:  # an integer beyond every float
        size = math.inf
    if not 0.0 < size < math.inf:
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")


def check_count(name: str, value: typing.Any, least: int = 1) -> None:
    """Raise a ValueError unless `value` is an integer no smaller than `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")


def check_choice(name: str, value: typing.Any, choices: Iterable[typing.Any]) -> None:
    """Raise a ValueError unless `value` is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
