"""What stands between a stream and a model: no sample that a model would refuse reaches any of its parts."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import math
import numbers
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from math import hypot
from typing import Any

import msgspec
import numpy as np

from fwonline._kernels.layout import LARGEST
from fwonline.exceptions import SampleError
from fwonline.loop._calls import calls
from fwonline.stream.base import Rejected, Sample

__all__ = ["Guard", "Refusal", "check_time", "is_hashable", "rejected_sample", "unpredicted"]

# Samples up to this size are learned without a trial; from here on each further power of ten is tried out once.
_ORDINARY = 1e6
# A stream whose every sample brings something new would be learned twice for ever: after so many trials of the same
# type that went well, the type is trusted under every name.
_TRUSTED = 1000
# What bad messages of new kinds cost: a copy of the model each, so many times and once more every so many items. After
# that, a kind is tried when it has come so many times.
_FAILURES, _ITEMS, _TIMES = 100, 1000, 100
# A kind that failed is tried again after so many items, then after twice as many, and so on.
_PAUSE = 100
# How many kinds are remembered that failed, and that wait.
_MOST_KEPT = 1000
# Values of these types are judged by their type alone once the type was tried; others are looked into.
_OPAQUE = frozenset({str, bytes, type(None)})
# What comes out of files and brokers, besides numbers. Anything else may be a number of a kind that mixes badly.
_ORDINARY_KINDS = _OPAQUE | {list, dict, tuple}
_NOT_YET = object()


class Refusal(SampleError):
    """A sample that the guard does not let pass; `reason` is the word it is counted under."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Guard:
    """Decides whether a model may learn a sample, before any part of the model has seen it.

    In a pipeline the first steps learn before the last one looks, so an error of the last step comes too late. Numbers
    must be finite and at most 1e100, also inside of lists and dicts. What is of a new kind is tried on a copy of the
    model first: what is not a number (text for a one-hot encoder, None for an imputer), a label that was not seen
    before, and numbers larger than those that were learned so far, by powers of ten beyond 1e6. The copy must be able
    to predict the sample after it has learned it; where the numbers are large, also an ordinary sample of the same
    features, which it learns as well. What the copy took is known from then on, feature by feature and type by type.
    So a clean sample costs one sum, and the copy is made once for each text feature, each label and each power of ten.

    Trials that fail are bounded: 100 of them, and one more for every 1,000 items of the stream; a kind that comes when
    these are used up is tried when it has come 100 times. A kind that failed is tried again after 100 items, 200, 400,
    and so on. In between samples of such kinds are rejected without a trial, under the word "untried".

    Parameters
    ----------
    model
        The model to stand before.

    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.target = calls(model).target
        self.size = self.target_size = _ORDINARY  # below these no trial is due
        self.labels: set[Any] = set()
        self.targets: set[tuple[Any, Any]] = {(None, float), (None, int)}  # output (None: the only one) and type
        self.features: set[tuple[Any, type]] = set()
        self.asked: set[tuple[Any, type]] = set()
        self.asked_size = 0.0
        self.takes_nothing = False  # learns a sample without features
        self.passed: Counter[str] = Counter()  # type -> trials that went well
        self.failed: dict[str, tuple[int, int]] = {}  # kind -> how often it failed, and the item of its next trial
        self.waiting: dict[str, int] = {}  # kind -> how often it came and was not tried
        self.n_failed = self.n_waited = 0
        self._former: dict[str, set[tuple[Any, str]]] = {}  # kinds that a former run tried, by the names of their types

    # The road of clean samples

    def is_clean(self, x: dict, y: Any) -> bool:
        """Whether a sample needs no look: finite numbers of a size that is known and a target of the known kind."""
        try:
            if self.features:
                if not self._is_known(x):
                    return False
            elif not hypot(*x.values()) < self.size:  # nothing cancels in it, and nothing that is not finite gets lost
                return False
            if self.target == "number":
                return (None, type(y)) in self.targets and bool(-self.target_size < y < self.target_size)
            return self.target == "none" or y in self.labels  # noqa: TRY300
        except (ArithmeticError, TypeError, ValueError):  # text, None, what cannot be compared: for `check` to judge
            return False

    def is_complete(self, x: dict, y: Any) -> bool:
        """Whether a sample has a target where the model wants one."""
        return y is not None or self.target == "none"

    def _is_known(self, x: dict) -> bool:
        features, size = self.features, self.size
        for name, value in x.items():
            kind = type(value)
            if kind is float or kind is int:
                if not -size < value < size:
                    return False
            elif kind in _OPAQUE:
                if (name, kind) not in features:
                    return False
            elif not (isinstance(value, numbers.Real) and -size < float(value) < size):
                return False
        return True

    # What needs a look

    def check(self, x: dict, y: Any, n: int) -> None:
        """Let a sample, item `n` of the stream, pass, or say what is wrong with it.

        Raises
        ------
        Refusal
            When the model must not learn it.

        """
        if x and self.is_clean(x, y):
            return
        kinds, size = self._check_features(x)
        kinds = [kind for kind in kinds if not self._has_tried("features", kind)]
        is_large = not size < self.size
        targets, target_size = self._check_target(y)
        targets = [kind for kind in targets if not self._has_tried("targets", kind)]
        is_new_label = self.target == "label" and y not in self.labels
        is_far = not target_size < self.target_size
        is_empty = not x and not self.takes_nothing
        if not (kinds or is_large or targets or is_new_label or is_far or is_empty):
            return
        words = [*map(_word, kinds), *(f"target {_word(kind)}" for kind in targets)]
        if is_new_label:
            words.append(f"label {_name(type(y))}")
        shown = [f"{_shown(name)} {word}" for (name, _), word in zip([*kinds, *targets], words, strict=False)]
        if is_new_label:
            shown.append(f"label {_shown(y)}")
        if is_empty:
            words.append("a sample without features")
            shown.append(words[-1])
        if is_large:
            words.append(kind := f"numbers near 1e{round(math.log10(size))}")
            shown.append(kind)
        if is_far:
            words.append(kind := f"targets near 1e{round(math.log10(target_size))}")
            shown.append(kind)
        if self._is_due(shown, words, n):
            try:
                self._try(x, y, kinds, is_large=is_large or is_far)
            except Refusal:
                self._fail(shown, n)
                raise
            self.passed.update(set(words))
            self.features.update(kinds)
            self.targets.update(targets)
            if is_new_label:
                self.labels.add(y)
            self.takes_nothing = self.takes_nothing or is_empty
            self.size, self.target_size = _beyond(size, self.size), _beyond(target_size, self.target_size)

    def check_question(self, x: dict, n: int) -> None:
        """Let the features of a question pass, which the model predicts and does not learn yet.

        Raises
        ------
        Refusal
            When the model must not see them.

        """
        kinds, size = self._check_features(x)
        kinds = [kind for kind in kinds if not (self._has_tried("features", kind) or self._has_tried("asked", kind))]
        is_large = not size < max(self.size, self.asked_size)
        words = [f"asked {_word(kind)}" for kind in kinds]
        shown = [f"{_shown(name)} {word}" for (name, _), word in zip(kinds, words, strict=True)]
        if is_large:
            words.append(kind := f"asked numbers near 1e{round(math.log10(size))}")
            shown.append(kind)
        if words and self._is_due(shown, words, n):
            try:
                self._try(x)
            except Refusal:
                self._fail(shown, n)
                raise
            self.passed.update(set(words))
            self.asked.update(kinds)
            self.asked_size = _beyond(size, max(self.size, self.asked_size))

    def mends(self, x: dict, y: Any, n: int, why: Exception) -> bool:
        """Whether the model, which cannot predict a sample that passed, could do so once it had learned it.

        A scaler that has seen nothing but 1e-320 makes infinity out of 1.0, and only learning 1.0 can help.
        """
        shown = [f"a sample that cannot be predicted: {type(why).__name__}"]
        try:
            self._is_due(shown, shown, n)
        except Refusal:
            return False
        with _quiet():
            trial = _Trial(self.model)
            try:
                trial.learn(x, y, is_predicted=False)
            except Exception:  # whatever it objects to
                self._fail(shown, n)
                return False
        return True

    def _check_features(self, x: dict) -> tuple[list[tuple[Any, type]], float]:
        """Look at each feature; return the kinds that are no numbers, and the sample's size.

        Raises
        ------
        Refusal
            Naming the feature that is not finite, or too large.

        """
        kinds, found = [], []
        for name, value in x.items():
            kind = type(value)
            if kind in _OPAQUE:
                kinds.append((name, kind))
                continue
            is_number = _is_number(value)
            if not is_number:
                kinds.append((name, kind))
            for number in [value] if is_number else _numbers_in(value):
                if (why := _wrong(number)) is not None:
                    where = "" if is_number else f", in {_shown(value)}"
                    raise Refusal("features", f"feature {_shown(name)} is {_shown(number)}{where}: expected {why}")
                found.append(abs(float(number)))
        return kinds, hypot(*found)

    def _check_target(self, y: Any) -> tuple[list[tuple[Any, Any]], float]:
        """Look at the target; return the kinds that may have to be tried, and the target's size.

        Raises
        ------
        Refusal
            Saying what was expected in its place.

        """
        if self.target == "none":
            return [], 0.0
        if self.target == "label":
            if (_is_number(y) and _wrong(y) is not None) or not is_hashable(y):
                raise Refusal("target", f"the target is {_shown(y)}: expected a label")
            return [], 0.0
        if self.target == "many" and not isinstance(y, dict):
            raise Refusal("target", f"the target is {_shown(y)}: expected a dict of finite numbers or labels")
        kinds, found = [], [0.0]
        for name, value in y.items() if self.target == "many" else [(None, y)]:
            if _is_number(value):
                if (why := _wrong(value)) is not None:
                    raise Refusal("target", f"the target is {_shown(value)}: expected {why}")
                found.append(abs(float(value)))
            elif self.target == "number" or not is_hashable(value):
                what = "a finite number" if self.target == "number" else "a dict of finite numbers or labels"
                raise Refusal("target", f"the target is {_shown(y)}: expected {what}")
            kinds.append((name, type(value)))
        return kinds, max(found)

    # Trials

    def _has_tried(self, what: str, kind: tuple[Any, Any]) -> bool:
        known: set[tuple[Any, Any]] = getattr(self, what)
        if kind in known:
            return True
        if (kind[0], _name(kind[1])) in self._former.get(what, ()):
            known.add(kind)
            return True
        return False

    def _is_due(self, shown: list[str], words: list[str], n: int) -> bool:
        """Whether a trial is due; not where the types are trusted.

        Raises
        ------
        Refusal
            When it would be one too many.

        """
        digest = _digest(shown)
        times, next_n = self.failed.get(digest, (0, 0))
        if n < next_n:
            raise Refusal(
                "untried",
                f"the model refused {', '.join(shown[:3])} {times} times; rejected without another trial until item "
                f"{next_n}",
            )
        if not times and all(self.passed[word] >= _TRUSTED for word in words):
            return False
        if self.n_failed < _FAILURES + n // _ITEMS + self.n_waited:
            return True
        if self._wait(digest) < _TIMES:
            raise Refusal(
                "untried",
                f"{', '.join(shown[:3])}: new to the model, which has refused {self.n_failed} kinds that were new; "
                f"rejected without a trial until it has come {_TIMES} times",
            )
        del self.waiting[digest]
        self.n_waited += 1
        return True

    def _wait(self, digest: str) -> int:
        """Count a kind that waits for a trial; return how often it may have come.

        In bounded memory: a kind that is new takes the place, and the count, of the rarest. So none is counted less
        often than it came, and the counts add up to no more than all that came.
        """
        count = self.waiting.pop(digest, 0)
        if not count and len(self.waiting) >= _MOST_KEPT:
            rarest = min(self.waiting, key=self.waiting.__getitem__)
            count = self.waiting.pop(rarest)
        self.waiting[digest] = count + 1
        return count + 1

    def _fail(self, shown: list[str], n: int) -> None:
        self.n_failed += 1
        digest = _digest(shown)
        times = self.failed.pop(digest, (0, 0))[0] + 1
        self.failed[digest] = (times, n + _PAUSE * 2 ** min(times - 1, 40))
        if len(self.failed) > _MOST_KEPT:
            del self.failed[next(iter(self.failed))]

    def _try(
        self, x: dict, y: Any = _NOT_YET, kinds: Iterable[tuple[Any, type]] = (), *, is_large: bool = False
    ) -> None:
        """Predict and learn a sample on a copy, and see whether the copy is still of use."""
        odd = {name for name, kind in kinds if kind not in _ORDINARY_KINDS}
        with _quiet():
            try:
                trial = _Trial(self.model)
                trial.learn(x, y)
                if is_large or odd:
                    # What overflows may do so only when the next sample comes: the first one of all has no variance.
                    small = {name: 1.0 if name in odd else _ordinary(value) for name, value in x.items()}
                    target = _ordinary(y) if is_large else y
                    if _Trial(self.model).takes(small, target):
                        trial.learn(small, target)
                        trial.learn(x, y)
            except SampleError as error:
                raise Refusal("model", str(error)) from error
            except Exception as error:
                raise Refusal("model", f"the model cannot take it: {type(error).__name__}: {error}") from error

    # What a checkpoint keeps

    def state(self) -> dict[str, Any]:
        """What was tried, so that a run that is taken up decides as it would have done: plain values."""
        kinds = {
            what: [*((name, _name(kind)) for name, kind in getattr(self, what)), *self._former.get(what, ())]
            for what in ("features", "targets", "asked")
        }
        return {
            **{what: sorted(set(pairs), key=repr) for what, pairs in kinds.items()},
            "labels": sorted(self.labels, key=repr),
            "sizes": [self.size, self.target_size, self.asked_size],
            "takes_nothing": self.takes_nothing,
            "passed": dict(self.passed),
            "failed": self.failed,
            "waiting": self.waiting,
            "n_failed": self.n_failed,
            "n_waited": self.n_waited,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what a former run has tried."""
        self._former = {what: {(name, kind) for name, kind in state[what]} for what in ("features", "targets", "asked")}
        self.labels = set(state["labels"])
        self.size, self.target_size, self.asked_size = state["sizes"]
        self.takes_nothing = state["takes_nothing"]
        self.passed = Counter(state["passed"])
        self.failed = {kind: (times, next_n) for kind, (times, next_n) in state["failed"].items()}
        self.waiting = dict(state["waiting"])
        self.n_failed, self.n_waited = state["n_failed"], state["n_waited"]


