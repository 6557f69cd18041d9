"""Checks between a stream and a model: no sample that a model would refuse reaches any of its parts."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import numbers
from collections import Counter
from math import hypot
from typing import Any

import msgspec

from fwonline.loop._calls import calls
from fwonline.loop._trial import NOT_YET, can_learn, try_sample
from fwonline.loop._values import Refusal, is_hashable, is_number, numbers_in, shown, type_name, wrong
from fwonline.stream.base import Rejected, Sample

__all__ = ["Guard", "Refusal", "rejected_sample"]

# Samples up to this size are learned without a trial; above it each further power of ten is tried once.
_ORDINARY = 1e6
# After so many trials of one type that went well, the type is trusted under every name: a stream whose every sample
# brings a new name would otherwise be learned twice for ever.
_TRUSTED = 1000
# Failed trials, each of which costs a copy of the model, are limited to so many, and one more every so many items.
# Beyond that, a kind is tried when it has come so many times.
_FAILURES, _ITEMS, _TIMES = 100, 1000, 100
# A kind that failed is tried again after so many items, then after twice as many, and so on.
_PAUSE = 100
# How many kinds are remembered that failed, and that wait for a trial.
_MOST_KEPT = 1000
# Values of these types are known by their type alone once the type was tried; others are looked into.
_OPAQUE = frozenset({str, bytes, type(None)})
# What comes out of files and brokers, besides numbers. Anything else may be a number of a kind that mixes badly.
_USUAL = _OPAQUE | {list, dict, tuple}

# What a checkpoint keeps of a guard as it is.
_AS_THEY_ARE = ("takes_nothing", "failed", "waiting", "n_failed", "n_waited")

# A kind: the name of a feature, or of an output (None: the only one), and the type of its value.
_Kind = tuple[Any, type]


class Guard:
    """Decides whether a model may learn a sample, before any part of the model gets it.

    In a pipeline the first steps learn before the last one sees the sample, so an error of the last step comes too
    late. What is of a new kind is tried on a copy of the model first, as `EventLoop` describes. What was tried is known
    from then on, feature by feature and type by type: a clean sample costs one sum, and a copy is made once for each
    text feature, each label and each power of ten. Samples of kinds whose trial must wait, since there were too many
    failures, are rejected as "untried".
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.target = calls(model).target
        self.size = self.target_size = _ORDINARY  # below these no trial is due
        self.labels: set[Any] = set()
        self.targets: set[_Kind] = {(None, float), (None, int)}
        self.features: set[_Kind] = set()
        self.asked: set[_Kind] = set()
        self.asked_size = 0.0
        self.takes_nothing = False  # learns a sample without features
        self.passed: Counter[str] = Counter()  # type -> trials that went well
        self.failed: dict[str, tuple[int, int]] = {}  # kind -> how often it failed, and the item of its next trial
        self.waiting: dict[str, int] = {}  # kind -> how often it came and was not tried
        self.n_failed = self.n_waited = 0
        self._restored: dict[str, set[tuple[Any, str]]] = {}  # kinds from a checkpoint, with the names of their types

    # Clean samples

    def is_clean(self, x: dict, y: Any) -> bool:
        """Whether a sample needs no `check`: finite numbers of a known size and a target of a known kind."""
        try:
            if self.features:
                if not self._is_known(x):
                    return False
            elif not hypot(*x.values()) < self.size:  # nothing cancels in it, and nothing that is not finite is lost
                return False
            if self.target == "number":
                return (None, type(y)) in self.targets and bool(-self.target_size < y < self.target_size)
            return self.target == "none" or y in self.labels  # noqa: TRY300
        except (ArithmeticError, TypeError, ValueError):  # text, None, what cannot be compared: for `check`
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

    # Other samples

    def check(self, x: dict, y: Any, n: int) -> None:
        """Check a sample, item `n` of the stream, and try what is new in it.

        Raises Refusal when the model must not learn it.
        """
        if x and self.is_clean(x, y):
            return
        kinds, size = _features(x)
        targets, target_size = self._targets(y)
        kinds, targets = self._untried("features", kinds), self._untried("targets", targets)
        is_new_label = self.target == "label" and y not in self.labels
        is_empty = not x and not self.takes_nothing
        is_large, is_far = not size < self.size, not target_size < self.target_size
        new = [_described(kind) for kind in kinds] + [_described(kind, "target ") for kind in targets]
        new += [(f"label {type_name(type(y))}", f"label {shown(y)}")] if is_new_label else []
        new += [2 * ("a sample without features",)] if is_empty else []
        new += [2 * (f"numbers near {_power(size)}",)] if is_large else []
        new += [2 * (f"targets near {_power(target_size)}",)] if is_far else []
        if new and self._try(new, n, x, y, kinds, is_large=is_large or is_far):
            self.features.update(kinds)
            self.targets.update(targets)
            if is_new_label:
                self.labels.add(y)
            self.takes_nothing = self.takes_nothing or is_empty
            self.size, self.target_size = _beyond(size, self.size), _beyond(target_size, self.target_size)

    def check_question(self, x: dict, n: int) -> None:
        """Check the features of a question, which the model predicts and does not learn yet.

        Raises Refusal when the model must not predict it.
        """
        kinds, size = _features(x)
        kinds = self._untried("asked", self._untried("features", kinds))
        known_size = max(self.size, self.asked_size)
        new = [_described(kind, "asked ") for kind in kinds]
        if not size < known_size:
            new.append(2 * (f"asked numbers near {_power(size)}",))
        if new and self._try(new, n, x):
            self.asked.update(kinds)
            self.asked_size = _beyond(size, known_size)

    def mends(self, x: dict, y: Any, n: int, why: Exception) -> bool:
        """Whether the model, which cannot predict a checked sample, can do so after learning it.

        A scaler that has seen nothing but 1e-320 makes infinity out of 1.0, and only learning 1.0 can help.
        """
        new = [f"a sample that cannot be predicted: {type(why).__name__}"]
        try:
            self._is_due(new, new, n)
        except Refusal:
            return False
        if can_learn(self.model, x, y):
            return True
        self._fail(new, n)
        return False

    def _targets(self, y: Any) -> tuple[list[_Kind], float]:
        """Check the target; return the kinds that may have to be tried, and the target's size.

        Raises Refusal saying what was expected.
        """
        if self.target == "none":
            return [], 0.0
        if self.target == "label":
            if (is_number(y) and wrong(y) is not None) or not is_hashable(y):
                raise Refusal("target", f"the target is {shown(y)}: expected a label")
            return [], 0.0
        expected = "a finite number" if self.target == "number" else "a dict of finite numbers or labels"
        if self.target == "many" and not isinstance(y, dict):
            raise Refusal("target", f"the target is {shown(y)}: expected {expected}")
        kinds, found = [], [0.0]
        for name, value in y.items() if self.target == "many" else [(None, y)]:
            if is_number(value):
                if (why := wrong(value)) is not None:
                    raise Refusal("target", f"the target is {shown(value)}: expected {why}")
                found.append(abs(float(value)))
            elif self.target == "number" or not is_hashable(value):
                raise Refusal("target", f"the target is {shown(y)}: expected {expected}")
            kinds.append((name, type(value)))
        return kinds, max(found)

    # Trials

    def _untried(self, what: str, kinds: list[_Kind]) -> list[_Kind]:
        known: set[_Kind] = getattr(self, what)
        restored = self._restored.get(what, ())
        known.update(kind for kind in kinds if (kind[0], type_name(kind[1])) in restored)
        return [kind for kind in kinds if kind not in known]

    def _try(
        self,
        new: list[tuple[str, str]],
        n: int,
        x: dict,
        y: Any = NOT_YET,
        kinds: list[_Kind] | None = None,
        *,
        is_large: bool = False,
    ) -> bool:
        """Try a sample with something `new` in it: its words, and how they are shown. False: the types are trusted.

        Raises Refusal when the trial fails, or would be one too many.
        """
        words, said = [word for word, _ in new], [text for _, text in new]
        if not self._is_due(said, words, n):
            return False
        try:
            odd = {name for name, kind in kinds or () if kind not in _USUAL}
            try_sample(self.model, x, y, odd, is_large=is_large)
        except Refusal:
            self._fail(said, n)
            raise
        self.passed.update(set(words))
        return True

    def _is_due(self, said: list[str], words: list[str], n: int) -> bool:
        """Whether a trial is due; not where the types are trusted. Raises Refusal when it would be one too many."""
        digest = _digest(said)
        times, next_n = self.failed.get(digest, (0, 0))
        what = ", ".join(said[:3])
        if n < next_n:
            why = f"the model refused {what} {times} times; rejected without another trial until item {next_n}"
            raise Refusal("untried", why)
        if not times and all(self.passed[word] >= _TRUSTED for word in words):
            return False
        if self.n_failed < _FAILURES + n // _ITEMS + self.n_waited:
            return True
        if self._wait(digest) < _TIMES:
            why = f"new to the model, which has refused {self.n_failed} kinds that were new"
            raise Refusal("untried", f"{what}: {why}; rejected without a trial until it has come {_TIMES} times")
        del self.waiting[digest]
        self.n_waited += 1
        return True

    def _wait(self, digest: str) -> int:
        """Count a kind that waits for a trial; return how often it may have come.

        In bounded memory: a new kind takes the place, and the count, of the rarest. So none is counted less often than
        it came, and the counts add up to no more than all that came.
        """
        count = self.waiting.pop(digest, 0)
        if not count and len(self.waiting) >= _MOST_KEPT:
            rarest = min(self.waiting, key=self.waiting.__getitem__)
            count = self.waiting.pop(rarest)
        self.waiting[digest] = count + 1
        return count + 1

    def _fail(self, said: list[str], n: int) -> None:
        self.n_failed += 1
        digest = _digest(said)
        times = self.failed.pop(digest, (0, 0))[0] + 1
        self.failed[digest] = (times, n + _PAUSE * 2 ** min(times - 1, 40))
        if len(self.failed) > _MOST_KEPT:
            del self.failed[next(iter(self.failed))]

    # Checkpoints

    def state(self) -> dict[str, Any]:
        """Return what was tried, so that a run that goes on decides as it would have done: plain values."""
        kinds = {
            what: [*((name, type_name(kind)) for name, kind in getattr(self, what)), *self._restored.get(what, ())]
            for what in ("features", "targets", "asked")
        }
        return {
            **{what: sorted(set(pairs), key=repr) for what, pairs in kinds.items()},
            "labels": sorted(self.labels, key=repr),
            "sizes": [self.size, self.target_size, self.asked_size],
            "passed": dict(self.passed),
            **{name: getattr(self, name) for name in _AS_THEY_ARE},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self._restored = {what: set(map(tuple, state[what])) for what in ("features", "targets", "asked")}
        self.labels = set(state["labels"])
        self.size, self.target_size, self.asked_size = state["sizes"]
        for name in _AS_THEY_ARE:
            setattr(self, name, copy.copy(state[name]))
        self.passed = Counter(state["passed"])
        self.failed = {kind: (times, next_n) for kind, (times, next_n) in state["failed"].items()}


def _features(x: dict) -> tuple[list[_Kind], float]:
    """Check each feature; return the kinds that are no numbers, and the sample's size.

    Raises Refusal naming the feature that is not finite, or too large.
    """
    kinds, found = [], []
    for name, value in x.items():
        kind = type(value)
        if kind in _OPAQUE:
            kinds.append((name, kind))
            continue
        is_alone = is_number(value)
        if not is_alone:
            kinds.append((name, kind))
        for number in [value] if is_alone else numbers_in(value):
            if (why := wrong(number)) is not None:
                where = "" if is_alone else f", in {shown(value)}"
                raise Refusal("features", f"feature {shown(name)} is {shown(number)}{where}: expected {why}")
            found.append(abs(float(number)))
    return kinds, hypot(*found)


def _described(kind: _Kind, prefix: str = "") -> tuple[str, str]:
    word = f"{prefix}{type_name(kind[1])}"
    return word, f"{shown(kind[0])} {word}"


def _power(size: float) -> str:
    return f"1e{round(math.log10(size))}"


def _beyond(size: float, known: float) -> float:
    """`known`, or the power of ten beyond `size`."""
    return known if size < known else 10.0 ** math.floor(math.log10(size) + 1.0)


def _digest(said: list[str]) -> str:
    return hashlib.blake2b("\n".join(sorted(said)).encode(errors="replace"), digest_size=8).hexdigest()


def rejected_sample(item: Sample, message: str, raw: Any = None) -> Rejected:
    """A sample that was rejected after it had been read: `raw`, as it came, else as JSON where it has that form."""
    if raw is None:
        fields = {name: value for name, value in msgspec.structs.asdict(item).items() if name in _KEPT}
        try:
            raw = json.dumps(fields, default=repr)
        except Exception:  # names that JSON has not, numbers of too many digits, lists nested too deep
            try:
                raw = repr(fields)
            except Exception:
                raw = f"{{{', '.join(f'{name!r}: {shown(value)}' for name, value in fields.items())}}}"
    return Rejected(raw, message, item.origin, item.key, item.headers)


_KEPT = ("x", "y", "key", "time")
