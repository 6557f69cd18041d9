"""`StochasticPairwiseFW` at work on the matrix of a softmax model, whose steps are those of `pairwise_classes.py`."""

from __future__ import annotations

import math
import typing

import numpy as np
from river.optim import losses as river_losses

from fwonline import _loaded, sets
from fwonline._kernels import classes
from fwonline._kernels.coordinates import bound_sizes
from fwonline._kernels.layout import GENERIC, L1, L2, LARGEST, LINF, OK
from fwonline._kernels.state import Memory, Rows
from fwonline.optim.online.pairwise_classes import forget, iterate, learn
from fwonline.optim.online.pairwise_run import BUDGET, MOST
from fwonline.optim.problem.data import as_rows, rows_of
from fwonline.optim.problem.finite_sum import FiniteSum
from fwonline.optim.problem.score_loss import Softmax
from fwonline.optim.runs import checks, samples
from fwonline.optim.runs.native import Native, region_of
from fwonline.optim.runs.run import Run

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["PairwiseClassesRun", "moves_classes"]

_KINDS = (L1, L2, LINF)
# Room that a matrix begins with.
FEWEST_CLASSES = 2


def moves_classes(constraint: sets.ConvexSet | None) -> bool:
    """Whether pairwise steps are taken on matrices in a set, and so are the default there."""
    return constraint is None or region_of(constraint).kind in _KINDS


def _arrays(entries: int, stride: int, mem: Memory) -> classes.Matrix:
    """Arrays for so many entries of the matrix, and for the samples of a memory."""
    blocks, groups = bound_sizes(entries)
    samples = (mem.held.size, stride)
    return classes.Matrix(
        v=np.zeros(entries),
        u=np.zeros(entries),
        rank=np.zeros(entries, np.int64),
        bound=np.full(blocks, -np.inf),
        group=np.full(groups, -np.inf),
        sums=np.zeros((entries, 4)),
        means=np.zeros((0, 2)),
        active=np.zeros(entries, np.int64),
        place=np.full(entries, -1),
        at=np.zeros((mem.val.size, stride)),
        alphas=np.zeros(samples),
        curves=np.zeros(samples),
        anchors=np.zeros(samples),
        bias=np.zeros((4, stride)),
        recent=np.zeros(classes.RECENT),
        scratch=np.zeros((9, stride)),
    )


