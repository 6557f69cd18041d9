"""Decimal numbers in bytes: the float nearest to each, to the bit the one that Python reads.

A number of up to 19 digits is a whole number w times a power of ten, w 10^q. Where w and the power are floats
themselves, one multiplication or division rounds right (Clinger 1990). Elsewhere the upper bits of w 5^q decide, from a
table of the powers of five in 128 bits (Lemire, "Number parsing at a gigabyte per second", 2021; why they suffice:
Mushtak and Lemire 2023). What neither settles (results below the normal floats, digits beyond the nineteenth that
matter) is left to Python, as is what is no number: the form says so.
"""

from __future__ import annotations

import numpy as np

from fwonline._kernels.layout import inner, part

__all__ = ["DECIMAL", "OTHER", "WHOLE", "byte", "read_number"]

# --- forms: what Python has to read, if it is a number; one with a point, an exponent or a plus; digits alone ---
OTHER, DECIMAL, WHOLE = 0, 1, 2

_PLUS, _MINUS, _NINE, _E = np.uint64(43), np.uint64(45), np.uint64(9), np.uint64(101)
_LOWER = np.uint64(32)  # what makes a letter a small one
_TEN = np.uint64(10)
_EXACT = np.uint64(1 << 53)  # whole numbers up to here are floats, and so are powers of ten up to the 22nd
_TENS = 10.0 ** np.arange(23)
_FEWEST, _MOST = -342, 308  # beyond these powers of ten every w of 64 bits is 0 or infinite
_MOST_DIGITS = 19  # that 64 bits hold for sure
_MOST_POWER = np.int64(1 << 40)  # more than any text has digits, which an exponent may make up for


def _powers_of_five() -> np.ndarray:
    """The upper 128 bits of 5^q, those below 1 rounded up, in two words each."""
    words = np.empty((_MOST - _FEWEST + 1, 2), np.uint64)
    for q in range(_FEWEST, _MOST + 1):
        if q >= 0:
            power = 5**q
            bits = power << 128 >> power.bit_length()
        else:
            divisor = 5**-q
            bits = (1 << (divisor.bit_length() + 127)) // divisor + 1
        words[q - _FEWEST] = bits >> 64, bits & (2**64 - 1)
    return words


_FIVES = _powers_of_five()


@part
def byte(text, place):
    """text[place], which the caller knows to be there, in the type that it is reckoned with."""
    return np.uint64(text[np.uint64(place)])


@part
def _eight(text, place):
    """Eight bytes as one word, the first of them lowest."""
    word = byte(text, place)
    for k in range(1, 8):
        word |= byte(text, place + k) << np.uint64(8 * k)
    return word


@part
def _are_digits(word):
    high = np.uint64(0xF0F0F0F0F0F0F0F0)
    carried = (word + np.uint64(0x0606060606060606)) & high
    return ((word & high) | (carried >> np.uint64(4))) == np.uint64(0x3333333333333333)


@part
def _eight_digits(word):
    """The number that eight digits write: pairs, then fours, then all of them, side by side in one word."""
    mask = np.uint64(0x000000FF000000FF)
    word -= np.uint64(0x3030303030303030)
    word = word * _TEN + (word >> np.uint64(8))
    left = (word & mask) * np.uint64(0x000F424000000064)
    right = ((word >> np.uint64(16)) & mask) * np.uint64(0x0000271000000001)
    return (left + right) >> np.uint64(32)


@part
def _digits(text, place, number):
    """Append digits to a number; return it and the place behind them. What overflows is read again by its length."""
    digit = byte(text, place) - np.uint64(48)
    while digit <= _NINE:
        number = number * _TEN + digit
        place += 1
        digit = byte(text, place) - np.uint64(48)
    return number, place


