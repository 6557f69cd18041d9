r"""A smooth finite sum over samples: all that the batch algorithms ask of an objective.

.. math::
    f(x) = \frac1n \sum_{i=1}^n f_i(x), \qquad f_i(x) = \ell(y_i, z_i),

where the scores :math:`z_i` are :math:`\langle a_i, x \rangle` for a vector x, and :math:`x a_i`, one for each row,
for a matrix x. In both cases the gradient of :math:`f_i` is the derivative of :math:`\ell` in the scores times
:math:`a_i`, so that one class serves generalised linear models and multinomial regression, over dense and sparse rows.
"""

from __future__ import annotations

import abc
import math
import typing

import numpy as np

from fwonline import losses, sets
from fwonline._kernels import memory, scores
from fwonline._kernels.layout import jit
from fwonline.optim.problem.rounding import EPS, enclose

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Batch = NDArray[np.int64]
    # Which samples, and their scores -> the derivatives in the scores.
    Slopes = Callable[[typing.Any, Array], Array]
    Count = Callable[[int, bool], None]

__all__ = ["DenseRows", "FiniteSum", "Rows", "ScalarLoss", "ScoreLoss", "Softmax", "SparseRows"]

# Dense rows that are worked on at a time: few enough for a cache to hold them between the two products.
_AT_ONCE = 128


class ScoreLoss(abc.ABC):
    """A loss of scores, over arrays.

    Attributes
    ----------
    slope
        The largest Euclidean norm of the derivative in the scores, or None where there is no bound.
    curvature
        The largest eigenvalue of the second derivative in the scores, or None where there is no bound.
    """

    slope: float | None = None
    curvature: float | None = None

    @abc.abstractmethod
    def value(self, y: Array, z: Array) -> Array:
        """Losses, shape (n,)."""

    @abc.abstractmethod
    def derivative(self, y: Array, z: Array) -> Array:
        """Derivatives in the scores, of their shape."""

    @abc.abstractmethod
    def steepest(self, y: Array, z: Array, error: Array | float) -> Array:
        """The largest norm of each derivative where the scores are off by at most ``error``."""

    @abc.abstractmethod
    def sensitivity(self, y: Array, z: Array, steepest: Array) -> Array:
        """How far each value changes, at most, for a relative change by 1 of the numbers that it is computed from."""


class ScalarLoss(ScoreLoss):
    """A loss of one score a sample: a river loss, or any that :func:`fwonline.losses.vector_loss` takes."""

    def __init__(self, loss: typing.Any):
        self.loss = loss
        kind, p, q = losses.compiled(loss)
        self.slope = {
            losses.ABSOLUTE: 1.0,
            losses.HUBER: p,
            losses.QUANTILE: max(p, 1.0 - p),
            losses.EPSILON: 1.0,
            losses.LOG: max(p, q),
            losses.HINGE: 1.0,
            losses.FOCAL: 1.0,
            losses.SMOOTH_HINGE: 1.0,
            losses.LOG_RETURN: 1.0 / p if p else None,
        }.get(kind)
        self.curvature = {
            losses.SQUARED: 2.0,
            losses.HUBER: 1.0,
            losses.LOG: max(p, q) / 4.0,
            losses.FOCAL: p / 4.0,
            losses.SQUARED_HINGE: 2.0,
            losses.SMOOTH_HINGE: 1.0 / p if p else None,
            losses.LOG_RETURN: 1.0 / p**2 if p else None,
        }.get(kind)

    def value(self, y: Array, z: Array) -> Array:
        return losses.vector_loss(self.loss)[0](y, z)

    def derivative(self, y: Array, z: Array) -> Array:
        return losses.vector_loss(self.loss)[1](y, z)

    def steepest(self, y: Array, z: Array, error: Array | float) -> Array:
        if losses.compiled(self.loss)[0] == losses.CUSTOM:
            return np.abs(self.derivative(y, z))
        # Of a convex loss the derivative is the largest at an end.
        return np.maximum(np.abs(self.derivative(y, z - error)), np.abs(self.derivative(y, z + error)))

    def sensitivity(self, y: Array, z: Array, steepest: Array) -> Array:
        size = steepest * (np.abs(z) + np.abs(y))
        if losses.compiled(self.loss)[0] in (losses.POISSON, losses.CUSTOM):
            size += np.abs(y * z)  # which no value near 0 shows
        return size


class Softmax(ScoreLoss):
    """Cross entropy of the softmax of the scores, labels being positions of classes."""

    slope = math.sqrt(2.0)
    curvature = 0.5

    def value(self, y: Array, z: Array) -> Array:
        top = z.max(axis=1)
        return top + np.log(np.exp(z - top[:, None]).sum(axis=1)) - z[np.arange(len(z)), y.astype(np.intp)]

    def derivative(self, y: Array, z: Array) -> Array:
        p = probabilities(z)
        p[np.arange(len(z)), y.astype(np.intp)] -= 1.0
        return p

    def steepest(self, y: Array, z: Array, error: Array | float) -> Array:
        return np.full(len(z), self.slope)

    def sensitivity(self, y: Array, z: Array, steepest: Array) -> Array:
        return 2.0 * np.abs(z).max(axis=1) + z.shape[1]


