"""What a running loop tells whoever watches it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fwonline.stream.base import Rejected

__all__ = ["Observer", "Report", "Start", "Summary"]


@dataclass(frozen=True)
class Start:
    """What is known before the first sample.

    Parameters
    ----------
    source
        The name of the source.
    model
        The model on one line.
    length
        How many items the source has from its very start, or None where that is not known.
    n
        Items that earlier runs of the same checkpoint took from the source; 0 for a fresh run.
    resumed_from
        The checkpoint file that was taken up, or None for a fresh run.
    position
        Where in the source the run starts.

    """

    source: str
    model: str
    length: int | None = None
    n: int = 0
    resumed_from: str | None = None
    position: Any = None


@dataclass(frozen=True)
class Report:
    """Where a run stands.

    Counts are of the whole stream, earlier runs included; `elapsed` and `rate` are of this run.

    Parameters
    ----------
    n
        Items taken from the source.
    n_predicted, n_learned
        Predictions made and samples learned.
    rejected
        Reason -> how many items were rejected for it.
    n_pending, n_expired, n_unmatched
        Questions that wait for their answer, questions given up, answers whose question is not known.
    elapsed
        Seconds of this run.
    rate
        Items a second since the report before.
    progress
        The part of the source that was read, from 0 to 1, or None where that is not known.
    lag
        How many items wait in the source, or None where that has no meaning.
    monitors
        What the monitors say, merged into one dict.
    lags
        `lag` by partition, where the source has any.

    """

    n: int
    n_predicted: int
    n_learned: int
    rejected: dict[str, int]
    n_pending: int
    n_expired: int
    n_unmatched: int
    elapsed: float
    rate: float
    progress: float | None
    lag: int | None
    monitors: dict[str, Any] = field(default_factory=dict)
    lags: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return one flat dict, as JSON can hold it: the fields, and the monitors' values under their own names.

        >>> report = Report(3, 3, 2, {"features": 1}, 0, 0, 0, 1.5, 2.0, None, None, {"Accuracy": 0.5})
        >>> report.to_dict()["rejected"], report.to_dict()["Accuracy"]
        (1, 0.5)
        """
        return {
            "n": self.n,
            "n_predicted": self.n_predicted,
            "n_learned": self.n_learned,
            "rejected": sum(self.rejected.values()),
            "n_pending": self.n_pending,
            "n_expired": self.n_expired,
            "n_unmatched": self.n_unmatched,
            "elapsed": self.elapsed,
            "rate": self.rate,
            "progress": self.progress,
            "lag": self.lag,
            **({"lags": self.lags} if self.lags else {}),
            **self.monitors,
        }


@dataclass(frozen=True)
class Summary:
    """How a run ended.

    Counts are of the whole stream, earlier runs included; `elapsed` and `rate` are of this run.

    Parameters
    ----------
    n
        Items taken from the source.
    n_predicted, n_learned
        Predictions made and samples learned.
    n_rejected
        Reason -> how many items were rejected for it.
    n_pending, n_expired, n_unmatched
        Questions that still wait, questions given up, answers whose question is not known.
    elapsed
        Seconds of this run.
    rate
        Items a second of this run.
    monitors
        What the monitors say in the end, merged into one dict.
    interrupted
        Whether a signal ended the run.
    position
        Where the source stands.

    """

    n: int
    n_predicted: int
    n_learned: int
    n_rejected: dict[str, int]
    n_pending: int
    n_expired: int
    n_unmatched: int
    elapsed: float
    rate: float
    monitors: dict[str, Any]
    interrupted: bool
    position: Any

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict, as JSON can hold it."""
        return {**vars(self), "n_rejected": dict(self.n_rejected), "monitors": dict(self.monitors)}

    def __str__(self) -> str:
        lines = [f"{self.n_learned:,} samples learned, {self.n_predicted:,} predicted, of {self.n:,} items"]
        lines[0] += f" ({self.elapsed:.1f} s, {self.rate:,.0f} a second)"
        if self.interrupted:
            lines[0] = f"interrupted: {lines[0]}"
        if self.n_rejected:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in self.n_rejected.items())
            lines.append(f"rejected: {reasons}")
        if self.n_pending or self.n_expired or self.n_unmatched:
            lines.append(
                f"questions: {self.n_pending:,} wait, {self.n_expired:,} expired; "
                f"{self.n_unmatched:,} answers without a question"
            )
        for name, value in self.monitors.items():
            lines.append(f"{name}: {f'{value:.6g}' if isinstance(value, float) else value}")
        return "\n".join(lines)


class Observer:
    """Watches a loop: a live view, a log. Override what is of interest; the rest does nothing.

    The calls come between two samples, from the thread that runs the loop. An observer that raises ends the run.

    Examples
    --------
    >>> class Log(Observer):
    ...     def on_report(self, report):
    ...         print(report.n, report.monitors)

    """

    def on_start(self, start: Start) -> None:
        """The loop is about to take its first item."""

    def on_report(self, report: Report) -> None:
        """A report is due; the last one comes right before `on_end`."""

    def on_rejected(self, rejected: Rejected, reason: str) -> None:
        """An item was rejected and the stream goes on. `reason` is the word it is counted under."""

    def on_checkpoint(self, path: str, n: int) -> None:
        """A checkpoint of the state after item `n` is safe on the disk."""

    def on_interrupt(self, signal_name: str) -> None:
        """A signal asked the loop to stop: it finishes the sample in hand."""

    def on_end(self, summary: Summary) -> None:
        """The loop is done."""
