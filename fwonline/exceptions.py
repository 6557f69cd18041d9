"""The errors of fwonline, each written for the person who meets it."""

__all__ = ["CheckpointError", "DefinitionError", "FWOnlineError", "SampleError", "SourceError"]


class FWOnlineError(Exception):
    """Base of every error that fwonline raises on purpose."""


class SampleError(FWOnlineError, ValueError):
    """A sample that no model may learn from: the message names the feature and what was expected.

    The model that raised it is exactly as it was before the sample.
    """


class SourceError(FWOnlineError):
    """A source that cannot go on: a missing or empty file, a broken header, a broker that does not answer."""


class DefinitionError(FWOnlineError, ValueError):
    """A stream definition that does not say what it must: the message names the key and what was expected."""


class CheckpointError(FWOnlineError):
    """A checkpoint that cannot be written, or must not be loaded: damaged, foreign or of another run."""
