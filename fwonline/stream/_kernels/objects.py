"""JSON objects of the same fields, one a line: lines, fields, numbers, in one pass over the bytes."""

from __future__ import annotations

import typing

import numpy as np

from fwonline._kernels.layout import part, unlocked_jit
from fwonline.stream._kernels.numbers import OTHER, WHOLE, byte, read_number

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BOOLEAN", "FRACTION", "INTEGER", "KEY", "NULL", "STRING", "TARGET", "TIME", "Objects", "read_objects"]

# --- what a value is ---
NONE, FRACTION, INTEGER, BOOLEAN, STRING, NULL = 0, 1, 2, 3, 4, 5

# --- what `others` holds ---
TARGET, KEY, TIME = 0, 1, 2

_NEWLINE, _RETURN, _SPACE = np.uint64(10), np.uint64(13), np.uint64(32)
_QUOTE, _BACKSLASH, _COMMA, _COLON = np.uint64(34), np.uint64(92), np.uint64(44), np.uint64(58)
_OPEN, _CLOSE, _MINUS, _POINT = np.uint64(123), np.uint64(125), np.uint64(45), np.uint64(46)
_ZERO, _NINE, _ASCII = np.uint64(48), np.uint64(9), np.uint64(127)
_EXACT = 2.0**53
_TRUE = np.frombuffer(b"true", np.uint8)
_FALSE = np.frombuffer(b"false", np.uint8)
_NULL = np.frombuffer(b"null", np.uint8)


class Objects(typing.NamedTuple):
    """Where `read_objects` writes; rows and lines are numbered from 0."""

    starts: NDArray[np.int32]  # of each line, and the end of the last one
    odd: NDArray[np.int32]  # the lines that are no regular rows, and are not empty
    lines: NDArray[np.int32]  # the line of each row
    X: NDArray[np.float64]
    others: NDArray[np.float64]  # target, key and time of each row
    kinds: NDArray[np.int8]  # what each of them is
    spans: NDArray[np.int32]  # where each of them stands, if it is text


@part
def _behind_blanks(text, place):
    while byte(text, place) == _SPACE:
        place += 1
    return place


@part
def _behind(text, place, word, start, stop):
    """The place behind a word, if it stands here; else -1. No word holds a line's end."""
    for k in range(start, stop):
        if byte(text, place) != byte(word, k):
            return np.int64(-1)
        place += 1
    return place


@part
def _is_strict(text, place):
    """Whether a number is one of JSON's, whose digits come first, without a 0 before others, and behind a point."""
    if byte(text, place) == _MINUS:
        place += 1
    digit = byte(text, place) - _ZERO
    if digit > _NINE or (digit == np.uint64(0) and byte(text, place + 1) - _ZERO <= _NINE):
        return False
    while digit <= _NINE:
        place += 1
        digit = byte(text, place) - _ZERO
    return byte(text, place) != _POINT or byte(text, place + 1) - _ZERO <= _NINE


@part
def _value(text, place):
    """A value of one of the plain forms: what it is, the number it stands for, and the place behind it."""
    letter = byte(text, place)
    if letter == _MINUS or letter - _ZERO <= _NINE:
        strict = _is_strict(text, place)
        number, behind, form = read_number(text, place, _POINT)
        if form == OTHER or not strict:
            return NONE, 0.0, place
        return (INTEGER if form == WHOLE else FRACTION), number, behind
    if letter == _QUOTE:
        place += 1
        letter = byte(text, place)
        while letter >= _SPACE and letter <= _ASCII and letter not in (_QUOTE, _BACKSLASH):
            place += 1
            letter = byte(text, place)
        return (STRING if letter == _QUOTE else NONE), 0.0, place + 1
    behind = _behind(text, place, _TRUE, 0, 4)
    if behind >= 0:
        return BOOLEAN, 1.0, behind
    behind = _behind(text, place, _FALSE, 0, 5)
    if behind >= 0:
        return BOOLEAN, 0.0, behind
    behind = _behind(text, place, _NULL, 0, 4)
    return (NULL if behind >= 0 else NONE), 0.0, behind


@part
def _takes(found, row, slot, kind, value, start, stop):
    """Write down a value in its slot; return whether it is one that may stand there."""
    width = found.X.shape[1]
    if slot < 0:  # it is passed over
        return True
    if slot < width:
        if kind > BOOLEAN:
            return False
        found.X[row, slot] = value
        return True
    which = slot - width
    if which == TIME:
        if kind not in (INTEGER, FRACTION):
            return False
    elif (kind == NULL and which == TARGET) or (kind == INTEGER and abs(value) >= _EXACT):
        return False
    found.others[row, which], found.kinds[row, which] = value, kind
    found.spans[row, which, 0], found.spans[row, which, 1] = start + 1, stop - 1
    return True


@unlocked_jit
def read_objects(text, keys, fields, found):
    """Read whole lines; return how many lines, rows and odd lines there are, as far as there is room in `found`.

    A row is regular if its fields are those that `fields` lists, in their order: where each key, with its quotes,
    begins and ends in `keys`, and its place in X (behind the last one those of `others`; -1: it is passed over). A
    feature is a number or a truth value, a time a number; a target is not null. The last byte of `text` is a line's
    end, and no key holds one: so no loop here needs to look for the end of the text. Returns -1s where an argument does
    not fit the others.
    """
    n, n_fields, width = np.int64(len(text)), len(fields), found.X.shape[1]
    room = min(len(found.lines), len(found.X), len(found.others), len(found.kinds), len(found.spans))
    room_lines = min(len(found.odd), len(found.starts) - 1)
    bad = np.int64(-1)
    if n == 0 or byte(text, n - 1) != _NEWLINE or n_fields == 0 or found.others.shape[1] != 3:
        return bad, bad, bad
    if found.kinds.shape[1] != 3 or found.spans.shape[1:] != (3, 2):
        return bad, bad, bad
    for k in range(n_fields):
        if not (0 <= fields[k, 0] <= fields[k, 1] <= len(keys) and -1 <= fields[k, 2] < width + 3):
            return bad, bad, bad
    for k in range(len(keys)):
        if byte(keys, k) == _NEWLINE:
            return bad, bad, bad
    place, line, row, n_odd = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while place < n and line < room_lines:
        found.starts[line] = place
        letter = byte(text, place)
        is_empty = letter == _NEWLINE or (letter == _RETURN and byte(text, place + 1) == _NEWLINE)
        fits = row < room and not is_empty
        at = _behind_blanks(text, place)
        if fits:
            fits = byte(text, at) == _OPEN
        field = 0
        while fits and field < n_fields:
            at = _behind(text, _behind_blanks(text, at + 1), keys, fields[field, 0], fields[field, 1])
            fits = False
            if at < 0:
                break
            at = _behind_blanks(text, at)
            if byte(text, at) != _COLON:
                break
            start = _behind_blanks(text, at + 1)
            kind, value, at = _value(text, start)
            if kind == NONE or not _takes(found, row, fields[field, 2], kind, value, start, at):
                break
            at = _behind_blanks(text, at)
            field += 1
            fits = byte(text, at) == (_COMMA if field < n_fields else _CLOSE)
        if fits:
            at = _behind_blanks(text, at + 1)
            letter = byte(text, at)
            fits = letter == _NEWLINE or (letter == _RETURN and byte(text, at + 1) == _NEWLINE)
        if fits:
            found.lines[row] = line
            row += 1
        elif not is_empty:
            found.odd[n_odd] = line
            n_odd += 1
        while byte(text, place) != _NEWLINE:
            place += 1
        place += 1
        line += 1
    found.starts[line] = place
    return line, row, n_odd
