"""The classes that a stream definition may name: it can build objects of these and of nothing else."""

from __future__ import annotations

import ast
import difflib
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from river import base

from fwonline._kinds import derives

__all__ = [
    "AmbiguousName",
    "closest",
    "expected_type",
    "find",
    "holds_estimators",
    "listing",
    "parameters",
    "wants_function",
]

# A definition may come from somebody else, so nothing here runs code from the file.
_MODULES = (
    "fwonline.cluster",
    "fwonline.sets",
    "fwonline.losses",
    "fwonline.optim",
    "fwonline.optim.river",
    "fwonline.optim.schedules",
    "fwonline.linear_model",
    "fwonline.covariance",
    "fwonline.reco",
    "fwonline.monitors",
    "fwonline.stream",
    "fwonline.datasets",
    "fwonline.tables",
    "river.preprocessing",
    "river.feature_extraction",
    "river.compose",
    "river.linear_model",
    "river.multiclass",
    "river.ensemble",
    "river.forest",
    "river.tree",
    "river.naive_bayes",
    "river.metrics",
    "river.optim",
    "river.optim.losses",
    "river.optim.schedulers",
    "river.optim.initializers",
    "river.drift",
    "river.drift.binary",
    "river.stats",
    "river.datasets",
    "river.datasets.synth",
)
# These need a function, a class or an iterator, which no file can hold, have no number to show, or are no parts of a
# run.
_NOT_FROM_DATA = {
    "Bracket",
    "CallbackSink",
    "ClassificationReport",
    "ConfusionMatrix",
    "ConvexSet",
    "FuncTransformer",
    "Grouper",
    "IterableSource",
    "Objective",
    "Optimizer",
    "Rejected",
    "Sample",
    "SelectType",
    "Silhouette",
    "TargetTransformRegressor",
}

_COMPOSED = {
    "river.compose.pipeline.Pipeline": base.Estimator,
    "river.compose.union.TransformerUnion": base.BaseTransformer,
    "river.compose.product.TransformerProduct": base.BaseTransformer,
}
_TYPES: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float), "str": (str,)}
_ALL = re.compile(r"^__all__ = (?P<names>\[[^]]*\])$", re.MULTILINE)
_WORDS = {"bool": "true or false", "int": "an integer", "float": "a number", "str": "a string"}


class AmbiguousName(LookupError):
    """A short name that more than one module uses; ``choices`` are names that tell them apart."""

    def __init__(self, choices: list[str]) -> None:
        super().__init__(", ".join(choices))
        self.choices = choices


@functools.cache
def _names(module_name: str) -> Iterable[str]:
    """What a module exports, read from its text where that can be: river's take seconds to import."""
    package, *inner = module_name.split(".")
    for folder in importlib.import_module(package).__path__ if module_name not in sys.modules else ():
        for path in (Path(folder, *inner, "__init__.py"), Path(folder, *inner).with_suffix(".py")):
            if path.is_file() and (listed := _ALL.search(path.read_text(encoding="utf-8"))):
                return list(ast.literal_eval(listed["names"]))
    return getattr(importlib.import_module(module_name), "__all__", ())


def _exported(module_name: str) -> list[str]:
    names = _names(module_name)
    return [name for name in names if name[:1].isupper() and name not in _NOT_FROM_DATA and not name.endswith("Atom")]


def _public_class(module_name: str, name: str) -> type | None:
    value = getattr(importlib.import_module(module_name), name, None)
    return value if inspect.isclass(value) and not inspect.isabstract(value) else None


def find(name: str, hint: str = "") -> type | None:
    """The class of that name: ``Quantile``, ``losses.Quantile`` and ``river.optim.losses.Quantile`` all serve.

    Where several modules have it, the module that the parameter's name (`hint`) points at is taken: ``loss`` points
    at ``losses``, ``metric`` at ``metrics``.

    >>> find("Huber"), find("os.system")
    (<class 'river.optim.losses.Huber'>, None)
    >>> find("Quantile", hint="loss")
    <class 'river.optim.losses.Quantile'>

    Raises AmbiguousName when the name fits several classes. Raises ImportError when the class needs an extra that is
    not installed.
    """
    head, _, short = name.rpartition(".")
    found = {
        f"{module}.{short}": cls
        for module in _MODULES
        if (not head or module == head or module.endswith(f".{head}"))
        and short in _exported(module)
        and (cls := _public_class(module, short)) is not None
    }
    if len(set(found.values())) > 1 and hint:
        hinted = {key: cls for key, cls in found.items() if key.split(".")[-2] in (f"{hint}s", f"{hint}es")}
        found = hinted or found
    if len(set(found.values())) > 1:
        raise AmbiguousName(sorted(found))
    return next(iter(found.values()), None)