class _Trial:
    """A copy of a model, and what must hold after it has learned."""

    def __init__(self, model: Any) -> None:
        self._calls = calls(copy.deepcopy(model))

    def learn(self, x: dict, y: Any, *, is_predicted: bool = True) -> None:
        """Predict, learn and predict again.

        Raises
        ------
        SampleError
            When the model could predict the sample before it had learned it, and cannot do so behind it.

        """
        before = self._predict(x) if is_predicted else None
        if y is not _NOT_YET:
            self._calls.learn(x, y)
        after = self._predict(x)
        if _is_finite(before) and not _is_finite(after):
            raise SampleError(f"the model would predict {_shown(after)} once it had learned it")

    def takes(self, x: dict, y: Any) -> bool:
        """Whether the model can learn such a sample at all."""
        try:
            self.learn(x, y)
        except Exception:  # whatever it objects to
            return False
        return True

    def _predict(self, x: dict) -> Any:
        return None if self._calls.predict is None else self._calls.predict(x)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What overflows on a copy is no news."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _ordinary(value: Any) -> Any:
    """The value with ones in the place of its numbers."""
    if isinstance(value, dict):
        return {name: _ordinary(part) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_ordinary(part) for part in value)
    return type(value)(1) if _is_number(value) else value


def _beyond(size: float, known: float) -> float:
    """`known`, or the power of ten beyond `size`."""
    return known if size < known else 10.0 ** math.floor(math.log10(size) + 1.0)


