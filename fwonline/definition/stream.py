"""Stream definitions: a whole run, written down as TOML."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fwonline.checkpoint.file import Checkpoint
from fwonline.definition.builder import Builder
from fwonline.definition.permissions import LOOPBACK, Permissions, hidden, is_secret
from fwonline.definition.settings import with_settings
from fwonline.definition.toml import KeyPath, Lines, dotted, parse
from fwonline.exceptions import DefinitionError

if TYPE_CHECKING:
    from fwonline.loop.event_loop import EventLoop
    from fwonline.loop.group import GroupLoop
    from fwonline.loop.report import Observer

__all__ = ["StreamDefinition", "load_definition", "read_definition"]

_ABSENT = object()
# Keys that change nothing of what was learned so far: a run may go on with other values of these.
_FREE = {
    ("name",),
    *(("run", key) for key in ("limit", "on_error", "max_rejected_share", "blocks")),
    *(("run", key) for key in ("report_every", "report_samples", "checkpoint_every", "checkpoint_samples")),
    ("group", "merge_every"),
    *(("metrics", key) for key in ("port", "address")),
}


@dataclass(frozen=True)
class StreamDefinition:
    """A stream definition: what to read, what to learn, what to watch and where to write.

    A definition is TOML. An object is a table whose key ``class`` names a public class of fwonline (sets, optimizers,
    estimators, monitors, sources, sinks, simulators) or of river (preprocessing, feature extraction, compose, metrics,
    losses, schedulers, linear models, ensembles, trees, multi-class, drift, statistics, datasets); its other keys are
    the constructor's parameters. Where an object belongs and needs no parameters, its name alone will do. A list under
    ``model``, or where a union or a meta-estimator takes an estimator, is a pipeline. A river metric among the monitors
    is wrapped in `fwonline.monitors.Metric`, and its key ``window`` makes it one of the last so many samples. Nothing
    in a definition runs code.

    A table ``metrics`` with a ``port`` has ``fwonline run`` tell Prometheus there how it stands, on this machine alone.

    A table ``group`` makes it the definition of a worker: several processes that run it share out the partitions of one
    stream (`GroupLoop`).

    Relative paths of sources start at the definition's folder, those of sinks at the run folder.

    **A definition from somebody else** can do this and no more: read any file that you may read (``path`` of a source,
    a certificate in ``client``), connect to the brokers that it names, send what it reads and predicts to topics there,
    and let river fetch its data sets. It writes in the run folder only: a sink, a dead letter or ``states`` anywhere
    else, links and ``..`` followed, is refused unless `allow_write` names the place. ``${NAME}`` and
    ``${NAME:-default}`` are filled in from the environment for Kafka only: any variable under ``client``, where secrets
    belong; in ``bootstrap_servers`` and a sink's ``topic`` the variable ``KAFKA`` and those that `allow_env` names; and
    nowhere else. What they stand for is never written to the run folder. A password that is written out is refused. So
    before you run it, read what its source reads, which brokers it names and which variables it sends them.

    Use `load_definition` to read one.

    Parameters
    ----------
    name
        What the run is called: the key ``name``, or the file's name without its ending.
    path
        Where it was read from.
    text
        The document, byte for byte.
    values
        The document as plain values.
    """

    name: str
    path: Path
    text: str = field(repr=False)
    values: dict[str, Any] = field(repr=False)
    lines: Lines = field(repr=False, compare=False)
    permissions: Permissions = field(default=Permissions(), repr=False, compare=False)

    @property
    def limit(self) -> int | None:
        """How many items the run shall take in all: for `EventLoop.run`."""
        return self.values.get("run", {}).get("limit")

    @property
    def metrics(self) -> tuple[str, int] | None:
        """The address and the port where Prometheus is to ask, if the definition has a table ``metrics``."""
        table = self.values.get("metrics")
        return None if not table else (table.get("address", LOOPBACK[0]), table["port"])

    @property
    def is_shared(self) -> bool:
        """Whether it describes a worker of a group."""
        return "group" in self.values

    def build_worker(
        self,
        output: str | os.PathLike[str] = ".",
        *,
        shared: str | os.PathLike[str] = ".",
        observers: Iterable[Observer] = (),
    ) -> GroupLoop:
        """Build every object anew, the sinks last, and one worker of the group.

        Parameters
        ----------
        output
            The folder in which relative paths of sinks start: this worker's own.
        shared
            The folder in which a relative path of states starts: all workers'.
        observers
            As for `GroupLoop`.

        Raises DefinitionError as `build` does, and when the definition describes no worker.
        """
        if not self.is_shared:
            raise DefinitionError(f"{self.path}: expected a table [group]: this definition is of a run on its own")
        self.check(output, shared=shared)
        builder = self._builder(output, shared, opens=True)
        return cast("GroupLoop", builder.build(observers=observers))

    def build(
        self,
        output: str | os.PathLike[str] = ".",
        *,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        resume: bool = True,
        observers: Iterable[Observer] = (),
    ) -> EventLoop:
        """Build every object anew, the sinks last, and an event loop of them.

        Parameters
        ----------
        output
            The folder in which relative paths of sinks start.
        checkpoint, resume, observers
            As for `EventLoop`.

        Raises
        ------
        DefinitionError
            Naming every mistake with its line, its key, what was found and what was expected; when the definition
            describes a worker of a group, which `build_worker` builds.
        """
        if self.is_shared:
            raise DefinitionError(f"{self.path}: a definition with a table [group] describes a worker: build_worker")
        self.check(output)
        builder = self._builder(output, opens=True)
        return cast("EventLoop", builder.build(checkpoint=checkpoint, resume=resume, observers=observers))

    def check(
        self, output: str | os.PathLike[str] | None = None, *, shared: str | os.PathLike[str] | None = None
    ) -> None:
        """Build everything but the sinks, which only have their keys checked: nothing is opened or read.

        Parameters
        ----------
        output, shared
            The folders of `build_worker`, where they are known: then what is to be written outside them is refused.

        Raises DefinitionError as `build` does.
        """
        self._builder(output, shared).build()

    def _builder(
        self,
        output: str | os.PathLike[str] | None = None,
        shared: str | os.PathLike[str] | None = None,
        *,
        opens: bool = False,
    ) -> Builder:
        folders = (None if folder is None else Path(folder) for folder in (output, shared))
        return Builder(self.values, self.lines, self.path, *folders, permissions=self.permissions, opens=opens)

    def hide(self, text: str) -> str:
        """Return `text` with ``${NAME}`` in place of what the definition takes from the environment."""
        return hidden(text, self.values)

    def changed(self, settings: Mapping[str, str]) -> StreamDefinition:
        """Return a definition with other values: see `load_definition`.

        Raises DefinitionError where a key leads nowhere.
        """
        text = with_settings(self.text, dict(settings), str(self.path))
        values, lines = parse(text, str(self.path))
        return replace(self, name=values.get("name", self.path.stem), text=text, values=values, lines=lines)

    def leaves(self) -> dict[str, str]:
        """Return every value, as people read it, by its dotted key; secrets are hidden."""
        found = dict(_leaves(self.values))
        return {dotted(key): _shown(key, found) for key in found}

    def differences(self, other: StreamDefinition) -> list[str]:
        """Return where two definitions differ in what matters for what is learned.

        The name, the ``limit``, ``on_error`` and how often a run reports and writes checkpoints do not matter.
        """
        before, after = dict(_leaves(self.values)), dict(_leaves(other.values))
        found = []
        for key in sorted(before.keys() | after.keys(), key=dotted):
            if key not in _FREE and before.get(key, _ABSENT) != after.get(key, _ABSENT):
                old, new = (_shown(key, values) for values in (before, after))
                found.append(f"{dotted(key)}: {old} before, {new} now")
        return found


def _shown(key: KeyPath, values: dict[KeyPath, Any]) -> str:
    if key not in values:
        return "not set"
    return "***" if is_secret(key, values[key]) else repr(values[key])


def _leaves(value: Any, path: KeyPath = ()) -> list[tuple[KeyPath, Any]]:
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in _leaves(inner, (*path, key))]
    if isinstance(value, list):
        return [leaf for index, inner in enumerate(value) for leaf in _leaves(inner, (*path, index))]
    return [(path, value)]


def load_definition(
    path: str | os.PathLike[str],
    *,
    allow_write: Iterable[str | os.PathLike[str]] = (),
    allow_env: Iterable[str] = (),
    settings: Mapping[str, str] | None = None,
) -> StreamDefinition:
    """Read a stream definition and check all of it.

    Parameters
    ----------
    path
        The file.
    allow_write
        Folders or files outside the run's folder that its sinks and states may write.
    allow_env
        Environment variables that it may read where no secret belongs.
    settings
        Key to value, as TOML, in place of what the file says: ``{"model.1.constraint.radius": "3"}``. A number or the
        name of a class chooses from a list.

    Raises
    ------
    DefinitionError
        When the file cannot be read, is not TOML, or describes no run: every mistake with
        ``file:line``, the key, what was found and what was expected.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from fwonline.definition import load_definition
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "fish.toml"
    ...     _ = path.write_text('''
    ... source = "Phishing"
    ... model = ["StandardScaler", { class = "FWClassifier", constraint = { class = "L1Ball", radius = 10.0 } }]
    ... monitors = ["ROCAUC"]
    ... run = { seed = 1, limit = 500 }
    ... ''')
    ...     definition = load_definition(path)
    >>> summary = definition.build().run(definition.limit)
    >>> summary.n_learned, round(summary.monitors["ROCAUC"], 1)
    (500, 0.9)
    """
    definition = replace(read_definition(path), permissions=Permissions.of(allow_write, allow_env))
    if settings:
        definition = definition.changed(settings)
    definition.check()
    return definition


def read_definition(path: str | os.PathLike[str]) -> StreamDefinition:
    """Read a stream definition without checking that it describes a run.

    Raises
    ------
    DefinitionError
        When the file cannot be read or is not TOML.
    """
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        raise DefinitionError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise DefinitionError(f"{path}: expected a TOML file, found a folder") from None
    except UnicodeDecodeError as error:
        raise DefinitionError(
            f"{path}: expected UTF-8 text, found byte 0x{error.object[error.start]:02x} at byte {error.start}"
        ) from None
    except OSError as error:
        raise DefinitionError(f"{path}: {error.strerror}") from None
    values, lines = parse(text, str(path))
    name = values.get("name", path.stem)
    return StreamDefinition(name=name, path=path, text=text, values=values, lines=lines)
