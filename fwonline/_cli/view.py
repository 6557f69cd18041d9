"""What a run shows: a live view on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from fwonline.loop.report import Observer, Report, Start

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from fwonline.loop import Summary

__all__ = ["LiveView", "Output", "PlainView", "View", "told_of_compiling"]

_COMPILING = "compiling, once: later runs begin at once"
_FEW = 10  # samples, whose numbers tell nothing yet
_CELL = 24  # the fewest columns of a terminal for a label and its value


def number(value: Any) -> str:
    """A value as people read it: four digits that matter, thousands apart.

    >>> number(1234567), number(0.000123456), number(12345.678), number(float("nan")), number(None)
    ('1,234,567', '0.0001235', '12,346', '-', '-')
    """
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return "-" if value is None else str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if math.isnan(value):
            return "-"
        value += 0.0  # minus zero is zero
        return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
    if isinstance(value, list):
        return " ".join(number(item) for item in value)
    return str(value)


def duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> duration(59.4), duration(3661)
    ('0:59', '1:01:01')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def fields(report: Report) -> Iterator[tuple[str, str]]:
    """Label and value of everything worth showing, an interval's two ends as one."""
    yield "samples", number(report.n)
    yield "rate", f"{number(float(f'{report.rate:.3g}'))}/s"
    if report.lag is not None:
        yield "lag", number(report.lag)
    for label, count in (
        ("rejected", sum(report.n_rejected.values())),
        ("pending", report.n_pending),
        ("expired", report.n_expired),
        ("unmatched", report.n_unmatched),
    ):
        if count:
            yield label, number(count)
    monitors = report.monitors
    for key, value in monitors.items():
        stem, _, end = key.rpartition("_")
        if value is None or value is True or is_aside(key):
            continue  # not known yet, as it should be, shown already, or for the log alone
        if end == "hi" and f"{stem}_lo" in monitors:
            continue
        if end == "lo" and f"{stem}_hi" in monitors:
            yield stem, f"[{number(value)}, {number(monitors[f'{stem}_hi'])}]"
        else:
            yield key, number(value)


def is_aside(key: str) -> bool:
    """Whether a monitor's value is for the log alone: when, and how often, something was looked at."""
    return key == "samples" or key.endswith(("_at", "_looks"))


