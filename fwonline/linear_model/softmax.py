"""Multinomial logistic regression inside a convex set of matrices."""

from __future__ import annotations

import math
import typing

import numpy as np
from river import base
from river import optim as river_optim
from river import utils as river_utils

from fwonline import _loaded
from fwonline._merging import check_alike, shares
from fwonline._protocols import Probabilities
from fwonline.exceptions import SampleError
from fwonline.features import FeatureIndex, describe
from fwonline.linear_model.base import FWLinear
from fwonline.linear_model.matrices import coded, is_frame, label_array, seen
from fwonline.linear_model.merging import united
from fwonline.optim.base import Optimizer, check_count
from fwonline.optim.online.classes_run import PairwiseClassesRun, moves_classes
from fwonline.optim.online.one_sample import OneSampleFW
from fwonline.optim.online.stochastic_pairwise import StochasticPairwiseFW
from fwonline.optim.problem.score_loss import probabilities
from fwonline.optim.runs.softmax_run import SoftmaxRun
from fwonline.sets import ConvexSet, Fantope, Spectrahedron, Spectraplex

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray
    from scipy.optimize import OptimizeResult

    from fwonline.optim.base import State

__all__ = ["FWSoftmax"]


class FWSoftmax(FWLinear, base.MiniBatchClassifier):
    r"""Multinomial logistic regression: sparse, of many classes, without anything to tune.

    The score of class c is :math:`z_c = \langle W_c, x \rangle + b_c`, its probability
    :math:`e^{z_c} / \sum_j e^{z_j}`, and what is minimised the cross entropy. W has a row for each class and a column
    for each feature, and both may appear at any time. It never leaves the constraint; the intercepts b lie outside it.

    Parameters
    ----------
    constraint
        The set that W lives in. None asks for nothing: W is then as sparse as
        :class:`~fwonline.optim.StochasticPairwiseFW` makes it, whose penalty keeps out what is noise, and there is no
        radius to choose. A set of vectors, such as :class:`~fwonline.sets.L1Ball`, binds W as one long vector; in a
        :class:`~fwonline.sets.NuclearBall`, W is of low rank: classes share few directions. It must not fix the number
        of entries, since classes and features are still to come.
    optimizer
        How to learn; by default :class:`~fwonline.optim.StochasticPairwiseFW` without a set and in balls of norm 1, 2
        and infinity, and elsewhere :class:`~fwonline.optim.OneSampleFW`, which keeps no samples.
        :class:`~fwonline.optim.SVRF`, ``STORC``, ``SCGS``, ``HazanLuoFW``, ``SFW``, ``FW``, ``LuFreundFW``, ``OFW``,
        ``MomentumFW`` with a memory and ``ProjectedSVRG`` keep the last ones; ``MomentumFW`` without, ``AdaptiveOFW``,
        ``AdversarialOFW()`` and ``ProjectedSGD`` keep none. All but ``StochasticPairwiseFW`` and ``ProjectedSGD`` need
        a set. Those that step away from atoms want finitely many, which a ball of matrices has not. One that serves
        another model is cloned.
    intercept
        Whether each class has an intercept. ``StochasticPairwiseFW`` learns it; with other optimizers there is none.
    seed
        Seed of the optimizer's sampling.
    max_names
        Features held at most, as for :class:`FWRegressor`; a feature weighs something where it does for one class. In
        a nuclear norm ball every feature soon does: there the longest unseen leaves, its column of W with it.

    Notes
    -----
    A class seen for the first time starts with a row of zeros.

    ``StochasticPairwiseFW`` minimises its quadratic model of all classes together: as seen from the score of one class,
    the others held, the loss is a log loss, with its derivative :math:`p_c - [y = c]` and its curvature. A sample that
    is looked at again is looked at for all classes, and each look is followed by as many steps as there are classes,
    at most 16, each on the entry of W that promises most. Its cost a sample is that of the binary learner times the
    number of classes, less what they share: features, samples and their entries are looked up once. It takes about 72
    bytes an entry of W, zero or not.

    A stream may change: every 32 samples the last 4,096 losses are split where their means differ most; where they
    have risen by more than four standard errors, what came before the split counts no longer (unless ``forgetting`` is
    False). There are no models of windows beside this one, as the binary learner has them, and no ``window``.

    Without a constraint no Frank-Wolfe gap exists: :attr:`gap`, :attr:`exact_gap` and the ``gap`` of :meth:`minimize`
    are then those of the l1 ball of twice the present norm of W. A gap does not count the intercepts' slopes.

    Cost of ``learn_one`` of the other optimizers: the non-zeros of the samples that they look at times the number of
    classes, and one linear minimisation, on a nuclear norm ball with k classes and d features O(k^2 d) for k <= 64 and
    a few products with the gradient beyond. The order of keys in a dict does not matter, to the last bit.

    Raises
    ------
    SampleError
        By ``learn_one`` and ``predict_one``, for values that are not finite numbers and for labels that are missing;
        the model is then as before.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from fwonline import linear_model, optim, sets
    >>> model = preprocessing.StandardScaler() | linear_model.FWSoftmax(seed=42)
    >>> evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    Accuracy: 9...%

    In a nuclear norm ball:

    >>> model = preprocessing.StandardScaler() | linear_model.FWSoftmax(
    ...     constraint=sets.NuclearBall(20.0), optimizer=optim.SFW(memory=200, batch_size=5), seed=42
    ... )
    >>> evaluate.progressive_val_score(datasets.ImageSegments().take(500), model, metrics.Accuracy())
    Accuracy: 7...%
    >>> sorted(model["FWSoftmax"].classes)[:2]
    ['brickface', 'cement']

    All of a data set at once:

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(1000, 5))
    >>> model = linear_model.FWSoftmax(sets.NuclearBall(30.0), optim.SVRF(), seed=1)
    >>> result = model.minimize(X, X[:, :3].argmax(axis=1), steps=106)
    >>> result.x.shape, bool(result.fun < 0.3)
    ((3, 5), True)
    >>> model.predict_one({0: 2.0, 1: -1.0, 2: 0.0})
    0
    """

    _task = "classes"
    _takes_weights = False
    _run: SoftmaxRun | PairwiseClassesRun

    def __init__(
        self,
        constraint: ConvexSet | None = None,
        optimizer: Optimizer | None = None,
        intercept: bool = True,
        seed: int | None = None,
        max_names: int | None = None,
    ):
        super().__init__(constraint, optimizer, intercept=intercept, seed=seed, max_names=max_names)

    def _default_optimizer(self) -> Optimizer:
        return StochasticPairwiseFW() if moves_classes(self.constraint) else OneSampleFW()

    def _start(self, optimizer: Optimizer) -> SoftmaxRun | PairwiseClassesRun:
        constraint = self.constraint
        if constraint is not None and (
            constraint.shape is not None or isinstance(constraint, (Spectraplex, Spectrahedron, Fantope))
        ):
            raise ValueError(
                f"constraint must be a set of matrices of any shape, or of vectors of any length, since classes and "
                f"features are still to come; {constraint} is not"
            )
        constraint = optimizer._set_for(constraint)
        run: SoftmaxRun | PairwiseClassesRun
        if isinstance(optimizer, StochasticPairwiseFW):
            run = PairwiseClassesRun(optimizer, constraint, self.fitted_loss, self.seed, bool(self.intercept))
        else:
            run = SoftmaxRun(optimizer, constraint, self.fitted_loss, self.seed)
        optimizer._run = run
        return run

    @property
    def fitted_loss(self) -> typing.Any:
        return river_optim.losses.CrossEntropy()

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def classes(self) -> tuple:
        """The classes in the order in which they appeared: the rows of W."""
        return self._classes[: self._run.k]

    def _check_classes(self) -> None:
        _loaded.require(self, "_classes", None not in self._classes, "classes that are not None")

    def _check_loaded(self) -> None:
        self.loss = None
        super()._check_loaded()
        _loaded.require(self, "_classes", len(self._classes) == self._run.k, f"{self._run.k} classes")

    def _run_type(self, optimizer: Optimizer) -> type:
        return PairwiseClassesRun if isinstance(optimizer, StochasticPairwiseFW) else SoftmaxRun

    @property
    def _fits_intercept(self) -> bool:
        return bool(self.intercept) and isinstance(self._run, PairwiseClassesRun)

    def _target(self, y: typing.Any) -> float:
        try:
            missing = y is None or bool(y != y)  # noqa: PLR0124  NaN is the value that differs from itself
            if not missing:
                hash(y)
        except (TypeError, ValueError):
            missing = True  # pandas' NA, an array, a list
        if missing:
            raise SampleError(f"the label is {y!r}; expected the name of a class")
        if y not in self._classes:
            self._classes = (*self._classes, y)
        return float(self._classes.index(y))

    def _targets(self, labels):
        targets = coded(labels, self._classes)
        return super()._targets(labels) if targets is None else (targets, None)

    def _loss_of_zeros(self, targets: NDArray[np.float64]) -> float:
        return targets.size * math.log(max(self._run.k, 2))

    # --- predictions ------------------------------------------------------------------------------------------

    def predict_proba_one(self, x: dict, **kwargs: typing.Any) -> dict:
        """The probability of each class seen so far; nothing before learning."""
        z = self._scores(x)
        return dict(zip(self.classes, probabilities(z[None])[0].tolist(), strict=True)) if z.size else {}

    def _scores(self, x: dict) -> NDArray[np.float64]:
        idx, val = self._features.known(x)
        z = self._run.scores(np.array([0, idx.size]), idx, val)[0]
        if not np.isfinite(z).all():
            raise SampleError(describe(x) or "the scores are not finite")
        return z

    def play_proba_one(self, x: dict, y: typing.Any) -> dict:
        """Predict the probability of each class, then learn the sample; returns the prediction."""
        known = self.classes  # as they are before the sample may bring a new one
        z = self._play_scores(x, y)
        return dict(zip(known, probabilities(z[None])[0].tolist(), strict=True)) if known else {}

    def _play_scores(self, x: dict, y: typing.Any) -> NDArray[np.float64]:
        run, known = self._run, self._run.k
        if isinstance(run, PairwiseClassesRun):
            self.learn_one(x, y)
            return run.shown_scores[:known]
        z = self._scores(x)
        self.learn_one(x, y)
        return z

    def play_one(self, x: dict, y: typing.Any) -> typing.Any:
        """Predict the class of a sample, then learn the sample; returns the prediction: see `FWRegressor.play_one`."""
        p = self.play_proba_one(x, y)
        return max(p, key=p.__getitem__) if p else None

    def _probabilities(self, X: typing.Any, names: typing.Sequence) -> NDArray[np.float64]:
        """The probability of each class for the rows of a matrix: each as that of one sample, to the last bit."""
        z = self._run.scores(*seen(self._rows(X, names)))
        self._check_finite(z, X, names)
        return probabilities(z)

    def _labels(self, p: NDArray, classes: tuple) -> NDArray:
        return label_array(classes)[p.argmax(axis=1)] if classes else np.full(len(p), None)

    @property
    def _n_answers(self) -> int:
        return len(self._classes)

    def _shares(self, raw: NDArray[np.float64], classes: tuple) -> Probabilities:
        return Probabilities(probabilities(np.ascontiguousarray(raw[:, : len(classes)])), classes)

    def _answers(self, raw: NDArray[np.float64], classes: tuple) -> NDArray:
        return self._labels(self._shares(raw, classes).p, classes)

    def play_proba_arrays(self, X: typing.Any, y: ArrayLike) -> NDArray[np.float64]:
        """As :meth:`play_arrays`, but the probabilities of all classes of the rows, in the order of :attr:`classes`.

        Shape (n, classes): 0.0 for a class that had not been met yet.
        """
        labels, before = np.asarray(y), self._classes
        raw = self._play_all(X, labels)
        p = np.zeros((len(raw), self._run.k))
        for first, last, classes in self._stages(labels, before):
            p[first:last, : len(classes)] = self._shares(raw[first:last], classes).p
        return p

    def predict_proba_many(self, X: typing.Any) -> typing.Any:
        """The probability of each class for a frame's rows; a frame of the same library."""
        frame, values, names = self._frame(X)
        p = self._probabilities(values, names)
        columns = {label: p[:, c] for c, label in enumerate(self.classes)}
        return river_utils.dataframe.to_native_frame(columns, like=frame)

    def predict_many(self, X: typing.Any) -> typing.Any:
        """The likeliest class of a frame's rows; a series of the same library."""
        frame, values, names = self._frame(X)
        classes = self.classes
        labels = self._labels(self._probabilities(values, names), classes) if classes else np.full(len(values), None)
        return river_utils.dataframe.to_native_series(labels, name=self._y_name, like=frame)

    def predict_arrays(self, X: typing.Any) -> NDArray:
        """The likeliest class of a matrix's rows, shape (n,): each as :meth:`predict_one` has it.

        Raises
        ------
        SampleError
            At the first row that has no finite score; the message names it.
        ValueError
            Before learning, when no class is known.
        """
        return self._labels(self.predict_proba_arrays(X), self.classes)

    def predict_proba_arrays(self, X: typing.Any) -> NDArray[np.float64]:
        """Probabilities, samples x classes in the order of :attr:`classes`."""
        if not self._run.k:
            raise ValueError("no class is known yet: learn before predicting arrays")
        return self._probabilities(*self._matrix(X))

    # --- all of a data set ------------------------------------------------------------------------------------

    def minimize(
        self,
        X: typing.Any,
        y: ArrayLike,
        *,
        steps: int = 1000,
        callback: Callable[[State], bool | None] | None = None,
        x0: ArrayLike | None = None,
        tol: float | None = None,
    ) -> OptimizeResult:
        """Fit a whole data set with the model's optimizer, from the start, and hold the result.

        What the model had learned before is forgotten; it may go on learning samples from the result.

        Parameters
        ----------
        X
            Samples x features, as for :meth:`learn_arrays`: dense, scipy sparse or a frame.
        y
            The labels, shape (n,); rows of W are the distinct ones in sorted order.
        steps
            Steps to take, >= 1.
        callback
            Called with a :class:`~fwonline.optim.base.State` after each step; a true answer ends the run.
        x0
            Where to start, a matrix of the set, classes x features; by default as in ``minimize`` of the optimizers.
        tol
            End when the exact Frank-Wolfe gap is at most tol, looked at every few steps at a cost of one pass each.

        Returns
        -------
        scipy.optimize.OptimizeResult
            As from ``minimize`` of the optimizers; ``x`` is W.
        """
        check_count("steps", steps)
        classes, targets = np.unique(np.asarray(y), return_inverse=True)
        optimizer = (self._default_optimizer() if self.optimizer is None else self.optimizer).clone()
        run = self._start(optimizer)
        values, names = self._frame(X)[1:] if is_frame(X) else (X, range(np.shape(X)[1]))
        data = run.attach(values, targets.astype(np.float64))
        d = len(names)
        if self.max_names is not None and d > self.max_names:
            raise ValueError(f"X has {d} columns, more than max_names = {self.max_names}")
        run.grow(np.arange(d))
        run.admit(len(classes))
        if x0 is not None:
            run.set_weights(x0)
        result = optimizer._follow(run, steps, 10, callback, tol, lambda W: data.measure(W, run.gap_set(W)))
        self._features = FeatureIndex(self.max_names)
        self._classes = tuple(classes.tolist())
        self._run = self._start(self._default_optimizer() if self.optimizer is None else self.optimizer)
        columns = self._columns(names)
        self._features.commit()
        self._run.admit(len(classes))
        self._run.set_weights(result.x if columns is None else result.x[:, np.argsort(columns)])
        self._run.s.gap = result.gap_estimate
        return result

    def merged(self, others: typing.Iterable[typing.Self]) -> typing.Self:
        """A model that predicts with the mean of the weights of this model and others: see `FWRegressor.merged`.

        A class or a feature that a model has not met weighs nothing there.
        """
        models = [self, *others]
        check_alike(models, "constraint")
        whole = self.clone()
        learned = [(model, share) for model, share in zip(models, shares(models), strict=True) if share]
        if not learned:
            return whole
        run, features = whole._run, whole._features
        whole._add_features(united(whole.max_names, [(m._features.names, m._run.weighs()) for m, _ in learned]))
        whole._classes = tuple({label: None for model, _ in learned for label in model.classes})
        run.admit(len(whole._classes))
        weights, intercepts = np.zeros(run.x.shape), np.zeros(run.k)
        for model, share in learned:
            rows = np.array([whole._classes.index(label) for label in model.classes], dtype=np.int64)
            mine = [(features.positions[n], j) for j, n in enumerate(model._features.names) if n in features.positions]
            to, source = np.array(mine, dtype=np.int64).reshape(-1, 2).T
            weights[np.ix_(rows, to)] += share * model._run.x[:, source]
            intercepts[rows] += share * model._run.intercepts
        run.set_weights(weights)
        run.intercepts[:] = intercepts
        whole._n_merged = sum(model.n_samples for model, _ in learned)
        return whole

    # --- what the model says of itself ------------------------------------------------------------------------

    @property
    def weights(self) -> dict:
        """For each class, its weights that are not zero, by feature."""
        names = self._features.names
        return {
            label: {names[j]: float(row[j]) for j in np.flatnonzero(row)}
            for label, row in zip(self.classes, self._run.x, strict=True)
        }

    @property
    def intercept_(self) -> dict:
        """The intercept of each class; 0.0 without one."""
        return dict(zip(self.classes, self._run.intercepts.tolist(), strict=True))

    def debug_one(self, x: dict) -> str:
        """A table of what each feature adds to the score of each class."""
        idx, val = self._features.known(x)
        if not idx.size or not self.classes:
            return "no feature of this sample has been seen"
        parts = self._run.x[:, idx] * val
        order = np.argsort(-np.abs(parts).max(axis=0), kind="stable")
        return river_utils.pretty.print_table(
            headers=["Name", "Value", *map(str, self.classes)],
            columns=[
                [str(self._features.names[idx[j]]) for j in order],
                [f"{val[j]:,.5f}" for j in order],
                *([f"{row[j]:,.5f}" for j in order] for row in parts),
            ],
        )
