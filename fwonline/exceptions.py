"""The errors of fwonline."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "CheckpointError",
    "DefinitionError",
    "FWOnlineError",
    "MonitorError",
    "SampleError",
    "SourceError",
    "TooManyRejectedError",
]


class FWOnlineError(Exception):
    """Base of every error that fwonline raises on purpose."""


class SampleError(FWOnlineError, ValueError):
    """A sample that no model may learn from: the message names the feature and what was expected.

    The model that raised it is exactly as it was before the sample.
    """


class TooManyRejectedError(FWOnlineError):
    """A run that ended because of how many of its items were rejected.

    Each was handled as `on_error` demands, and what was learned is in the last checkpoint.

    Parameters
    ----------
    message
        What share was rejected, of how many items, and the first reasons.
    reasons
        The first reasons alone, the oldest first.
    """

    def __init__(self, message: str, reasons: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.reasons = list(reasons)


class SourceError(FWOnlineError):
    """A source that cannot go on: a missing or empty file, a broken header, a broker that cannot be reached."""


class DefinitionError(FWOnlineError, ValueError):
    """A wrong stream definition: the message names the key and what was expected."""


class MonitorError(FWOnlineError, TypeError):
    """A monitor that cannot measure this model, or these labels: the message says what it needs."""


class CheckpointError(FWOnlineError):
    """A checkpoint that cannot be written, or must not be loaded: damaged, foreign or of another run."""
