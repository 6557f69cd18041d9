"""``fwonline run``: run a stream definition in its folder, and show how it goes."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fwonline._cli import FolderError, interpreter
from fwonline._cli.folder import LogWriter, RunFolder
from fwonline._cli.opening import uncollected
from fwonline._cli.sweep import Member, combinations, suffix, sweep
from fwonline._cli.view import LiveView, Output, PlainView, View, told_of_compiling
from fwonline.checkpoint import Checkpoint
from fwonline.definition import StreamDefinition, load_definition
from fwonline.definition.settings import choices
from fwonline.exceptions import DefinitionError

if TYPE_CHECKING:
    from fwonline.loop import EventLoop, GroupLoop, Observer, Summary

__all__ = ["Options", "run"]


@dataclass(frozen=True)
class Options:
    """The arguments of the command besides the definition."""

    limit: int | None = None
    resume: bool = False
    fresh: bool = False
    output: Path | None = None
    quiet: bool = False
    explain: bool = False
    allow_write: Sequence[Path] = ()
    allow_env: Sequence[str] = ()
    settings: Sequence[str] = ()
    metrics: tuple[str, int] | None = None
    live: tuple[str, int] | None = None

    def words(self) -> list[str]:
        """The arguments that a run needs once more when it goes on."""
        words = [] if self.limit is None else ["--limit", str(self.limit)]
        for name, allowed in (("--allow-write", self.allow_write), ("--allow-env", self.allow_env)):
            words += [word for value in allowed for word in (name, str(value))]
        return words


def run(path: Path, options: Options) -> int:
    """Run the definition at `path` in its folder, or with several values of a key each of them in one of its own.

    Returns
    -------
    int
        0, or 130 where Ctrl-C stopped it.

    Raises
    ------
    DefinitionError, FolderError
        Before anything has run or been written.
    """
    with uncollected():
        every = [
            (
                settings,
                load_definition(path, allow_write=options.allow_write, allow_env=options.allow_env, settings=settings),
            )
            for settings in combinations(choices(list(options.settings)))
        ]
    (settings, definition), *others = every
    if others and options.live:
        raise DefinitionError(
            "--live shows one run: expected one value of each key with it; fwonline report shows several"
        )
    if others:
        return _sweep(path, every, options)
    name = "-".join(filter(None, (definition.name, suffix(settings))))
    folder = RunFolder(options.output or Path("runs") / name)
    summary = _run_alone(definition, folder, path, options)
    return 130 if summary.signal == "SIGINT" else 0


def _sweep(path: Path, every: list[tuple[dict[str, str], StreamDefinition]], options: Options) -> int:
    """Run a definition with several values, each in a process and a folder of its own."""
    members = []
    for i, (settings, definition) in enumerate(every):
        if definition.is_shared:
            raise DefinitionError(f"{path}: a group's workers learn together: --set takes one value a key for them")
        label = suffix(settings)
        folder = options.output / label if options.output else Path("runs") / f"{definition.name}-{label}"
        RunFolder(folder).refuse_foreign()
        definition.check(folder)
        how = ["--fresh"] * options.fresh + ["--resume"] * (options.resume and RunFolder(folder).is_run)
        values = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        command = [*interpreter(), "-m", "fwonline", "run", str(path), "--quiet", "--output", str(folder)]
        command += [*how, *values, *options.words()]
        if (place := options.metrics or definition.metrics) is not None:  # the others at the ports behind it
            command += ["--metrics-port", f"{place[0]}:{place[1] and place[1] + i}"]
        members.append(Member(label, RunFolder(folder), definition, command, again=options.fresh or options.resume))
    return sweep(every[0][1].name, members, None if options.quiet else Output(sys.stdout))


def _run_alone(definition: StreamDefinition, folder: RunFolder, path: Path, options: Options) -> Summary:
    """Run a definition in its folder and return how it ended."""
    folder.refuse_foreign()
    is_shared = definition.is_shared
    definition.check(folder.path / "worker-1" if is_shared else folder.path, shared=folder.path if is_shared else None)
    limit = options.limit or definition.limit
    with contextlib.ExitStack() as stack:
        if is_shared:
            group, own = folder, stack.enter_context(_worker_folder(folder, definition, options))
            asked, served = _metrics(stack, definition, options, nth=int(own.path.name.rpartition("-")[2]))
            shown = _live(stack, own, options)
            first = f"{own.path}: {own.path.name} of the group"
        else:
            group, own = None, folder
            stack.enter_context(folder.locked())
            asked, served = _metrics(stack, definition, options)  # before anything of an earlier run is removed
            shown = _live(stack, own, options)
            first = _prepare(folder, definition, options)
        if options.quiet:
            stack.enter_context(_warnings_as_lines(View(definition.name, limit).warn))
            return _run(definition, own, limit, asked, group)
        output = Output(sys.stdout)
        for line in filter(None, (first, served, shown)):
            output.write(line)
        with _view(definition.name, limit, output) as view:
            view.explains = options.explain
            summary = _run(definition, own, limit, [*asked, view], group)
        output.write(_last_lines(summary, own, path, options, is_shared=is_shared))
        # whoever closed the output has seen enough: that is no Ctrl-C
        return summary if output.is_open else replace(summary, signal="")


@contextlib.contextmanager
def _worker_folder(group: RunFolder, definition: StreamDefinition, options: Options) -> Iterator[RunFolder]:
    """A folder for one worker, inside the folder of its group."""
    if options.fresh:
        raise FolderError(
            f"{group.path}: a group keeps its offsets with the brokers, where --fresh does not reset them. To start "
            "over, give the source another group, or delete the group there and its states here"
        )
    group.join(definition)
    with group.worker() as folder:
        folder.refuse_links()
        folder.start_new(definition.text)
        yield folder


def _prepare(folder: RunFolder, definition: StreamDefinition, options: Options) -> str:
    """Prepare the folder for a new run, or for one that goes on; return a message for the user, or an empty one."""
    if options.fresh or not folder.is_run:
        if options.resume:
            raise FolderError(f"{folder.path}: nothing to resume: no run was begun here")
        folder.start_new(definition.text)
        return ""
    if folder.is_finished and not options.resume:
        n = folder.read_summary().get("n", 0)
        raise FolderError(
            f"{folder.path}: this run is finished, after {n:,} samples. --resume goes on from where it ended, "
            "--fresh starts over, --output takes another folder"
        )
    if not Checkpoint(folder.checkpoint).exists():
        if options.resume or folder.has_log:
            # The first checkpoint is written before the first line of the log: it was there.
            raise FolderError(
                f"{folder.path}: the checkpoint of this run is gone: neither {folder.checkpoint.name} nor "
                f"{Checkpoint(folder.checkpoint).previous.name} is there. Put one of them back, or choose: --fresh "
                "starts over, in place of what the folder holds, --output takes another folder"
            )
        folder.start_new(definition.text)
        return f"{folder.path}: the run before ended without a checkpoint; starting over"
    folder.refuse_changed(definition, "run", "choose: --fresh starts over, --output takes another folder")
    folder.definition.write_text(definition.text, encoding="utf-8")
    folder.summary.unlink(missing_ok=True)
    return "" if options.resume else f"{folder.path}: going on with the run that was begun here; --fresh starts over"


def _metrics(
    stack: contextlib.ExitStack, definition: StreamDefinition, options: Options, nth: int = 1
) -> tuple[list[Observer], str]:
    """Serve the run's numbers to Prometheus, where that is asked for: an observer, and a line that says where.

    The workers of a group take the ports one behind the other.
    """
    if (place := options.metrics or definition.metrics) is None:
        return [], ""
    from fwonline._cli.metrics import RunMetrics, serving, url

    metrics = RunMetrics(definition.name)
    address, port = place
    return [metrics], f"metrics: {url(stack.enter_context(serving((address, port and port + nth - 1), metrics)))}"


def _live(stack: contextlib.ExitStack, folder: RunFolder, options: Options) -> str:
    """Serve the run's page, where that is asked for: a line that says where."""
    if options.live is None:
        return ""
    from fwonline._cli.report.process import showing

    return f"live: {stack.enter_context(showing(folder.path, options.live))}"


