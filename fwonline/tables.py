"""A transformer for tables: numbers, categories, dates and missing values become numbers that a linear model takes."""

from __future__ import annotations

import math
import typing
import warnings
from collections.abc import Collection, Hashable, Iterator, Mapping
from datetime import UTC, date, datetime

import numpy as np
from river import base, utils

from fwonline import _loaded
from fwonline._checks import check_count, is_real
from fwonline._kernels.layout import LARGEST
from fwonline.exceptions import SampleError

__all__ = ["TableEncoder"]

_KINDS = ("number", "category", "date", "bool", "drop")
_PLAIN = frozenset((int, float))
_EPOCH = datetime(1970, 1, 1)
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WORDS = {**dict.fromkeys(("true", "yes", "t", "y", "1"), 1.0), **dict.fromkeys(("false", "no", "f", "n", "0"), 0.0)}
# A longer text is no category that comes again, and would be held whole.
_LONGEST = 200
# So many times `max_categories` texts are counted that may become categories.
_CANDIDATES = 10

# A cell as it was read: its column, the column's kind, and a number, a text, a moment, or None where it is missing.
_Cell = tuple[Hashable, str, typing.Any]


class TableEncoder(base.MiniBatchTransformer):
    r"""Turns the columns of a table into numbers: scaled, one-hot, parts of dates, with flags for what is missing.

    Each column has a kind, and the features that follow from it:

    - ``"number"``: one feature of the column's name, \((x - m) / s\) with the running mean m and standard deviation s,
      as river's `StandardScaler`. A missing value is imputed by the mean, which is 0.
    - ``"category"``: one feature of value 1, ``plan=basic``. A category has its own feature from the `min_frequency`-th
      time on that it came, if fewer than `max_categories` of its column have one; until then it is ``plan=(other)``.
    - ``"date"``: ``joined.days``, days since 1970, scaled as a number is, and one-hot ``joined.weekday=Mon``,
      ``joined.month=3`` and, where a time of day is given, ``joined.hour=14``. Dates are ISO 8601 texts, Python's dates
      or seconds since 1970; ``"date:%d/%m/%Y"`` reads texts of another form, as `datetime.strptime`, and ``"date:ms"``
      milliseconds.
    - ``"bool"``: one feature of the column's name, 1 or 0, not scaled. A missing value is imputed by the mean.
    - ``"drop"``: none.

    What is missing (None, NaN, an empty text, one of `na_values`, a column of `columns` that a sample lacks) also has
    the flag ``age=(missing)``. A column that is not in `columns` has the kind of its first value: a number, true or
    false, an ISO date, or another text, which is a category.

    Parameters
    ----------
    columns
        Column to kind, for those whose kind the first value does not show.
    max_categories
        How many categories of a column have a feature of their own, at least 1.
    min_frequency
        How often a category must have come to have one, at least 1. It keeps features out that hardly ever come.
    na_values
        Texts that mean a missing value, in any column.

    Attributes
    ----------
    kinds
        Column to kind, of all columns met.
    counts, means, variances
        By feature, of numbers, dates and booleans.
    categories
        Column to category to how often it came since it has a feature.

    Raises
    ------
    ValueError
        When a kind is none of those above, or a number is out of range.
    SampleError
        By methods, naming the column whose value does not fit its kind; nothing of the sample was learned then.

    Notes
    -----
    A sample costs O(its columns). Memory is that of the features, and of ten times `max_categories` texts a column,
    whose counts are halved when there are more (Misra, Gries 1982), so that a frequent category is found however many
    rare ones come before. A warning names a column that overflows.

    Examples
    --------
    >>> from fwonline import linear_model, tables
    >>> encoder = tables.TableEncoder({"zip": "category"}, min_frequency=2)
    >>> for age in (30, 50):
    ...     encoder.learn_one({"age": age, "plan": "basic", "zip": 8001, "joined": "2024-03-04"})
    >>> encoder.transform_one({"age": 50, "plan": "pro", "zip": 8001, "joined": "2024-03-04T14:30"})
    {'age': 1.0, 'plan=(other)': 1.0, 'zip=8001': 1.0, 'joined.days': 0.0, 'joined.weekday=Mon': 1.0,
     'joined.month=3': 1.0, 'joined.hour=14': 1.0}
    >>> encoder.transform_one({"age": None, "plan": "basic"})
    {'age': 0.0, 'age=(missing)': 1.0, 'plan=basic': 1.0, 'zip=(missing)': 1.0}
    >>> encoder.learn_one({"age": "old"})
    Traceback (most recent call last):
    ...
    fwonline.exceptions.SampleError: column 'age' is 'old': expected a number, as its kind is. ...
    >>> model = tables.TableEncoder() | linear_model.FWSoftmax()
    """

    def __init__(
        self,
        columns: Mapping[Hashable, str] | None = None,
        *,
        max_categories: int = 100,
        min_frequency: int = 5,
        na_values: Collection[str] | None = None,
    ) -> None:
        check_count("max_categories", max_categories)
        check_count("min_frequency", min_frequency)
        if columns is not None and not isinstance(columns, Mapping):
            raise ValueError(f"columns must be a table of columns and their kinds, got {columns!r}")
        for column, kind in (columns or {}).items():
            if kind not in _KINDS and not str(kind).startswith("date:"):
                kinds = ", ".join(map(repr, _KINDS))
                raise ValueError(f"columns: the kind of {column!r} must be one of {kinds}, 'date:FORMAT', got {kind!r}")
        if isinstance(na_values, str) or not all(isinstance(text, str) for text in na_values or ()):
            raise ValueError(f"na_values must be a list of texts, got {na_values!r}")
        self.columns = columns
        self.max_categories = max_categories
        self.min_frequency = min_frequency
        self.na_values = na_values
        self.kinds: dict[Hashable, str] = dict(columns or {})
        self.counts: dict[Hashable, int] = {}
        self.means: dict[Hashable, float] = {}
        self.variances: dict[Hashable, float] = {}
        self.categories: dict[Hashable, dict[str, int]] = {}
        self._candidates: dict[Hashable, dict[str, int]] = {}
        self._warned: list[Hashable] = []
        self._set_derived()

    def _set_derived(self) -> None:
        self._missing = frozenset(("", *(self.na_values or ())))
        self._declared = [(column, kind) for column, kind in (self.columns or {}).items() if kind != "drop"]

    # Reading a sample: all of it before anything changes

    def _cells(self, x: dict) -> list[_Cell]:
        kinds, missing = self.kinds, self._missing
        cells: list[_Cell] = []
        for column, value in x.items():
            kind = kinds.get(column)
            if kind == "number" and type(value) in _PLAIN and -LARGEST <= value <= LARGEST:
                cells.append((column, kind, value))
                continue
            if isinstance(value, str):
                is_missing = value in missing or value.strip() in missing
            else:
                is_missing = value is None or value != value  # noqa: PLR0124  NaN, NaT
            if kind is None:
                if is_missing:  # of a column that nothing is known of
                    continue
                kind = _kind_of(column, value)
            if kind != "drop":
                cells.append((column, kind, None if is_missing else _read(column, kind, value)))
        for column, kind in self._declared:
            if column not in x:
                cells.append((column, kind, None))
        return cells

    def learn_one(self, x: dict) -> None:
        """Learn scales and categories.

        Parameters
        ----------
        x
            Column to value.
        """
        for column, kind, value in self._cells(x):
            if value is None:
                continue
            self.kinds.setdefault(column, kind)
            if kind == "category":
                self._count(column, value)
            elif kind in ("number", "bool"):
                self._average(column, value)
            else:
                self._average(f"{column}.days", _days(value))

    def _average(self, name: Hashable, value: float) -> None:
        """As river's `StandardScaler`: Welford's running mean and variance."""
        count = self.counts[name] = self.counts.get(name, 0) + 1
        before = self.means.get(name, 0.0)
        mean = self.means[name] = before + (value - before) / count
        variance = self.variances.get(name, 0.0)
        self.variances[name] = variance + ((value - before) * (value - mean) - variance) / count

    def _count(self, column: Hashable, text: str) -> None:
        known = self.categories.setdefault(column, {})
        if text in known:
            known[text] += 1
            return
        if len(text) > _LONGEST:
            return
        if len(known) >= self.max_categories:
            self._candidates.pop(column, None)
            self._warn(column, f"has more than {self.max_categories} categories; those that came later are '(other)'")
            return
        candidates = self._candidates.setdefault(column, {})
        count = candidates.pop(text, 0) + 1
        if count >= self.min_frequency:
            known[text] = count
            return
        candidates[text] = count
        most = _CANDIDATES * self.max_categories
        while len(candidates) > most:
            self._warn(column, f"has more than {most:,} values that came fewer than {self.min_frequency} times each")
            candidates = {text: count // 2 for text, count in candidates.items() if count > 1}
            self._candidates[column] = candidates

    def _warn(self, column: Hashable, what: str) -> None:
        if column not in self._warned:
            self._warned.append(column)
            hint = (
                "If it holds ids, free text or numbers, give it the kind 'drop' or 'number'; else raise max_categories"
            )
            warnings.warn(f"column {column!r} {what}. {hint}", stacklevel=4)

    def transform_one(self, x: dict) -> dict:
        """Return the features of a sample.

        Parameters
        ----------
        x
            Column to value.
        """
        features: dict[Hashable, float] = {}
        for column, kind, value in self._cells(x):
            if kind == "number":
                features[column] = self._scaled(column, value)
            elif kind == "category":
                name = value if value in self.categories.get(column, ()) else "(other)"
                features[f"{column}={'(missing)' if value is None else name}"] = 1.0
                continue
            elif kind == "bool":
                features[column] = self.means.get(column, 0.0) if value is None else value
            else:
                days = f"{column}.days"
                features[days] = self._scaled(days, None if value is None else _days(value))
                if value is not None:
                    features[f"{column}.weekday={_WEEKDAYS[value.weekday()]}"] = 1.0
                    features[f"{column}.month={value.month}"] = 1.0
                    if isinstance(value, datetime):
                        features[f"{column}.hour={value.hour}"] = 1.0
            if value is None:
                features[f"{column}=(missing)"] = 1.0
        return features

    def _scaled(self, name: Hashable, value: float | None) -> float:
        variance = self.variances.get(name, 0.0)
        if value is None or not variance:
            return 0.0
        return (value - self.means[name]) / variance**0.5

    # Frames

    def learn_many(self, X: typing.Any) -> None:
        """Learn each row of a frame, of pandas or another library that river takes, as `learn_one` does."""
        for x in _rows(X):
            self.learn_one(x)

    def transform_many(self, X: typing.Any) -> typing.Any:
        """Return a frame of the same library with a column for each feature that some row has; 0 where a row has not.

        Its rows are those of `transform_one`.
        """
        rows = [self.transform_one(x) for x in _rows(X)]
        places: dict[Hashable, int] = {}
        for row in rows:
            for name in row:
                places.setdefault(name, len(places))
        matrix = np.zeros((len(rows), len(places)))
        for i, row in enumerate(rows):
            matrix[i, [places[name] for name in row]] = list(row.values())
        return utils.dataframe.to_native_frame(matrix, columns=list(places), like=utils.dataframe.into_frame(X))

    # Checkpoints

    def _check_loaded(self) -> None:
        fresh = _loaded.rebuilt(self)
        _loaded.alike(self, fresh, "columns", "max_categories", "min_frequency", "na_values", "_missing", "_declared")
        self._set_derived()
        for name in ("kinds", "counts", "means", "variances", "categories", "_candidates"):
            setattr(self, name, dict(getattr(self, name)))  # no two may be one
        _loaded.names(self, "kinds", self.kinds)
        declared = dict(self.columns or {})
        for column, kind in {**self.kinds, **declared}.items():
            good = kind in _KINDS[:-1] and type(kind) is str if column not in declared else kind == declared[column]
            _loaded.require(self, "kinds", good and column in self.kinds, "the kinds of `columns`, and kinds of others")
        _loaded.names(self, "counts", self.counts)
        _loaded.require(self, "counts", _are_counts(self.counts, _loaded.MOST), "positive whole numbers")
        for name, least, most in (("means", -LARGEST, LARGEST), ("variances", 0.0, 4.0 * LARGEST**2)):
            values = getattr(self, name)
            _loaded.require(self, name, values.keys() == self.counts.keys(), "one number for each of `counts`")
            good = all(type(value) is float and least <= value <= most for value in values.values())
            _loaded.require(self, name, good, f"numbers from {least:g} to {most:g}")
        for name, most in (("categories", self.max_categories), ("_candidates", _CANDIDATES * self.max_categories)):
            for column, counts in getattr(self, name).items():
                _loaded.require(self, name, self.kinds.get(column) == "category", "columns of categories")
                good = type(counts) is dict and len(counts) <= most and _are_counts(counts, _loaded.MOST)
                good = good and all(type(text) is str and len(text) <= _LONGEST for text in counts)
                _loaded.require(self, name, good, f"at most {most} texts and their counts")
                getattr(self, name)[column] = dict(counts)
        _loaded.names(self, "_warned", self._warned)


def _are_counts(counts: dict, most: int) -> bool:
    return all(type(count) is int and 0 < count <= most for count in counts.values())


def _rows(X: typing.Any) -> Iterator[dict]:
    return utils.dataframe.into_frame(X).iter_rows(named=True)


def _kind_of(column: Hashable, value: typing.Any) -> str:
    """The kind of a column whose first value this is."""
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if is_real(value):
        return "number"
    if isinstance(value, date):
        return "date"
    if isinstance(value, str):
        return "date" if value[4:5] == "-" == value[7:8] and _iso(value) is not None else "category"
    raise SampleError(
        f"column {column!r} is of type {type(value).__name__}: expected a number, a text, true or false, or a date; "
        f"the kind 'drop' leaves the column out"
    )


def _read(column: Hashable, kind: str, value: typing.Any) -> typing.Any:
    """A value that is not missing, as its kind is. Raises SampleError where it does not fit."""
    if kind == "category":
        if isinstance(value, (str, bool, np.bool_, date)) or is_real(value):
            return str(value).strip()
        expected = "a category: a text, a number, true or false"
    elif kind == "number":
        if is_real(value) or isinstance(value, (bool, np.bool_)):
            if abs(value) <= LARGEST:
                return float(value)
            expected = f"a number of at most {LARGEST:g}"
        elif isinstance(value, str) and (found := _number(value)) is not None:
            return found
        else:
            expected = "a number"
    elif kind == "bool":
        found = _WORDS.get(str(value).strip().removesuffix(".0").lower())
        if found is not None:
            return found
        expected = "true or false"
    else:
        moment = _moment(kind, value)
        if moment is not None:
            return moment
        expected = f"a date of the form {kind[5:]!r}" if kind != "date" else "an ISO 8601 date, or seconds since 1970"
    text = repr(value)
    raise SampleError(
        f"column {column!r} is {text if len(text) <= 60 else text[:57] + '...'}: expected {expected}, as its kind is. "
        "`columns` sets the kind, `na_values` names texts that mean a missing value"
    )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) <= LARGEST and "_" not in text else None  # Python's digit groups are in no data format


def _moment(kind: str, value: typing.Any) -> date | None:
    """A date, or where a time of day is known a datetime; None where it is neither."""
    if isinstance(value, date):
        return value
    try:
        if isinstance(value, str):
            return _iso(value.strip()) if kind == "date" else _parsed(value.strip(), kind[5:])
        if is_real(value) and math.isfinite(value):
            return datetime.fromtimestamp(float(value) / (1000.0 if kind == "date:ms" else 1.0), UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def _iso(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if len(text) <= 10 else datetime.fromisoformat(text)
    except ValueError:
        return None


def _parsed(text: str, form: str) -> date:
    moment = datetime.strptime(text, form)
    return moment if "%H" in form or "%I" in form or "%X" in form or "%c" in form else moment.date()


def _days(moment: date) -> float:
    """Days since 1970 by the clock that the date shows."""
    if isinstance(moment, datetime):
        return (moment.replace(tzinfo=None) - _EPOCH).total_seconds() / 86_400.0
    return float(moment.toordinal() - _EPOCH.toordinal())
