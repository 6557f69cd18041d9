"""Checks of objects from a file, before any method or compiled function relies on them.

A class with arrays has a method `_check_loaded`, made of these, which `fwonline.checkpoint.decoder` calls when every
object of the file is filled. Each raises a CheckpointError that names the class and the attribute.
"""

from __future__ import annotations

import contextlib
import contextvars
import datetime
import enum
import functools
import inspect
import math
import typing
import warnings
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from fwonline.exceptions import CheckpointError

# Counters stay below: they are exact as floats, and no sum of a few of them leaves an int64.
MOST = 1 << 52


def fail(owner: object, name: str, expected: str, found: object = None) -> typing.NoReturn:
    """Raise CheckpointError about an attribute."""
    shown = f", found {_shown(found)}" if found is not None else ""
    raise CheckpointError(f"the checkpoint's {type(owner).__qualname__}.{name}: expected {expected}{shown}")


def _shown(found: object) -> str:
    """A value in a few words: what a file holds may be endless when it is written out."""
    parts = found if isinstance(found, tuple) and len(found) <= 4 else (found,)
    if all(type(part) in (bool, float, str) or (type(part) is int and abs(part) < MOST << 12) for part in parts):
        return f"{found!r:.80}"
    return str(found) if isinstance(found, np.dtype) else f"a value of type {type(found).__name__}"


def require(owner: object, name: str, is_good: object, expected: str) -> None:
    """Check a condition of an attribute."""
    if not is_good:
        fail(owner, name, expected)


def _attribute(owner: object, name: str) -> typing.Any:
    value = getattr(owner, name, _MISSING)
    if value is _MISSING:
        fail(owner, name, "a value")
    return value


_MISSING = object()


def count(owner: object, name: str, least: int = 0, most: int = MOST) -> int:
    """A whole number from `least` to `most`."""
    value = _attribute(owner, name)
    if type(value) is not int or not least <= value <= most:
        fail(owner, name, f"a whole number from {least} to {most}", value)
    return value


def real(
    owner: object, name: str, least: float = -math.inf, most: float = math.inf, *, nan: bool = False, inf: bool = False
) -> float:
    """A float from `least` to `most`, finite unless `inf`; NaN if `nan`."""
    value = _attribute(owner, name)
    if isinstance(value, float):
        if nan and math.isnan(value):
            return value
        if least <= value <= most and (inf or math.isfinite(value)):
            return value
    fail(owner, name, f"a number from {least:g} to {most:g}", value)


def maybe_real(owner: object, name: str) -> float | None:
    """None or any float."""
    return None if _attribute(owner, name) is None else real(owner, name, nan=True, inf=True)


def choice(owner: object, name: str, choices: Iterable[typing.Any]) -> typing.Any:
    """One of a few values, and of the same type."""
    value = _attribute(owner, name)
    if not any(type(value) is type(one) and value == one for one in choices):
        fail(owner, name, f"one of {', '.join(map(repr, choices))}", value)
    return value


def instance(owner: object, name: str, *kinds: type) -> typing.Any:
    """An object of one of these very classes."""
    value = _attribute(owner, name)
    if type(value) not in kinds:
        fail(owner, name, f"a {' or '.join(kind.__name__ for kind in kinds)}", type(value).__name__)
    return value


def kind(owner: object, name: str, *bases: type, optional: bool = False) -> typing.Any:
    """An object of a class that derives from one of these; None too where it is `optional`."""
    value = _attribute(owner, name)
    if not (isinstance(value, bases) or (optional and value is None)):
        fail(owner, name, f"a {' or a '.join(base.__name__ for base in bases)}", type(value).__name__)
    return value


def generator(owner: object, name: str) -> np.random.Generator:
    """A random generator."""
    return instance(owner, name, np.random.Generator)


