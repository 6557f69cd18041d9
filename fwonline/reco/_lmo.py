"""The leading singular pair of a gradient known at some entries: what a step of either method needs."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import _loaded
from fwonline._kernels import lowrank
from fwonline._kernels.entry import Direct
from fwonline._kernels.lanczos import Space
from fwonline._room import WithScratch

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Oracle"]

# Sizes whose squares, and sums of these, single precision holds with room to spare.
_LEAST, _MOST = 1e-9, 1e9
# Gradients are smaller than its inverse: sums of products of ratings, each of which is at most 1e100.
_LEAST_UNIT = 1e-250
_BASIS = 40
_MOST_PRODUCTS = 400
_NOISE = 0.5

_leading_pair = Direct(lowrank.leading_pair)


class Oracle(WithScratch):
    """Linear minimisation over a nuclear ball, warm from step to step.

    Gradients come in units that single precision can square: they are written as `unit` times what they are.
    """

    # Of a gradient's entries: a step needs a percent, and reads nothing more often.
    precision: type[np.floating] = np.float32
    _scratch = ("_lefts", "_space")

    def __init__(self) -> None:
        self.v = np.zeros(0)
        self.unit = 1.0
        self.products = 0
        self.error = 0.0
        self._make_scratch()

    def _make_scratch(self, m: int = 0, n: int = 0) -> None:
        self._lefts, self._space = np.zeros((_BASIS, m), self.precision), Space.of(_BASIS, n, self.precision)

    def takes(self, size: float) -> bool:
        """Whether a gradient of that Frobenius norm was written in a fitting unit.

        If not, the unit is another now, and the gradient has to be written again.
        """
        if size == 0.0 or _LEAST <= size * self.unit <= _MOST:
            return True
        self.unit = 1.0 / size
        return False

    def __call__(
        self,
        shape: tuple[int, int],
        gathered: lowrank.Rows,
        loose: lowrank.Entries,
        tol: float,
        rng: np.random.Generator,
    ) -> tuple[NDArray, NDArray, float]:
        """Unit vectors u, v with -u v^T the least in <., G>, and the singular value <u v^T, G>.

        The residual is at most `tol` times the squared singular value; `error` is by how much the largest singular
        value may exceed the one found. The start is the last right vector and half as much noise, which meets every
        singular vector.

        Parameters
        ----------
        shape
            Rows and columns of G.
        gathered
            G's entries, in units.
        loose
            Others that are added, in units too.
        """
        m, n = shape
        if m > self._lefts.shape[1] or n > self._space.image.size:
            self._make_scratch(2 * m, 2 * n)
        start = rng.standard_normal(n)
        start *= _NOISE / math.sqrt(start @ start)
        start[: self.v.size] += self.v
        basis = self._space.basis
        basis[0, :n] = start / math.sqrt(start @ start)
        loose = loose._replace(values=loose.values.astype(self.precision))
        square, residual, products = _leading_pair(
            self.precision, gathered, loose, m, n, self._space, self._lefts, tol, _MOST_PRODUCTS
        )
        self.products += products
        self.error = (math.sqrt(square + residual) - math.sqrt(square)) / self.unit
        u, self.v = (vectors[0, :size].astype(np.float64) for vectors, size in ((self._lefts, m), (basis, n)))
        self.v /= math.sqrt(self.v @ self.v)
        length = math.sqrt(u @ u)
        u = u / length if length > 0.0 else np.eye(1, m)[0]
        return u, self.v, length / self.unit

    def _check_loaded(self) -> None:
        _loaded.like(self, Oracle(), "precision")
        v = _loaded.array(self, "v", np.float64, (None,))
        _loaded.require(self, "v", not v.size or abs(float(v @ v) - 1.0) <= 1e-6, "a unit vector")
        _loaded.real(self, "unit", _LEAST_UNIT, 1.0 / _LEAST_UNIT)
        _loaded.count(self, "products")
        _loaded.real(self, "error", nan=True, inf=True)
