"""Many rows predicted and learned in one compiled loop, each predicted before it is learned."""

from __future__ import annotations

import itertools
import typing

import numpy as np
from scipy import sparse

from fwonline._protocols import LastSamples, Probabilities
from fwonline.exceptions import SampleError
from fwonline.linear_model.columns import dense_rows, sparse_rows
from fwonline.linear_model.matrices import label_array
from fwonline.linear_model.radius import watch
from fwonline.optim.runs.run import Run

if typing.TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from fwonline.features import FeatureIndex
    from fwonline.linear_model.columns import NamedRows
    from fwonline.optim.runs.model_run import ModelRun

    Floats = NDArray[np.float64]

__all__ = ["Playing"]


class Playing:
    """What the linear estimators do with many rows at once."""

    max_names: int | None
    _run: ModelRun
    _features: FeatureIndex
    _classes: tuple

    if typing.TYPE_CHECKING:

        @property
        def classes(self) -> tuple: ...

        def _targets(self, labels: NDArray) -> tuple[Floats, str | None]: ...
        def _target(self, y: typing.Any) -> float: ...
        def _complaint(self, status: int, x: dict, y: typing.Any) -> str: ...
        def _matrix(self, X: typing.Any) -> tuple[typing.Any, Sequence]: ...

    # --- what an estimator adds -------------------------------------------------------------------------------

    def _play_scores(self, x: dict, y: typing.Any) -> Sequence[float] | Floats:
        """Learn a sample; return its raw prediction before: a number, or one for each class known then."""
        raise NotImplementedError

    def _answers(self, raw: Floats, classes: tuple) -> NDArray:
        """Predictions of rows from the raw ones of kernels, shape (rows, scores)."""
        raise NotImplementedError

    def _shares(self, raw: Floats, classes: tuple) -> Probabilities:
        """The same as probabilities of classes."""
        raise NotImplementedError

    @property
    def _n_answers(self) -> int:
        """How many scores kernels write of a row beside what is noted of it: one for each class, or 0."""
        return 0

    # --- blocks -----------------------------------------------------------------------------------------------

    @property
    def play_reason(self) -> str | None:
        """Why this model, as it stands, plays samples and no blocks; None where it plays blocks."""
        run = self._run
        if self.max_names is not None:
            return f"max_names={self.max_names}: which features make room is settled sample by sample"
        if not isinstance(run, Run):
            return f"{run.optimizer} takes its steps in Python, sample by sample"
        if run.native.calls_python:
            return f"the steps of {run.optimizer} ask a Python object: the set, the loss or the schedule"
        return None

    @property
    def last_samples(self) -> LastSamples | None:
        """The rows that :meth:`play_block` has learned last, as the optimizer saw them; None before the first."""
        return self._run.played

    def play_block(
        self,
        X: NDArray[np.float64] | sparse.csr_array,
        y: NDArray[typing.Any],
        names: Sequence[Hashable] | None = None,
        *,
        probabilities: bool = False,
    ) -> tuple[NDArray[typing.Any] | Probabilities, Exception | None]:
        """Predict and learn rows, one after another, in one compiled loop, up to the first that cannot be learned.

        To the last bit :meth:`play_one`, or ``play_proba_one``, for each: predictions, and all that the model is then.

        Parameters
        ----------
        X
            Samples x features: dense, where every row has every feature, or CSR, where it has those that it stores.
        y
            The targets, shape (n,).
        names
            The features' names, one a column; None: column j is the feature named j.
        probabilities
            Whether a classifier is to give probabilities. It must know the classes of all rows then.

        Returns
        -------
        tuple
            The predictions of the rows that were learned; and why the next one was not, None where all were.

        Raises
        ------
        ValueError
            For a model that :attr:`play_reason` speaks of; where shapes do not fit, or a class is not known yet whose
            probability is asked for. Nothing has been learned then.
        """
        return self._play_block(X, y, names, probabilities=probabilities)

    def _play_block(
        self, X: typing.Any, y: NDArray, names: Sequence | None, *, probabilities: bool, asked: Floats | None = None
    ) -> tuple[NDArray[typing.Any] | Probabilities, Exception | None]:
        """The same; where ``asked`` is given, each row is predicted with these values in the place of its own."""
        if (reason := self.play_reason) is not None:
            raise ValueError(f"this model plays samples, not blocks: {reason}")
        labels, before = np.asarray(y), self._classes
        columns = range(X.shape[1]) if names is None else names
        if probabilities:
            known = self.classes
            self._targets(labels)
            after = self._classes if self._n_answers else self.classes
            self._classes = before
            if after != known:
                raise ValueError(f"probabilities of {after} were asked for, but the model knows {known} so far")
        raw, error = self._play_matrix(X, labels, columns, asked)
        if probabilities:
            return self._shares(raw, self.classes), error
        return self._by_classes(raw, labels, before), error

    def play_arrays(self, X: typing.Any, y: ArrayLike) -> NDArray:
        """Predict each row of a matrix, then learn it, before the next one is predicted; in one compiled loop.

        The same as calling :meth:`play_one` with the dict ``{j: X[i, j]}`` of each row (of sparse matrices, of the
        entries that are stored), to the last bit. Models whose steps are not compiled (:attr:`play_reason`) take the
        rows one by one.

        Parameters
        ----------
        X, y
            As for :meth:`learn_arrays`.

        Returns
        -------
        numpy.ndarray
            The predictions, shape (n,).

        Raises
        ------
        SampleError
            At the first row that cannot be learned: the message names it, and the rows before it have been learned.
            (:meth:`play_block` returns what they were predicted.)
        ValueError
            If shapes do not fit; nothing has been learned then.

        Examples
        --------
        >>> import numpy as np
        >>> from fwonline import linear_model, sets
        >>> X = np.random.default_rng(0).normal(size=(1000, 3))
        >>> y = X @ [1.0, -1.0, 0.0]
        >>> model = linear_model.FWRegressor(sets.L1Ball(2.0))
        >>> errors = np.abs(model.play_arrays(X, y) - y)
        >>> bool(errors[:10].mean() > 10 * errors[-10:].mean())
        True
        """
        before, labels = self._classes, np.asarray(y)
        return self._by_classes(self._play_all(X, labels), labels, before)

    def _play_all(self, X: typing.Any, labels: NDArray) -> Floats:
        """Play all rows; return their raw predictions."""
        values, names = self._matrix(X)
        play = self._play_matrix if self.play_reason is None else self._play_singly
        raw, error = play(values, labels, names)
        if error is not None:
            raise type(error)(f"row {len(raw)}: {error}") from error
        return raw

    # --- how ----------------------------------------------------------------------------------------------------

    def _play_matrix(
        self, X: typing.Any, labels: NDArray, names: Sequence, asked: Floats | None = None
    ) -> tuple[Floats, SampleError | None]:
        """Play rows, predicted with the values ``asked`` where these are given: raw ones, and what ended them early."""
        if labels.shape != (X.shape[0],):
            raise ValueError(f"y must have one target for each of the {X.shape[0]} rows of X, got shape {labels.shape}")
        before, seen, run = self._classes, self._run.s.seen, typing.cast("Run", self._run)
        error: SampleError | None = None
        try:
            targets, problem = self._targets(labels)
            build = sparse_rows if sparse.issparse(X) else dense_rows
            rows = build(X, targets, names, self._features).answering(self._n_answers, asked)
            error = self._play_parts(rows, labels)
            if error is None and problem is not None:
                error = SampleError(problem)
        finally:
            learned = run.s.seen - seen
            if learned < len(labels):
                # Classes of rows that were not learned leave no trace.
                self._classes = before
                self._targets(labels[:learned])
        run.played = rows.learned(learned, run)
        if error is not None:
            run.forget_last()
        return rows.answers(learned), error

    def _play_parts(self, rows: NamedRows, labels: NDArray) -> SampleError | None:
        """Play rows; new features join with the row that shows them first, as they do sample by sample."""
        run, features = typing.cast("Run", self._run), self._features
        cuts = {0, rows.n, *rows.brings}
        if run.watch is not None:
            cuts.add(min(run.watch.missing, rows.n))
        for first, last in itertools.pairwise(sorted(cuts)):
            seen = run.s.seen
            try:
                if (new := rows.bring(first)) is not None:
                    run.grow(new)
                rows.place(first, last)
                row, status = run.learn_rows(rows.rows, first, last)
                if status:
                    raise SampleError(self._complaint(status, rows.sample(row), *labels[row : row + 1].tolist()))
            except BaseException as error:
                if run.s.seen == seen:
                    run.rollback(features.rollback())
                if not isinstance(error, SampleError):
                    raise
                return error
            finally:
                features.commit()
                watch(self, rows.rows.y[first : first + run.s.seen - seen].tolist())
        return None

    def _play_singly(self, X: typing.Any, labels: NDArray, names: Sequence) -> tuple[Floats, SampleError | None]:
        """The same sample by sample."""
        if labels.shape != (X.shape[0],):
            raise ValueError(f"y must have one target for each of the {X.shape[0]} rows of X, got shape {labels.shape}")
        targets = np.zeros(len(labels))
        build = sparse_rows if sparse.issparse(X) else dense_rows
        rows = build(X, targets, names, self._features)
        answers: list[Sequence[float] | Floats] = []
        error = None
        for row, label in enumerate(labels.tolist()):
            try:
                answers.append(self._play_scores(rows.sample(row), label))
            except SampleError as problem:
                error = problem
                break
        raw = np.zeros((len(answers), max(map(len, answers), default=1)))
        for row, scores in enumerate(answers):
            raw[row, : len(scores)] = scores
        return raw, error

    def _by_classes(self, raw: Floats, labels: NDArray, before: tuple) -> NDArray:
        """Predictions, each by the classes that were known when it was made."""
        parts = self._stages(labels[: len(raw)], before)
        answers = [self._answers(raw[first:last], classes) for first, last, classes in parts]
        return answers[0] if len(answers) == 1 else label_array(tuple(itertools.chain(*(a.tolist() for a in answers))))

    def _stages(self, labels: NDArray, before: tuple) -> list[tuple[int, int, tuple]]:
        """From which row to which one which classes were known."""
        if self._classes == before:
            return [(0, len(labels), getattr(self, "classes", ()))]
        after, listed = self._classes, labels.tolist()
        self._classes = before
        starts, known = [0], [self.classes]
        for label in dict.fromkeys(listed):
            was = self._classes
            self._target(label)
            if self._classes != was:
                starts.append(listed.index(label) + 1)
                known.append(self.classes)
        self._classes = after
        return list(zip(starts, [*starts[1:], len(listed)], known, strict=True))
