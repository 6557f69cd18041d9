"""What estimators and ``minimize`` ask of a run, whoever makes its steps."""

from __future__ import annotations

import dataclasses
import math
import typing

import numpy as np

from fwonline.optim.runs import summary

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from scipy import sparse

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["LastSample", "ModelRun", "State", "resized"]


class LastSample(typing.NamedTuple):
    """The sample learned last, as the optimizer saw it. Arrays are views: copy what is to be kept."""

    indices: NDArray[np.uint32]
    values: Floats
    y: float
    prediction: float
    loss: float
    n_features: int


@dataclasses.dataclass
class State:
    """What a callback of :meth:`Optimizer.minimize` sees.

    Attributes
    ----------
    nit
        Steps taken.
    gap
        The Frank-Wolfe gap of the last one by the optimizer's own estimate of the gradient; no bound.
    n_gradients, n_lmo
        Derivatives of single samples, and linear minimisations, so far.
    """

    nit: int
    gap: float
    n_gradients: int
    n_lmo: int
    _run: ModelRun = dataclasses.field(repr=False)

    @property
    def x(self) -> NDArray[np.float64]:
        """A copy of the iterate."""
        return self._run.weights


class ModelRun:
    """An optimizer at work on one model: what its steps do not touch.

    Attributes
    ----------
    optimizer, constraint, loss
        What it minimises, where, and how.
    rng
        What all randomness comes from.
    s
        Counters and scalars, by name.
    it
        Arrays by feature: the iterate v, and the ranks of the features' names.
    row, idx_bytes, val_bytes
        One sample on its way in, and its buffers' bytes.
    fixed_dimension
        Features that the set has, where it says so.
    start_weight
        What a feature weighs before it is seen.
    gap_is_kept
        Whether steps keep the gap of their estimate; where not, it is computed when it is read.
    """

    optimizer: typing.Any
    constraint: typing.Any
    loss: typing.Any
    rng: np.random.Generator
    s: typing.Any
    row: typing.Any
    it: typing.Any
    idx_bytes: typing.Any
    val_bytes: typing.Any
    fixed_dimension: int | None
    start_weight: float
    gap_is_kept: typing.ClassVar[bool] = True
    # The entries of the sample learned last: None where they stand in the buffers, () where a refused one has
    # overwritten them.
    _last: tuple[NDArray[np.uint32], Floats] | tuple[()] | None = None

    # --- what a run must have ---------------------------------------------------------------------------------

    @property
    def weights(self) -> Floats:
        """A copy of the iterate, rounding snapped back into the set."""
        raise NotImplementedError

    @property
    def gives_weights_up(self) -> bool:
        """Whether a feature that weighs something may be given up: the set then holds what is left of its points."""
        raise NotImplementedError

    def grow(self, ranks: Ints) -> None:
        """Add a feature for each rank."""
        raise NotImplementedError

    def shrink(self, d: int) -> None:
        """Take back features that were just added; nothing has been learned of them."""
        raise NotImplementedError

    def weighs(self) -> NDArray[np.bool_]:
        """Which features weigh something in a point that is held, which is more than they do before they are met."""
        raise NotImplementedError

    def _held(self) -> tuple[list[summary.Sample], dict[str, typing.Any], list]:
        """The samples held, oldest first; arrays and numbers by public names; what else decides how learning goes on.

        Arrays by feature are as long as there are features, those by sample in the order of the samples.
        """
        raise NotImplementedError

    def take_out(self, gone: Ints) -> Ints:
        """Give features up, as if no sample had ever shown them; the last ones take their places.

        Every point, every sum and every sample held loses these coordinates, so that all that is left belongs to the
        problem without them. Predictions stay as they are where the features weigh nothing.

        Parameters
        ----------
        gone
            Positions, in ascending order.

        Returns
        -------
        numpy.ndarray
            The new position of each feature there was, -1 for those that are gone.
        """
        raise NotImplementedError

    def reserve(self, n: int) -> None:
        """Room for a sample of n entries on its way in."""
        raise NotImplementedError

    def learn_buffered(self, n: int, y: float) -> int:
        """Learn the sample that stands in ``row.idx[:n]``, ``row.val[:n]``; return a status."""
        raise NotImplementedError

    def learn_rows(self, rows: typing.Any, first: int, last: int) -> tuple[int, int]:
        """Learn rows ``first`` to ``last``; return the row reached and the status there."""
        raise NotImplementedError

    def set_weights(self, x0: typing.Any) -> None:
        """Start at x0."""
        raise NotImplementedError

    def iterate(self, count: int) -> None:
        """Take ``count`` steps offline."""
        raise NotImplementedError

    def _restore(self, state: dict) -> None:
        """Take up a saved state; whether its parts fit each other is checked when all objects of a file are there."""
        raise NotImplementedError

    def _slopes(self, y: Floats, z: Floats) -> Floats:
        """Derivatives of the loss in the predictions z."""
        raise NotImplementedError

    # --- what all have ----------------------------------------------------------------------------------------

    def __setstate__(self, state: dict) -> None:
        try:
            self._restore(state)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"the saved state of a {type(self).__name__} does not fit: {error}") from error

    @property
    def n_features(self) -> int:
        return self.s.d

    @staticmethod
    def _moves(d: int, gone: Ints) -> tuple[Ints, Ints, Ints]:
        """Where each of d features goes, -1 for nowhere, and which of the last ones (``movers``) fill which holes."""
        left = d - gone.size
        holes = gone[gone < left]
        stays = np.ones(gone.size, dtype=bool)
        stays[gone[gone >= left] - left] = False
        movers = left + np.flatnonzero(stays)
        new = np.arange(d)
        new[gone] = -1
        new[movers] = holes
        return new, holes, movers

    def rollback(self, d: int) -> None:
        """Take back all features but the first d, which a sample brought that was refused."""
        self.s.crowded = 0
        if d < self.n_features:
            self.shrink(d)

    def forget_last(self) -> None:
        """A sample that was refused has overwritten the buffers."""
        if self._last is None:
            self._last = ()

    def progress(self) -> State:
        """What a callback of ``minimize`` sees."""
        return State(self.s.t, self.gap, self.s.n_gradients, self.s.n_lmo, self)

    @property
    def gap(self) -> float:
        """The Frank-Wolfe gap of the last step by the optimizer's estimate of the gradient, no bound; NaN before it."""
        return self.s.gap

    @property
    def last_sample(self) -> LastSample | None:
        s, row = self.s, self.row
        last = (row.idx[: row.indptr[1]], row.val[: row.indptr[1]]) if self._last is None else self._last
        if not s.seen or not last:
            return None
        return LastSample(last[0], last[1], s.target, s.prediction, s.loss, s.d)

    def last_bytes(self) -> tuple[bytes, bytes, float] | None:
        """The last sample's positions, values and target: quick to take and to keep."""
        if self._last is None and self.s.seen:
            n = int(self.row.indptr[1])
            return self.idx_bytes[: 4 * n].tobytes(), self.val_bytes[: 8 * n].tobytes(), float(self.row.y[0])
        sample = self.last_sample
        return None if sample is None else (sample.indices.tobytes(), sample.values.tobytes(), sample.y)

    def _whole(self, w: Floats) -> Floats:
        """A point of the set: with its start where the set knows features that no sample has shown."""
        shape = self.constraint.shape
        if shape is None or w.size >= math.prod(shape):
            return w
        whole = self.constraint.initial_point().ravel()
        whole[: w.size] = w
        return whole

    @property
    def point(self) -> Floats:
        """The iterate as a point of the set."""
        return self._whole(self.weights)

    def gap_along(self, gradient: Floats) -> float:
        """The largest <gradient, w - s> over the points s of the set; infinite for a gradient that is not finite."""
        if not gradient.size:
            return 0.0
        if not np.isfinite(gradient).all():
            return math.inf
        w = self.point
        whole = resized(gradient, w.size)
        return float(whole @ w - self.constraint.lmo(whole).dot(whole))

    @property
    def n_remembered(self) -> int:
        """Samples held, over which ``exact_gap`` passes."""
        return 0

    def exact_gap(self) -> float | None:
        """The Frank-Wolfe gap of the objective over what is remembered; None without a memory."""
        return None

    def state_summary(self, names: Sequence[typing.Any]) -> dict[str, typing.Any]:
        """What the optimizer remembers, of features of these names: see the method of the estimators."""
        samples, held, rest = self._held()
        s = self.s
        return {
            "class": type(self.optimizer).__name__,
            **{"n_steps": s.t, "n_gradients": s.n_gradients, "n_lmo": s.n_lmo, "n_exact_gradients": s.n_exact},
            **{"step_size": s.gamma, "last_prediction": s.prediction, "last_loss": s.loss, "last_target": s.target},
            "intercept_curvature": s.intercept_h,
            "samples": summary.samples_by_name(samples, names),
            **held,
            "random": self.rng.bit_generator.state,
            "digest": summary.digest([*rest, *held.values()]),
        }

    def gap_over(self, X: sparse.csr_array, y: Floats) -> float | None:
        """The Frank-Wolfe gap of the mean loss over given samples, columns being positions of features."""
        if not len(y):
            return None
        slopes = self._slopes(y, X @ self.weights + self.s.intercept)
        with np.errstate(over="ignore", invalid="ignore"):
            return self.gap_along(X.T @ slopes / len(y))


def resized(array: NDArray, capacity: int) -> NDArray:
    """The array with zeros behind it."""
    out = np.zeros((capacity, *array.shape[1:]), dtype=array.dtype)
    out[: len(array)] = array[:capacity]
    return out
