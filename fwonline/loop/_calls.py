"""How the loop calls a model: every kind of river's, by two functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from river import base

from fwonline._kinds import derives
from fwonline._pipeline import final_estimator
from fwonline._protocols import SupportsPlay, SupportsPlayProba

__all__ = ["FAULTS", "Calls", "Unpredicted", "calls"]

# What a model raises for a sample that it cannot take. When it predicts, nothing is learned yet and no harm is done.
# A number where text belongs is an AttributeError, because it cannot be split.
FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class Unpredicted(Exception):
    """A sample could not be predicted, because of the error `why`; nothing of it was learned."""

    def __init__(self, why: Exception) -> None:
        super().__init__(str(why))
        self.why = why


@dataclass(frozen=True)
class Calls:
    """What to call for a prediction and for learning."""

    predict: Callable[[dict], Any] | None  # None: the model predicts nothing
    learn: Callable[[dict, Any], Any]
    target: Literal["number", "label", "many", "none"]  # what the model learns
    play: Callable[[dict, Any], Any] | None = None  # predicts, learns and returns the prediction; None: no such method
    has_probabilities: bool = False  # whether `predict` returns probabilities

    def one_pass(self) -> Callable[[dict, Any], Any]:
        """Return what predicts and then learns; it raises `Unpredicted` where the prediction fails."""
        if self.play is not None:
            return self.play
        predict, learn = self.predict, self.learn

        def play(x: dict, y: Any) -> Any:
            try:
                y_pred = None if predict is None else predict(x)
            except FAULTS as error:
                raise Unpredicted(error) from error
            learn(x, y)
            return y_pred

        return play


def calls(model: Any, monitors: Iterable[Any] = ()) -> Calls:
    """Choose the calls for a model: probabilities where a monitor's metric needs them, else the plain prediction."""
    if derives(type(model), "river.reco.base.Ranker"):
        return _of_ranker(model)
    final = final_estimator(model)
    has_probabilities = isinstance(final, base.Classifier) and any(map(_needs_probabilities, monitors))
    method = "predict_proba_one" if has_probabilities else "predict_one"
    if not (has_probabilities or hasattr(final, method)):
        method = "score_one"
    predict = getattr(model, method) if hasattr(final, method) else None
    if not _is_supervised(model):
        return Calls(predict, lambda x, y: model.learn_one(x), "none", has_probabilities=has_probabilities)
    if isinstance(final, (base.MultiLabelClassifier, base.MultiTargetRegressor)):
        return Calls(predict, model.learn_one, "many")
    play: Callable[[dict, Any], Any] | None = None
    if has_probabilities:
        if isinstance(model, SupportsPlayProba) and _is_current(model, "play_proba_one", "predict_proba_one"):
            play = model.play_proba_one
    elif isinstance(model, SupportsPlay) and _is_current(model, "play_one", "predict_one"):
        play = model.play_one
    target: Literal["number", "label"] = "number" if isinstance(final, base.Regressor) else "label"
    return Calls(predict, model.learn_one, target, play, has_probabilities)


def _is_current(model: Any, play: str, predict: str) -> bool:
    """Whether `play` does what the other two methods do: not where a derived class has redefined one of them."""
    for cls in type(model).__mro__:
        if play in vars(cls):
            return True
        if predict in vars(cls) or "learn_one" in vars(cls):
            return False
    return False


def _needs_probabilities(monitor: Any) -> bool:
    metric = getattr(monitor, "metric", monitor)
    return not getattr(metric, "requires_labels", True)


def _is_supervised(model: Any) -> bool:
    supervised = getattr(model, "_supervised", None)
    if supervised is None:  # no river estimator
        return "y" in inspect.signature(model.learn_one).parameters
    return bool(supervised)


# river's rankers take user and item apart from the context; in a stream's sample they are features.


def _of_ranker(model: Any) -> Calls:
    def split(x: dict) -> dict[str, Any]:
        context = dict(x)
        return {"user": context.pop("user"), "item": context.pop("item"), "x": context}

    def predict(x: dict) -> Any:
        return model.predict_one(**split(x))

    def learn(x: dict, y: Any) -> None:
        model.learn_one(y=y, **split(x))

    return Calls(predict, learn, "number")
