"""Documents of the codec that are almost right: each a good one with one to three things changed in it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

__all__ = ["Document", "mutant"]

_DTYPES = ("<f8", "<i8", "<u8", "<i4", "<u4", "<f4", "<u2", "<i2", "|b1", "<c16", "<U2", "|S8", "<M8[s]", ">f8", ">i8")
_INTS = (0, 1, -1, 2, 3, 7, 63, 64, 65, 255, 4096, 1 << 16, 1 << 31, -(1 << 31), 1 << 32, (1 << 62) - 1, 1 << 62)
_INTS = (*_INTS, (1 << 63) - 1, -(1 << 63), -(1 << 62))
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-300, 5e-324, 1e12, 1e100, 1e200, 1e300, -1e300, math.nan, math.inf)
_FLOATS = (*_FLOATS, -math.inf, 1.0 + 2**-52, 1.7976931348623157e308)
_TEXTS = ("", "x", "0", "nan", "radius", "\x00", "a" * 300)


class Document(NamedTuple):
    """A document of :mod:`fwonline.checkpoint.codec`, taken apart."""

    table: dict[str, Any]
    blobs: list[bytes]
    text: bytes = b""

    @classmethod
    def read(cls, data: bytes) -> Document:
        """Take a document apart."""
        size = int.from_bytes(data[:8], "little")
        table, blobs, start = msgspec.json.decode(data[8 : 8 + size]), [], 8 + size
        for length in table["blobs"]:
            blobs.append(data[start : start + length])
            start += length
        return cls(table, blobs, data[8 : 8 + size])

    def write(self) -> bytes:
        """Put it together again, all lengths and the order of the objects right."""
        self.table["blobs"] = [len(blob) for blob in self.blobs]
        missing = set(range(len(self.objects))) - set(self.table["order"])
        self.table["order"] = [k for k in self.table["order"] if k < len(self.objects)]
        self.table["order"][:0] = sorted(missing)
        text = msgspec.json.encode(self.table)
        return b"".join([len(text).to_bytes(8, "little"), text, *self.blobs])

    def copy(self) -> Document:
        """Return one that may be changed, of a document as it was read."""
        return Document(msgspec.json.decode(self.text), list(self.blobs), self.text)

    @property
    def objects(self) -> list[list[Any]]:
        """The lines of the table."""
        return self.table["objects"]

    def add(self, line: list[Any]) -> list[Any]:
        """Add an object; return a reference to it."""
        self.objects.append(line)
        return ["r", len(self.objects) - 1]

    def label(self, place: int) -> str:
        """What the line at a place is, and of which attribute, as far as one line says it."""
        line = self.objects[place]
        own = f"{line[2]}" if line[0] == "obj" else line[0]
        for owner in self.objects:
            if owner[0] == "obj" and type(owner[5]) is dict:
                for name, node in owner[5].items():
                    if node == ["r", place]:
                        return f"{owner[2]}.{name}"
        return f"{own} {place}"


class _Slot(NamedTuple):
    """Where a value stands: a container of the table, the key in it, and what to call it."""

    container: Any
    key: Any
    label: str

    def get(self) -> Any:
        return self.container[self.key]

    def put(self, node: Any) -> None:
        self.container[self.key] = node


def _inside(node: Any, label: str) -> Iterator[_Slot]:
    """The values within a value that is no reference."""
    if type(node) is list and node and node[0] in ("t", "fs"):
        yield from _column(node[1], label)
    elif type(node) is list and node and node[0] == "nt":
        yield from _column(node[3], label)
    elif type(node) is list and node and node[0] == "v":
        yield from _column(node[2], label)


def _column(column: Any, label: str) -> Iterator[_Slot]:
    if column[0] == "n":
        for k, node in enumerate(column[1]):
            yield _Slot(column[1], k, f"{label}[{k}]")
            yield from _inside(node, f"{label}[{k}]")


def _slots(document: Document) -> list[_Slot]:
    """Every place of the table where a value stands."""
    slots: list[_Slot] = []
    for place, line in enumerate(document.objects):
        kind = line[0]
        if kind == "obj":
            state = line[5]
            if type(state) is dict:
                for name, node in state.items():
                    slots.append(_Slot(state, name, f"{line[2]}.{name}"))
                    slots.extend(_inside(node, f"{line[2]}.{name}"))
            elif type(state) is list and state[0] == "x":
                slots.append(_Slot(state, 1, f"{line[2]}.state"))
                slots.extend(_inside(state[1], f"{line[2]}.state"))
            for where, column in ((4, line[4]), (6, line[6])):
                if column is not None:
                    slots.extend(_column(column, f"{line[2]}({where})"))
        elif kind in ("list", "set", "deque"):
            slots.extend(_column(line[1], document.label(place)))
        elif kind in ("dict", "odict", "counter", "ddict"):
            slots.extend(_column(line[1], f"a key of {document.label(place)}"))
            slots.extend(_column(line[2], document.label(place)))
        elif kind == "rng":
            slots.append(_Slot(line, 1, "rng"))
        elif kind == "bits":
            slots.append(_Slot(line, 2, "bits"))
    return slots


def _number(value: float) -> Any:
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 63 else ["i", hex(value)]
    return value if value - value == 0.0 else ["f", np.float64(value).tobytes().hex()]


def _hostile(document: Document, rng: random.Random) -> Any:
    """A value of any kind."""
    kind = rng.randrange(12)
    if kind <= 2:
        return _number(rng.choice(_INTS))
    if kind <= 5:
        return _number(rng.choice(_FLOATS))
    if kind == 6:
        return rng.choice((None, True, False))
    if kind == 7:
        return rng.choice((*_TEXTS, 10**30, ["b", _blob(document, b"bytes")]))  # type: ignore[arg-type]
    if kind == 8:
        return document.add(rng.choice((["list", ["n", []]], ["dict", ["n", []], ["n", []]], ["list", ["n", [1, 2]]])))
    if kind == 9:
        return rng.choice(
            (["t", ["n", []]], ["t", ["n", [1, 2.0]]], ["c", "builtins", "len"], ["c", "builtins", "int"])
        )
    if kind == 10:
        array = rng.choice(
            (np.zeros(0), np.zeros(3), np.full(5, np.nan), np.arange(4), np.zeros((2, 2)), np.array(1.0))
        )
        return document.add(["array", array.dtype.str, list(array.shape), "C", True, _blob(document, array.tobytes())])
    return ["r", rng.randrange(len(document.objects))]


def _blob(document: Document, data: bytes) -> int:
    document.blobs.append(data)
    return len(document.blobs) - 1


def _near(value: Any, rng: random.Random) -> Any:
    """A value of the same kind, another one; None where there is none."""
    if type(value) is bool:
        return not value
    if type(value) is int:
        return _number(rng.choice((value + 1, value - 1, -value, 2 * value, value // 2, rng.choice(_INTS))))
    if type(value) is float:
        return _number(rng.choice((2 * value, value / 2, -value, value + 1e-9, value * 1e9, rng.choice(_FLOATS))))
    if type(value) is str:
        return rng.choice((value + "x", value[:-1], value.upper(), *_TEXTS))
    return None


# --- changes: each answers what it did, or None where it found nothing to do ---


def _replace(document: Document, rng: random.Random) -> str | None:
    slot = rng.choice(_slots(document))
    node = _near(slot.get(), rng) if rng.random() < 0.6 else None
    node = _hostile(document, rng) if node is None else node
    slot.put(node)
    return f"{slot.label} = {str(node)[:60]}"


def _swap(document: Document, rng: random.Random) -> str | None:
    one, other = rng.choice(_slots(document)), rng.choice(_slots(document))
    a, b = one.get(), other.get()
    one.put(b)
    other.put(a)
    return f"{one.label} <-> {other.label}"


def _swap_fields(document: Document, rng: random.Random) -> str | None:
    """Two attributes of one object, or of two of one class."""
    line = _instance(document, rng)
    if line is None or len(line[5]) < 2:
        return None
    one, other = rng.sample(sorted(line[5]), 2)
    line[5][one], line[5][other] = line[5][other], line[5][one]
    return f"{line[2]}: {one} <-> {other}"


def _share_field(document: Document, rng: random.Random) -> str | None:
    """One attribute is the very object that another one is."""
    line = _instance(document, rng)
    if line is None or len(line[5]) < 2:
        return None
    one, other = rng.sample(sorted(line[5]), 2)
    line[5][one] = line[5][other]
    return f"{line[2]}.{one} is {other}"


def _fields(document: Document, rng: random.Random) -> str | None:
    """An attribute goes, comes, or takes another name."""
    line = _instance(document, rng)
    if line is None or not line[5]:
        return None
    name = rng.choice(sorted(line[5]))
    what = rng.randrange(3)
    if what == 0:
        del line[5][name]
        return f"{line[2]}.{name} gone"
    names = ("learn_one", "learn_buffered", "lmo", "grow", "contains", "_bind", "__dict__", "__class__", "x", "seed")
    other = rng.choice((*names, name + "_"))
    line[5][other] = line[5].pop(name) if what == 1 else _hostile(document, rng)
    return f"{line[2]}.{other} added, in place of {name if what == 1 else 'nothing'}"


def _class(document: Document, rng: random.Random) -> str | None:
    """An object becomes one of another class of the document, or of a class near its own."""
    instances = [line for line in document.objects if line[0] == "obj"]
    line = rng.choice(instances)
    before = line[2]
    others = (
        *((other[1], other[2]) for other in instances),
        ("fwonline.sets", "L1Ball"),
        ("fwonline.sets", "L2Ball"),
        ("fwonline.sets", "LInfBall"),
        ("fwonline.sets", "ProbabilitySimplex"),
        ("fwonline.sets", "NuclearBall"),
        ("fwonline.optim", "SFW"),
        ("fwonline.optim", "SFWRun"),
        ("fwonline.optim", "OneSampleRun"),
        ("fwonline.optim", "ForwardRun"),
        ("fwonline.linear_model", "FWClassifier"),
        ("fwonline.linear_model", "FWSoftmax"),
        ("river.optim.losses", "Absolute"),
        ("river.optim.losses", "Log"),
        ("river.optim.losses", "Poisson"),
        ("river.stats.mean", "Mean"),
    )
    line[1], line[2] = rng.choice(others)
    return f"{before} becomes a {line[2]}"


def _list(document: Document, rng: random.Random) -> str | None:
    """Entries of a list, a tuple or a dict come, go, repeat or change places."""
    columns: list[tuple[str, list, list | None]] = []
    for place, line in enumerate(document.objects):
        if line[0] in ("list", "set", "deque") and line[1][0] == "n":
            columns.append((document.label(place), line[1][1], None))
        elif line[0] in ("dict", "odict", "counter", "ddict") and line[1][0] == line[2][0] == "n":
            columns.append((document.label(place), line[1][1], line[2][1]))
    for slot in _slots(document):
        node = slot.get()
        if type(node) is list and node and node[0] in ("t", "fs") and node[1][0] == "n":
            columns.append((slot.label, node[1][1], None))
    if not columns:
        return None
    label, first, second = rng.choice(columns)
    both = [first] if second is None else [first, second]
    size = len(first)
    what = rng.randrange(7)
    if what == 0 or not size:
        at, times = rng.randint(0, size), rng.choice((1, 1, 1, 2, 70, 300))
        node = _hostile(document, rng)
        for column in both:
            fresh = [node] * times if times < 3 else [f"new{k}" for k in range(times)]
            column[at:at] = fresh
        return f"{label}: {times} inserted at {at}: {str(node)[:40]}"
    i, j = rng.randrange(size), rng.randrange(size)
    for column in both:
        if what == 1:
            del column[i]
        elif what == 2:
            column[i] = column[j]
        elif what == 3:
            column[i], column[j] = column[j], column[i]
        elif what == 4:
            column[:] = column[1:] + column[:1]
        elif what == 5:
            column.insert(i, column[j])
        else:
            del column[i:]
    return f"{label}: {('', 'one gone', 'one twice', 'two swapped', 'moved by one', 'repeated', 'cut')[what]} at {i}"


def _instance(document: Document, rng: random.Random) -> list[Any] | None:
    lines = [line for line in document.objects if line[0] == "obj" and type(line[5]) is dict]
    return rng.choice(lines) if lines else None


def _some_array(document: Document, rng: random.Random) -> tuple[int, list[Any], np.ndarray] | None:
    places = [k for k, line in enumerate(document.objects) if line[0] == "array"]
    if not places:
        return None
    # The arrays of a few numbers are scalars by another name: they are as likely as all others together.
    small = [k for k in places if 16 <= math.prod(document.objects[k][2]) <= 64]
    place = rng.choice(small if small and rng.random() < 0.4 else places)
    line = document.objects[place]
    try:
        array = np.frombuffer(document.blobs[line[5]], np.dtype(line[1])).copy()
    except (ValueError, TypeError):  # an earlier change has spoilt it
        return None
    return place, line, array


def _write(document: Document, line: list[Any], array: np.ndarray, shape: list[int] | None = None) -> None:
    line[1], line[2] = array.dtype.str, list(array.shape) if shape is None else shape
    document.blobs[line[5]] = array.tobytes()


def _array_values(document: Document, rng: random.Random) -> str | None:
    """One entry of an array, or all of them, become other ones."""
    found = _some_array(document, rng)
    if found is None or not found[2].size or found[2].dtype.kind not in "iufb":
        return None
    place, line, array = found
    shape, what = list(line[2]), rng.randrange(8)
    used = max(1, min(array.size, rng.choice((4, 32, array.size))))  # where there is room to grow, most of it is unused
    i, j = rng.randrange(used), rng.randrange(used)
    if what <= 4:
        choices = _INTS if array.dtype.kind in "iu" else _FLOATS
        own = array[i].item()
        close = (own + 1, own - 1, -own, 2 * own, array.size, array.size - 1, rng.randrange(2 * array.size), array[j])
        value = rng.choice((*close, rng.choice(choices), rng.choice(choices), rng.choice(choices)))
        with np.errstate(all="ignore"):
            array[i] = np.array([value]).astype(array.dtype)[0]
        told = f"[{i}] = {array[i]}"
    elif what == 5:
        array[[i, j]] = array[[j, i]]
        told = f"[{i}] <-> [{j}]"
    elif what == 6:
        array[:] = np.roll(array, rng.choice((1, -1)))
        told = "moved by one"
    else:
        fill = rng.choice((array[i], 0, 1, -1, array.size) + ((math.nan, 1e300) if array.dtype.kind == "f" else ()))
        with np.errstate(all="ignore"):
            array[:] = np.array([fill]).astype(array.dtype)[0]
        told = f"all {array[0]}"
    _write(document, line, array, shape)
    return f"{document.label(place)}{told}"


def _array_form(document: Document, rng: random.Random) -> str | None:
    """An array is longer or shorter, of another dtype, another shape, another order, or read-only."""
    found = _some_array(document, rng)
    if found is None:
        return None
    place, line, array = found
    what, size = rng.randrange(9), array.size
    if what <= 3:
        columns = math.prod(line[2][1:])
        to = rng.choice((0, 1, size // 2, max(0, size - columns), size + columns, 2 * size, size + 64 * columns))
        array = np.resize(array, to) if rng.random() < 0.5 else np.concatenate([array, np.zeros(to, array.dtype)])[:to]
        shape = [to // columns, *line[2][1:]] if columns and to % columns == 0 else [to]
        _write(document, line, array, shape)
        return f"{document.label(place)} resized from {size} to {to}"
    if what == 4:
        dtype = np.dtype(rng.choice(_DTYPES))
        if dtype.itemsize != array.dtype.itemsize and array.dtype.kind in "iufb" and dtype.kind in "iufb":
            with np.errstate(all="ignore"):
                _write(document, line, array.astype(dtype), list(line[2]))
        else:
            line[1] = dtype.str
        return f"{document.label(place)} as {dtype}"
    if what == 5:
        line[2] = rng.choice(([size, 1], [1, size], [size], [1, size, 1], [-1, -size], [size, 1.0], [], ["x"], [0]))
        return f"{document.label(place)} of shape {line[2]}"
    if what == 6:
        line[3] = rng.choice(("F", "C", "x", None))
        return f"{document.label(place)} of order {line[3]}"
    if what == 7:
        line[4] = False
        return f"{document.label(place)} read-only"
    # A view of another array, or of itself.
    places = [k for k, other in enumerate(document.objects) if other[0] == "array" and k != place]
    if not places:
        return None
    base = rng.choice(places)
    itemsize = np.dtype(line[1]).itemsize
    strides = [itemsize] * len(line[2]) if rng.random() < 0.5 else [0] * len(line[2])
    document.blobs[line[5]] = b""
    line[:] = ["view", base, line[1], line[2], rng.choice((0, 8, -8)), strides, True]
    return f"{document.label(place)} a view of {document.label(base)}"


def _swap_arrays(document: Document, rng: random.Random) -> str | None:
    """Two arrays change places, most likely two that look alike."""
    places = [k for k, line in enumerate(document.objects) if line[0] == "array"]
    if len(places) < 2:
        return None
    one = rng.choice(places)
    alike = [k for k in places if k != one and document.objects[k][1:3] == document.objects[one][1:3]]
    other = rng.choice(alike if alike and rng.random() < 0.6 else places)
    told = f"arrays {document.label(one)} <-> {document.label(other)}"
    document.objects[one], document.objects[other] = document.objects[other], document.objects[one]
    return told


def _bytes(document: Document, rng: random.Random) -> str | None:
    """Raw bytes of whatever is written raw, river's own states too."""
    places = [k for k, blob in enumerate(document.blobs) if blob]
    if not places:
        return None
    k = rng.choice(places)
    data = bytearray(document.blobs[k])
    at, what = rng.randrange(len(data)), rng.randrange(4)
    if what == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif what == 1:
        data[at : at + 8] = rng.randbytes(len(data[at : at + 8]))
    elif what == 2:
        data[at:at] = rng.randbytes(rng.choice((1, 8)))
    else:
        del data[at : at + rng.choice((1, 8))]
    document.blobs[k] = bytes(data)
    return f"bytes of blob {k} from {at} on"


_CHANGES: tuple[tuple[Callable[[Document, random.Random], str | None], int], ...] = (
    (_replace, 25),
    (_swap, 6),
    (_swap_fields, 7),
    (_share_field, 4),
    (_fields, 4),
    (_class, 5),
    (_list, 12),
    (_array_values, 30),
    (_array_form, 12),
    (_swap_arrays, 8),
    (_bytes, 3),
)


def mutant(document: Document, rng: random.Random) -> tuple[bytes, str]:
    """A document with one to three things changed, and what was changed."""
    changed = document.copy()
    told: list[str] = []
    wanted = rng.choice((1, 1, 1, 1, 1, 1, 1, 2, 2, 3))
    while len(told) < wanted:
        change = rng.choices([c for c, _ in _CHANGES], [weight for _, weight in _CHANGES])[0]
        try:
            what = change(changed, rng)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            what = None  # an earlier change has spoilt what this one reads
        if what is not None:
            told.append(what)
    return changed.write(), "; ".join(told)