def array(
    owner: object,
    name: str,
    dtype: typing.Any,
    shape: tuple[int | None, ...],
    *,
    least: float | None = None,
    most: float | None = None,
    finite: bool = True,
) -> NDArray[typing.Any]:
    """An array as compiled functions take it: of that type and shape, contiguous, writeable, its values finite.

    An extent of `shape` may be None, for any; `least` and `most` bound the entries; `finite` is about floats.
    """
    value = _attribute(owner, name)
    if type(value) is not np.ndarray or value.dtype != np.dtype(dtype) or not value.dtype.isnative:
        fail(owner, name, f"an array of {np.dtype(dtype)}", getattr(value, "dtype", type(value).__name__))
    if value.ndim != len(shape) or any(b is not None and a != b for a, b in zip(value.shape, shape, strict=True)):
        fail(owner, name, f"an array of shape {shape}", value.shape)
    flags = value.flags
    if not (flags.c_contiguous and flags.aligned and flags.writeable):
        fail(owner, name, "an array that is contiguous and may be written")
    if finite and value.dtype.kind == "f" and not np.isfinite(value).all():
        fail(owner, name, "finite values")
    if value.size:
        if least is not None and value.min() < least:
            fail(owner, name, f"values of at least {least}", value.min().item())
        if most is not None and value.max() > most:
            fail(owner, name, f"values of at most {most}", value.max().item())
    return _apart(owner, name, value)


def _apart(owner: object, name: str, value: NDArray[typing.Any]) -> NDArray[typing.Any]:
    """The array, or where another attribute of the file's objects has its memory too, a copy in its place."""
    if (claimed := _claimed.get()) is None:
        return value
    whole = value
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    if claimed.setdefault(("memory", id(whole)), (id(owner), name)) != (id(owner), name) or whole is not value:
        value = value.copy()
        setattr(owner, name, value)
    return value


def owned(owner: object, *names: str) -> None:
    """Give arrays of positions memory of their own.

    A file may let two attributes, or two objects, hold one array: what one writes there would be where the other reads
    or writes, unchecked.
    """
    for name in names:
        setattr(owner, name, getattr(owner, name).copy())


_claimed: contextvars.ContextVar[dict[typing.Any, typing.Any] | None] = contextvars.ContextVar("claimed", default=None)


@contextlib.contextmanager
def claims() -> Iterator[None]:
    """The time in which the objects of one file are checked."""
    token = _claimed.set({})
    try:
        yield
    finally:
        _claimed.reset(token)


def claim(owner: object, *names: str) -> None:
    """Check that no other object of the file shares these parts: it could change their sizes."""
    if (claimed := _claimed.get()) is None:
        return
    for name in names:
        if claimed.setdefault(id(_attribute(owner, name)), owner) is not owner:
            fail(owner, name, "an object that no other has")


def like(owner: object, fresh: object, *same: str) -> None:
    """Check that an object has the attributes of a new one, and in those of `same` equal values.

    An attribute of the class that instances do not set must not be hidden by one of the object.
    """
    for name in vars(fresh):
        _attribute(owner, name)
    for name in vars(owner):
        if name not in vars(fresh) and hasattr(type(owner), name):
            fail(owner, name, "no such attribute")
    for name in same:
        value, wanted = getattr(owner, name), getattr(fresh, name)
        if type(value) is not type(wanted) or value != wanted:
            fail(owner, name, f"{wanted!r}, as its parameters say", value)


# Beyond so many rows a full look takes longer than a second: then pairs of rows are looked at.
_MOST_ROWS = 2000


