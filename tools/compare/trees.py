"""Processes that import `fwonline` from a given tree, and these tools from the present one."""

from __future__ import annotations

import ast
import hashlib
import os
import subprocess
import sys
import tempfile
import typing
from pathlib import Path

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["HERE", "digest", "environment", "start"]

#: The present tree.
HERE = Path(__file__).resolve().parents[2]
_BOOT = """
import sys
tree, here = sys.argv[1], sys.argv[2]
sys.dont_write_bytecode = True
sys.path.insert(0, tree)
import fwonline
if not fwonline.__file__.startswith(tree):
    raise SystemExit(f"fwonline came from {{fwonline.__file__}}, not from {{tree}}")
sys.path[0] = here
{code}
"""


def digest(*folders: Path) -> str:
    """A digest of the Python files in some folders, comments and docstrings aside."""
    found = hashlib.sha256()
    for path in _sources(*folders):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node) is not None:
                node.body = node.body[1:]
        found.update(f"{path.name}\n{ast.dump(tree)}\n".encode())
    return found.hexdigest()[:16]


def _sources(*folders: Path) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(folder.rglob("*.py"))


def environment(tree: Path, cache: Path | None = None) -> dict[str, str]:
    """Environment of a process of that tree: one thread, and a cache of compiled functions of its own."""
    if cache is None:
        # numba's cache does not see changes in what a function calls: other sources, another cache.
        cache = Path(tempfile.gettempdir()) / f"fwonline-compare-{os.getuid()}" / f"numba-{digest(tree / 'fwonline')}"
    cache.mkdir(parents=True, exist_ok=True)
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    unset = ("PYTHONPATH", "FWONLINE_KAFKA")
    kept = {key: value for key, value in os.environ.items() if key not in unset}
    return kept | dict.fromkeys(threads, "1") | {"NUMBA_CACHE_DIR": str(cache), "PYTHONHASHSEED": "0"}


def start(tree: Path, code: str, *arguments: str, cache: Path | None = None, **more: typing.Any) -> subprocess.Popen:
    """Start a process that runs ``code`` with that tree's package; its arguments are ``sys.argv[3:]``."""
    command = [sys.executable, "-c", _BOOT.format(code=code), str(tree), str(HERE), *arguments]
    return subprocess.Popen(command, env=environment(tree, cache), cwd=tempfile.gettempdir(), **more)
