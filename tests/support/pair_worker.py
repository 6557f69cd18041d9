"""A group that joins questions with answers from two topics, for processes that can be killed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fwonline.checkpoint import codec
from fwonline.loop import GroupLoop, Observer, Report
from fwonline.stream import KafkaGroupSource, KafkaSink
from tools.soak.trial import SESSION
from tools.soak.worker import Ledger, make_model


@codec.register
class Joins(Ledger):
    """Counts questions with answers, adds up their ids, and counts the answers that were of another question."""

    def __init__(self):
        super().__init__()
        self.wrong = 0

    def update(self, y_true=None, y_pred=None, *, x=None, model=None):
        super().update(y_true, y_pred, x=x, model=model)
        self.wrong += y_true != (x["a"] > x["b"])


@dataclass(frozen=True)
class Pair:
    """What a worker is told."""

    topics: tuple[str, ...]
    bootstrap: str
    group: str
    states: Path
    out: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def source(self, **options) -> KafkaGroupSource:
        settings = {**SESSION, **options.pop("client", {})}
        together = {"group": self.group, "co_partitioned": True, "require_target": False, **options}
        return KafkaGroupSource(self.topics, self.bootstrap, "y", client=settings, **together)

    def worker(self, source, **options) -> GroupLoop:
        options = {"checkpoint_every": 0.2, "max_early": 10_000, **self.options, **options}
        client = {"transaction_timeout_ms": 2000}
        sinks = [] if self.out is None else [KafkaSink(self.out, self.bootstrap, client=client)]
        return GroupLoop(source, make_model(), [Joins()], sinks, states=self.states, **options)


class Announced(Observer):
    """Sets an event once the loop runs, and a signal ends it in order: until then one would kill the process."""

    def __init__(self, event: Any):
        self.event = event

    def on_report(self, report: Report) -> None:
        self.event.set()


def work(pair: Pair, running: Any) -> None:
    """Work until a signal."""
    with pair.source() as source:
        pair.worker(source, observers=[Announced(running)], report_every=0.1).run()
