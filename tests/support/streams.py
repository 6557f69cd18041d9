"""Samples of a linear truth, for the tests of optimizers."""

import numpy as np

D = 6


def stream(n=70, density=1.0, labels=False, seed=0):
    """Rows and targets; all features are in the first row: sets of one dimension need it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * (rng.random((n, D)) < density)
    X[0] = rng.normal(size=D)
    y = X @ rng.normal(size=D) + 0.1 * rng.normal(size=n)
    return X, (y > 0.0) if labels else y


def as_dict(x):
    """The entries of a row that are not zero, by their columns."""
    return {j: value for j, value in enumerate(x.tolist()) if value}
