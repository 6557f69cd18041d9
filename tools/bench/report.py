"""What a benchmark answers: comparisons with a peer, and tables of its own."""

from __future__ import annotations

import dataclasses
import typing

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Comparison", "Settings", "Table", "duration", "faster", "markdown", "skipped", "within"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the command line says to every benchmark.

    Parameters
    ----------
    quick
        Small simulated data and few repeats: to see that it runs, not to measure.
    data
        Files of the user's own, in place of the benchmark's data where it takes any.
    rows
        How many rows a benchmark makes that makes files; None: its own number.
    """

    quick: bool = False
    data: tuple[str, ...] = ()
    rows: int | None = None


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One line of the table: this library beside a peer, and whether what was wanted came out.

    Attributes
    ----------
    met
        None where nothing was wanted, or the peer is missing.
    """

    measure: str
    ours: str
    peer: str
    theirs: str = ""
    ratio: str = ""
    wanted: str = ""
    met: bool | None = None

    columns: typing.ClassVar[tuple[str, ...]] = ("measure", "ours", "peer", "peer's", "ratio", "wanted", "met")

    def cells(self) -> tuple[str, ...]:
        met = "-" if self.met is None else ("yes" if self.met else "NO")
        return self.measure, self.ours, self.peer, self.theirs, self.ratio, self.wanted, met


@dataclasses.dataclass(frozen=True)
class Table:
    """A table with columns of its own."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[typing.Any]]
    notes: tuple[str, ...] = ()


def duration(seconds: float) -> str:
    """A time in a unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def faster(measure: str, ours: float, peer: str, theirs: float, ratio: float, at_least: float | None) -> Comparison:
    """Times a sample; the ratio is how many times as many samples a second, the peer's time over ours."""
    return Comparison(
        measure,
        duration(ours),
        peer,
        duration(theirs),
        f"{ratio:.2f}x as fast",
        "reported" if at_least is None else f">= {at_least:g}x",
        None if at_least is None else ratio >= at_least,
    )


def within(measure: str, ours: float, peer: str, theirs: float, ratio: float, at_most: float) -> Comparison:
    """Times a sample; the ratio is our time over the peer's."""
    return Comparison(
        measure,
        duration(ours),
        peer,
        duration(theirs),
        f"{ratio:.2f}x its time",
        "ahead of it" if at_most == 1.0 else f"<= {at_most:g}x its time",
        ratio <= at_most if at_most != 1.0 else ratio < 1.0,
    )


def skipped(measure: str, peer: str, reason: str) -> Comparison:
    """A peer that is not installed."""
    return Comparison(measure, "", peer, f"skipped: {reason}")


def markdown(columns: Sequence[str], rows: Sequence[Sequence[typing.Any]]) -> str:
    """A table that reads well as it stands and can be pasted into a page."""
    text = [tuple(map(str, row)) for row in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*text, strict=True)]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in text]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)
