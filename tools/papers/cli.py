"""The command `python -m tools.papers --list | NAME ... [--quick] [--output DIR]`."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

from tools.papers.figures import FIGURES
from tools.papers.setting import describe

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Redraw the figures asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.papers",
        description="Redraw figures of the papers: a PNG and a CSV each, and a table of what they show.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="figures to draw; see --list")
    parser.add_argument("--list", action="store_true", help="say what can be drawn, and end")
    parser.add_argument("--quick", action="store_true", help="small simulated data and few steps: does it run?")
    parser.add_argument("--output", type=Path, default=Path("runs/papers"), help="folder (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    if chosen.list:
        width = max(map(len, FIGURES))
        for name, figure in FIGURES.items():
            print(f"{name:{width}}  {figure.title}")
        return 0
    if not chosen.names:
        parser.error(f"name a figure: {', '.join(FIGURES)}")
    for name in chosen.names:
        if name not in FIGURES:
            parser.error(f"no figure is called {name!r}; there are {', '.join(FIGURES)}")
    try:
        chosen.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--output: {error}")
    if isinstance(sys.stdout, io.TextIOWrapper):  # a row of a table is seen when it is there, in a pipe as well
        sys.stdout.reconfigure(line_buffering=True)
    for key, value in describe().items():
        print(f"{key}: {value}")
    for name in chosen.names:
        figure = FIGURES[name]
        print(f"\n{figure.title}\n")
        try:
            for path in figure.draw(chosen.output / name, chosen.quick):
                print(f"wrote {path}")
        except ImportError as error:
            print(f"{error}; figures need matplotlib: pip install '.[viz]'", file=sys.stderr)
            return 1
    return 0
