"""Eigenvectors of packed symmetric matrices, by Lanczos steps: products with the matrix are where the time goes."""

from __future__ import annotations

import math

from fwonline._kernels.layout import fast_jit, fast_part, jit
from fwonline._kernels.symmetric import multiply

__all__ = ["krylov", "lowest", "lowest_tridiagonal", "orthogonalise"]


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
def orthogonalise(image, basis, count, n):
    """Take from the image what lies along the first rows of the basis; answers the norm of what is left."""
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


@fast_jit
def lowest(g, n, basis, image, on, off, y, work, tol, limit):
    """The lowest eigenvalue of G and, in the first row of the basis, its unit eigenvector.

    Lanczos steps with full reorthogonalisation, from the first row of the basis, whose image is given; once the basis
    is full they begin again from the best vector so far. They end when the residual is at most tol times the
    eigenvalue's size, or after `limit` products.

    Returns
    -------
    tuple
        Eigenvalue, residual ||G v - theta v||, products.
    """
    zero = g.dtype.type(0.0)
    room = min(basis.shape[0], n)
    products = 1
    while True:
        theta = math.inf
        spread = 0.0
        for count in range(1, room + 1):
            along = zero
            row = basis[count - 1]
            for j in range(n):
                along += row[j] * image[j]
            on[count - 1] = along
            coupling = orthogonalise(image, basis, count, n)
            off[count - 1] = coupling
            # By interlacing, the lowest eigenvalue only falls as the basis grows.
            theta = lowest_tridiagonal(on, off, count, min(theta, along), y, work)
            residual = coupling * abs(y[count - 1])
            spread = max(spread, abs(along) + coupling)
            # A coupling of zero up to rounding: the basis spans an invariant subspace.
            done = residual <= tol * abs(theta) or coupling <= 1e-14 * spread or products >= limit
            if done or count == room:
                break
            row = basis[count]
            inverse = g.dtype.type(1.0 / coupling)
            for j in range(n):
                row[j] = inverse * image[j]
            multiply(g, n, row, image)
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


@fast_jit
def krylov(g, n, basis, image, on, off, count):
    """An orthonormal basis of the Krylov space of G and the basis's first row, whose image is given; and G in it.

    G restricted to the rows is tridiagonal: `on` is its diagonal, `off` what stands beside it.

    Returns
    -------
    tuple
        Rows, `count` or n or as many as span an invariant subspace; and the norm of what the last row's image has
        outside of them.
    """
    zero = g.dtype.type(0.0)
    room = min(count, n)
    spread = 0.0
    rows = 0
    while True:
        row = basis[rows]
        rows += 1
        along = zero
        for j in range(n):
            along += row[j] * image[j]
        on[rows - 1] = along
        # Twice: no eigenvector has converged when the last row is taken, as it has where one alone is sought.
        orthogonalise(image, basis, rows, n)
        coupling = orthogonalise(image, basis, rows, n)
        off[rows - 1] = coupling
        spread = max(spread, abs(along) + coupling)
        if rows == room or coupling <= 1e-14 * spread:
            return rows, coupling
        row = basis[rows]
        inverse = g.dtype.type(1.0 / coupling)
        for j in range(n):
            row[j] = inverse * image[j]
        multiply(g, n, row, image)
