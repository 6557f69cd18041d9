"""Numbers in bytes against Python's own reading of them."""

import struct

import numba as nb
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fwonline.stream._kernels import numbers
from fwonline.stream._kernels.numbers import DECIMAL, OTHER, WHOLE


@nb.njit(error_model="numpy")
def read(text, point):
    return numbers.read_number(text, 0, point)


@pytest.fixture(autouse=True, scope="module")
def _compiled():
    found("0")  # now, not within the time of an example


def found(text, point="."):
    """Value, number of bytes, form of what a text begins with; a line's end follows, as the reader may expect."""
    raw = np.frombuffer(text.encode() + b"\n", np.uint8)
    return read(raw, ord(point))


def bits(value):
    return struct.pack("<d", value)


DIGITS = st.text("0123456789", max_size=30)
WRITTEN = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["", "-", "+"]),
    DIGITS,
    st.sampled_from(["", "."]),
    DIGITS,
    st.sampled_from([""]) | st.builds("{}{}".format, st.sampled_from(["e", "E", "e+", "e-"]), st.integers(0, 400)),
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.one_of(
    WRITTEN,
    FLOATS.map(repr),
    st.builds("{:.{}e}".format, FLOATS, st.integers(0, 22)),
    st.builds("{:.{}f}".format, st.floats(-1e6, 1e6), st.integers(0, 18)),
    st.integers(-(2**70), 2**70).map(str),
)


@given(NUMBERS)
@example("9007199254740993")  # halfway between two floats
@example("9007199254740992.9999999999999999999")
@example("1.7976931348623159e308")
@example("2.2250738585072011e-308")
@example("4.9e-324")
@example("8.5e-1")
@example("1e23")
@example("0." + "0" * 400 + "1")
@example("1" + "0" * 400)
@example("-0.0")
@example("1234567890123456789012345e-20")
@example("1" + "0" * 100_001 + "e-100300")
@example("0." + "0" * 100_400 + "1e100300")
def test_a_number_is_the_float_that_python_reads(text):
    value, size, form = found(text)
    try:
        expected = float(text)
    except ValueError:
        assert form == OTHER
        return
    if form == OTHER:
        # left to Python: what is not a normal float, and what nineteen digits do not settle
        n_digits = len(text.lower().partition("e")[0].replace(".", "").strip("+-").lstrip("0"))
        assert abs(expected) < 2.3e-308 or abs(expected) == float("inf") or n_digits > 19
        return
    assert size == len(text)
    assert bits(value) == bits(expected)
    assert (form == WHOLE) == text.removeprefix("-").isdigit()


@given(st.integers(-(10**19), 10**19), st.integers(-320, 300))
def test_up_to_nineteen_digits_are_read_here(digits, power):
    text = f"{digits}e{power}"
    expected = float(text)
    if expected == 0 or 2.3e-308 < abs(expected) < 1e308:
        value, _, form = found(text)
        assert (bits(value), form) == (bits(expected), DECIMAL)


@given(st.integers(2**52, 2**53 - 1), st.integers(-1022, 970))
def test_halfway_between_two_floats(mantissa, exponent):
    half = (2 * mantissa + 1) * 2 ** max(exponent - 53, 0)  # exact, and as long as it is
    for whole in (half - 1, half, half + 1):
        value, _, form = found(str(whole))
        assert form == OTHER or bits(value) == bits(float(whole))


@given(st.text("0123456789.-+eE ,x\r", max_size=12))
def test_what_is_no_number_is_left_alone(text):
    value, size, form = found(text)
    assert size <= len(text)
    if form != OTHER:
        assert bits(value) == bits(float(text[:size]))


@pytest.mark.parametrize("text", ["", "-", ".", "-.", "e5", "1e", "1e+", "nan", "inf", "-Infinity", "_1", " 1", "-0"])
def test_texts_for_python(text):
    assert found(text)[2] == OTHER


def test_a_comma_before_the_fraction():
    assert found("-12,5", ",") == (-12.5, 5, DECIMAL)
    assert found("12.5", ",") == (12.0, 2, WHOLE)


@pytest.mark.parametrize("text", [b"1.5\n", b"1.12345678\n", b"1.1234567\n", b"-\n", b"1e\n", b"\n"])
def test_nothing_behind_the_line_is_read(text):
    raw = np.frombuffer(text + b"9" * 16, np.uint8)
    alone = np.frombuffer(text, np.uint8)
    assert read(raw, 46) == read(alone, 46)
