"""Projection-free (Frank-Wolfe) learners for streams.

Parts are imported when they are asked for: ``import fwonline`` is cheap, and ``fwonline.linear_model`` works.
"""

import importlib
import typing

__version__ = "0.2.0.dev0"


def _parts() -> list[str]:
    """The public modules, but for the command line's."""
    import pkgutil

    return sorted(name for _, name, _ in pkgutil.iter_modules(__path__) if name[0] != "_" and name != "cli")


def __getattr__(name: str) -> typing.Any:
    if not name.startswith("_") and name in (parts := _parts()):
        return importlib.import_module(f"fwonline.{name}")
    known = "" if name.startswith("_") else f"; it has {', '.join(parts)}"
    raise AttributeError(f"module 'fwonline' has no attribute {name!r}{known}")


def __dir__() -> list[str]:
    return ["__version__", *_parts()]
