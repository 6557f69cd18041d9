"""Eigenvectors of packed symmetric matrices, by Lanczos steps: products with the matrix are where the time goes.

The package has two eigen-solvers. This one is compiled, for one eigenvector of a matrix whose products kernels know:
a step of a stream costs a few microseconds beyond its products. The other one, :mod:`fwonline.sets._lanczos`, takes
operators given as Python functions, several eigenvectors at a time, and restarts that keep what they have found, which
an accuracy of 1e-8 and eigenvalues that repeat ask for. Both leave a small matrix, on a Krylov basis, to bisection or
to LAPACK.
"""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline._kernels.layout import fast_jit, fast_part, jit
from fwonline._kernels.symmetric import multiply

__all__ = ["Space", "extend", "krylov", "lowest", "lowest_tridiagonal"]


class Space(typing.NamedTuple):
    """A Krylov basis, as rows, and the matrix on it, which is tridiagonal."""

    basis: np.ndarray
    image: np.ndarray  # of the basis's last row
    on: np.ndarray  # the diagonal
    off: np.ndarray  # what stands beside it
    y: np.ndarray  # an eigenvector of it
    work: np.ndarray

    @classmethod
    def of(cls, rows: int, n: int, dtype: typing.Any = np.float64) -> Space:
        """Room for a basis of so many rows of n entries."""
        return cls(np.zeros((rows, n), dtype), np.zeros(n, dtype), *np.zeros((4, rows)))


@jit
def lowest_tridiagonal(on, off, count, upper, y, work):
    """The lowest eigenvalue of a tridiagonal matrix, at most `upper`, by bisection; its eigenvector to y.

    Below the lowest eigenvalue the shifted matrix is positive definite: elimination needs no pivots.
    """
    lower = upper
    spread = 0.0
    for i in range(count):
        radius = (off[i - 1] if i > 0 else 0.0) + (off[i] if i + 1 < count else 0.0)
        lower = min(lower, on[i] - radius)
        spread = max(spread, abs(on[i]) + radius)
    tiny = 1e-15 * spread + 1e-300  # never 0: a matrix of zeros has eigenvectors too
    while upper - lower > 2.0 * tiny:
        middle = 0.5 * (lower + upper)
        if not lower < middle < upper:
            break
        pivot = on[0] - middle
        for i in range(1, count):
            if pivot <= 0.0:
                break
            pivot = on[i] - middle - off[i - 1] * off[i - 1] / pivot
        if pivot > 0.0:
            lower = middle
        else:
            upper = middle
    shift = lower - tiny
    for i in range(count):
        y[i] = 1.0
    for _ in range(3):
        work[0] = on[0] - shift
        for i in range(1, count):
            factor = off[i - 1] / work[i - 1]
            work[i] = max(on[i] - shift - factor * off[i - 1], tiny)
            y[i] -= factor * y[i - 1]
        y[count - 1] /= work[count - 1]
        for i in range(count - 1, 0, -1):
            y[i - 1] = (y[i - 1] - off[i - 1] * y[i]) / work[i - 1]
        largest = 0.0
        for i in range(count):
            largest = max(largest, abs(y[i]))
        square = 0.0
        for i in range(count):
            y[i] /= largest
            square += y[i] * y[i]
        scale = square**-0.5
        for i in range(count):
            y[i] *= scale
    return lower


@fast_part
def _orthogonalise(image, basis, count, n):
    """Take from the image what lies along the first rows of the basis; returns the norm of what is left."""
    zero = basis.dtype.type(0.0)
    for k in range(count):
        along = zero
        row = basis[k]
        for j in range(n):
            along += row[j] * image[j]
        for j in range(n):
            image[j] -= along * row[j]
    square = zero
    for j in range(n):
        square += image[j] * image[j]
    return square**0.5


@fast_part
def extend(space, count, n, zero):
    """One Lanczos step: with the image of the basis's row number `count`, that row and column of the matrix on it.

    The image becomes the part of it outside of the basis. Returns its product with the row, summed in the type of
    `zero`, and its norm.
    """
    row = space.basis[count - 1]
    image = space.image
    along = zero
    for j in range(n):
        along += row[j] * image[j]
    space.on[count - 1] = along
    coupling = _orthogonalise(image, space.basis, count, n)
    space.off[count - 1] = coupling
    return along, coupling


@fast_jit
def lowest(g, n, space, tol, limit):
    """The lowest eigenvalue of G and, in the first row of the basis, its unit eigenvector.

    Lanczos steps with full reorthogonalisation, from the first row of the basis, whose image is given; once the basis
    is full they begin again from the best vector so far. They end when the residual is at most tol times the
    eigenvalue's size, or after `limit` products.

    Returns
    -------
    tuple
        Eigenvalue, residual ||G v - theta v||, products.
    """
    basis = space.basis
    image = space.image
    y = space.y
    room = min(basis.shape[0], n)
    products = 1
    while True:
        theta = math.inf
        spread = 0.0
        for count in range(1, room + 1):
            along, coupling = extend(space, count, n, g.dtype.type(0.0))
            # By interlacing, the lowest eigenvalue only falls as the basis grows.
            theta = lowest_tridiagonal(space.on, space.off, count, min(theta, along), y, space.work)
            residual = coupling * abs(y[count - 1])
            spread = max(spread, abs(along) + coupling)
            # A coupling of zero up to rounding: the basis spans an invariant subspace.
            done = residual <= tol * abs(theta) or coupling <= 1e-14 * spread or products >= limit
            if done or count == room:
                break
            _next_row(g, n, space, count, coupling)
            products += 1
        for j in range(n):
            image[j] = 0.0
        for k in range(count):
            row = basis[k]
            for j in range(n):
                image[j] += y[k] * row[j]
        square = 0.0
        for j in range(n):
            square += image[j] * image[j]
        row = basis[0]
        for j in range(n):
            row[j] = image[j] / square**0.5
        if done:
            return theta, residual, products
        multiply(g, n, row, image)
        products += 1


@fast_part
def _next_row(g, n, space, count, coupling):
    """The image, which has the norm `coupling`, becomes the basis's next row, and is replaced by that row's image."""
    row = space.basis[count]
    image = space.image
    inverse = g.dtype.type(1.0 / coupling)
    for j in range(n):
        row[j] = inverse * image[j]
    multiply(g, n, row, image)


@fast_jit
def krylov(g, n, space, count):
    """An orthonormal basis of the Krylov space of G and the basis's first row, whose image is given; and G on it.

    Returns
    -------
    tuple
        Rows, `count` or n or as many as span an invariant subspace; and the norm of what the last row's image has
        outside of them.
    """
    room = min(count, n)
    spread = 0.0
    rows = 0
    while True:
        rows += 1
        along, _ = extend(space, rows, n, g.dtype.type(0.0))
        # Twice: no eigenvector has converged when the last row is taken, as it has where one alone is sought.
        coupling = _orthogonalise(space.image, space.basis, rows, n)
        space.off[rows - 1] = coupling
        spread = max(spread, abs(along) + coupling)
        if rows == room or coupling <= 1e-14 * spread:
            return rows, coupling
        _next_row(g, n, space, rows, coupling)
