r"""A finite sum over samples, data times loss: all that the algorithms ask of an objective.

.. math::
    f(x) = \frac1n \sum_{i=1}^n f_i(x), \qquad f_i(x) = \ell(y_i, z_i),

where the scores :math:`z_i` are :math:`\langle a_i, x \rangle` for a vector x, and :math:`x a_i`, one for each row,
for a matrix x. In both cases the gradient of :math:`f_i` is the derivative of :math:`\ell` in the scores times
:math:`a_i`, so that one class serves generalised linear models and multinomial regression, over dense and sparse
samples, in memory and on disk.
"""

from __future__ import annotations

import typing

import numpy as np

from fwonline import sets
from fwonline.optim.problem.rounding import EPS, enclose

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from fwonline.optim.problem.columns import ByColumns
    from fwonline.optim.problem.data import ByRows, Data, Slopes
    from fwonline.optim.problem.score_loss import ScoreLoss

    Array = NDArray[np.float64]
    Batch = NDArray[np.int64]
    Count = Callable[[int, bool], None]

__all__ = ["FiniteSum"]


class FiniteSum:
    """The mean of a loss over samples; gradients that are learned from are counted as they are taken.

    Parameters
    ----------
    data
        The samples, by rows where batches are taken of them, by columns where atoms are.
    y
        Their targets, shape (n,).
    loss
        The loss of their scores.
    count
        Called with the derivatives of samples taken, and whether they are those of a whole gradient.
    intercept
        Added to every score.
    """

    def __init__(self, data: Data, y: Array, loss: ScoreLoss, count: Count | None = None, intercept: float = 0.0):
        self.data = data
        self.y = y
        self.loss = loss
        self.count = count
        self.intercept = intercept
        self.n = data.shape[0]

    @property
    def rows(self) -> ByRows:
        return typing.cast("ByRows", self.data)

    @property
    def columns(self) -> ByColumns:
        return typing.cast("ByColumns", self.data)

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
        """The exact gradient at x, times n; the derivatives of all samples are left in ``slopes``."""

        def keep(part: typing.Any, z: Array) -> Array:
            slopes[part] = self._slope(part, z)
            return slopes[part]

        self._count(None)
        return self._sum(x, None, keep)

    def _count(self, batch: Batch | None) -> None:
        if self.count is not None:
            self.count(self.n if batch is None else batch.size, batch is None)

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

    # --- what is reported, not learned from: nothing is counted ---

    def value(self, x: Array) -> float:
        """The objective at x."""
        return float(np.mean(self.loss.value(self.y, self.data.times(x) + self.intercept)))

    def exact_gradient(self, x: Array) -> Array:
        """The gradient at x."""
        return self._sum(x, None, self._slope) / self.n

    def measure(self, x: Array, constraint: sets.ConvexSet) -> tuple[float, float]:
        """The objective at x and its exact Frank-Wolfe gap over a set, both rounded up."""
        z = self.data.times(x) + self.intercept
        alpha = self.loss.derivative(self.y, z)
        gradient = self.data.transposed(alpha) / self.n
        return self.enclose(x, z, alpha, gradient, constraint.lmo(gradient), constraint.diameter(x.shape))

    def enclose(
        self, x: Array, z: Array, alpha: Array, gradient: Array, atom: sets.Atom, diameter: float
    ) -> tuple[float, float]:
        """The objective at x and its gap towards an atom, from the scores there, their slopes and the gradient."""
        error, gradient_error = self.data.rounding(x, alpha)
        error = error + 3.0 * EPS * abs(self.intercept)
        steepest = self.loss.steepest(self.y, z, error)
        return enclose(
            self.loss.value(self.y, z),
            float(np.vdot(gradient, x) - atom.dot(gradient)),
            steepest=steepest,
            error=error,
            size=self.loss.sensitivity(self.y, z, steepest),
            gradient=gradient,
            gradient_error=gradient_error,
            w=x,
            atom=atom.to_dense(),
            diameter=diameter,
        )
