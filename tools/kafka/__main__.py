"""The command: `python -m tools.kafka up [--nodes 1|3] [--mock]`."""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from tools.kafka import BrokerUnavailable, Cluster, MockCluster, RealCluster


def main(arguments: list[str] | None = None) -> int:
    """Start what was asked for, say where it is, and wait for Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tools.kafka", description="A Kafka broker on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start Apache Kafka and wait; Ctrl-C stops it and removes its data")
    up.add_argument("--nodes", type=int, choices=(1, 3), default=1, help="how many brokers (default: 1)")
    up.add_argument("--mock", action="store_true", help="librdkafka's mock cluster in place of Kafka (no Java needed)")
    up.add_argument("--topic", action="append", default=[], metavar="NAME[:PARTITIONS]", help="create a topic")
    chosen = parser.parse_args(arguments)

    # Both by name: a shell starts what it puts in the background with SIGINT ignored, and Python then leaves it so.
    for end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(end, signal.default_int_handler)
    try:
        fetches = "" if chosen.mock else " (the first time fetches 45 MB)"
        print(f"starting{fetches} ...", file=sys.stderr, flush=True)
        with _start(chosen.nodes, mock=chosen.mock) as cluster:
            for topic in chosen.topic:
                name, _, partitions = topic.partition(":")
                cluster.create_topic(name, int(partitions or 1))
            print(f"{cluster.description}; Ctrl-C stops it", file=sys.stderr)
            print(cluster.bootstrap, flush=True)
            threading.Event().wait()
    except BrokerUnavailable as error:
        print(f"no broker: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    return 0


def _start(nodes: int, *, mock: bool) -> Cluster:
    return MockCluster(nodes) if mock else RealCluster(nodes)


if __name__ == "__main__":
    sys.exit(main())
