"""Reading: a table of objects becomes the value it was written from."""

from __future__ import annotations

import collections
import enum
import functools
import inspect
import math
import random
import sys
import types
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from fwonline._loaded import claims
from fwonline.checkpoint import document
from fwonline.checkpoint.allowed import allowed_instance, find, method
from fwonline.exceptions import CheckpointError

__all__ = ["Decoder"]

# The largest extent of an empty array: readers of its shape make arrays of that length.
_MOST_OF_NOTHING = 1 << 24

_UNMADE = object()
_BEING_MADE = object()
_VALUE_TYPES = {cls.__name__: cls for cls in document.VALUES}


class Decoder:
    """Makes every object of the table empty, fills them, parts first, then checks each.

    When all are filled, an instance whose class has a method `_check_loaded` is checked by it for everything that its
    methods and compiled functions rely on: the order in which a file fills objects, and what it shares between them,
    are the file's choice. The method raises; it may also replace what it holds by copies of its own.
    """

    def __init__(self, data: memoryview) -> None:
        size = int.from_bytes(data[:8], "little")
        if len(data) < 8 or size > len(data) - 8:
            raise CheckpointError("the checkpoint is cut short")
        content = msgspec.json.decode(data[8 : 8 + size])
        document.check_format(content.get("format", 1))
        self._root, self._lines, self._order = content["root"], content["objects"], content["order"]
        if sorted(self._order) != list(range(len(self._lines))):
            raise CheckpointError("the checkpoint does not list each object once")
        self._blobs: list[memoryview] = []
        start = 8 + size
        for length in content["blobs"]:
            if type(length) is not int or not 0 <= length <= len(data) - start:
                raise CheckpointError("the checkpoint is cut short")
            self._blobs.append(data[start : start + length])
            start += length
        if start != len(data):
            raise CheckpointError("the checkpoint is longer than its parts")
        self._made: list[Any] = []

    def build(self, presets: dict[int, Any]) -> Any:
        self._presets = presets
        self._unread = set(range(len(self._blobs)))
        self._rust_entries = 0
        self._made = [_UNMADE] * len(self._lines)
        for index in self._order:
            value = self._get(index)
            line = self._lines[index]
            if (fill := _FILL.get(line[0])) is not None:
                fill(self, value, line)
        root = self.value(self._root)
        with claims():
            for index in self._order:
                if self._lines[index][0] == "obj":
                    _check_instance(self._made[index])
        return root

    def index_of(self, value: Any) -> int | None:
        """The line of an instance that can be filled in place, or None."""
        if not hasattr(self, "_instances"):
            self._instances = {
                id(made): index
                for index, made in enumerate(self._made)
                if self._lines[index][0] == "obj" and self._lines[index][3] == "new" and hasattr(made, "__dict__")
            }
        index = self._instances.get(id(value))
        return index if index is not None and self._made[index] is value else None

    def _get(self, index: Any) -> Any:
        if type(index) is not int or index < 0:
            raise CheckpointError(f"the checkpoint has no object of number {index!r}")
        made = self._made[index]
        if made is _UNMADE:
            self._made[index] = _BEING_MADE
            line = self._lines[index]
            if (made := self._presets.get(index, _UNMADE)) is _UNMADE:
                made = _MAKE[line[0]](self, line)
            else:
                made.__dict__.clear()
            self._made[index] = made
        elif made is _BEING_MADE:
            raise CheckpointError("the checkpoint has an object that is made of itself")
        return made

    def _blob(self, index: Any) -> memoryview:
        # Each once: a small file cannot stand for a large value by naming the same bytes many times.
        if index not in self._unread:
            raise CheckpointError("the checkpoint uses the same bytes twice")
        self._unread.discard(index)
        return self._blobs[index]

    # Values within a line

    def value(self, node: Any) -> Any:
        return _VALUE[node[0]](self, node) if type(node) is list else node

    def column(self, column: list[Any]) -> list[Any]:
        kind, content = column
        if kind == "n":
            return [_VALUE[node[0]](self, node) if type(node) is list else node for node in content]
        if kind not in ("f8", "i8"):
            raise CheckpointError(f"the checkpoint has a column of unknown kind {kind!r}")
        return np.frombuffer(self._blob(content), "<" + kind).tolist()

    def mapping(self, mapping: dict[str, Any]) -> dict[str, Any]:
        return {sys.intern(name): self.value(node) for name, node in mapping.items()}

    def _named_tuple(self, node: list[Any]) -> Any:
        cls = self._instance_class(node)
        if not issubclass(cls, tuple):
            raise CheckpointError(f"the checkpoint takes {cls.__qualname__} for a tuple")
        return tuple.__new__(cls, self.column(node[3]))

    def _enum(self, node: list[Any]) -> Any:
        cls = self._instance_class(node)
        if not issubclass(cls, enum.Enum):
            raise CheckpointError(f"the checkpoint takes {cls.__qualname__} for an enumeration")
        return cls[node[3]]

    def _numpy_scalar(self, node: list[Any]) -> Any:
        return np.frombuffer(bytes.fromhex(node[2]), _dtype(node[1]), 1)[0]

    def _plain_value(self, node: list[Any]) -> Any:
        return _VALUE_TYPES[node[1]](*self.column(node[2]))

    def _partial(self, node: list[Any]) -> Any:
        function = self.value(node[1])
        if not callable(function):
            raise CheckpointError("the checkpoint has a partial call of what cannot be called")
        return functools.partial(function, *self.column(node[2]), **self.mapping(node[3]))

    @staticmethod
    def _instance_class(node: list[Any]) -> type:
        cls = find(node[1], node[2])
        if not isinstance(cls, type) or not allowed_instance(cls):
            raise CheckpointError(f"the checkpoint has an instance of {node[1]}.{node[2]}, which is not allowed in one")
        return cls

    # Lines of the table

    def _array(self, line: list[Any]) -> np.ndarray:
        _, descr, shape, order, writeable, blob = line
        dtype = _dtype(descr)
        data = self._blob(blob)
        count = _size(shape)
        if count * dtype.itemsize != len(data):
            raise CheckpointError(f"the checkpoint has an array of {shape} {dtype} in {len(data)} bytes")
        array = np.empty(shape, dtype, order="F" if order == "F" else "C")
        if len(data):
            array.ravel(order="K").view(np.uint8)[:] = np.frombuffer(data, np.uint8)
        array.flags.writeable = writeable is not False
        return array

    def _view(self, line: list[Any]) -> np.ndarray:
        _, base, descr, shape, offset, strides, writeable = line
        owner = self._get(base)
        if type(owner) is not np.ndarray or self._lines[base][0] != "array":
            raise CheckpointError("the checkpoint has a view of what is no array")
        dtype = _dtype(descr)
        count = _size(shape)
        # Seen to here: numpy multiplies extents by strides without a look at the range of its integers.
        if len(strides) != len(shape) or not all(type(number) is int for number in (offset, *strides)):
            raise CheckpointError(f"the checkpoint has a view of {shape} with strides {strides} at {offset}")
        ends = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)] if count else []
        first = offset + sum(end for end in ends if end < 0)
        last = offset + sum(end for end in ends if end > 0) + (dtype.itemsize if count else 0)
        # No larger than what it shows: a few bytes repeated by a stride of 0 would become many where they are copied.
        if first < 0 or last > owner.nbytes or count * dtype.itemsize > owner.nbytes:
            raise CheckpointError(f"the checkpoint has a view that lies outside of its array of {owner.nbytes} bytes")
        flat = owner if owner.flags.c_contiguous else owner.T
        view: np.ndarray = np.ndarray(tuple(shape), dtype, flat, offset, tuple(strides))
        if writeable is False:
            view.flags.writeable = False
        return view

    def _bit_generator(self, line: list[Any]) -> Any:
        _, name, state, seeding = line
        if seeding is None:
            bits: Any = np.random.RandomState(0)._bit_generator
            if name != type(bits).__name__:
                raise CheckpointError(f"the checkpoint has a random generator {name} without a seed")
            return _with_state(bits, self.value(state))
        entropy, spawn_key, pool_size, spawned = self.value(seeding)
        if not 4 <= pool_size <= 64:
            raise CheckpointError(f"the checkpoint has a random seed of pool size {pool_size}")
        seeds = np.random.SeedSequence(entropy, spawn_key=spawn_key, pool_size=pool_size, n_children_spawned=spawned)
        return _with_state(document.BIT_GENERATORS[name](seeds), self.value(state))

    def _generator(self, line: list[Any]) -> np.random.Generator:
        bits = self.value(line[1])
        if type(bits) not in document.BIT_GENERATORS.values():
            raise CheckpointError("the checkpoint has a random generator without bits")
        return np.random.Generator(bits)

    def _random_state(self, line: list[Any]) -> np.random.RandomState:
        bits = self.value(line[1])
        if type(bits) is not np.random.MT19937:
            raise CheckpointError("the checkpoint has a random state without bits")
        made = np.random.RandomState(bits)
        gauss = self.value(line[3])
        if line[2] not in (0, 1) or not isinstance(gauss, float) or not math.isfinite(gauss):
            raise CheckpointError("the checkpoint has a random state with a strange normal number")
        state = made.get_state(legacy=False)
        made.set_state({**state, "has_gauss": line[2], "gauss": gauss})
        return made

    def _random(self, line: list[Any]) -> random.Random:
        _, version, words, gauss = line
        state, gauss = np.frombuffer(self._blob(words), np.uint32), self.value(gauss)
        if _is_stuck(state[:-1]) or not (gauss is None or (type(gauss) is float and math.isfinite(gauss))):
            raise CheckpointError("the checkpoint has a random generator in a state that it cannot have")
        made = random.Random()
        made.setstate((version, tuple(state.tolist()), gauss))
        return made

    def _sparse(self, line: list[Any]) -> Any:
        _, name, shape, *parts = line
        made = document.SPARSE[name](tuple(self.value(part) for part in parts), shape=tuple(shape))
        made.check_format(full_check=True)
        return made

    def _instance(self, line: list[Any]) -> Any:
        cls = self._instance_class(line)
        how, arguments = line[3], self.column(line[4])
        if document.is_rust(cls):
            self._rust_entries = document.count_entries(self._rust_entries, arguments)
        if how == "new":
            return cls.__new__(cls, *arguments)
        if how == "call" and (cls.__reduce__ is not object.__reduce__ or cls.__reduce_ex__ is not object.__reduce_ex__):
            return cls(*arguments)
        raise CheckpointError(f"the checkpoint makes {cls.__qualname__} in a way that it does not have")

    def _fill_instance(self, value: Any, line: list[Any]) -> None:
        state, items, pairs = line[5:8]
        if items is not None:
            base = collections.deque if isinstance(value, collections.deque) else list
            base.extend(value, self.column(items))
        if pairs is not None:
            dict.update(value, zip(self.column(pairs[0]), self.column(pairs[1]), strict=True))
        if state is None:
            return
        if type(state) is dict:
            filled = self.mapping(state)
        elif state[0] == "slots":
            attributes, slots = ({} if part is None else self.mapping(part) for part in state[1:])
            for name, attribute in slots.items():
                _slot(type(value), name).__set__(value, attribute)
            filled = attributes
        else:
            filled = self.value(state[1])
        _check_names(type(value), filled)
        if hasattr(type(value), "__setstate__"):
            value.__setstate__(filled)
        elif filled:
            value.__dict__.update(filled)


