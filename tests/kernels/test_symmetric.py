"""The packed kernels against numpy."""

import numpy as np
import pytest
from support.kernels import entered

from fwonline._kernels import lanczos, symmetric


def pack(matrix):
    return matrix[np.tril_indices(len(matrix))].copy()


def unpack(packed, n):
    out = np.zeros((n, n))
    out[np.tril_indices(n)] = packed
    return out + np.tril(out, -1).T


def a_symmetric(rng, n):
    matrix = rng.standard_normal((n, n))
    return matrix + matrix.T


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 13, 50])
def test_every_pass_is_what_numpy_says(n):
    rng = np.random.default_rng(n)
    X, M, v = a_symmetric(rng, n), a_symmetric(rng, n), rng.standard_normal(n)
    x, m, image = pack(X), pack(M), np.zeros(n)

    symmetric.blend(m, x, n, 0.5, 0.3, 2.0, v)
    M = 0.5 * M + 0.3 * X + 2.0 * np.outer(v, v)
    np.testing.assert_allclose(unpack(m, n), M, atol=1e-12)

    M += 10 * np.eye(n)
    m = pack(M)
    whole, clear = symmetric.moment(m, n, 0.9, 0.2, v, image, 0.1)
    M = 0.9 * M + 0.2 * np.outer(v, v)
    roots = np.sqrt(np.diag(M))
    np.testing.assert_allclose(unpack(m, n), M, atol=1e-12)
    assert whole == pytest.approx(np.abs(M).sum())
    is_clear = (np.abs(M) > 0.1 * np.outer(roots, roots)) | np.eye(n, dtype=bool)
    assert clear == pytest.approx(np.abs(M[is_clear]).sum())

    total, above, count = symmetric.move(x, n, 0.5, 2.0, v, 0.7)
    X = 0.5 * X + 2.0 * np.outer(v, v)
    sizes = np.abs(X)
    np.testing.assert_allclose(unpack(x, n), X, atol=1e-12)
    assert (total, above, count) == pytest.approx((sizes.sum(), sizes[sizes > 0.7].sum(), (sizes > 0.7).sum()))

    tau = symmetric.threshold(x, n, 0.6 * total, 0.7, total, above, count)
    assert np.maximum(sizes - tau, 0.0).sum() == pytest.approx(0.6 * total)
    assert symmetric.threshold(x, n, total, 0.7, total, above, count) == 0.0
    assert symmetric.squared_residual(x, x, n, 0.0, tau) == pytest.approx((np.clip(X, -tau, tau) ** 2).sum())

    g = np.zeros_like(x)
    inner = symmetric.combine(g, x, m, x, n, symmetric.Weights(1.0, -1.0, 3.0, tau), v, image)
    G = X - M + 3.0 * np.clip(X, -tau, tau)
    np.testing.assert_allclose(unpack(g, n), G, atol=1e-12)
    np.testing.assert_allclose(image, G @ v, atol=1e-10)
    assert inner == pytest.approx((G * X).sum())
    entered(symmetric.multiply)(g, n, v, image)
    np.testing.assert_allclose(image, G @ v, atol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 5, 13, 50])
