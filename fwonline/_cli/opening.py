"""Opening packages when something of theirs is asked for, so that a run loads what its definition names and no more.

A package such as ``river.metrics`` imports all of its modules, and with them scipy.stats, scikit-learn and pandas, for
the sake of one metric. In a process of the command its modules wait until a name of theirs is asked for. A package
whose ``__init__`` does more than import from its own modules is run as it is. A few modules of numpy and scipy, which
others mention and a run does not use, wait by Python's own means.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["open_when_asked", "uncollected"]

_PACKAGES = ("fwonline", "river")
# scipy looks at all of numpy's names, river's losses name scipy.special.
_UNUSED = {"numpy": ("f2py", "testing"), "scipy": ("special",)}
# What an ``__init__`` may hold besides the imports that wait.
_AT_ONCE = (ast.Assign, ast.AnnAssign, ast.Expr, ast.FunctionDef, ast.Import, ast.ImportFrom)


def open_when_asked() -> None:
    """Let packages of fwonline and river wait from now on; in a program that already uses them, they do not."""
    if "river" not in sys.modules and "numba" not in sys.modules and _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Look for no garbage meanwhile: what imports make stays, and looking through it takes a tenth of a start."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class _Finder:
    """Finds what Python's own finder does, and has packages loaded by `_Loader`."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _UNUSED and name.partition(".")[0] not in _PACKAGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.submodule_search_locations is not None:
            loader = spec.loader
            if type(loader) is importlib.machinery.SourceFileLoader:
                spec.loader = (_Whole if name in _UNUSED else _Loader)(loader.name, loader.path)
        return spec


class _Whole(importlib.machinery.SourceFileLoader):
    """Runs a package as it is, and lets modules of it that are not used wait until something of theirs is."""

    def exec_module(self, module: types.ModuleType) -> None:
        super().exec_module(module)
        for name in _UNUSED[self.name]:
            spec = importlib.util.find_spec(whole := f"{self.name}.{name}")
            if spec is None or spec.loader is None or whole in sys.modules:
                continue
            spec.loader = importlib.util.LazyLoader(spec.loader)
            sys.modules[whole] = late = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(late)
            setattr(module, name, late)


class _Loader(importlib.machinery.SourceFileLoader):
    """Runs of a package's ``__init__`` all but the imports from its own modules, where nothing else needs them."""

    def exec_module(self, module: types.ModuleType) -> None:
        tree = ast.parse(self.get_data(self.path))
        places: dict[str, tuple[str, str]] = {}
        rest = []
        for node in tree.body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not node.orelse:
                continue  # for readers alone
            where = _own_module(node, module.__name__)
            if where and isinstance(node, ast.ImportFrom):
                places.update({alias.asname or alias.name: (where, alias.name) for alias in node.names})
            else:
                rest.append(node)
        if not places or not self._may_wait(rest, places):
            super().exec_module(module)
            return
        module.__class__ = _Package
        vars(module)["_places"] = places
        exec(compile(ast.Module(rest, []), self.path, "exec", dont_inherit=True), vars(module))

    def _may_wait(self, rest: list[ast.stmt], places: dict[str, tuple[str, str]]) -> bool:
        """Whether the names may wait: whether nothing else there uses one, and no module hides one.

        A module that is imported stands in its package under its own name.
        """
        used = {inner.id for node in rest for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        modules = {path.stem for path in Path(self.path).parent.iterdir()}
        hidden = {name for name, (where, _) in places.items() if where != self.name} & modules
        is_plain = all(isinstance(node, _AT_ONCE) for node in rest) and "*" not in places
        return is_plain and not hidden and not used.intersection(places)


class _Package(types.ModuleType):
    """A package that knows the module of each of its names, and what it is called there: ``_places``."""

    def __getattr__(self, name: str) -> Any:
        places = vars(self)["_places"]
        if name not in places:
            inner = f"{self.__name__}.{name}"
            if any(f"{where}.".startswith(f"{inner}.") for where, _ in places.values()):
                return importlib.import_module(inner)  # a module that the ``__init__`` would have imported on its way
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        where, there = places[name]
        is_module = where == self.__name__
        value = importlib.import_module(f"{where}.{there}" if is_module else where)
        value = value if is_module else getattr(value, there)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *vars(self)["_places"]})


def _own_module(node: ast.stmt, package: str) -> str:
    """The module of a package, or the package itself, that a statement imports from; empty for any other statement."""
    if not isinstance(node, ast.ImportFrom) or node.level > 1:
        return ""
    name = ".".join(filter(None, (package, node.module))) if node.level else node.module or ""
    return name if f"{name}.".startswith(f"{package}.") else ""
