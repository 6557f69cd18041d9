"""What stands between a stream and a model: no sample that a model would refuse reaches any of its parts."""

from __future__ import annotations

import copy
import json
import math
import numbers
from typing import Any

import msgspec

from fwonline.exceptions import SampleError
from fwonline.loop._calls import calls
from fwonline.stream.base import Rejected, Sample

__all__ = ["LARGE", "Guard", "Refusal", "rejected_sample", "unpredicted"]

# Beyond this a number may overflow on its way through a pipeline, so it is tried out first. Finite sums below it cost
# nothing but the sum.
LARGE = 1e100
# A stream whose every sample brings something new would be learned twice for ever: after so many trials, trust it.
_MAX_TRIALS = 1000
_NOT_YET = object()


class Refusal(SampleError):
    """A sample that the guard does not let pass; `reason` is the word it is counted under."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Guard:
    """Decides whether a model may learn a sample, before any part of the model has seen it.

    In a pipeline the first steps learn before the last one looks, so an error of the last step comes too late. Numbers
    must be finite. What is not a number (text for a one-hot encoder, None for an imputer), a label that was not seen
    before, and numbers so large that they could overflow are tried on a copy of the model; what the copy learned is
    known from then on, feature by feature and type by type. So a clean sample costs one sum, and the copy is made once
    for each text feature and each label.

    Parameters
    ----------
    model
        The model to stand before.

    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.target = calls(model).target
        self.labels: set[Any] = set()
        self.features: set[tuple[Any, type]] = set()
        self.asked: set[tuple[Any, type]] = set()
        self.trials = 0

    def is_clean(self, x: dict, y: Any) -> bool:
        """Whether a sample needs no look: finite numbers of ordinary size and a target of the known kind."""
        try:
            if self.features:
                if not self._is_known(x):
                    return False
            elif not -LARGE < sum(x.values()) < LARGE:
                return False
            if self.target == "number":
                return bool(-LARGE < y < LARGE)
            return self.target == "none" or y in self.labels  # noqa: TRY300
        except TypeError:  # text, None: for `check` to judge
            return False

    def is_complete(self, x: dict, y: Any) -> bool:
        """Whether a sample has a target where the model wants one."""
        return y is not None or self.target == "none"

    def _is_known(self, x: dict) -> bool:
        features = self.features
        for name, value in x.items():
            kind = type(value)
            if kind is float or kind is int:
                if not -LARGE < value < LARGE:
                    return False
            elif (name, kind) not in features and not (isinstance(value, numbers.Real) and _is_ordinary(value)):
                return False
        return True

    def check_features(self, x: dict) -> list[tuple[Any, type]]:
        """Look at each feature; return those that must be tried out.

        Raises
        ------
        Refusal
            Naming the feature that is not finite.

        """
        unknown = []
        for name, value in x.items():
            kind = type(value)
            if kind is float or kind is int or kind is bool or isinstance(value, numbers.Real):
                if not _is_ordinary(value):
                    if not _is_finite(value):
                        raise Refusal("features", f"feature {name!r} is {_shown(value)}: expected a finite number")
                    unknown.append((name, kind))
            elif (name, kind) not in self.features:
                unknown.append((name, kind))
        return unknown

    def check_target(self, y: Any) -> bool:
        """Look at the target; return whether it must be tried out.

        Raises
        ------
        Refusal
            Saying what was expected in its place.

        """
        if self.target == "none":
            return False
        if self.target == "many":
            if not isinstance(y, dict) or not all(_is_finite(value) for value in y.values()):
                raise Refusal("target", f"the target is {_shown(y)}: expected a dict of finite numbers or labels")
            return False
        if self.target == "number":
            if not isinstance(y, numbers.Real) or not _is_finite(y):
                raise Refusal("target", f"the target is {_shown(y)}: expected a finite number")
            return not _is_ordinary(y)
        if not _is_finite(y) or getattr(y, "__hash__", None) is None:
            raise Refusal("target", f"the target is {_shown(y)}: expected a label")
        return not isinstance(y, float) and y not in self.labels

    def check(self, x: dict, y: Any) -> None:
        """Let a sample pass, or say what is wrong with it.

        Raises
        ------
        Refusal
            When the model must not learn it.

        """
        if self.is_clean(x, y):
            return
        unknown, is_new_target = self.check_features(x), self.check_target(y)
        if not unknown and not is_new_target:
            return
        if self.trials == _MAX_TRIALS:
            return
        self._try(x, y)
        self.trials += 1
        self.features.update(pair for pair in unknown if not issubclass(pair[1], numbers.Real))
        if is_new_target and self.target == "label":
            self.labels.add(y)

    def check_question(self, x: dict) -> None:
        """Let the features of a question pass, which the model predicts and does not learn yet.

        Raises
        ------
        Refusal
            When the model must not see them.

        """
        unknown = [pair for pair in self.check_features(x) if pair not in self.asked]
        if unknown and self.trials < _MAX_TRIALS:
            self._try(x)
            self.trials += 1
            self.asked.update(unknown)

    def _try(self, x: dict, y: Any = _NOT_YET) -> None:
        trial = calls(copy.deepcopy(self.model))
        try:
            if trial.predict is not None:
                trial.predict(x)
            if y is not _NOT_YET:
                trial.learn(x, y)
        except SampleError as error:
            raise Refusal("model", str(error)) from error
        except Exception as error:
            raise Refusal("model", f"the model cannot take it: {type(error).__name__}: {error}") from error


def _is_ordinary(value: Any) -> bool:
    return bool(-LARGE < value < LARGE)


def _is_finite(value: Any) -> bool:
    try:
        return not isinstance(value, numbers.Real) or math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def _shown(value: Any) -> str:
    text = repr(value)
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
        except (TypeError, ValueError):
            raw = repr(fields)
    return Rejected(raw, message, item.origin, item.key, item.headers)


_KEPT = ("x", "y", "key", "time")
