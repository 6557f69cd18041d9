"""The classes and functions that a checkpoint may name. A file chooses among these and cannot add to them."""

from __future__ import annotations

import collections
import copy
import datetime
import functools
import importlib
import importlib.util
import pkgutil
import random
import re
import types
from typing import Any

import numpy as np

from fwonline.exceptions import CheckpointError

__all__ = ["allowed", "allowed_instance", "find", "method", "name_of", "register"]

# Values of river's objects that are classes or functions: factories of defaultdicts, distances, tokenizers.
_FIXED: dict[tuple[str, str], Any] = {
    (getattr(obj, "__objclass__", obj).__module__, obj.__qualname__): obj  # type: ignore[union-attr]
    for obj in (
        *(bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, object),
        *(collections.Counter, collections.OrderedDict, collections.defaultdict, collections.deque),
        *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, random.Random, np.ndarray),
        *(str.casefold, str.lower, str.split, str.strip, str.upper),
        *(abs, len, max, min, round, sum, copy.deepcopy, np.array, np.ones, np.zeros),
    )
}
# Modules of river with nothing but arithmetic on their arguments.
_FUNCTION_MODULES = {
    "river._river_rust.vectordict",
    "river.feature_extraction.vectorize",
    "river.metrics.mutual_info",
    "river.utils.math",
}
# These are commands, read files, fetch from the network, hold open handles or wrap other libraries' objects.
_CLOSED = {
    "fwonline": {"__main__", "_cli", "checkpoint", "cli", "datasets", "definition", "loop", "stream"},
    "river": {"checks", "cli", "compat", "conftest", "datasets", "envs", "evaluate", "stream", "test_estimators"},
}
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
_registered: dict[tuple[str, str], Any] = {}


def register(obj: Any) -> Any:
    """Let checkpoints hold instances of a class of yours, or name a function of yours. Usable as a decorator.

    Loading such a checkpoint creates an instance with ``cls.__new__`` and sets its attributes (or calls
    ``__setstate__``), so register only what you would let a file fill in. The program that loads must register too:
    what may be loaded is decided by code and never by the file.

    Parameters
    ----------
    obj
        A class or a function that can be found again by its module and name.

    Returns
    -------
    object
        `obj` itself.

    Raises
    ------
    CheckpointError
        For lambdas and for what is defined inside a function: no name leads back to them.

    Examples
    --------
    >>> from fwonline.checkpoint import codec
    >>> @codec.register
    ... class Doubler:
    ...     factor = 2
    >>> codec.loads(codec.dumps(Doubler())).factor
    2
    """
    module, qualname = getattr(obj, "__module__", None), getattr(obj, "__qualname__", "")
    if not isinstance(obj, (type, types.FunctionType, types.BuiltinFunctionType)) or not module:
        raise CheckpointError(f"expected a class or a function to register, found {obj!r}")
    if "<" in qualname:
        raise CheckpointError(f"{qualname} cannot be registered: give it a name at the top of a module")
    _registered[module, qualname] = obj
    return obj


def _is_open_module(module: str) -> bool:
    head, *rest = module.split(".")
    if head == "fwonline":
        rest = rest[:1]  # the package or module; names below are its own affair
    return head in _CLOSED and not _CLOSED[head].intersection(rest)


def allowed_instance(cls: type) -> bool:
    """Whether a checkpoint may hold instances of `cls` as a name and a state."""
    if _registered.get((cls.__module__, cls.__qualname__)) is cls:
        return True
    return (
        _is_open_module(cls.__module__)
        and "<" not in cls.__qualname__
        and not issubclass(cls, (type, types.ModuleType, BaseException))
    )


def allowed(obj: Any) -> bool:
    """Whether a checkpoint may name this class or function as a value."""
    if isinstance(obj, type) and allowed_instance(obj):
        return True
    module, qualname = name_of(obj)
    if (_FIXED.get((module, qualname)) or _registered.get((module, qualname))) is obj:
        return True
    if not isinstance(obj, (types.FunctionType, types.BuiltinFunctionType)) or not module or "<" in qualname:
        return False
    is_static_method = "." in qualname and _is_open_module(module)
    return module in _FUNCTION_MODULES or is_static_method


