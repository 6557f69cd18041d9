"""Files that a command writes: whole, or as they were before."""

from __future__ import annotations

import contextlib
import gzip
import io
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TypeVar, cast

__all__ = ["ending", "replacing", "tracked"]

T = TypeVar("T")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[str]]:
    """A file of text, gzipped where its name ends so, that takes its name once all is written."""
    part = path.with_name(f"{path.name}.part")
    try:
        with contextlib.ExitStack() as stack:
            raw: IO[bytes] = stack.enter_context(open(part, "wb"))
            if path.suffix == ".gz":
                # neither name nor time in the header: the same values give the same bytes
                raw = cast(IO[bytes], stack.enter_context(gzip.GzipFile("", "wb", fileobj=raw, mtime=0)))
            yield stack.enter_context(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def tracked(items: Iterable[T], what: str, total: int | None = None) -> Iterable[T]:
    """The items; a terminal shows how far they are, a pipe nothing."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, what, total=total, console=Console(stderr=True), transient=True)


def ending(path: Path) -> str:
    """What a file's name ends in, ``.gz`` aside.

    >>> ending(Path("new.csv.gz")), ending(Path("new.CSV"))
    ('.csv', '.csv')
    """
    return (Path(path.stem) if path.suffix.lower() == ".gz" else path).suffix.lower()
