r"""CndG, the sub-routine of conditional gradient sliding (Lan, Zhou 2016): a proximal step without a projection.

It minimises :math:`\phi(x) = \langle g, x \rangle + \frac\beta2 \|x - u\|^2` over the set by Frank-Wolfe steps with
exact line search, and ends when its Frank-Wolfe gap is at most :math:`\eta`. No projection is made.
"""

from __future__ import annotations

import typing

import numpy as np

from fwonline.optim.runs.method import distance_sq, move_towards

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from fwonline.sets import Atom

    Array = NDArray[np.float64]

__all__ = ["CndG", "cndg"]


class CndG(typing.NamedTuple):
    """What CndG returns.

    Attributes
    ----------
    x
        The point u^+.
    gap
        Its Frank-Wolfe gap on the sub-problem.
    first
        The first atom, which minimises <g, .>.
    steps
        Linear minimisations made.
    """

    x: Array
    gap: float
    first: Atom
    steps: int


def cndg(g: Array, u: Array, beta: float, eta: float, lmo: Callable[[Array], Atom], limit: int | None = None) -> CndG:
    r"""Minimise :math:`\langle g, x \rangle + \frac\beta2 \|x - u\|^2` over a set up to a Frank-Wolfe gap of eta.

    Parameters
    ----------
    g
        The gradient, of the iterate's shape.
    u
        A point of the set: the centre, and the start.
    beta
        Weight of the distance, > 0.
    eta
        The gap to reach, > 0; where rounding keeps the gap above it, the best that can be had is returned.
    lmo
        The set's oracle.
    limit
        Linear minimisations at most, >= 1; None for as many as it takes, which is at most
        :math:`\lceil 6 \beta D^2 / \eta \rceil`.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import sets
    >>> from fwonline.optim.variance_reduced.cndg import cndg
    >>> ball = sets.L1Ball(1.0)
    >>> found = cndg(np.array([-3.0, -2.0]), np.zeros(2), 4.0, 1e-3, ball.lmo)
    >>> found.x.round(1), bool(found.gap <= 1e-3)
    (array([0.6, 0.4]), True)
    """
    x = u.copy()
    first = None
    steps = 0
    while True:
        h = g + beta * (x - u)
        v = lmo(h)  # v_t = argmax <h, u_t - v>
        steps += 1
        first = v if first is None else first
        towards = float(np.vdot(h, x))
        gap = towards - v.dot(h)  # V(u_t)
        rounding = 8 * np.finfo(float).eps * (abs(towards) + abs(gap - towards))
        if gap <= max(eta, rounding) or steps == limit:
            return CndG(x, gap, first, steps)
        # alpha_t = min(1, <beta (u - u_t) - g, v_t - u_t> / (beta ||v_t - u_t||^2)), whose numerator is the gap
        move_towards(x, v, min(1.0, gap / (beta * distance_sq(x, v))))
