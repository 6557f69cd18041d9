"""How fast the whole loop is beside reading and decoding alone, and whether its memory stays flat."""

from __future__ import annotations

import contextlib
import gc
import io
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from river import metrics

from fwonline import optim, sets
from fwonline.linear_model import FWRegressor
from fwonline.loop import EventLoop, Observer, Report
from fwonline.monitors import Gap, Metric, Throughput
from fwonline.stream import KafkaSource
from tools.kafka import Cluster

__all__ = ["memory", "throughput"]

Say = Callable[[str], None]
FEATURES = 20
WANTED = 0.6
#: What a process may grow over five million messages: one byte for each would be more than twice that.
FLAT = 2 << 20


class Progress(Observer):
    """Shows each report as the command line does, to nobody."""

    def __init__(self) -> None:
        from rich.console import Console

        from fwonline._cli.view import LiveView

        self._stack = contextlib.ExitStack()
        console = Console(file=io.StringIO(), force_terminal=True, width=100)
        self._view = self._stack.enter_context(LiveView("soak", None, console))
        self.on_start, self.on_report, self.on_end = self._view.on_start, self._view.on_report, self._view.on_end

    def close(self) -> None:
        """Take the view down."""
        self._stack.close()


def _messages(seed: int) -> list[bytes]:
    """JSON of 200 bytes with twenty features and a target, enough of them for a topic that repeats them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20_000, FEATURES))
    values = []
    for x, y in zip(X, X @ rng.normal(size=FEATURES), strict=True):
        fields = ",".join(f'"{chr(97 + j)}":{value:.2f}' for j, value in enumerate(x))
        values.append(f'{{{fields},"y":{y:.2f}}}'.encode())
    return values


def _fill(cluster: Cluster, topic: str, count: int, seed: int = 1) -> int:
    """Write that many messages; return how long one is on average."""
    from kafka import KafkaProducer

    values = _messages(seed)
    with contextlib.closing(
        KafkaProducer(
            bootstrap_servers=cluster.bootstrap.split(","), linger_ms=50, batch_size=1 << 18, **cluster.client
        )
    ) as producer:
        for k in range(count):
            producer.send(topic, value=values[k % len(values)], partition=0)
        producer.flush(300)
    return sum(map(len, values)) // len(values)


def _alone(cluster: Cluster, topic: str, count: int) -> float:
    """Seconds that kafka-python and the decoder take for the topic."""
    from kafka import KafkaConsumer, TopicPartition

    decode = msgspec.json.Decoder(dict[str, Any]).decode
    began = time.perf_counter()  # connecting counts, as it does for the loop
    with contextlib.closing(
        KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","), enable_auto_commit=False, **cluster.consumer)
    ) as consumer:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        consumer.position(place)
        seen = 0
        while seen < count:
            for records in consumer.poll(timeout_ms=1000).values():
                for record in records:
                    decode(record.value)
                seen += len(records)
        return time.perf_counter() - began


def _loop(cluster: Cluster, topic: str, folder: Path | None, observers: list[Observer]) -> EventLoop:
    source = KafkaSource(topic, cluster.bootstrap, "y", partitions=[0], end="latest", client=cluster.consumer)
    return EventLoop(
        source,
        FWRegressor(sets.L1Ball(20.0), optim.SFW(memory=1000), seed=1, intercept=False),
        [Metric(metrics.MAE()), Gap(), Throughput()],
        checkpoint=None if folder is None else folder / "run.ckpt",
        observers=observers,
    )


def _whole(cluster: Cluster, topic: str, folder: Path) -> float:
    """Seconds that the whole loop takes: model, monitors, progress, checkpoints."""
    progress = Progress()
    loop = _loop(cluster, topic, folder, [progress])
    loop.resume = False
    source = loop.source
    with contextlib.closing(source):
        began = time.perf_counter()
        loop.run()
        seconds = time.perf_counter() - began
    progress.close()
    return seconds


def throughput(cluster: Cluster, folder: Path, name: str, count: int, repeats: int, say: Say) -> dict[str, Any]:
    """Messages a second, by turns."""
    cluster.create_topic(name)
    size = _fill(cluster, name, count)
    _alone(cluster, name, min(count, 1000))
    _whole(cluster, name, folder)  # compiled and warm
    alone, whole = [], []
    for k in range(repeats):
        alone.append(_alone(cluster, name, count))
        whole.append(_whole(cluster, name, folder))
        say(f"turn {k + 1}: alone {count / alone[-1]:,.0f}/s, whole loop {count / whole[-1]:,.0f}/s")
    ratio = statistics.median(a / w for a, w in zip(alone, whole, strict=True))
    return {
        "messages": count,
        "bytes each": size,
        "poll and decode, a second": round(count / statistics.median(alone)),
        "whole loop, a second": round(count / statistics.median(whole)),
        "ratio": f"{ratio:.2f} (wanted {WANTED})",
        "ok": ratio >= WANTED,
    }


class _Watch(Observer):
    """Notes the memory of this process as the messages go by."""

    def __init__(self, say: Say, marks: int) -> None:
        self.seen: list[tuple[int, int]] = []
        self._say = say
        self._step = marks

    def on_report(self, report: Report) -> None:
        """Look, once every so many messages."""
        if not self.seen or report.n >= self.seen[-1][0] + self._step:
            gc.collect()
            resident = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
            self.seen.append((report.n, resident))
            self._say(f"{report.n:,} messages: {resident / 2**20:.1f} MiB")


def memory(cluster: Cluster, folder: Path, name: str, count: int, say: Say) -> dict[str, Any]:
    """Learn so many messages and watch the memory, from the first tenth of them on."""
    cluster.create_topic(name)
    _fill(cluster, name, count)
    watch = _Watch(say, max(1, count // 20))
    loop = _loop(cluster, name, folder, [watch])
    with contextlib.closing(loop.source):
        summary = loop.run()
    settled = next(resident for n, resident in watch.seen if n >= count // 10)
    last = watch.seen[-1][1]
    return {
        "messages": summary.n_learned,
        "MiB after a tenth": f"{settled / 2**20:.1f}",
        "MiB at the end": f"{last / 2**20:.1f}",
        "grown": f"{(last - settled) / 2**20:+.2f} MiB (wanted at most {FLAT / 2**20:g})",
        "ok": last - settled <= FLAT and summary.n_learned == count,
    }