def listing() -> dict[str, list[str]]:
    """Module -> the names of its classes that a definition may use, those of a missing extra too."""
    return {module: sorted({name for name in _exported(module) if _is_usable(module, name)}) for module in _MODULES}


def _is_usable(module_name: str, name: str) -> bool:
    try:
        return _public_class(module_name, name) is not None
    except ImportError:
        return True


def closest(name: str, candidates: Iterable[str] | None = None) -> str:
    """`` Did you mean 'radius'?``, or nothing where no candidate (by default: no class) is like `name`.

    >>> closest("raduis", ["radius", "center"])
    " Did you mean 'radius'?"
    """
    if candidates is None:
        candidates = {name for exported in listing().values() for name in exported}
    by_lower = {candidate.lower(): candidate for candidate in sorted(candidates)}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" Did you mean {by_lower[matches[0]]!r}?" if matches else ""


def parameters(cls: type) -> dict[str, inspect.Parameter]:
    """The constructor's parameters by name."""
    return dict(inspect.signature(cls).parameters)


def wants_function(parameter: inspect.Parameter) -> bool:
    """Whether nothing but a function will do.

    >>> wants_function(parameters(find("BagOfWords"))["tokenizer"])
    True
    """
    return re.fullmatch(r"(typing\.)?Callable(\[.*\])?( \| None)?", str(parameter.annotation)) is not None


def holds_estimators(cls: type, parameter: inspect.Parameter | None) -> str:
    """``"one"`` where a parameter is an estimator or a pipeline of some, ``"many"`` for a list of these, else empty.

    >>> holds_estimators(find("TransformerUnion"), parameters(find("TransformerUnion"))["transformers"])
    'many'
    >>> holds_estimators(find("BaggingClassifier"), parameters(find("BaggingClassifier"))["model"])
    'one'
    """
    if not estimators_of(cls, parameter) or parameter is None:
        return ""
    is_list = re.search(r"\b(list|tuple|Sequence|Iterable)\[", str(parameter.annotation))
    return "many" if is_list or parameter.kind is inspect.Parameter.VAR_POSITIONAL else "one"


def estimators_of(cls: type, parameter: inspect.Parameter | None) -> tuple[type, ...]:
    """Which of river's base classes a parameter of estimators takes; none where it takes others.

    >>> estimators_of(find("BaggingClassifier"), parameters(find("BaggingClassifier"))["model"])
    (<class 'river.base.classifier.Classifier'>,)
    """
    if parameter is None:
        return ()
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return tuple(kind for name, kind in _COMPOSED.items() if derives(cls, name))
    words = re.findall(r"\b[A-Z]\w*\b", str(parameter.annotation))
    found = [getattr(base, word) for word in words if word in base.__all__]
    return tuple(kind for kind in found if inspect.isclass(kind) and kind is not base.Base)


def is_table(parameter: inspect.Parameter | None) -> bool:
    """Whether a parameter is a plain table, in which ``class`` may be a name like any other: that of a column."""
    return parameter is not None and re.search(r"\b(Mapping|dict)\[", str(parameter.annotation)) is not None


def expected_type(parameter: inspect.Parameter, value: Any) -> str:
    """What was expected in place of `value`, in words; empty where `value` fits or no plain type is declared.

    >>> given = parameters(find("Huber"))["epsilon"]
    >>> expected_type(given, "small"), expected_type(given, 1)
    ('a number', '')
    """
    annotation = parameter.annotation
    if annotation is inspect.Parameter.empty:
        # a number by default and no declared type: an object may fit as well, but text does not
        numeric = type(parameter.default) in (int, float)
        return "a number" if numeric and isinstance(value, str | bool) else ""
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    kinds = [kind for kind in (part.strip() for part in text.split("|")) if kind not in ("None", "NoneType")]
    kinds = [kind for kind in kinds if not kind.startswith("os.PathLike")]  # no file holds one: it is a string there
    if not kinds or not all(kind in _TYPES for kind in kinds):
        return ""
    for kind in kinds:
        # True is an int to Python, not to a person
        if isinstance(value, _TYPES[kind]) and (kind == "bool" or not isinstance(value, bool)):
            return ""
    return " or ".join(_WORDS[kind] for kind in kinds)