def _is_number(value: Any) -> bool:
    kind = type(value)
    return kind is float or kind is int or kind is bool or isinstance(value, (numbers.Real, Decimal))


def _wrong(value: Any) -> str | None:
    """What should have been in the place of a number that is not finite, or too large; None where nothing is wrong."""
    try:
        size = abs(float(value))
    except (ArithmeticError, ValueError):  # an integer beyond every float; a NaN that signals
        size = math.nan
    if size <= LARGEST:
        return None
    return f"a number of at most {LARGEST:g}" if math.isfinite(size) else "a finite number"


def _numbers_in(value: Any) -> Iterator[Any]:
    """The numbers inside of lists, dicts and arrays, however deep."""
    seen: set[int] = set()
    inside = [value]
    while inside:
        value = inside.pop()
        if _is_number(value):
            yield value
        elif isinstance(value, complex):
            inside += [value.real, value.imag]
        elif isinstance(value, (dict, list, tuple, set, frozenset, np.ndarray)) and id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, np.ndarray):
                value = value.ravel().tolist()
            inside += value.values() if isinstance(value, dict) else value


def _is_finite(y_pred: Any) -> bool:
    values = y_pred.values() if isinstance(y_pred, dict) else [y_pred]
    return all(math.isfinite(float(value)) for value in values if isinstance(value, numbers.Real))


