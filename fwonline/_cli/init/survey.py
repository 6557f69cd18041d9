"""What the columns of a table hold, judged by its first rows: a kind for each, or why it is left out."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from fwonline.stream.records import automatic

__all__ = ["Column", "as_number", "reads_as_number", "survey", "survey_labels"]

#: Texts that mean a missing value wherever they stand.
NA_TEXTS = frozenset({"NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "#N/A", "?"})
#: Pairs of texts that are two sides of one thing.
_BOOLEANS = ({"true", "false"}, {"yes", "no"}, {"t", "f"}, {"y", "n"})
_DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y")
_FORMS = tuple(f"{day}{time}" for time in ("", " %H:%M", " %H:%M:%S") for day in _DAYS)
_ID_NAME = re.compile(r"(^|[_\W])(id|uuid|guid|key|index|idx|rowid|row)$|[a-z]Id$|ID$|^Unnamed", re.IGNORECASE)
_TIME_NAME = re.compile(r"time|date|stamp|_at$|^ts$|^at$", re.IGNORECASE)
# A column of numbers but for these many different texts, in at most this share of its rows, is one of numbers.
_STRAY_TEXTS, _STRAY_SHARE = 3, 0.3
# Fewer rows show nothing about what each row has of its own.
_ENOUGH = 20
_SHOWN = 4


@dataclass
class Column:
    """A column: what it holds, and what the definition says of it.

    `kind` is one of `TableEncoder`, or "text" for free text; "drop" leaves the column out. `remark` is for people: what
    was seen, or why it is left out. `na_texts` are texts of it that mean a missing value, `as_text` says that numbers
    of it are texts.
    """

    name: str
    n: int = 0
    n_missing: int = 0
    values: Counter[Any] = field(default_factory=Counter)
    kind: str = "drop"
    remark: str = ""
    na_texts: set[str] = field(default_factory=set)
    as_text: bool = False
    is_ordered: bool = False  # each row one more than the row before

    def add(self, value: Any) -> None:
        """Count a cell."""
        self.n += 1
        if isinstance(value, str):
            value = value.strip()
            if value in NA_TEXTS:
                self.na_texts.add(value)
        if value is None or value == "" or value != value or (isinstance(value, str) and value in NA_TEXTS):  # noqa: PLR0124
            self.n_missing += 1
        else:
            self.values[f"a {type(value).__name__}" if isinstance(value, (dict, list)) else value] += 1

    @property
    def n_present(self) -> int:
        """How many rows have a value."""
        return self.n - self.n_missing

    def judge(self) -> None:
        """Set the kind and the remark."""
        present, missing = self.n_present, self.n_missing
        if not present:
            self.remark = f"no value in the first {self.n:,} rows"
            return
        self.kind, self.remark = self._judged()
        if self.kind != "drop" and missing:
            self.remark += f"; {_percent(missing / self.n)} missing"

    def _judged(self) -> tuple[str, str]:
        values, present = self.values, self.n_present
        words = {str(value).lower() for value in values}
        first = next(iter(values))
        if values.keys() & {"a dict", "a list"}:
            return "drop", "lists" if "a list" in values else "objects; only flat fields become features"
        if len(values) == 1 and present >= _ENOUGH:
            return "drop", f"{_shown(first)} in every row"
        if all(isinstance(value, bool) for value in values):
            return "bool", f"{_percent(values[True] / present)} true"
        if any(words == pair for pair in _BOOLEANS):
            return "bool", f"{' or '.join(sorted(map(_shown, values), reverse=True))}"
        if all(isinstance(value, date) for value in values):
            return "date", f"{min(values)} to {max(values)}"
        numbers = {value: found for value in values if (found := as_number(value)) is not None}
        stray = [value for value in values if value not in numbers]
        if numbers and len(stray) <= _STRAY_TEXTS and sum(values[text] for text in stray) <= _STRAY_SHARE * present:
            return self._numbers(numbers, stray)
        if (form := _form_of(values)) is not None:
            moments = sorted(filter(None, (_moment(value, form) for value in values)))
            shown = [f"{moment}".removesuffix(" 00:00:00") for moment in (moments[0], moments[-1])]
            return f"date:{form}" if form != "ISO" else "date", " to ".join(shown)
        return self._texts()

    def _numbers(self, numbers: dict[Any, float], stray: list[str]) -> tuple[str, str]:
        values, present = self.values, self.n_present
        whole = all(number.is_integer() for number in numbers.values())
        if any(isinstance(value, str) and re.match(r"0\d", value) for value in values) and whole:
            self.as_text = True
            return self._texts("codes with leading zeros, ")
        is_distinct = len(numbers) == present >= _ENOUGH and whole
        if is_distinct and (self.is_ordered or _ID_NAME.search(self.name)):
            return "drop", "ids, a different whole number in each row"
        low, high = min(numbers.values()), max(numbers.values())
        if whole and 1e9 < low <= high < 3e9 and _TIME_NAME.search(self.name):
            return "date", "seconds since 1970"
        if whole and 1e12 < low <= high < 3e12 and _TIME_NAME.search(self.name):
            return "date:ms", "milliseconds since 1970"
        self.na_texts.update(stray)
        self.n_missing += sum(values[text] for text in stray)
        few = ", category if they are codes" if whole and 2 < len(numbers) <= 12 and present >= _ENOUGH else ""
        return "number", f"{low:g} to {high:g}" + (f" ({len(numbers)} values{few})" if few else "")

    def _texts(self, remark: str = "") -> tuple[str, str]:
        values, present = self.values, self.n_present
        self.as_text = self.as_text or reads_as_number(values)
        many = len(values) > max(_ENOUGH, present // 2)
        words = statistics.mean(len(str(value).split()) for value in values)
        if words >= 4 and len(values) > _ENOUGH:
            self.as_text = True
            return "text", f"{words:.0f} words or so"
        if many and present >= _ENOUGH:
            return "drop", f"ids or names, {len(values):,} different ones in {present:,} rows"
        shown = ", ".join(_shown(value) for value, _ in values.most_common(_SHOWN))
        if len(values) <= _SHOWN:
            return "category", f"{remark}{shown}"
        return "category", f"{remark}{len(values):,} values: {shown}, ..."


def survey(rows: Iterable[dict[str, Any]]) -> dict[str, Column]:
    """Return the columns of `rows`, judged, in the order in which they came."""
    columns: dict[str, Column] = {}
    before: dict[str, Any] = {}
    ordered: set[str] = set()
    n = 0
    for row in rows:
        for name, value in row.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = Column(name, n, n)
                ordered.add(name)
            column.add(value)
            if name in ordered:
                number = as_number(value)
                if number is None or (name in before and number != before[name] + 1.0):
                    ordered.discard(name)
                before[name] = number
        n += 1
        if any(column.n < n for column in columns.values()):
            for column in columns.values():
                if column.n < n:
                    column.add(None)
    for column in columns.values():
        column.is_ordered = column.name in ordered and n >= _ENOUGH
        column.judge()
    return columns


def survey_labels(values: Iterable[Any]) -> Counter[Any]:
    """How often each label comes, of values that were not read from text."""
    present = (value for value in values if value is not None and value == value)  # noqa: PLR0124
    return Counter(f"a {type(value).__name__}" if isinstance(value, (dict, list)) else value for value in present)


def reads_as_number(values: Iterable[Any]) -> bool:
    """Whether a CSV file's reader makes a number of any of these texts: of inf, or of the code 007."""
    return any(isinstance(value, str) and not isinstance(automatic(value), str) for value in values)


def as_number(value: Any) -> float | None:
    """A value as a finite number, where it is one or reads as one."""
    if isinstance(value, (dict, list, date)) or value is None:
        return None
    if isinstance(value, str) and not re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", value):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _form_of(values: Iterable[Any]) -> str | None:
    """The form of dates that all the texts have: ISO, or what `strptime` takes."""
    texts = [value for value in values if isinstance(value, str)]
    if not texts or any(not isinstance(value, str) for value in values) or not texts[0][:1].isdigit():
        return None
    return next((form for form in ("ISO", *_FORMS) if all(_moment(text, form) is not None for text in texts)), None)


def _moment(text: str, form: str) -> datetime | None:
    try:
        if form == "ISO":
            return datetime.fromisoformat(text).replace(tzinfo=None) if "-" in text[4:5] else None
        return datetime.strptime(text, form)
    except ValueError:
        return None


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.01 else f"{100 * share:.1g}%"


def _shown(value: Any) -> str:
    """A value in a comment: one line, a few words."""
    text = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", str(value))
    return text if len(text) <= 30 else f"{text[:27]}..."
