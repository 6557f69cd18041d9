"""What an event loop and a worker of a group have in common: a run with its signals, reports and checkpoints."""

from __future__ import annotations

import abc
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from fwonline._pipeline import final_estimator
from fwonline.exceptions import SampleError, SourceError, TooManyRejectedError
from fwonline.loop._exploding import exploding
from fwonline.loop._learner import Learner
from fwonline.loop._signals import Stop, WaitOver
from fwonline.loop.options import Options
from fwonline.loop.report import Counts, Observer, Report, Start, Summary
from fwonline.monitors.base import Monitor
from fwonline.stream.base import Sink

__all__ = ["Loop", "Timer"]


class Timer:
    """Computes when something is due: every so many items, or seconds.

    Where it is neither, every `default` seconds; with `steps`, then at 1, 2, 5, 10, 20, ... items, too.
    """

    def __init__(
        self, seconds: float | None, items: int | None = None, default: float | None = None, *, steps: bool = False
    ) -> None:
        by_default = seconds is None and items is None
        self.seconds = default if by_default else seconds
        self.items = items
        self._has_steps = by_default and steps
        self.next_n: float = math.inf
        self._next_time = math.inf

    def start(self, n: int, now: float) -> None:
        if self.items is not None:
            self.next_n = n - n % self.items + self.items
        elif self._has_steps:
            power = 10 ** (len(str(n)) - 1)
            self.next_n = next(step * power for step in (1, 2, 5, 10) if step * power > n)
        if self.seconds is not None:
            self._next_time = now + self.seconds

    def is_due(self, n: int, now: float) -> bool:
        if n < self.next_n and now < self._next_time:
            return False
        self.start(n, now)
        return True


