"""One completion of several that have learned parts of one stream: what of each goes into the whole."""

from __future__ import annotations

import dataclasses
import typing

import numpy as np

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fwonline.reco._ratings import Ratings

__all__ = ["Part", "parts_of"]

State = typing.TypeVar("State")


@dataclasses.dataclass(frozen=True)
class Part(typing.Generic[State]):
    """A matrix, where its rows and columns are in the whole, and its weights.

    An entry weighs `of_user[row] * of_item[column]`.
    """

    state: State
    rows: NDArray[np.integer]
    cols: NDArray[np.integer]
    of_user: NDArray[np.float64]
    of_item: NDArray[np.float64]


def parts_of(
    learned: Sequence[tuple[typing.Any, Ratings, NDArray[np.integer], NDArray[np.integer]]], shape: tuple[int, int]
) -> list[Part]:
    """What each state gives to the matrix over all users and items: the weights of an entry sum to at most 1.

    Users count where they were learned, by their ratings there, or items do: whichever the parts have divided more
    among themselves. Were the weights the same everywhere, a user whom one part alone has learned would have its row
    averaged with rows that nothing was learned of.

    Parameters
    ----------
    learned
        State, ratings, and where its users and items stand among all.
    shape
        How many users and items there are.
    """
    states = [state for state, *_ in learned]
    rows = [users[: state.seen[0]] for state, _, users, _ in learned]
    cols = [items[: state.seen[1]] for state, _, _, items in learned]
    of_user, users_apart = _weights([ratings.n_user for _, ratings, *_ in learned], rows, shape[0])
    of_item, items_apart = _weights([ratings.n_item for _, ratings, *_ in learned], cols, shape[1])
    if users_apart >= items_apart:
        of_item = [np.ones(at.size) for at in cols]
    else:
        of_user = [np.ones(at.size) for at in rows]
    return [Part(*part) for part in zip(states, rows, cols, of_user, of_item, strict=True)]


def _weights(
    counts: Sequence[NDArray[np.float64]], places: Sequence[NDArray[np.integer]], size: int
) -> tuple[list[NDArray[np.float64]], float]:
    """Each part's share of the ratings of each user, and how much of a rating's company is in its own part.

    The second is 1 where no user is in two parts, and about one over their number where all are everywhere.
    """
    counts = [count[: at.size] for count, at in zip(counts, places, strict=True)]
    total = np.zeros(size)
    for count, at in zip(counts, places, strict=True):
        total[at] += count
    weights = [count / total[at] for count, at in zip(counts, places, strict=True)]
    together = sum(float(weight @ count) for weight, count in zip(weights, counts, strict=True))
    return weights, together / float(total.sum())
