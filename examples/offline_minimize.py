"""Offline: minimise a finite sum
==============================

The same optimizers offline: minimise a finite sum over a set, and know how far from the optimum one is.

The Frank-Wolfe gap brackets the optimum: fun - gap <= optimum <= fun, whatever the method did.
"""

from river import optim as river_optim

from fwonline import datasets, optim, sets

X, y = datasets.SparseLinear(classification=True, n_features=50, n_informative=5, seed=0).to_arrays(1_000)

for optimizer, steps in ((optim.SFW(batch_size=5), 20_000), (optim.MomentumFW(batch_size=5), 20_000)):
    result = optimizer.minimize(X, y, loss=river_optim.losses.Log(), constraint=sets.L1Ball(5.0), steps=steps, seed=0)
    support = int((abs(result.x) > 1e-3).sum())
    print(
        f"{type(optimizer).__name__:11}: the optimum lies in [{result.fun - result.gap:.4f}, {result.fun:.4f}], "
        f"{support} of {X.shape[1]} weights, after {result.n_gradients:,} gradients"
    )
