"""Regret: the loss of a learner beyond that of the best fixed point."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river.optim.losses import MultiClassLoss, Squared

from fwonline import _loaded, losses
from fwonline._pipeline import final_estimator
from fwonline.exceptions import MonitorError, SampleError
from fwonline.monitors._samples import Samples
from fwonline.monitors.base import Monitor, exposed
from fwonline.optim.hindsight import Bracket, best_fixed_point, best_fixed_point_quadratic
from fwonline.optim.problem.profiled import has_best_intercept
from fwonline.sets import ConvexSet

__all__ = ["Regret"]

_FIRST = 64  # samples before the first evaluation
_FOLD = 1 << 18  # numbers kept, beyond which samples of few features become sums of products
_ROUNDING = 1e-9  # of sums of products
_MOST_SUMMED = 512  # features, for sums of products to begin


class Regret(Monitor):
    r"""Cumulative loss of the plays minus that of the best fixed point in hindsight, as an interval.

    .. math::

        R_n = \sum_{t=1}^n f(y_t, \langle x_t, w_t \rangle) - \min_{w \in C} \sum_{t=1}^n f(y_t, \langle x_t, w \rangle)

    The first sum is known. The second is bracketed by a point of the set and its duality gap, so `regret_lo` and
    `regret_hi` are true bounds for every convex loss, however far its search went.

    With a model of this library (alone or at the end of a pipeline), plays, samples as the model saw them, loss and set
    are the model's. A play is the prediction right before its sample is learned. Where the model has an intercept, the
    fixed points have one, too: :math:`\langle x_t, w \rangle + b` with the best b, which no set bounds. With anything
    else, give `loss` and `constraint`: then a sample is `x`, a dict of numbers, and its play `y_pred`, a number on the
    scale of :math:`\langle x, w \rangle` (for log loss and its kin the margin, not the probability). Samples without a
    play or a target are not counted, nor are samples that the model learned without a call of `update`. A model without
    a constraint has no set to take the best point of: give one as `constraint`.

    Evaluations are at samples 64, 64 `growth`, 64 `growth`^2, ..., each starting from the fixed point of the one before
    and taking at most `max_iter` iterations, so that all of them together cost O(`max_iter`) passes over the stream at
    the very most, and a few in practice. `get` gives the last one and at which sample it was; `evaluate` makes one now.

    Up to 256 features the interval is as narrow as `tol` demands even where features lie far from 0 or differ much in
    scale (losses with kinks excepted: features that lie 10,000 of their deviations from 0 may leave it a fifth of the
    best loss wide). With more such features it may stay wide, though the bounds hold: centre and scale them in front of
    the model.

    The samples are kept: 12 bytes a value, without Python objects. For the squared loss and up to 512 features, sums of
    products take their place once they are smaller, and the stream may go on forever. Otherwise, when `max_values`
    numbers are kept, a last evaluation is made; from then on `regret_at` stays where it is and `regret_complete` is
    False.

    Parameters
    ----------
    loss
        A river loss or one of `fwonline.losses`, convex; by default the model's.
    constraint
        The set of the fixed points; by default the model's. A larger one shows what the constraint costs.
    intercept
        Whether the fixed points have an intercept; by default where the model has one. A loss that falls without end as
        the intercept grows, as minus the logarithm of a return does, allows none.
    growth
        Ratio of the times of two evaluations, above 1.
    tol
        Width of the bracket, relative to the mean loss of the best fixed point, at which an evaluation ends.
    max_iter
        Most iterations of one evaluation.
    max_values
        Most numbers kept of the samples.

    Examples
    --------
    >>> from river import optim
    >>> from fwonline import datasets, monitors, sets
    >>> stream = datasets.AdversarialLinear(n_features=3, seed=1)
    >>> monitor = monitors.Regret(optim.losses.Absolute(), sets.ProbabilitySimplex())
    >>> for x, y in stream.take(500):
    ...     monitor.update(y, sum(x.values()) / 3, x=x)     # all assets alike, always
    >>> monitor
    Regret: [0.8656, 0.8669] at sample 256
    >>> monitor.evaluate()["regret_at"]
    500

    References
    ----------
    .. [1] `Hazan, E., 2016. Introduction to online convex optimization <https://arxiv.org/abs/1909.05207>`__
    """

    def __init__(
        self,
        loss: Any = None,
        constraint: ConvexSet | None = None,
        *,
        intercept: bool | None = None,
        growth: float = 2.0,
        tol: float = 1e-3,
        max_iter: int = 200,
        max_values: int = 5_000_000,
    ):
        if not 1 < growth < math.inf:
            raise ValueError(f"growth must be above 1 and finite, not {growth}")
        if not tol >= 0:
            raise ValueError(f"tol must be at least 0, not {tol}")
        if max_iter < 1:
            raise ValueError(f"max_iter must be at least 1, not {max_iter}")
        if max_values < 1:
            raise ValueError(f"max_values must be at least 1, not {max_values}")
        if loss is not None:
            losses.check_loss(loss)
        self.loss = loss
        self.constraint = constraint
        self.intercept = intercept
        self.growth = growth
        self.tol = tol
        self.max_iter = max_iter
        self.max_values = max_values
        self._n = 0
        self._d = 0
        self._complete = True
        self._next = _FIRST
        self._rows = Samples()
        self._sums: _Sums | None = None
        self._folded_loss = 0.0  # of the plays whose samples became sums
        self._features: dict[Any, int] = {}  # of samples that come as dicts, or whose features change their positions
        self._objective: tuple[Any, ConvexSet] | None = None
        self._has_intercept = False
        self._best: Bracket | None = None
        self._result: dict[str, Any] = dict.fromkeys(
            ("regret_lo", "regret_hi", "regret_average_lo", "regret_average_hi", "regret_at")
        )

    _not_numbers = ("_sums", "_objective", "_best")

    def _check_loaded(self) -> None:
        super()._check_loaded()
        rows = _loaded.instance(self, "_rows", Samples)
        _loaded.claim(self, "_rows")
        rows._check_loaded()
        _loaded.require(rows, "size", rows.size is None and rows.n <= self._n, f"at most {self._n} rows")
        self._features = dict(_loaded.instance(self, "_features", dict))
        _loaded.names(self, "_features", self._features)
        is_numbered = all(type(j) is int and j == k for k, j in enumerate(self._features.values()))
        _loaded.require(self, "_features", is_numbered, "names in the order of their positions")
        _loaded.require(self, "_d", self._d >= len(self._features), f"at least {len(self._features)}")
        # Evaluations go on from there: one that is due already would never be passed.
        _loaded.require(self, "_next", not self._complete or self._next > self._n, f"a sample after {self._n}")
        self._check_objective()
        size = self._dimension() if self._objective is not None else 0
        most = min(self._d, size)
        _loaded.require(rows, "indices", rows.highest < most, f"features below {most}")
        if self._sums is not None:
            _loaded.require(
                self,
                "_sums",
                self._objective and type(self._objective[0]) is Squared,
                "sums for the squared loss alone",
            )
            known = _loaded.instance(self, "_sums", _Sums).check_loaded()
            _loaded.require(self._sums, "Xy", known <= size, f"at most {size} features")
        self._check_result(size)

    def _check_objective(self) -> None:
        """Check the loss and the set: those of the parameters, where they were given."""
        if self._objective is None:
            _loaded.require(self, "_objective", not self._n, "loss and set of the samples")
            return
        if type(self._objective) is not tuple or len(self._objective) != 2:
            _loaded.fail(self, "_objective", "a loss and a set", self._objective)
        loss, constraint = self._objective
        losses.check_loss(loss)
        _loaded.choice(self, "_has_intercept", (False, True) if self.intercept is None else (bool(self.intercept),))
        _loaded.require(self, "_objective", isinstance(constraint, ConvexSet), "a set")
        _loaded.require(self, "_objective", not isinstance(loss, MultiClassLoss), "a loss of one score")
        given = (self.loss is None or self.loss is loss) and (self.constraint is None or self.constraint == constraint)
        _loaded.require(self, "_objective", given, "loss and set as the parameters say")

    def _check_result(self, size: int) -> None:
        names = _loaded.rebuilt(self)._result
        result = _loaded.instance(self, "_result", dict)
        numbers_only = all(value is None or type(value) in (int, float, np.float64) for value in result.values())
        _loaded.require(self, "_result", result.keys() == names.keys() and numbers_only, f"numbers for {list(names)}")
        if self._best is None:
            return
        _loaded.instance(self, "_best", Bracket)
        x, *rest = self._best
        is_point = type(x) is np.ndarray and x.dtype == np.float64 and x.ndim == 1 and bool(np.isfinite(x).all())
        is_whole = len(self._best) == len(Bracket._fields) and all(type(v) in (int, float, np.float64) for v in rest)
        _loaded.require(
            self, "_best", is_point and is_whole and x.size <= size, f"a point of at most {size} coordinates"
        )

    def check_model(self, model: Any) -> None:
        super().check_model(model)
        estimator = final_estimator(model)
        if self.constraint is None and getattr(estimator, "constraint", None) is None:
            raise MonitorError(
                "Regret compares with the best fixed point of a set, and the model has no constraint: give one to "
                "either, such as Regret(constraint=sets.L1Ball(100.0))"
            )
        loss = getattr(estimator, "fitted_loss", None) if self.loss is None else self.loss
        wants = getattr(estimator, "intercept", False) if self.intercept is None else self.intercept
        if wants and losses.is_known(loss) and not has_best_intercept(losses.vector_loss(loss)[1]):
            raise MonitorError(
                f"Regret compares with the best fixed point, and {loss} falls without end as an intercept grows: give "
                "the model or the monitor intercept=False"
            )

    def update(self, y_true: Any = None, y_pred: Any = None, *, x: dict | None = None, model: Any = None) -> None:
        estimator = final_estimator(model)
        sample = getattr(estimator, "last_sample", None)
        if not self._complete:
            return
        if sample is not None:
            if self._objective is None:
                self.check_model(estimator)
            self._choose(estimator.fitted_loss, estimator.constraint, getattr(estimator, "intercept", False))
            names = getattr(estimator, "last_names", None)
            self._d = max(self._d, int(sample.n_features) if names is None else self._known(names))
            indices = sample.indices if names is None else [self._features[name] for name in names]
            self._append(indices, sample.values, sample.y, sample.prediction)
        elif hasattr(estimator, "last_sample") or y_true is None or y_pred is None:
            return
        else:
            self._choose(None, None, False)
            self._append_dict(x, y_true, y_pred)
        self._n += 1
        self._settle()

    def most_together(self) -> float:
        return math.inf

    def update_many(self, y_true: Any, y_pred: Any, *, model: Any = None) -> None:
        estimator = final_estimator(model)
        last = exposed(self, estimator, "last_samples")
        if self._complete and self._objective is None:
            self.check_model(estimator)
            self._choose(estimator.fitted_loss, estimator.constraint, getattr(estimator, "intercept", False))
        start, n = 0, len(y_true)
        while start < n and self._complete:  # up to what comes next: room is made, an evaluation, or the end
            kept = self._rows.nnz
            most = min((room for room in (_FOLD, self.max_values) if room > kept), default=kept)
            full = int(np.searchsorted(last.indptr, last.indptr[start] + most - kept))
            stop = max(start + 1, min(n, full, start + self._next - self._n))
            places = last.indptr[start : stop + 1]
            self._rows.extend(places, last.indices, last.values, last.y[start:stop], last.predictions[start:stop])
            self._d = max(self._d, int(last.n_features[stop - 1]))
            self._n += stop - start
            self._settle()
            start = stop

    def _settle(self) -> None:
        """Make room and evaluate, where it is time."""
        if self._rows.nnz >= _FOLD or self._rows.nnz >= self.max_values:
            self._make_room()
        if self._n >= self._next and self._complete:
            self.evaluate()
            while self._next <= self._n:
                self._next = math.ceil(self._next * self.growth)

    def _choose(self, loss: Any, constraint: ConvexSet | None, intercept: bool) -> None:
        """Choose the loss, the set and whether there is an intercept, at the first sample."""
        if self._objective is None:
            loss = loss if self.loss is None else self.loss
            constraint = constraint if self.constraint is None else self.constraint
            if loss is None or constraint is None:
                raise TypeError("Regret needs a loss and a constraint where the model has none")
            if isinstance(loss, MultiClassLoss):
                raise TypeError(f"Regret compares models of one score a sample; {loss} has one for each class")
            self._has_intercept = bool(intercept if self.intercept is None else self.intercept)
            self._objective = loss, constraint

    def _append_dict(self, x: dict | None, y_true: Any, y_pred: Any) -> None:
        if x is None:
            raise TypeError("Regret reads the features: call update(y_true, y_pred, x=x)")
        if not _is_number(y_pred):
            raise SampleError(f"the play must be a finite number on the scale of <x, w>, not {y_pred!r}")
        if not _is_number(y_true):
            raise SampleError(f"the target must be a finite number or a boolean, not {y_true!r}")
        for key, value in x.items():
            if not _is_number(value):
                raise SampleError(f"feature {key!r} must be a finite number, not {value!r}")
        self._d = self._known(x)
        indices = [self._features[key] for key in x]
        self._append(indices, np.fromiter(x.values(), np.float64, len(x)), y_true, y_pred)

    def _append(self, indices: Any, values: NDArray[np.float64], y: Any, prediction: Any) -> None:
        self._rows.append(np.asarray(indices, np.uint32).tobytes(), values.tobytes(), float(y), float(prediction))

    def _known(self, names: Iterable[Any]) -> int:
        """Give names a position each; return how many there are now."""
        for name in names:
            self._features.setdefault(name, len(self._features))
        return len(self._features)

    def _make_room(self) -> None:
        """Replace samples by sums of products where they suffice; else stop when too much is kept."""
        assert self._objective is not None
        d = self._dimension()
        if type(self._objective[0]) is Squared and d <= (
            _MOST_SUMMED if self._sums is None else math.isqrt(self.max_values)
        ):
            if self._sums is None:
                self._sums = _Sums()
            self._sums.add(self._rows, d)
            self._folded_loss += self._kept_loss()
            self._rows.clear()
        elif self._rows.nnz >= self.max_values:
            self.evaluate()
            self._complete = False
            self._rows.clear()

    def _dimension(self) -> int:
        assert self._objective is not None
        shape = self._objective[1].shape
        if shape is None:
            return self._d
        if self._d > math.prod(shape):
            raise SampleError(f"samples have {self._d} features, the set has {math.prod(shape)} coordinates")
        return math.prod(shape)

    def _kept_loss(self) -> float:
        assert self._objective is not None
        value, _ = losses.vector_loss(self._objective[0])
        return math.fsum(value(self._rows.y, self._rows.predictions))

    def evaluate(self, tol: float | None = None, max_iter: int | None = None) -> dict[str, Any]:
        """Evaluate now and return what `get` does.

        Parameters
        ----------
        tol, max_iter
            For this evaluation, in place of the monitor's own.
        """
        if self._objective is None or not self._complete or self._dimension() == 0:
            return self.get()
        loss, constraint = self._objective
        d = self._dimension()
        search: dict[str, Any] = {
            "constraint": constraint,
            "tol": self.tol if tol is None else tol,
            "max_iter": self.max_iter if max_iter is None else max_iter,
            "x0": self._start(constraint, d),
        }
        if self._sums is None:
            rows, y = self._rows.matrix(d), self._rows.y
            best = best_fixed_point(rows, y, loss=loss, intercept=self._has_intercept, **search)
        else:
            sums = self._sums.copy()
            sums.add(self._rows, d)
            best = best_fixed_point_quadratic(*sums.mean(self._n, self._has_intercept), **search)
            best = sums.completed(best, self._n, constraint) if self._has_intercept else best
        played = self._folded_loss + self._kept_loss()
        self._best = best
        lo, hi = played - self._n * best.upper, played - self._n * best.lower
        self._result = {
            "regret_lo": lo,
            "regret_hi": hi,
            "regret_average_lo": lo / self._n,
            "regret_average_hi": hi / self._n,
            "regret_at": self._n,
        }
        return self.get()

    def _start(self, constraint: ConvexSet, d: int) -> NDArray[np.float64] | None:
        """The last fixed point, with zeros for the features that came since, where it is a start."""
        if self._best is None:
            return None
        start = np.zeros(d)
        start[: self._best.x.size] = self._best.x
        return start if constraint.can_project or constraint.contains(start) else None

    def finish(self) -> None:
        if self._result["regret_at"] != self._n:
            self.evaluate()

    @property
    def best(self) -> Bracket | None:
        """The best fixed point of the last evaluation with the bounds of its mean loss, or None before the first."""
        return self._best

    def get(self) -> dict[str, Any]:
        return {**self._result, "regret_complete": self._complete}

    def _text(self) -> str:
        result = self._result
        if result["regret_at"] is None:
            return "not evaluated yet"
        said = f"[{result['regret_lo']:.4g}, {result['regret_hi']:.4g}] at sample {result['regret_at']:,}"
        return said if self._complete else f"{said}, where the samples became too many to keep"


class _Sums:
    """Sums of products of samples: all that the squared loss needs of them."""

    def __init__(self) -> None:
        self.XX = np.zeros((0, 0))
        self.Xy = np.zeros(0)
        self.yy = 0.0
        self.X = np.zeros(0)
        self.y = 0.0

    def add(self, rows: Samples, d: int) -> None:
        if d > self.Xy.size:
            more = d - self.Xy.size
            self.XX, self.Xy, self.X = (np.pad(array, (0, more)) for array in (self.XX, self.Xy, self.X))
        X = rows.matrix(d)
        self.XX += (X.T @ X).toarray()
        self.Xy += X.T @ rows.y
        self.yy += float(rows.y @ rows.y)
        self.X += X.sum(axis=0)
        self.y += float(rows.y.sum())

    def check_loaded(self) -> int:
        """How many features the sums are of, where they are sums at all."""
        _loaded.like(self, _Sums())
        size = _loaded.array(self, "Xy", np.float64, (None,)).size
        products = _loaded.array(self, "XX", np.float64, (size, size))
        is_symmetric = np.allclose(products, products.T, rtol=_ROUNDING, atol=0.0)
        _loaded.require(self, "XX", is_symmetric, "a symmetric matrix")
        rows, cols = np.tril_indices(size)
        _loaded.positive_semidefinite(self, "XX", products[rows, cols], size, _ROUNDING)
        sums = _loaded.array(self, "X", np.float64, (size,))
        _loaded.require(self, "X", bool(np.isfinite(sums).all()), "finite numbers")
        _loaded.real(self, "y")
        most = (1.0 + 1e-6) * np.sqrt(np.abs(np.diag(products))) * math.sqrt(_loaded.real(self, "yy", 0.0))
        _loaded.require(self, "Xy", (np.abs(self.Xy) <= most).all(), "products that the squares allow")
        return size

    def copy(self) -> _Sums:
        copy = _Sums()
        copy.XX, copy.Xy, copy.yy = self.XX.copy(), self.Xy.copy(), self.yy
        copy.X, copy.y = self.X.copy(), self.y
        return copy

    def mean(self, n: int, centred: bool) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """The mean squared error as a quadratic function, with the best intercept at each point where it is centred."""
        if not centred:
            return 2.0 / n * self.XX, 2.0 / n * self.Xy, self.yy / n
        XX, Xy = self.XX - np.outer(self.X, self.X) / n, self.Xy - self.X * (self.y / n)
        return 2.0 / n * XX, 2.0 / n * Xy, self.yy / n - (self.y / n) ** 2

    def completed(self, best: Bracket, n: int, constraint: ConvexSet) -> Bracket:
        """A bracket from centred sums, with its intercept, and wider by what has cancelled in them."""
        mean = self.X / n
        reach = max(abs(constraint.lmo(side).dot(side)) for side in (mean, -mean))
        lost = 8.0 * float(np.finfo(float).eps) * (self.yy / n + reach * reach)
        lower, upper = best.lower - lost, best.upper + lost
        return best._replace(lower=lower, upper=upper, gap=upper - lower, intercept=self.y / n - float(mean @ best.x))


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real | np.bool_) and math.isfinite(value)
