"""What a definition, which may come from somebody else, may read and write."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["LISTEN", "LOOPBACK", "REFERENCE", "Permissions", "environment_names", "hidden", "is_secret", "unlistened"]

REFERENCE = re.compile(r"\$\{([^}]*?)(?::-([^}]*))?\}")  # ${NAME} or, as in a shell, ${NAME:-default}
#: Variables that every definition may read: the brokers' address, as this project's streams do.
_KNOWN = frozenset({"KAFKA"})
#: Where a definition may listen.
LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: The table [metrics].
LISTEN = {
    name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
    for name, kind in (("port", "int"), ("address", "str"))
}
_SECRET_WORDS = ("password", "secret", "token")
_WITH_PASSWORD = re.compile(r"://[^/@\s]*:(?!\$\{)[^/@\s]+@")  # scheme://user:password@host
# The files of a run in its folder, besides the checkpoint and its temporary files.
_OWN = frozenset({"definition.toml", "log.jsonl", "summary.json", ".lock"})


@dataclass(frozen=True)
class Permissions:
    """What whoever runs a definition allows beyond what every definition may do.

    Parameters
    ----------
    write
        Folders or files, besides the run's folder, that sinks and states may write.
    env
        Environment variables, besides those that `client` names, that may be read.
    """

    write: tuple[Path, ...] = ()
    env: frozenset[str] = frozenset()

    @classmethod
    def of(cls, write: Iterable[str | os.PathLike[str]] = (), env: Iterable[str] = ()) -> Permissions:
        """Return the permissions of these folders and variables, each given alone or as a list."""
        folders = [write] if isinstance(write, (str, os.PathLike)) else write
        return cls(tuple(Path(folder) for folder in folders), frozenset([env] if isinstance(env, str) else env))

    def may_read(self, name: str) -> bool:
        """Whether an environment variable may be read where anything but a secret belongs."""
        return name in _KNOWN or name in self.env

    def obstacle(self, path: Path, folder: Path) -> str:
        """Return why `path` must not be written by a run in `folder`; empty where it may.

        Links and ``..`` are followed.
        """
        try:
            root, target = folder.resolve(), path.resolve()
            allowed = [place.expanduser().resolve() for place in self.write]
        except (OSError, RuntimeError, ValueError) as error:  # a loop of links, or what is no name
            return f"not a path: {error}"
        if target == root or root in target.parents:
            first = (*target.relative_to(root).parts, "")[0].casefold()
            if first in _OWN or first.startswith("checkpoint"):
                return f"{target.name!r} is a name that the run keeps for a file of its own"
            return ""
        if str(path) == os.devnull or any(target == place or place in target.parents for place in allowed):
            return ""
        return (
            f"{str(target)!r} is outside the run's folder {str(root)!r}. If you trust the definition, "
            "--allow-write DIR on the command line (allow_write in Python) lets it write below DIR"
        )


def is_secret(path: tuple[str | int, ...], value: Any) -> bool:
    """Whether the value at a key of a definition is a secret, written out: a password in the settings of a client."""
    if "client" not in path[:-1]:
        return False
    if isinstance(value, str) and _WITH_PASSWORD.search(value):
        return True
    if not any(word in str(path[-1]).lower() for word in _SECRET_WORDS):
        return False
    reference = REFERENCE.fullmatch(value) if isinstance(value, str) else None
    is_table = isinstance(value, dict) and set(value) == {"env"}
    return not is_table and (reference is None or bool(reference[2]))


def environment_names(value: Any) -> Iterator[str]:
    """Yield the environment variables that a definition names."""
    if isinstance(value, str):
        for match in REFERENCE.finditer(value):
            yield match[1]
    elif isinstance(value, dict):
        if set(value) == {"env"} and isinstance(value["env"], str):
            yield value["env"]
        for inner in value.values():
            yield from environment_names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from environment_names(inner)


def hidden(text: str, values: Any) -> str:
    """Return `text` with the names of environment variables, as a definition names them, in place of what they hold."""
    names = {name: os.environ.get(name, "") for name in environment_names(values)}
    for name, value in sorted(names.items(), key=lambda item: -len(item[1])):
        if value:
            text = text.replace(value, f"${{{name}}}")
    return text


def unlistened(table: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the key of each value with which a table [metrics] cannot be, and why."""
    if table and "port" not in table:
        yield (), "the key 'port' is missing: where Prometheus is to ask, such as port = 9108"
    if type(port := table.get("port")) is int and not 0 <= port <= 65535:
        yield ("port",), f"expected a port, from 1 to 65535, or 0 for any, found {port}"
    if isinstance(address := table.get("address"), str) and address not in LOOPBACK:
        yield (
            ("address",),
            f"expected 127.0.0.1 or ::1, found {address!r}: whoever runs the definition decides who else may read: "
            "--metrics-port ADDRESS:PORT",
        )
