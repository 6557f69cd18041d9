"""``[metrics]`` and ``--metrics-port``: where a run stands, for Prometheus."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import fwonline
from fwonline.loop.report import Observer, Report, Start

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from fwonline.stream.base import Rejected

__all__ = ["Place", "RunMetrics", "refused", "serving", "url"]

#: Where to listen: the address and the port.
Place = tuple[str, int]

_REASONS = ("features", "key", "malformed", "model", "target", "time", "untried")  # there from the start, at zero
_GAPS = {"upper": "gap_upper", "over_memory": "gap_over_memory", "estimate": "gap_estimate"}


class RunMetrics(Observer):
    """The numbers of a run for Prometheus, made of its last report when they are asked for.

    Counters count what this process did, from zero, as Prometheus expects of a process that starts again; what earlier
    runs of a checkpoint did is in the run's log. They are exact at each report. The run itself does nothing but keep
    the report.

    Parameters
    ----------
    name
        What the run is called.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._start: Start | None = None
        self._report: Report | None = None
        self._rejected: Counter[str] = Counter(dict.fromkeys(_REASONS, 0))
        self._drifts = 0.0  # found by earlier runs
        self._cpu = self._cpu_before = 0.0
        self._saved_at: float | None = None

    # What the loop tells

    def on_start(self, start: Start) -> None:
        self._start = start
        self._cpu_before = time.thread_time()
        if start.resumed_from is not None:
            with contextlib.suppress(OSError):
                self._saved_at = os.stat(start.resumed_from).st_mtime

    def on_report(self, report: Report) -> None:
        if self._report is None and self._start is not None and self._start.n:
            self._drifts = _number(report.monitors.get("drifts")) or 0.0
        self._cpu = time.thread_time() - self._cpu_before
        self._report = report

    def on_rejected(self, rejected: Rejected, reason: str) -> None:
        self._rejected[reason] += 1

    def on_checkpoint(self, path: str, n: int) -> None:
        self._saved_at = time.time()

    # What Prometheus asks

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; called in a thread of the server."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            InfoMetricFamily,
            SummaryMetricFamily,
        )

        start, report = self._start, self._report
        about = {"run": self.name, "version": fwonline.__version__, "source": start.source if start else ""}
        yield InfoMetricFamily("fwonline", "What runs.", about)
        n = report.n - (start.n if start else 0) if report else 0
        yield CounterMetricFamily("fwonline_samples", "Items that this process took from its source.", n)
        rejected = CounterMetricFamily("fwonline_rejected", "Items set aside by this process.", labels=["reason"])
        for reason, count in dict(self._rejected).items():
            rejected.add_metric([reason], count)
        yield rejected
        if self._saved_at is not None:
            age = max(0.0, time.time() - self._saved_at)
            yield GaugeMetricFamily("fwonline_checkpoint_age_seconds", "Since the last checkpoint was written.", age)
        if report is None:
            return
        told = "Processor time of the loop's thread by item, no waiting; what reads ahead is another thread."
        yield SummaryMetricFamily("fwonline_step_seconds", told, count_value=n, sum_value=self._cpu)
        told = "What writing a checkpoint takes, flushing the sinks included."
        seconds, count = report.checkpoint_seconds, report.n_checkpoints
        yield SummaryMetricFamily("fwonline_checkpoint_seconds", told, count_value=count, sum_value=seconds)
        if report.n_rebalances is not None:
            told = "How often the group gave this worker partitions."
            yield CounterMetricFamily("fwonline_rebalances", told, report.n_rebalances)
            told = "Commits that the group refused: what was learned since the last one was dropped."
            yield CounterMetricFamily("fwonline_commit_rejected", told, report.n_commits_refused)
        yield from self._learned(report)

    def _learned(self, report: Report) -> Iterator[Metric]:
        """What lags behind, and what the monitors say."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        values = {key: number for key, value in report.monitors.items() if (number := _number(value)) is not None}
        lag = GaugeMetricFamily("fwonline_consumer_lag", "Items that wait.", labels=["topic", "partition"])
        for part, waiting in report.lags.items():
            topic, _, partition = part.removesuffix("]").rpartition("[")
            lag.add_metric([topic, partition], waiting)
        if report.lag is not None and not report.lags:
            lag.add_metric(["", ""], report.lag)
        gap = GaugeMetricFamily("fwonline_gap", "The Frank-Wolfe gap, by the monitor Gap.", labels=["kind"])
        for kind, key in _GAPS.items():
            if key in values:
                gap.add_metric([kind], values[key])
        regret = GaugeMetricFamily("fwonline_regret", "Bounds of the regret, by the monitor Regret.", labels=["bound"])
        for bound in ("lo", "hi"):
            if (key := f"regret_{bound}") in values:
                regret.add_metric([bound], values[key])
        every = GaugeMetricFamily("fwonline_monitor", "The values of all monitors, by their names.", labels=["name"])
        for key, value in values.items():
            every.add_metric([key], value)
        yield from (family for family in (lag, gap, regret, every) if family.samples)
        for name, key, told in (
            ("fwonline_violation", "violation", "Distance to the constraint set, by the monitor Feasibility."),
            ("fwonline_support_size", "support", "Weights that are not zero, or the rank, by the monitor Support."),
        ):
            if key in values:
                yield GaugeMetricFamily(name, told, values[key])
        if report.loss is not None:
            yield GaugeMetricFamily("fwonline_loss", "Mean loss of the samples between the last reports.", report.loss)
        if "drifts" in values:
            drifts = max(0.0, values["drifts"] - self._drifts)
            yield CounterMetricFamily("fwonline_drift", "Drifts found, by the monitor Drift.", drifts)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def url(place: Place, path: str = "metrics") -> str:
    """The address to give to Prometheus, or to a browser."""
    address, port = place
    return f"http://{f'[{address}]' if ':' in address else address}:{port}/{path}"


@contextlib.contextmanager
def serving(place: Place, metrics: RunMetrics) -> Iterator[Place]:
    """Answer Prometheus while the block runs; yield where, since port 0 is any that is free.

    Raises
    ------
    OSError
        When the port is taken or is not to be had here.
    ImportError
        When prometheus-client is not installed.
    """
    from prometheus_client import ProcessCollector, start_http_server
    from prometheus_client.registry import CollectorRegistry

    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(metrics)
    try:
        server, thread = start_http_server(place[1], place[0], registry)
    except OSError as error:
        raise OSError(refused("metrics", place, error)) from error
    try:
        yield place[0], server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def refused(what: str, place: Place, error: OSError) -> str:
    """Why nothing can listen there, and what can be done."""
    address, port = place
    if error.errno == errno.EADDRINUSE:
        return (
            f"{what}: port {port} of {address} is taken: another run or program listens there. Take another port, or "
            "stop that program. Nothing was read or learned"
        )
    if error.errno == errno.EACCES:
        return f"{what}: port {port} needs the rights of the system: expected one from 1024 on"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"{what}: {address} is no address of this machine: expected 127.0.0.1, or 0.0.0.0 for all it has"
    return f"{what}: cannot listen at {url(place)}: {error}"
