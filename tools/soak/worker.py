"""One worker of a group, as a process that can be killed, frozen and told to go."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from river import compose, metrics, preprocessing

from fwonline import optim, sets
from fwonline.checkpoint import codec
from fwonline.linear_model import FWClassifier
from fwonline.loop import GroupLoop
from fwonline.monitors import Metric
from fwonline.monitors.base import Monitor
from fwonline.stream import KafkaGroupSource, KafkaSink

__all__ = ["CONTEXT", "Job", "Ledger", "Worker", "make_model", "make_monitors"]

# Children come from a clean process that has imported everything: no broker's threads, and no time lost to imports.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__])


@codec.register
class Ledger(Monitor):
    """Counts samples and adds up their ids: a double and a loss cannot cancel in both."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0

    def update(self, y_true: Any = None, y_pred: Any = None, *, x: dict | None = None, model: Any = None) -> None:
        """Book one sample."""
        assert x is not None
        self.count += 1
        self.total += x["id"]

    def get(self) -> dict[str, Any]:
        """Return both sums."""
        return {"count": self.count, "total": self.total}

    def _text(self) -> str:
        return f"{self.count}, {self.total}"


def make_model() -> Any:
    """A pipeline with state in every step, and a random one at its end."""
    scaler = compose.Discard("id") | preprocessing.StandardScaler()
    return scaler | FWClassifier(sets.L1Ball(5.0), optim.SFW(50, steps_per_sample=3), seed=1, intercept=False)


def make_monitors() -> list[Monitor]:
    """What proves that each sample was learned once, and something that depends on every prediction."""
    return [Ledger(), Metric(metrics.Accuracy())]


@dataclass(frozen=True)
class Job:
    """What every worker of a group is told."""

    topic: str
    bootstrap: str
    group: str
    states: Path
    client: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    predictions: str | None = None  # the topic they go to

    def source(self, end: str = "never") -> KafkaGroupSource:
        """The worker's part in the group."""
        return KafkaGroupSource(
            self.topic, self.bootstrap, "y", group=self.group, end=end, client=self.client, patience=120
        )


def work(job: Job) -> None:
    """Work until the end of the stream or a signal."""
    # A process group of its own: Ctrl-C at the terminal is for who started us.
    os.setpgid(0, 0)
    sinks = (
        []
        if job.predictions is None
        else [KafkaSink(job.predictions, job.bootstrap, client={"transaction_timeout_ms": 2000})]
    )
    with job.source() as source:
        GroupLoop(source, make_model(), make_monitors(), sinks, states=job.states, **job.options).run()


class Worker:
    """A process that works on a job."""

    def __init__(self, job: Job) -> None:
        self._process = CONTEXT.Process(target=work, args=(job,), daemon=True)
        self._process.start()

    @property
    def is_alive(self) -> bool:
        """Whether it still works."""
        return self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        """How it ended: 0 where it ended by itself or was told to."""
        return self._process.exitcode

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.join()

    def freeze(self) -> None:
        """SIGSTOP: it does nothing any more, and does not know it."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def end(self) -> None:
        """SIGTERM: it commits and leaves."""
        self._process.terminate()

    def join(self, seconds: float) -> bool:
        """Wait for its end; whether it came."""
        self._process.join(seconds)
        return not self._process.is_alive()