class PairwiseClassesRun(Run):
    """State and steps on a matrix of weights. Targets are positions of classes; a new one brings a column."""

    _holds_samples = True
    _decided = (*Run._decided, "entries", "significance")
    _within: typing.ClassVar[dict[str, tuple[float, float]]] = dict.fromkeys(
        ("penalty", "curvature_seen", "curvature_model", "pull"), (0.0, checks.HUGE)
    )
    _most_contribution = LARGEST
    _key_kind = GENERIC
    _learn = staticmethod(learn)
    _iterate = staticmethod(iterate)
    gap_is_kept = False
    own: classes.Matrix

    def __init__(self, optimizer, constraint, loss, seed=None, fit_intercept=False):
        super().__init__(optimizer, constraint, loss, seed, fit_intercept)
        if optimizer.window is not None:
            raise ValueError(f"window must be None for a softmax, which forgets as one model, got {optimizer.window!r}")
        if self.region.kind not in _KINDS:
            raise ValueError(
                f"{type(optimizer).__name__} moves entries of a matrix, which {self.constraint} does not have; "
                "expected a ball of norm 1, 2 or infinity, or None"
            )
        s = self.s
        s.stride = FEWEST_CLASSES
        s.steps = optimizer.steps_per_sample or MOST
        s.entries = 0 if optimizer.steps_per_sample else BUDGET
        s.significance = optimizer.significance
        self.own = _arrays(0, s.stride, self.mem)

    def _prepare(self) -> None:
        super()._prepare()
        # Each class against the others: of this loss the kernels ask the curvature.
        self.native = Native(river_losses.Log(), self.constraint, self.optimizer._schedule(), self._ask)

    # --- classes and features that come and go ------------------------------------------------------------------

    @property
    def k(self) -> int:
        """Classes."""
        return self.s.classes

    def _rows(self, array: NDArray) -> NDArray:
        """Entries of the matrix by features and classes, in place."""
        return array.reshape(-1, self.s.stride, *array.shape[1:])

    def _known(self, array: NDArray) -> NDArray:
        """The same of the features and classes that are known."""
        return self._rows(array)[: self.n_features, : self.k]

    def admit(self, k: int) -> None:
        """Know k classes."""
        self._reserve_classes(k)
        self.s.classes = max(self.s.classes, k)

    def _reserve_classes(self, k: int) -> None:
        stride = self.s.stride
        if k > stride:
            self._lay_out(len(self._rows(self.own.v)), max(k, stride + stride // 4))

    def _lay_out(self, features: int, stride: int) -> None:
        """Arrays for so many features and classes, which hold what they held."""
        old, before, s = self.own, self.s.stride, self.s
        new = _arrays(features * stride, stride, self.mem)
        for name in ("v", "u", "rank", "sums"):
            source, to = getattr(old, name), getattr(new, name)
            source = source.reshape(-1, before, *source.shape[1:])[:features]
            to.reshape(-1, stride, *to.shape[1:])[: len(source), :before] = source
        new.rank.reshape(-1, stride)[:] = new.rank.reshape(-1, stride)[:, :1]
        for name in ("at", "alphas", "curves", "anchors", "bias"):
            getattr(new, name)[:, :before] = getattr(old, name)
        listed = old.active[: s.nonzeros]
        self.own, s.stride = new._replace(recent=old.recent), stride
        self._list(listed // before * stride + listed % before)

    def _list(self, entries: NDArray) -> None:
        """List the entries that are not zero, and bound all keys."""
        own, s = self.own, self.s
        own.place[own.active[: s.nonzeros]] = -1
        s.nonzeros = entries.size
        own.active[: entries.size] = entries
        own.place[entries] = np.arange(entries.size)
        classes.rebuild(own, self.state)
        self._bind()

    def _measure(self) -> None:
        classes.measure(self.own, self.state, self.region)

    def grow(self, ranks) -> None:
        first = self.n_features
        super().grow(ranks)
        last, room = self.n_features, len(self._rows(self.own.v))
        if last > room:
            self._lay_out(max(last, room + room // 2, 64), self.s.stride)
        self._rows(self.own.rank)[first:last] = np.asarray(ranks)[:, None]
        classes.admit(self.own, self.state, first, last)

    def shrink(self, d: int) -> None:
        self._rows(self.own.rank)[d : self.n_features] = 0
        super().shrink(d)
        classes.rebuild(self.own, self.state)

    def weighs(self) -> NDArray[np.bool_]:
        return (self._known(self.own.v) != 0.0).any(axis=1)

    def _taken_out(self, new, holes, movers) -> None:
        own, s, d = self.own, self.s, new.size
        classes.take_out(self.mem, self.state, new, own.at)
        super()._taken_out(new, holes, movers)
        for array in (own.v, own.u, own.rank, own.sums):
            rows = self._rows(array)
            rows[holes] = rows[movers]
            rows[d - (new < 0).sum() : d] = 0
        listed = own.active[: s.nonzeros]
        to = new[listed // s.stride]
        own.place[listed] = -1
        s.nonzeros = 0
        self._list((to * s.stride + listed % s.stride)[to >= 0])
        self._measure()

    def _make_room(self, need: int) -> None:
        held, old = self.mem.held[: self.s.live], self.own.at
        before = held["start"].copy()
        super()._make_room(need)
        at = np.zeros((self.mem.val.size, self.s.stride))
        for source, to, length in zip(before.tolist(), held["start"].tolist(), held["length"].tolist(), strict=True):
            at[to : to + length] = old[source : source + length]
        self.own = self.own._replace(at=at)
        self._bind()

    # --- samples ------------------------------------------------------------------------------------------------

    def learn_buffered(self, n: int, y: float) -> int:
        self._reserve_classes(int(y) + 1)
        before = self.s.seen
        status = super().learn_buffered(n, y)
        self._watch(before)
        return status

    def learn_rows(self, rows: Rows, first: int, last: int) -> tuple[int, int]:
        # what is shown of a row has room for classes that only later rows bring
        self._reserve_classes(max(int(rows.y[first:last].max(initial=-1.0)) + 1, rows.shown.shape[1]))
        row, status = first, OK
        while row < last and status == OK:
            before = self.s.seen
            stop = min(last, row + classes.LOOK - before % classes.LOOK)
            row, status = super().learn_rows(rows, row, stop)
            self._watch(before)
        return row, status

    def _watch(self, before: int) -> None:
        """Where the losses have risen, let the sums hold the samples since alone."""
        s = self.s
        if s.seen == before or s.seen % classes.LOOK or not self.optimizer.forgetting:
            return
        if keep := classes.since_rise(self.own.recent, s.seen, s.forgotten, s.loss_sum / s.seen):
            forget(self.view, min(keep, s.live))

    def scores(self, indptr: NDArray, idx: NDArray, val: NDArray) -> Array:
        """The score of each class for each row, shape (rows, k): no order of the entries shows in it."""
        z = np.empty((indptr.size - 1, self.k))
        classes.score_rows(self.own, self.state, indptr, idx.astype(np.uint32), val.copy(), z)
        return z

    @property
    def shown_scores(self) -> Array:
        """The scores of the sample learned last, before it was learned; of a class that it brought, 0."""
        return self.own.scratch[classes.SHOWN, : self.k].copy()

    # --- offline ------------------------------------------------------------------------------------------------

    def attach(self, X: typing.Any, y: typing.Any) -> FiniteSum:
        """Take a data set as the memory; without the penalty, and without an intercept: the mean loss is minimised."""
        rows, d = as_rows(X, y)
        if not len(rows[3]):
            raise ValueError("X has no rows: there is nothing to minimise")
        self.offline(Rows.of(*rows))
        self.own = _arrays(0, self.s.stride, self.mem)
        self.s.significance = 0.0
        self.s.fit_intercept = 0
        return FiniteSum(rows_of(rows, d), rows[3], Softmax())

    def set_weights(self, x0) -> None:
        W = np.array(x0, dtype=np.float64)
        shape = (self.k, self.n_features)
        if W.shape != shape or not self.constraint.contains(W):
            raise ValueError(f"x0 must be a point of {self.constraint} of shape {shape}, got shape {W.shape}")
        self.s.w_scale = 1.0
        self._known(self.own.v)[...] = W.T
        self.s.warm = 1
        self._list(np.flatnonzero(self.own.v) if self.region.kind != LINF else np.zeros(0, np.int64))
        self._measure()

    # --- what is read -------------------------------------------------------------------------------------------

    @property
    def weights(self) -> Array:
        """A copy of W, classes x features, rounding snapped back into the set."""
        W = np.ascontiguousarray(self.s.w_scale * self._known(self.own.v).T)
        kind, radius = self.region.kind, self.region.p
        size = math.fsum(np.abs(W[W != 0.0])) if kind == L1 else float(np.linalg.norm(W)) if kind == L2 else 0.0
        return W * (radius / size) if size > radius else W

    @property
    def x(self) -> Array:
        return self.weights

    @property
    def point(self) -> Array:
        return self.weights

    @property
    def intercepts(self) -> Array:
        """One a class, outside the set."""
        return self.own.bias[classes.INTERCEPT, : self.k]

    def _gap_of(self, gradient: Array) -> float:
        if not np.isfinite(gradient).all():
            return math.inf
        W = self.weights
        return float(np.vdot(gradient, W) - self.gap_set(W).lmo(gradient).dot(gradient))

    @property
    def gap(self) -> float:
        """The Frank-Wolfe gap of the quadratic model without its penalty, no bound of the loss's: O(d k)."""
        if not self.s.t or not self.n_features:
            return math.nan
        r, _, h, b = np.moveaxis(self._known(self.own.sums), -1, 0)
        slopes = r + h * (self.s.w_scale * self._known(self.own.v)) - b
        return self._gap_of(self.s.u_scale * slopes.T)

    def exact_gap(self) -> float | None:
        if not self.s.live or not self.n_features:
            return None
        gradient = np.zeros((self.n_features, self.k))
        classes.sum_gradients(self.own, self.mem, self.state, gradient)
        return self._gap_of(gradient.T / self.s.live)

    def gap_over(self, X, y):
        if not len(y) or not self.n_features:
            return None
        z = np.asarray(X @ self.weights.T) + self.intercepts
        with np.errstate(over="ignore", invalid="ignore"):
            return self._gap_of((X.T @ Softmax().derivative(y, z)).T / len(y))

    def _held(self):
        slots, d = samples.by_age(self), self.n_features
        state = self.state.copy()
        state["stride"] = 0  # room alone
        by_sample = {"derivatives": self.own.alphas, "curvatures": self.own.curves}
        arrays = {name: np.ascontiguousarray(array[slots, : self.k]) for name, array in by_sample.items()}
        arrays["quadratic_model"] = np.ascontiguousarray(self._known(self.own.sums))
        rest = [state, self._known(self.own.v).tolist(), self._known(self.own.u).tolist(), self.it.rank[:d]]
        arrays["recent_losses"] = self.own.recent.copy()
        rest += [self.own.bias[:, : self.k].tolist(), self.own.anchors[slots, : self.k].tolist()]
        return samples.listed(self), arrays, rest

    # --- saved and loaded ---------------------------------------------------------------------------------------

    def __getstate__(self) -> dict:
        state, own, s = super().__getstate__(), self.own, self.s
        listed = own.active[: s.nonzeros]
        state["listed"] = listed // s.stride * self.k + listed % s.stride
        matrix = {name: np.ascontiguousarray(self._known(getattr(own, name))) for name in _MATRIX}
        by_class = {name: np.ascontiguousarray(getattr(own, name)[:, : self.k]) for name in _BY_CLASS}
        state["matrix"] = {**matrix, **by_class, "recent": own.recent}
        return state

    def _restore(self, state: dict) -> None:
        super()._restore(state)
        s, k = self.s, self.s.classes
        s.stride = max(k, FEWEST_CLASSES)
        held, listed, matrix = self.mem.held.size, checks.vector(state["listed"], np.int64), state["matrix"]
        rows = {"at": self.mem.val.size, "bias": 4}
        self.own = own = _arrays(s.d * s.stride, s.stride, self.mem)
        for name in _MATRIX:
            tail = getattr(own, name).shape[1:]
            self._known(getattr(own, name))[...] = _checked(matrix[name], (s.d, k, *tail))
        for name in _BY_CLASS:
            getattr(own, name)[:, :k] = _checked(matrix[name], (rows.get(name, held), k))
        own.recent[:] = _checked(matrix["recent"], own.recent.shape)
        self._rows(own.rank)[...] = self.it.rank[: s.d, None]
        if listed.size and not (listed.min() >= 0 and listed.max() < s.d * k):
            raise ValueError("entries that the matrix does not have")
        s.nonzeros = 0
        self._list(listed // max(k, 1) * s.stride + listed % max(k, 1))

    def _check_own(self) -> None:
        super()._check_own()
        s, own = self.s, self.own
        checks.bounded(self, "rotor", 0, max(0, s.nonzeros))
        checks.bounded(self, "since", 0, max(classes.pairwise.PERIOD, s.nonzeros))
        checks.bounded(self, "forgotten", 0, s.seen)
        _loaded.require(self, "curvature_model", s.curvature_model > 0.0 or not s.curvature_seen, "a number > 0")
        _loaded.require(self, "recent", bool((own.recent >= 0.0).all()), "losses >= 0")
        for name in (*_MATRIX, *_BY_CLASS, "recent"):
            good = (np.abs(getattr(own, name)) <= checks.HUGE).all()
            _loaded.require(self, name, bool(good), f"numbers of at most {checks.HUGE:g}")
        _loaded.require(self, "curves", bool((own.curves >= 0.0).all()), "curvatures >= 0")
        labels = self.mem.held["y"][: s.live]
        _loaded.require(self, "held", np.isin(labels, np.arange(self.k)).all(), f"labels of {self.k} classes")
        listed = np.sort(own.active[: s.nonzeros])
        nonzero = np.flatnonzero(own.v) if self.region.kind != LINF else listed[:0]
        _loaded.require(self, "listed", np.array_equal(listed, nonzero), "all entries that are not zero, each once")
        if self.region.kind != LINF:
            w = s.w_scale * own.v
            size = float(w @ w if self.region.kind == L2 else np.abs(w).sum())
            slack = 1e-6 * max(1.0, min(self.region.p, size)) ** 2
            checks.bounded(self, "size", size - slack, size + slack)

    def _check_point(self) -> None:
        W = self.s.w_scale * self._known(self.own.v).T
        inside = not W.any() or self.constraint.contains(W, tol=1e-6)
        _loaded.require(self, "v", inside, f"a point of {self.constraint}")


# What a file holds of the matrix's entries, and by classes.
_MATRIX = ("v", "u", "sums")
_BY_CLASS = ("at", "alphas", "curves", "anchors", "bias")


def _checked(value: typing.Any, shape: tuple[int, ...]) -> Array:
    """A saved array of numbers, of this shape; a ValueError where it is another."""
    if not isinstance(value, np.ndarray) or value.dtype != np.float64 or value.shape != shape:
        raise ValueError(f"expected numbers of shape {shape}, found {type(value).__name__}")
    return value
