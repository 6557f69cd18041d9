"""Entering a kernel quickly, calling a function by its address, and asking for memory before it is needed.

A kernel takes a NamedTuple of arrays. Handed over as it is, each array is looked at each time (10 ns an array), which a
sample of few entries would feel. :func:`bind` writes the tuple's native form down once; what enters is the address.
:func:`opened`, on the first line of a kernel, gives the tuple back, and leaves a tuple that came as it is alone, so
that every kernel can be entered in both ways. The arrays must stay where they are: who replaces one binds anew.

The rows of a batch lie anywhere in the pool. Waiting for each of them to come from memory takes as long as all the
arithmetic of a step; asked for a few rows ahead (:func:`prefetch_row`), they are there in time.

This file and ``layout.py`` are all that lean on numba's insides. ``BY_ADDRESS = False`` does without.
"""

from __future__ import annotations

import functools
import typing

import numba as nb
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import NativeValue, intrinsic, models, register_model, typeof_impl, unbox

from fwonline._kernels.layout import jit, part

__all__ = [
    "AHEAD",
    "BY_ADDRESS",
    "Bound",
    "Direct",
    "Form",
    "bind",
    "call",
    "compiled_function",
    "entry_point",
    "form_of",
    "opened",
    "prefetch",
    "prefetch_row",
]

BY_ADDRESS = True
# Bytes that the native form of a tuple takes, at most: three hundred arrays of one dimension.
_ROOM = 16384


class BoundType(types.Type):
    """The type of a :class:`Bound` tuple of type ``tuple_type``."""

    def __init__(self, tuple_type: types.Type):
        self.tuple_type = tuple_type
        super().__init__(name=f"Bound({tuple_type})")


register_model(BoundType)(models.OpaqueModel)


class Bound(int):
    """The address of a tuple's native form: an int, since that is what enters fastest."""

    value: tuple  # keeps the arrays alive
    buffer: np.ndarray
    type: BoundType


class Form(typing.NamedTuple):
    """The native form of tuples of one type, and what writes it down: 0.3 ms to find, so it is kept."""

    type: BoundType
    write: typing.Callable


def form_of(value: tuple) -> Form:
    return Form(BoundType(nb.typeof(value)), entry_point(_write, (np.zeros(_ROOM, np.uint8), value)))


def bind(value: tuple, form: Form) -> typing.Any:
    """Return what a kernel takes in the place of a NamedTuple of arrays and numbers, of a type whose form is known."""
    if not BY_ADDRESS:
        return value
    buffer = np.zeros(_ROOM, np.uint8)
    bound = Bound(buffer.ctypes.data)
    bound.value, bound.buffer, bound.type = value, buffer, form.type
    form.write(buffer, value)
    return bound


def entry_point(function: typing.Any, args: tuple) -> typing.Callable:
    """Return the compiled function for arguments of these very types, which does not look at their types again."""
    signature = tuple(nb.typeof(argument) for argument in args)
    if signature not in function.overloads:
        function.compile(signature)
    return function.overloads[signature].entry_point


class Direct:
    """A kernel whose arguments are of the same types wherever the key is the same.

    numba looks at every argument of every call, most slowly at named tuples: 1 to 3 us a call. Here it looks once a
    key. Arguments are converted as ever, and what cannot be converted is refused.

    Parameters
    ----------
    kernel
        The compiled function.
    """

    def __init__(self, kernel: typing.Any):
        self._kernel = kernel
        self._entries: dict[typing.Any, typing.Callable] = {}

    def __call__(self, key: typing.Any, *args: typing.Any) -> typing.Any:
        if (entry := self._entries.get(key)) is None:
            entry = self._entries[key] = entry_point(self._kernel, args)
        return entry(*args)


@typeof_impl.register(Bound)
def _typeof(value, _context):
    return value.type


@unbox(BoundType)
def _unbox(_type, obj, c):
    return NativeValue(c.builder.inttoptr(c.pyapi.long_as_longlong(obj), ir.IntType(8).as_pointer()))


def _write_native(_context, buffer, value):
    def generate(context, builder, signature, args):
        if context.get_abi_sizeof(args[1].type) > _ROOM:
            raise ValueError(f"a tuple of more than {_ROOM} bytes cannot be bound")
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        builder.store(args[1], builder.bitcast(data, args[1].type.as_pointer()))
        return context.get_dummy_value()

    return types.void(buffer, value), generate


_store: typing.Any = intrinsic(_write_native)


@jit
def _write(buffer, value):
    _store(buffer, value)


def _load(builder, pointer, type_):
    """Each part by itself: what a kernel does not use is then never read."""
    if not isinstance(type_, (ir.LiteralStructType, ir.ArrayType)):
        return builder.load(pointer)
    out = ir.Constant(type_, ir.Undefined)
    for i in range(type_.count if isinstance(type_, ir.ArrayType) else len(type_.elements)):
        part = builder.gep(pointer, [ir.IntType(32)(0), ir.IntType(32)(i)])
        out = builder.insert_value(out, _load(builder, part, part.type.pointee), i)
    return out


def _open(_context, value):
    """The tuple that was bound; or the value itself, where it came as it is."""
    if not isinstance(value, BoundType):
        return value(value), lambda context, builder, signature, args: args[0]

    def generate(context, builder, signature, args):
        type_ = context.get_value_type(value.tuple_type)
        return _load(builder, builder.bitcast(args[0], type_.as_pointer()), type_)

    return value.tuple_type(value), generate


# An intrinsic, not an overload that numba inlines: after inlining, numba takes writes to arrays that it got out of a
# tuple for dead code.
opened: typing.Any = intrinsic(_open)


def _call(_context, address, arguments):
    """Call the function of floats at an address, with a tuple of floats; it returns a float."""

    def generate(context, builder, signature, args):
        double = ir.DoubleType()
        count = signature.args[1].count
        pointer = builder.inttoptr(args[0], ir.FunctionType(double, [double] * count).as_pointer())
        return builder.call(pointer, [builder.extract_value(args[1], i) for i in range(count)])

    return types.float64(types.int64, types.UniTuple(types.float64, arguments.count)), generate


call: typing.Any = intrinsic(_call)


@functools.cache
def compiled_function(function: typing.Callable[..., float], arguments: int) -> typing.Any:
    """A function of floats, compiled to be called by its address; kept for as long as the process lives."""
    return nb.cfunc(f"f8({','.join(['f8'] * arguments)})", cache=True, error_model="numpy")(function)


# --- memory before it is needed ----------------------------------------------------------------------------------

# How many rows ahead, and the bytes that memory hands out at a time.
AHEAD = 4
LINE = 64


def _line(_context, array, index):
    """Ask for the line that holds array[index]; nothing is read, nothing can fail."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        )
        address = builder.bitcast(builder.gep(data, [args[1]]), byte)
        builder.call(function, [address, word(0), word(3), word(1)])  # to be read, kept close, of data
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch: typing.Any = intrinsic(_line)


@part
def prefetch_row(pool_idx, pool_val, start, length):
    """Ask for a row of the pool."""
    for k in range(start, start + length, LINE // 8):
        prefetch(pool_val, np.int64(k))
    for k in range(start, start + length, LINE // 4):
        prefetch(pool_idx, np.int64(k))
