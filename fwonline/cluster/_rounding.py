"""From the relaxation's matrix to clusters, and from one rounding's labels to the next's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

__all__ = ["assign", "lloyd", "matched", "means", "occupied", "places", "squares", "value"]

_MOST_ROUNDS = 50
_STARTS = 10

Points = NDArray[np.float64]


def squares(a: Points, b: Points) -> Points:
    """Squared distances of all pairs."""
    return np.maximum((a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2.0 * (a @ b.T), 0.0)


def assign(points: Points, centres: Points) -> NDArray[np.intp]:
    """The nearest centre of each point."""
    return np.argmin(squares(points, centres), axis=1)


def places(points: Points, count: int) -> NDArray[np.intp]:
    """A label for each point: the nearest of `count` places about which the points lie.

    Points that X has mixed lie at few places, many at each. Lloyd's iteration from several starts, the least sum of
    squared distances of all. The first start is greedy: the point that with those before it leaves the least; the
    others are drawn as k-means++ does, always the same way, so that the labels are a function of the points.
    """
    apart = squares(points, points)
    rng = np.random.default_rng(0)
    best, least = np.zeros(len(points), dtype=np.intp), np.inf
    for start in range(_STARTS):
        labels, cost = lloyd(points, points[_greedy(apart, count) if start == 0 else _spread(apart, count, rng)])
        if cost < least:
            best, least = labels, cost
    return best


def _greedy(apart: Points, count: int) -> list[int]:
    nearest = np.full(len(apart), np.inf)
    chosen = []
    for _ in range(count):
        chosen.append(int(np.argmin(np.minimum(apart, nearest).sum(axis=1))))
        nearest = np.minimum(nearest, apart[chosen[-1]])
    return chosen


def _spread(apart: Points, count: int, rng: np.random.Generator) -> list[int]:
    chosen = [int(rng.integers(len(apart)))]
    nearest = apart[chosen[0]]
    while len(chosen) < count:
        total = np.cumsum(nearest)
        place = int(np.searchsorted(total, rng.random() * total[-1], side="right"))
        chosen.append(min(place, len(apart) - 1))
        nearest = np.minimum(nearest, apart[chosen[-1]])
    return chosen


def lloyd(points: Points, centres: Points) -> tuple[NDArray[np.intp], float]:
    """Labels about centres that have become the means of their points, and the sum of squared distances to them."""
    labels = assign(points, centres)
    for _ in range(_MOST_ROUNDS):
        centres = means(points, labels, centres)
        before, labels = labels, assign(points, centres)
        if np.array_equal(labels, before):
            break
    return labels, float(((points - centres[labels]) ** 2).sum())


def means(points: Points, labels: NDArray[np.intp], otherwise: Points) -> Points:
    """The mean of each cluster; `otherwise` where there is no point."""
    members = (labels == np.arange(len(otherwise))[:, None]).astype(np.float64)
    counts = members.sum(axis=1)[:, None]
    return np.where(counts > 0.0, members @ points / np.maximum(counts, 1.0), otherwise)


def occupied(points: Points, labels: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Labels of which each has a point: one without takes the point that lies farthest from the mean of its others."""
    labels = labels.copy()
    for label in range(count):
        sizes = np.bincount(labels, minlength=count)
        if not sizes[label]:
            away = ((points - means(points, labels, np.zeros((count, points.shape[1])))[labels]) ** 2).sum(axis=1)
            labels[np.argmax(np.where(sizes[labels] > 1, away, -1.0))] = label
    return labels


def matched(centres: Points, before: Points) -> Points:
    """The centres in the order that moves them the least from those before."""
    return centres[linear_sum_assignment(squares(before, centres))[1]]


def value(points: Points, labels: NDArray[np.intp]) -> float:
    """<D, X> of a partition: twice the sum of squared distances to the clusters' means."""
    centres = means(points, labels, np.zeros((int(labels.max()) + 1, points.shape[1])))
    return 2.0 * float(((points - centres[labels]) ** 2).sum())
