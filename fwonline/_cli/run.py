"""``fwonline run``: a stream definition, its run folder, and what the person who started it sees."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fwonline._cli import FolderError
from fwonline._cli.folder import LogWriter, RunFolder
from fwonline._cli.view import LiveView, PlainView, View, Voice
from fwonline.checkpoint import Checkpoint
from fwonline.definition import StreamDefinition, load_definition, read_definition
from fwonline.loop import EventLoop, GroupLoop, Observer, Summary

__all__ = ["Options", "run"]


@dataclass(frozen=True)
class Options:
    """What the command line says besides the definition."""

    limit: int | None = None
    resume: bool = False
    fresh: bool = False
    output: Path | None = None
    quiet: bool = False
    allow_write: Sequence[Path] = ()
    allow_env: Sequence[str] = ()


def run(path: Path, options: Options) -> Summary:
    """Run the definition at `path` in its folder and return how it ended.

    Raises DefinitionError, FolderError before anything has run or been written.
    """
    definition = load_definition(path, allow_write=options.allow_write, allow_env=options.allow_env)
    folder = RunFolder(options.output or Path("runs") / definition.name)
    folder.refuse_foreign()
    if definition.is_shared:  # its sinks write in the workers' folders
        definition.check(folder.path / "worker-1", shared=folder.path)
    else:
        definition.check(folder.path)
    limit = options.limit or definition.limit
    if definition.is_shared:
        return _work(definition, folder, limit, path, options)
    with folder.locked():
        note = _prepare(folder, definition, options)
        if options.quiet:
            with _warnings_through(View(definition.name, limit).warn):
                return _run(definition, folder, limit, None)
        voice = Voice(sys.stdout)
        if note:
            voice.say(note)
        with _view(definition.name, limit, voice) as view:
            summary = _run(definition, folder, limit, view)
        voice.say(_farewell(summary, folder, path, options))
        return summary


def _work(definition: StreamDefinition, group: RunFolder, limit: int | None, path: Path, options: Options) -> Summary:
    """Run one worker of a group in a folder of its own inside the group's."""
    if options.fresh:
        raise FolderError(
            f"{group.path}: a group keeps its place with the brokers, and --fresh does not reach that far. To start "
            "over, give the source another group, or delete the group there and its states here"
        )
    group.join(definition)
    with group.worker() as folder:
        folder.refuse_links()
        folder.start_afresh(definition.text)
        if options.quiet:
            with _warnings_through(View(definition.name, limit).warn):
                return _run(definition, folder, limit, None, group)
        voice = Voice(sys.stdout)
        voice.say(f"{folder.path}: {folder.path.name} of the group")
        with _view(definition.name, limit, voice) as view:
            summary = _run(definition, folder, limit, view, group)
        voice.say(_farewell(summary, folder, path, options, is_shared=True))
        return summary


def _prepare(folder: RunFolder, definition: StreamDefinition, options: Options) -> str:
    """Make the folder ready to begin or to go on, and say in a line what is not a matter of course."""
    if options.fresh or not folder.is_run:
        if options.resume:
            raise FolderError(f"{folder.path}: nothing to resume: no run was begun here")
        folder.start_afresh(definition.text)
        return ""
    if folder.is_finished and not options.resume:
        n = folder.read_summary().get("n", 0)
        raise FolderError(
            f"{folder.path}: this run is finished, after {n:,} samples. --resume goes on from where it ended, "
            "--fresh starts over, --output takes another folder"
        )
    if not Checkpoint(folder.checkpoint).exists():
        if options.resume or folder.has_log:
            # The first checkpoint is older than the first line of the log: it was there.
            raise FolderError(
                f"{folder.path}: the checkpoint of this run is gone: neither {folder.checkpoint.name} nor "
                f"{Checkpoint(folder.checkpoint).previous.name} is there. Put one of them back, or choose: --fresh "
                "starts over, in place of what the folder holds, --output takes another folder"
            )
        folder.start_afresh(definition.text)
        return f"{folder.path}: the run before ended without a checkpoint; starting over"
    if changes := read_definition(folder.definition).differences(definition):
        raise FolderError(
            f"{folder.path}: the definition is not the one this run was begun with:\n  "
            + "\n  ".join(changes)
            + "\nSet it back, or choose: --fresh starts over, --output takes another folder"
        )
    folder.definition.write_text(definition.text, encoding="utf-8")
    folder.summary.unlink(missing_ok=True)
    return "" if options.resume else f"{folder.path}: going on with the run that was begun here; --fresh starts over"


def _run(
    definition: StreamDefinition,
    folder: RunFolder,
    limit: int | None,
    view: View | None,
    group: RunFolder | None = None,
) -> Summary:
    log = LogWriter(folder.log)
    observers: list[Observer] = [log] if view is None else [log, view]
    with contextlib.ExitStack() as stack:
        stack.callback(log.close)
        loop: EventLoop | GroupLoop
        if group is None:
            loop = definition.build(folder.path, checkpoint=folder.checkpoint, observers=observers)
        else:
            loop = definition.build_worker(folder.path, shared=group.path, observers=observers)
        stack.callback(loop.source.close)
        for sink in loop.outputs:
            stack.callback(sink.close)
        try:
            summary = loop.run(limit)
        except Exception as error:
            with contextlib.suppress(FileNotFoundError):  # the folder itself may be what is missing
                folder.write_failure(definition, loop.counts.n, loop.counts.n_rejected, error)
            raise
        state = "interrupted" if summary.interrupted else "finished"
        folder.write_summary(name=definition.name, state=state, **summary.to_dict())
    return summary


@contextlib.contextmanager
def _view(name: str, limit: int | None, voice: Voice) -> Iterator[View]:
    """The view that suits where the output goes; warnings go through it as well."""
    view: View
    with contextlib.ExitStack() as stack:
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            from rich.console import Console

            view = stack.enter_context(LiveView(name, limit, Console()))
        else:
            view = PlainView(name, limit, voice)
        stack.enter_context(_warnings_through(view.warn))
        yield view


@contextlib.contextmanager
def _warnings_through(warn: Callable[[str], None]) -> Iterator[None]:
    """Tell warnings as one line, without the place in the source code that raised them."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: warn(str(message))
        yield


def _farewell(summary: Summary, folder: RunFolder, path: Path, options: Options, *, is_shared: bool = False) -> str:
    lines = []
    if summary.n_rejected:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in summary.n_rejected.items())
        lines.append(f"rejected: {reasons}")
    if summary.interrupted:
        again = ["fwonline", "run", str(path), *([] if is_shared else ["--resume"])]
        if options.limit is not None:
            again += ["--limit", str(options.limit)]
        if options.output is not None:
            again += ["--output", str(options.output)]
        for name, allowed in (("--allow-write", options.allow_write), ("--allow-env", options.allow_env)):
            again += [word for value in allowed for word in (name, str(value))]
        lines.append(f"stopped at {summary.n:,} samples; to go on: {shlex.join(again)}")
    else:
        lines.append(f"finished: {summary.n:,} samples; to draw it: fwonline report {shlex.quote(str(folder.path))}")
    return "\n".join(lines)
