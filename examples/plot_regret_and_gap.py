"""Gap and regret of a stream
==========================

Two numbers that need no truth: the gap over the samples remembered, below its upper estimate, and the average regret,
an interval that narrows to a line.
"""

import matplotlib.pyplot as plt

from fwonline import datasets, linear_model, monitors, optim, sets

stream = datasets.SparseLinear(n_features=30, n_informative=5, radius=5.0, noise=0.5, seed=3)
model = linear_model.FWRegressor(sets.L1Ball(5.0), optim.SFW(memory=1_000), intercept=False, seed=3)
gap, regret = monitors.Gap(), monitors.Regret()

seen, exact, upper, low, high = [], [], [], [], []
for n, (x, y) in enumerate(stream.take(8_000), 1):
    model.learn_one(x, y)
    gap.update(model=model)
    regret.update(y, x=x, model=model)
    if n in (64, 125, 250, 500, 1_000, 2_000, 4_000, 8_000):
        seen.append(n)
        exact.append(model.exact_gap)
        upper.append(gap.get()["gap_upper"])
        said = regret.evaluate()
        low.append(said["regret_average_lo"])
        high.append(said["regret_average_hi"])

print(f"gap over the last 1,000 samples: {exact[-1]:.3f}; average regret within [{low[-1]:.4f}, {high[-1]:.4f}]")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.loglog(seen, upper, "--", color="gray", label="upper estimate")
left.loglog(seen, exact, "o-", label="exact, over the memory")
left.set(xlabel="samples", title="Frank-Wolfe gap")
left.legend()
right.loglog(seen, high, "o-", label="average regret")
right.loglog(seen, [high[0] * (seen[0] / n) ** 0.5 for n in seen], ":", color="gray", label="slope -1/2")
right.set(xlabel="samples", title="Average regret")
right.legend()
plt.show()
