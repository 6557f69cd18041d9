"""The command `python -m tools.bench [NAME ...] [--list] [--quick] [--data FILE] [--rows N] [--json FILE]`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path

from tools.bench.groups import GROUPS
from tools.bench.report import Comparison, Settings, Table, markdown
from tools.papers.setting import describe

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print what came out."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench",
        description="Measure fwonline beside its peers, in one process and in turns. Data by FWONLINE_DATA.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run; all by default, see --list")
    parser.add_argument("--list", action="store_true", help="say what there is, and end")
    parser.add_argument("--quick", action="store_true", help="small simulated data, few repeats: does it run?")
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="FILE",
        help="CSR and labels in place of a benchmark's own: .npz as scipy saves it, with an array y; or svmlight text",
    )
    parser.add_argument("--rows", type=int, metavar="N", help="rows of the files that `files` makes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there, too")
    chosen = parser.parse_args(arguments)
    if chosen.list:
        width = max(map(len, GROUPS))
        for name, group in GROUPS.items():
            print(f"{name:{width}}  {group.title}")
        return 0
    for name in chosen.names:
        if name not in GROUPS:
            parser.error(f"no benchmark is called {name!r}; there are {', '.join(GROUPS)}")
    for path in chosen.data:
        if not Path(path).is_file():
            parser.error(f"--data: no file {path}")

    setting = describe() | {"data": "small simulated stand-ins (--quick)" if chosen.quick else "see the tables"}
    settings = Settings(chosen.quick, tuple(chosen.data), chosen.rows)
    comparisons: list[Comparison] = []
    tables: list[Table] = []
    for name in chosen.names or GROUPS:
        start = time.perf_counter()
        print(f"{name}: {GROUPS[name].title} ...", end=" ", file=sys.stderr, flush=True)
        for result in GROUPS[name].run(settings):
            (tables if isinstance(result, Table) else comparisons).append(result)  # type: ignore[arg-type]
        print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    _print(setting, comparisons, tables)
    if chosen.json:
        chosen.json.write_text(
            json.dumps(
                {
                    "setting": setting,
                    "comparisons": [dataclasses.asdict(line) for line in comparisons],
                    "tables": [dataclasses.asdict(table) for table in tables],
                },
                indent=1,
            ),
            encoding="utf-8",
        )
    return 0


def _print(setting: dict[str, str], comparisons: list[Comparison], tables: list[Table]) -> None:
    for key, value in setting.items():
        print(f"{key}: {value}")
    if comparisons:
        print()
        print(markdown(Comparison.columns, [line.cells() for line in comparisons]))
    for table in tables:
        print(f"\n{table.title}")
        print(markdown(table.columns, table.rows))
        for note in table.notes:
            print(f"- {note}")
    wanted = [line for line in comparisons if line.met is not None]
    if wanted:
        missed = [line for line in wanted if not line.met]
        print(f"\n{len(wanted) - len(missed)} of {len(wanted)} met" + (", missed:" if missed else ""))
        for line in missed:
            print(f"- {line.measure}, {line.peer}: {line.ratio or line.ours}, wanted {line.wanted}")
