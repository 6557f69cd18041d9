"""What a running loop reports to its observers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fwonline.stream.base import Rejected

__all__ = ["Counts", "Observer", "Report", "Road", "Start", "Summary"]


@dataclass
class Counts:
    """What a loop has counted, earlier runs of its checkpoint included.

    Parameters
    ----------
    n
        Items taken from the source.
    n_predicted, n_learned
        Predictions made and samples learned.
    n_expired, n_unmatched
        Questions that expired, and answers whose question is not known.
    n_rejected
        Reason -> how many items were rejected for it.
    """

    n: int = 0
    n_predicted: int = 0
    n_learned: int = 0
    n_expired: int = 0
    n_unmatched: int = 0
    n_rejected: Counter[str] = field(default_factory=Counter)

    def add(self, n: int, played: int) -> int:
        """Set `n`, and add samples that were predicted and learned; return 0, for the caller's counter."""
        self.n = n
        self.n_predicted += played
        self.n_learned += played
        return 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: value + vars(other)[name] for name, value in vars(self).items()})

    def __sub__(self, other: Counts) -> Counts:
        return Counts(**{name: value - vars(other)[name] for name, value in vars(self).items()})


@dataclass(frozen=True)
class Road:
    """How rows come to the model.

    Parameters
    ----------
    in_blocks
        Whether they come many at a time, where they are in order; else one by one.
    why
        Why they come one by one.
    is_slower
        Whether the source would have given blocks, had the rest been able to take them.
    """

    in_blocks: bool
    why: str = ""
    is_slower: bool = False

    def __str__(self) -> str:
        return "rows come in blocks" if self.in_blocks else f"rows come one by one: {self.why}"


@dataclass(frozen=True)
class Start:
    """What is known before the first sample: the names of source and model, and where the run starts.

    Parameters
    ----------
    source, model
        The name of the source, and the model on one line.
    length
        How many items the source has from its very start, or None where that is not known.
    n, position
        Items that earlier runs of the same checkpoint took from the source, and the position behind them.
    resumed_from
        The checkpoint file from which the run goes on, or None for a new run.
    road
        How rows come to the model.
    """

    source: str
    model: str
    length: int | None = None
    n: int = 0
    resumed_from: str | None = None
    position: Any = None
    road: Road = Road(False)


@dataclass(frozen=True, kw_only=True)
class _Standing:
    """What a report and a summary have in common."""

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


@dataclass(frozen=True, kw_only=True)
class Report(_Standing):
    """Where a run stands.

    Parameters
    ----------
    n, n_predicted, n_learned, n_rejected, n_expired, n_unmatched
        As in `Counts`.
    n_pending
        Questions that wait for their answer.
    elapsed
        Seconds of this run.
    rate
        Items a second since the last report.
    monitors
        The values of all monitors in one dict.
    progress
        The part of the source that was read, from 0 to 1, or None where that is not known.
    lag
        How many items wait in the source, or None where that has no meaning.
    lags
        `lag` by partition, where the source has any.
    loss
        The mean loss of the samples learned since the last report, or None where the model keeps no sum of its losses.
    n_checkpoints, checkpoint_seconds
        The checkpoints that this run has written, and how long that took in all.
    n_rebalances, n_commits_refused
        How often its group gave a worker partitions, and refused its commit; None for a run on its own.
    """

    progress: float | None
    lag: int | None
    lags: dict[str, int] = field(default_factory=dict)
    loss: float | None = None
    n_checkpoints: int = 0
    checkpoint_seconds: float = 0.0
    n_rebalances: int | None = None
    n_commits_refused: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return one flat dict, as JSON can hold it: the fields, and the monitors' values under their own names.

        >>> counts = {"n": 3, "n_predicted": 3, "n_learned": 2, "n_pending": 0, "n_expired": 0, "n_unmatched": 0}
        >>> speed = {"elapsed": 1.5, "rate": 2.0, "progress": None, "lag": None}
        >>> report = Report(**counts, n_rejected={"features": 1}, monitors={"Accuracy": 0.5}, **speed)
        >>> report.to_dict()["rejected"], report.to_dict()["Accuracy"]
        (1, 0.5)
        """
        values = {name: value for name, value in vars(self).items() if name not in ("n_rejected", "monitors")}
        values["rejected"] = sum(self.n_rejected.values())
        values["rejected_by"] = dict(self.n_rejected)
        for name in ("lags", "rejected_by", "loss", "n_rebalances", "n_commits_refused"):  # not of every run
            if values[name] is None or values[name] == {}:
                del values[name]
        return {**values, **self.monitors}


@dataclass(frozen=True, kw_only=True)
class Summary(_Standing):
    """How a run ended.

    Parameters
    ----------
    n, n_predicted, n_learned, n_rejected, n_expired, n_unmatched, n_pending, elapsed, monitors
        As in the last `Report`.
    rate
        Items a second of this run.
    interrupted
        Whether a signal ended the run.
    signal
        The name of that signal, ``"SIGINT"`` or ``"SIGTERM"``; else empty.
    position
        Where the source stands.
    """

    interrupted: bool
    position: Any
    signal: str = ""

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
        """An item was rejected and the stream goes on. `reason` is the word under which it is counted."""

    def on_checkpoint(self, path: str, n: int) -> None:
        """A checkpoint of the state after item `n` is on the disk."""

    def on_interrupt(self, signal_name: str) -> None:
        """A signal asked the loop to stop: it finishes the current sample."""

    def on_end(self, summary: Summary) -> None:
        """The loop has ended."""
