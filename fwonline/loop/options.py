"""The options that an event loop and a worker of a group share, in three small objects."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from fwonline.stream.base import Sink

__all__ = ["BadSamples", "Options", "Questions", "Timing"]


@dataclass(frozen=True, kw_only=True)
class BadSamples:
    """What happens to samples that the model must not learn.

    Parameters
    ----------
    on_error
        ``"raise"``, ``"skip"`` or ``"dead-letter"``, which is "skip" with a `dead_letter` sink that must be there.
    dead_letter
        A sink for rejected items.
    max_rejected_share
        The largest share of rejected items, from 0 to 1, with which a run that does not raise goes on. It is the share
        of the last 1,000 items, checked once 100 have come and at the end of the stream or the limit; above it the run
        ends with `TooManyRejectedError`, after a checkpoint. None, as 1: any share.
    check_values
        Whether to check values before the model gets them. Without it, numbers that are not finite go to the model.
    """

    on_error: str = "raise"
    dead_letter: Sink | None = None
    max_rejected_share: float | None = 0.5
    check_values: bool = True

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "skip", "dead-letter"):
            raise ValueError(f"on_error must be 'raise', 'skip' or 'dead-letter', found {self.on_error!r}")
        has_sink = self.dead_letter is not None
        if (self.on_error == "dead-letter" and not has_sink) or (self.on_error == "raise" and has_sink):
            if not has_sink:
                raise ValueError("on_error='dead-letter' keeps what is rejected: dead_letter must be a sink or a file")
            raise ValueError("dead_letter keeps what is rejected, and on_error='raise' rejects nothing: drop one")
        if self.max_rejected_share is not None and not 0 <= self.max_rejected_share <= 1:
            raise ValueError(f"max_rejected_share must be from 0 to 1, found {self.max_rejected_share!r}")


@dataclass(frozen=True, kw_only=True)
class Questions:
    """How long samples wait for a target that comes later.

    Parameters
    ----------
    max_pending
        How many questions may wait; one more removes the oldest.
    expire_items
        After how many further items a question expires; None: never.
    expire_seconds
        After how much event time a question expires; None: never. Event time is the latest seen, except for a time more
        than a hundred times `expire_seconds` away from it: that one counts when the next item confirms it. Questions
        that came out of order expire when they are the oldest, never too early.
    max_early
        How many answers may wait for a question that is still to come, as happens where questions and answers are two
        topics; they expire as questions do, and count as unmatched. By default none waits.
    """

    max_pending: int = 100_000
    expire_items: int | None = None
    expire_seconds: float | None = None
    max_early: int = 0

    def __post_init__(self) -> None:
        _check_positive(self, "max_pending", "expire_items", "expire_seconds")
        if self.max_early < 0:
            raise ValueError(f"max_early must not be negative, found {self.max_early!r}")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How often a loop writes checkpoints and reports, and whether it takes many rows at a time.

    Parameters
    ----------
    checkpoint_every, checkpoint_samples
        Seconds or items between two checkpoints; by default 30 seconds, for a worker of a group 10.
    report_every, report_samples
        Seconds or items between two reports; by default a second, and reports at 1, 2, 5, 10, 20, ... items.
    blocks
        Whether rows are taken in blocks where source, model and monitors can: some ten times as fast, and with the same
        results (values are floats in blocks: river's `MinMaxScaler` then keeps 3.0 where a sample had the whole number
        3). Without it every row comes by itself.
    """

    checkpoint_every: float | None = None
    checkpoint_samples: int | None = None
    report_every: float | None = None
    report_samples: int | None = None
    blocks: bool = True

    def __post_init__(self) -> None:
        _check_positive(self, "checkpoint_every", "checkpoint_samples", "report_every", "report_samples")


def _check_positive(options: Any, *names: str) -> None:
    for name in names:
        if (value := getattr(options, name)) is not None and not value > 0:
            raise ValueError(f"{name} must be positive, found {value!r}")


@dataclass(frozen=True)
class Options:
    """All three, with keywords given flat in place of a field of one of them."""

    bad_samples: BadSamples
    questions: Questions
    timing: Timing

    @classmethod
    def of(
        cls,
        flat: dict[str, Any],
        bad_samples: BadSamples | None,
        questions: Questions | None,
        timing: Timing | None,
    ) -> Options:
        """Return the objects, each with those of the keywords `flat` that are its fields.

        Raises
        ------
        TypeError
            For a keyword that is a field of none.
        ValueError
            For a value that its field cannot have.
        """
        parts: list[Any] = []
        for part in (bad_samples or BadSamples(), questions or Questions(), timing or Timing()):
            names = [field.name for field in dataclasses.fields(part) if field.name in flat]
            parts.append(dataclasses.replace(part, **{name: flat[name] for name in names}))
        known = [field.name for part in parts for field in dataclasses.fields(part)]
        if unknown := [name for name in flat if name not in known]:
            raise TypeError(f"unknown keyword {unknown[0]!r}; expected one of: {', '.join(known)}")
        return cls(*parts)