class Output:
    """Writes lines to a file until its reader is gone (``| head``)."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.is_open = True

    def write(self, text: str) -> None:
        if not self.is_open:
            return
        try:
            print(text, file=self.file, flush=True)
        except BrokenPipeError:
            self.is_open = False
            # what is still buffered must go somewhere, or Python prints an error when it exits
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


class View(Observer):
    """What both views share: the name of the run, how much of it is done, and how long the rest takes."""

    def __init__(self, name: str, limit: int | None) -> None:
        self.name = name
        self.limit = limit
        self.explains = False  # how rows come to the model, even where they come in the quickest way
        self.first = 0  # items done by earlier runs
        self.length: int | None = None
        self.is_compiling = self.has_compiled = False
        self._base: Report | None = None  # behind the samples that compiled: from here on the pace is that of the run

    def on_start(self, start: Start) -> None:
        self.first = start.n
        self.length = min((n for n in (start.length, self.limit) if n is not None), default=None)
        if self.explains or start.road.is_slower:
            self.note(str(start.road))

    def note(self, message: str) -> None:
        """Show a line that stays."""

    def warn(self, message: str) -> None:
        print(f"warning: {message}", file=sys.stderr, flush=True)

    def compiling(self, is_compiling: bool) -> None:
        """Take note that the first samples wait for compiled code, or do so no longer."""
        self.is_compiling, self.has_compiled = is_compiling, True
        self._base = None

    def on_report(self, report: Report) -> None:
        if self._base is None:
            self._base = report

    def progress(self, report: Report) -> float | None:
        """The part of the run that is done, up to the limit if there is one."""
        if self.length:
            return min(1.0, report.n / self.length)
        return report.progress

    def _seconds(self, report: Report) -> float:
        """How long the run has gone on without compiling."""
        return 0.0 if self._base is None else report.elapsed - self._base.elapsed

    def pace(self, summary: Summary) -> float:
        """Items a second of the run, without what it compiled before."""
        seconds = 0.0 if self._base is None else summary.elapsed - self._base.elapsed
        if self._base is None or not self.has_compiled or seconds <= 0.0 or summary.n <= self._base.n:
            return summary.rate
        return (summary.n - self._base.n) / seconds

    def time_left(self, report: Report) -> float | None:
        base, seconds = self._base, self._seconds(report)
        if base is None or seconds < 1.0:  # not a second of real work yet
            return None
        if self.length and report.n > base.n:
            return (self.length - report.n) * seconds / (report.n - base.n)
        if report.progress and base.progress is not None and report.progress > base.progress:
            return seconds * (1 - report.progress) / (report.progress - base.progress)
        return None


class PlainView(View):
    """Lines for a pipe or a log file: soon after the start, then ever more rarely, at least one a minute.

    When the output is closed by its reader, the run is stopped as if by Ctrl-C.
    """

    def __init__(self, name: str, limit: int | None, output: Output) -> None:
        super().__init__(name, limit)
        self.output = output
        self._due = 0.0
        self._last: Report | None = None
        self._has_stopped = False

    def compiling(self, is_compiling: bool) -> None:
        if not self.has_compiled:
            self.output.write(_COMPILING)
        super().compiling(is_compiling)

    def note(self, message: str) -> None:
        self.output.write(message)

    def on_start(self, start: Start) -> None:
        super().on_start(start)
        self.output.write(f"{self.name}: learning from {start.source}" + (f", from {start.n:,} on" if start.n else ""))

    def on_report(self, report: Report) -> None:
        super().on_report(report)
        self._last = report
        if report.elapsed >= self._due and (report.n >= _FEW or self._seconds(report) >= 1.0):
            self._due = report.elapsed + min(60.0, max(1.0, report.elapsed / 2))
            self._print(report)
        if not self.output.is_open and not self._has_stopped:
            self._has_stopped = True
            with contextlib.suppress(KeyboardInterrupt):  # the report behind the last sample: nothing to stop
                signal.raise_signal(signal.SIGINT)

    def _print(self, report: Report) -> None:
        self._last = None
        parts = [f"{label} {value}" for label, value in fields(report)]
        if (left := self.time_left(report)) is not None and (done := self.progress(report)) is not None and done < 1:
            parts.append(f"{done:.0%}, {duration(left)} left")
        self.output.write("  ".join(parts))

    def on_interrupt(self, signal_name: str) -> None:
        self.output.write(f"{signal_name}: stopping")

    def on_end(self, summary: Summary) -> None:
        if self._last is not None:
            self._print(replace(self._last, rate=self.pace(summary)))


@contextlib.contextmanager
def told_of_compiling(view: View) -> Iterator[None]:
    """Tell a view while numba compiles, which only code does that no earlier run has left on the disk."""
    try:
        from numba.core import event
    except ImportError:  # numba without events: nothing is told
        yield
        return

    class Listener(event.Listener):
        def on_start(self, found: Any) -> None:
            view.compiling(True)

        def on_end(self, found: Any) -> None:
            view.compiling(False)

    with event.install_listener("numba:compile", Listener()):
        yield


class LiveView(View):
    """A view that stays in place on a terminal of any width and is redrawn four times a second."""

    def __init__(self, name: str, limit: int | None, console: Console) -> None:
        from rich.live import Live

        super().__init__(name, limit)
        self.console = console
        self.state = "starting"
        self.source = ""
        self.report: Report | None = None
        self._began: float | None = None
        self._cell_width = _CELL
        self._live = Live(self, console=console, refresh_per_second=4, redirect_stdout=False, redirect_stderr=False)

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self._live.__exit__(*exc_info)

    def warn(self, message: str) -> None:
        self.note(f"warning: {message}")

    def note(self, message: str) -> None:
        self.console.print(message, markup=False, highlight=False)

    def on_start(self, start: Start) -> None:
        super().on_start(start)
        self._began = time.perf_counter()
        self.source = start.source
        self.state = f"resumed at {start.n:,}" if start.n else "learning"

    def on_report(self, report: Report) -> None:
        super().on_report(report)
        self.report = report
        if self.state != "stopping ...":
            self.state = "learning"

    def on_interrupt(self, signal_name: str) -> None:
        self.state = "stopping ..."

    def on_end(self, summary: Summary) -> None:
        self.state = "stopped" if summary.interrupted else "done"
        self._began = None
        if self.report is not None:
            self.report = replace(self.report, rate=self.pace(summary))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.markup import escape
        from rich.table import Table
        from rich.text import Text

        report = self.report
        elapsed = report.elapsed if report else 0.0
        if self._began is not None:  # the clock goes on where a source keeps the loop waiting
            elapsed = time.perf_counter() - self._began
        head = Table.grid(expand=True, padding=(0, 1))
        head.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        head.add_column(no_wrap=True, justify="right")
        source = f"  [dim]{escape(self.source)}[/]" if options.max_width >= 60 else ""
        waits = self.state == "learning" and (self.is_compiling or (self.has_compiled and report is None))
        state = _COMPILING.partition(":")[0] if waits else self.state
        head.add_row(f"[bold]{escape(self.name)}[/]{source}", f"{state} {duration(elapsed)}")
        yield head
        if report is None:
            return
        if (done := self.progress(report)) is not None:
            yield self._bar(done, self.time_left(report))
        shown = list(fields(report))
        # cells only grow, so that numbers do not jump about as they get longer and shorter
        self._cell_width = max(self._cell_width, *(len(label) + len(value) + 2 for label, value in shown))
        columns = max(1, min((options.max_width + 2) // (self._cell_width + 2), len(shown)))
        grid = Table.grid(expand=True, padding=(0, 2, 0, 0))
        for _ in range(columns):
            grid.add_column(ratio=1)
        for start in range(0, len(shown), columns):
            grid.add_row(*(self._cell(*pair) for pair in shown[start : start + columns]))
        yield grid
        yield Text()

    @staticmethod
    def _bar(done: float, left: float | None) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        row = Table.grid(expand=True, padding=(0, 1))
        row.add_column(ratio=1)
        row.add_column(justify="right", no_wrap=True)
        ending = f"{done:4.0%}" if left is None or done >= 1 else f"{done:4.0%}  {duration(left)} left"
        row.add_row(ProgressBar(total=1.0, completed=done), ending)
        return row

    @staticmethod
    def _cell(label: str, value: str) -> Any:
        from rich.table import Table
        from rich.text import Text

        cell = Table.grid(expand=True)
        cell.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        cell.add_column(no_wrap=True, justify="right")
        cell.add_row(Text(label, style="cyan"), Text(value, style="bold"))
        return cell
