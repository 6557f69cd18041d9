"""Projection-free (Frank-Wolfe) learners for streams.

Parts are imported when they are asked for: ``import fwonline`` is cheap, and ``fwonline.linear_model`` works.
"""

from __future__ import annotations

import importlib
import os
import typing

__version__ = "0.2.0.dev0"
__all__ = ["load_model"]


def load_model(run: str | os.PathLike[str]) -> typing.Any:
    """Return the model that a run of ``fwonline run`` has learned, ready to predict and to learn on.

    Of a group's run it is a merge of the models of its partitions, which is for predicting. Loading executes nothing
    that a file holds.

    Parameters
    ----------
    run
        The run's folder, such as ``runs/customers``, or its checkpoint.

    Returns
    -------
    model
        A river estimator or pipeline, as the newest checkpoint has it.

    Raises
    ------
    FWOnlineError
        When there is no run, no checkpoint yet, or a damaged one.

    Examples
    --------
    >>> import os, tempfile
    >>> import fwonline
    >>> from fwonline.cli import main
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "prices.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("size,price\\n" + "1,10\\n2,20\\n" * 20)
    ...     definition = os.path.join(folder, "prices.toml")
    ...     with open(definition, "w") as file:
    ...         _ = file.write('''
    ... source = { class = "CSVSource", path = "prices.csv", target = "price" }
    ... model = { class = "FWRegressor", constraint = { class = "L1Ball", radius = 100.0 }, intercept = false }
    ... ''')
    ...     code = main(["run", definition, "--output", os.path.join(folder, "run"), "--quiet"])
    ...     model = fwonline.load_model(os.path.join(folder, "run"))
    >>> round(model.predict_one({"size": 3.0}))
    30
    """
    from fwonline._cli.learned.state import load_model as loaded

    return loaded(run)


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
    return ["__version__", "load_model", *_parts()]
