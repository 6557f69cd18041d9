"""Projection-free (Frank-Wolfe) learners for streams.

Parts are imported when they are asked for: ``import fwonline`` is cheap, and ``fwonline.linear_model`` works.
"""

import importlib
import typing

__version__ = "0.2.0.dev0"

_PARTS = (
    "checkpoint",
    "cluster",
    "covariance",
    "datasets",
    "definition",
    "exceptions",
    "features",
    "linear_model",
    "loop",
    "losses",
    "monitors",
    "optim",
    "reco",
    "sets",
    "stream",
    "tables",
)


def __getattr__(name: str) -> typing.Any:
    if name in _PARTS:
        return importlib.import_module(f"fwonline.{name}")
    raise AttributeError(f"module 'fwonline' has no attribute {name!r}; it has {', '.join(_PARTS)}")


def __dir__() -> list[str]:
    return ["__version__", *_PARTS]
