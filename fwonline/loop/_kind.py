"""What a model or a source is, apart from what it learned: a checkpoint is only taken up by its like."""

from __future__ import annotations

import inspect
from typing import Any

from river import base, compose

__all__ = ["difference", "kind_of"]


def kind_of(obj: Any) -> Any:
    """Describe an object by its class and its parameters, as plain values.

    >>> from river import linear_model, preprocessing
    >>> model = preprocessing.StandardScaler() | linear_model.Perceptron(l2=0.5)
    >>> kind = kind_of(model)
    >>> kind["class"], kind["Perceptron"]["class"], kind["Perceptron"]["l2"]
    ('river.compose.pipeline.Pipeline', 'river.linear_model.perceptron.Perceptron', '0.5')
    """
    if isinstance(obj, (bool, int, float, str, bytes, type(None))):
        return repr(obj)
    if isinstance(obj, (list, tuple)):
        return [kind_of(part) for part in obj]
    if isinstance(obj, dict):
        return {str(name): kind_of(part) for name, part in obj.items()}
    if isinstance(obj, type) or inspect.isroutine(obj):
        return f"{obj.__module__}.{obj.__qualname__}"
    kind: dict[str, Any] = {"class": f"{type(obj).__module__}.{type(obj).__qualname__}"}
    if isinstance(obj, compose.Pipeline):
        kind.update({str(name): kind_of(step) for name, step in obj.steps.items()})
    elif isinstance(obj, base.Base):
        for name in inspect.signature(type(obj)).parameters:
            if hasattr(obj, name):
                kind[name] = kind_of(getattr(obj, name))
    return kind


def difference(then: Any, now: Any, path: str) -> str | None:
    """Say in words where two kinds differ first, or return None.

    >>> difference({"class": "A", "radius": "1.0"}, {"class": "A", "radius": "2.0"}, "model")
    'model.radius was 1.0 and is 2.0 now'
    """
    if type(then) is type(now) and isinstance(then, dict):
        for name in [*then, *(name for name in now if name not in then)]:
            where = path if name == "class" else f"{path}.{name}"
            if name not in then or name not in now:
                return f"{where} {'is new' if name in now else 'is gone'}"
            if (found := difference(then[name], now[name], where)) is not None:
                return found
        return None
    if type(then) is type(now) and isinstance(then, list) and len(then) == len(now):
        parts = (difference(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(then, now, strict=True)))
        return next((part for part in parts if part is not None), None)
    return None if then == now else f"{path} was {_brief(then)} and is {_brief(now)} now"


def _brief(kind: Any) -> str:
    return kind["class"] if isinstance(kind, dict) and "class" in kind else str(kind)
