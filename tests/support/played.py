"""Rows that are played in blocks and one by one."""

import numpy as np
from scipy import sparse

# Where blocks begin and end.
BLOCKS = (0, 1, 40, 41, 103, 160)


def words(n, columns, seed=0):
    """Sparse rows whose names keep coming, in any order within a row, zeros among the values."""
    rng = np.random.default_rng(seed)
    rows = [rng.permutation(np.unique((columns * rng.random(6) ** 3).astype(np.int32))) for _ in range(n)]
    indptr = np.cumsum([0, *map(len, rows)])
    values = np.round(rng.normal(size=indptr[-1]), 1)
    X = sparse.csr_array((values, np.concatenate(rows), indptr), shape=(n, columns))
    return X, np.asarray(X.sum(axis=1)).ravel()


def samples_of(X, names):
    """The rows of a matrix as samples."""
    if not sparse.issparse(X):
        return [dict(zip(names, row, strict=True)) for row in X.tolist()]
    return [
        {names[j]: v for j, v in zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)}
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]


def bits(values):
    """Numbers as what is equal only where every bit is."""
    return np.asarray(values, dtype=np.float64).tobytes()