def is_hashable(value: Any) -> bool:
    """Whether a value can be looked up; a tuple that holds a list cannot, whatever its type says."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def check_time(time: Any) -> None:
    """Let an event time pass: one that is not a number would keep every question from being given up.

    Raises
    ------
    Refusal
        When it is not finite.

    """
    try:
        is_right = time is None or math.isfinite(time)
    except (TypeError, OverflowError):
        is_right = False
    if not is_right:
        raise Refusal("time", f"the event time is {_shown(time)}: expected finite seconds since the epoch")


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _word(kind: tuple[Any, type]) -> str:
    return _name(kind[1])


def _digest(shown: list[str]) -> str:
    return hashlib.blake2b("\n".join(sorted(shown)).encode(errors="replace"), digest_size=8).hexdigest()


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # an integer of too many digits, a list nested too deep
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def unpredicted(error: Exception) -> str:
    """Say what became of a prediction."""
    return str(error) if isinstance(error, SampleError) else f"the model cannot predict it: {error!r}"


def rejected_sample(item: Sample, message: str, raw: Any = None) -> Rejected:
    """A sample that was rejected after it had been read: as it came, else as JSON where it has that form."""
    if raw is None:
        fields = {name: value for name, value in msgspec.structs.asdict(item).items() if name in _KEPT}
        try:
            raw = json.dumps(fields, default=repr)
        except Exception:  # names that JSON has not, numbers of too many digits, lists nested too deep
            try:
                raw = repr(fields)
            except Exception:
                raw = f"{{{', '.join(f'{name!r}: {_shown(value)}' for name, value in fields.items())}}}"
    return Rejected(raw, message, item.origin, item.key, item.headers)


_KEPT = ("x", "y", "key", "time")
