"""Files that a command writes: whole, or as they were before."""

from __future__ import annotations

import contextlib
import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

__all__ = ["ending", "replacing"]


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


def ending(path: Path) -> str:
    """What a file's name ends in, ``.gz`` aside.

    >>> ending(Path("new.csv.gz")), ending(Path("new.CSV"))
    ('.csv', '.csv')
    """
    return (Path(path.stem) if path.suffix.lower() == ".gz" else path).suffix.lower()