def probabilities(z: Array) -> Array:
    """The softmax of each row, without overflow."""
    p = np.empty(z.shape)
    scores.softmax_rows(z, p)
    return p


@jit
def sparse_scores(rows, pool_idx, pool_val, batch, x, z):
    """z[i, c] = <x[c], row batch[i]>."""
    for i in range(batch.size):
        start = rows[batch[i], memory.START]
        stop = start + rows[batch[i], memory.LENGTH]
        for c in range(x.shape[0]):
            total = 0.0
            for k in range(start, stop):
                total += x[c, pool_idx[k]] * pool_val[k]
            z[i, c] = total


@jit
def add_sparse(rows, pool_idx, pool_val, batch, slopes, out):
    """out[c] += slopes[i, c] row batch[i]."""
    for i in range(batch.size):
        start = rows[batch[i], memory.START]
        stop = start + rows[batch[i], memory.LENGTH]
        for c in range(out.shape[0]):
            factor = slopes[i, c]
            if factor != 0.0:
                for k in range(start, stop):
                    out[c, pool_idx[k]] += factor * pool_val[k]


class Rows(abc.ABC):
    """The samples :math:`a_i`."""

    n: int
    largest: float  # the largest ||a_i||
    width: int  # the most entries of a sample

    @abc.abstractmethod
    def scores(self, x: Array, batch: Batch | None) -> Array:
        """The scores of some samples, or of all."""

    @abc.abstractmethod
    def accumulate(self, x: Array, batch: Batch | None, slopes: Slopes, out: Array) -> None:
        """Add the sum over samples of slope times row to ``out``, the slopes being asked for with the scores at x."""

    @abc.abstractmethod
    def add(self, batch: Batch, slopes: Array, out: Array) -> None:
        """Add slope times row, sample by sample, to ``out``."""


class DenseRows(Rows):
    """Samples as the rows of an array.

    Memory is what bounds these products, so rows go through the cache a few at a time, and float32 ones become float64
    only there.

    Parameters
    ----------
    X
        Samples x features, float32 or float64.
    """

    def __init__(self, X: NDArray):
        self.X = X
        self.n, self.width = X.shape
        squares = [np.einsum("ij,ij->i", rows, rows).max() for _, rows in self._few(None)]
        self.largest = math.sqrt(float(max(squares, default=0.0)))

    def _few(self, batch: Batch | None) -> Iterator[tuple[typing.Any, Array]]:
        """A few samples at a time: which, and their rows, valid until the next ones."""
        if batch is None:
            for start in range(0, self.n, _AT_ONCE):
                part = slice(start, start + _AT_ONCE)
                yield part, self.X[part].astype(np.float64, copy=False)
            return
        gathered = np.empty((min(_AT_ONCE, batch.size), self.X.shape[1]), dtype=self.X.dtype)
        for start in range(0, batch.size, _AT_ONCE):
            some = batch[start : start + _AT_ONCE]
            rows = np.take(self.X, some, axis=0, out=gathered[: some.size], mode="clip")
            yield some, rows.astype(np.float64, copy=False)

    def scores(self, x, batch):
        return np.concatenate([rows @ x.T for _, rows in self._few(batch)])

    def accumulate(self, x, batch, slopes, out):
        for some, rows in self._few(batch):
            out += slopes(some, rows @ x.T).T @ rows

    def add(self, batch, slopes, out):
        start = 0
        for some, rows in self._few(batch):
            out += slopes[start : start + some.size].T @ rows
            start += some.size


class SparseRows(Rows):
    """Samples as a memory holds them: where each starts, how long it is, and the entries of all.

    Parameters
    ----------
    rows
        Table of the samples, columns START and LENGTH of :mod:`fwonline._kernels.memory`.
    pool_idx, pool_val
        Positions and values of the entries.
    n
        How many samples of the table there are.
    largest
        The largest norm of a sample.
    """

    def __init__(self, rows: NDArray[np.int64], pool_idx: NDArray[np.uint32], pool_val: Array, n: int, largest: float):
        self.table = rows, pool_idx, pool_val
        self.n = n
        self.largest = largest

    @property
    def width(self) -> int:  # type: ignore[override]
        return int(self.table[0][: self.n, memory.LENGTH].max(initial=0))

    def scores(self, x, batch):
        batch = np.arange(self.n) if batch is None else batch
        matrix = np.atleast_2d(x)
        z = np.empty((batch.size, len(matrix)))
        sparse_scores(*self.table, batch, matrix, z)
        return z if x.ndim > 1 else z[:, 0]

    def accumulate(self, x, batch, slopes, out):
        batch = np.arange(self.n) if batch is None else batch
        self.add(batch, slopes(batch, self.scores(x, batch)), out)

    def add(self, batch, slopes, out):
        add_sparse(*self.table, batch, slopes[:, None] if slopes.ndim == 1 else slopes, np.atleast_2d(out))


