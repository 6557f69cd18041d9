"""Monitors: what a model's watcher reads, with the loop or without it."""

from fwonline.monitors.base import Monitor
from fwonline.monitors.feasibility import Feasibility
from fwonline.monitors.gap import Gap
from fwonline.monitors.metric import Metric
from fwonline.monitors.regret import Regret
from fwonline.monitors.throughput import Throughput

__all__ = ["Feasibility", "Gap", "Metric", "Monitor", "Regret", "Throughput"]