def _run(
    definition: StreamDefinition,
    folder: RunFolder,
    limit: int | None,
    watching: Sequence[Observer],
    group: RunFolder | None,
) -> Summary:
    log = LogWriter(folder.log)
    observers: list[Observer] = [log, *watching]
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
def _view(name: str, limit: int | None, output: Output) -> Iterator[View]:
    """The view for a terminal, or for a pipe or a file; it shows warnings, too."""
    view: View
    with contextlib.ExitStack() as stack:
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            from rich.console import Console

            view = stack.enter_context(LiveView(name, limit, Console()))
        else:
            view = PlainView(name, limit, output)
        stack.enter_context(_warnings_as_lines(view.warn))
        stack.enter_context(told_of_compiling(view))
        yield view


@contextlib.contextmanager
def _warnings_as_lines(warn: Callable[[str], None]) -> Iterator[None]:
    """Show each warning as one line, without the place in the source code that raised it."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: warn(str(message))
        yield


def _last_lines(summary: Summary, folder: RunFolder, path: Path, options: Options, *, is_shared: bool = False) -> str:
    lines = []
    if summary.n_rejected:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in summary.n_rejected.items())
        lines.append(f"rejected: {reasons}")
    if summary.interrupted:
        again = ["fwonline", "run", str(path), *([] if is_shared else ["--resume"])]
        again += [word for setting in options.settings for word in ("--set", setting)]
        if options.output is not None:
            again += ["--output", str(options.output)]
        again += options.words()
        lines.append(f"stopped at {summary.n:,} samples; to go on: {shlex.join(again)}")
    else:
        lines.append(f"finished: {summary.n:,} samples; to draw it: fwonline report {shlex.quote(str(folder.path))}")
    return "\n".join(lines)
