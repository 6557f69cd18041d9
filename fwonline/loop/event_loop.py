"""The event loop: for each sample predict, score, learn, tell the monitors."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import fwonline
from fwonline.checkpoint.file import Checkpoint
from fwonline.exceptions import CheckpointError, SourceError
from fwonline.loop._base import Loop, values_of
from fwonline.loop._learner import Learner
from fwonline.loop._signals import Stop
from fwonline.loop.blocks.road import take_road
from fwonline.loop.options import BadSamples, Options, Questions, Timing
from fwonline.loop.report import Counts, Observer, Road, Start
from fwonline.stream.base import Rejected, Sample, Sink, as_source
from fwonline.stream.block import Block

__all__ = ["EventLoop"]


class EventLoop(Loop):
    """Takes a stream through a model, test-then-train, and can be killed at any time.

    For each sample: predict, learn, tell the monitors what was predicted before learning, hand the prediction to the
    sinks. Between samples: reports, checkpoints, signals.

    **Targets that come later.** A sample without a target and with a key is a question. It is predicted at once and
    kept with its prediction; a later sample of the same key that has a target is its answer, and is learned then with
    the question's features and scored with the question's prediction. Questions wait in bounded memory (`Questions`).

    **Bad samples.** An item that a source rejects, a value or target that is not finite or beyond 1e100, a target that
    is missing, a sample that the model cannot predict: none of them touches any part of the model, the first steps of a
    pipeline included. What the loop has not seen before in kind (a text feature, a label, numbers beyond 1e6 and larger
    than any so far) is tried on a copy of the model first, which must be able to predict the sample, and an ordinary
    one, once it has learned it. Trials that fail are few: where bad samples of new kinds keep coming, most are rejected
    without one. A sample that the model can predict only once it has learned it is learned and not scored. With
    ``on_error="skip"`` a bad item is counted and, where there is a dead-letter sink, kept there whole; with ``"raise"``
    a `SampleError` that names its place ends the run, after a checkpoint from which the next run begins with that very
    item. Any other error of the model while it learns is raised as it is, and the last checkpoint stands.

    **Checkpoints** hold the model, the monitors, the questions that wait and the places in source and sinks. A run that
    was killed and is started again with the same arguments goes on from the last one, and ends with the same model, bit
    by bit, as a run that was never killed. `model` and `monitors` are brought to the saved state in place.

    **Blocks.** Where the source has many rows of numbers at a time (`fwonline.stream.Source.blocks`), the model plays
    them in one call (`play_block`) and the monitors take them together, rows come in blocks: with the results, records,
    reports and checkpoints of rows that come one by one, some ten times as fast. What is no ordinary row comes by
    itself. `Start.road` tells which way was taken, and why; ``blocks=False`` takes the slower one.

    **Signals.** SIGINT and SIGTERM finish the current sample, or a few thousandths of a second of a block, and write a
    checkpoint; `run` returns with ``Summary.interrupted`` set. A second SIGINT raises KeyboardInterrupt at once.

    Parameters
    ----------
    source
        A `fwonline.stream.Source`, or any iterable of ``(x, y)`` pairs.
    model
        A river estimator or pipeline: regressor, classifier, ranker (its ``user`` and ``item`` are features),
        clusterer, anomaly detector, or anything with ``learn_one`` and ``predict_one``.
    monitors
        What watches the model: see `fwonline.monitors`.
    sinks
        Where the predictions go, one record each: ``n``, ``key``, ``y``, ``y_pred``, ``origin``, and ``p``, the
        probability of ``y_pred``, where the model predicts probabilities.
    checkpoint
        The file for checkpoints, or a `Checkpoint`.
    resume
        Whether to go on from the checkpoint where there is one; otherwise it is removed.
    observers
        Objects that get reports and events: see `Observer`.
    bad_samples, questions, timing
        The options of `BadSamples`, `Questions` and `Timing`.
    **options
        Fields of these three, given flat: ``EventLoop(..., on_error="skip", report_every=5.0)``.

    Examples
    --------
    >>> from river import datasets, linear_model, metrics, preprocessing
    >>> from fwonline.loop import EventLoop
    >>> from fwonline.monitors import Metric
    >>> model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    >>> loop = EventLoop(datasets.Phishing(), model, monitors=[Metric(metrics.Accuracy())])
    >>> summary = loop.run()
    >>> summary.n_learned, round(summary.monitors["Accuracy"], 2)
    (1250, 0.89)
    """

    def __init__(
        self,
        source: Any,
        model: Any,
        monitors: Iterable[Any] = (),
        sinks: Iterable[Sink] = (),
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        *,
        resume: bool = True,
        observers: Iterable[Observer] = (),
        bad_samples: BadSamples | None = None,
        questions: Questions | None = None,
        timing: Timing | None = None,
        **options: Any,
    ) -> None:
        together = Options.of(options, bad_samples, questions, timing)
        super().__init__(model, monitors, sinks, observers, together, None if checkpoint is None else 30.0)
        self.source = as_source(source)
        self.source.idle_ticks = True
        if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(checkpoint)
        self.checkpoint: Checkpoint | None = checkpoint
        self.resume = resume
        self._learner = Learner(
            *(model, self.monitors, self.sinks, self.observers, together),
            raw=self.source.raw,
            mark_rejected=self.source.mark_rejected,
        )
        self._learner.kind["source"] = type(self.source).__qualname__
        self._learner.kind["sinks"] = [type(sink).__qualname__ for sink in self.outputs]
        self._items: Iterator[Block | Sample | Rejected | None] | None = None
        self._road = Road(False)
        self._place: Any = None  # where the next run goes on, where the source is an item ahead of it
        self._saved_n: int | None = None
        self._resumed = False

    @property
    def counts(self) -> Counts:
        """What was counted, earlier runs of the checkpoint included."""
        return self._learner.counts

    def _learners(self) -> list[Learner]:
        return [self._learner]

    def _begin(self) -> None:
        """Go on from the checkpoint, or write the first one."""
        if self._items is not None:  # the run goes on in this process
            return
        checkpoint, learner = self.checkpoint, self._learner
        self._resumed = checkpoint is not None and self.resume and checkpoint.exists()
        if self._resumed:
            assert checkpoint is not None
            state = checkpoint.load(self._place_for)
            learner.restore(state)
            self.model, self.monitors = learner.model, learner.monitors
            self._saved_n = self.counts.n
            self.source.seek(state["position"])
            self.source.expect_identity(state["identity"])
            for sink, place in zip(self.outputs, state["outputs"], strict=True):
                if place is not None:
                    sink.truncate(place)
        learner.prepare()
        self._road = take_road(self.source, learner, blocks=self.options.timing.blocks)
        self._items = learner.slices(self.source) if self._road.in_blocks else iter(self.source)
        now = time.perf_counter()
        self._reports.start(self.counts.n, now)
        self._checkpoints.start(self.counts.n, now)
        if checkpoint is not None and not self._resumed:
            checkpoint.discard()
            self._save()  # now, so that what cannot be saved is known before the first sample

    def _place_for(self, state: Any) -> dict[str, Any]:
        into = self._learner.place_for(state, self.source.name, "resume=False starts a new one")
        outputs, wanted = state.get("outputs"), len(self.outputs)
        if outputs is None or len(outputs) != wanted:
            raise CheckpointError(f"the checkpoint is of another run: expected places in {wanted} sinks, not {outputs}")
        return into

    def _start(self) -> Start:
        resumed_from = str(self.checkpoint.path) if self._resumed and self.checkpoint else None
        source = self.source
        known = source.length, self.counts.n, resumed_from, source.position, self._road
        return Start(source.name, str(self.model), *known)

    def _position_reader(self) -> Callable[[], Any]:
        return lambda: self.source.position

    def _take_items(self, limit: float, stop: Stop) -> None:
        learner = self._learner
        assert self._items is not None
        if learner.held is not None:  # what ended the run before is tried again
            self._items, learner.held = self._with_held(learner.held, self._items), None
        learner.take(self._items, limit, stop, self._look)

    def _with_held(
        self, held: Sample | Rejected, items: Iterator[Block | Sample | Rejected | None]
    ) -> Iterator[Block | Sample | Rejected | None]:
        """Yield the item that ended the run before and what follows it, unless the source yields it again, whole."""
        first, place = None, self._position()
        if self.source.may_reread:
            try:
                first = next(items, None)
            except SourceError:
                self._learner.held = held
                raise
        if first is None or _origin(first) != held.origin:
            self._place = place
            yield held
            self._place = None
        if first is not None:
            yield first
        yield from items

    def _finish(self, interrupted: bool) -> None:
        if not interrupted:
            for monitor in self.monitors:
                monitor.finish()

    def _position(self) -> Any:
        return self.source.position if self._place is None else self._place

    def _lag(self) -> tuple[int | None, dict[str, int]]:
        return self.source.lag(), self.source.lags()

    def _values(self) -> dict[str, Any]:
        return values_of(self.monitors)

    def _save(self, position: Any = None) -> None:
        if self.checkpoint is None or (self._saved_n == self.counts.n and self._learner.held is None):
            return
        began = time.perf_counter()
        self._flush(durable=True)
        place = self._position() if position is None else position
        state = self._learner.state(self.source.name, place, self.source.identity)
        outputs = [sink.position for sink in self.outputs]
        self.checkpoint.save({"written_by": fwonline.__version__, **state, "outputs": outputs})
        self._saved_n = self.counts.n
        self._tell_of_checkpoint(self.checkpoint.path, began)

    def _save_after_sample_error(self) -> None:
        if self._learner.held is None:  # the error is a monitor's or an observer's
            return
        try:
            self._save()
        except CheckpointError as error:  # an item that no checkpoint can hold: the last one stands
            warnings.warn(str(error), stacklevel=2)


def _origin(item: Block | Sample | Rejected) -> str:
    return item.origins(item.taken, item.taken + 1)[0] if isinstance(item, Block) else item.origin