_METHODS = (types.FunctionType, classmethod, staticmethod, property)


def _check_names(cls: type, state: Any) -> None:
    """Refuse an attribute with the name of a method of a class of fwonline."""
    if not cls.__module__.startswith("fwonline.") or not isinstance(state, dict):
        return
    for name in state:
        if isinstance(found := inspect.getattr_static(cls, name, None), _METHODS):
            what = f"a value in the place of a {type(found).__name__}, {name}"
            raise CheckpointError(f"the checkpoint's {cls.__qualname__} has {what}")


def _check_instance(value: Any) -> None:
    cls = type(value)
    if (check := getattr(cls, "_check_loaded", None)) is None:
        return
    try:
        check(value)
    except CheckpointError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise CheckpointError(f"the checkpoint's {cls.__qualname__} is inconsistent: {what}") from error


def _size(shape: Any) -> int:
    """How many entries an array of that shape has."""
    if type(shape) is not list or not all(type(extent) is int and extent >= 0 for extent in shape):
        raise CheckpointError(f"the checkpoint has an array of shape {shape!r}")
    count = math.prod(shape)
    if not count and max(shape) > _MOST_OF_NOTHING:
        raise CheckpointError(f"the checkpoint has an empty array of shape {shape}")
    return count


def _with_state(bits: Any, state: Any) -> Any:
    """Random bits in a state that they can have: before 2.5 numpy takes any, and reads where its counters point."""
    name = type(bits).__name__
    impossible = f"the checkpoint has a random generator {name} in a state that it cannot have"
    try:
        bits.state = state
    except ValueError as error:
        raise CheckpointError(f"{impossible}: {error}") from None
    held = bits.state
    inner = held["state"]
    if name == "MT19937":
        is_good = 0 <= inner["pos"] <= len(inner["key"]) and not _is_stuck(inner["key"])
    elif name == "Philox":
        is_good = 0 <= held["buffer_pos"] <= len(held["buffer"])
    elif name.startswith("PCG64"):
        is_good = inner["inc"] % 2 == 1
    else:
        is_good = True
    if not is_good or held.get("has_uint32", 0) not in (0, 1):
        raise CheckpointError(impossible)
    return bits


