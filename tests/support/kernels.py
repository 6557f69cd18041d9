"""Parts of kernels, which only compiled functions call, with an entry of their own."""

from __future__ import annotations

import functools

import numba as nb


@functools.cache
def entered(part):
    return nb.njit(error_model="numpy")(part.py_func)
