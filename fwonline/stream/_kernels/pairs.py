"""Rows of `label index:value ...`: lines, labels, indices and numbers, in one pass over the bytes."""

from __future__ import annotations

import typing

import numpy as np

from fwonline._kernels.layout import part, unlocked_jit
from fwonline.stream._kernels.numbers import OTHER, WHOLE, byte, read_number
from fwonline.stream._kernels.rows import AUTO, BOOLEAN, INTEGER, NUMBER, boolean, is_int

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LARGEST", "Pairs", "read_pairs"]

#: A row with this index, or one beyond, is not regular.
LARGEST = (1 << 31) - 1

_NEWLINE, _RETURN, _SPACE, _TAB = np.uint64(10), np.uint64(13), np.uint64(32), np.uint64(9)
_HASH, _COLON, _POINT, _ASCII = np.uint64(35), np.uint64(58), np.uint64(46), np.uint64(127)
_NINE, _ZERO = np.uint64(9), np.uint64(48)
_EXACT = 2.0**53


class Pairs(typing.NamedTuple):
    """Where `read_pairs` writes; rows and lines are numbered from 0."""

    starts: NDArray[np.int32]  # of each line, and the end of the last one
    odd: NDArray[np.int32]  # the lines that are no regular rows, and hold more than a comment
    lines: NDArray[np.int32]  # the line of each row
    ends: NDArray[np.int64]  # of the entries of each row; the first is 0
    columns: NDArray[np.int32]  # of each entry, counted from 0
    values: NDArray[np.float64]
    y: NDArray[np.float64]
    whole: NDArray[np.bool_]  # whether a label was written as a whole number
    spans: NDArray[np.int32]  # where each label stands, if labels are text
    marks: NDArray[np.int64]  # to work in; a power of two, all 0 at first


@part
def _is_end(text, place):
    """Whether nothing of a row follows: a line's end, or a comment."""
    letter = byte(text, place)
    return letter in (_NEWLINE, _HASH) or (letter == _RETURN and byte(text, place + 1) == _NEWLINE)


@part
def _are_different(found, start, stop, line):
    """Whether no column stands twice among some entries; False where there are too many to tell."""
    size = np.int64(len(found.marks))
    if 2 * (stop - start) > size:
        return False
    for k in range(start, stop):
        column = np.int64(found.columns[k])
        mark = (line + 1) << 31 | column
        slot = (column * 0x9E3779B1 >> 7) & (size - 1)
        while found.marks[slot] >> 31 == line + 1:  # others are of lines before
            if found.marks[slot] == mark:
                return False
            slot = (slot + 1) & (size - 1)
        found.marks[slot] = mark
    return True


@part
def _read_label(text, place, label, row, found):
    """Write down the label of a row; return the place behind it, and whether it is one of its kind."""
    start, value = place, 0.0
    if label in (NUMBER, AUTO, INTEGER):
        value, place, form = read_number(text, place, _POINT)
        fits = form != OTHER
        if label == INTEGER:
            fits &= is_int(value)
        elif label == AUTO:
            fits &= form != WHOLE or abs(value) < _EXACT
        found.whole[row] = form == WHOLE
    else:
        letter = byte(text, place)
        while letter > _SPACE and letter <= _ASCII and letter not in (_HASH, _COLON):
            place += 1
            letter = byte(text, place)
        found.spans[row, 0] = start
        found.spans[row, 1] = place
        fits = place > start
        if label == BOOLEAN:
            value = boolean(text, start, place)
            fits &= value >= 0.0
    found.y[row] = value
    return place, fits


@unlocked_jit
def read_pairs(text, label, first, most, found):
    """Read whole lines; return how many lines, rows and odd lines there are, as far as there is room in `found`.

    A row is regular if it has a label of the kind `label` (see `rows`) and then entries, each index once, from `first`
    up to less than `most`, in the one plain form that needs no second look. The last byte of `text` is a line's end: so
    no loop here needs to look for the end of the text. Returns -1s where an argument does not fit the others.
    """
    n = np.int64(len(text))
    room = min(len(found.lines), len(found.ends) - 1, len(found.y), len(found.whole), len(found.spans))
    room_lines = min(len(found.odd), len(found.starts) - 1)
    room_values = min(len(found.columns), len(found.values))
    bad = np.int64(-1)
    size = np.int64(len(found.marks))
    if n == 0 or byte(text, n - 1) != _NEWLINE or room < 0 or found.spans.shape[1] != 2 or first < 0:
        return bad, bad, bad
    if size == 0 or size & (size - 1) or most > LARGEST:
        return bad, bad, bad
    found.ends[0] = 0
    place, line, row, n_odd, end = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while place < n and line < room_lines:
        found.starts[line] = place
        while byte(text, place) in (_SPACE, _TAB):
            place += 1
        is_blank = _is_end(text, place)
        fits = row < room and not is_blank
        if fits:
            place, fits = _read_label(text, place, label, row, found)
            fits &= byte(text, place) in (_SPACE, _TAB)
        stop, last, rises = end, np.int64(-1), True
        while fits:
            while byte(text, place) in (_SPACE, _TAB):
                place += 1
            if _is_end(text, place):
                break
            start, index = place, np.int64(0)
            digit = byte(text, place) - _ZERO
            while digit <= _NINE and place < start + 10:
                index = index * 10 + np.int64(digit)
                place += 1
                digit = byte(text, place) - _ZERO
            fits = place > start and byte(text, place) == _COLON and first <= index < most and stop < room_values
            if fits:
                value, place, form = read_number(text, place + 1, _POINT)
                letter = byte(text, place)
                fits = form != OTHER and (letter in (_SPACE, _TAB) or _is_end(text, place))
                found.columns[stop] = index - first
                found.values[stop] = value
                stop += 1
                rises &= index > last
                last = index
        if fits and stop > end and (rises or _are_different(found, end, stop, line)):
            end = stop
            found.lines[row] = line
            row += 1
            found.ends[row] = end
        elif not is_blank:
            found.odd[n_odd] = line
            n_odd += 1
        while byte(text, place) != _NEWLINE:
            place += 1
        place += 1
        line += 1
    found.starts[line] = place
    return line, row, n_odd
