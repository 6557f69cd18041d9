"""Objects as arrays and JSON: what a checkpoint is written in.

A document is a table of objects in JSON, followed by the raw bytes of its arrays. Whatever has an identity (lists,
dicts, arrays, instances) has one line in the table and is referred to by its number, so that what was shared stays
shared and cycles close. An instance is the name of its class and its state. There is no pickle: reading a document
creates empty objects of allowed classes (`fwonline`'s, river's, and those given to `register`) and fills in their
attributes; no constructor that the file chooses is called, except of the few classes of river that can be rebuilt in no
other way, and of fwonline's own values (sets, losses, schedules, optimizers), which check their parameters so.

Loading is safe in the sense that a file runs no code and takes memory in proportion to its size. Once all is there,
objects of fwonline check themselves: every index lies within its array, every point in its set, numbers are finite and
parts fit each other, or a CheckpointError names the class and the attribute. What loads works; whether the model is a
good one is another question.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from fwonline.checkpoint.allowed import register
from fwonline.checkpoint.decoder import Decoder
from fwonline.checkpoint.document import FORMAT
from fwonline.checkpoint.encoder import Encoder
from fwonline.exceptions import CheckpointError

__all__ = ["dumps", "encode", "loads", "register"]


def dumps(value: Any) -> bytes:
    """Return `value` as a document.

    Parameters
    ----------
    value
        None, bool, int, float, str, bytes; tuples, named tuples, lists, dicts with any hashable keys, sets, deques,
        Counters, defaultdicts, OrderedDicts; datetimes; numpy arrays (of no objects), scalars and generators; scipy
        CSR, CSC and BSR matrices; `random.Random`; instances of classes of river, of fwonline and of
        registered ones; their bound methods; `functools.partial` of these.

    Raises
    ------
    CheckpointError
        When something else is found; the message says where (`model.steps['FuncTransformer'].func`).

    Examples
    --------
    >>> import numpy as np
    >>> shared = np.arange(3.0)
    >>> again = loads(dumps({("a", 1): shared, "b": [shared]}))
    >>> again[("a", 1)], again["b"][0] is again[("a", 1)]
    (array([0., 1., 2.]), True)
    >>> dumps({"f": lambda x: x})
    Traceback (most recent call last):
    ...
    fwonline.exceptions.CheckpointError: f cannot be saved: it is a function (<lambda>); ...
    """
    return b"".join(encode(value))


def encode(value: Any) -> list[Any]:
    """Return the document of `dumps` in parts, for writing without a copy. The parts are views: write them at once."""
    encoder = Encoder()
    root = encoder.encode(value)
    document = {
        "format": FORMAT,
        "root": root,
        "objects": encoder.objects,
        "order": encoder.order(),
        "blobs": [len(blob) for blob in encoder.blobs],
    }
    try:
        text = msgspec.json.encode(document)
    except (UnicodeEncodeError, RecursionError) as error:
        raise CheckpointError(f"the state cannot be written as JSON: {error}") from error
    return [len(text).to_bytes(8, "little"), text, *encoder.blobs]


def loads(data: bytes | memoryview, into: Any = None) -> Any:
    """Return the value of a document.

    Parameters
    ----------
    data
        What `dumps` returned.
    into
        The same structure as the value, with objects to bring to the saved state in place: wherever it has an instance
        of the same class as the document, that instance is filled instead of a new one. Nothing in it is touched unless
        the whole document can be read. A function is called with the value and returns that structure, or raises.

    Raises
    ------
    CheckpointError
        If `data` is no document or names what is not allowed in one.

    Examples
    --------
    >>> from river import stats
    >>> mean = stats.Mean()
    >>> mean.update(2.0)
    >>> document = dumps(mean)
    >>> mean.update(5.0)
    >>> loads(document, into=mean) is mean, mean.get()
    (True, 2.0)
    """
    try:
        decoder = Decoder(memoryview(data))
        value = decoder.build({})
        if into is not None:
            presets: dict[int, Any] = {}
            _pair(decoder, value, into(value) if callable(into) else into, presets, set())
            value = decoder.build(presets)
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(f"the checkpoint cannot be read: {type(error).__name__}: {error}") from error
    except BaseException as error:
        # A panic in river's Rust derives from BaseException, unlike anything else that belongs to a bad file.
        if type(error).__module__ != "pyo3_runtime":
            raise
        raise CheckpointError(f"the checkpoint cannot be read: {error}") from error
    return value


def _pair(decoder: Decoder, loaded: Any, existing: Any, presets: dict[int, Any], seen: set[int]) -> None:
    """Find which of the existing objects stands where each loaded one does."""
    if type(loaded) is not type(existing) or id(loaded) in seen or id(existing) in seen:
        return
    if isinstance(loaded, dict):
        pairs: Iterable[tuple[Any, Any]] = [(loaded[k], existing[k]) for k in loaded if k in existing]
    elif isinstance(loaded, (list, tuple)):
        pairs = list(zip(loaded, existing, strict=False))
    elif (index := decoder.index_of(loaded)) is not None:
        presets[index] = existing
        pairs = [(value, vars(existing)[name]) for name, value in vars(loaded).items() if name in vars(existing)]
    else:
        return
    seen.update((id(loaded), id(existing)))
    for one, other in pairs:
        _pair(decoder, one, other, presets, seen)
