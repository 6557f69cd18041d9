"""The command line of the comparison."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from tools.bench.report import markdown
from tools.compare import comparison, timing, trees

__all__ = ["main"]

_RUN = """
from pathlib import Path
from tools.compare import worker
worker.run(Path(sys.argv[3]), sys.argv[4:])
"""
#: Differing cases that are written out.
SHOWN = 40


def main(arguments: list[str] | None = None) -> int:
    """Compare the present tree with another; 0 where all is equal."""
    parser = argparse.ArgumentParser("python -m tools.compare", description=main.__doc__)
    parser.add_argument("base", type=Path, metavar="BASE_TREE", help="a checkout to compare with")
    parser.add_argument("--new", type=Path, default=trees.HERE, metavar="TREE", help="in place of the present tree")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="cases, as in 'online/sfw/*'")
    parser.add_argument("--fresh", action="store_true", help="run the base tree anew, even where its results are kept")
    parser.add_argument("--show", type=int, default=SHOWN, metavar="N", help="differing cases to write out")
    parser.add_argument("--time", action="store_true", help="time both trees in turns instead; --only names rows")
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="with --time: rounds of all rows")
    parser.add_argument("--cold", action="store_true", help="with --time: compilation from nothing, too (minutes)")
    options = parser.parse_args(arguments)
    if options.time:
        return timing.compared(
            options.base.resolve(), options.new.resolve(), options.only, options.rounds, options.cold
        )
    found = [
        _load(path) for path in _results(options.base.resolve(), options.new.resolve(), options.only, options.fresh)
    ]
    cases = comparison.compared(*found)
    return report(cases, options.show)


def report(cases: list[comparison.Case], shown: int = SHOWN) -> int:
    """Print the table and what differs; 0 where nothing does."""
    wrong = [case for case in cases if case.verdict in ("differing", "missing")]
    for case in wrong[:shown]:
        print(f"{case.verdict}: {case.name}")
        for note in case.notes[:6]:
            print(f"    {note}")
    if len(wrong) > shown:
        print(f"... and {len(wrong) - shown} more")
    for reason in sorted(
        {note.split(": ", 2)[-1] for case in cases if case.verdict == "rounding" for note in case.notes}
    ):
        print(f"to rounding: {reason}")
    header, *rows = comparison.summary(cases)
    print(markdown(header, rows))
    if not cases:
        print("no case has such a name")
    return 1 if wrong or not cases else 0


def _results(base: Path, tree: Path, patterns: list[str], fresh: bool) -> list[Path]:
    """Run both trees side by side; the base's results are kept until it or the cases change."""
    folder = Path(tempfile.gettempdir()) / f"fwonline-compare-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    key = trees.digest(base / "fwonline", Path(__file__).parent)
    kept = folder / f"base-{key}-{_name(patterns)}.npz"
    new = folder / f"new-{os.getpid()}.npz"
    processes = [("new", trees.start(tree, _RUN, str(new), *patterns))]
    if fresh or not kept.exists():
        part = folder / f"base-{os.getpid()}.npz"
        processes.append(("base", trees.start(base, _RUN, str(part), *patterns)))
    else:
        part = None
    failed = [name for name, process in processes if process.wait()]
    if failed:
        sys.exit(f"the run of the {' and the '.join(failed)} tree failed")
    if part is not None:
        os.replace(part, kept)
    return [kept, new]


def _name(patterns: list[str]) -> str:
    return "".join(c if c.isalnum() else "_" for c in "+".join(patterns))[:80] or "all"


def _load(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        found = {key.replace("\x1f", "/"): file[key] for key in file.files}
    if path.name.startswith("new-"):
        path.unlink()
    return found
