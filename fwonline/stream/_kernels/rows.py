"""The rows of delimited text: lines, fields, numbers, in one pass over the bytes."""

from __future__ import annotations

import typing

import numpy as np

from fwonline._kernels.layout import part, unlocked_jit
from fwonline.stream._kernels.numbers import OTHER, WHOLE, byte, read_number

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AUTO", "BOOLEAN", "INTEGER", "NUMBER", "SKIPPED", "TEXT", "Found", "boolean", "is_int", "read_rows"]

# --- what a column holds ---
SKIPPED, NUMBER, INTEGER, BOOLEAN, TEXT, AUTO = 0, 1, 2, 3, 4, 5

_NEWLINE, _RETURN = np.uint64(10), np.uint64(13)
_ASCII = np.uint64(127)
_EXACT = 2.0**53


class Found(typing.NamedTuple):
    """Where `read_rows` writes; rows and lines are numbered from 0."""

    starts: NDArray[np.int32]  # of each line, and the end of the last one
    odd: NDArray[np.int32]  # the lines that are no rows of this kind, and are not empty
    lines: NDArray[np.int32]  # the line of each row
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    whole: NDArray[np.bool_]  # whether a target was written as a whole number
    spans: NDArray[np.int32]  # row, text column, start and stop


@part
def _word(text, start, stop):
    """Up to seven bytes as one number, letters made small; 0 for more."""
    word = np.uint64(0)
    if stop - start < 8:
        for place in range(start, stop):
            letter = byte(text, place)
            is_large = np.uint64(65) <= letter <= np.uint64(90)
            word = word << np.uint64(8) | (letter + np.uint64(32) if is_large else letter)
    return word


def _code(word: str) -> np.uint64:
    return np.uint64(int.from_bytes(word.encode(), "big"))


_1, _P1, _10, _TRUE, _YES = (_code(word) for word in ("1", "+1", "1.0", "true", "yes"))
_0, _M1, _00, _M10, _FALSE, _NO = (_code(word) for word in ("0", "-1", "0.0", "-1.0", "false", "no"))


@part
def boolean(text, start, stop):
    """1 or 0; -1 for what is neither."""
    word = _word(text, start, stop)
    if word in (_1, _P1, _10, _TRUE, _YES):
        return 1.0
    if word in (_0, _M1, _00, _M10, _FALSE, _NO):
        return 0.0
    return -1.0


@part
def is_int(value):
    """Whether a float stands for one int alone."""
    return abs(value) < _EXACT and value == np.floor(value) and not (value == 0.0 and np.signbit(value))


@part
def _field_end(text, place, delimiter, quote):
    """The end of a field of plain text; the place of the first byte that makes it another (a quote, beyond ASCII)."""
    letter = byte(text, place)
    while letter not in (delimiter, _NEWLINE, _RETURN, quote) and letter <= _ASCII:
        place += 1
        letter = byte(text, place)
    return place


@part
def _read_number(text, place, kind, slot, point, blank, row, found):
    """Write down the number of a field; return the place behind it, and whether it is one of its kind."""
    while byte(text, place) == blank:
        place += 1
    value, place, form = read_number(text, place, point)
    while byte(text, place) == blank:
        place += 1
    fits = form != OTHER
    if kind == INTEGER:
        fits &= is_int(value)
    if slot < found.X.shape[1]:
        found.X[row, slot] = value
    else:
        fits &= kind == NUMBER or form != WHOLE or abs(value) < _EXACT
        found.y[row] = value
        found.whole[row] = form == WHOLE
    return place, fits


@unlocked_jit
def read_rows(text, columns, dialect, found):
    """Read whole lines; return how many lines, rows and odd lines there are, as far as there is room in `found`.

    A row is regular if each field is what its column holds, in the one plain form that needs no second look. Nothing
    depends on the lines before: where a quoted field spans several, the first of them is odd, the others are read as
    if they stood alone.

    `columns` has the kind of each column, and its place in X (behind the last one: y) or in `spans`. `dialect` is made
    of bytes: delimiter, quote, what stands before a fraction, what may stand around numbers. Returns -1s where an
    argument does not fit the others. The last byte of `text` is a line's end: so no loop here needs to look for the
    end of the text.
    """
    n, n_columns, width = np.int64(len(text)), len(columns), found.X.shape[1]
    delimiter, quote, blank = np.uint64(dialect[0]), np.uint64(dialect[1]), np.uint64(dialect[3])
    room = min(len(found.lines), len(found.X), len(found.y), len(found.whole), len(found.spans))
    room_lines = min(len(found.odd), len(found.starts) - 1)
    bad = np.int64(-1)
    if n == 0 or byte(text, n - 1) != _NEWLINE or n_columns == 0 or _NEWLINE in (delimiter, blank):
        return bad, bad, bad
    for column in range(n_columns):
        most = found.spans.shape[1] - 1 if columns[column, 0] == TEXT else width
        if columns[column, 0] != SKIPPED and not 0 <= columns[column, 1] <= most:
            return bad, bad, bad
    place, line, row, n_odd = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while place < n and line < room_lines:
        found.starts[line] = place
        letter = byte(text, place)
        if letter == _RETURN and byte(text, place + 1) == _NEWLINE:
            place += 1
            letter = _NEWLINE
        is_empty = letter == _NEWLINE
        column, fits = 0, row < room and not is_empty
        while fits:
            kind, slot = columns[column, 0], columns[column, 1]
            if kind in (NUMBER, AUTO, INTEGER):
                place, fits = _read_number(text, place, kind, slot, dialect[2], blank, row, found)
            else:
                start, place = place, _field_end(text, place, delimiter, quote)
                if kind == BOOLEAN:
                    value = boolean(text, start, place)
                    fits = value >= 0.0
                    if slot < width:
                        found.X[row, slot] = value
                    else:
                        found.y[row] = value
                elif kind == TEXT:
                    fits = place > start
                    found.spans[row, slot, 0] = start
                    found.spans[row, slot, 1] = place
            column += 1
            letter = byte(text, place)
            if letter == _RETURN and byte(text, place + 1) == _NEWLINE:
                place += 1
                letter = _NEWLINE
            if letter != delimiter or column == n_columns:
                fits &= letter == _NEWLINE and column == n_columns
                break
            place += 1
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
