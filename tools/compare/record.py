"""What a case leaves behind: named arrays."""

from __future__ import annotations

import typing

import numpy as np

from tools.compare.names import TIMES, read

__all__ = ["Record", "of_composite", "of_estimator", "of_linear", "of_optimizer", "of_result"]

LINEAR = (
    *("intercept_", "gap", "exact_gap", "violation", "n_samples", "n_features", "n_remembered", "cumulative_loss"),
    *("last_sample", "classes"),
)
COUNTERS = ("n_steps", "n_gradients", "n_exact_gradients", "n_lmo", "n_coefficients", "n_drop_steps")
RESULT = (
    *("x", "fun", "gap", "gap_estimate", "nit", "n_gradients", "n_exact_gradients", "n_coefficients", "n_lmo"),
    *("n_drop_steps", "infeasibility", "lmo_error", "lmo_share", "success"),
)


class Record(dict[str, np.ndarray]):
    """Named arrays; anything else is taken apart into some."""

    def put(self, name: str, value: typing.Any) -> None:
        """Keep a value: numbers as they are, a mapping by the order of its keys' text, all else as text."""
        if value is None or name.rsplit(".", 1)[-1] in TIMES:
            return
        if isinstance(value, dict):
            keys = sorted(value, key=repr)
            self[f"{name}.keys"] = np.array([repr(key) for key in keys], dtype=np.str_)
            inner = [value[key] for key in keys]
            if all(isinstance(one, bool | int | float | np.number) for one in inner):
                self[f"{name}.values"] = np.array(inner, dtype=np.float64)
            else:
                for key, one in zip(keys, inner, strict=True):
                    self.put(f"{name}.{key}", one)
            return
        if isinstance(value, list | tuple) and any(isinstance(one, dict | list | tuple | np.ndarray) for one in value):
            for i, one in enumerate(value):
                self.put(f"{name}.{i}", one)
            return
        array = np.asarray(value)
        self[name] = array if array.dtype.kind in "biufU" else np.array(repr(value))

    def put_all(self, owner: typing.Any, names: typing.Iterable[str], prefix: str = "") -> None:
        """Keep attributes of an object, those that it has."""
        for name in names:
            self.put(prefix + name, read(owner, name))


def of_optimizer(record: Record, optimizer: typing.Any) -> None:
    """The counters of an optimizer that serves a model."""
    if optimizer is not None:
        record.put_all(optimizer, COUNTERS)


def of_linear(record: Record, model: typing.Any, prefix: str = "") -> None:
    """Everything that a linear model shows."""
    record.put(f"{prefix}weights", model.weights)
    record.put_all(model, LINEAR, prefix)


def of_estimator(record: Record, model: typing.Any, names: typing.Iterable[str]) -> None:
    """What another estimator shows."""
    record.put_all(model, names)


def of_result(record: Record, result: typing.Any) -> None:
    """Everything that ``minimize`` returned, less its message."""
    for name in RESULT:
        record.put(name, result.get(name))
    for i, dual in enumerate(result.get("duals") or ()):
        record.put(f"dual.{i}", dual)


def of_composite(record: Record, result: typing.Any) -> None:
    """Everything that ``minimize`` returned of a composite objective: its gap is an estimate."""
    of_result(record, {"gap_estimate": result.get("gap"), **result})
    record.pop("gap", None)
