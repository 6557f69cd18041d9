"""Building the objects of a definition, or a list of all that is wrong with it."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from river import base, compose, utils

from fwonline._kinds import derives
from fwonline._pipeline import final_estimator
from fwonline.definition import classes
from fwonline.definition.hints import instead_of_class, instead_of_name, reader_of
from fwonline.definition.permissions import LISTEN, REFERENCE, Permissions, is_secret, unlistened
from fwonline.definition.toml import KeyPath, Lines, dotted
from fwonline.exceptions import DefinitionError, MonitorError
from fwonline.loop.event_loop import EventLoop
from fwonline.loop.options import BadSamples, Questions, Timing
from fwonline.monitors.base import Monitor
from fwonline.monitors.metric import Metric
from fwonline.stream.base import Sink, Source, as_source
from fwonline.stream.group import GroupSource

if TYPE_CHECKING:
    from fwonline.loop.group import GroupLoop  # which a run on its own need not load

__all__ = ["Builder"]

_METRIC = "river.metrics.base.Metric"
_SECTIONS = ("name", "source", "model", "monitors", "sinks", "run", "group", "metrics")
_BROKEN = object()  # in place of an object that could not be built, so that one pass finds every mistake
# The table [run]: the seed, the limit of `EventLoop.run`, and the fields of a loop's options.
_RUN = {name: value for part in (BadSamples, Questions, Timing) for name, value in classes.parameters(part).items()}
# The table [group]: these parameters of `GroupLoop`.
_GROUP = ("states", "merge_every", "merge_topic", "transactional")


class _Unopened(Sink):
    """In place of a sink while a definition is only checked: a sink opens its file at once."""

    def write(self, record: dict[str, Any]) -> None:
        raise NotImplementedError("this sink only checks a definition")

    def __repr__(self) -> str:
        return "a sink"


class Builder:
    """Turns the values of one definition into objects and keeps a list of what is wrong with them.

    Where `opens` is false sinks are not opened: the definition is only checked.
    """

    def __init__(
        self,
        values: dict[str, Any],
        lines: Lines,
        path: Path,
        output: Path | None = None,
        shared: Path | None = None,
        *,
        permissions: Permissions,
        opens: bool = False,
    ) -> None:
        self.values = values
        self.lines = lines
        self.path = path
        self.output = output
        self.shared = shared
        self.permissions = permissions
        self.opens = opens
        self.seed: int | None = None
        self.problems: dict[tuple[int, str], None] = {}  # (line, message), each once
        self.filled_in: dict[str, str] = {}  # value from the environment -> ${NAME}, which is shown in its place

    def build(self, **options: Any) -> EventLoop | GroupLoop:
        """The whole run; `options` are parameters of its loop that no definition sets.

        Raises DefinitionError: with all that is wrong.
        """
        self.unknown_keys(self.values, _SECTIONS, ())
        self.section_name()
        self.section_metrics()
        settings = self.section_run()  # first: the seed is for all that follow
        source, model = self.section_source(), self.section_model()
        monitors = [self.monitor(spec, path, model) for spec, path in self.several("monitors")]
        sinks = [self.sink(spec, path) for spec, path in self.several("sinks")]
        group = self.section_group(source)
        if not self.problems:
            try:
                if group is not None:
                    from fwonline.loop.group import GroupLoop

                    return GroupLoop(source, model, monitors, sinks, **group, **settings, **options)
                return EventLoop(source, model, monitors, sinks, **settings, **options)
            except (TypeError, ValueError) as error:
                self.problem(self.culprit(("run",), settings, error), str(error))
        raise DefinitionError("\n".join(message for _, message in sorted(self.problems)))

    # -- what is wrong, and where

    def problem(self, path: KeyPath, message: str) -> Any:
        line = self.lines[path]
        for secret, name in self.filled_in.items():
            message = message.replace(secret, name)
        where = f"{dotted(path)}: " if path else ""
        self.problems[(line, f"{self.path}:{line}: {where}{message}")] = None
        return _BROKEN

    def unknown_keys(self, table: dict[str, Any], known: Iterable[str], path: KeyPath) -> None:
        for key in table:
            if key not in known:
                expected = ", ".join(known) or "no keys but class"
                self.problem((*path, key), f"unknown key.{classes.closest(key, known)} Expected one of: {expected}")

    # -- the sections

    def section_name(self) -> None:
        name = self.values.get("name", "stream")
        if not isinstance(name, str):
            self.problem(("name",), f"expected a string, found {_shown(name)}")
        elif not re.fullmatch(r"\w[\w .-]*", name):
            expected = "letters, digits, '_', '-' and '.', since it names the run's folder"
            self.problem(("name",), f"expected {expected}, found {name!r}")

    def section_metrics(self) -> None:
        for keys, message in unlistened(self.table("metrics", LISTEN)):
            self.problem(("metrics", *keys), message)

    def table(self, key: str, known: dict[str, inspect.Parameter]) -> dict[str, Any]:
        """A table of plain values, each checked against the parameter of its name."""
        spec = self.values.get(key, {})
        if not isinstance(spec, dict):
            self.problem((key,), f"expected a table, found {_shown(spec)}")
            return {}
        self.unknown_keys(spec, known, (key,))
        for name, value in spec.items():
            if name in known and (expected := classes.expected_type(known[name], value)):
                self.problem((key, name), f"expected {expected}, found {_shown(value)}")
        return spec

    def section_run(self) -> dict[str, Any]:
        plain = inspect.Parameter("whole", inspect.Parameter.KEYWORD_ONLY, annotation="int")
        spec = self.table("run", {"seed": plain, "limit": plain, **_RUN})
        for key, least in (("seed", 0), ("limit", 1)):
            if type(spec.get(key)) is int and spec[key] < least:
                self.problem(("run", key), f"expected an integer from {least} on, found {spec[key]}")
        self.seed = spec.get("seed")
        settings = {key: value for key, value in spec.items() if key in _RUN}
        if "dead_letter" in settings:
            settings["dead_letter"] = self.dead_letter(settings["dead_letter"], ("run", "dead_letter"))
            settings.setdefault("on_error", "dead-letter")
        return settings

    def dead_letter(self, spec: Any, path: KeyPath) -> Any:
        if isinstance(spec, str) and classes.find(spec) is None:  # a file's name
            spec = {"class": "JSONLinesSink", "path": spec}
        return self.sink(spec, path)

    def section_source(self) -> Any:
        path: KeyPath = ("source",)
        source = self.required(path, "what to read")
        if source is _BROKEN or isinstance(source, Source | GroupSource):
            return source
        if not derives(type(source), "river.datasets.base.Dataset"):
            return self.problem(path, f"expected a source or a dataset, found {type(source).__name__}")
        return as_source(source)

    def section_group(self, source: Any) -> dict[str, Any] | None:
        """The parameters of a group's loop, or None for a run on its own."""
        if "group" not in self.values:
            if isinstance(source, GroupSource):
                what = type(source).__name__
                self.problem((), f"the table [group] is missing: {what} shares a stream out among workers")
            return None
        from fwonline.loop.group import GroupLoop

        known = classes.parameters(GroupLoop)
        spec = self.table("group", {name: known[name] for name in _GROUP})
        if source is not _BROKEN and not isinstance(source, GroupSource):
            what = type(source).__name__
            self.problem(("group",), f"{what} is read by one process; a group shares out a KafkaGroupSource")
        states = self.written(str(spec.get("states", "states")), ("group", "states"), self.shared)
        # Sinks that are not opened cannot tell whether they take part in a transaction.
        transactional = self.opens and spec.get("transactional", False)
        return {**spec, "transactional": transactional, "states": states}

    def section_model(self) -> Any:
        path: KeyPath = ("model",)
        model = self.required(path, "what learns")
        if model is _BROKEN:
            return model
        last = final_estimator(model)
        # A covariance or another model of the features alone is for the monitors; a transformer is no model.
        is_described = not (getattr(last, "_supervised", True) or isinstance(last, base.Transformer))
        if not hasattr(last, "learn_one") or not (hasattr(last, "predict_one") or is_described):
            return self.problem(path, f"the last step must learn and predict, and {type(last).__name__} does not")
        return model

    def monitor(self, spec: Any, path: KeyPath, model: Any) -> Any:
        window = positive = None
        if isinstance(spec, dict) and isinstance(spec.get("class"), str) and _is_metric(spec["class"]):
            spec = dict(spec)
            window, positive = spec.pop("window", None), spec.pop("positive", None)
        monitor = self.named_object(spec, path)
        if monitor is _BROKEN or isinstance(monitor, Monitor):
            return self.reading(monitor, model, path)
        if not derives(type(monitor), _METRIC):
            return self.problem(path, f"expected a monitor or a river metric, found {type(monitor).__name__}")
        # river's metrics know no rankers, whose predictions are those of regressors
        is_ranker = derives(type(model), "river.reco.base.Ranker")
        rates = is_ranker and derives(type(monitor), "river.metrics.base.RegressionMetric")
        if model is not _BROKEN and not (rates or monitor.works_with(model)):
            what = type(final_estimator(model)).__name__
            return self.problem(path, f"{type(monitor).__name__} does not measure what {what} predicts")
        if isinstance(positive, dict | list):
            return self.problem((*path, "positive"), f"expected a label, found {_shown(positive)}")
        over = monitor if window is None else self.over_window(monitor, window, path)
        if over is _BROKEN:
            return over
        try:
            return self.reading(Metric(over, positive=positive), model, path)
        except ValueError as error:
            return self.problem(path, str(error))

    def reading(self, monitor: Any, model: Any, path: KeyPath) -> Any:
        """A monitor that has something to read from the model."""
        if monitor is not _BROKEN and model is not _BROKEN:
            try:
                monitor.check_model(model)
            except MonitorError as error:
                return self.problem(path, str(error))
        return monitor

    def over_window(self, metric: Any, window: Any, path: KeyPath) -> Any:
        if type(window) is not int or window < 1:
            return self.problem((*path, "window"), f"expected a positive integer, found {_shown(window)}")
        parameters = {key: getattr(metric, key) for key in classes.parameters(type(metric)) if hasattr(metric, key)}
        try:
            return utils.Rolling(type(metric), window, **parameters)
        except Exception as error:  # as in `call`
            return self.problem((*path, "window"), f"{type(metric).__name__}: {error}")

    def sink(self, spec: Any, path: KeyPath) -> Any:
        sink = self.named_object(spec, path)
        if sink is not _BROKEN and not isinstance(sink, Sink):
            return self.problem(path, f"expected a sink, found {type(sink).__name__}")
        return sink

    def required(self, path: KeyPath, purpose: str) -> Any:
        spec = self.values
        if path[0] not in spec:
            return self.problem((), f"the key {path[0]!r} is missing: it says {purpose}")
        return self.named_object(spec[path[0]], path)

    def several(self, key: str) -> list[tuple[Any, KeyPath]]:
        spec = self.values.get(key, [])
        if not isinstance(spec, list):
            return [(spec, (key,))]
        return [(item, (key, index)) for index, item in enumerate(spec)]

    # -- objects

    def named_object(self, spec: Any, path: KeyPath) -> Any:
        """An object where only an object belongs: a table, a class name alone, or a list that is a pipeline."""
        if isinstance(spec, str):
            return self.object({"class": spec}, path, at=path)
        if isinstance(spec, list) and path[0] == "model":
            return self.pipeline(spec, path)
        if not isinstance(spec, dict):
            return self.problem(path, f"expected a table with a class, or the name of one, found {_shown(spec)}")
        return self.object(spec, path)

    def pipeline(self, specs: list[Any], path: KeyPath) -> Any:
        if not specs:
            return self.problem(path, "expected at least one step, found an empty list")
        steps = [self.named_object(spec, (*path, index)) for index, spec in enumerate(specs)]
        for index, step in enumerate(steps[:-1]):
            if step is not _BROKEN and not hasattr(step, "transform_one"):
                self.problem(
                    (*path, index), f"every step but the last must transform, and {type(step).__name__} does not"
                )
        if any(step is _BROKEN for step in steps):
            return _BROKEN
        if len(steps) == 1:
            return steps[0]
        return compose.Pipeline(*steps)

    def estimators(
        self, spec: Any, path: KeyPath, cls: type, parameter: inspect.Parameter | None, *, many: bool
    ) -> Any:
        """What a meta-estimator is made of: an object, its name alone, or a pipeline, or a list of these."""
        if many:
            if not isinstance(spec, list):
                return self.problem(path, f"expected a list, found {_shown(spec)}")
            found = [self.estimators(item, (*path, i), cls, parameter, many=False) for i, item in enumerate(spec)]
            return _BROKEN if any(item is _BROKEN for item in found) else found
        made, wanted = self.named_object(spec, path), classes.estimators_of(cls, parameter)
        if made is not _BROKEN and wanted and not isinstance(last := final_estimator(made), wanted):
            kinds = " or ".join(dict.fromkeys(f"a {kind.__name__}" for kind in wanted))
            return self.problem(path, f"{cls.__name__} expects {kinds}, found {type(last).__name__}")
        return made

    def object(self, spec: dict[str, Any], path: KeyPath, at: KeyPath | None = None) -> Any:
        """An object of a table; `at` is where the name of its class stands, by default under the key ``class``."""
        if "class" not in spec:
            typo = next((key for key in spec if classes.closest(key, ["class"])), None)
            if typo is not None:
                return self.problem((*path, typo), "unknown key. Did you mean 'class'?")
            such = reader_of(spec["path"]) if isinstance(spec.get("path"), str) and path == ("source",) else None
            such = f', such as class = "{such}"' if such else ""
            return self.problem(path, f"the key 'class' is missing: it names what to build{such}")
        cls = self.class_named(spec["class"], path, at or (*path, "class"))
        if cls is _BROKEN:
            return cls
        known = classes.parameters(cls)
        arguments: dict[str, Any] = {}
        for key, value in spec.items():
            if key != "class":
                arguments[key] = self.value(value, (*path, key), cls, known.get(key))
                if _is_path(known.get(key)) and not isinstance(value, str):  # a number would be an open file's
                    arguments[key] = self.problem((*path, key), f"expected a string, found {_shown(value)}")
        if "seed" in known and "seed" not in arguments and self.seed is not None:
            arguments["seed"] = self.seed
        return self.call(cls, arguments, path)

    def class_named(self, name: Any, path: KeyPath, at: KeyPath) -> Any:
        if not isinstance(name, str):
            return self.problem(at, f"expected the name of a class, found {_shown(name)}")
        try:
            # the parameter's name points at the module of its object: ``loss`` at ``losses``
            cls = classes.find(name, hint="metric" if path[0] == "monitors" and len(path) <= 2 else str(path[-1]))
        except classes.AmbiguousName as error:
            return self.problem(at, f"{name!r} is ambiguous: write {' or '.join(error.choices)}")
        except ImportError as error:
            return self.problem(at, f"{name} cannot be used here: {error}")
        if cls is None:
            return self.problem(at, instead_of_class(name, str(path[0])))
        return cls

    def value(self, value: Any, path: KeyPath, cls: type, parameter: inspect.Parameter | None = None) -> Any:
        if _is_kafka(cls) and is_secret(path, value):
            return self.problem(
                path, 'a secret is not written in a definition: write "${NAME}", and set NAME in the environment'
            )
        if holds := classes.holds_estimators(cls, parameter):
            return self.estimators(value, path, cls, parameter, many=holds == "many")
        if isinstance(value, dict):
            if "class" in value and not classes.is_table(parameter):
                return self.object(value, path)
            inner = {key: self.value(item, (*path, key), cls) for key, item in value.items()}
            return _BROKEN if any(item is _BROKEN for item in inner.values()) else inner
        if isinstance(value, list):
            items = [self.value(item, (*path, index), cls) for index, item in enumerate(value)]
            if any(item is _BROKEN for item in items):
                return _BROKEN
            return tuple(items) if parameter is not None and isinstance(parameter.default, tuple) else items
        if isinstance(value, str):
            return self.string(value, path, cls, parameter)
        return value

    def string(self, value: str, path: KeyPath, cls: type, parameter: inspect.Parameter | None) -> Any:
        if _is_kafka(cls):
            return self.filled(value, path, cls)
        if "${" in value:
            return self.problem(path, "the environment is only filled in for Kafka sources and sinks")
        if not _is_path(parameter):
            return value
        if issubclass(cls, Sink):
            return self.written(value, path, self.output)
        return value if value == "-" else self.located(value, path, self.path.parent)

    def located(self, value: str, path: KeyPath, folder: Path | None) -> Any:
        """A path that starts in `folder`, or as it is where there is none."""
        try:
            located = Path(value).expanduser()
        except RuntimeError as error:  # a home folder that is not known
            return self.problem(path, str(error))
        return str(located if folder is None else folder / located)

    def written(self, value: str, path: KeyPath, folder: Path | None) -> Any:
        """A path that will be written, if the definition may write there."""
        located = self.located(value, path, folder)
        if located is _BROKEN or folder is None:
            return located
        obstacle = self.permissions.obstacle(Path(located), folder)
        return self.problem(path, obstacle) if obstacle else located

    def filled(self, value: str, path: KeyPath, cls: type) -> Any:
        """A string with what it takes from the environment; a reference where it is a secret's and nothing else."""
        broken = False
        is_client = "client" in path[:-1]
        # All other values, names of topics and groups above all, are written to checkpoints and summaries.
        is_kept = (
            not is_client and path[-1] != "bootstrap_servers" and not (path[-1] == "topic" and issubclass(cls, Sink))
        )
        if is_kept and "${" in value:
            return self.problem(
                path,
                f"{value!r}: the environment is filled in only under `client`, in `bootstrap_servers` and in a sink's "
                "`topic`: other values are written to the run's files",
            )

        def replacement(match: re.Match[str]) -> str:
            nonlocal broken
            name, default = match[1], match[2]
            found = os.environ.get(name)
            if found and not (is_client or self.permissions.may_read(name)):
                broken = True
                self.problem(
                    path,
                    f"the environment variable {name!r} is read only when whoever runs the definition says so: "
                    f"--allow-env {name} on the command line (allow_env in Python)",
                )
                return ""
            if found:
                self.filled_in[found] = match[0]
                return found
            if default is None:
                broken = True
                self.problem(path, f"the environment variable {name!r} is not set")
            return default or ""

        text = REFERENCE.sub(replacement, value)
        if broken:
            return _BROKEN
        whole = REFERENCE.fullmatch(value)
        # Read at each connection and kept nowhere; the client does not show it in its messages.
        return {"env": whole[1]} if is_client and whole and os.environ.get(whole[1]) else text

    def call(self, cls: type, arguments: dict[str, Any], path: KeyPath) -> Any:
        """``cls(**arguments)``, with mistakes reported in terms of the definition."""
        known = classes.parameters(cls)
        kinds = inspect.Parameter
        spread = next((name for name, p in known.items() if p.kind is kinds.VAR_POSITIONAL), None)
        anything = any(p.kind is kinds.VAR_KEYWORD for p in known.values())
        named = [name for name, p in known.items() if p.kind is not kinds.VAR_KEYWORD]
        before = len(self.problems)
        if not anything:
            self.unknown_keys(arguments, named, path)
        for key, value in arguments.items():
            if value is not _BROKEN and key in known and key != spread:
                if classes.wants_function(known[key]):
                    self.problem((*path, key), "wants a function, and no definition can hold one")
                elif expected := classes.expected_type(known[key], value):
                    self.problem((*path, key), f"expected {expected}, found {_shown(value)}")
            elif value is not _BROKEN and key == spread and not isinstance(value, list):
                self.problem((*path, key), f"expected a list, found {_shown(value)}")
        for name, parameter in known.items():
            if parameter.default is kinds.empty and name not in arguments and name in named and name != spread:
                self.problem(path, f"{cls.__name__} needs the key {name!r}")
        if len(self.problems) > before or any(value is _BROKEN for value in arguments.values()):
            return _BROKEN
        if not self.opens and issubclass(cls, Sink):
            return _Unopened()
        positional = arguments.pop(spread, []) if spread else []
        try:
            return cls(*positional, **arguments)
        except Exception as error:  # whatever the constructors of two libraries raise, the file is the cause
            culprit = self.culprit(path, arguments, error)
            meant = instead_of_name(str(culprit[-1]), arguments.get(str(culprit[-1])))
            what = str(error).removeprefix(f"{cls.__name__}: ") or type(error).__name__
            return self.problem(culprit, meant or f"{cls.__name__}: {what}")

    @staticmethod
    def culprit(path: KeyPath, arguments: dict[str, Any], error: Exception) -> KeyPath:
        """The first key that an error names, if it names one; else the table."""
        words = re.findall(r"\w+", str(error))
        return next(((*path, word) for word in words if word in arguments), path)


def _is_kafka(cls: type) -> bool:
    return "kafka" in cls.__module__.split(".")


def _is_path(parameter: inspect.Parameter | None) -> bool:
    return parameter is not None and "Path" in str(parameter.annotation)


def _is_metric(name: str) -> bool:
    with contextlib.suppress(classes.AmbiguousName, ImportError):
        cls = classes.find(name, hint="metric")
        return cls is not None and derives(cls, _METRIC)
    return False


def _shown(value: Any) -> str:
    """A value for people: its kind and, shortened, its text."""
    kind = {dict: "a table", list: "a list", str: "the string", bool: "", int: "", float: ""}.get(type(value), "")
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return f"{kind} {text if len(text) <= 50 else text[:47] + '...'}".strip()
