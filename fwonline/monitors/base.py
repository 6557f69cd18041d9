"""The base class of monitors, which watch a model learn and return a few numbers about it."""

from __future__ import annotations

import abc
from typing import Any

from river import base

from fwonline import _loaded
from fwonline._pipeline import final_estimator
from fwonline.exceptions import MonitorError

__all__ = ["Monitor", "Periodic"]


class Monitor(base.Base, abc.ABC):
    """Watches a model learn, one sample at a time.

    The loop calls `update` for each sample after it was learned; without the loop, call it likewise. The documentation
    of a monitor lists the arguments that it reads.

    Monitors clone, pickle and go into checkpoints as every part of river does. They change neither model nor sample.
    """

    # Attributes that are None at first and no numbers later.
    _not_numbers: tuple[str, ...] = ()
    # Attributes of an estimator, of which it must have one.
    _reads: tuple[str, ...] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "update" in vars(cls) and "update_many" not in vars(cls):
            cls.most_together = Monitor.most_together  # type: ignore[method-assign]  # it has its say at each sample

    @abc.abstractmethod
    def update(self, y_true: Any = None, y_pred: Any = None, *, x: dict | None = None, model: Any = None) -> None:
        """Take note of one sample, after it was learned.

        Parameters
        ----------
        y_true
            The sample's target.
        y_pred
            What was predicted before the target was learned.
        x
            The sample's features, as they went into the model.
        model
            The model, or a pipeline that ends with it.
        """

    def most_together(self) -> float:
        """How many of the next samples `update_many` takes at once; infinity: any number.

        1 for a monitor that looks at the model after each sample, which is what a monitor does that says nothing else.
        One that looks now and then says how many samples there are to its next look, that one included.
        """
        return 1

    def update_many(self, y_true: Any, y_pred: Any, *, model: Any = None) -> None:
        """Take note of samples that were learned one after another: the same as `update` after each of them.

        Parameters
        ----------
        y_true
            The targets, an array of shape (n,), where n is at most what `most_together` has said.
        y_pred
            What was predicted before each target was learned: an array of n numbers or labels, or
            `fwonline._protocols.Probabilities` of n rows.
        model
            The model as it is after the last of them; a linear one has all n in its `last_samples`.
        """
        raise NotImplementedError(f"{type(self).__name__} takes samples one by one")

    @abc.abstractmethod
    def get(self) -> dict[str, Any]:
        """Return the values: a flat dict as JSON can hold it, always with the same keys; None where not known yet."""

    def finish(self) -> None:
        """Do what was postponed: the stream has ended, and the next `get` is about all samples."""

    def check_model(self, model: Any) -> None:
        """Check, before a run, that there is something to read from a model.

        Raises MonitorError when there is not: what this monitor needs, and what the model lacks.
        """
        holders = (model, final_estimator(model))
        if self._reads and not any(_may_have(holder, name) for holder in holders for name in self._reads):
            raise _lacking(self, holders[1], self._reads[0])

    def _check_loaded(self) -> None:
        """Check that a monitor of these parameters could have these numbers; subclasses check the rest."""
        if not type(self).__module__.startswith("fwonline."):
            return
        fresh = _loaded.rebuilt(self)
        _loaded.like(self, fresh)
        for name, value in vars(fresh).items():
            if not name.startswith("_"):
                continue
            if type(value) is bool:
                _loaded.choice(self, name, (True, False))
            elif type(value) is int:
                _loaded.count(self, name)
            elif type(value) is float:
                _loaded.real(self, name, nan=True, inf=True)
            elif value is None and name not in self._not_numbers:
                is_counter = type(getattr(self, name)) is int
                _loaded.count(self, name) if is_counter else _loaded.maybe_real(self, name)

    @abc.abstractmethod
    def _text(self) -> str:
        """The values in words."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self._text()}"

    __str__ = __repr__


class Periodic(Monitor):
    """Reads the model every `every` samples, beginning with the first: for numbers that cost more than a sample."""

    def __init__(self, every: int = 100):
        if every < 1:
            raise ValueError(f"every must be at least 1, not {every}")
        self.every = every
        self._n = 0

    def update(self, y_true: Any = None, y_pred: Any = None, *, x: dict | None = None, model: Any = None) -> None:
        self._n += 1
        if (self._n - 1) % self.every == 0:
            self._read(model)

    def most_together(self) -> float:
        return -self._n % self.every + 1

    def update_many(self, y_true: Any, y_pred: Any, *, model: Any = None) -> None:
        self._n += len(y_true)
        if (self._n - 1) % self.every == 0:
            self._read(model)

    @abc.abstractmethod
    def _read(self, model: Any) -> None:
        """Take note of the model as it is at sample `_n`."""


_MISSING = object()


def exposed(monitor: Monitor, model: Any, attribute: str) -> Any:
    """An attribute of the estimator. Raises MonitorError with the monitor's name where there is none."""
    name = type(monitor).__name__
    if model is None:
        raise MonitorError(f"{name} reads its numbers from the model: call update(model=model)")
    value = getattr(model, attribute, _MISSING)  # a pipeline has none of what its estimators expose
    if value is _MISSING:
        estimator = final_estimator(model)
        value = getattr(estimator, attribute, _MISSING)
    if value is _MISSING:
        raise _lacking(monitor, estimator, attribute)
    return value


def _may_have(model: Any, attribute: str) -> bool:
    """Whether a model has an attribute, without computing it; what hands attributes on may have any."""
    cls = type(model)
    return hasattr(cls, attribute) or attribute in getattr(model, "__dict__", {}) or hasattr(cls, "__getattr__")


def _lacking(monitor: Monitor, estimator: Any, attribute: str) -> MonitorError:
    name = type(monitor).__name__
    return MonitorError(f"{name} needs a model with the attribute {attribute!r}; {type(estimator).__name__} has none")


def number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"
