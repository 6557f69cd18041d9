"""Frank-Wolfe for river's own models: an ``optimizer=`` that keeps their weights in a convex set."""

from __future__ import annotations

import typing

import numpy as np
from river import optim as river_optim
from river import utils

from fwonline import _loaded, sets

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FrankWolfe"]


class FrankWolfe(river_optim.base.Optimizer):
    r"""Stochastic Frank-Wolfe on a running average of gradients, as an optimizer of river's linear models.

    .. math::
        d_t = (1 - \rho_t) d_{t-1} + \rho_t g_t, \qquad s_t = \arg\min_{s \in C} \langle d_t, s \rangle, \qquad
        w_{t+1} = (1 - \gamma_t) w_t + \gamma_t s_t

    with :math:`\rho_t = 4 / (t + 8)^{2/3}` (at most 1) and :math:`\gamma_t = 2 / (t + 8)` (Mokhtari, Hassani, Karbasi
    2018). It needs nothing but gradients, which is all that a river model hands over; no learning rate is tuned. The
    weights of the model are in the set at every sample. The intercept, which river moves by itself, is not bound.

    When to use it: to constrain a river model that exists. The library's own estimators learn faster, from a sharper
    estimate, at a cost of the sample's non-zeros.

    Parameters
    ----------
    constraint
        A set of :mod:`fwonline.sets` that holds the origin, or a simplex, in any dimension.

    Notes
    -----
    Cost of a step: O(d) for the features seen so far. Use it for one model, with its weights starting at 0 (river's
    default) and without river's own ``l1``.

    References
    ----------
    .. [1] A. Mokhtari, H. Hassani, A. Karbasi, `Stochastic Conditional Gradient Methods
       <https://arxiv.org/abs/1804.09554>`_, JMLR 2020.

    Examples
    --------
    >>> from river import datasets, evaluate, linear_model, metrics, preprocessing
    >>> from fwonline import optim, sets
    >>> model = preprocessing.StandardScaler() | linear_model.LogisticRegression(
    ...     optimizer=optim.river.FrankWolfe(sets.L1Ball(5.0))
    ... )
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.ROCAUC())
    ROCAUC: 9...
    >>> bool(sum(abs(w) for w in model["LogisticRegression"].weights.values()) <= 5.0)
    True
    """

    def __init__(self, constraint: sets.ConvexSet):
        if not isinstance(constraint, sets.ConvexSet):
            raise TypeError(f"constraint must be a set such as sets.L1Ball(10.0), got {constraint!r}")
        off_origin = isinstance(constraint, sets.Box) and not (
            np.all(np.asarray(constraint.lower) <= 0.0) and np.all(np.asarray(constraint.upper) >= 0.0)
        )
        if constraint.shape is not None or off_origin:
            raise ValueError(
                "constraint must hold the weight 0 of features still to come, and fix no dimension; "
                f"{constraint} does not"
            )
        super().__init__(1.0)
        self.constraint = constraint
        self._positions: dict[typing.Any, int] = {}
        self._names: list[typing.Any] = []
        self._average = np.zeros(0)  # d_t
        self._dot = 0.0  # <d_t, w_t>
        self._gap = float("nan")

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict]:
        yield {"constraint": sets.L1Ball(5.0)}

    def _check_loaded(self) -> None:
        _loaded.kind(self, "constraint", sets.ConvexSet)._check_loaded()
        _loaded.alike(self, FrankWolfe(self.constraint))
        _loaded.names(self, "_names", self._names)
        self._positions = {name: j for j, name in enumerate(self._names)}
        _loaded.owned(self, "_average")
        d = _loaded.array(self, "_average", np.float64, (None,), least=-1e250, most=1e250)
        unused = d[len(self._names) :]
        fits = d.size >= len(self._names) and not unused.any()
        _loaded.require(self, "_average", fits, "an entry for each name, and 0 where none is")
        _loaded.real(self, "_dot", -1e250, 1e250)
        _loaded.real(self, "_gap", nan=True)
        _loaded.count(self, "n_iterations")

    @property
    def _mutable_attributes(self) -> set[str]:
        return set()

    @property
    def learning_rate(self) -> float:
        """The next step, gamma_t."""
        return 2.0 / (self.n_iterations + 8.0)

    @property
    def gap(self) -> float:
        """The estimated Frank-Wolfe gap of the last step; NaN before the first."""
        return self._gap

    def _step_with_dict(self, w: typing.Any, g: typing.Any) -> typing.Any:
        # river shows a step the weights of the sample's features alone; a Frank-Wolfe step moves them all.
        weights = w.with_mask(None) if isinstance(w, utils.VectorDict) else w
        gradient = dict(g.items())
        if not np.isfinite(np.fromiter(gradient.values(), np.float64, len(gradient))).all():
            raise ValueError(f"{self}: the gradient must be finite, got {gradient}")
        d = self._admit(gradient)
        if not d.size:
            return w
        rho = min(1.0, 4.0 / (self.n_iterations + 8.0) ** (2.0 / 3.0))
        d *= 1.0 - rho
        self._dot *= 1.0 - rho
        for name, slope in gradient.items():
            d[self._positions[name]] += rho * slope
        # In the order of positions, so that the order of keys does not show.
        ordered = sorted(gradient, key=self._positions.__getitem__)
        self._dot += rho * sum(gradient[name] * weights.get(name, 0.0) for name in ordered)
        atom = self.constraint.lmo(d)
        along = atom.dot(d)
        self._gap = float(self._dot - along)
        # The weights river starts from are 0: where that is no point of the set, the first step is a whole one.
        whole = self.n_iterations == 0 and not self.constraint.contains(np.zeros(d.size))
        gamma = 1.0 if whole else self.learning_rate
        for name in list(weights):
            weights[name] *= 1.0 - gamma
        towards = atom.to_dense()
        for j in np.flatnonzero(towards).tolist():
            name = self._names[j]
            weights[name] = weights.get(name, 0.0) + gamma * float(towards[j])
        self._dot += gamma * (along - self._dot)
        return w

    def _admit(self, gradient: dict) -> np.ndarray:
        """Give positions to new features; return d over all of them."""
        new = [name for name in gradient if name not in self._positions]
        for name in sorted(new, key=lambda name: (type(name).__qualname__, repr(name))):
            self._positions[name] = len(self._names)
            self._names.append(name)
        if len(self._names) > self._average.size:
            larger = np.zeros(2 * len(self._names))
            larger[: self._average.size] = self._average
            self._average = larger
        return self._average[: len(self._names)]

    def __repr__(self) -> str:
        return f"FrankWolfe(constraint={self.constraint!r})"

    __str__ = __repr__