class Loop(abc.ABC):
    """Runs until the end of the stream, a limit, a signal or an error; see `EventLoop` for what it promises."""

    source: Any

    def __init__(
        self,
        model: Any,
        monitors: Iterable[Any],
        sinks: Iterable[Sink],
        observers: Iterable[Observer],
        options: Options,
        checkpoint_every: float | None,
    ) -> None:
        self.model = model
        self.monitors = list(monitors)
        for monitor in self.monitors:
            if isinstance(monitor, Monitor):
                monitor.check_model(model)
        self.sinks = list(sinks)
        self.observers = list(observers)
        self.options = options
        timing = options.timing
        self._exploded: set[Any] = set()  # columns that were warned of
        self._losses: dict[Learner, tuple[float, int]] = {}  # sum and count at the last report
        self._n_checkpoints, self._checkpoint_seconds = 0, 0.0
        # so many reports at first that a short run has a curve
        seconds = 1.0 if self.observers else None
        self._reports = Timer(timing.report_every, timing.report_samples, seconds, steps=bool(self.observers))
        self._checkpoints = Timer(timing.checkpoint_every, timing.checkpoint_samples, checkpoint_every)

    @property
    @abc.abstractmethod
    def counts(self) -> Counts:
        """What was counted."""

    @property
    def outputs(self) -> list[Sink]:
        """All sinks, the one of dead letters last."""
        dead_letter = self.options.bad_samples.dead_letter
        return [*self.sinks, *([] if dead_letter is None else [dead_letter])]

    def run(self, limit: int | None = None) -> Summary:
        """Take the stream to its end, or until `limit` items were taken in all, those of earlier runs included.

        Called again, it goes on; a worker of a group runs once.

        Raises
        ------
        SampleError
            On a bad item, with ``on_error="raise"``.
        TooManyRejectedError
            When too many items were rejected; each was handled, and a checkpoint holds all that was learned.
        SourceError
            When the source cannot go on; a checkpoint of what was learned is written first.
        CheckpointError
            Before the first sample, when the model cannot be saved, or the checkpoint is missing, damaged or of another
            model or source.
        KeyboardInterrupt
            On the second SIGINT.
        """
        self._begin()
        self._started = self._reported = time.perf_counter()
        self._first_n = self._reported_n = self.counts.n
        self._loss()
        start = self._start()
        for observer in self.observers:
            observer.on_start(start)
        position = None
        with Stop(self._position_reader(), self._set_deadline, Learner.take.__code__) as stop:
            try:
                self._take_items(math.inf if limit is None else limit, stop)
            except WaitOver:
                position = stop.position
            except SampleError:
                self._save_after_sample_error()
                raise
            except SourceError:
                self._save()
                raise
            except TooManyRejectedError:
                self._save()
                self._flush()
                self._report()
                raise
            if stop.requested:
                for observer in self.observers:
                    observer.on_interrupt(stop.name)
            self._save(position)
            self._flush()
            self._finish(stop.requested)
        self._report()
        if not stop.requested:
            for learner in self._learners():
                learner.check_rejected_share()
        summary = self._summary(stop.name, self._position() if position is None else position)
        for observer in self.observers:
            observer.on_end(summary)
        return summary

    # What differs

    @abc.abstractmethod
    def _begin(self) -> None:
        """Prepare the run: the checkpoint, the timers."""

    @abc.abstractmethod
    def _start(self) -> Start:
        """What observers get before the first sample."""

    @abc.abstractmethod
    def _take_items(self, limit: float, stop: Stop) -> None:
        """Take items until the limit, the end or a signal."""

    @abc.abstractmethod
    def _save(self, position: Any = None) -> None:
        """Write a checkpoint, unless this state is in one already."""

    def _save_after_sample_error(self) -> None:
        self._save()

    @abc.abstractmethod
    def _finish(self, interrupted: bool) -> None:
        """Do what is left after the last checkpoint."""

    @abc.abstractmethod
    def _learners(self) -> list[Learner]:
        """All learners."""

    @abc.abstractmethod
    def _position(self) -> Any:
        """Where the next run goes on."""

    def _position_reader(self) -> Callable[[], Any] | None:
        """What reads the source's position for a stop during a wait; None where the source never waits long."""
        return None

    @abc.abstractmethod
    def _lag(self) -> tuple[int | None, dict[str, int]]:
        """How many items wait in the source, in all and by partition."""

    @abc.abstractmethod
    def _values(self) -> dict[str, Any]:
        """The values of the monitors."""

    def _set_deadline(self, seconds: float) -> None:
        for sink in self.outputs:
            sink.set_deadline(seconds)

    def _flush(self, *, durable: bool = False) -> None:
        for sink in self.outputs:
            sink.flush(durable=durable)

    def _tell_of_checkpoint(self, path: Any, began: float) -> None:
        self._n_checkpoints += 1
        self._checkpoint_seconds += time.perf_counter() - began
        for observer in self.observers:
            observer.on_checkpoint(str(path), self.counts.n)

    # Reports

    def _look(self, n: int, now: float) -> float:
        """Report, and write a checkpoint, if it is time; return the item after which to look again."""
        if self._reports.is_due(n, now):
            self._report()
        if self._checkpoints.is_due(n, now):
            self._save()
        return min(self._reports.next_n, self._checkpoints.next_n)

    def _standing(self) -> dict[str, Any]:
        counts = vars(self.counts)
        n_pending = sum(len(learner.pending.questions) for learner in self._learners())
        return {**counts, "n_rejected": dict(counts["n_rejected"]), "n_pending": n_pending, "monitors": self._values()}

    def _report(self) -> None:
        now = time.perf_counter()
        self._warn_of_explosions()
        standing = self._standing()
        passed, n = now - self._reported, standing["n"] - self._reported_n
        self._reported, self._reported_n = now, standing["n"]
        lag, lags = self._lag()
        rate, elapsed = n / passed if passed > 0 else 0.0, now - self._started
        report = Report(
            **standing,
            elapsed=elapsed,
            rate=rate,
            progress=self.source.progress,
            lag=lag,
            lags=lags,
            loss=self._loss(),
            n_checkpoints=self._n_checkpoints,
            checkpoint_seconds=self._checkpoint_seconds,
            **self._group_events(),
        )
        for observer in self.observers:
            observer.on_report(report)

    def _group_events(self) -> dict[str, Any]:
        """What has happened to a worker in its group."""
        return {}

    def _loss(self) -> float | None:
        """The mean loss since the last call, by the models' own sums."""
        before, self._losses = self._losses, {}
        total, n = 0.0, 0
        for learner in self._learners():
            estimator = final_estimator(learner.model)
            if (loss := getattr(estimator, "cumulative_loss", None)) is not None:
                self._losses[learner] = now = (float(loss), int(estimator.n_samples))
                then = before.get(learner, now)  # what a partition brings along was lost before
                total, n = total + now[0] - then[0], n + now[1] - then[1]
        return total / n if n > 0 and math.isfinite(total) else None

    def _warn_of_explosions(self) -> None:
        for learner in self._learners():
            for column, what in exploding(learner.model, learner.counts.n_learned):
                if column not in self._exploded:
                    self._exploded.add(column)
                    warnings.warn(what, stacklevel=2)

    def _summary(self, signal_name: str, position: Any) -> Summary:
        elapsed = time.perf_counter() - self._started
        standing = self._standing()
        rate = (standing["n"] - self._first_n) / elapsed if elapsed > 0 else 0.0
        return Summary(
            **standing, elapsed=elapsed, rate=rate, interrupted=bool(signal_name), signal=signal_name, position=position
        )


def values_of(monitors: Iterable[Any]) -> dict[str, Any]:
    """The values of monitors in one dict; where two have one name, the second gets a number behind it."""
    values: dict[str, Any] = {}
    for monitor in monitors:
        for name, value in monitor.get().items():
            names = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(2)))
            values[next(free for free in names if free not in values)] = value
    return values
