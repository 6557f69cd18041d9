"""The leading singular pair of a gradient known at some entries: what both ways of completion ask for at each step."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline._kernels import lowrank

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NO_ROWS", "Oracle"]

_BASIS = 40
_MOST_PRODUCTS = 400
# What a matrix without dense part gathers row by row: nothing.
NO_ROWS = (np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.uint32), np.zeros(0))


class Oracle:
    """Linear minimisation over a nuclear ball, warm from step to step."""

    def __init__(self) -> None:
        self.v = np.zeros(0)
        self.products = 0
        self._room(0, 0)

    def _room(self, m: int, n: int) -> None:
        self._left, self._image, self._basis = np.zeros(m), np.zeros(n), np.zeros((_BASIS + 1, n))
        self._small = np.zeros((4, _BASIS + 1))

    def __call__(
        self,
        shape: tuple[int, int],
        entries: tuple[NDArray, NDArray, NDArray, int],
        gathered: tuple[NDArray, NDArray, NDArray],
        tol: float,
        rng: np.random.Generator,
    ) -> tuple[NDArray, NDArray, float, float]:
        """Unit vectors u, v with -u v^T the least in <., G>, the singular value <u v^T, G>, and its error.

        The residual is at most `tol` times the squared singular value. The start is the last right vector and
        half as much noise, which meets every singular vector.
        """
        m, n = shape
        if m > self._left.size or n > self._image.size:
            self._room(2 * m, 2 * n)
        start = rng.standard_normal(n)
        start *= 0.5 / math.sqrt(start @ start)
        start[: self.v.size] += self.v
        self._basis[0, :n] = start / math.sqrt(start @ start)
        starts = gathered[0] if gathered[0].size > m else np.zeros(m + 1, dtype=np.int64)
        square, residual, products = lowrank.leading_pair(
            *entries,
            starts,
            *gathered[1:],
            m,
            n,
            self._basis,
            self._left,
            self._image,
            *self._small,
            tol,
            _MOST_PRODUCTS,
        )
        self.products += products
        self.v = self._basis[0, :n].copy()
        sigma = math.sqrt(max(square, 0.0))
        length = math.sqrt(self._left[:m] @ self._left[:m])
        u = self._left[:m] / length if length > 0.0 else np.eye(1, m)[0]
        return u, self.v, length, residual / sigma if sigma > 0.0 else 0.0

    def __getstate__(self) -> dict:
        return {"v": self.v, "products": self.products}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._room(0, 0)
