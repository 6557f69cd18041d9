"""A covariance of blocks
======================

From 100 samples of 100 features: the empirical covariance is full of noise; the one shrunk as the stream asks is
nearer to the truth.
"""

import matplotlib.pyplot as plt
import numpy as np

from fwonline import covariance, datasets

stream = datasets.BlockCovariance(n_features=100, n_blocks=20, seed=2)
estimate, rows = covariance.SHCGMCovariance(), []
for x, _ in stream.take(100):
    estimate.update(x)
    rows.append([x[name] for name in sorted(x)])

truth, empirical = stream.covariance, np.cov(np.array(rows).T)
pictures = {"truth": truth, "empirical": empirical, "SHCGMCovariance": estimate.to_numpy()}
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for ax, (name, matrix) in zip(axes, pictures.items(), strict=True):
    ax.imshow(matrix, vmin=-0.5, vmax=0.5, cmap="RdBu")
    ax.set(title=name, xticks=[], yticks=[])
    print(f"{name}: relative error {np.linalg.norm(matrix - truth) / np.linalg.norm(truth):.2f}")
plt.show()