def _is_stuck(words: np.ndarray) -> bool:
    """Whether a Mersenne twister yields zeros for ever: some draws of numbers would never end."""
    return not (words.size and (int(words[0]) >> 31 or words[1:].any()))


def _slot(cls: type, name: str) -> Any:
    for base in cls.__mro__:
        if isinstance(member := vars(base).get(name), types.MemberDescriptorType):
            return member
    raise CheckpointError(f"the checkpoint has an attribute {name} that {cls.__qualname__} does not have")


def _dtype(descr: Any) -> np.dtype:
    dtype = np.lib.format.descr_to_dtype(_tuples(descr))
    if dtype.hasobject or not dtype.itemsize or dtype.subdtype is not None:
        raise CheckpointError(f"the checkpoint has an array of {dtype}, which is not allowed in one")
    return dtype


def _tuples(descr: Any) -> Any:
    """A dtype's description with the tuples that JSON made lists."""
    if not isinstance(descr, list):
        return descr
    return [tuple(_field_part(part) for part in field) for field in descr]


def _field_part(part: Any) -> Any:
    if isinstance(part, list):
        return tuple(part) if all(isinstance(item, (int, str)) for item in part) else _tuples(part)
    return part


def _make_sequence(decoder: Decoder, line: list[Any]) -> Any:
    cls = document.SEQUENCES[line[0]]
    return collections.deque(maxlen=line[2]) if cls is collections.deque else cls()


