"""Asking for memory before it is needed.

The rows of a batch lie anywhere in the pool. Waiting for each of them to come from memory takes as long as all the
arithmetic of a step; asked for a few rows ahead, they are there in time.
"""

from __future__ import annotations

import typing

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from fwonline._kernels.layout import part

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


_prefetch: typing.Any = intrinsic(_line)


@part
def prefetch_row(pool_idx, pool_val, start, length):
    """Ask for a row of the pool."""
    for k in range(start, start + length, LINE // 8):
        _prefetch(pool_val, np.int64(k))
    for k in range(start, start + length, LINE // 4):
        _prefetch(pool_idx, np.int64(k))
