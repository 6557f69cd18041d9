"""A hundred thousand sparse rows
==============================

A hundred thousand sparse rows, learned from a scipy CSR matrix in one compiled loop."""

import time

import numpy as np

from fwonline import datasets, linear_model, optim, sets

stream = datasets.SparseLinear(
    classification=True, n_features=5_000, n_informative=50, density=0.02, radius=100.0, noise=0.5, seed=3
)
X, y = stream.to_arrays(100_000)
print(f"{X.shape[0]:,} rows of {X.shape[1]:,} features, {X.nnz / X.shape[0]:.0f} of them present in a row")

model = linear_model.FWClassifier(
    constraint=sets.L1Ball(50.0), optimizer=optim.SFW(memory=10_000), intercept=False, seed=3
)
model.learn_arrays(X[:1_000], y[:1_000])  # the first call compiles, or loads what was compiled

began = time.perf_counter()
model.learn_arrays(X[1_000:90_000], y[1_000:90_000])
print(f"{89_000 / (time.perf_counter() - began):,.0f} rows a second")

X_new, y_new = X[90_000:], y[90_000:]
true_weights = stream.true_weights(0)
accuracy, best = np.mean(model.predict_arrays(X_new) == y_new), np.mean((X_new @ true_weights > 0) == y_new)
print(f"accuracy on rows never seen: {accuracy:.3f}; with the true weights it would be {best:.3f}")
truth = set(np.flatnonzero(true_weights).tolist())
largest = sorted(model.weights, key=lambda j: -abs(model.weights[j]))[: len(truth)]
hits = len(truth & set(largest))
print(f"{len(model.weights)} weights; the {len(truth)} largest are {hits} of the {len(truth)} true ones")