def _make_mapping(decoder: Decoder, line: list[Any]) -> Any:
    cls = document.MAPPINGS[line[0]]
    return collections.defaultdict(decoder.value(line[3])) if cls is collections.defaultdict else cls()


def _fill_sequence(decoder: Decoder, value: Any, line: list[Any]) -> None:
    (value.update if isinstance(value, set) else value.extend)(decoder.column(line[1]))


def _fill_mapping(decoder: Decoder, value: Any, line: list[Any]) -> None:
    update = value.update if isinstance(value, collections.OrderedDict) else functools.partial(dict.update, value)
    update(zip(decoder.column(line[1]), decoder.column(line[2]), strict=True))  # Counter.update would add


_VALUE: dict[str, Callable[[Decoder, list[Any]], Any]] = {
    "r": lambda decoder, node: decoder._get(node[1]),
    "t": lambda decoder, node: tuple(decoder.column(node[1])),
    "nt": Decoder._named_tuple,
    "fs": lambda decoder, node: frozenset(decoder.column(node[1])),
    "f": lambda decoder, node: float(np.frombuffer(bytes.fromhex(node[1]), "<f8", 1)[0]),
    "i": lambda decoder, node: int(node[1], 16),
    "s": lambda decoder, node: bytes(decoder._blob(node[1])).decode("utf-8", "surrogatepass"),
    "b": lambda decoder, node: bytes(decoder._blob(node[1])),
    "c": lambda decoder, node: find(node[1], node[2]),
    "m": lambda decoder, node: method(decoder.value(node[1]), node[2]),
    "p": Decoder._partial,
    "e": Decoder._enum,
    "np": Decoder._numpy_scalar,
    "dtype": lambda decoder, node: _dtype(node[1]),
    "v": Decoder._plain_value,
}
_MAKE: dict[str, Callable[[Decoder, list[Any]], Any]] = {
    **dict.fromkeys(document.SEQUENCES, _make_sequence),
    **dict.fromkeys(document.MAPPINGS, _make_mapping),
    "bytearray": lambda decoder, line: bytearray(decoder._blob(line[1])),
    "array": Decoder._array,
    "view": Decoder._view,
    "bits": Decoder._bit_generator,
    "rng": Decoder._generator,
    "rstate": Decoder._random_state,
    "random": Decoder._random,
    "sparse": Decoder._sparse,
    "obj": Decoder._instance,
}
_FILL: dict[str, Callable[[Decoder, Any, list[Any]], None]] = {
    **dict.fromkeys(document.SEQUENCES, _fill_sequence),
    **dict.fromkeys(document.MAPPINGS, _fill_mapping),
    "obj": Decoder._fill_instance,
}
