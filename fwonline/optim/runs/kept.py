"""What an array of an algorithm's own holds, so that it grows, shrinks, is saved and checked as the others are.

And what a run does not keep: it is made of the parameters when it is first asked for.
"""

from __future__ import annotations

import typing

import numpy as np

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BY_FEATURE", "PREVIOUS", "Kept", "Previous", "prepared"]

BY_FEATURE = ("feature", "mark", "list", "place")


class Kept(typing.NamedTuple):
    """What an array of an algorithm's own holds.

    ``by`` is "feature", "sample" or "entry" (of the pool) for one number each; "mark" for 0 or 1 of a feature; "list"
    for coordinates, each once, and "place" for where in that list each coordinate stands, -1 for nowhere; "fixed" for
    what never changes its size; anything else for what the algorithm itself resizes and checks.
    """

    by: str
    columns: int = 0
    is_point: bool = False  # of the set, or near it: a feature that weighs something there is not given up
    on_dense: bool = False  # kept on sets of dense atoms alone
    follows: bool = False  # in a new feature it is where the iterate starts there
    size: int = 0

    def empty(self) -> NDArray:
        dtype = np.int64 if self.by in ("list", "place", "mark") else np.float64
        if self.by == "matrix":
            return np.zeros((0, 0))
        return np.zeros((self.size, self.columns) if self.columns else self.size, dtype)


class Previous(typing.NamedTuple):
    """The iterate before the last step, on sets whose atoms are dense; elsewhere that step's atom tells it."""

    old: NDArray


PREVIOUS = {"old": Kept("feature", is_point=True, on_dense=True)}


class _Prepared:
    """An attribute that ``_prepare`` makes, when it is first asked for.

    Not ``__getattr__``, with which every look-up of an attribute would be slow.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, run: typing.Any, owner: type | None = None) -> typing.Any:
        if run is None:
            return self
        run._prepare()
        return vars(run)[self._name]


prepared: typing.Any = _Prepared
