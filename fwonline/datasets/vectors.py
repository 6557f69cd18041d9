"""Simulated vectors: normal ones whose covariance has a structure, and clusters of them."""

from __future__ import annotations

import numpy as np
from river.datasets import base

from fwonline.datasets._simulator import TRUTH, DriftingSimulator, Simulator, require

__all__ = ["BlockCovariance", "GaussianMixture"]


class BlockCovariance(DriftingSimulator):
    r"""Normal vectors whose covariance is block diagonal with unequal blocks of rank one.

    `n_blocks` - 1 random cuts divide the features into blocks. Block :math:`b` of the covariance is :math:`\varphi_b
    \varphi_b^\top` with the entries of :math:`\varphi_b` uniform on :math:`[-1, 1]`, so it is sparse and of low rank at
    once: the trace bounds its nuclear norm and the l1 norm of its entries its density. Samples are :math:`x_b = z_b
    \varphi_b + \sigma \varepsilon` with :math:`z_b`, :math:`\varepsilon` standard normal; they have no target (`None`).

    Parameters
    ----------
    n_features
        Dimension of the vectors.
    n_blocks
        Number of blocks, at most `n_features`.
    noise
        Standard deviation :math:`\sigma` of what is added to every feature; it adds :math:`\sigma^2 I` to the
        covariance.
    drift_every, drift_width, seed
        As for `SparseLinear`; a change draws blocks and entries anew.

    References
    ----------
    .. [1] `Locatello, F., Yurtsever, A., Fercoq, O., Cevher, V., 2019. Stochastic Frank-Wolfe for composite convex
       minimization. NeurIPS <https://arxiv.org/abs/1901.10348>`__

    Examples
    --------
    >>> from fwonline.datasets import BlockCovariance
    >>> stream = BlockCovariance(n_features=5, n_blocks=2, seed=3)
    >>> for x, y in stream.take(2):
    ...     print({j: round(v, 2) for j, v in x.items()}, y)
    {0: 0.02, 1: 0.01, 2: 0.08, 3: -0.22, 4: -0.01} None
    {0: 0.2, 1: 0.04, 2: 0.62, 3: -1.05, 4: -0.04} None
    >>> stream.covariance.round(2)
    array([[0.07, 0.02, 0.22, 0.  , 0.  ],
           [0.02, 0.  , 0.05, 0.  , 0.  ],
           [0.22, 0.05, 0.68, 0.  , 0.  ],
           [0.  , 0.  , 0.  , 0.33, 0.01],
           [0.  , 0.  , 0.  , 0.01, 0.  ]])
    """

    def __init__(
        self,
        n_features: int = 100,
        n_blocks: int = 10,
        noise: float = 0.0,
        drift_every: int | None = None,
        drift_width: int = 0,
        seed: int | None = None,
    ):
        require(1 <= n_blocks <= n_features, f"n_blocks must lie in 1 .. n_features={n_features}, not be {n_blocks}")
        require(noise >= 0, f"noise must be at least 0, not {noise}")
        self._set_drift(drift_every, drift_width)
        super().__init__(task="Covariance estimation", n_features=n_features)
        self.n_blocks = n_blocks
        self.noise = noise
        self._start(seed, range(n_features), n_features)

    def _concept(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The block of each feature and the entries of phi, after `k` changes."""
        rng = self._rng(TRUTH, k) if k else self._rng(TRUTH)
        cuts = np.sort(rng.choice(np.arange(1, self.n_features), self.n_blocks - 1, replace=False))
        return np.searchsorted(cuts, np.arange(self.n_features), side="right"), rng.uniform(-1, 1, self.n_features)

    @property
    def covariance(self) -> np.ndarray:
        """The true covariance at the start, of shape (n_features, n_features)."""
        return self.covariance_at(0)

    def covariance_at(self, t: int) -> np.ndarray:
        """Return the true covariance that sample `t`, counted from 0, is drawn from."""
        require(t >= 0, f"samples are counted from 0, not from {t}")
        k, old_part = (part[0] for part in self._phases(np.array([t])))
        total = self.noise**2 * np.eye(self.n_features)
        for concept, share in ((k, 1.0 - old_part), (k - 1, old_part)):
            if share > 0.0:
                block, phi = self._concept(int(concept))
                total += share * np.where(block[:, None] == block, np.outer(phi, phi), 0.0)
        return total

    def _draw(self, start: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, None]:
        k, old_part = self._phases(start + np.arange(n))
        X = self._samples(k, rng)
        if old_part.any():
            # a sum of independent samples has the sum of their covariances
            X *= np.sqrt(1.0 - old_part)[:, None]
            X += np.sqrt(old_part)[:, None] * self._samples(np.maximum(k - 1, 0), rng)
        if self.noise:
            X += self.noise * rng.standard_normal(X.shape)
        return X, None

    def _samples(self, k: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One sample of each concept `k`."""
        z = rng.standard_normal((k.size, self.n_blocks))
        X = np.empty((k.size, self.n_features))
        for concept in np.unique(k):
            block, phi = self._concept(int(concept))
            X[k == concept] = z[k == concept][:, block] * phi
        return X


class GaussianMixture(Simulator):
    r"""Normal clusters of equal spread about random centres, some larger than others: what k-means is asked to find.

    Centre :math:`c_k` has normal entries of standard deviation `spread`; a sample is :math:`c_k + \sigma \varepsilon`
    with :math:`\varepsilon` standard normal, and its target is :math:`k`. Cluster :math:`k = 0, 1, \dots` is drawn with
    probability proportional to :math:`(k + 1)^{-s}`.

    Parameters
    ----------
    n_features
        Dimension of the vectors.
    n_clusters
        Number of clusters.
    spread
        Standard deviation of a centre's entries, at least 0.
    noise
        Standard deviation :math:`\sigma` of a sample's entries about its centre, at least 0.
    skew
        Exponent :math:`s` of the clusters' sizes, at least 0; 0 draws all alike.
    seed
        Random seed number used for reproducibility.

    Examples
    --------
    >>> from fwonline.datasets import GaussianMixture
    >>> stream = GaussianMixture(n_clusters=3, seed=4)
    >>> for x, y in stream.take(2):
    ...     print({j: round(v, 1) for j, v in x.items()}, y)
    {0: 1.1, 1: -9.5} 2
    {0: -3.1, 1: 6.8} 0
    >>> stream.centers.round(1)
    array([[-3.4,  5.7],
           [ 3.6, -8.2],
           [ 1.7, -9. ]])
    """

    def __init__(
        self,
        n_features: int = 2,
        n_clusters: int = 5,
        spread: float = 5.0,
        noise: float = 1.0,
        skew: float = 0.0,
        seed: int | None = None,
    ):
        require(n_features >= 1, f"n_features must be at least 1, not {n_features}")
        require(n_clusters >= 1, f"n_clusters must be at least 1, not {n_clusters}")
        require(spread >= 0, f"spread must be at least 0, not {spread}")
        require(noise >= 0, f"noise must be at least 0, not {noise}")
        require(skew >= 0, f"skew must be at least 0, not {skew}")
        super().__init__(task=base.MULTI_CLF, n_features=n_features, n_classes=n_clusters, n_outputs=1)
        self.n_clusters = n_clusters
        self.spread = spread
        self.noise = noise
        self.skew = skew
        self._start(seed, range(n_features), n_features)
        self._centers = spread * self._rng(TRUTH).standard_normal((n_clusters, n_features))
        mass = np.cumsum(np.arange(1, n_clusters + 1, dtype=float) ** -skew)
        self._cdf = mass / mass[-1]

    @property
    def centers(self) -> np.ndarray:
        """The true centres, of shape (n_clusters, n_features)."""
        return self._centers.copy()

    @property
    def weights(self) -> np.ndarray:
        """The probability of each cluster, of shape (n_clusters,)."""
        return np.diff(self._cdf, prepend=0.0)

    def _draw(self, start: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        y = np.searchsorted(self._cdf, rng.random(n), side="right")
        return self._centers[y] + self.noise * rng.standard_normal((n, self.n_features)), y
