"""Where the records of a Kafka batch have their parts: the varints of message format 2, read by compiled code."""

from __future__ import annotations

from fwonline._kernels.layout import jit, part

__all__ = ["COLUMNS", "places"]

# offset and timestamp from the batch's first; begin and end of key and value, -1 where there is none; where the headers
# begin, and how many they are
OFFSET, TIME, KEY, KEY_END, VALUE, VALUE_END, HEADERS, N_HEADERS = range(8)
COLUMNS = 8


@part
def varint(data, pos, stop):
    """A number of zigzag coding and where it ends; that is -1 where the data end first or it has too many bytes."""
    value = 0
    for shift in range(0, 70, 7):
        if pos >= stop:
            return 0, -1
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), pos
    return 0, -1


@part
def span(data, pos, stop):
    """Begin and end of a field that says its length first, and where the next one begins: -1 where it cannot be."""
    length, pos = varint(data, pos, stop)
    if pos < 0 or length < -1 or length > stop - pos:
        return -1, -1, -1
    if length == -1:
        return -1, -1, pos
    return pos, pos + length, pos + length


@jit
def places(data, pos, count, out):
    """Fill a row of `out` for each of `count` records; answer where they end, or -1 where they are not whole.

    Parameters
    ----------
    data
        The batch's bytes, uncompressed, int64-able (uint8).
    pos
        Where the first record begins.
    count
        How many there are.
    out
        count x COLUMNS, int64.
    """
    size = data.size
    for k in range(count):
        length, pos = varint(data, pos, size)
        if pos < 0 or length < 0 or length > size - pos:
            return -1
        stop = pos + length
        _, pos = varint(data, pos, stop)  # attributes, of which there are none yet
        if pos < 0:
            return -1
        out[k, TIME], pos = varint(data, pos, stop)
        if pos < 0:
            return -1
        out[k, OFFSET], pos = varint(data, pos, stop)
        if pos < 0:
            return -1
        out[k, KEY], out[k, KEY_END], pos = span(data, pos, stop)
        if pos < 0:
            return -1
        out[k, VALUE], out[k, VALUE_END], pos = span(data, pos, stop)
        if pos < 0:
            return -1
        count_headers, pos = varint(data, pos, stop)
        if pos < 0 or count_headers < 0:
            return -1
        out[k, HEADERS], out[k, N_HEADERS] = pos, count_headers
        for _ in range(count_headers):
            _, name_end, pos = span(data, pos, stop)
            if pos < 0 or name_end < 0:
                return -1
            _, _, pos = span(data, pos, stop)
            if pos < 0:
                return -1
        if pos != stop:
            return -1
    return pos
