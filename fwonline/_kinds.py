"""What an object is, asked without importing the module of the class: river's take long, and a run needs few."""

from __future__ import annotations

__all__ = ["derives"]

_ancestors: dict[type, frozenset[str]] = {}


def derives(cls: type, ancestor: str) -> bool:
    """Whether a class is, or derives from, the one of this name, such as ``river.metrics.base.Metric``.

    >>> from fwonline import monitors
    >>> derives(monitors.Gap, "fwonline.monitors.base.Monitor"), derives(monitors.Gap, "river.metrics.base.Metric")
    (True, False)
    """
    names = _ancestors.get(cls)
    if names is None:  # asked for every sample: river's abstract classes make `isinstance` take long, too
        names = _ancestors[cls] = frozenset(f"{each.__module__}.{each.__qualname__}" for each in cls.__mro__)
    return ancestor in names
