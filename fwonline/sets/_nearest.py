"""The nearest point of a polytope, from its linear minimisation oracle alone."""

from collections.abc import Callable

import numpy as np

from ._numeric import euclidean_norm
from .atoms import Array

__all__ = ["nearest_point"]


def nearest_point(oracle: Callable[[Array], Array], x: Array, scale: float) -> Array:
    """Return the point nearest to `x` in the convex hull of the oracle's answers.

    Wolfe's algorithm: keep a few affinely independent vertices and the nearest point of their hull, which has positive
    weights on all; ask the oracle for the vertex furthest towards `x`; move to the nearest point of the affine hull of
    them all, dropping the vertices whose weights would turn negative on the way. It ends after finitely many steps.

    Wolfe 1976, "Finding the nearest point in a polytope", https://doi.org/10.1007/BF01580381

    Parameters
    ----------
    oracle
        Maps a direction g to a vertex that minimises <s, g>.
    x
        A finite point.
    scale
        Size of the polytope's vertices. What is 1e-14 of it counts as rounding: a point so near is its own answer.
    """
    corners = oracle(np.zeros_like(x))[None]
    weights = np.ones(1)
    point, before, reached = None, x, 1.0
    while True:
        candidate = weights @ corners
        away = candidate - x
        length = euclidean_norm(away)
        if length <= 1e-14 * scale:
            return x.copy()
        away /= length
        # |point - x|^2 - |candidate - x|^2 over |point - x|, not the difference of two distances: x may be far away.
        # Where only rounding is left of it, this is the end.
        if point is not None and np.dot(point - candidate, before + away * (length / reached)) <= 1e-16 * scale:
            return point
        point, before, reached = candidate, away, length
        corner = oracle(away)
        if np.dot(away, point - corner) <= 1e-14 * scale or (corners == corner).all(axis=1).any():
            return point
        corners = np.vstack([corners, corner])
        weights = np.append(weights, 0.0)
        while True:
            affine = _affine_weights(corners, x)
            if (affine > 1e-14).all():
                weights = affine
                break
            outward = affine <= 1e-14
            ratios = weights[outward] / np.maximum(weights[outward] - affine[outward], 1e-300)
            weights = weights + min(1.0, float(ratios.min())) * (affine - weights)
            weights[np.flatnonzero(outward)[ratios.argmin()]] = 0.0
            kept = weights > 1e-14
            corners, weights = corners[kept], weights[kept] / weights[kept].sum()


def _affine_weights(corners: Array, x: Array) -> Array:
    """Return the weights, of sum 1 and any sign, of the point nearest to x in the affine hull of the corners."""
    edges = (corners[1:] - corners[0]).T
    others = np.linalg.lstsq(edges, x - corners[0], rcond=None)[0]
    return np.concatenate([[1.0 - others.sum()], others])
