"""The command ``fwonline``: run a stream definition, simulate a stream, draw what a run left.

Whatever takes long to import is imported by the command that needs it.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fwonline
from fwonline._cli import FolderError
from fwonline._cli.opening import open_when_asked, uncollected
from fwonline._install import how_to_install
from fwonline.exceptions import DefinitionError, SampleError, TooManyRejectedError

__all__ = ["main"]

_EXTRAS = {
    "matplotlib": ("drawing needs matplotlib", "viz"),
    "vl_convert": ("a page needs vl-convert-python", "report"),
    "uvicorn": ("a live page needs uvicorn and starlette", "live"),
    "starlette": ("a live page needs uvicorn and starlette", "live"),
    "prometheus_client": ("metrics need prometheus-client", "metrics"),
}
_OK, _FAILED, _MISUSED, _INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Parameters
    ----------
    arguments
        The words behind ``fwonline``; by default those of the process.

    Returns
    -------
    int
        0 when all went well, also when SIGTERM stopped a run cleanly; 1 when a run failed, for one because too much of
        its stream was rejected; 2 when the command or the definition is wrong; 130 when Ctrl-C stopped a run, which
        then can go on, or, pressed twice, ended everything at once.

    Examples
    --------
    >>> from fwonline.cli import main
    >>> main(["simulate", "SparseLinear", "--to", "nowhere.txt"])
    2
    """
    options = _parser().parse_args(arguments)
    open_when_asked()
    try:
        return options.command(options) or _OK
    except KeyboardInterrupt:
        print("fwonline: ended at once", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has seen enough; what Python still holds of it goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        if options.traceback:
            raise
        print(f"fwonline: {_message(error)}", file=sys.stderr)
        return _MISUSED if isinstance(error, DefinitionError | FolderError) else _FAILED
    return _OK


def _message(error: Exception) -> str:
    """An error for the person at the terminal: what happened, and what can be done about it."""
    text = str(error) or "no reason given"
    if isinstance(error, DefinitionError) and "\n" in text:
        return f"the definition has {text.count(chr(10)) + 1} mistakes\n{text}"
    if isinstance(error, SampleError):
        return f'{text}\n(on_error = "skip" under [run] passes over such samples, dead_letter = "FILE" keeps them)'
    if isinstance(error, TooManyRejectedError):
        return f"{text}\n(max_rejected_share under [run] sets the share; 1.0 lets a run go on whatever is rejected)"
    if isinstance(error, ImportError) and (needed := _EXTRAS.get((error.name or "").partition(".")[0])):
        what, extra = needed
        return f"{what}: {how_to_install(extra)}"
    if isinstance(error, OSError) or type(error).__module__.startswith("fwonline."):
        return text
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {text}{notes}; --traceback shows where"


def _init(options: argparse.Namespace) -> None:
    if options.example is not None:
        from fwonline._cli.init import write_example

        path, *data = write_example(options.example, options.to, force=options.force)
        told = [f"written: {', '.join(map(str, [path, *data]))}"]
    else:
        from fwonline._cli.init import Options, init

        if options.stream is None:
            raise DefinitionError(
                "expected a file, kafka://host:port/topic or --example NAME; see fwonline init --help"
            )
        names = [field.name for field in dataclasses.fields(Options)]
        path, told = init(options.stream, Options(**{name: getattr(options, name) for name in names}))
    print("\n".join([*told, f"next: fwonline run {shlex.quote(str(path))}"]))


def _run(options: argparse.Namespace) -> int:
    with uncollected():
        from fwonline._cli.init import is_data
        from fwonline._cli.run import Options, run

    if options.target is not None or is_data(options.definition):
        from fwonline._cli.init import definition_for

        options.definition, told = definition_for(options.definition, options.target)
        if not options.quiet:
            print("\n".join(told))
    options.definition = Path(options.definition)
    known = [field.name for field in dataclasses.fields(Options)]
    chosen = {name: value for name, value in vars(options).items() if name in known}
    return run(options.definition, Options(**chosen))


def _simulate(options: argparse.Namespace) -> None:
    from fwonline._cli.simulate import simulate

    simulate(options.name, options.to, options.n, options.seed, options.param)
    print(f"{options.n:,} samples of {options.name} written to {options.to}")


def _report(options: argparse.Namespace) -> None:
    from fwonline._cli.report.logs import load_all
    from fwonline._cli.report.page import write

    output = options.output or options.runs[0] / "report.png"
    page = output.with_suffix(".html")
    if len(options.runs) > 1:
        from fwonline._cli.compare import table

        print("\n".join(table(options.runs)))
    logs = load_all(options.runs)
    if output != page:
        from fwonline._cli.report.figure import draw

        draw(logs, output)
        print(f"drawn: {output}")
    try:
        write(options.runs, logs, page)
        print(f"written: {page}")
    except ImportError as error:
        if output == page or error.name != "vl_convert":
            raise
        print(f"not written: {page}: {_message(error)}", file=sys.stderr)


def _predict(options: argparse.Namespace) -> None:
    from fwonline._cli.learned.predict import predict

    told = predict(options.run, options.input, options.to, options.format)
    print(told, file=sys.stdout if options.to else sys.stderr)


def _show(options: argparse.Namespace) -> None:
    import json

    from fwonline._cli.learned import show

    if options.weights is not None:
        print(f"{show.write_weights(options.run, options.weights):,} weights written to {options.weights}")
    elif options.json:
        print(json.dumps(show.card(options.run), indent=2, default=str))
    else:
        print("\n".join(show.lines_of(show.card(options.run))))


def _list(options: argparse.Namespace) -> None:
    from fwonline._cli import listing

    print("\n".join(listing.everything() if options.name is None else listing.one(options.name)))


def _positive(text: str) -> int:
    value = int(text.replace("_", "").replace(",", "")) if re.fullmatch(r"-?[\d_,]+", text) else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a positive number, found {text!r}")
    return value


def _listen(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 1 to 65535 (0: any), or ADDRESS:PORT, found {text!r}")
    return address.strip("[]") or "127.0.0.1", int(port)


def _figure(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".png", ".svg", ".pdf", ".html"):
        raise argparse.ArgumentTypeError(f"expected a file that ends in .png, .svg, .pdf or .html, found {text!r}")
    return path


def _table(text: str) -> Path:
    return _ending(text, ".csv", ".jsonl", ".csv.gz", ".jsonl.gz")


def _csv(text: str) -> Path:
    return _ending(text, ".csv", ".csv.gz")


def _ending(text: str, *known: str) -> Path:
    if not text.endswith(known):
        raise argparse.ArgumentTypeError(f"expected a file that ends in {' or '.join(known)}, found {text!r}")
    if not Path(text).absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {str(Path(text).parent)!r}")
    return Path(text)


def _format(text: str) -> str:
    if text not in ("csv", "tsv", "jsonl", "svm"):
        raise argparse.ArgumentTypeError(f"expected csv, tsv, jsonl or svm, found {text!r}")
    return f".{text}"


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--traceback", action="store_true", help="show where an error came from")
    parser = argparse.ArgumentParser(
        prog="fwonline", description="Frank-Wolfe learners on streams: models that never leave their constraint set."
    )
    parser.add_argument("--version", action="version", version=f"fwonline {fwonline.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, function: Any, help_text: str, description: str | None = None) -> argparse.ArgumentParser:
        added = commands.add_parser(name, parents=[common], help=help_text, description=description)
        added.set_defaults(command=function)
        return added

    _add_init(command)
    _add_run(command)
    _add_predict(command)
    _add_show(command)
    _add_simulate(command)
    report = command(
        *("report", _report, "draw the curves of a run, or of several over one another"),
        "Draw the curves of a run, or of several over one another, as a picture (by matplotlib) and, beside it, as a "
        "page to look into (by vl-convert): one file that asks no network.",
    )
    report.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a run folder, such as runs/phishing")
    report.add_argument(
        "--output", type=_figure, metavar="FILE", help=".png, .svg, .pdf, or .html alone (default: RUN/report.png)"
    )
    listed = command(
        *("list", _list, "list the classes that a definition may name, or the parameters of one"),
        "List the classes that a definition may name, those of a module, or the parameters of a class.",
    )
    listed.add_argument("name", nargs="?", metavar="NAME", help="a class, such as CSVSource, or a module, such as sets")
    return parser


def _add_init(command: Callable[..., argparse.ArgumentParser]) -> None:
    init = command(
        *("init", _init, "write a definition for your own data, or an example"),
        "Look at the first rows of a file (CSV, JSON lines, svmlight, Parquet, .npz, also gzipped) or of a Kafka "
        "topic, and write a definition that learns it, with comments on what was found.",
    )
    init.add_argument("stream", nargs="?", metavar="FILE", help="a file, or kafka://host:port/topic")
    init.add_argument("--target", metavar="COLUMN", help="the column to predict")
    init.add_argument("--to", type=Path, metavar="FILE.toml", help="where to write (default: NAME.toml, here)")
    init.add_argument("--delimiter", metavar="C", help="what parts the fields of a CSV file (default: found out)")
    tasks = "what the target is (default: found out)"
    init.add_argument("--task", choices=["classification", "regression"], help=tasks)
    init.add_argument("--rows", type=_positive, default=10_000, metavar="N", help="look at so many (default: 10,000)")
    init.add_argument("--force", action="store_true", help="write over a file that is there")
    init.add_argument("--example", metavar="NAME", help="write an example in place of it, such as phishing or csv")


def _add_run(command: Callable[..., argparse.ArgumentParser]) -> None:
    run = command(
        *("run", _run, "learn from a stream, as a definition says"),
        "Learn from a stream as a definition (TOML) says, and show how it goes. Ctrl-C stops it cleanly; started "
        "again, it goes on where it was.",
    )
    run.add_argument("definition", metavar="DEFINITION.toml", help="or data, with --target, as for fwonline init")
    run.add_argument("--target", metavar="COLUMN", help="learn this column of a file, or of kafka://host:port/topic")
    of = "set a value of the definition, such as model.1.constraint.radius=3; several (3,10,30) make as many runs"
    run.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE", help=of)
    run.add_argument("--limit", type=_positive, metavar="N", help="stop after N samples in all, earlier runs included")
    how = run.add_mutually_exclusive_group()
    how.add_argument("--resume", action="store_true", help="go on from the checkpoint, even behind a finished run")
    how.add_argument("--fresh", action="store_true", help="start over, in place of the run that was there")
    run.add_argument("--output", type=Path, metavar="DIR", help="the run folder (default: runs/NAME)")
    run.add_argument("--quiet", action="store_true", help="print nothing but errors")
    explain = "say whether rows come to the model in blocks, and why not where they do not"
    run.add_argument("--explain", action="store_true", help=explain)
    port = "tell Prometheus how the run stands, at http://127.0.0.1:PORT/metrics, or to others at ADDRESS:PORT"
    page = "show the run in a browser while it goes on, at http://127.0.0.1:PORT (a free one), or at ADDRESS:PORT"
    run.add_argument("--live", type=_listen, nargs="?", const=("127.0.0.1", 0), metavar="PORT", help=page)
    run.add_argument("--metrics-port", type=_listen, metavar="PORT", dest="metrics", help=port)
    write = "let sinks and states write below DIR too, not in the run folder alone; may be repeated"
    run.add_argument("--allow-write", action="append", type=Path, default=[], metavar="DIR", help=write)
    env = "let ${NAME} be read from the environment in bootstrap_servers and topics of sinks; may be repeated"
    run.add_argument("--allow-env", action="append", default=[], metavar="NAME", help=env)


def _add_predict(command: Callable[..., argparse.ArgumentParser]) -> None:
    predict = command(
        *("predict", _predict, "predict new samples with what a run has learned"),
        "Predict the samples of a file with the model of a run, which learns nothing from them. The target may be "
        "missing from the file; with it, the run's metrics tell how good the predictions are.",
    )
    predict.add_argument("run", type=Path, metavar="RUN", help="a run folder, such as runs/phishing")
    files = "a .csv, .jsonl or .svm file (and .gz), .parquet or .npz; - is standard input (default)"
    predict.add_argument("input", nargs="?", default="-", metavar="FILE", help=files)
    to = "write them to a .csv or .jsonl file (and .gz), not to standard output"
    predict.add_argument("--to", type=_table, metavar="FILE", help=to)
    like = "the format of a file whose name does not tell (default: that of the run's own source)"
    predict.add_argument("--format", type=_format, metavar="csv|jsonl|svm", help=like)


def _add_show(command: Callable[..., argparse.ArgumentParser]) -> None:
    show = command("show", _show, "show what a run has learned", "Show what a run has learned: a card of its model.")
    show.add_argument("run", type=Path, metavar="RUN", help="a run folder, such as runs/phishing")
    how = show.add_mutually_exclusive_group()
    how.add_argument(
        "--weights", type=_csv, metavar="FILE.csv", help="write the weights that are not zero, and no card"
    )
    how.add_argument("--json", action="store_true", help="print the card as JSON, with all weights")


def _add_simulate(command: Callable[..., argparse.ArgumentParser]) -> None:
    simulate = command(
        *("simulate", _simulate, "write a simulated stream to a file or a Kafka topic"),
        "Write a simulated stream (see the list of fwonline.datasets in `fwonline list`).",
    )
    simulate.add_argument("name", metavar="NAME", help="a simulator, such as SparseLinear")
    to = "FILE.csv, .jsonl or .svm (and .gz), or kafka://host:port/topic"
    simulate.add_argument("--to", required=True, metavar="TARGET", help=to)
    simulate.add_argument("--n", type=_positive, default=10_000, metavar="N", help="how many samples (default: 10,000)")
    simulate.add_argument("--seed", type=int, metavar="S", help="the same seed writes the same stream")
    param = "a parameter of the simulator; may be repeated"
    simulate.add_argument("--param", action="append", default=[], metavar="K=V", help=param)
