"""A topic, a group that learns it, and the books that must agree in the end."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fwonline.checkpoint import codec
from fwonline.loop import EventLoop, PartitionStates
from fwonline.stream import KafkaSource, Sample
from tools.kafka import Cluster
from tools.soak.worker import Job, Worker, make_model, make_monitors

__all__ = ["Still", "Trial"]

#: Short, so that what Kafka itself takes to notice a death does not fill a trial.
SESSION = {"session_timeout_ms": 1500, "heartbeat_interval_ms": 200, "max_poll_interval_ms": 10_000}


class Still(NamedTuple):
    """A time in which nothing was committed, while there was something to learn.

    Parameters
    ----------
    seconds
        How long it was.
    beyond
        What is left of it when Kafka itself has waited: since the last disturbance and the time that Kafka, by its
        settings, takes to notice it.
    cause
        That disturbance.
    """

    seconds: float
    beyond: float
    cause: str


class Trial:
    """Writes numbered samples to a topic, runs workers on it, and compares what they learned with what was written.

    Parameters
    ----------
    cluster
        Where the topic is.
    folder
        For the states of the partitions.
    name
        The topic's name, and the group's.
    partitions
        How many partitions.
    seed
        Of everything that is random here.
    client
        Further settings for the workers' clients.
    predictions
        Whether the workers write predictions, to a topic of that name with `.out` behind.
    options
        Of the workers' `GroupLoop`.
    """

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        name: str,
        partitions: int = 4,
        seed: int = 1,
        client: dict[str, Any] | None = None,
        predictions: bool = False,
        **options: Any,
    ) -> None:
        # Compiled now and kept on disk: a worker that compiles does not come back to the group for half a minute.
        for k in range(3):
            make_model().learn_one({"id": k, "a": 0.5, "b": 0.1 * k}, k > 1)
        self.cluster = cluster
        self.rng = np.random.default_rng(seed)
        self.partitions = cluster.create_topic(name, partitions)
        settings = {**SESSION, **cluster.consumer, **(client or {})}
        out = f"{name}.out" if predictions else None
        if out is not None:
            cluster.create_topic(out)
        options = {"checkpoint_every": 0.2, **options}
        self.job = Job(name, cluster.bootstrap, f"{name}-group", folder, settings, options, out)
        self.written = [0] * self.partitions  # messages by partition
        self.total = 0  # of all ids
        self.workers: list[Worker] = []
        self.stills: list[Still] = []
        self._disturbances: list[tuple[float, str]] = []  # until when Kafka needs no excuse, and what it was
        self._writer: threading.Thread | None = None
        self._trouble: BaseException | None = None
        self._stop = threading.Event()
        self._watch: threading.Thread | None = None

    def write(self, count: int, seconds: float = 0.0) -> None:
        """Write so many more samples, spread over the partitions, and over so many seconds."""
        from kafka import KafkaProducer

        began, pause = time.monotonic(), seconds / count
        with contextlib.closing(
            KafkaProducer(bootstrap_servers=self.cluster.bootstrap.split(","), acks="all", **self.cluster.client)
        ) as producer:
            first, sent = sum(self.written), []
            for i in range(first, first + count):
                a, b = self.rng.normal(size=2).round(6)
                partition = i % self.partitions
                value = json.dumps({"id": i, "a": a, "b": b, "y": bool(a > b)}).encode()
                sent.append(producer.send(self.job.topic, value=value, partition=partition))
                self.written[partition] += 1
                self.total += i
                if (ahead := began + (i - first + 1) * pause - time.monotonic()) > 0.02 and not self._stop.wait(ahead):
                    continue
            producer.flush(60)
        for future in sent:
            future.get(60)  # a message that was not taken would be a loss of ours, not of the group's

    def write_meanwhile(self, count: int, seconds: float) -> None:
        """`write` in the background; `await_end` waits for it."""
        self._writer = threading.Thread(target=self._write_noting, args=(count, seconds), daemon=True)
        self._writer.start()

    def _write_noting(self, count: int, seconds: float) -> None:
        try:
            self.write(count, seconds)
        except BaseException as error:
            self._trouble = error

    @property
    def is_writing(self) -> bool:
        """Whether the background is still writing."""
        return self._writer is not None and self._writer.is_alive()

    # -- workers

    def start(self) -> Worker:
        """Start one more worker."""
        self.workers.append(Worker(self.job))
        self.disturbed("a worker came")
        return self.workers[-1]

    def disturbed(self, what: str, seconds: float = 0.0) -> None:
        """Note that something happened now which Kafka, by its settings, needs so many seconds to notice."""
        self._disturbances.append((time.monotonic() + seconds, what))

    def learned(self) -> list[int]:
        """The group's committed offset of each partition; nothing where the brokers cannot say it now."""
        from kafka.errors import KafkaError

        try:
            with contextlib.closing(self.cluster.admin()) as admin:
                return self._offsets(admin)
        except KafkaError:
            return []

    def _offsets(self, admin: Any) -> list[int]:
        offsets = admin.list_group_offsets(self.job.group).get(self.job.group, {})
        by_partition = {tp.partition: place.offset for tp, place in offsets.items()}
        return [max(0, by_partition.get(partition, 0)) for partition in range(self.partitions)]

    def watch(self) -> None:
        """Note from now on, in the background, how long the commits stand still."""
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()

    def _look(self) -> None:
        from kafka.errors import KafkaError

        before, since, admin = -1, time.monotonic(), None
        while not self._stop.wait(0.05):
            try:
                admin = admin or self.cluster.admin()
                learned = sum(self._offsets(admin))
            except KafkaError:  # who fell is not asked again
                admin = self._let_go(admin)
                self._stop.wait(0.2)
                continue
            now = time.monotonic()
            if learned != before or learned == sum(self.written):
                if before >= 0 and learned > before:
                    excused, cause = max([(since, "nothing"), *self._disturbances])
                    self.stills.append(Still(now - since, max(0.0, now - excused), cause))
                before, since = learned, now
        self._let_go(admin)

    @staticmethod
    def _let_go(admin: Any) -> None:
        from kafka.errors import KafkaError

        if admin is not None:
            with contextlib.suppress(KafkaError):
                admin.close()

    def await_end(self, seconds: float) -> float:
        """Wait until all that was written is committed; return how long that took."""
        began = time.monotonic()
        while self.is_writing or self.learned() != self.written:
            if self._trouble is not None:
                raise self._trouble
            if time.monotonic() - began > seconds:
                raise TimeoutError(f"after {seconds:g} s the group has {self.learned()} of {self.written}")
            self.look_after()
            time.sleep(0.1)
        return time.monotonic() - began

    def look_after(self) -> None:
        """See that no worker ended by itself."""
        for worker in self.workers:
            if worker.exit_code not in (None, 0, -9):
                raise RuntimeError(f"a worker ended with {worker.exit_code}")

    def stop(self) -> None:
        """Tell the workers to go, and see that they went."""
        for worker in self.workers:
            worker.end()
        late = [worker for worker in self.workers if not worker.join(15)]
        for worker in late:
            worker.kill()
        self.workers.clear()
        if late:
            raise RuntimeError(f"{len(late)} workers did not end within 15 s of SIGTERM")

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        for worker in self.workers:
            with contextlib.suppress(ProcessLookupError):
                worker.wake()
            worker.kill()
        self.workers.clear()

    # -- the books

    def states(self) -> Iterator[dict[str, Any]]:
        """The state of each partition that the group's commit points at."""
        states = PartitionStates(self.job.states, self.job.group)
        with self.job.source() as source:
            places = source.committed()
        for partition in range(self.partitions):
            name = f"{self.job.topic}[{partition}]"
            yield states.read(name, places[name].metadata or "")

    def predicted(self, seconds: float = 15.0) -> list[str]:
        """The origin of each prediction, as a reader of what is committed sees them.

        So long as there are fewer than samples, it waits: of a transaction that is decided the coordinator tells one
        partition after another, and one that was given up stays open until its time is up.
        """
        began = time.monotonic()
        while len(origins := self._origins()) < sum(self.written) and time.monotonic() - began < seconds:
            time.sleep(0.5)
        return origins

    def _origins(self) -> list[str]:
        assert self.job.predictions is not None
        source = KafkaSource(
            self.job.predictions,
            self.job.bootstrap,
            end="latest",
            gaps="allow",
            client={**self.cluster.consumer, "isolation_level": "read_committed"},
        )
        with source:
            return [item.x["origin"] for item in source if isinstance(item, Sample)]

    def replay(self, partition: int) -> EventLoop:
        """Learn one partition from its beginning, in one go."""
        source = KafkaSource(
            self.job.topic,
            self.job.bootstrap,
            "y",
            partitions=[partition],
            end="latest",
            client=self.cluster.consumer,
        )
        loop = EventLoop(source, make_model(), make_monitors())
        with source:
            loop.run()
        return loop

    def check(self, replays: int | None = None) -> dict[str, Any]:
        """Compare; return figures for the table, with `ok` among them."""
        count = total = 0
        same = []
        for partition, state in enumerate(self.states()):
            ledger = state["monitors"][0]
            count, total = count + ledger.count, total + ledger.total
            if replays is None or partition < replays:
                loop = self.replay(partition)
                same.append(
                    codec.dumps((state["model"], state["monitors"])) == codec.dumps(_again(loop.model, loop.monitors))
                )
        files = sum(1 for _ in self.job.states.rglob("*.state"))
        return {
            "samples": sum(self.written),
            "learned": count,
            "sum of ids": self.total,
            "sum learned": total,
            "replays the same": f"{sum(same)} of {len(same)}",
            "files left": files,
            "ok": (count, total) == (sum(self.written), self.total) and all(same),
        }


def _again(*value: Any) -> Any:
    """Through a checkpoint and back, as what is compared with it went."""
    return codec.loads(codec.dumps(value))
