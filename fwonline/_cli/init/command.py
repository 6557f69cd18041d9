"""``fwonline init``: a definition for a file or a topic, written by a look at its first rows."""

from __future__ import annotations

import contextlib
import itertools
import shlex
from dataclasses import dataclass
from pathlib import Path

from fwonline._cli.init.plan import Plan, comment
from fwonline._cli.init.sample import first_rows
from fwonline.exceptions import DefinitionError

__all__ = ["Options", "definition_for", "init"]


@dataclass(frozen=True)
class Options:
    """The arguments of the command besides the stream."""

    target: str | None = None
    to: Path | None = None
    delimiter: str | None = None
    task: str | None = None
    rows: int = 10_000
    force: bool = False


def init(where: str, options: Options) -> tuple[Path, list[str]]:
    """Write a definition that learns the stream at `where`; return its path, and what to tell of it.

    Raises DefinitionError or SourceError where no definition can be written: the file, what was found and expected.
    """
    stream = first_rows(where, options.target, options.rows, options.delimiter)
    to = options.to or Path(f"{stream.name}.toml")
    if to.exists() and not options.force:
        raise DefinitionError(f"{to}: this file is there already; --force writes over it, --to FILE elsewhere")
    plan = Plan(stream, options.task)
    to.write_text(plan.text(to, _command(where, options.target)), encoding="utf-8")
    return to, [*plan.told(), f"written: {to}"]


def definition_for(where: str, target: str | None) -> tuple[Path, list[str]]:
    """The definition that `init` has written in the working folder for a stream and a target, or now writes; as `init`.

    Raises DefinitionError as `init` does.
    """
    command = _command(where, target)
    for path in Path().glob("*.toml"):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            if any(line.startswith(f"# Written by `{command}`") for line in itertools.islice(file, 3)):
                return path, [f"{path}: written before for {where}; it is run as it is"]
    return init(where, Options(target))


def _command(where: str, target: str | None) -> str:
    return comment(shlex.join(["fwonline", "init", where, *(["--target", target] if target else [])]))
