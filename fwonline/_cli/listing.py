"""``fwonline list``: what a definition may name, and what the parameters of a class are."""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import textwrap
from collections.abc import Iterator

from river import metrics

from fwonline.definition import classes
from fwonline.exceptions import DefinitionError

__all__ = ["everything", "one"]

_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: ?:.*)?")


def everything(width: int | None = None) -> Iterator[str]:
    """Yield the modules with the names of their classes."""
    width = width or shutil.get_terminal_size().columns
    for module, names in classes.listing().items():
        yield module
        yield textwrap.fill(
            ", ".join(names), width - 2, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )


def one(name: str, width: int | None = None) -> Iterator[str]:
    """Yield the classes of a module, or the parameters of a class: one line each, none wider than `width`.

    Raises DefinitionError where nothing has that name.
    """
    width = width or shutil.get_terminal_size().columns
    modules = {key: names for key, names in classes.listing().items() if key == name or key.endswith(f".{name}")}
    if modules and not name[:1].isupper():
        for module, names in modules.items():
            yield module
            yield from _lines([(key, _purpose(f"{module}.{key}")) for key in names], width)
        return
    try:
        cls = classes.find(name)
    except classes.AmbiguousName as error:
        for choice in error.choices:
            yield from one(choice, width)
        return
    except ImportError as error:
        raise DefinitionError(f"{name} cannot be used here: {error}") from None
    if cls is None:
        raise DefinitionError(f"no class or module is called {name!r}.{classes.closest(name)}")
    where = next(module for module, names in classes.listing().items() if _is_in(module, cls))
    yield f"{cls.__name__}, of {where}"
    yield from textwrap.wrap(_first_sentence(inspect.getdoc(cls) or ""), width)
    told = _told(cls)
    pairs = [(_signed(p), told.get(key, "")) for key, p in classes.parameters(cls).items() if key != "pos_val"]
    if where == "river.metrics":
        pairs += [("window = ...", "The last so many samples alone")]
        pairs += [("positive = ...", "The label of the positive class")] * issubclass(cls, metrics.base.BinaryMetric)
    yield from _lines(pairs, width)


def _is_in(module: str, cls: type) -> bool:
    return getattr(importlib.import_module(module), cls.__name__, None) is cls


def _purpose(name: str) -> str:
    try:
        return _first_sentence(inspect.getdoc(classes.find(name)) or "")
    except (ImportError, classes.AmbiguousName):
        return "needs an extra that is not installed"


def _signed(parameter: inspect.Parameter) -> str:
    """A parameter with its default, as a definition writes it."""
    kinds = inspect.Parameter
    if parameter.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD):
        return f"*{parameter.name}"
    default = parameter.default
    if default is kinds.empty:
        return parameter.name
    if default is None:
        return f"{parameter.name} = ..."
    if isinstance(default, bool):
        return f"{parameter.name} = {str(default).lower()}"
    text = f'"{default}"' if isinstance(default, str) and '"' not in default else repr(default)
    return f"{parameter.name} = {text.replace('()', '[]')}"


def _told(cls: type) -> dict[str, str]:
    """What the documentation says of each parameter, in a sentence; of a class without, its base classes'."""
    told: dict[str, str] = {}
    for one_of in reversed(cls.__mro__[:-1]):
        lines = inspect.cleandoc(one_of.__doc__ or "").splitlines()
        starts = [i + 2 for i, line in enumerate(lines) if line.strip() == "Parameters"]
        names: list[str] = []
        text: list[str] = []
        for line in [*(lines[starts[0] :] if starts else []), "end"]:
            if line[:1] in (" ", ""):
                text.append(line.strip())
                continue
            said = _first_sentence(" ".join(filter(None, text)))
            told.update({key: _elsewhere(said, key, cls) for key in names if said})
            entry = _ENTRY.fullmatch(line)
            if entry is None or line in ("Returns", "Raises", "Notes", "Examples", "Attributes", "References"):
                break
            names, text = [key.lstrip("*") for key in entry["names"].split(", ")], []
    return told


def _elsewhere(said: str, parameter: str, cls: type) -> str:
    """What another class says of a parameter, where that is referred to."""
    match = re.match(r"As for (\w+)", said)
    other = next((one for one in cls.__mro__ if match and one.__name__ == match[1]), None)
    other = classes.find(match[1]) if match and other is None else other
    return _told(other).get(parameter, said) if other not in (None, cls) else said


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.split("\n\n", maxsplit=1)[0].split())
    return re.split(r"(?<=[.;])\s", paragraph.replace("`", ""))[0].rstrip(".:;")


def _lines(pairs: list[tuple[str, str]], width: int) -> Iterator[str]:
    column = min(max((len(left) for left, _ in pairs), default=0), width // 2)
    for left, right in pairs:
        room = width - 4 - max(column, len(left))
        shown = textwrap.shorten(right, room, placeholder=" ...") if room > 8 else ""
        yield f"  {left:<{column}}  {shown}".rstrip()
