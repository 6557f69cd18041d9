"""Figures that take minutes: how far they are, on a terminal, and each part kept as soon as it is there."""

from __future__ import annotations

import contextlib
import csv
import sys
import typing

from rich.console import Console
from rich.progress import track

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

__all__ = ["rows_kept", "shown"]

T = typing.TypeVar("T")


def shown(parts: Sequence[T], what: str) -> Iterable[T]:
    """The parts, one after another; a terminal shows how many are done, a pipe nothing."""
    if not sys.stderr.isatty():
        return parts
    return track(parts, what, console=Console(stderr=True), transient=True)


@contextlib.contextmanager
def rows_kept(path: Path, names: Sequence[str]) -> Iterator[Callable[[Iterable[Sequence[object]]], None]]:
    """A CSV file with columns of these names; what the function takes is on the disk when it returns."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)

        def keep(rows: Iterable[Sequence[object]]) -> None:
            writer.writerows(rows)
            file.flush()

        keep([names])
        yield keep
