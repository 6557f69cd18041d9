"""The definitions that come with the package: ``fwonline init --example``."""

from __future__ import annotations

import re
from pathlib import Path

from fwonline.definition import classes
from fwonline.exceptions import DefinitionError

__all__ = ["examples", "write_example"]


def examples() -> dict[str, Path]:
    """Name -> definition."""
    # A wheel holds a copy in the package; in a clone they are in its own folder.
    inside, beside = Path(__file__).parents[1] / "streams", Path(__file__).parents[3] / "streams"
    return {path.stem: path for path in sorted((inside if inside.is_dir() else beside).glob("*.toml"))}


def write_example(name: str, to: Path | None = None, *, force: bool = False) -> list[Path]:
    """Write an example, and the file that it reads where it has one of its own, into the folder `to`.

    Raises DefinitionError where there is no such example, or a file of that name already.
    """
    known = examples()
    if name not in known:
        hint = classes.closest(name, known)
        raise DefinitionError(f"--example {name}: no such example.{hint} There are: {', '.join(known)}")
    folder = Path() if to is None else to
    if not folder.is_dir():
        raise DefinitionError(f"--to {folder}: expected a folder")
    text = known[name].read_text(encoding="utf-8")
    data = [known[name].parent / path for path in re.findall(r'^path = "([\w.-]+)"', text, re.MULTILINE)]
    files = [known[name], *(path for path in data if path.is_file())]
    written = [folder / path.name for path in files]
    if taken := [path for path in written if path.exists() and not force]:
        raise DefinitionError(f"{taken[0]}: this file is there already; --force writes over it, --to DIR elsewhere")
    for path, copy in zip(files, written, strict=True):
        copy.write_bytes(path.read_bytes())
    for path, copy in zip(files, written, strict=True):
        text = text.replace(f"streams/{path.name}", str(copy))
    written[0].write_text(text, encoding="utf-8")
    return written