def positive_semidefinite(owner: object, name: str, packed: NDArray[typing.Any], n: int, rounding: float) -> None:
    """Check that a packed triangle of n rows is that of a positive semidefinite matrix, up to rounding."""
    ends = np.arange(1, n + 1)
    diagonal = packed[ends * (ends + 1) // 2 - 1].astype(np.float64)
    largest = float(diagonal.max(initial=0.0))
    slack = rounding * largest
    if diagonal.min(initial=0.0) < -slack:
        fail(owner, name, "a diagonal that is not negative", float(diagonal.min()))
    roots = np.sqrt(np.maximum(diagonal, 0.0) + slack)
    for i in range(n):
        row = packed[i * (i + 1) // 2 :][: i + 1]
        if (np.abs(row) > roots[i] * roots[: i + 1] * (1.0 + rounding)).any():
            fail(owner, name, "a positive semidefinite matrix")
    if not 0 < n <= _MOST_ROWS or largest == 0.0:
        return
    whole = np.zeros((n, n))
    whole[np.tril_indices(n)] = packed[: n * (n + 1) // 2]
    whole /= largest
    whole[np.diag_indices(n)] += n * rounding
    try:
        np.linalg.cholesky(whole)  # reads the lower triangle
    except np.linalg.LinAlgError:
        fail(owner, name, "a positive semidefinite matrix")


@functools.cache
def parameters_of(cls: type) -> tuple[str, ...]:
    """The names of what a constructor takes."""
    return tuple(inspect.signature(cls).parameters)


def rebuilt(owner: typing.Any) -> typing.Any:
    """What the constructor makes of the parameters that were loaded: it checks them as it does everyone's.

    Raises CheckpointError where it refuses them.
    """
    cls = type(owner)
    parameters = {name: _attribute(owner, name) for name in parameters_of(cls)}  # type: ignore[arg-type]
    budget = [_MOST_REPEATED]
    for name, value in parameters.items():
        if not _is_plain(value, set(), budget):
            fail(owner, name, "numbers, texts, lists, arrays or objects", value)
    try:
        with warnings.catch_warnings():  # they were warned of when the model was made
            warnings.simplefilter("ignore")
            return cls(**parameters)
    except CheckpointError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(f"the checkpoint's {cls.__qualname__} has parameters that it refuses: {error}") from error


# How many values lists that stand in several places may stand for, beyond one time each.
_MOST_REPEATED = 1 << 20
_MOST_LEVELS = 8


def _is_plain(value: typing.Any, seen: set[int], budget: list[int], level: int = 0) -> bool:
    """Whether a parameter is as large as the file makes it look: no range, and no list that stands for many."""
    if type(value) is range or level > _MOST_LEVELS:
        return False
    if isinstance(value, (list, tuple, set, frozenset)):
        if id(value) in seen:
            budget[0] -= len(value) + 1
            if budget[0] < 0:
                return False
        seen.add(id(value))
        return all(_is_plain(part, seen, budget, level + 1) for part in value)
    if isinstance(value, np.ndarray):
        if id(value) in seen:
            budget[0] -= value.size
        seen.add(id(value))
        return budget[0] >= 0
    return True


def is_own(cls: type) -> bool:
    """Whether a class is the library's, so that its constructor may be called with values from a file."""
    return cls.__module__.split(".")[0] == "fwonline"


def renewed(owner: typing.Any) -> None:
    """Let an object that is a value hold what its constructor makes of its parameters, and nothing else.

    Objects of classes that were registered keep their state: they check it themselves.
    """
    if is_own(type(owner)):
        fresh = vars(rebuilt(owner))
        vars(owner).clear()
        vars(owner).update(fresh)
        repr(owner)  # a value that holds itself has no end


def alike(owner: typing.Any, fresh: typing.Any, *apart: str) -> None:
    """Check that attributes have the types, and arrays the types and dimensions, of those of a new object.

    Other attributes are removed: one could hide a method of its name. Those in `apart` are for the caller to check.
    """
    found, expected = vars(owner), vars(fresh)
    for name in found.keys() - expected.keys() - set(apart):
        del found[name]
    for name, like in expected.items():
        if name in apart:
            continue
        if isinstance(like, np.ndarray):
            array(owner, name, like.dtype, (None,) * like.ndim, finite=False)
        else:
            instance(owner, name, type(like))


# Values that are what they look like: equal and hashed by themselves alone.
_NAMES = (
    *(str, bytes, int, float, bool, complex, type(None)),
    *(datetime.date, datetime.time, datetime.timedelta, np.generic),
)


def names(owner: object, name: str, values: Iterable[typing.Any]) -> None:
    """Check that names are all different, and of types that compare by value.

    Raises CheckpointError where they are not.
    """
    found = list(values)
    if not all(_is_name(value, 0) for value in found):
        fail(owner, name, "names: texts, numbers, dates or tuples of these")
    if len(set(found)) < len(found):
        fail(owner, name, "names that are all different")


def _is_name(value: typing.Any, level: int) -> bool:
    if isinstance(value, (tuple, frozenset)):
        return level < _MOST_LEVELS and all(_is_name(part, level + 1) for part in value)
    return (type(value) in _PLAIN or isinstance(value, (*_NAMES, enum.Enum))) and value == value  # noqa: PLR0124  NaN


_PLAIN = frozenset(_NAMES)
