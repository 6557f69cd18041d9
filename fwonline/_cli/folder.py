"""The folder of a run: its definition, log, checkpoint and summary."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from fwonline._cli import FolderError
from fwonline.definition import StreamDefinition, read_definition
from fwonline.exceptions import TooManyRejectedError
from fwonline.loop.report import Observer, Report, Start

__all__ = ["LogWriter", "RunFolder", "last_report", "read_log"]


class RunFolder:
    """The folder of a run.

    ``definition.toml`` is the definition as it was given, ``log.jsonl`` holds one report a line, ``checkpoint`` is the
    state to resume from and ``summary.json`` tells how the run ended.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.definition = self.path / "definition.toml"
        self.log = self.path / "log.jsonl"
        self.checkpoint = self.path / "checkpoint"
        self.summary = self.path / "summary.json"

    @property
    def is_run(self) -> bool:
        """Whether a run was begun here."""
        return self.definition.is_file()

    @property
    def has_log(self) -> bool:
        """Whether a run has reported here; its first checkpoint was written before."""
        return any(_n_of(line) is not None for line in _lines(self.log))

    @property
    def is_finished(self) -> bool:
        """Whether the run here came to its end, of the stream or of its limit."""
        return self.read_summary().get("state") == "finished"

    def refuse_foreign(self) -> None:
        """Raise FolderError where the path is taken by something that no run wrote."""
        if self.path.exists() and not self.path.is_dir():
            raise FolderError(f"{self.path}: expected a folder for the run, found a file")
        if self.path.is_dir() and not self.is_run and {entry.name for entry in self.path.iterdir()} - {".lock"}:
            raise FolderError(f"{self.path}: this folder holds files but no run; choose another with --output")
        self.refuse_links()

    def refuse_links(self) -> None:
        """Raise FolderError where a file of the run is a link: what is written to it would go elsewhere."""
        for path in (self.definition, self.log, self.summary):
            if path.is_symlink():
                raise FolderError(f"{path}: expected a file of the run, found a link; choose another with --output")

    def start_new(self, definition: str) -> None:
        """Prepare the folder for a new run; the files of an earlier one are removed."""
        self.path.mkdir(parents=True, exist_ok=True)
        for stale in (*self.path.glob("checkpoint*"), self.log, self.summary):
            stale.unlink(missing_ok=True)
        self.definition.write_text(definition, encoding="utf-8")

    def read_summary(self) -> dict[str, Any]:
        try:
            return msgspec.json.decode(self.summary.read_bytes())
        except (FileNotFoundError, msgspec.DecodeError):
            return {}

    def write_summary(self, **values: Any) -> None:
        self.summary.write_bytes(msgspec.json.format(msgspec.json.encode(values), indent=2) + b"\n")

    def write_failure(self, definition: StreamDefinition, n: int, n_rejected: dict[str, int], error: Exception) -> None:
        """Write how far a run came that an error has ended."""
        message = definition.hide(str(error) or repr(error))
        values = {"name": definition.name, "state": "failed", "n": n, "n_rejected": dict(n_rejected), "error": message}
        if isinstance(error, TooManyRejectedError):
            values["first_rejected"] = [definition.hide(why) for why in error.reasons]
        self.write_summary(**values)

    def join(self, definition: StreamDefinition) -> None:
        """Make this the folder of the definition's group.

        Raises FolderError where it is that of a group with another definition.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        if not self.is_run:
            # Workers may start at once: each writes the same, and the rename shows the whole file or none.
            temporary = self.path / f".definition-{os.getpid()}"
            temporary.write_text(definition.text, encoding="utf-8")
            os.replace(temporary, self.definition)
        else:
            self.refuse_changed(definition, "group", "give it another name and the source another group")

    def differences(self, definition: StreamDefinition) -> list[str]:
        """Where the folder's definition differs from `definition` in what is learned."""
        return read_definition(self.definition).differences(definition)

    def refuse_changed(self, definition: StreamDefinition, what: str, choices: str) -> None:
        """Raise FolderError where the folder's definition differs from `definition` in what is learned."""
        if changes := "\n  ".join(self.differences(definition)):
            raise FolderError(
                f"{self.path}: the definition is not the one this {what} was begun with:\n  {changes}\nSet it back, or "
                f"{choices}"
            )

    @contextlib.contextmanager
    def worker(self) -> Iterator[RunFolder]:
        """Lock the first worker's folder that no other process has locked."""
        for number in itertools.count(1):
            folder = RunFolder(self.path / f"worker-{number}")
            with contextlib.ExitStack() as stack:
                try:
                    stack.enter_context(folder.locked())
                except FolderError:
                    continue
                yield folder
                return

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second run out of the folder while the block runs.

        Raises FolderError when another process is inside.
        """
        try:
            import fcntl
        except ImportError:  # not on this system; two runs at once are then the user's to avoid
            yield
            return
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / ".lock", "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise FolderError(f"{self.path}: another run is going on in this folder") from None
            yield


class LogWriter(Observer):
    """Writes each report as one line of JSON, at once, so that the log can be followed while the run goes.

    Values are the report's own; ``time`` is the wall clock in seconds since the epoch. Not-a-number becomes null. The
    first line tells how rows come to the model, as ``road``. Lines of an earlier run are kept up to the sample from
    which this run goes on.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._first: dict[str, Any] = {}  # what the next line tells and no other

    def on_start(self, start: Start) -> None:
        lines = _lines(self.path) if start.n else []
        kept = [line for line in lines if (n := _n_of(line)) is not None and n <= start.n]
        self._file = open(self.path, "wb")  # noqa: SIM115  (held until close)
        self._file.writelines(kept)
        self._first = {"road": str(start.road)}
        self._file.flush()

    def on_report(self, report: Report) -> None:
        assert self._file is not None, "reports come after the start"
        self._refuse_removed()
        self._file.write(msgspec.json.encode({"time": time.time(), **report.to_dict(), **self._first}) + b"\n")
        self._first = {}
        self._file.flush()

    def on_checkpoint(self, path: str, n: int) -> None:
        self._refuse_removed()

    def _refuse_removed(self) -> None:
        """Raise where the log was removed or replaced: what is written would be lost silently."""
        if self._file is None:  # the first checkpoint comes before the start
            return
        try:
            is_there = os.path.samestat(os.stat(self.path), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            is_there = False
        if not is_there:
            raise FileNotFoundError(
                f"{self.path.parent}: the run folder was removed, or its log, while the run went on"
            )

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []


def last_report(path: Path) -> dict[str, Any]:
    """The newest report of a log; empty where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - (1 << 18)))  # its end: a log may be long
            lines = file.readlines()
    except FileNotFoundError:
        return {}
    return next((msgspec.json.decode(line) for line in reversed(lines) if _n_of(line) is not None), {})


def _n_of(line: bytes) -> int | None:
    # a line cut short by a crash is no line
    with contextlib.suppress(msgspec.DecodeError, TypeError, KeyError):
        return msgspec.json.decode(line)["n"] if line.endswith(b"\n") else None
    return None


def read_log(path: Path) -> list[dict[str, Any]]:
    """The reports of a log, oldest first; a line that is cut short is left out."""
    return [msgspec.json.decode(line) for line in _lines(path) if _n_of(line) is not None]
