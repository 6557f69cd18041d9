"""Values set from outside, as ``model.1.constraint.radius=3``, written into the text of a definition."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from fwonline.definition.classes import closest
from fwonline.definition.toml import KeyPath, Lines, dotted, parse
from fwonline.exceptions import DefinitionError

__all__ = ["choices", "parsed", "with_settings"]

_ABSENT = object()


def choices(settings: list[str]) -> dict[str, list[str]]:
    """Key -> the values that were set, each as TOML; a key that was repeated has several.

    >>> choices(["model.1.seed=3", "run.limit=5", "model.1.seed=4", "name=a b", "run.seed=1,2"])
    {'model.1.seed': ['3', '4'], 'run.limit': ['5'], 'name': ['"a b"'], 'run.seed': ['1', '2']}

    Raises DefinitionError where one is not ``key=value``.
    """
    found: dict[str, list[str]] = {}
    for setting in settings:
        key, equals, text = (part.strip() for part in setting.partition("="))
        if not equals or not key or not text:
            raise DefinitionError(f"--set {setting}: expected KEY=VALUE, such as model.1.constraint.radius=3")
        parts = text.split(",")
        several = parsed(text) is _ABSENT and len(parts) > 1 and all(parsed(part) is not _ABSENT for part in parts)
        for part in parts if several else [text]:
            value = part.strip() if parsed(part) is not _ABSENT else json.dumps(text)
            if value not in found.setdefault(key, []):
                found[key].append(value)
    return found


def parsed(text: str) -> Any:
    """The value that a text is in TOML; a mark where it is none."""
    try:
        return tomllib.loads(f"value = {text}")["value"] if "\n" not in text else _ABSENT
    except tomllib.TOMLDecodeError:
        return _ABSENT


def with_settings(text: str, settings: dict[str, str], name: str) -> str:
    """The text of a definition, called `name`, with the values of some keys in place of its own or added to it.

    Raises DefinitionError where a key leads nowhere.
    """
    for key, value in settings.items():
        values, lines = parse(text, name)
        path = _path(values, key)
        text = _written(text, lines, values, path, value)
        try:
            found = _at(tomllib.loads(text), path)
        except tomllib.TOMLDecodeError:
            found = _ABSENT
        if found != parsed(value):
            raise DefinitionError(f"--set {key}: this key cannot be set from outside; write it into {name}")
    return text


def _path(values: Any, key: str) -> KeyPath:
    """Where a key leads: a number, or the name of a class, chooses from a list."""
    path: KeyPath = ()
    for part in key.replace("[", ".").replace("]", "").split("."):
        if isinstance(values, list):
            index = _index(values, part)
            if index is None:
                names = [one.get("class") if isinstance(one, dict) else one for one in values]
                there = ", ".join(f"{i} ({one})" for i, one in enumerate(names))
                raise DefinitionError(f"--set {key}: {dotted(path)} has no {part!r}; it has {there}")
            path, values = (*path, index), values[index]
        elif isinstance(values, dict):
            if part not in values and path == () and (hint := closest(part, values)):
                raise DefinitionError(f"--set {key}: the definition has no {part!r}.{hint}")
            path, values = (*path, part), values.get(part, _ABSENT)
        elif values is _ABSENT or isinstance(values, str):
            path, values = (*path, part), _ABSENT
        else:
            raise DefinitionError(f"--set {key}: {dotted(path)} is {values!r}, which has no {part!r}")
    return path


def _index(values: list[Any], part: str) -> int | None:
    if part.isdecimal():
        return int(part) if int(part) < len(values) else None
    named = [i for i, one in enumerate(values) if (one.get("class") if isinstance(one, dict) else one) == part]
    return named[0] if len(named) == 1 else None


def _at(values: Any, path: KeyPath) -> Any:
    for part in path:
        if isinstance(values, dict) and part not in values:
            return _ABSENT
        values = values[part]
    return values


def _written(text: str, lines: Lines, values: Any, path: KeyPath, value: str) -> str:
    if path in lines.spans:
        start, end = lines.spans[path]
        return text[:start] + value + text[end:]
    for depth in range(len(path) - 1, -1, -1):
        holder, rest = path[:depth], dotted(path[depth:])
        if isinstance(held := _at(values, holder), str):  # the name of a class alone
            start, end = lines.spans[holder]
            return f"{text[:start]}{{ class = {text[start:end]}, {rest} = {value} }}{text[end:]}"
        if (place := lines.openings.get(holder)) is None:
            continue
        if holder in lines.spans:
            return f"{text[:place]} {rest} = {value}{',' if held else ''}{text[place:]}"
        before = "" if text[:place].endswith("\n") or not place else "\n"
        return f"{text[:place]}{before}{rest} = {value}\n{text[place:]}"
    return text
