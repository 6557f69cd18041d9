r"""Outward rounding: an objective and its gap as computed, and bounds that hold in exact arithmetic.

For a convex loss, a computed prediction :math:`\hat z_i` of a point w, slopes :math:`\alpha_i` there and
:math:`g = \frac1n \sum_i \alpha_i x_i`,

.. math:: F^* \ge \frac1n \sum_i \left( f(y_i, \hat z_i) - \alpha_i \hat z_i \right)
    + \min_{s \in C} \langle g, s \rangle,

whatever :math:`\hat z` is, since a convex function lies above its tangents. What the sums round away, and what
:math:`\hat z` is off, is bounded by the sizes of their terms (Higham 2002, chapters 3 and 4) and added to the side that
keeps ``fun - gap <= min <= fun`` true.
"""

from __future__ import annotations

import math
import typing

import numpy as np

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["EPS", "enclose"]

# Twice the unit roundoff: the second half pays for terms of second order and for the rounding of the bounds themselves.
EPS = float(np.finfo(np.float64).eps)


def enclose(
    values: Array,
    gap: float,
    *,
    steepest: Array,
    error: Array | float,
    size: Array,
    gradient: Array,
    gradient_error: float,
    w: Array,
    atom: Array,
    diameter: float,
) -> tuple[float, float]:
    """The objective and the gap, both rounded up so far that the bracket holds.

    Parameters
    ----------
    values
        Computed losses, shape (n,).
    gap
        <g, w - s> as computed.
    steepest
        The largest derivative of each loss within ``error`` of its prediction.
    error
        How far computed predictions may be from the true ones.
    size
        For each loss how far its value changes for a relative change by 1 of the numbers that it is computed from.
    gradient, gradient_error
        g as computed, and a bound of the Euclidean norm of its error.
    w, atom
        The point, and s.
    diameter
        Of the set.
    """
    n = values.size
    value, magnitude = float(np.mean(values)), float(np.mean(np.abs(values)))
    # Sums by pairs of blocks of 128, as numpy's are; a few roundings in the evaluation of each loss.
    evaluated = EPS * ((38.0 + math.log2(n)) * magnitude + 8.0 * float(np.mean(size)))
    moved = float(np.mean(steepest * error))
    # The point lies in the set up to a few roundings of its entries.
    outside = 4.0 * EPS * float(np.linalg.norm(gradient)) * float(np.abs(w).sum())
    up = evaluated + moved + outside
    # A dot product by a library adds up at least eight sums side by side.
    spread = float((np.abs(gradient) * (np.abs(w) + np.abs(atom))).sum())
    slack = 2.0 * up + gradient_error * diameter + (30.0 + w.size / 8.0) * EPS * spread
    if not slack:
        return value, max(gap, 0.0)
    fun = math.nextafter(value + up, math.inf)
    wide = max(gap, 0.0) + slack
    return fun, math.nextafter(wide + EPS * (abs(fun) + wide), math.inf)
