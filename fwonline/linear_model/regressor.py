"""Linear regression, sparse or inside a convex set."""

from __future__ import annotations

import typing

import numpy as np
from river import base
from river import optim as river_optim
from river import utils as river_utils

from fwonline.exceptions import SampleError
from fwonline.linear_model.base import FWLinear

__all__ = ["FWRegressor"]


class FWRegressor(FWLinear, base.MiniBatchRegressor):
    r"""Linear regression: sparse and without anything to choose, or with weights that never leave a convex set.

    Predicts :math:`\langle x, w \rangle + b`. In a set it learns by Frank-Wolfe steps, so that :math:`w` is in it at
    every sample: sparse on an l1 ball, a portfolio on the simplex, bounded in a box. No step size is tuned.

    Parameters
    ----------
    constraint
        The set of :mod:`fwonline.sets` that the weights live in. None asks for nothing: the weights are then as sparse
        as :class:`~fwonline.optim.StochasticPairwiseFW` makes them, whose penalty keeps out what is noise, whatever the
        scale of features and targets, and there is no radius to choose. On a
        :class:`~fwonline.sets.ProbabilitySimplex` the weights are zero, thus outside, until the first sample.
    optimizer
        How to learn. By default :class:`~fwonline.optim.StochasticPairwiseFW`, which has nothing to tune, without a set
        and on balls of norm 1, 2 or infinity, boxes and simplices, and :class:`~fwonline.optim.OneSampleFW` on other
        sets. All others need a set, but for :class:`~fwonline.optim.ProjectedSGD`, which is plain gradient descent
        without one. One that serves another model already is cloned.
    loss
        A loss for regression; ``river.optim.losses.Squared()`` by default.
    intercept
        Whether to add an intercept b, which the constraint does not bind. Give False where the weights alone must
        predict, as for a portfolio.
    seed
        Seed of the optimizer's sampling.
    max_names
        Features held at most, >= 1; None for no bound. When a sample that is accepted brings more, features make room:
        of those that weigh nothing the ones not seen for longest (an entry of 0 does not count as seen), up to a
        sixteenth of the bound at once, and what was remembered of them goes with them. On sets whose points are dense
        (balls of norm 2, p and infinity, boxes, and ``ProjectedSGD`` without a set) the longest unseen of the others
        follow, weights and all, where that is not enough; otherwise (no set, l1 balls, simplices) what weighs something
        stays, and a new feature that finds no room is passed over, as if the sample had not named it. Not for sets of a
        fixed dimension.

    Notes
    -----
    Without a constraint no Frank-Wolfe gap exists: :attr:`gap` and :attr:`exact_gap` are then those of the l1 ball of
    twice the present norm (:attr:`gap_set`). A gap does not count the intercept's slope.

    Cost of ``learn_one``: the non-zeros of the sample without a set, on l1 balls and simplices, the number of features
    on other sets (see the optimizer). Features that appear later grow the state by doubling. An absent feature is 0.
    The order of keys in a dict does not matter, to the last bit.

    Raises
    ------
    SampleError
        By ``learn_one`` and ``predict_one``, for values that are not finite numbers; the model is then as before.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from fwonline import linear_model, optim, sets
    >>> model = preprocessing.StandardScaler() | linear_model.FWRegressor(seed=42)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.5...

    In a small ball, by steps whose rate is proved:

    >>> model = preprocessing.StandardScaler() | linear_model.FWRegressor(
    ...     constraint=sets.L1Ball(3.0), optimizer=optim.SFW(memory=500, steps_per_sample=5), seed=42
    ... )
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 1.1...
    """

    _task = "regression"
    _foreign_losses = (river_optim.losses.BinaryLoss, river_optim.losses.MultiClassLoss)

    @property
    def fitted_loss(self) -> typing.Any:
        return river_optim.losses.Squared() if self.loss is None else self.loss

    def _target(self, y: typing.Any) -> float:
        if isinstance(y, str | bytes) or y is None:
            raise SampleError(f"the target is {y!r}; expected a number")
        try:
            target = float(y)
        except (TypeError, ValueError, OverflowError):
            raise SampleError(f"the target is {y!r}; expected a number") from None
        return target

    def _targets(self, labels):
        if labels.dtype.kind in "fiub":
            return labels.astype(np.float64), None
        return super()._targets(labels)

    @property
    def _mean(self) -> typing.Callable[[float], float] | None:
        """What the loss makes of a raw prediction; None where it is the prediction itself."""
        mean = getattr(self.loss, "mean_func", None)  # which the squared loss, the default, has not
        plain = river_optim.losses.RegressionLoss.mean_func
        return None if mean is None or getattr(mean, "__func__", None) is plain else mean

    def _predicted(self, z: float) -> float:
        mean = self._mean
        return z if mean is None else mean(z)

    def _predicted_many(self, z: np.ndarray) -> np.ndarray:
        # One by one: over an array numpy's exponential is rounded otherwise.
        mean = self._mean
        return z if mean is None else np.array([float(mean(one)) for one in z.tolist()])

    def _answers(self, raw: np.ndarray, classes: tuple) -> np.ndarray:
        return self._predicted_many(raw[:, 0].copy())

    def predict_one(self, x: dict) -> float:
        """Predict the target of a sample; 0.0 (plus the intercept) before learning."""
        return self._predicted(self._raw_one(x))

    def play_one(self, x: dict, y: typing.Any) -> float:
        """Predict the target of a sample, then learn the sample; returns the prediction.

        The same as :meth:`predict_one` and then :meth:`learn_one`, to the last bit, in two thirds of the time: learning
        needs the prediction in any case. :class:`~fwonline.loop.EventLoop` calls it where it can.

        Parameters
        ----------
        x, y
            As for :meth:`learn_one`.

        Raises
        ------
        SampleError
            As :meth:`learn_one` does.

        Examples
        --------
        >>> from fwonline import linear_model, sets
        >>> model = linear_model.FWRegressor(sets.L1Ball(2.0))
        >>> model.play_one({"a": 1.0}, 1.0), model.n_samples
        (0.0, 1)
        """
        return self._predicted(self._play_raw(x, y))

    def predict_many(self, X: typing.Any) -> typing.Any:
        """Predict the targets of a frame's rows; a series of the frame's library."""
        frame, values, names = self._frame(X)
        predicted = self._predicted_many(self._raw_many(values, names))
        return river_utils.dataframe.to_native_series(predicted, name=self._y_name, like=frame)

    def predict_arrays(self, X: typing.Any) -> np.ndarray:
        """Predict the targets of a matrix's rows, shape (n,): each as :meth:`predict_one` does, to the last bit.

        Raises
        ------
        SampleError
            At the first row that has no finite prediction; the message names it.
        """
        return self._predicted_many(self._raw_many(*self._matrix(X)))
