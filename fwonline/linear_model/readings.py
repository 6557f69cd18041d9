"""What a linear model says of itself: its weights, its gaps, the sample learned last."""

from __future__ import annotations

import typing

import numpy as np
from river import utils as river_utils

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy import sparse

    from fwonline.features import FeatureIndex
    from fwonline.optim.runs.model_run import LastSample, ModelRun
    from fwonline.sets import ConvexSet

__all__ = ["Readings"]


class Readings:
    """Numbers that a model is asked for, by its users and by monitors."""

    constraint: ConvexSet | None
    intercept: bool
    max_names: int | None
    _run: ModelRun
    _features: FeatureIndex
    _n_merged: int
    _classes: tuple

    @property
    def weights(self) -> dict:
        """The weights that are not zero, by feature."""
        w = self._run.weights
        names = self._features.names
        return {names[j]: float(w[j]) for j in np.flatnonzero(w)}

    @property
    def support_size(self) -> int:
        """How many weights are not zero. O(d)."""
        return int(np.count_nonzero(self._run.weights))

    @property
    def intercept_(self) -> typing.Any:
        """The intercept; 0.0 without one."""
        return self._run.shown.intercept

    @property
    def gap(self) -> float:
        """The Frank-Wolfe gap of the last step by the optimizer's own estimate of the gradient; NaN before the first.

        It is taken over :attr:`gap_set`, which is the constraint where there is one.

        It is no bound of :attr:`exact_gap`, from either side: the two differ by at most the largest inner product of
        the estimate's error with a difference of two points of the set, and both fall as the model learns, so that
        their ratio may stay anything. For an upper estimate see :class:`fwonline.monitors.Gap`.

        Steps keep it at no cost, but for :class:`~fwonline.optim.StochasticPairwiseFW`, whose own quadratic model it is
        the gap of: O(d) each time it is read.
        """
        return self._run.gap

    @property
    def gap_set(self) -> ConvexSet:
        """The set that gaps are taken over: the constraint, or without one the l1 ball of twice the present norm.

        (Of radius 1 while all weights are 0.) An exact gap then bounds what is left to gain within twice the present
        norm. No gap counts the intercept's slope, which has no set to be maximised over: the intercept is held.
        """
        return self._run.gap_set(self._run.point)

    @property
    def gap_is_kept(self) -> bool:
        """Whether reading :attr:`gap` costs nothing."""
        return self._run.gap_is_kept

    @property
    def exact_gap(self) -> float | None:
        """The Frank-Wolfe gap of the mean loss over the samples that the optimizer remembers; None if it keeps none.

        Exact up to rounding, and for a convex loss an upper bound of what is left to gain on these samples within
        :attr:`gap_set`, the intercept held. One pass over them.
        """
        return self._run.exact_gap()

    def gap_over(self, X: sparse.csr_array, y: NDArray[np.float64]) -> float | None:
        """The Frank-Wolfe gap of the mean loss over given samples at the present weights; None for no samples.

        Parameters
        ----------
        X
            Samples x features; a column is a position, as in the ``indices`` of :attr:`last_sample`.
        y
            Their targets as the optimizer has them, those of :attr:`last_sample`.
        """
        return self._run.gap_over(X, y)

    @property
    def n_remembered(self) -> int:
        """Samples that the optimizer holds at present: what :attr:`exact_gap` passes over."""
        return self._run.n_remembered

    @property
    def n_features(self) -> int:
        """Features known."""
        return self._run.n_features

    @property
    def n_samples(self) -> int:
        """Samples learned, by this model and those it was merged of."""
        return int(self._run.s.seen) + self._n_merged

    @property
    def cumulative_loss(self) -> float:
        """Sum of the losses of all predictions made before learning: divided by ``n_samples``, the progressive loss."""
        return self._run.s.loss_sum

    @property
    def violation(self) -> float:
        """How far the weights lie outside the constraint, as the set measures it; 0.0 inside, and without a set."""
        w = self._run.point
        return float(self.constraint.violation(w)) if self.constraint is not None and w.size and self.n_samples else 0.0

    @property
    def last_sample(self) -> LastSample | None:
        """The sample learned last, as the optimizer saw it, with the prediction and loss before learning it."""
        return self._run.last_sample

    @property
    def last_names(self) -> list | None:
        """The features' names of the sample learned last, where ``max_names`` lets others take their positions."""
        sample = None if self.max_names is None else self.last_sample
        return None if sample is None else [self._features.names[j] for j in sample.indices.tolist()]

    def last_bytes(self) -> tuple[bytes, bytes, float] | None:
        """The sample learned last in the form that is quickest to keep; None where :attr:`last_sample` is None.

        The bytes of its positions (``uint32``), those of its values (``float64``) and its target.
        """
        return self._run.last_bytes()

    def state_summary(self) -> dict:
        """All that the model knows, under names that stay: to look at a model, or to compare two to the last bit.

        Two models of equal summaries, by ``digest`` too, predict and learn on alike. Cost: all that is held is copied.

        Returns
        -------
        dict
            ``features`` are their names in the order of their positions, ``classes`` those seen (none for a
            regression); ``weights``, ``intercept``, ``gap``, ``n_samples`` and ``cumulative_loss`` are as the
            attributes. ``optimizer`` is a dict of what the optimizer remembers: its counters, ``samples``, the
            oldest first, as dicts with their targets, its estimate of the gradient and what else it keeps, as numbers
            and arrays (an entry by feature, or by sample), the state of its random numbers (``random``), and a
            ``digest`` of these and of the numbers that only speed steps up.

        Examples
        --------
        >>> from fwonline import linear_model, optim, sets
        >>> model = linear_model.FWRegressor(sets.L1Ball(2.0), optim.SFW(memory=2), seed=1)
        >>> for x, y in [({"a": 1.0}, 1.0), ({"a": 1.0, "b": 2.0}, 0.5), ({"b": 1.0}, 0.0)]:
        ...     model.learn_one(x, y)
        >>> summary = model.state_summary()
        >>> summary["features"], summary["n_samples"]
        (['a', 'b'], 3)
        >>> summary["optimizer"]["samples"]
        [({'a': 1.0, 'b': 2.0}, 0.5), ({'b': 1.0}, 0.0)]
        >>> model.clone().state_summary()["optimizer"]["digest"] == summary["optimizer"]["digest"]
        False
        """
        names = list(self._features.names)
        return {
            "class": type(self).__name__,
            "features": names,
            "classes": self._classes,
            "weights": self.weights,
            "intercept": self.intercept_,
            "gap": self.gap,
            "n_samples": self.n_samples,
            "cumulative_loss": self.cumulative_loss,
            "optimizer": self._run.state_summary(names),
        }

    def debug_one(self, x: dict) -> str:
        """A table of what each feature adds to the raw prediction."""
        idx, val = self._features.known(x)
        w = self._run.weights
        parts = sorted(
            ((str(self._features.names[j]), v, w[j], v * w[j]) for j, v in zip(idx, val, strict=True)),
            key=lambda part: -abs(part[3]),
        )
        if self.intercept:
            parts.append(("intercept", 1.0, self.intercept_, self.intercept_))
        if not parts:
            return "no feature of this sample has been seen"
        return river_utils.pretty.print_table(
            headers=["Name", "Value", "Weight", "Contribution"],
            columns=[
                [name for name, *_ in parts],
                *([f"{part[k]:,.5f}" for part in parts] for k in (1, 2, 3)),
            ],
        )
