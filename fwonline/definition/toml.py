"""TOML with the line of every key: the standard library reads the values, a small scan finds where each one stands."""

from __future__ import annotations

import bisect
import re
import tomllib
from typing import Any

from fwonline.exceptions import DefinitionError

__all__ = ["KeyPath", "Lines", "dotted", "parse"]

KeyPath = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:""?)?'  # up to two more quotes belong to the text
    r"|'''.*?'''(?:''?)?"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}\n#]+")
_SYNTAX_ERROR = re.compile(r"^(?P<what>.*?) \((?:at line (?P<line>\d+), column (?P<column>\d+)|at end of document)\)$")


def dotted(path: KeyPath) -> str:
    """The way a key is named to people: ``model[1].constraint.radius``.

    >>> dotted(("model", 1, "constraint", "radius"))
    'model[1].constraint.radius'
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE_KEY.fullmatch(part) else f'"{part}"'
            text += f".{name}" if text else name
    return text


class Lines:
    """Where the keys of a TOML document stand.

    `text` must be a document that ``tomllib`` accepts: the scan follows its structure and checks nothing.

    >>> lines = Lines('[model]\\nname = "a"\\nset = { radius = 1 }')
    >>> lines[("model", "set", "radius")], lines[("model", "absent")]
    (3, 1)
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._lines: dict[KeyPath, int] = {(): 1}
        self._last_of_array: dict[KeyPath, int] = {}
        #: Where the values of keys begin and end, and where a key can be added to a table.
        self.spans: dict[KeyPath, tuple[int, int]] = {}
        self.openings: dict[KeyPath, int] = {(): 0}
        self._scan()

    def __getitem__(self, path: KeyPath) -> int:
        """The line of a key, or of the nearest table that holds it where the key itself is not written."""
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]

    def _note(self, path: KeyPath) -> None:
        self._lines.setdefault(path, bisect.bisect_left(self._ends, self._at) + 1)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match.group()

    def _take(self, token: str) -> bool:
        found = self._text.startswith(token, self._at)
        if found:
            self._at += len(token)
        return found

    def _scan(self) -> None:
        table: KeyPath = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._take("[["):
                table = self._header()
                self._last_of_array[table] = self._last_of_array.get(table, -1) + 1
                self._note(table)
                table = (*table, self._last_of_array[table])
                self._note(table)
                self._take("]]")
                self._open(table)
            elif self._take("["):
                table = self._header()
                self._note(table)
                self._take("]")
                self._open(table)
            else:
                self._key_value(table)
            self._skip(_BLANK)

    def _open(self, table: KeyPath) -> None:
        """Note that the keys of a table may begin on the next line."""
        end = bisect.bisect_left(self._ends, self._at)
        self.openings[table] = self._ends[end] + 1 if end < len(self._ends) else len(self._text)

    def _header(self) -> KeyPath:
        """The path of a table header; every array on the way to it stands for its last table."""
        *outer, last = self._key()
        return (*self._within(tuple(outer)), last)

    def _within(self, path: KeyPath) -> KeyPath:
        resolved: KeyPath = ()
        for part in path:
            resolved = (*resolved, part)
            if resolved in self._last_of_array:
                resolved = (*resolved, self._last_of_array[resolved])
        return resolved

    def _key(self) -> KeyPath:
        parts: list[str] = []
        while True:
            self._skip(_SPACE)
            quoted = self._skip(_STRING)
            parts.append(_unquoted(quoted) if quoted else self._skip(_BARE_KEY))
            self._skip(_SPACE)
            if not self._take("."):
                return tuple(parts)

    def _key_value(self, table: KeyPath) -> None:
        start = self._at
        path = table
        for part in self._key():
            path = (*path, part)
            end, self._at = self._at, start  # every part of a dotted key stands where the key begins
            self._note(path)
            self._at = end
        self._take("=")
        self._skip(_SPACE)
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        start = self._at
        self._pass(path)
        self.spans[path] = start, start + len(self._text[start : self._at].rstrip())

    def _pass(self, path: KeyPath) -> None:
        """Go behind a value."""
        if self._skip(_STRING):
            return
        if self._take("["):
            index = 0
            self._skip(_BLANK)
            while not self._take("]"):
                self._note((*path, index))
                self._value((*path, index))
                self._skip(_BLANK)
                self._take(",")
                self._skip(_BLANK)
                index += 1
        elif self._take("{"):
            self.openings[path] = self._at
            self._skip(_BLANK)
            while not self._take("}"):
                self._key_value(path)
                self._skip(_BLANK)
                self._take(",")
                self._skip(_BLANK)
        else:
            self._skip(_SCALAR)


def _unquoted(text: str) -> str:
    return next(iter(tomllib.loads(f"{text} = 0")))


def parse(text: str, name: str) -> tuple[dict[str, Any], Lines]:
    """The values of a TOML document and where its keys stand; `name` is what errors call the document.

    Raises DefinitionError where the text is not TOML, naming line and column.
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # Python puts the place at the end of the message; at the front is where editors and people look for it.
        message, line, column = str(error), text.rstrip().count("\n") + 1, len(text.rstrip().rpartition("\n")[2]) + 1
        if match := _SYNTAX_ERROR.match(message):
            message = match["what"]
            if match["line"]:
                line, column = int(match["line"]), int(match["column"])
        raise DefinitionError(f"{name}:{line}:{column}: this is not TOML: {message[:1].lower()}{message[1:]}") from None
    return values, Lines(text)
