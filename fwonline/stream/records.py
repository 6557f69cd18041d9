"""From the text of files and messages to what a model takes: text to values, a flat record to a sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable
from datetime import UTC, datetime
from typing import Any

from fwonline.stream.base import Rejected, Sample

__all__ = ["KINDS", "RecordLayout"]


class RecordLayout:
    """Which fields of a flat record are the target, the key and the time; the rest are features.

    Values are kept as they were read: the model decides whether it can take them.

    Its parameters are those of `JSONLinesSource`. Raises ValueError when two roles are given to one field.

    Examples
    --------
    >>> from fwonline.stream.records import RecordLayout
    >>> layout = RecordLayout(target="clicked", key="id")
    >>> layout.sample({"id": 7, "age": 31, "clicked": True}, raw=b"", origin="clicks#1")
    Sample(x={'age': 31}, y=True, key=7, time=None, origin='clicks#1', headers=())
    >>> layout.sample({"id": 8, "age": 25}, raw=b"", origin="clicks#2").error
    "clicks#2: no target: expected a value in the field 'clicked'"
    """

    def __init__(
        self,
        target: str | None = None,
        *,
        key: str | None = None,
        time: str | None = None,
        features: Collection[str] | None = None,
        drop: Collection[str] = (),
        require_target: bool = True,
    ) -> None:
        self.target = target
        self.key = key
        self.time = time
        self.features = None if features is None else frozenset(field_names(features, "features"))
        self.drop = tuple(field_names(drop, "drop"))
        self.require_target = require_target
        self._is_plain = key is None and time is None and not self.drop
        self.only_target = target if self._is_plain and features is None else None  # of records without other roles
        single = [("target", target), ("key", key), ("time", time)]
        several = [("drop", field) for field in self.drop] + [("features", field) for field in self.features or ()]
        self.roles: dict[str, str] = {}  # by field
        for role, field in single + several:
            if field is not None and self.roles.setdefault(field, role) != role:
                raise ValueError(f"the field {field!r} cannot be both {self.roles[field]} and {role}")

    def sample(
        self,
        record: dict[str, Any],
        raw: Any,
        origin: str,
        key: Hashable | None = None,
        time: float | None = None,
        headers: tuple = (),
    ) -> Sample | Rejected:
        """Return the sample of `record`, whose remaining fields become the features, or why it is rejected.

        `raw`, `origin` and `headers` are those of `Sample` and `Rejected`; `key` and `time` (a message's own) are used
        if the layout names no field for them.
        """
        y = None
        if not self._is_plain:
            for field in self.drop:
                record.pop(field, None)
            try:
                if self.key is not None:
                    key = _hashable(record.pop(self.key, None), self.key)
                if self.time is not None:
                    time = _seconds(record.pop(self.time, None), self.time)
            except ValueError as why:
                return Rejected(raw, f"{origin}: {why}", origin, key, headers)
        if self.target is not None:
            y = record.pop(self.target, None)
            if y is None and self.require_target:
                error = f"{origin}: no target: expected a value in the field {self.target!r}"
                return Rejected(raw, error, origin, key, headers)
        if self.features is not None and (unknown := record.keys() - self.features):
            error = f"{origin}: unknown field {min(unknown)!r}; expected only {listed(sorted(self.features))}"
            return Rejected(raw, error, origin, key, headers)
        return Sample(record, y, key, time, origin, headers)


def field_names(names: Collection[str], parameter: str) -> Collection[str]:
    """Return `names`; a text in place of a list is a TypeError."""
    if isinstance(names, str):  # which would be taken letter by letter
        raise TypeError(f"{parameter}: expected a list of names, found the text {names!r}")
    return names


def _hashable(value: Any, field: str) -> Hashable:
    try:
        hash(value)
    except TypeError:
        raise ValueError(f"key {field!r}: expected text or a number, found a {type(value).__name__}") from None
    return value


def _seconds(value: Any, field: str) -> float | None:
    if value is None:
        return None
    if type(value) in (int, float) and math.isfinite(value):
        return float(value)
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"time {field!r}: expected seconds since the epoch or an ISO 8601 date, found {value!r}"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def listed(names: Collection[str], most: int = 8) -> str:
    """Join names for a message, the first few of many."""
    shown = ", ".join(list(names)[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"


def number(text: str) -> float:
    """Read a number: decimal, with or without exponent, `nan` or `inf` (which a model rejects by name)."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"expected a number, found {text!r}") from None
    if "_" in text:  # Python's digit groups are in no data format
        raise ValueError(f"expected a number, found {text!r}")
    return value


def whole(text: str) -> int:
    """Read a whole number; `3.0` is one."""
    value = number(text)
    if not value.is_integer():
        raise ValueError(f"expected a whole number, found {text!r}")
    digits = text.strip()
    return int(digits) if digits.lstrip("+-").isdecimal() else int(value)  # exact beyond 2^53


TRUE = frozenset({"1", "+1", "1.0", "true", "yes"})
FALSE = frozenset({"0", "-1", "0.0", "-1.0", "false", "no"})


def boolean(text: str) -> bool:
    """Read one of two classes: 1, true, yes against 0, -1, false, no."""
    word = text.strip().lower()
    if word in TRUE:
        return True
    if word in FALSE:
        return False
    raise ValueError(f"expected one of 1, true, yes, 0, -1, false, no; found {text!r}")


def automatic(text: str) -> float | int | str:
    """Read a number if it is one, else keep the text; a whole number without a point becomes an int."""
    digits = text.strip()
    if digits.removeprefix("-").isdecimal() and len(digits) < MOST_DIGITS:
        return int(digits)
    try:
        return number(text)
    except ValueError:
        return text


def with_comma(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return what reads numbers as `convert` does, with a comma before the fraction."""

    def read(text: str) -> Any:
        try:
            value = convert(text.replace(".", "_").replace(",", "."))  # a point would be one of thousands, or a mistake
        except ValueError:
            raise ValueError(f"expected a number with a decimal comma, found {text!r}") from None
        return text if isinstance(value, str) else value

    return read


#: Python reads no longer whole numbers, since that takes quadratic time.
MOST_DIGITS = 4000

#: What a column or a label may hold, by name.
KINDS: dict[str, Callable[[str], Any]] = {
    "auto": automatic,
    "number": number,
    "int": whole,
    "bool": boolean,
    "text": str,
}


def as_converter(kind: str | Callable[[str], Any], parameter: str) -> Callable[[str], Any]:
    """Return the function that reads `kind`, a name of `KINDS` or a function of the text.

    Raises ValueError when it is neither.
    """
    if isinstance(kind, str) and kind in KINDS:
        return KINDS[kind]
    if callable(kind):
        return kind
    raise ValueError(f"{parameter}: expected a function or one of {listed(list(KINDS))}; found {kind!r}")
