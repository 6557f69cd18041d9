"""How the loop speaks to a model: every kind of river's, by two calls."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from river import base, compose
from river.reco.base import Ranker

__all__ = ["FAULTS", "Calls", "Unpredicted", "calls", "final_step"]


@dataclass(frozen=True)
class Calls:
    """What to call for a prediction and for learning.

    Parameters
    ----------
    predict
        Of the features; None where the model predicts nothing.
    learn
        Of the features and the target.
    target
        What the model learns: a "number", a "label", "many" of them, or nothing ("none").
    play
        Both at once, where the model can do that: of the features and the target; answers the prediction.

    """

    predict: Callable[[dict], Any] | None
    learn: Callable[[dict, Any], Any]
    target: Literal["number", "label", "many", "none"]
    play: Callable[[dict, Any], Any] | None = None

    def played(self) -> Callable[[dict, Any], Any]:
        """What to call to predict and then learn, which raises `Unpredicted` where the prediction is what failed."""
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


# What a model raises over a sample it cannot take; in a prediction, where nothing is learned yet, no harm is done.
# A number in the place of text is an AttributeError, for it cannot be split.
FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class Unpredicted(Exception):
    """A sample could not be predicted, for the error `why`; nothing of it was learned."""

    def __init__(self, why: Exception) -> None:
        super().__init__(str(why))
        self.why = why


def final_step(model: Any) -> Any:
    """The estimator at the end of a pipeline, or the model itself."""
    while isinstance(model, compose.Pipeline):
        model = list(model.steps.values())[-1]
    return model


def calls(model: Any, monitors: Iterable[Any] = ()) -> Calls:
    """Choose the calls for a model: probabilities where a monitor's metric needs them, else the plain prediction."""
    final = final_step(model)
    if isinstance(model, Ranker):
        return Calls(_predict_ranked(model), _learn_ranked(model), "number")
    predict = getattr(model, "predict_one", None)
    if isinstance(final, base.Classifier) and any(map(_needs_probabilities, monitors)):
        predict = model.predict_proba_one
    elif not hasattr(final, "predict_one"):
        predict = model.score_one if hasattr(final, "score_one") else None
    if not _is_supervised(model):
        return Calls(predict, lambda x, y: model.learn_one(x), "none")
    if isinstance(final, (base.MultiLabelClassifier, base.MultiTargetRegressor)):
        return Calls(predict, model.learn_one, "many")
    return Calls(
        predict, model.learn_one, "number" if isinstance(final, base.Regressor) else "label", _both(model, predict)
    )


def _both(model: Any, predict: Any) -> Callable[[dict, Any], Any] | None:
    """The model's own call that predicts and learns, where it stands for the other two."""
    name = getattr(predict, "__name__", "")
    if not name.startswith("predict"):
        return None
    together = name.replace("predict", "play")
    depth = {
        method: next((k for k, kind in enumerate(type(model).__mro__) if method in vars(kind)), math.inf)
        for method in (name, "learn_one", together)
    }
    # Who has derived a class and changed one of the two means that one.
    return getattr(model, together) if depth[together] <= min(depth.values()) < math.inf else None


def _needs_probabilities(monitor: Any) -> bool:
    metric = getattr(monitor, "metric", monitor)
    return not getattr(metric, "requires_labels", True)


def _is_supervised(model: Any) -> bool:
    supervised = getattr(model, "_supervised", None)
    if supervised is None:  # no river estimator
        return "y" in inspect.signature(model.learn_one).parameters
    return bool(supervised)


# river's rankers take the user and the item apart from the context; in a stream's sample they are features.


def _predict_ranked(model: Ranker) -> Callable[[dict], Any]:
    def predict(x: dict) -> Any:
        context = dict(x)
        return model.predict_one(user=context.pop("user"), item=context.pop("item"), x=context)

    return predict


def _learn_ranked(model: Ranker) -> Callable[[dict, Any], None]:
    def learn(x: dict, y: Any) -> None:
        context = dict(x)
        model.learn_one(user=context.pop("user"), item=context.pop("item"), y=y, x=context)

    return learn