def name_of(obj: Any) -> tuple[str, str]:
    """The module and name under which `find` finds an allowed class or function.

    A class of fwonline is named by its package, so that a file still loads when the class has moved to another module
    of that package.

    >>> from fwonline.optim import SFW
    >>> name_of(SFW)
    ('fwonline.optim', 'SFW')
    """
    owner = getattr(obj, "__objclass__", obj)  # str.lower has no module of its own
    module, qualname = owner.__module__, obj.__qualname__
    if module is not None and module.startswith("fwonline."):
        package = ".".join(module.split(".")[:2])
        if _places(package).get(qualname.split(".")[0]) == module:
            return package, qualname
    return module, qualname


@functools.cache
def _places(package: str) -> dict[str, str]:
    """Class -> module, for a package of fwonline; empty for a class of which two modules have one of that name.

    The modules are read and not imported: a file needs the few that its model is made of.
    """
    module = importlib.import_module(package)
    inside = pkgutil.walk_packages(getattr(module, "__path__", ()), f"{package}.")
    found: dict[str, str] = {}
    for part in (package, *(info.name for info in inside)):
        for name in _classes(part):
            found[name] = "" if name in found else part
    return found


def _classes(module: str) -> list[str]:
    get_source = getattr(getattr(importlib.util.find_spec(module), "loader", None), "get_source", None)
    text = None if get_source is None else get_source(module)
    if text is not None:
        return _CLASS.findall(text)
    own = vars(importlib.import_module(module)).items()  # compiled files alone
    return [name for name, value in own if isinstance(value, type) and value.__module__ == module]


def find(module: Any, qualname: Any) -> Any:
    """The class or function of that name, if it is an allowed one.

    >>> find("river.optim.losses", "Log")
    <class 'river.optim.losses.Log'>
    >>> find("os", "system")
    Traceback (most recent call last):
    ...
    fwonline.exceptions.CheckpointError: the checkpoint names os.system, which is not allowed in one; ...

    Raises CheckpointError for any other name. Nothing outside river and fwonline is ever imported.
    """
    if not isinstance(module, str) or not isinstance(qualname, str):
        raise CheckpointError("the checkpoint names no class where one belongs")
    obj = _FIXED.get((module, qualname)) or _registered.get((module, qualname))
    if obj is not None:
        return obj
    if _is_open_module(module):
        try:
            obj = _looked_up(module, qualname)
        except (ImportError, KeyError, TypeError):
            raise CheckpointError(
                f"the checkpoint names {module}.{qualname}, which this version does not have"
            ) from None
        # A name that a module imported from elsewhere is refused: only an object's true name counts.
        if hasattr(obj, "__qualname__") and name_of(obj) == (module, qualname) and allowed(obj):
            return obj
    raise CheckpointError(
        f"the checkpoint names {module}.{qualname}, which is not allowed in one; if it is yours, call "
        "fwonline.checkpoint.codec.register on it before loading"
    )


def _looked_up(module: str, qualname: str) -> Any:
    obj: Any = importlib.import_module(module)
    first, *rest = qualname.split(".")
    is_package = module.startswith("fwonline.") and module.count(".") == 1
    place = _places(module).get(first) if is_package else None
    obj = vars(importlib.import_module(place) if place else obj)[first]
    for part in rest:
        obj = vars(obj)[part]
    return obj.__func__ if isinstance(obj, staticmethod) else obj


def method(owner: Any, name: Any) -> Any:
    """The bound method of an allowed object, without running anything of the object."""
    holder = owner if isinstance(owner, type) else type(owner)
    known = allowed_instance(holder) or holder in (random.Random, np.random.Generator, np.random.RandomState)
    if not known or not isinstance(name, str) or name.startswith("__"):
        raise CheckpointError(f"the checkpoint names a method {name!r} of {holder.__qualname__}, which is not allowed")
    for cls in holder.__mro__:
        if (found := vars(cls).get(name)) is None:
            continue
        if isinstance(found, types.FunctionType) and not isinstance(owner, type):
            return types.MethodType(found, owner)
        if isinstance(found, classmethod):
            return found.__get__(None, holder)
        if isinstance(found, types.MethodDescriptorType) and not isinstance(owner, type):
            return found.__get__(owner)
        break
    raise CheckpointError(f"the checkpoint names a method {name!r} that {holder.__qualname__} does not have")
