"""What the encoder and the decoder of a document share."""

from __future__ import annotations

import collections
import datetime
import operator
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from fwonline.exceptions import CheckpointError

# Raised with every change after which older files cannot be read.
FORMAT = 2
_WRITTEN_BY = {1: " by version 0.1.0 of fwonline"}

INT64 = 1 << 63
MAX_DEPTH = 100  # of tuples within tuples: each level is a frame of the reader
# river's windows in Rust take their memory when they are created, and a failed allocation there ends the process.
_MAX_RUST_ENTRIES = 1 << 25

BIT_GENERATORS = {
    cls.__name__: cls
    for cls in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}
SPARSE = {
    cls.__name__: cls
    for cls in (
        *(scipy.sparse.csr_matrix, scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.csc_array),
        *(scipy.sparse.bsr_matrix, scipy.sparse.bsr_array),
    )
}
# Containers with their own lines, by the name in a document.
SEQUENCES: dict[str, type] = {"list": list, "set": set, "deque": collections.deque}
MAPPINGS: dict[str, type] = {
    **{"dict": dict, "odict": collections.OrderedDict},
    **{"counter": collections.Counter, "ddict": collections.defaultdict},
}
# Immutable values that their constructor makes again from these arguments.
VALUES: dict[type, Callable[[Any], tuple]] = {
    complex: lambda v: (v.real, v.imag),
    range: lambda v: (v.start, v.stop, v.step),
    slice: lambda v: (v.start, v.stop, v.step),
    statistics.NormalDist: lambda v: (v.mean, v.stdev),
    datetime.timedelta: lambda v: (v.days, v.seconds, v.microseconds),
    datetime.date: lambda v: (v.year, v.month, v.day),
    datetime.time: lambda v: (v.hour, v.minute, v.second, v.microsecond, v.tzinfo),
    datetime.datetime: lambda v: (v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond, v.tzinfo),
    operator.itemgetter: lambda v: v.__reduce__()[1],
    datetime.timezone: lambda v: (v.utcoffset(None),),
}


def is_rust(cls: type) -> bool:
    """Whether a class is written in Rust."""
    return cls.__module__.startswith("river._river_rust")


def count_entries(total: int, arguments: Sequence[Any]) -> int:
    """Add the sizes among a Rust class's arguments to `total`, and return it. Raises CheckpointError beyond a limit."""
    total += sum(argument for argument in arguments if type(argument) is int and argument > 0)
    if total > _MAX_RUST_ENTRIES:
        raise CheckpointError(
            f"windows of river of more than {_MAX_RUST_ENTRIES:,} entries do not go into a checkpoint"
        )
    return total


def check_format(found: Any) -> None:
    """Refuse a document of another format.

    Raises CheckpointError saying which format was found, which one is read, and what can be done.
    """
    if found != FORMAT:
        by = _WRITTEN_BY.get(found, "")
        raise CheckpointError(
            f"the checkpoint was written in format {found}{by}; this version reads format {FORMAT} only: go on with "
            "the version that wrote it, or start a new run (--fresh on the command line, resume=False in Python)"
        )
