"""One worker of a group: an event loop for each partition it owns."""

from __future__ import annotations

import copy
import math
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError, SampleError, SourceError, TooManyRejectedError
from fwonline.loop._calls import calls
from fwonline.loop._signals import Stop
from fwonline.loop._timer import Timer
from fwonline.loop.event_loop import EventLoop
from fwonline.loop.group.merging import merge
from fwonline.loop.group.serving import MergedModel
from fwonline.loop.group.states import PartitionStates
from fwonline.loop.report import Observer, Report, Start, Summary
from fwonline.stream.base import Rejected, Sample, Sink, Source
from fwonline.stream.group import CommittedOffsets, GroupSource, MergeTopic, PartitionsLost

__all__ = ["GroupLoop"]

# Seconds between two looks at the clock, and whether the group calls, while what came is being learned.
_LOOK = 0.05


class GroupLoop:
    """Takes the partitions that a group gives this worker through a model each, every sample exactly once.

    **State belongs to partitions.** Each partition has a model, monitors and waiting questions of its own, which are
    copies of the ones given here and know nothing of other partitions. So what is learned of a partition depends on its
    messages alone, bit by bit, whoever learned it, and however often it moved from worker to worker.

    **A checkpoint** writes the state of each partition into a new file and then commits the partition's offset together
    with the file's name: one write, made by the group's coordinator, decides both where the partition stands and which
    state stands there. A worker that was taken for dead, and another one took its partitions over, has its commit
    refused; what it learned since its last commit is dropped, and the other one learned it. When partitions come to a
    worker it loads exactly the file that the commit names.

    **The model that predicts** is each partition's own, or with `merge_every` the merge of all partitions' models as
    they were committed last (see `merge`): the metrics then speak of the merge. What is learned does not depend on it.

    **Predictions** are written to `sinks` before the samples are committed, so that after a crash some are written a
    second time: the record's ``origin`` names the message, and readers drop repeats by it. With ``transactional=True``
    predictions, dead letters, offsets and the names of the states are one transaction: who reads them with
    ``isolation_level="read_committed"`` sees each once.

    **Signals** end the worker as they end an `EventLoop`; it commits, and leaves the group.

    Parameters
    ----------
    source
        The worker's part in the group.
    model, monitors
        Not learned yet; each partition gets a copy.
    sinks
        As for `EventLoop`. All partitions of the worker write to them. A file is written behind what it holds.
    states
        The folder of the states, on storage that all workers see.
    merge_every
        Seconds between two looks at what the other partitions have committed. None: every partition predicts with the
        model that it learns.
    merge_topic
        A compacted topic on which workers show their models after each commit, for processes that do not see the
        states. None: the others' models are read from their states.
    transactional
        Whether what goes to the sinks, all of them Kafka topics, counts with the commit or not at all.
    on_error, dead_letter, max_pending, expire_items, expire_seconds, max_early, check_values
        As for `EventLoop`.
    max_rejected_share
        As for `EventLoop`, of each partition: one of which too much was rejected ends the worker.
    checkpoint_every, checkpoint_samples
        Seconds or items of this worker between two checkpoints; by default 10 seconds.
    report_every, report_samples, observers
        As for `EventLoop`. The counts of a report are of the items this worker took since it was started; a monitor's
        value is the mean over its partitions, weighted by the samples learned.

    """

    def __init__(
        self,
        source: GroupSource,
        model: Any,
        monitors: Iterable[Any] = (),
        sinks: Iterable[Sink] = (),
        *,
        states: str | os.PathLike[str],
        merge_every: float | None = None,
        merge_topic: str | None = None,
        transactional: bool = False,
        on_error: str = "raise",
        dead_letter: Sink | None = None,
        max_rejected_share: float | None = 0.5,
        checkpoint_every: float | None = None,
        checkpoint_samples: int | None = None,
        report_every: float | None = None,
        report_samples: int | None = None,
        observers: Iterable[Observer] = (),
        max_pending: int = 100_000,
        expire_items: int | None = None,
        expire_seconds: float | None = None,
        max_early: int = 0,
        check_values: bool = True,
    ) -> None:
        self.source = source
        self.model = model
        self.monitors = list(monitors)
        self.sinks = list(sinks)
        self.states = PartitionStates(states, source.group)
        self.dead_letter = dead_letter
        self.observers = list(observers)
        self._options: dict[str, Any] = {
            "on_error": on_error,
            "dead_letter": dead_letter,
            "max_rejected_share": max_rejected_share,
            "max_pending": max_pending,
            "expire_items": expire_items,
            "expire_seconds": expire_seconds,
            "max_early": max_early,
            "check_values": check_values,
        }
        self._reports = Timer(report_every, report_samples, default=1.0 if self.observers else None)
        self._checkpoints = Timer(checkpoint_every, checkpoint_samples, default=10.0)
        if transactional:
            source.enable_transactions(self._outputs())
        for sink in self._outputs():
            if hasattr(sink, "append"):
                sink.append = True
        if merge_every is not None and not merge_every > 0:
            raise ValueError(f"merge_every must be positive, found {merge_every!r}")
        if merge_topic is not None and merge_every is None:
            raise ValueError("merge_topic: expected merge_every with it, which says how often to look")
        self._merges = Timer(merge_every, None, default=None)
        self._merge_topic = None if merge_topic is None else source.merge_topic(merge_topic)
        self.merged = MergedModel(source, self.states, self._merge_topic, model=model)
        self._told_refusals = 0
        self._fresh("?")  # what cannot be, is known now
        if merge_every is not None:
            merge([model, model])
        self._loops: dict[str, _Loop] = {}
        self._saved: dict[str, dict[str, int]] = {}  # the offsets of each partition's last commit
        self._next_look = 0.0  # at the clock, while a look at the stream is being learned
        self._counts: Counter[str] = Counter()
        self._rejected: Counter[str] = Counter()

    @property
    def n(self) -> int:
        """Items that this worker took."""
        return self._counts["n"]

    @property
    def n_rejected(self) -> dict[str, int]:
        """Reason -> how many items this worker rejected for it."""
        return dict(self._rejected)

    @property
    def partitions(self) -> dict[str, Any]:
        """Partition -> model, of those that this worker owns."""
        return {partition: loop.model for partition, loop in self._loops.items()}

    def _outputs(self) -> list[Sink]:
        return [*self.sinks, *([] if self.dead_letter is None else [self.dead_letter])]

    def _hurry(self, seconds: float) -> None:
        self.source.set_deadline(seconds)
        for sink in self._outputs():
            sink.set_deadline(seconds)

    def _flush(self) -> None:
        for sink in self._outputs():
            sink.flush()

    # -- a run

    def run(self, limit: int | None = None) -> Summary:
        """Work until the stream's end, a signal, or until this worker took `limit` items. A worker runs once.

        Raises
        ------
        SampleError, SourceError, TooManyRejectedError
            As for `EventLoop`; what was learned is committed first.
        CheckpointError
            When the state that the group's offset names cannot be had, or is of another model.
        KeyboardInterrupt
            On the second SIGINT.

        """
        self._started = self._reported = now = time.perf_counter()
        self._reported_n = 0
        self._reports.start(0, now)
        self._checkpoints.start(0, now)
        self._merges.start(0, now)
        start = Start(source=self.source.name, model=str(self.model))
        for observer in self.observers:
            observer.on_start(start)
        with Stop(None, self._hurry) as stop:
            try:
                self._go(math.inf if limit is None else limit, stop)
            except (SampleError, SourceError):
                self._save()
                raise
            except TooManyRejectedError:
                self._save()
                self._flush()
                self._tell()
                raise
            if stop.wished:
                for observer in self.observers:
                    observer.on_interrupt(stop.name)
            self._save()
            self._flush()
        if self._merge_topic is not None:
            self._merge_topic.close()
        self._tell()
        if not stop.wished:
            for loop in self._loops.values():
                loop._judge()
        summary = self._summary(stop.wished)
        for observer in self.observers:
            observer.on_end(summary)
        return summary

    def _go(self, limit: float, stop: Stop) -> None:
        while not stop.wished and self.n < limit:
            turn = self.source.poll()
            if turn.lost:
                self._drop()
            try:
                for partition, place in turn.assigned.items():
                    self._take_up(partition, place, stop)
            except PartitionsLost:
                self._drop()
                continue
            for partition, items in turn.items:
                # A checkpoint between two partitions may have found that they are ours no more.
                if stop.wished or self.n >= limit or partition not in self._loops:
                    break
                try:
                    self._feed(partition, items, stop, limit)
                except _Enough:
                    break
                self._look_at_clock()
            if not turn.items:
                if self._loops and self.source.at_end():
                    self._save()
                if self.source.all_committed():
                    break
            self._look_at_clock()

    def _feed(self, partition: str, items: Iterator[Sample | Rejected], stop: Stop, limit: float = math.inf) -> None:
        loop = self._loops[partition]
        try:
            loop._feed(items, stop, loop.n + limit - self.n)
        finally:
            self._book(loop)

    def _book(self, loop: _Loop) -> None:
        """Add what a partition's loop has counted since it was booked last."""
        counts, rejected = _counts(loop), Counter(loop.n_rejected)
        self._counts.update({name: count - loop.booked[name] for name, count in counts.items()})
        self._rejected.update(rejected - loop.booked_rejected)
        loop.booked, loop.booked_rejected = counts, rejected

    def _amid(self, loop: _Loop) -> None:
        """Look at the clock between two samples: what a look at the stream has brought may take long to learn.

        Raises
        ------
        _Enough
            When the rest of it is not ours to learn, or not now.

        """
        now = time.perf_counter()
        if now < self._next_look:
            return
        self._book(loop)
        self._look_at_clock(now)
        if loop not in self._loops.values():
            raise _Enough
        if self.source.heartbeat():
            self._save()
            raise _Enough

    def _look_at_clock(self, now: float | None = None) -> None:
        now = time.perf_counter() if now is None else now
        self._next_look = now + _LOOK
        if self._reports.is_due(self.n, now):
            self._tell()
        if self._checkpoints.is_due(self.n, now):
            self._save()
        if self._merges.is_due(self.n, now):
            self._merge()

    # -- partitions come and go

    def _fresh(self, partition: str) -> _Loop:
        """A loop that has learned nothing."""
        model, monitors = copy.deepcopy((self.model, self.monitors))
        loop = _Loop(_Partition(partition, self.source), model, monitors, self.sinks, **self._options)
        loop.observers.append(_Rejections(self.observers))
        del loop._kind["sinks"]  # they are the worker's, and no part of what moves
        loop._advice = "a new one takes a group of its own"
        return loop

    def _drop(self) -> None:
        """Forget partitions that are somebody else's now; what was not committed never was."""
        self._loops.clear()
        self._saved.clear()

    def _take_up(self, partition: str, place: CommittedOffsets, stop: Stop) -> None:
        loop, note = self._fresh(partition), place.metadata
        if note is None:
            # The place where a partition begins is committed before anything is learned of it: a state without a commit
            # is a sign of lost offsets, then, and of nothing else.
            self.states.begin(partition)
            beginning = place._replace(metadata=self.states.beginning(place.offsets))
            while not self.source.commit({partition: beginning}):
                if stop.wished:  # else the source's patience ends this
                    raise PartitionsLost
        elif self.states.is_beginning(note):
            self.states.check_beginning(partition, note, place.offsets)
        else:
            state = self._read(partition, note, loop)
            self.states.check_position(partition, state, place.offsets)
            self.source.expect_identity(partition, state.get("identity"))
            loop._restore(state)
            loop.booked, loop.booked_rejected = _counts(loop), Counter(loop.n_rejected)
        loop._prepare()
        self._serve(loop)
        self.source.seek(partition, place.offsets)
        self._loops[partition], self._saved[partition] = loop, place.offsets
        if loop._held is not None:  # what ended the run before is tried again, even if nothing follows it
            self._feed(partition, iter(()), stop)
        loop.amid = self._amid

    def _read(self, partition: str, note: str, loop: EventLoop) -> dict[str, Any]:
        try:
            state = self.states.read(partition, note, loop._in_place)
        except CheckpointError:
            there = self.source.committed().get(partition)
            if there is not None and there.metadata != note:
                raise PartitionsLost from None  # somebody has committed behind our back, so it is theirs
            raise
        return state

    def _save(self) -> None:
        """Write the states of the partitions that have moved, and commit them."""
        moved = {
            partition: loop
            for partition, loop in self._loops.items()
            if self.source.position(partition) != self._saved[partition]
        }
        if not moved:
            return
        for sink in self._outputs():
            sink.flush(durable=True)
        try:
            places = {partition: self._written(partition, loop) for partition, loop in moved.items()}
            if not self.source.commit(places):
                return  # nobody knows; the files of before stay
        except PartitionsLost:
            self._drop()
            return
        for partition, place in places.items():
            assert place.metadata is not None
            self._saved[partition] = place.offsets
            self.states.sweep(partition, place.metadata)
            if self._merge_topic is not None:
                self._show(self._merge_topic, partition, place.total_offset, moved[partition].model)
        for observer in self.observers:
            observer.on_checkpoint(str(self.states.path), self.n)

    def _written(self, partition: str, loop: EventLoop) -> CommittedOffsets:
        """Write a partition's state and return the place to commit."""
        place, era = CommittedOffsets(self.source.position(partition), None), self.source.generation
        try:
            return place._replace(
                metadata=self.states.write(partition, era, place.total_offset, loop._state(place.offsets))
            )
        except CheckpointError:
            if self.states.latest_era(partition) > era:
                raise PartitionsLost from None  # a later owner has cleared away what we were about to finish
            raise

    def _show(self, merge_topic: MergeTopic, partition: str, offset: int, model: Any) -> None:
        try:
            merge_topic.publish(partition, offset, codec.dumps(model))
        except SourceError as error:  # the others predict with an older one
            warnings.warn(str(error), stacklevel=2)

    def _merge(self) -> None:
        """Look what the others have learned."""
        try:
            is_new = self.merged.refresh()
            self._tell_refusals()
            if not is_new:
                return
        except (TypeError, ValueError) as error:
            warnings.warn(
                f"every partition predicts with its own model, for they cannot be merged: {error}", stacklevel=2
            )
            return
        for loop in self._loops.values():
            self._serve(loop)

    def _tell_refusals(self) -> None:
        """Say what was refused of the models that others show, each time it has doubled."""
        n = self.merged.n_refused
        if n and n >= 2 * self._told_refusals:
            self._told_refusals = n
            warnings.warn(
                f"{n:,} models that others showed were refused; the last: {self.merged.refusal}", stacklevel=2
            )

    def _serve(self, loop: EventLoop) -> None:
        if self.merged.model is not None:
            theirs = calls(self.merged.model, loop.monitors)
            loop._speak(replace(calls(loop.model, loop.monitors), predict=theirs.predict, play=None))

    # -- what is told

    def _values(self) -> dict[str, Any]:
        sums: dict[str, float] = {}
        weights: Counter[str] = Counter()
        for loop in self._loops.values():
            for name, value in loop._values().items():
                if isinstance(value, (int, float)) and loop.n_learned and math.isfinite(value):
                    sums[name] = sums.get(name, 0.0) + value * loop.n_learned
                    weights[name] += loop.n_learned
        return {name: total / weights[name] for name, total in sums.items()}

    def _tell(self) -> None:
        now = time.perf_counter()
        passed, n = now - self._reported, self.n - self._reported_n
        self._reported, self._reported_n = now, self.n
        lags = self.source.lags()
        report = Report(
            n=self.n,
            n_predicted=self._counts["predicted"],
            n_learned=self._counts["learned"],
            rejected=self.n_rejected,
            n_pending=sum(len(loop._pending) for loop in self._loops.values()),
            n_expired=self._counts["expired"],
            n_unmatched=self._counts["unmatched"],
            elapsed=now - self._started,
            rate=n / passed if passed > 0 else 0.0,
            progress=self.source.progress,
            lag=sum(lags.values()),
            monitors=self._values(),
            lags=lags,
        )
        for observer in self.observers:
            observer.on_report(report)

    def _summary(self, interrupted: bool) -> Summary:
        elapsed = time.perf_counter() - self._started
        return Summary(
            n=self.n,
            n_predicted=self._counts["predicted"],
            n_learned=self._counts["learned"],
            n_rejected=self.n_rejected,
            n_pending=sum(len(loop._pending) for loop in self._loops.values()),
            n_expired=self._counts["expired"],
            n_unmatched=self._counts["unmatched"],
            elapsed=elapsed,
            rate=self.n / elapsed if elapsed > 0 else 0.0,
            monitors=self._values(),
            interrupted=interrupted,
            position={
                name: offset for partition in self._loops for name, offset in self.source.position(partition).items()
            },
        )


