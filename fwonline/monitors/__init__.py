"""Monitors: numbers about a model while it learns, in a loop or without one."""

from fwonline.monitors.base import Monitor
from fwonline.monitors.drift import Drift
from fwonline.monitors.feasibility import Feasibility
from fwonline.monitors.gap import Gap
from fwonline.monitors.metric import Metric
from fwonline.monitors.regret import Regret
from fwonline.monitors.support import Support
from fwonline.monitors.throughput import Throughput

__all__ = ["Drift", "Feasibility", "Gap", "Metric", "Monitor", "Regret", "Support", "Throughput"]