def test_the_passes_of_blocks_and_of_the_dual_are_what_numpy_says(n):
    rng = np.random.default_rng(n)
    X, Y, V = a_symmetric(rng, n), a_symmetric(rng, n), rng.standard_normal((8, n))
    x, y, z, weights = pack(X), pack(Y), np.zeros(n * (n + 1) // 2), rng.random(8)

    total, above, count = symmetric.shift(z, x, y, n, 0.3, 0.7)
    Z = X + 0.3 * Y
    sizes = np.abs(Z)
    np.testing.assert_allclose(unpack(z, n), Z, atol=1e-12)
    assert (total, above, count) == pytest.approx((sizes.sum(), sizes[sizes > 0.7].sum(), (sizes > 0.7).sum()))
    residual = np.clip(Z, -0.6, 0.6) - 0.3 * Y
    assert symmetric.squared_residual(z, y, n, 0.3, 0.6) == pytest.approx((residual**2).sum())
    symmetric.ascend(y, z, n, 0.9, 2.0, 0.6)
    np.testing.assert_allclose(unpack(y, n), 0.9 * Y + 2.0 * np.clip(Z, -0.6, 0.6), atol=1e-12)

    S = (V.T * weights) @ V
    total, above, count, square, along = symmetric.move_block(x, n, 0.5, weights, V, 8, 0.7, np.zeros((2, n)))
    assert along == pytest.approx((X * S).sum())
    X = 0.5 * X + S
    sizes = np.abs(X)
    np.testing.assert_allclose(unpack(x, n), X, atol=1e-12)
    assert (total, above, count) == pytest.approx((sizes.sum(), sizes[sizes > 0.7].sum(), (sizes > 0.7).sum()))
    assert square == pytest.approx((X**2).sum())


@pytest.mark.parametrize("guess", [0.0, 0.01, 1.0, 2.9, 50.0])
def test_the_threshold_is_found_from_any_guess(guess):
    X = a_symmetric(np.random.default_rng(0), 20)
    sizes = np.abs(X)
    tau = symmetric.threshold(
        pack(X), 20, 5.0, guess, sizes.sum(), sizes[sizes > guess].sum(), float((sizes > guess).sum())
    )
    assert np.maximum(sizes - tau, 0.0).sum() == pytest.approx(5.0)


def lowest(G, start, tol, rows=40, limit=400):
    n = len(G)
    space = lanczos.Space.of(rows, n)
    space.basis[0] = start / np.linalg.norm(start)
    space.image[:] = G @ space.basis[0]
    return (*lanczos.lowest(pack(G), n, space, tol, limit), space.basis[0])


@pytest.mark.parametrize("n", [1, 2, 5, 30, 120])
def test_the_lowest_eigenvector_is_found(n):
    rng = np.random.default_rng(n)
    G = a_symmetric(rng, n)
    theta, residual, products, v = lowest(G, rng.standard_normal(n), 1e-9)
    assert theta == pytest.approx(np.linalg.eigvalsh(G)[0], rel=1e-9)
    assert np.linalg.norm(v) == pytest.approx(1.0)
    assert np.linalg.norm(G @ v - theta * v) <= 1e-8 * abs(theta)
    assert residual <= 1e-8 * abs(theta)
    assert products <= 400


@pytest.mark.parametrize("diagonal", [[0.0, 0.0, 0.0], [2.0, 2.0, 2.0], [-1.0, -1.0, 3.0], [1e-300, 0.0, 0.0]])
def test_matrices_that_end_the_iteration_early(diagonal):
    theta, residual, _, v = lowest(np.diag(diagonal), np.array([1.0, 2.0, 3.0]), 1e-9)
    assert theta == pytest.approx(min(diagonal), abs=1e-12)
    assert residual <= 1e-9
    assert np.linalg.norm(v) == pytest.approx(1.0)


def test_a_limit_is_kept_and_the_residual_told():
    rng = np.random.default_rng(0)
    G = a_symmetric(rng, 200)
    theta, residual, products, v = lowest(G, rng.standard_normal(200), 1e-12, rows=5, limit=9)
    assert products <= 10
    assert np.linalg.norm(G @ v - theta * v) == pytest.approx(residual, rel=1e-6)


@pytest.mark.parametrize(("n", "count"), [(1, 4), (2, 2), (6, 9), (40, 12), (40, 40)])
def test_a_krylov_basis_and_the_matrix_on_it(n, count):
    rng = np.random.default_rng(n)
    G, space = a_symmetric(rng, n), lanczos.Space.of(count, n)
    start = rng.standard_normal(n)
    space.basis[0] = start / np.linalg.norm(start)
    space.image[:] = G @ space.basis[0]
    rows, coupling = lanczos.krylov(pack(G), n, space, count)
    assert rows == min(n, count)
    q, on, off = space.basis[:rows].T, space.on, space.off
    np.testing.assert_allclose(q.T @ q, np.eye(rows), atol=1e-12)
    T = np.diag(on[:rows]) + np.diag(off[: rows - 1], 1) + np.diag(off[: rows - 1], -1)
    np.testing.assert_allclose(q.T @ G @ q, T, atol=1e-11)
    assert np.linalg.norm(G @ q - q @ T) == pytest.approx(coupling, abs=1e-11)


def test_a_krylov_basis_ends_with_its_space():
    space, G = lanczos.Space.of(5, 6), np.diag([1.0, 3.0, 5.0, 5.0, 5.0, 5.0])
    space.basis[0, :2] = 1.0 / np.sqrt(2)
    space.image[:] = G @ space.basis[0]
    rows, coupling = lanczos.krylov(pack(G), 6, space, 5)
    assert rows == 2
    assert coupling < 1e-14
