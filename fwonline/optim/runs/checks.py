"""What the state of a run is asked when it came from a file: a compiled step follows every index as it is."""

from __future__ import annotations

import copy
import math
import typing

import numpy as np
from river.optim import losses as _river

from fwonline import _loaded, losses, sets
from fwonline._kernels import layout, steps

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray


__all__ = [
    "HUGE",
    "LEAST_CURVATURE",
    "bounded",
    "check_listed",
    "check_loss",
    "check_point",
    "check_problem",
    "check_run",
    "is_point",
    "like",
    "small",
    "vector",
]

# Beyond what sums of refusable samples can reach, and far from where products of two overflow.
HUGE = 1e250
_MOST_DRAWN = 1 << 26
# The square of a distance in a set stays a number.
_LARGEST_SET = 1e150
# A step of the intercept divides by it, and is halved until it fits: one that is infinite never would.
LEAST_CURVATURE = 1e-100
# NaN before a step; infinite where a square was.
_ANY_NUMBER = ("gap", "loss", "loss_sum")


def small(optimizer: typing.Any) -> typing.Any:
    """The same parameters, but for a memory of few samples: to be looked at, not to learn."""
    small = copy.copy(optimizer)
    vars(small).pop("_run", None)
    if getattr(small, "memory", None) is not None:
        small.memory = min(small.memory, 8)
    return small


def vector(value: typing.Any, dtype: typing.Any, size: int | None = None, own: bool = False) -> NDArray:
    """A saved array, of this type and size; a ValueError where it is another."""
    if not isinstance(value, np.ndarray) or value.dtype != dtype or value.ndim != 1:
        raise ValueError(f"expected an array of {np.dtype(dtype)}, found {type(value).__name__}")
    if size is not None and value.size != size:
        raise ValueError(f"expected {size} numbers, found {value.size}")
    return value.copy() if own else value


def like(value: typing.Any, kept: typing.Any) -> NDArray:
    """A saved array of an algorithm's own, of the form that it has there."""
    empty = kept.empty()
    if not isinstance(value, np.ndarray) or value.dtype != empty.dtype or value.ndim != empty.ndim:
        raise ValueError(f"expected an array of {empty.dtype}, found {type(value).__name__}")
    if kept.columns and value.shape[1:] != empty.shape[1:]:
        raise ValueError(f"expected {empty.shape[1:]} numbers each, found {value.shape[1:]}")
    return np.array(value)


def bounded(run: typing.Any, name: str, least: float, most: float) -> None:
    """A scalar lies in an interval."""
    _loaded.require(run, name, least <= getattr(run.s, name) <= most, f"a number from {least:g} to {most:g}")


def check_loss(owner: object, name: str) -> None:
    """See that a loss which came from a file is one that its constructor would make.

    Raises
    ------
    CheckpointError
        Where it is not. Classes that were registered check themselves.
    """
    loss = getattr(owner, name)
    cls = type(loss)
    if cls.__module__.split(".")[0] not in ("river", "fwonline"):
        losses.check_loss(loss)
        return
    if isinstance(loss, losses.CompiledLoss):
        return  # of functions that were registered; what numba cannot compile is refused when the run is prepared
    _loaded.kind(owner, name, _river.Loss)
    for parameter, value in vars(loss).items():
        # A huge weight or width would take derivatives beyond what sums can hold.
        is_number = isinstance(value, (int, float, np.integer, np.floating))
        if not (is_number and abs(typing.cast("float", value)) <= layout.LARGEST) and value != {}:  # {}: no weights
            _loaded.fail(loss, parameter, "a finite number", value)
    if vars(_loaded.rebuilt(loss)) != vars(loss):
        _loaded.fail(owner, name, "a loss with its parameters alone", vars(loss))
    if not losses.is_known(loss) and not isinstance(loss, _river.MultiClassLoss):
        loss(True, 0.5), loss.gradient(True, 0.5)  # a width of 0 divides


def check_problem(run: typing.Any) -> None:
    """See that a run's set, optimizer, loss and random numbers are ones that a run can have."""
    from fwonline.optim.base import Optimizer  # which starts runs

    constraint = _loaded.kind(run, "constraint", sets.ConvexSet)
    constraint._check_loaded()
    _loaded.kind(run, "optimizer", Optimizer)._check_loaded()
    check_loss(run, "loss")
    size = constraint._scale(constraint.shape or (max(1, run.n_features),))
    _loaded.require(run, "constraint", size <= _LARGEST_SET, f"a set of points of at most {_LARGEST_SET:g}")
    _loaded.generator(run, "rng")


def check_run(run: typing.Any) -> None:
    """See that the parts of a run fit each other and its parameters."""
    check_problem(run)
    fresh = run._new_alike()
    for name in vars(run).keys() - vars(fresh).keys():
        del vars(run)[name]
    run._prepare()
    _check_scalars(run, fresh)
    _check_arrays(run)
    run._check_own()
    run._check_point()
    run._prepare()


