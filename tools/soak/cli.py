"""`python -m tools.soak TRIAL`: run a trial, on a broker of its own where it needs one; figures, PASS or FAIL."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.kafka import BrokerUnavailable, Cluster, RealCluster, start_cluster
from tools.soak import poison, properties, speed, trials
from tools.soak.trial import Trial

__all__ = ["main"]

#: How long a group may stand still beyond what Kafka itself waits for.
PATIENCE = 2.0


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; 0 where it passed, 1 where it failed, 2 where no broker can be had."""
    chosen = _parser().parse_args(arguments)
    began = time.monotonic()
    try:
        figures = ALONE.get(chosen.trial, _on_a_broker)(chosen)
    except BrokerUnavailable as error:
        print(f"no broker: {error}", file=sys.stderr)
        return 2
    passed = figures.pop("ok")
    figures["took"] = f"{time.monotonic() - began:.0f} s"
    width = max(map(len, figures))
    for name, value in figures.items():
        shown = ("no", "yes")[value] if isinstance(value, bool) else f"{value:,}" if isinstance(value, int) else value
        print(f"  {name:<{width}}  {shown}")
    print("PASS" if passed else "FAIL")
    return 0 if passed else 1


def _on_a_broker(chosen: argparse.Namespace) -> dict[str, Any]:
    with _cluster(chosen) as cluster, tempfile.TemporaryDirectory(prefix="fwonline-soak-") as folder:
        print(f"{chosen.trial} on {cluster.description}, seed {chosen.seed}", flush=True)
        return chosen.run(cluster, Path(folder), f"soak-{os.getpid()}", chosen)


def _fuzz(chosen: argparse.Namespace) -> dict[str, Any]:
    from tools.soak import fuzz  # its specimens are made when it is imported

    if chosen.bounds:
        fuzz.with_bounds()
    print(f"fuzz, seed {chosen.seed}", flush=True)
    return fuzz.main(chosen, _say)


def _properties(chosen: argparse.Namespace) -> dict[str, Any]:
    return properties.properties(chosen.seconds, chosen.seed, chosen.only, _say)


#: The trials that need no broker.
ALONE: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {"fuzz": _fuzz, "properties": _properties}


def _cluster(chosen: argparse.Namespace) -> Cluster:
    return RealCluster(3) if chosen.trial == "nodes" else start_cluster()


def _say(text: str) -> None:
    print(f"  ... {text}", flush=True)


def _group(trial_of: Callable[[Trial, argparse.Namespace], dict[str, Any]]) -> Callable:
    """A trial of a group: what it says of itself, and the books."""

    def run(cluster: Cluster, folder: Path, name: str, chosen: argparse.Namespace) -> dict[str, Any]:
        options = {"predictions": True, "transactional": True} if chosen.transactional else {}
        with Trial(cluster, folder, name, seed=chosen.seed, **options) as trial:
            trial.watch()
            figures = trial_of(trial, chosen)
            stills = sorted(trial.stills, key=lambda still: still.beyond)
            books = trial.check()
            if chosen.transactional:
                origins = trial.predicted()
                books["predictions committed"] = len(origins)
                books["of different samples"] = len(set(origins))
                books["ok"] = books["ok"] and len(origins) == len(set(origins)) == books["samples"]
        if not stills:
            raise RuntimeError("nothing was committed while somebody looked")
        worst, middle = stills[-1], stills[len(stills) // 2]
        figures["longest standing still"] = f"{max(still.seconds for still in stills):.1f} s"
        figures["beyond Kafka's own timeouts"] = (
            f"{worst.beyond:.1f} s, after {worst.cause} (median {middle.beyond:.2f} s)"
        )
        books["ok"] = books["ok"] and worst.beyond <= PATIENCE
        return figures | books

    return run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.soak",
        description="Long trials, most on a real Kafka; each prints its figures, PASS or FAIL.",
    )
    parser.add_argument("--seed", type=int, default=1)
    commands = parser.add_subparsers(dest="trial", required=True)

    def command(name: str, run: Callable, told: str, **numbers: float) -> None:
        sub = commands.add_parser(name, help=told, description=told)
        for option, value in numbers.items():
            sub.add_argument(f"--{option}", type=type(value), default=value, help=f"(default: {value:,})")
        if name in ("kill", "freeze", "rebalance", "nodes"):
            sub.add_argument("--transactional", action="store_true", help="write predictions, in one transaction each")
        sub.set_defaults(run=run)

    command(
        "kill",
        _group(lambda t, c: trials.kill(t, c.kills, c.samples, c.pause, _say)),
        "kill -9 of workers at random moments",
        kills=200,
        samples=100_000,
        pause=2.0,
    )
    command(
        "freeze",
        _group(lambda t, c: trials.freeze(t, c.times, c.samples, _say)),
        "workers stopped for longer than their session, then woken",
        times=50,
        samples=100_000,
    )
    command(
        "rebalance",
        _group(lambda t, c: trials.rebalance(t, c.times, c.samples, _say)),
        "workers join and leave",
        times=20,
        samples=100_000,
    )
    command(
        "nodes",
        _group(lambda t, c: trials.nodes(t, 60 * c.minutes, c.samples, _say)),
        "three brokers, one of them killed every few seconds",
        minutes=2.0,
        samples=50_000,
    )
    command(
        "poison",
        lambda cluster, folder, name, c: poison.poison(cluster, name, c.samples, c.seed),
        "one message in a hundred is poison, of twelve kinds",
        samples=50_000,
    )
    command(
        "throughput",
        lambda cluster, folder, name, c: speed.throughput(cluster, folder, name, c.messages, c.repeats, _say),
        "the whole loop beside reading and decoding alone",
        messages=300_000,
        repeats=5,
    )
    command(
        "memory",
        lambda cluster, folder, name, c: speed.memory(cluster, folder, name, c.messages, _say),
        "memory over many messages",
        messages=5_000_000,
    )
    sub = commands.add_parser("fuzz", help="mutants of checkpoints: refused, or models that work")
    sub.add_argument("only", nargs="*", help="specimens whose names begin so (default: all)")
    sub.add_argument("--seconds", type=float, default=60.0, help="0 for no limit (default: 60)")
    sub.add_argument("--mutants", type=int, default=0, help="how many, in any time (default: as many as time allows)")
    sub.add_argument("--bounds", action="store_true", help="under numba's bounds checking: the first run compiles")
    sub.add_argument("--replay", metavar="TOKEN", help="try one mutant again, in this process")
    sub = commands.add_parser("properties", help="the property tests, with examples drawn anew in each pass")
    sub.add_argument("only", nargs="*", help="files or folders of tests (default: all)")
    sub.add_argument("--seconds", type=float, default=600.0, help="0 for one pass (default: 600)")
    return parser