class FiniteSum:
    """The mean of a loss over samples, its gradients counted as they are taken.

    Parameters
    ----------
    rows
        The samples.
    y
        Their targets, shape (n,).
    loss
        The loss of their scores.
    count
        Called with the derivatives of samples taken, and whether they are those of a whole gradient.
    intercept
        Added to every score.
    """

    def __init__(self, rows: Rows, y: Array, loss: ScoreLoss, count: Count | None = None, intercept: float = 0.0):
        self.rows = rows
        self.y = y
        self.loss = loss
        self._counted = count
        self.intercept = intercept
        self.n = rows.n

    def _sum(self, x: Array, batch: Batch | None, slopes: Slopes) -> Array:
        out = np.zeros(x.shape)
        self.rows.accumulate(x, batch, slopes, out)
        return out

    def _slope(self, part: typing.Any, z: Array) -> Array:
        return self.loss.derivative(self.y[part], z + self.intercept if self.intercept else z)

    def gradient(self, x: Array, batch: Batch | None = None, less: Array | None = None) -> Array:
        r"""The mean gradient at x over a batch, or over all samples.

        Parameters
        ----------
        x
            A point, shape (d,) or (k, d).
        batch
            Positions of samples, each as often as it was drawn; None for all of them: that is the exact gradient.
        less
            Derivatives by sample, shape (n,) or (n, k), to be taken from those at x: the difference that variance
            reduction asks for.
        """
        self._count(batch)
        size = self.n if batch is None else batch.size
        if less is None:
            return self._sum(x, batch, self._slope) / size
        return self._sum(x, batch, lambda part, z: self._slope(part, z) - less[part]) / size

    def snapshot(self, x: Array, slopes: Array) -> Array:
        """The exact gradient at x, times n, the derivatives of all samples being left in ``slopes``."""

        def keep(part: typing.Any, z: Array) -> Array:
            slopes[part] = self._slope(part, z)
            return slopes[part]

        self._count(None)
        return self._sum(x, None, keep)

    def _count(self, batch: Batch | None) -> None:
        if self._counted is not None:
            self._counted(self.n if batch is None else batch.size, batch is None)

    def slopes(self, x: Array, batch: Batch) -> Array:
        """Derivatives in the scores of some samples."""
        return self.slopes_at(self.rows.scores(x, batch), batch)

    def slopes_at(self, z: Array, batch: Batch) -> Array:
        """Derivatives at these scores of some samples."""
        self._count(batch)
        return self._slope(batch, z)

    def scores_of(self, atom: sets.Atom, batch: Batch) -> Array:
        """The scores of samples at an atom; a rank-one matrix is not formed for them."""
        if isinstance(atom, sets.RankOneAtom):
            return np.outer(self.rows.scores(np.ascontiguousarray(atom.v), batch), atom.sigma * atom.u)
        return self.rows.scores(atom.to_dense(), batch)

    # --- what is looked at, not learned from: nothing is counted ---

    def value(self, x: Array) -> float:
        """The objective at x."""
        return float(np.mean(self.loss.value(self.y, self.rows.scores(x, None) + self.intercept)))

    def exact_gradient(self, x: Array) -> Array:
        """The gradient at x, for a report."""
        return self._sum(x, None, self._slope) / self.n

    def measure(self, x: Array, constraint: typing.Any) -> tuple[float, float]:
        """The objective at x and its exact Frank-Wolfe gap over a set, both rounded up."""
        gradient = self.exact_gradient(x)
        atom = constraint.lmo(gradient)
        z = self.rows.scores(x, None) + self.intercept
        values, slopes = self.loss.value(self.y, z), self.loss.derivative(self.y, z)
        rows = self.rows.largest * (1.0 + self.rows.width * EPS)
        error = (self.rows.width + 3.0) * EPS * (rows * float(np.linalg.norm(x)) + abs(self.intercept))
        steepest = self.loss.steepest(self.y, z, error)
        alpha = np.abs(slopes) if slopes.ndim == 1 else np.linalg.norm(slopes, axis=1)
        return enclose(
            values,
            float(np.vdot(gradient, x) - atom.dot(gradient)),
            steepest=steepest,
            error=error,
            size=self.loss.sensitivity(self.y, z, steepest),
            gradient=gradient,
            gradient_error=(self.n + 8.0) * EPS * rows * float(np.mean(alpha)),
            w=x,
            atom=atom.to_dense(),
            diameter=constraint.diameter(x.shape),
        )
