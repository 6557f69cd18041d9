"""Where results go: JSON lines, CSV, a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fwonline.stream.base import Sink

__all__ = ["CallbackSink"]


class CallbackSink(Sink):
    """Hands each record to a function.

    Parameters
    ----------
    function
        Called with the record, a dict of its own.
    name
        What the sink is called in messages; by default the function's name.

    Examples
    --------
    >>> from fwonline import stream
    >>> records = []
    >>> sink = stream.CallbackSink(records.append)
    >>> sink.write({"n": 1})
    >>> records
    [{'n': 1}]

    """

    def __init__(self, function: Callable[[dict[str, Any]], Any], name: str | None = None) -> None:
        if not callable(function):
            raise TypeError(f"expected a function of one record, found {type(function).__name__}")
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__) if name is None else name

    def write(self, record: dict[str, Any]) -> None:
        self.function(dict(record))
