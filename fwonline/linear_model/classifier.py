"""Binary linear classification, sparse or inside a convex set."""

from __future__ import annotations

import typing

import numpy as np
from river import base
from river import optim as river_optim
from river import utils as river_utils

from fwonline import _loaded
from fwonline._kernels import scores
from fwonline._protocols import Probabilities
from fwonline.exceptions import SampleError
from fwonline.linear_model.base import FWLinear
from fwonline.linear_model.matrices import coded, label_array
from fwonline.linear_model.merging import merged_linear
from fwonline.losses import sigmoid

__all__ = ["FWClassifier"]


class FWClassifier(FWLinear, base.MiniBatchClassifier):
    r"""Binary classification by a linear score: sparse, with nothing to choose, or with weights in a convex set.

    The score is :math:`z = \langle x, w \rangle + b`, the probability of the positive class the loss's mean function of
    it. In a set learning takes Frank-Wolfe steps, so that :math:`w` is in it at every sample. No step size is tuned.

    Parameters
    ----------
    constraint
        The set of :mod:`fwonline.sets` that the weights live in; None asks for nothing: see :class:`FWRegressor`.
    optimizer
        How to learn, as for :class:`FWRegressor`: by default ``StochasticPairwiseFW``, or ``OneSampleFW``.
    loss
        A loss for 0/1 labels; ``river.optim.losses.Log()`` by default.
    intercept
        Whether to add an intercept b, which the constraint does not bind.
    seed
        Seed of the optimizer's sampling.
    max_names
        Features held at most, >= 1; None for no bound. Which of them make room for new ones: see :class:`FWRegressor`.

    Notes
    -----
    Labels are any two classes. True or 1 is the positive one, with False, 0, -1 or 2; of others the one seen first is
    the negative one. A third class is refused with a ``SampleError``.

    Cost of ``learn_one``: the non-zeros of the sample without a set, on l1 balls and simplices, the number of features
    on other sets.
    The order of keys in a dict does not matter, to the last bit.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from fwonline import linear_model, optim, sets
    >>> model = preprocessing.StandardScaler() | linear_model.FWClassifier()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.ROCAUC())
    ROCAUC: 9...

    Never outside a ball:

    >>> model = preprocessing.StandardScaler() | linear_model.FWClassifier(
    ...     constraint=sets.L1Ball(10.0), optimizer=optim.SFW(memory=1_000), seed=42
    ... )
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.ROCAUC())
    ROCAUC: 9...
    >>> classifier = model["FWClassifier"]
    >>> classifier.constraint.contains(list(classifier.weights.values()))
    True
    """

    _task = "two classes"
    _foreign_losses = (river_optim.losses.RegressionLoss, river_optim.losses.MultiClassLoss)

    @property
    def fitted_loss(self) -> typing.Any:
        return river_optim.losses.Log() if self.loss is None else self.loss

    @property
    def classes(self) -> tuple:
        """The negative and the positive class; None stands for one that is still to come."""
        seen = self._classes
        if len(seen) == 2:
            return seen
        if not seen:
            return (False, True)
        return (0, 1) if seen[0] in (0, 1) else (seen[0], None)

    def _check_classes(self) -> None:
        _loaded.require(self, "_classes", len(self._classes) <= 2, "at most two classes")
        _loaded.require(self, "_classes", None not in self._classes, "classes that are not None")

    def _target(self, y: typing.Any) -> float:
        classes = self._classes
        try:
            if len(classes) == 2 and y in classes:
                return float(classes.index(y))
            missing = y is None or bool(y != y)  # noqa: PLR0124  NaN is the value that differs from itself
        except (TypeError, ValueError):
            missing = True  # pandas' NA, or an array
        if missing:
            raise SampleError(f"the label is {y!r}; expected one of two classes")
        if len(classes) == 2:
            raise SampleError(
                f"the label is {y!r}; expected {classes[0]!r} or {classes[1]!r}, the classes seen so far (FWSoftmax "
                "learns more than two)"
            )
        if isinstance(y, bool | np.bool_) and not classes:
            self._classes = (False, True)
        elif not classes:
            self._classes = (y,)
        elif y != classes[0]:
            # A class of 1 is the positive one, whether its partner 0, -1 or 2 comes before it or after.
            self._classes = (y, classes[0]) if classes[0] == 1 else (classes[0], y)
        return float(y == 1 if len(self._classes) == 1 else self._classes.index(y))

    def _targets(self, labels):
        if labels.dtype.kind not in "biuf" or not labels.size:
            targets = coded(labels, self._classes) if len(self._classes) == 2 else None
            return super()._targets(labels) if targets is None else (targets, None)
        # Two labels settle the classes; the rest are compared with them at once.
        self._target(labels[0].item())
        other = labels[labels != labels[0]]
        if other.size and not np.isnan(other[0]):
            self._target(other[0].item())
        if len(self._classes) == 2:
            positive = labels == self._classes[1]
            if np.all(positive | (labels == self._classes[0])):
                return positive.astype(np.float64), None
        return super()._targets(labels)

    def merged(self, others: typing.Iterable[typing.Self]) -> typing.Self:
        """A model that predicts with the mean of the weights of this model and others: see `FWRegressor.merged`.

        Models may have met the two classes in different orders: then some are turned round, which needs a set that
        holds the negative of each of its points.
        """
        models = [self, *others]
        pairs = [_pair(model._classes) for model in models]
        # The classes in the order of the first that knows both, else whatever is known.
        whole_pair = next(
            (pair for pair in pairs if None not in pair), next((p for p in pairs if p != (None, None)), pairs[0])
        )
        signs = []
        for pair in pairs:
            if not _fits(pair, whole_pair) and not _fits(pair[::-1], whole_pair):
                raise ValueError(f"expected models of the same two classes, found {whole_pair} and {pair}")
            signs.append(1 if _fits(pair, whole_pair) else -1)
        try:
            whole = merged_linear(models, signs)
        except ValueError as error:
            if -1 not in signs:
                raise
            raise ValueError(
                f"the models have met the classes {whole_pair} in different orders, and {self.constraint} does not "
                "hold the negative of each of its points; labels of false and true are the same everywhere"
            ) from error
        whole._classes = next((m._classes for m, p in zip(models, pairs, strict=True) if p == whole_pair), ())
        return whole

    @property
    def _mean(self) -> typing.Callable[[float], float] | None:
        """What the loss makes of a score, where that is not the logistic function."""
        mean = getattr(self.loss, "mean_func", None)
        plain = river_optim.losses.BinaryLoss.mean_func
        return None if mean is None or getattr(mean, "__func__", None) is plain else mean

    def _positive(self, X: typing.Any, names: typing.Sequence) -> np.ndarray:
        """The probability of the positive class of a matrix's rows: each as that of one sample, to the last bit."""
        mean = self._mean
        p = np.empty(0 if mean else X.shape[0])
        z = self._raw_many(X, names, p)
        return np.array([float(mean(one)) for one in z.tolist()]) if mean else p

    def _positive_of(self, raw: np.ndarray) -> np.ndarray:
        """The same of scores, shape (n, 1)."""
        if mean := self._mean:
            return np.array([float(mean(one)) for one in raw[:, 0].tolist()])
        # Each score as the sum of a row of one entry, so that one compiled function says what all probabilities are.
        n, p = len(raw), np.empty(len(raw))
        ones = np.arange(n + 1), np.arange(n, dtype=np.uint32), np.ones(n)
        scores.score_rows(raw[:, 0].copy(), (1.0, 0.0), *ones, np.empty(n), p)
        return p

    def _answers(self, raw: np.ndarray, classes: tuple) -> np.ndarray:
        return self._labels(self._positive_of(raw), classes)

    def _shares(self, raw: np.ndarray, classes: tuple) -> Probabilities:
        p = self._positive_of(raw)
        if classes[1] is None:
            return Probabilities(np.ones((len(p), 1)), classes[:1])
        return Probabilities(np.column_stack((1.0 - p, p)), classes)

    def predict_proba_one(self, x: dict, **kwargs: typing.Any) -> dict:
        """The probability of each class: a half each before learning, and 1 for the only one seen so far."""
        return self._probabilities(self._raw_one(x), self.classes)

    def _probabilities(self, z: float, classes: tuple) -> dict:
        p = sigmoid(z) if self._mean is None else float(self._mean(z))
        negative, positive = classes
        return {negative: 1.0} if positive is None else {negative: 1.0 - p, positive: p}

    def play_one(self, x: dict, y: typing.Any) -> typing.Any:
        """Predict the class of a sample, then learn the sample; returns the prediction: see `FWRegressor.play_one`."""
        p = self.play_proba_one(x, y)
        return max(p, key=p.__getitem__)

    def play_proba_one(self, x: dict, y: typing.Any) -> dict:
        """Predict the probability of each class, then learn the sample; returns the prediction."""
        classes = self.classes  # as they are before the sample may bring a new one
        return self._probabilities(self._play_raw(x, y), classes)

    def predict_proba_many(self, X: typing.Any) -> typing.Any:
        """The probability of each class for a frame's rows; a frame of the same library."""
        frame, values, names = self._frame(X)
        p = self._positive(values, names)
        negative, positive = self.classes
        shares = {negative: np.ones(len(p))} if positive is None else {negative: 1.0 - p, positive: p}
        return river_utils.dataframe.to_native_frame(shares, like=frame)

    def predict_many(self, X: typing.Any) -> typing.Any:
        """The likelier class of a frame's rows; a series of the same library."""
        frame, values, names = self._frame(X)
        labels = self._labels(self._positive(values, names), self.classes)
        return river_utils.dataframe.to_native_series(labels, name=self._y_name, like=frame)

    def _labels(self, p: np.ndarray, classes: tuple) -> np.ndarray:
        # Of two that are equally likely the negative one, as `predict_one` has it.
        return label_array(classes[:1] * 2 if classes[1] is None else classes)[(p > 1.0 - p).astype(int)]

    def predict_arrays(self, X: typing.Any) -> np.ndarray:
        """The likelier class of a matrix's rows, shape (n,): each as :meth:`predict_one` has it.

        Raises
        ------
        SampleError
            At the first row that has no finite score; the message names it.
        """
        return self._labels(self.predict_proba_arrays(X), self.classes)

    def predict_proba_arrays(self, X: typing.Any) -> np.ndarray:
        """The probability of the positive class of a matrix's rows, shape (n,), as :meth:`predict_proba_one` has it."""
        return self._positive(*self._matrix(X))

    def play_proba_arrays(self, X: typing.Any, y: typing.Any) -> np.ndarray:
        """As :meth:`play_arrays`, but the probability of the positive class of each row, shape (n,)."""
        return self._positive_of(self._play_all(X, np.asarray(y)))


def _pair(classes: tuple) -> tuple:
    """The negative and the positive class, None for one that has not been met."""
    if len(classes) == 2:
        return classes
    return (None, None) if not classes else (None, classes[0]) if classes[0] == 1 else (classes[0], None)


def _fits(pair: tuple, whole: tuple) -> bool:
    return all(one is None or other is None or one == other for one, other in zip(pair, whole, strict=True))
