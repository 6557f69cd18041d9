"""One worker of a group: a model for each partition that is assigned to it."""

from __future__ import annotations

import copy
import itertools
import math
import os
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import fwonline
from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError, SourceError
from fwonline.loop._base import Loop, Timer, values_of
from fwonline.loop._calls import calls
from fwonline.loop._learner import Learner
from fwonline.loop._signals import Stop
from fwonline.loop.group.merging import merge
from fwonline.loop.group.serving import MergedModel
from fwonline.loop.group.states import PartitionStates
from fwonline.loop.options import BadSamples, Options, Questions, Timing
from fwonline.loop.report import Counts, Observer, Road, Start
from fwonline.stream.base import Rejected, Sample, Sink
from fwonline.stream.group import CommittedOffsets, GroupSource, MergeTopic, PartitionsLost

__all__ = ["GroupLoop"]

# Seconds between two looks at the clock, and two heartbeats, while the items of one poll are learned.
_LOOK = 0.05


class GroupLoop(Loop):
    """Takes the partitions that a group gives this worker through a model each, every sample exactly once.

    **State belongs to partitions.** Each partition has a model, monitors and waiting questions of its own, which are
    copies of the ones given here and independent of other partitions. So what is learned of a partition depends on its
    messages alone, bit by bit, whoever learned it, and however often it moved from worker to worker.

    **A checkpoint** writes the state of each partition into a new file and then commits the partition's offset together
    with the file's name: one write, made by the group's coordinator, decides both where the partition stands and which
    state stands there. A worker that was taken for dead and lost its partitions is fenced: its commit is refused,
    and what it learned since its last commit is dropped, for the new owner learned it. When partitions come to a
    worker it loads exactly the file that the commit names.

    **The model that predicts** is each partition's own, or with `merge_every` the merge of all partitions' models as
    they were committed last (see `merge`): the metrics then measure the merge. What is learned does not depend on it.

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
        As for `EventLoop`. All partitions of the worker write to them. A file is appended to.
    states
        The folder of the states, on storage that all workers see.
    merge_every
        Seconds between two looks at what the other partitions have committed. None: every partition predicts with the
        model that it learns.
    merge_topic
        A compacted topic on which workers publish their models after each commit, for processes that do not see the
        states. None: the others' models are read from their states.
    transactional
        Whether what goes to the sinks, all of them Kafka topics, is committed with the offsets, in one transaction.
    observers, bad_samples, questions, timing, **options
        As for `EventLoop`. `max_rejected_share` is of each partition: too much rejected in one ends the worker. Reports
        and checkpoints count the items of this worker since it was started; a monitor's value is the mean over its
        partitions, weighted by the samples learned.
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
        observers: Iterable[Observer] = (),
        bad_samples: BadSamples | None = None,
        questions: Questions | None = None,
        timing: Timing | None = None,
        **options: Any,
    ) -> None:
        together = Options.of(options, bad_samples, questions, timing)
        super().__init__(model, monitors, sinks, observers, together, checkpoint_every=10.0)
        self.source = source
        self.states = PartitionStates(states, source.group)
        if transactional:
            source.enable_transactions(self.outputs)
        for sink in self.outputs:
            if hasattr(sink, "append"):
                sink.append = True
        if merge_every is not None and not merge_every > 0:
            raise ValueError(f"merge_every must be positive, found {merge_every!r}")
        if merge_topic is not None and merge_every is None:
            raise ValueError("merge_topic: expected merge_every with it: how often to read the topic")
        self._merges = Timer(merge_every)
        self._merge_topic = None if merge_topic is None else source.merge_topic(merge_topic)
        self.merged = MergedModel(source, self.states, self._merge_topic, model=model)
        self._warned_refusals = 0
        self._new_learner()  # raises now what would be raised when the first partition comes
        if merge_every is not None:
            merge([model, model])
        self._owned: dict[str, Learner] = {}
        self._saved: dict[str, dict[str, int]] = {}  # the offsets of each partition's last commit
        self._loaded: dict[str, Counts] = {}  # what each partition's counts were when it was assigned
        self._lost = Counts()  # what was counted of partitions that are lost
        self._n_rebalances = self._n_commits_refused = 0
        self._next_look = 0.0  # when to look at the clock, while the items of one poll are learned

    @property
    def counts(self) -> Counts:
        """What this worker counted since it was started."""
        counted = (learner.counts - self._loaded[partition] for partition, learner in self._owned.items())
        return sum(counted, self._lost)

    @property
    def partitions(self) -> dict[str, Any]:
        """Partition -> model, of those that are assigned to this worker."""
        return {partition: learner.model for partition, learner in self._owned.items()}

    def _learners(self) -> list[Learner]:
        return list(self._owned.values())

    def _set_deadline(self, seconds: float) -> None:
        self.source.set_deadline(seconds)
        super()._set_deadline(seconds)

    def _begin(self) -> None:
        now = time.perf_counter()
        for timer in (self._reports, self._checkpoints, self._merges):
            timer.start(0, now)

    def _start(self) -> Start:
        road = Road(False, "a worker of a group takes its partitions' samples in turns")
        return Start(source=self.source.name, model=str(self.model), road=road)

    def _take_items(self, limit: float, stop: Stop) -> None:
        while not stop.requested and self.counts.n < limit:
            polled = self.source.poll()
            self._n_rebalances += bool(polled.assigned)
            if polled.lost:
                self._drop()
            try:
                for partition, place in polled.assigned.items():
                    self._assign(partition, place, stop)
            except PartitionsLost:
                self._drop()
                continue
            for partition, items in polled.items:
                # A checkpoint between two partitions may have found that they are lost.
                if stop.requested or self.counts.n >= limit or partition not in self._owned:
                    break
                try:
                    self._learn(partition, items, stop, limit)
                except _PollOver:
                    break
                self._look(self.counts.n, time.perf_counter())
            if not polled.items:
                if self._owned and self.source.at_end():
                    self._save()
                if self.source.all_committed():
                    break
            self._look(self.counts.n, time.perf_counter())

    def _learn(self, partition: str, items: Iterator[Sample | Rejected], stop: Stop, limit: float = math.inf) -> None:
        """Learn the items of one partition.

        Raises
        ------
        _PollOver
            When the rest of the items must not be learned, or not now.
        """
        learner = self._owned[partition]

        def look(n: int, now: float) -> float:
            if now >= self._next_look:
                self._look(self.counts.n, now)
                if self._owned.get(partition) is not learner:
                    raise _PollOver
                if self.source.heartbeat():
                    self._save()
                    raise _PollOver
            return math.inf

        if learner.held is not None:
            items, learner.held = itertools.chain([learner.held], items), None
        learner.take(items, learner.counts.n + limit - self.counts.n, stop, look)

    def _look(self, n: int, now: float) -> float:
        self._next_look = now + _LOOK
        super()._look(n, now)
        if self._merges.is_due(n, now):
            self._merge()
        return math.inf

    # Partitions

    def _new_learner(self) -> Learner:
        """A learner that has learned nothing."""
        model, monitors = copy.deepcopy((self.model, self.monitors))
        parts = (model, monitors, self.sinks, self.observers, self.options)
        return Learner(*parts, raw=self.source.raw, mark_rejected=lambda origin: False)

    def _drop(self) -> None:
        """Forget partitions that are lost, with what was not committed."""
        self._lost = self.counts
        for owned in (self._owned, self._saved, self._loaded):
            owned.clear()

    def _assign(self, partition: str, place: CommittedOffsets, stop: Stop) -> None:
        """Load the state of a newly assigned partition, or begin one."""
        learner, note = self._new_learner(), place.metadata
        if note is None:
            # The offset at which a partition begins is committed before anything is learned of it: so a state without a
            # commit can only mean that the group's offsets were lost.
            self.states.begin(partition)
            beginning = place._replace(metadata=self.states.beginning(place.offsets))
            while not self.source.commit({partition: beginning}):
                if stop.requested:  # else the source's own timeout ends this
                    raise PartitionsLost
        elif self.states.is_beginning(note):
            self.states.check_beginning(partition, note, place.offsets)
        else:
            state = self._read(partition, note, learner)
            self.states.check_position(partition, state, place.offsets)
            self.source.expect_identity(partition, state["identity"])
            learner.restore(state)
        learner.prepare()
        self._use_merged(learner)
        self.source.seek(partition, place.offsets)
        self._owned[partition], self._saved[partition] = learner, place.offsets
        self._loaded[partition] = learner.counts + Counts()
        if learner.held is not None:  # what ended the run before is tried again, even if nothing follows it
            self._next_look = math.inf
            self._learn(partition, iter(()), stop)

    def _read(self, partition: str, note: str, learner: Learner) -> dict[str, Any]:
        def place_for(state: Any) -> dict[str, Any]:
            return learner.place_for(state, partition, "a new one takes a group of its own")

        try:
            return self.states.read(partition, note, place_for)
        except CheckpointError:
            now = self.source.committed().get(partition)
            if now is not None and now.metadata != note:
                raise PartitionsLost from None  # another worker has committed, so the partition is its own
            raise

    def _save(self, position: Any = None) -> None:
        """Write the states of the partitions that have moved, and commit them."""
        moved = {
            partition: learner
            for partition, learner in self._owned.items()
            if self.source.position(partition) != self._saved[partition]
        }
        if not moved:
            return
        began = time.perf_counter()
        self._flush(durable=True)
        try:
            places = {partition: self._written(partition, learner) for partition, learner in moved.items()}
            if not self.source.commit(places):
                return  # not certain: the older files stay
        except PartitionsLost:
            self._n_commits_refused += 1
            self._drop()
            return
        for partition, place in places.items():
            assert place.metadata is not None
            self._saved[partition] = place.offsets
            self.states.sweep(partition, place.metadata)
            if self._merge_topic is not None:
                self._publish(self._merge_topic, partition, place.total_offset, moved[partition].model)
        self._tell_of_checkpoint(self.states.path, began)

    def _written(self, partition: str, learner: Learner) -> CommittedOffsets:
        """Write a partition's state and return the offsets to commit with its name."""
        offsets, generation = self.source.position(partition), self.source.generation
        place = CommittedOffsets(offsets, None)
        state = learner.state(partition, offsets, self.source.identity(partition))
        state["written_by"] = fwonline.__version__
        try:
            return place._replace(metadata=self.states.write(partition, generation, place.total_offset, state))
        except CheckpointError:
            if self.states.latest_generation(partition) > generation:
                raise PartitionsLost from None  # a later owner has removed the file while it was written
            raise

    def _publish(self, merge_topic: MergeTopic, partition: str, offset: int, model: Any) -> None:
        try:
            merge_topic.publish(partition, offset, codec.dumps(model))
        except SourceError as error:  # the others predict with an older one
            warnings.warn(str(error), stacklevel=2)

    # The merge of all partitions

    def _merge(self) -> None:
        """Predict with what the other partitions have committed, too."""
        try:
            is_new = self.merged.refresh()
        except (TypeError, ValueError) as error:
            warnings.warn(
                f"every partition predicts with its own model, for they cannot be merged: {error}", stacklevel=2
            )
            return
        n = self.merged.n_refused
        if n and n >= 2 * self._warned_refusals:  # each time the number has doubled
            self._warned_refusals = n
            why = self.merged.refusal
            warnings.warn(f"{n:,} models on the merge topic were refused; the last: {why}", stacklevel=2)
        if is_new:
            for learner in self._owned.values():
                self._use_merged(learner)

    def _use_merged(self, learner: Learner) -> None:
        if self.merged.model is not None:
            predict = calls(self.merged.model, learner.monitors).predict
            learner.use(replace(calls(learner.model, learner.monitors), predict=predict, play=None))

    # The end, and reports

    def _finish(self, interrupted: bool) -> None:
        if self._merge_topic is not None:
            self._merge_topic.close()

    def _position(self) -> Any:
        return {name: offset for partition in self._owned for name, offset in self.source.position(partition).items()}

    def _lag(self) -> tuple[int | None, dict[str, int]]:
        lags = self.source.lags()
        return sum(lags.values()), lags

    def _group_events(self) -> dict[str, Any]:
        return {"n_rebalances": self._n_rebalances, "n_commits_refused": self._n_commits_refused}

    def _values(self) -> dict[str, Any]:
        sums: dict[str, float] = {}
        weights: Counter[str] = Counter()
        for learner in self._owned.values():
            learned = learner.counts.n_learned
            for name, value in values_of(learner.monitors).items():
                if isinstance(value, (int, float)) and learned and math.isfinite(value):
                    sums[name] = sums.get(name, 0.0) + value * learned
                    weights[name] += learned
        return {name: total / weights[name] for name, total in sums.items()}


class _PollOver(Exception):
    """Ends the learning of the items of one poll."""
