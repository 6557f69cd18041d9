"""Trials: predicting and learning a sample on a copy of the model, to see whether the copy still works."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from fwonline.exceptions import SampleError
from fwonline.loop._calls import calls
from fwonline.loop._values import Refusal, is_finite, is_number, shown

__all__ = ["NOT_YET", "can_learn", "try_sample"]

# So many features that are no numbers are tried one by one.
_MOST_TRIED = 4
NOT_YET = object()  # in place of the target of a question


def try_sample(model: Any, x: dict, y: Any, odd: Collection[Any], *, is_large: bool) -> None:
    """Predict and learn a sample on a copy of the model; `y` may be `NOT_YET`.

    `odd` names the features whose values are of unusual types, which may mix badly with numbers. With them, or where
    the sample has large numbers, the copy must also learn an ordinary sample of the same features, if the model can:
    what overflows may do so only with the next sample. Raises Refusal when the copy raises, or predicts what is not
    finite after learning.
    """
    with _no_warnings():
        try:
            trial = _Trial(model)
            trial.learn(x, y)
            if is_large or odd:
                small = {name: 1.0 if name in odd else _ordinary(value) for name, value in x.items()}
                target = _ordinary(y) if is_large and not trial.learns_labels else y
                if _Trial(model).can_learn(small, target):
                    trial.learn(small, target)
                    trial.learn(x, y)
        except SampleError as error:
            raise Refusal("model", str(error)) from error
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            if misfits := [f"{shown(name)} is {shown(x[name])}" for name in _misfits(model, x, y)]:
                hint = "a TableEncoder as the first step makes numbers of text, dates and missing values"
                raise Refusal(
                    "model", f"feature {' and '.join(misfits)}, and the model takes numbers alone ({why}); {hint}"
                ) from error
            absent = [shown(name) for name, value in x.items() if value is None][:_MOST_TRIED]
            missing = f"; missing: {', '.join(absent)}" if absent else ""
            raise Refusal("model", f"the model cannot take it: {why}{missing}") from error


def _misfits(model: Any, x: dict, y: Any) -> list[Any]:
    """The features that are no numbers and keep the model from learning a sample that it would learn with numbers.

    Each is tried on a model of the same parameters that has learned nothing.
    """

    def takes(sample: dict) -> bool:
        fresh = calls(model.clone())
        try:
            if y is not NOT_YET:
                fresh.learn(sample, y)
            elif fresh.predict is not None:
                fresh.predict(sample)
        except Exception:  # whatever it raises
            return False
        return True

    numbers = {name: value if is_number(value) else 1.0 for name, value in x.items()}
    odd = [name for name, value in x.items() if not is_number(value)][:_MOST_TRIED]
    if not odd or not hasattr(model, "clone") or not takes(numbers):
        return []
    return [name for name in odd if not takes({**numbers, name: x[name]})]


def can_learn(model: Any, x: dict, y: Any) -> bool:
    """Whether a copy of the model, which cannot predict a sample, can predict it after learning it."""
    with _no_warnings():
        return _Trial(model).can_learn(x, y, is_predicted=False)


class _Trial:
    """A copy of a model."""

    def __init__(self, model: Any) -> None:
        self._calls = calls(copy.deepcopy(model))
        self.learns_labels = self._calls.target == "label"

    def learn(self, x: dict, y: Any, *, is_predicted: bool = True) -> None:
        before = self._predict(x) if is_predicted else None
        if y is not NOT_YET:
            self._calls.learn(x, y)
        after = self._predict(x)
        if is_finite(before) and not is_finite(after):
            raise SampleError(f"the model would predict {shown(after)} once it had learned it")

    def can_learn(self, x: dict, y: Any, *, is_predicted: bool = True) -> bool:
        try:
            self.learn(x, y, is_predicted=is_predicted)
        except Exception:  # whatever it raises
            return False
        return True

    def _predict(self, x: dict) -> Any:
        return None if self._calls.predict is None else self._calls.predict(x)


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    """Overflow on a copy is expected."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _ordinary(value: Any) -> Any:
    """The value with ones in place of its numbers."""
    if isinstance(value, dict):
        return {name: _ordinary(part) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_ordinary(part) for part in value)
    return type(value)(1) if is_number(value) else value