def _check_scalars(run: typing.Any, fresh: typing.Any) -> None:
    """The numbers that parameters decide are those; the others are numbers that a run can have."""
    for name in run._decided:
        setattr(run.s, name, getattr(fresh.s, name))
    for name in run.state.dtype.names or ():
        value = getattr(run.s, name)
        if isinstance(value, float):
            good = math.isfinite(value) or name in _ANY_NUMBER or value == getattr(fresh.s, name)
            _loaded.require(run, name, good, "a finite number")
        elif name != "index":
            _loaded.require(run, name, 0 <= value <= _loaded.MOST, "a count")
    bounded(run, "dot", -HUGE, HUGE)
    bounded(run, "fit_intercept", 0, 1)
    bounded(run, "intercept", -HUGE, HUGE)
    bounded(run, "intercept_h", 0.0, HUGE)
    if 0.0 < run.s.intercept_h < LEAST_CURVATURE:
        run.s.intercept_h = LEAST_CURVATURE
    bounded(run, "w_scale", steps.SMALLEST_SCALE, 1.0)
    bounded(run, "u_scale", steps.SMALLEST_SCALE, 2.0)
    for name, (least, most) in run._within.items():
        bounded(run, name, least, most)


def _check_arrays(run: typing.Any) -> None:
    """Each array has the size that the others ask for, and holds what steps may follow or calculate with."""
    s, capacity = run.s, run.it.v.size
    bounded(run, "d", 0, capacity if run.fixed_dimension is None else min(capacity, run.fixed_dimension))
    bounded(run, "index", -2, max(0, s.d - 1))
    _by_feature(run, "v", run.it.v)
    _by_feature(run, "u", run.it.u)
    noise = run.draws.noise
    # What is drawn of them are positions.
    _loaded.require(run, "noise", ((noise >= 0.0) & (noise < 1.0)).all(), "numbers from 0 to below 1")
    bounded(run, "drawn", 0, noise.size)
    most = f"at most {_MOST_DRAWN} samples drawn at once"
    _loaded.require(run, "steps", s.steps * s.batch_size <= _MOST_DRAWN, most)
    row, n = run.row, int(run.row.indptr[1])
    idx, val = row.idx[:n], row.val[:n]
    good = (idx < s.d).all() and (np.abs(val) <= layout.LARGEST).all()
    _loaded.require(run, "last", good, f"values of the {s.d} features")
    for name, kept in run._kept.items():
        value = getattr(run.own, name)
        if kept.by == "feature":
            if run._keeps(name):
                _by_feature(run, name, value)
            else:
                _loaded.require(run, name, value.size == 0, "nothing")
        elif kept.by in ("list", "place") and run._keeps(name):
            _loaded.require(run, name, value.size == capacity, f"room for {capacity} coordinates")
        elif kept.by in ("sample", "entry"):
            size = run.mem.held.size if kept.by == "sample" else run.mem.val.size
            _loaded.require(run, name, value.size == size and (np.abs(value) <= HUGE).all(), f"{size} numbers")
        elif kept.by == "fixed":
            _loaded.require(run, name, len(value) == kept.size, f"{kept.size} numbers")


def _by_feature(run: typing.Any, name: str, value: NDArray) -> None:
    """An entry by feature; where no feature is, all is as a new one finds it."""
    _loaded.require(run, name, len(value) == run.it.v.size, f"{run.it.v.size} numbers")
    _loaded.require(run, name, (np.abs(value) <= HUGE).all(), f"numbers of at most {HUGE:g}")
    _loaded.require(run, name, not value[run.n_features :].any(), "0 where no feature is")


def check_listed(run: typing.Any) -> None:
    """``active`` lists coordinates, each once, and ``place`` finds them."""
    bounded(run, "nonzeros", 0, run.n_features)
    listed = run.own.active[: run.s.nonzeros]
    good = bool(((listed >= 0) & (listed < run.n_features)).all())
    expected = np.full(run.n_features, -1)
    if good:
        expected[listed] = np.arange(listed.size)
    good = good and np.array_equal(run.own.place[: run.n_features], expected)
    _loaded.require(run, "active", good, "coordinates, each once")


def check_point(run: typing.Any) -> None:
    """The iterate lies in its set, or has not begun."""
    w = run.s.w_scale * run.it.v[: run.n_features]
    is_start = not w.any() and not (run.s.t or run.s.warm)
    _loaded.require(run, "v", is_start or is_point(run, w), f"a point of {run.constraint}")
    # By this the first step of a compiled run is known to be one.
    if is_start and run.region.kind == layout.SIMPLEX and hasattr(run.s, "w_sq"):
        bounded(run, "w_sq", 0.0, 0.0)


def is_point(run: typing.Any, w: NDArray[np.float64]) -> bool:
    """Whether a vector of an entry by feature lies in the set, rounding apart."""
    shape = run.constraint.shape
    if not w.size:
        return True
    if shape is not None and w.size < math.prod(shape):
        whole = run.constraint.initial_point().ravel()
        whole[: w.size] = w
        w = whole
    return bool(run.constraint.contains(w, tol=1e-6))
