"""Simulated streams: seeded, endless, drawn in chunks so that a model and not its data is what takes the time."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from river.datasets import base

from fwonline.datasets._simulator import TRUTH, DriftingSimulator, Simulator, require

__all__ = ["AdversarialLinear", "LowRankRatings", "SparseLinear"]


class SparseLinear(DriftingSimulator):
    r"""Sparse linear regression or classification whose true weights drift.

    Features are standard normal, each present with probability `density` (absent ones are 0 and not in the dict).
    The target of sample :math:`t` is

    .. math::

        y_t = \langle x_t, w_t \rangle + \sigma \varepsilon_t

    with :math:`\varepsilon_t` standard normal; for classification :math:`y_t` is True where
    :math:`\langle x_t, w_t \rangle + \sigma \varepsilon_t > 0` with :math:`\varepsilon_t` standard logistic, so that
    :math:`\sigma = 1` is the model of which the log loss is the likelihood, and :math:`\sigma = 0` is separable.

    The true weights :math:`w_t` have `n_informative` non-zeros and :math:`\|w_t\|_1` = `radius` (less while they move),
    so `L1Ball(radius)` holds them at all times. Every `drift_every` samples a fraction of the non-zeros move to other
    features with other values: at once, or in a straight line over `drift_width` samples.

    Parameters
    ----------
    classification
        Whether the target is a label (bool) instead of a number.
    n_features
        Dimension of the stream.
    n_informative
        Number of features with a true weight, at most `n_features`.
    density
        Probability that a feature is present in a sample, in (0, 1].
    radius
        l1 norm of the true weights.
    noise
        Scale :math:`\sigma` of the noise, at least 0.
    drift_every
        Samples from one change of the weights to the next; None for weights that never change.
    drift_width
        Samples that a change takes, at most `drift_every`; 0 for abrupt changes.
    drift_fraction
        Fraction of the informative features that one change replaces, in (0, 1].
    seed
        Random seed number used for reproducibility.

    Notes
    -----
    A sample costs its non-zeros, whatever the dimension.

    Examples
    --------
    >>> from fwonline.datasets import SparseLinear
    >>> stream = SparseLinear(n_features=4, n_informative=2, radius=3, drift_every=100, seed=7)
    >>> for x, y in stream.take(2):
    ...     print({j: round(v, 2) for j, v in x.items()}, round(y, 2))
    {0: 0.15, 1: -0.64, 2: 0.19, 3: 0.63} -1.42
    {0: -1.79, 1: 1.48, 2: 0.56, 3: 1.33} 2.24
    >>> stream.true_weights(0).round(2), stream.true_weights(100).round(2)
    (array([ 0.  ,  1.95, -1.05,  0.  ]), array([ 0.  ,  0.  , -0.99,  2.01]))
    """

    def __init__(
        self,
        *,
        classification: bool = False,
        n_features: int = 100,
        n_informative: int = 10,
        density: float = 1.0,
        radius: float = 10.0,
        noise: float = 0.1,
        drift_every: int | None = None,
        drift_width: int = 0,
        drift_fraction: float = 0.5,
        seed: int | None = None,
    ):
        require(
            1 <= n_informative <= n_features,
            f"n_informative must lie in 1 .. n_features={n_features}, not be {n_informative}",
        )
        require(0 < density <= 1, f"density must lie in (0, 1], not be {density}")
        require(radius > 0, f"radius must be positive, not {radius}")
        require(noise >= 0, f"noise must be at least 0, not {noise}")
        self._set_drift(drift_every, drift_width)
        require(0 < drift_fraction <= 1, f"drift_fraction must lie in (0, 1], not be {drift_fraction}")
        super().__init__(
            task=base.BINARY_CLF if classification else base.REG,
            n_features=n_features,
            n_classes=2 if classification else None,
            n_outputs=1,
            sparse=density < 1,
        )
        self.classification = classification
        self.n_informative = n_informative
        self.density = density
        self.radius = radius
        self.noise = noise
        self.drift_fraction = drift_fraction
        self._start(seed, range(n_features), n_features * density)
        self._order = self._rng(TRUTH).permutation(n_features)

    def _concept(self, k: int) -> np.ndarray:
        """The weights after `k` changes.

        Slot i of the informative features chooses among the features i, i + n_informative, ... of a random order, so
        slots never collide. Change k redraws the next few slots in turn, hence the last few changes say all.
        """
        m, slots = self.n_informative, np.arange(self.n_informative)
        if self.drift_every is None or k == 0:
            drawn_at = np.zeros(m, dtype=np.int64)
        else:
            step = max(1, round(self.drift_fraction * m))
            last = (k * step - 1 - slots) // m * m + slots  # latest turn of each slot among the k * step turns taken
            drawn_at = np.where(last >= 0, last // step + 1, 0)
        weights = np.zeros(self.n_features)
        for k_drawn in np.unique(drawn_at):
            rng = self._rng(TRUTH, int(k_drawn))
            choice, size, sign = rng.random(m), rng.uniform(0.5, 1.5, m), rng.choice((-1.0, 1.0), m)
            mine = drawn_at == k_drawn
            places = (self.n_features - 1 - slots) // m + 1
            features = self._order[slots + m * (choice * places).astype(np.int64)]
            weights[features[mine]] = (sign * size)[mine]
        return weights * (self.radius / np.abs(weights).sum())

    def true_weights(self, t: int) -> np.ndarray:
        """Return the weights that made sample `t`, counted from 0: of shape (n_features,)."""
        require(t >= 0, f"samples are counted from 0, not from {t}")
        k, old_part = (part[0] for part in self._phases(np.array([t])))
        weights = self._concept(k)
        return weights if old_part == 0 else weights + old_part * (self._concept(k - 1) - weights)

    def _draw(self, start: int, n: int, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
        X = rng.standard_normal((n, self.n_features)) if self.density == 1 else self._sparse(n, rng)
        margin = np.empty(n)
        k, old_part = self._phases(start + np.arange(n))
        for concept in np.unique(k):
            a, b = np.searchsorted(k, (concept, concept + 1))
            margin[a:b] = X[a:b] @ self._concept(concept)
            if moving := np.count_nonzero(old_part[a:b]):  # the first samples of the concept
                b = a + moving
                margin[a:b] += old_part[a:b] * (X[a:b] @ self._concept(concept - 1) - margin[a:b])
        if self.classification:
            return X, margin + self.noise * rng.logistic(size=n) > 0
        return X, margin + self.noise * rng.standard_normal(n)

    def _sparse(self, n: int, rng: np.random.Generator) -> scipy.sparse.csr_array:
        """Independent presence of every cell by geometric jumps from one present cell to the next."""
        cells = n * self.n_features
        expected = cells * self.density
        jumps = [np.zeros(1, dtype=np.int64)]
        reached = 0
        while reached <= cells:
            jump = rng.geometric(self.density, int(expected + 6 * np.sqrt(expected) + 16))
            jumps.append(jump)
            reached += int(jump.sum())
        at = np.cumsum(np.concatenate(jumps))[1:] - 1
        at = at[: np.searchsorted(at, cells)]
        row, column = np.divmod(at, self.n_features)
        ends = np.searchsorted(row, np.arange(n + 1))
        return scipy.sparse.csr_array((rng.standard_normal(at.size), column, ends), shape=(n, self.n_features))


class AdversarialLinear(Simulator):
    r"""Price relatives of assets whose leader keeps changing: losses against a learner on the simplex.

    At each round :math:`x_t` holds the price relatives of `n_features` assets (closing price over opening price, so 1
    is no change) and :math:`y_t = \max_i x_{t,i}` is that of the round's best asset. A portfolio :math:`w` on the
    probability simplex multiplies its wealth by :math:`\langle x_t, w \rangle` and falls short of the best asset by
    :math:`y_t - \langle x_t, w \rangle \geq 0`.

    A regime lasts `switch_every` rounds. In it one asset leads: the logarithm of its relative has mean `edge`, that of
    the leader before it has mean -`edge`, those of all others 0; on top comes normal noise of standard deviation
    `volatility`. The next leader is one of the assets that led least often so far. So whoever runs after the asset
    that did best lately buys just before it falls: with two assets, `switch_every=1` and `volatility=0` this is the
    textbook sequence on which following the leader has linear regret.

    How to feed it: to `FWRegressor(sets.ProbabilitySimplex(), optim.OFW(), loss=..., intercept=False)`, not scaled.

    - `river.optim.losses.Absolute()`: the prediction :math:`\langle x_t, w_t \rangle` is never above :math:`y_t`, so
      the loss is the shortfall itself, which is linear in :math:`w`. The best fixed point is one asset.
    - `fwonline.losses.NegativeLogReturn()`: the loss is minus the logarithm of the round's growth. The regret is the
      logarithm of the wealth of the best constant rebalanced portfolio over one's own.
    - `river.optim.losses.Squared()`, a regressor's usual: the squared shortfall.

    Parameters
    ----------
    n_features
        Number of assets, at least 2.
    switch_every
        Rounds of a regime.
    edge
        Mean logarithm of a leader's price relative, at least 0.
    volatility
        Standard deviation of the logarithm of a price relative, at least 0.
    seed
        Random seed number used for reproducibility.

    References
    ----------
    .. [1] `Hazan, E., Kale, S., 2012. Projection-free online learning. ICML <https://arxiv.org/abs/1206.4657>`__
    .. [2] `Cover, T., 1991. Universal portfolios. Mathematical Finance 1(1)
       <https://doi.org/10.1111/j.1467-9965.1991.tb00002.x>`__

    Examples
    --------
    >>> from fwonline.datasets import AdversarialLinear
    >>> stream = AdversarialLinear(n_features=3, switch_every=2, edge=0.1, volatility=0, seed=5)
    >>> for x, y in stream.take(4):
    ...     print({asset: round(relative, 2) for asset, relative in x.items()}, round(y, 2))
    {0: 1.11, 1: 1.0, 2: 1.0} 1.11
    {0: 1.11, 1: 1.0, 2: 1.0} 1.11
    {0: 0.9, 1: 1.11, 2: 1.0} 1.11
    {0: 0.9, 1: 1.11, 2: 1.0} 1.11
    """

    def __init__(
        self,
        n_features: int = 10,
        switch_every: int = 250,
        edge: float = 0.005,
        volatility: float = 0.01,
        seed: int | None = None,
    ):
        require(n_features >= 2, f"a portfolio needs at least 2 assets, not {n_features}")
        require(switch_every >= 1, f"switch_every must be at least 1, not {switch_every}")
        require(edge >= 0, f"edge must be at least 0, not {edge}")
        require(volatility >= 0, f"volatility must be at least 0, not {volatility}")
        super().__init__(task=base.REG, n_features=n_features, n_outputs=1)
        self.switch_every = switch_every
        self.edge = edge
        self.volatility = volatility
        self._start(seed, range(n_features), n_features)

    def leader(self, t: int) -> int:
        """Return the asset that leads in round `t`, counted from 0."""
        require(t >= 0, f"rounds are counted from 0, not from {t}")
        return int(self._regimes(np.array([t // self.switch_every]))[0])

    def _regimes(self, k: np.ndarray) -> np.ndarray:
        """Leaders of regimes `k`: every cycle of n_features regimes is a random order of the assets.

        Where a cycle would open with the leader that closed the one before, its first two change places.
        """
        cycle, place = np.divmod(k, self.n_features)
        cycles, which = np.unique(cycle, return_inverse=True)
        return np.stack([self._cycle(int(c)) for c in cycles])[which, place]

    def _cycle(self, cycle: int) -> np.ndarray:
        d = self.n_features
        if d == 2:  # only one order has no asset lead twice in a row
            return self._rng(TRUTH, 0).permutation(2)
        order = self._rng(TRUTH, cycle).permutation(d)
        if cycle and order[0] == self._rng(TRUTH, cycle - 1).permutation(d)[-1]:
            order[:2] = order[1::-1]
        return order

    def _draw(self, start: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        X = self.volatility * rng.standard_normal((n, self.n_features))
        regime = (start + np.arange(n)) // self.switch_every
        first = max(0, int(regime[0]) - 1)
        leaders = self._regimes(np.arange(first, int(regime[-1]) + 1))
        rows = np.arange(n)
        X[rows, leaders[regime - first]] += self.edge
        fallen = rows[regime > 0]
        X[fallen, leaders[regime[fallen] - 1 - first]] -= self.edge
        np.exp(X, out=X)
        return X, X.max(axis=1)


class LowRankRatings(Simulator):
    r"""Ratings of items by users from a matrix of low rank, in a box, some users and items far busier than others.

    The true rating is :math:`M_{ui} = m + h \langle a_u, b_i \rangle`, where :math:`m` is the middle of the box,
    :math:`h` half its width, and :math:`a_u`, :math:`b_i` are random directions of `rank` dimensions: so :math:`M` has
    rank at most `rank` + 1 and lies in the box. A sample is `{"user": u, "item": i}` with the target :math:`M_{ui}`
    plus noise, clipped to the box. User and item are drawn independently, the :math:`k`-th busiest of :math:`n` with
    probability proportional to :math:`k^{-s}` among those that are there: all of them, or more and more.

    Parameters
    ----------
    n_users, n_items
        Rows and columns of the matrix.
    rank
        Dimension of the users' and items' directions.
    lower, upper
        Smallest and largest rating.
    noise
        Standard deviation of a rating about the truth, at least 0, before it is clipped.
    skew
        Exponent :math:`s` of the popularity, at least 0; 0 draws all alike.
    arrival
        Samples over which users and items arrive, evenly, in an order that has nothing to do with how busy they are,
        at least 0; at 0 all are there from the first.
    seed
        Random seed number used for reproducibility.

    Examples
    --------
    >>> from fwonline.datasets import LowRankRatings
    >>> stream = LowRankRatings(n_users=20, n_items=30, rank=2, seed=1)
    >>> for x, y in stream.take(3):
    ...     print(x, round(y, 2))
    {'user': 13, 'item': 22} 2.03
    {'user': 17, 'item': 7} 1.72
    {'user': 4, 'item': 8} 1.45
    >>> stream.matrix.shape, int(np.linalg.matrix_rank(stream.matrix))
    ((20, 30), 3)
    """

    def __init__(
        self,
        *,
        n_users: int = 500,
        n_items: int = 1000,
        rank: int = 3,
        lower: float = 1.0,
        upper: float = 5.0,
        noise: float = 0.25,
        skew: float = 0.8,
        arrival: int = 0,
        seed: int | None = None,
    ):
        require(n_users >= 1 and n_items >= 1, f"n_users={n_users} and n_items={n_items} must be at least 1")
        require(rank >= 1, f"rank must be at least 1, not {rank}")
        require(lower < upper, f"lower={lower} must be below upper={upper}")
        require(noise >= 0, f"noise must be at least 0, not {noise}")
        require(skew >= 0, f"skew must be at least 0, not {skew}")
        require(arrival >= 0, f"arrival must be a number of samples, at least 0, not {arrival}")
        super().__init__(task=base.REG, n_features=2, n_outputs=1)
        self.n_users = n_users
        self.n_items = n_items
        self.rank = rank
        self.lower = lower
        self.upper = upper
        self.noise = noise
        self.skew = skew
        self.arrival = arrival
        self._start(seed, ("user", "item"), 64)  # ratings are cheap: a chunk of 1024
        rng = self._rng(TRUTH)
        self._users = self._directions(n_users, rng)
        self._items = self._directions(n_items, rng)
        self._user_cdf, self._user_ids = self._popularity(n_users, rng)
        self._item_cdf, self._item_ids = self._popularity(n_items, rng)

    def _directions(self, n: int, rng: np.random.Generator) -> np.ndarray:
        A = rng.standard_normal((n, self.rank))
        return A / np.linalg.norm(A, axis=1, keepdims=True)

    def _popularity(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Sums of the popularities, and whose they are, in the order of arrival."""
        mass, ids = np.arange(1, n + 1, dtype=float) ** -self.skew, rng.permutation(n)
        if self.arrival:
            order = rng.permutation(n)
            mass, ids = mass[order], ids[order]
        return np.cumsum(mass), ids

    @property
    def matrix(self) -> np.ndarray:
        """The true ratings, of shape (n_users, n_items)."""
        return self._truth(self._users @ self._items.T)

    def _truth(self, match: np.ndarray) -> np.ndarray:
        return 0.5 * (self.lower + self.upper) + 0.5 * (self.upper - self.lower) * match

    def _draw(self, start: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        user = self._choose(self._user_cdf, self._user_ids, start, rng.random(n))
        item = self._choose(self._item_cdf, self._item_ids, start, rng.random(n))
        truth = self._truth(np.einsum("ij,ij->i", self._users[user], self._items[item]))
        ratings = np.clip(truth + self.noise * rng.standard_normal(n), self.lower, self.upper)
        return np.column_stack((user, item)), ratings

    def _choose(self, cdf: np.ndarray, ids: np.ndarray, start: int, u: np.ndarray) -> np.ndarray:
        there = np.full(len(u), len(ids))
        if self.arrival:
            share = np.minimum((start + np.arange(1, len(u) + 1)) / self.arrival, 1.0)
            there = np.ceil(share * len(ids)).astype(np.int64)
        return ids[np.minimum(np.searchsorted(cdf, u * cdf[there - 1], side="right"), there - 1)]
