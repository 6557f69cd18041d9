"""Many rows of a stream at once: numbers in a matrix, which need no object of Python for each."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["Block"]


class Block:
    """Consecutive rows of a source, each of which is a sample of numbers with a target.

    A source that can (`Source.blocks`) yields a block where it would have yielded that many samples one by one. A row
    that is anything else (broken, without its target, with text or a missing value among its features) is in no block:
    it comes as the `Sample` or `Rejected` that it is, in its place.

    A block may be cut at any row. The reader notes in `taken` how many rows it has used, and the source's `position` is
    the place behind the last of them. Where rows are left when the reader asks for the next item, that is the first of
    them, as a `Sample`; what follows comes as a block again. So whatever a model refuses is met by the same code as in
    a stream of samples.

    Parameters
    ----------
    X
        The values: a matrix of n rows, dense and C-contiguous (every row has every feature) or CSR (a row has the
        features that it stores, zeros among them too).
    y
        The targets, shape (n,), of the types that `Sample.y` has: an array of floats, ints or booleans, or of objects.
    origins
        Returns the places of the rows from one to another in the source, as `Sample.origin` gives them.
    names
        The features' names, one a column; None: column j is the feature named j.
    keys, times
        Of each row, as in `Sample`; None where no row has any.

    Attributes
    ----------
    taken
        How many rows the reader has used; 0 at first.
    """

    def __init__(
        self,
        X: NDArray[np.float64] | sparse.csr_array,
        y: NDArray[Any],
        origins: Callable[[int, int], list[str]],
        names: Sequence[Hashable] | None = None,
        keys: Sequence[Hashable | None] | None = None,
        times: NDArray[np.float64] | None = None,
    ) -> None:
        self.X = X
        self.y = y
        self.origins = origins
        self.names = names
        self.keys = keys
        self.times = times
        self.taken = 0

    def __len__(self) -> int:
        return len(self.y)
