"""How to install what an optional part needs, from where the user is."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

__all__ = ["how_to_install"]


def how_to_install(extra: str) -> str:
    """The command that adds an extra to this environment: from a clone where there is one, else from an index."""
    here, source = Path.cwd(), Path(__file__).resolve().parent.parent
    if _is_clone(here):
        what = f".[{extra}]"
    elif _is_clone(source):
        what = f"{source}[{extra}]"
    else:
        what = f"fwonline[{extra}]"
    return f"{_pip()} install {shlex.quote(what)}"


def _is_clone(folder: Path) -> bool:
    try:
        return '\nname = "fwonline"\n' in (folder / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def _pip() -> str:
    """The pip of this environment: ``pip`` alone may be that of another one."""
    is_own = sys.prefix != sys.base_prefix and os.environ.get("VIRTUAL_ENV") != sys.prefix
    if not is_own:
        return "pip"
    python = Path(sys.executable)
    return f"{shlex.quote(str(python.relative_to(Path.cwd()) if python.is_relative_to(Path.cwd()) else python))} -m pip"
