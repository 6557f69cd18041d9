"""A stream that changes at once
=============================

The true weights move to other features after 3,000 samples. The default, told nothing, begins anew with what its
forgetting models have learned; SFW on the last 500 samples forgets at that pace; a model that remembers everything
stays behind.
"""

import matplotlib.pyplot as plt
from river import metrics, utils

from fwonline import datasets, linear_model, optim, sets

models = {
    "default": None,
    "SFW, last 500 samples": optim.SFW(memory=500, batch_size=5),
    "remembers everything": optim.StochasticPairwiseFW(forgetting=False),
}
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for name, optimizer in models.items():
    stream = datasets.SparseLinear(
        n_features=20, n_informative=5, radius=5.0, noise=0.5, drift_every=3_000, drift_fraction=1.0, seed=5
    )
    model = linear_model.FWRegressor(sets.L1Ball(5.0), optimizer, seed=5)
    recent, at, losses = utils.Rolling(metrics.MSE, window_size=200), [], []
    for n, (x, y) in enumerate(stream.take(6_000), 1):
        recent.update(y, model.predict_one(x))
        model.learn_one(x, y)
        if n % 100 == 0:
            at.append(n)
            losses.append(recent.get())
    axes.semilogy(at, losses, label=name)
    print(f"{name}: squared error of the last 200 samples {losses[-1]:.3f}")
axes.axvline(3_000, color="gray", linestyle=":")
axes.set(xlabel="samples", ylabel="squared error, last 200 samples")
axes.legend()
plt.show()
