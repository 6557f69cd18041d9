"""The lowest eigenvectors of a symmetric operator, from a start that may be warm, to a stated error."""

import warnings
from collections.abc import Callable

import numpy as np

from ._numeric import flushed
from .atoms import Array

__all__ = ["lowest_eigenvectors"]

# Up to this size the whole spectrum costs less than the first steps of an iteration.
_DENSE = 64
_MAX_PRODUCTS = 5_000


def lowest_eigenvectors(
    product: Callable[[Array], Array], n: int, count: int, start: Array | None = None, tol: float = 1e-8
) -> Array:
    """Return orthonormal vectors, as columns, for the `count` lowest eigenvalues of a symmetric operator.

    A block Lanczos iteration with full reorthogonalisation and thick restarts: it stops when the residual `||A v -
    theta v||` of every vector is at most `tol` times the largest magnitude among the Ritz values, hence of ||A||_2. An
    eigenvalue then lies that close to each theta. Blocks of `count` columns find eigenvalues of multiplicity up to
    `count`.

    :mod:`fwonline._kernels.lanczos` says why there is a compiled one beside it. This is not
    `scipy.sparse.linalg.eigsh` because that stops relative to the eigenvalue sought, which near zero is
    never, and because its single start vector may miss eigenvalues that repeat.

    A start that is an eigenvector would never see the others, so a little of a fixed random block is mixed into it: the
    result depends on the arguments alone.

    Wu, Simon 2000, "Thick-restart Lanczos method for large symmetric eigenvalue problems",
    https://doi.org/10.1137/S0895479898334605

    Parameters
    ----------
    product
        Maps an array of shape (n, b) to its product with the operator.
    n
        Size of the operator.
    count
        How many vectors, at most n.
    start
        Shape (n, count), a guess.
    tol
        Relative error, >= 0; about 1e-14 is the least that can be had.

    Warns
    -----
    RuntimeWarning
        Where the error is still larger after thousands of products; the vectors are the best found.
    """
    blocks = max(6, -(-32 // count))
    if n <= max(_DENSE, blocks * count):
        return np.linalg.eigh(flushed(_symmetric(product(np.eye(n)))))[1][:, :count].copy()
    random = np.random.default_rng(0)
    block = random.standard_normal((n, count))
    if start is not None:
        block = start + 0.01 * (np.linalg.norm(start, axis=0) / np.linalg.norm(block, axis=0)) * block
    block = np.linalg.qr(block)[0]
    basis = np.empty((n, blocks * count), order="F")
    small = np.zeros((blocks * count, blocks * count))  # basis^T A basis
    tol = max(tol, 1e-14)
    used = 0
    for _ in range(_MAX_PRODUCTS // count):
        fresh = slice(used, used + count)
        used += count
        basis[:, fresh] = block
        image = product(block)
        small[:used, fresh] = basis[:, :used].T @ image
        small[fresh, :used] = small[:used, fresh].T
        values, ritz = np.linalg.eigh(_symmetric(small[:used, :used]))
        scale = max(-values[0], values[-1])
        image = image - basis[:, :used] @ small[:used, fresh]
        block, coupling = _orthonormal(image, basis[:, :used], scale, random)
        residual = float(np.linalg.norm(coupling @ ritz[-count:, :count], axis=0).max())
        if residual <= tol * scale:
            break
        if used == basis.shape[1]:
            used = (blocks // 3) * count
            basis[:, :used] = basis @ ritz[:, :used]
            small[:] = 0.0
            small[np.diag_indices(used)] = values[:used]
    else:
        warnings.warn(
            f"the eigenvectors of a {n} x {n} operator have a relative error of {residual / scale:.1e} after"
            f" {_MAX_PRODUCTS} products, more than the {tol:.1e} asked for",
            RuntimeWarning,
            stacklevel=2,
        )
    return basis[:, :used] @ ritz[:, :count]


def _symmetric(matrix: Array) -> Array:
    return 0.5 * matrix + 0.5 * matrix.T


def _orthonormal(image: Array, basis: Array, scale: float, random: np.random.Generator) -> tuple[Array, Array]:
    """Return Q, orthonormal and orthogonal to the basis, and R with `image = Q R` up to what the basis spans.

    Columns in which nothing new is left, as when the basis spans an invariant subspace, are replaced by random ones.
    """
    q, r = np.linalg.qr(image - basis @ (basis.T @ image))
    spent = np.abs(np.diag(r)) <= 1e-14 * scale
    if spent.any():
        q[:, spent] = random.standard_normal((q.shape[0], int(spent.sum())))
        for _ in range(2):
            q = np.linalg.qr(q - basis @ (basis.T @ q))[0]
        r = q.T @ image
    return q, r