@part
def _times(a, b):
    """The product of two words, in two words."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    middle = (a >> half) * (b & low) + ((a & low) * (b & low) >> half)
    other = (a & low) * (b >> half) + (middle & low)
    return (a >> half) * (b >> half) + (middle >> half) + (other >> half), a * b


@inner
def _nearest(w, q):
    """The float nearest to w 10^q, w > 0; NaN where it is not a normal one."""
    if q < _FEWEST or q > _MOST:
        return np.nan
    # the exponent of w as a float is that of its highest bit, or one more where w was rounded up
    zeros = np.int64(1086) - np.int64(np.uint64(np.float64(w).view(np.uint64)) >> np.uint64(52))
    zeros += np.int64(w << np.uint64(zeros) >> np.uint64(63) == np.uint64(0))
    w <<= np.uint64(zeros)
    high, low = _times(w, _FIVES[q - _FEWEST, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):  # the rest of the power may carry into what is kept
        more, _ = _times(w, _FIVES[q - _FEWEST, 1])
        low += more
        high += np.uint64(low < more)
    top = high >> np.uint64(63)
    shift = top + np.uint64(9)
    mantissa = high >> shift
    exponent = ((217706 * q) >> 16) + 1086 + np.int64(top) - zeros
    if exponent <= 0:
        return np.nan
    if low <= np.uint64(1) and -4 <= q <= 23 and mantissa & np.uint64(3) == np.uint64(1) and mantissa << shift == high:
        mantissa -= np.uint64(1)  # halfway between two floats: to the even one
    mantissa = (mantissa + np.uint64(1)) >> np.uint64(1)
    if mantissa >= np.uint64(1 << 53):
        mantissa >>= np.uint64(1)
        exponent += 1
    if exponent >= 2047:
        return np.nan
    bits = np.uint64(exponent) << np.uint64(52) | mantissa & np.uint64((1 << 52) - 1)
    return np.uint64(bits).view(np.float64)


@inner
def _of_many_digits(text, start, stop, q):
    """The float nearest to all digits from start to stop, as one number, times 10^q; NaN where 19 do not settle it."""
    w, kept, digits = np.uint64(0), 0, 0
    for place in range(start, stop):
        digit = byte(text, place) - np.uint64(48)
        if digit > _NINE:  # the point
            continue
        digits += kept > 0 or digit > np.uint64(0)
        if digits > kept and kept < _MOST_DIGITS:
            w = w * _TEN + digit
            kept += 1
    if w == np.uint64(0):
        return 0.0
    q += digits - kept
    value = _nearest(w, q)
    if digits > kept and value != _nearest(w + np.uint64(1), q):
        return np.nan
    return value


@part
def read_number(text, start, point):
    """Read the number at text[start], `point` before its fraction; return it, the place behind it, and its form.

    The text must go on behind `start` until a byte that no number holds, such as a line's end: nothing behind the first
    such byte is read, or the read stays within the array.
    """
    place = start
    sign = byte(text, place)
    if sign in (_MINUS, _PLUS):
        place += 1
    first = place
    w, place = _digits(text, place, np.uint64(0))
    n_digits, q = place - first, np.int64(0)
    form = WHOLE if sign != _PLUS else DECIMAL
    if byte(text, place) == np.uint64(point):
        form = DECIMAL
        place += 1
        fraction = place
        while place + 8 <= len(text):
            word = _eight(text, place)
            if not _are_digits(word):
                break
            w = w * np.uint64(100_000_000) + _eight_digits(word)
            place += 8
        w, place = _digits(text, place, w)
        q = fraction - place
        n_digits -= q
    if n_digits == 0:
        return 0.0, place, OTHER
    last = place
    if byte(text, place) | _LOWER == _E:
        form = DECIMAL
        place += 1
        mark = byte(text, place)
        if mark in (_MINUS, _PLUS):
            place += 1
        power, behind = np.int64(0), place
        digit = byte(text, place) - np.uint64(48)
        while digit <= _NINE:
            power = min(power * 10 + np.int64(digit), _MOST_POWER)
            place += 1
            digit = byte(text, place) - np.uint64(48)
        if place == behind:
            return 0.0, place, OTHER
        q += -power if mark == _MINUS else power
    if n_digits > _MOST_DIGITS:
        value = _of_many_digits(text, first, last, q)
    elif w == np.uint64(0):
        value = 0.0
    elif w <= _EXACT and -22 <= q <= 22:
        value = np.float64(w) / _TENS[-q] if q < 0 else np.float64(w) * _TENS[q]
    else:
        value = _nearest(w, q)
    if np.isnan(value) or (
        form == WHOLE and sign == _MINUS and value == 0.0
    ):  # as a float, -0 has a sign; as an int, not
        form = OTHER
    return -value if sign == _MINUS else value, place, form
