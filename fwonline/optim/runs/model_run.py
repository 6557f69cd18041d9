"""What estimators and ``minimize`` ask of a run, whoever makes its steps."""

from __future__ import annotations

import dataclasses
import math
import typing

import numpy as np

from fwonline import losses, sets
from fwonline._kernels import layout
from fwonline._kernels.entry import LINE
from fwonline._kernels.state import Rows
from fwonline.exceptions import SampleError
from fwonline.optim import free
from fwonline.optim.runs import checks, summary

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from scipy import sparse

    from fwonline._kernels.state import Region
    from fwonline._protocols import LastSamples

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

# Sets without a compiled oracle, which hold what is left of a point when a coordinate is left out.
_SOLID = (sets.LpBall, sets.KSparseBall, sets.NuclearBall)

__all__ = ["LastSample", "ModelRun", "Shown", "State", "resized"]


class LastSample(typing.NamedTuple):
    """The sample learned last, as the optimizer saw it. Arrays are views: copy what is to be kept."""

    indices: NDArray[np.uint32]
    values: Floats
    y: float
    prediction: float
    loss: float
    n_features: int


class Shown(typing.NamedTuple):
    """What a model predicts with: w = scale v, and the intercept."""

    v: Floats
    scale: float
    intercept: float


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
    """An optimizer at work on one model: what all kinds of runs have, whoever makes their steps.

    Parameters
    ----------
    optimizer
        The hyperparameters.
    constraint, loss
        Where the iterate lives, and what is minimised.
    seed
        Seed of the one ``numpy.random.Generator`` that all randomness comes from.

    Attributes
    ----------
    region
        The set as kernels take it.
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

    s: typing.Any
    it: typing.Any
    region: Region
    fixed_dimension: int | None
    start_weight: float
    gap_is_kept: typing.ClassVar[bool] = True
    # What an estimator looks at after the first samples; never saved.
    watch: typing.Any = None
    # The rows that were played last; never saved.
    played: LastSamples | None = None
    # The entries of the sample learned last: None where they stand in the buffers, () where a refused one has
    # overwritten them.
    _last: tuple[NDArray[np.uint32], Floats] | tuple[()] | None = None

    def __init__(self, optimizer: typing.Any, constraint: typing.Any, loss: typing.Any, seed: int | None):
        losses.check_loss(loss)
        self.optimizer = optimizer
        self.constraint = constraint
        self.loss = loss
        self.rng = np.random.default_rng(seed)
        self.row = Rows.room(64)
        self._last = None

    # --- what a run must have ---------------------------------------------------------------------------------

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

    def learn_buffered(self, n: int, y: float) -> int:
        """Learn the sample that stands in ``row.idx[:n]``, ``row.val[:n]``; return a status.

        It is OK, or negative for why the sample was refused, or NEED_NAMES where it is accepted, but brings more names
        than there is room for: then :meth:`take_out` must make some first.
        """
        raise NotImplementedError

    def learn_rows(self, rows: typing.Any, first: int, last: int) -> tuple[int, int]:
        """Learn rows ``first`` to ``last``; return the row reached and the status there."""
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

    def _new_alike(self) -> typing.Self:
        """A run of the same parameters before its first sample."""
        fit = bool(self.s.fit_intercept)
        return type(self)(checks.small(self.optimizer), self.constraint, self.loss, 0, fit)  # type: ignore[call-arg]

    def _settle(self, region: Region) -> None:
        """Know what follows from the set, and is never saved."""
        self.region = region
        shape = self.constraint.shape
        self.fixed_dimension = None if shape is None else math.prod(shape)
        self.start_weight = float(np.clip(0.0, region.p, region.q)) if region.kind == layout.BOX else 0.0

    # --- features ---------------------------------------------------------------------------------------------

    @property
    def shown(self) -> Shown:
        """What predictions, weights and gaps are read of."""
        return Shown(self.it.v, self.s.w_scale, self.s.intercept)

    def shown_at(self, _positions: NDArray) -> Shown:
        """The same, of which only these positions are to be read."""
        return self.shown

    def set_intercept(self, value: float) -> None:
        """Start with an intercept."""
        self.s.intercept = value

    @property
    def n_features(self) -> int:
        return self.s.d

    @property
    def gives_weights_up(self) -> bool:
        """Whether a feature that weighs something may be given up: the set then holds what is left of its points.

        So it is with balls whose atoms are dense, and with boxes. On l1 balls and simplices points are sparse: there
        only what weighs nothing leaves.
        """
        return self.region.kind in (layout.L2, layout.LINF, layout.BOX) or isinstance(self.constraint, _SOLID)

    def _check_bounded(self, d: int) -> None:
        """Raise for more features than a box has bounds of."""
        if self.region.kind == layout.BOX_ARRAYS and d > (size := self.region.lower.size):
            raise SampleError(f"{self.constraint} bounds {size} features, the sample brings feature number {d}")

    def _check_dimension(self) -> None:
        if self.region.kind == layout.GENERIC and self.fixed_dimension not in (None, self.n_features):
            raise SampleError(
                f"{self.constraint} holds points of {self.fixed_dimension} features, the samples up to this one bring "
                f"{self.n_features}; expected the first sample to name them all, those that are 0 too"
            )

    def _box(self, d: int) -> tuple[Floats, Floats]:
        """The bounds of the first d features."""
        if self.region.kind == layout.BOX:
            return np.full(d, self.region.p), np.full(d, self.region.q)
        return self.region.lower[:d], self.region.upper[:d]

    def _start_in_box(self, first: int, last: int) -> None:
        """In a box new features weigh what is nearest to 0."""
        if self.region.kind in (layout.BOX, layout.BOX_ARRAYS):
            lower, upper = self._box(last)
            self.it.v[first:last] = np.clip(0.0, lower[first:], upper[first:])

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

    # --- one sample on its way in -----------------------------------------------------------------------------

    def reserve(self, n: int) -> None:
        """Room for a sample of n entries."""
        if n > self.row.idx.size:
            self.row = Rows.room(2 * n)
            self._bind()

    def _bind(self) -> None:
        """Keep what a sample is packed into, so that the array's interface is not looked up each time."""
        self.idx_bytes, self.val_bytes = self.row.idx.data.cast("B"), self.row.val.data.cast("B")

    def rollback(self, d: int) -> None:
        """Take back all features but the first d, which a sample brought that was refused."""
        self.s.crowded = 0
        if d < self.n_features:
            self.shrink(d)

    def keep_last(self, idx: NDArray[np.uint32], val: Floats, y: float) -> None:
        """Have a sample that was learned in the buffers, where one that is learned by itself stands."""
        n = len(idx)
        self.reserve(n)
        row = self.row
        row.idx[:n], row.val[:n], row.indptr[1], row.y[0] = idx, val, n, y
        self._last = None

    def forget_last(self) -> None:
        """A sample that was refused has overwritten the buffers."""
        if self._last is None:
            self._last = ()

    def set_sample_weight(self, weight: float) -> None:
        """What the losses of the samples that come next are multiplied by; 1.0 but while these are learned."""
        self.s.weight = weight

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

    @property
    def weights(self) -> Floats:
        """A copy of the iterate, shape (n_features,), rounding snapped back into the set."""
        v, scale, _ = self.shown
        w = scale * v[: self.n_features]
        kind, radius = self.region.kind, self.region.p
        if kind <= layout.UNIT_SIMPLEX:
            size = math.fsum(np.abs(w[w != 0.0]))
        elif kind == layout.L2:
            size = float(np.linalg.norm(w))
        else:
            return w  # bounds hold exactly
        return w * (radius / size) if size > radius or (kind == layout.SIMPLEX and size > 0.0) else w

    def set_weights(self, x0: typing.Any) -> None:
        """Start at x0."""
        x = np.array(x0, dtype=np.float64)
        if x.shape != (self.n_features,) or not self.constraint.contains(x):
            raise ValueError(f"x0 must be a point of {self.constraint} with {self.n_features} entries")
        self.it.v[: self.n_features] = x
        self.s.warm = 1

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

    @property
    def is_free(self) -> bool:
        """Whether no set was named."""
        return free.is_free(self.constraint)

    def gap_set(self, w: Floats) -> sets.ConvexSet:
        """The set that a gap at w is taken over: where none was named, the l1 ball of twice the norm of w."""
        return free.gap_set(self.constraint, w)

    def gap_along(self, gradient: Floats) -> float:
        """The largest <gradient, w - s> over the points s of `gap_set`; infinite for a gradient that is not finite."""
        if not gradient.size:
            return 0.0
        if not np.isfinite(gradient).all():
            return math.inf
        w = self.point
        whole = resized(gradient, w.size)
        return float(whole @ w - self.gap_set(w).lmo(whole).dot(whole))

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
        slopes = self._slopes(y, X @ self.weights + self.shown.intercept)
        with np.errstate(over="ignore", invalid="ignore"):
            return self.gap_along(X.T @ slopes / len(y))


def resized(array: NDArray, capacity: int) -> NDArray:
    """The array with zeros behind it, from the beginning of a line of memory on: then no row of four lies in two."""
    shape = (capacity, *array.shape[1:])
    size = math.prod(shape)
    whole = np.zeros(size + LINE // array.itemsize, dtype=array.dtype)
    first = -whole.__array_interface__["data"][0] % LINE // array.itemsize
    out = whole[first : first + size].reshape(shape)
    out[: len(array)] = array[:capacity]
    return out
