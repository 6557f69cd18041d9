"""Class and parameters of a model or a source: a run goes on only from a checkpoint of the same ones."""

from __future__ import annotations

import inspect
import reprlib
from typing import Any

from river import base

from fwonline._kinds import derives
from fwonline.checkpoint.allowed import name_of

__all__ = ["difference", "kind_of"]


def kind_of(obj: Any) -> Any:
    """Describe an object by its class and its parameters, as plain values.

    >>> from river import linear_model, preprocessing
    >>> model = preprocessing.StandardScaler() | linear_model.Perceptron(l2=0.5)
    >>> kind = kind_of(model)
    >>> kind["class"], kind["Perceptron"]["class"], kind["Perceptron"]["l2"]
    ('river.compose.pipeline.Pipeline', 'river.linear_model.perceptron.Perceptron', '0.5')
    """
    return _kind_of(obj, {})


def _kind_of(obj: Any, known: dict[int, Any]) -> Any:
    # Each object once: lists that hold the same list many times, as a file may have them, would take for ever.
    if isinstance(obj, (bool, int, float, str, bytes, type(None))):
        return repr(obj)
    if isinstance(obj, type) or inspect.isroutine(obj):
        return ".".join(map(str, name_of(obj)))
    if id(obj) in known:
        return known[id(obj)]
    kind: Any
    if isinstance(obj, (list, tuple)):
        kind = [_kind_of(part, known) for part in obj]
    elif isinstance(obj, dict):
        kind = {str(name): _kind_of(part, known) for name, part in obj.items()}
    else:
        kind = {"class": ".".join(name_of(type(obj)))}
        if derives(type(obj), "river.compose.pipeline.Pipeline"):
            kind.update({str(name): _kind_of(step, known) for name, step in obj.steps.items()})
        elif isinstance(obj, base.Base):
            for name in inspect.signature(type(obj)).parameters:
                if hasattr(obj, name):
                    kind[name] = _kind_of(getattr(obj, name), known)
    known[id(obj)] = kind
    return kind


def difference(then: Any, now: Any, path: str, own: bool = False) -> str | None:
    """Return where two kinds differ first, in words, or None.

    With `own`, classes are compared, and the parameters of this library's: others' may change what they were given.

    >>> difference({"class": "A", "radius": "1.0"}, {"class": "A", "radius": "2.0"}, "model")
    'model.radius was 1.0 and is 2.0 now'
    """
    if type(then) is type(now) and isinstance(then, dict):
        if own and not str(now.get("class", "fwonline.")).startswith(("fwonline.", "river.compose.pipeline.")):
            both = [name for name in now if name in then and (name == "class" or isinstance(then[name], dict))]
            then, now = ({name: kind[name] for name in both} for kind in (then, now))
        for name in [*then, *(name for name in now if name not in then)]:
            where = path if name == "class" else f"{path}.{name}"
            if name not in then or name not in now:
                return f"{where} {'is new' if name in now else 'is gone'}"
            if (found := difference(then[name], now[name], where, own)) is not None:
                return found
        return None
    if type(then) is type(now) and isinstance(then, list) and len(then) == len(now):
        parts = (difference(a, b, f"{path}[{i}]", own) for i, (a, b) in enumerate(zip(then, now, strict=True)))
        return next((part for part in parts if part is not None), None)
    return None if then == now else f"{path} was {_brief(then)} and is {_brief(now)} now"


def _brief(kind: Any) -> str:
    if isinstance(kind, dict) and "class" in kind:
        return kind["class"]
    return kind if isinstance(kind, str) else _short.repr(kind)


_short = reprlib.Repr()
_short.maxlevel, _short.maxother, _short.maxstring, _short.maxlist, _short.maxdict = 4, 200, 200, 20, 20
