"""The body of the linear estimators: a feature index in front of an optimizer's run."""

from __future__ import annotations

import abc
import math
import typing

import numpy as np
from river import utils as river_utils
from scipy import sparse

from fwonline import _loaded, losses
from fwonline._kernels import coordinates, layout, scores
from fwonline._kernels.state import Rows
from fwonline.exceptions import SampleError
from fwonline.features import FeatureIndex, describe, rank_of
from fwonline.linear_model import weights
from fwonline.linear_model.matrices import is_frame, seen
from fwonline.linear_model.merging import merged_linear
from fwonline.linear_model.playing import Playing
from fwonline.linear_model.radius import RadiusWatch, loss_of_zeros, watch
from fwonline.linear_model.readings import Readings
from fwonline.optim.base import Optimizer, check_count
from fwonline.optim.problem.data import as_rows
from fwonline.sets import ConvexSet

if typing.TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from fwonline.linear_model.matrices import CSR
    from fwonline.optim.runs.model_run import ModelRun as Run

__all__ = ["FWLinear"]

_NONE = np.empty(0)


class FWLinear(Readings, Playing, abc.ABC):
    """What :class:`FWRegressor` and :class:`FWClassifier` share."""

    # What the targets are, and the losses that speak of other ones.
    _task: typing.ClassVar[str]
    _foreign_losses: typing.ClassVar[tuple[type, ...]]

    # Of a model that `merged` made: the samples that its parts have learned.
    _n_merged = 0

    constraint: ConvexSet | None
    optimizer: Optimizer | None
    intercept: bool
    seed: int | None
    max_names: int | None = None

    def __init__(
        self,
        constraint: ConvexSet | None = None,
        optimizer: Optimizer | None = None,
        loss: typing.Any = None,
        intercept: bool = True,
        seed: int | None = None,
        max_names: int | None = None,
    ):
        if constraint is not None and not isinstance(constraint, ConvexSet):
            raise TypeError(f"constraint must be a set such as sets.L1Ball(10.0), got {constraint!r}")
        if optimizer is not None and not isinstance(optimizer, Optimizer):
            raise TypeError(f"optimizer must be one of fwonline.optim such as optim.SFW(), got {optimizer!r}")
        if loss is not None:
            losses.check_loss(loss)
            if isinstance(loss, self._foreign_losses):
                raise TypeError(f"{type(self).__name__} cannot minimise {loss!r}: it is no loss for {self._task}")
        self.constraint = constraint
        # An optimizer holds the state of the one model it serves.
        self.optimizer = optimizer.clone() if optimizer is not None and optimizer.is_started else optimizer
        self.loss = loss
        self.intercept = intercept
        self.seed = seed
        if max_names is not None:
            check_count("max_names", max_names)
        self.max_names = max_names
        working = self._default_optimizer() if self.optimizer is None else self.optimizer
        self._run: Run = self._start(working)
        self._run.watch = None if working._unbounded else RadiusWatch()
        self._features = FeatureIndex(max_names, self._run.fixed_dimension)
        if max_names is not None and self._run.fixed_dimension is not None:
            raise ValueError(f"max_names is for sets of any dimension; {constraint} has {self._run.fixed_dimension}")
        self._y_name: str | None = None
        # The negative and the positive class of a classifier, once seen; never changed in place.
        self._classes: tuple = ()

    def _check_loaded(self) -> None:
        """See that a model from a file is one that a stream could have made: its parts fit each other."""
        known = {
            *_loaded.parameters_of(type(self)),
            "loss",
            "intercept",
            "_features",
            "_run",
            "_y_name",
            "_classes",
            "_n_merged",
        }
        for name in vars(self).keys() - known if _loaded.is_own(type(self)) else ():
            del vars(self)[name]  # it might stand before a method of that name
        _loaded.kind(self, "constraint", ConvexSet, optional=True)
        _loaded.kind(self, "optimizer", Optimizer, optional=True)
        _loaded.choice(self, "intercept", (False, True, 0, 1))
        if self.seed is not None:
            seed = self.seed.item() if isinstance(self.seed, np.integer) else self.seed
            _loaded.require(self, "seed", type(seed) is int and seed >= 0, "a whole number, or None")
        if self.max_names is not None:
            _loaded.count(self, "max_names", 1)
        _loaded.count(self, "_n_merged")
        _loaded.names(self, "_y_name", [self._y_name])
        _loaded.names(self, "_classes", _loaded.instance(self, "_classes", tuple))
        self._check_classes()
        self._check_run()
        if self.loss is not None:
            _loaded.require(self, "loss", not isinstance(self.loss, self._foreign_losses), f"one for {self._task}")

    def _check_run(self) -> None:
        """The run is what the optimizer starts on this problem."""
        run = self._run
        optimizer = run.optimizer if self.optimizer is None else self.optimizer
        _loaded.instance(self, "_run", self._run_type(optimizer))
        _loaded.instance(self, "_features", FeatureIndex)
        _loaded.claim(self, "_run", "_features")
        held = getattr(run, "capacity", None)
        memory = getattr(optimizer, "memory", None) or 1
        mine, theirs = self.fitted_loss, run.loss
        for name, fits, expected in (
            ("_run", run.optimizer is optimizer, "one of the model's optimizer"),
            ("_run", self._is_set_of(run), "one in the model's set"),
            ("_run", held is None or held == memory, f"a memory of {memory} samples"),
            ("loss", type(mine) is type(theirs) and vars(mine) == vars(theirs), "what its run minimises"),
            ("intercept", bool(run.s.fit_intercept) == self._fits_intercept, "what its run has"),
            ("_features", len(self._features) == run.n_features, f"{run.n_features} features"),
            ("max_names", self._features.most == self.max_names, "what its features are bounded by"),
            ("_features", self._features.dimension == run.fixed_dimension, "as many as the set has coordinates"),
            (
                "_features",
                bool((self._features.seen <= run.s.seen).all()),
                f"features that {run.s.seen} samples have shown",
            ),
        ):
            _loaded.require(self, name, fits, expected)
        names = self._features.names
        if run.fixed_dimension is not None:
            numbered = names == list(range(len(names))) and all(type(name) is int for name in names)
            _loaded.require(self, "_features", numbered, "the numbers of the coordinates")
        ranks = [rank_of(name) if type(name) in (str, int) else None for name in names]
        known = [j for j, rank in enumerate(ranks) if rank is not None]
        same = run.it.rank[known].tolist() == [ranks[j] for j in known]
        _loaded.require(self, "_run", same, "ranks that are those of the features' names")

    def _is_set_of(self, run: Run) -> bool:
        """Whether a run's points lie in the model's set."""
        if self.constraint is None:
            return run.is_free and type(run.constraint) is run.optimizer._unbounded
        return run.constraint is self.constraint

    @property
    def _takes_weights(self) -> bool:
        """Whether a sample may be given a weight."""
        return self._run.optimizer._takes_weights

    @property
    def _fits_intercept(self) -> bool:
        """Whether the run has an intercept."""
        return bool(self.intercept)

    def _check_classes(self) -> None:
        """The classes are as many as the model can have met."""
        _loaded.require(self, "_classes", not self._classes, "no classes")

    def _run_type(self, optimizer: Optimizer) -> type:
        """The class of the run that an optimizer starts."""
        return optimizer._run_class

    def _default_optimizer(self) -> Optimizer:
        """What learns where nothing was named."""
        from fwonline.optim.online.stochastic_pairwise import default_optimizer

        return default_optimizer(self.constraint)

    def _start(self, optimizer: Optimizer) -> Run:
        """The optimizer's run on this model's problem."""
        return optimizer.start(self.constraint, self.fitted_loss, self.seed, bool(self.intercept))

    @property
    @abc.abstractmethod
    def fitted_loss(self) -> typing.Any:
        """The loss that is minimised."""

    @abc.abstractmethod
    def _target(self, y: typing.Any) -> float:
        """A target as the run takes it, or a SampleError."""

    # --- one sample -------------------------------------------------------------------------------------------

    def learn_one(self, x: dict, y: typing.Any, w: float = 1.0) -> None:
        """Learn from one sample.

        Parameters
        ----------
        x
            Feature names to numbers; an absent feature is 0, one never seen is added.
        y
            The target.
        w
            What its loss is multiplied by, wherever it is looked at: 0, or from 1e-30 to 1e30.

        Raises
        ------
        SampleError
            For a value that is no finite number; the model is then as it was before.
        ValueError
            For a weight other than 1 where the optimizer takes none.
        """
        if w != 1.0:
            with weights.weighing(self, w):
                self.learn_one(x, y)
            return
        run, features = self._run, self._features
        classes, seen = self._classes, run.s.seen
        try:
            target = self._target(y)
            n = features.load(x, run)
            if features.new_ranks is not None:
                run.grow(features.new_ranks)
                if features.is_crowded:
                    run.s.crowded = 1
            status = run.learn_buffered(n, target)
            if status == layout.NEED_NAMES:
                n = self._make_room(n)
                status = run.learn_buffered(n, target)
            if status:
                raise SampleError(self._complaint(status, x, y))
            if features.awaits_commit:
                features.commit()
                if features.most is not None:
                    features.saw(run.row.idx[:n], run.row.val[:n], run.s.seen)
            if run.watch is not None:
                watch(self, (target,))
        except BaseException:
            if run.s.seen == seen:
                self._classes = classes
                run.rollback(features.rollback())
                run.forget_last()
            else:
                features.commit()
            raise

    def _loss_of_zeros(self, targets: NDArray[np.float64]) -> float:
        """What a model of zeros loses on these targets."""
        return loss_of_zeros(self.fitted_loss, targets)

    def _make_room(self, n: int) -> int:
        """Give features up for those of the sample in the run's buffers; returns the sample's length."""
        run, features = self._run, self._features
        run.s.crowded = 0
        idx, val = run.row.idx[:n], run.row.val[:n]
        gone = features.leaving(idx, val, run.it.rank, run.weighs, run.gives_weights_up)
        return features.give_up(gone, run.take_out(gone), idx, val)

    def _play_raw(self, x: dict, y: typing.Any) -> float:
        """Learn a sample; return what `_raw_one` said of it before, to the last bit."""
        self.learn_one(x, y)
        return self._run.s.prediction

    def _play_scores(self, x: dict, y: typing.Any) -> typing.Sequence[float] | NDArray[np.float64]:
        return (self._play_raw(x, y),)

    def _complaint(self, status: int, x: dict, y: typing.Any) -> str:
        if status == layout.BAD_TARGET:
            return f"the target is {y!r}; expected a finite number of at most {layout.LARGEST:g} in size"
        return describe(x) or (
            f"the derivative of {self.fitted_loss} at this sample is not finite, or too large to be summed; "
            f"its largest feature value is {max(map(abs, x.values()), default=0.0)!r}, its target {y!r}"
        )

    def _raw_one(self, x: dict) -> float:
        """<x, w> + intercept, by a sum in which no order of the features shows."""
        run = self._run
        idx, val = self._features.known(x)
        v, scale, intercept = run.shown_at(idx)
        if run.start_weight and idx.size < len(x):
            v = self._with_unseen()
            known = self._features.positions
            idx = np.fromiter((known.get(name, v.size - 1) for name in x), np.int64, len(x))
            val = np.fromiter(x.values(), np.float64, len(x))
        z = float(scale * coordinates.sparse_dot(v, idx, val, 0, idx.size))
        if not math.isfinite(z):
            raise SampleError(describe(x) or f"the prediction {z} is not finite")
        return z + intercept

    def _with_unseen(self) -> NDArray[np.float64]:
        """The iterate, and behind it what a feature weighs that has not been seen."""
        run = self._run
        return np.append(run.shown.v[: run.n_features], run.start_weight / run.shown.scale)

    # --- many samples -----------------------------------------------------------------------------------------

    def learn_many(self, X: typing.Any, y: typing.Any, w: typing.Any = None) -> None:
        """Learn from the rows of a frame, one after another.

        Parameters
        ----------
        X
            A frame of pandas, polars or another library that river takes; a column is a feature.
        y
            The targets, a series.
        w
            Weights, as for :meth:`learn_one`: one of all rows, or one for each.
        """
        (_, values, names), series = self._frame(X), river_utils.dataframe.into_series(y)
        self._y_name = series.name
        self._learn_matrix(values, series.to_numpy(), names, w)

    def learn_arrays(self, X: typing.Any, y: ArrayLike, w: ArrayLike | None = None) -> None:
        """Learn from the rows of a matrix, one after another, in one compiled loop.

        The same as calling :meth:`learn_one` with the dict ``{j: X[i, j]}`` of each row.

        Parameters
        ----------
        X
            Samples x features, dense or scipy sparse: column j is the feature named j. Or a frame, as for
            :meth:`learn_many`: a column is the feature of its name.
        y
            The targets, shape (n,).
        w
            Weights, as for :meth:`learn_one`: one of all rows, or one for each, shape (n,).

        Raises
        ------
        SampleError
            At the first row that cannot be learned: the message names it, and the rows before it have been learned.
        ValueError
            If shapes do not fit, or a weight cannot be; nothing has been learned then.
        """
        values, names = self._matrix(X)
        self._learn_matrix(values, y, names, w)

    def _learn_matrix(self, X: typing.Any, y: ArrayLike, names: typing.Sequence, w: ArrayLike | None) -> None:
        labels = np.asarray(y)
        rows_weights = None if w is None else weights.of_rows(self, w, len(labels))
        classes, seen = self._classes, self.n_samples
        try:
            self._learn_labelled(X, labels, names, rows_weights)
        except BaseException:
            # Classes and features of rows that were not learned leave no trace.
            self._classes = classes
            if learned := self.n_samples - seen:
                self._targets(labels[:learned])
                self._features.commit()
            else:
                self._run.rollback(self._features.rollback())
            raise
        self._features.commit()

    def _add_features(self, names: typing.Iterable) -> None:
        """Know features that no sample has shown."""
        self._run.grow(self._features.add(names))
        self._features.commit()

    def _columns(self, names: typing.Sequence) -> NDArray[np.uint32] | None:
        """Positions of named columns, added where new; None if column j stands at position j."""
        columns = self._features.columns(names)
        if self._features.new_ranks is not None:
            self._run.grow(self._features.new_ranks)
        return columns

    def _learn_labelled(
        self, X: typing.Any, labels: NDArray, names: typing.Sequence, w: NDArray[np.float64] | None
    ) -> None:
        targets, problem = self._targets(labels)
        good = len(targets)
        rows = as_rows(X, np.concatenate([targets, np.zeros(len(labels) - good)]), check=False)[0]
        if good and not self._features.fits(names):
            self._learn_rows_of_names(rows, labels[:good], names, w)
        elif good:
            seen = int(self._run.s.seen)
            columns = self._columns(names)
            if columns is not None:
                rows = (rows[0], columns[rows[1]], *rows[2:])
            row, status = weights.learn_rows(self._run, Rows.of(*rows), good, w)
            watch(self, targets[:row].tolist())
            if self._features.most is not None:
                end = rows[0][row]
                when = seen + np.repeat(np.arange(1, row + 1), np.diff(rows[0][: row + 1]))
                self._features.saw(rows[1][:end], rows[2][:end], when)
            if status != layout.OK:
                where = slice(rows[0][row], rows[0][row + 1])
                x = {self._features.names[j]: v for j, v in zip(rows[1][where], rows[2][where].tolist(), strict=True)}
                raise SampleError(f"row {row}: {self._complaint(status, x, *labels[row : row + 1].tolist())}")
        if problem is not None:
            raise SampleError(f"row {good}: {problem}")

    def _learn_rows_of_names(self, rows: typing.Any, labels: NDArray, names: typing.Sequence, w: typing.Any) -> None:
        """Learn rows whose columns do not find room together: each brings the names of its own entries."""
        indptr, idx, val, _ = rows
        for row, label in enumerate(labels.tolist()):
            where = slice(indptr[row], indptr[row + 1])
            x = {names[j]: v for j, v in zip(idx[where].tolist(), val[where].tolist(), strict=True)}
            try:
                FWLinear.learn_one(self, x, label, 1.0 if w is None else w[row].item())
            except SampleError as error:
                raise SampleError(f"row {row}: {error}") from None

    def _targets(self, labels: NDArray) -> tuple[NDArray[np.float64], str | None]:
        """Targets as the run takes them, up to the first that it cannot take, and what is wrong with that one."""
        targets = np.empty(len(labels))
        for i, label in enumerate(labels.tolist()):
            try:
                targets[i] = self._target(label)
            except SampleError as error:
                return targets[:i], str(error)
        return targets, None

    def _rows(self, X: typing.Any, names: typing.Sequence) -> CSR:
        """A matrix of named columns as rows of positions; -1 for columns that no feature is named like."""
        (indptr, idx, val, _), _ = as_rows(X, np.zeros(X.shape[0]), check=False)
        columns = self._features.find_columns(names)
        return indptr, idx if columns is None else columns[idx], val

    def _raw_many(
        self, X: typing.Any, names: typing.Sequence, probability: NDArray[np.float64] = _NONE
    ) -> NDArray[np.float64]:
        """What `_raw_one` returns for each row of a matrix, to the last bit; the logistic function of it beside."""
        (v, scale, intercept), rows = self._run.shown, self._rows(X, names)
        if self._run.start_weight:
            v = self._with_unseen()
            rows = (rows[0], np.where(rows[1] < 0, v.size - 1, rows[1]), rows[2])
        else:
            rows = seen(rows)
        raw = np.empty(X.shape[0])
        scores.score_rows(v, (scale, intercept), *rows, raw, probability)
        self._check_finite(raw, X, names)
        return raw

    def _check_finite(self, raw: NDArray[np.float64], X: typing.Any, names: typing.Sequence) -> None:
        """Raise for the first row that has no finite prediction."""
        finite = np.isfinite(raw)
        if finite.all():
            return
        row = int(np.argmin(finite.reshape(len(raw), -1).all(axis=1)))
        values = X[[row]].toarray()[0] if sparse.issparse(X) else X[row]
        x = {name: value for name, value in zip(names, values.tolist(), strict=True) if value}
        raise SampleError(f"row {row}: {describe(x) or 'the prediction is not finite'}")

    def _frame(self, X: typing.Any) -> tuple[typing.Any, NDArray, list]:
        """A frame, its values and its columns' names."""
        frame = river_utils.dataframe.into_frame(X)
        names = list(frame.columns)
        try:
            return frame, river_utils.dataframe.to_numpy(frame), names
        except (TypeError, ValueError):
            for name in names:
                try:
                    np.asarray(frame.get_column(name).to_numpy(), dtype=np.float64)
                except (TypeError, ValueError) as error:
                    raise ValueError(f"column {name!r} of X: {error}; expected numbers") from None
            raise

    def _matrix(self, X: typing.Any) -> tuple[typing.Any, typing.Sequence]:
        """A matrix and its columns' names: those of a frame; elsewhere column j is the feature named j."""
        if is_frame(X):
            return self._frame(X)[1:]
        X = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        if X.ndim != 2:
            raise ValueError(f"X must be a matrix of samples x features, got shape {X.shape}")
        return X, range(X.shape[1])

    def merged(self, others: typing.Iterable[typing.Self]) -> typing.Self:
        """A model that predicts with the mean of the weights of this model and others.

        Each counts by the samples it has learned, the intercept likewise. Where their features are more than
        ``max_names`` together, those that weigh nothing anywhere are left out. A convex combination of points of the
        constraint set lies in it. It is there to predict: what the optimizers remember is not merged, and a merge that
        learns on does so as a new model does, whose first step may go far from these weights.

        Parameters
        ----------
        others
            Models of the same class and constraint, which have learned other parts of the stream.

        Raises
        ------
        ValueError
            When one is of another kind, or has learned other classes.
        """
        models = [self, *others]
        return merged_linear(models, [1] * len(models))
