"""Writing: a value becomes a table of objects and the bytes of its arrays."""

from __future__ import annotations

import collections
import copyreg
import enum
import functools
import random
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from fwonline.checkpoint import document
from fwonline.checkpoint.allowed import allowed, allowed_instance, name_of
from fwonline.exceptions import CheckpointError

__all__ = ["Encoder"]


class Encoder:
    """Visits a value once, breadth first, and gives every object with an identity a line in a table."""

    def __init__(self) -> None:
        self.objects: list[list[Any]] = []
        self.blobs: list[Any] = []
        self._values: list[Any] = []  # also keeps temporaries alive, so that no id is given twice
        self._index: dict[int, int] = {}
        self._children: list[list[int]] = []
        self._parents: list[int] = []
        self._current = -1
        self._depth = 0
        self._rust_entries = 0

    def encode(self, value: Any) -> Any:
        root = self.node(value)
        while len(self.objects) < len(self._values):
            self._current = len(self.objects)
            self._children.append([])
            value = self._values[self._current]
            self.objects.append(_TABLED.get(type(value), Encoder._instance)(self, value))
        self._share_memory()
        return root

    def order(self) -> list[int]:
        """The objects with their parts first: the order in which the reader fills them."""
        order: list[int] = []
        seen = [False] * len(self._children)
        for start in range(len(self._children)):
            stack = [start]
            while stack:
                index = stack.pop()
                if index < 0:
                    order.append(~index)
                elif not seen[index]:
                    seen[index] = True
                    stack.append(~index)
                    stack.extend(child for child in reversed(self._children[index]) if not seen[child])
        return order

    # Values within a line of the table

    def node(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if -document.INT64 <= value < document.INT64 else ["i", hex(value)]
        if kind is float:
            return value if value - value == 0.0 else ["f", np.float64(value).tobytes().hex()]
        if kind is str:
            return value if _is_unicode(value) else ["s", self._blob(value.encode("utf-8", "surrogatepass"))]
        if kind in _TABLED:
            return self._reference(value)
        if (inline := _INLINE.get(kind)) is not None:
            return inline(self, value)
        return self._other(value)

    def _other(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, enum.Enum) and allowed_instance(kind):
            return ["e", *name_of(kind), value.name]
        if isinstance(value, np.generic):
            if value.dtype.hasobject:
                self._refuse(value)
            return ["np", np.lib.format.dtype_to_descr(value.dtype), value.tobytes().hex()]
        if isinstance(value, np.dtype):
            if value.hasobject:
                self._refuse(value)
            return ["dtype", np.lib.format.dtype_to_descr(value)]
        if isinstance(value, _NAMED) and allowed(value):
            return ["c", *name_of(value)]
        if isinstance(value, (types.MethodType, types.BuiltinMethodType)) and not isinstance(
            value.__self__, types.ModuleType | None
        ):
            return ["m", self.node(value.__self__), value.__name__]
        if not allowed_instance(kind):
            self._refuse(value)
        if isinstance(value, tuple):
            return ["nt", *name_of(kind), self._column(value)]
        return self._reference(value)

    def _tuple(self, value: tuple) -> Any:
        self._depth += 1
        if self._depth > document.MAX_DEPTH:
            raise CheckpointError(f"{self._path()} cannot be saved: tuples nested over {document.MAX_DEPTH} deep")
        column = self._column(value)
        self._depth -= 1
        return ["t", column]

    def _partial(self, value: functools.partial) -> Any:
        return ["p", self.node(value.func), self._column(value.args), self._mapping(value.keywords)]

    def _plain_value(self, value: Any) -> Any:
        return ["v", type(value).__name__, self._column(document.VALUES[type(value)](value))]

    def _reference(self, value: Any) -> Any:
        index = self._index.get(id(value))
        if index is None:
            index = self._index[id(value)] = len(self._values)
            self._values.append(value)
            self._parents.append(self._current)
        if self._current >= 0:
            self._children[self._current].append(index)
        return ["r", index]

    def _blob(self, data: Any) -> int:
        self.blobs.append(data)
        return len(self.blobs) - 1

    def _column(self, values: Any) -> list[Any]:
        """Values one after the other; numbers of one kind as raw bytes."""
        if len(values) > 8:
            kinds = set(map(type, values))
            if kinds == {float}:
                return ["f8", self._blob(np.fromiter(values, np.float64, len(values)).tobytes())]
            if kinds == {int}:
                try:
                    return ["i8", self._blob(np.fromiter(values, np.int64, len(values)).tobytes())]
                except OverflowError:
                    pass
            if kinds == {str} and _is_unicode("".join(values)):
                return ["n", list(values)]
        return ["n", [self.node(value) for value in values]]

    def _mapping(self, mapping: dict[str, Any]) -> dict[str, Any]:
        return {name: self.node(value) for name, value in mapping.items()}

    # Lines of the table

    def _sequence(self, value: Any) -> list[Any]:
        return [_NAME[type(value)], self._column(value), getattr(value, "maxlen", None)]

    def _table(self, value: dict) -> list[Any]:
        factory = self.node(getattr(value, "default_factory", None))
        return [_NAME[type(value)], self._column(value.keys()), self._column(value.values()), factory]

    def _array(self, value: np.ndarray) -> list[Any]:
        if value.dtype.hasobject:
            self._refuse(value)
        order: Any = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        flat = value.ravel(order=order)
        blob: Any = flat.view(np.uint8).data if flat.nbytes else b""
        descr = np.lib.format.dtype_to_descr(value.dtype)
        return ["array", descr, value.shape, order, value.flags.writeable, self._blob(blob)]

    def _share_memory(self) -> None:
        """Write arrays that are views of one memory as views of one memory, so that they stay so."""
        owners: dict[int, list[int]] = {}
        for index, line in enumerate(self.objects):
            # What shows its memory several times over, as a broadcast does, is written as it looks.
            if line[0] == "array" and 0 < self._values[index].nbytes <= _owner(self._values[index]).nbytes:
                owners.setdefault(id(_owner(self._values[index])), []).append(index)
        for members in owners.values():
            if len(members) == 1:
                continue
            owner = _owner(self._values[members[0]])
            if not (owner.flags.c_contiguous or owner.flags.f_contiguous):
                self._refuse(owner)
            base = self._index.get(id(owner))
            if base is None:
                base = self._index[id(owner)] = len(self._values)
                self._values.append(owner)
                self._parents.append(members[0])
                self._children.append([])
                self.objects.append(self._array(owner))
            start = owner.__array_interface__["data"][0]
            for index in members:
                if index == base:
                    continue
                value = self._values[index]
                self.blobs[self.objects[index][-1]] = b""
                offset = value.__array_interface__["data"][0] - start
                descr = np.lib.format.dtype_to_descr(value.dtype)
                self.objects[index] = ["view", base, descr, value.shape, offset, value.strides, value.flags.writeable]
                self._children[index].append(base)

    def _bit_generator(self, value: Any) -> list[Any]:
        name = type(value).__name__
        seeds = value.seed_seq
        if seeds is None:  # seeded the old way, as RandomState is
            return ["bits", name, self.node(value.state), None]
        if type(seeds) is not np.random.SeedSequence:
            self._refuse(seeds)
        seeding = (seeds.entropy, seeds.spawn_key, seeds.pool_size, seeds.n_children_spawned)
        return ["bits", name, self.node(value.state), self.node(seeding)]

    def _random(self, value: random.Random) -> list[Any]:
        version, words, gauss = value.getstate()
        return ["random", version, self._blob(np.array(words, np.uint32).tobytes()), self.node(gauss)]

    def _random_state(self, value: np.random.RandomState) -> list[Any]:
        state = value.get_state(legacy=False)
        return ["rstate", self.node(value._bit_generator), state["has_gauss"], self.node(state["gauss"])]

    def _sparse(self, value: Any) -> list[Any]:
        parts = (value.data, value.indices, value.indptr)
        return ["sparse", type(value).__name__, value.shape, *map(self.node, parts)]

    def _instance(self, value: Any) -> list[Any]:
        kind = type(value)
        try:
            function, arguments, state, items, pairs = (*value.__reduce_ex__(4), None, None, None)[:5]
        except Exception as error:
            raise CheckpointError(f"{self._path()} cannot be saved: {error}") from error
        if function is copyreg.__newobj__:  # type: ignore[attr-defined]
            how, arguments = "new", arguments[1:]
        elif function is kind:
            how = "call"
        else:
            self._refuse(value)
        if document.is_rust(kind):
            self._rust_entries = document.count_entries(self._rust_entries, arguments)
        if pairs is not None:
            pairs = dict(pairs)
            pairs = [self._column(pairs.keys()), self._column(pairs.values())]
        if items is not None:
            items = self._column(list(items))
        return ["obj", *name_of(kind), how, self._column(arguments), self._state(kind, state), items, pairs]

    def _state(self, kind: type, state: Any) -> Any:
        if state is None:
            return None
        if type(state) is dict and all(type(name) is str for name in state):
            return self._mapping(state)
        if type(state) is tuple and len(state) == 2 and not hasattr(kind, "__setstate__"):
            return ["slots", *(None if part is None else self._mapping(part) for part in state)]
        return ["x", self.node(state)]

    # What cannot be saved

    def _refuse(self, value: Any) -> None:
        kind = type(value)
        if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
            what = f"a function ({value.__name__})"
        elif isinstance(value, type):
            what = f"the class {value.__module__}.{value.__qualname__}"
        elif isinstance(value, np.ndarray) and kind is np.ndarray:
            what = f"an array that holds Python objects or lies scattered in memory (dtype {value.dtype})"
        else:
            what = f"of the class {kind.__module__}.{kind.__qualname__}"
        raise CheckpointError(
            f"{self._path(value)} cannot be saved: it is {what}; a checkpoint holds numbers, texts, arrays, containers "
            "and objects of river and fwonline. If the class or function is yours and stands at the top of a module, "
            "call fwonline.checkpoint.codec.register on it, in this program and in the one that loads"
        )

    def _path(self, value: Any = None) -> str:
        labels = [] if value is None or self._current < 0 else [_label(self._values[self._current], value)]
        index = self._current
        while index >= 0:
            parent = self._parents[index]
            if parent >= 0:
                labels.append(_label(self._values[parent], self._values[index]))
            index = parent
        path = "".join(reversed(labels))
        if path.startswith("['"):  # the root is a dict of named parts
            path = path[2:].replace("']", "", 1)
        return path.removeprefix(".") or "the value"


def _is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return True


def _owner(array: np.ndarray) -> np.ndarray:
    """The array whose memory `array` looks at."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _label(parent: Any, child: Any) -> str:
    """Where in `parent` the very object `child` stands."""
    if isinstance(parent, dict):
        for key, value in parent.items():
            if value is child:
                return f"[{key!r}]"
    elif isinstance(parent, (list, tuple, collections.deque)):
        for position, value in enumerate(parent):
            if value is child:
                return f"[{position}]"
    for name, value in getattr(parent, "__dict__", {}).items():
        if value is child:
            return f".{name}"
        inner: tuple[Any, ...] = value if isinstance(value, tuple) else ()
        if isinstance(value, functools.partial):
            inner = (value.func, *value.args)
        elif isinstance(value, types.MethodType):
            inner = (value.__self__,)
        if any(part is child for part in inner):
            return f".{name}[...]"
    return "[...]"


_NAME = {cls: name for name, cls in (document.SEQUENCES | document.MAPPINGS).items()}
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType)
_TABLED: dict[type, Callable[[Encoder, Any], list[Any]]] = {
    **dict.fromkeys(document.SEQUENCES.values(), Encoder._sequence),
    **dict.fromkeys(document.MAPPINGS.values(), Encoder._table),
    bytearray: lambda encoder, value: ["bytearray", encoder._blob(bytes(value))],
    np.ndarray: Encoder._array,
    np.random.Generator: lambda encoder, value: ["rng", encoder.node(value.bit_generator)],
    np.random.RandomState: Encoder._random_state,
    random.Random: Encoder._random,
    **dict.fromkeys(document.BIT_GENERATORS.values(), Encoder._bit_generator),
    **dict.fromkeys(document.SPARSE.values(), Encoder._sparse),
}
_INLINE: dict[type, Callable[[Encoder, Any], Any]] = {
    tuple: Encoder._tuple,
    bytes: lambda encoder, value: ["b", encoder._blob(value)],
    frozenset: lambda encoder, value: ["fs", encoder._column(value)],
    functools.partial: Encoder._partial,
    **dict.fromkeys(document.VALUES, Encoder._plain_value),
}
