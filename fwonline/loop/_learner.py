"""One model and its samples: predict, learn, tell the monitors; questions that wait; samples that are rejected."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import msgspec
from river import compose

from fwonline._pipeline import final_estimator
from fwonline._protocols import Probabilities, SupportsPlayBlock
from fwonline.exceptions import CheckpointError, SampleError, SourceError, TooManyRejectedError
from fwonline.loop._calls import FAULTS, Calls, Unpredicted, calls
from fwonline.loop._guard import Guard, Refusal, rejected_sample
from fwonline.loop._kind import difference, kind_of
from fwonline.loop._pending import Early, Pending, Question
from fwonline.loop._rejections import Rejections
from fwonline.loop._saved import check_state
from fwonline.loop._signals import Stop, WaitOver
from fwonline.loop._values import check_time, is_hashable, shown
from fwonline.loop.blocks.rows import clean_rows, rows_of
from fwonline.loop.options import Options
from fwonline.loop.report import Counts, Observer
from fwonline.stream.base import Rejected, Sample, Sink, Source
from fwonline.stream.block import Block

__all__ = ["Learner"]

# The clock is read about this often, in seconds: reading it may take longer than learning a sample. A slice of a block
# takes no longer, so that a signal is obeyed at once.
_TICK = 0.005
# And never more rarely than after so many samples.
_TICK_SAMPLES = 4096
# A slice of a block with fewer rows takes longer than these rows one by one.
_SHORT = 4


class Learner:
    """A model with its monitors, its questions and its counts: all that one checkpoint holds.

    An `EventLoop` has one; a worker of a group has one for each of its partitions. `raw` and `mark_rejected` are those
    of the `Source`.
    """

    def __init__(
        self,
        model: Any,
        monitors: list[Any],
        sinks: list[Sink],
        observers: list[Observer],
        options: Options,
        *,
        raw: Callable[[str], Any],
        mark_rejected: Callable[[str], bool],
    ) -> None:
        self.model = model
        self.monitors = monitors
        self.sinks = sinks
        self.observers = observers
        self.options = options.bad_samples
        self.counts = Counts()
        self.pending = Pending(options.questions)
        self.held: Sample | Rejected | None = None  # taken from the source, not learned: it ended the run
        self.kind: dict[str, Any] = {"model": kind_of(model), "monitors": [kind_of(monitor) for monitor in monitors]}
        self._raw = raw
        self._mark_rejected = mark_rejected
        self._rejections = Rejections(self.options.max_rejected_share)
        self._saved_guard: dict[str, Any] | None = None  # from a checkpoint: what was tried on copies of the model
        self._has_warned = False
        self.player: SupportsPlayBlock | None = None  # of blocks; what chooses the road sets it
        self._clean = 0  # the rows of the block in hand up to this one are clean
        self._met: set[Any] = set()  # labels that came, where values are not checked

    def prepare(self) -> None:
        """Choose the calls. To be called when `model` is final: after `restore`, where there is a checkpoint."""
        self.guard = Guard(self.model)
        if self._saved_guard is not None:
            self.guard.restore(self._saved_guard)
        self.use(calls(self.model, self.monitors))

    def use(self, ways: Calls) -> None:
        """Predict and learn by these calls."""
        self._predict, self._learn, self._play = ways.predict or _predict_nothing, ways.learn, ways.one_pass()
        self.has_probabilities = ways.has_probabilities

    # Samples

    def take(self, items: Iterator[Any], limit: float, stop: Stop, look: Callable[[int, float], float]) -> None:
        """Take items until `counts.n` is `limit`, the items end, or a stop is requested.

        `look` is called every few thousandths of a second, with the number of the last item and the time; it returns
        the number of the item after which it must be called next.

        This function alone handles an ordinary sample, and its counters are local: a sample may take a microsecond, and
        a call takes a tenth of that.
        """
        counts = self.counts
        if counts.n >= limit:
            return
        model, play, sinks, questions = self.model, self._play, self.sinks, self.pending.questions
        updates = [monitor.update for monitor in self.monitors]
        is_clean = self.guard.is_clean if self.options.check_values else self.guard.is_complete
        n, learned, step, seen = counts.n, 0, 1, time.perf_counter()
        tick: float = n + 1
        try:
            stop.waiting = True
            for item in items:
                stop.waiting = False
                if item is None:  # the source still waits
                    learned = counts.add(n, learned)
                    look(n, time.perf_counter())
                    if stop.requested:
                        break
                    stop.waiting = True
                    continue
                if type(item) is Block:
                    played = self._play_rows(item, n, tick - n)
                    n, learned = n + played, learned + played
                else:
                    n += 1
                    is_plain = not questions and type(item) is Sample and item.x and is_clean(item.x, item.y)
                    if is_plain or self._check(item, n):
                        x, y = item.x, item.y
                        try:
                            y_pred = play(x, y)
                        except Unpredicted as error:
                            self._learn_unpredicted(item, n, error.why)
                        except Exception as error:
                            self._raise_or_reject(item, n, error)
                        else:
                            learned += 1
                            for update in updates:
                                update(y, y_pred, x=x, model=model)
                            if sinks:
                                self._write(item, n, y, y_pred)
                if n >= tick:
                    learned = counts.add(n, learned)
                    now = time.perf_counter()
                    step = max(1, min(2 * step, int(step * _TICK / max(now - seen, 1e-9)), _TICK_SAMPLES))
                    seen, tick = now, min(n + step, look(n, now), limit)
                    if n >= limit:
                        break
                if stop.requested:
                    break
                stop.waiting = True
            stop.waiting = False
        except SampleError:
            counts.add(n - 1, learned)
            raise
        except (SourceError, TooManyRejectedError, WaitOver):
            counts.add(n, learned)
            raise
        counts.add(n, learned)

    def slices(self, source: Source) -> Iterator[Any]:
        """Yield the items of a source for `take`: a block for each slice of its rows that can be played together.

        The row behind them is the source's to yield, as a sample. Where slices are short, as when questions wait or a
        monitor looks at the model all the time, rows come one by one for a while, which then costs less.
        """
        questions, check_values = self.pending.questions, self.options.check_values
        samples, n_samples = iter(source), 0
        for item in source.blocks():
            if type(item) is not Block:
                yield item
                continue
            start, n_slices = item.taken, 1
            if not questions:
                labels = self._known_labels()
                self._clean = start + clean_rows(self.guard, item, labels=labels, check_values=check_values)
                while item.taken < self._clean and not questions:
                    yield item
                    n_slices += 1
                if not check_values and self.guard.target == "label" and item.taken < len(item):
                    self._met.add(item.y[item.taken : item.taken + 1].tolist()[0])
            is_short = item.taken - start < _SHORT * n_slices
            n_samples = min(2 * n_samples + _SHORT, _TICK_SAMPLES) if is_short else 0
            yield from islice(samples, n_samples)

    def _known_labels(self) -> set[Any]:
        """The labels that the guard would let pass, and the model has learned."""
        known = self.guard.labels if self.options.check_values else self._met
        classes = getattr(final_estimator(self.model), "classes", None)
        return known if classes is None else known.intersection(classes)

    def _play_rows(self, block: Block, n: int, most: float) -> int:
        """Predict, learn and count rows of a block, the first of which is item `n` + 1; return how many.

        At most `most`, as many as the monitors take at once, and none behind one that the model refuses.
        """
        assert self.player is not None
        start, model = block.taken, self.model
        together = (max(1, monitor.most_together()) for monitor in self.monitors)  # none would be asked for ever
        stop = start + int(min(most, self._clean - start, *together))
        X, y = rows_of(block, start, stop)
        try:
            y_pred, why = self.player.play_block(X, y, block.names, probabilities=self.has_probabilities)
        except Exception as error:
            error.add_note(
                f"while learning rows from {block.origins(start, start + 1)[0]} on; the last checkpoint stands"
            )
            raise
        played = len(y_pred.p if isinstance(y_pred, Probabilities) else y_pred)
        block.taken = stop = start + played
        if why is not None:  # the sample road finds out again
            self._clean = stop
        if played:
            for monitor in self.monitors:
                monitor.update_many(y[:played], y_pred, model=model)
            if self.sinks:
                self._write_rows(block, start, n, y[:played], y_pred)
        return played

    def _write_rows(self, block: Block, start: int, n: int, y: Any, y_pred: Any) -> None:
        """Write the records that `_write` would write for the rows from `start` on."""
        stop = start + len(y)
        columns: dict[str, Any] = {"n": range(n + 1, n + len(y) + 1)}
        if block.keys is not None:
            columns["key"] = block.keys[start:stop]
        columns["y"] = y.tolist()
        if isinstance(y_pred, Probabilities):
            columns["y_pred"], columns["p"] = y_pred.labels(), y_pred.p.max(axis=1).tolist()
        else:
            columns["y_pred"] = y_pred.tolist()
        columns["origin"] = block.origins(start, stop)
        for sink in self.sinks:
            sink.write_many(columns)

    def _check(self, item: Sample | Rejected, n: int) -> bool:
        """Handle everything but an ordinary sample; return whether the item is to be learned now."""
        if not isinstance(item, Sample):
            self._reject(item, n, "malformed", item.error)
            return False
        pending, counts = self.pending, self.counts
        try:
            check_time(item.time)
            n_expired, n_unmatched = pending.expire(n, item.time)
            counts.n_expired += n_expired
            counts.n_unmatched += n_unmatched
            is_answer = item.key is not None and is_hashable(item.key) and item.key in pending
            if item.y is None and self.guard.target != "none":
                self._ask(item, n)
            elif is_answer:
                self._answer(item, n)
            elif item.key is not None and all(value is None for value in item.x.values()):
                # A row of a table has its fields even where it is an answer and nothing else.
                counts.n_unmatched += pending.wait(item.key, Early(item.y, n, item.time, item.origin))
            else:
                if self.options.check_values:
                    self.guard.check(item.x, item.y, n)
                return True
        except Refusal as error:
            self._reject(item, n, error.reason, str(error), error)
        return False

    def _raise_or_reject(self, item: Sample, n: int, error: Exception) -> None:
        """Reject a sample that the model refused and is unchanged by; raise an error of the model itself."""
        if not isinstance(error, SampleError):
            error.add_note(f"while learning {item.origin or f'item {n}'}; the last checkpoint stands")
            raise error
        if isinstance(self.model, compose.Pipeline) and len(self.model) > 1 and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{item.origin or 'a sample'}: the last step of the pipeline refused what its other steps had already "
                f"learned: {error}",
                stacklevel=2,
            )
        self._reject(item, n, "model", str(error), error)

    def _learn_unpredicted(self, item: Sample, n: int, why: Exception) -> None:
        """Learn a sample that could not be predicted, where learning it is what the model lacks; else reject it."""
        if not (self.options.check_values and self.guard.mends(item.x, item.y, n, why)):
            self._reject(item, n, "model", _unpredicted(why), why)
            return
        try:
            self._learn(item.x, item.y)
        except Exception as error:
            self._raise_or_reject(item, n, error)
        else:
            self.counts.n_learned += 1

    def _ask(self, item: Sample, n: int) -> None:
        if item.key is None:
            raise Refusal("target", "the target is missing: expected one, or a key by which its answer can be known")
        if not is_hashable(item.key):
            raise Refusal("key", f"the key is {shown(item.key)}: expected text or a number")
        if self.options.check_values:
            self.guard.check_question(item.x, n)
        try:
            y_pred = self._predict(item.x)
        except FAULTS as error:
            raise Refusal("model", _unpredicted(error)) from error
        self.counts.n_predicted += 1
        self.counts.n_expired += self.pending.ask(item.key, Question(item.x, y_pred, n, item.time))
        if self.sinks:
            self._write(item, n, None, y_pred)
        if (early := self.pending.early.pop(item.key, None)) is not None:
            answer = Sample({}, early.y, item.key, early.time, early.origin)
            try:
                self._answer(answer, n)
            except Refusal as error:
                self._reject(answer, n, error.reason, str(error), error)

    def _answer(self, item: Sample, n: int) -> None:
        asked = self.pending.questions[item.key]
        if self.options.check_values:
            self.guard.check(asked.x, item.y, n)
        try:
            self._learn(asked.x, item.y)
        except Exception as error:
            self._raise_or_reject(item, n, error)
            return
        del self.pending.questions[item.key]
        self.counts.n_learned += 1
        for monitor in self.monitors:
            monitor.update(item.y, asked.y_pred, x=asked.x, model=self.model)

    def _write(self, item: Sample, n: int, y: Any, y_pred: Any) -> None:
        record: dict[str, Any] = {"n": n}
        if item.key is not None:
            record["key"] = item.key
        if y is not None:
            record["y"] = y
        if self.has_probabilities and isinstance(y_pred, dict):
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
        comes_again = self._mark_rejected(item.origin)
        if self.options.on_error == "raise":
            self.held = item
            raise SampleError(message) from cause
        self.counts.n_rejected[reason] += 1
        rejected = item if isinstance(item, Rejected) else rejected_sample(item, message, self._raw(item.origin))
        if self.options.dead_letter is not None:
            self.options.dead_letter.write(rejected.to_record())
        for observer in self.observers:
            observer.on_rejected(rejected, reason)
        if not comes_again:
            self._rejections.add(n, message)

    def check_rejected_share(self) -> None:
        """Check, at the end, how much was rejected. Raises TooManyRejectedError when it was too much."""
        if self.options.on_error != "raise":
            self._rejections.check(self.counts.n)

    # Checkpoints

    def state(self, source: str, position: Any, identity: Any) -> dict[str, Any]:
        """Return what a checkpoint holds, with the name, position and identity of the source."""
        held = self.held
        return {
            "kind": self.kind,
            "source": source,
            "position": position,
            "identity": identity,
            "counts": {**vars(self.counts), "n_rejected": dict(self.counts.n_rejected)},
            "pending": self.pending.state(),
            "guard": self.guard.state(),
            "rejections": self._rejections.state(),
            "held": held and (type(held).__name__.lower(), msgspec.structs.astuple(held)),
            "model": self.model,
            "monitors": self.monitors,
        }

    def place_for(self, state: Any, source: str, advice: str) -> dict[str, Any]:
        """Return where the model and the monitors of `state` go, if it is a state of this learner: for `codec.loads`.

        Raises CheckpointError when it is of another model, other monitors or other sinks; `advice` says what to do
        then.
        """
        check_state(state)
        for part, now in self.kind.items():
            if (found := difference(state["kind"].get(part), now, part)) is not None:
                raise CheckpointError(f"the checkpoint is of another run: {found}; {advice}")
        # The description of a model in a file, and the model in it, may differ.
        for part in ("model", "monitors"):
            if (found := difference(kind_of(state[part]), self.kind[part], part, own=True)) is not None:
                raise CheckpointError(f"the checkpoint holds something else than it declares: {found}")
        if state["source"] != source:
            warnings.warn(f"the checkpoint is of the source {state['source']}; going on with {source}", stacklevel=2)
        return {"model": self.model, "monitors": self.monitors}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.model, self.monitors = state["model"], state["monitors"]
        counts = state["counts"]
        self.counts = Counts(**{**counts, "n_rejected": Counter(counts["n_rejected"])})
        self.pending.restore(state["pending"])
        self._saved_guard = state["guard"]
        self._rejections.restore(state["rejections"])
        if state["held"] is not None:
            kind, fields = state["held"]
            self.held = (Sample if kind == "sample" else Rejected)(*fields)


def _predict_nothing(x: dict) -> None:
    return None


def _unpredicted(error: Exception) -> str:
    return str(error) if isinstance(error, SampleError) else f"the model cannot predict it: {error!r}"
