"""The event loop: for each sample predict, score, learn, tell the monitors."""

from __future__ import annotations

import itertools
import math
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from river import compose

import fwonline
from fwonline.checkpoint.file import Checkpoint
from fwonline.exceptions import CheckpointError, SampleError, SourceError, TooManyRejectedError
from fwonline.loop._calls import FAULTS, Calls, Unpredicted, calls
from fwonline.loop._guard import Guard, Refusal, check_time, is_hashable, rejected_sample, unpredicted
from fwonline.loop._kind import difference, kind_of
from fwonline.loop._pending import Early, Pending, Question
from fwonline.loop._rejections import Rejections
from fwonline.loop._saved import check_state
from fwonline.loop._signals import Stop, WaitOver
from fwonline.loop._timer import Timer
from fwonline.loop.report import Observer, Report, Start, Summary
from fwonline.stream.base import Rejected, Sample, Sink, as_source

__all__ = ["EventLoop"]

# The clock is read about this often, in seconds; a sample may take less time than the reading of a clock is worth.
_TICK = 0.01


class EventLoop:
    """Takes a stream through a model, test-then-train, and survives what happens on the way.

    For each sample: predict, learn, tell the monitors what was predicted before learning, hand the prediction to the
    sinks. Between samples: reports, checkpoints, signals.

    **Answers that come later.** A sample without a target and with a key is a question. It is predicted at once and
    kept with its prediction; a later sample of the same key that has a target is its answer, and is learned then with
    the question's features and scored with the question's prediction. Questions wait in bounded memory.

    **Bad samples.** An item that a source rejects, a value or target that is not finite or beyond 1e100, a target that
    is missing, a sample that the model cannot predict: none of them touches any part of the model, the first steps of a
    pipeline included. What the loop has not seen before in kind (a text feature, a label, numbers beyond 1e6 and larger
    than any so far) is tried on a copy of the model first, which must be able to predict the sample, and an ordinary
    one, once it has learned it. Trials that fail are few: where bad samples of new kinds keep coming, most are rejected
    without one. A sample that the model can predict only once it has learned it is learned and not scored. With
    ``on_error="skip"`` a bad item is counted and, where there is a dead-letter sink, kept there whole; with ``"raise"``
    a `SampleError` that names its place ends the run, after a checkpoint from which the next run begins with that very
    item. Any other error of the model while it learns is the model's own: it is raised as it is, and the last
    checkpoint stands.

    **Checkpoints** hold the model, the monitors, the questions that wait and the places in source and sinks. A run that
    was killed and is started again with the same arguments goes on from the last one, and ends with the same model, bit
    by bit, as a run that was never killed. `model` and `monitors` are brought to the saved state in place.

    **Signals.** SIGINT and SIGTERM finish the sample in hand and write a checkpoint; `run` returns with
    ``Summary.interrupted`` set. A second SIGINT raises KeyboardInterrupt at once.

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
        probability of ``y_pred``, where the model was asked for probabilities.
    checkpoint
        The file for checkpoints, or a `Checkpoint`.
    on_error
        ``"raise"``, ``"skip"`` or ``"dead-letter"``, which is "skip" with a `dead_letter` sink that must be there.
    dead_letter
        A sink for what was rejected.
    max_rejected_share
        The largest share of rejected items, from 0 to 1, with which a run that does not raise goes on. It is the share
        of the last 1,000 items, judged when 100 have come and at the end of the stream or the limit; beyond it the run
        ends with `TooManyRejectedError`, after a checkpoint. None, as 1: any share.
    resume
        Whether to go on from the checkpoint where there is one; otherwise it is removed.
    checkpoint_every, checkpoint_samples
        Seconds or items between two checkpoints; by default 30 seconds.
    report_every, report_samples
        Seconds or items between two reports; by default a second.
    observers
        Who is told: see `Observer`.
    max_pending
        How many questions may wait; one more pushes out the oldest.
    expire_items, expire_seconds
        After how many items, or how much event time, a question is given up.
    max_early
        How many answers may wait for a question that is still to come, as happens where questions and answers are two
        topics; they are given up as questions are, and counted as unmatched. By default none waits.
    check_values
        Whether to look at values before the model does. Without it, numbers that are not finite go to the model.

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

    # What to do where a checkpoint is of another run.
    _advice = "resume=False starts a new one"

    def __init__(
        self,
        source: Any,
        model: Any,
        monitors: Iterable[Any] = (),
        sinks: Iterable[Sink] = (),
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        *,
        on_error: str = "raise",
        dead_letter: Sink | None = None,
        max_rejected_share: float | None = 0.5,
        resume: bool = True,
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
        if on_error not in ("raise", "skip", "dead-letter"):
            raise ValueError(f"on_error must be 'raise', 'skip' or 'dead-letter', found {on_error!r}")
        if (on_error == "dead-letter" and dead_letter is None) or (on_error == "raise" and dead_letter is not None):
            raise ValueError(f"on_error={on_error!r} and dead_letter={dead_letter!r} do not go together")
        for name, value in (
            ("checkpoint_every", checkpoint_every),
            ("checkpoint_samples", checkpoint_samples),
            ("report_every", report_every),
            ("report_samples", report_samples),
            ("max_pending", max_pending),
            ("expire_items", expire_items),
            ("expire_seconds", expire_seconds),
        ):
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, found {value!r}")
        if max_rejected_share is not None and not 0 <= max_rejected_share <= 1:
            raise ValueError(f"max_rejected_share must be from 0 to 1, found {max_rejected_share!r}")
        self.source = as_source(source)
        self.source.idle_ticks = True
        self.model = model
        self.monitors = list(monitors)
        self.sinks = list(sinks)
        is_path = checkpoint is not None and not isinstance(checkpoint, Checkpoint)
        self.checkpoint: Checkpoint | None = Checkpoint(checkpoint) if is_path else checkpoint  # type: ignore[arg-type, assignment]
        self.on_error = on_error
        self.dead_letter = dead_letter
        self.resume = resume
        self.observers = list(observers)
        self.check_values = check_values
        self._reports = Timer(report_every, report_samples, default=1.0 if self.observers else None)
        self._checkpoints = Timer(checkpoint_every, checkpoint_samples, default=30.0 if self.checkpoint else None)
        if max_early < 0:
            raise ValueError(f"max_early must not be negative, found {max_early!r}")
        self._pending = Pending(max_pending, expire_items, expire_seconds, max_early)
        self._kind = {
            "model": kind_of(model),
            "monitors": [kind_of(monitor) for monitor in self.monitors],
            "source": type(self.source).__qualname__,
            "sinks": [type(sink).__qualname__ for sink in self._outputs()],
        }
        self.n = self.n_predicted = self.n_learned = self.n_expired = self.n_unmatched = 0
        self.n_rejected: dict[str, int] = {}
        self._rejections = Rejections(max_rejected_share)
        self._held: Sample | Rejected | None = None  # taken from the source, but not dealt with
        self._place: Any = None  # where the loop stands, where the source is an item ahead of it
        self._saved_n: int | None = None
        self._items: Iterator[Sample | Rejected] | None = None
        self._former_guard: dict[str, Any] | None = None  # what a former run has tried on copies of the model
        self._resumed = False
        self._warned = False

    def _outputs(self) -> list[Sink]:
        return [*self.sinks, *([] if self.dead_letter is None else [self.dead_letter])]

    def _hurry(self, seconds: float) -> None:
        for sink in self._outputs():
            sink.set_deadline(seconds)

    def _flush(self) -> None:
        for sink in self._outputs():
            sink.flush()

    def _judge(self) -> None:
        """Judge how much was rejected, at the end."""
        if self.on_error != "raise":
            self._rejections.judge(self.n)

    # A run

    def run(self, limit: int | None = None) -> Summary:
        """Take the stream to its end, or until `limit` items were taken in all, those of earlier runs included.

        Called again, it goes on.

        Raises
        ------
        SampleError
            On a bad item, with ``on_error="raise"``.
        TooManyRejectedError
            When too many items were rejected; each was dealt with, and a checkpoint holds all that was learned.
        SourceError
            When the source cannot go on; a checkpoint of what was learned is written first.
        CheckpointError
            Before the first sample, when the model cannot be saved, or the checkpoint is of another model or source.
        KeyboardInterrupt
            On the second SIGINT.

        """
        if self._items is None:
            self._begin()
        self._started = self._reported = time.perf_counter()
        self._first_n = self._reported_n = self.n
        start = Start(
            source=self.source.name,
            model=str(self.model),
            length=self.source.length,
            n=self.n,
            resumed_from=str(self.checkpoint.path) if self._resumed and self.checkpoint else None,
            position=self.source.position,
        )
        for observer in self.observers:
            observer.on_start(start)
        if self._held is not None:  # what ended the run before is tried again
            assert self._items is not None
            self._items, self._held = self._again(self._held, self._items), None
        position = None
        with Stop(lambda: self.source.position, self._hurry) as stop:
            try:
                self._go(math.inf if limit is None else limit, stop)
            except WaitOver:
                position = stop.position
            except SampleError:
                if self._held is not None:
                    self._save_held()
                raise
            except SourceError:
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
            self._save(position)
            self._flush()
            if not stop.wished:
                for monitor in self.monitors:
                    monitor.finish()
        self._tell()
        if not stop.wished:
            self._judge()
        summary = self._summary(stop.wished, self._position() if position is None else position)
        for observer in self.observers:
            observer.on_end(summary)
        return summary

    def _again(self, held: Sample | Rejected, items: Iterator[Sample | Rejected]) -> Iterator[Sample | Rejected]:
        """What ended the run before and what follows it, unless the source has it once more, whole perhaps."""
        first, place = None, self._position()
        if self.source.may_reread:
            try:
                first = next(items, None)
            except SourceError:
                self._held = held
                raise
        if first is None or first.origin != held.origin:
            self._place = place
            yield held
            self._place = None
        if first is not None:
            yield first
        yield from items

    def _go(self, limit: float, stop: Stop) -> None:
        """Take items until the limit, the end or a signal.

        The road of a clean sample is this function alone, and its counters are kept in the frame: a sample may cost a
        microsecond, and a call costs a tenth of that.
        """
        if self.n >= limit:
            return
        stop.watch(sys._getframe())
        items: Any = self._items
        model, play = self.model, self._play
        updates, sinks, questions = self._updates, self.sinks, self._pending.questions
        is_clean = self._guard.is_clean if self.check_values else self._guard.is_complete
        n, learned, step, seen = self.n, 0, 1, time.perf_counter()
        tick: float = n + 1
        try:
            stop.waiting = True
            for item in items:
                stop.waiting = False
                if item is None:  # the source still waits: a moment for the timers
                    self._count(n, learned)
                    learned = 0
                    self._look_at_clock(n)
                    if stop.wished:
                        break
                    stop.waiting = True
                    continue
                n += 1
                if (not questions and type(item) is Sample and item.x and is_clean(item.x, item.y)) or self._take(
                    item, n
                ):
                    x, y = item.x, item.y
                    try:
                        y_pred = play(x, y)
                    except Unpredicted as error:
                        self._unpredicted(item, n, error.why)
                    except Exception as error:
                        self._failed(item, n, error)
                    else:
                        learned += 1
                        for update in updates:
                            update(y, y_pred, x=x, model=model)
                        if sinks:
                            self._write(item, n, y, y_pred)
                if n >= tick:
                    self._count(n, learned)
                    learned = 0
                    now = time.perf_counter()
                    step = max(1, min(2 * step, int(step * _TICK / max(now - seen, 1e-9)), 4096))
                    seen = now
                    self._look_at_clock(n, now)
                    if n >= limit:
                        break
                    tick = min(n + step, self._reports.next_n, self._checkpoints.next_n, limit)
                if stop.wished:
                    break
                stop.waiting = True
            stop.waiting = False
        except SampleError:
            self._count(n - 1, learned)
            raise
        except (SourceError, TooManyRejectedError, WaitOver):
            self._count(n, learned)
            raise
        self._count(n, learned)

    def _look_at_clock(self, n: int, now: float | None = None) -> None:
        """Report, and write a checkpoint, where it is time for it."""
        now = time.perf_counter() if now is None else now
        if self._reports.is_due(n, now):
            self._tell()
        if self._checkpoints.is_due(n, now):
            self._save()

    def _count(self, n: int, learned: int) -> None:
        """Add what the frame of `_go` counted: items, and samples that were predicted and learned at once."""
        self.n = n
        self.n_learned += learned
        self.n_predicted += learned

    def _failed(self, item: Sample, n: int, error: Exception) -> None:
        """Tell a sample that the model refused, and is untouched by, from an error in the model."""
        if not isinstance(error, SampleError):
            error.add_note(f"while learning {item.origin or f'item {n}'}; the last checkpoint stands")
            raise error
        if isinstance(self.model, compose.Pipeline) and len(self.model) > 1 and not self._warned:
            self._warned = True
            warnings.warn(
                f"{item.origin or 'a sample'}: the last step of the pipeline refused what its other steps had already "
                f"learned: {error}",
                stacklevel=2,
            )
        self._reject(item, n, "model", str(error), error)

    def _unpredicted(self, item: Sample, n: int, why: Exception) -> None:
        """Learn a sample all the same where that is what the model lacks; it is not scored. Else reject it."""
        if not (self.check_values and self._guard.mends(item.x, item.y, n, why)):
            self._reject(item, n, "model", unpredicted(why), why)
            return
        try:
            self._learn(item.x, item.y)
        except Exception as error:
            self._failed(item, n, error)
        else:
            self.n_learned += 1

    def _take(self, item: Sample | Rejected, n: int) -> bool:
        """Deal with whatever is not a plain clean sample; return whether it is to be learned now after all."""
        if not isinstance(item, Sample):
            self._reject(item, n, "malformed", item.error)
            return False
        pending = self._pending
        try:
            check_time(item.time)
            n_expired, n_unmatched = pending.expire(n, item.time)
            self.n_expired += n_expired
            self.n_unmatched += n_unmatched
            is_answer = item.key is not None and is_hashable(item.key) and item.key in pending
            if item.y is None and self._guard.target != "none":
                self._ask(item, n)
            elif is_answer:
                self._answer(item, n)
            elif item.key is not None and all(value is None for value in item.x.values()):
                # A row of a table has its fields even where it is an answer and nothing else.
                self.n_unmatched += pending.wait(item.key, Early(item.y, n, item.time, item.origin))
            else:
                if self.check_values:
                    self._guard.check(item.x, item.y, n)
                return True
        except Refusal as error:
            self._reject(item, n, error.reason, str(error), error)
        return False

    def _ask(self, item: Sample, n: int) -> None:
        if item.key is None:
            raise Refusal("target", "the target is missing: expected one, or a key by which its answer can be known")
        if not is_hashable(item.key):
            raise Refusal("key", f"the key is {item.key!r}: expected text or a number")
        if self.check_values:
            self._guard.check_question(item.x, n)
        try:
            y_pred = self._predict(item.x)
        except FAULTS as error:
            raise Refusal("model", unpredicted(error)) from error
        self.n_predicted += 1
        self.n_expired += self._pending.ask(item.key, Question(item.x, y_pred, n, item.time))
        if self.sinks:
            self._write(item, n, None, y_pred)
        if (early := self._pending.early.pop(item.key, None)) is not None:
            answer = Sample({}, early.y, item.key, early.time, early.origin)
            try:
                self._answer(answer, n)
            except Refusal as error:
                self._reject(answer, n, error.reason, str(error), error)

    def _answer(self, item: Sample, n: int) -> None:
        asked = self._pending.questions[item.key]
        if self.check_values:
            self._guard.check(asked.x, item.y, n)
        try:
            self._learn(asked.x, item.y)
        except Exception as error:
            self._failed(item, n, error)
            return
        self._pending.answer(item.key)
        self.n_learned += 1
        for update in self._updates:
            update(item.y, asked.y_pred, x=asked.x, model=self.model)

    def _write(self, item: Sample, n: int, y: Any, y_pred: Any) -> None:
        record: dict[str, Any] = {"n": n}
        if item.key is not None:
            record["key"] = item.key
        if y is not None:
            record["y"] = y
        if self._has_probabilities and isinstance(y_pred, dict):
            label = max(y_pred, key=y_pred.__getitem__, default=None)
            record["y_pred"], record["p"] = label, y_pred.get(label)
        else:
            record["y_pred"] = y_pred
        record["origin"] = item.origin
        for sink in self.sinks:
            sink.write(record)

    def _reject(
        self, item: Sample | Rejected, n: int, reason: str, message: str, cause: Exception | None = None
    ) -> None:
        if item.origin and not message.startswith(item.origin):
            message = f"{item.origin}: {message}"
        comes_again = self.source.mark_rejected(item.origin)
        if self.on_error == "raise":
            self._held = item
            raise SampleError(message) from cause
        self.n_rejected[reason] = self.n_rejected.get(reason, 0) + 1
        rejected = item if isinstance(item, Rejected) else rejected_sample(item, message, self.source.raw(item.origin))
        if self.dead_letter is not None:
            self.dead_letter.write(rejected.to_record())
        for observer in self.observers:
            observer.on_rejected(rejected, reason)
        if not comes_again:
            self._rejections.add(n, message)

    # What is told

    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for monitor in self.monitors:
            for name, value in monitor.get().items():
                names = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(2)))
                values[next(free for free in names if free not in values)] = value
        return values

    def _report(self) -> Report:
        now = time.perf_counter()
        passed, n = now - self._reported, self.n - self._reported_n
        self._reported, self._reported_n = now, self.n
        return Report(
            n=self.n,
            n_predicted=self.n_predicted,
            n_learned=self.n_learned,
            rejected=dict(self.n_rejected),
            n_pending=len(self._pending),
            n_expired=self.n_expired,
            n_unmatched=self.n_unmatched,
            elapsed=now - self._started,
            rate=n / passed if passed > 0 else 0.0,
            progress=self.source.progress,
            lag=self.source.lag(),
            monitors=self._values(),
            lags=self.source.lags(),
        )

    def _tell(self) -> None:
        report = self._report()
        for observer in self.observers:
            observer.on_report(report)

    def _summary(self, interrupted: bool, position: Any) -> Summary:
        elapsed = time.perf_counter() - self._started
        return Summary(
            n=self.n,
            n_predicted=self.n_predicted,
            n_learned=self.n_learned,
            n_rejected=dict(self.n_rejected),
            n_pending=len(self._pending),
            n_expired=self.n_expired,
            n_unmatched=self.n_unmatched,
            elapsed=elapsed,
            rate=(self.n - self._first_n) / elapsed if elapsed > 0 else 0.0,
            monitors=self._values(),
            interrupted=interrupted,
            position=position,
        )

    # Checkpoints

    def _begin(self) -> None:
        """Take up the checkpoint, or begin one."""
        checkpoint = self.checkpoint
        self._resumed = checkpoint is not None and self.resume and checkpoint.exists()
        if self._resumed:
            assert checkpoint is not None
            state = checkpoint.load(self._whole_in_place)
            self._restore(state)
            self.source.seek(state["position"])
            self.source.expect_identity(state.get("identity"))
            for sink, place in zip(self._outputs(), state["outputs"], strict=True):
                if place is not None:
                    sink.truncate(place)
        self._prepare()
        self._items = iter(self.source)
        now = time.perf_counter()
        self._reports.start(self.n, now)
        self._checkpoints.start(self.n, now)
        if checkpoint is not None and not self._resumed:
            checkpoint.discard()
            self._save()  # now, so that what cannot be saved is known before the first sample

    def _prepare(self) -> None:
        """Choose how the model is spoken to, once it is what it shall be."""
        self._guard = Guard(self.model)
        if self._former_guard is not None:
            self._guard.restore(self._former_guard)
        self._speak(calls(self.model, self.monitors))
        self._updates = [monitor.update for monitor in self.monitors]

    def _speak(self, ways: Calls) -> None:
        self._predict, self._learn, self._play = ways.predict or _predict_nothing, ways.learn, ways.played()
        self._has_probabilities = getattr(ways.predict, "__name__", "") == "predict_proba_one"

    def _feed(self, items: Iterator[Sample | Rejected], stop: Stop, limit: float = math.inf) -> None:
        """Take items that somebody else has fetched: a `GroupLoop` with one loop for each partition."""
        if self._held is not None:
            items, self._held = itertools.chain([self._held], items), None
        self._items = items
        self._go(limit, stop)

    def _in_place(self, state: Any) -> dict[str, Any]:
        """What of this loop the checkpoint's state belongs in, if it is this loop's state at all."""
        check_state(state)
        for part, now in self._kind.items():
            if (found := difference(state["kind"].get(part), now, part)) is not None:
                raise CheckpointError(f"the checkpoint is of another run: {found}; {self._advice}")
        # What the file says of itself, and what it holds, are two things.
        for part in ("model", "monitors"):
            if (found := difference(kind_of(state[part]), self._kind[part], part, own=True)) is not None:
                raise CheckpointError(f"the checkpoint holds something else than it says: {found}")
        if state["source"] != self.source.name:
            warnings.warn(
                f"the checkpoint is of the source {state['source']}; going on with {self.source.name}", stacklevel=2
            )
        return {"model": self.model, "monitors": self.monitors}

    def _whole_in_place(self, state: Any) -> dict[str, Any]:
        """What `_in_place` says, of a state with the places in the sinks."""
        into = self._in_place(state)
        outputs, wanted = state.get("outputs"), len(self._outputs())
        if outputs is None or len(outputs) != wanted:
            raise CheckpointError(f"the checkpoint is of another run: expected places in {wanted} sinks, not {outputs}")
        return into

    def _restore(self, state: dict[str, Any]) -> None:
        """Take up what was learned, counted and asked."""
        self.model, self.monitors = state["model"], state["monitors"]
        counts = state["counts"]
        self.n, self.n_predicted, self.n_learned = counts["n"], counts["predicted"], counts["learned"]
        self.n_expired, self.n_unmatched = counts["expired"], counts["unmatched"]
        self.n_rejected = counts["rejected"]
        self._pending.restore(state["pending"])
        self._former_guard = state.get("guard")
        if state.get("rejections") is not None:
            self._rejections.restore(state["rejections"])
        if state["held"] is not None:
            kind, fields = state["held"]
            self._held = (Sample if kind == "sample" else Rejected)(*fields)
        self._saved_n = self.n

    def _save(self, position: Any = None) -> None:
        """Write a checkpoint, unless this state is in one already."""
        if self.checkpoint is None or (self._saved_n == self.n and self._held is None):
            return
        outputs = self._outputs()
        for sink in outputs:
            sink.flush(durable=True)
        state = self._state(self._position() if position is None else position)
        self.checkpoint.save({**state, "outputs": [sink.position for sink in outputs]})
        self._saved_n = self.n
        for observer in self.observers:
            observer.on_checkpoint(str(self.checkpoint.path), self.n)

    def _position(self) -> Any:
        """Where the next run goes on."""
        return self.source.position if self._place is None else self._place

    def _state(self, position: Any) -> dict[str, Any]:
        """What a checkpoint holds, but for the places in the sinks."""
        held = self._held
        return {
            "written_by": fwonline.__version__,
            "kind": self._kind,
            "source": self.source.name,
            "position": position,
            "identity": self.source.identity,
            "counts": {
                "n": self.n,
                "predicted": self.n_predicted,
                "learned": self.n_learned,
                "rejected": self.n_rejected,
                "expired": self.n_expired,
                "unmatched": self.n_unmatched,
            },
            "pending": self._pending.state(),
            "guard": self._guard.state(),
            "rejections": self._rejections.state(),
            "held": held and (type(held).__name__.lower(), msgspec.structs.astuple(held)),
            "model": self.model,
            "monitors": self.monitors,
        }

    def _save_held(self) -> None:
        try:
            self._save()
        except CheckpointError as error:  # an item that no checkpoint can hold: the last one stands
            warnings.warn(str(error), stacklevel=2)


def _predict_nothing(x: dict) -> None:
    return None