def _counts(loop: EventLoop) -> dict[str, int]:
    return {
        "n": loop.n,
        "predicted": loop.n_predicted,
        "learned": loop.n_learned,
        "expired": loop.n_expired,
        "unmatched": loop.n_unmatched,
    }


class _Enough(Exception):
    """Ends the learning of what a look at the stream has brought."""


class _Loop(EventLoop):
    """A partition's loop, whose worker looks at the clock for all of them."""

    amid: Callable[[_Loop], None] | None = None  # once it is the worker's

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.booked = _counts(self)  # of its items, what the worker has counted as its own
        self.booked_rejected: Counter[str] = Counter()

    def _look_at_clock(self, n: int, now: float | None = None) -> None:
        if self.amid is not None:
            self.amid(self)


class _Partition(Source):
    """What an event loop sees of a partition: its name. The items come from outside."""

    def __init__(self, name: str, source: GroupSource) -> None:
        self.name = name
        self._source = source

    def __iter__(self) -> Iterator[Sample | Rejected]:
        return iter(())

    @property
    def position(self) -> dict[str, int]:
        return self._source.position(self.name)

    def seek(self, position: Any) -> None:
        self._source.seek(self.name, position)

    @property
    def identity(self) -> Any:
        return self._source.identity(self.name)

    def raw(self, origin: str) -> Any:
        return self._source.raw(origin)


class _Rejections(Observer):
    """Passes on what a partition's loop rejected, and nothing else: reports are the worker's."""

    def __init__(self, observers: list[Observer]) -> None:
        self._observers = observers

    def on_rejected(self, rejected: Rejected, reason: str) -> None:
        for observer in self._observers:
            observer.on_rejected(rejected, reason)
